"""The API as an ASGI application that a program mounts in its own.

Keep true:
1. What is shown and decided is what lies in the database of the runtime; there is no second record.
2. A run that was decided on goes on in the runtime that was given, on the event loop of the program.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placet.engine.protocol import AS_USUAL, SubmitOptions
from placet.errors import PlacetError, RunHeld, UsageError
from placet.extras import install_command, is_installed

if TYPE_CHECKING:
    from placet.app.work import Job
    from placet.durable.sql import SqlJournal
    from placet.runtime.journal import Decision
    from placet.runtime.runtime import Runtime
    from placet.server.guard import Asgi, Message, Receive, Send
    from placet.server.tokens import Tokens
    from placet.storage.database import Database


class ServerApp:
    """The API and the page as an ASGI application."""

    def __init__(self, served: Asgi, tokens: Tokens, engine: RuntimeEngine | None) -> None:
        self._served = served
        self._tokens = tokens
        self._engine = engine

    def login_path(self, name: str = "owner") -> str:
        """A path below the mount point that logs one browser in, once, within ten minutes. Send people there
        whom your program knows.

        Args:
            name: The token as which the browser acts.
        """
        return f"/login?code={self._tokens.code(name)}"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, as every ASGI application does.

        Args:
            scope: What is known of the request.
            receive: Gives its body.
            send: Takes the answer.
        """
        if self._engine is not None:
            self._engine.loop = asyncio.get_running_loop()
        if scope["type"] == "http":
            await self._served(scope, receive, send)
        elif scope["type"] == "lifespan":
            await _live(receive, send)


def app(
    source: Runtime | Database,
    *,
    hosts: Collection[str],
    origins: Collection[str] = (),
    tokens: str | os.PathLike[str] | None = None,
) -> ServerApp:
    """Return an ASGI application that serves the page and the API of `placet serve` over the database of a
    program. Mount it in FastAPI or Starlette.

    With a runtime, a run that somebody decides on goes on in that runtime; with a database alone, decisions
    are only recorded. Callers need a token, as for `placet serve`; the owner's is in the file `token` of the
    folder `tokens`.

    Args:
        source: A runtime whose journal is a `SqlJournal`, or a database from `open_database`.
        hosts: The values of the header `Host` that are answered, such as `"app.example.org"`.
        origins: The values of `Origin` from which browsers may write. Default: `https://` and each host.
        tokens: Folder in which the tokens are kept. Default: the one of `placet serve`.

    Raises:
        UsageError: the extra `server` is not installed, or the runtime keeps its runs nowhere.
    """
    if not is_installed("server"):
        raise UsageError(f"The server needs the extra `server`. Install it with: {install_command('server')}")
    from placet.app.app import Records, known_secrets
    from placet.redaction import Redactor
    from placet.runtime.runtime import Runtime
    from placet.server.asgi import make_app, make_site
    from placet.server.tokens import Tokens
    from placet.storage.location import user_folder

    runtime = source if isinstance(source, Runtime) else None
    database = _journal(runtime).database if runtime is not None else source
    assert not isinstance(database, Runtime)
    redactor = runtime.events.redactor if runtime is not None else Redactor(known_secrets(os.environ))
    data = user_folder(os.environ)
    kept = Tokens(Path(tokens) if tokens is not None else data / "server")
    redactor.add_secret(kept.owner())
    records = Records(database, {}, data / "anchors", redactor)
    site = make_site(records, kept, redactor)
    engine = RuntimeEngine(runtime) if runtime is not None else None
    site.engine = engine
    served = make_app(
        site,
        hosts=hosts,
        origins=origins or [f"https://{host}" for host in hosts],
        cookie="placet",
        is_secure=not origins,
    )
    return ServerApp(served, kept, engine)


async def _live(receive: Receive, send: Send) -> None:
    """Nothing has to be started: the log is read while somebody watches."""
    while True:
        message: Message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _journal(runtime: Runtime) -> SqlJournal:
    from placet.durable.sql import SqlJournal

    if not isinstance(runtime.journal, SqlJournal):
        raise UsageError(
            "app() shows what a database holds, and this runtime keeps its runs in none. Make it with "
            "Runtime(journal=SqlJournal(database), approvals=SqlApprovals(database), ...)."
        )
    return runtime.journal


class RuntimeEngine:
    """Goes on with the runs of one runtime, on the event loop of the program. It begins none by itself."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def submit(self, job: Job, options: SubmitOptions = AS_USUAL) -> str:
        """Refuse: the program begins its runs itself."""
        raise UsageError("The program that runs this server begins its runs itself.")

    async def wake(
        self, run_id: str, *, decide: Mapping[str, Decision] | None = None, text: str | None = None
    ) -> str:
        """Go on with a run."""
        if text is not None:
            raise UsageError("The program that runs this server leads its conversations itself.")
        if self.loop is None:
            raise UsageError("The server has not begun yet.")
        self.loop.call_soon_threadsafe(self._start, run_id, dict(decide or {}))
        return run_id

    def decided(self, run_id: str) -> None:
        """Go on with a run that somebody has decided on."""
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self._start, run_id, {})

    async def cancel(self, run_id: str, reason: str) -> bool:
        """Refuse: the program stops its runs itself."""
        return False

    async def drain(self) -> None:
        """Nothing: the tasks are the program's."""

    def _start(self, run_id: str, decide: Mapping[str, Decision]) -> None:
        if run_id not in self._tasks:
            task = asyncio.ensure_future(self._resume(run_id, decide))
            self._tasks[run_id] = task
            task.add_done_callback(lambda _: self._tasks.pop(run_id, None))

    async def _resume(self, run_id: str, decide: Mapping[str, Decision]) -> None:
        for _ in range(_TRIES):
            try:
                await self._runtime.resume(run_id, decide=decide)
                return
            except RunHeld:
                # Whoever asked is about to let go of it, or waits for the answer itself.
                await asyncio.sleep(_PAUSE_S)
            except PlacetError:
                return  # It is led by an assistant or a coder of the program, which goes on with it.


_TRIES, _PAUSE_S = 20, 0.25
