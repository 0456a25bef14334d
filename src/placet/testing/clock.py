"""A clock that moves only when it is told to."""

from __future__ import annotations

from placet.errors import UsageError


class FakeClock:
    """Stands in for `time.time` or `time.monotonic` wherever a clock is handed in.

    >>> clock = FakeClock()
    >>> clock.advance(1.5)
    >>> clock()
    1.5
    """

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        """Seconds."""

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            UsageError: clocks do not run backwards.
        """
        if seconds < 0:
            raise UsageError(f"FakeClock.advance got {seconds}: a clock only runs forwards.")
        self.now += seconds
