"""Numbers, times, names and values in the words that people use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from placet.ir.json_value import JsonValue, show_json
from placet.ir.result import ExitCode
from placet.safe_text import clean


def value(item: JsonValue, limit: int = 60) -> str:
    """A JSON value in a few words."""
    try:
        return clean(show_json(item), limit)
    except (TypeError, ValueError, RecursionError, OverflowError, UnicodeError):
        return clean(repr(item), limit)


def duration(milliseconds: float | None) -> str:
    """A stretch of time as people say it; empty if it is not known.

    >>> duration(0.4), duration(12.3), duration(2345.6), duration(125_000)
    ('<1 ms', '12 ms', '2.3 s', '2 min 5 s')
    """
    if milliseconds is None or not 0 <= milliseconds < 1e15:
        return ""
    if milliseconds < 1:
        return "<1 ms"
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 59_950:
        return f"{milliseconds / 1000:.1f} s"
    seconds = round(milliseconds / 1000)
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def exit_words(code: ExitCode) -> str:
    """How a command ended that did not succeed.

    >>> exit_words(2), exit_words(None)
    ('exit code 2', 'no exit code')
    """
    return f"exit code {code}" if isinstance(code, int) else "no exit code"


def progress(message: str, done: float | None, total: float | None) -> str:
    """How far something has come, in the words and numbers that it gives itself.

    >>> progress("copying", 3, 12), progress("", 5, None), progress("listening", None, None)
    ('copying (3 of 12, 25 %)', '5', 'listening')
    """
    if done is None:
        return message
    numbers = f"{done:,g}"
    if total:
        numbers = f"{done:,g} of {total:,g}, {min(100, int(100 * done / total))} %"
    return f"{message} ({numbers})" if message else numbers


def moment(time: float) -> str:
    """A moment for people, whatever a clock says.

    >>> moment(60.0)
    '1970-01-01 00:01:00 UTC'
    """
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{time:g} s after 1970"


def short_moment(time: float, now: float) -> str:
    """A moment in few characters, for a column of a terminal: without the year if that is the one of `now`.

    >>> short_moment(60.0, 100.0), short_moment(60.0, 1e9)
    ('01-01 00:01', '1970-01-01')
    """
    whole = moment(time)
    return whole[5:16] if whole[:4] == moment(now)[:4] else whole[:10]


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun.

    >>> count(1, "action"), count(12000, "action"), count(2, "retry", "retries")
    ('1 action', '12,000 actions', '2 retries')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def count_actions(total: int, scheduled: int) -> str:
    """How many actions a plan has: the scheduled ones, then those that are only kept for undoing.

    Nothing is scheduled where a plan was refused; then there is one number.

    >>> count_actions(11, 10), count_actions(2, 2), count_actions(3, 0)
    ('10 actions, 1 more only to take back', '2 actions', '3 actions')
    """
    if not 0 < scheduled < total:
        return count(total, "action")
    return f"{count(scheduled, 'action')}, {total - scheduled:,} more only to take back"


def restored_words(said: Mapping[str, JsonValue]) -> str:
    """How much restoring a folder put back, from what its event says.

    >>> restored_words({"changed": 1, "removed": 1200, "brought_back": 0})
    '1 changed, 1,200 removed'
    """
    words = [
        f"{number:,} {name.replace('_', ' ')}"
        for name in ("changed", "removed", "brought_back")
        if isinstance(number := said.get(name), int) and number
    ]
    problems = said.get("problems")
    if isinstance(problems, list) and problems:
        words.append(count(len(problems), "problem"))
    return ", ".join(words) or "it was as before"


def listing(names: Iterable[str], limit: int = 8) -> str:
    """Names in quotes, cleaned, the first few of many.

    >>> listing(["a", "b", "c"], limit=2)
    "'a', 'b' and 1 more"
    """
    found = [f"'{clean(name, 60)}'" for name in names]
    if len(found) > limit:
        return ", ".join(found[:limit]) + f" and {len(found) - limit:,} more"
    return ", ".join(found)


_IDS_SHOWN = 5


def basis_text(looked: Sequence[str], changed: Sequence[str], ran: Sequence[str]) -> str:
    """The calls that an answer rests on.

    >>> basis_text(["t1c1"], [], [])
    '1 call: looked 1 (t1c1)'
    """
    total = len(looked) + len(changed) + len(ran)
    if not total:
        return "no calls"
    parts = []
    for word, ids in (("looked", looked), ("changed", changed), ("ran", ran)):
        if ids:
            more = ", ..." if len(ids) > _IDS_SHOWN else ""
            parts.append(
                f"{word} {len(ids):,} ({', '.join(clean(each, 20) for each in ids[:_IDS_SHOWN])}{more})"
            )
    return f"{count(total, 'call')}: {', '.join(parts)}"
