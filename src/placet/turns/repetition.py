"""Notice that a model asks for the same calls again and again.

Keep true:
1. A turn costs what its own calls cost, however long the run: of the turns before, only a digest is kept.
2. Of one streak there is one warning.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal

from placet.inference.messages import ToolCall
from placet.ir.json_value import JsonValue, canonical_bytes

WARN_AFTER = 3
STUCK_AFTER = 6
"""Turns in a row with the same calls."""

WARNING = (
    "You have made the same tool calls three times in a row, and they will not bring anything new. "
    "Use what you already know, try another way, or give your final answer."
)


class Repetition:
    """The guard of one run."""

    __slots__ = ("_last", "_turns")

    def __init__(self) -> None:
        self._last = b""
        self._turns = 0
        """How many turns in a row have asked for what the last one did."""

    def saw(self, calls: Sequence[ToolCall]) -> Literal["fine", "warn", "stuck"]:
        """A turn asked for these calls: whether to go on, to say `WARNING` first, or to end the run.

        Calls are the same if their names and arguments are, in the same order. A turn without calls repeats
        nothing.

        >>> guard, again = Repetition(), [ToolCall(name="look")]
        >>> [guard.saw(again) for _ in range(6)]
        ['fine', 'fine', 'warn', 'fine', 'fine', 'stuck']
        """
        digest = _digest(calls) if calls else b""
        self._turns = self._turns + 1 if calls and digest == self._last else 1
        self._last = digest
        if self._turns >= STUCK_AFTER:
            return "stuck"
        return "warn" if self._turns == WARN_AFTER else "fine"


def _digest(calls: Sequence[ToolCall]) -> bytes:
    hashed = blake2b(digest_size=16)
    for call in calls:
        # What was not readable counts as it was written: a text, where arguments are an object.
        name, asked = _written(call.name), _written(call.raw if call.problem else call.arguments)
        hashed.update(b"%d,%d:%b%b" % (len(name), len(asked), name, asked))
    return hashed.digest()


def _written(value: JsonValue) -> bytes:
    try:
        return canonical_bytes(value)
    except (TypeError, ValueError, RecursionError):
        # Half of a surrogate pair, say. It is refused elsewhere, and may still come again and again.
        return repr(value).encode(errors="backslashreplace")
