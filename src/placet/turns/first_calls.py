"""The calls that the harness makes for a small model before it is asked: what the task names is read.

They are calls as any other: rules, gates, limits, labels, log and journal hold for them.

Keep true:
1. Only tools that change nothing are called, and only ones that are offered.
2. Few calls with small results: what a small model reads, it reads slowly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from placet.inference.messages import ToolCall
from placet.ir.json_value import JsonValue
from placet.ir.tool_spec import ToolSchema
from placet.turns.task_route import Route

_NUMBER = re.compile(r"(?<![\w.,-])-?\d+(?:\.\d+)?(?![\w.,]*\d)")
_COLUMNS = {
    "oldest": "age",
    "youngest": "age",
    "older": "age",
    "younger": "age",
    "cheapest": "price",
    "expensive": "price",
    "tallest": "height",
    "heaviest": "weight",
    "longest": "length",
    "shortest": "length",
}
"""The column that a word compares by."""
MANY_STEPS = 3
"""Tasks of so many steps are the model's to go through, one after the other."""
_MOST_FILES = 3
_MOST_LINES = 120
_MOST_NAMES = 60
_OF_DEFINITION = 40
"""Lines of the definition of a symbol."""


class ReadFile(NamedTuple):
    """A file that was read for the model."""

    path: str
    text: str
    total_lines: int


def first_calls(route: Route, tools: Sequence[ToolSchema]) -> list[ToolCall]:
    """The calls to begin with."""
    offered = {each.name: each for each in tools}
    made: list[ToolCall] = []

    def add(name: str, **arguments: JsonValue) -> None:
        tool = offered.get(name)
        if tool is not None and tool.risk == "read_only" and _takes(tool, arguments):
            made.append(ToolCall(name=name, arguments=arguments))

    # Of many steps only what the first one names: the others may come to nothing, or change it.
    named = route.first_named if route.steps >= MANY_STEPS else route.named
    files = [path for path in named if path in route.names.files]
    folders = [path for path in named if path in route.names.folders]
    if "date" in route.topics and not files:
        add("now")
    if route.expression and not files:
        add("calculate", expression=route.expression)
    if not route.needs or route.needs == ("running",):
        return made
    symbols = route.names.symbols
    is_search = bool(route.term) and not route.topics.isdisjoint({"searching", "counting"})
    if symbols and not files and not is_search:
        for name, place in list(symbols.items())[:_MOST_FILES]:
            if "writing" in route.needs:
                add("grep", pattern=name, fixed=True)
            else:
                add("read_file", path=place.path, start_line=max(1, place.line - 2), lines=_OF_DEFINITION)
        return made
    if is_search:
        # Where a file is named, it is mostly the one to search; what is to be written is not.
        where = [path for path in files if "writing" not in route.needs][:1] or folders[:1]
        add("grep", pattern=route.term, fixed=True, **({"path": where[0]} if where else {}))
    if files and not (is_search and "counting" in route.topics):
        one = {"start_line": route.line, "lines": 1} if route.line > 0 else {"lines": _MOST_LINES}
        for path in files[:_MOST_FILES]:
            add("read_file", path=path, **one)
        if route.about and len(files) == 1 and route.needs == ("reading",):
            # The line that is meant, or their number: small models lose their way in tables.
            add("grep", pattern=route.about, path=files[0], fixed=True)
    elif "reading" in route.needs and not is_search:
        inside = {"path": folders[0]} if folders else {}
        add("find_files", pattern=route.glob or "*", max_results=_MOST_NAMES, **inside)
    elif folders and not is_search:
        add("find_files", pattern=route.glob or "*", max_results=_MOST_NAMES, path=folders[0])
    if folders and not made:
        add("list_dir", path=folders[0])
    return made


def next_calls(route: Route, read: Sequence[ReadFile], tools: Sequence[ToolSchema]) -> list[ToolCall]:
    """What follows from the files that were read first: the last line alone, and numbers put together."""
    offered = {each.name: each for each in tools}
    made: list[ToolCall] = []
    if route.line < 0 and len(read) == 1 and read[0].total_lines > 1 and "read_file" in offered:
        made.append(
            ToolCall(
                name="read_file",
                arguments={"path": read[0].path, "start_line": read[0].total_lines, "lines": 1},
            )
        )
    row = _extreme(route, read) if route.fold in ("max", "min") else None
    if row is not None and "grep" in offered:
        made.append(ToolCall(name="grep", arguments={"pattern": row, "path": read[0].path, "fixed": True}))
    numbers = _numbers(route, read) if route.fold else []
    if len(numbers) > 1 and "calculate" in offered:
        made.append(ToolCall(name="calculate", arguments={"expression": _folded(route.fold, numbers)}))
    return [each for each in made if _takes(offered[each.name], each.arguments)]


def _extreme(route: Route, read: Sequence[ReadFile]) -> str | None:
    """The row of a table with the highest or lowest value in the column that the task is about."""
    if len(read) != 1:
        return None
    table = _table(read[0])
    if table is None:
        return None
    header, rows = table
    about = {*route.words, *(column for word, column in _COLUMNS.items() if word in route.words)}
    columns = [at for at, cell in enumerate(header) if cell and not _is_disjoint(cell, frozenset(about))]
    if len(columns) > 1:
        numeric = [at for at in columns if all(_NUMBER.fullmatch(row[at]) for row in rows)]
        columns = numeric
    if len(columns) != 1 or not all(_NUMBER.fullmatch(row[columns[0]]) for row in rows):
        return None
    best = (max if route.fold == "max" else min)(rows, key=lambda row: float(row[columns[0]]))
    is_alone = sum(row[columns[0]] == best[columns[0]] for row in rows) == 1
    return (
        next((line for line in read[0].text.splitlines() if _cells(line) == best), None) if is_alone else None
    )


def _table(read: ReadFile) -> tuple[list[str], list[list[str]]] | None:
    """Header and rows of a file with commas, if it was read whole."""
    lines = [line for line in read.text.splitlines() if line.strip()]
    if len(lines) < 3 or read.total_lines > _MOST_LINES:
        return None
    header = [cell.lower() for cell in _cells(lines[0])]
    rows = [_cells(line) for line in lines[1:]]
    return (header, rows) if len(header) > 1 and all(len(row) == len(header) for row in rows) else None


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split(",")]


def _folded(fold: str, numbers: Sequence[str]) -> str:
    match fold:
        case "sum":
            return " + ".join(numbers)
        case "average":
            return f"({' + '.join(numbers)}) / {len(numbers)}"
        case _:
            return f"{fold}({', '.join(numbers)})"


def _numbers(route: Route, read: Sequence[ReadFile]) -> list[str]:
    """The numbers that the task wants put together, where the files leave no doubt which they are."""
    if len(read) > 1:
        # One number in each file.
        found = [_NUMBER.findall(each.text) for each in read]
        return [each[0] for each in found] if all(len(each) == 1 for each in found) else []
    if len(read) != 1 or route.fold in ("max", "min"):
        return []
    lines = [line for line in read[0].text.splitlines() if line.strip()]
    if len(lines) < 2 or len(lines) > _MOST_LINES or read[0].total_lines > _MOST_LINES:
        return []
    header = [cell.strip().lower() for cell in lines[0].split(",")]
    columns = [at for at, cell in enumerate(header) if cell and not _is_disjoint(cell, route.words)]
    if len(header) > 1 and len(columns) == 1:
        rows = [[cell.strip() for cell in line.split(",")] for line in lines[1:]]
        if route.about:
            rows = [row for row in rows if route.about in row]
        if all(len(row) == len(header) for row in rows):
            values = [row[columns[0]] for row in rows]
            return values if all(_NUMBER.fullmatch(value) for value in values) else []
        return []
    found = [_NUMBER.findall(line) for line in lines]
    return [each[0] for each in found] if all(len(each) == 1 for each in found) else []


def _is_disjoint(cell: str, words: frozenset[str]) -> bool:
    """Whether no word of the task is a column's name, or the plural of it."""
    return not ({cell, f"{cell}s", f"{cell}es", cell.rstrip("s")} & words)


def repaired(call: ToolCall, route: Route, tools: Sequence[ToolSchema]) -> ToolCall | None:
    """The most likely repair of a call that failed: parameters that the tool has, and a path that exists.

    Only of a call that changes nothing; whatever changes something is the model's to repeat.
    """
    tool = next((each for each in tools if each.name == call.name), None)
    if tool is None or tool.risk != "read_only":
        return None
    better = fitted(call.arguments, tool)
    path = better.get("path")
    near = nearest_path(path, route) if isinstance(path, str) else None
    if near is not None:
        better["path"] = near
    return ToolCall(name=call.name, arguments=better) if better != dict(call.arguments) else None


def fitted(arguments: Mapping[str, JsonValue], tool: ToolSchema) -> dict[str, JsonValue]:
    """Arguments under the names that a tool knows, and as the types that it takes, as far as that is clear.

    A name that it does not know becomes the nearest that it does, or the only one that is missing.
    """
    properties, required = tool.parameters.get("properties"), tool.parameters.get("required", [])
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        return dict(arguments)
    made = {name: value for name, value in arguments.items() if name in properties}
    for name, value in arguments.items():
        if name not in properties:
            free = [each for each in properties if each not in made]
            missing = [str(each) for each in required if each not in made]
            near = get_close_matches(name, free, n=1, cutoff=0.6) or (missing if len(missing) == 1 else [])
            if near:
                made[near[0]] = value
    return {name: _of_type(value, properties[name]) for name, value in made.items()}


def _of_type(value: JsonValue, schema: JsonValue) -> JsonValue:
    wanted = _types(schema)
    if isinstance(value, str) and "string" not in wanted:
        text = value.strip()
        if "integer" in wanted and re.fullmatch(r"-?\d{1,15}", text):
            return int(text)
        if "number" in wanted and re.fullmatch(r"-?\d{1,15}(\.\d{1,15})?", text):
            return float(text)
        if "boolean" in wanted and text.lower() in ("true", "false"):
            return text.lower() == "true"
    if wanted == {"string"} and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def _types(schema: JsonValue) -> set[str]:
    """The types that a parameter may have, apart from null."""
    if not isinstance(schema, Mapping):
        return set()
    of_any = schema.get("anyOf")
    found = {each for part in of_any for each in _types(part)} if isinstance(of_any, list) else set()
    given = schema.get("type")
    found |= {str(each) for each in (given if isinstance(given, list) else [given]) if each is not None}
    return found - {"null"}


def nearest_path(path: str, route: Route) -> str | None:
    """The path in the workspace that was most likely meant; None if it exists, or none is near."""
    known = route.names.files | route.names.folders
    if path in known or path in ("", "."):
        return None
    plain = path.removeprefix("./").removeprefix("/")
    if plain in known:
        return plain
    name = plain.rpartition("/")[2]
    same = sorted(each for each in known if each.rpartition("/")[2].lower() == name.lower())
    if len(same) == 1:
        return same[0]
    near = get_close_matches(plain, sorted(known)[:2_000], n=1, cutoff=0.75)
    return near[0] if near else None


def _takes(tool: ToolSchema, arguments: Mapping[str, JsonValue]) -> bool:
    """Whether a tool of this name is the one that is meant: a person's own may hide it."""
    properties = tool.parameters.get("properties")
    required = tool.parameters.get("required", [])
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        return False
    return all(name in properties for name in arguments) and all(name in arguments for name in required)
