"""What a client is answered: results of runs in the words and shapes of MCP.

Keep true:
1. Whatever did not happen as asked is an error: a client that looks no further than that is right.
2. What waits for a person names the question, how it is answered, and how to go on.
3. Nothing is answered that is longer, or holds more, than what a model may see of a result: text is cut and
   cleaned as everywhere, and data goes along only if it needs neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from mcp import types
from msgspec.structs import replace

from placet.ir.json_value import JsonValue, show_json
from placet.ir.result import ProposalResult
from placet.model_text import LIMIT
from placet.render.advice import db_words, name_words
from placet.runtime.observation import observe, observe_text, readable
from placet.runtime.spill import Spill
from placet.safe_text import clean, clean_json
from placet.server.offer import RESUME

CALL = "call"
"""The id of the one action of a call."""


def refusal(words: str) -> types.CallToolResult:
    """Nothing was done."""
    return types.CallToolResult(content=[_text(observe_text(words, "refusal"))], is_error=True)


class Answers:
    """How results are told. They come without secrets."""

    def __init__(self, spill: Spill | None, db: str | None) -> None:
        """`db` is the database as the person named it, for the commands that people are told."""
        self._spill = spill
        self._db = db

    def of_call(self, result: ProposalResult) -> types.CallToolResult:
        """What came of one call of one tool."""
        if result.outcome == "waiting":
            return self._waiting(result)
        ended = next((r for r in result.results if r.action_id == CALL), None)
        if ended is None:
            return refusal(result.error or f"the call ended as {result.outcome}")
        ended = replace(ended, output=_sendable(ended.output))
        return types.CallToolResult(
            content=[_text(observe(ended, run_id=result.run_id, spill=self._spill))],
            structured_content=_data(ended.output),
            is_error=not result.succeeded,
        )

    def of_plan(self, result: ProposalResult) -> types.CallToolResult:
        """What came of a plan: every action, and the whole."""
        if result.outcome == "waiting":
            return self._waiting(result)
        told = _sendable(msgspec.to_builtins(result))
        return types.CallToolResult(
            content=[_text(observe_text(readable(told), "plan", run_id=result.run_id, spill=self._spill))],
            structured_content=_data(told),
            is_error=not result.succeeded,
        )

    def of_report(self, report: JsonValue) -> types.CallToolResult:
        """What is said of a plan that was not run. That it is invalid is no error of the call."""
        told = _sendable(report)
        return types.CallToolResult(
            content=[_text(observe_text(readable(told), "report", run_id="verify", spill=self._spill))],
            structured_content=_data(told),
        )

    def _waiting(self, result: ProposalResult) -> types.CallToolResult:
        return types.CallToolResult(
            content=[_text("\n".join(self._waiting_words(result)))],
            structured_content=_data(_sendable(msgspec.to_builtins(result))),
            is_error=True,
        )

    def _waiting_words(self, result: ProposalResult) -> Iterator[str]:
        run, place = name_words(result.run_id), db_words(self._db)
        yield "This waits for a person; what is named here has not gone on."
        for wait in result.waiting:
            yield f"- {wait.action_id}: {wait.reason}"
            if wait.kind == "approval" and wait.approval is not None:
                name = name_words(wait.approval)
                yield f"  To see what it would do: placet approvals show {name}{place}"
                yield f"  To let it run: placet approvals approve {name}{place}"
                yield f"  To keep it from running: placet approvals deny {name} --reason TEXT{place}"
            elif wait.kind == "unknown_outcome":
                told = name_words(f"{wait.action_id}=CHOICE")
                yield f"  To say what became of it: placet resume {run}{place} --decide {told}"
        yield f"Tell the person. Once it is decided, call {RESUME} with run_id {result.run_id!r}."


def _text(words: str) -> types.TextContent:
    return types.TextContent(text=clean(words, lines=True, tabs=True))


def _sendable(value: JsonValue) -> JsonValue:
    """The value; where it holds half a character, with a question mark in its place."""
    try:
        show_json(value)
    except UnicodeEncodeError:
        return _mended(value)
    return value


def _mended(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case list():
            return [_mended(item) for item in value]
        case dict():
            return {key.encode("utf-8", "replace").decode(): _mended(item) for key, item in value.items()}
        case _:
            return value


def _data(value: JsonValue) -> dict[str, Any] | None:
    """The value as data, if it is an object of which all may be seen as it is."""
    if not isinstance(value, dict):
        return None
    text = show_json(value)
    return value if len(text.encode(errors="replace")) <= LIMIT and clean_json(text) == text else None
