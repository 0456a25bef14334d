"""`placet approvals` on what a round of a loop asked: each command knows only what the database holds."""

from __future__ import annotations

import json
import shutil
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

    def keep(self) -> None:
        """Remember all that is here."""
        shutil.copytree(self.folder, self.folder.with_name("kept"), symlinks=True)

    def go_back(self) -> None:
        """Make all as it was then: what led to it need not be done again."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.folder.with_name("kept"), self.folder, symlinks=True)

    def escalate(self, loop: str = LOOP) -> dict[str, Any]:
        """The round that waits."""
        self.put("tidy", loop)
        ran = self.loop("run", "tidy", "--model", self.script(*TURNS), "--json")
        assert ran.code == 4, (ran.out, ran.err)
        found: dict[str, Any] = json.loads(ran.out)
        return found

    def approvals(self, *arguments: str) -> Any:
        """Run `placet approvals`."""
        return self.run("approvals", *arguments, "--db", self.db)

    def waiting(self) -> list[dict[str, Any]]:
        """What can be decided."""
        found: list[dict[str, Any]] = json.loads(self.approvals("list", "--json").out)["approvals"]
        return found


@pytest.fixture
def person(placet: Callable[..., Any], tmp_path: Path, known_isolation: Callable[[Path], None]) -> Person:
    known_isolation(tmp_path / "person" / "data")
    return Person(tmp_path / "person", placet)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `asked` has made."""
    return {"folder": tmp_path_factory.mktemp("asked")}


@pytest.fixture
def asked(
    placet: Callable[..., Any], known_isolation: Callable[[Path], None], scene: dict[str, Any]
) -> tuple[Person, dict[str, Any]]:
    """Somebody whose loop waits for them, and the round that waits. It is run once for all tests."""
    if "person" in scene:
        scene["person"].go_back()
    else:
        folder = scene["folder"] / "person"
        known_isolation(folder / "data")
        person = Person(folder, placet)
        scene["round"] = person.escalate()
        person.keep()
        scene["person"] = person
    return scene["person"], scene["round"]


def test_approving_carries_out_exactly_what_was_shown(asked: tuple[Person, dict[str, Any]]) -> None:
    person, _ = asked
    [question] = person.waiting()
    shown = person.approvals("show", question["id"])
    always = person.approvals("approve", question["id"], "--always")

    done = person.approvals("approve", question["id"], "--by", "ann")
    again = person.approvals("approve", question["id"])

    assert question["tool"] == "loop_commit"
    for words in ("tidy", "verdict", "done", question["parameters"]["tree"], "It is right."):
        assert words in shown.out
    assert always.code == 2
    assert "about one change" in always.err
    assert done.code == 0, done.err
    assert "approved by ann" in done.out
    assert "placet/tidy-1" in done.out
    tree = git(person.repository, "rev-parse", "placet/tidy-1^{tree}").strip()
    assert tree == question["parameters"]["tree"]
    assert again.code == 2
    assert person.waiting() == []


def test_denying_closes_the_round(asked: tuple[Person, dict[str, Any]]) -> None:
    person, round = asked

    done = person.approvals("deny", round["approval"], "--reason", "not now", "--json")

    assert done.code == 0, done.err
    assert json.loads(done.out)["later"][0]["what"] == "denied"
    assert git(person.repository, "branch", "--list", "placet/*") == ""


def test_a_base_that_moved_is_refused_and_can_be_rebased(asked: tuple[Person, dict[str, Any]]) -> None:
    person, round = asked
    (person.repository / "a.txt").write_text("another\n")
    git(person.repository, "commit", "-qam", "moved on")

    refused = person.approvals("approve", round["approval"])
    still = person.waiting()
    rebased = person.approvals("approve", round["approval"], "--rebase", "--model", person.script(*TURNS))
    [anew] = person.waiting()
    done = person.approvals("approve", anew["id"])

    assert refused.code == 3
    assert "no longer applies" in refused.err
    assert "--rebase" in refused.err
    assert [each["id"] for each in still] == [round["approval"]]
    assert rebased.code == 4, rebased.err
    assert anew["id"] != round["approval"]
    assert done.code == 0, done.err
    assert git(person.repository, "show", "placet/tidy-2:a.txt") == "right\n"


HOST = "$(cut -d' ' -f4 /proc/$(cut -d' ' -f4 /proc/$PPID/stat)/stat)"
"""In a command: the process that carries it out. Its parent watches over it, and that one's parent is what
all commands are forked from."""


def _dies(person: Person, level: str) -> tuple[str, Path]:
    """A loop whose act kills the process that carries it out, the first time."""
    ran = person.folder / "ran"
    kill = f"kill -9 {HOST}"
    command = f"echo ran >> {ran}; test -e {ran}.died || {{{{ touch {ran}.died; {kill}; sleep 60; }}}}"
    loop = LOOP.replace('use = "commit"', f'use = "command"\ncommand = "{command}"')
    more = f'level = "{level}"\nallow = ["tidying"]\ngate = "allowlist"'
    return loop.replace('level = "L2"', more), ran


def test_an_act_of_which_nobody_knows_after_an_approval_is_settled(person: Person) -> None:
    loop, ran = _dies(person, "L2")
    round = person.escalate(loop)

    killed = person.approvals("approve", round["approval"])
    again = person.approvals("approve", round["approval"])
    open_still = person.run("resume", round["id"], "--db", person.db)

    assert killed.code not in (0, 1, 2, 3, 4)
    assert (again.code, f"placet resume {round['id']}" in again.err) == (2, True)
    assert open_still.code == 4, open_still.err
    assert "--decide act=done|retry|fail" in open_still.out
    person.keep()
    for choice, runs in (("done", 1), ("retry", 2), ("fail", 1)):
        person.go_back()
        settled = person.run("resume", round["id"], "--decide", f"act={choice}", "--db", person.db)
        twice = person.run("resume", round["id"], "--decide", f"act={choice}", "--db", person.db)
        assert settled.code == (1 if choice == "fail" else 0), (settled.out, settled.err)
        assert ran.read_text() == "ran\n" * runs
        assert (twice.code, "nothing is to be decided" in twice.err) == (2, True)
        later = person.data("show", round["id"])["later"]
        assert later[-1]["what"] == ("failed" if choice == "fail" else "approved")


def test_an_act_of_which_nobody_knows_in_an_unattended_round_is_settled(person: Person) -> None:
    loop, ran = _dies(person, "L3")
    person.put("tidy", loop)

    killed = person.loop("run", "tidy", "--model", person.script(*TURNS))
    taken_up = person.loop("run", "tidy", "--model", person.script(*TURNS), "--json")
    round = json.loads(taken_up.out)

    assert killed.code not in (0, 1, 2, 3, 4)
    assert taken_up.code == 4
    assert f"placet resume {round['id']} --decide act=done|retry|fail" in round["reason"]
    person.keep()
    for choice, runs in (("done", 1), ("retry", 2)):
        person.go_back()
        settled = person.run("resume", round["id"], "--decide", f"act={choice}", "--db", person.db)
        assert settled.code == 0, settled.err
        assert ran.read_text() == "ran\n" * runs
        assert not person.data("show", round["id"])["waiting"]


def test_who_decides_sees_the_change(person: Person) -> None:
    evil = "right\n\x1b[2Jhidden\n" + "".join(f"line {i}\n" for i in range(500))
    write = {"calls": [{"name": "write_file", "arguments": {"path": "a.txt", "text": evil}}]}
    person.put("tidy", LOOP)
    ran = person.loop("run", "tidy", "--model", person.script(write, *TURNS[1:]), "--json")
    round = json.loads(ran.out)

    shown = person.approvals("show", round["approval"])
    data = json.loads(person.approvals("show", round["approval"], "--json").out)
    diff = person.loop("diff", round["id"][:10])
    told = person.loop("show", round["id"])
    as_data = person.data("diff", round["id"])

    assert "-wrong" in shown.out
    assert "+right" in shown.out
    assert "\x1b" not in shown.out + diff.out + data["diff"]
    assert "further lines of the change are not shown here" in shown.out
    assert f"placet loop diff {round['id']}" in shown.out
    assert f"placet loop diff {round['id']}" in told.out
    assert "+line 499" not in shown.out
    assert "+line 499" in diff.out
    assert "+line 499" in data["diff"]
    assert "+line 499" in as_data["diff"]
    assert person.approvals("approve", round["approval"]).code == 0
    after = person.loop("diff", round["id"])
    assert (after.code, "see git show" in after.err) == (0, True)


def test_what_the_person_had_not_committed_is_named_where_it_would_be_committed(person: Person) -> None:
    (person.repository / "secret-plan.txt").write_text("mine\n")
    round = person.escalate(f"include_changes = true\n{LOOP}")

    shown = person.approvals("show", round["approval"])
    done = person.approvals("approve", round["approval"], "--json")

    own = [".placet/loops/tidy.toml", "secret-plan.txt"]
    assert round["included"] == own
    assert "secret-plan.txt" in shown.out
    assert "+mine" in shown.out
    [asked] = json.loads(person.approvals("list", "--all", "--json").out)["approvals"]
    assert asked["parameters"]["also_yours"] == own
    assert "not committed" in asked["parameters"]["would"]
    receipt = json.loads(done.out)["receipt"]
    assert receipt["data"]["files"] == [own[0], "a.txt", own[1]]
    assert "secret-plan.txt" in receipt["summary"]
    files = git(person.repository, "diff", "--name-only", "HEAD", "placet/tidy-1").split()
    assert files == receipt["data"]["files"]


def test_a_rebase_that_dies_is_taken_up_and_goes_no_further_than_the_file_now(
    asked: tuple[Person, dict[str, Any]],
) -> None:
    person, round = asked
    (person.repository / "a.txt").write_text("another\n")
    git(person.repository, "commit", "-qam", "moved on")
    flag = person.folder / "die"
    kill = f"kill -9 {HOST}; sleep 60"
    hook = f"if test -e {flag}; then rm {flag}; {kill}; fi"
    dying = LOOP.replace("[executor]", f'[hooks]\nbefore = "{hook}"\n[executor]')
    person.put("tidy", dying)
    again = person.loop("run", "tidy", "--model", person.script(*TURNS), "--json")
    second = json.loads(again.out)
    flag.touch()
    rebase = ("approve", second["approval"], "--rebase", "--model", person.script(*TURNS))
    (person.repository / "a.txt").write_text("and another\n")
    git(person.repository, "commit", "-qam", "moved on")

    killed = person.approvals(*rebase)
    newest = person.data("log")["rounds"][0]
    other = person.approvals("approve", round["approval"], "--rebase", "--model", person.script(*TURNS))
    taken_up = person.loop("run", "tidy", "--model", person.script(*TURNS), "--json")
    waiting = {each["run_id"] for each in person.waiting()}

    assert killed.code == -9
    assert newest["id"].startswith("round-")
    assert (other.code, "comes first" in other.err) == (2, True)
    assert taken_up.code == 4, taken_up.err
    assert json.loads(taken_up.out)["id"] == newest["id"]
    assert waiting == {round["id"], newest["id"]}
    person.put("tidy", LOOP.replace('"L2"', '"L1"'))
    lowered = person.approvals("approve", round["approval"], "--rebase", "--model", person.script(*TURNS))
    assert lowered.code == 1
    assert "only reports by now" in lowered.out
    assert {each["run_id"] for each in person.waiting()} == waiting


def test_a_loop_is_lowered_by_a_word_and_raised_by_another(person: Person) -> None:
    round = person.escalate(LOOP.replace('level = "L2"', 'level = "L2"\nallow = ["tidying"]'))
    nothing = person.loop("reverse", round["id"], "--reason", "it was wrong")
    assert person.approvals("approve", round["approval"]).code == 0

    early = person.loop("raise", "tidy", "--because", "x")
    reversed = person.data("reverse", round["id"], "--reason", "it was wrong")
    lowered = person.data("show", "tidy")["standing"]
    told = person.loop("show", "tidy").out
    raised = person.loop("raise", "tidy", "--because", "the maker was mended")
    again = person.data("reverse", round["id"], "--reason", "said twice")
    after = person.data("show", "tidy")["standing"]

    assert (nothing.code, "did nothing" in nothing.err) == (2, True)
    assert (early.code, "was not lowered" in early.err) == (2, True)
    assert reversed["later"][-1]["what"] == "reversed"
    assert (reversed["standing"], lowered["level"]) == ("L1", "L1")
    assert "placet loop raise tidy" in told
    assert raised.code == 0, raised.err
    assert (after["level"], after["reason"]) == ("L3", "the maker was mended")
    assert after["by"]
    assert again["standing"] == "L3"
    assert "raised again by" in person.loop("show", "tidy").out
    assert person.loop("run", "tidy", "--model", person.script(*TURNS)).code == 4


def test_what_git_has_removed_is_said_of_the_round_and_can_be_denied(
    asked: tuple[Person, dict[str, Any]],
) -> None:
    person, round = asked
    git(person.repository, "commit", "-q", "--amend", "-m", "another history")
    git(person.repository, "reflog", "expire", "--expire=now", "--all")
    git(person.repository, "gc", "-q", "--prune=now")

    approved = person.approvals("approve", round["approval"])
    still = person.waiting()
    denied = person.approvals("deny", round["approval"], "--reason", "gone")

    assert approved.code == 2, (approved.out, approved.err)
    assert "session" not in approved.err
    assert "placet loop run tidy" in approved.err
    assert len(still) == 1
    assert denied.code == 0, denied.err
    assert person.waiting() == []


def test_the_loop_of_the_guide_comes_to_a_question(person: Person) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "write-a-loop.md").read_text()
    text = page.split('```toml title=".placet/loops/licences.toml"\n', 1)[1].split("```", 1)[0]
    (person.repository / "x.py").write_text("print()\n")
    git(person.repository, "add", "x.py")
    git(person.repository, "commit", "-qm", "a source")
    person.put("licences", text.replace("{", "{{").replace("}", "}}"))
    change = {"path": "x.py", "text": "# Licence: MIT\nprint()\n"}
    write = {"calls": [{"name": "write_file", "arguments": change}], "usage": {"input": 10, "output": 5}}
    turns = [{"text": each, "usage": {"input": 9, "output": 1}} for each in ("made it", "checked")]
    verdict = {**TURNS[2], "usage": {"input": 10, "output": 5}}  # type: ignore[dict-item]

    ran = person.loop(
        "run", "licences", "--model", person.script(write, turns[0], verdict, turns[1]), "--json"
    )

    assert ran.code == 4, (ran.out, ran.err)
    round = json.loads(ran.out)
    assert (round["verified"], [each["passed"] for each in round["checks"]]) == (True, [True])
