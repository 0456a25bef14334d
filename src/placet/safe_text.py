"""Text from plans, tools and logs, made safe to show.

A terminal obeys what is printed on it: an error message can move the cursor, rename the window or turn the
reading direction around. So everything that was not written here is cleaned first: what steers is shown, not
obeyed. The same goes for what a model reads: hidden characters carry hidden orders.

Keep true:
1. `clean` never raises, whatever the string holds, and cleaning twice is cleaning once.
2. What it returns holds no control character, no bidirectional control and no lone surrogate; a line
   break or a tab only where it was asked for.
"""

from __future__ import annotations

import re
from unicodedata import east_asian_width

from placet.truncation import redacted_head

# C0, DEL and C1; soft hyphen; bidirectional controls; line separators; blanks, fillers, joiners and
# selectors that nobody sees and that hide or carry text; surrogates; tags; what XML cannot hold. The joiners
# of emoji and of Persian (200C, 200D) stay, and so does the selector behind a sign that is an emoji with it.
_STEERS = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    "|(?<![#*0-9\xa9\xae\u203c-\u3299\U0001f000-\U0001faff])\ufe0f"
)
_HAS_MORE = re.compile(
    _STEERS.pattern.partition("|(?<!")[0].replace("\x00-\x1f", "\x00-\x08\x0b-\x1f") + "|\ufe0f"
)
"""Whether more than line breaks and tabs may steer. One class of characters, so that looking is fast."""
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}


def clean(text: object, limit: int | None = None, *, lines: bool = False, tabs: bool = False) -> str:
    """`text` with everything that steers a terminal shown as an escape, and at most `limit` columns.

    A text that is cut is redacted first (`truncation.py`).

    With `lines` a line break stays one, with `tabs` a tab.

    >>> clean("red: \\x1b[31m, right to left: \\u202e")
    'red: \\\\e[31m, right to left: \\\\u202e'
    """
    plain = text if isinstance(text, str) else str(text)
    if limit is None:
        return _shown(plain, lines=lines, tabs=tabs)
    # A megabyte of output is not cleaned for the sixty characters that are shown.
    shown = _shown(plain, lines=lines, tabs=tabs) if len(plain) <= limit * 2 else None
    if shown is not None and _fit(shown, limit) is shown:
        return shown
    return _fit(_shown(redacted_head(plain, limit), lines=lines, tabs=tabs), limit)


def _shown(plain: str, *, lines: bool, tabs: bool) -> str:
    if lines:
        plain = plain.replace("\r\n", "\n")
    if not lines and not tabs:
        return _STEERS.sub(_visible, plain)
    if _HAS_MORE.search(plain) is None:
        return _without(plain, lines=lines, tabs=tabs)  # Most text: a call for each line would take long.
    kept = ("\n" if lines else "") + ("\t" if tabs else "")
    return _STEERS.sub(lambda match: match[0] if match[0] in kept else _visible(match), plain)


def _without(text: str, *, lines: bool, tabs: bool) -> str:
    """A text in which only line breaks and tabs steer, without those that are not wanted."""
    if not lines:
        text = text.replace("\n", _SHORT["\n"])
    return text if tabs else text.replace("\t", _SHORT["\t"])


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

    A text that is cut is redacted first.

    >>> shorten("a long name", 7)
    'a long…'
    """
    return text if _fit(text, width) is text else _fit(redacted_head(text, width), width)


def _fit(text: str, width: int) -> str:
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
