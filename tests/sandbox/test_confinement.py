"""What is required and what is there: less is refused, more is used."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from placet.errors import IsolationMissing, UsageError
from placet.sandbox import ladder as ladders
from placet.sandbox.command import run_command
from placet.sandbox.confinement import Isolation
from placet.sandbox.isolation import NOTHING, Enforced, Facts
from placet.sandbox.ladder import Ladder, climb
from placet.sandbox.self_test import Tested as Rung
from placet.sandbox.workspace import Workspace

WEAK = Ladder(
    tested=(
        Rung(by="bubblewrap", facts=Facts(by="bubblewrap"), why="no user namespaces"),
        Rung(by="landlock", facts=Facts(by="landlock", enforced=Enforced(net="kernel")), why="fs_write"),
        Rung(by="nothing", facts=NOTHING),
    )
)


def weak(isolation: Isolation) -> Isolation:
    isolation._ladder = WEAK
    return isolation


async def test_what_is_required_and_missing_is_refused_with_the_fix(tmp_path: Path) -> None:
    isolation = weak(Isolation("process"))

    for workspace in (None, Workspace(tmp_path)):
        with pytest.raises(IsolationMissing) as caught:
            await isolation.check(workspace)
        assert caught.value.required == "process"
        assert caught.value.found == "none"
        assert "no user namespaces" in str(caught.value)


async def test_without_a_requirement_the_best_that_there_is_is_used(tmp_path: Path) -> None:
    assert (await weak(Isolation()).check()).by == "landlock"
    sandbox = await Isolation(folder=tmp_path / "kept").sandbox(Workspace(tmp_path))
    assert (sandbox.by, sandbox.facts.isolation) == ("bubblewrap", "process")


async def test_none_is_the_decision_not_to_confine(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    workspace = Workspace(tmp_path / "work")
    sandbox = await Isolation("none").sandbox(workspace)

    finished = await run_command(
        ["sh", "-c", f"echo > {tmp_path}/outside"], folder=workspace.fd, sandbox=sandbox
    )

    assert finished.facts == NOTHING
    assert (tmp_path / "outside").exists()


def test_a_level_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="none, changes, process"):
        Isolation("jail")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("required", "is_confined", "is_trusted", "is_offered"),
    [
        ("process", False, False, False),
        ("process", True, False, True),
        ("process", False, True, True),
        ("changes", False, False, True),
        (None, False, False, True),
    ],
)
def test_python_tools_are_offered_under_process_only_if_trusted(
    required: object, is_confined: bool, is_trusted: bool, is_offered: bool
) -> None:
    isolation = Isolation(required)  # type: ignore[arg-type]

    refusal = isolation.refusal_of("deploy", is_confined=is_confined, is_trusted=is_trusted)

    assert (refusal is None) == is_offered
    assert (
        Isolation("process", trusted=["deploy"]).refusal_of("deploy", is_confined=False, is_trusted=False)
        is None
    )


async def test_what_was_found_is_remembered_until_the_machine_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    async def count(by: str, **_: object) -> Rung:
        tried.append(by)
        return Rung(by="bubblewrap", facts=Facts(isolation="process", by="bubblewrap"))

    monkeypatch.setattr(ladders, "self_test", count)
    monkeypatch.setattr(ladders, "_KNOWN", {})
    await climb(environment=os.environ, memory=tmp_path)
    ladders._KNOWN.clear()
    await climb(environment=os.environ, memory=tmp_path)
    assert tried == ["bubblewrap"]

    ladders._KNOWN.clear()
    monkeypatch.setattr(ladders, "find_bubblewrap", lambda _: "/somewhere/else")
    await climb(environment=os.environ, memory=tmp_path)
    assert tried == ["bubblewrap"] * 2

    (tmp_path / "isolation.json").write_text('{"state": [], "ladder": 1}')
    ladders._KNOWN.clear()
    await climb(environment=os.environ, memory=tmp_path)
    assert tried == ["bubblewrap"] * 3


async def test_a_linked_worktree_is_isolation_of_changes(tmp_path: Path) -> None:
    main = tmp_path / "main"
    worktree = tmp_path / "worktree"
    for arguments in (
        ["init", "-q", str(main)],
        ["-C", str(main), "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "x", "--allow-empty"],
        ["-C", str(main), "worktree", "add", "-q", str(worktree)],
    ):
        subprocess.run(["git", *arguments], check=True)  # noqa: ASYNC221
    isolation = weak(Isolation("changes"))

    with pytest.raises(IsolationMissing):
        await isolation.check()
    assert (await isolation.check(Workspace(worktree))).isolation == "changes"
    assert (await isolation.check()).isolation == "changes"
    with pytest.raises(IsolationMissing):
        await isolation.check(Workspace(main))


@pytest.mark.parametrize("place", ["home", "above the home", "root"])
async def test_a_workspace_that_holds_everything_is_not_called_confined(tmp_path: Path, place: str) -> None:
    home = tmp_path / "people" / "me"
    home.mkdir(parents=True)
    where = {"home": home, "above the home": tmp_path / "people", "root": Path("/")}[place]
    isolation = Isolation(environment={**os.environ, "HOME": str(home)})

    facts = await isolation.check(Workspace(where))

    assert (facts.isolation, facts.enforced.fs_read, facts.enforced.fs_write) == ("none", "no", "no")


async def test_a_test_that_broke_off_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    async def break_off(by: str, **_: object) -> Rung:
        tried.append(by)
        return Rung(by="bubblewrap", facts=Facts(), why="too many open files", is_whole=False)

    monkeypatch.setattr(ladders, "self_test", break_off)
    monkeypatch.setattr(ladders, "_KNOWN", {})
    for _ in range(2):
        ladder = await climb(environment=os.environ, memory=tmp_path)
        assert ladder.best.by == "nothing"

    assert tried == ["bubblewrap", "landlock"] * 2
