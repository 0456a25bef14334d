"""From typed functions to schemas. This file's annotations are strings, as `from __future__` makes them."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict

import jsonschema_rs
import msgspec
import pytest

from placet.errors import ToolDeclarationError
from placet.tools import Tool, tool
from placet.tools import ToolContext as Context
from placet.tools.builtin import basic_tools

if TYPE_CHECKING:
    from somewhere import Missing


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Filter(TypedDict):
    key: str
    value: NotRequired[int]


class Tree(msgspec.Struct):
    name: str
    kids: list[Tree] = []


def properties(made: Tool) -> dict[str, Any]:
    found: dict[str, Any] = made.schema.parameters["properties"]
    return found


def test_plain_types_become_their_json_types() -> None:
    @tool
    def f(a: str, b: int, c: float, d: bool, e: None, g: list[str], h: dict[str, int], i, j: Any) -> None: ...

    assert f.schema.parameters == {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "integer"},
            "c": {"type": "number"},
            "d": {"type": "boolean"},
            "e": {"type": "null"},
            "g": {"type": "array", "items": {"type": "string"}},
            "h": {"type": "object", "additionalProperties": {"type": "integer"}},
            "i": {},
            "j": {},
        },
        "required": ["a", "b", "c", "d", "e", "g", "h", "i", "j"],
        "additionalProperties": False,
    }


NOT_JSON = object()


def test_defaults_are_shown_and_make_a_parameter_optional() -> None:
    @tool
    def f(
        a: int = 3, b: str | None = None, c: Color = Color.RED, d: Any = NOT_JSON, e: Path = Path(".")
    ) -> None: ...

    assert "required" not in f.schema.parameters
    assert {name: schema.get("default", "absent") for name, schema in properties(f).items()} == {
        "a": 3,
        "b": None,
        "c": "red",
        "d": "absent",
        "e": ".",
    }


def test_a_default_of_none_makes_null_acceptable() -> None:
    @tool
    def f(a: str = None) -> None: ...  # noqa: RUF013

    assert f.validate({"a": None}) is None
    assert f.validate({"a": 1}) is not None


def test_references_to_definitions_resolve() -> None:
    @tool
    def f(
        p: Point, q: list[Point] | None, c: Color, t: Tree, w: Filter, ways: Literal["up", "down"]
    ) -> None: ...

    validator = jsonschema_rs.validator_for(f.schema.parameters)

    good = {
        "p": {"x": 1},
        "q": [{"x": 1, "y": 2}],
        "c": "blue",
        "t": {"name": "a", "kids": [{"name": "b"}]},
        "w": {"key": "k"},
        "ways": "up",
    }
    assert validator.is_valid(good)
    for name, bad in {
        "p": {},
        "q": [1],
        "c": "green",
        "t": {"name": "a", "kids": [{}]},
        "w": {},
        "ways": "in",
    }.items():
        assert not validator.is_valid({**good, name: bad}), name


def test_two_classes_of_one_name_keep_their_own_definitions() -> None:
    def make(kind: type) -> type:
        return dataclasses.make_dataclass("Same", [("value", kind)])

    first, second = make(int), make(str)
    second.__module__ = "elsewhere"

    def f(a, b): ...

    f.__annotations__ = {"a": first, "b": second}
    made = tool(f)

    assert made.validate({"a": {"value": 1}, "b": {"value": "x"}}) is None
    assert made.validate({"a": {"value": "x"}, "b": {"value": 1}}) is not None


def test_extra_parameters_are_refused_unless_the_function_takes_them() -> None:
    @tool
    def closed(a: int) -> None: ...

    @tool
    def opened(a: int, **rest: Any) -> None: ...

    @tool
    def typed(a: int, **rest: Point) -> None: ...

    assert closed.validate({"a": 1, "b": 2}) == "parameter 'b' is unknown"
    assert opened.validate({"a": 1, "b": 2}) is None
    assert typed.validate({"a": 1, "b": 2}) is not None
    assert typed.bind({"a": 1, "b": {"x": 2}}) == {"a": 1, "b": Point(2)}


def test_the_docstring_describes_the_tool_and_its_parameters() -> None:
    @tool
    def f(
        a: int,
        b: Annotated[str, "from the annotation"],
        c: Annotated[int, msgspec.Meta(ge=1, description="from the meta")],
        p: Point,
    ) -> None:
        """Do a thing
        with words.

        Args:
            a: from the docstring
            b: overruled
            c: overruled
            p: a point
        """

    assert f.schema.description == "Do a thing with words."
    assert properties(f)["a"]["description"] == "from the docstring"
    assert properties(f)["b"] == {"type": "string", "description": "from the annotation"}
    assert properties(f)["c"] == {"type": "integer", "minimum": 1, "description": "from the meta"}
    assert properties(f)["p"] == {"$ref": "#/$defs/Point", "description": "a point"}


def test_options_overrule_the_function() -> None:
    @tool(name="other", description="Other words.")
    def f() -> None:
        """Words."""

    assert (f.name, f.schema.description) == ("other", "Other words.")


@pytest.mark.parametrize(
    "annotation", ["Context", "Context | None", "ToolContext", Context, Annotated[Context, "x"]]
)
def test_the_context_is_hidden_whatever_its_spelling(annotation: Any) -> None:
    def f(a: int, ctx: Any = None) -> None: ...

    f.__annotations__["ctx"] = annotation
    made = tool(f)

    assert made.context_parameter == "ctx"
    assert list(properties(made)) == ["a"]
    assert made.validate({"a": 1, "ctx": {}}) == "parameter 'ctx' is unknown"


def test_a_caller_cannot_fill_the_context_through_kwargs() -> None:
    @tool
    def f(ctx: Context, **rest: Any) -> None: ...

    assert f.validate({"ctx": 1}) == "parameter 'ctx' is unknown"
    assert f.validate({"other": 1}) is None


def test_types_local_to_an_enclosing_function_are_found() -> None:
    @dataclasses.dataclass
    class Local:
        n: int

    def deeper() -> Tool:
        @tool
        def f(a: Local, b: list[Local] | None = None) -> None: ...

        return f

    made = deeper()

    assert made.bind({"a": {"n": 1}, "b": [{"n": 2}]}) == {"a": Local(1), "b": [Local(2)]}


def test_types_in_a_closure_are_found_after_the_enclosing_function_has_gone() -> None:
    def make() -> Callable[..., Any]:
        @dataclasses.dataclass
        class Gone:
            n: int

        def f(a: Gone) -> bool:
            return isinstance(a, Gone)

        return f

    made = tool(make())

    assert made(**made.bind({"a": {"n": 1}})) is True


def positional(a: int, /) -> None: ...
def starred(*things: int) -> None: ...
def strange(a: int, z: complex) -> None: ...
def calls(f: Callable[[], None]) -> None: ...
def missing(a: Missing) -> None: ...
def twice(a: Context, b: Context) -> None: ...
def meta_alone(a: msgspec.Meta(ge=1) = None) -> None: ...  # type: ignore[valid-type]
def generates(a: int) -> Any:
    yield a


class Service:
    """A service."""

    def lookup(self, key: str) -> str:
        """Look a key up."""
        return key

    async def __call__(self, key: str) -> str:
        return key


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (positional, "'positional', parameter 'a' is positional-only.*Remove the '/'"),
        (starred, r"'starred', parameter '\*things'.*Take a list"),
        (strange, "'strange', parameter 'z': complex has no JSON Schema.*Use str"),
        (calls, "'calls', parameter 'f'.*has no JSON Schema.*Use str"),
        (missing, "'missing', parameter 'a'.*'Missing'.*cannot be resolved.*module level"),
        (twice, "'twice': a and b both want the ToolContext"),
        (meta_alone, r"'meta_alone', parameter 'a': the annotation msgspec.Meta\(ge=1\) is no type. Use str"),
        (generates, "'generates' is a generator.*Return a list"),
        (Service.lookup, r"'Service.lookup', parameter 'self'.*tool\(instance.method\)"),
        (dict, "'dict' does not tell its parameters"),
        (lambda x: x, "lambda has no name"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_the_fix(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(ToolDeclarationError, match=f"(?s){words}"):
        tool(function)


def test_an_unresolvable_return_annotation_is_nobodys_business() -> None:
    def f(a: int) -> Missing: ...

    assert list(properties(tool(f))) == ["a"]


def test_methods_partials_and_callable_objects_are_functions_too() -> None:
    def add(a: int, b: int) -> int:
        """Add them."""
        return a + b

    method, partial, instance = tool(Service().lookup), tool(functools.partial(add, b=2)), tool(Service())

    assert (method.name, method.schema.description, list(properties(method))) == (
        "lookup",
        "Look a key up.",
        ["key"],
    )
    assert (partial.name, partial.schema.description) == ("add", "Add them.")
    assert partial.schema.parameters["required"] == ["a"]
    assert partial(1) == 3
    assert (instance.name, instance.schema.description) == ("Service", "A service.")
    assert instance.is_async


def test_wrapped_functions_are_read_through_their_wrapper() -> None:
    def logged(fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        return wrapper

    made = tool(logged(strange_but_fine))

    assert list(properties(made)) == ["a", "m", "s"]
    assert made.context_parameter == "ctx"


def strange_but_fine(a: Path, m: Mapping[str, object], s: Sequence[str], ctx: Context) -> None: ...


def test_tools_of_ours_that_are_made_twice_have_schemas_of_their_own(tmp_path: Path) -> None:
    """Their functions are read once: what is done to the tools of one folder is not seen in another's."""
    first, second = ({each.name: each for each in basic_tools(tmp_path)} for _ in range(2))

    assert all(properties(first[name]) == properties(second[name]) for name in first)
    properties(first["read_file"]).clear()
    assert "path" in properties(second["read_file"])
    assert "path" in properties({each.name: each for each in basic_tools(tmp_path)}["read_file"])


def test_functions_of_ours_that_differ_in_a_default_alone_are_told_apart() -> None:
    def made(most: int) -> Tool[..., Any]:
        def look(count: int = most) -> str:
            """Look."""
            return "x" * count

        look.__module__ = "placet.tools.builtin.look"
        return tool(look)

    assert [properties(made(most))["count"]["default"] for most in (1, 2, 1)] == [1, 2, 1]
