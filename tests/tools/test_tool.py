"""Declaring tools: what is kept, what is refused, what the runtime finds."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from placet.errors import ToolDeclarationError, UsageError
from placet.ir.tool_spec import RateLimit, ToolSchema
from placet.tools import Registry, Tool, ToolContext, tool

X = {
    "type": "object",
    "properties": {"x": {"type": "string"}},
    "required": ["x"],
    "additionalProperties": False,
}


def schema(parameters: Any = X, **rest: Any) -> ToolSchema:
    return ToolSchema(**{"name": "t", "parameters": parameters, **rest})


def test_a_tool_is_still_the_function_it_was() -> None:
    @tool
    def add(a: int, b: int = 2) -> int:
        return a + b

    @tool(risk="read_only")
    async def fetch(url: str) -> str:
        return url.upper()

    assert add(1, 2) == add(a=1) == 3
    assert asyncio.run(_awaited(fetch("a"))) == "A"
    assert str(inspect.signature(add)) == "(a: 'int', b: 'int' = 2) -> 'int'"


async def _awaited(coroutine: Any) -> Any:
    return await coroutine


def test_undeclared_means_the_worst() -> None:
    @tool
    def f() -> None: ...

    assert (f.schema.risk, f.schema.undo, f.schema.repeatable) == ("destructive", "irreversible", False)
    assert (f.cheap, f.timeout_ms, f.max_retries, f.trusted, f.takes_object) == (
        False,
        None,
        None,
        False,
        False,
    )


def test_options_reach_the_schema() -> None:
    @tool(
        risk="network",
        reversibility="compensable",
        idempotent=True,
        timeout_ms=50,
        max_retries=0,
        rate_limit=(3, 1.5),
        cache_ttl_secs=9,
        cheap=True,
        labels=["untrusted"],
        returns={"type": "string"},
    )
    def f(x: int) -> str: ...

    made = f.schema
    assert (made.risk, made.reversibility, made.idempotent, made.cache_ttl_secs) == (
        "network",
        "compensable",
        True,
        9,
    )
    assert made.rate_limit == RateLimit(max_calls=3, interval_secs=1.5)
    assert (made.labels, made.returns) == (("untrusted",), {"type": "string"})
    assert (f.timeout_ms, f.max_retries, f.cheap) == (50, 0, True)


def test_returns_may_be_a_type() -> None:
    class Answer(msgspec.Struct):
        n: int

    @tool(returns=list[Answer])
    def f() -> Any: ...

    assert f.validate_returns is not None
    assert f.validate_returns([{"n": 1}]) is None
    assert f.validate_returns([{"n": "x"}]) == 'output[0].n: "x" is not of type "integer"'


def test_a_schema_that_accepts_anything_has_no_checks() -> None:
    made = Tool.from_schema(ToolSchema(name="t"), lambda **kw: kw)

    assert made.validate is None
    assert made.validate_returns is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": ""}, "needs a name"),
        ({"name": "  "}, "needs a name"),
        ({"cache_ttl_secs": 5}, "destructive.*declares no risk"),
        ({"cache_ttl_secs": 5, "risk": "destructive"}, "destructive.*drop cache_ttl_secs"),
        ({"cache_ttl_secs": 0, "risk": "read_only"}, "above zero"),
        ({"timeout_ms": 0}, "timeout_ms is 0.*above zero"),
        ({"timeout_ms": -5}, "timeout_ms is -5"),
        ({"timeout_ms": True}, "timeout_ms is True"),
        ({"max_retries": -1}, "max_retries is -1"),
        ({"rate_limit": (0, 1)}, "at least 1 call"),
        ({"rate_limit": (1, float("nan"))}, "at least 1 call"),
        ({"rate_limit": 5}, r"\(max_calls, interval_secs\)"),
        ({"risk": "harmless"}, "risk is 'harmless'.*read_only"),
        ({"reversibility": "maybe"}, "reversibility is 'maybe'.*compensable"),
        ({"returns": {"type": "strng"}}, r"schema of its output does not compile at \$.type"),
        ({"returns": complex}, "complex has no JSON Schema"),
    ],
)
def test_a_contradiction_fails_at_the_declaration(options: dict[str, Any], words: str) -> None:
    def f(x: int) -> None: ...

    with pytest.raises(ToolDeclarationError, match=f"(?s){words}"):
        tool(**options)(f)


def test_cheap_and_async_contradict_each_other() -> None:
    async def f() -> None: ...

    for wrapped in (f, functools.partial(f), functools.partial(functools.partial(f))):
        with pytest.raises(ToolDeclarationError, match="Drop cheap"):
            tool(name="f", cheap=True)(wrapped)


def test_a_tool_of_a_tool_is_refused() -> None:
    @tool
    def f() -> None: ...

    with pytest.raises(ToolDeclarationError, match="a tool already"):
        tool(f)


class Calls:
    async def __call__(self, x: str) -> str:
        return x

    async def method(self, x: str) -> str:
        return x

    def sync(self, x: str) -> str:
        return x


def test_async_is_seen_through_every_disguise() -> None:
    made = [Calls(), Calls().method, functools.partial(Calls().method), functools.partial(Calls())]

    assert [Tool.from_schema(schema(), fn).is_async for fn in made] == [True] * 4
    assert Tool.from_schema(schema(), Calls().sync).is_async is False
    assert Tool.from_schema(schema(), None).is_async is False


def test_a_hand_written_schema_calls_by_keyword_or_hands_over_the_whole_object() -> None:
    def keyword(x: str) -> None: ...
    def whole(params: dict[str, Any]) -> None: ...
    def whole_by_position(params: Any, /) -> None: ...
    def whole_with_context(params: Any, ctx: ToolContext) -> None: ...
    def extras(**kwargs: Any) -> None: ...
    def more(x: str, y: int = 0) -> None: ...

    found = {
        fn.__name__: Tool.from_schema(schema(), fn).takes_object
        for fn in (keyword, whole, whole_by_position, whole_with_context, extras, more)
    }

    assert found == {
        "keyword": False,
        "whole": True,
        "whole_by_position": True,
        "whole_with_context": True,
        "extras": False,
        "more": False,
    }
    assert Tool.from_schema(schema(), whole_with_context).context_parameter == "ctx"


def test_a_context_before_the_whole_object_works_too() -> None:
    def f(ctx: ToolContext, params: dict[str, Any]) -> Any:
        return params

    made = Tool.from_schema(schema({}), f)

    assert (made.takes_object, made.context_parameter) == (False, "ctx")
    assert made.validate is None
    assert made.bind is not None
    context = ToolContext(action_id="a", run_id="r")
    assert f(**made.bind({"ctx": 1}), ctx=context) == {"ctx": 1}


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (lambda: None, "property 'x'.*no parameter of that name"),
        (lambda a, b: None, "property 'x'"),
        (lambda x, /: None, "positional-only"),
    ],
)
def test_a_function_that_cannot_take_its_schema_is_refused(fn: Any, words: str) -> None:
    with pytest.raises(ToolDeclarationError, match=f"(?s)Tool 't'.*{words}"):
        Tool.from_schema(schema(), fn)


def test_no_callers_json_reaches_the_context() -> None:
    def f(x: str, ctx: ToolContext) -> None: ...

    made = Tool.from_schema(schema({"properties": {"x": {}}}), f)

    assert made.validate is not None
    assert made.validate({"x": 1, "ctx": {}}) == "parameter 'ctx' is unknown"
    assert made.validate({"x": 1}) is None
    with pytest.raises(ToolDeclarationError, match="ToolContext, and a property"):
        Tool.from_schema(schema({"properties": {"x": {}, "ctx": {}}}), f)


def test_a_schema_without_a_function_is_known_and_cannot_be_called() -> None:
    made: Tool[[], Any] = Tool.from_schema(schema({}), None)

    assert made.fn is None
    with pytest.raises(UsageError, match="no function"):
        made()


@pytest.mark.parametrize(
    "bad", [{"type": "objct"}, {"enum": [{1}]}, [], {"$ref": "https://example.com/s.json"}]
)
def test_a_hand_written_schema_that_cannot_be_used_fails_at_once(bad: Any) -> None:
    with pytest.raises(ToolDeclarationError, match="Tool 't'"):
        Tool.from_schema(schema(bad), None)


def test_contradictions_in_a_hand_written_schema_are_refused_too() -> None:
    with pytest.raises(ToolDeclarationError, match="cached"):
        Tool.from_schema(schema(cache_ttl_secs=5), None)
    with pytest.raises(ToolDeclarationError, match="timeout_ms"):
        Tool.from_schema(schema(), None, timeout_ms=0)


def test_a_tool_keeps_the_schema_it_was_declared_with() -> None:
    parameters = json.loads(json.dumps(X))
    made = Tool.from_schema(schema(parameters), None)

    parameters["properties"]["x"]["type"] = "integer"
    parameters["required"].clear()

    assert made.schema.parameters == X


def test_declaring_imports_nothing_heavy_until_a_tool_is_registered() -> None:
    script = """
import sys
from placet.tools import Registry, tool
@tool
def f(x: int) -> int: return x
heavy = ["jsonschema_rs", "pydantic", "asyncio"]
before = [name for name in heavy if name in sys.modules]
Registry().add(f)
after = [name for name in heavy if name in sys.modules]
import json; print(json.dumps([before, after]))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert json.loads(ran.stdout) == [[], ["jsonschema_rs"]]


def test_the_first_check_of_an_unregistered_tool_compiles_it() -> None:
    @tool(returns={"type": "integer"})
    def f(x: int) -> int: ...

    @tool
    def g(x: int) -> int: ...

    assert g.validate is not None
    assert g.validate({"x": "no"}) == 'parameter \'x\': "no" is not of type "integer"'
    registry = Registry()
    registry.add(f)
    assert f.validate_returns is not None
    assert f.validate_returns("no") == 'output: "no" is not of type "integer"'
