"""What is measured: a runtime with no-op tools, and bare asyncio doing the same calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from benchmarks.measure import Contender, Prepared
from benchmarks.plans import EFFECT, READ, actions, executions_per_runtime, plan
from placet import Runtime, tool
from placet.ir.codec import encode


@tool(name=READ, risk="read_only")
async def bench_read(i: int) -> int:
    """Answer at once."""
    return i


@tool(name=EFFECT)
async def bench_effect(i: int) -> int:
    """Answer at once; declares nothing, so it counts as an effect that cannot be taken back."""
    return i


def make_runtime(**options: Any) -> Runtime:
    """A runtime as people have it: events kept in memory, no policies."""
    return Runtime(tools=[bench_read, bench_effect], **options)


async def warm_runtime(shape: str) -> Runtime:
    """A runtime that has run one action, so that what it does once is not on the clock."""
    runtime = make_runtime()
    await runtime.execute(plan(shape, 1))
    return runtime


def execute(shape: str, size: int) -> Contender:
    """From JSON text to JSON text: decode, gates, calls, events, result, encode."""
    text = plan(shape, size)

    async def prepare() -> Prepared:
        runtime = await warm_runtime(shape)

        async def run() -> bytes:
            return encode(await runtime.execute(text))

        return run

    return Contender(prepare, executions_per_runtime(size))


def bare(shape: str, size: int) -> Contender:
    """The same calls and nothing else: gathered where the plan allows it, else awaited in a loop."""
    todo = actions(shape, size)

    async def answer(i: int) -> int:
        return i

    async def prepare() -> Prepared:
        state: dict[str, Any] = {}

        async def write(key: str, value: Any) -> str:
            state[key] = value
            return f"written: {key}"

        async def answer_and_write(i: int) -> int:
            state[f"key{i}"] = i
            return i

        writes = {"state writes": write, "one key": write, "state chain": answer_and_write}
        call: Callable[..., Any] = writes.get(shape, answer)
        parameters = [action["parameters"] for action in todo]

        async def gathered() -> list[Any]:
            return await asyncio.gather(*[call(**given) for given in parameters])

        async def in_order() -> list[Any]:
            return [await call(**given) for given in parameters]

        return gathered if shape == "wide" else in_order

    return Contender(prepare, executions_per_runtime(size))


async def check(shape: str, size: int) -> None:
    """Refuse to measure what does not work."""
    result = await make_runtime().execute(plan(shape, size))
    wrong = [one for one in result.results if one.status != "succeeded"]
    if result.outcome != "succeeded" or len(result.results) != size or wrong:
        raise SystemExit(f"{shape} of {size} did not succeed: {result.outcome} {result.error or wrong[:1]}")
