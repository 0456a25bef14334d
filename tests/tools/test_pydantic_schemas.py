"""Schemas and checks of `@tool` beside those of pydantic, type by type.

Each case is one annotation. Our schema is compared with pydantic's once both are put into one form, and our
check with pydantic's strict reading of the same JSON. Where they differ on purpose the case says why.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, Required, TypeVar

import annotated_types as at
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field
from typing_extensions import Doc, TypeAliasType, TypedDict  # pydantic wants this TypedDict before 3.12

from placet.errors import ToolDeclarationError
from placet.tools import Tool, ToolContext, tool

T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Size(str, enum.Enum):  # noqa: UP042  # as people wrote it before StrEnum
    S = "a"
    L = "b"


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0


@dataclasses.dataclass
class Line:
    a: Point
    b: Point | None = None
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Node:
    v: int
    next: Node | None = None


@dataclasses.dataclass
class Bounded:
    n: Annotated[int, at.Ge(1)]
    kids: list[Annotated[int, at.Interval(ge=0, le=5)]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Box(Generic[T]):
    item: T


class Hint(TypedDict):
    k: str
    v: NotRequired[int]


class Loose(TypedDict, total=False):
    a: int
    b: Required[str]


class Pair(NamedTuple):
    a: int
    b: str = "x"


class Record(msgspec.Struct):
    n: Annotated[int, msgspec.Meta(ge=1)]
    level: Level = Level.LOW


class RecordModel(pydantic.BaseModel):
    n: int = Field(ge=1)
    level: Level = Level.LOW


class Tree(pydantic.BaseModel):
    n: int = Field(ge=1, description="how many")
    kids: list[Tree] = []


class Strict(pydantic.BaseModel, strict=True):
    k: datetime.date
    v: frozenset[Size] = frozenset()


class Crate(pydantic.BaseModel, Generic[T]):
    item: T


UserId = NewType("UserId", int)
Age = NewType("Age", Annotated[int, at.Ge(0)])
Grade = TypeAliasType("Grade", Annotated[int, at.Le(5)])


class Case:
    """One annotation, what to compare it with, and what may differ."""

    def __init__(
        self,
        ours: Any,
        theirs: Any = None,
        *,
        schema: str = "",
        answers: str = "",
        on: Any = lambda value: True,
    ) -> None:
        self.ours = ours
        self.theirs = ours if theirs is None else theirs
        self.schema = schema
        """Why the schemas differ; empty if they must not."""
        self.answers = answers
        """Why some values are judged differently; empty if none may be."""
        self.on: Callable[[Any], bool] = on
        """The values that the reason is good for."""


def is_one_or_true(value: Any) -> bool:
    return value in (0, 1)


def has(key: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and key in value


TRUE_IS_NOT_ONE = "JSON Schema tells true from 1, Python's == does not"
DUPLICATES = "a set with duplicates is most likely a mistake, and uniqueItems says so"
BASE64 = "bytes are base64, which any bytes can be; pydantic takes the text's UTF-8"
EXACT = "a decimal is text, so that no digit is lost on the way through a float"
ONE_FORM = "one way to write a thing is enough for a model"

CASES = {
    "str": Case(str),
    "int": Case(int),
    "float": Case(float),
    "bool": Case(bool),
    "null": Case(None, type(None)),
    "anything": Case(Any),
    "object": Case(object, Any),
    "optional": Case(int | None),
    "union": Case(int | str),
    "union of three": Case(int | str | None),
    "numbers": Case(int | float),
    "bool or int": Case(bool | int),
    "one or many": Case(str | list[str]),
    "literal": Case(Literal["a", "b"]),
    "mixed literal": Case(Literal["a", 1, None], answers=TRUE_IS_NOT_ONE, on=is_one_or_true),
    "literal true": Case(Literal[True], answers=TRUE_IS_NOT_ONE, on=is_one_or_true),
    "literal ints": Case(Literal[1, 2], answers=TRUE_IS_NOT_ONE, on=is_one_or_true),
    "enum": Case(Color),
    "int enum": Case(Level, answers=TRUE_IS_NOT_ONE, on=is_one_or_true),
    "str enum": Case(Size),
    "bare list": Case(list),
    "list": Case(list[int]),
    "list of lists": Case(list[list[int]]),
    "bare dict": Case(dict),
    "dict": Case(dict[str, int]),
    "dict of anything": Case(dict[str, Any]),
    "dict with int keys": Case(dict[int, str]),
    "dict of lists": Case(dict[str, list[int | None]]),
    "tuple": Case(tuple[int, str]),
    "tuple of any length": Case(tuple[int, ...]),
    "bare tuple": Case(tuple),
    "set": Case(set[int], answers=DUPLICATES, on=lambda value: isinstance(value, list)),
    "frozenset": Case(frozenset[str], answers=DUPLICATES, on=lambda value: isinstance(value, list)),
    "abstract set": Case(AbstractSet[str], answers=DUPLICATES, on=lambda value: isinstance(value, list)),
    "sequence": Case(Sequence[int]),
    "mapping": Case(Mapping[str, float]),
    "iterable": Case(Iterable[int], list[int]),
    "dataclass": Case(Point),
    "nested dataclass": Case(Line),
    "recursive dataclass": Case(Node),
    "dataclass with limits": Case(Bounded),
    "generic dataclass": Case(Box[int]),
    "typed dict": Case(Hint),
    "typed dict, not total": Case(Loose),
    "named tuple": Case(Pair, answers=ONE_FORM + ": a list", on=lambda value: isinstance(value, dict)),
    "struct": Case(Record, RecordModel, answers=TRUE_IS_NOT_ONE, on=has("level")),
    "model": Case(Tree),
    "generic model": Case(Crate[int]),
    "list of dataclasses": Case(list[Point]),
    "dict of models": Case(dict[str, Tree]),
    "optional model": Case(Tree | None),
    "model or dataclass": Case(list[Tree | Point]),
    "dataclass or str": Case(Point | str),
    "two dataclasses": Case(Point | Node),
    "datetime": Case(datetime.datetime, answers=ONE_FORM, on=lambda value: isinstance(value, str)),
    "date": Case(datetime.date),
    "time": Case(datetime.time),
    "optional datetime": Case(
        datetime.datetime | None, answers=ONE_FORM, on=lambda value: isinstance(value, str)
    ),
    "timedelta": Case(datetime.timedelta, answers=ONE_FORM, on=lambda value: isinstance(value, str)),
    "uuid": Case(uuid.UUID),
    "path": Case(Path),
    "decimal": Case(
        decimal.Decimal, schema=EXACT, answers=EXACT, on=lambda value: isinstance(value, int | float)
    ),
    "bytes": Case(bytes, schema=BASE64, answers=BASE64, on=lambda value: isinstance(value, str)),
    "field limits": Case(Annotated[int, Field(ge=1, le=5)]),
    "limits": Case(Annotated[int, at.Ge(1), at.Le(5)]),
    "meta limits": Case(Annotated[int, msgspec.Meta(ge=1, le=5)], Annotated[int, Field(ge=1, le=5)]),
    "interval": Case(Annotated[float, at.Interval(gt=0, lt=2)]),
    "length": Case(Annotated[str, at.Len(1, 3)]),
    "field length": Case(Annotated[str, Field(min_length=1, max_length=3)]),
    "meta length": Case(
        Annotated[str, msgspec.Meta(min_length=1, max_length=3)], Annotated[str, at.Len(1, 3)]
    ),
    "pattern": Case(Annotated[str, Field(pattern="^a")]),
    "meta pattern": Case(Annotated[str, msgspec.Meta(pattern="^a")], Annotated[str, Field(pattern="^a")]),
    "list length": Case(Annotated[list[int], at.MinLen(1)]),
    "field list length": Case(Annotated[list[int], Field(min_length=1)]),
    "dict length": Case(Annotated[dict[str, int], at.MaxLen(1)]),
    "multiple": Case(Annotated[int, at.MultipleOf(5)]),
    "limits of both kinds": Case(Annotated[int, at.Ge(1), Field(le=5)]),
    "limits inside a list": Case(list[Annotated[int, at.Ge(0)]]),
    "limits inside a dict": Case(dict[str, Annotated[str, at.MinLen(2)] | None]),
    "limit on one member": Case(Annotated[int, at.Ge(0)] | None),
    "limit on an optional": Case(Annotated[int | None, at.Ge(0)]),
    "limit and description": Case(Annotated[int, at.Ge(0), "how many", at.Unit("m")]),
    "predicate": Case(Annotated[str, at.Predicate(str.islower)]),
    "limited generic": Case(Box[Annotated[int, at.Ge(2)]]),
    "new type": Case(UserId),
    "limited new type": Case(Age),
    "alias": Case(Grade),
    "positive int": Case(pydantic.PositiveInt),
    "strict int": Case(
        pydantic.StrictInt, answers="strict was asked for", on=lambda value: isinstance(value, float)
    ),
    "strict model": Case(Strict, answers=DUPLICATES, on=has("v")),
    "url": Case(pydantic.HttpUrl),
    "secret": Case(pydantic.SecretStr),
    "conlist": Case(pydantic.conlist(int, max_length=2)),
}

PROBES: list[Any] = [
    *(None, True, False, 0, 1, 2, 3, 5, 10, -1, 10**30, 1.0, 2.0, 1.5, -0.5),
    *(
        "",
        "a",
        "ab",
        "abcd",
        "A",
        "red",
        "blue",
        "1",
        "2",
        "1.5",
        "true",
        "null",
        "aGk=",
        "a/b",
        "http://a.b/",
    ),
    *("2024-01-02", "2024-01-02T03:04:05", "2024-01-02T03:04:05Z", "2024-13-01", "03:04:05", "PT1S", "P1D"),
    "00000000-0000-0000-0000-000000000001",
    *([], [1], [1, 2], [1, 1], [1.0], [6], ["a"], ["a", "b"], ["a", "a"], [1, "a"], [None], [[1]], [[]]),
    *([1, "a", 2], [{"x": 1}], [{"n": 1}], [{"n": 0}], [True]),
    *(
        {},
        {"a": 1},
        {"1": "a"},
        {"a": "b"},
        {"a": "bc"},
        {"a": None},
        {"a": [1, None]},
        {"a": 1.5},
        {"a": 1, "b": 2},
    ),
    *({"x": 1}, {"x": 1, "y": 2}, {"x": "1"}, {"x": 1, "z": 1}, {"x": 1.0}, {"x": True}),
    *({"v": 1}, {"v": 1, "next": {"v": 2}}, {"v": 1, "next": {}}, {"v": 1, "next": None}),
    *({"k": "a"}, {"k": "a", "v": 1}, {"k": 1}, {"k": "a", "v": None}, {"b": "x"}, {"b": "x", "a": 1}),
    *({"k": "2024-01-02"}, {"k": "2024-01-02", "v": ["a", "b"]}, {"k": "2024-01-02", "v": ["a", "a"]}),
    *({"n": 1}, {"n": 0}, {"n": 1, "kids": [{"n": 2}]}, {"n": 1, "kids": [{"n": 0}]}, {"n": 1, "kids": [9]}),
    *(
        {"n": 1, "level": 2},
        {"n": 1, "level": 3},
        {"n": 1, "level": True},
        {"item": 1},
        {"item": "a"},
        {"item": 3},
    ),
    *({"a": {"x": 1}}, {"a": {"x": 1}, "b": None, "tags": ["t"]}, {"a": {"x": 1}, "b": {}}, {"k": {"n": 1}}),
]


def taking(annotation: Any) -> Tool:
    def f(x): ...

    f.__annotations__ = {"x": annotation}
    made = tool(f)
    made.compile()
    return made


OURS = {name: taking(case.ours) for name, case in CASES.items()}
THEIRS = {name: pydantic.TypeAdapter(case.theirs) for name, case in CASES.items()}


def plain(schema: Any, definitions: dict[str, Any], around: tuple[str, ...] = ()) -> Any:
    """A schema without what says nothing: names, titles, the order of choices, the two ways to write one."""
    if isinstance(schema, list):
        return [plain(each, definitions, around) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        if name in around:
            return {"the one around it": len(around) - around.index(name)}
        return plain(definitions[name], definitions, (*around, name))
    found = {
        key: {name: plain(each, definitions, around) for name, each in value.items()}
        if key == "properties"
        else plain(value, definitions, around)
        for key, value in schema.items()
        if key not in ("title", "description", "$defs", "default") or not isinstance(value, str | dict)
    }
    if "const" in found:
        found["enum"] = [found.pop("const")]
    if "enum" in found:
        found["enum"] = sorted(map(json.dumps, found["enum"]))
        found.pop("type", None)
    if "anyOf" in found:
        found["anyOf"] = sorted(found["anyOf"], key=lambda each: json.dumps(each, sort_keys=True))
    if found.get("items") in ({}, False):
        del found["items"]
    if found.get("additionalProperties") is True:
        del found["additionalProperties"]
    return found


def is_fine_for_pydantic(name: str, value: Any) -> bool:
    """A strict reading; but 2.0 is an integer in JSON, as JSON Schema has it."""
    for tried in (value, whole(value)):
        try:
            THEIRS[name].validate_json(json.dumps(tried), strict=True)
        except pydantic.ValidationError:
            continue
        return True
    return False


def whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def agrees(name: str, value: Any) -> bool:
    case = CASES[name]
    ours = OURS[name].validate({"x": value}) is None
    return ours == is_fine_for_pydantic(name, value) or bool(case.answers and case.on(value))


@pytest.mark.parametrize("name", CASES)
def test_the_schema_says_what_pydantics_says(name: str) -> None:
    parameters = OURS[name].schema.parameters
    ours = plain(parameters["properties"]["x"], parameters.get("$defs", {}))
    written = THEIRS[name].json_schema()
    theirs = plain(written, written.get("$defs", {}))

    # A difference that has gone away is to be struck from the list.
    assert (ours == theirs) is not bool(CASES[name].schema), (ours, theirs)


@pytest.mark.parametrize("name", CASES)
def test_the_same_values_pass(name: str) -> None:
    assert [value for value in PROBES if not agrees(name, value)] == []


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.answers])
def test_a_difference_that_is_listed_is_there(name: str) -> None:
    tried = [value for value in PROBES if CASES[name].on(value)]

    assert any((OURS[name].validate({"x": v}) is None) != is_fine_for_pydantic(name, v) for v in tried)


@pytest.mark.parametrize("name", CASES)
def test_what_passes_can_be_handed_to_the_function(name: str) -> None:
    made = OURS[name]
    passed = [value for value in PROBES if made.validate({"x": value}) is None]

    for value in passed:
        assert made.bind is None or "x" in made.bind({"x": value})
    assert passed


ANY_JSON = st.recursive(
    st.sampled_from([probe for probe in PROBES if not isinstance(probe, list | dict)]) | st.integers(-3, 7),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["x", "y", "a", "b", "v", "n", "k", "next", "kids", "item", "level", "tags"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@given(st.sampled_from(sorted(CASES)), ANY_JSON | st.sampled_from(PROBES))
def test_generated_values_are_judged_alike(name: str, value: Any) -> None:
    assert agrees(name, value)


def plain_call(a: int, b: str = "x") -> None: ...
def keywords(a: int, *, b: float, c: list[int] | None = None) -> None: ...
def all_defaults(a: int = 1, b: Color = Color.RED, c: str | None = None) -> None: ...
def nothing() -> None: ...
def forward(a: Later, b: list[Later]) -> None: ...
def open_ended(a: int, **rest: int) -> None: ...
def limited(a: Annotated[int, Field(gt=0)], b: Annotated[str, at.MaxLen(2)] = "x") -> None: ...


@dataclasses.dataclass
class Later:
    n: int


@pytest.mark.parametrize(
    "function",
    [plain_call, keywords, all_defaults, nothing, forward, open_ended, limited],
    ids=lambda f: f.__name__,
)
def test_a_whole_signature_says_what_pydantics_says(function: Callable[..., Any]) -> None:
    ours = tool(function).schema.parameters
    theirs = pydantic.TypeAdapter(function).json_schema()
    for schema in (ours, theirs):
        schema["required"] = sorted(schema.get("required", []))

    assert plain(ours, ours.get("$defs", {})) == plain(theirs, theirs.get("$defs", {}))


def _first(ctx: ToolContext, a: int, b: str = "x") -> None: ...
def _middle(a: int, ctx: ToolContext, b: str = "x") -> None: ...
def _last(a: int, b: str = "x", ctx: ToolContext | None = None) -> None: ...
def _keyword(a: int, b: str = "x", *, ctx: ToolContext) -> None: ...
def _with_text(a: int, b: str = "x", *, ctx: Annotated[ToolContext, "the call"]) -> None: ...


@pytest.mark.parametrize("function", [_first, _middle, _last, _keyword, _with_text])
def test_the_context_is_hidden_in_every_position(function: Callable[..., Any]) -> None:
    made = tool(function)

    assert made.schema.parameters == tool(plain_call).schema.parameters
    assert made.context_parameter == "ctx"
    assert made.validate({"a": 1, "ctx": {}}) == "parameter 'ctx' is unknown"


def test_only_the_context_leaves_an_empty_object() -> None:
    def f(ctx: ToolContext) -> None: ...

    assert tool(f).schema.parameters == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.parametrize("note", ["how many", Doc("how many"), Field(description="how many")])
def test_a_description_may_stand_in_the_annotation(note: Any) -> None:
    made = taking(Annotated[int, at.Ge(0), note])

    assert plain(made.schema.parameters["properties"]["x"], {}) == {"type": "integer", "minimum": 0}
    assert made.schema.parameters["properties"]["x"]["description"] == "how many"


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


class LimitedStruct(msgspec.Struct):
    n: Annotated[int, at.Ge(1)]


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Mixed, "either all str or all int"),
        (complex, "has no JSON Schema"),
        (LimitedStruct, "write the limits in it with msgspec.Meta"),
        (Annotated[str, at.Ge(1)], "ge=1 does not fit, because it is for int and float"),
    ],
)
def test_what_pydantic_might_read_and_we_do_not_is_refused_with_words(annotation: Any, words: str) -> None:
    with pytest.raises(ToolDeclarationError, match=words):
        taking(annotation)


WITHOUT_PYDANTIC = """
import sys
sys.modules["pydantic"] = None  # as if it were not installed
from dataclasses import dataclass
from typing import Annotated
import annotated_types as at
from placet import tool
from placet.errors import ToolDeclarationError

@tool
def f(n: Annotated[int, at.Interval(ge=1, le=5)]): ...
assert f.validate({"n": 5}) is None and f.validate({"n": 6}) is not None

@dataclass
class Inside:
    n: Annotated[int, at.Ge(1)]

for annotation in (Annotated[str, at.Predicate(str.islower)], Inside):
    def g(x): ...
    g.__annotations__["x"] = annotation
    try:
        tool(g)
    except ToolDeclarationError as refusal:
        assert "it takes pydantic to read its limits" in str(refusal), refusal
    else:
        raise SystemExit(f"{annotation} lost its limit")
"""


def test_without_pydantic_limits_are_kept_or_refused() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_PYDANTIC], check=True)


def test_a_field_as_a_default_is_refused_with_the_fix() -> None:
    def f(a: int = Field(3, ge=1)) -> None: ...

    with pytest.raises(ToolDeclarationError, match=r"'a': its default is a Field.*a: Annotated"):
        tool(f)


def test_a_default_inside_a_field_is_not_promised() -> None:
    made = taking(Annotated[int, Field(default=3)])

    assert "default" not in made.schema.parameters["properties"]["x"]
    assert made.validate({}) == "parameter 'x' is required"


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (Annotated[int | str, at.Ge(5)], [5, "a"], [1]),
        (Annotated[int | float, at.Ge(5)], [5, 5.5], [1, 4.5]),
        (Annotated[int | float | None, at.Ge(5)], [5, None], [1]),
        (Annotated[str | list[int], at.MinLen(2)], ["ab", [1, 2]], ["a", [1]]),
        (Annotated[int | str | None, at.Interval(ge=5, le=9), at.MaxLen(2)], [5, "ab", None], [1, 10, "abc"]),
        (Annotated[int | str, msgspec.Meta(ge=5)], [5, "a"], [1]),
        (Annotated[float | str, msgspec.Meta(max_length=2, description="either")], [1, "ab"], ["abc"]),
        (list[Annotated[int | str, at.Ge(5)]], [[5, "a"]], [[1]]),
        (Annotated[Annotated[int, at.Ge(7)] | str, at.Ge(5)], [7, "a"], [6]),
        (Annotated[int, at.Ge(5), at.Gt(5)], [6], [5]),
        (Annotated[int, at.Ge(5), at.Gt(1)], [5], [4]),
        (Annotated[int, at.Ge(1), at.Ge(5)], [5], [4]),
        (Annotated[int, at.Le(9), at.Lt(5)], [4], [5]),
        (Annotated[int, msgspec.Meta(ge=5), at.Ge(1)], [5], [4]),
        (Annotated[str, at.MinLen(1), at.MinLen(3), at.MaxLen(9), at.MaxLen(4)], ["abc"], ["ab", "abcde"]),
    ],
    ids=str,
)
def test_a_limit_holds_for_every_member_that_it_fits(
    annotation: Any, good: list[Any], bad: list[Any]
) -> None:
    made = taking(annotation)

    assert made.validate is not None
    assert [value for value in good if made.validate({"x": value}) is not None] == []
    assert [value for value in bad if made.validate({"x": value}) is None] == []


def test_what_is_said_beside_a_limit_on_a_union_is_kept() -> None:
    made = taking(Annotated[float | str, msgspec.Meta(max_length=2, description="either", examples=["a"])])

    shown = made.schema.parameters["properties"]["x"]
    assert shown["description"] == "either"
    assert shown["examples"] == ["a"]
    assert shown["anyOf"] == [{"type": "number"}, {"type": "string", "maxLength": 2}]


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Annotated[bool | None, at.Ge(5)], "parameter 'x'.*ge=5 does not fit.*int and float"),
        (Annotated[list[int] | str, at.Ge(5)], "ge=5 does not fit"),
        (Annotated[int | float, msgspec.Meta(pattern="a")], "pattern='a' does not fit.*for str"),
        (Annotated[decimal.Decimal, at.Ge(5)], "ge=5 does not fit.*check it in the function"),
        (Annotated[Path, at.MinLen(5)], "min_length=5 does not fit.*str, bytes, list"),
        (Annotated[str, at.LowerCase], r"parameter 'x'.*Write it as the type: LowerCase\[str\]"),
        (list[Annotated[str, at.LowerCase]], r"LowerCase\[str\]"),
        (Annotated[int, at.MultipleOf(2), at.MultipleOf(3)], "two limits for multiple_of"),
    ],
    ids=str,
)
def test_a_limit_that_fits_nothing_is_refused_with_the_fix(annotation: Any, words: str) -> None:
    with pytest.raises(ToolDeclarationError, match=words):
        taking(annotation)
