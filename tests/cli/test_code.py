"""`placet code` with a scripted model, real git, real checks in the real sandbox, where nobody is asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import environment, warm_command
from tests.coder.workbench import git, make_repository

CHECK = "grep -q right a.txt"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def write(path: str = "a.txt", text: str = "right\n") -> dict[str, Any]:
    return {"calls": [call("write_file", path=path, text=text)]}


class Desk:
    """A person in their repository, with a database and state of their own."""

    def __init__(self, folder: Path, placet: Callable[..., Any]) -> None:
        self.folder = folder
        self.repository = make_repository(folder / "repository", {"a.txt": "wrong\n", "b.txt": "b\n"})
        self.db = str(folder / "kept.db")
        self.state = {"XDG_STATE_HOME": str(folder / "state")}
        self._placet = placet
        self.started: list[subprocess.Popen[bytes]] = []

    def script(self, *turns: Any, name: str = "script.json") -> str:
        """A scripted model that answers with these turns."""
        (self.folder / name).write_text(json.dumps({"turns": turns}))
        return f"scripted:{self.folder / name}"

    def code(self, *arguments: str, db: str | None = None, **options: Any) -> Any:
        """Run `placet code`."""
        return self.run("code", *arguments, "--db", db or self.db, **options)

    def run(self, *arguments: str, cwd: Path | None = None, **more: str) -> Any:
        """Run `placet`."""
        return self._placet(*arguments, cwd=cwd or self.repository, **self.state, **more)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start `placet code` and leave it running."""
        process = subprocess.Popen(
            warm_command("code", *arguments, "--db", self.db),
            cwd=self.repository,
            env=environment(**self.state),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.started.append(process)
        return process

    def session(self) -> Any:
        """The newest session."""
        return self.code("list", "--json").json["sessions"][0]

    def looks(self) -> tuple[str, ...]:
        """All that a session must leave alone: files, index, refs, settings."""
        return (
            git(self.repository, "status", "--porcelain"),
            git(self.repository, "for-each-ref"),
            git(self.repository, "ls-files", "--stage"),
            git(self.repository, "config", "--list", "--local"),
            (self.repository / "a.txt").read_text(),
        )


@pytest.fixture
def desk(tmp_path: Path, placet: Callable[..., Any]) -> Iterator[Desk]:
    made = Desk(tmp_path, placet)
    yield made
    for process in made.started:
        process.kill()
        process.communicate()


def wait_for(found: Callable[[], Any], running: subprocess.Popen[bytes]) -> Any:
    """What is found in the end; fails if the process ends before."""
    for _ in range(600):
        if value := found():
            return value
        assert running.poll() is None, running.communicate()
        time.sleep(0.05)
    raise AssertionError("it never came")


def no_steering(done: Any) -> bool:
    return not set(done.out + done.err) & {"\x1b", "\x07", "\x9b", "\r"}


# From the intent to the branch


def test_a_change_is_checked_shown_approved_and_published(desk: Desk) -> None:
    before = desk.looks()
    model = desk.script(
        {"text": "I try.", **write(text="left\n"), "usage": {"input": 1200, "output": 30}},
        "It says left now.",
        write(),
        "The word was wrong.",
    )

    done = desk.code("make a right", "--check", CHECK, "--model", model)

    assert done.code == 4
    assert "-wrong\n+right\n" in done.out
    steps = [
        "1. grep: `grep -q right a.txt`",
        "── the checks, before any work",
        "✗ grep: red",
        "── iteration 1 of 8",
        "“ I try.",
        "→ write_file path=a.txt",
        "── iteration 2 of 8",
        "✓ grep: green",
        "? green, to approve",
    ]
    places = [done.err.index(step) for step in steps]
    assert places == sorted(places)
    assert "1,230 tokens" in done.err
    assert desk.looks() == before

    id = desk.session()["id"]
    shown = desk.code("show", id[:5]).out
    assert "iteration 1: red: grep" in shown
    assert "iteration 2: green" in shown
    assert f"placet code approve {id} --db {desk.db}" in shown
    assert desk.code("diff", id).out == done.out
    assert desk.code("diff", id, "--raw").out == done.out
    assert desk.code("diff", id, "--json").json["diff"] == done.out

    approved = desk.code("approve", id[:5])
    assert approved.code == 0
    assert f"published as placet/{id}" in approved.err
    assert git(desk.repository, "show", f"placet/{id}:a.txt") == "right\n"
    assert git(desk.repository, "log", "--format=%s", f"main..placet/{id}") == "make a right\n"
    again = desk.code("approve", id)
    assert (again.code, "nothing to approve" in again.err) == (2, True)

    # What helped is remembered, shared and forgotten.
    [kept] = desk.code("repairs", "--json").json["repairs"]
    assert kept["approach"] == "The word was wrong."
    assert desk.code("repairs", "--export", "../repairs.json").code == 0
    other = str(desk.folder / "other.db")
    assert desk.code("repairs", "--import", "../repairs.json", "--json", db=other).json == {"brought_in": 1}
    assert desk.code("repairs", "--import", "../repairs.json", "--json", db=other).json == {"brought_in": 0}
    assert desk.code("repairs", "--forget", kept["id"][:6], db=other).code == 0
    assert "Nothing is remembered" in desk.code("repairs", db=other).err

    # Its runs lead to the session.
    resumed = desk.run("resume", f"{id}.1.1", "--db", desk.db)
    assert resumed.code == 2
    assert f"placet code resume {id}" in resumed.err
    assert f"placet code resume {id}" in desk.run("runs", "show", id, "--db", desk.db).out
    assert "coder: make a right" in desk.run("runs", "--db", desk.db).out
    assert desk.code("show", f"{id}.1.1", "--json").json["id"] == id


def test_yes_publishes_without_asking_and_the_result_is_one_json_object(desk: Desk) -> None:
    model = desk.script(write(), "Done.")

    options = ["--check", CHECK, "--model", model, "--repo", str(desk.repository)]
    done = desk.code("run", "make a right", *options, "--yes", "--json", cwd=desk.folder)

    assert done.code == 0
    assert done.json["state"] == "merged"
    assert done.json["branch"] == f"placet/{done.json['id']}"
    assert git(desk.repository, "rev-parse", done.json["branch"]).strip() == done.json["commit"]
    assert [check["passed"] for check in done.json["checks"]] == [True]
    assert done.json["attempts"][0]["iterations"][0]["summary"] == "Done."
    assert [each["id"] for each in desk.code("list", "--state", "merged", "--json").json["sessions"]] == [
        done.json["id"]
    ]
    assert desk.code("list", "--state", "failed", "--json").json == {"sessions": [], "elsewhere": 0}
    assert desk.code("resume", done.json["id"]).code == 0


def test_without_a_database_a_change_is_published_at_once_or_not_begun(desk: Desk) -> None:
    model = desk.script(write(), "Done.")

    refused = desk.code("make a right", "--check", CHECK, "--model", model, db="none")
    drafting = desk.code("make a right", "--model", model, "--yes", db="none")
    done = desk.code("make a right", "--check", CHECK, "--model", model, "--yes", db="none")

    assert (refused.code, "--yes" in refused.err, "iteration" in refused.err) == (2, True, False)
    assert (drafting.code, "--check" in drafting.err) == (2, True)
    assert done.code == 0
    assert "placet/" in git(desk.repository, "branch", "--list", "placet/*")


def test_a_failed_session_says_why_and_a_green_beginning_is_no_work(desk: Desk) -> None:
    before = desk.looks()
    model = desk.script(*[turn for _ in range(2) for turn in (write(text="left\n"), "Done, surely.")])

    failed = desk.code("make a right", "--check", CHECK, "--model", model, "--max-iterations", "2")
    green = desk.code("nothing", "--check", "true", "--model", model, "--events")

    assert (failed.code, failed.out) == (1, "")
    assert "✗ failed: 2 iterations were not enough" in failed.err
    assert (
        "-wrong\n+left\n"
        in desk.code("diff", desk.code("list", "--state", "failed", "--json").json["sessions"][0]["id"]).out
    )
    assert green.code == 1
    told = [json.loads(line) for line in green.out.splitlines()]
    assert [each["event"] for each in told] == [
        "state", "baseline", "check_started", "check_completed", "state", "ended"
    ]  # fmt: skip
    assert told[-1]["session"]["state"] == "abandoned"
    assert "--even-if-green" in green.err
    assert desk.looks() == before


def test_a_refused_change_is_not_published(desk: Desk) -> None:
    model = desk.script(write(), "Done.")
    desk.code("make a right", "--check", CHECK, "--model", model)
    id = desk.session()["id"]

    denied = desk.code("deny", id, "--reason", "too short", "--json")
    resumed = desk.code("resume", id)
    cancelled = desk.code("cancel", id)

    assert (denied.code, denied.json["state"], denied.json["reason"]) == (0, "abandoned", "denied: too short")
    assert resumed.code == 1
    assert "It had ended already" in resumed.err
    assert (resumed.out, "is abandoned" in cancelled.err) == ("", True)
    assert (cancelled.code, "has ended" in cancelled.err) == (2, True)
    assert git(desk.repository, "branch", "--list", "placet/*") == ""


# What it begins with


def test_uncommitted_changes_are_left_out_unless_they_are_wanted(desk: Desk) -> None:
    (desk.repository / "b.txt").write_text("mine\n")
    model = desk.script(write(), "Done.")
    checks = ["--check", f"{CHECK} && grep -q mine b.txt"]

    without = desk.code("x", *checks, "--model", model, "--max-iterations", "1")
    with_them = desk.code("x", *checks, "--model", model, "--include-changes", "--json")

    assert without.code == 1
    assert "Note: 1 file has changes that are not committed" in without.err
    assert with_them.code == 4
    assert with_them.json["includes_changes"] is True
    assert (desk.repository / "b.txt").read_text() == "mine\n"
    assert git(desk.repository, "status", "--porcelain") == " M b.txt\n"


def test_whoever_approves_sees_their_own_changes_that_go_into_the_commit(desk: Desk) -> None:
    (desk.repository / "b.txt").write_text("mine\n")
    (desk.repository / "new.txt").write_text("new\n")
    own = "Your own 2 uncommitted files go into the commit: b.txt, new.txt."

    done = desk.code("x", "--check", CHECK, "--model", desk.script(write(), "Done."), "--include-changes")
    id = desk.session()["id"]
    shown, part, whole = desk.code("show", id), desk.code("diff", id), desk.code("diff", id, "--whole")
    approved = desk.code("approve", id)

    assert own in done.err
    assert {"+right", "+mine", "+new"} <= set(done.out.splitlines())
    assert f"placet code diff {id} --whole" in done.err
    assert own in shown.out
    assert ("+right" in part.out, "+mine" in part.out, own in part.err) == (True, False, True)
    assert whole.out == done.out
    assert desk.code("diff", id, "--json").json["included"] == ["b.txt", "new.txt"]
    assert own.replace("go into", "went into") in approved.err
    # What is advised works with the changes still lying there.
    top = desk.repository
    assert f"--raw --db {desk.db} | git -C {top} apply" in approved.err
    (desk.folder / "raw.diff").write_text(desk.code("diff", id, "--raw").out)
    git(top, "apply", str(desk.folder / "raw.diff"))
    assert (top / "a.txt").read_text() == "right\n"
    git(top, "checkout", "a.txt")
    assert "first commit your own changes" in approved.err
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "mine")
    git(top, "merge", "-q", "--no-edit", f"placet/{id}")
    assert [(top / name).read_text() for name in ("a.txt", "b.txt", "new.txt")] == [
        "right\n",
        "mine\n",
        "new\n",
    ]


def test_the_contract_of_a_repository_waits_for_trust(desk: Desk) -> None:
    (desk.repository / ".placet").mkdir()
    (desk.repository / ".placet/contract.toml").write_text(
        f'[[checks]]\nname = "word"\ncommand = "{CHECK}"\n'
    )
    own = {"XDG_DATA_HOME": str(desk.folder / "data")}
    model = desk.script(write(), "Done.")

    refused = desk.code("make a right", "--model", model, **own)
    desk.run("trust", ".", "--yes", **own)
    done = desk.code("make a right", "--model", model, "--json", "--allow", "b.txt", **own)

    assert (refused.code, "word" in refused.err) == (2, False)
    assert "placet trust" in refused.err
    assert done.code == 4
    assert "1. word: `grep -q right a.txt`" in done.err
    assert done.json["contract"]["description"] == "make a right"
    assert done.json["contract"]["may_touch"] == ["b.txt"]


def test_a_drafted_contract_is_confirmed_by_a_person_and_never_by_yes(desk: Desk) -> None:
    contract = {"description": "the word", "checks": [{"name": "word", "command": CHECK}]}
    drafts = desk.script(json.dumps(contract))

    drafted = desk.code("make a right", "--model", drafts, "--yes")

    assert drafted.code == 4
    id = desk.session()["id"]
    assert f"placet code approve {id}" in drafted.err
    assert f"1. word: `{CHECK}`" in drafted.err
    assert f"placet code show {id}" in drafted.err
    assert f"placet code show {id}" not in desk.code("show", id).out
    assert "`grep -q right a.txt`" in desk.code("show", id).out
    confirmed = desk.code("approve", id)
    assert (confirmed.code, f"To work on it: placet code resume {id}" in confirmed.err) == (0, True)
    assert confirmed.err.startswith("✓ contract confirmed\n")
    assert "Nothing was checked yet." in desk.code("diff", id).err
    assert "contract confirmed" in desk.code("list", "--state", "contract confirmed").out
    done = desk.code("resume", id, "--model", desk.script(write(), "Done.", name="works.json"), "--yes")
    assert done.code == 0
    assert git(desk.repository, "show", f"placet/{id}:a.txt") == "right\n"


def test_a_check_that_cannot_run_here_is_an_error_before_any_model_is_asked(desk: Desk) -> None:
    tools = desk.folder / "tools"
    tools.mkdir()
    here = {"PATH": f"{tools}:{os.environ['PATH']}"}
    unasked = desk.script(name="none.json")
    check = ("--check", "looks-right a.txt", "--allow", "a.txt", "--isolation", "none")

    broken = desk.code("x", *check, "--model", unasked, **here)
    as_json = desk.code("x", *check, "--model", unasked, "--json", **here)
    id = desk.code("list", "--json").json["sessions"][-1]["id"]
    (tools / "looks-right").write_text('#!/bin/sh\ngrep -q right "$1"\n')
    (tools / "looks-right").chmod(0o755)
    resumed = desk.code("resume", id, "--model", desk.script(write(), "Done."), "--yes", **here)

    assert broken.code == as_json.code == 2
    assert "'looks-right'" in broken.err
    assert f"placet code resume {id} --db {desk.db}" in broken.err
    assert as_json.json["error"]["code"] == "environment"
    assert resumed.code == 0, resumed.err


def test_candidates_are_told_apart_and_one_of_them_wins(desk: Desk) -> None:
    model = desk.script(write(), write(), "Done.", "Done.")

    done = desk.code("make a right", "--check", CHECK, "--model", model, "--candidates", "2", "--json")

    assert done.code == 4, done.err
    assert len(done.json["attempts"]) == 2
    assert done.json["winner"] in (1, 2)
    assert "[1] ── iteration 1 of 8" in done.err
    # Which of them takes which turn of the script is a matter of chance.
    assert "[2] ── iteration 1 of 8" in done.err
    assert "→ write_file path=a.txt" in done.err


def test_a_command_that_is_not_confined_for_sure_waits_for_an_approval(desk: Desk) -> None:
    model = desk.script({"calls": [call("shell", command="echo right > a.txt")]})

    waits = desk.code("make a right", "--check", CHECK, "--model", model, "--isolation", "changes")

    assert waits.code == 4
    id = desk.session()["id"]
    assert "? waits for a person (" in waits.err
    assert f"placet approvals list --run {id}.1.1" in waits.err
    [asked] = desk.run("approvals", "--run", f"{id}.1.1", "--db", desk.db, "--json").json["approvals"]
    desk.run("approvals", "approve", asked["id"], "--db", desk.db)
    done = desk.code("resume", id, "--model", desk.script("Done.", name="rest.json"), "--yes")
    assert done.code == 0, done.err
    assert git(desk.repository, "show", f"placet/{id}:a.txt") == "right\n"


def test_sessions_are_listed_by_the_words_that_people_see(desk: Desk) -> None:
    desk.code("x", "--check", CHECK, "--model", desk.script(write(), "Done."), "--yes")

    by_word, by_name, others, wrong = (
        desk.code("list", "--state", word) for word in ("Published", "merged", "green, to approve", "done")
    )

    assert by_word.out == by_name.out
    [heading, row] = by_word.out.splitlines()
    assert "✓ published" in row
    # The script does not say how many tokens it took.
    assert row[: heading.index("tokens") + 6].endswith(" ?")
    assert desk.session()["tokens"] is None
    assert (others.out, "No coding session" in others.err) == ("", True)
    assert (wrong.code, "'published' (merged)" in wrong.err) == (2, True)


def test_an_id_is_listed_whole_however_narrow_the_list_is(desk: Desk) -> None:
    desk.code(
        "a long intent that wants much room", "--check", CHECK, "--model", desk.script(write(), "Done.")
    )
    id = desk.session()["id"]

    narrow = desk.run("code", "list", "--db", desk.db, COLUMNS="50")

    assert narrow.out.splitlines()[1].split()[0] == id


def test_a_small_model_that_does_not_do_it_is_not_the_last_word(desk: Desk) -> None:
    model = desk.script("I do not know.")

    failed = desk.code("x", "--check", CHECK, "--model", model, "--style", "small", "--max-iterations", "1")

    assert failed.code == 1
    assert "A larger model may go further: begin again with --model." in failed.err
    assert "To see what was changed last" not in failed.err


def test_ended_sessions_are_dropped_with_their_folders(desk: Desk) -> None:
    desk.code("a", "--check", CHECK, "--model", desk.script(write(), "Done."), "--yes", "--keep")
    ended = desk.session()["id"]
    desk.code("b", "--check", CHECK, "--model", desk.script(write(), "Done."))
    waits = desk.session()["id"]
    folders = desk.folder / "state/placet/code"
    assert {each.name for each in folders.iterdir()} == {ended, waits}

    early, done = desk.code("prune", "--before", "1d"), desk.code("prune", "--before", "0s", "--json")

    assert "No session ended before that." in early.err
    assert done.json == {"dropped": 1}
    assert [each["id"] for each in desk.code("list", "--json").json["sessions"]] == [waits]
    assert {each.name for each in folders.iterdir()} == {waits}
    assert desk.code("approve", waits).code == 0
    assert git(desk.repository, "show", f"placet/{ended}:a.txt") == "right\n"


# Bad input


def test_bad_input_is_said_in_words(desk: Desk) -> None:
    (desk.folder / "plan.json").write_text('{"id": "p", "source": "t", "actions": []}')
    desk.run("run", "../plan.json", "--run-id", "r1", "--db", desk.db)
    cases = [
        (["x", "--check", ""], "checks[0].command: it is empty"),
        (["x", "--check", "true", "--candidates", "0"], "--candidates"),
        (["x", "--allow", "b.txt"], "--check"),
        (["x", "--check", "true", "--allow", "../b"], "may_touch[0]"),
        (["x", "--check", "true", "--events", "--json"], "Give one of them"),
        (["x", "--check", "true", "--repo", ".."], "is in no git repository"),
        (["x", "--check", "true", "--repo", "nowhere"], "There is no folder nowhere"),
        (["  ", "--check", "true"], "There is no intent"),
        (["fix", "the", "bug"], "placet code 'fix the bug'"),
        (["shwo", "id"], "Did you mean 'show'?"),
        (["show", "nope"], "There is no coding session 'nope'"),
        (["resume", "nope"], "There is no coding session 'nope'"),
        (["answer", "nope", "yes"], "nope"),
        (["show", "r1"], "'r1' is a run of another kind"),
        (["repairs", "--import", "a.txt"], "the repairs"),
        (["repairs", "--forget", "abc"], "None begins with 'abc'"),
        (["deny", "x", "--reason", "\udcff"], "no text in UTF-8"),
        (["show", "\udcff"], "no text in UTF-8"),
    ]

    for arguments, words in cases:
        done = desk.code(*arguments)

        assert (done.code, words in done.err + done.out) == (2, True), (arguments, done)
        assert "Traceback" not in done.err

    # An intent that is the name of a command, and not the command.
    assert "checks[0]" in desk.run("code", "--check", "", "--", "list").err


def test_a_repository_without_commits_and_a_wrong_contract_file_are_told(desk: Desk) -> None:
    empty = desk.folder / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    (desk.repository / ".placet").mkdir()
    (desk.repository / ".placet/contract.toml").write_text('[[checks]]\ncommmand = "true"\n')

    without = desk.code("x", "--check", "true", cwd=empty)
    wrong = desk.code("x")

    assert (without.code, "no commit yet" in without.err) == (2, True)
    assert wrong.code == 2
    assert "contract.toml" in wrong.err
    assert "commmand" in wrong.err


def test_no_text_of_others_steers_a_terminal(desk: Desk) -> None:
    bad = "\x1b]0;mine\x07\x1b[31m\x9b2J\r"
    model = desk.script(
        {"text": f"words {bad}", **write(path="c\x1b[1m.txt", text=f"{bad}\n")},
        {"calls": [call(f"no{bad}")]},
        {"text": f"end {bad}", **write()},
        f"closing {bad}",
    )

    done = desk.code(
        f"make {bad} right", "--check", f"printf '\\033[31mred\\007\\n'; {CHECK}", "--model", model
    )

    assert done.code == 4, done.err
    id = desk.session()["id"]
    everything = [
        done,
        desk.code("list"),
        desk.code("show", id),
        desk.code("diff", id),
        desk.run("runs", "--db", desk.db),
    ]
    assert all(map(no_steering, everything))
    assert "\\e[31mred\\x07" in done.err
    assert "\x1b" in desk.code("diff", id, "--raw").out


# While it goes on


def test_a_question_is_answered_from_elsewhere(desk: Desk) -> None:
    model = desk.script({"calls": [call("ask_user", question="Which word?")]}, write(), "Done.")
    running = desk.start("make a right", "--check", CHECK, "--model", model, "--ask-for", "60s", "--yes")

    id = wait_for(lambda: (desk.folder / "kept.db").exists() and _asked(desk), running)
    assert "? asks you something" in desk.code("list").out
    answered = desk.code("answer", id, "right", "--json")
    _, err = running.communicate(timeout=60)

    assert (answered.code, answered.json["answer"]) == (0, "right")
    assert running.returncode == 0, err
    assert b"? it asks: Which word?" in err
    assert "✓ ask_user: right" in err.decode()


def _asked(desk: Desk) -> str | None:
    listed = desk.code("list", "--json")
    if listed.code != 0:
        return None  # The tables are being made.
    return next((each["id"] for each in listed.json["sessions"] if each["questions"]), None)


def test_ctrl_c_keeps_everything_and_resume_goes_on(desk: Desk) -> None:
    model = desk.script({"text": "I wait.", "calls": [call("shell", command="touch begun; sleep 60")]})
    running = desk.start("make a right", "--check", CHECK, "--model", model)
    wait_for(lambda: list(desk.folder.glob("state/placet/code/*/attempt-1/begun")), running)

    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)

    assert running.returncode == 130, err
    id = desk.session()["id"]
    assert f"placet code resume {id} --db {desk.db}" in err.decode()
    assert "■ stopped" in desk.code("show", id).out
    done = desk.code("resume", id[:6], "--model", desk.script(write(), "Done.", name="rest.json"), "--json")
    assert (done.code, done.json["state"]) == (4, "needs_approval")
    assert done.json["iterations"] == 1


def test_a_session_is_ended_from_elsewhere(desk: Desk) -> None:
    running = desk.start("x", "--check", "sleep 60", "--model", desk.script("x"))
    folder = wait_for(lambda: list(desk.folder.glob("state/placet/code/*/exports/*/files/a.txt")), running)[0]
    id = folder.relative_to(desk.folder / "state/placet/code").parts[0]

    held = desk.code("resume", id)
    cancelled = desk.code("cancel", id, "--reason", "enough")
    _, err = running.communicate(timeout=60)

    assert (held.code, "work" in held.err) == (2, True)
    assert cancelled.code == 0
    assert running.returncode == 1, err
    assert "abandoned: cancelled: enough" in err.decode()


def test_a_session_that_waits_is_ended_for_good_as_any_run_is_stopped(desk: Desk) -> None:
    desk.code("make a right", "--check", CHECK, "--model", desk.script(write(), "Done."))
    id = desk.session()["id"]

    stopped, again = (desk.run("runs", "cancel", id, "--db", desk.db) for _ in range(2))

    assert (stopped.code, "ended for good" in stopped.err) == (0, True)
    assert desk.session()["state"] == "abandoned"
    assert (again.code, f"placet runs show {id}" in again.err) == (1, True)


def test_a_limit_on_money_needs_a_price(desk: Desk) -> None:
    model = ["--model", "openai:gpt-of-nobody"]

    done = desk.code("x", "--check", CHECK, "--max-cost", "1", *model, OPENAI_API_KEY="sk-none")

    assert done.code == 2
    assert "The price of 'openai:gpt-of-nobody' is not known, so --max-cost cannot be kept" in done.err
    assert "iteration" not in done.err


# What is recorded of it


def test_a_session_is_told_as_a_story_and_its_events_say_what_happened(desk: Desk) -> None:
    model = desk.script(write(text="left\n"), "It says left now.", write(), "The word was wrong.")
    desk.code("make a right", "--check", CHECK, "--model", model)
    id = desk.session()["id"]

    waiting = desk.run("explain", id, "--db", desk.db)
    desk.code("approve", id)
    told = desk.run("explain", id, "--db", desk.db)
    events = desk.run("log", "show", id, "--db", desk.db).out
    turns = desk.run("explain", f"{id}.1.1", "--db", desk.db)

    assert f"placet code approve {id} --db {desk.db}" in waiting.out
    steps = [
        f"Coding session {id}",
        "Intent: make a right",
        f"✓ published as placet/{id}",
        f"1. grep: `{CHECK}`",
        "Before any work:",
        "✗ grep: red, it ended with exit code 1",
        f"Iteration 1 of 8 (its turns: placet explain {id}.1.1 --db {desk.db})",
        "→ red: 'grep' (2 turns)",
        "Iteration 2 of 8",
        "✓ grep: green",
        "All checks are green",
        "taken up again",
        f"✓ It was published as placet/{id}",
        f"git -C {desk.repository} merge placet/{id}",
    ]
    places = [told.out.find(step) for step in steps]
    assert -1 not in places, told.out
    assert places == sorted(places), told.out
    assert not [word for word in ("proposal ''", "nothing to go on from", "broken off") if word in told.out]
    assert "It says left now." in turns.out
    as_data = desk.run("explain", id, "--db", desk.db, "--json").json
    assert (as_data["coding"]["state"], as_data["coding"]["intent"]) == ("merged", "make a right")
    for words in ("coding started", f"grep; {CHECK}", "grep: red", "grep: green", "green, to approve"):
        assert words in events, events
    assert f"placet/{id} (" in events
