"""Compiled schemas: what they accept, and what they say about the rest."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import ToolDeclarationError
from placet.tools.json_schema import Check, compile_check


def check(schema: dict[str, Any], root: str = "parameters") -> Check:
    made = compile_check(schema, owner="Tool 't'", root=root)
    assert made is not None
    return made


def object_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


TWO = {
    **object_of(x={"type": "string"}, y={"type": "integer"}),
    "required": ["x", "y"],
    "additionalProperties": False,
}


def test_a_schema_that_accepts_anything_needs_no_check() -> None:
    assert compile_check({}, owner="t", root="parameters") is None
    assert compile_check({}, owner="t", root="output") is None
    assert compile_check({"type": "object"}, owner="t", root="parameters") is None
    assert compile_check({"type": "object"}, owner="t", root="output") is not None


def test_every_problem_is_named_in_one_text() -> None:
    problem = check(TWO)({"x": 5, "z": 1, "xy": 2})

    assert problem is not None
    assert set(problem.split("; ")) == {
        "parameter 'y' is required",
        "parameter 'x': 5 is not of type \"string\"",
        "parameter 'z' is unknown",
        "parameter 'xy' is unknown, did you mean 'y'?",
    }


def test_a_valid_value_is_answered_with_none() -> None:
    assert check(TWO)({"x": "a", "y": 1}) is None


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        (
            object_of(a=object_of(b={"items": {"type": "string"}})),
            {"a": {"b": ["x", 1]}},
            "parameter 'a.b[1]': 1 is",
        ),
        (object_of(a={"type": "object", "required": ["b"]}), {"a": {}}, "parameter 'a.b' is required"),
        (object_of(a={"properties": {}, "additionalProperties": False}), {"a": {"q": 1}}, "'a.q' is unknown"),
        ({"type": "object"} | {"minProperties": 1}, {}, "parameters: {} has less than 1 property"),
        ({"additionalProperties": False}, {"q": 1}, "parameters: has a field, and takes none"),
        (
            object_of(a={"enum": list("pqrs")}),
            {"a": "z"},
            'parameter \'a\': "z" is not one of "p" or "q" or "r" or "s"',
        ),
        (object_of(a=False), {"a": 1}, "parameter 'a': 1 is not allowed here"),
        (object_of(a={"maximum": 3}), {"a": 4}, "parameter 'a': 4 is greater than the maximum of 3"),
        (
            {"propertyNames": {"maxLength": 2}},
            {"abc": 1},
            'parameters: a field\'s name does not fit: "abc" is longer',
        ),
        (object_of(a={"type": "string"}), [1], 'parameters: [1] is not of type "object"'),
    ],
)
def test_places_and_reasons_are_in_plain_words(schema: dict[str, Any], value: Any, words: str) -> None:
    problem = check(schema)(value)

    assert problem is not None
    assert words in problem


def test_a_choice_is_explained_by_its_types_or_its_nearest_alternative() -> None:
    optional = check(object_of(a={"anyOf": [{"type": "integer"}, {"type": "null"}]}))
    record = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    either = check(object_of(a={"anyOf": [{"type": "string"}, record]}))

    assert optional({"a": "x"}) == 'parameter \'a\': "x" is not of type "integer" or "null"'
    assert either({"a": {"n": "x"}}) == 'parameter \'a.n\': "x" is not of type "integer"'
    assert either({"a": {}}) == "parameter 'a.n' is required"


def test_fitting_too_many_alternatives_is_said_as_such() -> None:
    both = check({"oneOf": [{"required": ["a"]}, {"required": ["b"]}, {"required": ["c"]}]})

    assert "more than one" in str(both({"a": 1, "b": 2}))


def test_outputs_are_called_output() -> None:
    made = check({"type": "array", "items": {"type": "object", "required": ["id"]}}, root="output")

    assert made("no") == 'output: "no" is not of type "array"'
    assert made([{}]) == "output[0].id is required"


def test_many_problems_are_counted_rather_than_listed() -> None:
    problem = check(object_of(a={"items": {"type": "string"}}))({"a": list(range(50))})

    assert str(problem).endswith("; and 30 more")
    assert str(problem).count(";") == 20


def test_what_is_not_json_is_a_problem_not_a_crash() -> None:
    loop: dict[str, Any] = {}
    loop["x"] = loop

    for value in ({"x": {1}}, {1: 2}, loop):
        assert str(check(TWO)(value)).startswith("parameter")


@given(
    st.text("ab", min_size=200, max_size=400),
    st.sampled_from(["integer", "enum", "pattern", "anyOf", "names"]),
)
def test_at_most_80_characters_of_a_value_are_shown(secret: str, kind: str) -> None:
    schema = {
        "integer": object_of(a={"type": "integer"}),
        "enum": object_of(a={"enum": ["q"]}),
        "pattern": object_of(a={"pattern": "^q"}),
        "anyOf": object_of(a={"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 3}]}),
        "names": {"propertyNames": {"maxLength": 3}, "additionalProperties": {}},
    }[kind]
    value = {secret: 1} if kind == "names" else {"a": secret}

    problem = check(schema)(value)

    assert problem is not None
    assert secret[:20] in problem
    assert secret[:81] not in problem


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({"type": "objct"}, r"\$\.type: .*\"object\""),
        (object_of(x={"type": "strnig"}), r"\$\.properties\.x\.type"),
        (object_of(x={"pattern": "("}), r"\$\.properties\.x\.pattern"),
        (
            object_of(x={"anyOf": [{}, {"$ref": "#/$defs/Gone"}]}),
            r"\$\.properties\.x\.anyOf\[1\]\.\$ref: .*Gone",
        ),
        ({"$schema": "https://example.com/dialect"}, "Unknown meta-schema"),
    ],
)
def test_a_schema_that_does_not_compile_is_refused_with_its_place(schema: dict[str, Any], where: str) -> None:
    with pytest.raises(ToolDeclarationError, match=rf"(?s)Tool 't': the schema of its parameters.*{where}"):
        compile_check(schema, owner="Tool 't'", root="parameters")


@pytest.mark.parametrize("scheme", ["http", "https", "file"])
def test_nothing_is_ever_fetched(scheme: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Watched from outside: a server that would notice, and a file that would compile."""
    server = socket.create_server(("127.0.0.1", 0))
    server.setblocking(False)
    (tmp_path / "ok.json").write_text("{}")
    port = server.getsockname()[1]
    target = f"file://{tmp_path}/ok.json" if scheme == "file" else f"{scheme}://127.0.0.1:{port}/ok.json"

    with pytest.raises(ToolDeclarationError, match="never fetched"):
        compile_check(object_of(x={"$ref": target}), owner="t", root="parameters")

    with server, pytest.raises(BlockingIOError):
        server.accept()


def test_local_references_and_older_drafts_compile() -> None:
    tree = object_of(kids={"type": "array", "items": {"$ref": "#"}}, n={"$ref": "#/definitions/n"})
    made = check(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            **tree,
            "definitions": {"n": {"type": "integer"}},
        }
    )

    assert made({"kids": [{"kids": [], "n": 1}]}) is None
    assert made({"kids": [{"n": "x"}]}) == 'parameter \'kids[0].n\': "x" is not of type "integer"'


def doubling(levels: int, *, by: str = "allOf", last: Any = None) -> dict[str, Any]:
    """Definitions of which each names the one before it twice."""
    parts: dict[str, Any] = {"d0": {"type": "string"} if last is None else last}
    for level in range(1, levels):
        before = {"$ref": f"#/$defs/d{level - 1}"}
        parts[f"d{level}"] = {
            "properties": {"properties": {"a": before, "b": before}},
            "items": {"allOf": [{"items": before}, {"items": before}]},
            "unevaluated": {"allOf": [before], "unevaluatedProperties": False},
            "if": {"if": before, "else": before},
            "dependentSchemas": {"dependentSchemas": {"a": before, "b": before}},
        }.get(by, {by: [before, before]})
    return {**object_of(a={"$ref": f"#/$defs/d{levels - 1}"}), "$defs": parts}


def nested(levels: int, value: Any, around: Callable[[Any], Any]) -> Any:
    for _ in range(levels):
        value = around(value)
    return value


EXPRESSION = {
    "oneOf": [
        {"type": "string"},
        *(
            {
                "type": "object",
                "properties": {
                    "op": {"const": op},
                    "parts": {"type": "array", "items": {"$ref": "#/$defs/e"}},
                },
                "required": ["op", "parts"],
            }
            for op in ("and", "or", "not")
        ),
    ]
}


@pytest.mark.parametrize("by", ["allOf", "anyOf", "oneOf", "items", "unevaluated", "if", "dependentSchemas"])
def test_a_short_schema_that_stands_for_a_huge_one_is_refused(by: str) -> None:
    with pytest.raises(ToolDeclarationError, match=r"Tool 't': .* more than 20,000 parts.*fewer"):
        check(doubling(30, by=by))


@pytest.mark.parametrize("spelling", ["anchor", "id", "relative", "percent", "cycle"])
def test_references_are_followed_in_every_spelling(spelling: str) -> None:
    made: dict[str, Any] = {}
    for level in range(30):
        target = {
            "anchor": f"#n{level - 1}",
            "id": f"https://example.com/{level - 1}",
            "relative": f"{level - 1}#",
            "percent": f"#/%24defs/{level - 1}",
            "cycle": f"#/$defs/{level - 1}",
        }[spelling]
        made[str(level)] = {"allOf": [{"$ref": target}] * 2} if level else {"type": ["string", "array"]}
        made[str(level)] |= {"anchor": {"$anchor": f"n{level}"}}.get(spelling, {})
        if spelling in ("id", "relative"):
            made[str(level)]["$id"] = f"https://example.com/{level}"
    if spelling == "cycle":
        made["0"]["items"] = {"$ref": "#/$defs/29"}
    top = made["29"]["allOf"][0]["$ref"] if spelling != "relative" else "https://example.com/28"

    with pytest.raises(ToolDeclarationError, match="more than 20,000 parts"):
        check(object_of(a={"$ref": top}) | {"$defs": made})


def test_a_spelling_that_cannot_be_followed_is_refused() -> None:
    made = {"x": {"$id": "https://example.com/x", "type": "string"}}

    with pytest.raises(ToolDeclarationError, match=r"cannot be followed, 'https://example.com/a/\.\./x'"):
        check(object_of(a={"$ref": "https://example.com/a/../x"}) | {"$defs": made})


def test_schemas_that_lead_back_to_themselves_are_fine() -> None:
    tree = {**object_of(v={"type": "integer"}, l={"$ref": "#"}, r={"$ref": "#"}), "required": ["v"]}
    tree_check = check(tree)
    expression = check({**object_of(a={"$ref": "#/$defs/e"}), "$defs": {"e": EXPRESSION}})
    schema = check(object_of(a={"$ref": "https://json-schema.org/draft/2020-12/schema"}))

    assert tree_check(nested(40, {"v": 1}, lambda inner: {"v": 1, "l": inner, "r": {"v": 2}})) is None
    problem = str(tree_check(nested(20, {"v": "x"}, lambda inner: {"v": 1, "r": inner})))
    assert problem == f'parameter \'{"r." * 20}v\': "x" is not of type "integer"'
    assert expression({"a": nested(40, "x", lambda inner: {"op": "not", "parts": [inner]})}) is None
    assert "parts[0].parts[0]': 5 is not of type" in str(
        expression({"a": nested(2, 5, lambda inner: {"op": "or", "parts": [inner]})})
    )
    assert schema({"a": {"type": "string"}}) is None
    assert schema({"a": {"type": "strnig"}}) is not None


CALM = """
import json, resource, sys
from placet.tools.json_schema import compile_check

resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
for schema, value in json.load(sys.stdin):
    print(compile_check(schema, owner="t", root="parameters")(value))
"""


def test_saying_what_is_wrong_takes_neither_long_nor_much_memory() -> None:
    """In a process of its own, with limits: without care the third of these would take all there is."""
    deep = nested(40, 5, lambda inner: {"op": "and", "parts": [inner]})
    words = object_of(a={"type": "array", "items": {"type": "string"}})
    cases: list[tuple[Any, Any]] = [
        *((doubling(13, by=by), {"a": 5}) for by in ("allOf", "anyOf")),
        ({**object_of(a={"$ref": "#/$defs/e"}), "$defs": {"e": EXPRESSION}}, {"a": deep}),
        (words, {"a": [5] * 200_000}),
        (object_of(a={"anyOf": [words["properties"]["a"], {"type": "null"}]}), {"a": [5] * 200_000}),
    ]

    done = subprocess.run(
        [sys.executable, "-c", CALM], input=json.dumps(cases), capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == said[1] == "parameter 'a': 5 does not fit its schema"
    assert said[2].startswith('parameter \'a\': {"op":"and",')
    assert said[3].startswith("parameter 'a[0]': 5 is not of type \"string\"; ")
    assert said[4].startswith("parameter 'a': [5,5,")


def test_of_a_large_value_the_parts_that_do_not_fit_are_named() -> None:
    made = check(
        object_of(
            a=object_of(b={"type": "array", "items": {"type": "string"}}),
            c={"type": "integer"},
            d={"type": "array", "items": {"$ref": "#/$defs/d"}},
        )
        | {"$defs": {"d": {"minimum": 3}}}
    )
    rows: list[Any] = ["x"] * 5000

    problem = made({"a": {"b": [*rows, 7]}, "c": "z", "d": [*range(3, 5000), 1]})

    assert problem == (
        "parameter 'a.b[5000]': 7 is not of type \"string\"; "
        'parameter \'c\': "z" is not of type "integer"; '
        "parameter 'd[4997]': 1 is less than the minimum of 3"
    )
