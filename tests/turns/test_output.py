"""A final answer as a value of the type that was asked for."""

from __future__ import annotations

import dataclasses
import enum
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import UsageError
from placet.turns.output import OutputType, OutputUnfit
from tests.properties.effort import UNHURRIED, examples


class Line(msgspec.Struct):
    what: str
    cents: Annotated[int, msgspec.Meta(ge=0)]


class Invoice(msgspec.Struct):
    """What is owed."""

    number: str
    lines: list[Line] = []


class Tree(msgspec.Struct):
    name: str
    children: list[Tree] = []


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0

    def __post_init__(self) -> None:
        if self.x > 100:
            raise ValueError("x is off the map")


@dataclasses.dataclass
class Loud:
    words: str

    def __post_init__(self) -> None:
        raise RuntimeError(f"I do not like {self.words}")


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=1)
    age: int

    @pydantic.field_validator("age")
    @classmethod
    def is_an_age(cls, age: int) -> int:
        if age > 150:
            raise ValueError("nobody is so old")
        return age


class Place(TypedDict):
    city: str


class Colour(enum.Enum):
    RED = "red"


class Bare:
    pass


def problem_of(type_: Any, text: str) -> str:
    with pytest.raises(OutputUnfit) as caught:
        OutputType.of(type_).read(text)
    assert caught.value.problem == str(caught.value)
    return caught.value.problem


# What fits


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (
            Invoice,
            '{"number": "7", "lines": [{"what": "tea", "cents": 250}]}',
            Invoice("7", [Line("tea", 250)]),
        ),
        (Tree, '{"name": "a", "children": [{"name": "b"}]}', Tree("a", [Tree("b")])),
        (Point, '{"x": 2.0, "y": 1}', Point(2, 1.0)),
        (Person, '{"name": "Ada", "age": 36}', Person(name="Ada", age=36)),
        (list[Person], '[{"name": "Ada", "age": 36}]', [Person(name="Ada", age=36)]),
        (Place, '{"city": "Bern"}', {"city": "Bern"}),
        (list[int], "[1, 2.0]", [1, 2]),
        (dict[str, float], '{"a": 1}', {"a": 1}),
        (int, " 42\n", 42),
        (str, '"hello"', "hello"),
        (bool, "true", True),
        (int | None, "null", None),
        (Literal["yes", "no"], '"no"', "no"),
        (Colour, '"red"', Colour.RED),
        (tuple[int, str], '[1, "a"]', (1, "a")),
        (Any, '{"anything": [1]}', {"anything": [1]}),
    ],
)
def test_an_answer_becomes_a_value_of_the_type(type_: Any, text: str, value: Any) -> None:
    read = OutputType.of(type_).read(text)

    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"x": 1}\n```',
        '```\n{"x": 1}\n```',
        'Here it is:\n\n```json\n{"x": 1}\n```\n\nAnything else?',
        'The answer is {"x": 1}.',
        'As asked in [1] and {so on}: {"x": 1} (x is 1)',
        '{"x": 1}\n\n{"x": 1}',
        '<think>{"y": "no x"}</think>{"x": 1}',
        '{"x": 1} {',
    ],
)
def test_words_and_fences_around_the_value_are_forgiven(text: str) -> None:
    assert OutputType.of(Point).read(text) == Point(1)


def test_a_number_alone_in_a_fence_is_found_and_one_in_a_sentence_is_not_guessed() -> None:
    assert OutputType.of(int).read("Sure!\n```\n42\n```") == 42
    assert "no JSON" in problem_of(int, "It is 42.")


def test_a_value_may_hold_what_looks_like_a_fence() -> None:
    text = '```json\n{"city": "```\\n{}\\n```"}\n```'

    assert OutputType.of(Place).read(text) == {"city": "```\n{}\n```"}


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "a", "children": [{"name": "b"}',
        '{"name": "a", children: [{"name": "b"}]}',
        '```json\n{"name": "a", "children": [{"name": "b"}, {"na',
    ],
)
def test_a_part_of_a_broken_answer_never_passes_for_the_whole(text: str) -> None:
    assert "malformed JSON" in problem_of(Tree, text)


# What does not


@pytest.mark.parametrize(
    ("type_", "text", "words"),
    [
        (Invoice, '{"number": "7", "lines": [{"what": "tea"}]}', "answer.lines[0].cents is required"),
        (Invoice, '{"number": "7", "lines": [{"what": "tea", "cents": -1}]}', "answer.lines[0].cents: -1"),
        (Invoice, '{"number": 7}', 'answer.number: 7 is not of type "string"'),
        (Point, '{"x": 101}', "answer: x is off the map"),
        (Person, '{"name": "", "age": "old"}', "answer.age"),
        (Person, '{"name": "", "age": "old"}', "answer.name"),
        (Person, '{"name": "Ada", "age": 151}', "answer.age: Value error, nobody is so old"),
        (Place, "{}", "answer.city is required"),
        (list[int], '[1, "b"]', "answer[1]"),
        (int, "4.5", "answer: 4.5"),
        (Colour, '"blue"', '"blue" is not one of "red"'),
        (Point, "", "the answer is no JSON: it is empty"),
        (Point, "I could not find out.", "the answer is no JSON: malformed JSON"),
        (Point, 'Here: {"x": 1', "the answer is no JSON: malformed JSON"),
        (Point, '{"x": 1, "x": 2}', "the key 'x' stands twice in one object"),
        (Point, '```json\n{"x": 1, "x": 2}\n```', "the key 'x' stands twice in one object"),
        (Point, '{"x": NaN}', "NaN is no number that JSON can carry"),
        (Point, "{'x': 1}", "malformed JSON"),
        (Point, '{"x": 1} or {"x": 2}', "the answer holds 2 JSON values that fit; give one alone"),
        (Point, '{"x": "\ud800"}', "not valid Unicode"),
        (Any, "[" * 102 + "]" * 102, "nested more than 100 deep"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(type_: Any, text: str, words: str) -> None:
    assert words in problem_of(type_, text)


def test_of_several_values_that_do_not_fit_the_longest_is_told_about() -> None:
    assert problem_of(Place, 'See [1]: {"town": "Bern"}') == "answer.city is required"
    assert problem_of(Place, '{"town": "Bern"} {a remark that is no JSON}') == "answer.city is required"


def test_a_problem_is_short_and_steers_no_terminal() -> None:
    shown = problem_of(Literal["a"], json.dumps("\x1b[31m" + "x" * 100_000))
    said = problem_of(Loud, '{"words": "\\u001b[31m"}')

    for told in (shown, said):
        assert "\x1b" not in told
        assert len(told) <= 2_000
    assert "RuntimeError: I do not like \\e[31m" in said


@pytest.mark.parametrize(
    "text", ["{" * 200_000, '{"' * 100_000, "[" * 200_000, '{"a":' * 50_000, "[1" * 99_999]
)
def test_long_nonsense_is_answered_at_once(text: str) -> None:
    """Would take hours if each bracket were followed to the end of the text."""
    assert "the answer is no JSON" in problem_of(Point, text)


@UNHURRIED
@given(st.text('{}[]",:x1 `\n\\ud', max_size=40))
@examples(300)
def test_whatever_the_text_there_is_a_value_or_a_problem(text: str) -> None:
    with suppress(OutputUnfit):
        assert isinstance(OUTPUT.read(text), dict)


OUTPUT = OutputType.of(dict[str, Any])


# The type


def test_the_schema_says_at_the_top_what_it_is() -> None:
    schema = OutputType.of(Invoice).schema

    assert schema["type"] == "object"
    assert schema["description"] == "What is owed."
    assert list(schema["$defs"]) == ["Line"]
    assert "$defs" not in OutputType.of(Point).schema
    assert OutputType.of(Person).schema["required"] == ["name", "age"]


def test_a_type_that_is_part_of_itself_keeps_its_definition() -> None:
    schema = OutputType.of(Tree).schema

    assert schema["type"] == "object"
    assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert list(schema["$defs"]) == ["Tree"]
    assert "answer.children[0].name is required" in problem_of(Tree, '{"name": "a", "children": [{}]}')


@pytest.mark.parametrize("type_", [Bare, complex, list[Bare], 5, "Point", Bare()])
def test_a_type_without_a_json_form_is_refused_with_words(type_: Any) -> None:
    with pytest.raises(UsageError) as caught:
        OutputType.of(type_)

    told = str(caught.value)
    assert told.startswith("output_type=")
    assert "has no JSON" in told
    assert told.endswith("such as list[int].")
    assert "function" not in told.replace("<function", "")


def test_the_model_is_told_what_to_answer_and_what_was_wrong() -> None:
    output = OutputType.of(Point)

    assert json.dumps(output.schema, separators=(",", ":")) in output.request()
    assert "answer.x is required" in output.repair("answer.x is required")
    assert "\x1b" not in output.repair("\x1b[2J")


def test_pydantic_is_not_imported_for_other_types(tmp_path: Path) -> None:
    code = (
        "import sys; from placet.turns.output import OutputType; "
        "assert OutputType.of(list[int]).read('[1]') == [1]; assert 'pydantic' not in sys.modules"
    )

    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)

    assert ran.returncode == 0, ran.stderr
