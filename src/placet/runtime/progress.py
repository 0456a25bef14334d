"""How far a running tool has come, told often enough to watch and seldom enough to keep.

Keep true:
1. A tool may report from any thread and as often as it likes: the log gets at most one event for each
   `EVERY_S`, always the newest.
2. What was reported last before a call ended is told, also if one was told just before; nothing after.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import suppress
from threading import Lock

from placet.ir.json_value import JsonValue
from placet.truncation import truncate

EVERY_S = 0.1
LONGEST = 500
"""Characters of a message that are kept."""


class Progress:
    """The reports of one call."""

    __slots__ = ("_has_ended", "_lock", "_loop", "_newest", "_not_before", "_note")

    def __init__(self, loop: AbstractEventLoop, note: Callable[[dict[str, JsonValue]], None]) -> None:
        self._loop = loop
        self._note = note
        self._lock = Lock()
        self._newest: dict[str, JsonValue] | None = None
        self._not_before = 0.0
        self._has_ended = False

    def __call__(self, message: str, done: float | None, total: float | None) -> None:
        """Take a report, from any thread."""
        data: dict[str, JsonValue] = {"message": truncate(message, LONGEST)}
        if done is not None:
            data["done"] = done
        if total is not None:
            data["total"] = total
        with self._lock:
            is_planned = self._newest is not None
            self._newest = data
        if not is_planned:
            with suppress(RuntimeError):  # The loop may have gone, and with it whoever listened.
                self._loop.call_soon_threadsafe(self._tell)

    def end(self) -> None:
        """Tell what is still to be told, and nothing more."""
        self._tell_newest()
        self._has_ended = True

    def _tell(self) -> None:
        if self._loop.time() < self._not_before:
            self._loop.call_at(self._not_before, self._tell)
        else:
            self._tell_newest()

    def _tell_newest(self) -> None:
        with self._lock:
            newest, self._newest = self._newest, None
        if newest is not None and not self._has_ended:
            self._not_before = self._loop.time() + EVERY_S
            self._note(newest)
