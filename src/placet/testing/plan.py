"""Short ways to write a plan in a test."""

from __future__ import annotations

from typing import Any

import msgspec

from placet.errors import DecodeError
from placet.ir.action import Action
from placet.ir.codec import decode_proposal
from placet.ir.proposal import Proposal


def action(id: str, tool: str | None = None, **fields: Any) -> Action:
    """Create an action; nested values may be written as dicts, as in JSON.

    >>> action("a1", "mail.send", preconditions=[{"key": "ready", "value": True}]).preconditions[0].key
    'ready'

    Args:
        id: Id of the action.
        tool: The tool to call.
        fields: Further fields of `Action`.

    Raises:
        DecodeError: a field is unknown or has the wrong type.
    """
    return proposal({"id": id, "tool": tool, **fields}).actions[0]


def proposal(*actions: Action | dict[str, Any], **fields: Any) -> Proposal:
    """Create a proposal of these actions.

    >>> [a.id for a in proposal(action("a1", "look"), {"id": "a2", "tool": "leap"}, source="test").actions]
    ['a1', 'a2']

    Args:
        actions: Each an `Action`, or a dict as in JSON.
        fields: Further fields of `Proposal`.

    Raises:
        DecodeError: a field is unknown or has the wrong type.
    """
    written = [msgspec.to_builtins(a) if isinstance(a, Action) else a for a in actions]
    made = decode_proposal({**fields, "actions": written})
    if made.unknown_fields:
        # Tolerated on the wire; in a test it is a slip of the pen that would test nothing.
        action_id, path = made.unknown_fields[0]
        raise DecodeError(f"there is no field '{path}'", place=f"action '{action_id}'" if action_id else "$")
    return made
