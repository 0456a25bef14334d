"""A clock that moves only when it is told to."""

from __future__ import annotations

from placet.errors import UsageError


class FakeClock:
    """A clock that moves only with `advance`, in place of `time.time` or `time.monotonic`. Call it to read
    it.

    >>> clock = FakeClock()
    >>> clock.advance(1.5)
    >>> clock()
    1.5
    """

    def __init__(self, now: float = 0.0) -> None:
        """Create a clock.

        Args:
            now: The time at which it starts, in seconds.
        """
        self.now = now
        """The time in seconds."""

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Move the clock forward.

        Args:
            seconds: By how much.

        Raises:
            UsageError: the number is negative.
        """
        if seconds < 0:
            raise UsageError(f"FakeClock.advance got {seconds}: a clock only runs forwards.")
        self.now += seconds
