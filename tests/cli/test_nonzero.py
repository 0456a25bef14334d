"""A command that ended with a nonzero exit code gets no tick, wherever its call is shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_code import CHECK, Desk, call, desk, write

__all__ = ["desk"]

Placet = Callable[..., Any]
Plan = Callable[..., Path]

FAILS = {"command": "echo broken >&2; exit 3"}
TOOLS = """
import msgspec
from placet import tool


class Ran(msgspec.Struct):
    exit_code: int


@tool(returns=Ran)
def build() -> Ran:
    return Ran(2)


@tool
def count() -> dict[str, int]:
    return {"exit_code": 2}
"""


def lines_about(text: str, name: str) -> list[str]:
    """The lines that show how a call of that name ended."""
    return [line for line in text.splitlines() if name in line and line.strip()[:1] in "✓✗"]


def test_a_called_command_that_fails_is_said_to_and_ends_the_program_with_1(placet: Placet) -> None:
    failed = placet("tools", "call", "shell", "command=echo broken >&2; exit 3")
    whole = placet("tools", "call", "shell", "command=exit 3", "--json")
    fine = placet("tools", "call", "shell", "command=exit 0", "--json")

    assert failed.code == whole.code == 1
    assert json.loads(failed.out)["exit_code"] == 3, "the answer itself is still the result"
    assert lines_about(failed.err, "shell") == ["✗ shell: exit code 3"]
    assert whole.json["outcome"] == "succeeded"
    assert whole.json["results"][0]["exit_code"] == 3
    assert fine.code == 0
    assert fine.json["results"][0]["exit_code"] == 0


def test_a_command_that_was_ended_early_gets_no_tick_either(placet: Placet) -> None:
    ended = placet("tools", "call", "shell", "command=sleep 60", "timeout_s=0.1")

    assert ended.code == 1
    assert lines_about(ended.err, "shell") == ["✗ shell: no exit code"]


@pytest.mark.parametrize(("tool", "code", "sign"), [("build", 1, "✗"), ("count", 0, "✓")])
def test_only_a_declared_exit_code_counts(
    placet: Placet, plan: Plan, tmp_path: Path, tool: str, code: int, sign: str
) -> None:
    (tmp_path / "own.py").write_text(TOOLS)

    called = placet("tools", "call", tool, "--tools", "own.py")
    ran = placet("run", plan({"id": "a", "tool": tool}), "--tools", "own.py")

    assert called.code == code
    [line] = lines_about(ran.err, "a ")
    assert line[0] == sign


def test_a_plan_shows_it_in_lines_tree_summary_story_and_picture(
    placet: Placet, plan: Plan, tmp_path: Path
) -> None:
    path = plan(
        {"id": "bad", "tool": "shell", "parameters": FAILS},
        {"id": "good", "tool": "shell", "parameters": {"command": "true"}},
    )

    ran = placet("run", path, "--db", "kept.db", "--run-id", "r1", "--svg", "plan.svg")
    shown = placet("runs", "show", "r1", "--db", "kept.db")
    story = placet("explain", "r1", "--db", "kept.db")
    log = placet("log", "show", "r1", "--db", "kept.db")
    listed = placet("runs", "--db", "kept.db")
    whole = placet("runs", "--db", "kept.db", "--json")

    assert ran.code == 0, "the plan itself ran as it was written"
    assert [line[:1] for line in lines_about(ran.err, " exit") + lines_about(ran.err, "good")] == ["✗", "✓"]
    for page in (ran.out, shown.out, story.out):
        [line] = [line for line in page.splitlines() if "bad" in line and "shell" in line]
        assert "✗" in line
        assert "exit code 3" in line
        assert "✓ succeeded" not in page
        assert "✓ It succeeded" not in page
    assert any("✗ action succeeded" in line and "exit code 3" in line for line in log.out.splitlines())
    [line] = [line for line in listed.out.splitlines() if "r1" in line]
    assert "! nonzero exit" in line
    assert [(run["status"], run["nonzero"]) for run in whole.json["runs"]] == [("succeeded", 1)]
    assert "✗ nonzero exit" in (tmp_path / "plan.svg").read_text()


def test_a_resumed_run_remembers_it(placet: Placet, plan: Plan, tmp_path: Path) -> None:
    rules = tmp_path / ".placet" / "policies"
    rules.mkdir(parents=True)
    (rules / "a.toml").write_text(
        '[[rule]]\nname = "ask"\nkind = "deny_tool"\ntool = "write_file"\nunless_approved = true\n'
    )
    path = plan(
        {"id": "bad", "tool": "shell", "parameters": FAILS},
        {"id": "w", "tool": "write_file", "parameters": {"path": "x", "text": ""}, "dependencies": ["bad"]},
    )
    kept = ("--db", "kept.db")
    assert placet("run", path, *kept, "--run-id", "r1").code == 4
    [asked] = placet("approvals", "--run", "r1", *kept, "--json").json["approvals"]
    placet("approvals", "approve", asked["id"], *kept)

    resumed = placet("resume", "r1", *kept)

    assert resumed.code == 0, resumed.err
    [line] = [line for line in resumed.out.splitlines() if "bad" in line]
    assert "✗" in line


def test_an_assistants_command_shows_it_live_and_afterwards(placet: Placet, tmp_path: Path) -> None:
    turns = [{"calls": [call("shell", **FAILS), call("shell", command="true")]}, "Done."]
    (tmp_path / "script.json").write_text(json.dumps({"turns": turns}))
    model = f"scripted:{tmp_path / 'script.json'}"
    kept = ("--db", "kept.db")

    done = placet("do", "x", "--model", model, *kept, "--run-id", "r1", "--yes-to", "full_access")
    pages = [placet(*words, "r1", *kept).out for words in (["runs", "show"], ["explain"])]

    assert [line.strip() for line in lines_about(done.err, "shell")] == [
        "✗ shell: exit code 3: broken",
        "✓ shell: exit code 0",
    ]
    for page in pages:
        told = [line for line in page.splitlines() if "rests on" not in line]
        bad, good = (next(line for line in told if name in line) for name in ("t1c1", "t1c2"))
        assert "✗" in bad
        assert "✓" in good
    assert "2 calls (1 nonzero exit, 1 succeeded)" in pages[1]


def test_a_coders_command_shows_it_live_and_in_its_events(desk: Desk) -> None:
    model = desk.script({"calls": [call("shell", **FAILS)]}, write(), "Done.")

    done = desk.code("make a right", "--check", CHECK, "--model", model, "--events")

    assert done.code == 4, done.err
    assert [line.strip() for line in lines_about(done.err, "shell:")] == ["✗ shell: exit code 3: broken"]
    events = [json.loads(line) for line in done.out.splitlines()]
    [ended] = [event for event in events if event.get("event") == "result" and event["tool"] == "shell"]
    assert (ended["ok"], ended["exit_code"]) == (True, 3)


def test_a_long_exit_code_leaves_the_columns_where_they_are(placet: Placet, plan: Plan) -> None:
    path = plan(
        {"id": "a", "tool": "shell", "parameters": {"command": "exit 137"}},
        {"id": "b", "tool": "shell", "parameters": {"command": "exit 3"}},
    )

    shown = placet("run", path, "--db", "none").out

    places = {line.index(" ms") for line in shown.splitlines() if " shell " in line and " ms" in line}
    assert len(places) == 1
    assert "137" in shown
