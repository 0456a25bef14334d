"""A proxy for one command: it takes the door that the entrance has opened, and speaks to the allowed hosts.

The door is a listening socket in the network of the sandbox, where only the command can reach it. It is
accepted on here, in the host process, where the hosts are. Nothing else leads out of that network.

HTTP only knows a host by its name. In a tunnel (CONNECT, all of https) the name that the client says first in
TLS is looked at too; what is inside stays between the client and the host.

Keep true:
1. What comes through the control socket is not trusted: it is a listening TCP socket, or is not used.
2. When `close` returns, no task and no descriptor is left.
3. What a command can make us hold is bounded: connections, heads, chunks, entries.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Collection, Sequence
from functools import partial
from types import TracebackType
from typing import Literal

import msgspec

from placet.errors import UsageError
from placet.sandbox.compiled import INTERPRETER, code_of
from placet.sandbox.entrance import DOOR, NO_DOOR, NO_PROGRAM
from placet.sandbox.hosts import HostFilter, Resolve
from placet.sandbox.proxy.conversation import Conversation, House
from placet.sandbox.proxy.told import Account, ProxyLimits, Told

_DEFAULT = ProxyLimits()
_PORTS = (80, 443)
_START = (
    "import marshal, sys; names = {'__name__': 'entrance'}; "
    "exec(marshal.load(open(int(sys.argv[1]), 'rb', closefd=False)), names); names['main']()"
)
_PAUSE_S = 0.1
"""Before accepting again when that failed, most often because too many descriptors are open."""
_FAILURE_BYTES = 5
_CLOEXEC: int = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class Failure(msgspec.Struct, frozen=True):
    """Why the entrance did not become the command."""

    what: Literal["door", "program"]
    """The network inside could not be had, or the program."""
    number: int
    """The errno."""


class Proxy:
    """Lets one sandboxed command reach the hosts that a filter passes.

    A pattern of the filter without a port stands for `ports` only. Use it around the command:

        async with Proxy(hosts) as proxy:
            ...  # Run proxy.entrance(argv) inside the sandbox, with proxy.entrance_fd open in it.
        if proxy.failure is not None:
            ...  # It never became the program.
    """

    def __init__(
        self,
        hosts: HostFilter,
        *,
        ports: Collection[int] = _PORTS,
        resolve: Resolve | None = None,
        limits: ProxyLimits = _DEFAULT,
    ) -> None:
        self.failure: Failure | None = None
        """Set if the command was never started. Certain when the proxy is closed."""
        self.is_entered = False
        """Whether the door has come: if not, not even the entrance was started."""
        self.entrance_fd = -1
        """The end of the control socket that the entrance must have open, under this number."""
        self._is_used = False
        self._account = Account()
        self._house = House(
            hosts=hosts,
            ports=frozenset(ports),
            resolve=resolve,
            limits=limits,
            account=self._account,
            lookups=asyncio.Semaphore(limits.lookups),
        )
        self._control: socket.socket | None = None
        self._theirs: socket.socket | None = None
        self._door: socket.socket | None = None
        self._heard = bytearray()
        self._talks: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._bugs: list[BaseException] = []

    @property
    def told(self) -> list[Told]:
        """What the command had to do with each host; complete when the proxy is closed."""
        return self._account.told

    @property
    def untold(self) -> int:
        """Connections that are missing there, because there were too many different hosts."""
        return self._account.untold

    def entrance(self, argv: Sequence[str]) -> list[str]:
        """The program to start inside the sandbox instead of `argv`, which it becomes.

        Raises:
            UsageError: the proxy is not open, or this was called before: each command has its own proxy.
        """
        if self._control is None:
            raise UsageError("Proxy.entrance: the proxy is not open. Call it inside `async with proxy`.")
        if self._is_used:
            raise UsageError("Proxy.entrance: it was called already. Make one proxy for each command.")
        self._is_used = True
        return [INTERPRETER, "-I", "-S", "-X", "utf8", "-c", _START, str(self.entrance_fd), *argv]

    async def __aenter__(self) -> Proxy:
        self._loop = asyncio.get_running_loop()
        self._control, self._theirs = socket.socketpair()
        self.entrance_fd = self._theirs.fileno()
        self._control.setblocking(False)
        # It is far smaller than what a socket holds, so this waits for nobody.
        self._control.send(code_of("placet.sandbox.entrance"))
        self._loop.add_reader(self._control, self._hear)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End every conversation and leave nothing open. Does nothing the second time."""
        if self._control is None or self._theirs is None:
            return
        # Closed first: what is heard now is all there will ever be.
        self._theirs.close()
        while self._hear():
            pass
        self._loop.remove_reader(self._control)
        self._control.close()
        self._control = self._theirs = None
        self.entrance_fd = -1
        self._close_door()
        talks = list(self._talks)
        for task in talks:
            task.cancel()
        is_cancelled = False
        while any(not task.done() for task in talks):
            try:
                await asyncio.wait(talks)
            except asyncio.CancelledError:
                # Told to end while ending: that is what is being done.
                is_cancelled = True
        if is_cancelled:
            raise asyncio.CancelledError
        if self._bugs:
            raise self._bugs[0]

    def _hear(self) -> bool:
        """Read once from the control socket; whether there may be more now."""
        assert self._control is not None
        numbers: list[int] = []
        try:
            data, numbers, _, _ = socket.recv_fds(self._control, 64, 4, _CLOEXEC)
        except BlockingIOError:
            return False
        except ConnectionError:
            # The other side has ended without reading its code.
            data = b""
        for number in numbers:
            self._take(number)
        if not data:
            self._loop.remove_reader(self._control)
            return False
        # Nobody has more to tell than that.
        self._heard = (self._heard + data)[: len(DOOR) + _FAILURE_BYTES]
        rest = bytes(self._heard.removeprefix(DOOR))
        if len(rest) == _FAILURE_BYTES and rest[:1] in (NO_DOOR, NO_PROGRAM):
            what: Literal["door", "program"] = "door" if rest[:1] == NO_DOOR else "program"
            self.failure = Failure(what, int.from_bytes(rest[1:], "big"))
        return True

    def _take(self, number: int) -> None:
        os.set_inheritable(number, False)
        try:
            door = socket.socket(fileno=number)
        except OSError:
            os.close(number)
            return
        is_door = (
            door.family == socket.AF_INET
            and door.type == socket.SOCK_STREAM
            and door.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        )
        if not is_door or self._door is not None:
            door.close()
            return
        door.setblocking(False)
        self._door = door
        self.is_entered = True
        self._listen()

    def _listen(self) -> None:
        """Accept, if there is a door and room for one more."""
        if self._door is not None and len(self._talks) < self._house.limits.connections:
            self._loop.add_reader(self._door, self._accept)

    def _accept(self) -> None:
        assert self._door is not None
        try:
            sock, _ = self._door.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:
            self._loop.remove_reader(self._door)
            self._pause = self._loop.call_later(_PAUSE_S, self._listen)
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(Conversation(sock, self._house).hold())
        self._talks.add(task)
        task.add_done_callback(partial(self._ended, sock))
        if len(self._talks) >= self._house.limits.connections:
            # More wait in the door until one of these has ended.
            self._loop.remove_reader(self._door)

    def _ended(self, sock: socket.socket, task: asyncio.Task[None]) -> None:
        # A task that was cancelled before its first step has closed nothing.
        sock.close()
        self._talks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._bugs.append(error)
        self._listen()

    def _close_door(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        if self._door is not None:
            self._loop.remove_reader(self._door)
            self._door.close()
            self._door = None
