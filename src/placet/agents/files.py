"""Agents in files: TOML, or Markdown whose front matter is TOML and whose text is the identity.

Keep true:
1. A file is read whole and strictly: what means nothing is an error that names the file and the key.
2. What is written reads back as the same agent.
3. Switching an agent on or off changes one line of what a person wrote, and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from placet.agents.spec import AgentLimits, AgentSpec, Exchange, Goal, Scenario, problems
from placet.errors import NotJson, PolicyFileError, UsageError
from placet.ir.json_value import JsonValue, copy_json
from placet.policy.loader import read_toml
from placet.policy.toml_file import TomlFile, kind_of
from placet.safe_text import clean

SUFFIXES = (".toml", ".md")
MOST_BYTES = 1024 * 1024
FENCE = "+++"
SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"
_WHAT = "Agent file"
_ENABLED = re.compile(r"""^([ \t]*(?:enabled|"enabled"|'enabled')[ \t]*=[ \t]*)(?:true|false)\b""")
_BOM = "\ufeff"
_BARE = re.compile(r"[A-Za-z0-9_-]+")


# Reading


def read_agent(data: bytes, path: str) -> AgentSpec:
    """The agent in a file; its name without the suffix is the id.

        description = "Says which team a ticket is for."
        identity = "You sort tickets. Answer with one word: billing, bug or other."

        [[scenarios]]
        input = "I was charged twice."
        expect = "billing"

    Raises:
        PolicyFileError: it is no agent as it stands; names the file and the key, or the line.
    """
    file = TomlFile(path, what=_WHAT)
    name = path.replace("\\", "/").rpartition("/")[2]
    stem, dot, suffix = name.rpartition(".")
    if f"{dot}{suffix}" not in SUFFIXES:
        file.fail("it is neither TOML nor Markdown", fix="Call it ID.toml or ID.md.")
    if len(data) > MOST_BYTES:
        file.fail(f"it is larger than {MOST_BYTES // 1024:,} KB")
    body: str | None = None
    front = data
    if suffix == "md":
        front, body = _parts(file, data)
    document = read_toml(file, front)
    if body is not None and (body or "identity" not in document):
        if "identity" in document:
            file.fail("the text below the front matter is the identity", "identity", "Take the key out.")
        document["identity"] = body
    if document.setdefault("id", stem) != stem:
        given = clean(str(document["id"]), 80)
        fix = f"Call the file {given}{dot}{suffix}, or take the key out."
        file.fail(f"'{given}' is not the name of the file", "id", fix)
    return _spec(file, document)


def _parts(file: TomlFile, data: bytes) -> tuple[bytes, str]:
    """The front matter, with empty lines before it so that errors name the right ones, and the text."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        file.fail(f"it is not UTF-8 text (byte {error.start})", fix="Save it as UTF-8.")
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() == "---":
        fix = f"Write it as TOML, between two lines of {FENCE}."
        file.fail("its front matter is between lines of ---, which is for YAML", fix=fix)
    if lines[0].rstrip() != FENCE:
        file.fail("it does not begin with front matter", fix=f"Begin with a line {FENCE}, keys, and {FENCE}.")
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == FENCE:
            return "\n".join(["", *lines[1:number]]).encode(), "\n".join(lines[number + 1 :]).strip()
    file.fail(f"its front matter does not end: there is no second line {FENCE}")


def _spec(file: TomlFile, document: dict[str, Any]) -> AgentSpec:
    _check_keys(file, document)
    _check_numbers(file, document)
    if "identity" not in document:
        file.fail("it is missing", "identity", "Say who the agent is, and how it answers.")
    try:
        copy_json(document, "agent")
    except NotJson as error:
        words = clean(str(error), 200).rstrip(".")
        is_number = "number" in words.rpartition(": ")[2]
        fix = "Write a finite number." if is_number else "Write dates and times as texts."
        file.fail(words, error.place.removeprefix("agent."), fix)
    try:
        spec = file.convert(document, AgentSpec)
    except UsageError as error:
        file.fail(str(error), "limits")
    for problem in problems(spec):
        file.fail(problem.words.removesuffix("."), problem.key, problem.fix)
    return spec


def _check_keys(file: TomlFile, document: dict[str, Any]) -> None:
    for owner, table, place, kind in _tables(document):
        if isinstance(table, dict):
            file.check_keys(table, kind.__struct_fields__, place, owner)


def _tables(document: dict[str, Any]) -> Iterator[tuple[str, Any, str, type[msgspec.Struct]]]:
    """Every table that an agent may have, with its owner in words, its place, and what it is to become."""
    yield "an agent", document, "", AgentSpec
    yield "limits", document.get("limits"), "limits", AgentLimits
    yield "a goal", document.get("goal"), "goal", Goal
    for number, scenario in enumerate(_list(document.get("scenarios"))):
        yield "a scenario", scenario, f"scenarios[{number}]", Scenario
        turns = scenario.get("turns") if isinstance(scenario, dict) else None
        for at, turn in enumerate(_list(turns)):
            yield "a turn", turn, f"scenarios[{number}].turns[{at}]", Exchange


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _check_numbers(file: TomlFile, document: dict[str, Any]) -> None:
    """Limits are looked at one by one, for words that name the key."""
    limits = document.get("limits")
    for key, value in limits.items() if isinstance(limits, dict) else ():
        try:
            AgentLimits(**{key: value})
        except UsageError as error:
            words = str(error).partition("): ")[2].rstrip(".").replace("; None is no limit", "")
            file.fail(f"{kind_of(value)} will not do: {words}", f"limits.{key}")


# Writing


def write_agent(spec: AgentSpec, suffix: str = ".toml") -> str:
    """The text of a file that holds the agent.

    Raises:
        UsageError: TOML has no word for something in it, such as null.
    """
    data = msgspec.to_builtins(spec)
    del data["id"]
    if suffix != ".md":
        return _toml(data)
    identity = spec.identity
    if identity != identity.strip() or "\r\n" in identity:
        # As a text below the front matter it would not come back the same.
        return f"{FENCE}\n{_toml(data)}{FENCE}\n"
    del data["identity"]
    return f"{FENCE}\n{_toml(data)}{FENCE}\n\n{identity}\n"


def checked_text(spec: AgentSpec, suffix: str) -> str:
    """What `write_agent` makes, which was read back and is the same agent.

    Raises:
        UsageError: no such file could hold the agent.
    """
    text = write_agent(spec, suffix)
    try:
        is_same = read_agent(text.encode(), f"{spec.id}{suffix}") == spec
        why = "it would not read back as the same"
    except (PolicyFileError, UnicodeEncodeError) as error:
        is_same, why = False, clean(str(error), 500)
    if not is_same:
        raise UsageError(f"Agent '{clean(spec.id, 80)}' cannot be written into a {suffix} file: {why}")
    return text


def _toml(data: Mapping[str, Any]) -> str:
    lines: list[str] = []
    goal, limits = data.get("goal"), data.get("limits")
    for key, value in data.items():
        if key not in ("goal", "limits", "scenarios"):
            lines.append(f"{key} = {_value(value)}")
    for name, table in (("goal", goal), ("limits", limits)):
        if table:
            lines += ["", f"[{name}]", *(f"{key} = {_value(value)}" for key, value in table.items())]
    for scenario in data.get("scenarios", ()):
        lines += ["", "[[scenarios]]"]
        lines += [f"{key} = {_value(value)}" for key, value in scenario.items() if key != "turns"]
        for turn in scenario.get("turns", ()):
            lines += ["", "[[scenarios.turns]]", *(f"{key} = {_value(value)}" for key, value in turn.items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value)
        case str():
            return _text(value)
        case list() | tuple():
            return f"[{', '.join(_value(each) for each in value)}]"
        case dict():
            pairs = (f"{_key(key)} = {_value(each)}" for key, each in value.items())
            return f"{{ {', '.join(pairs)} }}" if value else "{}"
        case _:
            raise UsageError("TOML has no word for null: leave out what is expected to be nothing.")


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _line(key)


def _line(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _text(text: str) -> str:
    # Inside of front matter, a line with nothing but the fence would end it.
    if "\n" not in text or any(line.rstrip() == FENCE for line in text.split("\n")):
        return _line(text)
    inside = _line(text)[1:-1].replace("\\\\", "\x00").replace("\\n", "\n").replace("\x00", "\\\\")
    return f'"""\n{inside}"""'


def with_enabled(text: str, path: str, enabled: bool) -> str:
    """What a file holds, with the agent switched on or off; all else of it as it was.

    Raises:
        PolicyFileError: it is no agent as it stands.
    """
    before = read_agent(text.encode(), path)
    wanted = msgspec.structs.replace(before, enabled=enabled)
    if before == wanted:
        return text
    bom = _BOM if text.startswith(_BOM) else ""
    lines = text.removeprefix(_BOM).split("\n")
    first = 1 if path.endswith(".md") else 0
    tries = [
        [*lines[:at], _ENABLED.sub(rf"\g<1>{_value(enabled)}", old), *lines[at + 1 :]]
        for at, old in enumerate(lines)
        if _ENABLED.match(old)
    ]
    ending = "\r" if lines[0].endswith("\r") else ""
    tries.append([*lines[:first], f"enabled = {_value(enabled)}{ending}", *lines[first:]])
    for each in tries:
        # A line that looks like the key may well be part of a text.
        made = bom + "\n".join(each)
        try:
            if read_agent(made.encode(), path) == wanted:
                return made
        except PolicyFileError:
            continue
    return write_agent(wanted, ".md" if path.endswith(".md") else ".toml")


# For editors


def agent_schema() -> dict[str, JsonValue]:
    """JSON Schema of an agent file, as editors use it to complete and check."""
    schema: dict[str, Any] = msgspec.json.schema(AgentSpec)
    found = schema["$defs"]["AgentSpec"]
    # The name of the file says it.
    found["required"] = [key for key in found["required"] if key != "id"]
    made = {"$schema": SCHEMA_ID, "title": "An agent of Placet", **schema}
    plain: dict[str, JsonValue] = json.loads(json.dumps(made))
    return plain
