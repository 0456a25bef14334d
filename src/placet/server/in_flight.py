"""Which requests of a client are under way, and which wait for their turn.

A request is under way until its answer has been written. So a client that asks and never reads keeps no more
of them here than one that does.

Keep true:
1. At most `MOST_AT_ONCE` requests are under way, and what is kept of all requests has a limit too.
2. Requests get their turn in the order in which they came.
3. A request is let go exactly once, however it ended; one that never had its turn is not under way.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

from mcp import types

MOST_AT_ONCE = 64
MOST_WAITING = 1000
"""Requests beyond these are refused: whoever sends so many is not waiting for answers."""
MOST_BYTES = 128 * 1024 * 1024
"""Of all requests under way and waiting, as they came; one request may always be this large."""


class InFlight:
    """The requests of one client."""

    def __init__(self) -> None:
        self._sizes: dict[types.RequestId, list[int]] = {}
        """Of those under way. A client may, wrongly, use an id twice."""
        self._count = 0
        self._bytes = 0
        self._waiting: deque[tuple[types.JSONRPCRequest, int]] = deque()

    def arrive(self, request: types.JSONRPCRequest, size: int) -> Literal["now", "later", "never"]:
        """Whether a request is under way from now on, waits for its turn, or is too much."""
        is_large = self._count > 0 and self._bytes + size > MOST_BYTES
        if is_large or len(self._waiting) >= MOST_WAITING:
            return "never"
        self._bytes += size
        if self._waiting or self._count >= MOST_AT_ONCE:
            self._waiting.append((request, size))
            return "later"
        self._begin(request, size)
        return "now"

    def next(self) -> types.JSONRPCRequest | None:
        """The request whose turn has come; it is under way from now on."""
        if not self._waiting or self._count >= MOST_AT_ONCE:
            return None
        request, size = self._waiting.popleft()
        self._begin(request, size)
        return request

    def end(self, request_id: types.RequestId | None) -> None:
        """One that was under way is answered, or never will be."""
        if request_id is None or request_id not in self._sizes:
            return
        sizes = self._sizes[request_id]
        self._bytes -= sizes.pop()
        self._count -= 1
        if not sizes:
            del self._sizes[request_id]

    def take_back(self, request_id: object) -> bool:
        """Forget a request that waits. False if it does not."""
        for entry in self._waiting:
            request, size = entry
            if str(request.id) == str(request_id):  # As the library compares them.
                self._waiting.remove(entry)
                self._bytes -= size
                return True
        return False

    def _begin(self, request: types.JSONRPCRequest, size: int) -> None:
        self._sizes.setdefault(request.id, []).append(size)
        self._count += 1
