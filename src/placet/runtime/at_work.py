"""Whether a runtime is at work, and who may be at the same time.

Keep true:
1. Runs of one runtime overlap in one thread only: its state and its log have no locks.
2. In a folder that is bound, one run at a time is at work.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from placet.errors import UsageError


class AtWork:
    """The runs of one runtime that are under way."""

    def __init__(self, folder: str | None) -> None:
        """`folder` is the one that they are bound to, if they are."""
        self._folder = folder
        self._running = 0
        self._thread = 0

    @property
    def is_busy(self) -> bool:
        """Whether there are any."""
        return self._running > 0

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """Another run, as long as it is under way.

        Raises:
            UsageError: others are, in another thread or in the folder.
        """
        here = threading.get_ident()
        if self._running and self._thread != here:
            raise UsageError(
                "This Runtime is at work in another thread. Use one Runtime per thread, or execute_sync, "
                "which lets callers take turns."
            )
        if self._running and self._folder is not None:
            raise UsageError(
                f"This Runtime is bound to {self._folder} and at work there. One run at a time: wait "
                "for it, or another's work would be taken back with its own."
            )
        self._thread = here
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
