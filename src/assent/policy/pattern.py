"""Names with a star: `shell` means shell and nothing else, `shell*` means a family."""

from __future__ import annotations

import re
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
    compiled = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    return lambda name: compiled.fullmatch(name) is not None


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns fits the name."""
    return any(name_pattern(p)(name) for p in patterns)
