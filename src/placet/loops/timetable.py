"""When each loop runs next, who is at work on it, and whether it may: one slot per loop.

What may happen to a slot is told by functions without effects. The stores, in memory and in a database, do
nothing but apply them, one at a time.

Keep true:
1. A loop has one round at a time, whichever process begins it. A hold has a number, and whoever lost it
   changes nothing any more.
2. A due time is taken together with the id of its round, in one step. So a round whose process died is taken
   up under the same id, and never begun a second time.
3. Due times that nobody was there for are made up for by one round.
4. A stop is in the store: every process sees it.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from placet.errors import UsageError
from placet.loops.schedule import Cadence
from placet.storage.lease import LEASE_S, Holder, Lease
from placet.truncation import truncate

T = TypeVar("T")

FAILURES_AT_MOST = 3
"""So many failed rounds in a row pause a loop."""
BACKOFF_S = 60.0
"""After the first failure; doubled with each further one."""
LONGEST_BACKOFF_S = 3_600.0

Ended = Literal["reported", "proceeded", "escalated", "budget_exhausted", "failed", "stopped"]


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """That somebody has paused or stopped something, and why."""

    at: float
    by: str = ""
    """A person; empty if the loop did it by itself."""
    reason: str = ""

    @property
    def words(self) -> str:
        """For people."""
        by = f" by {self.by}" if self.by else ""
        return f"{by}{f': {self.reason}' if self.reason else ''}".lstrip(": ")


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """How one loop stands."""

    key: str
    name: str
    repository: str
    cadence: str = ""
    """As it was when the next due time was worked out; empty if it runs only when asked."""
    anchor: float = 0.0
    """From when `every` counts."""
    due: float | None = None
    """When it is due next."""
    not_before: float = 0.0
    """After a failure it waits, also past a due time."""
    lease: Lease = Lease()
    """Claimed for each round that is begun or resumed, until its report is delivered. That is longer than
    the lease of the round's run: a due time is taken before there is a run, and a report is delivered after
    the run has ended. So the run's own lease cannot stand for it."""
    round: str = ""
    """The round that is being worked on, or was when its process died."""
    round_due: float | None = None
    """What it was due at; None if somebody asked for it."""
    begun_at: float | None = None
    last_round: str = ""
    last_due: float | None = None
    last_ended_at: float | None = None
    last: Ended | None = None
    """How the last round ended."""
    failures: int = 0
    """Failed rounds in a row."""
    pause: Mark | None = None
    """No new round begins."""
    stop: Mark | None = None
    """No round begins, and the one that runs ends now."""


class Claim(NamedTuple):
    """A round that is ours to run."""

    key: str
    fence: int
    """Fencing number of its lease."""
    round: str
    due: float | None
    again: bool = False
    """It was begun before, by somebody who is gone."""
    missed: bool = False
    """Earlier due times went by without a round; this one is for all of them."""


class Timetable(Protocol):
    """The slots of all loops on one database. Each call that writes waits for the disk."""

    def change(self, key: str, work: Callable[[Slot | None, float], tuple[Slot | None, T]]) -> T:
        """Put another slot in the place of the one that is there, if any; nobody comes between. `work` gets
        the slot and the time, and returns the new one, or None to change nothing. It may be called twice."""
        ...

    def get(self, key: str) -> Slot | None:
        """How a loop stands."""
        ...

    def slots(self) -> list[Slot]:
        """All of them, by name."""
        ...

    def switch(self) -> Mark | None:
        """Whether everything is stopped."""
        ...

    def set_switch(self, mark: Mark | None) -> None:
        """Stop everything, or let it go on."""
        ...


# What may happen to a slot


def registered(
    slot: Slot | None, key: str, name: str, repository: str, cadence: Cadence | None, now: float
) -> Slot:
    """The slot of a loop that somebody wants to run: a new one, or one that knows of a changed cadence."""
    words = cadence.words if cadence is not None else ""
    if slot is None:
        made = Slot(key=key, name=name, repository=repository, cadence=words, anchor=now)
        # The very first of `every` is at once.
        return replace(made, due=cadence.next_after(now - 1e-3, now) if cadence is not None else None)
    if slot.cadence == words and (slot.due is not None) == (cadence is not None):
        return slot
    anchor = slot.last_due if slot.last_due is not None else now
    due = cadence.next_after(now, anchor) if cadence is not None else None
    return replace(slot, cadence=words, anchor=anchor, due=due)


def jitter_of(key: str, due: float, jitter_s: float) -> float:
    """How much later than due a round begins: by chance, and yet the same wherever it is worked out."""
    if jitter_s <= 0:
        return 0.0
    drawn = hashlib.sha256(f"{key} {due!r}".encode()).digest()
    return int.from_bytes(drawn[:8], "big") / 2**64 * jitter_s


def is_held(slot: Slot, now: float) -> bool:
    """Whether somebody is at work on it."""
    return slot.lease.is_held(now)


def starts_at(slot: Slot, now: float, jitter_s: float = 0.0) -> float | None:
    """When a round may begin; None as long as something else has to happen first."""
    if slot.pause is not None or slot.stop is not None or is_held(slot, now):
        return None
    if slot.round:
        # Broken off: it is taken up at once.
        return now
    if slot.due is None:
        return None
    return max(slot.due + jitter_of(slot.key, slot.due, jitter_s), slot.not_before)


def claimed(
    slot: Slot, cadence: Cadence | None, me: Holder, new_round: str, now: float, *, lease_s: float = LEASE_S
) -> tuple[Slot, Claim]:
    """The slot as it is once a round of it is ours. Whether one may begin is for `starts_at` to say, or for
    a person."""
    held = replace(slot, lease=slot.lease.claimed(me, now, lease_s))
    if slot.round:
        return held, Claim(slot.key, held.lease.fence, slot.round, slot.round_due, again=True)
    due, missed, upcoming = None, False, slot.due
    if cadence is not None and slot.due is not None and slot.due <= now:
        due = cadence.last_until(now, slot.anchor) or slot.due
        missed = due > slot.due
        upcoming = cadence.next_after(now, slot.anchor)
    held = replace(held, round=new_round, round_due=due, begun_at=now, due=upcoming)
    return held, Claim(slot.key, held.lease.fence, new_round, due, missed=missed)


def renewed(slot: Slot, fence: int, now: float, *, lease_s: float = LEASE_S) -> Slot | None:
    """Held for a while longer; None if it is somebody else's by now."""
    return replace(slot, lease=slot.lease.renewed(now, lease_s)) if slot.lease.fence == fence else None


def ended(slot: Slot, fence: int, how: Ended, now: float, why: str = "") -> Slot | None:
    """The slot once its round has ended. Three failures in a row pause it."""
    if slot.lease.fence != fence:
        return None
    failures = slot.failures + 1 if how == "failed" else slot.failures if how == "stopped" else 0
    wait_s = min(BACKOFF_S * 2 ** max(failures - 1, 0), LONGEST_BACKOFF_S)
    pause = slot.pause
    if how == "failed" and failures >= FAILURES_AT_MOST and pause is None:
        last = f"; the last: {why}" if why else ""
        pause = Mark(at=now, reason=f"{failures} rounds in a row failed{last}")
    return replace(
        slot,
        lease=slot.lease.released(),
        round="",
        round_due=None,
        begun_at=None,
        last_round=slot.round,
        last_due=slot.round_due if slot.round_due is not None else slot.last_due,
        last_ended_at=now,
        last=how,
        failures=failures,
        not_before=now + wait_s if how == "failed" else slot.not_before if how == "stopped" else 0.0,
        pause=pause,
    )


def let_go(slot: Slot, fence: int) -> Slot | None:
    """The slot once its round is left where it is, for somebody else to go on with."""
    return replace(slot, lease=slot.lease.released()) if slot.lease.fence == fence else None


def gone_on(slot: Slot, now: float) -> Slot:
    """The slot without pause and stop. What was due meanwhile is not made up for: nobody wanted it.
    When it is due next, whoever knows the cadence works out."""
    due = slot.due if slot.due is not None and slot.due > now else None
    return replace(slot, pause=None, stop=None, failures=0, not_before=0.0, due=due)


def unknown_loop(name: str, known: Sequence[str]) -> UsageError:
    """That there is no such loop, with the nearest that there is."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), n=1)
    hint = f"Did you mean '{near[0]}'?" if near else "See `placet loop list`."
    return UsageError(f"There is no loop '{truncate(name, 80)}' here. {hint}")


class MemoryTimetable:
    """A timetable for one process. Safe to use from any thread."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._slots: dict[str, Slot] = {}
        self._switch: Mark | None = None
        self._lock: AbstractContextManager[object] = threading.Lock()

    def change(self, key: str, work: Callable[[Slot | None, float], tuple[Slot | None, T]]) -> T:
        """Put another slot in the place of the one that is there."""
        with self._lock:
            slot, result = work(self._slots.get(key), self._clock())
            if slot is not None:
                self._slots[key] = slot
            return result

    def get(self, key: str) -> Slot | None:
        """How a loop stands."""
        return self._slots.get(key)

    def slots(self) -> list[Slot]:
        """All of them, by name."""
        with self._lock:
            return sorted(self._slots.values(), key=lambda slot: (slot.name, slot.repository))

    def switch(self) -> Mark | None:
        """Whether everything is stopped."""
        return self._switch

    def set_switch(self, mark: Mark | None) -> None:
        """Stop everything, or let it go on."""
        self._switch = mark
