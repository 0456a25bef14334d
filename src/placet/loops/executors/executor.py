"""What an executor is: it does one thing with a change that was frozen, and can say later whether it holds.

Keep true:
1. An executor gets the tree, and nothing that could have changed since that was frozen.
2. The same key is the same act: what can be done twice without harm says so, and nothing else is repeated.
3. A dry run has no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import msgspec

from placet.ir.json_value import JsonValue
from placet.ir.tool_spec import Risk
from placet.loops.round import Receipt
from placet.loops.verdict import Verdict

if TYPE_CHECKING:
    from placet.coder.repository import Repository
    from placet.coder.workshop import Workshop
    from placet.sandbox.confinement import Isolation


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """One act: on which tree, for which round."""

    loop: str
    round: str
    number: int
    kind: str
    summary: str
    intent: str
    tree: str
    base: str
    base_tree: str
    changed: tuple[str, ...]
    began: float
    included: tuple[str, ...] = ()
    """Files that the person has not committed, and that the tree has as they were."""
    checks: tuple[str, ...] = ()
    verdict: Verdict | None = None
    key: str = ""
    """The idempotency key; empty in a dry run."""


class Bench(NamedTuple):
    """What an executor works with."""

    workshop: Workshop
    repository: Repository
    isolation: Isolation


class Done(NamedTuple):
    """What was done: in words, and what is needed to find it again."""

    summary: str
    data: dict[str, JsonValue]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What came of looking at a receipt."""

    holds: bool
    why: str
    seen: Literal["world", "record"]
    """Whether what was done was looked at, or only what is kept of it."""
    is_reverted: bool = False
    """Somebody has taken it back."""


class Executor(Protocol):
    """Does one thing with a change."""

    @property
    def name(self) -> str:
        """By which files and receipts know it."""
        ...

    @property
    def risk(self) -> Risk:
        """That of the tool which it becomes: idempotent, if it may be done again after a crash."""
        ...

    @property
    def needs_change(self) -> bool:
        """Whether there is nothing to do without a changed file."""
        ...

    async def dry_run(self, act: Act, bench: Bench) -> str:
        """What would be done, in words."""
        ...

    async def execute(self, act: Act, bench: Bench) -> Done:
        """Do it.

        Raises:
            ToolError: it is not done; says why.
            UsageError: so, too.
        """
        ...

    async def check(self, receipt: Receipt, repository: Repository) -> Finding:
        """Whether what the receipt says is so."""
        ...


def only_kept(what: str) -> Finding:
    """For what cannot be looked at from here."""
    return Finding(holds=True, why=f"it is kept; {what}", seen="record")
