"""Ctrl-C and SIGTERM while something runs: the first asks it to stop, the second leaves at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from placet.ir.stop_cause import StopCause

if TYPE_CHECKING:
    from placet.tools.context import Cancel

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """Listens for signals in the event loop that runs, until the block ends.

    The second signal ends the process as it would without us: it is for those who cannot wait.
    """

    def __init__(
        self, cancel: Cancel | None = None, say: Callable[[str], object] | None = None, *, hard: bool = True
    ) -> None:
        """On the first signal `say` gets its name, and then `cancel` is requested."""
        self._cancel = cancel
        self._say = say
        self._hard = hard
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
        if self._say is not None:
            self._say(number.name)
        if self._cancel is not None:
            self._cancel.cancel(f"stopped by {number.name}", hard=self._hard, cause=StopCause.SIGNAL)

    def __exit__(self, *_: object) -> None:
        for number in _NUMBERS:
            self._loop.remove_signal_handler(number)
