"""A provider that says what a test wants, on loopback, and keeps what it was asked.

    with WireServer() as server:
        server.answers(reply({"choices": []}))
        ...                                     # ask `server.url` with any client, sync or async
        assert server.seen[0].json["model"] == "m"

Answers are given in order; the last one is given again and again.

Keep true:
1. It only plays back: what a body means is not known here.
2. It runs in threads of its own, so that clients may block, and all of them are gone when it is closed.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Event, Lock, Thread
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

LIMIT_S = 60
"""Of anything that a test waits for here: far more than it takes."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    """Without the query."""
    query: dict[str, str]
    headers: dict[str, str]
    """Their names in small letters."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Answer:
    """What to send back."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: Sequence[bytes] = ()
    """Each is sent by itself, as one chunk of the body."""
    cut: bool = False
    """Hang up behind the last chunk, without the end of the body."""
    stall: bool = False
    """Behind the last chunk, say nothing until the client leaves; that sets `server.left`."""


def reply(value: object, status: int = 200, **headers: str) -> Answer:
    """A JSON answer. `retry_after="1"` is the header `retry-after`."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(
        status=status,
        headers={"content-type": "application/json", **named},
        chunks=[json.dumps(value).encode()],
    )


def events(*chunks: bytes, cut: bool = False, stall: bool = False) -> Answer:
    """A stream of server-sent events, cut into these chunks."""
    return Answer(headers={"content-type": "text/event-stream"}, chunks=chunks, cut=cut, stall=stall)


class WireServer:
    """The server; listens from the moment it is made."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.left = Event()
        """Set when a client left an answer that stalls."""
        self.connections = 0
        """How many were opened, over all the time."""
        self._answers: list[Answer | Callable[[Seen], Answer]] = [Answer(status=404)]
        self._lock = Lock()
        self._came = Condition(self._lock)
        self._open: set[socket.socket] = set()
        self._closing = False
        self._http = _Http(("127.0.0.1", 0), _Connection)
        self._http.owner = self
        self._thread = Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def answers(self, *answers: Answer | Callable[[Seen], Answer]) -> None:
        """What comes next; a function is asked with the request."""
        with self._lock:
            self._answers = list(answers)

    def wait_seen(self, number: int) -> bool:
        """Whether that many requests have come, after waiting for them. Blocks, like `wait_left`."""
        with self._came:
            return self._came.wait_for(lambda: len(self.seen) >= number, LIMIT_S)

    def wait_left(self) -> bool:
        """Whether the client left, after waiting for it. Blocks: in a coroutine use `asyncio.to_thread`."""
        return self.left.wait(LIMIT_S)

    def close(self) -> None:
        with self._lock:
            self._closing = True
            waiting = list(self._open)
        self._http.shutdown()
        for each in waiting:
            _hang_up(each)
        # Waits for the threads of all connections.
        self._http.server_close()
        self._thread.join(LIMIT_S)

    def __enter__(self) -> WireServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self, connection: socket.socket) -> None:
        with self._lock:
            self.connections += 1
            self._open.add(connection)
            if self._closing:
                _hang_up(connection)

    def _closed(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)

    def _next(self, seen: Seen) -> Answer:
        with self._came:
            self.seen.append(seen)
            self._came.notify_all()
            found = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return found(seen) if callable(found) else found

    def _gone(self) -> None:
        if not self._closing:
            self.left.set()


class _Http(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 64
    owner: WireServer


class _Connection(BaseHTTPRequestHandler):
    server: _Http
    connection: socket.socket
    protocol_version = "HTTP/1.1"
    # Chunks that a test sends apart should arrive apart, as far as that can be had.
    disable_nagle_algorithm = True
    timeout = LIMIT_S

    def setup(self) -> None:
        super().setup()
        self.server.owner._opened(self.connection)

    def finish(self) -> None:
        self.server.owner._closed(self.connection)
        super().finish()

    def handle(self) -> None:
        # A client may leave in the middle of a request or of an answer.
        with suppress(OSError):
            super().handle()

    def do_POST(self) -> None:
        url = urlsplit(self.path)
        answer = self.server.owner._next(
            Seen(
                method=self.command,
                path=url.path,
                query=dict(parse_qsl(url.query, keep_blank_values=True)),
                headers={name.lower(): text for name, text in self.headers.items()},
                body=self.rfile.read(int(self.headers.get("content-length", 0))),
            )
        )
        try:
            self._send(answer)
        except OSError:
            # It may leave even before there is anything to wait behind.
            if answer.stall:
                self.server.owner._gone()
            raise

    do_GET = do_DELETE = do_PUT = do_POST

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, text in answer.headers.items():
            self.send_header(name, text)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for chunk in answer.chunks:
            if chunk:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        if answer.stall:
            self._wait()
            self.close_connection = True
        elif answer.cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _wait(self) -> None:
        """Until the client has left, or the server closes."""
        try:
            while self.connection.recv(4096):
                pass
        except TimeoutError:
            return
        except OSError:
            pass
        self.server.owner._gone()

    def log_message(self, format: str, *args: object) -> None:
        """Tests print enough."""


def _hang_up(connection: socket.socket) -> None:
    # The other side may be faster.
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
