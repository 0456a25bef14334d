"""http_get against real servers on loopback, which misbehave in every way that servers do."""

from __future__ import annotations

import asyncio
import datetime
import gzip
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from placet import __version__
from placet.errors import ToolError, UsageError
from placet.sandbox.hosts import HostFilter
from placet.tools import Tool
from placet.tools.builtin.web import MOST_BYTES, MOST_REDIRECTS, web_tools

Answer = Callable[["Exchange"], Awaitable[None]]


class Exchange:
    """One request, as the server read it, and the way to answer it."""

    def __init__(self, head: str, writer: asyncio.StreamWriter) -> None:
        first, *lines = head.split("\r\n")
        self.method, self.target, _ = first.split(" ")
        pairs = [line.split(": ", 1) for line in lines if line]
        self.headers = {name.lower(): value for name, value in pairs}
        self.writer = writer

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()

    async def reply(self, status: str, body: bytes = b"", **headers: str) -> None:
        told = {"Content-Type": "text/plain", "Content-Length": str(len(body))}
        told |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in told.items()), "", ""]
        await self.send("\r\n".join(lines).encode(), body)


class Server:
    """Answers each path as it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.paths: dict[str, Answer] = {}
        self.asked: list[Exchange] = []
        self.closed_by_peer = asyncio.Event()
        self.port = 0

    def on(self, path: str) -> Callable[[Answer], Answer]:
        def keep(answer: Answer) -> Answer:
            self.paths[path] = answer
            return answer

        return keep

    def redirect(self, path: str, location: str, status: str = "302 Found") -> None:
        async def answer(exchange: Exchange) -> None:
            await exchange.reply(status, b"elsewhere", Location=location)

        self.paths[path] = answer

    def text(self, path: str, body: bytes, content_type: str = "text/plain", **headers: str) -> None:
        async def answer(exchange: Exchange) -> None:
            await exchange.reply("200 OK", body, **{"Content-Type": content_type, **headers})

        self.paths[path] = answer

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            exchange = Exchange(head, writer)
            self.asked.append(exchange)
            await self.paths[exchange.target.partition("?")[0]](exchange)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.closed_by_peer.set()
        finally:
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = listening.sockets[0].getsockname()[1]
    made.text("/", b"hello")
    yield made
    listening.close()


def getting(server: Server, *names: str, **options: Any) -> Tool:
    """http_get that may speak to the server, under its number and under some names."""
    allow = [f"{name}:{server.port}" for name in ("127.0.0.1", *names)]

    async def resolve(host: str, port: int) -> Sequence[str]:
        if host not in names:
            raise OSError("unknown name")
        return ["127.0.0.1"]

    return web_tools(HostFilter(allow=["*", *allow]), **{"resolve": resolve, **options})[0]


async def test_a_page_comes_back_with_what_the_server_said_of_it(server: Server) -> None:
    answer = await getting(server)(server.url("/?q=1#part"))

    assert answer == {
        "url": server.url("/?q=1"),
        "status": 200,
        "content_type": "text/plain",
        "text": "hello",
        "truncated": False,
        "binary": False,
        "size_bytes": 5,
    }
    asked = server.asked[0]
    assert (asked.method, asked.target) == ("GET", "/?q=1")
    assert asked.headers["user-agent"] == f"placet/{__version__}"
    assert asked.headers["host"] == f"127.0.0.1:{server.port}"
    assert not {"cookie", "authorization"} & set(asked.headers)


def test_it_is_declared_as_what_it_is() -> None:
    (http_get,) = web_tools()
    http_get.compile()

    assert (http_get.schema.risk, list(http_get.schema.marks)) == ("network", ["untrusted"])
    assert all(p.get("description") for p in http_get.schema.parameters["properties"].values())
    assert http_get.validate({"url": "http://a", "max_bytes": MOST_BYTES + 1}) is not None


@pytest.mark.parametrize("status", ["404 Not Found", "500 Oops", "304 Not Modified", "204 No Content"])
async def test_every_status_is_an_answer(server: Server, status: str) -> None:
    @server.on("/odd")
    async def _(exchange: Exchange) -> None:
        body = b"" if status[0] in "23" else b"sorry"
        await exchange.reply(status, body)

    answer = await getting(server)(server.url("/odd"))

    assert answer["status"] == int(status[:3])


async def test_redirects_are_followed_relative_and_absolute(server: Server) -> None:
    server.redirect("/a", "b?x=1", "301 Moved")
    server.redirect("/b", server.url("/", "Other.Example."), "308 Moved")

    answer = await getting(server, "other.example")(server.url("/a"))

    assert (answer["text"], answer["url"]) == ("hello", server.url("/", "other.example"))
    assert [each.target for each in server.asked] == ["/a", "/b?x=1", "/"]
    assert server.asked[2].headers["host"] == f"other.example:{server.port}"


async def test_what_was_meant_for_one_server_is_not_sent_to_another(server: Server) -> None:
    server.redirect("/same", "/far")
    server.redirect("/far", server.url("/", "other.example"))

    await getting(server, "other.example")(server.url("/same"), {"Authorization": "Bearer x", "X-A": "1"})

    assert [each.headers.get("authorization") for each in server.asked] == ["Bearer x", "Bearer x", None]
    assert "x-a" not in server.asked[2].headers


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("http://169.254.169.254/latest/meta-data", "link-local, not public"),
        ("http://[::ffff:169.254.169.254]/", "link-local, not public"),
        ("http://2852039166/", "link-local, not public"),
        ("http://localhost:1/", "No address was found"),
        ("http://127.0.0.1:1/", "loopback, not public"),
        ("//10.0.0.1/", "private, not public"),
        ("file:///etc/passwd", "Write one that begins with http"),
        ("ftp://example.org/", "Write one that begins with http"),
        ("http://user:pw@example.org/", "user name or password"),
        ("http://exa mple/", "for a host, which is none"),
        ("http://[::1/", "."),
        ("http://a:99999/", "port 99999 of host 'a' is none"),
    ],
)
async def test_a_redirect_is_judged_like_any_url(server: Server, location: str, words: str) -> None:
    server.redirect("/away", location)

    with pytest.raises(ToolError, match=words):
        await getting(server)(server.url("/away"))

    assert len(server.asked) == 1


async def test_a_loop_of_redirects_ends(server: Server) -> None:
    server.redirect("/loop", "/loop")

    with pytest.raises(ToolError, match="More than 5 redirects") as failure:
        await getting(server)(server.url("/loop"))

    assert failure.value.retry is False
    assert len(server.asked) == MOST_REDIRECTS + 1


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "begins with http:"),
        ("example.org", "begins with http:"),
        ("file:///etc/passwd", "begins with http:"),
        ("gopher://example.org", "begins with http:"),
        ("http://", "for a host"),
        ("http://user@example.org", "user name or password"),
        ("http://good.example\\@evil.example/", "user name or password"),
        ("http://a\nb/", "cannot be read"),
        ("http://example.org:0/", "they go from 1 to 65535. Correct the port, or leave it out."),
        ("http://localhost:99999/", "port 99999 of host 'localhost' is none"),
        ("http://example.org:-1/", "port -1"),
        ("http://example.org:x/", "cannot be read"),
        ("http://%31%32%37.0.0.1/", "for a host"),
        ("http://127。0。0。1/", "not public"),
        ("http://0x7f.1/", "not public"),
        ("http://0/", "not public"),
        ("http://[::]/", "not public"),
    ],
)
async def test_urls_that_are_not_fetched_say_why(url: str, words: str) -> None:
    with pytest.raises(ToolError, match=words) as refusal:
        await web_tools()[0](url)

    assert refusal.value.retry is False


async def test_without_leave_nothing_reaches_a_server_on_this_machine(server: Server) -> None:
    for host in ("127.0.0.1", "localhost", "0x7f.1", "[::ffff:7f00:1]"):
        with pytest.raises(ToolError, match="not public"):
            await web_tools()[0](server.url("/", host))

    assert server.asked == []


async def test_odd_spellings_of_an_allowed_host_are_that_host(server: Server) -> None:
    answer = await getting(server)(server.url("/", "0x7f.1"))

    assert answer["url"] == server.url("/")


async def test_a_name_that_moves_after_the_check_changes_nothing(server: Server) -> None:
    """The first lookup is the only one: where it led is where the connection goes."""
    answers = [["127.0.0.1"], ["169.254.169.254"], ["10.0.0.1"]]
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return answers[len(asked) - 1]

    hosts = HostFilter(allow=["moving.example"])
    http_get = web_tools(hosts, resolve=resolve)[0]

    answer = await http_get(server.url("/", "moving.example"))

    assert (answer["text"], asked) == ("hello", ["moving.example"])
    with pytest.raises(ToolError, match="link-local"):
        await http_get(server.url("/", "moving.example"))
    assert len(server.asked) == 1


async def test_the_next_address_is_tried_when_one_is_dead(server: Server) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.2", "127.0.0.1"]

    http_get = web_tools(HostFilter(allow=["two.example"]), resolve=resolve)[0]

    assert (await http_get(server.url("/", "two.example")))["text"] == "hello"


async def test_a_refused_connection_may_be_tried_again(server: Server) -> None:
    http_get = web_tools(HostFilter(allow=["127.0.0.1:1"]))[0]

    with pytest.raises(ToolError, match=r"http://127\.0\.0\.1:1 gave no answer") as failure:
        await http_get("http://127.0.0.1:1/secret?token=abc")

    assert failure.value.retry is True
    assert "abc" not in str(failure.value)


async def test_an_endless_body_is_cut_and_the_connection_closed(server: Server) -> None:
    @server.on("/endless")
    async def _(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            await exchange.send("ä".encode() * 32768)

    answer = await getting(server)(server.url("/endless"), max_bytes=100_001)

    assert (answer["text"], answer["truncated"], answer["size_bytes"]) == ("ä" * 50_000, True, 100_001)
    await server.closed_by_peer.wait()


async def test_a_body_of_exactly_the_limit_is_whole(server: Server) -> None:
    server.text("/five", b"12345")

    exact = await getting(server)(server.url("/five"), max_bytes=5)
    short = await getting(server)(server.url("/five"), max_bytes=4)

    assert (exact["text"], exact["truncated"]) == ("12345", False)
    assert (short["text"], short["truncated"]) == ("1234", True)


async def test_a_packed_body_is_unpacked_and_a_bomb_is_cut(server: Server) -> None:
    server.text("/gzip", gzip.compress(b"hel") + gzip.compress(b"lo") + b"\0\0", Content_Encoding="gzip")
    server.text("/deflate", zlib.compress(b"hello"), Content_Encoding="deflate")
    bomb = gzip.compress(b"\n" * 50 * 2**20)
    server.text("/bomb", bomb, Content_Encoding="gzip")
    http_get = getting(server)

    assert (await http_get(server.url("/gzip")))["text"] == "hello"
    assert (await http_get(server.url("/deflate")))["text"] == "hello"
    answer = await http_get(server.url("/bomb"))
    assert (len(answer["text"]), answer["truncated"]) == (MOST_BYTES, True)


async def test_a_packing_that_is_unknown_or_damaged_fails(server: Server) -> None:
    server.text("/br", b"abc", Content_Encoding="br")
    server.text("/bad", b"abc", Content_Encoding="gzip")

    with pytest.raises(ToolError, match="'br', which is not understood"):
        await getting(server)(server.url("/br"))
    with pytest.raises(ToolError, match="damaged"):
        await getting(server)(server.url("/bad"))


@pytest.mark.parametrize("kind", ["gzip", "deflate"])
@pytest.mark.parametrize("cut", [1, 4, 20])
async def test_a_packed_body_that_breaks_off_is_no_answer(server: Server, kind: str, cut: int) -> None:
    """However it was sent: a length that is right says nothing about what is in it."""
    packed = (gzip.compress if kind == "gzip" else zlib.compress)(bytes(range(32, 120)) * 3)
    server.text("/whole", packed, Content_Encoding=kind)
    server.text("/cut", packed[:-cut], Content_Encoding=kind)
    server.text("/second", packed + gzip.compress(b"more")[:-cut], Content_Encoding=kind)
    http_get = getting(server)

    for path in ("/cut", "/second"):
        with pytest.raises(ToolError, match="breaks off before its end") as failure:
            await http_get(server.url(path))
        assert failure.value.retry is True
    assert (await http_get(server.url("/whole")))["size_bytes"] == 264
    assert (await http_get(server.url("/cut"), max_bytes=10))["truncated"] is True, "cut by us, not by them"


async def test_an_empty_body_may_be_called_packed(server: Server) -> None:
    server.text("/empty", b"", Content_Encoding="gzip")

    assert (await getting(server)(server.url("/empty")))["text"] == ""


async def test_chunks_are_joined(server: Server) -> None:
    @server.on("/chunked")
    async def _(exchange: Exchange) -> None:
        await exchange.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        await exchange.send(b"3\r\nhel\r\n", b"2\r\nlo\r\n", b"0\r\n\r\n")

    assert (await getting(server)(server.url("/chunked")))["text"] == "hello"


async def _too_short(exchange: Exchange) -> None:
    await exchange.reply("200 OK", b"hel", Content_Length="5")


async def _reset(exchange: Exchange) -> None:
    exchange.writer.transport.abort()


async def _junk(exchange: Exchange) -> None:
    await exchange.send(b"\x16\x03\x01 this is no HTTP\r\n\r\n")


async def _silent(exchange: Exchange) -> None:
    exchange.writer.close()


async def _huge_head(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 500_000)


@pytest.mark.parametrize("misbehave", [_too_short, _reset, _junk, _silent, _huge_head])
async def test_a_broken_answer_is_a_failure_that_may_be_tried_again(
    server: Server, misbehave: Answer
) -> None:
    server.paths["/broken"] = misbehave

    with pytest.raises(ToolError, match="gave no answer") as failure:
        await getting(server)(server.url("/broken"))

    assert failure.value.retry is True


async def test_a_slow_body_meets_the_total_time_limit(server: Server) -> None:
    @server.on("/slow")
    async def _(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            # Always in time for a limit between two reads, never for one on the whole.
            await exchange.send(b"x")
            await asyncio.sleep(0.01)

    with pytest.raises(ToolError, match=r"no whole answer within 0\.3 s") as failure:
        await getting(server, total_s=0.3)(server.url("/slow"))

    assert failure.value.retry is True
    await server.closed_by_peer.wait()


async def test_cancelling_closes_the_connection(server: Server) -> None:
    reached = asyncio.Event()

    @server.on("/wait")
    async def _(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        reached.set()
        while True:
            await exchange.send(b"x")
            await asyncio.sleep(0.01)

    getting_it = asyncio.create_task(getting(server)(server.url("/wait")))
    await reached.wait()
    getting_it.cancel()

    with pytest.raises(asyncio.CancelledError):
        await getting_it
    await server.closed_by_peer.wait()


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("grün".encode("latin-1"), "text/html; charset=ISO-8859-1", "grün"),
        ("grün".encode(), "text/html", "grün"),
        ("grün".encode(), 'application/json; charset="nonsense"', "grün"),
        ("grün".encode("utf-16"), "text/plain; charset=utf-16", "grün"),
        (b"\xef\xbb\xbfa", "text/plain; charset=utf-8", "a"),
        (b"a\xffb", "text/plain", "a\ufffdb"),
        (b"abc-", "text/plain; charset=punycode", "abc-"),
        (b"+AGE-", "text/plain; charset=utf-7", "+AGE-"),
        ("日本".encode("shift_jis"), "text/plain; charset=Shift_JIS", "日本"),
        (b"<svg/>", "image/svg+xml", "<svg/>"),
        (b"a: 1", "application/octet-stream", "a: 1"),
        ("naïve".encode(), "", "naïve"),
    ],
)
async def test_text_is_read_by_its_character_set(
    server: Server, body: bytes, content_type: str, text: str
) -> None:
    server.text("/text", body, content_type)

    answer = await getting(server)(server.url("/text"))

    assert (answer["text"], answer["binary"]) == (text, False)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"\x89PNG....", "image/png"),
        (b"%PDF-1.7", "application/pdf"),
        (b"\0\1\2\3abcd", "application/octet-stream"),
        (b"\xff\xfe\xfd____", ""),
    ],
)
async def test_of_what_is_no_text_only_type_and_size_are_told(
    server: Server, body: bytes, content_type: str
) -> None:
    server.text("/binary", body, content_type)

    answer = await getting(server)(server.url("/binary"))

    assert (answer["text"], answer["binary"], answer["size_bytes"]) == ("", True, len(body))
    assert answer["content_type"] == content_type


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil"},
        {"transfer-encoding": "chunked"},
        {"Proxy-Authorization": "x"},
        {"A": "b\r\nHost: c"},
        {"A:": "b"},
        {"": "b"},
        {"A": "日"},
    ],
)
async def test_headers_that_would_change_the_request_are_refused(
    server: Server, headers: dict[str, str]
) -> None:
    with pytest.raises(ToolError, match="Header") as refusal:
        await getting(server)(server.url("/"), headers)

    assert refusal.value.retry is False
    assert server.asked == []


async def test_the_environment_brings_no_proxy_and_no_password(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    answer = await getting(server)(server.url("/"))

    assert answer["text"] == "hello"
    assert "authorization" not in server.asked[0].headers


async def test_a_proxy_is_used_when_the_person_names_one(server: Server) -> None:
    server.text("http://outside.example/page", b"by proxy")

    async def resolve(host: str, port: int) -> Sequence[str]:
        if host == "inside.example":
            return ["10.0.0.1"]
        raise OSError("unknown here")

    proxy = f"http://me:pw@127.0.0.1:{server.port}"
    http_get = web_tools(HostFilter(deny=["denied.example"]), proxy=proxy, resolve=resolve)[0]

    assert (await http_get("http://outside.example/page"))["text"] == "by proxy"
    assert server.asked[0].headers["host"] == "outside.example"
    assert server.asked[0].headers["proxy-authorization"].startswith("Basic ")
    for url in ("http://denied.example/", "http://inside.example/", "http://127.0.0.1/"):
        with pytest.raises(ToolError, match="Not connected"):
            await http_get(url)
    assert len(server.asked) == 1


@pytest.mark.parametrize("proxy", ["", "proxy:3128", "socks5://a", "http://"])
def test_a_proxy_that_is_none_is_refused_at_once(proxy: str) -> None:
    with pytest.raises(UsageError, match="proxy is"):
        web_tools(proxy=proxy)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for secure.example, signed by itself, with its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "secure.example")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("secure.example")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


async def test_the_certificate_must_be_for_the_name_and_the_name_is_told(certificate: Path) -> None:
    told: list[Any] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.sni_callback = lambda _socket, name, _context: told.append(name)
    made = Server()
    made.text("/", b"secret")
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=context)
    port = listening.sockets[0].getsockname()[1]

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    hosts = HostFilter(allow=["secure.example", "other.example"])
    trusting = web_tools(hosts, tls=ssl.create_default_context(cafile=certificate), resolve=resolve)[0]
    plain = web_tools(hosts, resolve=resolve)[0]

    answer = await trusting(f"https://secure.example:{port}/")
    assert answer["text"] == "secret"
    assert told == ["secure.example"]
    assert made.asked[0].headers["host"] == f"secure.example:{port}"
    for http_get, host in ((trusting, "other.example"), (plain, "secure.example")):
        with pytest.raises(ToolError, match="could not prove who it is") as refusal:
            await http_get(f"https://{host}:{port}/")
        assert refusal.value.retry is False
    assert len(made.asked) == 1
    listening.close()
