"""Short ways to write a plan in a test."""

from __future__ import annotations

from typing import Any

import msgspec

from placet.errors import DecodeError
from placet.ir.action import Action
from placet.ir.codec import decode_proposal
from placet.ir.proposal import Proposal


def action(id: str, tool: str | None = None, **fields: Any) -> Action:
    """One action; `fields` are those of the wire, so what is nested may be written as dictionaries.

    >>> action("a1", "mail.send", preconditions=[{"key": "ready", "value": True}]).preconditions[0].key
    'ready'

    Raises:
        DecodeError: a field is unknown or of the wrong type.
    """
    return proposal({"id": id, "tool": tool, **fields}).actions[0]


def proposal(*actions: Action | dict[str, Any], **fields: Any) -> Proposal:
    """A proposal of these actions, each an Action or a dictionary as on the wire.

    >>> [a.id for a in proposal(action("a1", "look"), {"id": "a2", "tool": "leap"}, source="test").actions]
    ['a1', 'a2']

    Raises:
        DecodeError: a field is unknown or of the wrong type.
    """
    written = [msgspec.to_builtins(a) if isinstance(a, Action) else a for a in actions]
    made = decode_proposal({**fields, "actions": written})
    if made.unknown_fields:
        # Tolerated on the wire; in a test it is a slip of the pen that would test nothing.
        action_id, path = made.unknown_fields[0]
        raise DecodeError(f"there is no field '{path}'", place=f"action '{action_id}'" if action_id else "$")
    return made
