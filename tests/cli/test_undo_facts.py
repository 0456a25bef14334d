"""What is said of undoing an edit is the same in the question, in a rule's reason, and after an abort."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Placet = Callable[..., Any]
Plan = Callable[..., Path]

EDIT = {"path": "a.txt", "old": "one", "new": "two"}
AGAIN = {"path": "a.txt", "old": "two", "new": "three"}
DENIED = """
[[rule]]
name = "last"
kind = "deny_irreversible"
unless_approved = true
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "b.txt").write_text("one\n")
    for words in (["init", "-q"], ["add", "a.txt"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def failing(plan: Plan, *actions: dict[str, Any]) -> Path:
    """A plan that makes edits one after the other, and then aborts."""
    before = ""
    made = []
    for action in (*actions, {"id": "last", "tool": "read_file", "parameters": {"path": "nowhere"}}):
        made.append({**action, "dependencies": [before] if before else []})
        before = action["id"]
    return plan(*made)


def test_after_an_abort_the_command_is_named_that_undoes_an_edit(
    placet: Placet, plan: Plan, repository: Path
) -> None:
    path = failing(
        plan,
        {"id": "e1", "tool": "edit_file", "parameters": EDIT},
        {"id": "e2", "tool": "edit_file", "parameters": AGAIN},
        {"id": "made", "tool": "write_file", "parameters": {"path": "new.txt", "text": "x"}},
        {"id": "lost", "tool": "edit_file", "parameters": {**EDIT, "path": "b.txt"}},
    )

    ran = placet("run", path, "--db", "kept.db", "--run-id", "r1", "--json")
    pages = [placet(*words, "--db", "kept.db").out for words in (("runs", "show", "r1"), ("explain", "r1"))]

    assert ran.json["irreversible"] == ["e1", "e2", "made", "lost"]
    restore = "git restore -- a.txt"
    assert ran.json["undo_commands"] == {"e1": restore, "e2": restore, "made": "rm -- new.txt"}
    for page in pages:
        assert page.count(restore) >= 2, "beside each step, and as a command by itself"
        assert "rm -- new.txt" in page
    for command in ran.json["undo_commands"].values():
        subprocess.run(command.replace("rm --", "rm -f --"), shell=True, cwd=repository, check=True)
    assert (repository / "a.txt").read_text() == "one\n"
    assert not (repository / "new.txt").exists()


def test_a_bound_folder_is_restored_and_no_command_is_named(
    placet: Placet, plan: Plan, repository: Path
) -> None:
    path = failing(plan, {"id": "e1", "tool": "edit_file", "parameters": EDIT})

    bound = placet("verify", path, "--workspace", repository)
    loose = placet("verify", path)
    ran = placet("run", path, "--workspace", repository, "--json")

    assert [i["action_id"] for i in loose_issues(loose)] == ["e1"]
    assert loose_issues(bound) == []
    assert (ran.json["irreversible"], ran.json["undo_commands"]) == ([], {})


def loose_issues(verified: Any) -> list[dict[str, Any]]:
    lines = [line for line in verified.out.splitlines() if "warning" in line and "undo" in line]
    return [{"action_id": line.split("warning ")[1].split(":")[0]} for line in lines]


def test_the_reason_of_a_rule_does_not_contradict_what_undoes_the_edit(
    placet: Placet, plan: Plan, repository: Path
) -> None:
    (repository / "rules.toml").write_text(DENIED)

    path = plan({"id": "e", "tool": "edit_file", "parameters": EDIT})

    placet("run", path, "--policies", "rules.toml", "--db", "kept.db")
    [asked] = placet("approvals", "list", "--json", "--db", "kept.db").json["approvals"]

    assert asked["recovery"]["command"] == "git restore -- a.txt"
    assert asked["reasons"] == ["policy 'last': an abort would not undo it"]


@pytest.mark.parametrize("name", ["edit_file", "write_file"])
def test_a_tool_that_a_restored_folder_undoes_is_not_called_irreversible(placet: Placet, name: str) -> None:
    shown = placet("tools", "show", name).out

    assert "irreversible" not in shown
    assert "--workspace" in shown
