"""Answers of tools that declare how long an answer stays good."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from placet.ir.json_value import JsonValue, copy_json
from placet.runtime.guards.idempotency import CallKey


class ResultCache:
    """Outputs by tenant, tool and parameters, each until its time is over. Bounded."""

    def __init__(self, clock: Callable[[], float], limit: int = 10_000) -> None:
        self._clock = clock
        self._limit = limit
        self._entries: OrderedDict[CallKey, tuple[float, JsonValue]] = OrderedDict()

    def get(self, key: CallKey) -> tuple[JsonValue] | None:
        """A one-tuple with the output (which may be null), or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self._clock() >= entry[0]:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return (copy_json(entry[1]),)

    def put(self, key: CallKey, output: JsonValue, ttl_s: float) -> None:
        """Remember an output for so many seconds."""
        # A copy in and a copy out: whoever holds a result may change it without changing the next one.
        self._entries[key] = (self._clock() + ttl_s, copy_json(output))
        self._entries.move_to_end(key)
        while len(self._entries) > self._limit:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
