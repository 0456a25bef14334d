"""What a question says of a call: from what is enforced and declared, and an answer holds for no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placet import MemoryApprovals, Reply, Runtime, Scope, ToolError, tool
from placet.approvals.approval import Approval
from placet.errors import IsolationMissing
from placet.ir.call_facts import Confinement, Recovery
from placet.policy.rule import DenyTool
from placet.runtime.call_facts import Effect
from placet.testing import RecordingTool
from placet.testing.plan import action, proposal
from placet.tools.builtin import basic_tools

INSIDE = Confinement(runs_in="sandbox", isolation="process", by="bubblewrap", folder="/w", network="none")


class Person:
    """Says the same to all."""

    def __init__(self, reply: Reply) -> None:
        self.asked: list[Approval] = []
        self._reply = reply

    async def __call__(self, approval: Approval) -> Reply:
        self.asked.append(approval)
        return self._reply


def confined(found: Confinement | Exception) -> RecordingTool:
    made = RecordingTool("run", default="ran")

    async def confinement() -> Confinement:
        if isinstance(found, Exception):
            raise found
        return found

    made.confinement = confinement
    return made


async def asked(rt: Runtime, *actions: Any) -> None:
    await rt.execute(proposal(*actions))


async def test_what_was_allowed_as_confined_is_asked_about_again_where_it_is_not() -> None:
    person, ledger = Person(Reply("always")), MemoryApprovals()

    for found in (INSIDE, INSIDE, Confinement(runs_in="program"), INSIDE):
        rt = Runtime(tools=[confined(found)], permissions="balanced", person=person, approvals=ledger)
        await asked(rt, action("a", "run"))

    assert [each.confinement for each in person.asked] == [INSIDE, Confinement(runs_in="program")]


async def test_what_was_allowed_without_confinement_is_allowed_with_it() -> None:
    person, ledger = Person(Reply("always")), MemoryApprovals()

    for found in (Confinement(runs_in="program"), INSIDE, Confinement(runs_in="program")):
        rt = Runtime(tools=[confined(found)], permissions="balanced", person=person, approvals=ledger)
        await asked(rt, action("a", "run"))

    assert [each.confinement for each in person.asked] == [Confinement(runs_in="program")]


async def test_what_was_allowed_without_confinement_and_revoked_is_asked_about() -> None:
    ledger, first, second = MemoryApprovals(), Person(Reply("always")), Person(Reply("deny"))
    for found, person in ((Confinement(runs_in="program"), first), (INSIDE, second)):
        rt = Runtime(tools=[confined(found)], permissions="balanced", person=person, approvals=ledger)
        await asked(rt, action("a", "run"))
        if person is first:
            ledger.revoke(first.asked[0].id, by="ada")

    assert [each.confinement for each in second.asked] == [INSIDE]


async def test_an_always_is_for_one_agent() -> None:
    person, ledger = Person(Reply("always")), MemoryApprovals()
    rt = Runtime(tools=[confined(INSIDE)], permissions="balanced", person=person, approvals=ledger)

    for source in ("agent a", "agent b", "agent a"):
        async with rt.open_run(proposal(source=source), scope=Scope(caller_id="ada")) as run:
            await run.act(proposal(action("a", "run")), 1, keep=False)
    for caller in ("a", "b", None, "a"):
        await rt.execute(proposal(action("a", "run")), scope=Scope(caller_id=caller))

    assert len(person.asked) == 5


@pytest.mark.parametrize("error", [IsolationMissing("process", "none", []), OSError("gone")])
async def test_what_cannot_be_established_is_said_not_to_be_known(error: Exception) -> None:
    person = Person(Reply("deny"))
    rt = Runtime(tools=[confined(error)], permissions="balanced", person=person)

    await asked(rt, action("a", "run"))

    found = person.asked[0].confinement
    assert found is not None
    assert (found.runs_in, found.is_confined) == ("unknown", False)
    assert found.why


async def test_a_tool_that_declares_to_be_reversible_is_taken_at_its_word_and_no_more() -> None:
    @tool(reversibility="reversible")
    def touch() -> str:
        """Touch."""
        return "x"

    person = Person(Reply("deny"))
    rt = Runtime(tools=[touch], person=person)
    rt.add_policy("ask", DenyTool(tool="*", unless_approved=True))

    await asked(rt, action("a", "touch"))
    await asked(rt, action("b", "touch", reversibility="irreversible"))
    await asked(rt, action("c", type="state_write", parameters={"key": "k", "value": 1}))

    assert [each.recovery.by for each in person.asked if each.recovery] == ["declared", "none"]


async def test_outside_of_a_plan_a_bound_folder_restores_nothing(tmp_path: Path) -> None:
    """A loop of turns is not bound to the folder, whatever its tools look like."""
    (tmp_path / "work").mkdir()
    person = Person(Reply("deny"))
    rt = Runtime(
        builtin=basic_tools(tmp_path / "work"),
        workspace=tmp_path / "work",
        snapshots=tmp_path / "kept",
        permissions="read_only",
        person=person,
    )
    write = action("a", "write_file", parameters={"path": "a.txt", "text": "1"})

    rt.add_policy("ask", DenyTool(tool="write_file", unless_approved=True))
    await rt.execute(proposal(write))
    async with rt.open_run(proposal()) as run:
        await run.act(proposal(write), 1, keep=False)

    assert [each.recovery.by for each in person.asked if each.recovery] == ["snapshot", "none"]


async def test_whoever_knows_more_says_how_a_call_is_undone() -> None:
    seen: list[Effect] = []

    async def recovery(effect: Effect) -> Recovery | None:
        seen.append(effect)
        if len(seen) == 2:
            raise ToolError("it cannot be told")
        return Recovery(by="copy") if len(seen) == 1 else None

    person = Person(Reply("deny"))
    rt = Runtime(tools=[confined(INSIDE)], permissions="balanced", person=person)
    rt.recovery = recovery

    for n in range(3):
        await asked(rt, action("a", "run", parameters={"n": n}))

    assert [(each.recovery.by, bool(each.recovery.why)) for each in person.asked if each.recovery] == [
        ("copy", False),
        ("none", True),
        ("none", False),
    ]
    assert seen[0].confinement == INSIDE


async def test_a_secret_makes_no_diff(tmp_path: Path) -> None:
    @tool(risk="read_only", marks=["secret"])
    def key() -> str:
        """A key."""
        return "the-secret-key-of-the-house"

    (tmp_path / "a.txt").write_text("x\n")
    person = Person(Reply("deny"))
    rt = Runtime(
        tools=[key],
        builtin=basic_tools(tmp_path),
        permissions="read_only",
        person=person,
        folder=str(tmp_path),
    )

    await asked(
        rt,
        action("key", "key"),
        action("w", "write_file", parameters={"path": "a.txt", "text": "$key.output"}),
    )

    [question] = person.asked
    assert question.preview is None
    assert question.edit is not None
