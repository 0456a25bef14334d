"""The page as a person meets it: a real server in a process of its own, and Chromium.

One browser and one server serve a whole module; a test has runs of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.page.serving import Served
from tests.servers.programs import chromium
from tests.warm import Warm

PATIENCE_MS = 30_000
"""How long a test waits for what must come; it passes as soon as it is there."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium; fails where there is none, because a skipped test proves nothing.

    Not for longer than a module: while Playwright's synchronous interface is open, asynchronous tests of
    other modules could not run in this process.
    """
    with sync_playwright() as driver:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        found = driver.chromium.launch(executable_path=chromium(), args=arguments)
        yield found
        found.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Iterator[Served]:
    """A server that runs while the tests of a module do."""
    server = Served(tmp_path_factory.mktemp("served"), warm.command)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def signed_in(browser: Browser, served: Served) -> Any:
    """The cookie of a browser that has opened the link, as Playwright keeps it."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(served.link)
    page.get_by_role("heading", name="Needs you").wait_for(timeout=PATIENCE_MS)
    state = context.storage_state()
    context.close()
    return state


class Window:
    """A browser of one person: pages share its cookies, and what went wrong in them is kept."""

    def __init__(self, context: BrowserContext, origin: str) -> None:
        self.context = context
        self.origin = origin
        self.errors: list[str] = []

    def open(self, place: str = "") -> Page:
        """A page of the server, such as "#/runs"."""
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._heard)
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"{self.origin}/{place}")
        return page

    def _heard(self, message: Any) -> None:
        # A blocked script or style is told on the console alone. A request that is refused or cut off by a
        # test is told there as well.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.errors.append(message.text)


@pytest.fixture
def windows(browser: Browser, served: Served, signed_in: Any) -> Iterator[Any]:
    """Make browsers that are signed in; no script error and no breach of the policy may happen in one."""
    made: list[Window] = []

    def make(**options: Any) -> Window:
        context = browser.new_context(
            storage_state=signed_in, **{"viewport": {"width": 1280, "height": 800}, **options}
        )
        made.append(Window(context, served.origin))
        return made[-1]

    yield make
    for each in made:
        each.context.close()
    assert [error for each in made for error in each.errors] == []
