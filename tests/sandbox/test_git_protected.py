"""What git outside looks into beneath a workspace stays what it is, whatever a command does."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.errors import ToolError
from placet.sandbox.git_protected import protected_git
from placet.worktree.repository import find_checkout
from tests.worktree.repositories import Inside, make_repository, needs_bubblewrap, outside

_ALLOW = ("-c", "protocol.file.allow=always")


def _nest(tmp_path: Path) -> Path:
    """A work tree with a submodule `sub` that has a submodule `deep/nested`."""
    for name in ("inmost", "middle"):
        make_repository(tmp_path / name)
    outside(tmp_path / "middle", *_ALLOW, "submodule", "add", "-q", str(tmp_path / "inmost"), "deep/nested")
    outside(tmp_path / "middle", "commit", "-qm", "nested")
    work = make_repository(tmp_path / "work")
    outside(work, "rm", "-rq", "sub")
    outside(work, *_ALLOW, "submodule", "add", "-q", str(tmp_path / "middle"), "sub")
    outside(work, *_ALLOW, "submodule", "update", "-q", "--init", "--recursive")
    outside(work, "commit", "-qm", "sub")
    return work


def _evil(tmp_path: Path) -> tuple[str, Path]:
    """A script that makes a git folder `evil` which runs a program, and the file that the program makes."""
    canary = tmp_path / "canary"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {canary}\n")
    program.chmod(0o755)
    return f"git init -q evil; git -C evil config core.fsmonitor {program}", canary


@needs_bubblewrap
@pytest.mark.parametrize("version", ["2", "4", "split"])
async def test_a_submodule_of_a_submodule_is_not_replaced(version: str, tmp_path: Path) -> None:
    work = _nest(tmp_path)
    for tree in (work, work / "sub"):
        if version == "split":
            outside(tree, "update-index", "--split-index")
        else:
            outside(tree, "update-index", "--index-version", version)
    make, canary = _evil(tmp_path)
    inside = Inside(work)

    await inside.sh(
        f"{make}; for d in sub sub/deep/nested; do "
        "rm -f $d/.git && exit 1; echo 'gitdir: ../../../evil/.git' > $d/.git && exit 1; done; exit 0"
    )

    outside(work, "status")
    outside(work, "submodule", "foreach", "--recursive", "git", "status")
    assert not canary.exists()


@needs_bubblewrap
async def test_a_submodule_that_is_not_checked_out_gets_no_repository(tmp_path: Path) -> None:
    work = _nest(tmp_path)
    outside(work / "sub", "submodule", "deinit", "-q", "-f", "deep/nested")
    inside = Inside(work)

    await inside.git("init", "-q", "sub/deep/nested", fails=True)

    assert list((work / "sub/deep/nested").iterdir()) == []


@needs_bubblewrap
async def test_what_a_person_does_with_submodules_is_seen(tmp_path: Path) -> None:
    work = _nest(tmp_path)
    outside(work, "submodule", "deinit", "-q", "-f", "sub")
    inside = Inside(work)
    await inside.sh("true")
    outside(work, *_ALLOW, "submodule", "update", "-q", "--init", "--recursive")

    await inside.sh("test -f sub/a.txt; rm -f sub/deep/nested/.git", fails=True)

    assert (work / "sub/deep/nested/.git").is_file()


@needs_bubblewrap
async def test_a_linked_worktree_in_the_workspace_is_not_led_elsewhere(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    outside(work, "worktree", "add", "-q", "-b", "topic", "trees/topic")
    outside(work, "worktree", "add", "-q", "-b", "far", str(tmp_path / "far"))
    make, canary = _evil(tmp_path)
    inside = Inside(work)

    await inside.sh(f"{make}; echo 'gitdir: ../../evil/.git' > trees/topic/.git", fails=True)
    await inside.sh("mv trees other", fails=True)

    outside(work, "status")
    outside(work / "trees/topic", "status")
    assert not canary.exists()


@needs_bubblewrap
async def test_a_git_folder_of_another_name_is_read_only_with_all_in_it(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    outside(work, "init", "-q", "--separate-git-dir=.repo")
    outside(work, "config", "core.worktree", str(work))
    outside(work, "worktree", "add", "-q", "-b", "topic", ".repo/trees/topic")
    inside = Inside(work)

    await inside.sh("echo x > .repo/hooks/h", fails=True)
    await inside.sh("echo x > .repo/trees/topic/.git", fails=True)

    assert await inside.git("log", "-1", "--format=%s") == "second\n"


async def test_a_git_folder_of_another_name(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    outside(work, "init", "-q", "--separate-git-dir=.repo")

    assert await find_checkout(str(work)) is None
    assert protected_git(str(work)) == [f"{work}/.git", f"{work}/.repo"]


@pytest.mark.parametrize("has_pointer", [True, False])
async def test_a_bare_folder_with_worktrees_beside_it(has_pointer: bool, tmp_path: Path) -> None:
    make_repository(tmp_path / "first")
    work = tmp_path / "work"
    work.mkdir()
    outside(work, "clone", "-q", "--bare", str(tmp_path / "first"), ".bare")
    if has_pointer:
        (work / ".git").write_text("gitdir: ./.bare\n")
    outside(work / ".bare", "worktree", "add", "-q", "../main", "main")
    outside(work / ".bare", "worktree", "add", "-q", "../in/other", "other")

    assert await find_checkout(str(work)) is None
    own = [f"{work}/.git"] if has_pointer else []
    assert sorted(protected_git(str(work))) == sorted(
        [*own, f"{work}/.bare", f"{work}/main/.git", f"{work}/in/other/.git"]
    )


async def test_submodules_and_worktrees_of_a_repository_that_is_not_worked_on(tmp_path: Path) -> None:
    work = _nest(tmp_path)
    outside(work, "config", "core.sparseCheckout", "true")
    outside(work, "worktree", "add", "-q", "-b", "topic", "topic")

    with pytest.raises(ToolError, match="sparse"):
        await find_checkout(str(work))

    found = protected_git(str(work))
    assert {f"{work}/{name}" for name in (".git", "sub/.git", "sub/deep/nested/.git", "topic/.git")} <= {
        *found
    }
    # A worktree has its submodules too, here one that is not checked out.
    assert f"{work}/topic/sub" in found


def test_folders_without_git_have_none(tmp_path: Path) -> None:
    (tmp_path / "work/a").mkdir(parents=True)
    outside(tmp_path / "work", "init", "-q", "--bare", "remote.git")

    assert protected_git(str(tmp_path / "work")) == []
    assert protected_git(str(tmp_path / "none")) == []


async def test_a_way_through_a_link_is_refused(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    outside(work, "init", "-q", "--separate-git-dir=.repo")
    (work / "link").symlink_to(".repo")
    (work / ".git").write_text("gitdir: ./link\n")
    outside(work, "config", "core.worktree", str(work))

    assert await find_checkout(str(work)) is None
    with pytest.raises(ToolError, match="behind a link"):
        protected_git(str(work))


@pytest.mark.parametrize("data", [b"", b"DIRC", b"DIRC\0\0\0\2\0\0\0\1\0\0\xe0\0", b"x" * 50 + b"\0\0\xe0\0"])
async def test_an_index_that_is_none(data: bytes, tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    (work / ".git/index").write_bytes(data)

    assert protected_git(str(work)) == [f"{work}/.git"]
