"""Every result can be turned into JSON with one method, under the names of the wire."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

from placet import (
    Action,
    AgentResult,
    Assistant,
    Ending,
    MemoryApprovals,
    Proposal,
    Reply,
    Runtime,
    SqlJournal,
    ToolSchema,
    open_database,
    tool,
)
from placet.agents.compose import Step, TeamResult
from placet.agents.goal import GoalResult
from placet.approvals.approval import Approval
from placet.checks.contract import CheckResult
from placet.coder import events as coder_events
from placet.coder.session import Session
from placet.durable.sql import RunSummary
from placet.events.event import Event
from placet.inference import Result, Scripted, Usage
from placet.ir.call_facts import Confinement, FileEdit, Recovery
from placet.ir.result import ActionResult, CostSummary, ProposalResult
from placet.loops.round import Round
from placet.loops.verdict import Verdict
from placet.runtime.checkpoint import Checkpoint
from placet.runtime.trajectory import Trajectory
from placet.state.store import Transition
from placet.turns import ending as turn_events
from placet.verify.equivalent import Equivalence
from placet.verify.report import Report
from placet.verify.transaction import Finding

RESULTS: list[Any] = [
    *(Action, ActionResult, AgentResult, Approval, CheckResult, Checkpoint, CostSummary, Ending, Equivalence),
    *(Event, Finding, GoalResult, Proposal, ProposalResult, Report, Round, RunSummary, Session, ToolSchema),
    *(
        Confinement,
        FileEdit,
        Recovery,
        Result,
        TeamResult,
        Trajectory,
        Transition,
        Usage,
        Verdict,
        coder_events.StateChanged,
        turn_events.Done,
        turn_events.Call,
    ),
]


@tool(risk="destructive")
def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


PLAN = {"actions": [{"id": "a1", "tool": "send", "parameters": {"to": "ada"}}]}


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: kind.__name__)
def test_every_result_has_it(kind: Any) -> None:
    assert callable(kind.to_dict)


def test_it_says_what_the_wire_says() -> None:
    result = Runtime([send]).execute_sync(PLAN)

    assert result.to_dict() == json.loads(msgspec.json.encode(result))
    assert result["a1"].to_dict()["status"] == "succeeded"
    json.dumps(result.to_dict())


def test_a_report_and_an_approval_are_json_too() -> None:
    asked: list[Approval] = []

    def person(approval: Approval) -> Reply:
        asked.append(approval)
        return Reply("deny")

    runtime = Runtime([send], permissions="balanced", person=person, approvals=MemoryApprovals())
    report = runtime.verify(PLAN)
    runtime.execute_sync(PLAN)

    assert json.loads(json.dumps(report.to_dict()))["execution_order"] == ["a1"]
    assert json.loads(json.dumps(asked[0].to_dict()))["parameters"] == {"to": "ada"}


def test_a_run_in_a_list_is_json(tmp_path: object) -> None:
    journal = SqlJournal(open_database(f"{tmp_path}/j.db"))
    Runtime([send], journal=journal).execute_sync(PLAN, run_id="r1")

    assert json.loads(json.dumps(journal.find("r1").to_dict()))["status"] == "succeeded"


class Structure(msgspec.Struct):
    legs: int


@dataclass
class Plain:
    legs: int


class Model(pydantic.BaseModel):
    legs: int


@pytest.mark.parametrize("kind", [Structure, Plain, Model])
def test_an_answer_of_any_type_is_part_of_an_ending(kind: Any) -> None:
    ending = Assistant(Runtime(), Scripted(['{"legs": 4}'])).run_sync("How many legs?", output_type=kind)

    data = json.loads(json.dumps(ending.to_dict()))

    assert (data["status"], data["output"]) == ("success", {"legs": 4})
    assert turn_events.Done(ending=ending).to_dict() == {"event": "done", "ending": data}


class Awkward(pydantic.BaseModel):
    held: bytes = b"\xff"
    share: float = float("nan")
    inner: Model | None = Model(legs=4)
    secret: pydantic.SecretStr = pydantic.SecretStr("x")


class AwkwardStructure(msgspec.Struct):
    held: bytes = b"\xff"
    share: float = float("inf")


@pytest.mark.parametrize("made", [Awkward(), Awkward(held=b""), AwkwardStructure()])
def test_values_that_json_does_not_have_are_what_the_wire_makes_of_them(made: Any) -> None:
    data = Ending(status="success", summary="", output=made).to_dict()["output"]

    assert isinstance(data, dict)
    assert data["held"] in ("/w==", "")
    assert data["share"] is None
    assert data.get("inner", {"legs": 4}) == {"legs": 4}
    assert "x" not in str(data.get("secret", ""))
    json.dumps(data, allow_nan=False)


def test_a_teams_result_says_whether_it_succeeded_and_what_it_took() -> None:
    step = Step(agent="a", input="i", result=AgentResult(output="x", status="success"))

    data = TeamResult(output="x", status="success", steps=(step,)).to_dict()

    assert (data["succeeded"], data["tokens"]) == (True, None)
    json.dumps(data, allow_nan=False)


def test_an_agents_result_says_whether_it_succeeded() -> None:
    assert AgentResult(output="x", status="unmet").to_dict()["succeeded"] is False
