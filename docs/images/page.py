"""Take the pictures of the page: `.venv/bin/python docs/images/page.py` writes docs/images/page-*.png.

A real server over a store that real commands have filled, as the tests of the page have it, in Chromium. The
store lies in a temporary folder; the pictures name it as a reader's own would be named.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, Route, sync_playwright

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.page.filling import fill  # noqa: E402
from tests.page.serving import Served  # noqa: E402
from tests.servers.programs import chromium  # noqa: E402

SCREEN = {"width": 1000, "height": 600}
PHONE = {"width": 390, "height": 700}
VIEWS = {
    "needs": "needs",
    "runs": "runs",
    "run": "runs/plan-2?tab=graph",
    "code": "code",
    "loops": "loops",
    "agents": "agents",
    "memory": "memory",
    "log": "log",
}


def main() -> None:
    """Write all of them."""
    with tempfile.TemporaryDirectory() as folder:
        served = Served(Path(folder))
        fill(served)
        served.start()
        try:
            with sync_playwright() as driver:
                arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
                browser = driver.chromium.launch(executable_path=chromium(), args=arguments)
                _take(browser, served)
                browser.close()
        finally:
            served.stop()


def _take(browser: Browser, served: Served) -> None:
    context = browser.new_context(viewport=SCREEN, color_scheme="light")
    names = {
        str(served.work): "/srv/shop",
        str(served.home): "/home/ann",
        str(served.database): "/srv/placet.db",
    }

    def renamed(route: Route) -> None:
        """The answer of the server, with the folders called as a reader's would be."""
        answer = route.fetch()
        text = answer.text()
        for folder, name in names.items():
            text = text.replace(folder, name)
        route.fulfill(response=answer, body=text)

    # Not the stream: it has no end, and nothing happens while the pictures are taken.
    context.route(lambda url: "/api/v1/" in url and "/stream" not in url, renamed)
    page = context.new_page()
    page.goto(served.link)
    page.locator("article.decision").first.wait_for()
    for name, place in VIEWS.items():
        page.goto(f"{served.origin}/#/{place}")
        if name == "run":
            page.locator(".node").first.wait_for()
            page.locator(".tab").scroll_into_view_if_needed()
        _picture(page, name)
    page.set_viewport_size(PHONE)
    page.goto(f"{served.origin}/#/needs")
    _picture(page, "phone")


def _picture(page: Page, name: str) -> None:
    page.locator("main h2").first.wait_for()
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(500)  # Until charts and transitions are drawn.
    page.screenshot(path=HERE / f"page-{name}.png")


if __name__ == "__main__":
    main()
