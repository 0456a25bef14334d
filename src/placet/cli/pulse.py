"""A sign of life while a model is asked and nothing comes: who is asked, and for how long already.

Keep true:
1. On a terminal it is one line that is taken away again before anything else is written.
2. Elsewhere it is one line for each time that the model is asked, and only if that takes long.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from placet.safe_text import clean

_LOOK_EVERY_S = 0.5
_SOON_S = 2.0
"""On a terminal: shorter pauses are none."""
_LATE_S = 20.0
"""Where nobody watches the line change."""
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


class Pulse:
    """Says that something is still going on."""

    def __init__(self, write: Callable[[str], None], *, is_terminal: bool, is_dim: bool) -> None:
        self._write = write
        self._is_terminal = is_terminal
        self._is_dim = is_dim
        self.model = "the model"
        self._since: float | None = None
        """When the model was asked; None while it is not."""
        self._word = "asking"
        self._shown = 0
        """Columns that are to be taken away."""
        self._is_told = False

    def ask(self, now: float | None = None) -> None:
        """The model is asked from now on."""
        self.stop()
        self._since = time.monotonic() if now is None else now
        self._word, self._is_told = "asking", False

    def think(self) -> None:
        """It thinks aloud, which nobody is shown."""
        self._word = "thinking:"

    def stop(self) -> None:
        """Something has come."""
        self._since = None
        self.clear()

    def clear(self) -> None:
        """Take the line away, so that something else can be written."""
        if self._shown:
            self._write(f"\r{' ' * self._shown}\r")
            self._shown = 0

    def look(self, now: float) -> None:
        """Say what there is to say at that moment."""
        if self._since is None:
            return
        passed = now - self._since
        line = clean(f"{self._word} {self.model}, {passed:.0f} s", 78)
        if self._is_terminal:
            if passed < _SOON_S:
                return
            self.clear()
            self._shown = len(line) + 1  # Some characters are two columns wide: that is one too few at most.
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


def to_stderr(text: str) -> None:
    """Write without an end of the line."""
    with suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()
