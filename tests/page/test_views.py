"""Every view of the page over a store that real commands have filled; work is started and decided there."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.coder.workbench import git
from tests.page.conftest import PATIENCE_MS, Window
from tests.page.filling import CHECK, call, fill
from tests.page.serving import Served
from tests.warm import Warm

Windows = Callable[..., Window]
expect.set_options(timeout=PATIENCE_MS)

PHONE = {"viewport": {"width": 390, "height": 780}, "color_scheme": "dark"}
VIEWS = ["needs", "runs", "code", "loops", "agents", "memory", "log", "start"]
PICTURES = Path(__file__).parents[2] / "build" / "page"
"""Where the test run leaves a picture of each view, for whoever wants to look."""
KEPT = ["code", "loops", "agents", "memory"]
"""Those that show what is kept as cards."""


class SlowModel:
    """A model that has said a few words and goes on when it may: a server with one answer, in pieces."""

    def __init__(self) -> None:
        self.left = threading.Event()
        """Whoever asked has hung up."""
        model = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                for word in ("Once", " upon", " a time"):
                    self._say(word)
                # Nothing more comes; the other side hangs up when it is told to stop.
                self.connection.settimeout(60)
                if self.connection.recv(1) == b"":
                    model.left.set()

            def _say(self, word: str) -> None:
                piece = {"choices": [{"index": 0, "delta": {"content": word}}]}
                self.wfile.write(f"data: {json.dumps(piece)}\n\n".encode())
                self.wfile.flush()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def slow() -> Iterator[SlowModel]:
    model = SlowModel()
    yield model
    model.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, warm: Warm, slow: SlowModel) -> Iterator[Served]:
    """A server over a store that is filled, which sends links to a file."""
    server = Served(tmp_path_factory.mktemp("views"), warm.command)
    tell = ["sh", "-c", f'printf "%s\\n" "$2" >> {server.home / "links.txt"}', "tell"]
    clerk = server.script("clerk", "It is 90 days.")
    server.settings(
        f"[notify]\ncommand = {json.dumps(tell)}\n"
        f"[models]\ndefault = {json.dumps(clerk)}\n"
        f"[models.providers.slow]\nurl = {json.dumps(slow.url)}\n"
    )
    fill(server)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def status(page: Page, word: str) -> None:
    """Wait until the run that is shown stands so."""
    expect(page.locator(f'.head .status[data-status="{word}"]')).to_be_visible()


def start(page: Page, served: Served, kind: str, text: str, **fields: str) -> None:
    """Start something on the page, and come to its run."""
    page.goto(f"{served.origin}/#/start?kind={kind}")
    page.locator("textarea[name=text]").fill(text)
    for name, value in fields.items():
        page.locator(f"[name={name}]").fill(value)
    page.get_by_role("button", name="Start").click()
    page.locator(".head, .problem").first.wait_for()


def card(page: Page, kind: str, title: str) -> Any:
    """Something that waits for a person."""
    return page.locator(f'article.decision[data-kind="{kind}"]', has_text=title)


def test_every_view_opens_also_on_a_phone_and_in_the_dark(served: Served, windows: Windows) -> None:
    session = served.cli("code", "list", "--json").json["sessions"][0]["id"]
    rounds = served.cli("loop", "log", "--json", "--limit", "9").json["rounds"]
    runs = [
        *(f"plan-1?tab={tab}" for tab in ("graph", "timeline", "story", "events")),
        *("plan-2", "task-1", f"{session}?tab=work", f"{session}?tab=runs"),
        *(f"{each['id']}?tab=round" for each in rounds),
    ]
    places = [*VIEWS, "log?tab=costs", "log?tab=verify", *(f"runs/{each}" for each in runs)]
    PICTURES.mkdir(parents=True, exist_ok=True)
    for device, options in (("screen", {}), ("phone", PHONE)):
        page = windows(**options).open()
        page.get_by_role("heading", name="Needs you").wait_for()
        for place in places:
            page.goto(f"{served.origin}/#/{place}")
            page.locator("main h2").first.wait_for()
            expect(page.locator("main .empty")).to_have_count(0)
            if place in KEPT:
                page.locator("main .card").first.wait_for()
            # A round that failed says so.
            problems = [] if "round-" in place else page.locator("main .problem").all_inner_texts()
            assert (place, problems) == (place, [])
            wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            assert (place, page.evaluate(wide)) == (place, False)
            if place in VIEWS or place.startswith("log") or place == "runs/plan-2":
                name = re.sub(r"\W+", "-", place)
                page.screenshot(path=PICTURES / f"{device}-{name}.png", animations="disabled")


def test_views_show_what_is_kept(served: Served, windows: Windows) -> None:
    page = windows().open("#/runs")

    kinds = page.locator("a.run .chip")
    expect(page.locator('a[data-run="plan-1"]')).to_be_visible()
    assert "turns" not in kinds.all_inner_texts()
    page.goto(f"{served.origin}/#/agents")
    agent = page.locator('[data-agent="clerk"]')
    expect(agent).to_contain_text("Answers questions about the terms.")
    agent.get_by_text("1 scenario").click()
    expect(agent).to_contain_text("90 days")
    page.goto(f"{served.origin}/#/memory")
    expect(page.locator(".card", has_text="up to 5,000 EUR")).to_contain_text("limit")
    expect(page.locator(".card", has_text="The notice is 90 days")).to_contain_text("untrusted")
    expect(page.locator("tr", has_text="cite-the-file")).to_contain_text("no run yet")
    page.goto(f"{served.origin}/#/loops")
    expect(page.locator(".tablebox tbody tr")).to_have_count(2)
    expect(page.locator(".chart canvas")).to_have_count(1)
    page.goto(f"{served.origin}/#/log?tab=costs")
    total = served.cli("log", "costs", "--json").json["total"]
    expect(page.locator("tfoot")).to_contain_text(f"{total['input_tokens']:,}")
    page.goto(f"{served.origin}/#/log?tab=verify")
    expect(page.locator('.status[data-status="verified"]')).to_be_visible()


SLY = '\u202e<img src=x onerror="document.title=1">\u3164\x1b'
SHOWN = """() => {
    const shown = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) shown.push(texts.currentNode.data);
    for (const each of document.querySelectorAll("*"))
        for (const name of ["title", "aria-label", "placeholder"]) shown.push(each.getAttribute(name) ?? "");
    return shown;
}"""
"""Every text that a person sees or hears."""


def slyly(value: Any, key: str = "") -> Any:
    """An answer in which every text that may be somebody else's ends in markup and in what nobody sees."""
    match value:
        case dict():
            return {name: slyly(each, name) for name, each in value.items()}
        case list():
            return [slyly(each, key) for each in value]
        case str() if key not in ("kind", "status", "state", "rights"):
            return value + SLY
        case _:
            return value


def test_whatever_the_server_answers_is_shown_as_text_without_what_nobody_sees(
    served: Served, windows: Windows
) -> None:
    session = served.cli("code", "list", "--json").json["sessions"][0]["id"]
    round = served.cli("loop", "log", "--json", "--limit", "1").json["rounds"][0]["id"]
    runs = [f"plan-2?tab={tab}" for tab in ("graph", "timeline", "story", "events")]
    runs += ["task-1", f"{session}?tab=work", f"{session}?tab=runs", f"{round}?tab=round"]
    window = windows()

    def answer(route: Route) -> None:
        address = route.request.url
        for told in (quote(SLY, safe=""), quote(SLY)):
            address = address.replace(told, "")
        found = route.fetch(url=address)
        route.fulfill(response=found, json=slyly(found.json()))

    window.context.route(re.compile(r"/api/v1/(?!stream|me$)"), answer)
    page = window.open()
    for place in [*VIEWS, "log?tab=costs", *(f"runs/{each}" for each in runs)]:
        page.goto(f"{served.origin}/#/{place}")
        page.locator("main h2").first.wait_for()
        expect(page.locator("main .empty", has_text="Loading")).to_have_count(0)
        if place != "start":
            expect(page.locator("main", has_text="U+202E").first).to_be_visible()
        for each in page.locator(".node, button.event, .card details:not([open]) > summary").all()[:2]:
            each.dispatch_event("click")
        shown = page.evaluate(SHOWN)
        assert (place, [each for each in shown if re.search("[\u202e\u3164\x1b]", each)]) == (place, [])
        assert page.locator("body img, body script").count() == 0
    assert "Placet" in page.title()
    window.context.unroute_all(behavior="ignoreErrors")


def test_plan_from_the_page_runs(served: Served, windows: Windows) -> None:
    page = windows().open()
    plan = {"actions": [{"id": "look", "tool": "list_dir", "parameters": {"path": "."}}]}

    start(page, served, "plan", "{oops")
    expect(page.locator(".problem")).to_contain_text("JSON")
    page.reload()
    start(page, served, "plan", json.dumps(plan))
    page.locator(".head").wait_for()

    status(page, "succeeded")
    page.locator('.node[data-status="succeeded"]').click()
    expect(page.locator("aside")).to_contain_text("list_dir")


def test_words_stream_and_stop_ends_them(served: Served, slow: SlowModel, windows: Windows) -> None:
    page = windows().open()

    start(page, served, "task", "Tell me a story.", model="slow:teller")
    expect(page.locator(".message[data-live]")).to_contain_text("Once upon")
    page.reload()  # whoever comes later sees all that was said
    expect(page.locator(".message[data-live]")).to_contain_text("Once upon")
    page.get_by_role("button", name="Stop").click()

    status(page, "canceled")
    assert slow.left.wait(30)


def test_conversation_goes_on_with_each_message(served: Served, windows: Windows) -> None:
    page = windows().open()
    model = served.script("chat", "Good morning.", "Good evening.")

    start(page, served, "chat", "Hello.", model=model)
    expect(page.locator('.message[data-who="model"]')).to_have_text([re.compile("Good morning")])
    page.get_by_label("Message").fill("Bye.")
    page.keyboard.press("Enter")

    expect(page.locator('.message[data-who="you"]')).to_have_count(2)
    expect(page.locator('.message[data-who="model"]')).to_have_count(2)
    assert page.get_by_role("button", name="Resume").count() == 0


def test_conversation_shows_what_became_of_each_call(served: Served, windows: Windows) -> None:
    page = windows().open("#/runs")
    model = served.script(
        "calls",
        {"text": "I look.", "calls": [call("read_file", path="terms.md"), call("no_such_tool")]},
        {"calls": [call("write_file", path="morning.txt", text="<b>morning</b>")]},
        {"calls": [call("write_file", path="evening.txt", text="evening")]},
        "It is written.",
    )
    options = ("--model", model, "--permissions", "read_only", "--wait", "60s", "--run-id", "calls-1")
    works = served.begin("do", "Write it.", *options)
    page.locator('a[data-run="calls-1"]').click()

    for file, button in (("morning.txt", "Approve once"), ("evening.txt", "Deny")):
        asked = card(page, "approval", file)
        expect(page.locator('.call[data-status="waiting"]')).to_contain_text("write_file")
        asked.get_by_role("button", name=button).click()
        expect(asked).to_have_count(0)

    assert works.wait(30) == 0
    status(page, "succeeded")
    calls = page.locator(".call")
    expect(calls).to_have_count(4)
    for place, end in enumerate(("succeeded", "rejected", "succeeded", "denied")):
        expect(calls.nth(place)).to_have_attribute("data-status", end)
    expect(calls.nth(0).locator(".given")).to_have_text("path=terms.md")
    expect(calls.nth(0).locator("details:not([open]) pre")).to_contain_text("90 days")
    expect(calls.nth(1)).to_contain_text("no_such_tool")
    expect(calls.nth(2).locator(".given")).to_contain_text("text=<b>morning</b>")
    expect(calls.nth(2)).to_contain_text("approved by owner")
    expect(calls.nth(3)).to_contain_text("denied by owner")
    expect(calls.nth(3)).to_contain_text("evening.txt")  # of what did not run the approval knows it
    expect(page.locator(".callcount")).to_have_text("4 calls (2 succeeded, 2 rejected)")


def test_agent_is_run_from_the_page(served: Served, windows: Windows) -> None:
    page = windows().open("#/agents")
    agent = page.locator('[data-agent="clerk"]')
    agent.get_by_label("Task for clerk").fill("How long is the notice?")

    agent.get_by_role("button", name="Run").click()

    status(page, "succeeded")
    expect(page.locator('.message[data-who="model"]')).to_contain_text("It is 90 days.")
    page.goto(f"{served.origin}/#/agents")
    expect(agent).to_contain_text("1 of 1 run succeeded")
    agent.locator("summary").first.click()
    agent.get_by_label("Times").fill("2")
    agent.get_by_role("button", name="Test").click()
    expect(agent).to_contain_text("pass^2: 0 of 1 scenario")  # its script has one answer
    expect(agent.locator(".scenario")).to_contain_text("1 of 2 runs")


def test_coding_question_is_answered_and_its_change_approved(served: Served, windows: Windows) -> None:
    page, other = windows().open(), windows().open()
    fixed = "# Terms\n\nValid from 1 January 2028.\nNotice: 90 days.\n"
    model = served.script(
        "asking",
        {"calls": [call("ask_user", question="Which year?")]},
        {"calls": [call("write_file", path="terms.md", text=fixed)]},
        "Done.",
    )
    start(page, served, "code", "Move the terms by a year", checks=CHECK, model=model)

    question = card(page, "question", "Which year?")
    expect(card(other, "question", "Which year?")).to_have_count(1)
    question.get_by_label("Your answer").fill("2028")
    question.get_by_role("button", name="Answer").click()
    change = card(page, "change", "Move the terms by a year")
    expect(change.locator(".diff .added", has_text="2028")).to_have_count(1)
    # Whoever else looks sees that it is answered, and by whom.
    expect(card(other, "question", "")).to_have_count(0)
    told = other.locator(".decided li")
    expect(told.filter(has_text="Which year?")).to_contain_text("answered Which year? by owner")
    expect(card(other, "change", "Move the terms by a year")).to_have_count(1)
    with page.expect_request("**/decision") as asked:
        change.get_by_role("button", name="Approve").click()

    # Drafted checks that were still shown somewhere would not approve a change.
    assert asked.value.post_data_json == {"decision": "approve", "kind": "change"}
    expect(told.filter(has_text="Move the terms by a year")).to_contain_text("by owner")
    expect(card(page, "question", "")).to_have_count(0)
    expect(change).to_have_count(0)
    status(page, "succeeded")
    branch = page.locator(".chip", has_text="placet/").first.inner_text()
    assert "2028" in git(served.work, "show", f"{branch}:terms.md")


def test_unknown_outcome_is_settled_with_what_was_answered(served: Served, windows: Windows) -> None:
    page, other = windows().open("#/runs"), windows().open()
    plan = served.home / "pay.json"
    pay = {"id": "pay", "tool": "shell", "parameters": {"command": "sleep 60"}}
    write = {"id": "note", "tool": "write_file", "parameters": {"path": "paid.txt", "text": "$pay.output"}}
    plan.write_text(json.dumps({"actions": [pay, {**write, "dependencies": ["pay"]}]}))
    paying = served.begin("run", plan, "--permissions", "full_access", "--run-id", "paying")
    page.locator('a[data-run="paying"]').click()
    page.locator('.node[data-status="executing"]').wait_for()
    paying.kill()
    paying.wait()
    assert served.cli("resume", "paying").code == 4
    expect(card(other, "outcome", "pay")).to_have_count(1)

    unknown = card(page, "outcome", "pay")
    unknown.get_by_role("button", name="It was done").click()
    expect(unknown.get_by_role("alert")).to_contain_text("JSON")
    unknown.get_by_label("What it answered").fill('"paid 7"')
    with page.expect_request("**/outcomes") as said:
        unknown.get_by_role("button", name="It was done").click()

    assert said.value.post_data_json["asked_at"] > 0
    status(page, "succeeded")
    assert (served.work / "paid.txt").read_text() == "paid 7"
    expect(other.locator(".decided li", has_text="pay")).to_contain_text("by owner")


def test_loop_is_paused_stopped_and_all_are(served: Served, windows: Windows) -> None:
    page = windows().open("#/loops")
    loop = page.locator('[data-loop="keep-terms"]')

    def kept() -> Any:
        return served.cli("loop", "list", "--json").json["loops"][0]

    loop.get_by_role("button", name="Pause").click()
    expect(loop).to_contain_text("paused")
    assert kept()["pause"] is not None
    loop.get_by_role("button", name="Resume").click()
    loop.get_by_role("button", name="Stop").click()
    expect(loop).to_contain_text("stopped")
    assert kept()["stop"] is not None
    loop.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Stop all loops").click()
    expect(page.locator("main .problem")).to_contain_text("All loops are stopped")
    assert kept()["all_stopped"] is not None
    page.get_by_role("button", name="Allow loops again").click()

    expect(page.get_by_role("button", name="Stop all loops")).to_be_visible()
    assert kept()["all_stopped"] is None


def test_decision_link_on_a_phone_decides_once(served: Served, browser: Browser) -> None:
    plan = served.home / "linked.json"
    write = {"id": "w", "tool": "write_file", "parameters": {"path": "linked.txt", "text": "hello\n"}}
    plan.write_text(json.dumps({"actions": [write]}))
    waits = served.begin("run", plan, "--permissions", "read_only", "--wait", "60s", "--run-id", "linked-1")
    context = browser.new_context(**PHONE, has_touch=True, is_mobile=True)  # no cookie
    window = Window(context, served.origin)
    page = window.open()
    link = _newest_link(served, page, "linked.txt")

    page.goto(link)
    expect(page.get_by_role("heading", level=3)).to_contain_text("linked.txt")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert page.get_by_role("button", name="Always").count() == 0
    page.get_by_role("button", name="Approve once").tap()
    expect(page.get_by_role("heading", level=1)).to_have_text("Decided")

    assert waits.wait(30) == 0
    assert (served.work / "linked.txt").read_text() == "hello\n"
    page.goto(link)
    expect(page.locator(".problem")).to_be_visible()
    assert page.get_by_role("button").count() == 0
    assert window.errors == []
    context.close()


def _newest_link(served: Served, page: Page, about: str) -> str:
    """The link that was sent for it, once it was."""
    links = served.home / "links.txt"
    for _ in range(600):
        for link in reversed(links.read_text().split() if links.exists() else []):
            path = link.partition(f"{served.origin}/d/")[2]
            found = page.request.get(f"{served.origin}/api/v1/links/{path}")
            if found.ok and about in found.text():
                return link
        page.wait_for_timeout(50)
    raise AssertionError("no link came")


def test_tabs_of_a_browser_share_one_stream(served: Served, windows: Windows) -> None:
    window = windows()
    first, second = window.open("#/runs"), window.open("#/runs/plan-1")
    streams: list[str] = []
    second.on("request", lambda request: streams.append(request.url) if "/stream" in request.url else None)
    for page in (first, second):
        expect(page.locator(".live")).to_have_attribute("data-on", "true")

    assert _run(served, "tabs-1") == 0
    for page in (first, second):
        page.goto(f"{served.origin}/#/runs")
        expect(page.locator('a[data-run="tabs-1"]')).to_be_visible()
    while_first_was_open = [*streams]
    with second.expect_request("**/api/v1/stream*"):
        first.close()
    assert _run(served, "tabs-2") == 0

    expect(second.locator('a[data-run="tabs-2"]')).to_be_visible()
    assert while_first_was_open == []


def _run(served: Served, run: str) -> int:
    plan = served.home / "tabs.json"
    plan.write_text(json.dumps({"actions": [{"id": "l", "tool": "list_dir", "parameters": {"path": "."}}]}))
    return served.cli("run", plan, "--run-id", run).code
