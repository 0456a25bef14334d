"""Work that the server begins, goes on with, and stops."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from placet import Cancel, Runtime, SqlApprovals, SqlJournal, open_database, tool
from placet.app.work import PlanJob
from placet.engine.protocol import SubmitOptions
from placet.engine.queue_engine import QueueEngine
from placet.engine.submission import WorkerInfo
from placet.ir.stop_cause import StopCause
from placet.runtime.scope import Scope
from placet.server.stream import Watcher
from placet.storage.lease import holder
from tests.server.test_stream import OWNER
from tests.server.web import WRITE, Web, opened

WRITES = {"id": "w", "tool": "write_file", "parameters": {"path": "note.txt", "text": "hello"}}


class Desk(Web):
    """A server that may work in one folder."""

    folder: Path

    def script(self, *turns: Any) -> str:
        """A model that answers with these turns."""
        path = self.folder / "script.json"
        path.write_text(json.dumps({"turns": turns}))
        return f"scripted:{path}"

    async def start(self, **job: Any) -> str:
        """Begin a run, and return its id."""
        found = await self.post("/runs", {"folder": str(self.folder), **job})
        assert found.status_code == 202, found.text
        return str(found.json()["run_id"])

    async def until(self, look: Callable[[], Any]) -> Any:
        """What is there once it is there."""
        async with asyncio.timeout(60):
            while not (found := await asyncio.to_thread(look)):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        return found

    async def ended(self, run_id: str, *states: str) -> str:
        """How a run stands once it stands so, and nobody works on it."""

        def look() -> str | None:
            engine = self.site.engine
            assert engine is not None
            at_work = run_id in engine.at_work
            status = self.records.journal.find(run_id).status if not at_work else "running"
            return status if status in states else None

        return str(await self.until(look))


@pytest_asyncio.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    for name in ("DATA", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    work = tmp_path / "work"
    work.mkdir()
    async with opened(work, str(tmp_path / "placet.db"), kind=Desk) as web:
        web.folder = work
        async with web.site.stream.running():
            web.site.begin()
            yield web
            await web.site.end()


async def test_plan_runs_in_the_folder_and_goes_on_once_it_is_approved(desk: Desk) -> None:
    run_id = await desk.start(kind="plan", plan={"actions": [WRITES]}, permissions="read_only")
    await desk.ended(run_id, "waiting")
    (item,) = (await desk.api("/needs-you"))["items"]
    before = (desk.folder / "note.txt").exists()

    said = await desk.post(f"/approvals/{item['id']}/decision", {"decision": "once"})
    status = await desk.ended(run_id, "succeeded", "aborted")

    assert not before
    assert said.status_code == 200
    assert status == "succeeded"
    assert (desk.folder / "note.txt").read_text() == "hello"


async def test_run_belongs_to_the_trace_of_the_request(desk: Desk) -> None:
    caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    job = {"folder": str(desk.folder), "kind": "plan", "plan": {"actions": [WRITES]}}

    made = await desk.post("/runs", job, headers={**WRITE, "traceparent": caller})
    await desk.ended(made.json()["run_id"], "succeeded")

    assert desk.records.journal.record(made.json()["run_id"]).traceparent == caller


async def test_run_that_another_process_decided_on_goes_on_here(desk: Desk) -> None:
    """As the command line decides: it records, and the server hears of it by the log."""
    run_id = await desk.start(kind="plan", plan={"actions": [WRITES]}, permissions="read_only")
    await desk.ended(run_id, "waiting")

    (asked,) = desk.records.approvals.pending()
    made = desk.records.approvals.decide(asked.id, "once", by="ann")
    await asyncio.to_thread(desk.records.note_answer, made)

    assert await desk.ended(run_id, "succeeded", "aborted") == "succeeded"


async def test_denied_run_ends_without_the_effect(desk: Desk) -> None:
    run_id = await desk.start(kind="plan", plan={"actions": [WRITES]}, permissions="read_only")
    await desk.ended(run_id, "waiting")
    (asked,) = desk.records.approvals.pending()

    await desk.post(f"/approvals/{asked.id}/decision", {"decision": "deny", "reason": "not now"})

    assert await desk.ended(run_id, "aborted", "succeeded") == "aborted"
    assert not (desk.folder / "note.txt").exists()


async def test_work_starts_only_in_folders_that_were_named(desk: Desk, tmp_path: Path) -> None:
    (desk.folder / "below").mkdir()
    (desk.folder / "out").symlink_to(tmp_path)
    plan = {"actions": []}
    refused = [
        await desk.post("/runs", {"kind": "plan", "plan": plan, "folder": folder})
        for folder in (str(tmp_path), "/", ".", "", str(desk.folder / ".."), str(desk.folder / "out"))
    ]

    inside = await desk.post("/runs", {"kind": "plan", "plan": plan, "folder": str(desk.folder / "below")})

    assert {each.status_code for each in refused} == {400}
    assert inside.status_code == 202


async def test_folder_that_is_not_trusted_is_refused(desk: Desk) -> None:
    (desk.folder / ".placet").mkdir()
    (desk.folder / ".placet" / "settings.toml").write_text('tools = "tools.py"\n')
    (desk.folder / ".placet" / "tools.py").write_text("raise SystemExit\n")

    found = await desk.post("/runs", {"kind": "plan", "plan": {"actions": []}, "folder": str(desk.folder)})

    assert found.status_code == 400
    assert "trust" in found.json()["error"]["code"]


async def test_task_streams_its_words_and_asks(desk: Desk) -> None:
    call = {"name": "write_file", "arguments": {"path": "note.txt", "text": "hello"}}
    model = desk.script({"text": "I shall write it.", "calls": [call]}, {"text": "It is written."})
    heard: list[bytes] = []

    async def listen() -> None:
        async for block in desk.site.stream.follow(Watcher(OWNER), None):
            heard.append(block)

    listening = asyncio.create_task(listen())
    await desk.until(lambda: heard)
    run_id = await desk.start(kind="task", text="Write a note.", model=model)
    await desk.ended(run_id, "waiting")
    row = (await desk.api(f"/runs/{run_id}"))["run"]
    (item,) = (await desk.api("/needs-you"))["items"]
    desk.script({"text": "It is written."})  # A script that is opened again begins anew.
    await desk.post(f"/approvals/{item['id']}/decision", {"decision": "once"})
    status = await desk.ended(run_id, "succeeded", "partial", "aborted")
    listening.cancel()

    assert (row["kind"], row["title"]) == ("task", "Write a note.")
    assert status == "succeeded"
    assert (desk.folder / "note.txt").read_text() == "hello"
    said = [
        json.loads(part.partition("data: ")[2])
        for part in b"".join(heard).decode().split("\n\n")
        if "event: text" in part
    ]
    assert "".join(each["text"] for each in said).startswith("I shall write it.")
    assert {each["run_id"] for each in said} == {run_id}


async def test_chat_takes_one_message_after_the_other(desk: Desk) -> None:
    model = desk.script({"text": "Good morning."}, {"text": "Good evening."})
    run_id = await desk.start(kind="chat", text="Hello.", model=model)
    await desk.ended(run_id, "waiting")
    first = (await desk.api(f"/runs/{run_id}"))["run"]

    said = await desk.post(f"/runs/{run_id}/messages", {"text": "Bye."})
    await desk.ended(run_id, "waiting")
    view = (await desk.api(f"/runs/{run_id}"))["view"]

    assert (first["kind"], first["waits_for_message"]) == ("chat", True)
    assert said.status_code == 202
    assert [each["text"] for each in view["asked"]] == ["Hello.", "Bye."]
    assert len(view["turns"]) == 2


async def test_running_work_is_stopped(desk: Desk) -> None:
    slow = {"actions": [{"id": "s", "tool": "shell", "parameters": {"command": "sleep 60"}}]}
    run_id = await desk.start(kind="plan", plan=slow, permissions="full_access")
    await desk.until(lambda: desk.records.events.query(run=run_id, kind="action_executing"))

    stopped = await desk.post(f"/runs/{run_id}/cancel", {"reason": "enough"})

    assert stopped.json()["accepted"] is True
    assert await desk.ended(run_id, "canceled", "aborted", "waiting", "partial") != "succeeded"


async def test_what_another_program_runs_is_stopped(desk: Desk) -> None:
    entered = asyncio.Event()

    @tool(risk="read_only")
    async def wait() -> str:
        """Wait."""
        entered.set()
        await asyncio.Event().wait()
        return "waited"

    with open_database(f"sqlite://{desk.folder.parent}/placet.db") as database:
        program = Runtime(tools=[wait], journal=SqlJournal(database))
        plan = {"actions": [{"id": "w", "tool": "wait"}]}
        running = asyncio.ensure_future(program.execute(plan, run_id="elsewhere", cancel=Cancel()))
        await entered.wait()

        stopped = await desk.post("/runs/elsewhere/cancel", {"reason": "enough"})
        result = await running

    assert stopped.json()["accepted"] is True
    assert (result.outcome, result.stop_cause) == ("canceled", StopCause.PERSON)
    assert (await desk.post("/runs/elsewhere/cancel", {})).json()["accepted"] is False


async def test_what_another_program_left_waiting_for_a_person_is_stopped(desk: Desk) -> None:
    @tool
    async def send() -> str:
        """Send something."""
        return "sent"

    with open_database(f"sqlite://{desk.folder.parent}/placet.db") as database:
        ledger = SqlApprovals(database)
        parts = {"journal": SqlJournal(database), "approvals": ledger, "permissions": "balanced"}
        program = Runtime(tools=[send], patience_s=0, **parts)
        waits = await program.execute({"actions": [{"id": "s", "tool": "send"}]}, run_id="elsewhere")

        stopped = await desk.post("/runs/elsewhere/cancel", {"reason": "enough"})
        left = ledger.pending()

    assert waits.outcome == "waiting"
    assert stopped.json()["accepted"] is True
    assert (desk.records.journal.find("elsewhere").status, left) == ("canceled", [])
    assert (await desk.post("/runs/elsewhere/cancel", {})).json()["accepted"] is False


async def test_drained_server_begins_nothing_more(desk: Desk) -> None:
    desk.site.drain()

    found = await desk.post("/runs", {"kind": "plan", "plan": {"actions": []}, "folder": str(desk.folder)})
    health = await desk.api("/health")

    assert found.status_code == 503
    assert health["status"] == "draining"


async def test_mistake_in_a_job_is_told_to_whoever_starts_it(desk: Desk) -> None:
    jobs: list[dict[str, Any]] = [
        {"kind": "plan", "plan": {"actions": [{"id": 5}]}},
        {"kind": "plan", "plan": {"actions": []}, "model": "nobody:knows"},
        {"kind": "task", "text": " ", "model": "scripted:/nowhere.json"},
        {"kind": "task", "text": "x", "yes_to": "everything"},
        {"kind": "code", "intent": "x"},
        {"kind": "dance"},
    ]

    found = [await desk.post("/runs", {"folder": str(desk.folder), **job}) for job in jobs]

    assert all(400 <= each.status_code < 500 for each in found), [each.text for each in found]
    assert all(each.json()["error"]["message"] for each in found)


async def test_run_of_a_program_is_left_to_it(desk: Desk) -> None:
    result = await desk.ask()

    found = await desk.post(f"/runs/{result.run_id}/resume")

    assert found.status_code == 400
    assert desk.records.journal.find(result.run_id).status == "waiting"


@pytest.mark.parametrize("chosen", [{"permissions": "full_access"}, {"yes_to": "full_access"}])
async def test_whoever_may_not_decide_cannot_start_work_that_asks_nobody(
    desk: Desk, chosen: dict[str, str]
) -> None:
    token = desk.tokens.add("starter", rights=["see", "start"])
    plan = {"kind": "plan", "plan": {"actions": [WRITES]}}
    task = {"kind": "task", "text": "x", "model": desk.script("Done.")}
    body = {**(plan if "permissions" in chosen else task), "folder": str(desk.folder), **chosen}

    found = await desk.post("/runs", body, token=token)

    assert (found.status_code, found.json()["error"]["code"]) == (403, "forbidden")
    assert not (desk.folder / "note.txt").exists()
    assert (await desk.api("/runs"))["runs"] == []


async def test_tenants_work_is_the_tenants(desk: Desk) -> None:
    token = desk.tokens.add("a's", tenant="a", rights=["see", "start"])
    body = {"kind": "plan", "plan": {"actions": []}, "folder": str(desk.folder)}

    mine = (await desk.post("/runs", body, token=token)).json()["run_id"]
    await desk.ended(mine, "succeeded")

    assert desk.records.journal.find(mine).tenant == "a"
    assert [run["run_id"] for run in (await desk.api("/runs", token=token))["runs"]] == [mine]


async def test_submissions_say_why_they_wait_each_tenant_its_own(desk: Desk) -> None:
    token = desk.tokens.add("a's", tenant="a", rights=["see"])
    engine = QueueEngine(desk.records)
    job = PlanJob(folder=str(desk.folder), plan={"actions": []})
    mine = engine.add(job, SubmitOptions(queue="night", scope=Scope(tenant="a"))).run_id
    other = engine.add(job, SubmitOptions(queue="night", delay_s=60)).run_id
    worker = WorkerInfo(id="w", holder=holder("x"), queue="day", concurrency=3, version="0")
    engine.submissions.heartbeat(worker)

    found = {each["run_id"]: each for each in (await desk.api("/submissions"))["submissions"]}
    of_tenant = (await desk.api("/submissions", token=token))["submissions"]
    workers = await desk.api("/workers")

    assert set(found) == {mine, other}
    assert [(each["run_id"], each["state"], each["has_begun"]) for each in of_tenant] == [
        (mine, "queued", False)
    ]
    assert "night" in of_tenant[0]["why"]
    assert (await desk.api("/submissions?folder=/nowhere"))["submissions"] == []
    assert {"queue": "night", "states": {"queued": 2}} in workers["queues"]
    assert ("w", "up", 0, 3) in [
        (each["id"], each["state"], each["running"], each["concurrency"]) for each in workers["workers"]
    ]
    assert await desk.api("/workers", token=token) == {
        "workers": [],
        "queues": [{"queue": "night", "states": {"queued": 1}}],
    }
