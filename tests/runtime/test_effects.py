"""What actions do to the state, and what their results say about it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet import Runtime
from placet.errors import NotJson
from tests.runtime.plans import Recorder, call, claim, data_of, kinds, plan, read, tool_of, write


async def test_a_state_write_writes_and_answers_with_the_key() -> None:
    rt = Runtime()

    result = await rt.execute(plan(write("a", "k", {"n": [1]})))

    assert result["a"].output == "written: k"
    assert rt.state.get("k") == {"n": [1]}


async def test_a_state_write_without_a_value_writes_null() -> None:
    rt = Runtime()

    await rt.execute(plan({"id": "a", "type": "state_write", "parameters": {"key": "k"}}))

    assert rt.state.exists("k")
    assert rt.state.get("k", "default") is None


async def test_a_state_read_gives_the_value_or_null() -> None:
    rt = Runtime(state={"k": 5})

    result = await rt.execute(plan(read("a", "k"), read("b", "missing")))

    assert (result["a"].output, result["b"].output) == (5, None)
    assert result["b"].status == "succeeded"


async def test_an_assertion_that_holds_answers_with_the_key_and_the_value() -> None:
    rt = Runtime(state={"k": 5})

    result = await rt.execute(plan(claim("a", "k", 5.0)))

    assert result["a"].output == {"asserted": "k", "value": 5}


async def test_an_assertion_that_does_not_hold_shows_both_values_as_json() -> None:
    rt = Runtime(state={"k": {"on": True, "name": None}})

    result = await rt.execute(plan(claim("a", "k", ["no"])))

    assert result["a"].status == "failed"
    assert result["a"].error == 'assertion failed: \'k\' is {"on":true,"name":null}, expected ["no"]'


@pytest.mark.parametrize(
    ("actual", "expected", "status"),
    [
        (5, 5.0, "succeeded"),
        (True, 1, "failed"),
        (0, False, "failed"),
        (None, None, "succeeded"),
        ([1, {"a": 2.0}], [1.0, {"a": 2}], "succeeded"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "succeeded"),
        ("5", 5, "failed"),
        ([1, 2], [2, 1], "failed"),
    ],
)
async def test_an_assertion_compares_as_json_does(actual: Any, expected: Any, status: str) -> None:
    rt = Runtime(state={"k": actual})

    result = await rt.execute(plan(claim("a", "k", expected)))

    assert result["a"].status == status


async def test_an_assertion_sees_a_missing_key_as_null() -> None:
    result = await Runtime().execute(
        plan(claim("a", "missing", None), {"id": "b", "type": "assertion", "parameters": {"key": "missing"}})
    )

    assert result.outcome == "succeeded"


async def test_expected_effects_are_written_when_the_action_succeeds(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("build", "ok")])

    result = await rt.execute(plan(call("a", "build", expected_effects={"built": True, "log": ["x"]})))

    assert rt.state.snapshot() == {"built": True, "log": ["x"]}
    assert result["a"].state_changes == {"built": True, "log": ["x"]}


@pytest.mark.parametrize("behavior", ["skip", "abort"])
async def test_expected_effects_are_not_written_when_it_does_not(recorder: Recorder, behavior: str) -> None:
    rt = Runtime(tools=[recorder.tool("build", raises=ValueError("no"))])

    result = await rt.execute(
        plan(call("a", "build", failure_behavior=behavior, expected_effects={"built": True}))
    )

    assert rt.state.snapshot() == {}
    assert result["a"].state_changes == {}


async def test_the_state_a_tool_sees_does_not_hold_its_effects_yet() -> None:
    seen: list[Any] = []

    async def look() -> None:
        seen.append(rt.state.exists("built"))

    rt = Runtime(tools=[tool_of("look", look)])

    await rt.execute(plan(call("a", "look", expected_effects={"built": True})))

    assert seen == [False]


async def test_state_changes_lists_what_this_action_changed_and_nothing_of_its_neighbours() -> None:
    barrier = asyncio.Barrier(3)

    async def meet(_: dict[str, Any]) -> None:
        await barrier.wait()

    recorder = Recorder()
    rt = Runtime(tools=[recorder.tool("meet", meet, risk="read_only")])

    result = await rt.execute(plan(*(call(f"a{n}", "meet", expected_effects={f"k{n}": n}) for n in range(3))))

    assert [r.state_changes for r in result.results] == [{"k0": 0}, {"k1": 1}, {"k2": 2}]


async def test_an_action_on_the_state_has_effects_of_its_own_too() -> None:
    rt = Runtime(state={"k": 1})

    result = await rt.execute(
        plan(write("a", "j", 2, expected_effects={"w": 3}), read("b", "k", expected_effects={"r": 4}))
    )

    assert result["a"].state_changes == {"j": 2, "w": 3}
    assert result["b"].state_changes == {"r": 4}
    assert rt.state.snapshot() == {"k": 1, "j": 2, "w": 3, "r": 4}


async def test_a_read_changes_nothing_and_says_nothing_of_changes() -> None:
    rt = Runtime(state={"k": 1})

    result = await rt.execute(plan(read("a", "k"), claim("b", "k", 1)))

    assert [r.state_changes for r in result.results] == [{}, {}]
    assert "state_changed" not in kinds(rt)


async def test_every_change_is_an_event() -> None:
    rt = Runtime()

    await rt.execute(plan(write("a", "k", 1)))

    assert data_of(rt, "state_changed", "a") == [{"changes": {"k": 1}}]


async def test_every_change_is_a_transition_with_who_and_what_was_before() -> None:
    rt = Runtime(state={"k": 0})
    version = rt.state.version

    await rt.execute(plan(write("a", "k", 1), write("b", "k", 2), id="p9"))

    changes = rt.state.transitions_since(version)
    assert [(t.version, t.key, t.old, t.new) for t in changes] == [
        (version + 1, "k", 0, 1),
        (version + 2, "k", 1, 2),
    ]
    assert [(t.action_id, t.proposal_id) for t in changes] == [("a", "p9"), ("b", "p9")]
    assert changes[0].time > 0


async def test_a_value_is_never_aliased_with_the_plan_or_a_result(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("make", lambda _: [1])])
    effects = {"e": [1]}

    result = await rt.execute(
        plan(
            call("a", "make", expected_effects=effects),
            write("b", "k", "$a.output"),
            read("c", "k", dependencies=["b"]),
        )
    )
    effects["e"].append(2)
    result["a"].output.append(2)
    result["c"].output.append(3)
    rt.state.get("k").append(4)
    rt.state.snapshot()["e"].append(5)

    assert rt.state.snapshot() == {"e": [1], "k": [1]}


async def test_a_tool_that_changes_its_parameters_changes_nothing_else(recorder: Recorder) -> None:
    def spoil(parameters: dict[str, Any]) -> None:
        parameters["items"].append("spoiled")

    rt = Runtime(tools=[recorder.tool("make", lambda _: [1]), recorder.tool("spoil", spoil)])

    result = await rt.execute(plan(call("a", "make"), call("b", "spoil", {"items": "$a.output"})))

    assert result["a"].output == [1]


async def test_integers_keep_all_their_digits() -> None:
    rt = Runtime()
    many = 123456789012345678901234567890123

    result = await rt.execute(
        f'{{"actions": [{{"id": "a", "type": "state_write", "parameters": {{"key": "k", "value": {many}}}}},'
        f' {{"id": "b", "type": "assertion", "parameters": {{"key": "k", "expected": {many}}}}}]}}'
    )

    assert result.outcome == "succeeded"
    assert rt.state.get("k") == many


@pytest.mark.parametrize(
    "value", [float("nan"), float("-inf"), {1, 2}, {1: 2}, object(), b"x", [float("nan")]]
)
def test_the_state_refuses_what_is_not_json(value: Any) -> None:
    rt = Runtime()

    with pytest.raises(NotJson):
        rt.state.set("k", value)
    assert not rt.state.exists("k")
