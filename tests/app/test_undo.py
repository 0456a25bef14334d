"""What a message changed is taken back, and nothing that others did, meanwhile or since."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from placet.app.undo import Undo
from placet.sandbox.workspace import Workspace
from placet.turns.ending import Call, CallResult
from placet.worktree.commit import commit
from placet.worktree.snapshot.store import Snapshots


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    return made


@pytest.fixture
def undo(tmp_path: Path, folder: Path) -> Iterator[Undo]:
    workspace, sealed = Workspace(folder), [str(folder / "answers.jsonl")]
    made = Undo(
        Snapshots(tmp_path / "snapshots", leave_alone=sealed),
        workspace,
        "r1",
        sealed=sealed,
        reads=lambda tool: tool == "read_file",
        writes=["write_file", "edit_file"],
    )
    yield made
    made.close()
    workspace.close()
    assert not [each for each in os.listdir(tmp_path / "snapshots") if len(each) == 16]


def git(folder: Path, *words: str) -> str:
    names = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *names, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


async def called(undo: Undo, tool: str, *, status: str = "succeeded", **given: str) -> None:
    """A call as a loop tells of it; a file is written if one is."""
    name = f"c{len(undo._calls)}"
    undo.heard(Call(turn=1, action_id=name, tool=tool, parameters=given))
    await undo.before_effect()
    if "text" in given and status == "succeeded":
        path = undo._workspace.folder / given["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(given["text"])
    undo.heard(CallResult(turn=1, action_id=name, tool=tool, ok=True, status=status, text=""))  # type: ignore[arg-type]


# What others did since


async def test_what_was_done_in_a_repository_beneath_since_is_not_lost(undo: Undo, folder: Path) -> None:
    where = folder / "inner"
    where.mkdir()
    git(where, "init", "-q")
    git(where, "commit", "-qm", "first", "--allow-empty")
    undo.begin()
    await called(undo, "shell", command="touch new.txt")
    (folder / "new.txt").touch()
    undo.end()

    git(where, "commit", "-qm", "mine", "--allow-empty")
    done = await undo.take_back()

    assert not done.is_done
    assert "inner/.git/logs/HEAD" in done.since
    assert (folder / "new.txt").exists()
    assert git(where, "log", "-1", "--format=%s") == "mine"


async def test_what_a_person_commits_since_stays(undo: Undo, folder: Path) -> None:
    git(folder, "init", "-q")
    git(folder, "commit", "-qm", "first", "--allow-empty")
    undo.begin()
    await called(undo, "write_file", path="a.txt", text="1")
    undo.end()

    git(folder, "add", ".")
    git(folder, "commit", "-qm", "theirs")
    done = await undo.take_back()

    assert done.is_done
    assert not (folder / "a.txt").exists()
    assert git(folder, "log", "-1", "--format=%s") == "theirs"


async def test_a_commit_of_the_message_is_taken_back(undo: Undo, folder: Path) -> None:
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.name", "a")
    git(folder, "config", "user.email", "a@example.org")
    git(folder, "commit", "-qm", "first", "--allow-empty")
    undo.begin()
    await called(undo, "write_file", path="a.txt", text="1")
    await called(undo, "git_commit", paths="a.txt", message="second")
    await commit(folder, ["a.txt"], "second")
    undo.end()

    done = await undo.take_back()

    assert done.is_done
    assert not done.problem
    assert git(folder, "log", "--format=%s") == "first"
    assert git(folder, "status", "--porcelain") == ""


async def test_what_git_writes_for_itself_is_nobodys_change(undo: Undo, folder: Path) -> None:
    git(folder, "init", "-q")
    (folder / "a.txt").write_text("one")
    git(folder, "add", ".")
    undo.begin()
    await called(undo, "shell", command="touch new.txt")
    (folder / "new.txt").touch()
    os.utime(folder / "a.txt", (1, 1))
    undo.end()

    (folder / ".git" / "index.lock").touch()
    (folder / ".git" / "index.lock").unlink()
    git(folder, "update-index", "--refresh")
    git(folder, "hash-object", "-w", "a.txt")

    assert (await undo.take_back()).is_done
    assert not (folder / "new.txt").exists()


async def test_where_the_end_is_not_known_it_must_be_asked_for(undo: Undo, folder: Path) -> None:
    undo.begin()
    await called(undo, "write_file", path="a.txt", text="1")

    unsure = await undo.take_back()
    assert unsure.is_unsure
    assert (folder / "a.txt").exists()

    assert (await undo.take_back(anyway=True)).paths == ["a.txt"]
    assert not (folder / "a.txt").exists()


# What others do meanwhile


async def test_only_files_that_calls_named_are_touched(undo: Undo, folder: Path) -> None:
    git(folder, "init", "-q")
    (folder / "old.txt").write_text("old")
    (folder / "mine.txt").write_text("mine")
    (folder / "real").mkdir()
    (folder / "real" / "deep.txt").write_text("deep")
    (folder / "link").symlink_to("real")
    os.chmod(folder / "real", 0o755)
    undo.begin()
    undo.heard(Call(turn=1, action_id="x", tool="read_file", parameters={"path": "mine.txt"}))
    await called(undo, "write_file", path="made/by/model.txt", text="1")
    await called(undo, "write_file", path=str(folder / "old.txt"), text="new")
    await called(undo, "edit_file", path="link/deep.txt", text="edited")
    await called(undo, "shell", command="rm -rf .", status="rejected")
    await called(undo, "write_file", path="../out.txt", status="failed")
    (folder / "mine.txt").write_text("three hours of work")
    (folder / "made" / "mine.txt").write_text("more")
    undo.end()
    (folder / "later.txt").write_text("later")
    git(folder, "commit", "-qm", "mine", "--allow-empty")

    done = await undo.take_back()

    assert done.paths == ["made/by/model.txt", "old.txt", "real/deep.txt"]
    assert (folder / "old.txt").read_text() == "old"
    assert (folder / "real" / "deep.txt").read_text() == "deep"
    assert not (folder / "made" / "by").exists()
    assert (folder / "mine.txt").read_text() == "three hours of work"
    assert (folder / "made" / "mine.txt").read_text() == "more"
    assert (folder / "later.txt").exists()
    assert git(folder, "log", "--format=%s") == "mine"
    assert (folder / "real").stat().st_mode & 0o777 == 0o755
    assert (folder / "link").is_symlink()


async def test_a_folder_that_a_person_removed_comes_back_with_its_rights(undo: Undo, folder: Path) -> None:
    (folder / "inner").mkdir(mode=0o750)
    (folder / "inner" / "a.txt").write_text("old")
    undo.begin()
    await called(undo, "write_file", path="inner/a.txt", text="new")
    (folder / "inner" / "a.txt").unlink()
    (folder / "inner").rmdir()
    undo.end()

    assert (await undo.take_back()).paths == ["inner/a.txt"]
    assert (folder / "inner" / "a.txt").read_text() == "old"
    assert (folder / "inner").stat().st_mode & 0o777 == 0o750


async def test_a_file_that_is_named_and_was_changed_since_is_not_lost(undo: Undo, folder: Path) -> None:
    undo.begin()
    await called(undo, "write_file", path="a.txt", text="1")
    undo.end()
    (folder / "a.txt").write_text("1, and mine")

    assert (await undo.take_back()).since == ["a.txt"]
    assert (await undo.take_back(anyway=True)).is_done
    assert not (folder / "a.txt").exists()
    assert (await undo.take_back()).is_there_again
    assert (folder / "a.txt").read_text() == "1, and mine"


# Back and forth


async def test_taking_back_can_be_taken_back(undo: Undo, folder: Path) -> None:
    (folder / "mine.txt").write_text("one")
    undo.begin()
    await called(undo, "shell", command="echo")
    (folder / "new.txt").write_text("by a command")
    (folder / "mine.txt").write_text("three hours of work")
    undo.end()

    assert (await undo.take_back()).paths == ["mine.txt", "new.txt"]
    assert (folder / "mine.txt").read_text() == "one"
    for _ in range(2):
        again = await undo.take_back()
        assert again.is_there_again
        assert (folder / "mine.txt").read_text() == "three hours of work"
        assert (folder / "new.txt").exists()
        assert not (await undo.take_back()).is_there_again
        assert not (folder / "new.txt").exists()
    (folder / "mine.txt").write_text("meanwhile")
    assert (await undo.take_back()).since == ["mine.txt"]
    undo.begin()
    assert not (await undo.take_back()).is_done


async def test_what_cannot_be_kept_is_not_overwritten_unasked(
    undo: Undo, folder: Path, tmp_path: Path
) -> None:
    undo.begin()
    await called(undo, "shell", command="echo")
    (folder / "new.txt").write_text("by a command")
    undo.end()
    other = Workspace(folder)
    claim = Snapshots(tmp_path / "snapshots").claim(other, "another")
    try:
        assert "another" in (await undo.take_back()).unkept
        assert (folder / "new.txt").exists()
    finally:
        claim.release()
        other.close()

    assert (await undo.take_back()).is_done


async def test_files_that_a_run_was_started_with_stay(undo: Undo, folder: Path) -> None:
    (folder / "answers.jsonl").write_text("one\n")
    undo.begin()
    await called(undo, "shell", command="echo")
    (folder / "new.txt").write_text("by a command")
    (folder / "answers.jsonl").write_text("one\ntwo\n")
    undo.end()
    (folder / "answers.jsonl").write_text("one\ntwo\nthree\n")

    assert (await undo.take_back()).paths == ["new.txt"]
    assert (folder / "answers.jsonl").read_text() == "one\ntwo\nthree\n"
