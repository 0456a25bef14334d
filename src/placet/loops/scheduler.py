"""Runs loops when they are due, one round of each at a time, until it is told to stop.

Several schedulers may work on one database: whoever claims a due time first runs its round. A scheduler that
dies leaves its round claimed; another takes it up under the same id.

Keep true:
1. No round begins, or is taken up, without a claim; and each claim ends, is let go of, or runs out.
2. A stop in the store ends the running round within seconds, in whatever process it is.
3. What a round does never ends the scheduler.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from typing import Literal, NamedTuple, Protocol

import msgspec

from placet.errors import PlacetError, RunHeld, UsageError
from placet.ir.stop_cause import StopCause
from placet.loops.schedule import Cadence
from placet.loops.timetable import (
    Claim,
    Ended,
    Mark,
    Slot,
    Timetable,
    claimed,
    ended,
    gone_on,
    is_held,
    let_go,
    registered,
    renewed,
    starts_at,
)
from placet.runtime.stop_requests import LOOK_S, listening_for_stop
from placet.storage.lease import LEASE_S, Renewals, StopRequest, holder
from placet.tools.context import Cancel
from placet.turns.stopping import always_hard

POLL_S = 2.0
"""How often a scheduler looks for loops that were resumed, or that another one let go of."""
GRACE_S = 10.0
"""How long a round that is to stop gets to do so by itself."""


class Scheduled(msgspec.Struct, frozen=True, kw_only=True):
    """A loop, as far as the scheduler needs to know it."""

    key: str
    name: str
    repository: str
    cadence: Cadence | None = None
    """None: only when somebody asks."""
    jitter_s: float = 0.0


class Report(NamedTuple):
    """How a round ended."""

    how: Ended
    why: str = ""


class RunRound(Protocol):
    """Runs one round, or goes on with one that was broken off."""

    def __call__(self, loop: Scheduled, claim: Claim, cancel: Cancel) -> Awaitable[Report | None]:
        """How it ended; None if it was cancelled before it ended, and can be gone on with. A claim that is
        `again` may be of a round that was never begun, or that has ended: both are found out here."""
        ...


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the scheduler did, for whoever listens."""

    what: Literal["began", "took_up", "ended", "paused", "left", "lost", "idle"]
    loop: str
    round: str = ""
    missed: bool = False
    due: float | None = None
    how: Ended | None = None
    why: str = ""
    again_at: float | None = None
    """When the loop runs next."""


def new_round_id() -> str:
    """An id that no other round has."""
    return f"round-{secrets.token_hex(6)}"


async def _wait(seconds: float, woken: asyncio.Event) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(woken.wait(), seconds if seconds < inf else None)


class Scheduler:
    """Runs loops when they are due."""

    def __init__(
        self,
        timetable: Timetable,
        loops: Sequence[Scheduled],
        run: RunRound,
        *,
        at_once: int = 2,
        clock: Callable[[], float] = time.time,
        wait: Callable[[float, asyncio.Event], Awaitable[None]] = _wait,
        heard: Callable[[Notice], None] = lambda notice: None,
        new_id: Callable[[], str] = new_round_id,
        poll_s: float = POLL_S,
        watch_s: float = LOOK_S,
        grace_s: float = GRACE_S,
        lease_s: float = LEASE_S,
    ) -> None:
        """`at_once` is how many rounds of different loops may run here together. `heard` is told of all that
        happens. `wait` sleeps until so many seconds are over, or something has happened."""
        self._timetable = timetable
        self._loops = {loop.key: loop for loop in loops}
        self._run = run
        self._at_once = at_once
        self._clock = clock
        self._wait = wait
        self._heard = heard
        self._new_id = new_id
        self._poll_s = poll_s
        self._watch_s = watch_s
        self._grace_s = grace_s
        self._lease_s = lease_s
        self._woken = asyncio.Event()
        self._working: dict[str, tuple[asyncio.Task[None], Cancel, str]] = {}

    def running(self) -> list[tuple[str, str]]:
        """The rounds that run here: the name of each loop, and the id of its round."""
        return [(self._loops[key].name, round_id) for key, (_, _, round_id) in self._working.items()]

    def register(self) -> None:
        """Make a slot for each loop, or let its slot know of a cadence that has changed.

        Raises:
            StorageError: that cannot be kept.
        """
        for loop in self._loops.values():
            self._register(loop)

    def _register(self, loop: Scheduled) -> Slot:
        def work(slot: Slot | None, stored_now: float) -> tuple[Slot, Slot]:
            made = registered(slot, loop.key, loop.name, loop.repository, loop.cadence, self._clock())
            return made, made

        return self._timetable.change(loop.key, work)

    async def serve(self, stop: Cancel) -> None:
        """Run what is due until `stop`: a soft one lets running rounds end, a hard one leaves them where they
        are, for another scheduler to go on with.

        Raises:
            StorageError: the timetable can no longer be used.
        """
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._woken.set)

        forget_soft, forget_hard = stop.on_request(wake), stop.on_hard(wake)
        try:
            self.register()
            while not stop.requested:
                # Before looking: what happens from here on ends the sleep.
                self._woken.clear()
                delay = self._begin_due()
                await self._wait(delay, self._woken)
            await self._finish(stop)
        finally:
            forget_soft()
            forget_hard()
            await self._leave_all()

    async def run_now(self, key: str, cancel: Cancel | None = None) -> Report | None:
        """Run one round of a loop because somebody asks, also while it is paused; or go on with one that was
        broken off. None if it was cancelled.

        Raises:
            RunHeld: a round of it is running.
            StorageError: the timetable cannot be used.
            UsageError: it was stopped, or everything was.
        """
        loop = self._loops[key]
        self.register()
        claim = self._claim(loop, by_hand=True)
        assert claim is not None
        return await self._work(loop, claim, cancel or Cancel())

    # Claims

    def _begin_due(self) -> float:
        """Begin what may begin, and say for how long there is nothing to do."""
        now = self._clock()
        if self._timetable.switch() is not None:
            return self._poll_s
        delay = self._poll_s
        slots = {slot.key: slot for slot in self._timetable.slots()}
        due: list[tuple[float, Scheduled]] = []
        for key, loop in self._loops.items():
            slot = slots.get(key)
            if slot is None or (slot.due is None and loop.cadence is not None):
                # It was resumed, and waits for its next due time.
                slot = self._register(loop)
            start = starts_at(slot, now, loop.jitter_s)
            if start is None or key in self._working:
                continue
            if start <= now:
                due.append((start, loop))
            else:
                delay = min(delay, start - now)
        for _, loop in sorted(due, key=lambda each: (each[0], each[1].name)):
            if len(self._working) >= self._at_once:
                break
            claim = self._claim(loop)
            if claim is not None:
                self._begin(loop, claim)
        return delay

    def _claim(self, loop: Scheduled, *, by_hand: bool = False) -> Claim | None:
        me = holder(secrets.token_hex(4))
        new_round = self._new_id()
        stopped = self._timetable.switch()

        def work(slot: Slot | None, stored_now: float) -> tuple[Slot | None, Claim | None]:
            assert slot is not None
            now = self._clock()
            if by_hand:
                self._check(loop, slot, stopped, now)
            else:
                start = starts_at(slot, now, loop.jitter_s)
                if start is None or start > now:
                    return None, None
            # Holds go by the clock that all processes share.
            made, claim = claimed(slot, loop.cadence, me, new_round, now, lease_s=self._lease_s)
            lease = made.lease.renewed(stored_now, self._lease_s)
            return msgspec.structs.replace(made, lease=lease), claim

        return self._timetable.change(loop.key, work)

    def _check(self, loop: Scheduled, slot: Slot, everything: Mark | None, now: float) -> None:
        if everything is not None:
            raise UsageError(
                f"All loops are stopped{_by(everything)}. Let them go on with: placet loop resume --all"
            )
        if slot.stop is not None:
            raise UsageError(
                f"The loop '{loop.name}' is stopped{_by(slot.stop)}. Let it go on with: "
                f"placet loop resume {loop.name}"
            )
        if is_held(slot, now):
            assert slot.lease.holder is not None
            raise RunHeld(
                f"A round of the loop '{loop.name}' is being run by {slot.lease.holder.words}. Wait until it "
                f"has ended, or end it with: placet loop stop {loop.name}"
            )

    # Rounds

    def _begin(self, loop: Scheduled, claim: Claim) -> None:
        cancel = Cancel()

        async def working() -> None:
            try:
                await self._work(loop, claim, cancel)
            except PlacetError as error:
                # Of the timetable: the claim runs out, and the round is taken up.
                self._heard(Notice(what="lost", loop=loop.name, round=claim.round, why=str(error)))
            finally:
                self._working.pop(loop.key, None)
                self._woken.set()

        task = asyncio.create_task(working(), name=f"loop {loop.name}")
        self._working[loop.key] = (task, cancel, claim.round)

    async def _work(self, loop: Scheduled, claim: Claim, cancel: Cancel) -> Report | None:
        self._heard(
            Notice(
                what="took_up" if claim.again else "began",
                loop=loop.name,
                round=claim.round,
                missed=claim.missed,
                due=claim.due,
            )
        )
        running = asyncio.ensure_future(self._run(loop, claim, cancel))
        held = _Held(self._timetable, claim, self._lease_s)
        renewals = Renewals(self._lease_s)
        renewals.add(held)
        report: Report | None
        try:
            async with listening_for_stop(held.stop_requested, cancel, every_s=self._watch_s):
                with always_hard(cancel), self._giving_up(cancel, running):
                    report = await running
        except asyncio.CancelledError:
            if not running.cancelled():
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
            if cancel.cause not in _BY_STORE:
                self._let_go(loop, claim)
                raise
            report = None
        except Exception as error:
            # A round never raises; whoever sets one up might.
            report = Report("failed", f"{type(error).__name__}: {error}")
        finally:
            await asyncio.to_thread(renewals.close)
        if cancel.cause is StopCause.LEASE_LOST:
            self._heard(Notice(what="lost", loop=loop.name, round=claim.round, why="another process has it"))
            return None
        if cancel.cause is StopCause.KILL_SWITCH and (report is None or report.how == "failed"):
            report = Report("stopped", f"stopped: {cancel.reason}")
        if report is None:
            self._let_go(loop, claim)
            return None
        self._end(loop, claim, report)
        return report

    @contextmanager
    def _giving_up(self, cancel: Cancel, running: asyncio.Future[Report | None]) -> Iterator[None]:
        """While this lasts, a round that is to stop and does not is cancelled after a while."""
        clock = asyncio.get_running_loop()
        alarms: list[asyncio.TimerHandle] = []

        def arm() -> None:
            if cancel.cause in _BY_STORE:
                alarms.append(clock.call_later(self._grace_s, running.cancel))

        unlink = cancel.on_request(lambda: clock.call_soon_threadsafe(arm))
        try:
            yield
        finally:
            unlink()
            for alarm in alarms:
                alarm.cancel()

    def _end(self, loop: Scheduled, claim: Claim, report: Report) -> None:
        def work(slot: Slot | None, stored_now: float) -> tuple[Slot | None, tuple[Slot | None, bool]]:
            assert slot is not None
            made = ended(slot, claim.fence, report.how, self._clock(), report.why)
            return made, (made, made is not None and made.pause is not None and slot.pause is None)

        slot, is_paused = self._timetable.change(claim.key, work)
        again_at = starts_at(slot, self._clock(), loop.jitter_s) if slot is not None else None
        self._heard(
            Notice(
                what="ended",
                loop=loop.name,
                round=claim.round,
                how=report.how,
                why=report.why,
                due=claim.due,
                again_at=again_at,
            )
        )
        if is_paused and slot is not None and slot.pause is not None:
            self._heard(Notice(what="paused", loop=loop.name, round=claim.round, why=slot.pause.reason))

    def _let_go(self, loop: Scheduled, claim: Claim) -> None:
        self._timetable.change(
            claim.key, lambda slot, now: (let_go(slot, claim.fence) if slot is not None else None, None)
        )
        self._heard(Notice(what="left", loop=loop.name, round=claim.round))

    # The end

    async def _finish(self, stop: Cancel) -> None:
        """Let running rounds end, unless there is no time for that."""
        while self._working and not stop.hard:
            self._woken.clear()
            await self._wait(self._poll_s, self._woken)

    async def _leave_all(self) -> None:
        for _, cancel, _ in list(self._working.values()):
            cancel.cancel("the scheduler ends", hard=True, cause=StopCause.SHUTDOWN)
        tasks = [task for task, _, _ in self._working.values()]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=self._grace_s)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_BY_STORE = (StopCause.KILL_SWITCH, StopCause.LEASE_LOST)
"""What is found out by looking at the timetable."""


class _Held:
    """A loop whose round this process runs."""

    def __init__(self, timetable: Timetable, claim: Claim, lease_s: float) -> None:
        self._timetable = timetable
        self._claim = claim
        self._lease_s = lease_s

    def renew(self) -> None:
        """Hold it for a while longer."""
        self._timetable.change(
            self._claim.key,
            lambda slot, now: (
                renewed(slot, self._claim.fence, now, lease_s=self._lease_s) if slot else None,
                None,
            ),
        )

    def stop_requested(self) -> StopRequest | None:
        """Why the round is to stop, if it is: the loop or all loops were stopped, or it was taken over."""
        slot, everything = self._timetable.get(self._claim.key), self._timetable.switch()
        mark = everything or (slot.stop if slot is not None else None)
        if mark is not None:
            return StopRequest(reason=mark.words or "somebody asked for it", cause=StopCause.KILL_SWITCH)
        if slot is None or slot.lease.fence != self._claim.fence:
            return StopRequest(reason="another process has taken the round over", cause=StopCause.LEASE_LOST)
        return None


def _by(mark: Mark) -> str:
    return f" ({mark.words})" if mark.words else ""


# What people do


def pause(timetable: Timetable, key: str, mark: Mark) -> Slot | None:
    """Begin no new round of a loop; the one that runs goes on. None if the loop was never run."""

    def work(slot: Slot | None, now: float) -> tuple[Slot | None, Slot | None]:
        made = msgspec.structs.replace(slot, pause=mark) if slot is not None else None
        return made, made

    return timetable.change(key, work)


def stop(timetable: Timetable, key: str, mark: Mark) -> Slot | None:
    """Begin no new round of a loop, and end the one that runs."""

    def work(slot: Slot | None, now: float) -> tuple[Slot | None, Slot | None]:
        made = msgspec.structs.replace(slot, stop=mark) if slot is not None else None
        return made, made

    return timetable.change(key, work)


def resume(timetable: Timetable, key: str, now: float) -> Slot | None:
    """Let a loop go on that was paused or stopped, by a person or by itself."""

    def work(slot: Slot | None, _: float) -> tuple[Slot | None, Slot | None]:
        made = gone_on(slot, now) if slot is not None else None
        return made, made

    return timetable.change(key, work)
