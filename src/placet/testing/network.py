"""A guard for tests: while it is on, no socket of this process leaves loopback.

It stands where the interpreter reports what it is about to do (`sys.addaudithook`), so it sees every socket
that is made in Python: in any thread, by asyncio, by a library. It does not see what C code does by itself
(the sockets of a database driver), nor other processes, unless they were forked while it was on. A socket
that is connected to a name rather than to an address has looked the name up before it is refused.

Keep true:
1. A hook can never be taken out again, so there is one per process, and none before the first guard goes on.
2. Of several guards that are on, each must agree: an inner one never opens what an outer one closed.
3. It needs nothing of Placet, and nothing slow until a socket is used: a child may load this file alone.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from typing import Any

_SENDS = {"socket.connect": "connect", "socket.sendto": "send", "socket.sendmsg": "send"}
_LOOKUPS = {"socket.getaddrinfo", "socket.gethostbyname"}
_LOOKUPS_BY_NUMBER = {"socket.gethostbyaddr", "socket.getnameinfo"}


class NetworkRefused(AssertionError):
    """Raised when a socket tries to leave loopback while a guard is active.

    It is not an `OSError`, so that code that retries or falls back when a connection fails does not hide it.
    """

    def __init__(self, what: str) -> None:
        """Create the error.

        Args:
            what: The attempt that was refused, such as "connect to 192.0.2.1".
        """
        self.what = what
        """The attempt that was refused, such as "connect to 192.0.2.1"."""
        super().__init__(
            f"{what}: refused, since a network guard is on. Use a server on 127.0.0.1, or name the address: "
            "no_network(allow=[...])."
        )


class NetworkGuard:
    """Context manager that refuses every connection that leaves this machine, in every thread.

    Unix sockets, 127.0.0.0/8, ::1 and the name `localhost` are allowed.

    >>> import socket
    >>> with NetworkGuard() as guard:
    ...     try:
    ...         socket.create_connection(("192.0.2.1", 80))
    ...     except NetworkRefused as refused:
    ...         print(refused.what)
    connect to 192.0.2.1
    >>> guard.refused
    ['connect to 192.0.2.1']
    """

    def __init__(self, allow: Iterable[str] = ()) -> None:
        """Create a guard; it becomes active with `with`.

        Args:
            allow: Further addresses, networks such as "10.0.0.0/8", or host names. Names are looked up once,
                when the guard becomes active.
        """
        self.refused: list[str] = []
        """The attempts that this guard refused, oldest first; filled even if the exception was swallowed."""
        self._allow = tuple(allow)
        self._names: set[str] = {"localhost"}
        self._networks: list[Any] = []

    def __enter__(self) -> NetworkGuard:
        """Activate the guard.

        Raises:
            OSError: a name in `allow` cannot be looked up.
        """
        global _on, _hooked
        for place in self._allow:
            self._add(place)
        with _lock:
            if not _hooked:
                sys.addaudithook(_look)
                _hooked = True
            _on = (*_on, self)
        return self

    def __exit__(self, *_: object) -> None:
        global _on
        with _lock:
            _on = tuple(guard for guard in _on if guard is not self)

    def reaches(self, host: str) -> bool:
        """Return whether a host may be contacted.

        Args:
            host: Name or address.
        """
        address = _address(host)
        if address is None:
            return host.lower() in self._names
        return address.is_loopback or any(address in network for network in self._networks)

    def _add(self, place: str) -> None:
        import ipaddress
        import socket

        try:
            self._networks.append(ipaddress.ip_network(place))
        except ValueError:
            found = {entry[4][0] for entry in socket.getaddrinfo(place, None)}
            self._networks.extend(ipaddress.ip_network(_address(str(host))) for host in found)
            self._names.add(place.lower())


_on: tuple[NetworkGuard, ...] = ()
"""The guards that are on, outermost first. Replaced as a whole: the hook reads it without a lock."""
_lock = threading.Lock()
_hooked = False


def no_network(allow: Iterable[str] = ()) -> NetworkGuard:
    """Create a `NetworkGuard`, for use with `with`.

    Takes the arguments of `NetworkGuard`.
    """
    return NetworkGuard(allow)


def _look(event: str, given: tuple[Any, ...]) -> None:
    """Called by the interpreter before it does what it reports, which raising stops."""
    if not _on or not event.startswith("socket."):
        return
    if event in _SENDS:
        sender, address = given
        _judge_send(_SENDS[event], sender, address)
    elif event in _LOOKUPS:
        # A number asks nobody; whether it may be reached is asked when something is sent there.
        if _address(name := _text(given[0])) is None:
            _judge(name, f"look up {name}")
    elif event in _LOOKUPS_BY_NUMBER:
        host = given[0][0] if isinstance(given[0], tuple) else given[0]
        _judge(_text(host), f"look up {_text(host)}")


def _judge_send(verb: str, sender: Any, address: Any) -> None:
    import socket

    # Without an address it goes where the socket was connected to, and that was judged.
    if address is None or sender.family == socket.AF_UNIX:
        return
    if sender.family in (socket.AF_INET, socket.AF_INET6):
        host = _text(address[0])
        _judge(host, f"{verb} to {host}")
    else:
        _refuse(_on[-1:], f"{verb} by {sender.family!r}")


def _judge(host: str, what: str) -> None:
    # No host stands for this machine: it is what a server listens on.
    if host:
        _refuse(tuple(guard for guard in _on if not guard.reaches(host)), what)


def _refuse(guards: tuple[NetworkGuard, ...], what: str) -> None:
    """The innermost of them notes it: what a test expects is not held against the run around it."""
    if guards:
        guards[-1].refused.append(what)
        raise NetworkRefused(what)


def _text(host: Any) -> str:
    if isinstance(host, bytes | bytearray):
        return bytes(host).decode("ascii", "replace")
    return "" if host is None else str(host)


def _address(host: str) -> Any:
    """The address that a text spells, as IPv4 if it is one in the clothes of IPv6; None for a name."""
    import ipaddress

    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
