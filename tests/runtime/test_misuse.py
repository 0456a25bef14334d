"""What is easily written wrong is refused where it is written, with what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from placet import (
    Action,
    AgentRunner,
    AgentSpec,
    Assistant,
    DenyTool,
    MemoryApprovals,
    Reply,
    Runtime,
    SqlJournal,
    ToolSchema,
    open_database,
    tool,
)
from placet.approvals.approval import Approval
from placet.errors import DuplicateTool, PlacetError, ToolDeclarationError, UnknownAction, UsageError
from placet.inference import Scripted, ToolCall
from placet.testing import RecordingTool
from placet.testing.plan import action, proposal
from placet.tools import program_tool


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


# Tools


def other_add(a: int) -> int:
    """Add one."""
    return a + 1


def test_two_tools_of_one_name_are_refused_and_both_are_named() -> None:
    with pytest.raises(DuplicateTool) as raised:
        Runtime([add, tool(name="add")(other_add)])

    assert (raised.value.code, raised.value.name) == ("usage.duplicate_tool", "add")
    assert "test_misuse.add " in str(raised.value)
    assert "other_add" in str(raised.value)


def test_two_built_in_tools_of_one_name_are_refused_too() -> None:
    with pytest.raises(DuplicateTool):
        Runtime(builtin=[tool(add), tool(name="add")(other_add)])


def test_the_same_tool_twice_is_one() -> None:
    made = tool(other_add)

    assert Runtime([add, add, made, made]).tools.names() == ["add", "other_add"]


async def test_an_own_tool_hides_a_built_in_one() -> None:
    runtime = Runtime([tool(name="add")(other_add)], builtin=[tool(add)])

    result = await runtime.execute(proposal(action("x", "add", parameters={"a": 1})))

    assert result["x"].output == 2


@pytest.mark.parametrize("item", ["add", 5, None, {"name": "add"}])
def test_what_is_no_function_is_no_tool(item: Any) -> None:
    with pytest.raises(ToolDeclarationError) as raised:
        Runtime([add, item])

    assert "[1]" in str(raised.value), "it says which one"
    assert type(item).__name__ in str(raised.value)


@pytest.mark.parametrize("tools", [add, tool(add), 5])
def test_tools_that_are_no_list_are_refused(tools: Any) -> None:
    with pytest.raises(UsageError) as raised:
        Runtime(tools)

    assert "Runtime([" in str(raised.value)


# A runtime


def test_a_list_of_tools_is_no_runtime() -> None:
    with pytest.raises(UsageError) as raised:
        Assistant([add], Scripted(["x"]))  # type: ignore[arg-type]

    assert "Assistant(Runtime([add]), ...)" in str(raised.value)


def test_an_agent_needs_a_runtime_too() -> None:
    spec = AgentSpec(id="a", identity="You add.")

    with pytest.raises(UsageError) as raised:
        AgentRunner(Runtime, Scripted(["x"]), spec)  # type: ignore[arg-type]

    assert "Runtime(" in str(raised.value)


# Results


def test_an_action_that_is_not_there_is_a_key_error_that_names_the_nearest() -> None:
    result = Runtime([add]).execute_sync({"actions": [{"id": "total", "tool": "add", "parameters": {}}]})

    with pytest.raises(KeyError) as raised:
        result["totl"]

    error = raised.value
    assert isinstance(error, UnknownAction)
    assert isinstance(error, PlacetError)
    assert (error.code, error.action_id) == ("usage.unknown_action", "totl")
    assert "'total'" in str(error)
    assert not str(error).startswith('"'), "a message, not the repr of one"


def test_a_result_without_actions_says_so() -> None:
    with pytest.raises(UnknownAction, match="no actions"):
        Runtime().execute_sync({"actions": []})["a1"]


# People


@pytest.mark.parametrize("word", ["yes", "allow", "withdrawn", True, None])
def test_a_reply_that_is_no_decision_is_refused_where_it_is_made(word: Any) -> None:
    with pytest.raises(UsageError) as raised:
        Reply(word)

    assert all(known in str(raised.value) for known in ("once", "always", "deny"))


def sending() -> RecordingTool:
    return RecordingTool("send", risk="destructive", default="sent")


def broken(approval: Approval) -> Reply:
    raise EOFError("no terminal")


def wrong(approval: Approval) -> Any:
    return "yes"


def unoffered(approval: Approval) -> Reply:
    """An answer that only a question about an edit of files offers."""
    return Reply("edits")


@pytest.mark.parametrize("person", [broken, wrong, unoffered])
async def test_a_person_who_cannot_be_asked_is_a_no_where_nobody_else_can_be(person: Any) -> None:
    send = sending()
    runtime = Runtime([send], permissions="balanced", person=person)
    model = Scripted([ToolCall(name="send"), "I could not send it."])

    ending = await Assistant(runtime, model).run("Send it.")

    assert (ending.status, ending.refused, send.calls) == ("success", ("send",), [])
    assert [e.data["sink"] for e in runtime.events.query(kind="sink_failed")] == ["person"]


@pytest.mark.parametrize("person", [broken, wrong, unoffered])
async def test_a_question_stays_open_where_somebody_else_can_answer(person: Any) -> None:
    send = sending()
    approvals = MemoryApprovals()

    def answers(approval: Approval) -> Any:
        # Somebody else, while this one fails.
        approvals.decide(approval.id, "once", by="ann")
        return person(approval)

    runtime = Runtime([send], permissions="balanced", person=answers, approvals=approvals)

    result = await runtime.execute({"actions": [Action(id="a", tool="send").to_dict()]})

    assert result["a"].status == "succeeded"
    assert [each.decided_by for each in approvals.recent(5)] == ["ann"]
    [event] = runtime.events.query(kind="sink_failed")
    assert event.action_id == "a"


def test_two_programs_of_one_name_are_told_apart_by_their_commands() -> None:
    made = [program_tool(ToolSchema(name="p"), [command]) for command in ("true", "false")]

    with pytest.raises(DuplicateTool) as raised:
        Runtime(made)

    assert "'true'" in str(raised.value)
    assert "'false'" in str(raised.value)


def test_a_result_can_be_asked_for_an_id_and_gone_through() -> None:
    result = Runtime([]).execute_sync(
        {"actions": [{"id": n, "type": "state_write", "parameters": {"key": n, "value": 1}} for n in "ab"]}
    )

    assert "a" in result
    assert "c" not in result
    assert [each.action_id for each in result] == ["a", "b"]
    assert len(result) == 2
    assert Runtime([]).execute_sync({"actions": []}), "a result is true, however little it holds"


SCHEMA = ToolSchema(name="p")


@pytest.mark.parametrize(
    "misuse",
    [
        lambda: Assistant(Runtime(), Scripted(["x"])).run_sync(7),  # type: ignore[call-overload]
        lambda: Assistant(Runtime(), Scripted(["x"])).run_sync(None),  # type: ignore[call-overload]
        lambda: Assistant(Runtime([add]), Scripted(["x"]), tools=[add]),  # type: ignore[list-item]
        lambda: Assistant(Runtime([add]), Scripted(["x"]), tools=add),  # type: ignore[arg-type]
        lambda: Assistant(Runtime(), Scripted(["x"]), limits=5),  # type: ignore[arg-type]
        lambda: Runtime(policies=DenyTool(tool="add")),  # type: ignore[arg-type]
        lambda: Runtime(policies="add"),  # type: ignore[arg-type]
        lambda: Runtime().register(tool(add), add),
        lambda: Runtime(person="me"),  # type: ignore[arg-type]
        lambda: Reply("deny", 7),  # type: ignore[arg-type]
        lambda: Reply("deny", by=None),  # type: ignore[arg-type]
        lambda: program_tool({"name": "p"}, ["true"]),  # type: ignore[arg-type]
        lambda: program_tool(SCHEMA, ["true"], exit_codes=0),  # type: ignore[arg-type]
        lambda: program_tool(SCHEMA, ["true"], exit_codes=["0"]),  # type: ignore[list-item]
        lambda: program_tool(SCHEMA, ["true"], environment="FOO"),
        lambda: program_tool(SCHEMA, ["true"], environment=5),  # type: ignore[arg-type]
    ],
)
def test_a_value_of_another_type_is_an_error_of_ours(misuse: Any) -> None:
    with pytest.raises(PlacetError) as raised:
        misuse()

    assert raised.value.code.startswith(("usage", "tool"))


def test_a_run_is_looked_for_by_a_text(tmp_path: Any) -> None:
    with open_database(f"{tmp_path}/j.db") as database, pytest.raises(UsageError):
        SqlJournal(database).find(7)  # type: ignore[arg-type]
