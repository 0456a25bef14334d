"""A sign of life during a wait: what is waited for, and for how long already.

Keep true:
1. On a terminal it is one line that is there within two seconds, and is taken away again before anything
   else is written.
2. Elsewhere it is one line for each wait, and only if that takes long.
3. While a person is asked something it is quiet.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from placet.safe_text import clean

_LOOK_EVERY_S = 0.2
_SOON_S = 1.6
"""On a terminal: shorter pauses are none."""
_LATE_S = 20.0
"""Where nobody watches the line change."""
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


class Pulse:
    """Says that something is still going on. It may be looked at from another thread than it is told from."""

    def __init__(self, write: Callable[[str], None], *, is_terminal: bool, is_dim: bool) -> None:
        self._write = write
        self._is_terminal = is_terminal
        self._is_dim = is_dim
        self.model = "the model"
        self.is_to_load = False
        """Whether the model is loaded before it answers for the first time."""
        self._since: float | None = None
        """When the wait began; None while nothing is waited for."""
        self._word = "asking"
        self._what = ""
        """What is waited for, where it is not the model."""
        self._shown = 0
        """Columns that are to be taken away."""
        self._is_told = False
        self._pauses = 0
        self._lock = threading.RLock()

    def ask(self, now: float | None = None) -> None:
        """The model is asked from now on."""
        self.wait("", now)
        self._word = "loading and asking" if self.is_to_load else "asking"
        self.is_to_load = False

    def think(self) -> None:
        """It thinks aloud, which nobody is shown."""
        self._word = "thinking:"

    def wait(self, what: str, now: float | None = None) -> None:
        """From now on this is waited for."""
        with self._lock:
            self.stop()
            self._since = time.monotonic() if now is None else now
            self._what, self._is_told = what, False

    def stop(self) -> None:
        """Something has come."""
        with self._lock:
            self._since = None
            self.clear()

    def clear(self) -> None:
        """Take the line away, so that something else can be written."""
        with self._lock:
            if self._shown:
                self._write(f"\r{' ' * self._shown}\r")
                self._shown = 0

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Be quiet: a person is asked something."""
        with self._lock:
            self._pauses += 1
            self.clear()
        try:
            yield
        finally:
            with self._lock:
                self._pauses -= 1

    def look(self, now: float) -> None:
        """Say what there is to say at that moment."""
        with self._lock:
            if self._since is None or self._pauses:
                return
            passed = now - self._since
            line = clean(f"{self._what or f'{self._word} {self.model}'}, {passed:.0f} s", 78)
            if self._is_terminal:
                if passed < _SOON_S:
                    return
                self.clear()
                # Some characters are two columns wide: that is one too few at most.
                self._shown = len(line) + 1
                self._write(f"{_DIM}{line}{_PLAIN}" if self._is_dim else line)
            elif passed >= _LATE_S and not self._is_told:
                self._is_told = True
                self._write(f"{line} so far\n")

    @asynccontextmanager
    async def beating(self) -> AsyncIterator[None]:
        """Look at the clock all the while."""
        beat = asyncio.get_running_loop().create_task(self._beat())
        try:
            yield
        finally:
            self.stop()
            beat.cancel()
            with suppress(asyncio.CancelledError):
                await beat

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            self.look(time.monotonic())


@contextmanager
def beating_aside(pulse: Pulse) -> Iterator[None]:
    """Look at the clock from a thread, as long as this lasts: for waits in which no event loop turns."""
    is_over = threading.Event()

    def beat() -> None:
        while not is_over.wait(_LOOK_EVERY_S):
            pulse.look(time.monotonic())

    thread = threading.Thread(target=beat, daemon=True, name="placet-pulse")
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        pulse.stop()


def pulse_of_stderr() -> Pulse:
    """A pulse that suits where stderr goes."""
    return Pulse(to_stderr, is_terminal=sys.stderr.isatty(), is_dim=has_colour())


def has_colour() -> bool:
    """Whether what is said on stderr may be dimmed."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def to_stderr(text: str) -> None:
    """Write without an end of the line."""
    with suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()
