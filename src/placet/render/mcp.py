"""MCP servers and their tools, for people.

Keep true: what a server says about itself is shown as its own words, cleaned; whoever switches a tool on has
seen all that a model would be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from placet.safe_text import clean
from placet.truncation import truncate

if TYPE_CHECKING:
    from rich.text import Text

_DESCRIPTION_SHOWN = 4_000
_STYLES = {"on": "green", "off": "dim", "changed": "yellow", "gone": "yellow", "unusable": "red"}


def server_lines(servers: Sequence[Mapping[str, Any]]) -> Iterable[Text]:
    """Each server on a line, with the tools that are switched on."""
    from rich.text import Text

    width = max((len(server["name"]) for server in servers), default=0)
    for server in servers:
        names = [
            clean(tool["name"], 80) + (" (read-only)" if tool["read_only"] else "")
            for tool in server["tools"]
        ]
        on = ", ".join(names) or "no tool is on"
        yield Text(f"{server['name']:<{width}}  {clean(server['address'], 200)}")
        yield Text(f"{'':<{width}}  {on}", style="" if names else "dim")


def tool_lines(tools: Sequence[Mapping[str, Any]]) -> Iterable[Text]:
    """Each tool with its state, and all that a model would be told about it."""
    from rich.text import Text

    width = max((len(tool["state"]) for tool in tools), default=0)
    for tool in tools:
        line = Text(f"{tool['state']:<{width}}", style=_STYLES.get(tool["state"], ""))
        declared = ""
        if tool["read_only"]:
            declared = ", read-only as claimed" if tool["as_claimed"] else ", declared read-only by you"
        line.append(f"  {clean(tool['name'], 128)}{declared}", style="bold")
        yield line
        yield from (Text(f"{'':<{width}}  {words}") for words in _about(tool))


def _about(tool: Mapping[str, Any]) -> Iterable[str]:
    text = tool["description"]
    shown = clean(truncate(text, _DESCRIPTION_SHOWN), lines=True, tabs=True).strip()
    yield from (line for line in shown.splitlines() if line.strip())
    if len(text) > _DESCRIPTION_SHOWN:
        yield f"... and {len(text) - _DESCRIPTION_SHOWN:,} characters more; --json shows all"
    if parameters := _parameters(tool["input_schema"]):
        yield f"takes: {parameters}"
    if tool["claims"]:
        yield f"the server claims that it is: {', '.join(tool['claims'])}"
    if tool["problem"]:
        yield f"cannot be switched on: {clean(tool['problem'])}"
    if tool["state"] == "changed":
        yield "is not what you switched on, and is refused until you switch it on again"
    if tool["state"] == "gone":
        yield "is switched on, and the server no longer offers it"


def _parameters(schema: Any) -> str:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return ""
    needed = schema.get("required")
    required = needed if isinstance(needed, list) else []
    words = []
    for name, about in properties.items():
        kind = about.get("type") if isinstance(about, dict) else None
        parts = [kind] if isinstance(kind, str) else []
        parts += [] if name in required else ["optional"]
        words.append(clean(name, 60) + (f" ({clean(', '.join(parts), 60)})" if parts else ""))
    return ", ".join(words)
