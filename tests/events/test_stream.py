"""Events of a stream: public names, the same in a stream and in `watch`, and JSON kinds that stay."""

from __future__ import annotations

from typing import Any, get_args, get_origin

import placet.events
from placet import Approval, Assistant, Person, Reply, Runtime, tool
from placet.errors import ModelUnavailable
from placet.events import (
    ErrorReported,
    Notice,
    RunFinished,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from placet.inference import Result, Scripted, ToolCall


@tool(risk="read_only")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ADD = ToolCall(name="add", arguments={"a": 1, "b": 2})


async def test_a_stream_is_told_in_public_types() -> None:
    model = Scripted([Result(text="I add.", reasoning="One and two.", calls=(ADD,)), "It is 3."])
    seen: list[StreamEvent] = [event async for event in Assistant(Runtime([add]), model).stream("1 + 2?")]

    kinds = list(dict.fromkeys(type(event) for event in seen))

    assert kinds == [ThinkingDelta, TextDelta, ToolCallStarted, ToolCallFinished, RunFinished]
    [call] = [event for event in seen if isinstance(event, ToolCallStarted)]
    [result] = [event for event in seen if isinstance(event, ToolCallFinished)]
    assert (call.tool, call.parameters, result.ok, result.text) == ("add", {"a": 1, "b": 2}, True, "3")
    assert call.action_id == result.action_id


async def test_the_kinds_in_json_stay_what_they_were() -> None:
    seen: list[Any] = []
    failing = Scripted([ADD, ADD, ADD, ModelUnavailable("gone")])

    await Assistant(Runtime([add]), failing).run("1 + 2?", watch=seen.append)

    kinds = {type(event): event.to_dict()["event"] for event in seen}
    assert kinds == {
        ToolCallStarted: "call",
        ToolCallFinished: "result",
        Notice: "note",
        ErrorReported: "error",
        RunFinished: "done",
    }
    assert TextDelta(text="x").to_dict() == {"event": "text", "text": "x"}
    assert ThinkingDelta(text="x").to_dict() == {"event": "thinking", "text": "x"}


def test_every_event_is_public() -> None:
    members = {(get_origin(each) or each).__name__ for each in get_args(StreamEvent)}

    assert "RunFinished" in members
    assert members <= set(placet.events.__all__)


def test_a_person_is_typed_by_what_it_gets() -> None:
    asked: list[Approval] = []

    def ann(approval: Approval) -> Reply:
        asked.append(approval)
        return Reply("once", by="ann")

    person: Person = ann

    @tool(risk="destructive")
    def send(to: str) -> str:
        """Send a letter."""
        return "sent"

    Runtime([send], permissions="balanced", person=person).execute_sync(
        {"actions": [{"id": "a", "tool": "send", "parameters": {"to": "ada"}}]}
    )

    [approval] = asked
    assert (approval.tool, approval.parameters, approval.risk) == ("send", {"to": "ada"}, "destructive")
