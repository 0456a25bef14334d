"""Short spellings for plans, and tools that write down what they saw."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from placet import ProposalResult, Runtime, ToolSchema, tool
from placet.tools import Tool

Fields = dict[str, Any]


def plan(*actions: Fields, **fields: Any) -> Fields:
    """A proposal document."""
    return {"id": "p1", "actions": list(actions), **fields}


def call(id: str, tool: str, parameters: Fields | None = None, **fields: Any) -> Fields:
    """A tool_call."""
    return {"id": id, "tool": tool, "parameters": parameters or {}, **fields}


def write(id: str, key: str, value: Any = None, **fields: Any) -> Fields:
    """A state_write."""
    return {"id": id, "type": "state_write", "parameters": {"key": key, "value": value}, **fields}


def read(id: str, key: str, **fields: Any) -> Fields:
    """A state_read."""
    return {"id": id, "type": "state_read", "parameters": {"key": key}, **fields}


def claim(id: str, key: str, expected: Any, **fields: Any) -> Fields:
    """An assertion."""
    return {"id": id, "type": "assertion", "parameters": {"key": key, "expected": expected}, **fields}


def undone_by(tool: str, **parameters: Any) -> Fields:
    """The fields of an action that a tool call takes back."""
    return {
        "reversibility": "compensable",
        "compensation": {"type": "tool", "tool": tool, "parameters": parameters},
    }


class Recorder:
    """Makes tools, and keeps every call they got, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Fields]] = []

    @property
    def names(self) -> list[str]:
        """The tools that were called, in order."""
        return [name for name, _ in self.calls]

    def tool(
        self,
        name: str,
        answer: Any = None,
        *,
        raises: BaseException | Sequence[BaseException | None] | None = None,
        timeout_ms: int | None = None,
        **schema: Any,
    ) -> Tool:
        """An async tool. `answer` is a value, or a function of the parameters, which may be async.

        `raises` is raised by every call, or, given a sequence, item by item by one call after the other.
        """
        script = list(raises) if isinstance(raises, Sequence) else None

        async def fn(parameters: dict[str, Any]) -> Any:
            self.calls.append((name, parameters))
            error = raises if isinstance(raises, BaseException) else script.pop(0) if script else None
            if error is not None:
                raise error
            if not callable(answer):
                return answer
            found = answer(parameters)
            return await found if inspect.isawaitable(found) else found

        return Tool.from_schema(ToolSchema(name=name, **schema), fn, timeout_ms=timeout_ms)


def tool_of(name: str, fn: Callable[..., Any], **options: Any) -> Tool:
    """A tool of a typed function of your own."""
    return tool(name=name, **options)(fn)


def statuses(result: ProposalResult) -> dict[str, str]:
    """How every action ended."""
    return {r.action_id: r.status for r in result.results}


def kinds(runtime: Runtime, action: str | None = None) -> list[str]:
    """The kinds of events so far, of one action if one is named."""
    return [e.kind for e in runtime.events.query(action=action)]


def data_of(runtime: Runtime, kind: str, action: str | None = None) -> list[Fields]:
    """What the events of one kind said."""
    return [e.data for e in runtime.events.query(kind=kind, action=action)]
