"""The one place where text is cut. A text that is too long is redacted first, then cut.

A redactor recognises a whole secret. A cut in the middle of one leaves a piece that no redactor recognises
later, so every function here redacts the text around the cut before it cuts. A text that fits is returned as
it is: it is redacted where it leaves.

Texts are cut in many places that have no redactor at hand, such as the message of an error deep in a tool.
So redactors register themselves here when they learn of a secret, and all that are alive are asked. A secret
of one runtime is therefore also removed from a text that another runtime in the same process cuts.

Keep true:
1. No function returns a part of a secret that a live redactor knows, unless the secret is longer than the
   text that it would take to show it whole.
2. The work depends on the limit, not on the length of the text.
3. No other module cuts text with a slice or a format width (`tests/test_truncation.py`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Protocol

REDACTED = "[redacted]"

_BEYOND, _SPARE = 4096, 512
"""Characters that are redacted beyond the cut: more than a secret is long, and some to spare for what
redaction makes shorter."""
_BEFORE = 65_536
"""Characters that are redacted before the cut. What stands earlier in a larger text holds only whole secrets,
which are recognised where the text leaves."""


class Knowing(Protocol):
    """Something that knows secrets: a redactor, or what makes one when it is needed."""

    def longest_secret(self) -> int:
        """Characters of the longest registered secret."""
        ...

    def without_registered(self, text: str) -> str:
        """The text without the secrets that were registered."""
        ...

    def open_tail(self, text: str) -> int:
        """How many characters at the end of a text may be the beginning of a registered secret."""
        ...


_known: dict[int, weakref.ref[Knowing]] = {}
_rules: list[Callable[[str], str]] = []


def register(source: Knowing) -> None:
    """Ask `source` at every cut for as long as it lives."""
    key = id(source)
    if (ref := _known.get(key)) is None or ref() is not source:
        _known[key] = weakref.ref(source, lambda _: _known.pop(key, None))


def register_rules(redact: Callable[[str], str]) -> None:
    """Apply `redact` at every cut: what removes secrets that nobody registered, by their shape or name."""
    _rules[:] = [redact]


def truncate(text: str, limit: int, ellipsis: str = "") -> str:
    """Return at most `limit` characters of a text. If it is cut, it is redacted first; `ellipsis` is its end.

    >>> truncate("a long name", 6, "…")
    'a lon…'
    """
    if len(text) <= limit:
        return text
    shown = redacted_head(text, limit)
    return shown if len(shown) <= limit else shown[: max(0, limit - len(ellipsis))] + ellipsis


def truncate_tail(text: str, limit: int) -> str:
    """Return at most the last `limit` characters of a text. If it is cut, it is redacted first.

    >>> truncate_tail("a long name", 4)
    'name'
    """
    if len(text) <= limit:
        return text
    shown = redacted_tail(text, limit)
    return shown[len(shown) - limit :] if 0 < limit < len(shown) else shown if limit else ""


def truncate_bytes(data: bytes, limit: int, *, is_partial: bool = False) -> bytes:
    """Return at most `limit` bytes of UTF-8 text, redacted first if it is cut.

    Args:
        data: The text.
        limit: Most bytes of the result.
        is_partial: The data itself ends in the middle of a text, because no more of it was read. If it ends
            with what may be the beginning of a registered secret, that is left out.
    """
    if len(data) <= limit:
        return data
    text = data[: limit + 4 * margin()].decode("utf-8", "surrogateescape")
    shown = redacted_head(text, limit)
    if is_partial:
        shown = shown[: len(shown) - max((source.open_tail(shown) for source in _sources()), default=0)]
    return shown.encode("utf-8", "surrogateescape")[:limit]


def truncate_bytes_tail(data: bytes, limit: int) -> bytes:
    """Return at most the last `limit` bytes of UTF-8 text, redacted first if it is cut."""
    if len(data) <= limit:
        return data
    text = data[max(0, len(data) - limit - 4 * margin()) :].decode("utf-8", "surrogateescape")
    shown = redacted_tail(text, limit).encode("utf-8", "surrogateescape")
    return shown[max(0, len(shown) - limit) :]


def truncate_repr(value: object, limit: int) -> str:
    """Return at most `limit` characters of `repr(value)`, for messages about a value that cannot be used.

    >>> truncate_repr("a long name", 6)
    "'a lon"
    """
    return truncate(repr(value), limit)


def excerpt(text: str, start: int, end: int) -> str:
    """Return the characters of a text from `start` to `end`, without a part of a secret at either cut.

    >>> excerpt("a long name", 2, 6)
    'long'
    """
    beyond = margin()
    first, last = max(0, start - beyond), min(len(text), end + beyond)
    window = text[first:last]
    shown = _redact(window)
    if shown == window:
        return text[start:end]
    begin = _place_in(shown, window, start - first) if start > first else 0
    return shown[begin : _place_in(shown, window, min(end, len(text)) - first)]


def boundary(text: str, at: int) -> int:
    """Return the last place up to `at` where a text can be cut without cutting a secret.

    For a caller that shows a text in parts, and so cannot change it.
    """
    beyond = margin()
    first = max(0, at - beyond)
    window = text[first : at + beyond]
    before = 0
    for piece in _redact(window).split(REDACTED):
        found = window.find(piece, before) if piece else before
        if found > at - first:
            return first + before
        before = max(found, before) + len(piece)
        if before >= at - first:
            return at
    return min(at, first + before)


def redacted(text: str) -> str:
    """Return a text without secrets: for a caller that leaves out some of its lines."""
    return _redact(text)


def margin() -> int:
    """Characters beyond a cut that must be at hand for a secret across the cut to be recognised."""
    return max((_BEYOND, *(source.longest_secret() for source in _sources()))) + _SPARE


def redacted_head(text: str, limit: int) -> str:
    """The beginning of a text that is to be cut: redacted, and at least `limit` characters if it has them."""
    beyond = margin()
    start = max(0, limit - _BEFORE)
    size = limit + beyond + _SPARE
    while size < len(text):
        shown = text[:start] + _redact(text[start:size])
        # A secret that `size` cuts begins within the last `beyond` characters, which are left out.
        if len(shown) >= limit + beyond:
            return shown[: len(shown) - beyond]
        size *= 4
    return text[:start] + _redact(text[start:])


def redacted_tail(text: str, limit: int) -> str:
    """The end of a text that is to be cut: redacted, and at least `limit` characters if it has them."""
    beyond = margin()
    end = len(text) - max(0, limit - _BEFORE)
    size = limit + beyond + _SPARE
    while size < len(text):
        shown = _redact(text[len(text) - size : end]) + text[end:]
        if len(shown) >= limit + beyond:
            return shown[beyond:]
        size *= 4
    return _redact(text[:end]) + text[end:]


def _place_in(shown: str, window: str, at: int) -> int:
    """Where the character `at` of `window` stands in `shown`, which is the same text redacted."""
    place = before = 0
    for piece in shown.split(REDACTED):
        found = window.find(piece, before)
        found = before if found < 0 else found
        if at < found:
            return place  # Within a secret: nothing after it.
        if at <= found + len(piece):
            return place + at - found
        place += len(piece) + len(REDACTED)
        before = found + len(piece)
    return len(shown)


def _sources() -> list[Knowing]:
    return [source for ref in list(_known.values()) if (source := ref()) is not None]


def _redact(text: str) -> str:
    for source in _sources():
        text = source.without_registered(text)
    for redact in _rules:
        text = redact(text)
    return text
