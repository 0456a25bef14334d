"""A wire to a Postgres server that can be cut at the worst moment: around the COMMIT.

Between the COMMIT and its answer a client cannot know which of both it is: kept, or not kept. Here each case
can be had at will.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Literal, Self
from urllib.parse import urlsplit, urlunsplit

Cut = Literal["answer lost", "request lost", "request lost unnoticed", "answer slow"]
"""The server has committed, and nobody hears of it; it never got the request; the same, but it still waits
for it; or it is still at work when the client is already gone."""


class Proxy:
    """Listens on loopback, and passes everything on until it is told to cut."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        # Without encryption, or there would be no COMMIT to see.
        self.url = urlunsplit(
            ("postgresql", f"{parts.username}@127.0.0.1:{port}", parts.path, "sslmode=disable", "")
        )
        self._cut: Cut | None = None
        self.cuts = 0
        self._open: list[socket.socket] = [self._listener]

    def __enter__(self) -> Self:
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._open:
            _close(one)

    def cut_at_the_next_commit(self, how: Cut) -> None:
        """The wire is cut once, however often this is asked; whoever connects again is served as ever."""
        if not self.cuts:
            self._cut = how

    def cut_all(self) -> None:
        """Cut every wire that is open now; whoever connects again is served as ever."""
        cut, self._open = self._open[1:], self._open[:1]
        for one in cut:
            _close(one)

    def refuse(self) -> None:
        """Serve nobody new."""
        _close(self._listener)

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                self._open += [client, server]
                threading.Thread(target=self._forth, args=(client, server), daemon=True).start()
                threading.Thread(target=self._back, args=(server, client), daemon=True).start()

    def _back(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
        _close(client)

    def _forth(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if self._cut is None or b"COMMIT" not in data:
                    server.sendall(data)
                    continue
                how, self._cut = self._cut, None
                self.cuts += 1
                if how in {"answer lost", "answer slow"}:
                    # Nothing goes back any more, so the client hears nothing but the end.
                    client.shutdown(socket.SHUT_WR)
                    server.sendall(data)
                _close(client)
                if how != "answer lost" and how != "request lost":
                    return  # The server's side stays open: for all it knows the client is there.
                break
        if self.cuts:
            # Time to commit: a server whose client is gone may end before it has read what was sent.
            threading.Event().wait(0.3)
        _close(server)


def _close(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
