"""A person allows all edits of files in a run: what that covers, and what is asked about all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placet import DenyTool, FlowRule, MemoryApprovals, MemoryJournal, Reply, Runtime, tool
from placet.approvals.approval import Approval
from placet.ir.proposal import Proposal
from placet.policy.permission import Posture
from placet.testing.plan import action, proposal
from placet.tools.builtin import basic_tools

ASKS = Posture(sandbox_edit="ask", full_access="ask")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where tools work."""
    made = tmp_path / "work"
    made.mkdir()
    return made


class Person:
    """Answers in turn; the last answer to all that follows."""

    def __init__(self, *replies: Reply) -> None:
        self.asked: list[Approval] = []
        self._replies = list(replies)

    async def __call__(self, approval: Approval) -> Reply:
        self.asked.append(approval)
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]

    @property
    def ids(self) -> list[str]:
        return [each.action_id for each in self.asked]


def runtime(folder: Path, person: Any = None, **more: Any) -> Runtime:
    return Runtime(
        **{
            "permissions": ASKS,
            "folder": str(folder),
            "person": person,
            "builtin": basic_tools(folder),
            **more,
        }
    )


def write(id: str, path: str | None = None, *after: str) -> Any:
    parameters = {"path": path or f"{id}.txt", "text": id}
    return action(id, "write_file", parameters=parameters, dependencies=list(after))


def chain(*ids: str) -> Proposal:
    return proposal(*(write(id, None, *ids[:n]) for n, id in enumerate(ids)))


async def test_no_further_edit_of_the_run_is_asked_about(folder: Path) -> None:
    person = Person(Reply("edits", by="ann"))
    rt = runtime(folder, person)
    plan = proposal(
        write("first"),
        write("second", None, "first"),
        action(
            "third",
            "edit_file",
            parameters={"path": "first.txt", "old": "first", "new": "1"},
            dependencies=["second"],
        ),
    )

    result = await rt.execute(plan)

    assert result.succeeded
    assert person.ids == ["first"]
    assert person.asked[0].offers_edits
    assert (folder / "first.txt").read_text() == "1"
    recorded = [e for e in rt.events.query(run=result.run_id) if e.kind == "approval_recorded"]
    assert [(e.action_id, e.data["decision"], e.data["by"]) for e in recorded] == [
        (id, "edits", "ann") for id in ("first", "second", "third")
    ]
    assert {e.data["approval"] for e in recorded} == {person.asked[0].id}


async def test_another_run_is_asked_again(folder: Path) -> None:
    person = Person(Reply("edits"))
    rt = runtime(folder, person)

    await rt.execute(chain("a", "b"), run_id="r1")
    await rt.execute(chain("c", "d"), run_id="r2")

    assert person.ids == ["a", "c"]


async def test_what_was_asked_at_the_same_time_is_covered_too(folder: Path) -> None:
    person = Person(Reply("edits"))
    rt = runtime(folder, person, schedule="dataflow")

    result = await rt.execute(proposal(write("a"), write("b"), write("c")))

    assert result.succeeded
    assert len(person.asked) == 1


async def test_nothing_above_the_tier_is_covered(folder: Path) -> None:
    @tool(risk="network")
    def send(to: str) -> str:
        """Send."""
        return to

    person = Person(Reply("edits"), Reply("deny"))
    rt = runtime(folder, person, tools=[send])
    plan = proposal(
        write("a"),
        action("out", "send", parameters={"to": "x"}, dependencies=["a"], failure_behavior="skip"),
        action(
            "shell",
            "shell",
            parameters={"command": "true"},
            dependencies=["a"],
            failure_behavior="skip",
        ),
        action(
            "far",
            "write_file",
            parameters={"path": "../far.txt", "text": "x"},
            dependencies=["a"],
            failure_behavior="skip",
        ),
    )

    result = await rt.execute(plan)

    assert sorted(person.ids) == ["a", "far", "out", "shell"]
    assert [result[id].status for id in ("a", "out", "shell", "far")] == [
        "succeeded",
        "rejected",
        "rejected",
        "rejected",
    ]
    assert [each.offers_edits for each in person.asked] == [True, False, False, False]


async def test_a_tool_of_the_person_with_the_name_of_a_file_tool_is_not_covered(folder: Path) -> None:
    @tool(risk="idempotent", labels=["confined"])
    def edit_file(path: str) -> str:
        """Not Placet's own."""
        return path

    person = Person(Reply("edits"), Reply("once"))
    rt = runtime(folder, person, tools=[edit_file])
    plan = proposal(write("a"), action("own", "edit_file", parameters={"path": "a.txt"}, dependencies=["a"]))

    await rt.execute(plan)

    assert person.ids == ["a", "own"]
    assert person.asked[1].tier == "sandbox_edit"
    assert not person.asked[1].offers_edits


async def test_a_rule_that_asks_is_asked_about_all_the_same(folder: Path) -> None:
    person = Person(Reply("edits"), Reply("deny", "not this one"))
    rt = runtime(folder, person)
    rt.add_policy("careful", DenyTool(tool="edit_file", unless_approved=True))
    plan = proposal(
        write("a"),
        action("b", "edit_file", parameters={"path": "a.txt", "old": "a", "new": "b"}, dependencies=["a"]),
    )

    result = await rt.execute(plan)

    assert person.ids == ["a", "b"]
    assert not person.asked[1].offers_edits
    assert result["b"].status == "rejected"


async def test_a_flow_rule_that_asks_is_asked_about_all_the_same(folder: Path) -> None:
    @tool(risk="read_only", marks=["untrusted"])
    def page() -> str:
        """A page from the web."""
        return "from outside"

    person = Person(Reply("edits"), Reply("once"))
    rt = runtime(folder, person, tools=[page])
    rt.add_policy("flow", FlowRule(tool="write_file", mark="untrusted", param="text", unless_approved=True))
    plan = proposal(
        write("a"),
        action("page", "page", dependencies=["a"]),
        action("b", "write_file", parameters={"path": "b.txt", "text": "$page.output"}),
    )

    await rt.execute(plan)

    assert person.ids == ["a", "b"]


async def test_a_rule_that_denies_stands_above_it(folder: Path) -> None:
    person = Person(Reply("edits"))
    rt = runtime(folder, person)
    rt.add_policy("never", DenyTool(tool="edit_file"))
    plan = proposal(
        write("a"),
        action("b", "edit_file", parameters={"path": "a.txt", "old": "a", "new": "b"}, dependencies=["a"]),
    )

    result = await rt.execute(plan)

    assert result["b"].status == "rejected"
    assert "policy 'never'" in (result["b"].error or "")
    assert person.ids == ["a"]


async def test_a_no_to_the_very_same_stands_above_it(folder: Path) -> None:
    person = Person(Reply("deny", "no"), Reply("edits"))
    rt = runtime(folder, person)
    plan = proposal(
        action("no", "write_file", parameters={"path": "x.txt", "text": "1"}, failure_behavior="skip"),
        action("yes", "write_file", parameters={"path": "y.txt", "text": "1"}, state_dependencies=[]),
        action(
            "again",
            "write_file",
            parameters={"path": "x.txt", "text": "1"},
            dependencies=["yes"],
            failure_behavior="skip",
        ),
    )

    result = await rt.execute(plan)

    assert (result["no"].status, result["again"].status) == ("rejected", "rejected")
    assert not (folder / "x.txt").exists()


async def test_what_is_no_edit_cannot_be_answered_so(folder: Path) -> None:
    @tool
    def send() -> str:
        """Send."""
        raise AssertionError("it must not run")

    rt = runtime(folder, Person(Reply("edits")), tools=[send])

    result = await rt.execute(proposal(action("out", "send")))

    assert result["out"].status == "rejected"
    [told] = [event for event in rt.events if event.kind == "sink_failed"]
    assert "'edits'" in str(told.data["error"])


async def test_a_run_that_is_resumed_keeps_it_until_it_is_revoked(folder: Path) -> None:
    ledger, journal = MemoryApprovals(), MemoryJournal()
    more = {"approvals": ledger, "journal": journal, "patience_s": 0}

    waiting = await runtime(folder, **more).execute(chain("a", "b", "c"), run_id="r1")
    ledger.decide(waiting.waiting[0].approval or "", "edits", by="ann")
    rt = runtime(folder, **more)
    rt.add_policy("careful", DenyTool(tool="write_file", unless_approved=True))  # Other rules by now.
    stopped = await rt.resume("r1")
    assert stopped.outcome == "waiting"  # A rule asks: not covered.
    ended = await runtime(folder, **more).resume("r1")

    assert ended.succeeded
    assert [each.tool for each in ledger.recent(9) if each.decision == "edits"] == ["write_file"]

    again = await runtime(folder, **more).execute(chain("d", "e"), run_id="r2")
    grant = ledger.decide(again.waiting[0].approval or "", "edits", by="ann")
    ledger.revoke(grant.id, by="bob")
    after = await runtime(folder, **more).resume("r2")
    assert after.outcome == "waiting"


async def test_an_older_run_of_the_same_id_grants_nothing(folder: Path) -> None:
    ledger = MemoryApprovals()
    first = await runtime(folder, approvals=ledger, journal=MemoryJournal(), patience_s=0).execute(
        chain("a", "b"), run_id="r1"
    )
    ledger.decide(first.waiting[0].approval or "", "edits", by="ann")

    other = MemoryJournal()
    more = {"approvals": ledger, "journal": other, "patience_s": 0}
    again = await runtime(folder, **more).execute(chain("a", "b"), run_id="r1")
    assert again.outcome == "waiting"
    assert (await runtime(folder, **more).resume("r1")).outcome == "waiting"


async def test_a_run_that_is_at_work_heeds_that_it_was_revoked(folder: Path) -> None:
    ledger = MemoryApprovals()

    @tool(risk="read_only")
    def revoke() -> str:
        """Somebody revokes it meanwhile."""
        [grant] = [each for each in ledger.recent(9) if each.decision == "edits"]
        ledger.revoke(grant.id, by="bob")
        return grant.id

    person = Person(Reply("edits"), Reply("once"))
    rt = runtime(folder, person, tools=[revoke], approvals=ledger)
    plan = proposal(
        write("a"), write("b", None, "a"), action("r", "revoke", dependencies=["b"]), write("c", None, "r")
    )

    result = await rt.execute(plan)

    assert result.succeeded
    assert person.ids == ["a", "c"]
