"""Tools with few parameters for small models. Each stands for a call of a built-in tool.

They are names only: a call is translated before anybody sees it, so that rules, gates, approvals and the log
know the built-in tool alone, and a rule that denies `edit_file` denies `replace_in_file` too.

Keep true:
1. Nothing here is executed: `translate` makes one call of another tool out of one call.
2. A tool is offered only if the one that it stands for is.
3. The same result always gives the same text, so that servers can keep what they have read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from placet.errors import DecodeError
from placet.inference.messages import ToolCall
from placet.ir.codec import decode_json
from placet.ir.json_value import JsonValue, show_json
from placet.ir.tool_spec import ToolSchema
from placet.truncation import truncate, truncate_tail

MORE = "more_tools"
"""The choice by which a model gets to see the other tools."""
MORE_TOOLS = ToolSchema(
    name=MORE,
    description="Show the other tools, if none of these fits.",
    parameters={"type": "object", "properties": {}},
    risk="read_only",
)
_TEXT: dict[str, JsonValue] = {"type": "string"}
_LINES = re.compile(r"^(\w+) \((\d+) lines\):\n", re.MULTILINE)
_SHOWN = 2_000
"""Characters of a file or of output that a small model sees."""
_MATCHES, _NAMES = 40, 60
_MATCH_TEXT = 160

Arguments = Mapping[str, JsonValue]


class Compound(NamedTuple):
    """A tool for small models."""

    schema: ToolSchema
    stands_for: str
    forward: Callable[[Arguments], dict[str, JsonValue]]
    """The arguments of the built-in tool."""
    back: Callable[[Arguments], dict[str, JsonValue] | None]
    """The arguments that a call of the built-in tool would have here; None if it is another tool's."""


def _compound(
    name: str,
    stands_for: str,
    description: str,
    required: Sequence[str],
    optional: Sequence[str] = (),
    *,
    forward: Callable[[Arguments], dict[str, JsonValue]] = dict,
    back: Callable[[Arguments], dict[str, JsonValue] | None] | None = None,
    kinds: Mapping[str, JsonValue] | None = None,
) -> Compound:
    properties: dict[str, JsonValue] = {**dict.fromkeys((*required, *optional), _TEXT), **(kinds or {})}
    known = frozenset(properties)
    schema = ToolSchema(
        name=name,
        description=description,
        parameters={
            "type": "object",
            "properties": properties,
            "required": list(required),
            "additionalProperties": False,
        },
    )

    def same(given: Arguments) -> dict[str, JsonValue]:
        return {key: value for key, value in given.items() if key in known}

    return Compound(schema, stands_for, forward, back or same)


def _grep(given: Arguments) -> dict[str, JsonValue]:
    made: dict[str, JsonValue] = {"pattern": given.get("text", ""), "fixed": True}
    if path := given.get("path"):
        made["path"] = path
    return made


def _from_grep(given: Arguments) -> dict[str, JsonValue] | None:
    found: dict[str, JsonValue] = {"text": given.get("pattern", "")}
    if path := given.get("path"):
        found["path"] = path
    return found


COMPOUNDS: tuple[Compound, ...] = (
    _compound("read_file", "read_file", "Read a file.", ["path"]),
    _compound("list_files", "find_files", "List files by pattern, such as *.py or docs/*.", ["pattern"]),
    _compound(
        "find_lines",
        "grep",
        "Find and count the lines that contain a text: in one file, or in all.",
        ["text"],
        ["path"],
        forward=_grep,
        back=_from_grep,
    ),
    _compound(
        "replace_in_file",
        "edit_file",
        "Replace a text in a file everywhere.",
        ["path", "old", "new"],
        forward=lambda given: {**given, "replace_all": True},
    ),
    _compound(
        "append_to_file",
        "write_file",
        "Add lines at the end of a file.",
        ["path", "text"],
        # It begins on a new line in any case.
        forward=lambda given: {**given, "text": str(given.get("text", "")).lstrip("\n"), "append": True},
        back=lambda given: _text_to(given) if given.get("append") else None,
    ),
    _compound(
        "write_file",
        "write_file",
        "Create a file with this text, or replace all of it.",
        ["path", "text"],
        back=lambda given: None if given.get("append") else _text_to(given),
    ),
    _compound("run", "shell", "Run a shell command and see what it prints.", ["command"]),
    _compound(
        "calculate",
        "calculate",
        "Calculate with numbers, such as 12 + 30.",
        ["expression"],
        # Numbers alone: a small model likes to write the name of a column.
        kinds={"expression": {"type": "string", "pattern": "^[0-9.+*/() -]{1,160}$"}},
    ),
    _compound("now", "now", "Tell date, time and weekday.", []),
)
BY_NAME: Mapping[str, Compound] = {each.schema.name: each for each in COMPOUNDS}


_SHORT: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "read_file": ("Read a file.", ("path",)),
    "write_file": ("Create a file with this text, or replace all of it.", ("path", "text")),
    "edit_file": ("Replace a text in a file by another.", ("path", "old", "new", "replace_all")),
    "list_dir": ("List a folder.", ("path",)),
    "find_files": ("List files by pattern, such as *.py or docs/*.", ("pattern", "path")),
    "grep": ("Find the lines that match a regular expression.", ("pattern", "path")),
    "shell": ("Run a shell command and see what it prints.", ("command",)),
    "calculate": ("Calculate with numbers, such as 12 + 30.", ("expression",)),
    "now": ("Tell date, time and weekday.", ()),
}
"""Built-in tools in few words, with the parameters that small models need."""


def in_short(tool: ToolSchema) -> ToolSchema:
    """A built-in tool with a short description and few parameters; any other as it is."""
    known = _SHORT.get(tool.name)
    properties, required = tool.parameters.get("properties"), tool.parameters.get("required", [])
    if known is None or not isinstance(properties, Mapping) or not isinstance(required, list):
        return tool
    description, names = known
    if any(name not in properties for name in names) or any(name not in names for name in required):
        return tool  # A person's own tool of that name.
    kept: dict[str, JsonValue] = {name: _bare(properties[name]) for name in names}
    return msgspec.structs.replace(
        tool,
        description=description,
        parameters={
            "type": "object",
            "properties": kept,
            "required": required,
            "additionalProperties": False,
        },
    )


def _bare(schema: JsonValue) -> JsonValue:
    """A parameter without what it says about itself."""
    if not isinstance(schema, Mapping):
        return schema
    return {key: value for key, value in schema.items() if key not in ("description", "default")}


def _text_to(given: Arguments) -> dict[str, JsonValue]:
    return {key: given[key] for key in ("path", "text") if key in given}


def usable_compounds(tools: Sequence[ToolSchema], own: Container[str] = ()) -> list[Compound]:
    """Those whose built-in tool is among these, and whose name is none of a person's `own` tools."""
    by_name = {each.name: each.parameters.get("properties") for each in tools}
    found: list[Compound] = []
    for each in COMPOUNDS:
        properties = by_name.get(each.stands_for)
        required = each.schema.parameters["required"]
        assert isinstance(required, list)
        given = each.forward({str(name): "" for name in required})
        if (
            isinstance(properties, Mapping)
            and each.schema.name not in own
            and given.keys() <= properties.keys()
        ):
            found.append(each)
    return found


def translate(call: ToolCall) -> ToolCall:
    """The call of the built-in tool that a call stands for; any other call as it is."""
    known = BY_NAME.get(call.name)
    if known is None:
        return call
    if call.problem:
        return msgspec.structs.replace(call, name=known.stands_for)
    return msgspec.structs.replace(call, name=known.stands_for, arguments=known.forward(call.arguments))


def as_compound(call: ToolCall) -> ToolCall:
    """A call as a small model would have written it."""
    for each in COMPOUNDS:
        if each.stands_for == call.name and (given := each.back(call.arguments)) is not None:
            return msgspec.structs.replace(call, name=each.schema.name, arguments=given)
    return call


# Results in few words


def shown(tool: str, text: str) -> str:
    """A result of a built-in tool as a small model reads it: JSON with little in it. Any other as it is."""
    teller = _TELLERS.get(tool)
    if tool == "calculate" and len(text) <= 40:
        return f'{{"value":{text}}}'
    if teller is None:
        return _cut(text)
    try:
        return show_json(teller(_fields(text)))
    except (KeyError, TypeError, ValueError, AttributeError):
        return _cut(text)


def _fields(text: str) -> dict[str, Any]:
    """The values of a result, from either of the ways in which models are shown them."""
    if text.startswith("{"):
        try:
            value = decode_json(text)
        except DecodeError:
            raise ValueError("cut") from None
        if isinstance(value, dict):
            return value
    found: dict[str, Any] = {}
    section = _LINES.search(text)
    head = text if section is None else text[: section.start()]
    for line in head.splitlines():
        key, _, value = line.partition(": ")
        found[key] = value
    while section is not None:
        begin, lines = section.end(), int(section[2])
        # By the number of lines: the text itself may look like another section.
        end = begin
        for _ in range(lines):
            feed = text.find("\n", end)
            end = len(text) if feed < 0 else feed + 1
        found[section[1]] = text[begin:end]
        section = _LINES.match(text, end)
    if not found:
        raise ValueError("no fields")
    return found


def _told_file(given: dict[str, Any]) -> dict[str, JsonValue]:
    text, lines = str(given["text"]), int(given["total_lines"])
    first, last = int(given.get("start_line") or 1), int(given.get("end_line") or 0)
    told: dict[str, JsonValue] = {"path": str(given["path"])}
    if text.strip() and last and last - first + 1 < lines:
        told |= {"line" if first == last else "from_line": first, "of": lines}
    else:
        told["lines"] = lines
    return {**told, "text": _cut(text.rstrip())}


def read_result(text: str) -> tuple[str, str, int] | None:
    """Path, text and number of lines of a result of `read_file`; None if it cannot be told."""
    try:
        given = _fields(text)
        return str(given["path"]), str(given["text"]), int(given["total_lines"])
    except (KeyError, TypeError, ValueError):
        return None


def _told_matches(given: dict[str, Any]) -> dict[str, JsonValue]:
    rows = [
        f"{each['path']}:{each['line']}: {truncate(str(each['text']).strip(), _MATCH_TEXT)}"
        for each in given["matches"]
    ]
    return {"count": _count(rows, given), "matches": _first(rows, _MATCHES)}


def _told_files(given: dict[str, Any]) -> dict[str, JsonValue]:
    names = [*given["files"], *given.get("links", [])]
    return {"count": _count(names, given), "files": _first(names, _NAMES)}


def _told_entries(given: dict[str, Any]) -> dict[str, JsonValue]:
    rows = [each["name"] + ("/" if each["kind"] == "folder" else "") for each in given["entries"]]
    return {"count": _count(rows, given), "entries": _first(rows, _NAMES)}


def _count(rows: Sequence[str], given: Mapping[str, Any]) -> JsonValue:
    return f"more than {len(rows)}" if given.get("truncated") is True else len(rows)


def _first(rows: Sequence[str], most: int) -> list[JsonValue]:
    return [*rows[:most], *([f"... and {len(rows) - most} more"] if len(rows) > most else [])]


def _told_command(given: dict[str, Any]) -> dict[str, JsonValue]:
    said = [str(given.get(key) or "").strip() for key in ("stdout", "stderr")]
    code = given["exit_code"]
    exit_code = int(code) if str(code).lstrip("-").isdigit() else None
    return {"exit_code": exit_code, "output": _cut("\n".join(part for part in said if part))}


def _told_write(given: dict[str, Any]) -> dict[str, JsonValue]:
    return {"done": f"{given['path']} is written"}


def _told_edit(given: dict[str, Any]) -> dict[str, JsonValue]:
    return {"done": f"{given['replaced']} replaced in {given['path']}"}


_TELLERS: Mapping[str, Callable[[dict[str, Any]], dict[str, JsonValue]]] = {
    "read_file": _told_file,
    "grep": _told_matches,
    "find_files": _told_files,
    "list_dir": _told_entries,
    "shell": _told_command,
    "write_file": _told_write,
    "edit_file": _told_edit,
}


def _cut(text: str) -> str:
    if len(text) <= _SHOWN:
        return text
    head = _SHOWN * 3 // 4
    left_out = len(text) - _SHOWN
    end = truncate_tail(text, _SHOWN - head)
    return f"{truncate(text, head)}\n... {left_out} characters left out ...\n{end}"
