"""`placet code` in a real terminal: what to begin with, checks, questions and the change are decided."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.cli.conftest import environment, warm_command
from tests.cli.test_code import CHECK, Desk, call, write
from tests.coder.workbench import git

LIMIT_S = 60
"""Far more than anything here takes."""
PUBLISH = r"Publish it as placet/(\w+)\? .*: "

Spawn = Callable[..., "pexpect.spawn[str]"]


@pytest.fixture
def desk(tmp_path: Path, placet: Callable[..., Any]) -> Desk:
    return Desk(tmp_path, placet)


@pytest.fixture
def spawn(desk: Desk) -> Iterator[Spawn]:
    """Start `placet code` on a terminal that obeys nothing, so that whatever steers one is seen."""
    started: list[pexpect.spawn[str]] = []

    def start(*arguments: str, db: str | None = None) -> pexpect.spawn[str]:
        words = warm_command("code", *arguments, "--db", db or desk.db)
        child = pexpect.spawn(
            words[0],
            words[1:],
            cwd=str(desk.repository),
            env=environment(TERM="dumb", **desk.state),
            timeout=LIMIT_S,
            encoding="utf-8",
            echo=False,
            dimensions=(60, 200),
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.close(force=True)


def ended(child: pexpect.spawn[str]) -> tuple[int, str]:
    """The exit code, and what was said last."""
    child.expect(pexpect.EOF)
    said = child.before or ""
    child.wait()
    assert child.exitstatus is not None
    return int(child.exitstatus), said


def test_changes_checks_and_publishing_are_asked_about_one_after_the_other(desk: Desk, spawn: Spawn) -> None:
    (desk.repository / "b.txt").write_text("mine\n")
    check = f"{CHECK} && grep -q mine b.txt"
    contract = {"description": "the \x1b[2Jword", "checks": [{"name": "word", "command": check}]}
    model = desk.script(json.dumps(contract), write(), "Done.")
    child = spawn("make a right", "--model", model)

    child.expect(r"1 file has changes that are not committed:\s+b.txt\s+They stay as they are")
    child.expect(r"Begin with them\? y = yes, n = no, from the last commit: ")
    child.sendline("maybe")
    child.expect(r"Write y or n: ")
    child.sendline("y")
    child.expect(r"The model proposes these checks")
    child.expect(r"`grep -q right a.txt && grep -q mine b.txt`")
    child.expect(r"Work until they are green\? y = yes, n = no, l = later: ")
    child.sendline("y")
    child.expect(r"\+right")
    child.expect(r"\+mine")
    child.expect(r"Your own uncommitted file goes into the commit: b.txt\.")
    child.expect(PUBLISH)
    child.sendline("y")

    code, said = ended(child)
    assert code == 0, said
    assert "✓ published as placet/" in said
    [branch] = git(desk.repository, "branch", "--list", "placet/*", "--format=%(refname:short)").split()
    assert git(desk.repository, "show", f"{branch}:a.txt") == "right\n"
    assert git(desk.repository, "status", "--porcelain") == " M b.txt\n"


def test_a_question_is_answered_and_a_change_refused_with_a_reason(desk: Desk, spawn: Spawn) -> None:
    model = desk.script(
        {"calls": [call("ask_user", question="Which\x1b[31m word?")]}, write(text="right\n" * 300), "Done."
    )
    child = spawn("make a right", "--check", CHECK, "--model", model)

    child.expect(r"The model asks: Which\\e\[31m word\?")
    child.expect(r"Your answer \(Enter for none\): ")
    child.sendline("right")
    child.expect(r"✓ ask_user: right")
    child.expect(r"lines are left out here: s shows all")
    child.expect(PUBLISH)
    child.sendline("s")
    child.expect(r"(\+right\s+){290}")
    child.expect(PUBLISH)
    child.sendline("n")
    child.expect(r"Why not\? \(Enter for no reason\) ")
    child.sendline("too long")

    code, said = ended(child)
    assert code == 1, said
    assert "abandoned: denied: too long" in said
    assert desk.session()["reason"] == "denied: too long"
    assert git(desk.repository, "branch", "--list", "placet/*") == ""


def test_a_change_can_be_left_for_later_and_decided_elsewhere(desk: Desk, spawn: Spawn) -> None:
    child = spawn("make a right", "--check", CHECK, "--model", desk.script(write(), "Done."))
    child.expect(PUBLISH)
    assert child.match is not None
    id = child.match.group(1)
    child.sendline("l")
    code, said = ended(child)
    assert code == 4, said
    assert f"placet code approve {id}" in said

    again = spawn("resume", id)
    again.expect(r"-wrong\s+\+right")
    again.expect(PUBLISH)
    again.sendintr()
    code, said = ended(again)
    assert code == 130, said
    assert f"placet code approve {id}" in said

    third = spawn("resume", id)
    third.expect(PUBLISH)
    assert desk.code("approve", id).code == 0
    third.sendline("y")
    code, said = ended(third)
    assert code == 0, said
    assert "Somebody else has decided meanwhile." in said


def test_without_a_database_the_change_is_decided_at_once(desk: Desk, spawn: Spawn) -> None:
    child = spawn("make a right", "--check", CHECK, "--model", desk.script(write(), "Done."), db="none")
    child.expect(r"Publish it as placet/\w+\? y = yes, n = no: ")
    child.sendline("y")

    code, said = ended(child)
    assert code == 0, said
    assert git(desk.repository, "branch", "--list", "placet/*") != ""


def test_a_command_is_said_to_run_as_the_person_in_a_private_copy(desk: Desk, spawn: Spawn) -> None:
    model = desk.script({"calls": [call("shell", command="true")]}, write(), "Done.")
    child = spawn("make a right", "--check", CHECK, "--model", model, "--isolation", "none")

    child.expect("shell wants to run")
    child.expect("not confined: runs as you")
    child.expect("undo: it works in a private copy.*what it does elsewhere stays")
    child.expect(r"Allow it\? .*: ")
    [asked] = desk.run("approvals", "--db", desk.db, "--json").json["approvals"]
    assert (asked["recovery"]["by"], asked["recovery"]["scope"]) == ("copy", "folder")
    child.sendline("n")
    child.expect("Why not")
    child.sendline("")
    child.expect(PUBLISH)
    child.sendline("y")

    assert ended(child)[0] == 0
