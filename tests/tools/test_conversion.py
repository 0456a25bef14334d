"""JSON in, typed arguments out: what a schema accepts, a function can be called with."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import uuid
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import ToolError
from placet.tools import Tool, tool
from placet.tools.output import to_json


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0


class Person(msgspec.Struct):
    name: str
    level: Level = Level.LOW
    home: Point | None = None


class Hint(TypedDict):
    n: int


def taking(annotation: Any) -> Tool:
    def f(x): ...

    f.__annotations__ = {"x": annotation}
    made = tool(f)
    made.compile()
    return made


def received(annotation: Any, value: Any) -> Any:
    """What a function with this annotation is handed, once the value has passed."""
    made = taking(annotation)
    assert made.validate is None or made.validate({"x": value}) is None
    return value if made.bind is None else made.bind({"x": value})["x"]


@pytest.mark.parametrize(
    "annotation",
    [
        str,
        float,
        bool,
        None,
        Any,
        object,
        list,
        dict,
        list[str],
        dict[str, Any],
        str | None,
        Literal["a", "b"],
    ],
)
def test_json_types_need_no_bind(annotation: Any) -> None:
    assert taking(annotation).bind is None


@pytest.mark.parametrize(
    ("annotation", "given_json", "expected"),
    [
        (Point, {"x": 1, "y": 2}, Point(1, 2.0)),
        (Point | None, None, None),
        (list[Point], [{"x": 1}], [Point(1)]),
        (dict[str, Color], {"k": "red"}, {"k": Color.RED}),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2.0], (1, 2)),
        (set[str], ["a", "b"], {"a", "b"}),
        (Person, {"name": "n", "level": 2, "home": {"x": 3}}, Person("n", Level.HIGH, Point(3))),
        (Path, "a/b", Path("a/b")),
        (datetime.date, "2024-01-02", datetime.date(2024, 1, 2)),
        (uuid.UUID, "00000000-0000-0000-0000-000000000001", uuid.UUID(int=1)),
        (Level, 2, Level.HIGH),
        (str | Path, "a", "a"),
        (int | Path, "a", Path("a")),
        (Point | Person, {"name": "n"}, Person("n")),
    ],
)
def test_values_arrive_as_what_the_function_asks_for(annotation: Any, given_json: Any, expected: Any) -> None:
    value = received(annotation, given_json)

    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("annotation", "given_json", "expected"),
    [
        (int, 2.0, 2),
        (int | None, 2.0, 2),
        (list[int], [1, 2.0], [1, 2]),
        (Literal[1, 2], 2.0, 2),
        (Level, 2.0, Level.HIGH),
        (Point, {"x": 2.0}, Point(2)),
        (Hint, {"n": 2.0}, {"n": 2}),
        (int | float, 2.0, 2.0),
        (Any, 2.0, 2.0),
    ],
)
def test_an_integer_written_as_a_float_arrives_as_an_int(
    annotation: Any, given_json: Any, expected: Any
) -> None:
    value = received(annotation, given_json)

    assert repr(value) == repr(expected)


def test_bind_leaves_what_it_was_given_alone() -> None:
    @tool
    def f(p: Point, n: int, rest: list[str]) -> None: ...

    parameters = {"p": {"x": 1.0}, "n": 2.0, "rest": ["a"]}
    before = repr(parameters)
    f.bind(parameters)

    assert repr(parameters) == before


def test_rules_beyond_the_schema_are_problems_of_validation() -> None:
    @dataclasses.dataclass
    class Range:
        low: int
        high: int

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise ValueError("low is above high")

    @dataclasses.dataclass
    class Broken:
        a: int

        def __post_init__(self) -> None:
            raise KeyError("a bug of the user's")

    def f(day: datetime.date, spans: list[Range], odd: Broken | None = None): ...

    f.__annotations__ = {"day": datetime.date, "spans": list[Range], "odd": Broken | None}
    made = tool(f)
    bad = {"day": "2024-13-01", "spans": [{"low": 1, "high": 2}, {"low": 2, "high": 1}], "odd": {"a": 1}}

    assert made.validate(bad) == (
        "parameter 'day': Invalid RFC3339 encoded date; parameter 'spans[1]': low is above high; "
        "parameter 'odd': KeyError: \"a bug of the user's\""
    )
    with pytest.raises(ToolError, match="low is above high") as refusal:
        made.bind(bad)
    assert refusal.value.retry is False


LEAVES = st.sampled_from(
    [str, int, float, bool, type(None), Color, Level, Point, Person, Literal["a", 1], Path, datetime.date]
)
TYPES = st.recursive(
    LEAVES,
    lambda inner: (
        inner.map(lambda t: list[t])
        | inner.map(lambda t: dict[str, t])
        | inner.map(lambda t: tuple[t, int])
        | inner.map(lambda t: t | None)
    ),
    max_leaves=3,
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([1.0, 2.0, 1.5, "red", "a", "2024-01-02", "x"])
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["x", "y", "name", "level", "home", "z"]), inner, max_size=3)
    ),
    max_leaves=8,
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def values_of(annotation: Any) -> st.SearchStrategy[Any]:
    points = st.builds(Point, st.integers(), FINITE)
    with_paths = {
        Point: points,
        float: FINITE,
        Path: st.sampled_from([Path("a"), Path("b/c")]),
        Person: st.builds(Person, st.text(), st.sampled_from(Level), st.none() | points),
    }
    for known, strategy in with_paths.items():
        st.register_type_strategy(known, strategy)
    return st.from_type(annotation)


@given(TYPES, JSON)
def test_the_check_passes_exactly_what_bind_can_convert(annotation: Any, value: Any) -> None:
    made = taking(annotation)
    parameters = {"x": value}
    assert made.validate is not None
    fine = made.validate(parameters) is None

    if fine and made.bind is not None:
        bound = made.bind(parameters)["x"]
        again = msgspec.convert(
            to_json(bound), annotation, dec_hook=lambda kind, text: kind(text), str_keys=True
        )
        assert again == bound
    if not fine:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(value, annotation, dec_hook=_only_paths, str_keys=True)


def _only_paths(kind: type, value: Any) -> Any:
    if not isinstance(value, str):
        raise TypeError("no path")
    return kind(value)


@given(TYPES.flatmap(lambda annotation: st.tuples(st.just(annotation), values_of(annotation))))
def test_every_value_survives_the_way_through_json(pair: tuple[Any, Any]) -> None:
    annotation, value = pair

    assert received(annotation, to_json(value)) == value


def test_pydantic_models_fields_and_unions_of_models() -> None:
    pydantic = pytest.importorskip("pydantic")
    Cat = pydantic.create_model(
        "Cat", lives=(int, pydantic.Field(ge=1, description="left")), kin=(list["Cat"], [])
    )
    Dog = pydantic.create_model("Dog", name=(str, ...))
    Other = pydantic.create_model("Cat", other=(str, ...))
    Home = dataclasses.make_dataclass("Home", [("cat", Cat)])

    def f(a, b, c, d, e=4): ...

    f.__annotations__ = {"a": Cat, "b": list[Cat] | None, "c": Cat | Dog, "d": Other, "e": Home | None}
    made = tool(f)
    good = {"a": {"lives": 1, "kin": [{"lives": 2.0}]}, "b": None, "c": {"name": "rex"}, "d": {"other": "o"}}

    assert made.validate(good) is None
    bound = made.bind({**good, "e": {"cat": {"lives": 3}}})
    assert bound == {
        "a": Cat(lives=1, kin=[Cat(lives=2)]),
        "b": None,
        "c": Dog(name="rex"),
        "d": Other(other="o"),
        "e": Home(Cat(lives=3)),
    }
    assert (
        made.validate({**good, "b": [{"lives": 0}]})
        == "parameter 'b[0].lives': 0 is less than the minimum of 1"
    )
    assert made.validate({**good, "d": {"lives": 1}}) == "parameter 'd.other' is required"


def test_a_pydantic_validator_speaks_in_validation() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Even(pydantic.BaseModel):
        n: int

        @pydantic.field_validator("n")
        @classmethod
        def check(cls, n: int) -> int:
            if n % 2:
                raise ValueError("odd")
            return n

    made = taking(list[Even])

    assert made.validate({"x": [{"n": 2}, {"n": 3}]}) == "parameter 'x[1].n': Value error, odd"


def test_a_validator_that_exits_refuses_and_ends_nothing() -> None:
    pydantic = pytest.importorskip("pydantic")

    def exits(value: int) -> int:
        raise SystemExit(value)

    class Record(msgspec.Struct):
        n: int

        def __post_init__(self) -> None:
            raise SystemExit(3)

    def f(m, r): ...

    f.__annotations__ = {"m": Annotated[int, pydantic.AfterValidator(exits)], "r": Record}
    made = tool(f)

    assert made.validate is not None
    assert (
        made.validate({"m": 2, "r": {"n": 1}}) == "parameter 'm': SystemExit: 2; parameter 'r': SystemExit: 3"
    )
