"""The page below a path of another application, Starlette's and FastAPI's, in Chromium."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Browser, expect
from starlette.applications import Starlette
from starlette.routing import Mount

from placet import EventLog, Runtime, SqlApprovals, SqlEvents, SqlJournal, open_database, tool
from placet.server import app
from placet.server.embedding import ServerApp
from placet.server.links import Links
from placet.server.running import listen
from tests.page.conftest import PATIENCE_MS

expect.set_options(timeout=PATIENCE_MS)


@tool(risk="destructive")
def send(to: str) -> str:
    """Send something."""
    return f"sent to {to}"


class Host:
    """A program with runs of its own, that mounts the page below a path."""

    def __init__(self, folder: Path, mount: Callable[[ServerApp], Any]) -> None:
        self._database = open_database(str(folder / "app.db"), create=True)
        self.runtime = Runtime(
            [send],
            events=EventLog(sinks=[SqlEvents(self._database)]),
            journal=SqlJournal(self._database),
            approvals=SqlApprovals(self._database),
            patience_s=0,
            permissions="read_only",
        )
        opened = listen("127.0.0.1", 0)
        host = f"127.0.0.1:{opened.getsockname()[1]}"
        self.origin = f"http://{host}"
        self.served = app(self.runtime, hosts=[host], origins=[self.origin], tokens=folder / "tokens")
        self.links = Links(folder / "tokens")
        config = uvicorn.Config(mount(self.served), log_level="warning", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([opened],))
        self._thread.start()

    def ask(self, run_id: str) -> Any:
        """A run that waits for a person."""
        plan = {"actions": [{"id": "a", "tool": "send", "parameters": {"to": run_id}}]}
        with ThreadPoolExecutor(1) as beside:  # the browser's driver has an event loop here
            return beside.submit(self.runtime.execute_sync, plan, run_id=run_id).result()

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(20)
        self._database.close()


def mounted(served: ServerApp) -> Any:
    """Mounted below a path of Starlette, and below one of FastAPI."""
    inner = FastAPI()
    inner.mount("/placet", served)
    return Starlette(routes=[Mount("/inner/placet", served), Mount("/fast", inner)])


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path, mounted)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("place", ["/inner/placet", "/fast/placet"])
def test_page_works_below_a_path(host: Host, browser: Browser, place: str) -> None:
    """Files, login, cookie, live updates, a decision, and a decision link."""
    context = browser.new_context()
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    outside: list[str] = []
    page.on("request", lambda sent: outside.append(sent.url) if place not in sent.url else None)

    page.goto(f"{host.origin}{place}{host.served.login_path()}")
    expect(page.locator(".live[data-on=true]")).to_be_visible()
    cookies = context.cookies()
    host.ask("ann")
    page.get_by_role("button", name="Approve once").click()
    expect(page.locator(".decided")).to_contain_text("by owner")
    page.goto(f"{host.origin}{place}/#/runs/ann")
    expect(page.locator(".node[data-status=succeeded]")).to_be_visible()

    waiting = host.ask("bob").waiting[0].approval
    approval = host.runtime.approvals.get(waiting)  # type: ignore[union-attr]
    assert approval is not None
    code, _ = host.links.make("approval", waiting, tenant=None, fingerprint=approval.fingerprint)
    phone = browser.new_context(viewport={"width": 390, "height": 800}).new_page()
    phone.goto(f"{host.origin}{place}/d/{code}")
    phone.get_by_role("button", name="Deny").click()
    expect(phone.get_by_role("heading", name="Decided")).to_be_visible()

    assert [(each["path"], each["httpOnly"], each["sameSite"]) for each in cookies] == [
        (f"{place}/", True, "Strict")
    ]
    assert errors == []
    assert [each for each in outside if not each.endswith("/favicon.ico")] == []
    phone.context.close()
    context.close()
