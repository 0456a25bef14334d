"""Programs that are only checked for their types: `test_types.py` has mypy read this file in strict mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

import msgspec
import pydantic

from placet import Approval, Assistant, Ending, Person, Reply, Runtime, ToolContext, tool
from placet.events import RunFinished, StreamEvent, TextDelta
from placet.inference import Scripted

runtime = Runtime()
model = Scripted([])


class Structure(msgspec.Struct):
    legs: int


@dataclass
class Plain:
    legs: int


class Modelled(pydantic.BaseModel):
    legs: int


class Table(TypedDict):
    legs: int


async def an_answer_has_the_type_that_was_asked_for() -> None:
    structure = Assistant(runtime, model, output_type=Structure)
    plain = Assistant(runtime, model, output_type=Plain)
    modelled = Assistant(runtime, model, output_type=Modelled)
    table = Assistant(runtime, model, output_type=Table)
    numbers = Assistant(runtime, model, output_type=list[int])

    assert_type(structure, Assistant[Structure])
    assert_type(await structure.run("x"), Ending[Structure])
    assert_type((await structure.run("x")).output, Structure)
    assert_type(structure.run_sync("x").output.legs, int)
    assert_type((await structure.resume("r")).output, Structure)
    assert_type(structure.resume_sync("r").output, Structure)
    assert_type((await plain.run("x")).output, Plain)
    assert_type((await modelled.run("x")).output, Modelled)
    assert_type((await table.run("x")).output["legs"], int)
    assert_type(numbers.run_sync("x").output, list[int])


async def without_a_type_there_is_no_output() -> None:
    assistant = Assistant(runtime, model)

    assert_type(assistant, Assistant[None])
    assert_type((await assistant.run("x")).output, None)
    assert_type(assistant.run_sync("x").summary, str)


async def one_call_may_want_another_type() -> None:
    assistant = Assistant(runtime, model, output_type=Structure)

    assert_type(assistant.run_sync("x", output_type=Plain), Ending[Plain])
    assert_type(await Assistant(runtime, model).run("x", output_type=Plain), Ending[Plain])


async def a_stream_ends_with_the_type() -> None:
    async for event in Assistant(runtime, model, output_type=Plain).stream("x"):
        assert_type(event, StreamEvent[Plain])
        match event:
            case TextDelta(text=text):
                assert_type(text, str)
            case RunFinished(ending=ending):
                assert_type(ending.output, Plain)


def a_bare_ending_may_hold_anything(ending: Ending) -> None:
    assert_type(ending.output, Any)


@dataclass
class Shop:
    name: str


@tool(risk="read_only")
def stock(item: str, context: ToolContext[Shop]) -> str:
    """Look a thing up."""
    assert_type(context.deps, Shop)
    return context.deps.name


assert_type(stock("tea", ToolContext(action_id="a", run_id="r", deps=Shop("x"))), str)


@tool
def plain(context: ToolContext) -> str:
    """Ask for no objects."""
    assert_type(context.deps, Any)
    return context.action_id


def ann(approval: Approval) -> Reply | None:
    assert_type(approval.tool, str)
    return None


async def bob(approval: Approval) -> Reply:
    return Reply("once")


people: list[Person] = [ann, bob, lambda approval: Reply("deny")]
