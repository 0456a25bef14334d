"""A person who can be asked right here, while others may answer as well."""

from __future__ import annotations

import asyncio

import pytest

from placet import MemoryApprovals, Reply, Runtime
from placet.approvals.approval import Approval
from placet.ir.proposal import Proposal
from placet.testing import RecordingTool
from placet.testing.plan import action, proposal


def a_plan(*ids: str) -> Proposal:
    return proposal(*(action(each, "send", parameters={"to": each}) for each in ids))


def send() -> RecordingTool:
    return RecordingTool("send", risk="destructive", default="sent")


@pytest.mark.parametrize(
    ("reply", "status", "calls"),
    [
        (Reply("once"), "succeeded", 1),
        (Reply("always"), "succeeded", 1),
        (Reply("deny", "no!"), "rejected", 0),
    ],
)
async def test_what_the_person_answers_holds(reply: Reply, status: str, calls: int) -> None:
    asked: list[Approval] = []

    async def person(approval: Approval) -> Reply:
        asked.append(approval)
        return reply

    tool = send()
    rt = Runtime(tools=[tool], permissions="balanced", person=person)

    result = await rt.execute(a_plan("ada"))

    assert result["ada"].status == status
    assert len(tool.calls) == calls
    assert [a.parameters for a in asked] == [{"to": "ada"}]
    assert (reply.reason or "") in (result["ada"].error or "")


async def test_an_always_is_not_asked_again() -> None:
    asked: list[str] = []

    async def person(approval: Approval) -> Reply:
        asked.append(approval.action_id)
        return Reply("always")

    tool = send()
    rt = Runtime(tools=[tool], permissions="balanced", person=person)

    await rt.execute(a_plan("ada"))
    await rt.execute(a_plan("ada"))
    await rt.execute(a_plan("bob"))

    assert asked == ["ada", "bob"]
    assert len(tool.calls) == 3


async def test_one_question_at_a_time() -> None:
    now = 0
    most = 0

    async def person(approval: Approval) -> Reply:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1
        return Reply("once")

    tool = RecordingTool("send", risk="network", default="sent")
    rt = Runtime(tools=[tool], permissions="balanced", person=person, schedule="dataflow")

    result = await rt.execute(a_plan("ada", "bob", "cleo"))

    assert result.succeeded
    assert most == 1


async def test_somebody_else_may_be_quicker() -> None:
    ledger = MemoryApprovals()
    was_stopped = asyncio.Event()

    async def person(approval: Approval) -> Reply:
        ledger.decide(approval.id, "once", by="ops")
        try:
            await asyncio.Event().wait()
        finally:
            was_stopped.set()
        raise AssertionError

    tool = send()
    rt = Runtime(tools=[tool], permissions="balanced", approvals=ledger, person=person)

    result = await rt.execute(a_plan("ada"))

    assert result.succeeded
    assert was_stopped.is_set()
    assert [a.decided_by for a in ledger.recent(5)] == ["ops"]


async def test_no_answer_is_a_no_where_nobody_else_can_be_asked() -> None:
    async def person(approval: Approval) -> None:
        return None

    tool = send()
    rt = Runtime(tools=[tool], permissions="balanced", person=person)

    result = await rt.execute(a_plan("ada"))

    assert result["ada"].status == "rejected"
    assert "nobody answered" in (result["ada"].error or "")
    assert tool.calls == []


def test_one_runtime_asks_in_one_event_loop_after_another() -> None:
    async def person(approval: Approval) -> Reply:
        return Reply("once")

    rt = Runtime(tools=[send()], permissions="balanced", person=person)

    assert rt.execute_sync(a_plan("ada")).succeeded
    assert rt.execute_sync(a_plan("bob")).succeeded
