"""With nobody to ask, a model is told what it can do itself; what a person can do is told to the person."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from placet import Assistant, Isolation, MemoryJournal, Runtime, SqlApprovals, SqlJournal, open_database, tool
from placet.inference import Scripted
from placet.inference.messages import ToolCall, ToolResult
from placet.inference.model import Result
from placet.ir.ending import Ending

FOR_PEOPLE = re.compile(r"placet |`|--\w|posture|Runtime|Assistant")
"""Commands, options and names of a program: a model can use none of them."""


@tool
def pay(amount: int) -> str:
    """Pay."""
    return "paid"


@tool(risk="idempotent")
def put(text: str) -> str:
    """Put."""
    return "put"


def model_for(name: str, **arguments: object) -> Scripted:
    return Scripted([Result(calls=[ToolCall(id="c1", name=name, arguments=dict(arguments))]), "Done."])


def told(model: Scripted) -> str:
    """What the model was told of its call."""
    return next(m.text for m in model.requests[-1].messages if isinstance(m, ToolResult))


@pytest.mark.parametrize("name", ["ask_user", "no_such_tool"])
async def test_a_tool_that_is_not_there_names_no_command(name: str) -> None:
    model = model_for(name, question="Which one?")

    ending = await Assistant(Runtime(tools=[put]), model).run("Go")

    assert not FOR_PEOPLE.search(told(model))
    assert list(ending.refused) == [name]


async def test_ask_user_with_nobody_to_ask_has_the_model_decide_or_state_what_is_missing() -> None:
    model = model_for("ask_user", question="Which one?")

    await Assistant(Runtime(tools=[put]), model).run("Go")

    assert "nobody can be asked" in told(model)
    assert "Decide yourself" in told(model)
    assert "state what is missing" in told(model)


@pytest.mark.parametrize("tools", [None, ["put"]], ids=["all tools", "some tools"])
async def test_a_tool_that_isolation_withholds_is_only_not_there_for_the_model(
    tools: list[str] | None,
) -> None:
    runtime = Runtime(tools=[pay, put], isolation=Isolation("process", trusted=["put"]))
    model = model_for("pay", amount=1)

    ending = await Assistant(runtime, model, tools=tools, posture="full_access").run("Go")

    assert "isolation" not in told(model).lower()
    assert "trusted" not in told(model)
    assert "settings" not in told(model)
    assert not FOR_PEOPLE.search(told(model))
    assert (ending.refused, ending.withheld) == (("pay",), ("pay",))
    assert 'trusted_tools = ["pay"]' in ending.advice
    assert ending.as_json()["withheld"] == ("pay",)


@pytest.mark.parametrize(
    ("name", "given", "tier"), [("pay", {"amount": 1}, "full_access"), ("put", {"text": "x"}, "sandbox_edit")]
)
async def test_advice_names_the_posture_that_helps(name: str, given: dict[str, object], tier: str) -> None:
    """And it is in the ending, not in what the model reads."""
    model = model_for(name, **given)
    runtime = Runtime(tools=[pay, put])

    ending = await Assistant(runtime, model).run("Go")
    allowed = await Assistant(runtime, model_for(name, **given), posture=tier).run("Go")

    assert not FOR_PEOPLE.search(told(model))
    assert "there is nobody to ask" in told(model)
    assert dict(ending.unasked) == {name: tier}
    assert f"posture='{tier}'" in ending.advice
    assert list(allowed.tools) == [name]
    assert not allowed.unasked
    assert allowed.advice == ""


async def test_the_advice_is_kept_with_the_run(tmp_path: Path) -> None:
    journal = MemoryJournal()
    first = await Assistant(Runtime(tools=[pay], journal=journal), model_for("pay", amount=1)).run("Go")

    again = await Assistant(Runtime(tools=[pay], journal=journal), Scripted(["x"])).resume(first.run_id)

    assert dict(again.unasked) == {"pay": "full_access"}


def test_an_ending_without_refused_calls_is_recorded_as_before() -> None:
    assert "unasked" not in Ending(status="success", summary="").as_json()


async def test_after_an_approval_the_hint_names_the_assistant(tmp_path: Path) -> None:
    from placet.app.app import open_records
    from placet.cli.approvals import _advise

    db = f"{tmp_path}/a.db"
    database = open_database(db)
    runtime = Runtime(
        tools=[pay], journal=SqlJournal(database), approvals=SqlApprovals(database), patience_s=0
    )
    ending = await Assistant(runtime, model_for("pay", amount=1)).run("Go")
    assert ending.status == "waiting"
    with open_records(db) as records:
        approval = records.approvals.find(ending.waiting[0].approval or "")
        commands = [each.command for each in _advise(records, approval, db)]

    assert f"assistant.resume('{ending.run_id}')" in commands
