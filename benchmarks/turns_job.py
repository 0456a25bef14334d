"""The job that every turn loop gets, ours and the peers': what a scripted model asks for, turn by turn.

Standard library only: the peers' interpreters import this file too.
"""

from __future__ import annotations

PROMPT = "Call the tool until you are done."
TASK = "Begin."
DONE = "done"
READ, WRITTEN = 100, 10
"""Tokens of a turn, as the model counts them."""


class Job:
    """So many calls of `noop` in every turn but the last, where the model says that it is done."""

    def __init__(self, turns: int, calls: int) -> None:
        self.turns = turns
        self.seen: list[int] = []
        """What the tool was called with."""
        self._wanted = range((turns - 1) * calls)
        self._calls = calls
        self._asked = 0

    def next_calls(self) -> range:
        """Numbers to call the tool with, all different, so that nobody sees a loop; none at the end."""
        begin = self._asked * self._calls
        self._asked += 1
        return self._wanted[begin : begin + self._calls]

    def check(self, answer: object) -> None:
        """Count a run only if the model was asked once a turn and the tool saw every call, once."""
        if answer != DONE or self._asked != self.turns or sorted(self.seen) != list(self._wanted):
            raise RuntimeError(
                f"{answer!r:.200} after {self._asked} of {self.turns} turns, with {len(self.seen)} calls"
            )
