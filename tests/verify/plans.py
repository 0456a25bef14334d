"""Short spellings for plans, and tools of every kind."""

from __future__ import annotations

from typing import Any

from placet.ir.tool_spec import ToolSchema
from placet.verify import Report

Fields = dict[str, Any]

TOOLS = [
    ToolSchema(name="look", risk="read_only"),
    ToolSchema(
        name="add",
        risk="read_only",
        parameters={
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
            "additionalProperties": False,
        },
    ),
    ToolSchema(name="mail"),
    ToolSchema(name="book", reversibility="compensable"),
    ToolSchema(name="unbook", risk="idempotent"),
    ToolSchema(name="remember", risk="read_only", cache_ttl_secs=60),
]


def plan(*actions: Fields, **fields: Any) -> Fields:
    """A proposal document."""
    return {"id": "p1", "actions": list(actions), **fields}


def call(id: str, tool: str = "look", parameters: Fields | None = None, **fields: Any) -> Fields:
    """A tool_call."""
    return {"id": id, "tool": tool, "parameters": parameters or {}, **fields}


def write(id: str, key: str, value: Any = 1, **fields: Any) -> Fields:
    """A state_write."""
    return {"id": id, "type": "state_write", "parameters": {"key": key, "value": value}, **fields}


def read(id: str, key: str, **fields: Any) -> Fields:
    """A state_read."""
    return {"id": id, "type": "state_read", "parameters": {"key": key}, **fields}


def claim(id: str, key: str, expected: Any, **fields: Any) -> Fields:
    """An assertion."""
    return {"id": id, "type": "assertion", "parameters": {"key": key, "expected": expected}, **fields}


def errors(report: Report) -> list[tuple[str | None, str]]:
    """Who has which error."""
    return [(issue.action_id, issue.message) for issue in report.errors]


def warnings(report: Report) -> list[tuple[str | None, str]]:
    """Who has which warning."""
    return [(issue.action_id, issue.message) for issue in report.warnings]


def undecided(report: Report) -> list[tuple[str | None, str]]:
    """Who has which open question."""
    return [(issue.action_id, issue.message) for issue in report.undecided]
