"""A request to stop that another process makes reaches whatever runs: a plan, an assistant, an agent."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from placet import AgentRunner, Assistant, Cancel, MemoryJournal, Runtime, tool
from placet.agents.compose import one_budget
from placet.agents.result import AgentResult
from placet.agents.spec import AgentSpec
from placet.inference import Scripted
from placet.ir.stop_cause import StopCause
from placet.runtime.open_run import OpenRun
from placet.runtime.stop_requests import listening_for_stop
from placet.storage.lease import StopRequest
from tests.durable.runs import Runs, act, end, gate
from tests.runtime.plans import call as action
from tests.runtime.plans import plan
from tests.turns.workroom import Kept, call, kept_in
from tests.warm import Warm

ENOUGH = StopRequest(reason="enough")


@pytest.fixture
def runs(tmp_path: Path, database_url: str, warm: Warm) -> Iterator[Runs]:
    made = Runs(tmp_path, database_url, warm)
    yield made
    made.close()


def test_a_plan_in_another_process_stops_and_goes_on_when_it_is_resumed(runs: Runs) -> None:
    process = runs.run(act("a"), gate("g", "a"), act("b", "g"))
    runs.entered("g", noted=2)

    code, said, _ = runs.placet("runs", "cancel", "r", "--reason", "no longer wanted", "--json")
    stopped, _, _ = end(process)
    again, _, told = runs.placet("runs", "cancel", "r")
    _, shown, _ = runs.placet("runs", "show", "r", "--json")
    left = runs.sql("SELECT stop FROM runs WHERE run_id = 'r'")
    before = runs.effects()
    runs.say("g")
    resumed, _, _ = runs.placet("resume", "r")

    assert (code, json.loads(said)) == (
        0,
        {"run_id": "r", "was": "running", "state": "running", "accepted": True},
    )
    assert stopped == 1
    assert (again, "canceled" in told) == (1, True)
    result = json.loads(shown)["result"]
    assert (result["outcome"], result["stop_cause"]) == ("canceled", "person")
    assert "no longer wanted" in result["error"]
    assert left == [(None,)], "whoever resumes it would stop again"
    assert before == ["a"]
    assert (resumed, runs.effects()) == (0, ["a", "b"])


def test_a_run_that_is_not_there_or_whose_process_died_is_told(runs: Runs) -> None:
    process = runs.run(act("a"), gate("g", "a"))
    runs.entered("g", noted=2)
    process.kill()
    process.communicate()

    dead, said, _ = runs.placet("runs", "cancel", "r", "--json")
    unknown, _, error = runs.placet("runs", "cancel", "nobody")

    assert (dead, json.loads(said)["accepted"]) == (1, False)
    assert (unknown, "nobody" in error) == (2, True)


class Room:
    """A tool that waits until it may go on, and the database that another process would ask through."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()
        self.done: list[str] = []

    def runtime(self) -> Runtime:
        @tool(risk="read_only")
        async def wait() -> str:
            """Wait."""
            self.entered.set()
            await self.opened.wait()
            return "waited"

        @tool(risk="idempotent", idempotent=True, reversibility="reversible")
        async def note(text: str) -> str:
            """Note something."""
            self.done.append(text)
            return "noted"

        return Runtime(tools=[wait, note], permissions="trusting", **self.kept.parts())

    async def stopped(self, run: Callable[[Cancel], Awaitable[Any]]) -> Any:
        """What comes of a run that is asked to stop while its tool waits."""
        cancel = Cancel()
        running = asyncio.ensure_future(run(cancel))
        await self.entered.wait()
        await asyncio.to_thread(self.kept.journal.request_stop, "r", ENOUGH)
        ended = await running
        assert not cancel.requested, "the caller's own cancel was used"
        left = self.kept.database.read(lambda t: t.execute("SELECT stop FROM runs WHERE run_id = 'r'"))
        assert left == [(None,)], "whoever resumes it would stop again"
        return ended


TURNS = (call("wait"), call("note", text="x"), "Done.")


async def test_an_assistant_stops_and_goes_on_when_it_is_resumed(tmp_path: Path) -> None:
    with kept_in(tmp_path) as kept:
        room = Room(kept)
        assistant = Assistant(room.runtime(), Scripted(TURNS))

        ending = await room.stopped(lambda cancel: assistant.run("x", run_id="r", cancel=cancel))
        done = list(room.done)
        room.opened.set()
        resumed = await Assistant(room.runtime(), Scripted(TURNS[1:])).resume("r", cancel=Cancel())

        assert (ending.status, ending.stop_cause) == ("cancelled", StopCause.PERSON)
        assert done == []
        assert (resumed.status, room.done) == ("success", ["x"])


async def test_an_agent_stops_and_goes_on_when_it_is_resumed(tmp_path: Path) -> None:
    spec = AgentSpec(id="waiter", name="Waiter", identity="You wait.", tools=("wait", "note"))
    with kept_in(tmp_path) as kept:
        room = Room(kept)
        agent = AgentRunner(room.runtime(), Scripted(TURNS), spec)

        result = await room.stopped(lambda cancel: agent.run("x", run_id="r", cancel=cancel))
        room.opened.set()
        resumed = await AgentRunner(room.runtime(), Scripted(TURNS[1:]), spec).resume("r")

        assert (result.status, room.done) == ("cancelled", ["x"])
        assert resumed.status == "success"


async def test_a_message_of_a_conversation_stops_and_the_next_sitting_goes_on(tmp_path: Path) -> None:
    with kept_in(tmp_path) as kept:
        room = Room(kept)
        assistant = Assistant(room.runtime(), Scripted((*TURNS[:1], "Here again.")))

        async def talk(cancel: Cancel) -> Any:
            async with assistant.chat("r", cancel=cancel) as chat:
                return await chat.say("x")

        ending = await room.stopped(talk)
        async with assistant.chat("r", resume=True, cancel=Cancel()) as chat:
            again = await chat.say("y")

        assert ending.status == "cancelled"
        assert (again.status, again.summary) == ("success", "Here again.")


async def test_of_runs_that_share_a_cancel_only_the_one_that_is_meant_stops() -> None:
    journal, opened, entered = MemoryJournal(), asyncio.Event(), asyncio.Barrier(3)

    @tool(risk="read_only")
    async def wait() -> str:
        """Wait."""
        await entered.wait()
        await opened.wait()
        return "waited"

    runtime, cancel = Runtime(tools=[wait], journal=journal), Cancel()
    meant, other = (
        asyncio.ensure_future(runtime.execute(plan(action("a", "wait")), run_id=each, cancel=cancel))
        for each in ("meant", "other")
    )
    await entered.wait()
    journal.request_stop("meant", ENOUGH)
    stopped = await meant
    opened.set()

    assert (stopped.outcome, stopped.stop_cause) == ("canceled", StopCause.PERSON)
    assert (await other).outcome == "succeeded"
    assert not cancel.requested


async def test_a_request_to_stop_a_team_reaches_its_agents() -> None:
    journal, entered = MemoryJournal(), asyncio.Event()

    @tool(risk="read_only")
    async def wait() -> str:
        """Wait."""
        entered.set()
        await asyncio.Event().wait()
        return "waited"

    runtime = Runtime(tools=[wait], permissions="trusting", journal=journal)
    spec = AgentSpec(id="waiter", name="Waiter", identity="You wait.", tools=("wait",))
    agent, teams = AgentRunner(runtime, Scripted((call("wait"), "Done.")), spec), list[OpenRun]()

    async def work() -> AgentResult:
        async with one_budget(runtime) as team:
            teams.append(team)
            return await agent.run("x", budget=team)

    working = asyncio.ensure_future(work())
    await entered.wait()
    journal.request_stop(teams[0].run_id, ENOUGH)
    result = await working

    assert result.status == "cancelled"
    assert teams[0].ended is not None
    assert (teams[0].ended.outcome, teams[0].ended.error) == ("partial", "enough")


async def test_a_cancellation_while_the_listening_ends_is_not_lost() -> None:
    looked, may_end = threading.Event(), threading.Event()

    def look() -> None:
        looked.set()
        may_end.wait()

    async def work() -> None:
        async with listening_for_stop(look, Cancel(), every_s=0.0):
            await asyncio.to_thread(looked.wait)
            # Comes once the block has been left, while the looking is being ended.
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_soon(task.cancel)

    working = asyncio.ensure_future(work())
    try:
        with pytest.raises(asyncio.CancelledError):
            await working
    finally:
        may_end.set()
