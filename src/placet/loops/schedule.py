"""When a loop is due: `every 10m`, `daily 09:00`, `weekly mon 09:30`, or five fields of cron.

All but `every` are times on a wall clock, in a time zone. Twice a year such a clock jumps. A time that the
jump leaves out is due at the first moment after it; a time that comes twice is due once, the first time.
`every` counts real time, whatever a clock on a wall shows.

Keep true:
1. Pure: a moment comes in, a moment goes out, both in seconds since the epoch. Nobody's clock is read.
2. The due times of a cadence are one rising row of moments, from whichever moment it is asked about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from placet.errors import UsageError
from placet.truncation import truncate

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
HOW = "Write `every 10m`, `daily 09:00`, `weekly mon 09:30`, or five fields of cron such as `0 9 * * 1-5`."
SHORTEST_S = 10.0
LONGEST_S = 366 * 86_400.0
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_TIME = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")
_FIELDS = re.compile(r"[0-9A-Za-z*/,#-]+")
_RANDOM = re.compile(r"(?<![A-Z])[HR](?![A-Z])", re.IGNORECASE)


class Every(msgspec.Struct, frozen=True, tag="every"):
    """Again and again after so many seconds, counted from an anchor."""

    seconds: float

    def next_after(self, moment: float, anchor: float) -> float:
        """The first due time after a moment; the anchor itself is the first of all."""
        if moment < anchor:
            return anchor
        times = int((moment - anchor) // self.seconds) + 1
        due = anchor + times * self.seconds
        # A division of long numbers may be off by the last digit.
        return due if due > moment else due + self.seconds

    def last_until(self, moment: float, anchor: float) -> float | None:
        """The latest due time up to a moment; None before the first."""
        if moment < anchor:
            return None
        due = self.next_after(moment, anchor) - self.seconds
        return max(due, anchor)

    @property
    def words(self) -> str:
        """For people, and readable by `parse_cadence`."""
        for unit, size in reversed(_UNITS.items()):
            if self.seconds % size == 0:
                return f"every {self.seconds / size:.0f}{unit}"
        return f"every {self.seconds:g}s"


class Wall(msgspec.Struct, frozen=True, tag="wall"):
    """Whenever the clock on a wall shows a time that five fields of cron describe."""

    cron: str
    zone: str = "UTC"
    said: str = ""
    """As the person wrote it."""

    def next_after(self, moment: float, anchor: float = 0.0) -> float:
        """The first due time after a moment. Whatever the anchor."""
        zone = zone_of(self.zone)
        # Later on the wall is never earlier in truth, so nothing up to the shown time can be due later.
        for shown in self._times(_shown(moment, zone), forward=True):
            due = _moment(shown, zone)
            if due > moment:
                return due
        raise AssertionError  # Not reached: a time that never comes is refused when it is read.

    def last_until(self, moment: float, anchor: float = 0.0) -> float | None:
        """The latest due time up to a moment."""
        zone = zone_of(self.zone)
        # In an hour that comes twice, times further on have been shown already.
        first = _shown(moment, zone) + _repeated(moment, zone)
        for shown in self._times(first + timedelta(microseconds=1), forward=False):
            due = _moment(shown, zone)
            if due <= moment:
                return due
        return None

    @property
    def words(self) -> str:
        """For people."""
        said = self.said or self.cron
        return said if self.zone == "UTC" else f"{said} ({self.zone})"

    def _times(self, start: datetime, *, forward: bool) -> Iterator[datetime]:
        """What the wall shows, one due time after the other, or backwards."""
        from croniter import CroniterBadDateError, croniter  # type: ignore[import-untyped]

        found = croniter(self.cron, start)
        try:
            while True:
                yield found.get_next(datetime) if forward else found.get_prev(datetime)
        except CroniterBadDateError:
            return


Cadence: TypeAlias = "Every | Wall"


def parse_cadence(text: str, zone: str = "UTC") -> Cadence:
    """What a person wrote about when a loop is due.

    >>> parse_cadence("every 10m").words, parse_cadence("weekly mon 09:30", "Europe/Berlin").cron
    ('every 10m', '30 9 * * 1')

    Raises:
        UsageError: it says no times, or no time that ever comes; or there is no such time zone.
    """
    said = " ".join(text.split())
    zone_of(zone)
    kind, _, rest = said.lower().partition(" ")
    match kind:
        case "every":
            return Every(_span(rest, said))
        case "daily":
            hour, minute = _time(rest, said)
            return Wall(f"{minute} {hour} * * *", zone, said)
        case "weekly":
            day, _, time = rest.partition(" ")
            if day[:3] not in DAYS or day not in (day[:3], *_LONG):
                raise _refused(said, f"'{truncate(day, 20)}' is no day of the week")
            hour, minute = _time(time, said)
            return Wall(f"{minute} {hour} * * {(DAYS.index(day[:3]) + 1) % 7}", zone, said)
    return _cron(said, zone)


_LONG = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def zone_of(name: str) -> ZoneInfo:
    """The time zone of that name.

    Raises:
        UsageError: there is none.
    """
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            f"There is no time zone {truncate(name, 60)!r}. Write one such as 'Europe/Berlin', or 'UTC'."
        ) from None


def _span(text: str, said: str) -> float:
    found = re.fullmatch(r"([0-9]{1,6}) ?([smhdw])", text)
    if found is None:
        raise _refused(said, "it does not say how often")
    seconds = float(int(found[1]) * _UNITS[found[2]])
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise _refused(said, f"the shortest is {SHORTEST_S:.0f}s and the longest {LONGEST_S / 86_400:.0f}d")
    return seconds


def _time(text: str, said: str) -> tuple[int, int]:
    found = _TIME.fullmatch(text)
    if found is None:
        raise _refused(said, f"'{truncate(text, 20)}' is no time of day from 00:00 to 23:59")
    return int(found[1]), int(found[2])


@cache
def _cron(said: str, zone: str) -> Wall:
    from croniter import CroniterBadCronError, CroniterBadDateError, croniter

    fields = said.split()
    # The library also knows seconds, years and times by chance, which mean something else elsewhere.
    if len(fields) != 5 or not all(_FIELDS.fullmatch(field) for field in fields) or _RANDOM.search(said):
        raise _refused(said, "it is none of what is known")
    try:
        croniter(said, datetime(2026, 1, 1)).get_next(datetime)
    except CroniterBadDateError:
        raise _refused(said, "that time never comes") from None
    except (CroniterBadCronError, ValueError, KeyError) as error:
        raise _refused(said, f"the cron fields cannot be read ({error})") from None
    return Wall(said, zone, said)


def _refused(said: str, why: str) -> UsageError:
    return UsageError(f"'{truncate(said, 80)}' says no times: {why}. {HOW}")


# Clocks on walls


def _shown(moment: float, zone: tzinfo) -> datetime:
    """What a clock on the wall shows at a moment."""
    return datetime.fromtimestamp(moment, zone).replace(tzinfo=None, fold=0)


def _repeated(moment: float, zone: tzinfo) -> timedelta:
    """How much of what the clock will show it has shown already, because it was put back just now."""
    local = datetime.fromtimestamp(moment, zone)
    if not local.fold:
        return timedelta()
    before, after = local.replace(fold=0).utcoffset(), local.utcoffset()
    assert before is not None
    assert after is not None
    return before - after


def _moment(shown: datetime, zone: tzinfo) -> float:
    """When the wall shows a time for the first time; if it never does, the first moment after the jump."""
    local = shown.replace(tzinfo=zone)
    moment = local.timestamp()
    if _shown(moment, zone) == shown:
        return moment
    # Left out by a jump: read with the offset of before it is too late, with that of after too early. The
    # jump lies between the two.
    early, late = sorted((moment, local.replace(fold=1).timestamp()))
    offset = datetime.fromtimestamp(early, zone).utcoffset()
    low, high = int(early), int(late)
    while low < high:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, UTC).astimezone(zone).utcoffset() == offset:
            low = middle + 1
        else:
            high = middle
    return float(low)
