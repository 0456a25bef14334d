"""Stores of rounds, and of how far each loop may go at most.

Keep true:
1. A round is written by whoever holds its run, and by nobody else; only what is decided later is appended by
   others, one at a time.
2. Rounds of one loop are counted without a gap or a repetition, whoever begins them.
3. What a round that has ended came to is stored in the memory together with it, and recalled from there.
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
from placet.loops.recall import fact_of, latest, rounds_filter
from placet.loops.round import Round
from placet.memory.fact import Fact
from placet.memory.in_memory import MemoryFacts
from placet.memory.store import FactStore
from placet.truncation import truncate


class Rounds(Protocol):
    """Protocol of stores of rounds. Calls that write wait for the disk."""

    def begin(self, round: Round) -> Round:
        """Store a new round and assign its number. If the id is in use, return the stored round.

        Args:
            round: The round.
        """
        ...

    def put(self, round: Round) -> None:
        """Store a round as it is now.

        Args:
            round: The round.
        """
        ...

    def get(self, round: str) -> Round | None:
        """Return the round with an id, or `None`.

        Args:
            round: Id of the round.
        """
        ...

    def find(self, prefix: str) -> Round:
        """Return the round whose id is, or starts with, a text.

        Args:
            prefix: The id, or its beginning.

        Raises:
            UsageError: there is none, or there are several.
        """
        ...

    def listed(self, loop: str | None = None, *, limit: int = 50) -> list[Round]:
        """Return the newest rounds, newest first.

        Args:
            loop: Only those of this loop; `Round.key`.
            limit: Maximum number.
        """
        ...

    def recall(self, loop: str) -> list[Fact]:
        """Return the facts about the last five rounds of a loop that have ended, oldest first.

        Args:
            loop: Key of the loop; `Round.key`.
        """
        ...

    def unfinished(self, loop: str | None = None) -> list[Round]:
        """Return the rounds without an outcome, oldest first.

        Takes the arguments of `listed`.
        """
        ...

    def waiting(self, loop: str | None = None) -> list[Round]:
        """Return the escalated rounds that nobody has decided about, oldest first.

        Takes the arguments of `listed`.
        """
        ...

    def spent(self, loop: str, since: float, *, but: str = "") -> Spend:
        """Return the total usage of the rounds of a loop that began since a time.

        Args:
            loop: Key of the loop; `Round.key`.
            since: Seconds since the epoch.
            but: Id of a round to leave out.
        """
        ...

    def standing(self, loop: str) -> Standing | None:
        """Return the highest level at which a loop may act, or `None` if it was never lowered.

        Args:
            loop: Key of the loop; `Round.key`.
        """
        ...

    def set_standing(self, standing: Standing) -> None:
        """Lower or restore the highest level of a loop.

        Args:
            standing: The new level.
        """
        ...


def only_one(found: Sequence[Round], prefix: str) -> Round:
    """The one that is meant.

    Raises:
        UsageError: there is none, or several.
    """
    if not found:
        raise UsageError(f"There is no round '{truncate(prefix, 80)}'. See `placet loop log`.")
    if len(found) > 1:
        names = ", ".join(each.id for each in found[:5])
        raise UsageError(f"Several rounds begin with '{truncate(prefix, 80)}': {names}. Write more of it.")
    return found[0]


class MemoryRounds:
    """A store for one process. Safe to use from any thread."""

    def __init__(self, facts: FactStore | None = None) -> None:
        """Create an empty store.

        Args:
            facts: The store of the memory that recalls rounds. `None`: one of its own.
        """
        self._facts: FactStore = MemoryFacts() if facts is None else facts
        self._rounds: dict[str, Round] = {}
        self._standing: dict[str, Standing] = {}
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
            if not round.is_open:
                self._facts.add([fact_of(round)])

    def recall(self, loop: str) -> list[Fact]:
        """Facts about the last rounds."""
        return latest(self._facts.listed(rounds_filter(loop)))

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
