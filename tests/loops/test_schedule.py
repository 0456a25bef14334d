"""When loops are due, over whole years in several time zones, both jumps of the clocks included.

What is expected is worked out another way than the code does: by walking through the year in small steps and
looking at the clock on the wall.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import UsageError
from placet.loops.schedule import Cadence, Every, parse_cadence

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC")
YEAR = 2026
STEP = timedelta(minutes=15)
"""Every jump, and every time of day that is asked for, falls on one."""


def moment(text: str, zone: str = "UTC") -> float:
    """Seconds since the epoch."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def row(cadence: Cadence, begin: float, end: float) -> list[float]:
    """All due times from `begin` on, up to but without `end`."""
    found: list[float] = []
    at = begin - 1
    while (at := cadence.next_after(at, begin)) < end:
        found.append(at)
    return found


def shown_or_passed(zone: str, wanted: dict[tuple[int, int], object], year: int = YEAR) -> list[float]:
    """The first moment of each day of a year at which the wall shows a time of day, or has jumped over it."""
    place = ZoneInfo(zone)
    found: list[float] = []
    for (hour, minute), days in wanted.items():
        day = datetime(year, 1, 1)
        while day.year == year:
            if days is None or day.weekday() in days:  # type: ignore[operator]
                target = day.replace(hour=hour, minute=minute)
                # From well before: the wall is never more than a day away from UTC.
                at = (target - timedelta(hours=15)).replace(tzinfo=UTC)
                end = at + timedelta(hours=30)
                while at < end and at.astimezone(place).replace(tzinfo=None) < target:
                    step = target - at.astimezone(place).replace(tzinfo=None)
                    # In big steps as long as no jump can lie between.
                    at += timedelta(hours=1) if step > timedelta(hours=4) else STEP
                found.append(at.timestamp())
            day += timedelta(days=1)
    return sorted(set(found))


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("daily 09:00", {(9, 0): None}),
        ("daily 02:30", {(2, 30): None}),
        ("daily 01:45", {(1, 45): None}),
        ("weekly sun 02:15", {(2, 15): (6,)}),
        ("weekly mon 00:00", {(0, 0): (0,)}),
        ("30 1,2 * * *", {(1, 30): None, (2, 30): None}),
    ],
)
def test_a_year_of_due_times_is_what_the_wall_showed(
    zone: str, said: str, wanted: dict[tuple[int, int], object]
) -> None:
    begin, end = moment(f"{YEAR}-01-01", zone), moment(f"{YEAR + 1}-01-01", zone)

    found = row(parse_cadence(said, zone), begin, end)

    assert found == shown_or_passed(zone, wanted)


@pytest.mark.parametrize(
    ("zone", "said", "after", "due"),
    [
        # 02:00 to 03:00 is left out: the first moment after the gap.
        ("Europe/Berlin", "daily 02:30", "2026-03-29T00:00", "2026-03-29T01:00"),
        ("America/New_York", "daily 02:30", "2026-03-08T06:00", "2026-03-08T07:00"),
        # Half an hour is left out there: 02:00 to 02:30.
        ("Australia/Lord_Howe", "daily 02:15", "2026-10-03T12:00", "2026-10-03T15:30"),
        # What comes twice runs once, the first time.
        ("Europe/Berlin", "daily 02:30", "2026-10-24T12:00", "2026-10-25T00:30"),
        ("Europe/Berlin", "daily 02:30", "2026-10-25T00:30", "2026-10-26T01:30"),
        ("America/New_York", "daily 01:30", "2026-11-01T05:30", "2026-11-02T06:30"),
        # Asked while the hour is there for the second time, before 02:30 comes again.
        ("Europe/Berlin", "daily 02:30", "2026-10-25T01:10", "2026-10-26T01:30"),
        ("Europe/Berlin", "*/20 * * * *", "2026-10-25T01:10", "2026-10-25T02:00"),
        ("Australia/Lord_Howe", "daily 01:45", "2026-04-04T14:45", "2026-04-05T15:15"),
        # A whole day that a place once left out.
        ("Pacific/Apia", "daily 12:00", "2011-12-29T22:00", "2011-12-30T10:00"),
    ],
)
def test_a_time_in_a_jump_is_due_once(zone: str, said: str, after: str, due: str) -> None:
    assert parse_cadence(said, zone).next_after(moment(after)) == moment(due)


def test_many_times_within_a_gap_are_one_due_time() -> None:
    found = row(
        parse_cadence("*/10 * * * *", "Europe/Berlin"), moment("2026-03-29T00:50"), moment("2026-03-29T01:11")
    )

    assert found == [moment("2026-03-29T00:50"), moment("2026-03-29T01:00"), moment("2026-03-29T01:10")]


@pytest.mark.parametrize("zone", ZONES)
def test_every_counts_real_time_through_both_jumps(zone: str) -> None:
    begin, end = moment(f"{YEAR}-01-01", zone), moment(f"{YEAR + 1}-01-01", zone)

    found = row(parse_cadence("every 6h", zone), begin, end)

    assert {b - a for a, b in pairwise(found)} == {6 * 3600.0}
    assert len(found) == 365 * 4


@given(
    said=st.sampled_from(
        ["daily 02:30", "weekly sun 01:45", "*/7 * * * *", "0 0 29 2 *", "15 2 * * 0", "every 7m", "every 3d"]
    ),
    zone=st.sampled_from(ZONES),
    at=st.integers(int(moment("2026-01-01")), int(moment("2028-03-01"))),
)
def test_next_and_last_agree_at_any_moment(said: str, zone: str, at: int) -> None:
    cadence = parse_cadence(said, zone)
    anchor = moment("2025-12-31T23:59")

    later = cadence.next_after(at, anchor)
    before = cadence.last_until(at, anchor)

    assert later > at
    assert cadence.last_until(later, anchor) == later
    if before is not None:
        assert before <= at
        assert cadence.next_after(before, anchor) == later


def test_last_until_knows_what_was_shown_before_clocks_were_put_back() -> None:
    cadence = parse_cadence("daily 02:30", "Europe/Berlin")

    # 02:10 for the second time: 02:30 has been, forty minutes ago.
    assert cadence.last_until(moment("2026-10-25T01:10")) == moment("2026-10-25T00:30")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("", "it is none of what is known"),
        ("sometimes", "it is none of what is known"),
        ("every", "it does not say how often"),
        ("every 10", "it does not say how often"),
        ("every 0m", "the shortest is 10s"),
        ("every 9999w", "the shortest is 10s and the longest 366d"),
        ("daily", "is no time of day"),
        ("daily 24:00", "'24:00' is no time of day"),
        ("weekly 09:00", "'09:00' is no day of the week"),
        ("weekly monster 09:00", "'monster' is no day of the week"),
        ("0 0 30 2 *", "that time never comes"),
        ("* * * * * *", "it is none of what is known"),
        ("@daily", "it is none of what is known"),
        ("H * * * *", "it is none of what is known"),
        ("61 * * * *", "the cron fields cannot be read"),
        ("a b c d e", "the cron fields cannot be read"),
    ],
)
def test_what_says_no_times_is_refused_with_what_to_write(said: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_cadence(said)

    assert words in str(caught.value)
    assert "Write `every 10m`, `daily 09:00`, `weekly mon 09:30`" in str(caught.value)


@pytest.mark.parametrize("zone", ["Nowhere/Town", "", "../../etc/passwd", "\x00"])
def test_a_time_zone_that_is_none_is_refused(zone: str) -> None:
    with pytest.raises(UsageError, match="There is no time zone"):
        parse_cadence("daily 09:00", zone)


def test_words_say_what_was_written() -> None:
    assert parse_cadence("every  90m") == Every(5400.0)
    assert parse_cadence("every 120s").words == "every 2m"
    assert parse_cadence("Weekly Friday 9:05", "Europe/Berlin").words == "Weekly Friday 9:05 (Europe/Berlin)"
    assert parse_cadence("daily 09:00").words == "daily 09:00"
