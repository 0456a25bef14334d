"""Runs as lines of chat JSON."""

from __future__ import annotations

import json

from placet import Assistant, Memory, Runtime, tool
from placet.events.dataset import conversations
from placet.inference import Scripted, ToolCall
from placet.testing.skill_store import make_skill


@tool(risk="read_only")
def look(at: str) -> str:
    "Look."
    return f"seen {at}"


async def test_a_run_is_a_conversation_with_its_outcome_and_no_secrets() -> None:
    memory = Memory()
    await memory.skills.put(make_skill(state="kept"))
    runtime = Runtime([look], memory=memory)
    runtime.events.redactor.add_secret("hunter2hunter2")
    calls = [ToolCall(name="look", arguments={"at": each}) for each in ("a", "hunter2hunter2")]
    model = Scripted([calls, ToolCall(name="none", arguments={}), "All seen."])
    await Assistant(runtime, model, memory=True).run("Look at hunter2hunter2", run_id="r")
    await runtime.execute({"actions": [{"id": "a", "tool": "look", "parameters": {"at": "b"}}]})
    await memory.record_outcome("r", True, by="person")

    (found,) = conversations(runtime.events)

    roles = [each["role"] for each in found["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "assistant"]
    (first, second), answers = found["messages"][1]["tool_calls"], found["messages"][2:4]
    assert json.loads(first["function"]["arguments"]) == {"at": "a"}
    assert [each["tool_call_id"] for each in answers] == [first["id"], second["id"]]
    assert "seen a" in answers[0]["content"]
    assert found["messages"][-1]["content"] == "All seen."
    assert (found["run"], found["ended"], found["outcome"]) == (
        "r",
        "success",
        {"succeeded": True, "by": "person"},
    )
    assert "hunter2" not in json.dumps(found)


def test_nothing_comes_of_nothing() -> None:
    assert conversations([]) == []
