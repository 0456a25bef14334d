"""The tools of a runtime as an MCP client sees them: names that the protocol permits, schemas, hints.

Keep true:
1. Every tool is offered under exactly one name, and no two share one.
2. A name that the protocol permits is offered as it is, unless it is taken by one of our own tools.
3. Hints are never milder than what the tool declares.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from mcp import types

from placet.ir.tool_spec import ToolSchema

VERIFY, EXECUTE, RESUME = "verify_plan", "execute_plan", "resume_run"
OWN = (VERIFY, EXECUTE, RESUME)

_LONGEST = 128
_NOT_PERMITTED = re.compile(r"[^A-Za-z0-9_.-]")

_PLAN: dict[str, Any] = {
    "type": "object",
    "description": "A proposal: actions that run in the order of their dependencies.",
    "required": ["actions"],
    "properties": {
        "id": {"type": "string", "description": "Made up if left out."},
        "actions": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string", "description": "Unique in the plan; a1, a2, ... if left out."},
                    "type": {"enum": ["tool_call", "state_write", "state_read", "assertion"]},
                    "tool": {"type": "string", "description": "The tool to call."},
                    "parameters": {
                        "type": "object",
                        "description": "What the tool gets. '$a1.output' stands for the output of action a1.",
                    },
                    "dependencies": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "Ids of actions that must succeed first.",
                    },
                    "failure_behavior": {
                        "enum": ["abort", "retry", "skip"],
                        "description": "What a failure means: abort (the default) ends and undoes the plan.",
                    },
                    "timeout_ms": {"type": "integer", "description": "Time limit of each attempt, in ms."},
                },
            },
        },
    },
}


def offered_names(names: Iterable[str]) -> dict[str, str]:
    """The tools by the names that a client uses for them.

    >>> offered_names(["mail.send", "to do", "to_do", "verify_plan"])
    {'mail.send': 'mail.send', 'to_do_2': 'to do', 'to_do': 'to_do', 'verify_plan_2': 'verify_plan'}
    """
    known = list(names)
    taken = {*OWN, *(name for name in known if permitted(name) == name)}
    offered: dict[str, str] = {}
    for name in known:
        shown = permitted(name)
        if shown != name or name in OWN:
            shown = _free(shown, taken)
            taken.add(shown)
        offered[shown] = name
    return offered


def permitted(name: str) -> str:
    """The nearest name that the protocol permits; itself, as a rule."""
    return _NOT_PERMITTED.sub("_", name)[:_LONGEST]


def _free(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    number = 2
    while (tried := f"{name[: _LONGEST - 8]}_{number}") in taken:
        number += 1
    return tried


def as_offered(name: str, schema: ToolSchema) -> types.Tool:
    """One tool, as a client is told of it."""
    return types.Tool(
        name=name,
        title=schema.name if schema.name != name else None,
        # Some clients leave out a tool that is not described.
        description=_words(schema.description or schema.name),
        # The parameters are an object whatever else the schema says, and clients want to read that.
        input_schema={**schema.parameters, "type": "object"},
        annotations=types.ToolAnnotations(
            read_only_hint=schema.risk == "read_only",
            # What a tool that reaches out does there, nobody here knows.
            destructive_hint=schema.risk in ("network", "destructive"),
            idempotent_hint=schema.repeatable,
            open_world_hint=schema.risk in ("network", "destructive"),
        ),
    )


def _words(text: str) -> str:
    """Text that can be sent: half a character cannot."""
    return text.encode("utf-8", "replace").decode()


def own_tools(*, can_resume: bool) -> list[types.Tool]:
    """What is offered besides the tools of the runtime."""
    takes_plan: dict[str, Any] = {
        "type": "object",
        "required": ["plan"],
        "properties": {"plan": _PLAN},
        "additionalProperties": False,
    }
    made = [
        types.Tool(
            name=VERIFY,
            description="Check a plan without running it. Answers with a report: whether it is valid, every "
            "problem found, and in which order the actions would run.",
            input_schema=takes_plan,
            annotations=_hints(read_only=True),
        ),
        types.Tool(
            name=EXECUTE,
            description="Run a plan of several actions as one transaction: if an action fails, what was done "
            "is undone where it can be. Answers with what came of each action.",
            input_schema=takes_plan,
            annotations=_hints(read_only=False),
        ),
    ]
    if can_resume:
        made.append(
            types.Tool(
                name=RESUME,
                description="Go on with a call or plan that waited for a person or was broken off, once it "
                "was decided. Answers as the first call would have.",
                input_schema={
                    "type": "object",
                    "required": ["run_id"],
                    "properties": {
                        "run_id": {"type": "string", "description": "The run id that the answer named."}
                    },
                    "additionalProperties": False,
                },
                annotations=_hints(read_only=False),
            )
        )
    return made


def _hints(*, read_only: bool) -> types.ToolAnnotations:
    return types.ToolAnnotations(
        read_only_hint=read_only,
        destructive_hint=not read_only,
        idempotent_hint=read_only,
        open_world_hint=not read_only,
    )
