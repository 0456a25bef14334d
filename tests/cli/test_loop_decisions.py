"""`assent approvals` on what a round of a loop asked: each command knows only what the database holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_loop import Desk
from tests.coder.workbench import git

LOOP = """
intent = "keep a.txt right"
level = "L2"
kind = "tidying"
isolation = "none"
[maker]
prompt = "Write right into a.txt."
[[checks]]
name = "right"
command = "grep -q right a.txt"
[executor]
use = "commit"
"""
TURNS = (
    {"calls": [{"name": "write_file", "arguments": {"path": "a.txt", "text": "right\n"}}]},
    "made it",
    {"calls": [{"name": "give_verdict", "arguments": {"verdict": "done", "summary": "It is right."}}]},
    "checked",
)


class Person(Desk):
    """Somebody whose loop has asked them something."""

    def escalate(self) -> dict[str, Any]:
        """The round that waits."""
        self.put("tidy", LOOP)
        ran = self.loop("run", "tidy", "--model", self.script(*TURNS), "--json")
        assert ran.code == 4, (ran.out, ran.err)
        found: dict[str, Any] = json.loads(ran.out)
        return found

    def approvals(self, *arguments: str) -> Any:
        """Run `assent approvals`."""
        return self.run("approvals", *arguments, "--db", self.db)

    def waiting(self) -> list[dict[str, Any]]:
        """What can be decided."""
        found: list[dict[str, Any]] = json.loads(self.approvals("list", "--json").out)["approvals"]
        return found


@pytest.fixture
def person(assent: Callable[..., Any], tmp_path: Path) -> Person:
    return Person(tmp_path, assent)


def test_approving_carries_out_exactly_what_was_shown(person: Person) -> None:
    person.escalate()
    [asked] = person.waiting()
    shown = person.approvals("show", asked["id"])
    always = person.approvals("approve", asked["id"], "--always")

    done = person.approvals("approve", asked["id"], "--by", "ann")
    again = person.approvals("approve", asked["id"])

    assert asked["tool"] == "loop_commit"
    for words in ("tidy", "verdict", "done", asked["parameters"]["tree"], "It is right."):
        assert words in shown.out
    assert always.code == 2
    assert "about one change" in always.err
    assert done.code == 0, done.err
    assert "approved by ann" in done.out
    assert "assent/tidy-1" in done.out
    tree = git(person.repository, "rev-parse", "assent/tidy-1^{tree}").strip()
    assert tree == asked["parameters"]["tree"]
    assert again.code == 2
    assert person.waiting() == []


def test_denying_closes_the_round(person: Person) -> None:
    person.escalate()
    [asked] = person.waiting()

    done = person.approvals("deny", asked["id"], "--reason", "not now", "--json")

    assert done.code == 0, done.err
    assert json.loads(done.out)["later"][0]["what"] == "denied"
    assert git(person.repository, "branch", "--list", "assent/*") == ""


def test_a_base_that_moved_is_refused_and_can_be_rebased(person: Person) -> None:
    person.escalate()
    [asked] = person.waiting()
    (person.repository / "a.txt").write_text("another\n")
    git(person.repository, "commit", "-qam", "moved on")

    refused = person.approvals("approve", asked["id"])
    still = person.waiting()
    rebased = person.approvals("approve", asked["id"], "--rebase", "--model", person.script(*TURNS))
    [anew] = person.waiting()
    done = person.approvals("approve", anew["id"])

    assert refused.code == 3
    assert "no longer applies" in refused.err
    assert "--rebase" in refused.err
    assert [each["id"] for each in still] == [asked["id"]]
    assert rebased.code == 4, rebased.err
    assert anew["id"] != asked["id"]
    assert done.code == 0, done.err
    assert git(person.repository, "show", "assent/tidy-2:a.txt") == "right\n"
