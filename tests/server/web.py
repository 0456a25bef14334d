"""A site over a fresh database, asked without a socket, and what fills it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from placet import Runtime, tool
from placet.app.app import Records, open_records
from placet.events.log import EventLog
from placet.policy.permission import Permissions, Posture
from placet.redaction import Redactor
from placet.runtime.scope import Scope
from placet.server.asgi import make_app, make_site
from placet.server.guard import Asgi
from placet.server.site import Site
from placet.server.tokens import Tokens

HOST = "127.0.0.1:8765"
ORIGIN = f"http://{HOST}"
COOKIE = "placet_8765"
WRITE = {"origin": ORIGIN, "x-placet": "1", "content-type": "application/json"}


class Web:
    """One server, and clients of it."""

    def __init__(self, records: Records, folder: Path, db: str) -> None:
        self.records = records
        self.tokens = Tokens(folder / "server")
        self.owner = self.tokens.owner()
        self.redactor = Redactor([self.owner])
        self.site: Site = make_site(records, self.tokens, self.redactor, folders=[str(folder)], db=db)
        self.app: Asgi = make_app(self.site, hosts=[HOST], origins=[ORIGIN], cookie=COOKIE)

    def client(self, token: str | None = None, **more: Any) -> httpx2.AsyncClient:
        """A program that holds a token."""
        headers = {"authorization": f"Bearer {token}"} if token is not None else {}
        return httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=self.app),  # type: ignore[arg-type]
            base_url=ORIGIN,
            headers=headers,
            **more,
        )

    async def get(self, path: str, *, token: str | None = None, **headers: str) -> httpx2.Response:
        """Ask as the owner, or with another token."""
        async with self.client(token or self.owner) as client:
            return await client.get(path, headers=headers)

    async def post(
        self, path: str, body: Any = None, *, token: str | None = None, headers: Mapping[str, str] = WRITE
    ) -> httpx2.Response:
        """Write as the owner, or with another token."""
        async with self.client(token or self.owner) as client:
            return await client.post(f"/api/v1{path}", json=body if body is not None else {}, headers=headers)

    async def api(self, path: str, *, token: str | None = None) -> Any:
        """The answer of an endpoint that succeeds."""
        found = await self.get(f"/api/v1{path}", token=token)
        assert found.status_code == 200, found.text
        return found.json()

    def runtime(self, **more: Any) -> Runtime:
        """A runtime whose runs are kept here."""
        return Runtime(
            tools=[send, echo],
            events=EventLog(sinks=[self.records.events]),
            journal=self.records.journal,
            approvals=self.records.approvals,
            patience_s=0,
            permissions=Permissions(standing=Posture.named("read_only")),
            **more,
        )

    async def ask(self, text: str = "hello", tenant: str | None = None) -> Any:
        """A run that waits for an approval; its result."""
        plan = {"actions": [{"id": "a", "tool": "send", "parameters": {"text": text}}]}
        runtime = self.runtime()
        result = await runtime.execute(plan, scope=Scope(tenant=tenant) if tenant is not None else None)
        await runtime.events.settle()
        return result


@tool(risk="destructive")
def send(text: str) -> str:
    """Send a text."""
    return f"sent {text}"


@tool(risk="read_only")
def echo(text: str) -> str:
    """Say it again."""
    return text


W = TypeVar("W", bound=Web)


@asynccontextmanager
async def opened(folder: Path, url: str | None = None, *, kind: type[W] = Web) -> AsyncIterator[W]:
    """A web over a fresh database in a folder, or over the one at `url`."""
    db = url or str(folder / "placet.db")
    with open_records(db, create=True, writes=True, anchor=folder / "a") as records:
        yield kind(records, folder, db)
