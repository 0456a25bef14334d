"""What a model sees of a result.

Models pay for every character they read, and obey some of them. So there is one way in which a result
becomes text: short enough, with nothing hidden in it, and with a way to the rest.

Keep true:
1. At most `limit` bytes of UTF-8, cut between characters; what was left out is said, and where it is kept.
2. No control character but line breaks and tabs, whatever a tool has answered.
3. Text of a tool cannot pass for ours: it comes last, its lines are counted, and no line of it is a marker.
"""

from __future__ import annotations

import msgspec

from placet.ir.json_value import JsonValue, show_json
from placet.ir.result import ActionResult
from placet.model_text import LIMIT, model_text, not_stored
from placet.redaction import Redactor
from placet.runtime.spill import Spill

_LONG = 2_000
"""Characters of JSON that still go on one line; more is set out over lines, so that parts can be read."""


def observe(
    result: ActionResult,
    *,
    run_id: str = "",
    spill: Spill | None = None,
    redactor: Redactor | None = None,
    limit: int = LIMIT,
) -> str:
    """Return what a model sees of the result of an action: its output or its error, as text.

    >>> from placet import Runtime, observe, tool
    >>> @tool(risk="read_only")
    ... def low_stock() -> dict[str, int]:
    ...     "Articles that run out."
    ...     return {"screws": 3}
    >>> result = Runtime(tools=[low_stock]).execute_sync({"actions": [{"id": "a", "tool": "low_stock"}]})
    >>> print(observe(result["a"]))
    {"screws":3}

    Args:
        result: The result of an action.
        run_id: Id of the run, under which `spill` stores what is too long.
        spill: Folder for texts that are too long to show. `None`: what is left out is lost.
        redactor: Removes secrets from the text, such as `runtime.events.redactor`.
        limit: Longest text, in bytes of UTF-8.
    """
    shown = readable(result.output) if result.status == "succeeded" else _trouble(result)
    if redactor is not None:
        shown = redactor.text(shown)
    return observe_text(shown, result.action_id, run_id=run_id, spill=spill, limit=limit)


def observe_text(
    text: str, name: str, *, run_id: str = "", spill: Spill | None = None, limit: int = LIMIT
) -> str:
    """Any text as a model may see it; what is too long is kept under `name`."""

    def store(whole: str) -> str:
        if spill is None:
            return not_stored(whole)
        try:
            return f"all of it is in {spill.keep(run_id, name, whole)}"
        except OSError as error:
            return f"it could not be kept ({error.strerror or error})"

    return model_text(text, limit=limit, store=store)


def _trouble(result: ActionResult) -> str:
    words = f"{result.status}: {result.error}" if result.error else result.status
    return words if result.output is None else f"{words}\n{readable(result.output)}"


def readable(value: JsonValue) -> str:
    """A value as text: text as it is; an object with texts of several lines as its short values, then those
    texts, each with its number of lines; the rest as JSON.

    >>> print(readable({"stdout": "one\\ntwo\\n", "exit_code": 0}))
    exit_code: 0
    stdout (2 lines):
    one
    two
    """
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and any(_has_lines(inner) for inner in value.values()):
        short = [f"{key}: {_plain(inner)}" for key, inner in value.items() if not _has_lines(inner)]
        return "\n".join(short + [_section(key, text) for key, text in value.items() if _has_lines(text)])
    return _json(value)


def _has_lines(value: JsonValue) -> bool:
    return isinstance(value, str) and "\n" in value.rstrip("\n")


def _section(key: str, text: str) -> str:
    lines = text.removesuffix("\n")
    return f"{key} ({lines.count(chr(10)) + 1} lines):\n{lines}"


def _plain(value: JsonValue) -> str:
    return value.rstrip("\n") if isinstance(value, str) else _json(value)


def _json(value: JsonValue) -> str:
    shown = show_json(value)
    if len(shown) <= _LONG:
        return shown
    return msgspec.json.format(shown.encode(errors="replace"), indent=1).decode()
