"""A person's mistake is one clear message and exit code 2, never a traceback."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Placet = Callable[..., Any]
Plan = Callable[..., Path]
Start = Callable[..., subprocess.Popen[bytes]]

GOOD = '{"actions": []}'

BAD_PLANS: list[tuple[str, str | bytes, str]] = [
    ("malformed", '{"actions": [}', "malformed JSON"),
    ("empty", "", "it is empty"),
    ("binary", b"\x89PNG\r\n\x1a\n\x00\xff", "it is not UTF-8"),
    ("not an object", "[1]", "expected"),
    ("wrong type", '{"actions": [{"id": 5, "tool": "t"}]}', "$.actions[0].id"),
    ("duplicate key", '{"id": "a", "id": "b"}', "stands twice"),
    ("not a number", '{"context": {"x": NaN}}', "NaN"),
    ("too deep", "[" * 200 + "]" * 200, "deep"),
    ("unknown type", '{"actions": [{"type": "shell"}]}', "$.actions[0].type"),
]


@pytest.mark.parametrize(("name", "text", "says"), BAD_PLANS, ids=[name for name, _, _ in BAD_PLANS])
def test_a_plan_that_cannot_be_read_is_refused_with_the_place(
    placet: Placet, tmp_path: Path, name: str, text: str | bytes, says: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())

    done = placet("run", path)

    assert done.code == 2
    assert says in done.err
    assert "bad.json" in done.err
    assert done.out == ""
    assert "Traceback" not in done.err


FILES = {
    "good.json": GOOD,
    "list.json": "[1, 2]",
    "broken.json": "{",
    "broken.toml": "[[rule]]\nname = x\n",
    "odd.toml": '[[rule]]\nname = "x"\nkind = "deny_tol"\n',
    "syntax.py": "def f(:\n",
    "raises.py": "import math\n\nx = 1 / 0\n",
    "imports.py": "import surely_not_installed\n",
    "exits.py": "import sys\nsys.exit(3)\n",
    "empty.py": "x = 1\n",
    "twins.py": "from placet import tool\ndef a() -> int:\n    return 1\na, b = tool(a), tool(name='a')(a)\n",
    "untyped.py": "from placet import tool\n\n@tool\ndef a(x: open) -> int:\n    return 1\n",
}

MISTAKES: list[tuple[list[str], list[str]]] = [
    (["run", "nowhere.json"], ["nowhere.json", "No such file"]),
    (["run", "."], [".", "directory"]),
    (["verify", "broken.json"], ["broken.json", "malformed JSON"]),
    (["graph", "broken.json", "-o", "x.svg"], ["broken.json", "malformed JSON"]),
    (["run", "good.json", "--state", "nowhere.json"], ["nowhere.json"]),
    (["run", "good.json", "--state", "list.json"], ["list.json", "one object"]),
    (["run", "good.json", "--state", "broken.json"], ["broken.json", "line 1, column 2"]),
    (["run", "good.json", "--state", "."], ["directory"]),
    (["run", "good.json", "--policies", "nowhere.toml"], ["nowhere.toml"]),
    (["run", "good.json", "--policies", "broken.toml"], ["broken.toml", "line 2"]),
    (["run", "good.json", "--policies", "odd.toml"], ["rule[0].kind", "Did you mean 'deny_tool'?"]),
    (["run", "good.json", "--tools", "nowhere.py"], ["nowhere.py"]),
    (["run", "good.json", "--tools", "."], ["neither in .py nor in .toml"]),
    (["run", "good.json", "--tools", "syntax.py"], ["syntax.py, line 1", "not Python"]),
    (["run", "good.json", "--tools", "raises.py"], ["raises.py, line 3", "ZeroDivisionError"]),
    (["run", "good.json", "--tools", "imports.py"], ["imports.py, line 1", "Install 'surely_not_installed'"]),
    (["run", "good.json", "--tools", "exits.py"], ["exits.py, line 2", "SystemExit"]),
    (["run", "good.json", "--tools", "empty.py"], ["empty.py holds no tool", "@tool"]),
    (["run", "good.json", "--tools", "twins.py"], ["'a' and 'b' are both 'a'"]),
    (["run", "good.json", "--tools", "untyped.py"], ["untyped.py, line 3"]),
    (["verify", "good.json", "--tools", "raises.py"], ["raises.py, line 3"]),
    (["tools", "--tools", "empty.py"], ["holds no tool"]),
    (["explain", "nowhere.jsonl"], ["nowhere.jsonl"]),
    (["explain", "."], ["directory"]),
    (["explain", "syntax.py"], ["holds no run", "1 line could not be read", "--log run.jsonl"]),
    (["graph", "good.json", "-o", "missing/x.svg"], ["missing/x.svg"]),
    (["graph", "good.json", "-o", "."], ["."]),
    (["graph", "good.json", "-o", "x.svg", "--result", "nowhere.json"], ["nowhere.json"]),
    (["graph", "good.json", "-o", "x.svg", "--result", "list.json"], ["list.json", "expected"]),
    (["run"], ["Missing argument 'PLAN'", "placet run --help"]),
    (["run", "good.json", "--colour"], ["--colour"]),
    (["run", "good.json", "--schedule", "random"], ["'levels', 'dataflow'"]),
    (["graph", "good.json"], ["'-o'"]),
    (["tools", "show"], ["'NAME'"]),
    (["fly"], ["No such command 'fly'"]),
]


@pytest.fixture
def files(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("arguments", "says"), MISTAKES, ids=[" ".join(m[0]) for m in MISTAKES])
def test_a_mistake_is_one_message_and_exit_code_2(
    placet: Placet, arguments: list[str], says: list[str]
) -> None:
    done = placet(*arguments)

    assert done.code == 2, done
    assert done.out == ""
    assert "Traceback" not in done.err
    for words in says:
        assert words in done.err


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["run", "nowhere.json"], "input"),
        (["verify", "broken.json"], "input.decode"),
        (["run", "good.json", "--policies", "odd.toml"], "input.policy_file"),
        (["run", "good.json", "--tools", "raises.py"], "input.tool_file"),
        (["explain", "nowhere.jsonl"], "input"),
        (["tools", "--tools", "empty.py"], "input.tool_file"),
        (["run", "good.json", "--schedule", "random"], "usage"),
        (["verify"], "usage"),
    ],
)
def test_with_json_an_error_is_json_too(placet: Placet, arguments: list[str], code: str) -> None:
    done = placet(*arguments, "--json")

    assert done.code == 2
    assert set(done.json) == {"error"}
    assert done.json["error"]["code"] == code
    assert done.json["error"]["message"]
    assert "Traceback" not in done.err


@pytest.mark.usefixtures("files")
def test_debug_shows_the_traceback(placet: Placet) -> None:
    done = placet("run", "good.json", "--tools", "raises.py", PLACET_DEBUG="1")

    assert done.code == 2
    assert "ZeroDivisionError" in done.err
    assert "Traceback" in done.err


def test_an_unreadable_name_is_shown_escaped(fresh: Placet) -> None:
    done = fresh("run", b"\xff\x1b[31m.json".decode(errors="surrogateescape"))

    assert done.code == 2
    assert "\x1b" not in done.err
    assert "\\udcff\\e[31m.json" in done.err


QUIET = [
    ["--help"],
    ["run", "--help"],
    ["tools", "--tools", "tools.py"],
    ["run", "plan.json"],
    ["verify", "plan.json"],
]


@pytest.mark.parametrize("arguments", QUIET, ids=[" ".join(q) for q in QUIET])
@pytest.mark.usefixtures("tools")
def test_a_closed_pipe_is_no_error(start: Start, warm_start: Start, plan: Plan, arguments: list[str]) -> None:
    """`placet ... | head` ends quietly, with the code that says how the work went."""
    plan(*({"id": f"a{i}", "type": "state_write", "parameters": {"key": f"k{i}"}} for i in range(200)))
    reader, writer = os.pipe()
    os.close(reader)

    # How an interpreter ends matters, too, but it ends in the same way after each command.
    process = (start if arguments in (QUIET[0], QUIET[-1]) else warm_start)(*arguments, stdout=writer)
    os.close(writer)
    _, err = process.communicate(timeout=30)

    assert process.returncode == 0, err
    assert b"Traceback" not in err
    assert b"Broken" not in err


def test_closed_standard_streams_are_no_error(plan: Plan, tmp_path: Path, start: Start) -> None:
    """A log opened while stdout is closed must not become stdout."""
    path = plan({"id": "a", "type": "state_write", "parameters": {"key": "k"}})

    process = start(
        "run",
        path,
        "--log",
        "log.jsonl",
        stdout=None,
        stderr=None,
        stdin=None,
        preexec_fn=lambda: os.closerange(0, 3),
    )

    assert process.wait(timeout=30) == 0
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert lines
    assert all(line.startswith("{") for line in lines)


FULL = [
    (["run", "plan.json", "--json"], 1),
    (["run", "plan.json"], 1),
    (["verify", "plan.json", "--json"], 1),
    (["graph", "plan.json", "-o", "-"], 1),
    (["--help"], 1),
    (["verify", "nowhere.json", "--json"], 2),
]


@pytest.mark.parametrize(("arguments", "code"), FULL, ids=[" ".join(f[0]) for f in FULL])
def test_a_result_that_cannot_be_written_is_said(
    start: Start, warm_start: Start, plan: Plan, arguments: list[str], code: int
) -> None:
    plan({"id": "a", "type": "state_write", "parameters": {"key": "k"}})

    with open("/dev/full", "wb") as full:
        begin = start if arguments in (FULL[0][0], ["--help"]) else warm_start
        process = begin(*arguments, stdout=full)
        _, err = process.communicate(timeout=30)

    assert process.returncode == code, err
    assert b"Cannot write the result: No space left on device" in err
    assert b"Traceback" not in err


@pytest.mark.parametrize("command", ["verify", "run"])
def test_a_plan_from_a_closed_standard_input_is_a_mistake(start: Start, command: str) -> None:
    process = start(command, "-", stdin=None, preexec_fn=lambda: os.close(0))
    out, err = process.communicate(timeout=30)

    assert process.returncode == 2
    assert out == b""
    assert err == (
        b"Error: Standard input is closed, so nothing can be read from it. Name a file, or pipe it in.\n"
    )


def test_output_that_cannot_be_encoded_is_escaped(fresh: Placet, plan: Plan) -> None:
    done = fresh(
        "run", plan({"id": "ü", "type": "state_write", "parameters": {"key": "ü"}}), PYTHONIOENCODING="ascii"
    )

    assert done.code == 0
    assert "\\xfc" in done.out
