"""What a checker, or a maker, says about the work: one of four words, through a tool, and nothing else.

Whatever a model writes in its answers are words. They are shown to people, and decide nothing.

Keep true:
1. A verdict is what was given by a call of the tool that fits its schema; text never becomes one.
2. Two verdicts that differ are none; nor are more than can be kept.
3. A call of the tool that came to nothing may have been meant as any word, so it leaves a doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from placet.ir.to_dict import ToDict
from placet.safe_text import clean

if TYPE_CHECKING:
    from placet.tools.tool import Tool
    from placet.turns.ending import Ending

VerdictWord = Literal["done", "done_with_concerns", "needs_context", "blocked"]
"""Judgement of the work.

- `done`: it is complete.
- `done_with_concerns`: it is complete, with concerns.
- `needs_context`: information is missing.
- `blocked`: it cannot be done.
"""
VERDICTS: tuple[VerdictWord, ...] = get_args(VerdictWord)
TOOL = "give_verdict"
"""What a checker calls."""
REPORT = "report_status"
"""What a maker may call."""
_MOST = 4_000
_MOST_GIVEN = 100


class Verdict(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """The checker's judgement of the work."""

    verdict: VerdictWord
    """The judgement."""
    summary: str = ""
    """Reasons in words."""
    concerns: tuple[str, ...] = ()
    """Single concerns."""


def one_of(given: Collection[Verdict]) -> tuple[Verdict | None, str]:
    """The verdict, if there is exactly one, given once or several times; else why there is none.

    >>> one_of([Verdict(verdict="done"), Verdict(verdict="blocked")])[1]
    'the checker gave verdicts that contradict each other: blocked, done'
    """
    words = {each.verdict for each in given}
    if not words:
        return None, "the checker gave no verdict"
    if len(given) > _MOST_GIVEN:
        return None, f"the checker gave more than {_MOST_GIVEN} verdicts"
    if len(words) > 1:
        return None, f"the checker gave verdicts that contradict each other: {', '.join(sorted(words))}"
    return list(given)[-1], ""


def unread(tool: str, ending: Ending) -> int:
    """How many calls of a tool came to nothing: refused because they do not fit its schema, or failed.

    >>> from placet.turns.ending import Ending
    >>> unread(TOOL, Ending(status="success", summary="", refused=(TOOL, "shell")))
    1
    """
    refused = sum(name.strip().casefold() == tool for name in ending.refused)
    return refused + ending.called.count(tool) - ending.tools.count(tool)


def why_maker_not_done(given: Collection[Verdict], unread: int) -> str:
    """Why what a maker said of its own work leaves a doubt, in words; empty if it does not.

    >>> why_maker_not_done([Verdict(verdict="done"), Verdict(verdict="done_with_concerns", summary="x")], 0)
    'the maker is done_with_concerns: x'
    """
    # What is said first is not taken back by what is said after it.
    for word in ("blocked", "needs_context", "done_with_concerns"):
        for each in given:
            if each.verdict == word:
                said = clean(" ".join(each.summary.split()), 300) or "no reason was given"
                return f"the maker is {word}: {said}"
    if len(given) > _MOST_GIVEN:
        return f"the maker reported more than {_MOST_GIVEN} times"
    return "the maker gave a report that cannot be read" if unread else ""


def verdict_tool(name: str, description: str, give: Callable[[str, Verdict], None]) -> Tool:
    """The tool by which a verdict is given. `give` gets the key of the call, which is the same when the call
    is made again after a restart, and the verdict."""
    from placet.errors import ToolError
    from placet.ir.json_value import JsonValue
    from placet.ir.tool_spec import ToolSchema
    from placet.tools.context import ToolContext
    from placet.tools.tool import Tool

    schema = ToolSchema(
        name=name,
        description=description,
        parameters={
            "type": "object",
            "properties": {
                "verdict": {"type": "string", "enum": list(VERDICTS)},
                "summary": {"type": "string", "description": "What was done or found, in a few sentences."},
                "concerns": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["verdict", "summary"],
            "additionalProperties": False,
        },
        # It is kept with the round, and touches nothing else.
        risk="read_only",
    )
    count = 0

    def give_it(parameters: dict[str, JsonValue], context: ToolContext) -> str:
        nonlocal count
        count += 1
        if count > _MOST_GIVEN + 1:
            raise ToolError(f"{name} was called {_MOST_GIVEN} times. Stop, and end your work.")
        concerns = parameters.get("concerns") or []
        assert isinstance(concerns, list)
        given = Verdict(
            verdict=parameters["verdict"],
            summary=clean(str(parameters["summary"]), _MOST, lines=True),
            concerns=tuple(clean(str(each), _MOST, lines=True) for each in concerns[:20]),
        )
        # One more than may be is kept: by that it is known that there were more.
        give(context.idempotency_key or context.action_id, given)
        return f"Your verdict is kept: {given.verdict}."

    made: Tool = Tool.from_schema(schema, give_it, trusted=True)
    return made
