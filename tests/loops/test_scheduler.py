"""Which rounds a scheduler runs, by a clock that moves only when it is told to: a year with both jumps of the
clocks, downtime, failures, pauses and stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from placet.errors import RunHeld, UsageError
from placet.loops.schedule import parse_cadence
from placet.loops.scheduler import Notice, Report, Scheduled, Scheduler, pause, resume, stop
from placet.loops.timetable import Claim, Mark, MemoryTimetable, Timetable, jitter_of
from placet.loops.timetable_sql import SqlTimetable
from placet.storage.location import open_database
from placet.testing import FakeClock
from placet.tools.context import Cancel

DAY = 86_400.0


def moment(text: str, zone: str = "UTC") -> float:
    """Seconds since the epoch."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def loop(said: str, zone: str = "UTC", *, name: str = "tidy", jitter_s: float = 0.0) -> Scheduled:
    """A loop of that cadence; without one it runs when asked."""
    cadence = parse_cadence(said, zone) if said else None
    return Scheduled(key=f"{name}@x", name=name, repository="/x", cadence=cadence, jitter_s=jitter_s)


class Year:
    """Schedulers that come and go, on one timetable and one clock."""

    def __init__(self, begin: float, timetable: Timetable | None = None) -> None:
        self.clock = FakeClock(begin)
        self.timetable = timetable if timetable is not None else MemoryTimetable(clock=self.clock)
        self.ran: list[tuple[float, Claim]] = []
        self.notices: list[Notice] = []
        self.report: Callable[[Claim], Report] = lambda claim: Report("reported")

    async def run(self, until: float, *loops: Scheduled, at_once: int = 2) -> None:
        """Let a scheduler run until a moment."""
        over = Cancel()

        async def wait(seconds: float, woken: asyncio.Event) -> None:
            if scheduler._working:
                await woken.wait()
                return
            self.clock.now = min(until, self.clock.now + seconds)
            if self.clock.now >= until:
                over.cancel("the time is over")

        async def round(loop: Scheduled, claim: Claim, cancel: Cancel) -> Report:
            self.ran.append((self.clock.now, claim))
            return self.report(claim)

        scheduler = Scheduler(
            self.timetable,
            loops,
            round,
            at_once=at_once,
            clock=self.clock,
            wait=wait,
            heard=self.notices.append,
            poll_s=inf,
        )
        await scheduler.serve(over)

    @property
    def times(self) -> list[float]:
        """When rounds began."""
        return [at for at, _ in self.ran]


def row(loop: Scheduled, begin: float, end: float) -> list[float]:
    """The due times after a moment, up to but without another."""
    assert loop.cadence is not None
    found: list[float] = []
    at = begin
    while (at := loop.cadence.next_after(at, begin)) < end:
        found.append(at)
    return found


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"])
async def test_a_year_runs_each_due_time_once(zone: str) -> None:
    begin, end = moment("2026-01-01T00:00", zone), moment("2027-01-01", zone)
    year = Year(begin)
    daily = loop("daily 02:15", zone)
    weekly = loop("weekly sun 02:15", zone, name="weekly")

    await year.run(end, daily, weekly)

    of_daily = [at for at, claim in year.ran if claim.key == daily.key]
    of_weekly = [at for at, claim in year.ran if claim.key == weekly.key]
    assert of_daily == row(daily, begin, end)
    assert len(of_daily) == 365
    assert of_weekly == row(weekly, begin, end)
    assert len(of_weekly) == 52
    assert not any(claim.missed for _, claim in year.ran)


async def test_downtime_is_made_up_for_by_one_round() -> None:
    begin = moment("2026-03-01T12:00", "Europe/Berlin")
    year = Year(begin)
    daily = loop("daily 09:00", "Europe/Berlin")
    await year.run(begin + 2 * DAY, daily)

    # Nobody is there for twelve days, over the change to summer time.
    year.clock.advance(12 * DAY)
    back = year.clock.now
    await year.run(back + 30 * DAY, daily)

    after = [(at, claim.due, claim.missed) for at, claim in year.ran[2:]]
    due = row(daily, begin, back + 30 * DAY)
    assert after[0] == (back, max(each for each in due if each <= back), True)
    assert [at for at, _, _ in after[1:]] == [each for each in due if each > back]
    assert not any(missed for _, _, missed in after[1:])


async def test_every_counts_from_the_first_time_through_downtime() -> None:
    begin = moment("2026-10-24T22:10")
    year = Year(begin)
    ten = loop("every 10m", "Europe/Berlin")
    await year.run(begin + 1500, ten)
    year.clock.advance(3600 * 5 + 7)
    back = year.clock.now
    await year.run(back + 1200, ten)

    assert year.times[:3] == [begin, begin + 600, begin + 1200]
    assert year.times[3] == back
    assert all((at - begin) % 600 == 0 for at in year.times[4:])
    assert len(year.times) == 6


async def test_jitter_is_the_same_wherever_it_is_worked_out() -> None:
    begin = moment("2026-01-01")
    one, other = Year(begin), Year(begin)
    daily = loop("daily 09:00", jitter_s=600)

    await one.run(begin + 20 * DAY, daily)
    await other.run(begin + 20 * DAY, daily)

    late = [at - (claim.due or 0) for at, claim in one.ran]
    assert one.times == other.times
    assert len(late) == 20
    assert all(0 <= each < 600 for each in late)
    assert len(set(late)) == 20
    assert late[0] == pytest.approx(jitter_of(daily.key, one.ran[0][1].due or 0, 600))


async def test_three_failures_in_a_row_pause_and_say_so() -> None:
    begin = moment("2026-01-01")
    year = Year(begin)
    year.report = lambda claim: Report("failed", "no such branch")
    often = loop("every 10s")

    await year.run(begin + DAY, often)

    # Later each time, though it was due every ten seconds.
    assert year.times == [begin, begin + 60, begin + 180]
    slot = year.timetable.get(often.key)
    assert slot is not None
    assert slot.pause is not None
    assert slot.pause.reason == "3 rounds in a row failed; the last: no such branch"
    assert [n.why for n in year.notices if n.what == "paused"] == [slot.pause.reason]


async def test_a_success_between_failures_begins_the_count_again() -> None:
    begin = moment("2026-01-01")
    year = Year(begin)
    ends = ["failed", "failed", "reported", "failed", "failed", "escalated", "failed"]
    year.report = lambda claim: Report(ends[len(year.ran) - 1])  # type: ignore[arg-type]

    await year.run(begin + 7 * DAY, loop("daily 09:00"))

    slot = year.timetable.get("tidy@x")
    assert slot is not None
    assert (len(year.ran), slot.failures, slot.pause) == (7, 1, None)


async def test_a_paused_loop_waits_and_makes_up_for_nothing() -> None:
    begin = moment("2026-01-01")
    year = Year(begin)
    daily = loop("daily 09:00")
    await year.run(begin + DAY, daily)

    pause(year.timetable, daily.key, Mark(at=year.clock.now, by="ann", reason="release week"))
    await year.run(begin + 5 * DAY, daily)
    resume(year.timetable, daily.key, year.clock.now)
    await year.run(begin + 6 * DAY, daily)

    assert year.times == [begin + 9 * 3600, begin + 5 * DAY + 9 * 3600]
    assert not year.ran[-1][1].missed


async def test_the_switch_keeps_everything_still_until_it_is_lifted() -> None:
    begin = moment("2026-01-01")
    year = Year(begin)
    year.timetable.set_switch(Mark(at=begin, by="ann"))
    hourly = loop("0 * * * *")

    scheduler_time = begin + DAY
    with pytest.raises(UsageError, match=r"All loops are stopped \(by ann\).*placet loop resume --all"):
        await Scheduler(year.timetable, [hourly], _never, clock=year.clock).run_now(hourly.key)
    await year.run(scheduler_time, hourly)
    assert year.ran == []
    year.timetable.set_switch(None)
    await year.run(scheduler_time + 7200, hourly)

    assert len(year.ran) == 2


async def _never(loop: Scheduled, claim: Claim, cancel: Cancel) -> Report:
    raise AssertionError


async def test_a_changed_cadence_takes_effect_at_the_next_start() -> None:
    begin = moment("2026-01-01")
    year = Year(begin)
    await year.run(begin + DAY, loop("daily 09:00"))
    await year.run(begin + 2 * DAY, loop("daily 15:00"))

    assert year.times == [begin + 9 * 3600, begin + DAY + 15 * 3600]


async def test_a_loop_without_a_cadence_runs_when_asked_also_while_it_is_paused() -> None:
    begin = moment("2026-01-01")
    year = Year(begin)
    on_demand = loop("")
    await year.run(begin + 30 * DAY, on_demand)
    assert year.ran == []
    pause(year.timetable, on_demand.key, Mark(at=begin))

    async def round(loop: Scheduled, claim: Claim, cancel: Cancel) -> Report:
        year.ran.append((year.clock.now, claim))
        return Report("proceeded")

    report = await Scheduler(year.timetable, [on_demand], round, clock=year.clock).run_now(on_demand.key)

    assert report == Report("proceeded")
    assert [claim.due for _, claim in year.ran] == [None]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def timetable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Timetable]:
    """Each kind."""
    if request.param == "memory":
        yield MemoryTimetable()
        return
    url = str(tmp_path / "t.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with open_database(url, create=True) as database:
        yield SqlTimetable(database)


async def test_one_round_of_a_loop_at_a_time(timetable: Timetable) -> None:
    job = loop("every 10s")
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(loop: Scheduled, claim: Claim, cancel: Cancel) -> Report:
        begun.set()
        await go_on.wait()
        return Report("reported")

    first = asyncio.create_task(Scheduler(timetable, [job], slow).run_now(job.key))
    await begun.wait()
    with pytest.raises(RunHeld, match=r"A round of the loop 'tidy' is being run by process \d+"):
        await Scheduler(timetable, [job], _never).run_now(job.key)
    go_on.set()

    assert await first == Report("reported")


async def test_a_stop_ends_the_running_round_and_keeps_the_loop_still(timetable: Timetable) -> None:
    job = loop("every 10s")
    begun = asyncio.Event()
    notices: list[Notice] = []

    async def obedient(loop: Scheduled, claim: Claim, cancel: Cancel) -> Report | None:
        begun.set()
        asked = asyncio.Event()
        cancel.on_hard(asked.set)
        await asked.wait()
        return None

    scheduler = Scheduler(timetable, [job], obedient, watch_s=0.01, heard=notices.append)
    running = asyncio.create_task(scheduler.run_now(job.key))
    await begun.wait()
    stop(timetable, job.key, Mark(at=0, by="ann", reason="enough"))

    assert await running == Report("stopped", "stopped: by ann: enough")
    with pytest.raises(UsageError, match="placet loop resume tidy"):
        await scheduler.run_now(job.key)
    slot = timetable.get(job.key)
    assert slot is not None
    assert (slot.last, slot.failures, slot.round) == ("stopped", 0, "")


async def test_a_round_that_does_not_listen_is_ended_all_the_same(timetable: Timetable) -> None:
    job = loop("every 10s")
    begun = asyncio.Event()
    ends: list[str] = []

    async def deaf(loop: Scheduled, claim: Claim, cancel: Cancel) -> Report:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("cancelled")
        raise AssertionError

    scheduler = Scheduler(timetable, [job], deaf, watch_s=0.01, grace_s=0.01)
    running = asyncio.create_task(scheduler.run_now(job.key))
    await begun.wait()
    timetable.set_switch(Mark(at=0))

    assert (await running) == Report("stopped", "stopped: somebody asked for it")
    assert ends == ["cancelled"]


async def test_a_hold_that_was_lost_ends_the_round_and_changes_nothing(timetable: Timetable) -> None:
    job = loop("every 10s")
    begun = asyncio.Event()
    notices: list[Notice] = []

    async def obedient(loop: Scheduled, claim: Claim, cancel: Cancel) -> Report | None:
        begun.set()
        asked = asyncio.Event()
        cancel.on_hard(asked.set)
        await asked.wait()
        return Report("reported")

    scheduler = Scheduler(timetable, [job], obedient, watch_s=0.01, lease_s=0.05, heard=notices.append)
    running = asyncio.create_task(scheduler.run_now(job.key))
    await begun.wait()
    # As if this process had slept for longer than its hold.
    timetable.change(
        job.key,
        lambda slot, now: (
            replace(slot, lease=replace(slot.lease, fence=slot.lease.fence + 1)) if slot else None,
            None,
        ),
    )

    assert await running is None
    slot = timetable.get(job.key)
    assert slot is not None
    assert slot.last is None
    assert slot.round
    assert notices[-1].what == "lost"


async def test_a_hard_end_leaves_the_round_for_the_next_scheduler(timetable: Timetable) -> None:
    job = loop("every 10s")
    over = Cancel()
    seen: list[Claim] = []

    async def long(loop: Scheduled, claim: Claim, cancel: Cancel) -> Report | None:
        seen.append(claim)
        asked = asyncio.Event()
        cancel.on_hard(asked.set)
        over.cancel("SIGTERM", hard=True)
        await asked.wait()
        return None

    await Scheduler(timetable, [job], long).serve(over)

    async def short(loop: Scheduled, claim: Claim, cancel: Cancel) -> Report:
        seen.append(claim)
        again.cancel("done")
        return Report("reported")

    again = Cancel()
    await Scheduler(timetable, [job], short).serve(again)

    assert [claim.round for claim in seen] == [seen[0].round] * 2
    assert [claim.again for claim in seen] == [False, True]
    assert seen[0].due == seen[1].due


async def test_a_soft_end_lets_the_round_end() -> None:
    timetable = MemoryTimetable()
    job = loop("every 10s")
    over = Cancel()
    ends: list[str] = []

    async def long(loop: Scheduled, claim: Claim, cancel: Cancel) -> Report:
        over.cancel("SIGTERM")
        await asyncio.sleep(0)
        ends.append("ended")
        return Report("reported")

    await Scheduler(timetable, [job], long).serve(over)

    slot = timetable.get(job.key)
    assert slot is not None
    assert (ends, slot.last) == (["ended"], "reported")


async def test_whatever_a_round_raises_is_a_failed_one() -> None:
    timetable = MemoryTimetable()
    job = loop("")

    async def broken(loop: Scheduled, claim: Claim, cancel: Cancel) -> Report:
        raise ValueError("oh")

    assert await Scheduler(timetable, [job], broken).run_now(job.key) == Report("failed", "ValueError: oh")


async def test_no_more_than_so_many_rounds_at_once() -> None:
    timetable = MemoryTimetable()
    jobs = [loop("every 1h", name=f"job-{n}") for n in range(5)]
    over = Cancel()
    now, most = [0], [0]

    async def round(loop: Scheduled, claim: Claim, cancel: Cancel) -> Report:
        now[0] += 1
        most[0] = max(most[0], now[0])
        for _ in range(5):
            await asyncio.sleep(0)
        now[0] -= 1
        if loop.name == "job-4":
            over.cancel("all ran")
        return Report("reported")

    await Scheduler(timetable, jobs, round, at_once=2).serve(over)

    assert most == [2]
    assert all(slot.last == "reported" for slot in timetable.slots())


def test_the_time_of_a_database_is_its_own(database_url: str) -> None:
    with open_database(database_url, create=True) as database:
        seen = SqlTimetable(database).change("k", lambda slot, now: (None, now))

    assert abs(seen - datetime.now(UTC).timestamp()) < 3600
