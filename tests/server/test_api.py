"""What the API answers: runs, what waits for a person, decisions, and who sees them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec import to_builtins

from placet.app.run_export import export_html, fold_run
from placet.coder.session import Question, Session
from tests.server.web import WRITE, Web, opened


@pytest_asyncio.fixture
async def web(tmp_path: Path) -> AsyncIterator[Web]:
    async with opened(tmp_path) as made:
        yield made


async def test_runs_come_newest_first_page_by_page(web: Web) -> None:
    runtime = web.runtime()
    plan = {"actions": [{"id": "a", "tool": "echo", "parameters": {"text": "x"}}]}
    made = [(await runtime.execute(plan)).run_id for _ in range(5)]

    seen: list[str] = []
    after = ""
    while True:
        page = await web.api(f"/runs?limit=2{after}")
        seen += [run["run_id"] for run in page["runs"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"

    assert seen == made[::-1]


async def test_run_says_what_kind_it_is_and_how_it_stands(web: Web) -> None:
    result = await web.ask()

    found = await web.api(f"/runs/{result.run_id}")

    assert (found["run"]["kind"], found["run"]["status"]) == ("plan", "waiting")
    assert (found["view"]["status"], found["view"]["counts"]) == ("waiting", {"waiting": 1})
    assert found["cursor"] == web.records.events.last_position()


@pytest.mark.parametrize("path", ["/runs/none", "/runs/none/events", "/approvals/none", "/nothing"])
async def test_what_is_not_there_is_404(web: Web, path: str) -> None:
    found = await web.get(f"/api/v1{path}")

    assert found.status_code == 404
    assert found.json()["error"]["message"]


async def test_start_of_an_id_is_not_enough(web: Web) -> None:
    result = await web.ask()

    found = await web.get(f"/api/v1/runs/{result.run_id[:6]}")

    assert found.status_code == 404


async def test_approval_waits_with_what_it_is_about_and_is_gone_once_decided(web: Web) -> None:
    result = await web.ask("good morning")

    (item,) = (await web.api("/needs-you"))["items"]
    said = await web.post(
        f"/approvals/{item['id']}/decision", {"decision": "once", "fingerprint": item["fingerprint"]}
    )
    after = await web.api("/needs-you")

    assert (item["kind"], item["tool"], item["run_id"]) == ("approval", "send", result.run_id)
    assert item["parameters"] == {"text": "good morning"}
    assert (item["risk"], item["reversibility"]) == ("destructive", "irreversible")
    assert item["reasons"]
    assert said.json()["status"] == "approved"
    assert after["count"] == 0
    assert web.records.approvals.get(item["id"]).decided_by == "owner"


async def test_of_two_who_decide_at_once_one_wins_and_the_other_is_told(web: Web) -> None:
    waiting = (await web.ask()).waiting[0].approval
    other = web.tokens.add("ann", rights=["see", "decide"])
    path = f"/approvals/{waiting}/decision"

    answers = await asyncio.gather(
        web.post(path, {"decision": "once"}),
        web.post(path, {"decision": "deny", "reason": "no"}, token=other),
    )

    assert sorted(each.status_code for each in answers) == [200, 409]
    won = web.records.approvals.get(waiting).decided_by
    (lost,) = (each for each in answers if each.status_code == 409)
    assert lost.json()["error"]["code"] == "usage.approval_decided"
    assert won in lost.json()["error"]["message"]


async def test_what_was_shown_is_what_is_decided(web: Web) -> None:
    waiting = (await web.ask()).waiting[0].approval

    found = await web.post(f"/approvals/{waiting}/decision", {"decision": "once", "fingerprint": "0" * 64})

    assert found.status_code == 409
    assert web.records.approvals.get(waiting).decision is None


async def test_tenants_see_and_decide_only_their_own(web: Web) -> None:
    mine, theirs, nobodys = await web.ask(tenant="a"), await web.ask(tenant="b"), await web.ask()
    token = web.tokens.add("a's", tenant="a", rights=["see", "decide", "start"])
    others = theirs.waiting[0].approval

    runs = await web.api("/runs", token=token)
    needs = await web.api("/needs-you", token=token)
    log = await web.api(f"/runs/{mine.run_id}/events", token=token)
    refused = [
        await web.get(f"/api/v1{path}", token=token)
        for path in (
            f"/runs/{theirs.run_id}",
            f"/runs/{theirs.run_id}/events",
            f"/runs/{nobodys.run_id}",
            f"/approvals/{others}",
        )
    ]
    refused.append(await web.post(f"/approvals/{others}/decision", {"decision": "once"}, token=token))

    assert [run["run_id"] for run in runs["runs"]] == [mine.run_id]
    assert [item["run_id"] for item in needs["items"]] == [mine.run_id]
    assert {event["tenant"] for event in log["events"]} == {"a"}
    assert {each.status_code for each in refused} == {404}
    assert web.records.approvals.get(others).decision is None


async def test_secrets_and_steering_characters_leave_in_no_answer(web: Web) -> None:
    result = await web.ask(f"token {web.owner} \x1b[31m\u202e<script>alert(1)</script>")

    texts = [
        (await web.get(f"/api/v1{path}")).text
        for path in ("/needs-you", f"/runs/{result.run_id}/events", "/runs")
    ]

    assert "<script>" in texts[0]  # As a text in JSON, which the page shows as text.
    for text in texts:
        assert web.owner not in text
        assert "\x1b" not in text
        assert "\u202e" not in text


async def test_query_that_means_nothing_is_a_clear_error(web: Web) -> None:
    for path in ("/runs?limit=0", "/runs?limit=x", "/runs?after=7", "/runs?what=1", "/runs?limit=1&limit=2"):
        found = await web.get(f"/api/v1{path}")
        assert found.status_code == 400, path
        assert found.json()["error"]["message"]


async def test_description_names_every_path(web: Web) -> None:
    found = await web.api("/openapi.json")

    assert found["openapi"].startswith("3.1")
    assert "/api/v1/approvals/{approval}/decision" in found["paths"]
    assert "ApprovalNeeded" in found["components"]["schemas"]


async def test_graph_and_story_of_a_run(web: Web) -> None:
    runtime = web.runtime()
    step = {"tool": "echo", "parameters": {"text": "x"}}
    plan = {"id": "p", "actions": [{"id": "a", **step}, {"id": "b", "dependencies": ["a"], **step}]}
    result = await runtime.execute(plan)
    await runtime.events.settle()

    graph = await web.api(f"/runs/{result.run_id}/graph")
    story = await web.api(f"/runs/{result.run_id}/story")

    assert graph["keys"] == ["p/a", "p/b"]
    assert graph["x"][0] < graph["x"][1]
    assert graph["edges"] == [[0, 1]]
    assert story["lines"]


async def test_what_an_action_answered_is_shown_without_secrets_and_cut(web: Web) -> None:
    texts = {"a": f"hello {web.owner}", "long": "x" * 300_000}
    actions = [{"id": name, "tool": "echo", "parameters": {"text": text}} for name, text in texts.items()]
    result = await web.runtime().execute({"id": "p", "actions": actions})
    theirs = web.tokens.add("b's", tenant="b")

    found = {name: await web.api(f"/runs/{result.run_id}/output?action=p/{name}") for name in (*texts, "no")}
    refused = await web.get(f"/api/v1/runs/{result.run_id}/output?action=p/a", token=theirs)

    assert found["a"]["output"].startswith("hello ")
    assert web.owner not in found["a"]["output"]
    assert found["long"]["is_cut"]
    assert len(found["long"]["output"]) <= 200_000
    assert found["no"]["missing"]
    assert refused.status_code == 404


async def test_plan_that_is_too_long_for_the_log_is_shown_whole(web: Web) -> None:
    runtime = web.runtime()
    actions = [{"id": f"a{n}", "type": "state_write", "parameters": {"key": f"k{n}"}} for n in range(1200)]
    result = await runtime.execute({"id": "p", "actions": actions})
    await runtime.events.settle()

    planned = await web.api(f"/runs/{result.run_id}/graph")
    found = await web.api(f"/runs/{result.run_id}")
    graph = await web.api(f"/runs/{result.run_id}/graph")

    assert found["view"]["counts"] == {"succeeded": 1200}
    assert found["view"]["actions"]["p/a7"]["type"] == "state_write"
    assert len(graph["keys"]) == 1200
    assert len(set(zip(graph["x"], graph["y"], strict=True))) == 1200
    assert planned == graph


async def test_view_goes_on_from_what_was_read_before(web: Web) -> None:
    """What is held between two looks is brought up to date, and is the same as if all were read anew."""
    result = await web.ask()
    first = (await web.api(f"/runs/{result.run_id}"))["view"]
    web.records.approvals.decide(result.waiting[0].approval, "once", by="ann")
    runtime = web.runtime()
    await runtime.resume(result.run_id)
    await runtime.events.settle()

    second = (await web.api(f"/runs/{result.run_id}"))["view"]

    assert first["status"] == "waiting"
    assert second["outcome"] == "succeeded"
    assert second == to_builtins(fold_run(web.records, result.run_id, web.redactor).view)


async def test_exported_run_holds_its_story_and_no_secret(web: Web) -> None:
    result = await web.ask(f"hello {web.owner} <b>")

    page = export_html(web.records, result.run_id, web.redactor)

    assert result.run_id in page
    assert "approval_requested" in page
    assert web.owner not in page
    assert "<b>" not in page


async def test_what_belongs_to_no_tenant_is_hidden_from_tenants(web: Web) -> None:
    token = web.tokens.add("a's", tenant="a", rights=["see", "decide", "start"])
    session = Session(id="s", intent="secret work", repository="/r", state="needs_approval")
    web.records.sessions.put(session)
    web.records.sessions.ask(Question(id="q", session="s", text="?", asked_at=1.0, until=9e9))

    lists = [
        await web.api(path, token=token) for path in ("/code", "/loops", "/rounds", "/agents", "/needs-you")
    ]
    refused = [
        await web.get(f"/api/v1{path}", token=token)
        for path in ("/code/s", "/code/s/diff", "/log/costs", "/log/verify", "/tokens")
    ]
    refused += [
        await web.post(path, body, token=token)
        for path, body in (
            ("/code/s/decision", {"decision": "deny"}),
            ("/questions/q/answer", {"text": "yes"}),
            ("/loops/x/state", {"state": "stopped"}),
            ("/loops-switch", {"on": True}),
        )
    ]
    mine = await web.api("/needs-you")

    assert all(not each for found in lists for each in found.values())
    assert {each.status_code for each in refused} <= {403, 404}
    assert {item["kind"] for item in mine["items"]} == {"question", "change"}
    assert web.records.timetable.switch() is None


async def test_question_is_answered_once(web: Web) -> None:
    web.records.sessions.put(Session(id="s", intent="x", repository="/r"))
    web.records.sessions.ask(Question(id="q", session="s", text="Which?", asked_at=1.0, until=9e9))

    first = await web.post("/questions/q/answer", {"text": "the left one"})
    second = await web.post("/questions/q/answer", {"text": "the right one"})

    assert (first.status_code, second.status_code) == (200, 409)
    assert web.records.sessions.question("q").answer == "the left one"


async def test_switch_stops_all_loops_and_says_who(web: Web) -> None:
    await web.post("/loops-switch", {"on": True, "reason": "enough"})
    stopped = await web.api("/loops")
    await web.post("/loops-switch", {"on": False})

    assert (stopped["switch"]["by"], stopped["switch"]["reason"]) == ("owner", "enough")
    assert web.records.timetable.switch() is None
    for _ in range(1000):
        logged = web.records.events.query()
        if len(logged) == 2:
            break
        await asyncio.sleep(0.01)  # the log is written by a thread of its own
    assert [each.kind for each in logged] == ["loops_stopped", "loops_resumed"]


async def test_name_with_a_slash_or_a_comma_is_found(web: Web) -> None:
    run_id, place = "nightly/7, again", "/runs/nightly%2F7%2C%20again"
    plan = {"actions": [{"id": "a", "tool": "send", "parameters": {"text": "hello"}}]}
    result = await web.runtime().execute(plan, run_id=run_id)
    (item,) = (await web.api("/needs-you"))["items"]

    run = await web.api(place)
    graph = await web.api(f"{place}/graph")
    story = await web.api(f"{place}/story")
    events = await web.api(f"{place}/events")
    output = await web.api(f"{place}/output?action=x/a")
    stale = await web.post(f"{place}/outcomes", {"action_id": "a", "choice": "done", "asked_at": 1.0})
    stream = web.site.stream
    async with stream.running(), web.client(web.owner) as client:
        address = "/api/v1/stream?after=0&watch=nightly%252F7%252C%2520again"
        following = asyncio.create_task(client.get(address))
        while not stream._live:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        stream.close()
        watched = await following
    web.tokens.add("ann/phone")
    made = await web.post("/tokens/ann%2Fphone/rotate")
    async with web.client(web.owner) as client:
        gone = await client.delete("/api/v1/tokens/ann%2Fphone", headers=WRITE)

    assert result.outcome == "waiting"
    assert item["run_id"] == run["run"]["run_id"] == run_id
    assert len(graph["keys"]) == 1
    assert story["lines"]
    assert {each["run_id"] for each in events["events"]} == {run_id}
    assert output["missing"]
    assert (stale.status_code, stale.json()["error"]["code"]) == (409, "conflict")
    assert f'"run_id":"{run_id}"' in watched.text
    assert made.status_code == gone.status_code == 200


async def test_session_that_has_come_further_is_not_decided_by_what_was_shown_before(web: Web) -> None:
    """Whoever approves drafted checks has not seen the change."""
    web.records.sessions.put(Session(id="s", intent="x", repository="/nowhere", state="needs_approval"))

    late, right = [
        await web.post("/code/s/decision", {"decision": "approve", "kind": kind})
        for kind in ("contract", "change")
    ]

    assert (late.status_code, late.json()["error"]["code"]) == (409, "conflict")
    assert right.status_code == 400  # its repository is not there
    kept = web.records.sessions.get("s")
    assert kept is not None
    assert kept.state == "needs_approval"
