"""Text from plans, tools and logs, made safe to show.

A terminal obeys what is printed on it: an error message can move the cursor, rename the window or turn the
reading direction around. So everything that was not written here is cleaned first: what steers is shown, not
obeyed.

Keep true:
1. `clean` never raises, whatever the string holds, and cleaning twice is cleaning once.
2. What it returns holds no control character, no bidirectional control and no lone surrogate; a line
   break only where it was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from unicodedata import east_asian_width

from assent.ir.json_value import JsonValue, show_json

# C0, DEL and C1; soft hyphen; bidirectional controls; line separators; invisible spaces and joiners that
# hide text; surrogates; private tags that carry hidden messages; what XML cannot hold. The joiners of
# emoji and of Persian (200C, 200D) stay.
_STEERS = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ufffe\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}


def clean(text: object, limit: int | None = None, *, lines: bool = False) -> str:
    """`text` with everything that steers a terminal shown as an escape, and at most `limit` characters.

    With `lines` a line break stays one.

    >>> clean("red: \\x1b[31m, right to left: \\u202e")
    'red: \\\\e[31m, right to left: \\\\u202e'
    """
    plain = text if isinstance(text, str) else str(text)
    if limit is not None and len(plain) > limit * 2:
        # A megabyte of output is not cleaned for the sixty characters that are shown.
        plain = plain[: limit * 2]
    if lines:
        plain = plain.replace("\r\n", "\n")
        shown = "\n".join(_STEERS.sub(_visible, line) for line in plain.split("\n"))
    else:
        shown = _STEERS.sub(_visible, plain)
    return shown if limit is None else shorten(shown, limit)


def clean_json(text: str) -> str:
    """JSON text that means the same, with everything that steers a terminal as an escape of JSON's own.

    >>> clean_json('{"name": "\u202e"}')
    '{"name": "\\\\u202e"}'
    """
    # Below the space there is only layout: inside strings JSON has escaped those already.
    return _STEERS.sub(lambda match: match[0] if match[0] < " " else _as_json(match[0]), text)


def _as_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[n : n + 4]}" for n in range(0, len(units), 4))


def _visible(match: re.Match[str]) -> str:
    character = match[0]
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shorten(text: str, width: int) -> str:
    """At most `width` columns of `text`, with an ellipsis where something was left out.

    >>> shorten("a long name", 7)
    'a long…'
    """
    if len(text) * 2 <= width:
        return text
    used = 0
    cut = len(text)
    for position, character in enumerate(text):
        step = 2 if east_asian_width(character) in "WF" else 1
        if used + step > width - 1 and cut == len(text):
            cut = position
        used += step
        if used > width:
            return text[:cut].rstrip() + "…"
    return text


def columns(text: str) -> int:
    """How many columns a text takes, East Asian ones counted double."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


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


def moment(time: float) -> str:
    """A moment for people, whatever a clock says.

    >>> moment(60.0)
    '1970-01-01 00:01:00 UTC'
    """
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{time:g} s after 1970"


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


def wrap(text: str, width: int) -> list[str]:
    """A text in lines of at most `width` columns, broken between words where that is possible.

    >>> wrap("one two three", 7)
    ['one two', 'three']
    """
    lines: list[str] = []
    line, used = "", 0
    for word in text.split(" "):
        size = columns(word)
        if line and used + 1 + size <= width:
            line, used = f"{line} {word}", used + 1 + size
            continue
        if line:
            lines.append(line)
        while size > width:
            cut = max(1, _fitting(word, width))
            lines.append(word[:cut])
            word = word[cut:]
            size = columns(word)
        line, used = word, size
    return [*lines, line] if line or not lines else lines


def _fitting(text: str, width: int) -> int:
    """How many characters of a text fit into that many columns."""
    used = 0
    for position, character in enumerate(text):
        used += 2 if east_asian_width(character) in "WF" else 1
        if used > width:
            return position
    return len(text)


def listing(names: Iterable[str], limit: int = 8) -> str:
    """Names in quotes, cleaned, the first few of many.

    >>> listing(["a", "b", "c"], limit=2)
    "'a', 'b' and 1 more"
    """
    found = [f"'{clean(name, 60)}'" for name in names]
    if len(found) > limit:
        return ", ".join(found[:limit]) + f" and {len(found) - limit:,} more"
    return ", ".join(found)
