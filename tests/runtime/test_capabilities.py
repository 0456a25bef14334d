"""What a caller may use at all: tools, state keys, and how much of a plan at once."""

from __future__ import annotations

from typing import Any

import pytest

from placet import CapabilitySet, Runtime
from tests.runtime.plans import Recorder, call, claim, kinds, plan, read, statuses, undone_by, write


async def test_only_allowed_tools_run(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("read_file"), recorder.tool("shell")],
        capabilities=CapabilitySet(allowed_tools=["read_file"]),
    )

    result = await rt.execute(
        plan(call("a", "read_file"), call("b", "shell", failure_behavior="skip"), call("c", "read_file"))
    )

    assert statuses(result) == {"a": "succeeded", "b": "rejected", "c": "succeeded"}
    assert result["b"].error == "capability denied: tool 'shell' is not allowed"
    assert recorder.names == ["read_file", "read_file"]
    assert kinds(rt, "b") == ["action_rejected"]


async def test_a_denied_tool_is_denied_also_when_it_is_allowed(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("shell")],
        capabilities=CapabilitySet(allowed_tools=["shell"], denied_tools=["shell"]),
    )

    result = await rt.execute(plan(call("a", "shell")))

    assert result["a"].status == "rejected"


@pytest.mark.parametrize(
    ("pattern", "tool", "status"),
    [
        ("shell", "shell_exec", "rejected"),
        ("shell*", "shell_exec", "succeeded"),
        ("*.read", "files.read", "succeeded"),
        ("*.read", "files.reader", "rejected"),
        ("files?read", "files.read", "rejected"),
        ("*", "anything", "succeeded"),
    ],
)
async def test_a_pattern_means_what_is_written(
    recorder: Recorder, pattern: str, tool: str, status: str
) -> None:
    rt = Runtime(tools=[recorder.tool(tool)], capabilities=CapabilitySet(allowed_tools=[pattern]))

    result = await rt.execute(plan(call("a", tool)))

    assert result["a"].status == status


async def test_an_empty_list_of_tools_allows_none_but_the_state(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("shell")], capabilities=CapabilitySet(allowed_tools=[]))

    result = await rt.execute(plan(call("a", "shell", failure_behavior="skip"), write("b", "k", 1)))

    assert statuses(result) == {"a": "rejected", "b": "succeeded"}


@pytest.mark.parametrize(
    "action",
    [
        write("a", "private", 1),
        read("a", "private"),
        claim("a", "private", None),
        write("a", "public.x", 1, expected_effects={"private": 2}),
        write("a", "public.x", 1, preconditions=[{"key": "private", "operator": "not_exists"}]),
        write("a", "public.x", 1, state_dependencies=["private"]),
        write("a", "public.x", 1, read_set=["private"]),
        write("a", "public.x", 1, write_set=["private"]),
        write("a", "public.x", 1, assumptions=[{"key": "private", "read_version": 99}]),
    ],
    ids=lambda a: "+".join(sorted(a.keys() - {"id", "parameters"})) + ":" + a["type"],
)
async def test_a_key_that_is_not_allowed_rejects_the_action_wherever_it_stands(
    action: dict[str, Any],
) -> None:
    rt = Runtime(capabilities=CapabilitySet(allowed_state_keys=["public.*"]))

    result = await rt.execute(plan(action))

    assert result["a"].status == "rejected"
    assert result["a"].error == "capability denied: state key 'private' is not allowed"
    assert rt.state.snapshot() == {}


async def test_allowed_keys_may_be_patterns() -> None:
    rt = Runtime(capabilities=CapabilitySet(allowed_state_keys=["public.*"]))

    result = await rt.execute(plan(write("a", "public.x", 1), read("b", "public.x")))

    assert result["b"].output == 1


async def test_a_plan_with_more_actions_than_allowed_is_refused_whole(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("note")], capabilities=CapabilitySet(max_actions=2))

    enough = await rt.execute(plan(call("a", "note"), call("b", "note")))
    too_many = await rt.execute(plan(call("a", "note"), call("b", "note"), call("c", "note")))

    assert enough.outcome == "succeeded"
    assert too_many.outcome == "refused"
    assert too_many.error == "capability denied: the proposal has 3 actions, at most 2 are allowed"
    assert set(statuses(too_many).values()) == {"rejected"}
    assert recorder.names == ["note", "note"]


async def test_a_disallowed_action_that_aborts_undoes_the_plan(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("shell")], capabilities=CapabilitySet(denied_tools=["shell"]))

    result = await rt.execute(plan(write("a", "k", 1), call("b", "shell")))

    assert result.outcome == "aborted"
    assert rt.state.snapshot() == {}


async def test_a_compensation_is_held_to_the_capabilities(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("book", reversibility="compensable"), recorder.tool("unbook")],
        capabilities=CapabilitySet(denied_tools=["unbook"]),
    )

    result = await rt.execute(plan(call("a", "book", **undone_by("unbook")), claim("b", "never", 1)))

    assert result.outcome == "aborted"
    assert [(c.action_id, c.status) for c in result.compensations] == [("a", "rejected")]
    assert recorder.names == ["book"]


async def test_capabilities_may_be_set_later(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("shell")])
    before = await rt.execute(plan(call("a", "shell")))

    rt.capabilities = CapabilitySet(allowed_tools=[])
    after = await rt.execute(plan(call("a", "shell")))

    assert (before["a"].status, after["a"].status) == ("succeeded", "rejected")
