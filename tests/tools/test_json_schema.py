"""Compiled schemas: what they accept, and what they say about the rest."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.errors import ToolDeclarationError
from assent.tools.json_schema import Check, compile_check


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
        assert str(check(TWO)(value)).startswith("parameters: ")


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
