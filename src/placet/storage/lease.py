"""Leases: which process works on something, whether it is alive, and whether it is asked to stop.

A lease ends by itself after a while without a renewal. On the machine of its holder nobody has to wait for
that: a process that has died holds nothing. Each claim raises the fencing number, so that a holder which lost
its lease without noticing can change nothing any more.

Keep true:
1. A fencing number is given once. Whoever writes under an older one is refused.
2. A request to stop belongs to the work, not to its holder: it outlasts a release and a new claim, until the
   work has stopped because of it. The first one stands.
3. Renewals come from a thread: an event loop may be kept busy for longer than a lease lasts.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from functools import cache
from typing import NamedTuple, Protocol
from weakref import WeakSet

import msgspec
from msgspec.structs import replace

from placet.errors import PlacetError
from placet.ir.stop_cause import StopCause
from placet.storage.transaction import Transaction, Value, searchable

_encode = msgspec.json.Encoder().encode

LEASE_S = 30.0
"""How long a lease lasts without a renewal."""


class StopRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to stop work, from whatever process."""

    reason: str
    """Why, in words."""
    cause: StopCause = StopCause.PERSON
    """Why, as a value."""


class Holder(msgspec.Struct, frozen=True):
    """A process, named so that it is never taken for another one, not even for one with its number."""

    host: str
    pid: int
    boot: str = ""
    """Which start of the machine; empty where the system does not say."""
    space: str = ""
    """Which numbering of processes; empty where the system does not say."""
    started: str = ""
    """When the process began, in the system's own counting."""
    token: str = ""
    """Tells apart what one process holds twice."""

    @property
    def words(self) -> str:
        """For people."""
        here = holder("")
        place = "" if self.host == here.host else f" on {self.host}"
        return f"process {self.pid}{place}"


def holder(token: str) -> Holder:
    """This process."""
    pid = os.getpid()
    return Holder(socket.gethostname(), pid, boot_id(), _space(), _started(pid), token)


def is_dead(other: Holder) -> bool:
    """Whether that process is surely gone. False where it cannot be known from here."""
    here = holder("")
    if other.host != here.host or not other.boot or other.boot != here.boot:
        # Another start of the machine may be another machine of the same name. Its hold will run out.
        return False
    return other.space == here.space and _started(other.pid) != other.started


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The lease of one piece of work, as it is stored."""

    fence: int = 0
    """Fencing number; goes up with each claim."""
    holder: Holder | None = None
    """The process that claimed it; `None` if it was released."""
    until: float = 0.0
    """When it ends without a renewal, by the clock of the store."""
    stop: StopRequest | None = None
    """The request to stop, if somebody made one."""

    def is_held(self, now: float) -> bool:
        """Whether a process that may be alive holds it."""
        return self.holder is not None and now < self.until and not is_dead(self.holder)

    def claimed(self, me: Holder, now: float, lease_s: float) -> Lease:
        """The lease once it is ours. Whether it may be is for `is_held` to say."""
        return replace(self, fence=self.fence + 1, holder=me, until=now + lease_s)

    def renewed(self, now: float, lease_s: float) -> Lease:
        """The lease, held for a while longer."""
        return replace(self, until=now + lease_s)

    def released(self) -> Lease:
        """The lease without a holder."""
        return replace(self, holder=None, until=0.0)

    def asked_to_stop(self, request: StopRequest) -> Lease:
        """The lease with a request to stop."""
        return self if self.stop is not None else replace(self, stop=request)


class LeaseTable(NamedTuple):
    """The leases of the rows of a table, in its columns `hold`, `holder`, `held_until` and `stop`."""

    table: str
    key: str
    """Column by which a row is named."""

    def get(self, t: Transaction, name: str) -> Lease | None:
        """The lease of a row."""
        rows = t.execute(
            f"SELECT hold, holder, held_until, stop FROM {self.table} WHERE {self.key} = ?", (name,)
        )
        return read_lease(*rows[0]) if rows else None

    def lock(self, t: Transaction, name: str) -> Lease | None:
        """The same, and nobody else comes between until the transaction ends."""
        # The row is locked by changing it: on Postgres a read would let two in.
        t.execute(f"UPDATE {self.table} SET hold = hold WHERE {self.key} = ?", (name,))
        return self.get(t, name)

    def put(self, t: Transaction, name: str, lease: Lease) -> None:
        """Store the lease of a row."""
        t.execute(
            f"UPDATE {self.table} SET hold = ?, holder = ?, held_until = ?, stop = ? WHERE {self.key} = ?",
            (*lease_values(lease), name),
        )

    def is_ours(self, t: Transaction, name: str, fence: int) -> bool:
        """Whether nobody has claimed it since, nor can until the transaction ends."""
        # Shared with nobody who wants to claim it: they wait for us, or we see that they have it.
        lock = " FOR SHARE" if t.dialect == "postgres" else ""
        rows = t.execute(f"SELECT hold FROM {self.table} WHERE {self.key} = ?{lock}", (name,))
        return bool(rows) and rows[0][0] == fence

    def renew(self, t: Transaction, name: str, lease_s: float) -> None:
        """Hold it for a while longer."""
        t.execute(f"UPDATE {self.table} SET held_until = ? WHERE {self.key} = ?", (t.now() + lease_s, name))

    def release(self, t: Transaction, name: str) -> None:
        """Hold it no longer."""
        t.execute(f"UPDATE {self.table} SET holder = NULL, held_until = 0 WHERE {self.key} = ?", (name,))

    def request_stop(self, t: Transaction, name: str, request: StopRequest) -> bool:
        """Ask whoever holds it, now or later, to stop; whether there is such a row."""
        lease = self.lock(t, name)
        if lease is not None:
            self.put(t, name, lease.asked_to_stop(request))
        return lease is not None

    def drop_stop(self, t: Transaction, name: str) -> None:
        """The request to stop has done what it was for."""
        t.execute(f"UPDATE {self.table} SET stop = NULL WHERE {self.key} = ?", (name,))


def lease_values(lease: Lease) -> tuple[Value, Value, Value, Value]:
    """The columns of a lease."""
    holder = _encode(lease.holder).decode() if lease.holder is not None else None
    stop = lease.stop
    if stop is not None:
        stop = replace(stop, reason=searchable(stop.reason))
    return lease.fence, holder, lease.until, _encode(stop).decode() if stop is not None else None


def read_lease(fence: int, held_by: str | None, until: float, stop: str | None = None) -> Lease:
    """A lease from its columns."""
    return Lease(
        fence=fence,
        holder=_holder(held_by),
        until=until,
        stop=_request(stop),
    )


def _holder(text: str | None) -> Holder | None:
    """Who holds something; somebody unknown where that cannot be read."""
    try:
        return msgspec.json.decode(text, type=Holder) if text is not None else None
    except msgspec.DecodeError:
        return Holder("?", 0)


def _request(text: str | None) -> StopRequest | None:
    """The request to stop; one that cannot be read is one."""
    try:
        return msgspec.json.decode(text, type=StopRequest) if text is not None else None
    except msgspec.DecodeError:
        return StopRequest(reason="a request to stop it cannot be read")


class Renewable(Protocol):
    """Something that is held for a while longer when it is asked."""

    def renew(self) -> None: ...


class Renewals:
    """Renews what is held here, from a thread of its own."""

    def __init__(self, lease_s: float) -> None:
        self._every_s = lease_s / 3
        self._held: WeakSet[Renewable] = WeakSet()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def add(self, held: Renewable) -> None:
        """Renew it from now on, as long as somebody refers to it."""
        with self._lock:
            self._held.add(held)
        if self._thread is None:
            self._thread = threading.Thread(target=self._renew, name="placet-lease", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Renew nothing any more."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _renew(self) -> None:
        while not self._closed.wait(self._every_s):
            with self._lock:
                held = list(self._held)
            for each in held:
                # What cannot be renewed now may be the next time; a lease outlasts two of them.
                with suppress(PlacetError):
                    each.renew()
            del held


@cache
def boot_id() -> str:
    """Which start of the machine this is; empty where the system does not say."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    return ""


def _space() -> str:
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def _started(pid: int) -> str:
    """When a process began; empty if it is gone, or dead and not yet buried."""
    with suppress(OSError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
        # The name of the program comes first, in brackets, and may hold anything.
        fields = file.read().rpartition(b")")[2].split()
        return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
    return ""
