"""The page in Chromium: watch, decide, stop, beside a command line that works on the same database."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

from placet.safe_text import clean
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


def choose(page: Page, run: str) -> None:
    """Select what waits in a run, by the keys."""
    ids = page.locator("article.decision").evaluate_all("cards => cards.map((each) => each.dataset.id)")
    for each in ids[1 : ids.index(card(page, run).get_attribute("data-id")) + 1]:
        page.keyboard.press("j")
        expect(page.locator(f'article[data-id="{each}"]')).to_have_attribute("aria-selected", "true")
    expect(card(page, run)).to_have_attribute("aria-selected", "true")


def deny(served: Served, run: str) -> None:
    """Deny what waits in a run, on the command line."""
    (asked,) = [
        each for each in served.cli("approvals", "list", "--json").json["approvals"] if each["run_id"] == run
    ]
    assert served.cli("approvals", "deny", asked["id"], "--reason", "not now").code == 0


def test_a_run_lights_up_while_it_executes(served: Served, windows: Windows) -> None:
    def waits(name: str, **more: Any) -> dict[str, Any]:
        """An action that goes on until there is a file of its name."""
        command = f"until [ -e {name} ]; do sleep 0.05; done"
        return {"id": name, "tool": "shell", "parameters": {"command": command}, **more}

    file = plan(served, "lights", waits("first"), waits("second", dependencies=["first"]))
    page = windows().open("#/runs")

    running = served.begin("run", file, "--run-id", "lights-1", "--permissions", "full_access")
    page.locator('a[data-run="lights-1"]').click()
    page.get_by_role("tab", name=re.compile("Graph")).click()
    executing, succeeded = (
        page.locator(f'.node[data-status="{each}"]') for each in ("executing", "succeeded")
    )

    expect(executing).to_have_count(1)
    expect(succeeded).to_have_count(0)
    (served.work / "first").touch()
    expect(succeeded).to_have_count(1)
    expect(executing).to_have_count(1)
    (served.work / "second").touch()
    expect(succeeded).to_have_count(2)
    expect(page.locator(".node")).to_have_count(2)
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

    deny(served, run)

    expect(card(page, run)).to_have_count(0)
    told = page.locator(".decided li", has_text="from_cli.txt")
    expect(told).to_contain_text("denied")
    expect(told).to_contain_text("not now")


def test_who_decided_is_said_though_the_log_says_it_later(windows: Windows) -> None:
    """What waits is read from a table that is written before the log, and may be read in between."""
    question = {
        "kind": "question",
        "id": "q",
        "run_id": "r",
        "title": "Which?",
        "text": "Which?",
        "asked_at": 1.0,
    }
    waiting = [question]
    window = windows()
    window.context.route(
        "**/api/v1/needs-you", lambda route: route.fulfill(json={"items": waiting, "count": len(waiting)})
    )
    page = window.open()
    expect(page.locator("article.decision")).to_have_count(1)

    def hear(kind: str, data: Any) -> None:
        """As from the tab that holds the stream."""
        page.evaluate(
            "(event) => new BroadcastChannel('placet /api/v1').postMessage(event)",
            {"type": "event", "id": None, "kind": kind, "data": data},
        )

    waiting.clear()
    hear("needs", {"run_ids": ["r"]})
    told = page.locator(".decided li")
    expect(told).to_contain_text("Which?")
    hear("log", [{"kind": "coding_question_closed", "run_id": "r", "data": {"question": "q", "by": "ann"}}])

    expect(told).to_have_count(1)
    expect(told).to_contain_text("answered Which? by ann")


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
    """In parameters, diffs, file names, titles and agents; direction marks and escapes are shown as what they
    are."""
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
    # As the name of a file, and as what a tool answered.
    file = served.work / f'<img src=x onerror="{steal}">.txt'
    file.write_text(payload)
    reading = plan(served, "read", {"id": "r", "tool": "read_file", "parameters": {"path": file.name}})
    assert served.cli("run", reading, "--run-id", "read-script").code == 0
    page.goto(f"{served.origin}/#/runs/read-script?tab=graph")
    page.locator(".node").click()
    expect(page.locator("aside")).to_contain_text("<img src=x onerror=")
    page.locator("aside details", has_text="Result").locator("summary").click()
    expect(page.locator("aside")).to_contain_text(f"<script>{steal}</script>")
    assert page.locator("main script, main img").count() == 0
    agents = served.home / ".config" / "placet" / "agents"
    agents.mkdir(parents=True, exist_ok=True)
    # A direction mark is refused in names and descriptions.
    line = f'<img src=x onerror="{steal}">'
    name, text = json.dumps(line), json.dumps(f"{line}\u202e")
    (agents / "sly.toml").write_text(
        f'id = "sly"\nname = {name}\ndescription = {name}\nidentity = {text}\n'
        f"[[scenarios]]\nname = {name}\ninput = {text}\nexpect = {text}\n"
    )
    page.goto(f"{served.origin}/#/agents")
    agent = page.locator('[data-agent="sly"]')
    agent.locator("summary").first.click()
    told = agent.inner_text()
    expect(agent.locator(".scenario")).to_contain_text("<img src=x")
    # Name, description, identity; name, input and expectation of its scenario.
    assert told.count("<img src=x onerror=") == 6, told
    assert "\u202e" not in told
    assert page.locator("main script, main img").count() == 0
    assert "owned" not in page.title()


def test_whatever_a_terminal_is_not_shown_the_page_does_not_show_either(windows: Windows) -> None:
    page = windows().open()

    seen = page.evaluate(
        """async () => {
            const { safe } = await import("./page/text.js");
            const seen = [];
            for (let code = 0; code <= 0x10ffff; code++) {
                const character = String.fromCodePoint(code);
                if (safe(character) === character) seen.push(code);
            }
            return seen;
        }"""
    )

    hidden = [
        code for code in seen if (shown := clean(chr(code), lines=True, tabs=True)) != chr(code) and shown
    ]
    assert [f"{code:x}" for code in hidden] == []
    assert {ord("a"), ord("\n"), ord("\t"), ord("ä"), ord("語"), 0x1F600} <= set(seen)


def test_call_that_was_denied_says_what_it_would_have_been_given(served: Served, windows: Windows) -> None:
    """The log does not have it, its approval has."""
    run = waiting_run(served, "denied", "<b>private</b>")
    deny(served, run)
    served.cli("resume", run)
    page = windows().open(f"#/runs/{run}?tab=graph")

    page.locator('.node[data-status="rejected"]').click()

    expect(page.locator("aside")).to_contain_text("<b>private</b>")


def test_run_is_shown_whatever_it_is_called(served: Served, windows: Windows) -> None:
    run = "nightly/7, 100%25 <b>"
    file = plan(served, "odd", write("odd.txt"))
    page = windows().open("#/runs")
    served.cli("run", file, "--permissions", "read_only", "--run-id", run)

    page.get_by_text(run).first.click()
    expect(page.locator(".head .id")).to_have_text(run)
    expect(page.locator(".live")).to_have_attribute("data-on", "true")
    card = page.locator("article.decision")
    card.get_by_role("button", name="Deny").click()
    expect(card).to_have_count(0)
    assert served.cli("resume", run).code != 4
    expect(
        page.locator('.head .status[data-status="running"], .head .status[data-status="waiting"]')
    ).to_have_count(0)


def test_a_submission_says_why_it_waits(served: Served, windows: Windows) -> None:
    file = plan(served, "queued", write("queued.txt"))
    page = windows().open("#/runs")
    run = served.cli("submit", file, "--queue", "<b>night</b>", "--json").json["run_id"]

    row = page.locator(f'[data-submission="{run}"]')
    expect(row.locator('[data-status="queued"]')).to_be_visible()
    expect(row).to_contain_text("no worker serves the queue '<b>night</b>'")
    expect(page.locator('[data-queue="<b>night</b>"]')).to_contain_text("1 queued")
    served.cli("runs", "cancel", run)


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
    waiting_run(served, "keys_next")
    run = waiting_run(served, "keys")
    page = windows().open()
    posted: list[str] = []
    page.on("request", lambda request: posted.append(request.url) if request.method == "POST" else None)
    expect(card(page, run)).to_have_count(1)

    page.keyboard.press("2")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    page.keyboard.press("1")
    expect(page.get_by_role("heading", name="Needs you")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    choose(page, run)
    page.keyboard.press("?")
    page.keyboard.press("d")  # closes the list of keys, and decides nothing
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(card(page, run)).to_have_count(1)
    page.keyboard.down("d")

    expect(card(page, run)).to_have_count(0)
    expect(page.locator('article.decision[aria-selected="true"]')).to_have_count(1)
    page.keyboard.down("d")  # the key is still held
    page.keyboard.up("d")
    page.evaluate("new Promise((done) => setTimeout(done, 100))")
    assert len(posted) == 1


def test_a_key_decides_what_was_chosen_whatever_others_decide(served: Served, windows: Windows) -> None:
    above, run, below = (waiting_run(served, f"chosen_{name}") for name in ("above", "it", "below"))
    page = windows().open()
    expect(card(page, below)).to_have_count(1)
    choose(page, run)

    deny(served, above)
    expect(card(page, above)).to_have_count(0)
    expect(card(page, run)).to_have_attribute("aria-selected", "true")

    deny(served, run)
    expect(card(page, run)).to_have_count(0)
    expect(page.locator('article.decision[aria-selected="true"]')).to_have_count(0)
    page.keyboard.press("d")  # was meant for what has just gone
    page.keyboard.press("j")
    expect(card(page, below)).to_have_attribute("aria-selected", "true")


def test_address_that_means_nothing_is_told(windows: Windows) -> None:
    for place, words in (("#/runs/%zz", "There is no run '%zz'."), ("#/%zz", "There is no view")):
        expect(windows().open(place).locator("main")).to_contain_text(words)


def test_without_a_cookie_the_page_takes_a_token(served: Served, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(served.origin)

    expect(page.locator("#app")).to_contain_text("placet serve")
    assert page.locator("article").count() == 0
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Token").fill((served.home / ".local/share/placet/server/token").read_text())
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Needs you")).to_be_visible()
    context.close()


def test_a_revoked_token_signs_its_page_out(served: Served, browser: Browser) -> None:
    """The stream that is open then ends, and the page does not show the token again and again."""
    token = served.cli("serve", "token", "add", "guest").out.strip()
    context = browser.new_context()
    page = context.new_page()
    page.goto(served.origin)
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".live[data-on=true]")).to_be_visible()

    served.cli("serve", "token", "revoke", "guest")
    waiting_run(served, "after-the-guest")

    expect(page.get_by_label("Token")).to_be_visible()
    assert page.get_by_text("after-the-guest").count() == 0
    context.close()
