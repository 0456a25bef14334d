"""A run whose plans come one after the other: one run for budgets, rules, the log and the journal."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from placet import (
    Calls,
    Cancel,
    CostBudget,
    EventLog,
    Proposal,
    Runtime,
    SqlJournal,
    TraceRule,
    open_database,
)
from placet.errors import UsageError
from placet.runtime.journal import LED_BY
from placet.testing import RecordingTool
from placet.testing.plan import action, proposal

ABOUT = Proposal(id="about", source="test", context={LED_BY: "test"})


def one(number: int, tool: str = "send", **fields: object) -> Proposal:
    return proposal(action(f"a{number}", tool, **fields), id=f"p{number}")


async def called(tool: RecordingTool) -> None:
    while not tool.calls:  # noqa: ASYNC110 - the tool may be entered in a thread
        await asyncio.sleep(0.001)


async def test_plans_of_one_run_share_its_id_trace_and_cost() -> None:
    tool = RecordingTool("send", default="ok")
    rt = Runtime(tools=[tool])

    async with rt.open_run(ABOUT, run_id="r") as run:
        first = await run.act(one(1), 1, keep=False)
        second = await run.act(one(2), 2, keep=False)
        result = await run.end("succeeded", loop={"status": "success"})

    assert first.result.run_id == second.result.run_id == result.run_id == "r"
    assert {e.trace_id for e in rt.events if e.run_id == "r"} == {result.trace_id}
    assert result.cost.tool_calls == 2
    assert result.loop == {"status": "success"}


async def test_a_rule_that_looks_back_sees_the_plans_before() -> None:
    rule = TraceRule(tool="send", only_before=Calls(tool="read_secret"))
    mail, secret = RecordingTool("send"), RecordingTool("read_secret", risk="read_only")
    rt = Runtime(tools=[mail, secret], policies=[("leak", rule)])

    async with rt.open_run(ABOUT) as run:
        before = await run.act(one(1), 1, keep=False)
        await run.act(one(2, "read_secret"), 2, keep=False)
        after = await run.act(one(3), 3, keep=False)
        await run.end("partial")

    assert before.result["a1"].status == "succeeded"
    assert after.result["a3"].status == "rejected"
    assert "policy 'leak'" in (after.result["a3"].error or "")
    assert len(mail.calls) == 1


async def test_a_budget_spans_the_plans_and_what_the_leader_spends() -> None:
    tool = RecordingTool("send")
    rt = Runtime(tools=[tool])

    async with rt.open_run(ABOUT, budget=CostBudget(max_tokens=100, max_tool_calls=2)) as run:
        assert run.used_up() is None
        assert (await run.act(one(1), 1, keep=False)).result.succeeded
        run.spend(99, 0.0)
        assert run.used_up() is None
        run.spend(1, 0.0)
        assert run.used_up() == "max_tokens"
        assert (await run.act(one(2), 2, keep=False)).result.outcome == "budget"
        await run.end("budget")

    assert len(tool.calls) == 1


async def test_what_cannot_be_told_uses_a_limit_up() -> None:
    rt = Runtime()

    async with rt.open_run(ABOUT, budget=CostBudget(max_cost=1.0)) as run:
        run.spend(5, None)
        assert run.used_up() == "max_cost"
        await run.end("budget")


async def test_left_without_an_end_it_is_taken_up_again_and_nothing_is_done_twice(tmp_path: Path) -> None:
    tool = RecordingTool("send", default="ok")
    with open_database(str(tmp_path / "runs.db")) as database:
        journal = SqlJournal(database)
        async with Runtime(tools=[tool], journal=journal).open_run(ABOUT, run_id="r") as run:
            run.tell(b'{"turn":1}')
            await run.act(one(1), 1, keep=True)
            run.tell(b'{"turn":2}')

        rt = Runtime(tools=[tool], journal=journal)
        async with rt.reopen_run("r") as run:
            assert run.about.context == {LED_BY: "test"}
            assert [bytes(said) for said in run.told] == [b'{"turn":1}', b'{"turn":2}']
            assert run.has_ended(1)
            assert not run.has_ended(2)
            again = await run.act(one(1), 1, keep=True)
            await run.act(one(2), 2, keep=True)
            ended = await run.end("succeeded")
        async with rt.reopen_run("r") as run:
            shown = run.ended
        journal.close()

    assert again.result["a1"].output == "ok"
    assert len(tool.calls) == 2
    assert shown is not None
    assert (shown.outcome, shown.cost) == (ended.outcome, ended.cost)


async def test_a_call_in_flight_waits_for_a_decision(tmp_path: Path) -> None:
    tool = RecordingTool("send", answers=[RecordingTool.HANG], default="ok")
    with open_database(str(tmp_path / "runs.db")) as database:
        journal = SqlJournal(database)
        rt = Runtime(tools=[tool], journal=journal)
        cancel = Cancel()
        async with rt.open_run(ABOUT, run_id="r", cancel=cancel) as run:
            acting = asyncio.ensure_future(run.act(one(1), 1, keep=True))
            await called(tool)
            cancel.cancel("stop", hard=True)
            assert (await acting).result["a1"].status == "unknown"

        async with rt.reopen_run("r") as run:
            waits = run.ended
        async with rt.reopen_run("r", decide={"a1": "done"}) as run:
            assert run.ended is None
            acted = await run.act(one(1), 1, keep=True)
            await run.end("succeeded")
        journal.close()

    assert waits is not None
    assert waits.outcome == "waiting"
    assert [w.action_id for w in waits.waiting] == ["a1"]
    assert acted.result["a1"].status == "succeeded"
    assert len(tool.calls) == 1


async def test_resume_says_who_must_go_on_with_it(tmp_path: Path) -> None:
    with open_database(str(tmp_path / "runs.db")) as database:
        journal = SqlJournal(database)
        rt = Runtime(journal=journal)
        async with rt.open_run(ABOUT, run_id="r"):
            pass

        with pytest.raises(UsageError, match="led by a loop of turns"):
            await rt.resume("r")
        async with rt.reopen_run("r") as run:
            assert run.ended is None
        journal.close()


async def test_cancelling_the_task_puts_the_call_in_order_and_passes_on() -> None:
    tool = RecordingTool("look", risk="read_only", answers=[RecordingTool.HANG])
    rt = Runtime(tools=[tool], events=EventLog())

    async def lead() -> None:
        async with rt.open_run(ABOUT, run_id="r") as run:
            await run.act(one(1, "look"), 1, keep=False)

    leading = asyncio.ensure_future(lead())
    await called(tool)
    leading.cancel()

    with pytest.raises(asyncio.CancelledError):
        await leading
    assert [e.kind for e in rt.events][-1] == "proposal_ended"
