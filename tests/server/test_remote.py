"""Reached from elsewhere: TLS with a certificate, and a proxy that has it, over real sockets."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx2
import pytest

from placet.errors import InputError
from placet.server import running
from placet.server.asgi import make_app
from placet.server.guard import Asgi
from placet.server.running import Server, addresses, listen, make_server, page_origin
from tests.server.web import Web, opened

RUNS = "/api/v1/runs"


@contextmanager
def served(app: Asgi, opened: socket.socket, **tls: str) -> Iterator[Server]:
    """An application behind a socket, in a thread of its own."""
    server = make_server(app, cert=tls.get("cert"), key=tls.get("key"))
    thread = threading.Thread(target=server.run, args=([opened],))
    thread.start()
    while not server.started:
        assert thread.is_alive()
    try:
        yield server
    finally:
        server.should_exit = True
        thread.join(20)


@contextmanager
def site(
    web: Web, *, proxies: tuple[str, ...] = (), names: tuple[str, ...] = (), **tls: str
) -> Iterator[int]:
    """The server of a web, as `placet serve` sets it up; its port."""
    opened = listen("127.0.0.1", 0)
    port: int = opened.getsockname()[1]
    is_secure = bool(tls or proxies)
    hosts, origins = addresses("127.0.0.1", port, names, is_secure=is_secure)
    app = make_app(
        web.site, hosts=hosts, origins=origins, cookie="c", is_secure=is_secure, trusted_proxies=proxies
    )
    with served(app, opened, **tls):
        yield port


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A self-signed certificate for this machine."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-keyout", str(key), "-out", str(cert), "-days", "1", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return {"cert": str(cert), "key": str(key)}


def bearer(web: Web, **more: str) -> dict[str, str]:
    return {"authorization": f"Bearer {web.owner}", **more}


async def test_with_a_certificate_it_speaks_tls_alone(tmp_path: Path, certificate: dict[str, str]) -> None:
    async with opened(tmp_path) as web:
        with site(web, **certificate) as port:
            trusting = ssl.create_default_context(cafile=certificate["cert"])
            async with httpx2.AsyncClient(verify=trusting) as client:
                origin = f"https://localhost:{port}"
                found = await client.get(f"{origin}{RUNS}", headers=bearer(web))
                made = await client.get(f"{origin}/login", params={"code": web.tokens.code()})
                with pytest.raises(httpx2.HTTPError):
                    await client.get(f"http://localhost:{port}{RUNS}", headers=bearer(web))
            async with httpx2.AsyncClient() as stranger:
                with pytest.raises(httpx2.ConnectError):
                    await stranger.get(f"{origin}{RUNS}")

    assert found.status_code == 200
    assert "secure" in made.headers["set-cookie"].lower()


def test_certificate_that_cannot_be_used_is_an_error(tmp_path: Path, certificate: dict[str, str]) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")

    async def nothing(*_: object) -> None:
        pass

    for cert, key in ((str(broken), certificate["key"]), (certificate["cert"], str(tmp_path / "none.pem"))):
        with pytest.raises(InputError, match="PEM"):
            make_server(nothing, cert=cert, key=key)


class Proxy:
    """A reverse proxy on loopback: passes each request on, with what it is told to add."""

    def __init__(self, port: int, **headers: str) -> None:
        self._port = port
        self._headers = headers

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        added = "".join(f"{name}: {value}\r\n" for name, value in self._headers.items())
        upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self._port)
        upstream.write(head[:-2] + f"{added}connection: close\r\n\r\n".encode())
        writer.write(await upstream_reader.read())
        await writer.drain()
        for each in (upstream, writer):
            each.close()


@asynccontextmanager
async def proxy(port: int, **headers: str) -> AsyncIterator[str]:
    server = await asyncio.start_server(Proxy(port, **headers), "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def test_behind_a_proxy_with_tls_it_answers_and_behind_one_without_it_does_not(tmp_path: Path) -> None:
    own = {"x-forwarded-for": "203.0.113.9"}
    async with opened(tmp_path) as web, httpx2.AsyncClient() as client:
        with site(web, proxies=("127.0.0.1",), names=("box.example",)) as port:
            headers = bearer(web, host="box.example")
            async with proxy(port, **own, **{"x-forwarded-proto": "https"}) as secure:
                found = await client.get(f"{secure}{RUNS}", headers=headers)
                written = await client.post(
                    f"{secure}/api/v1/loops-switch",
                    content=b"",
                    headers=headers | {"origin": "http://box.example", "x-placet": "1"},
                )
            async with proxy(port, **own, **{"x-forwarded-proto": "http"}) as plain:
                refused = await client.get(f"{plain}{RUNS}", headers=headers)
            async with proxy(port, **own) as silent:
                unsaid = await client.get(f"{silent}{RUNS}", headers=headers)
            here = await client.get(f"http://127.0.0.1:{port}{RUNS}", headers=bearer(web))

    assert found.status_code == 200
    assert written.json()["error"]["code"] == "origin"  # browsers come over https
    for each in (refused, unsaid):
        assert (each.status_code, each.json()["error"]["code"]) == (403, "insecure")
    assert here.status_code == 200


@pytest.mark.parametrize(
    ("peer", "answered"),
    [("10.0.0.2", True), ("::ffff:10.0.0.2", True), ("10.0.0.3", False), ("::1", False), ("", False)],
)
async def test_nobody_else_passes_for_the_proxy(tmp_path: Path, peer: str, answered: bool) -> None:
    """Whoever reaches the server past the proxy says what they like."""
    async with opened(tmp_path) as web:
        app = make_app(
            web.site,
            hosts=["box.example"],
            origins=["https://box.example"],
            cookie="c",
            trusted_proxies=["10.0.0.2/32"],
        )
        transport = httpx2.ASGITransport(app=app, client=(peer, 1))  # type: ignore[arg-type]
        async with httpx2.AsyncClient(transport=transport, base_url="http://box.example") as client:
            said = {"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https"}
            found = await client.get(RUNS, headers=bearer(web, **said))

    assert (found.status_code == 200) is (answered or peer == "::1")


async def test_whoever_sends_no_whole_request_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "SILENT_S", 0.2)
    beginnings = [b"", b"GET / HT", b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\nX-Slow: ", b"\r\n"]
    async with opened(tmp_path) as web:
        with site(web) as port:
            slow = [await asyncio.open_connection("127.0.0.1", port) for _ in beginnings]
            for (_, writer), sent in zip(slow, beginnings, strict=True):
                writer.write(sent)
            async with (
                httpx2.AsyncClient() as client,
                client.stream("GET", f"http://127.0.0.1:{port}/api/v1/stream", headers=bearer(web)) as stream,
            ):
                ends = await asyncio.wait_for(asyncio.gather(*(reader.read() for reader, _ in slow)), 20)
                first = await anext(stream.aiter_lines())
            for _, writer in slow:
                writer.close()

    assert all(b"200" not in each[:20] for each in ends)
    assert first == "retry: 1000"  # a stream is a request under way, however long


SMUGGLED = [
    b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nHost: evil.example\r\n\r\n",
    b"GET /api/v1/health HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"GET http://127.0.0.1:PORT/api/v1/health HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"GET /api/v1/health HTTP/1.0\r\n\r\n",
    b"GET /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nAuthorization : Bearer TOKEN\r\n\r\n",
    b"GET /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nX: y\r\n Authorization: Bearer TOKEN\r\n\r\n",
    b"POST /login HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nX-Placet: 1\r\nContent-Type: application/json\r\n"
    b"Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}",
    b"POST /login HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nX-Placet: 1\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    b"GET /api/v1/health\0 HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
]


async def test_requests_that_can_be_read_in_two_ways_are_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as web:
        with site(web) as port:
            answers = []
            for request in SMUGGLED:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                sent = request.replace(b"PORT", str(port).encode()).replace(b"TOKEN", web.owner.encode())
                writer.write(sent)
                answers.append((await asyncio.wait_for(reader.read(600), 10)).split(b"\r\n")[0])
                writer.close()

    assert [each for each in answers if not each.startswith(b"HTTP/1.1 4")] == []


@pytest.mark.parametrize(
    ("host", "names", "is_proxied", "origin"),
    [
        ("127.0.0.1", [], True, "https://127.0.0.1:8765"),
        ("0.0.0.0", ["box.example.org"], False, "https://box.example.org:8765"),
        ("127.0.0.1", ["box.example.org", "other"], True, "https://box.example.org"),
        ("127.0.0.1", ["box.example.org:8443"], True, "https://box.example.org:8443"),
        ("::1", [], False, "https://[::1]:8765"),
        ("127.0.0.2", [], False, "https://127.0.0.2:8765"),
        ("localhost", [], False, "https://localhost:8765"),
    ],
)
def test_the_link_has_the_name_that_others_use(
    host: str, names: list[str], is_proxied: bool, origin: str
) -> None:
    assert page_origin(host, 8765, names, is_secure=True, is_proxied=is_proxied) == origin
