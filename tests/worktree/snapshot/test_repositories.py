"""The files of a git repository are brought back byte for byte, and its branch with them."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from placet.sandbox.workspace import Workspace
from placet.worktree.commit import commit
from placet.worktree.snapshot.store import Snapshots
from placet.worktree.snapshot.taking import Settings
from placet.worktree.snapshot.tree import Bounds
from tests.worktree.snapshot.trees import Told, git, make_repository, told, views


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of 300 files, as a person leaves it lying about. Nobody changes it."""
    folder = tmp_path_factory.mktemp("made") / "work"
    make_repository(folder)
    return folder


@pytest.fixture
def top(made: Path, tmp_path: Path) -> Path:
    """One like it, which git knows as its own: to a copy, every file might have been changed since."""
    folder = tmp_path / "work"
    shutil.copytree(made, folder, symlinks=True)
    git(folder, "update-index", "-q", "--refresh", check=False)
    return folder


def wreck(top: Path) -> None:
    """Everything that a plan could do to the files of a repository."""
    (top / "pkg7/module_7.py").write_text("changed")
    (top / "pkg8/module_8.py").chmod(0o700)
    (top / "pkg9").rename(top / "moved")
    shutil.rmtree(top / "pkg10")
    (top / "pkg10").symlink_to("/etc")
    (top / "run.sh").unlink()
    (top / "new/deep").mkdir(parents=True)
    (top / "new/deep/file").write_text("new")
    (top / "empty").chmod(0o755)
    (top / "empty/within").rmdir()
    (top / "untracked.txt").unlink()


def commits(top: Path) -> None:
    """Two commits by git_commit: one of what was staged and of what was not, one of all."""
    asyncio.run(commit(top, ["pkg4", "pkg7", "moved", "pkg9"], "some of it"))
    asyncio.run(commit(top, ["."], "all of it"))


def by_hand(top: Path) -> None:
    """What a program without a sandbox could do to the git folder."""
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "all of it")
    git(top, "stash", "drop", "-q")
    git(top, "config", "core.hooksPath", "/tmp/evil")
    git(top, "gc", "-q", "--prune=now")


def gone(top: Path) -> None:
    """Nothing is left of the repository."""
    shutil.rmtree(top / ".git")


def another(top: Path) -> None:
    """Another repository is in its place."""
    gone(top)
    git(top, "init", "-q")
    git(top, "add", "-A", "-f")
    git(top, "commit", "-q", "-m", "anew")


def files(top: Path) -> Told:
    """Everything but the git folder."""
    return told(top, besides=(b".git/",))


def test_a_repository_is_brought_back_byte_for_byte(
    top: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Files, `git status`, index, branches and stash, also if the plan has committed."""
    said, staged, was = views(top), git(top, "ls-files", "--stage"), files(top)
    snapshots, workspace = Snapshots(tmp_path / "kept"), Workspace(top)
    began = time.perf_counter()
    taken = snapshots.take(workspace)
    took = time.perf_counter() - began
    assert files(top) == was
    wreck(top)
    commits(top)
    assert git(top, "log", "-2", "--format=%s") == "all of it\nsome of it\n"

    began = time.perf_counter()
    restored = snapshots.restore(taken.id, workspace)
    took_back = time.perf_counter() - began

    assert list(restored.problems) == list(restored.not_restored) == []
    assert list(taken.left_out) == []
    assert files(top) == was
    assert views(top) == said
    assert git(top, "ls-files", "--stage") == staged
    again = snapshots.restore(taken.id, workspace)
    assert (again.changed, again.removed, again.brought_back) == (0, 0, 0)
    # Of what was left of the work of the plan, fsck may say no more than that nothing names it.
    assert git(top, "fsck", "--no-dangling", "--strict") == ""
    assert git(top, "stash", "show", "-p", "--include-untracked", "stash@{0}")
    record_property(
        "figure", f"{taken.files} files kept in {took * 1e3:.0f} ms, back in {took_back * 1e3:.0f} ms"
    )


@pytest.mark.parametrize("done", [by_hand, gone, another], ids=lambda each: each.__name__)
def test_files_come_back_whatever_became_of_the_git_folder_and_that_is_told(
    top: Path, tmp_path: Path, done: Callable[[Path], None]
) -> None:
    was = files(top)
    snapshots, workspace = Snapshots(tmp_path / "kept"), Workspace(top)
    taken = snapshots.take(workspace)
    wreck(top)
    done(top)
    kept = told(top / ".git") if (top / ".git").exists() else None

    restored = snapshots.restore(taken.id, workspace)

    assert list(restored.problems) == []
    assert files(top) == was if kept is not None else {**files(top), b".git": was[b".git"]} == was
    assert [each.partition(" ")[0] for each in restored.not_restored] == [".git"]
    assert (told(top / ".git") if (top / ".git").exists() else None) == kept


def test_a_git_folder_that_was_moved_away_goes_home(top: Path, tmp_path: Path) -> None:
    snapshots, workspace = Snapshots(tmp_path / "kept"), Workspace(top)
    taken, said = snapshots.take(workspace), views(top)
    (top / "deep").mkdir()
    (top / ".git").rename(top / "deep/away")

    restored = snapshots.restore(taken.id, workspace)

    assert views(top) == said
    assert list(restored.not_restored) == list(restored.problems) == []
    assert not (top / "deep").exists()


def test_a_repository_that_the_plan_has_made_goes(tmp_path: Path) -> None:
    top = tmp_path / "plain"
    top.mkdir()
    (top / "a").write_text("a")
    snapshots, workspace = Snapshots(tmp_path / "kept"), Workspace(top)
    taken, was = snapshots.take(workspace), told(top)
    git(top, "init", "-q")
    git(top, "add", "-A")

    snapshots.restore(taken.id, workspace)

    assert told(top) == was


def test_broken_off_in_the_middle_of_a_commit_it_is_done_again(top: Path, tmp_path: Path) -> None:
    said = views(top)
    snapshots, workspace = Snapshots(tmp_path / "kept"), Workspace(top)
    taken = snapshots.take(workspace)
    wreck(top)
    commits(top)
    lock = top / ".git/refs/heads/main.lock"
    lock.touch()

    first = snapshots.restore(taken.id, workspace)
    lock.unlink()
    second = snapshots.restore(taken.id, workspace)

    assert "was not taken back" in " ".join(first.not_restored)
    assert list(second.not_restored) == []
    assert views(top) == said


@pytest.mark.parametrize("since", ["commit -q --allow-empty -m theirs", "checkout -q -b theirs"])
def test_a_commit_that_is_not_the_tip_stays(top: Path, tmp_path: Path, since: str) -> None:
    snapshots, workspace = Snapshots(tmp_path / "kept"), Workspace(top)
    taken, was = snapshots.take(workspace), files(top)
    wreck(top)
    asyncio.run(commit(top, ["pkg7"], "ours"))
    git(top, *since.split())
    tip = git(top, "rev-parse", "HEAD")

    restored = snapshots.restore(taken.id, workspace)

    assert git(top, "rev-parse", "HEAD") == tip
    assert files(top) == was
    assert [each for each in restored.not_restored if each.startswith(".git (")]


def test_what_the_repository_has_already_takes_no_room(top: Path, tmp_path: Path) -> None:
    (top / "empty").chmod(0o755)
    git(top, "stash", "-q", "-u", "-a")
    snapshots, workspace = Snapshots(tmp_path / "kept"), Workspace(top)
    before = _room(top)

    taken = snapshots.take(workspace)

    assert taken.files > 300
    store = tmp_path / "kept" / taken.id / "store/objects"
    assert [path for path in store.glob("??/*") if path.stat().st_nlink == 1] == []
    assert _room(top) == before


def _room(folder: Path) -> int:
    return sum(path.stat().st_blocks for path in folder.rglob("*") if path.is_file())


def test_nothing_of_the_repository_is_run_and_no_setting_of_it_is_heeded(top: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    program = tmp_path / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    program.chmod(0o755)
    for name in ("core.fsmonitor", "core.sshCommand", "filter.x.clean", "filter.x.smudge", "core.pager"):
        git(top, "config", name, str(program))
    git(top, "config", "filter.x.required", "true")
    git(top, "config", "core.hooksPath", str(tmp_path))
    (top / ".gitattributes").write_text("* filter=x text eol=crlf\n")
    (top / "pkg0/module_0.py").write_bytes(b"one\r\ntwo\n")
    was = told(top, objects=False)
    snapshots, workspace = Snapshots(tmp_path / "kept"), Workspace(top)

    taken = snapshots.take(workspace)
    shutil.rmtree(top / "pkg0")
    snapshots.restore(taken.id, workspace)

    assert not mark.exists()
    assert told(top, objects=False) == was


def test_large_ignored_folders_are_left_out_and_small_ones_are_kept(top: Path, tmp_path: Path) -> None:
    (top / "node_modules").mkdir()
    (top / "node_modules/big").write_bytes(b"1" * 200_000)
    (top / "target").mkdir()
    (top / "target/tracked").write_bytes(b"1" * 200_000)
    (top / "big.log").write_bytes(b"1" * 200_000)
    settings = Settings(bounds=Bounds(bytes=100_000))
    snapshots, workspace = Snapshots(tmp_path / "kept", settings=settings), Workspace(top)

    taken = snapshots.take(workspace)
    said = [
        snapshots.why_not_restored(taken.id, [path]) for path in ("big.log", "node_modules/new", "build/x")
    ]
    for name in ("node_modules", "target", "build"):
        shutil.rmtree(top / name)
    restored = snapshots.restore(taken.id, workspace)

    assert sorted(taken.left_out) == ["big.log: ignored and large", "node_modules: ignored and large"]
    assert [each.partition(" ")[0] for each in said] == ["big.log", "node_modules", ""]
    assert list(restored.not_restored) == ["node_modules"]
    assert (top / "target/tracked").exists()
    assert (top / "build/out.bin").exists()


def test_nothing_is_borrowed_where_objects_cannot_be_linked(top: Path, tmp_path: Path) -> None:
    if not os.path.isdir("/dev/shm") or os.stat("/dev/shm").st_dev == os.stat(top).st_dev:
        pytest.skip("there is no second file system here")
    kept = Path("/dev/shm") / f"placet-test-{os.getpid()}"
    snapshots, workspace = Snapshots(kept), Workspace(top)
    was = files(top)
    try:
        taken = snapshots.take(workspace)
        wreck(top)
        gone(top)
        restored = snapshots.restore(taken.id, workspace)

        assert list(restored.problems) == []
        assert {**files(top), b".git": was[b".git"]} == was
    finally:
        shutil.rmtree(kept)


def test_a_linked_worktree_is_brought_back_with_its_branch_and_nothing_else(
    top: Path, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    git(top, "worktree", "add", "-q", "-b", "topic", str(tree))
    git(top, "pack-refs", "--all")
    (tree / "pkg0/module_0.py").write_text("staged here")
    git(tree, "add", "-A")
    said, was = views(tree), told(tree)
    snapshots, workspace = Snapshots(tmp_path / "kept"), Workspace(tree)
    taken = snapshots.take(workspace)

    (tree / "pkg1/module_1.py").write_text("changed")
    asyncio.run(commit(tree, ["."], "from the worktree"))
    (top / "by-others").write_text("theirs")
    git(top, "add", "by-others")
    git(top, "commit", "-q", "-m", "by others")
    main = git(top, "rev-parse", "main")
    restored = snapshots.restore(taken.id, workspace)

    assert list(restored.problems) == list(restored.not_restored) == []
    assert told(tree) == was
    assert git(top, "rev-parse", "main") == main
    shared = ("log", "refs")
    assert {k: v for k, v in views(tree).items() if k not in shared} == {
        k: v for k, v in said.items() if k not in shared
    }
    assert git(top, "fsck", "--no-dangling") == ""


def test_a_pointer_to_a_repository_that_does_not_point_back_is_not_followed(
    top: Path, tmp_path: Path
) -> None:
    git(top, "worktree", "add", "-q", "-b", "topic", str(tmp_path / "tree"))
    thief = tmp_path / "thief"
    thief.mkdir()
    (thief / ".git").write_text(f"gitdir: {top}/.git/worktrees/tree\n")
    snapshots, workspace = Snapshots(tmp_path / "kept"), Workspace(thief)
    taken = snapshots.take(workspace)
    (top / ".git/worktrees/tree/HEAD").write_text("ref: refs/heads/main\n")
    was = told(top)

    snapshots.restore(taken.id, workspace)

    assert told(top) == was


def test_a_repository_with_long_names_and_one_without_a_commit(tmp_path: Path) -> None:
    for number, arguments in enumerate((["--object-format=sha256"], [])):
        top = tmp_path / f"work{number}"
        top.mkdir()
        git(top, "init", "-q", *arguments)
        (top / "f").write_text("x")
        if arguments:
            git(top, "add", "f")
            git(top, "commit", "-q", "-m", "one")
        snapshots, workspace = Snapshots(tmp_path / "kept"), Workspace(top)
        status, was = git(top, "status", "--porcelain=v2"), files(top)
        taken = snapshots.take(workspace)
        (top / "f").write_text("y")

        restored = snapshots.restore(taken.id, workspace)

        assert list(restored.problems) == list(restored.not_restored) == []
        assert files(top) == was
        assert git(top, "status", "--porcelain=v2") == status


@pytest.mark.parametrize("how", ["HEAD is on no branch", "no reflog is kept"])
def test_commits_are_taken_back_on_no_branch_and_without_reflogs(top: Path, tmp_path: Path, how: str) -> None:
    if how == "no reflog is kept":
        git(top, "config", "core.logAllRefUpdates", "false")
        (top / ".git/logs/HEAD").unlink()
        shutil.rmtree(top / ".git/logs/refs/heads")
    else:
        git(top, "checkout", "-q", "--detach")
    said = views(top)
    snapshots, workspace = Snapshots(tmp_path / "kept"), Workspace(top)
    taken = snapshots.take(workspace)
    wreck(top)
    commits(top)

    restored = snapshots.restore(taken.id, workspace)

    assert list(restored.not_restored) == []
    assert views(top) == said
