"""Text as a model sees it: cleaned, and cut in the middle when it is too long.

Keep true:
1. At most `limit` bytes of UTF-8, cut between characters; what was left out is said, and where it is stored.
2. No control character but line breaks and tabs.
3. Foreign text cannot pass for ours: no line of it is a marker.
"""

from __future__ import annotations

from collections.abc import Callable

from placet.safe_text import clean
from placet.truncation import truncate_bytes, truncate_bytes_tail

LIMIT = 16 * 1024
"""Bytes of one text that a model sees."""

_TAIL = 4
"""One part in so many is kept for the end: where a command's output says how it went."""
_MARKER = "[… "


def not_stored(_whole: str) -> str:
    """Where the rest of a text is, if it is nowhere."""
    return "it is not kept"


def model_text(text: str, *, limit: int = LIMIT, store: Callable[[str], str] = not_stored) -> str:
    """Any text as a model may see it. `store` stores what is too long, and returns where it is."""
    plain = clean(text, lines=True, tabs=True).replace(_MARKER, "\\" + _MARKER)
    return shortened(plain, limit, store)


def shortened(text: str, limit: int, store: Callable[[str], str]) -> str:
    """`text` in at most `limit` bytes: its beginning, what was left out and where `store` put it, its end.

    >>> shortened("a" * 500, 200, lambda whole: "gone").count("a") < 200
    True
    """
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return text
    where = store(text)
    marker = f"\n{_MARKER}{len(data):,} bytes in all, the middle is left out; {where} …]\n"
    room = max(0, limit - len(marker.encode(errors="replace")))
    tail = room // _TAIL
    head = truncate_bytes(data, room - tail).decode(errors="ignore")
    end = truncate_bytes_tail(data, tail).decode(errors="ignore")
    return f"{head}{marker}{end}"
