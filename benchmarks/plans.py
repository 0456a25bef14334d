"""The plans that are measured, as JSON text.

Only the standard library, so that the peer's environment can import it and gets the same bytes.

| shape        | what it stresses                                                                    |
|--------------|-------------------------------------------------------------------------------------|
| wide         | independent calls of a read-only tool: one concurrent layer                         |
| sequence     | independent calls of a tool with effects, which may abort: one layer, run in order  |
| chain        | each call names the one before as its dependency: as many layers as actions         |
| state chain  | each call needs the state key that the one before writes: the same, found in state  |
| state writes | each action writes a key of its own                                                 |
| one key      | every action writes the same key: each conflicts with all before it                 |
"""

from __future__ import annotations

import json
from typing import Any

SHAPES = ("wide", "sequence", "chain", "state chain", "state writes", "one key")
SIZES = (1, 10, 100, 1_000, 10_000)

READ, EFFECT = "bench_read", "bench_effect"


def actions(shape: str, size: int) -> list[dict[str, Any]]:
    """The actions of one plan. Every call has parameters of its own, so that none is a repetition."""
    if shape == "wide":
        return [_call(i, READ) for i in range(size)]
    if shape == "sequence":
        return [_call(i, EFFECT) for i in range(size)]
    if shape == "chain":
        return [{**_call(i, EFFECT), "dependencies": [f"a{i - 1}"] if i else []} for i in range(size)]
    if shape == "state chain":
        return [
            {
                **_call(i, EFFECT),
                "state_dependencies": [f"key{i - 1}"] if i else [],
                "expected_effects": {f"key{i}": i},
            }
            for i in range(size)
        ]
    if shape == "state writes":
        return [_write(i, f"key{i}") for i in range(size)]
    if shape == "one key":
        return [_write(i, "key") for i in range(size)]
    raise ValueError(f"no shape {shape!r}; there are {', '.join(SHAPES)}")


def plan(shape: str, size: int) -> str:
    """One plan as JSON text."""
    return json.dumps({"id": "bench", "source": "benchmarks", "actions": actions(shape, size)})


def executions_per_runtime(size: int) -> int:
    """How often one plan is executed on one runtime within one timing.

    Small plans are repeated until about a thousand actions have run, so that the clock can see them; large
    ones run on a new runtime each, so that nobody is charged for a long life, which is measured elsewhere.
    """
    return max(1, 1_000 // size)


def _call(i: int, tool: str) -> dict[str, Any]:
    return {"id": f"a{i}", "type": "tool_call", "tool": tool, "parameters": {"i": i}}


def _write(i: int, key: str) -> dict[str, Any]:
    return {"id": f"a{i}", "type": "state_write", "parameters": {"key": key, "value": i}}
