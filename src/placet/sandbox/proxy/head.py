"""The heads of HTTP/1 messages: read strictly, and written anew. Pure.

A head that two readers could read differently is declined. What goes on to the other side is built from what
was read here, never copied: who is spoken to and where a body ends is the same for everybody.

Keep true:
1. A message has one length or none: a count, or chunks, never both, never twice.
2. The Host of a request is the one in its URL, the one that was judged.
3. Headers that are about one connection end here.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from placet.sandbox.hosts import plain_host
from placet.truncation import truncate

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e]+) HTTP/1\.([01])")
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*))?")
_HEADER = re.compile(rb"(" + _TOKEN + rb"):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_COUNT = re.compile(rb"[0-9]{1,15}")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,12})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?")

_OF_ONE_CONNECTION = frozenset(
    {
        b"connection",
        b"content-length",
        b"host",
        b"http2-settings",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authentication-info",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Who is spoken to and how a body is sent is said anew; the rest is between a client and its proxy."""

Body = int | Literal["chunks", "rest"]
"""So many bytes; chunks, of which the last says so; or all until the end of the connection."""


class Declined(Exception):
    """A conversation that goes no further, and what the client is told."""

    def __init__(self, status: int, words: str, *, reason: str = "") -> None:
        self.status = status
        self.words = words
        self.reason = reason
        """What stands beside the status: often all that a client shows of it."""
        super().__init__(words)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    host: str
    """In its plain spelling where it has one. Not judged yet."""
    port: int
    head: bytes = b""
    """For the host. Empty for a tunnel."""
    body: Body = 0
    minor: int = 1
    """Of the version HTTP/1."""

    @property
    def is_tunnel(self) -> bool:
        return self.method == "CONNECT"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    status: int
    head: bytes
    """For the client."""
    body: Body

    @property
    def is_interim(self) -> bool:
        return self.status < 200


def read_request(head: bytes) -> Request:
    """What a client asks for. `head` is without the empty line at its end.

    Raises:
        Declined: it is not a request to a proxy, or not one that can be read in one way only.
    """
    first, headers = _lines(head, 400)
    line = _REQUEST_LINE.fullmatch(first)
    if line is None:
        raise Declined(400, "The first line is no HTTP/1 request.")
    method, target, minor = line[1].decode(), line[2].decode(), int(line[3])
    if method == "CONNECT":
        host, port = _authority(target, None)
        return Request(method=method, host=host, port=port, minor=minor)
    scheme, sep, rest = target.partition("://")
    if not sep or scheme.lower() != "http":
        raise Declined(
            400, "This is a proxy. Ask for a whole http:// URL, or for a tunnel to a host with CONNECT."
        )
    authority, path = _split(rest)
    host, port = _authority(authority, 80)
    if sum(name == b"host" for name, _ in headers) > 1:
        raise Declined(400, "The request has more than one Host.")
    body = _body(headers, 400, minor)
    shown = f"[{host}]" if ":" in host else host
    lines = [
        f"{method} {path} HTTP/1.{minor}".encode(),
        b"Host: " + (shown if port == 80 else f"{shown}:{port}").encode(),
        *_passed_on(headers),
        *_framing(body),
        b"Connection: close",
    ]
    return Request(
        method=method,
        host=host,
        port=port,
        head=_joined(lines),
        # Without a length a request has no body; an answer then has one to the end of the connection.
        body=0 if body == "rest" else body,
        minor=minor,
    )


def read_answer(head: bytes, request: Request) -> Answer:
    """What a host answers. `head` is without the empty line at its end.

    Raises:
        Declined: it cannot be read in one way only, or is no answer to the request.
    """
    first, headers = _lines(head, 502)
    line = _STATUS_LINE.fullmatch(first)
    if line is None:
        raise Declined(502, "The host does not answer in HTTP/1.")
    status = int(line[2])
    if status == 101:
        raise Declined(502, "The host changes to another protocol, which nobody asked for.")
    body = _body(headers, 502, int(line[1]))
    if body == "chunks" and request.minor == 0:
        raise Declined(502, "The host sends chunks, which a client of HTTP/1.0 cannot read.")
    lines = [
        b"HTTP/1.1 %d %s" % (status, line[3] or b""),
        *_passed_on(headers),
        *([] if status < 200 else [*_framing(body), b"Connection: close"]),
    ]
    is_bare = request.method == "HEAD" or status in (204, 304) or status < 200
    return Answer(status=status, head=_joined(lines), body=0 if is_bare else body)


def own_answer(declined: Declined, *, is_bare: bool = False) -> bytes:
    """A whole answer of our own; without the text where a client asked for the head only."""
    text = f"{declined.words}\n".encode()
    # It may hold what a client has sent.
    reason = re.sub(rb"[^\x20-\x7e]", b"?", truncate(declined.reason or "Declined", 200).encode())
    lines = [
        b"HTTP/1.1 %d %s" % (declined.status, reason),
        b"Content-Type: text/plain; charset=utf-8",
        b"Content-Length: %d" % len(text),
        b"Connection: close",
    ]
    return _joined(lines) + (b"" if is_bare else text)


def chunk_size(line: bytes) -> int | None:
    """The bytes of a chunk, from the line before it; None if it says no such thing."""
    found = _CHUNK_LINE.fullmatch(line)
    return None if found is None else int(found[1], 16)


def _lines(head: bytes, status: int) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """The first line, and the headers with their names in lower case."""
    first, *rest = head.split(b"\r\n")
    headers: list[tuple[bytes, bytes]] = []
    for line in rest:
        # This declines lines that go on from the one before, and line ends of other kinds.
        header = _HEADER.fullmatch(line)
        if header is None:
            raise Declined(status, "A header line cannot be read.")
        headers.append((header[1].lower(), header[2]))
    return first, headers


def _split(rest: str) -> tuple[str, str]:
    """The authority of a URL, and what is asked of it."""
    found = re.fullmatch(r"([^/?#]*)(/[^#]*|\?[^#]*)?", rest)
    if found is None:
        raise Declined(400, "The URL has a part after '#', which is for the client alone.")
    path = found[2] or "/"
    return found[1], path if path.startswith("/") else f"/{path}"


def _authority(text: str, default_port: int | None) -> tuple[str, int]:
    found = _AUTHORITY.fullmatch(text)
    port = default_port if found is None or found[2] is None else int(found[2])
    if found is None or port is None:
        wanted = "host:port" if default_port is None else "host or host:port, without a user name"
        raise Declined(400, f"{truncate(text, 100)!r} is not spelled as {wanted}.")
    # What has no plain spelling is refused by the filter, in its words.
    return plain_host(found[1]) or found[1], port


def _body(headers: list[tuple[bytes, bytes]], status: int, minor: int) -> Body:
    counts = [value for name, value in headers if name == b"content-length"]
    codings = [value for name, value in headers if name == b"transfer-encoding"]
    if codings:
        if counts or minor == 0 or [value.lower() for value in codings] != [b"chunked"]:
            raise Declined(status, "The message does not say in one way only where its body ends.")
        return "chunks"
    if not counts:
        return "rest"
    if len(counts) > 1 or not _COUNT.fullmatch(counts[0]):
        raise Declined(status, "The message has a Content-Length that is no number, or more than one.")
    return int(counts[0])


def _framing(body: Body) -> list[bytes]:
    match body:
        case "chunks":
            return [b"Transfer-Encoding: chunked"]
        case "rest":
            return []
        case count:
            return [b"Content-Length: %d" % count]


def _passed_on(headers: list[tuple[bytes, bytes]]) -> list[bytes]:
    named = {
        part.strip(b" \t").lower()
        for name, value in headers
        if name == b"connection"
        for part in value.split(b",")
    }
    return [b"%s: %s" % pair for pair in headers if pair[0] not in _OF_ONE_CONNECTION | named]


def _joined(lines: list[bytes]) -> bytes:
    return b"\r\n".join([*lines, b"", b""])
