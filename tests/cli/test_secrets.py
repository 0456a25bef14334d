"""Secrets are kept where a run needs them to go on, and shown nowhere; nothing shown steers a terminal."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet.app.app import open_app
from placet.app.options import RunOptions

Placet = Callable[..., Any]
Plan = Callable[..., Path]

NAMED = "correct-horse-battery"
"""Known by the name it stands under."""
SHAPED = "ghp_" + "a1B2c3D4e5F6" * 3
"""Known by its shape."""
OURS = "zebra stripes at noon"
"""Known as the value of a variable of the environment."""
ENVIRONMENT = {"FOO_API_KEY": OURS}
SECRETS = (NAMED, SHAPED, OURS)

TOOLS = f'''
from placet import ToolError, tool

@tool
def login(password: str, note: str = "") -> dict:
    """Answer with secrets."""
    return {{"api_key": "{NAMED}", "text": "use {SHAPED} or {OURS}"}}

@tool
def leak(note: str) -> str:
    """Fail with secrets."""
    raise ToolError("denied for {SHAPED} and {OURS}, password={NAMED}")

@tool
def hold(note: str) -> str:
    """Must not happen twice."""
    return note
'''

ACTIONS: list[dict[str, Any]] = [
    {
        "id": "in",
        "tool": "login",
        "parameters": {"password": NAMED, "note": f"{SHAPED} {OURS}"},
        "expected_effects": {"session_token": NAMED, "said": f"{SHAPED} {OURS}"},
    },
    {
        "id": "w",
        "type": "state_write",
        "parameters": {"key": "copy", "value": "$in.output"},
        "dependencies": ["in"],
    },
    {"id": f"go {SHAPED}", "tool": "hold", "parameters": {"note": OURS}, "dependencies": ["w"]},
    {
        "id": "out",
        "tool": "leak",
        "parameters": {"note": OURS},
        "dependencies": ["w"],
        "failure_behavior": "skip",
    },
]


def _free(text: str, what: str) -> None:
    for secret in SECRETS:
        assert secret not in text, f"{what} holds {secret}: {text[max(0, text.index(secret) - 200) :][:400]}"


@pytest.fixture
def secretive(tmp_path: Path) -> Path:
    path = tmp_path / "tools.py"
    path.write_text(TOOLS)
    return path


def test_a_secret_is_shown_nowhere_and_given_back_unchanged(
    quick: Placet, tmp_path: Path, secretive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps(
            {"id": f"p {SHAPED}", "source": f"agent {SHAPED}", "context": {"k": OURS}, "actions": ACTIONS}
        )
    )

    ran = [
        quick(
            "run", plan, "--tools", secretive, "--db", "my.db", "--run-id", name,
            "--log", "log.jsonl", "--svg", "p.svg", *as_json, **ENVIRONMENT,
        )
        for name, as_json in (("r1", []), ("r2", ["--json"]))
    ]  # fmt: skip
    assert [done.code for done in ran] == [1, 1], ran
    for done in ran:
        _free(done.out + done.err, "run")
    assert "go [redacted]  hold" in ran[0].out, "it is shown, without its secret"
    for name in ("log.jsonl", "p.svg"):
        _free((tmp_path / name).read_text(), name)
    for arguments in (
        ("resume", "r1"),
        ("resume", "r2", "--json"),
        ("runs",),
        ("runs", "--json"),
        ("runs", "show", "r1"),
        ("runs", "show", "r1", "--json"),
        ("log", "show", "r1"),
        ("log", "export"),
        ("log", "tail", "--json"),
        ("log", "query", "--kind", "action_failed"),
        ("log", "costs"),
        ("explain", "r1"),
        ("explain", "r1", "--json"),
    ):
        done = quick(*arguments, "--db", "my.db", **ENVIRONMENT)
        assert done.code in (0, 1), done
        _free(done.out + done.err, " ".join(arguments))

    private = {("runs", "record"), ("runs", "result"), ("journal", "note")}
    found = set()
    with sqlite3.connect(tmp_path / "my.db") as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            rows = connection.execute(f"SELECT * FROM {table}")
            names = [column[0] for column in rows.description]
            for row in rows:
                for name, value in zip(names, row, strict=True):
                    if any(secret in str(value) for secret in SECRETS):
                        found.add((table, name))
    assert found <= private
    assert ("runs", "result") in found

    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with open_app(RunOptions(tools=str(secretive)), db=str(tmp_path / "my.db")) as app:
        result = app.runtime.resume_sync("r1")
    assert result["in"].output == {"api_key": NAMED, "text": f"use {SHAPED} or {OURS}"}
    assert result["w"].state_changes == {"copy": result["in"].output}
    assert result["out"].error == f"denied for {SHAPED} and {OURS}, password={NAMED}"


def test_a_run_that_waits_shows_no_secret_either(
    quick: Placet, plan: Plan, tmp_path: Path, secretive: Path
) -> None:
    """Its notes hold what it takes to go on, and go on with it."""
    secretive.write_text(
        TOOLS.replace(
            '"""Must not happen twice."""', "import os\n    os._exit(9) if not os.environ.get('GO') else 0"
        )
    )
    path = plan(*ACTIONS[:3])
    died = quick("run", path, "--tools", secretive, "--db", "my.db", "--run-id", "r", **ENVIRONMENT)
    waits = quick("resume", "r", "--db", "my.db", **ENVIRONMENT)
    shown = quick("runs", "show", "r", "--db", "my.db", "--json", **ENVIRONMENT)
    name = f"go {SHAPED}"
    done = quick("resume", "r", "--db", "my.db", "--decide", f"{name}=retry", "--json", **ENVIRONMENT, GO="1")

    assert [died.code, waits.code, shown.code, done.code] == [9, 4, 0, 0], (waits, done)
    for told in (died, waits, shown, done):
        _free(told.out + told.err, "a command")
    with sqlite3.connect(tmp_path / "my.db") as connection:
        (result,) = connection.execute("SELECT result FROM runs").fetchone()
    assert all(secret in result for secret in SECRETS)


STEERING = "\x1b[31mred\x07\u202e\x9b5m"


def test_what_steers_a_terminal_is_shown_not_obeyed(quick: Placet, plan: Plan, tmp_path: Path) -> None:
    tools = tmp_path / "tools.py"
    tools.write_text(
        "from placet import ToolError, tool\n"
        "@tool(risk='read_only')\n"
        f"def say() -> str:\n    'Speak.'\n    return {STEERING!r}\n"
        "@tool(risk='read_only')\n"
        f"def fall() -> str:\n    'Fall.'\n    raise ToolError({STEERING!r})\n"
    )
    path = plan(
        {"id": f"a{STEERING}", "tool": "say", "expected_effects": {f"k{STEERING}": STEERING}},
        {"id": "f", "tool": "fall", "failure_behavior": "skip"},
    )

    told = [quick("run", path, "--tools", tools, "--db", "my.db", "--run-id", "r")]
    for arguments in (
        ("runs",),
        ("runs", "show", "r"),
        ("log",),
        ("log", "query", "--json"),
        ("log", "export"),
        ("explain", "r"),
        ("resume", "r", "--json"),
        ("resume", "r", "--decide", f"a{STEERING}=done"),
        ("runs", "show", f"r{STEERING}"),
        ("resume", f"r{STEERING}"),
        ("log", "show", f"r{STEERING}"),
    ):
        told.append(quick(*arguments, "--db", "my.db"))

    for done in told:
        assert done.code in (0, 1, 2)
        for character in ("\x1b", "\x07", "\u202e", "\x9b"):
            assert character not in done.out + done.err, done
