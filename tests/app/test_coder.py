"""A coder as the command line puts it together: isolation, trust in a contract, what is told of sessions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from placet.app.app import open_records
from placet.app.coder import find_session, kept_contract, open_coder, session_data
from placet.app.governance import Question
from placet.app.isolation import lower
from placet.app.options import RunOptions
from placet.checks.contract import Check, CheckResult, Contract
from placet.coder.session import Attempt, Iteration, Session
from placet.errors import ModelMissing, PolicyFileError, TrustError, UsageError
from placet.inference.usage import Usage
from placet.render.coding import ending_lines, next_steps, session_lines

CONTRACT = '[[checks]]\ncommand = "true"\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a person whose settings and records are their own."""
    for name in ("DATA", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.delenv("PLACET_DB", raising=False)
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def level_of(project: Path, **options: Any) -> str | None:
    with open_coder(project, RunOptions(**options), db="none", works=False) as app:
        return app.required.level


# What keeps commands in


def test_work_needs_the_kernel_unless_a_person_asks_for_less(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str | None] = []
    monkeypatch.setattr(
        "placet.app.private_work._check", lambda confined, home: checked.append(confined.required)
    )

    for options in ({}, {"isolation": "changes"}, {"isolation": "none"}):
        with pytest.raises(ModelMissing), open_coder(project, RunOptions(**options), db="none"):  # type: ignore[arg-type]
            pass
    lower(project, "changes", os.environ, for_s=60, because="a test")
    with pytest.raises(ModelMissing), open_coder(project, db="none"):
        pass

    # With "none" nothing can be missing, so nothing is checked.
    assert checked == ["process", "changes", "changes"]


def test_nobody_asks_for_less_than_the_settings_require(project: Path) -> None:
    (project / ".placet").mkdir()
    (project / ".placet/settings.toml").write_text('[isolation]\nrequire = "process"\n')

    with pytest.raises(UsageError, match="--isolation none is less than 'process'"):
        level_of(project, isolation="none")


def test_whoever_only_decides_needs_neither_a_model_nor_isolation(project: Path) -> None:
    assert level_of(project) is None


def test_what_a_project_brings_is_not_loaded(project: Path) -> None:
    (project / ".placet").mkdir()
    (project / ".placet/settings.toml").write_text('tools = "tools.py"\n')
    (project / ".placet/tools.py").write_text("raise SystemExit('loaded')\n")

    assert level_of(project) is None


# The contract


def test_a_contract_that_a_project_brings_is_asked_about_once(project: Path) -> None:
    (project / ".placet").mkdir()
    (project / ".placet/contract.toml").write_text(CONTRACT)
    asked: list[Question] = []

    def yes(question: Question) -> bool:
        asked.append(question)
        return True

    with pytest.raises(TrustError, match="runs the checks of"):
        kept_contract(project, os.environ, None, description="x")
    with pytest.raises(TrustError):
        kept_contract(project, os.environ, lambda question: False, description="x")
    first = kept_contract(project, os.environ, yes, description="x")
    again = kept_contract(project, os.environ, None, description="x")

    assert first == again == Contract(description="x", checks=(Check(name="true", command="true"),))
    assert [question.wants for question in asked] == [("runs the checks of .placet/contract.toml",)]
    (project / ".placet/contract.toml").write_text(CONTRACT + 'output_contains = "x"\n')
    with pytest.raises(TrustError, match="has changed since you trusted it"):
        kept_contract(project, os.environ, None, description="x")


def test_a_contract_is_read_without_following_links_and_told_what_is_wrong(project: Path) -> None:
    assert kept_contract(project, os.environ, None, description="x") is None
    (project / ".placet").mkdir()
    file = project / ".placet/contract.toml"
    file.write_text("checks = 5\n")
    with pytest.raises(PolicyFileError, match="Contract file"):
        kept_contract(project, os.environ, None, description="x")
    file.unlink()
    file.symlink_to("/etc/hostname")
    with pytest.raises(TrustError, match="is a link"):
        kept_contract(project, os.environ, None, description="x")
    file.unlink()
    file.mkdir()
    with pytest.raises(PolicyFileError, match="it is no plain file"):
        kept_contract(project, os.environ, None, description="x")


# What is told


def a_session(**more: Any) -> Session:
    red = CheckResult(
        name="true", command="true", passed=False, why="it ended with exit code 1", output="no\n"
    )
    iteration = Iteration(
        number=1,
        run_id="s1.1.1",
        status="success",
        summary="I tried.",
        turns=2,
        usage=Usage(input=10, output=2),
        cost_usd=0.5,
        tree="f00d",
        results=[red],
        is_judged=True,
    )
    made: dict[str, Any] = {
        "id": "s1",
        "intent": "make it\nright",
        "repository": "/home/ann/it",
        "state": "running",
        "contract": Contract(description="", checks=(Check(name="true", command="true"),)),
        "attempts": [Attempt(number=1, iterations=[iteration])],
    }
    return Session(**{**made, **more})


@pytest.mark.parametrize(
    ("state", "run_status", "words", "commands"),
    [
        ("contract_proposed", "waiting", "contract to confirm", ["show", "approve", "resume", "deny"]),
        ("running", "running", "running", ["cancel"]),
        ("running", "interrupted", "stopped", ["resume", "cancel"]),
        ("running", "waiting", "waits for a person", ["approvals list --run s1.1.1", "resume", "cancel"]),
        ("needs_approval", "waiting", "green, to approve", ["diff", "approve", "deny"]),
        ("merged", "succeeded", "published", ["git -C /home/ann/it show", "git -C /home/ann/it merge"]),
        ("failed", "partial", "failed", ["diff", "show"]),
        ("abandoned", "partial", "abandoned", ["diff", "show"]),
    ],
)
def test_every_state_has_words_and_a_next_step(
    project: Path, state: Any, run_status: str, words: str, commands: list[str]
) -> None:
    data = session_data(a_session(state=state, branch="placet/s1"), run_status=run_status)

    steps = next_steps(data, "kept.db")

    assert [wanted in step.command for wanted, step in zip(commands, steps, strict=True)] == [True] * len(
        steps
    )
    assert all(step.command.endswith("--db kept.db") for step in steps if step.command.startswith("placet"))
    assert words in next(iter(session_lines(data))).plain
    assert words in next(ending_lines(data, db=None, is_kept=True))


def test_a_session_is_told_with_its_checks_and_iterations(project: Path) -> None:
    told = "\n".join(line.plain for line in session_lines(session_data(a_session())))

    assert "make it right" in told
    assert "1 iteration, 12 tokens, $0.5000" in told
    assert "✗ true: red, it ended with exit code 1" in told
    assert "│ no" in told
    assert "iteration 1: red: true (2 turns, 12 tokens)" in told
    assert "“ I tried." in told


@pytest.mark.parametrize(("candidates", "is_told"), [(3, True), (1, False)])
def test_the_end_says_which_of_several_was_first(project: Path, candidates: int, is_told: bool) -> None:
    session = a_session(state="needs_approval", candidates=candidates, winner=1)

    told = next(ending_lines(session_data(session, run_status="waiting"), db=None, is_kept=True))

    assert (f"(attempt 1 of {candidates} was green first, 1 iteration" in told) == is_told
    assert ("was green first" in told) == is_told


def test_a_session_is_found_by_its_beginning_and_by_its_runs_and_nothing_else_is(project: Path) -> None:
    with open_records("kept.db", create=True, writes=True) as records:
        with pytest.raises(UsageError, match="There is no coding session 's'"):
            find_session(records, "s")
        records.sessions.put(a_session())
        records.sessions.put(a_session(id="s2"))

        assert find_session(records, "s1").id == "s1"
        with pytest.raises(UsageError, match="Several"):
            find_session(records, "s")
