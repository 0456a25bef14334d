"""A git repository, whatever is done to it, is brought back byte for byte."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from placet.sandbox.snapshot.store import Snapshots
from placet.sandbox.snapshot.taking import Settings
from placet.sandbox.snapshot.tree import Bounds
from placet.sandbox.workspace import Workspace
from tests.sandbox.snapshot.trees import git, make_repository, told, views


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A repository of 300 files, as a person leaves it lying about."""
    folder = tmp_path / "work"
    make_repository(folder)
    return folder


def wreck(top: Path) -> None:
    """Everything that a plan could do to a repository."""
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
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "all of it")
    git(top, "stash", "drop", "-q")
    (top / "pkg11/module_11.py").write_text("more")
    git(top, "stash", "-q")
    git(top, "checkout", "-q", "-b", "mine")
    git(top, "branch", "-D", "-q", "other")
    git(top, "tag", "-d", "v1")
    git(top, "config", "core.hooksPath", "/tmp/evil")
    (top / ".git/hooks/pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (top / ".git/hooks/pre-commit").chmod(0o755)
    git(top, "reflog", "expire", "--expire=now", "--all")
    git(top, "gc", "-q", "--prune=now")


def gone(top: Path) -> None:
    """Nothing is left of the repository."""
    wreck(top)
    shutil.rmtree(top / ".git")


def another(top: Path) -> None:
    """Another repository is in its place."""
    gone(top)
    git(top, "init", "-q")
    git(top, "add", "-A", "-f")
    git(top, "commit", "-q", "-m", "anew")


@pytest.mark.parametrize("done", [wreck, gone, another], ids=lambda each: each.__name__)
def test_a_repository_is_brought_back_byte_for_byte(
    top: Path, tmp_path: Path, done: Callable[[Path], None], record_property: Callable[[str, object], None]
) -> None:
    said, was = views(top), told(top, objects=False)
    snapshots, workspace = Snapshots(tmp_path / "kept"), Workspace(top)
    began = time.perf_counter()
    taken = snapshots.take(workspace)
    took = time.perf_counter() - began
    assert told(top, objects=False) == was
    done(top)
    assert told(top, objects=False) != was

    began = time.perf_counter()
    restored = snapshots.restore(taken.id, workspace)
    took_back = time.perf_counter() - began

    assert list(restored.problems) == []
    assert list(taken.left_out) == []
    assert told(top, objects=False) == was
    again = snapshots.restore(taken.id, workspace)
    assert (again.changed, again.removed, again.brought_back) == (0, 0, 0)
    assert views(top) == said
    # Of what was left of the work of the plan, fsck may say no more than that nothing names it.
    assert git(top, "fsck", "--no-dangling", "--strict") == ""
    assert git(top, "stash", "show", "-p", "--include-untracked", "stash@{0}")
    record_property(
        "figure", f"{taken.files} files kept in {took * 1e3:.0f} ms, back in {took_back * 1e3:.0f} ms"
    )


def test_what_the_repository_has_already_takes_no_room(top: Path, tmp_path: Path) -> None:
    (top / "empty").chmod(0o755)
    git(top, "stash", "-q", "-u", "-a")
    snapshots, workspace = Snapshots(tmp_path / "kept"), Workspace(top)
    before = _room(top)

    taken = snapshots.take(workspace)

    assert taken.files > 300
    # The index and other files of git are kept; of the 300 files not one is.
    store = tmp_path / "kept" / taken.id / "store/objects"
    loose = sum(1 for _ in store.glob("??/*"))
    of_git = sum(1 for path in (top / ".git").rglob("*") if path.is_file() and "objects/" not in str(path))
    assert loose <= of_git
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


def test_objects_are_copied_where_they_cannot_be_linked(top: Path, tmp_path: Path) -> None:
    if not os.path.isdir("/dev/shm") or os.stat("/dev/shm").st_dev == os.stat(top).st_dev:
        pytest.skip("there is no second file system here")
    kept = Path("/dev/shm") / f"placet-test-{os.getpid()}"
    snapshots, workspace = Snapshots(kept), Workspace(top)
    said, was = views(top), told(top, objects=False)
    try:
        taken = snapshots.take(workspace)
        gone(top)
        restored = snapshots.restore(taken.id, workspace)

        assert list(restored.problems) == []
        assert told(top, objects=False) == was
        assert views(top) == said

        few = Snapshots(kept, settings=Settings(most_copied=10)).take(workspace)
        assert [each for each in few.left_out if each.startswith(".git/objects/*: ")]
        assert list(snapshots.restore(few.id, workspace).problems) == []
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
    private = top / ".git/worktrees/tree"
    said, was, was_private = views(tree), told(tree), told(private)
    topic = git(top, "rev-parse", "topic")
    log = (top / ".git/logs/refs/heads/topic").read_bytes()
    snapshots, workspace = Snapshots(tmp_path / "kept"), Workspace(tree)
    taken = snapshots.take(workspace)

    git(tree, "commit", "-q", "-m", "from the worktree")
    (tree / "pkg1/module_1.py").write_text("changed")
    (top / "by-others").write_text("theirs")
    git(top, "add", "by-others")
    git(top, "commit", "-q", "-m", "by others")
    git(tree, "checkout", "-q", "-b", "second")
    git(tree, "commit", "-q", "-am", "again")
    git(tree, "checkout", "-q", "topic")
    main = git(top, "rev-parse", "main")
    restored = snapshots.restore(taken.id, workspace)

    assert list(restored.problems) == []
    assert told(tree) == was
    assert told(private) == was_private
    assert git(top, "rev-parse", "topic") == topic
    assert (top / ".git/logs/refs/heads/topic").read_bytes() == log
    assert git(top, "rev-parse", "main") == main
    assert (top / "by-others").exists()
    assert {k: v for k, v in views(tree).items() if k not in ("log", "refs")} == {
        k: v for k, v in said.items() if k not in ("log", "refs")
    }
    assert git(top, "fsck", "--no-dangling") == ""


def test_a_branch_that_somebody_else_moved_is_left(top: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    git(top, "worktree", "add", "-q", "-b", "topic", str(tree))
    snapshots, workspace = Snapshots(tmp_path / "kept"), Workspace(tree)
    taken = snapshots.take(workspace)
    (tree / "new").write_text("x")
    git(tree, "add", "new")
    git(tree, "commit", "-q", "-m", "here")
    git(top, "update-ref", "refs/heads/topic", "refs/heads/other")

    restored = snapshots.restore(taken.id, workspace)

    assert git(top, "rev-parse", "topic") == git(top, "rev-parse", "other")
    assert [each for each in restored.problems if "refs/heads/topic was moved by somebody else" in each]
    assert not (tree / "new").exists()


def test_a_worktree_that_was_removed_comes_back(top: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    git(top, "worktree", "add", "-q", "-b", "topic", str(tree))
    said, was = views(tree), told(tree)
    snapshots, workspace = Snapshots(tmp_path / "kept"), Workspace(tree)
    taken = snapshots.take(workspace)
    for each in tree.iterdir():
        shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
    shutil.rmtree(top / ".git/worktrees")

    restored = snapshots.restore(taken.id, workspace)

    assert list(restored.problems) == []
    assert told(tree) == was
    assert views(tree) == said


def test_a_pointer_to_a_repository_that_does_not_point_back_is_not_followed(
    top: Path, tmp_path: Path
) -> None:
    git(top, "worktree", "add", "-q", "-b", "topic", str(tmp_path / "tree"))
    thief = tmp_path / "thief"
    thief.mkdir()
    (thief / ".git").write_text(f"gitdir: {top}/.git/worktrees/tree\n")
    snapshots, workspace = Snapshots(tmp_path / "kept"), Workspace(thief)
    taken = snapshots.take(workspace)
    was = told(top)
    (top / ".git/worktrees/tree/HEAD").write_text("ref: refs/heads/main\n")

    snapshots.restore(taken.id, workspace)

    assert (top / ".git/worktrees/tree/HEAD").read_text() == "ref: refs/heads/main\n"
    assert {k for k, v in told(top).items() if was[k] != v} == {b".git/worktrees/tree/HEAD"}
    assert [each.partition(":")[0] for each in taken.left_out] == [".git (what it points to)"]


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
        status, was = git(top, "status", "--porcelain=v2"), told(top, objects=False)
        taken = snapshots.take(workspace)
        (top / "f").write_text("y")
        shutil.rmtree(top / ".git")

        restored = snapshots.restore(taken.id, workspace)

        assert list(restored.problems) == []
        assert told(top, objects=False) == was
        assert git(top, "status", "--porcelain=v2") == status


def test_an_object_that_was_changed_in_place_is_told(top: Path, tmp_path: Path) -> None:
    snapshots, workspace = Snapshots(tmp_path / "kept"), Workspace(top)
    taken = snapshots.take(workspace)
    one = next((top / ".git/objects").glob("??/*"))
    one.chmod(0o644)
    one.write_bytes(b"spoiled")

    restored = snapshots.restore(taken.id, workspace)

    assert [each for each in restored.problems if one.name in each and "changed in place" in each]
