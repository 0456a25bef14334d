"""Names with a star: `shell` means shell and nothing else, `shell*` means a family."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache


@lru_cache(maxsize=4096)
def name_pattern(pattern: str) -> Callable[[str], bool]:
    """A test for names. Only `*` is special, and it stands for any text.

    >>> name_pattern("shell")("shell_exec"), name_pattern("shell*")("shell_exec")
    (False, True)
    """
    if "*" not in pattern:
        return pattern.__eq__
    first, *middle, last = pattern.split("*")
    least = len(first) + len(last)

    def fits(name: str) -> bool:
        # No regular expression: stars in a row would make one slow, and names come from outside.
        if len(name) < least or not name.startswith(first) or not name.endswith(last):
            return False
        at, end = len(first), len(name) - len(last)
        for part in middle:
            at = name.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True

    return fits


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns fits the name."""
    return any(name_pattern(p)(name) for p in patterns)
