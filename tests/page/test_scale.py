"""5,000 actions, 100,000 events and 10,000 runs: only what is in sight is in the document."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from placet import EventLog, Runtime, SqlEvents, SqlJournal, open_database, tool
from placet.events.event import Event
from tests.page.conftest import PATIENCE_MS, Window
from tests.page.serving import Served
from tests.properties.effort import SOAK
from tests.warm import Warm

Windows = Callable[..., Window]
expect.set_options(timeout=PATIENCE_MS)

ACTIONS, EVENTS, RUNS = 5_000, 100_000, 10_000
WIDE = 50
"""Actions of a layer."""
MOST_NODES = 1_500
"""Elements of the whole document."""


@tool(risk="read_only")
def nothing() -> None:
    """Do nothing."""


def plan() -> dict[str, Any]:
    """Layers of actions, each after one of the layer before."""
    return {
        "id": "large",
        "source": "large",
        "actions": [
            {"id": f"a{n}", "tool": "nothing", "dependencies": [f"a{n - WIDE}"] if n >= WIDE else []}
            for n in range(ACTIONS)
        ],
    }


def fill(served: Served) -> None:
    """A store in which there is much of everything."""
    with open_database(str(served.database), create=True) as database:
        events = SqlEvents(database)
        runtime = Runtime([nothing], events=EventLog(sinks=[events]), journal=SqlJournal(database))
        assert runtime.execute_sync(plan(), run_id="large").outcome == "succeeded"
        runtime.execute_sync({"source": "small", "actions": [{"id": "a", "tool": "nothing"}]}, run_id="small")
        kept = events.last_position()
        more = [
            Event(seq=n, kind="action_progress", time=1.8e9, run_id="large", data={"message": f"step {n}"})
            for n in range(EVENTS - kept)
        ]
        events.write(more).result()
    with sqlite3.connect(served.database) as raw:
        # The same run again and again, a second apart.
        columns = [row[1] for row in raw.execute("PRAGMA table_info(runs)")]
        values = {"run_id": "'small-' || n", "begun": "begun - n", "ended": "ended - n"}
        raw.execute(
            f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {RUNS})"
            f" INSERT INTO runs ({', '.join(columns)})"
            f" SELECT {', '.join(values.get(each, each) for each in columns)} FROM runs, numbers"
            " WHERE run_id = 'small'"
        )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Iterator[Served]:
    """A server over a store in which there is much of everything."""
    server = Served(tmp_path_factory.mktemp("scale"), warm.command)
    fill(server)
    server.start()
    try:
        yield server
    finally:
        server.stop()


class Clock:
    """How long things take, for the report of the tests; nothing is asserted of it."""

    def __init__(self, page: Page, tell: Callable[[str, object], None]) -> None:
        self._page = page
        self._tell = tell

    def until(self, name: str, act: Callable[[], object], seen: Locator) -> None:
        """Do something, and wait until its effect is seen."""
        begun = time.monotonic()
        act()
        seen.first.wait_for()
        self._tell("figure", f"{name}: {1000 * (time.monotonic() - begun):.0f} ms")

    def scroll(self, name: str, box: str) -> None:
        """Scroll to the end in some steps, and say what a frame took."""
        took = self._page.evaluate(SCROLL, [box, STEPS])
        self._tell(
            "figure", f"{name}, a frame while scrolling: median {took[0]:.0f} ms, worst {took[1]:.0f} ms"
        )


STEPS = 40 if SOAK else 12
SCROLL = """async ([box, steps]) => {
  const element = document.querySelector(box), took = [];
  for (let step = 1; step <= steps; step++) {
    const begun = performance.now();
    element.scrollTop = (element.scrollHeight * step) / steps;
    element.scrollLeft = (element.scrollWidth * step) / steps;
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    took.push((performance.now() - begun) / 2);
  }
  took.sort((one, other) => one - other);
  return [took[steps / 2], took[steps - 1]];
}"""


def nodes(page: Page) -> int:
    """Elements in the document."""
    found: int = page.locator("*").count()
    return found


def test_much_of_everything_stays_smooth(
    served: Served, windows: Windows, record_property: Callable[[str, object], None]
) -> None:
    """What is asserted is how much is in the document; how long it takes is reported."""
    window = windows()
    page = window.open("#/needs")
    page.get_by_role("heading", name="Needs you").wait_for()
    clock = Clock(page, record_property)
    at = f"{served.origin}/#"

    clock.until(f"{RUNS} runs", lambda: page.goto(f"{at}/runs"), page.locator("a.run"))
    clock.scroll("runs", ".longlist")
    assert nodes(page) < MOST_NODES
    large = f"{at}/runs/large"
    clock.until(f"graph of {ACTIONS}", lambda: page.goto(f"{large}?tab=graph"), page.locator(".node"))
    expect(page.locator(".legend")).to_contain_text("5,000")
    clock.scroll("graph", ".graph")
    assert 0 < page.locator(".node").count() < 400
    assert nodes(page) < 2 * MOST_NODES
    page.get_by_label("Smaller").click(click_count=3)
    clock.scroll("graph at a quarter", ".graph")
    assert nodes(page) < 10 * MOST_NODES
    clock.until("timeline", lambda: page.goto(f"{large}?tab=timeline"), page.locator(".bar-row"))
    clock.scroll("timeline", ".longlist")
    assert nodes(page) < MOST_NODES
    clock.until("events", lambda: page.goto(f"{large}?tab=events"), page.locator(".event"))
    clock.scroll("events", ".longlist")
    assert nodes(page) < MOST_NODES
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/api/v1/log" in request.url else None)
    newest = page.locator(".event .seq", has_text=str(EVENTS))
    clock.until(f"log of {EVENTS}", lambda: page.goto(f"{at}/log"), newest)
    page.wait_for_load_state("networkidle")
    assert len(asked) == 1  # the rest is fetched by whoever scrolls to it
    top = "document.querySelector('.longlist').scrollTop = 0"
    with page.expect_response("**/api/v1/log?*"):
        page.evaluate(top)
    expect(page.locator(".event .seq", has_text=re.compile(f"^{EVENTS - 499}$"))).to_have_count(1)
    clock.scroll("log", ".longlist")
    assert nodes(page) < MOST_NODES
    page.get_by_label("Kind").fill("run_ended")
    page.get_by_label("Kind").press("Enter")
    page.get_by_label("Run").fill("small")
    page.get_by_label("Run").press("Enter")
    expect(page.locator(".event")).to_have_count(1)
    expect(page.locator(".event")).to_have_attribute("data-kind", "run_ended")
