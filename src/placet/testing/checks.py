"""Comparisons and races that the checks of the suites share."""

from __future__ import annotations

import threading
from collections.abc import Callable


def same(actual: object, expected: object, what: str) -> None:
    """Raise AssertionError unless both are the same, in value and in type."""
    # repr tells 1 from True and 1.0, and -0.0 from 0.0, which == does not.
    if actual != expected or repr(actual) != repr(expected):
        raise AssertionError(f"{what}: got {actual!r:.300}, expected {expected!r:.300}")


def at_once(count: int, work: Callable[[int], None]) -> None:
    """Call `work` with each number below `count`, in as many threads that begin together."""
    start = threading.Barrier(count)

    def begin(number: int) -> None:
        start.wait()
        work(number)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
