"""Reading proposals: strict at the boundary, with the place in every error."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from placet import Action, Proposal, Runtime
from placet.errors import DecodeError, NotJson
from placet.ir.codec import decode_json, decode_proposal
from placet.ir.json_value import copy_json


def one(**fields: Any) -> dict[str, Any]:
    """A document with one action."""
    return {"actions": [{"id": "a", "type": "state_read", "parameters": {"key": "k"}, **fields}]}


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


# Defaults


def test_what_is_left_out_of_a_proposal_is_filled_in() -> None:
    before = datetime.now(UTC)

    proposal = decode_proposal("{}")

    assert re.fullmatch("[0-9a-f]{12}", proposal.id)
    assert proposal.source == "unknown"
    assert before - timedelta(seconds=1) <= proposal.timestamp <= datetime.now(UTC)
    assert list(proposal.actions) == []
    assert proposal.context == {}


def test_what_is_left_out_of_an_action_has_the_default_of_the_wire() -> None:
    (action,) = decode_proposal('{"actions": [{"id": "a", "tool": "t"}]}').actions

    assert action.type == "tool_call"
    assert action.parameters == {}
    assert list(action.preconditions) == list(action.assumptions) == []
    assert action.expected_effects == {}
    assert list(action.dependencies) == list(action.state_dependencies) == []
    assert list(action.read_set) == list(action.write_set) == []
    assert action.idempotent is False
    assert action.max_retries == 3
    assert action.failure_behavior == "abort"
    assert action.timeout_ms is None
    assert action.invocation_mode == "one_shot"
    assert action.reversibility is None
    assert action.compensation is None
    assert action.references is True
    assert action.metadata == {}


def test_every_field_of_the_wire_arrives() -> None:
    document = {
        "id": "p",
        "source": "s",
        "timestamp": "2024-05-06T07:08:09Z",
        "context": {"c": [1]},
        "actions": [
            {
                "id": "a",
                "type": "tool_call",
                "tool": "t",
                "parameters": {"x": 1},
                "preconditions": [{"key": "k", "operator": "gt", "value": 5, "description": "d"}],
                "expected_effects": {"e": 1},
                "dependencies": ["b"],
                "state_dependencies": ["s"],
                "read_set": ["r"],
                "write_set": ["w"],
                "assumptions": [{"key": "k", "expected_value": None, "read_version": 3}],
                "idempotent": True,
                "max_retries": 0,
                "failure_behavior": "retry",
                "timeout_ms": 10,
                "invocation_mode": "streaming",
                "reversibility": "compensable",
                "compensation": {"type": "tool", "tool": "u", "parameters": {"y": 2}},
                "references": False,
                "metadata": {"m": True},
            }
        ],
    }

    for given in (document, json.dumps(document)):
        proposal = decode_proposal(given)  # type: ignore[arg-type]
        again = decode_proposal(json.loads(json.dumps(document)))
        (action,) = proposal.actions
        assert proposal.timestamp == datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
        assert (proposal.id, proposal.source, proposal.context) == ("p", "s", {"c": [1]})
        assert action == again.actions[0]
        assert action.preconditions[0].operator == "gt"
        assert action.assumptions[0].expected_value is None
        assert action.references is False
        assert list(proposal.unknown_fields) == []


def test_actions_without_an_id_get_the_same_ones_every_time() -> None:
    text = '{"actions": [{"tool": "t"}, {"tool": "t"}, {"id": "a1", "tool": "t"}, {"id": "", "tool": "t"}]}'

    ids = [[a.id for a in decode_proposal(text).actions] for _ in range(2)]

    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 4
    assert ids[0][2] == "a1"


def test_a_proposal_built_in_python_is_read_as_strictly() -> None:
    fine = decode_proposal(Proposal(actions=[Action(id="a", tool="t", parameters={"x": (1, 2)})]))

    assert fine.actions[0].parameters == {"x": [1, 2]}
    with pytest.raises(DecodeError, match=r"actions\[0\]\.parameters\.x"):
        decode_proposal(Proposal(actions=[Action(id="a", tool="t", parameters={"x": float("nan")})]))
    with pytest.raises(DecodeError, match=r"actions\[0\]"):
        decode_proposal(Proposal(actions=[Action(id="a", tool="t", max_retries=-1)]))
    with pytest.raises(DecodeError, match=r"actions\[0\]\.parameters\.x"):
        decode_proposal(Proposal(actions=[Action(id="a", tool="t", parameters={"x": b"bytes"})]))
    with pytest.raises(DecodeError, match=r"context\.when"):
        decode_proposal(Proposal(context={"when": datetime.now(UTC)}))


def test_a_proposal_keeps_nothing_of_the_dict_it_was_read_from() -> None:
    document = one(expected_effects={"e": [1]})

    proposal = decode_proposal(document)
    document["actions"][0]["expected_effects"]["e"].append(2)

    assert proposal.actions[0].expected_effects == {"e": [1]}


# Malformed text


@pytest.mark.parametrize(
    ("text", "problem", "place"),
    [
        ("", "empty", "$"),
        ("   \n", "empty", "$"),
        ("{", "malformed JSON", "line 1, column 2"),
        ('{"actions": [}', "malformed JSON", "line 1, column 14"),
        ('{\n  "actions": [\n    {"id" "a"}\n  ]\n}', "malformed JSON", "line 3, column 11"),
        ('{"actions": []} trailing', "malformed JSON", "line 1, column 17"),
        ("{'actions': []}", "malformed JSON", "line 1, column 2"),
        ('{"context": {"x": NaN}}', "NaN is no number", "line 1, column 19"),
        ('{"context": {"x": -Infinity}}', "Infinity is no number", "line 1"),
        ('{"context": {"x": 1e999}}', "1e999 is no number", "line 1, column 19"),
        ('{"context": {"x": 1, "x": 2}}', "'x' stands twice", "line 1, column 22"),
        ('{"id": "a",\n "id": "b"}', "'id' stands twice", "line 2, column 2"),
        ('{"actions": [{"id": "a", "tool": "t", "tool": "u"}]}', "'tool' stands twice", "line 1, column 39"),
    ],
)
def test_malformed_text_is_one_error_that_names_the_place(text: str, problem: str, place: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_proposal(text)

    assert problem in caught.value.problem
    assert place in caught.value.place
    assert caught.value.place in str(caught.value)


def test_a_duplicate_key_is_found_also_when_it_is_spelled_in_another_way() -> None:
    with pytest.raises(DecodeError, match="twice"):
        decode_proposal('{"context": {"a:b": 1, "a\\u003ab": 2}}')
    with pytest.raises(DecodeError, match="twice"):
        decode_proposal('{"context": {"\\u0078": 1, "x": 2}}')


def test_a_colon_in_a_text_is_no_key() -> None:
    proposal = decode_proposal('{"context": {"a": "b: c\\u003a d", "e:": {"a": 1}}}')

    assert proposal.context == {"a": "b: c: d", "e:": {"a": 1}}


def test_bytes_that_are_not_utf_8_are_named_by_position() -> None:
    with pytest.raises(DecodeError, match="byte 12"):
        decode_proposal(b'{"source": "\xff"}')


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(DecodeError):
        decode_proposal('{"source": "\ud800"}')


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (r'{"source": "\ud800"}', "line 1, column 13"),
        ('{"id": "a",\n "source": "x\\\\\\uD83Dy"}', "line 2, column 16"),
        (r'{"source": "\udc00"}', "line 1, column 13"),
        (r'{"source": "\ud800\ud800"}', "line 1, column 13"),
        (r'{"source": "\ud83d\ude00\n\ude00\ud83d"}', "line 1, column 27"),
        (r'{"context": {"\ud800": 1}}', "line 1, column 15"),
    ],
)
def test_an_escaped_half_of_a_surrogate_pair_is_named_with_its_place(text: str, place: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_proposal(text)

    assert "half of a surrogate pair" in caught.value.problem
    assert caught.value.place == place


def test_a_whole_surrogate_pair_and_a_backslash_are_ordinary_text() -> None:
    assert decode_proposal(r'{"source": "\ud83d\ude00 \\ud800"}').source == "\U0001f600 \\ud800"


@pytest.mark.parametrize("number", ["9" * 4301, "9" * 100_000, "-" + "9" * 4300], ids=len)
def test_an_integer_too_long_to_be_read_is_refused_with_its_place(number: str) -> None:
    text = '{"source": "' + "9" * 5000 + '",\n "context": {"pi": 0.' + "9" * 5000 + ', "x": ' + number + "}}"

    column = text.splitlines()[1].index('"x": ') + 6
    for decode in (decode_json, decode_proposal):
        with pytest.raises(DecodeError) as caught:
            decode(text)
        assert "4,300" in caught.value.problem
        assert caught.value.place == f"line 2, column {column}"


@pytest.mark.parametrize("number", [10**4300 - 1, -(10**4299) + 1], ids=["over", "under"])
def test_an_integer_that_can_be_written_can_be_read(number: int) -> None:
    document = {"context": {"x": number}}

    assert decode_proposal(document).context == decode_proposal(json.dumps(document)).context == {"x": number}


@pytest.mark.parametrize("number", [10**4300, -(10**4299), 10**100_000], ids=["over", "under", "far"])
def test_an_integer_too_long_to_be_written_is_refused_with_its_place(number: int) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_proposal({"actions": [{"tool": "t", "parameters": {"x": [1, number]}}]})

    assert "4,300" in caught.value.problem
    assert caught.value.place == "$.actions[0].parameters.x[1]"
    with pytest.raises(NotJson):
        copy_json(number)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda value: {"context": {"x": value}},
        lambda value: one(metadata={"x": value}),
        lambda value: {"actions": [{"tool": "t", "parameters": {"x": value}}]},
        lambda value: {"actions": [{"tool": "t", "expected_effects": {"x": value}}]},
        lambda value: {"actions": [{"tool": "t", "preconditions": [{"key": "k", "value": value}]}]},
        lambda value: {
            "actions": [
                {"tool": "t", "compensation": {"type": "tool", "tool": "u", "parameters": {"x": value}}}
            ]
        },
    ],
    ids=["context", "metadata", "parameters", "effects", "precondition", "compensation"],
)
def test_depth_over_a_hundred_is_refused_wherever_it_stands(wrap: Any) -> None:
    """Objects and lists are counted from the outermost brace."""
    around = json.dumps(wrap(0)).split("0}")[0].count("{") + json.dumps(wrap(0)).split("0}")[0].count("[")
    closed = json.dumps(wrap(0)).split("0}")[0].count("}") + json.dumps(wrap(0)).split("0}")[0].count("]")
    deepest = wrap(nested(100 - around + closed))
    too_deep = wrap(nested(101 - around + closed))

    decode_proposal(deepest)
    decode_proposal(json.dumps(deepest))
    with pytest.raises(DecodeError, match="100 deep") as in_python:
        decode_proposal(too_deep)
    with pytest.raises(DecodeError, match="100 deep") as in_text:
        decode_proposal(json.dumps(too_deep))
    assert in_text.value.place == in_python.value.place != "$"


@pytest.mark.parametrize("levels", [1_000, 200_000])
def test_absurd_depth_is_an_error_that_names_the_place_and_no_crash(levels: int) -> None:
    text = '{"source": "[[{\\"[",\n "context": {"x": ' + "[" * levels + "1" + "]" * levels + "}}"

    with pytest.raises(DecodeError, match="100 deep") as caught:
        decode_proposal(text)

    assert caught.value.place in (f"line 2, column {19 + 98}", ("$.context.x" + "[0]" * 98)[:200])


def test_a_value_that_refers_to_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["loop"] = loop

    with pytest.raises(DecodeError, match="100 deep"):
        decode_proposal({"context": loop})


# Wrong types


def test_a_timestamp_says_its_zone_also_in_python() -> None:
    with pytest.raises(DecodeError, match="zone") as caught:
        decode_proposal(Proposal(timestamp=datetime(2024, 1, 1)))

    assert caught.value.place == "$.timestamp"


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ([], "$"),
        ("text", "$"),
        (None, "$"),
        ({"id": 5}, "$.id"),
        ({"source": None}, "$.source"),
        ({"timestamp": "yesterday"}, "$.timestamp"),
        ({"timestamp": 5}, "$.timestamp"),
        ({"timestamp": "2024-01-01T00:00:00"}, "$.timestamp"),
        ({"actions": {}}, "$.actions"),
        ({"actions": None}, "$.actions"),
        ({"actions": ["a"]}, "$.actions[0]"),
        ({"actions": [{"tool": "t"}, 5]}, "$.actions[1]"),
        ({"context": []}, "$.context"),
        (one(id=5), "$.actions[0].id"),
        (one(type="eval"), "$.actions[0].type"),
        (one(tool=["t"]), "$.actions[0].tool"),
        (one(parameters=[]), "$.actions[0].parameters"),
        (one(preconditions={}), "$.actions[0].preconditions"),
        (one(preconditions=[{}]), "$.actions[0].preconditions[0]"),
        (one(preconditions=[{"key": 1}]), "$.actions[0].preconditions[0].key"),
        (one(preconditions=[{"key": "k", "operator": 5}]), "$.actions[0].preconditions[0].operator"),
        (one(expected_effects=[1]), "$.actions[0].expected_effects"),
        (one(dependencies="a"), "$.actions[0].dependencies"),
        (one(dependencies=[1]), "$.actions[0].dependencies[0]"),
        (one(state_dependencies=[None]), "$.actions[0].state_dependencies[0]"),
        (one(read_set={}), "$.actions[0].read_set"),
        (one(write_set=[[]]), "$.actions[0].write_set[0]"),
        (one(assumptions=[{"expected_value": 1}]), "$.actions[0].assumptions[0]"),
        (one(assumptions=[{"key": "k", "read_version": "1"}]), "$.actions[0].assumptions[0].read_version"),
        (one(idempotent=1), "$.actions[0].idempotent"),
        (one(idempotent="true"), "$.actions[0].idempotent"),
        (one(max_retries=-1), "$.actions[0].max_retries"),
        (one(max_retries=1.5), "$.actions[0].max_retries"),
        (one(max_retries=True), "$.actions[0].max_retries"),
        (one(max_retries=10**9), "$.actions[0].max_retries"),
        (one(failure_behavior="ignore"), "$.actions[0].failure_behavior"),
        (one(timeout_ms=0), "$.actions[0].timeout_ms"),
        (one(timeout_ms="5"), "$.actions[0].timeout_ms"),
        (one(invocation_mode="batch"), "$.actions[0].invocation_mode"),
        (one(reversibility="maybe"), "$.actions[0].reversibility"),
        (one(compensation={}), "$.actions[0].compensation"),
        (one(compensation={"type": "pray"}), "$.actions[0].compensation"),
        (one(compensation={"type": "tool"}), "$.actions[0].compensation"),
        (one(compensation={"type": "action_ref"}), "$.actions[0].compensation"),
        (one(compensation="undo"), "$.actions[0].compensation"),
        (one(references="yes"), "$.actions[0].references"),
        (one(metadata=1), "$.actions[0].metadata"),
    ],
    ids=str,
)
def test_a_wrong_type_is_an_error_that_names_the_place(document: Any, place: str) -> None:
    with pytest.raises(DecodeError) as in_text:
        decode_proposal(json.dumps(document))

    assert in_text.value.place.startswith(place)
    if isinstance(document, dict):
        with pytest.raises(DecodeError) as in_python:
            decode_proposal(document)
        assert in_python.value.place == in_text.value.place


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        ({1: 2}, "no string"),
        ({1, 2}, "set"),
        (object(), "object"),
        (b"bytes", "bytes"),
    ],
)
def test_a_dict_that_is_not_json_is_refused_with_the_place(value: Any, problem: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_proposal({"actions": [{"tool": "t", "parameters": {"x": [0, value]}}]})

    assert problem in caught.value.problem
    assert caught.value.place.startswith("$.actions[0].parameters.x[1]")


@pytest.mark.parametrize("junk", [5, None, ["a"], object()])
def test_what_is_no_document_at_all_is_refused(junk: Any) -> None:
    with pytest.raises(DecodeError, match=type(junk).__name__):
        decode_proposal(junk)


# Unknown fields


@pytest.mark.parametrize("as_text", [True, False])
def test_unknown_fields_are_tolerated_and_reported_by_verify(as_text: bool) -> None:
    document: Any = {
        **one(
            colour="red",
            preconditions=[{"key": "k", "operator": "exists", "why": "?"}],
            assumptions=[{"key": "k", "since": 1}],
            compensation={"type": "action_ref", "action_id": "b", "when": "later"},
        ),
        "mood": "good",
    }
    document["actions"].append({"id": "b", "type": "state_read", "parameters": {"key": "k"}})

    report = Runtime(state={"k": 1}).verify(json.dumps(document) if as_text else document)

    told = {(i.action_id, i.message) for i in report.warnings if "unknown field" in i.message}
    assert {action for action, _ in told} == {None, "a"}
    for name in ("mood", "colour", "preconditions[0].why", "assumptions[0].since", "compensation.when"):
        assert any(f"'{name}'" in message for _, message in told)


async def test_an_unknown_field_changes_nothing_about_the_run() -> None:
    rt = Runtime(state={"k": 1})

    result = await rt.execute(json.dumps(one(colour="red")))

    assert result["a"].output == 1


# Numbers and size


def test_integers_keep_all_their_digits() -> None:
    many = 2**200 + 1

    proposal = decode_proposal(f'{{"context": {{"n": {many}}}}}')

    assert proposal.context["n"] == many


def test_ten_thousand_actions_are_read_with_their_ids() -> None:
    text = json.dumps(
        {"actions": [{"id": f"n{i}", "tool": "t", "parameters": {"i": i}} for i in range(10_000)]}
    )

    proposal = decode_proposal(text)

    assert [a.id for a in proposal.actions[::5_000]] == ["n0", "n5000"]


def test_other_documents_are_read_as_strictly_and_named() -> None:
    with pytest.raises(DecodeError, match="the state file"):
        decode_json('{"a": 1, "a": 2}', "the state file")
    assert decode_json('[1, {"a": null}]') == [1, {"a": None}]
