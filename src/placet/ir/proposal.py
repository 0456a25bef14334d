"""A plan: a graph of actions somebody proposes, with nothing in it that runs by itself."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from placet.ir.action import Action
from placet.ir.json_value import JsonValue
from placet.ir.to_dict import ToDict

NOBODY = "unknown"
"""The source of a plan that names none."""
_MADE_UP = re.compile(r"[0-9a-f]{12}")


def new_id() -> str:
    """Twelve hexadecimal digits nobody has used."""
    return os.urandom(6).hex()


def _now() -> datetime:
    return datetime.now(UTC)


class Proposal(ToDict, msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A plan: actions that a model, a person or a program asks the runtime to execute."""

    id: str = msgspec.field(default_factory=new_id)
    """Twelve hexadecimal digits if absent or empty."""
    source: str = NOBODY
    """Who proposes. Runs of a plan without it are listed under its `id`, if it was given one."""
    timestamp: datetime = msgspec.field(default_factory=_now)
    """When it was proposed, with a time zone."""
    actions: Sequence[Action] = ()
    """The steps."""
    context: dict[str, JsonValue] = {}
    """Values of the caller; passed through unchanged."""

    def __post_init__(self) -> None:
        if not self.id:
            msgspec.structs.force_setattr(self, "id", new_id())
        for action in self.actions:
            if not action.id:
                msgspec.structs.force_setattr(self, "actions", _with_ids(self.actions))
                break

    @property
    def unknown_fields(self) -> Sequence[tuple[str | None, str]]:
        """Fields of the decoded document that have no meaning: pairs of action id (or `None`) and path."""
        found: Sequence[tuple[str | None, str]] = self.__dict__.get("unknown_fields_", ())
        return found

    @property
    def ignored_objects(self) -> frozenset[tuple[str | None, str]]:
        """Those of `unknown_fields` of actions and compensations that held an object with something in it."""
        found: frozenset[tuple[str | None, str]] = self.__dict__.get("ignored_objects_", frozenset())
        return found


def with_source(proposal: Proposal) -> Proposal:
    """The plan under the name that its runs are listed by: its source, else the id that somebody gave it.

    >>> with_source(Proposal(id="order-7")).source, with_source(Proposal()).source
    ('order-7', 'unknown')
    """
    if proposal.source not in ("", NOBODY) or _MADE_UP.fullmatch(proposal.id):
        return proposal
    named = msgspec.structs.replace(proposal, source=proposal.id)
    named.__dict__.update(proposal.__dict__)  # What is known of it besides, such as that it was checked.
    return named


def _with_ids(actions: Sequence[Action]) -> Sequence[Action]:
    """Fill in absent ids from the position, so that the same text always gets the same ids."""
    taken = {a.id for a in actions}
    filled = []
    for position, action in enumerate(actions, start=1):
        if not action.id:
            name = f"a{position}"
            while name in taken:
                name += "_"
            taken.add(name)
            action = msgspec.structs.replace(action, id=name)
        filled.append(action)
    return filled
