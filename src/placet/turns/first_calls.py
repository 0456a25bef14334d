"""The calls that the harness makes for a small model before it is asked: what the task names is read.

They are calls as any other: rules, gates, limits, labels, log and journal hold for them.

Keep true:
1. Only tools that change nothing are called, and only ones that are offered.
2. Few calls with small results: what a small model reads, it reads slowly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from placet.inference.messages import ToolCall
from placet.ir.json_value import JsonValue
from placet.ir.tool_spec import ToolSchema
from placet.turns.task_route import Route

_MOST_FILES = 3
_MOST_LINES = 120
_MOST_NAMES = 60


def first_calls(route: Route, tools: Sequence[ToolSchema]) -> list[ToolCall]:
    """The calls to begin with."""
    offered = {each.name: each for each in tools}
    made: list[ToolCall] = []

    def add(name: str, **arguments: JsonValue) -> None:
        tool = offered.get(name)
        if tool is not None and tool.risk == "read_only" and _takes(tool, arguments):
            made.append(ToolCall(name=name, arguments=arguments))

    files = [path for path in route.named if path in route.names.files]
    folders = [path for path in route.named if path in route.names.folders]
    if "date" in route.topics and not files:
        add("now")
    if route.expression and not files:
        add("calculate", expression=route.expression)
    if not route.needs or route.needs == ("running",):
        return made
    is_search = bool(route.term) and not route.topics.isdisjoint({"searching", "counting"})
    if is_search:
        # Where a file is named, it is mostly the one to search; what is to be written is not.
        where = [path for path in files if "writing" not in route.needs][:1] or folders[:1]
        add("grep", pattern=route.term, fixed=True, **({"path": where[0]} if where else {}))
    if files and not (is_search and "counting" in route.topics):
        for path in files[:_MOST_FILES]:
            add("read_file", path=path, lines=_MOST_LINES)
        if route.about and len(files) == 1 and route.needs == ("reading",):
            # The line that is meant, or their number: small models lose their way in tables.
            add("grep", pattern=route.about, path=files[0], fixed=True)
    elif "reading" in route.needs and not is_search:
        inside = {"path": folders[0]} if folders else {}
        add("find_files", pattern=route.glob or "*", max_results=_MOST_NAMES, **inside)
    elif folders and not is_search:
        add("find_files", pattern=route.glob or "*", max_results=_MOST_NAMES, path=folders[0])
    return made


def repaired(call: ToolCall, route: Route, tools: Sequence[ToolSchema]) -> ToolCall | None:
    """The most likely repair of a call that failed: the path that exists in the place of one that does not.

    Only of a call that changes nothing; whatever changes something is the model's to repeat.
    """
    tool = next((each for each in tools if each.name == call.name), None)
    path = call.arguments.get("path")
    if tool is None or tool.risk != "read_only" or not isinstance(path, str):
        return None
    near = nearest_path(path, route)
    if near is None:
        return None
    return ToolCall(name=call.name, arguments={**call.arguments, "path": near})


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
