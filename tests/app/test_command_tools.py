"""Tools from a TOML file: what is written is what is run, and what means nothing is refused with words."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from placet import ToolContext
from placet.app.command_tools import read_command_tools
from placet.errors import ToolFileError
from placet.sandbox.workspace import Workspace
from placet.tools.tool import Tool

WHOLE = """
[[tool]]
name = "count_words"
description = "Count the words of a text."
command = ["sh", "./count.sh"]
risk = "read_only"
reversibility = "reversible"
idempotent = true
max_retries = 2
timeout_ms = 5000
cache_ttl_secs = 1.5
rate_limit = [10, 60]
labels = ["text", "small"]
marks = ["untrusted"]
time_s = 10
output_bytes = 1000
memory_bytes = 500_000_000
processes = 10
environment = ["API_KEY"]
exit_codes = [0, 4]
folder = "tool"

[tool.parameters]
type = "object"
required = ["text"]
properties.text.type = "string"

[tool.returns]
type = "integer"
"""

CONTEXT = ToolContext(action_id="a", run_id="r")


def read(tmp_path: Path, text: str | bytes, folder: Path | None = None) -> list[Tool]:
    data = text.encode() if isinstance(text, str) else text
    return read_command_tools(tmp_path / "tools.toml", data, Workspace(folder or tmp_path))


def refusal(tmp_path: Path, text: str | bytes) -> str:
    with pytest.raises(ToolFileError) as caught:
        read(tmp_path, text)
    words = str(caught.value)
    assert words.startswith(f"Tools file {tmp_path / 'tools.toml'}")
    return words


def one(line: str) -> str:
    """A file with one tool, and one line more."""
    command = "" if line.startswith("command") else "command = ['true']"
    return f"[[tool]]\nname = 't'\n{command}\n{line}\n"


def answer(tool: Tool, **parameters: Any) -> Any:
    return asyncio.run(tool(parameters, context=CONTEXT))


def test_everything_that_is_declared_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "sesame")
    (tmp_path / "count.sh").write_text('[ "$API_KEY" = sesame ] && [ -f count.sh ] && wc -w; exit 4')
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    (tool,) = read(tmp_path, WHOLE, elsewhere)

    schema = tool.schema
    assert (tool.name, schema.description) == ("count_words", "Count the words of a text.")
    assert (schema.risk, schema.reversibility, schema.idempotent) == ("read_only", "reversible", True)
    assert (tool.max_retries, tool.timeout_ms, schema.cache_ttl_secs) == (2, 5000, 1.5)
    assert schema.rate_limit is not None
    assert (schema.rate_limit.max_calls, schema.rate_limit.interval_secs) == (10, 60)
    assert (schema.labels, schema.marks) == (("text", "small"), ("untrusted",))
    assert tool.validate is not None
    assert tool.validate({"text": 1}) is not None
    assert schema.returns == {"type": "integer"}
    assert answer(tool, text="one two three") == 3


def test_little_is_needed_and_the_rest_is_taken_at_its_worst(tmp_path: Path) -> None:
    (tool,) = read(tmp_path, '[[tool]]\nname = "t"\ncommand = ["echo", "[1]"]')

    assert (tool.schema.risk, tool.schema.idempotent, tool.schema.parameters) == ("destructive", False, {})
    assert answer(tool, whatever=1) == [1]


def test_a_tool_runs_in_the_workspace_and_finds_what_lies_beside_its_file(tmp_path: Path) -> None:
    program = tmp_path / "where.sh"
    program.write_text('#!/bin/sh\nprintf \'"%s"\' "$(/bin/pwd)"')
    program.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()

    (tool,) = read(tmp_path, '[[tool]]\nname = "t"\ncommand = ["./where.sh"]', work)

    assert answer(tool) == str(work.resolve())


@pytest.mark.parametrize(
    "line",
    [
        "parameters.type = ['null', 'object']",
        "parameters.anyOf = [{type = 'string'}, {type = 'object'}]",
        "parameters.'$ref' = '#/$defs/a'\nparameters.'$defs'.a.type = 'object'",
        "parameters.required = ['a']",
    ],
)
def test_parameters_that_may_be_an_object_are_taken(tmp_path: Path, line: str) -> None:
    (tool,) = read(tmp_path, one(line))

    assert tool.validate is None or tool.validate({"a": 1}) is None


def test_tools_come_in_their_order(tmp_path: Path) -> None:
    text = "".join(f'[[tool]]\nname = "{name}"\ncommand = ["true"]\n' for name in ("b", "a", "c"))

    assert [tool.name for tool in read(tmp_path, text)] == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("line", "key", "says"),
    [
        ("rsik = 'read_only'", "rsik", "'rsik' is no key of a tool. Did you mean 'risk'?"),
        ("cheap = true", "cheap", "'cheap' is no key of a tool."),
        ("risk = 'readonly'", "risk", "'readonly' is no risk. Did you mean 'read_only'?"),
        ("reversibility = 3", "reversibility", "expected a text, got an integer"),
        ("folder = '/tmp'", "folder", "'/tmp' is no folder. Choose one of 'workspace', 'tool'."),
        ("idempotent = 'yes'", "idempotent", "expected true or false, got a text"),
        ("description = ''", "description", "it is empty"),
        ("time_s = 0", "time_s", "it is 0; it must be a number of seconds above zero"),
        ("time_s = inf", "time_s", "it is inf; it must be a number of seconds above zero"),
        ("time_s = nan", "time_s", "it is nan; it must be"),
        ("time_s = true", "time_s", "expected a number of seconds above zero, got a boolean"),
        ("output_bytes = 1.5", "output_bytes", "expected a whole number of bytes above zero, got a number"),
        ("memory_bytes = '1G'", "memory_bytes", "got a text"),
        ("processes = 0", "processes", "it is 0; it must be a whole number above zero"),
        (
            "memory_bytes = 99999999999999999999999",
            "memory_bytes",
            "it is above 1,125,899,906,842,624, which",
        ),
        (f"memory_bytes = 0x{'f' * 9000}", "memory_bytes", "which is the most. Give it a smaller value."),
        ("output_bytes = 1_073_741_825", "output_bytes", "it is above 1,073,741,824"),
        ("processes = 4_194_305", "processes", "it is above 4,194,304"),
        ("time_s = 10_000_001", "time_s", "it is above 10,000,000"),
        (f"time_s = 0x{'f' * 9000}", "time_s", "it is above 10,000,000"),
        ("timeout_ms = 10_000_000_001", "timeout_ms", "it is above 10,000,000,000"),
        ("max_retries = 1001", "max_retries", "it is above 1,000"),
        ("cache_ttl_secs = 1e300", "cache_ttl_secs", "it is above 1,000,000,000"),
        ("rate_limit = [1, inf]", "rate_limit", "1,000,000,000 calls and as many seconds are the most"),
        ("rate_limit = [1_000_000_001, 1]", "rate_limit", "are the most"),
        ("max_retries = -1", "max_retries", "it is -1; it must be a whole number, zero or more"),
        ("timeout_ms = 0", "timeout_ms", "it is 0; it must be a whole number of milliseconds above zero"),
        ("rate_limit = [1]", "rate_limit", "it must be a whole number and a number of seconds"),
        ("rate_limit = [0, 1]", "rate_limit", "it must be at least 1 call"),
        ("rate_limit = [1, '1']", "rate_limit", "it must be at least 1 call in more than 0 seconds"),
        ("labels = 'one'", "labels", "expected a list of texts, got a text"),
        ("labels = [1]", "labels[0]", "expected a text, got an integer"),
        ("marks = ['untrustd']", "marks[0]", "'untrustd' is no mark. Did you mean 'untrusted'?"),
        ("environment = ['A=1']", "environment[0]", "'A=1' is no name of a variable"),
        ("exit_codes = []", "exit_codes", "at least one"),
        ("exit_codes = [256]", "exit_codes[0]", "256 is no exit code"),
        ("exit_codes = [true]", "exit_codes[0]", "True is no exit code"),
        ("parameters = []", "parameters", "expected a table, got an array"),
        ("parameters.type = 'string'", "parameters", 'it takes no object. Write type = "object" there'),
        ("parameters.type = ['string', 'null']", "parameters", "no call could ever fit it"),
        ("parameters.enum = ['a', 1]", "parameters", "no call could ever fit it"),
        ("parameters.const = 'a'", "parameters", "no call could ever fit it"),
        ("parameters.anyOf = [{type = 'string'}, {const = 1}]", "parameters", "no call could ever fit it"),
        ("parameters.allOf = [{}, {type = 'array'}]", "parameters", "no call could ever fit it"),
        ("parameters.since = 2020-01-01", "parameters", "parameters.since is not JSON"),
        ("command = 'ls -l'", "command", "it must be a list of texts"),
        ("command = []", "command", "it must be a list of texts"),
        ("command = ['']", "command[0]", "the program has no name"),
        ("command = ['./missing']", "command[0]", "there is no file"),
        ("command = ['bin/x']", "command[0]", "Begin it with ./ to name a file beside this one: './bin/x'."),
        ("command = ['/etc/passwd']", "command[0]", "/etc/passwd is not executable"),
        ('command = ["a", "b\\u0000"]', "command[1]", "null character"),
    ],
)
def test_what_means_nothing_is_refused_with_its_key(tmp_path: Path, line: str, key: str, says: str) -> None:
    words = refusal(tmp_path, one(line))

    assert f"key 'tool[0] (t).{key}'" in words
    assert says in words


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it holds no tool. Write at least:  [[tool]]"),
        ("tool = []", "key 'tool': it holds no tool"),
        (
            "[tool]\nname = 't'",
            "key 'tool': it must be a list of tables. Begin each tool with a line [[tool]].",
        ),
        ("[[tools]]\nname = 't'", "'tools' is no key of the file. Did you mean 'tool'?"),
        ("[[tool]]\ncommand = ['true']", "key 'tool[0].name': the key 'name' is missing"),
        ("[[tool]]\nname = ' '\ncommand = ['true']", "key 'tool[0].name': it is empty"),
        ("[[tool]]\nname = 't'", "key 'tool[0] (t).command': the key 'command' is missing"),
        ("[[tool]\n", "it is not TOML"),
        (b"\xff", "it is not UTF-8 text"),
        (one("") * 2, "key 'tool[1] (t).name': the name 't' is taken by another tool in this file"),
        (
            one("cache_ttl_secs = 5"),
            "key 'tool[0] (t)': Tool 't': its results are cached, and it is destructive",
        ),
        (one("parameters.type = 'objekt'"), "key 'tool[0] (t)': Tool 't'"),
    ],
)
def test_a_file_of_the_wrong_shape_is_refused(tmp_path: Path, text: str | bytes, says: str) -> None:
    assert says in refusal(tmp_path, text)


def test_reading_a_file_runs_nothing(tmp_path: Path) -> None:
    program = tmp_path / "touch.sh"
    program.write_text("#!/bin/sh\ntouch ran")
    program.chmod(0o755)

    read(tmp_path, one("command = ['./touch.sh']"))

    assert sorted(path.name for path in tmp_path.iterdir()) == ["touch.sh"]
