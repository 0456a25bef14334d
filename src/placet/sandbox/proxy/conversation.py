"""One connection of a command: what it asks for is judged, fetched or tunnelled, and counted.

A connection serves one request or one tunnel. Each side is read only as fast as the other one takes it.

Keep true:
1. Nothing is sent to a host before the filter has passed it; only addresses that it gave are connected to.
2. When `hold` ends, in whatever way, both sockets are closed and no task is left.
3. An answer that was cut off does not look whole to the client.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import chain, zip_longest

import msgspec

from placet.errors import ToolError
from placet.sandbox.hosts import HostFilter, Resolve, plain_host, refused
from placet.sandbox.limits import MIB
from placet.sandbox.proxy.body import Malformed, forward
from placet.sandbox.proxy.client_hello import MOST_BYTES, REFUSAL, NotYet, server_name
from placet.sandbox.proxy.head import Declined, Request, own_answer, read_answer, read_request
from placet.sandbox.proxy.stream import Ended, NotTaken, Stream, TooLong, nothing
from placet.sandbox.proxy.told import Account, ProxyLimits, Told

_MARK = b"\r\n\r\n"
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_MOST_ADDRESSES = 4
_MOST_INTERIM = 20
_PART_S = 2.0
_PART_BYTES = MIB


class House(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for every connection of a command."""

    hosts: HostFilter
    ports: frozenset[int]
    """Which ports a pattern without one stands for."""
    resolve: Resolve | None
    limits: ProxyLimits
    account: Account
    lookups: asyncio.Semaphore


class Conversation:
    """One connection, from its first byte to its end."""

    def __init__(self, sock: socket.socket, house: House) -> None:
        self._house = house
        self._limits = house.limits
        self._client = Stream(sock)
        self._host: Stream | None = None
        self._told: Told | None = None
        self._is_answered = False
        """Whether the client has got the beginning of an answer."""

    async def hold(self) -> None:
        """Serve the client until one of the two sides has ended, or nothing has moved for too long."""
        try:
            request = await self._request()
            if request is not None:
                await self._serve(request)
        except OSError:
            # One of them is gone. The other one has to notice.
            self._client.reset()
        finally:
            self._count()
            self._client.close()
            if self._host is not None:
                self._host.close()

    async def _request(self) -> Request | None:
        try:
            # For the whole head: who sends it byte by byte has no more time than others.
            async with asyncio.timeout(self._limits.idle_s):
                head = await self._client.until(_MARK, self._limits.head_bytes)
            return read_request(head)
        except TimeoutError:
            declined = Declined(408, f"No whole request came within {self._limits.idle_s:g} s.")
        except TooLong:
            declined = Declined(431, f"The head of the request is above {self._limits.head_bytes} bytes.")
        except Ended:
            return None
        except Declined as error:
            declined = error
        await self._decline(declined, None)
        return None

    async def _serve(self, request: Request) -> None:
        try:
            self._host = Stream(await self._connect(request))
            async with asyncio.timeout(self._limits.idle_s) as timer:
                self._client.moved = self._host.moved = partial(self._go_on, timer)
                if request.is_tunnel:
                    await self._tunnel(request, self._host)
                else:
                    await self._exchange(request, self._host)
        except TimeoutError:
            declined = Declined(504, f"Host '{request.host}' sent nothing for {self._limits.idle_s:g} s.")
        except (Ended, TooLong, Malformed):
            declined = Declined(502, f"Host '{request.host}' does not end its answer as HTTP/1 asks for.")
        except ConnectionError as error:
            declined = Declined(502, f"The connection to host '{request.host}' broke ({error.strerror}).")
        except Declined as error:
            declined = error
        else:
            if not request.is_tunnel:
                await self._part()
            return
        await self._decline(declined, request)

    def _go_on(self, timer: asyncio.Timeout) -> None:
        """Something has moved: the time begins anew."""
        if not timer.expired():
            timer.reschedule(asyncio.get_running_loop().time() + self._limits.idle_s)

    # Reaching a host

    async def _connect(self, request: Request) -> socket.socket:
        """A connection to the host that was asked for.

        Raises:
            Declined: it may not be spoken to, or cannot be reached.
        """
        try:
            async with asyncio.timeout(self._limits.connect_s):
                addresses = await self._addresses(request.host, request.port)
                return await self._reach(addresses, request)
        except TimeoutError:
            if self._told is None:
                self._told = self._house.account.note(request.host, request.port, is_allowed=True)
            raise Declined(
                504,
                f"Host '{request.host}:{request.port}' was not reached in {self._limits.connect_s:g} s.",
                reason=f"{request.host} was not reached in time",
            ) from None

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        house = self._house
        try:
            is_open = port in house.ports or house.hosts.names_port(host, port)
            if not is_open and house.hosts.refusal_of_name(host, port) is None:
                ports = " and ".join(map(str, sorted(house.ports)))
                raise refused(f"host '{host}' is allowed with port {ports} only, not with {port}")
            async with house.lookups:
                found = await house.hosts.addresses(host, port, house.resolve)
        except ToolError as error:
            self._told = house.account.note(host, port, is_allowed=error.retry)
            if error.retry:
                # The name may be asked for. It only leads nowhere.
                raise Declined(502, str(error), reason=f"{host} was not found") from None
            raise Declined(403, str(error), reason=f"{host}:{port} is not allowed") from None
        self._told = house.account.note(host, port, is_allowed=True)
        return found

    async def _reach(self, addresses: Sequence[str], request: Request) -> socket.socket:
        loop = asyncio.get_running_loop()
        # Both families get their turn: one of them may lead nowhere on this machine.
        wide = [address for address in addresses if ":" in address]
        narrow = [address for address in addresses if ":" not in address]
        mixed = [each for each in chain(*zip_longest(wide, narrow)) if each is not None][:_MOST_ADDRESSES]
        problem = "it has no address"
        for address in mixed:
            sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
            try:
                sock.setblocking(False)
                async with asyncio.timeout(self._limits.connect_s / len(mixed)):
                    await loop.sock_connect(sock, (address, request.port))
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return sock
            except TimeoutError:
                sock.close()
                problem = ""
            except OSError as error:
                sock.close()
                problem = error.strerror or type(error).__name__
            except BaseException:
                sock.close()
                raise
        if not problem:
            raise TimeoutError
        raise Declined(
            502,
            f"Host '{request.host}:{request.port}' cannot be reached: {problem}.",
            reason=f"{request.host} cannot be reached",
        )

    # A tunnel

    async def _tunnel(self, request: Request, host: Stream) -> None:
        self._is_answered = True
        await self._client.send(_ESTABLISHED)
        async with _tasks() as tasks:
            tasks.create_task(self._out(request, host))
            tasks.create_task(_pump(host, self._client))

    async def _out(self, request: Request, host: Stream) -> None:
        beginning = await self._beginning(request)
        if beginning:
            await host.send(beginning)
        await _pump(self._client, host)

    async def _beginning(self, request: Request) -> bytes:
        """The first bytes of the client, after a look at whom it asks for in TLS."""
        data = b""
        while more := await self._client.some():
            data += more
            try:
                name = server_name(data)
            except NotYet:
                if len(data) < MOST_BYTES:
                    continue
                name = ""
            except ValueError:
                name = ""
            if name is None or self._is_same(name, request):
                return data
            self._house.account.note(plain_host(name) or request.host, request.port, is_allowed=False)
            await self._client.send(REFUSAL)
            await self._part()
            raise Declined(403, "The tunnel is for another name.")
        return data

    def _is_same(self, name: str, request: Request) -> bool:
        plain = plain_host(name)
        if plain is None:
            return False
        return plain == request.host or self._house.hosts.refusal_of_name(plain, request.port) is None

    # A request

    async def _exchange(self, request: Request, host: Stream) -> None:
        await host.send(request.head)
        async with _tasks() as tasks:
            # Both at a time: the answer may come before all of the request was sent, and end it.
            sending = tasks.create_task(self._send_body(request, host))
            await self._send_answer(request, host)
            sending.cancel()

    async def _send_body(self, request: Request, host: Stream) -> None:
        try:
            await forward(self._client, request.body, host)
        except NotTaken:
            # It wants no more. What it says to that is read by `_send_answer`.
            return
        except (Ended, TooLong, Malformed):
            raise Declined(400, "The body of the request does not end as its head says.") from None

    async def _send_answer(self, request: Request, host: Stream) -> None:
        for _ in range(_MOST_INTERIM):
            answer = read_answer(await host.until(_MARK, self._limits.head_bytes), request)
            if not answer.is_interim:
                self._is_answered = True
                await self._client.send(answer.head)
                await forward(host, answer.body, self._client)
                return
            if request.minor:
                await self._client.send(answer.head)
        raise Declined(502, f"Host '{request.host}' sends one interim answer after another.")

    # The end

    async def _decline(self, declined: Declined, request: Request | None) -> None:
        if self._is_answered:
            self._client.reset()
            return
        self._client.moved = nothing
        is_bare = request is not None and request.method == "HEAD"
        await self._client.send(own_answer(declined, is_bare=is_bare))
        await self._part()

    async def _part(self) -> None:
        """Let the client read what it was sent: closing while it still sends would throw that away."""
        self._client.moved = nothing
        self._client.end()
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(_PART_S):
                end = self._client.received_bytes + _PART_BYTES
                while self._client.received_bytes < end and await self._client.some():
                    pass

    def _count(self) -> None:
        if self._told is not None and self._host is not None:
            self._told.sent_bytes += self._host.sent_bytes
            self._told.received_bytes += self._host.received_bytes


async def _pump(source: Stream, target: Stream) -> None:
    while data := await source.some():
        await target.send(data)
    target.end()


@asynccontextmanager
async def _tasks() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group that raises the first failure as it is."""
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
