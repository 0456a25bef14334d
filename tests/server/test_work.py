"""Every kind of work, from its beginning to its end, over the API alone."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from placet.app.trust import snapshot, trust
from placet.app.work import RoundJob
from placet.errors import RunHeld
from placet.loops.timetable import Slot
from placet.server.api.starting import interrupted_round
from placet.storage.lease import Holder, Lease, holder
from tests.coder.workbench import git, make_repository
from tests.page.filling import AGENT, CHECK, LOOP, call
from tests.server.test_starting import Desk
from tests.server.web import opened

TERMS = "# Terms\n\nValid from 1 Juni 2027.\n"
FIXED = TERMS.replace("Juni", "January")


class Office(Desk):
    """A desk in a repository with a loop and an agent; everything is asked and said over HTTP."""

    async def run(self, run_id: str, *states: str) -> dict[str, Any]:
        """A run, once it stands so."""
        async with asyncio.timeout(120):
            while True:
                found = await self.api(f"/runs/{run_id}")
                if found["run"]["status"] in states:
                    return dict(found)
                await asyncio.sleep(0.05)

    async def need(self, kind: str, run_id: str) -> dict[str, Any]:
        """What a run asks of a person, once it does."""
        async with asyncio.timeout(120):
            while True:
                for item in (await self.api("/needs-you"))["items"]:
                    if item["kind"] == kind and item["run_id"].startswith(run_id):
                        return dict(item)
                await asyncio.sleep(0.05)

    async def say(self, path: str, body: Any) -> Any:
        """Write something that is accepted."""
        found = await self.post(path, body)
        assert found.status_code in (200, 202), found.text
        return found.json()

    def slow(self) -> str:
        """A model that has a command run for a minute."""
        return self.script({"calls": [call("shell", command="sleep 60")]})


@pytest_asyncio.fixture
async def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Office]:
    for name in ("DATA", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    work = tmp_path / "work"
    work.mkdir()
    make_repository(
        work,
        {
            "terms.md": TERMS,
            ".placet/loops/keep-terms.toml": LOOP,
            ".placet/agents/clerk.toml": AGENT.replace('"grep"', '"grep", "write_file"'),
        },
    )
    import os

    trust(snapshot(work), os.environ)
    async with opened(work, str(tmp_path / "placet.db"), kind=Office) as web:
        web.folder = work
        async with web.site.stream.running():
            web.site.begin()
            yield web
            await web.site.end()


async def test_coding_session_from_its_question_to_its_commit(office: Office) -> None:
    model = office.script(
        {"calls": [call("ask_user", question="Which month?")]},
        {"calls": [call("write_file", path="terms.md", text=FIXED)]},
        {"text": "Done."},
    )
    run_id = await office.start(kind="code", intent="Write the date in English", checks=[CHECK], model=model)

    question = await office.need("question", run_id)
    await office.say(f"/questions/{question['id']}/answer", {"text": "January"})
    change = await office.need("change", run_id)
    diff = (await office.api(f"/code/{run_id}/diff"))["diff"]
    session = await office.api(f"/code/{run_id}")
    stands = await office.say(f"/code/{run_id}/decision", {"decision": "approve"})
    ended = await office.run(run_id, "succeeded")

    assert "+Valid from 1 January 2027." in diff
    assert [each["passed"] for each in session["checks"]] == [True]
    assert stands["state"] == "merged"
    assert "January" in git(office.folder, "show", f"{change['branch']}:terms.md")
    (asked,) = ended["view"]["coding"]["questions"]
    assert (asked["text"], asked["answered_by"]) == ("Which month?", "owner")
    states = office.records.events.query(run=run_id, kind="coding_state_changed")
    assert [(each.data["state"], each.data["by"]) for each in states if "by" in each.data] == [
        ("merged", "owner")
    ]
    assert (await office.api("/needs-you"))["items"] == []


async def test_running_coding_session_is_stopped(office: Office) -> None:
    model = office.script({"calls": [call("ask_user", question="Which month?")]})
    run_id = await office.start(kind="code", intent="Mend the date", checks=[CHECK], model=model)
    await office.need("question", run_id)

    stopped = await office.say(f"/runs/{run_id}/cancel", {"reason": "enough"})
    await office.run(run_id, "canceled", "aborted", "partial")

    assert stopped["accepted"] is True
    assert (await office.api(f"/code/{run_id}"))["state"] == "abandoned"
    assert (await office.api("/needs-you"))["items"] == []


def maker(office: Office) -> str:
    """A model that mends the terms, and then finds that they are right."""
    return office.script(
        {"calls": [call("write_file", path="terms.md", text=FIXED)]},
        {"text": "The month is right now."},
        {"calls": [call("give_verdict", verdict="done", summary="It is right.")]},
        {"text": "Checked."},
    )


async def test_round_of_a_loop_from_its_start_to_its_commit(office: Office) -> None:
    run_id = await office.start(kind="round", loop="keep-terms", model=maker(office))

    asked = await office.need("round", run_id)
    diff = (await office.api(f"/rounds/{run_id}/diff"))["diff"]
    # It asks before it has let go of its loop.
    await office.until(lambda: office.records.timetable.slots()[0].last_round)
    (loop,) = (await office.api("/loops"))["loops"]
    decided = await office.say(f"/approvals/{asked['id']}/decision", {"decision": "once"})
    ended = await office.run(run_id, "succeeded")
    (listed,) = (await office.api("/rounds"))["rounds"]

    assert asked["verified"] is True
    assert "+Valid from 1 January 2027." in diff
    assert (loop["name"], loop["last_round"]) == ("keep-terms", run_id)
    assert decided["decided_by"] == "owner"
    assert ended["view"]["round"]["outcome"] == "escalated"
    assert listed["receipt"]["digest"]
    assert "January" in git(office.folder, "log", "-p", "--all", "--", "terms.md")


async def test_denied_round_changes_nothing(office: Office) -> None:
    run_id = await office.start(kind="round", loop="keep-terms", model=maker(office))
    asked = await office.need("round", run_id)

    await office.say(f"/approvals/{asked['id']}/decision", {"decision": "deny", "reason": "not now"})
    await office.run(run_id, "partial", "aborted", "succeeded")

    assert "January" not in git(office.folder, "log", "-p", "--all", "--", "terms.md")
    assert (await office.api("/needs-you"))["items"] == []


async def test_running_round_is_stopped_and_the_loop_waits_for_a_person(office: Office) -> None:
    run_id = await office.start(kind="round", loop="keep-terms", model=office.slow())
    await office.until(lambda: office.records.events.query(kind="action_executing"))

    job = {"kind": "round", "loop": "keep-terms", "folder": str(office.folder), "model": office.slow()}
    again = await office.post("/runs", job)
    (loop,) = (await office.api("/loops"))["loops"]
    stopped = await office.say(f"/runs/{run_id}/cancel", {"reason": "enough"})
    state = await office.say(f"/loops/{loop['key']}/state", {"state": "stopped", "reason": "enough"})
    await office.until(lambda: run_id not in office.site.engine.at_work)  # type: ignore[union-attr]
    refused = await office.post("/runs", job)

    assert again.status_code == 409
    assert (loop["running"], loop["round"]) == (True, run_id)
    assert stopped["accepted"] is True
    assert state["stopped"]["by"] == "owner"
    assert refused.status_code == 400
    assert (office.folder / "terms.md").read_text() == TERMS


async def test_interrupted_round_goes_on_after_a_restart(office: Office) -> None:
    model = office.slow()
    run_id = await office.start(kind="round", loop="keep-terms", model=model)
    await office.until(lambda: office.records.events.query(kind="action_executing"))
    await office.site.end()
    stood = (await office.api(f"/runs/{run_id}"))["run"]["status"]
    assert maker(office) == model  # by the same name, as a model that is there again

    async with opened(office.folder, str(office.folder.parent / "placet.db"), kind=Office) as later:
        later.folder = office.folder
        async with later.site.stream.running():
            later.site.begin()
            await later.say(f"/runs/{run_id}/resume", {})
            await later.need("round", run_id)
            rounds = (await later.api("/rounds"))["rounds"]
            await later.site.end()

    assert stood not in ("succeeded", "failed")
    assert [each["id"] for each in rounds] == [run_id]
    assert (office.folder / "terms.md").read_text() == TERMS


async def test_agent_asks_and_goes_on(office: Office) -> None:
    model = office.script(
        {"calls": [call("write_file", path="answer.md", text="90 days")]}, {"text": "It is written."}
    )
    run_id = await office.start(kind="agent", agent="clerk", text="Write it down.", model=model)
    asked = await office.need("approval", run_id)
    office.script({"text": "It is written."})

    await office.say(f"/approvals/{asked['id']}/decision", {"decision": "once"})
    await office.run(run_id, "succeeded")

    assert (office.folder / "answer.md").read_text() == "90 days"
    (agent,) = (await office.api("/agents"))["agents"]
    assert agent["id"] == "clerk"


@pytest.mark.parametrize("kind", ["task", "chat", "agent"])
async def test_work_of_a_model_is_stopped(office: Office, kind: str) -> None:
    more = {"agent": "clerk"} if kind == "agent" else {}
    tools = office.folder / ".placet" / "agents" / "clerk.toml"
    if kind == "agent":
        tools.write_text(AGENT.replace('"grep"', '"shell"'))
        import os

        trust(snapshot(office.folder), os.environ)
    run_id = await office.start(kind=kind, text="Wait.", model=office.slow(), yes_to="full_access", **more)
    await office.until(lambda: office.records.events.query(kind="action_executing"))

    stopped = await office.say(f"/runs/{run_id}/cancel", {})
    await office.until(lambda: run_id not in office.site.engine.at_work)  # type: ignore[union-attr]
    found = await office.api(f"/runs/{run_id}")

    assert stopped["accepted"] is True
    assert found["run"]["status"] not in ("running", "succeeded")
    assert json.dumps(found["view"]["actions"]).count('"succeeded"') == 0


async def test_tenants_start_no_rounds(office: Office) -> None:
    token = office.tokens.add("a's", tenant="a", rights=["see", "start"])
    body = {"kind": "round", "loop": "keep-terms", "folder": str(office.folder)}

    assert (await office.post("/runs", body, token=token)).status_code == 400
    assert (await office.api("/rounds"))["rounds"] == []


def test_round_that_a_living_process_runs_is_refused_before_anything_is_submitted(office: Office) -> None:
    here = holder("loop")
    job = RoundJob(folder=str(office.folder), loop="keep-terms")

    def held_by(who: Holder) -> None:
        lease = Lease(holder=who, until=time.time() + 60)
        slot = Slot(key="k", name="keep-terms", repository=str(office.folder), round="r", lease=lease)
        office.records.timetable.change("k", lambda *_: (slot, None))

    held_by(here)
    with pytest.raises(RunHeld):
        interrupted_round(office.site, job)
    held_by(msgspec.structs.replace(here, host="elsewhere"))  # it may be dead: nobody here can know
    assert interrupted_round(office.site, job) is None
    held_by(msgspec.structs.replace(here, started="long ago"))  # it is dead
    assert interrupted_round(office.site, job) == "r"
