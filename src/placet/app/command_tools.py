"""Tools that are programs, written down in TOML. Read strictly.

    [[tool]]
    name = "count_words"
    description = "Count the words of a text."
    command = ["python3", "./count.py"]   # no shell; a part that begins with ./ lies beside this file
    risk = "read_only"                    # and whatever else `@tool` takes, but `cheap`
    time_s = 10
    environment = ["API_KEY"]             # names that are passed on from the host
    folder = "workspace"                  # where it runs, or "tool": the folder of this file
    hosts = ["api.example.org"]           # what it may speak to; without it, nobody
    sandbox = true                        # false: it runs with all rights of whoever runs Placet

    [tool.parameters]                     # JSON Schema
    type = "object"
    properties.text.type = "string"

Keep true:
1. Every key is known and every value means something, or none of the tools loads.
2. An error names the file, the tool, the key and the way to mend it.
3. Loading runs nothing.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, get_args

from placet.errors import NotJson, PolicyFileError, ToolDeclarationError, ToolFileError, UsageError
from placet.ir.json_value import JsonValue, copy_json
from placet.ir.tool_spec import Mark, RateLimit, Reversibility, Risk, ToolSchema
from placet.policy.loader import read_toml
from placet.policy.toml_file import TomlFile, kind_of
from placet.sandbox.confinement import Isolation
from placet.sandbox.limits import MOST, Limits
from placet.sandbox.workspace import Workspace
from placet.tools.subprocess import CommandSpec, command_tool
from placet.tools.tool import Tool

FOLDERS = ("workspace", "tool")

_EXAMPLE = 'Write at least:  [[tool]]  name = "greet"  command = ["./greet.sh"]'
_CHOICES: dict[str, tuple[str, ...]] = {
    "risk": get_args(Risk),
    "reversibility": get_args(Reversibility),
    "folder": FOLDERS,
}
_NUMBERS: dict[str, tuple[type, str, int]] = {
    "cache_ttl_secs": (float, "a number of seconds above zero", 1_000_000_000),
    # As for an action.
    "timeout_ms": (int, "a whole number of milliseconds above zero", 10_000_000_000),
    "max_retries": (int, "a whole number, zero or more", 1000),
    "time_s": (float, "a number of seconds above zero", MOST["time_s"]),
    "output_bytes": (int, "a whole number of bytes above zero", MOST["output_bytes"]),
    "memory_bytes": (int, "a whole number of bytes above zero", MOST["memory_bytes"]),
    "processes": (int, "a whole number above zero", MOST["processes"]),
    "disk_bytes": (int, "a whole number of bytes above zero", MOST["disk_bytes"]),
}
"""Of each its type, its words and the largest that is taken."""
_MOST_CALLS = _MOST_SECONDS = 1_000_000_000
"""Of a rate limit."""
_OTHER_TYPES = ("string", "number", "integer", "boolean", "array", "null")
"""What a JSON Schema calls whatever is no object."""
_LIMITS = tuple(Limits.__struct_fields__)
_KEYS = (
    "name",
    "description",
    "command",
    *_CHOICES,
    "idempotent",
    *_NUMBERS,
    "rate_limit",
    "labels",
    "marks",
    "environment",
    "hosts",
    "sandbox",
    "exit_codes",
    "parameters",
    "returns",
)


def read_command_tools(
    path: Path, data: bytes, workspace: Workspace | None = None, isolation: Isolation | None = None
) -> list[Tool]:
    """The tools that a TOML file describes, in the order in which they stand there.

    `path` names the file in errors, and its folder is where `./` leads. Without a `workspace` it is the
    working directory. Without `isolation` nothing is confined.

    Raises:
        ToolFileError: it says something that means nothing; names file, tool, key and fix.
    """
    return [program.tool for program in read_programs(path, data, workspace, isolation)]


class Program(NamedTuple):
    """A tool of such a file."""

    tool: Tool
    is_confined: bool
    """False for one that asks to run outside of the sandbox."""
    hosts: tuple[str, ...]
    """Whom it names itself; without any, those of the settings hold for it."""


def read_programs(
    path: Path, data: bytes, workspace: Workspace | None = None, isolation: Isolation | None = None
) -> list[Program]:
    """The same, each with what the file says of its sandbox.

    Raises:
        ToolFileError: it says something that means nothing; names file, tool, key and fix.
    """
    try:
        return _read(TomlFile(str(path), "Tools file"), path, data, workspace, isolation)
    except PolicyFileError as error:
        raise ToolFileError(str(error)) from None


def _read(
    file: TomlFile, path: Path, data: bytes, workspace: Workspace | None, isolation: Isolation | None
) -> list[Program]:
    document = read_toml(file, data)
    file.check_keys(document, ["tool"], "", "the file")
    tables = file.tables(document.get("tool", []), "tool", "Begin each tool with a line [[tool]].")
    if not tables:
        file.fail("it holds no tool", "tool" if "tool" in document else None, _EXAMPLE)
    found: dict[str, Program] = {}
    for position, table in enumerate(tables):
        reader = _Reader(file, table, f"tool[{position}]")
        made = reader.tool(path, workspace, isolation)
        if made.name in found:
            reader.fail(
                f"the name '{made.name}' is taken by another tool in this file", "name", "Give it another."
            )
        found[made.name] = Program(made, table.get("sandbox", True), reader.texts("hosts"))
    return list(found.values())


class _Reader:
    """One table of the file."""

    def __init__(self, file: TomlFile, table: dict[str, Any], place: str) -> None:
        self.file = file
        self.table = table
        self.place = place
        name = table.get("name")
        if isinstance(name, str) and name.strip():
            self.place = f"{place} ({name})"

    def fail(self, problem: str, key: str | None, fix: str) -> NoReturn:
        self.file.fail(problem, self.place if key is None else f"{self.place}.{key}", fix)

    def tool(self, path: Path, workspace: Workspace | None, isolation: Isolation | None) -> Tool:
        self.file.check_keys(self.table, _KEYS, self.place, "a tool")
        beside = path.resolve().parent
        name = self.text("name", 'Name it, such as name = "count_words".')
        schema = ToolSchema(
            name=name,
            description=self.text("description", "Say in a sentence what it does.", ""),
            parameters=self.parameters(),
            returns=self.schema("returns"),
            idempotent=self.flag("idempotent"),
            cache_ttl_secs=self.number("cache_ttl_secs"),
            rate_limit=self.rate(),
            risk=self.choice("risk", "destructive"),
            reversibility=self.choice("reversibility", None),
            labels=self.texts("labels"),
            marks=self.marks(),
        )
        here = "." if workspace is None else workspace.fd
        own = self.isolation(isolation)
        limits = {key: value for key in _LIMITS if (value := self.number(key)) is not None}
        try:
            spec = CommandSpec(
                argv=self.command(beside),
                folder=str(beside) if self.choice("folder", "workspace") == "tool" else here,
                limits=Limits(**limits),
                environment=self.environment(),
                exit_codes=self.exit_codes(),
                workspace=workspace,
                isolation=own,
                readable=(str(beside),),
            )
            return command_tool(
                schema, spec, timeout_ms=self.number("timeout_ms"), max_retries=self.number("max_retries")
            )
        except (ToolDeclarationError, UsageError) as error:
            self.fail(str(error).rstrip("."), None, "Mend the tool there.")

    def text(self, key: str, fix: str, default: str | None = None) -> str:
        if key not in self.table and default is not None:
            return default
        if key not in self.table:
            self.fail(f"the key '{key}' is missing; a tool needs it", key, fix)
        return self.file.text(self.table[key], f"{self.place}.{key}", fix)

    def texts(self, key: str) -> tuple[str, ...]:
        fix = f'Write it as a list of texts, such as {key} = ["one", "two"].'
        return tuple(self.file.texts(self.table.get(key, []), f"{self.place}.{key}", fix))

    def choice(self, key: str, default: Any) -> Any:
        if key not in self.table:
            return default
        return self.file.choice(self.table[key], _CHOICES[key], f"{self.place}.{key}", key)

    def isolation(self, given: Isolation | None) -> Isolation | None:
        """How this one is confined: as the others, but for the hosts that it names."""
        hosts = self.texts("hosts")
        if "sandbox" in self.table and not self.flag("sandbox"):
            if hosts:
                self.fail(
                    "outside of a sandbox every host can be spoken to",
                    "hosts",
                    'Leave out "hosts", or leave out sandbox = false.',
                )
            return None
        if given is None or not hosts:
            return given
        from placet.sandbox.hosts import HostFilter

        try:
            return given.speaking_to(HostFilter(allow=hosts))
        except UsageError as error:
            self.fail(str(error).rstrip("."), "hosts", 'Write names, such as hosts = ["api.example.org"].')

    def flag(self, key: str) -> bool:
        fix = f"Write {key} = true, or leave it out."
        return self.file.flag(self.table.get(key, False), f"{self.place}.{key}", fix)

    def number(self, key: str) -> Any:
        if key not in self.table:
            return None
        kind, meant, most = _NUMBERS[key]
        value = self.table[key]
        if type(value) is not int and not (kind is float and type(value) is float):
            self.fail(f"expected {meant}, got {kind_of(value)}", key, "Give it a value of that kind.")
        least = 0 if key == "max_retries" else 1
        if value < least if kind is int else not 0 < value < math.inf:
            self.fail(f"it is {value}; it must be {meant}", key, "Give it a value of that kind.")
        if value > most:
            # Not shown: Python writes out no number of many thousand digits.
            self.fail(f"it is above {most:,}, which is the most", key, "Give it a smaller value.")
        return value

    def rate(self) -> RateLimit | None:
        if "rate_limit" not in self.table:
            return None
        value = self.table["rate_limit"]
        fix = "Write the calls and the seconds, such as rate_limit = [10, 60]."
        if not isinstance(value, list) or len(value) != 2 or type(value[0]) is not int:
            self.fail("it must be a whole number and a number of seconds", "rate_limit", fix)
        calls, seconds = value
        if type(seconds) not in (int, float) or calls < 1 or not seconds > 0:
            self.fail("it must be at least 1 call in more than 0 seconds", "rate_limit", fix)
        if calls > _MOST_CALLS or seconds > _MOST_SECONDS:
            self.fail(
                f"{_MOST_CALLS:,} calls and as many seconds are the most",
                "rate_limit",
                "Write smaller numbers.",
            )
        return RateLimit(max_calls=calls, interval_secs=seconds)

    def marks(self) -> tuple[Mark, ...]:
        known: tuple[Mark, ...] = get_args(Mark)
        given = [
            self.file.choice(mark, known, f"{self.place}.marks[{position}]", "mark")
            for position, mark in enumerate(self.texts("marks"))
        ]
        return tuple(mark for mark in known if mark in given)

    def environment(self) -> tuple[str, ...]:
        names = self.texts("environment")
        for position, name in enumerate(names):
            if "=" in name or "\0" in name:
                fix = "Write the name alone: its value comes from the environment of the host."
                self.fail(f"'{name}' is no name of a variable", f"environment[{position}]", fix)
        return names

    def exit_codes(self) -> frozenset[int]:
        value = self.table.get("exit_codes", [0])
        fix = "List those that mean an answer, such as exit_codes = [0, 1]."
        if not isinstance(value, list) or not value:
            self.fail("it must be a list of exit codes with at least one in it", "exit_codes", fix)
        for position, code in enumerate(value):
            if type(code) is not int or not 0 <= code <= 255:
                self.fail(f"{code!r} is no exit code; they go from 0 to 255", f"exit_codes[{position}]", fix)
        return frozenset(value)

    def schema(self, key: str) -> dict[str, JsonValue] | None:
        if key not in self.table:
            return None
        table = self.file.table(self.table[key], f"{self.place}.{key}", f"Begin it with a line [tool.{key}].")
        try:
            # TOML has dates and infinities, which no JSON Schema can hold.
            copied: dict[str, JsonValue] = copy_json(table, key)
        except NotJson as error:
            self.fail(f"{error.place} is not JSON ({error.problem})", key, "Write a JSON Schema there.")
        return copied

    def parameters(self) -> dict[str, JsonValue]:
        schema = self.schema("parameters") or {}
        if not _allows_object(schema):
            # Parameters have names: a call is always an object.
            fix = 'Write type = "object" there, and what it takes under properties.'
            self.fail("no call could ever fit it: it takes no object", "parameters", fix)
        return schema

    def command(self, beside: Path) -> tuple[str, ...]:
        fix = 'Write the program and its arguments as a list, such as command = ["python3", "./count.py"].'
        if "command" not in self.table:
            self.fail("the key 'command' is missing; a tool needs it", "command", fix)
        value = self.table["command"]
        if not isinstance(value, list) or not value or not all(isinstance(part, str) for part in value):
            self.fail("it must be a list of texts with at least one in it", "command", fix)
        if not value[0].strip():
            self.fail("the program has no name", "command[0]", fix)
        for position, part in enumerate(value):
            if "\0" in part:
                self.fail("a null character cannot be handed to a program", f"command[{position}]", fix)
        for position, part in enumerate(value):
            if part.startswith("./") and not (beside / part[2:]).exists():
                self.fail(f"there is no file {beside / part[2:]}", f"command[{position}]", "Check the path.")
        parts = tuple(str(beside / part[2:]) if part.startswith("./") else part for part in value)
        program = parts[0]
        if "/" in program and not os.path.isabs(program):
            fix = f"Begin it with ./ to name a file beside this one: './{program}'."
            self.fail(f"'{program}' is neither a name nor a whole path", "command[0]", fix)
        if "/" in program and not os.path.isfile(program):
            self.fail(f"there is no file {program}", "command[0]", "Check the path.")
        if "/" in program and not os.access(program, os.X_OK):
            self.fail(
                f"{program} is not executable", "command[0]", f"Run chmod +x {program}, or name what runs it."
            )
        return parts


def _allows_object(schema: JsonValue) -> bool:
    """Whether an object can fit a schema, as far as its own words tell. References are not followed."""
    if not isinstance(schema, dict):
        return schema is not False
    kinds = schema.get("type", "object")
    # A type that is none is left to whoever compiles the schema, and says what is wrong with it.
    if all(kind in _OTHER_TYPES for kind in (kinds if isinstance(kinds, list) else [kinds])):
        return False
    if "const" in schema and not isinstance(schema["const"], dict):
        return False
    chosen = schema.get("enum")
    if isinstance(chosen, list) and not any(isinstance(each, dict) for each in chosen):
        return False
    for key, enough in (("allOf", all), ("anyOf", any), ("oneOf", any)):
        parts = schema.get(key)
        if isinstance(parts, list) and parts and not enough(_allows_object(part) for part in parts):
            return False
    return True
