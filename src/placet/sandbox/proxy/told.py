"""What a proxy allows a command to use, and what it tells of it afterwards."""

from __future__ import annotations

import msgspec

from placet.sandbox.limits import KIB

MOST_TOLD = 200


class ProxyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one command may use of its proxy."""

    connections: int = 64
    """At a time. More wait until one ends."""
    head_bytes: int = 32 * KIB
    """Of a request's or an answer's head."""
    idle_s: float = 60.0
    """Without a byte in either direction. Also the time for a whole head of a request."""
    connect_s: float = 10.0
    """For looking a host up and reaching it."""
    lookups: int = 4
    """At a time: they occupy threads that the host process needs for other things too."""


class Told(msgspec.Struct, kw_only=True):
    """What a command had to do with one host."""

    host: str
    port: int
    is_allowed: bool
    connections: int = 0
    sent_bytes: int = 0
    """To the host."""
    received_bytes: int = 0


class Account:
    """Keeps one entry for each host, port and verdict, and no more than `MOST_TOLD`."""

    def __init__(self) -> None:
        self.untold = 0
        """Connections that are in no entry, because there are too many entries already."""
        self._entries: dict[tuple[str, int, bool], Told] = {}

    @property
    def told(self) -> list[Told]:
        return list(self._entries.values())

    def note(self, host: str, port: int, *, is_allowed: bool) -> Told:
        """The entry that a connection is counted in."""
        key = (host, port, is_allowed)
        entry = self._entries.get(key)
        if entry is None:
            entry = Told(host=host, port=port, is_allowed=is_allowed)
            if len(self._entries) < MOST_TOLD:
                self._entries[key] = entry
            else:
                # A command can make up as many names as it likes.
                self.untold += 1
        entry.connections += 1
        return entry
