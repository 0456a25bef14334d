"""What the headers of an answer say: when to come again, and how the body is packed.

Keep true:
1. Headers are somebody else's text: what makes no sense counts as not said.
2. Unpacking never makes more bytes than were allowed: a small body may unpack to a large one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import isfinite

from placet.inference.wire.format import Unreadable


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """How many seconds a server wants to be left alone: a number, or the time until a date.

    >>> retry_after({"retry-after-ms": "1500"})
    1.5
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if seconds >= 0 and isfinite(seconds):
            return seconds
    until = _date(headers.get("retry-after", ""))
    if until is None:
        return None
    # By the server's own clock where it tells it: ours may go wrong by more than it wants to wait.
    started = now or _date(headers.get("date", "")) or datetime.now(UTC)
    return max((until - started).total_seconds(), 0.0)


def wants_retry(headers: Mapping[str, str]) -> bool | None:
    """Whether a server says that the same request may succeed; None where it says nothing."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").lower())


def unpacker(encoding: str) -> Callable[[bytes | None, int], bytes]:
    """A function from what comes (None for the end) to what it is, at most that many bytes and one more.

    Raises:
        Unreadable: it is packed in a way that was not asked for, or damaged.
    """
    match encoding.strip().lower():
        case "" | "identity":
            return lambda data, most: data or b""
        case "gzip" | "x-gzip":
            return _gunzip()
        case _:
            raise Unreadable(f"it is packed as '{encoding}', which was not asked for")


def _gunzip() -> Callable[[bytes | None, int], bytes]:
    import zlib

    unpacked = zlib.decompressobj(wbits=31)

    def take(data: bytes | None, most: int) -> bytes:
        try:
            if data is None:
                if not unpacked.eof:
                    raise Unreadable("it is packed, and broke off before its end")
                return b""
            # One more than allowed, so that whoever counts sees that it was too much.
            return unpacked.decompress(data, most + 1)
        except zlib.error as error:
            raise Unreadable(f"it is packed, and damaged: {error}") from None

    return take


def _date(text: str) -> datetime | None:
    # Slow to import, and dates are rare here.
    from email.utils import parsedate_to_datetime

    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
