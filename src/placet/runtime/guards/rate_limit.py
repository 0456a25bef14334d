"""Tools that may start only so often: callers wait their turn, tenant by tenant.

A turn is a moment, handed out in the order of asking; waiting for it is plain sleep. There is no lock,
so nothing ties the limiter to one event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from placet.ir.tool_spec import RateLimit


class RateLimiter:
    """Starts of each tool within a sliding window, for each tenant on its own."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._turns: dict[tuple[str | None, str], tuple[deque[float], float]] = {}
        """Moments handed out, oldest first, and how long each counts."""

    async def acquire(self, tenant: str | None, tool: str, limit: RateLimit) -> None:
        """Return when it is the caller's turn. A caller that is cancelled gives its turn back."""
        now = self._clock()
        key = (tenant, tool)
        if key not in self._turns and len(self._turns) >= 10_000:
            self._forget_idle(now)
        turns, _ = self._turns.get(key, (deque(), 0.0))
        self._turns[key] = (turns, limit.interval_secs)
        while turns and turns[0] + limit.interval_secs <= now:
            turns.popleft()
        turn = now
        if len(turns) >= limit.max_calls:
            turn = max(now, turns[-limit.max_calls] + limit.interval_secs)
        turns.append(turn)
        if turn > now:
            try:
                await asyncio.sleep(turn - now)
            except asyncio.CancelledError:
                if turn in turns:
                    turns.remove(turn)
                raise

    def _forget_idle(self, now: float) -> None:
        for key in [
            k for k, (turns, counts) in self._turns.items() if not turns or turns[-1] + counts <= now
        ]:
            del self._turns[key]
