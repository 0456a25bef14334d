"""A command in a network of its own reaches the allowed hosts, through the proxy, and nothing else."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import UsageError
from placet.sandbox.command import run_command
from placet.sandbox.hosts import HostFilter
from placet.sandbox.proxy import Failure, Proxy, ProxyLimits
from placet.sandbox.proxy.client_hello import REFUSAL, NotYet, server_name
from placet.sandbox.proxy.head import Declined, Request, read_answer, read_request
from placet.sandbox.proxy.stream import Stream
from tests.sandbox.programs import own_children, own_descriptors

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Upstream:
    """A server on loopback. It keeps what each connection sent."""

    def __init__(self, serve: Serve | None = None, answer: bytes = OK) -> None:
        self.heads: list[bytes] = []
        self.connections = 0
        self._answer = answer
        self._serve = serve or self._serve_http
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def at(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    async def _serve_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self._answer)
        await writer.drain()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._serve(reader, writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    @asynccontextmanager
    async def up(self, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> AsyncIterator[Upstream]:
        def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._take(reader, writer))
            self._tasks.add(task)

        server = await asyncio.start_server(take, host, 0, ssl=tls)
        self.host, self.port = host, server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    before, children = own_descriptors(), own_children()
    yield
    assert own_children() == children
    # Those of the test's own event loop are closed by now, or will be.
    more = {each for each in own_descriptors() - before if "eventpoll" not in each and "socket" not in each}
    assert not more


@asynccontextmanager
async def opened(
    allow: Sequence[str],
    *,
    limits: ProxyLimits | None = None,
    resolve: dict[str, list[str]] | None = None,
    ports: Sequence[int] = (80, 443),
) -> AsyncIterator[tuple[Proxy, int]]:
    """A proxy with its door in our own network, and the port of the door."""

    async def look_up(host: str, port: int) -> list[str]:
        assert resolve is not None, f"{host} was looked up"
        if host not in resolve:
            raise OSError("no such name")
        return resolve[host]

    before = own_descriptors()
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        proxy = Proxy(HostFilter(allow=allow), limits=limits or ProxyLimits(), resolve=look_up, ports=ports)
        async with proxy:
            # What the entrance does, without a process.
            with socket.socket(fileno=os.dup(proxy.entrance_fd)) as control:
                socket.send_fds(control, [b"d"], [door.fileno()])
            door.close()
            tasks = asyncio.all_tasks()
            yield proxy, port
        assert not {task for task in asyncio.all_tasks() - tasks if "Upstream" not in repr(task)}
    # Servers of the test's own notice the end a moment later.
    for _ in range(1000):
        if own_descriptors() <= before:
            return
        await asyncio.sleep(0.005)
    assert own_descriptors() <= before


async def ask(port: int, data: bytes, *, is_ended: bool = False) -> bytes:
    """What comes back for `data`, to the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        if is_ended:
            writer.write_eof()
        return await reader.read()
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def tunnel(port: int, at: str) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\n".encode())
    return await reader.readuntil(b"\r\n\r\n"), reader, writer


async def end(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


def get(at: str, path: str = "/", *more: str) -> bytes:
    return "\r\n".join([f"GET http://{at}{path} HTTP/1.1", f"Host: {at}", *more, "", ""]).encode()


# Requests


async def test_an_allowed_host_is_asked_and_its_answer_comes_back() -> None:
    async with Upstream().up() as host, opened([host.at]) as (proxy, port):
        answer = await ask(port, get(host.at, "/a?b=c", "X-Own: 1"))

    assert answer == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
    assert host.heads == [
        f"GET /a?b=c HTTP/1.1\r\nHost: {host.at}\r\nx-own: 1\r\nConnection: close\r\n\r\n".encode()
    ]
    (told,) = proxy.told
    assert (told.host, told.port, told.is_allowed, told.connections) == ("127.0.0.1", host.port, True, 1)
    assert (told.sent_bytes, told.received_bytes) == (len(host.heads[0]), len(OK))


async def test_a_host_of_six_parts_is_reached_by_its_number() -> None:
    async with Upstream().up("::1") as host, opened([host.at]) as (_, port):
        plain = await ask(port, get(host.at))
        head, reader, writer = await tunnel(port, host.at)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        through = await reader.read()
        await end(writer)

    assert plain.endswith(b"\r\n\r\nok")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert through == OK
    assert f"Host: {host.at}".encode() in host.heads[0]


@pytest.mark.parametrize("how", ["request", "tunnel"])
@pytest.mark.parametrize("at", ["evil.example", "127.0.0.1", "[::1]", "0x7f.1", "169.254.169.254"])
async def test_a_refused_host_is_told_and_never_looked_up(how: str, at: str) -> None:
    async with opened(["good.example"]) as (proxy, port):
        data = get(at) if how == "request" else f"CONNECT {at}:443 HTTP/1.1\r\n\r\n".encode()
        answer = await ask(port, data)

    head, _, text = answer.decode().partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 403 ")
    assert head.splitlines()[0].endswith(" is not allowed")
    assert "is none of the allowed ones. Only the person " in text
    assert [(told.is_allowed, told.sent_bytes) for told in proxy.told] == [(False, 0)]


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "::1", "169.254.169.254", "::ffff:10.0.0.1"])
async def test_a_name_that_leads_inside_is_refused(address: str) -> None:
    async with Upstream().up() as host:
        names = {"a.good.example": [address]}
        async with opened([f"*.good.example:{host.port}"], resolve=names) as (proxy, port):
            answer = await ask(port, get(f"a.good.example:{host.port}"))

    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"not public" in answer
    assert not proxy.told[0].is_allowed
    assert not host.connections


async def test_a_name_is_looked_up_once_and_only_what_passed_is_connected_to() -> None:
    async with Upstream().up() as host:
        names = {"mine.example": ["169.254.0.1", "127.0.0.1"]}
        async with opened([f"mine.example:{host.port}"], resolve=names) as (_, port):
            answer = await ask(port, get(f"mine.example:{host.port}"))

    assert answer.endswith(b"ok")
    assert f"Host: mine.example:{host.port}\r\n".encode() in host.heads[0]


async def test_a_pattern_without_a_port_stands_for_the_ports_of_the_web() -> None:
    async with Upstream().up() as host:
        async with opened(["127.0.0.1"]) as (_, port):
            shut = await ask(port, get(host.at))
            head = await ask(port, f"CONNECT {host.at} HTTP/1.1\r\n\r\n".encode())
        async with opened(["127.0.0.1"], ports=[host.port]) as (_, port):
            chosen = await ask(port, get(host.at))
        async with opened(["127.0.0.1", host.at]) as (_, port):
            named = await ask(port, get(host.at))

    assert shut.startswith(b"HTTP/1.1 403 ")
    assert b"with port 80 and 443 only" in shut
    assert head.startswith(b"HTTP/1.1 403 ")
    assert chosen.endswith(b"ok")
    assert named.endswith(b"ok")
    assert host.connections == 2


async def test_what_cannot_be_found_or_reached_is_no_refusal() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port_of_nobody = nobody.getsockname()[1]
    async with opened(["lost.example", f"127.0.0.1:{port_of_nobody}"], resolve={}) as (proxy, port):
        lost = await ask(port, get("lost.example"))
        shut = await ask(port, get(f"127.0.0.1:{port_of_nobody}"))

    assert lost.startswith(b"HTTP/1.1 502 lost.example was not found\r\n")
    assert shut.startswith(b"HTTP/1.1 502 127.0.0.1 cannot be reached\r\n")
    assert [told.is_allowed for told in proxy.told] == [True, True]


async def test_a_host_that_never_takes_the_connection_is_given_up() -> None:
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for each in (first, second):
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        at = f"127.0.0.1:{full.getsockname()[1]}"
        async with opened([at], limits=ProxyLimits(connect_s=0.2)) as (_, port):
            answer = await ask(port, f"CONNECT {at} HTTP/1.1\r\n\r\n".encode())

    assert answer.startswith(b"HTTP/1.1 504 127.0.0.1 was not reached in time\r\n")


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_large_body_arrives_whole_in_both_directions(is_chunked: bool) -> None:
    data = os.urandom(700_000)
    got = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if is_chunked:
            while size := int((await reader.readline()).decode(), 16):
                got.extend(await reader.readexactly(size))
                await reader.readline()
            await reader.readline()
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            writer.write(b"%X;x=y\r\n" % len(data) + data + b"\r\n0\r\nA: b\r\n\r\n")
        else:
            got.extend(await reader.readexactly(len(data)))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
        await writer.drain()

    async with Upstream(serve).up() as host, opened([host.at]) as (_, port):
        if is_chunked:
            body = b"".join(b"%x ; a\r\n%s\r\n" % (len(part), part) for part in (data[:9], data[9:]))
            head, body = b"Transfer-Encoding: Chunked", body + b"0\r\nTrailer: x\r\n\r\n"
        else:
            head, body = b"Content-Length: %d" % len(data), data
        request = f"POST http://{host.at}/ HTTP/1.1\r\n".encode() + head + b"\r\n\r\n" + body
        answer = await ask(port, request)

    assert bytes(got) == data
    body = answer.partition(b"\r\n\r\n")[2]
    assert body == (b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data) if is_chunked else data)


async def test_a_client_that_waits_to_be_told_to_go_on_is_told() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await reader.readexactly(4)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + body)
        await writer.drain()

    async with Upstream(serve).up() as host, opened([host.at]) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"PUT http://{host.at}/ HTTP/1.1\r\nContent-Length: 4\r\n".encode())
        writer.write(b"Expect: 100-continue\r\n\r\n")
        interim = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"body")
        rest = await reader.read()
        await end(writer)

    assert interim == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert rest == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody"


async def test_an_answer_that_comes_before_the_body_was_sent_is_read() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too large\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async with Upstream(serve).up() as host, opened([host.at]) as (_, port):
        request = f"POST http://{host.at}/ HTTP/1.1\r\nContent-Length: 9000000\r\n\r\n".encode()
        answer = await ask(port, request + bytes(300_000))

    assert answer.startswith(b"HTTP/1.1 413 Too large\r\n")


async def test_a_client_reads_its_refusal_though_it_sent_a_body() -> None:
    async with opened(["good.example"]) as (_, port):
        request = b"POST http://evil.example/ HTTP/1.1\r\nContent-Length: 500000\r\n\r\n" + bytes(500_000)
        answers = [await ask(port, request) for _ in range(5)]

    assert all(answer.startswith(b"HTTP/1.1 403 ") for answer in answers)


async def test_an_answer_to_head_has_no_body() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"
    async with Upstream(answer=answer).up() as host, opened([host.at]) as (_, port):
        reply = await ask(port, f"HEAD http://{host.at}/ HTTP/1.1\r\n\r\n".encode())
        refused = await ask(port, b"HEAD http://evil.example/ HTTP/1.1\r\n\r\n")

    assert reply.startswith(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n")
    assert refused.endswith(b"\r\n\r\n")


async def test_a_redirect_to_a_refused_host_is_refused() -> None:
    answer = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"
    async with Upstream(answer=answer).up() as host, opened([host.at]) as (proxy, port):
        first = await ask(port, get(host.at))
        second = await ask(port, get("127.0.0.1:9"))

    assert b"location: http://127.0.0.1:9/\r\n" in first
    assert second.startswith(b"HTTP/1.1 403 ")
    assert [told.is_allowed for told in proxy.told] == [True, False]


# Messages that can be read in more than one way


@pytest.mark.parametrize(
    "lines",
    [
        ["GET / HTTP/1.1", "Host: {at}"],
        ["GET https://{at}/ HTTP/1.1"],
        ["GET ftp://{at}/ HTTP/1.1"],
        ["GET http://evil.example@{at}/ HTTP/1.1"],
        ["GET http://{at}@evil.example/ HTTP/1.1"],
        ["GET http://{at}/ HTTP/1.1", "Host: a", "Host: b"],
        ["GET http://{at}\\@evil.example/ HTTP/1.1"],
        ["GET http:///x HTTP/1.1", "Host: {at}"],
        ["GET http://{at}/#x HTTP/1.1"],
        ["GET http://{at}/ HTTP/2.0"],
        ["GET  http://{at}/ HTTP/1.1"],
        ["GET\thttp://{at}/ HTTP/1.1"],
        [" GET http://{at}/ HTTP/1.1"],
        ["GET http://{at}/a b HTTP/1.1"],
        ["", "GET http://{at}/ HTTP/1.1"],
        ["POST http://{at}/ HTTP/1.1", "Content-Length: 4", "Transfer-Encoding: chunked"],
        ["POST http://{at}/ HTTP/1.1", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        ["POST http://{at}/ HTTP/1.1", "Transfer-Encoding: chunked, identity"],
        ["POST http://{at}/ HTTP/1.1", "Transfer-Encoding: xchunked"],
        ["POST http://{at}/ HTTP/1.1", "Transfer-Encoding:\x0bchunked"],
        ["POST http://{at}/ HTTP/1.1", "Transfer-Encoding : chunked"],
        ["POST http://{at}/ HTTP/1.0", "Transfer-Encoding: chunked"],
        ["POST http://{at}/ HTTP/1.1", "Content-Length: 4", "Content-Length: 4"],
        ["POST http://{at}/ HTTP/1.1", "Content-Length: 4, 4"],
        ["POST http://{at}/ HTTP/1.1", "Content-Length: +4"],
        ["POST http://{at}/ HTTP/1.1", "Content-Length: -1"],
        ["POST http://{at}/ HTTP/1.1", "Content-Length: 0x4"],
        ["POST http://{at}/ HTTP/1.1", "Content-Length: "],
        ["POST http://{at}/ HTTP/1.1", "Content-Length: 9999999999999999999"],
        ["GET http://{at}/ HTTP/1.1", "A: b", " folded: c"],
        ["GET http://{at}/ HTTP/1.1", "A: b\nHost: evil.example"],
        ["GET http://{at}/ HTTP/1.1", "A: b\rHost: evil.example"],
        ["GET http://{at}/ HTTP/1.1", "A: b\0c"],
        ["GET http://{at}/ HTTP/1.1", "no colon"],
        ["GET http://{at}/ HTTP/1.1", ": no name"],
        ["CONNECT {host} HTTP/1.1"],
        ["CONNECT http://{at} HTTP/1.1"],
        ["CONNECT {at}/x HTTP/1.1"],
        ["CONNECT evil@{at} HTTP/1.1"],
        ["CONNECT {at}:443 HTTP/1.1"],
        ["connect {at} HTTP/1.1"],
    ],
)
async def test_a_request_that_can_be_read_in_two_ways_reaches_nobody(lines: list[str]) -> None:
    async with Upstream().up() as host, opened([host.at]) as (_, port):
        text = "\r\n".join([*lines, "", ""]).replace("{at}", host.at).replace("{host}", host.host)
        answer = await ask(port, text.encode("latin-1"), is_ended=True)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert not host.connections


@pytest.mark.parametrize(
    "body",
    [
        b"5\r\nab\r\n0\r\n\r\n",
        b"2\r\nabX\r\n0\r\n\r\n",
        b"2\nab\r\n0\r\n\r\n",
        b"-2\r\nab\r\n0\r\n\r\n",
        b"0x2\r\nab\r\n0\r\n\r\n",
        b"\r\nab\r\n0\r\n\r\n",
        b"2;" + b"x" * 5000 + b"\r\nab\r\n0\r\n\r\n",
        b"fffffffffffffffff\r\nab\r\n",
        b"0\r\n" + b"a: b\r\n" * 9000,
        b"2\r\nab",
    ],
)
async def test_chunks_that_are_none_end_the_request(body: bytes) -> None:
    got = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.extend(await reader.read())

    async with Upstream(serve).up() as host, opened([host.at]) as (_, port):
        head = f"POST http://{host.at}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        answer = await ask(port, head + body, is_ended=True)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert not got.endswith(b"0\r\n\r\n")


async def test_a_second_request_behind_the_first_reaches_nobody() -> None:
    async with Upstream().up() as host, opened([host.at]) as (_, port):
        second = b"GET http://evil.example/ HTTP/1.1\r\n\r\n"
        answer = await ask(port, get(host.at) + second + get(host.at))
        spoofed = await ask(port, get(host.at).replace(b"Host: 127", b"Host: evil"))

    assert answer.count(b"HTTP/1.1") == 1
    assert spoofed.endswith(b"ok")
    assert len(host.heads) == 2
    assert all(f"Host: {host.at}\r\n".encode() in head and b"evil" not in head for head in host.heads)


async def test_what_is_between_a_client_and_its_proxy_stays_there() -> None:
    async with Upstream().up() as host, opened([host.at]) as (_, port):
        ours = ["Proxy-Authorization: Basic c2VjcmV0", "Proxy-Connection: x", "Keep-Alive: 1", "TE: trailers"]
        named = ["Connection: keep-alive, X-Hop", "X-Hop: 1", "Upgrade: h2c", "X-Kept: 1"]
        await ask(port, get(host.at, "/", *ours, *named))

    lines = host.heads[0].decode().split("\r\n")
    assert lines == ["GET / HTTP/1.1", f"Host: {host.at}", "x-kept: 1", "Connection: close", "", ""]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 30,
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 9000 + b"\r\n",
    ],
)
async def test_an_answer_that_is_none_is_told_as_such(answer: bytes) -> None:
    async with Upstream(answer=answer).up() as host, opened([host.at]) as (_, port):
        reply = await ask(port, get(host.at))

    while reply.startswith(b"HTTP/1.1 100 "):
        reply = reply.partition(b"\r\n\r\n")[2]
    assert reply.startswith(b"HTTP/1.1 502 ")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort and wrong\r\n",
    ],
)
async def test_an_answer_that_is_cut_off_does_not_look_whole(answer: bytes) -> None:
    async with Upstream(answer=answer).up() as host, opened([host.at]) as (_, port):
        with pytest.raises(ConnectionResetError):
            await ask(port, get(host.at))


@given(data=st.binary(max_size=300))
def test_no_head_breaks_the_reader(data: bytes) -> None:
    request = Request(method="GET", host="a", port=80)
    for read in (lambda: read_request(data), lambda: read_answer(data, request)):
        with suppress(Declined):
            read()
    for head in (b"GET http://a/ HTTP/1.1\r\n" + data, b"GET http://" + data + b" HTTP/1.1"):
        with suppress(Declined):
            built = read_request(head).head
            # What is handed on ends where we say, and is made of whole lines.
            assert built.find(b"\r\n\r\n") in (-1, len(built) - 4)
            assert b"\n" not in built.replace(b"\r\n", b"")
            assert b"\r" not in built.replace(b"\r\n", b"")


# Limits


async def test_a_head_without_end_is_cut_off() -> None:
    async with Upstream().up() as host, opened([host.at]) as (_, port):
        large = await ask(port, get(host.at, "/", *["X: " + "y" * 1000] * 40))
        endless = await ask(port, b"GET http://" + b"a" * 40_000)

    assert large.startswith(b"HTTP/1.1 431 ")
    assert endless.startswith(b"HTTP/1.1 431 ")
    assert not host.connections


async def test_two_hundred_connections_at_a_time_are_all_served() -> None:
    most = 0
    open_now = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal most, open_now
        open_now += 1
        most = max(most, open_now)
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.01)
        writer.write(OK)
        await writer.drain()
        open_now -= 1

    limits = ProxyLimits(connections=16)
    async with Upstream(serve).up() as host, opened([host.at], limits=limits) as (proxy, port):
        answers = await asyncio.gather(*[ask(port, get(host.at)) for _ in range(200)])

    assert all(answer.endswith(b"ok") for answer in answers)
    assert 1 < most <= 16
    assert [told.connections for told in proxy.told] == [200]


async def test_idle_clients_and_hosts_are_left() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    limits = ProxyLimits(idle_s=0.3, connections=2)
    async with Upstream(serve).up() as host, opened([host.at], limits=limits) as (_, port):
        silent = await ask(port, b"")
        half = await ask(port, b"GET http://")
        stalled = await ask(port, get(host.at))
        _, reader, writer = await tunnel(port, host.at)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        await end(writer)

    assert silent.startswith(b"HTTP/1.1 408 ")
    assert half.startswith(b"HTTP/1.1 408 ")
    assert stalled.startswith(b"HTTP/1.1 504 ")


async def test_what_moves_is_not_idle() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(12):
            writer.write(b".")
            await asyncio.sleep(0.1)

    limits = ProxyLimits(idle_s=1.0)
    async with Upstream(serve).up() as host, opened([host.at], limits=limits) as (_, port):
        _, reader, writer = await tunnel(port, host.at)
        data = await reader.read()
        await end(writer)

    assert data == b"." * 12


async def test_a_host_that_sends_fast_waits_for_a_client_that_reads_slowly() -> None:
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while True:
            writer.write(bytes(100_000))
            await writer.drain()
            sent += 100_000

    async with Upstream(serve).up() as host, opened([host.at]) as (_, port):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(f"CONNECT {host.at} HTTP/1.1\r\n\r\n".encode())
            before = -1
            while sent == 0 or sent != before:
                before = sent
                await asyncio.sleep(0.1)

    # What the kernel holds for four sockets, and next to nothing of ours.
    assert sent < 64_000_000


async def test_others_get_their_turn_while_bytes_keep_coming() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.send(bytes(50))
        stream = Stream(ours)
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        for _ in range(50):
            await stream.some(1)
        task.cancel()

    assert turns >= 50


async def test_entries_are_bounded_whatever_names_are_made_up() -> None:
    async with opened(["good.example"]) as (proxy, port):
        for start in range(0, 250, 50):
            asked = [ask(port, get(f"n{number}.example")) for number in range(start, start + 50)]
            await asyncio.gather(*asked)

    assert len(proxy.told) == 200
    assert proxy.untold == 50


# Tunnels


async def test_a_tunnel_carries_both_directions_and_a_half_close() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read()
        writer.write(data[::-1])
        await writer.drain()

    data = os.urandom(500_000)
    async with Upstream(serve).up() as host, opened([host.at]) as (proxy, port):
        head, reader, writer = await tunnel(port, host.at)
        writer.write(b"\0" + data)
        writer.write_eof()
        back = await reader.read()
        await end(writer)

    assert head == b"HTTP/1.1 200 Connection established\r\n\r\n"
    assert back == data[::-1] + b"\0"
    assert (proxy.told[0].sent_bytes, proxy.told[0].received_bytes) == (500_001, 500_001)


async def test_a_host_that_speaks_first_is_heard() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        writer.write(await reader.readline())
        await writer.drain()

    async with Upstream(serve).up() as host, opened([host.at]) as (_, port):
        _, reader, writer = await tunnel(port, host.at)
        greeting = await reader.readline()
        writer.write(b"echo\r\n")
        rest = await reader.read()
        await end(writer)

    assert (greeting, rest) == (b"220 hello\r\n", b"echo\r\n")


async def test_a_client_that_vanishes_takes_its_connection_with_it() -> None:
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while await reader.read(1000):
                pass
        gone.set()

    async with Upstream(serve).up() as host, opened([host.at]) as (proxy, port):
        for data in (b"", b"x" * 10):
            gone.clear()
            _, _, writer = await tunnel(port, host.at)
            writer.write(data)
            writer.transport.abort()
            await gone.wait()
        gone.clear()
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"POST http://{host.at}/ HTTP/1.1\r\nContent-Length: 500\r\n\r\nx".encode())
        await writer.drain()
        writer.transport.abort()
        await gone.wait()

    assert proxy.told[0].connections == 3


async def test_closing_ends_what_goes_on_and_leaves_nothing() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    clients = []
    async with Upstream(serve).up() as host:
        before = own_descriptors()
        async with opened([host.at]) as (proxy, port):
            for _ in range(3):
                clients.append((await tunnel(port, host.at))[2])
                clients.append((await asyncio.open_connection("127.0.0.1", port))[1])
            clients[-1].write(get(host.at))
            await proxy.close()
            await proxy.close()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
            for client in clients:
                await end(client)
        await asyncio.sleep(0.05)
        assert own_descriptors() <= before


@cache
def tls_hello(name: str | None) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname = False
    out = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    return out.read()


def in_records(hello: bytes, size: int) -> bytes:
    """The same message, in records of `size` bytes."""
    message = hello[5:]
    parts = [message[at : at + size] for at in range(0, len(message), size)]
    return b"".join(hello[:3] + len(part).to_bytes(2, "big") + part for part in parts)


def test_the_name_in_tls_is_found_however_it_is_cut() -> None:
    hello = tls_hello("docs.good.example")

    assert server_name(hello) == "docs.good.example"
    assert server_name(in_records(hello, 7)) == "docs.good.example"
    assert server_name(tls_hello(None)) is None
    assert server_name(b"SSH-2.0-x\r\n") is None
    for end in range(1, len(hello)):
        with pytest.raises(NotYet):
            server_name(hello[:end])


@given(at=st.integers(0, 600), data=st.binary(min_size=1, max_size=3))
def test_no_hello_breaks_the_reader(at: int, data: bytes) -> None:
    hello = bytearray(tls_hello("docs.good.example"))
    hello[at : at + len(data)] = data

    with suppress(NotYet, ValueError):
        server_name(bytes(hello))


@pytest.mark.parametrize(
    ("name", "is_passed"),
    [
        ("good.example", True),
        ("GOOD.example", True),
        ("also.example", True),
        (None, True),
        ("evil.example", False),
        ("good.example.evil.example", False),
    ],
)
@pytest.mark.parametrize("size", [9, 100_000])
async def test_a_tunnel_to_one_name_does_not_become_one_to_another(
    name: str | None, is_passed: bool, size: int
) -> None:
    got = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.extend(await reader.read(100_000))
        writer.write(b"seen")
        await writer.drain()

    hello = in_records(tls_hello(name), size)
    async with Upstream(serve).up() as host:
        allowed = [f"good.example:{host.port}", f"also.example:{host.port}"]
        async with opened(allowed, resolve={"good.example": ["127.0.0.1"]}) as (proxy, port):
            _, reader, writer = await tunnel(port, f"good.example:{host.port}")
            writer.write(hello[:30])
            await writer.drain()
            writer.write(hello[30:])
            back = await reader.read(1000)
            await end(writer)

    if is_passed:
        assert back == b"seen"
        assert bytes(got) == hello
    else:
        assert back == REFUSAL
        assert not got
        assert [(told.host, told.is_allowed) for told in proxy.told] == [
            ("good.example", True),
            (name, False),
        ]


async def test_tls_that_cannot_be_read_is_not_let_through() -> None:
    async with Upstream().up() as host, opened([host.at]) as (_, port):
        long = b"\x16\x03\x01\xff\xff" + bytes(70_000)
        many = b"\x16\x03\x01\x00\x01\x01" * 200
        for data in (b"\x16\x03\x01\x00\x04\x02\x00\x00\x00", long, many):
            _, reader, writer = await tunnel(port, host.at)
            writer.write(data)
            assert (await reader.read(100)).startswith(REFUSAL)
            await end(writer)

    assert not host.heads


# The entrance


async def test_only_a_listening_tcp_socket_is_taken_for_a_door(tmp_path: Path) -> None:
    before = own_descriptors()
    async with Proxy(HostFilter(allow=[])) as proxy:
        with (
            socket.socket(fileno=os.dup(proxy.entrance_fd)) as control,
            socket.socket() as deaf,
            socket.socket(socket.AF_UNIX) as local,
            socket.socket(type=socket.SOCK_DGRAM) as loose,
            (tmp_path / "file").open("wb") as file,
        ):
            local.bind(str(tmp_path / "socket"))
            local.listen()
            for each in (deaf, local, loose, file):
                socket.send_fds(control, [b"d"], [each.fileno()])
            socket.send_fds(control, [b"x" * 60], [deaf.fileno(), file.fileno()])
            await asyncio.sleep(0.05)
            assert not proxy.is_entered

    assert proxy.failure is None
    assert own_descriptors() <= before


async def test_what_was_told_last_is_heard_when_closing() -> None:
    async with Proxy(HostFilter(allow=[])) as proxy:
        with socket.socket(fileno=os.dup(proxy.entrance_fd)) as control:
            control.send(b"p" + errno.ENOEXEC.to_bytes(4, "big"))

    assert proxy.failure == Failure("program", errno.ENOEXEC)


async def test_an_entrance_is_for_one_command_and_an_open_proxy() -> None:
    proxy = Proxy(HostFilter(allow=[]))
    with pytest.raises(UsageError, match="not open"):
        proxy.entrance(["true"])

    async with proxy:
        proxy.entrance(["true"])
        with pytest.raises(UsageError, match="one proxy for each command"):
            proxy.entrance(["true"])


BWRAP = ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-net", "--die-with-parent"]
BWRAP += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
# This very interpreter may lie there.
BWRAP += ["--ro-bind", sys.prefix, sys.prefix, "--"]
PYTHON = [sys.executable, "-c"]


@cache
def why_no_sandbox() -> str:
    if not shutil.which("bwrap"):
        return "bubblewrap is not installed"
    return subprocess.run([*BWRAP, "true"], capture_output=True, check=False).stderr.decode()


@pytest.fixture
def _sandbox() -> None:
    if why := why_no_sandbox():
        pytest.skip(why)


sandboxed = pytest.mark.usefixtures("_sandbox")


async def _loopback(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


async def inside(
    allow: Sequence[str],
    argv: Sequence[str],
    *,
    environment: dict[str, str] | None = None,
    wrapper: Sequence[str] = BWRAP,
) -> tuple[int | None, str, str, Proxy]:
    """Run a command in a sandbox, through the entrance. All names lead to loopback."""
    async with Proxy(HostFilter(allow=allow), resolve=_loopback) as proxy:
        process = await asyncio.create_subprocess_exec(
            *wrapper,
            *proxy.entrance(argv),
            pass_fds=[proxy.entrance_fd],
            env={"PATH": os.environ["PATH"]} if environment is None else environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await process.communicate()
    return process.returncode, os.fsdecode(out), os.fsdecode(err), proxy


@sandboxed
async def test_a_sandboxed_program_reaches_what_is_allowed_and_nothing_else() -> None:
    program = """
import errno, os, socket, sys, urllib.error, urllib.request
def fetch(url):
    try:
        return urllib.request.urlopen(url, timeout=20).read().decode()
    except urllib.error.HTTPError as error:
        return str(error.code)
    except urllib.error.URLError as error:
        return str(error.reason)
def reach(family, kind, address):
    with socket.socket(family, kind) as sock:
        sock.settimeout(5)
        try:
            sock.connect(address)
            sock.send(b"x")
            return "sent"
        except OSError as error:
            return errno.errorcode.get(error.errno, str(error))
def find(name):
    try:
        return socket.getaddrinfo(name, 80)[0][4][0]
    except OSError as error:
        return type(error).__name__
port = int(sys.argv[1])
tcp, udp = socket.SOCK_STREAM, socket.SOCK_DGRAM
print(fetch(f"http://mine.example:{port}/"))
print(fetch("http://evil.example/"))
print(fetch("https://evil.example/"))
print(reach(socket.AF_INET, tcp, ("127.0.0.1", port)))
print(reach(socket.AF_INET, tcp, ("192.0.2.1", 80)))
print(reach(socket.AF_INET, udp, ("192.0.2.1", 53)))
print(reach(socket.AF_INET6, tcp, ("2001:db8::1", 80)))
print(find("mine.example"))
print(sorted(name for _, name in socket.if_nameindex()))
"""
    async with Upstream().up() as host:
        argv = [*PYTHON, program, str(host.port)]
        code, out, err, proxy = await inside([f"mine.example:{host.port}"], argv)

    assert code == 0, err
    assert out.splitlines() == [
        "ok",
        "403",
        "Tunnel connection failed: 403 evil.example:443 is not allowed",
        "ECONNREFUSED",
        "ENETUNREACH",
        "ENETUNREACH",
        "ENETUNREACH",
        "gaierror",
        "['lo']",
    ]
    assert host.connections == 1
    told = [(each.host, each.port, each.is_allowed) for each in proxy.told]
    assert told == [
        ("mine.example", host.port, True),
        ("evil.example", 80, False),
        ("evil.example", 443, False),
    ]
    assert (proxy.is_entered, proxy.failure) == (True, None)


@sandboxed
async def test_it_works_below_a_keeper_and_ends_with_the_command(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(100))
        await asyncio.Event().wait()

    program = """
import os, socket, sys
host, port = os.environ["http_proxy"].removeprefix("http://").split(":")
sock = socket.create_connection((host, int(port)))
sock.sendall(f"CONNECT {sys.argv[1]} HTTP/1.1\\r\\n\\r\\n".encode())
sock.recv(100), sock.sendall(b"x"), sock.recv(1)
print("through")
"""
    # What commands are forked from is started with the first one, and stays.
    await run_command(["true"], folder=str(tmp_path))
    async with Upstream(serve).up() as host:
        before = own_descriptors()
        async with Proxy(HostFilter(allow=[host.at])) as proxy:
            argv = [*BWRAP, *proxy.entrance([*PYTHON, program, host.at])]
            finished = await run_command(argv, folder=str(tmp_path), pass_fds=[proxy.entrance_fd])
        # The host has not ended its side: what is left is the server's.
        assert len(own_descriptors() - before) == 1

    assert (finished.stdout, finished.exit_code) == (b"through\n", 0), finished.stderr
    assert [(told.sent_bytes, told.received_bytes) for told in proxy.told] == [(1, 1)]


@sandboxed
async def test_many_connections_from_inside_are_all_served() -> None:
    program = """
import sys, threading, urllib.request
done = []
def fetch():
    done.append(urllib.request.urlopen(sys.argv[1], timeout=60).read())
threads = [threading.Thread(target=fetch) for _ in range(200)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(done.count(b"ok"))
"""
    async with Upstream().up() as host:
        at = f"mine.example:{host.port}"
        code, out, err, proxy = await inside([at], [*PYTHON, program, f"http://{at}/"])

    assert (code, out) == (0, "200\n"), err
    assert proxy.told[0].connections == 200


@sandboxed
async def test_a_server_inside_is_reached_without_the_proxy() -> None:
    program = """
import http.server, sys, threading, urllib.request
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"inside")
    def log_message(self, *args): pass
with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for host in ("127.0.0.1", "localhost"):
        print(urllib.request.urlopen(f"http://{host}:{server.server_port}/", timeout=20).read())
    server.shutdown()
"""
    code, out, err, proxy = await inside(["good.example"], [*PYTHON, program])

    assert (code, out) == (0, "b'inside'\n" * 2), err
    assert proxy.told == []


@sandboxed
@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
async def test_curl_is_let_through_and_its_redirects_are_judged() -> None:
    answer = b"HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n"
    curl = ["curl", "-sS", "--max-time", "30"]
    async with Upstream().up() as host, Upstream(answer=answer).up() as sends_on:
        at, on = f"mine.example:{host.port}", f"on.example:{sends_on.port}"
        plain = await inside([at], [*curl, f"http://{at}/"])
        tunnelled = await inside([at], [*curl, "--proxytunnel", f"http://{at}/"])
        posted = await inside([at], [*curl, "-d", "x" * 100, f"http://{at}/"])
        moved = await inside([on], [*curl, "-L", f"http://{on}/"])

    assert plain[:2] == tunnelled[:2] == posted[:2] == (0, "ok"), plain
    assert "Not connected: host 'evil.example:80' is none of the allowed ones." in moved[1]
    assert [each.is_allowed for each in moved[3].told] == [True, False]


def make_certificate(path: Path, *names: str) -> ssl.SSLContext:
    """What a server needs to be taken for those names by whoever trusts the file."""
    key = path.with_suffix(".key")
    listed = ",".join(f"DNS:{name}" for name in names)
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
    make += ["-addext", f"subjectAltName={listed}", "-keyout", str(key), "-out", str(path)]
    subprocess.run(make, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(path, key)
    return context


@sandboxed
@pytest.mark.skipif(not shutil.which("curl") or not shutil.which("openssl"), reason="needs curl and openssl")
async def test_https_goes_through_a_tunnel_to_the_name_that_was_allowed(tmp_path: Path) -> None:
    certificate = tmp_path / "certificate.pem"
    tls = make_certificate(certificate, "mine.example", "evil.example")
    wrapper = [*BWRAP[:-1], "--ro-bind", str(tmp_path), str(tmp_path), "--"]
    curl = ["curl", "-sS", "--max-time", "30", "--cacert", str(certificate)]
    async with Upstream().up(tls=tls) as host:
        at, other = f"mine.example:{host.port}", f"evil.example:{host.port}"
        through = await inside([at], [*curl, f"https://{at}/"], wrapper=wrapper)
        # The same address, but the name in TLS is another one.
        fronted = [*curl, "--connect-to", f"{other}:{at}", f"https://{other}/"]
        refused = await inside([at], fronted, wrapper=wrapper)

    assert through[:2] == (0, "ok"), through
    assert refused[0] == 35, refused
    assert "unrecognized name" in refused[2]
    assert len(host.heads) == 1


@sandboxed
async def test_the_program_gets_nothing_from_the_entrance_but_the_variables() -> None:
    show = "cat /proc/self/environ | tr '\\0' '\\n'; grep SigIgn /proc/self/status; ls /proc/self/fd; "
    show += "cat /proc/[0-9]*/comm"
    given = {"PATH": os.environ["PATH"], "LANG": "C", "https_proxy": "http://old:1", "ODD": "\udcff="}
    code, out, err, _ = await inside(["good.example"], ["sh", "-c", show], environment=given)

    assert code == 0, err
    lines = out.splitlines()
    (ignored,) = (n for n, line in enumerate(lines) if line.startswith("SigIgn:"))
    # Whoever started the tests may have others ignored; these two only an interpreter ignores.
    held = int(lines[ignored].split()[1], 16)
    assert not held & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)
    variables = dict(line.split("=", 1) for line in lines[:ignored])
    url = variables["http_proxy"]
    assert url.startswith("http://127.0.0.1:")
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        expected = "localhost,127.0.0.1,::1" if name == "no_proxy" else url
        assert variables.pop(name) == variables.pop(name.upper()) == expected
    # The shell's own.
    variables.pop("PWD", None)
    assert variables == {"PATH": os.environ["PATH"], "LANG": "C", "ODD": "\udcff="}
    # The last is the one that lists them.
    assert lines[ignored + 1 : ignored + 5] == ["0", "1", "2", "3"]
    assert {"bwrap", "sh"} <= set(lines[ignored + 5 :]) <= {"bwrap", "sh", "cat"}


@sandboxed
async def test_arguments_arrive_as_they_are() -> None:
    argv = ["printf", "%s|", "-c", "a b", "$HOME", "é\udcff", "", "--"]
    code, out, err, _ = await inside([], argv, environment={"PATH": os.environ["PATH"], "LC_ALL": "C"})

    assert (code, out) == (0, "-c|a b|$HOME|é\udcff||--|"), err


@sandboxed
async def test_a_program_that_cannot_be_run_is_told_from_one_that_fails() -> None:
    missing = await inside([], ["no-such-program"])
    folder = await inside([], ["/etc"])
    fails = await inside([], ["sh", "-c", "exit 127"])

    assert (missing[0], missing[3].failure) == (127, Failure("program", errno.ENOENT))
    assert (folder[0], folder[3].failure) == (126, Failure("program", errno.EACCES))
    assert (fails[0], fails[3].failure) == (127, None)


@sandboxed
async def test_an_entrance_that_never_starts_is_noticed() -> None:
    code, _, err, proxy = await inside([], ["true"], wrapper=[*BWRAP[:-1], "--tmpfs", sys.base_prefix, "--"])

    assert code != 0
    assert "No such file" in err
    assert (proxy.is_entered, proxy.failure) == (False, None)


@sandboxed
@pytest.mark.skipif(not shutil.which("unshare"), reason="unshare is not installed")
async def test_without_a_door_the_program_is_not_run() -> None:
    # A network with no port to be had.
    shut = (
        "cd /proc/sys/net/ipv4 && echo 5000 5000 >ip_local_port_range && echo 5000 >ip_local_reserved_ports"
    )
    wrapper = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", f'{shut} && exec "$@"', "sh"]
    code, out, err, proxy = await inside([], ["echo", "ran"], wrapper=wrapper)

    assert (code, out) == (125, ""), err
    assert proxy.failure == Failure("door", errno.EADDRINUSE)
