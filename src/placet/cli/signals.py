"""Ctrl-C and SIGTERM while something runs: the first asks it to stop, the second leaves at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Self

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """Listens for signals in the event loop that runs, until the block ends.

    The second signal ends the process as it would without us: it is for those who cannot wait.
    """

    def __init__(self, stop: Callable[[str], None]) -> None:
        """`stop` gets the name of the first signal."""
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._before = {number: signal.getsignal(number) or signal.SIG_DFL for number in _NUMBERS}
        self.by = 0
        """The number of the signal that has come; 0 if none has."""

    def __enter__(self) -> Self:
        for number in _NUMBERS:
            self._loop.add_signal_handler(number, self._hear, number)
        return self

    def _hear(self, number: signal.Signals) -> None:
        self.by = int(number)
        for each, handler in self._before.items():
            self._loop.remove_signal_handler(each)
            signal.signal(each, signal.default_int_handler if each == signal.SIGINT else handler)
        self._stop(number.name)

    def __exit__(self, *_: object) -> None:
        for number in _NUMBERS:
            self._loop.remove_signal_handler(number)
