"""Tools as lines for people: what each does, how it is called, how dangerous it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.text import Text

from placet.ir.json_value import JsonValue
from placet.ir.tool_spec import ToolSchema
from placet.render.text import count, duration, listing, value
from placet.safe_text import clean, columns

_HOSTS = 8
"""Of more than this, the rest are counted."""
_REACH = {
    "placet": "in Placet's own process; it comes with Placet, and keeps to the workspace and allowed hosts",
    "model": "in Placet's own process; it asks the model that is attached, wherever that is",
    "nothing": "not confined, as is wanted here",
    "python": "outside of every sandbox (a Python tool, in Placet's own process)",
    "program": "outside of every sandbox (`sandbox = false`), with all your rights",
    "server": "outside of every sandbox (its MCP server is a process of its own)",
}


def reach_words(runs_in: str, hosts: Sequence[str] = (), *, is_brief: bool = False) -> str:
    """Where a tool runs, and whom it may speak to; for a list without the reasons.

    >>> reach_words("sandbox", ["pypi.org"])
    'in a sandbox as far as this machine can, may speak to pypi.org'
    >>> reach_words("server", is_brief=True)
    'outside of every sandbox'
    """
    if runs_in != "sandbox":
        words = _REACH.get(runs_in, clean(runs_in, 40))
        return words.partition(" (")[0].partition(",")[0] if is_brief else words
    named = ", ".join(clean(host, 100) for host in hosts[:_HOSTS])
    more = f" and {len(hosts) - _HOSTS} more" if len(hosts) > _HOSTS else ""
    words = f"may speak to {named}{more}" if hosts else "without network"
    return f"in a sandbox{'' if is_brief else ' as far as this machine can'}, {words}"


def withheld_lines(withheld: Mapping[str, str]) -> list[Text]:
    """Tools that are there and not offered, each with the reason."""
    if not withheld:
        return []
    lines = [Text(), Text("Not offered:", style="dim")]
    return [*lines, *(Text(f"  {clean(reason, 1000)}", style="yellow") for reason in withheld.values())]


def tool_lines(
    schemas: Iterable[ToolSchema], sources: Mapping[str, str], where: Mapping[str, str]
) -> list[Text]:
    """Every tool: how it is called, what it does, how dangerous it is, whether it can be undone, where it
    runs and is from."""
    lines: list[Text] = []
    for schema in schemas:
        if lines:
            lines.append(Text())
        lines.append(_heading(schema))
        for words in clean(schema.description, 1000, lines=True).strip().splitlines():
            lines.append(Text(f"  {words}"))
        facts = [*_facts(schema), where[schema.name], clean(sources[schema.name], 200)]
        lines.append(Text("  " + ", ".join(facts), style="dim"))
    return lines


def brief_lines(schemas: Sequence[ToolSchema], *, title: str, is_first: bool) -> list[Text]:
    """Tools on a line each: the name, and the first sentence of what it does."""
    width = max((columns(clean(schema.name, 80)) for schema in schemas), default=0)
    lines = [] if is_first else [Text()]
    lines.append(Text(title, style="dim"))
    for schema in schemas:
        name = clean(schema.name, 80)
        line = Text("  ")
        line.append(name, style="bold")
        first = schema.description.partition(". ")[0].rstrip(".")
        line.append(f"{' ' * (width - columns(name))}  {clean(first)}")
        lines.append(line)
    return lines


def tool_page(
    schema: ToolSchema,
    source: str,
    *,
    timeout_ms: int | None,
    max_retries: int | None,
    where: str,
    is_restorable: bool = False,
) -> list[Text]:
    """One tool, with what each of its parameters means. `is_restorable`: an abort undoes what it does where
    it restores the folder."""
    lines = [_heading(schema), Text()]
    lines += [
        Text(f"  {words}") for words in clean(schema.description, 5000, lines=True).strip().splitlines()
    ]
    properties = schema.parameters.get("properties")
    if isinstance(properties, dict) and properties:
        lines += [Text(), Text("  parameters", style="bold")]
        for name, kind in properties.items():
            lines.append(Text(f"    {_parameter(schema, name, kind)}"))
            words = kind.get("description") if isinstance(kind, dict) else None
            if isinstance(words, str):
                lines += [Text(f"      {line}") for line in clean(words, 2000, lines=True).splitlines()]
    facts = [*_facts(schema, "undone by an abort only with --workspace" if is_restorable else "")]
    facts += [f"ended after {duration(timeout_ms)}"] if timeout_ms is not None else []
    facts += [f"at most {count(max_retries, 'retry', 'retries')}"] if max_retries is not None else []
    lines += [Text(), Text(f"  {', '.join(facts)}"), Text(f"  runs {where}")]
    return [*lines, Text(f"  from: {clean(source, 300)}", style="dim")]


def _heading(schema: ToolSchema) -> Text:
    line = Text()
    line.append(clean(schema.name, 80), style="bold")
    line.append(f"({_signature(schema)})")
    if schema.returns is not None:
        line.append(f" -> {_kind(schema.returns, schema.returns)}")
    return line


def _facts(schema: ToolSchema, undo: str = "") -> list[str]:
    facts = [f"risk {schema.risk}", undo or schema.undo]
    if schema.idempotent and schema.risk != "idempotent":
        facts.append("idempotent")
    if schema.cache_ttl_secs is not None:
        facts.append(f"cached for {schema.cache_ttl_secs:g} s")
    if schema.rate_limit is not None:
        facts.append(
            f"at most {schema.rate_limit.max_calls:,} calls in {schema.rate_limit.interval_secs:g} s"
        )
    if schema.labels:
        facts.append("labels " + listing(schema.labels))
    if schema.marks:
        facts.append(f"what it answers is {' and '.join(clean(name, 20) for name in schema.marks)}")
    for path, marks in schema.field_marks.items():
        facts.append(f"its field {clean(path, 80)} is {' and '.join(clean(name, 20) for name in marks)}")
    return facts


def _signature(schema: ToolSchema) -> str:
    properties = schema.parameters.get("properties")
    if not isinstance(properties, dict):
        return "" if schema.parameters.get("additionalProperties") is False else "..."
    return ", ".join(_parameter(schema, name, kind) for name, kind in properties.items())


def _parameter(schema: ToolSchema, name: str, kind: JsonValue) -> str:
    required = schema.parameters.get("required")
    shown = f"{clean(name, 40)}: {_kind(kind, schema.parameters)}"
    if isinstance(required, list) and name in required:
        return shown
    has_default = isinstance(kind, dict) and "default" in kind
    return f"{shown} = {value(kind['default'], 30)}" if has_default else f"{shown} = ..."


def _kind(schema: JsonValue, root: JsonValue, depth: int = 3) -> str:
    """A JSON Schema in a word or two; what it refers to is looked up in `root`."""
    schema = _resolved(schema, root)
    if not isinstance(schema, dict):
        return "any"
    if isinstance(schema.get("enum"), list):
        return " | ".join(value(item, 20) for item in schema["enum"][:6])
    if "const" in schema:
        return value(schema["const"], 20)
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            return " | ".join(dict.fromkeys(_kind(item, root, depth) for item in schema[word][:6]))
    kind = schema.get("type")
    if kind == "array" and isinstance(schema.get("items"), dict):
        return f"array of {_kind(schema['items'], root, depth)}"
    if kind == "object" and isinstance(schema.get("properties"), dict) and depth:
        fields = list(schema["properties"].items())
        shown = [f"{clean(name, 40)}: {_kind(inner, root, depth - 1)}" for name, inner in fields[:8]]
        return f"{{{', '.join([*shown, '…'] if len(fields) > 8 else shown)}}}"
    if isinstance(kind, list):
        return " | ".join(clean(item, 20) for item in kind)
    if not isinstance(kind, str):
        return "any"
    least, most = (schema.get(word) for word in ("minimum", "maximum"))
    limits = f" {value(least, 12)} to {value(most, 12)}" if least is not None and most is not None else ""
    return f"{clean(kind, 20)}{limits}"


def _resolved(schema: JsonValue, root: JsonValue) -> JsonValue:
    """The schema that a reference stands for, where it is one of the definitions."""
    for _ in range(8):
        name = schema.get("$ref") if isinstance(schema, dict) else None
        definitions = root.get("$defs") if isinstance(root, dict) else None
        if not isinstance(name, str) or not isinstance(definitions, dict):
            return schema
        schema = definitions.get(name.removeprefix("#/$defs/"))
    return schema
