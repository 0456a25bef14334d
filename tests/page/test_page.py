"""The page in Chromium: watch, decide, stop, beside a command line that works on the same database."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.page.conftest import PATIENCE_MS, Window
from tests.page.serving import Served

Windows = Callable[..., Window]
expect.set_options(timeout=PATIENCE_MS)


def plan(served: Served, name: str, *actions: dict[str, Any]) -> Path:
    path = served.work / f"{name}.json"
    path.write_text(json.dumps({"id": name, "source": name, "actions": list(actions)}))
    return path


def write(name: str, text: str = "hello\n", **more: Any) -> dict[str, Any]:
    return {"id": "write", "tool": "write_file", "parameters": {"path": name, "text": text}, **more}


def waiting_run(served: Served, name: str, text: str = "hello\n") -> str:
    """A run that waits for a person; its id."""
    file = plan(served, name, write(f"{name}.txt", text))
    ended = served.cli("run", file, "--permissions", "read_only", "--json")
    assert ended.code == 4, ended.err
    run: str = ended.json["run_id"]
    return run


def card(page: Page, run: str) -> Any:
    """What waits for a person in a run, in the view "Needs you"."""
    return page.locator("article.decision", has=page.get_by_role("link", name=f"run {run}"))


def test_a_run_lights_up_while_it_executes(served: Served, windows: Windows) -> None:
    pause = {"tool": "sleep", "parameters": {"seconds": 2}}
    file = plan(
        served, "lights", {"id": "first", **pause}, {"id": "second", **pause, "dependencies": ["first"]}
    )
    page = windows().open("#/runs")

    running = served.begin("run", file, "--run-id", "lights-1")
    page.locator('a[data-run="lights-1"]').click()
    page.get_by_role("tab", name=re.compile("Graph")).click()
    node = page.locator(".node")

    expect(page.locator('.node[data-status="executing"]')).to_have_count(1)
    expect(page.locator('.node[data-status="succeeded"]')).to_have_count(1)
    expect(page.locator('.node[data-status="succeeded"]')).to_have_count(2)
    expect(node).to_have_count(2)
    assert running.wait(30) == 0


def test_approved_on_the_page_the_waiting_command_goes_on(served: Served, windows: Windows) -> None:
    page = windows().open()
    file = plan(served, "from_page", write("from_page.txt"))
    waits = served.begin(
        "run", file, "--permissions", "read_only", "--wait", "60s", "--run-id", "from-page-1"
    )

    card(page, "from-page-1").get_by_role("button", name="Approve once").click()

    assert waits.wait(30) == 0
    assert (served.work / "from_page.txt").read_text() == "hello\n"
    expect(card(page, "from-page-1")).to_have_count(0)


def test_decided_on_the_command_line_it_leaves_the_page_and_says_who(
    served: Served, windows: Windows
) -> None:
    run = waiting_run(served, "from_cli")
    page = windows().open()
    expect(card(page, run)).to_have_count(1)

    (asked,) = [
        each for each in served.cli("approvals", "list", "--json").json["approvals"] if each["run_id"] == run
    ]
    assert served.cli("approvals", "deny", asked["id"], "--reason", "not now").code == 0

    expect(card(page, run)).to_have_count(0)
    told = page.locator(".decided li", has_text="from_cli.txt")
    expect(told).to_contain_text("denied")
    expect(told).to_contain_text("not now")


def test_of_two_browsers_that_decide_one_wins_and_the_other_is_told(served: Served, windows: Windows) -> None:
    run = waiting_run(served, "two")
    one, other = windows().open(), windows().open()
    for page in (one, other):
        expect(card(page, run)).to_have_count(1)
    # The second browser does not see what the first one does until its own answer has been answered.
    answered: list[int] = []
    other.on("response", lambda got: answered.append(got.status) if got.url.endswith("/decision") else None)
    other.route("**/api/v1/needs-you", lambda route: route.continue_() if answered else route.abort())

    card(one, run).get_by_role("button", name="Approve once").click()
    expect(card(one, run)).to_have_count(0)
    card(other, run).get_by_role("button", name="Deny").click()

    expect(other.locator('.toast[data-tone="bad"]')).to_be_visible()
    assert answered == [409]
    kept = [
        each
        for each in served.cli("approvals", "list", "--all", "--json").json["approvals"]
        if each["run_id"] == run
    ]
    assert [each["decision"] for each in kept] == ["once"]


def test_a_script_tag_stays_text(served: Served, windows: Windows) -> None:
    """In parameters, diffs, file names and titles; direction marks and escapes are shown as what they are."""
    steal = "document.title='owned'"
    payload = f'<script>{steal}</script><img src=x onerror="{steal}">\u202e\x1b[31m\n'
    run = waiting_run(served, "script", payload)
    page = windows().open()

    text = card(page, run).inner_text()
    assert "<script>document.title='owned'</script>" in text
    assert "\u202e" not in text
    assert "\x1b" not in text
    for tab in ("graph", "timeline", "story", "events"):
        page.goto(f"{served.origin}/#/runs/{run}?tab={tab}")
        page.get_by_role("tab", selected=True).wait_for()
    assert page.locator("main script, main img").count() == 0
    assert "owned" not in page.title()


def test_after_a_restart_of_the_server_no_event_is_missed(
    served: Served, browser: Browser, windows: Windows
) -> None:
    run = waiting_run(served, "restart")
    page = windows().open(f"#/runs/{run}?tab=events")
    expect(page.locator(".live")).to_have_attribute("data-on", "true")
    page.locator('.event[data-kind="approval_requested"]').wait_for()

    served.stop()
    expect(page.locator(".live")).to_have_attribute("data-on", "false")
    (asked,) = [
        each for each in served.cli("approvals", "list", "--json").json["approvals"] if each["run_id"] == run
    ]
    assert served.cli("approvals", "approve", asked["id"]).code == 0
    assert served.cli("resume", run).code == 0
    served.start("--run", run)

    expect(page.locator(".live")).to_have_attribute("data-on", "true")
    expect(page.locator('.event[data-kind="action_succeeded"]')).to_have_count(1)
    shown = [int(each) for each in page.locator(".event .seq").all_inner_texts()]
    logged = served.cli("log", "show", run, "--json").json
    assert shown == [each["seq"] for each in logged["events"]]

    # The link of a server that was started for a run shows that run, to whoever comes anew.
    with browser.new_context() as context:
        anew = context.new_page()
        anew.goto(served.link)
        expect(anew.locator(".head .id")).to_have_text(run)


def test_keys_choose_views_and_decide(served: Served, windows: Windows) -> None:
    run = waiting_run(served, "keys")
    page = windows().open()
    expect(card(page, run)).to_have_count(1)

    page.keyboard.press("2")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    page.keyboard.press("1")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    for _ in range(page.locator("article.decision").count()):
        if card(page, run).get_attribute("aria-selected") == "true":
            break
        page.keyboard.press("j")
    expect(card(page, run)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("d")

    expect(card(page, run)).to_have_count(0)


def test_without_a_cookie_the_page_says_how_to_get_one(served: Served, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(served.origin)

    expect(page.locator("#app")).to_contain_text("placet serve")
    assert page.locator("article").count() == 0
    context.close()
