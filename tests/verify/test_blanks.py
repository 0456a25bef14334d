"""Where some parameters wait for an output, what the others decide is decided."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.ir.action import Action
from placet.ir.references import Reference, resolve
from placet.ir.tool_spec import ToolSchema
from placet.policy.case import Case, Rule
from placet.policy.engine import PolicySet
from placet.policy.gate import Gate
from placet.policy.marks import UNMARKED
from placet.policy.rule import AllowToolParam, DenyKeyword, DenyToolParam, DenyToolParamMatching
from placet.state.memory import MemoryState
from placet.tools import Tool
from placet.verify import Report, verify
from placet.verify.known_tools import read_tools
from tests.properties.effort import examples
from tests.verify.plans import TOOLS, call, claim, errors, plan, undecided, write

VM: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "cpus": {"type": "integer"}, "disk": {"$ref": "#/$defs/disk"}},
    "required": ["name", "cpus"],
    "additionalProperties": False,
    "$defs": {"disk": {"type": "object", "properties": {"gb": {"type": "integer"}}}},
}


def check(parameters: dict[str, Any], schema: dict[str, Any] = VM, **policies: Any) -> Report:
    """What verify says of a call whose parameters may refer to the tool calls `t` and `u`."""
    tools = [*TOOLS, ToolSchema(name="vm", risk="read_only", parameters=schema)]
    rules = PolicySet(lambda: 0.0)
    for name, rule in policies.items():
        rules.add(name, msgspec.structs.replace(rule, tool="vm") if isinstance(rule, Rule) else rule)
    document = plan(call("t"), call("u"), call("a", "vm", parameters))
    return verify(document, {}, tools, gate=Gate(read_tools(tools), policies=[rules]))


def problems(parameters: dict[str, Any], schema: dict[str, Any] = VM, **policies: Any) -> list[str]:
    return [message for _, message in errors(check(parameters, schema, **policies))]


# Schemas


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"name": "x-$t.output[1]", "cpus": "four"}, 'parameter \'cpus\': "four" is not of type "integer"'),
        ({"name": "$t.output"}, "parameter 'cpus' is required"),
        (
            {"name": "$t.output", "cpus": 4, "dsk": 1},
            "parameter 'dsk' is unknown, did you mean 'disk'?",
        ),
        (
            {"name": "vm", "cpus": 4, "dsk": "$t.output"},
            "parameter 'dsk' is unknown, did you mean 'disk'?",
        ),
        (
            {"name": "$t.output", "cpus": 4, "disk": {"gb": "many"}},
            'parameter \'disk.gb\': "many" is not of type "integer"',
        ),
        (
            {"name": "vm", "cpus": "$t.output cores"},
            "parameter 'cpus': a reference inside a longer text makes a text, "
            'which is not of type "integer"',
        ),
        ({"name": "vm", "cpus": ["$t.output"]}, "parameter 'cpus': a list is not of type \"integer\""),
        ({"name": {"x": "$t.output"}, "cpus": 1}, "parameter 'name': an object is not of type \"string\""),
    ],
)
def test_a_problem_that_no_output_could_mend_is_an_error(parameters: dict[str, Any], words: str) -> None:
    assert problems(parameters) == [words]


@pytest.mark.parametrize(
    "parameters",
    [
        {"name": "$t.output", "cpus": 4},
        {"name": "x-$t.output", "cpus": "$u.output.n"},
        {"name": "vm", "cpus": 4, "disk": {"gb": "$t.output"}},
        {"name": "vm", "cpus": 4, "disk": "$t.output"},
    ],
)
def test_what_an_output_may_mend_is_undecided(parameters: dict[str, Any]) -> None:
    report = check(parameters)

    assert report.valid
    assert [action_id for action_id, _ in undecided(report)] == ["a"]


def test_all_problems_stand_in_one_error() -> None:
    assert problems({"name": "$t.output", "cpus": "four", "ram": 1}) == [
        "parameter 'ram' is unknown; parameter 'cpus': \"four\" is not of type \"integer\""
    ]


def test_a_choice_of_types_refuses_a_text_only_if_no_branch_takes_one() -> None:
    number = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    either = {"anyOf": [{"type": "integer"}, {"type": ["null", "string"]}]}

    assert problems({"n": "x$t.output"}, {"properties": {"n": number}})
    assert not problems({"n": "x$t.output"}, {"properties": {"n": either}})


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"required": ["k"]}, {"properties": {"n": {"const": 1}}, "required": ["n"]}]},
        {"properties": {"n": {"not": {"$ref": "#"}}}},
        {"properties": {"n": {"$ref": "#/properties/m"}, "m": {"type": "integer"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/any", "required": ["k"],
         "definitions": {"any": {}}},
        {"$schema": "http://json-schema.org/draft-07/schema#",
         "properties": {"n": {"$ref": "#/definitions/any", "type": "integer"}}, "definitions": {"any": {}}},
        {"additionalProperties": False, "patternProperties": {"^[mn]$": {}}},
    ],
)  # fmt: skip
def test_what_a_schema_says_in_a_roundabout_way_is_left_open(schema: dict[str, Any]) -> None:
    report = check({"m": "$t.output", "n": "x"}, schema)

    assert report.valid
    assert len(report.undecided) == 1


def test_a_literal_beside_a_pattern_is_still_checked() -> None:
    schema = {
        "additionalProperties": False,
        "patternProperties": {"^x": {}},
        "properties": {"n": {"type": "null"}},
    }

    assert problems({"x1": "$t.output", "n": 1}, schema) == ["parameter 'n': 1 is not of type \"null\""]
    assert problems({"y": "$t.output"}, schema) == ["parameter 'y' is unknown"]


def test_a_state_key_that_is_surely_no_text_is_an_error() -> None:
    document = plan(call("t"), {"id": "a", "type": "state_write", "parameters": {"key": ["$t.output"]}})

    assert errors(verify(document, {}, TOOLS)) == [("a", "state_write needs the parameter 'key', a string")]


def test_a_missing_state_key_beside_a_reference_is_an_error() -> None:
    document = plan(call("t"), {"id": "a", "type": "state_write", "parameters": {"value": "$t.output"}})

    assert errors(verify(document, {}, TOOLS)) == [("a", "state_write needs the parameter 'key', a string")]


def test_a_call_that_cannot_run_is_looked_at_in_the_same_way() -> None:
    bad = call("a", "add", {"n": "x$t.output", "m": 1})
    words = "parameter 'm' is unknown; parameter 'n': a reference inside a longer text makes a text, which is"
    in_cycle = plan(call("t", dependencies=["a"]), bad)
    skipped = plan(call("t", "lok"), bad)

    assert any(words in message for _, message in errors(verify(in_cycle, {}, TOOLS)))
    assert any(words in message for _, message in errors(verify(skipped, {}, TOOLS)))


# Policies


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (DenyToolParam(param="cpus", equals=64), "parameter 'cpus' has a denied value"),
        (DenyToolParam(param="name", presence=True), "parameter 'name' is not allowed"),
        (DenyToolParam(param="name", contains="PROD"), "parameter 'name' contains a denied text"),
        (DenyToolParam(param="cpus", above=63), "parameter 'cpus' is above 63"),
        (DenyToolParam(param="cpus", below=64.5), "parameter 'cpus' is below 64.5"),
        (
            DenyToolParam(param="name", above=1),
            "parameter 'name' is not a number, so it cannot be compared with the limit",
        ),
        (AllowToolParam(param="cpus", values=[1, 2]), "parameter 'cpus' is not one of the allowed values"),
        (AllowToolParam(param="gpu"), "parameter 'gpu' must be given, with one of the allowed values"),
        (DenyToolParamMatching(param="cpus", pattern="^6"), "parameter 'cpus' fits a denied pattern"),
        (
            DenyToolParamMatching(param="name", pattern="("),
            "its pattern does not compile, so the tool is denied",
        ),
        (DenyKeyword(keyword="prod-"), "its parameters contain a denied keyword"),
        (DenyKeyword(keyword="NAME"), "its parameters contain a denied keyword"),
        (DenyKeyword(keyword="64"), "its parameters contain a denied keyword"),
    ],
)
def test_a_rule_about_what_is_known_is_decided(rule: Rule, reason: str) -> None:
    assert problems({"name": "prod-$t.output", "cpus": 64}, p=rule) == [f"policy 'p': {reason}"]


@pytest.mark.parametrize(
    "rule",
    [
        DenyToolParam(param="name", equals="prod-1"),
        DenyToolParam(param="name", contains="d-1"),
        AllowToolParam(param="name", values=["prod-1"]),
        DenyToolParamMatching(param="name", pattern="^prod"),
        DenyKeyword(keyword="d-1"),
        DenyKeyword(keyword="$t.output"),
    ],
)
def test_a_rule_about_what_is_not_known_is_undecided_and_named(rule: Rule) -> None:
    report = check({"name": "prod-$t.output", "cpus": 64}, p=rule)

    assert report.valid
    assert undecided(report) == [
        ("a", "undecided: its parameters depend on the output of 't'; policy 'p' looks at them")
    ]


def test_an_empty_text_is_contained_only_where_there_surely_is_a_text() -> None:
    rule = DenyToolParam(param="name", contains="")

    assert problems({"name": "x$t.output", "cpus": 1}, p=rule)
    assert not problems({"name": "$t.output", "cpus": 1}, p=rule)


def test_a_limit_on_what_is_not_known_is_undecided() -> None:
    for limits in ({"above": 4}, {"below": 4}):
        report = check({"name": "x", "cpus": "$t.output"}, p=DenyToolParam(param="cpus", **limits))

        assert report.valid
        assert "policy 'p' looks at them" in undecided(report)[0][1]


def test_a_function_is_not_asked_about_parameters_it_would_miss() -> None:
    asked: list[Any] = []

    report = check({"name": "$t.output", "cpus": 1}, p=lambda action: asked.append(action.parameters))

    assert asked == [{}, {}]
    assert "policy 'p' looks at them" in undecided(report)[0][1]


def test_a_denied_value_is_not_shown_by_the_schema_either() -> None:
    found = problems({"name": "$t.output", "cpus": "hunter2"}, p=DenyKeyword(keyword="hunter2"))

    assert len(found) == 2
    assert not any("hunter2" in message for message in found)


# One info per action


def test_all_that_depends_on_outputs_is_one_info() -> None:
    report = check(
        {"name": "$t.output.a", "cpus": "$u.output.b", "disk": "$t.output.c"},
        p=DenyToolParam(param="name", equals=1),
        q=DenyKeyword(keyword="x"),
    )

    assert undecided(report) == [
        ("a", "undecided: its parameters depend on the output of 't', 'u'; policies 'p', 'q' look at them")
    ]


def test_an_assertion_says_once_that_it_depends_on_outputs() -> None:
    for expected in ("$t.output", "$t.output.x"):
        report = verify(plan(call("t"), claim("a", "k", expected)), {"k": 1}, TOOLS)

        assert undecided(report) == [("a", "undecided: its parameters depend on the output of 't'")]


def test_known_references_are_not_named() -> None:
    document = plan(
        call("t"), write("w", "k"), call("a", parameters={"n": "$t.output.x", "m": "$w.output $$u.output"})
    )

    assert undecided(verify(document, {}, TOOLS)) == [
        ("a", "undecided: its parameters depend on the output of 't'")
    ]


# For any mixture: what verify calls wrong is wrong whatever the outputs are

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 70),
    st.sampled_from(["", "prod", "x", "PROD-1", "\u0327", "64"]),
)
JSON = st.recursive(
    VALUES,
    lambda v: st.lists(v, max_size=2) | st.dictionaries(st.sampled_from("ab"), v, max_size=2),
    max_leaves=4,
)
PROPERTY = st.sampled_from(
    [
        {},
        True,
        False,
        {"type": "string"},
        {"type": "integer", "maximum": 64},
        {"type": ["null", "array"]},
        {"enum": ["prod", 1, None]},
        {"anyOf": [{"type": "integer"}, {"type": "object"}]},
        {"oneOf": [{"type": "string"}, {"const": "x"}]},
        {"not": {"type": "string"}},
        {"not": {"$ref": "#"}},
        {"$ref": "#/$defs/d", "type": "integer"},
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"type": "array", "items": {"type": "string"}},
    ]
)
NAMES = st.sampled_from(["a", "b", "c", "k1"])
SCHEMAS = st.fixed_dictionaries(
    {
        "properties": st.dictionaries(NAMES, PROPERTY, max_size=3),
        "$defs": st.just({"d": {"type": "integer"}}),
    },
    optional={
        "$schema": st.sampled_from(
            ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"]
        ),
        "type": st.just("object"),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": st.sampled_from([False, True, {"type": "integer"}]),
        "patternProperties": st.just({"^k": {"type": "string"}}),
        "anyOf": st.just([{"required": ["a"]}, {"properties": {"b": {"const": 1}}}]),
        "dependentRequired": st.just({"a": ["b"]}),
        "unevaluatedProperties": st.just(False),
        "maxProperties": st.just(2),
        "$ref": st.just("#/$defs/d"),
        "if": st.just({"properties": {"a": {"type": "string"}}}),
        "then": st.just({"required": ["c"]}),
    },
)
MADE_OF_OUTPUTS = st.sampled_from(
    [
        "$t.output",
        "prod-$t.output",
        "$t.output$u.output",
        ["$t.output"],
        {"a": "$u.output"},
        {"b": ["x", "e$t.output"]},
    ]
)
PARAMETERS = st.dictionaries(NAMES, JSON | MADE_OF_OUTPUTS, max_size=4)
TEXTS = st.sampled_from(["prod", "PROD-", "x", "64", "a", "", "e\u0327", "true"])
RULES = st.one_of(
    st.builds(lambda p, v: DenyToolParam(param=p, equals=v), NAMES, JSON),
    st.builds(lambda p, v: DenyToolParam(param=p, contains=v), NAMES, TEXTS),
    st.builds(lambda p: DenyToolParam(param=p, presence=True), NAMES),
    st.builds(lambda p, v: DenyToolParam(param=p, above=v), NAMES, st.sampled_from([0, 1, 64, 65.25])),
    st.builds(lambda p, v: DenyToolParam(param=p, below=v), NAMES, st.sampled_from([0, 1, 64, 65.25])),
    st.builds(
        lambda p, v, m: AllowToolParam(param=p, values=v, matching=m),
        NAMES,
        st.lists(JSON, max_size=2),
        st.sampled_from([None, "prod.*", "("]),
    ),
    st.builds(
        lambda p, v: DenyToolParamMatching(param=p, pattern=v), NAMES, st.sampled_from(["^p", "x", "["])
    ),
    st.builds(lambda v: DenyKeyword(keyword=v), TEXTS.filter(bool)),
)
SAMPLES: list[Any] = [
    None,
    True,
    1,
    64,
    65.5,
    "",
    "x",
    "prod",
    "1",
    "\u0327",
    [],
    ["x"],
    {},
    {"a": 1},
    {"a": "x"},
]


@examples(400)
@given(SCHEMAS, PARAMETERS, st.lists(RULES, max_size=2), st.data())
def test_an_error_is_one_whatever_the_outputs_are(
    schema: dict[str, Any], parameters: dict[str, Any], rules: list[Rule], data: Any
) -> None:
    report = check(parameters, schema, **{f"p{i}": rule for i, rule in enumerate(rules)})
    tool = Tool.from_schema(ToolSchema(name="vm", parameters=schema), None)

    def goes_well(t: Any, u: Any) -> bool:
        def look_up(reference: Reference) -> Any:
            return t if reference.action_id == "t" else u

        given = {name: resolve(value, look_up) for name, value in parameters.items()}
        case = Case(Action(id="a", tool="vm", parameters=given), tool, MemoryState(), UNMARKED)
        fits = tool.validate is None or tool.validate(given) is None
        return fits and all(rule.check(case) is None for rule in rules)

    u = data.draw(st.sampled_from(SAMPLES) | JSON)
    outcomes = [goes_well(t, u) for t in SAMPLES]
    if not report.valid:
        assert not any(outcomes), (report.errors, SAMPLES[outcomes.index(True)])
    elif not report.undecided:
        assert all(outcomes)
