"""References: what names an earlier result, what is ordinary text, and what is put in."""

from __future__ import annotations

from typing import Any

import pytest

from placet import Action, Runtime
from tests.runtime.plans import Recorder, call, plan, statuses, write

OUTPUT = {
    "name": "Ada",
    "n": 7,
    "none": None,
    "yes": True,
    "items": [{"id": 1}, {"id": 2, "tags": ["x", "y"]}],
    "a-b": "dashed",
    "0": "zero",
    "tricky": "$a1.output.name",
}


async def resolved(value: Any, **fields: Any) -> Any:
    """What a tool gets to see of a parameter."""
    recorder = Recorder()
    rt = Runtime(tools=[recorder.tool("make", OUTPUT), recorder.tool("use")])
    result = await rt.execute(
        plan(call("a1", "make"), call("a2", "use", {"x": value}, dependencies=["a1"], **fields))
    )
    assert result["a2"].status == "succeeded", result["a2"].error
    return recorder.calls[-1][1]["x"]


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ("$a1.output", OUTPUT),
        ("$a1.output.name", "Ada"),
        ("$a1.output.n", 7),
        ("$a1.output.none", None),
        ("$a1.output.yes", True),
        ("$a1.output.items", OUTPUT["items"]),
        ("$a1.output.items[0]", {"id": 1}),
        ("$a1.output.items[1].tags[1]", "y"),
        ("$a1.output.a-b", "dashed"),
        ("$a1.output.0", "zero"),
    ],
)
async def test_a_reference_alone_keeps_the_type_of_the_value(reference: str, value: Any) -> None:
    assert await resolved(reference) == value


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("Dear $a1.output.name,", "Dear Ada,"),
        ("$a1.output.n times", "7 times"),
        ("$a1.output.name$a1.output.n", "Ada7"),
        ("is $a1.output.yes / $a1.output.none", "is true / null"),
        ("see $a1.output.items[1].tags", 'see ["x","y"]'),
        ("($a1.output.name)", "(Ada)"),
        ("$a1.output.name.", "Ada."),
        ("/tmp/$a1.output.name/log.txt", "/tmp/Ada/log.txt"),
        (" $a1.output.n", " 7"),
    ],
)
async def test_a_reference_inside_a_longer_text_is_put_in_as_text_or_json(text: str, result: str) -> None:
    assert await resolved(text) == result


@pytest.mark.parametrize(
    "text",
    [
        "$",
        "costs $5",
        "$HOME/bin",
        "$a1",
        "$a1.",
        "$a1.outputs",
        "$a1.output_dir",
        "$a1.result",
        "a1.output",
        "$ a1.output",
        "${a1.output}",
        "$.output",
        "$-a.output",
    ],
)
async def test_a_dollar_in_any_other_form_is_an_ordinary_character(text: str) -> None:
    assert await resolved(text) == text


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("$$a1.output", "$a1.output"),
        ("$$a1.output.name", "$a1.output.name"),
        ("say $$a1.output to $a1.output.name", "say $a1.output to Ada"),
        ("$$ghost.output", "$ghost.output"),
        ("$$HOME", "$$HOME"),
        ("$$", "$$"),
    ],
)
async def test_a_doubled_dollar_is_the_literal_text(text: str, result: str) -> None:
    assert await resolved(text) == result


async def test_text_that_was_put_in_is_never_scanned_again() -> None:
    assert await resolved("$a1.output.tricky") == "$a1.output.name"
    assert await resolved("<$a1.output.tricky>") == "<$a1.output.name>"


async def test_references_stand_anywhere_within_a_parameter_but_not_in_its_keys() -> None:
    value = {"$a1.output.name": ["$a1.output.n", {"deep": "$a1.output.name"}]}

    assert await resolved(value) == {"$a1.output.name": [7, {"deep": "Ada"}]}


async def test_with_references_off_parameters_are_taken_as_they_are() -> None:
    value = {"a": "$a1.output", "b": "$$a1.output", "c": "$ghost.output"}

    assert await resolved(value, references=False) == value


async def test_with_references_off_nothing_is_a_dependency(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("bad", raises=ValueError("no")), recorder.tool("use")])

    result = await rt.execute(
        plan(
            call("a", "bad", failure_behavior="skip"),
            call("b", "use", {"x": "$a.output", "y": "$ghost.output"}, references=False),
        )
    )

    assert statuses(result) == {"a": "skipped", "b": "succeeded"}


@pytest.mark.parametrize(
    "path",
    [
        ".missing",
        ".name.first",
        ".items[2]",
        ".items.id",
        ".n[0]",
        "[0]",
        ".none.x",
        ".items[0][0]",
    ],
)
@pytest.mark.parametrize("text", ["$a1.output{}", "inside $a1.output{} too"])
async def test_a_path_that_does_not_exist_rejects_the_action(
    recorder: Recorder, path: str, text: str
) -> None:
    rt = Runtime(tools=[recorder.tool("make", OUTPUT), recorder.tool("use")])

    result = await rt.execute(plan(call("a1", "make"), call("a2", "use", {"x": text.format(path)})))

    assert result["a2"].status == "rejected"
    assert f"'$a1.output{path}'" in (result["a2"].error or "")
    assert recorder.names == ["make"]


async def test_a_reference_to_an_unknown_action_refuses_the_plan_and_says_how_to_escape_it(
    recorder: Recorder,
) -> None:
    rt = Runtime(tools=[recorder.tool("use")])

    result = await rt.execute(plan(call("a", "use", {"x": "$ghost.output"})))

    assert result.outcome == "refused"
    assert "'ghost'" in (result.error or "")
    assert "'$$ghost.output'" in (result.error or "")


@pytest.mark.parametrize("id", ["a-1", "step:2", "x.y", "1", "ä", "_", "a_b"])
async def test_ids_of_usual_forms_can_be_referred_to(recorder: Recorder, id: str) -> None:
    rt = Runtime(tools=[recorder.tool("make", 5), recorder.tool("use")])

    await rt.execute(plan(call(id, "make"), call("last", "use", {"x": f"${id}.output"})))

    assert recorder.calls[-1] == ("use", {"x": 5})


async def test_a_reference_may_name_the_key_or_value_of_an_action_on_the_state(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("make", {"key": "k", "value": [1]})])

    await rt.execute(
        plan(
            call("a", "make"),
            {
                "id": "w",
                "type": "state_write",
                "parameters": {"key": "$a.output.key", "value": "$a.output.value"},
            },
        )
    )

    assert rt.state.snapshot() == {"k": [1]}


async def test_a_key_that_is_known_only_later_still_keeps_its_place_in_the_order(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("make", "k")])

    result = await rt.execute(
        plan(
            call("a", "make"),
            write("w1", "k", 1),
            {"id": "w2", "type": "state_write", "parameters": {"key": "$a.output", "value": 2}},
            write("w3", "other", 3),
            {"id": "r", "type": "state_read", "parameters": {"key": "k"}},
        )
    )

    assert result["r"].output == 2


async def test_the_resolved_value_is_checked_against_the_schema(recorder: Recorder) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    rt = Runtime(tools=[recorder.tool("make", {"n": 1, "s": "x"}), recorder.tool("use", parameters=schema)])

    result = await rt.execute(
        plan(
            call("a", "make"),
            call("b", "use", {"n": "$a.output.n"}),
            call("c", "use", {"n": "$a.output.s"}, failure_behavior="skip"),
        )
    )

    assert statuses(result) == {"a": "succeeded", "b": "succeeded", "c": "rejected"}


async def test_only_parameters_are_searched_for_references(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("use")])

    result = await rt.execute(
        plan(
            call(
                "a",
                "use",
                expected_effects={"k": "$ghost.output"},
                metadata={"m": "$ghost.output"},
            )
        )
    )

    assert result.outcome == "succeeded"
    assert rt.state.get("k") == "$ghost.output"


async def test_a_policy_sees_the_value_and_never_the_reference(recorder: Recorder) -> None:
    seen: list[Any] = []

    def look(action: Action) -> None:
        seen.append(action.parameters.get("x"))

    rt = Runtime(tools=[recorder.tool("make", "rm -rf /"), recorder.tool("use")], policies=[look])

    await rt.execute(plan(call("a", "make"), call("b", "use", {"x": "run $a.output"})))

    assert seen == [None, "run rm -rf /"]
