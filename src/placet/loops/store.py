"""Where rounds are kept, how far each loop may go at most, and what somebody wants to stop.

Keep true:
1. A round is written by whoever holds its run, and by nobody else; only what is decided later is appended by
   others, one at a time.
2. Rounds of one loop are counted without a gap or a repetition, whoever begins them.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from typing import Protocol

import msgspec

from placet.errors import UsageError
from placet.loops.budget import Spend
from placet.loops.levels import Standing
from placet.loops.round import Round


class Rounds(Protocol):
    """A store of rounds. `loop` is always the key of a loop. Each call that writes waits for the disk."""

    def begin(self, round: Round) -> Round:
        """Keep a new round, and give it its number. One that is there already is returned as it is."""
        ...

    def put(self, round: Round) -> None:
        """Keep it as it is now."""
        ...

    def get(self, round: str) -> Round | None:
        """The round with that id."""
        ...

    def find(self, prefix: str) -> Round:
        """The round whose id is, or begins with, `prefix`.

        Raises:
            UsageError: there is none, or several.
        """
        ...

    def listed(self, loop: str | None = None, *, limit: int = 50) -> list[Round]:
        """The newest, newest first."""
        ...

    def unfinished(self, loop: str | None = None) -> list[Round]:
        """Those without an outcome, oldest first: somebody is at work on them, or was."""
        ...

    def waiting(self, loop: str | None = None) -> list[Round]:
        """Escalated ones that nobody has decided about, oldest first."""
        ...

    def spent(self, loop: str, since: float, *, but: str = "") -> Spend:
        """What the rounds that began since then have used, all but one."""
        ...

    def standing(self, loop: str) -> Standing | None:
        """How far a loop may go at most, if that was ever lowered."""
        ...

    def set_standing(self, standing: Standing) -> None:
        """Lower it, or lift it again."""
        ...

    def ask_to_stop(self, round: str, reason: str) -> None:
        """Let whoever is at work on a round stop."""
        ...

    def asked_to_stop(self, round: str) -> str | None:
        """Why it is to stop; None if it is not."""
        ...


def only_one(found: Sequence[Round], prefix: str) -> Round:
    """The one that is meant.

    Raises:
        UsageError: there is none, or several.
    """
    if not found:
        raise UsageError(f"There is no round '{prefix:.80}'. See `placet loop log`.")
    if len(found) > 1:
        names = ", ".join(each.id for each in found[:5])
        raise UsageError(f"Several rounds begin with '{prefix:.80}': {names}. Write more of it.")
    return found[0]


class MemoryRounds:
    """A store for one process. Safe to use from any thread."""

    def __init__(self) -> None:
        self._rounds: dict[str, Round] = {}
        self._standing: dict[str, Standing] = {}
        self._stops: dict[str, str] = {}
        self._lock = threading.Lock()

    def begin(self, round: Round) -> Round:
        """Keep a new round, and give it its number."""
        with self._lock:
            if round.id not in self._rounds:
                before = [each.number for each in self._rounds.values() if each.key == round.key]
                round.number = max(before, default=0) + 1
                self._rounds[round.id] = copy.deepcopy(round)
            return copy.deepcopy(self._rounds[round.id])

    def put(self, round: Round) -> None:
        """Keep it as it is now."""
        with self._lock:
            self._rounds[round.id] = copy.deepcopy(round)

    def get(self, round: str) -> Round | None:
        """The round with that id."""
        with self._lock:
            return copy.deepcopy(self._rounds.get(round))

    def find(self, prefix: str) -> Round:
        """The round whose id is, or begins with, `prefix`."""
        exact = self.get(prefix)
        if exact is not None:
            return exact
        found = [each for each in self.listed(limit=1_000_000) if prefix and each.id.startswith(prefix)]
        return only_one(found, prefix)

    def listed(self, loop: str | None = None, *, limit: int = 50) -> list[Round]:
        """The newest, newest first."""
        with self._lock:
            found = [each for each in self._rounds.values() if loop in (None, each.key)]
            found.sort(key=lambda each: (each.started_at, each.number, each.id), reverse=True)
            return copy.deepcopy(found[:limit])

    def unfinished(self, loop: str | None = None) -> list[Round]:
        """Those without an outcome, oldest first."""
        return [each for each in reversed(self.listed(loop, limit=1_000_000)) if each.is_open]

    def waiting(self, loop: str | None = None) -> list[Round]:
        """Escalated ones that nobody has decided about, oldest first."""
        return [each for each in reversed(self.listed(loop, limit=1_000_000)) if each.is_waiting]

    def spent(self, loop: str, since: float, *, but: str = "") -> Spend:
        """What the rounds that began since then have used, all but one."""
        total = Spend()
        with self._lock:
            for each in self._rounds.values():
                if each.key == loop and each.started_at >= since and each.id != but:
                    total = total.plus(each.spend)
        return total

    def standing(self, loop: str) -> Standing | None:
        """How far a loop may go at most."""
        with self._lock:
            return self._standing.get(loop)

    def set_standing(self, standing: Standing) -> None:
        """Lower it, or lift it again."""
        with self._lock:
            self._standing[standing.loop] = msgspec.structs.replace(standing)

    def ask_to_stop(self, round: str, reason: str) -> None:
        """Let whoever is at work on a round stop."""
        with self._lock:
            self._stops.setdefault(round, reason)

    def asked_to_stop(self, round: str) -> str | None:
        """Why it is to stop; None if it is not."""
        with self._lock:
            return self._stops.get(round)
