"""What git outside looks into beneath a workspace stays what it is, whatever a command does."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.errors import ToolError
from placet.sandbox.git.nested import git_folders
from placet.sandbox.git.repository import find
from tests.sandbox.git.repositories import Inside, make_repository, needs_bubblewrap, outside

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
    inside = await Inside.open(work, tmp_path / "home")

    await inside.sh(
        f"{make}; for d in sub sub/deep/nested; do "
        "rm -f $d/.git && exit 1; echo 'gitdir: ../../../evil/.git' > $d/.git && exit 1; done; exit 0"
    )

    outside(work, "status")
    outside(work, "submodule", "foreach", "--recursive", "git", "status")
    assert not canary.exists()
    assert inside.said == []
    inside.view.close()


@needs_bubblewrap
async def test_a_nested_one_that_is_replaced_all_the_same_is_told(tmp_path: Path) -> None:
    work = _nest(tmp_path)
    inside = await Inside.open(work, tmp_path / "home")

    await inside.sh("mv sub/deep away; mkdir -p sub/deep/nested; echo 'gitdir: /x' > sub/deep/nested/.git")

    assert "sub/deep/nested/.git was put there" in " ".join(inside.said)
    await inside.sh("true")
    assert inside.said == []
    inside.view.close()


@needs_bubblewrap
async def test_a_submodule_that_is_not_checked_out_gets_no_repository(tmp_path: Path) -> None:
    work = _nest(tmp_path)
    outside(work / "sub", "submodule", "deinit", "-q", "-f", "deep/nested")
    inside = await Inside.open(work, tmp_path / "home")

    await inside.run("git", "init", "-q", "sub/deep/nested", fails=True)

    assert list((work / "sub/deep/nested").iterdir()) == []
    inside.view.close()


@needs_bubblewrap
async def test_a_submodule_that_a_command_takes_out_of_the_index_stays_kept(tmp_path: Path) -> None:
    """A checkout of the commit before puts it back, and then git looks into it."""
    work = _nest(tmp_path)
    make, canary = _evil(tmp_path)
    inside = await Inside.open(work, tmp_path / "home")
    await inside.sh("git update-index --force-remove sub; git commit -q --allow-empty -m without")
    inside.view.close()
    again = await Inside.open(work, tmp_path / "home")

    await again.sh(f"{make}; echo 'gitdir: ../evil/.git' > sub/.git", fails=True)

    outside(work, "reset", "-q", "HEAD~")
    outside(work, "status")
    assert not canary.exists()
    again.view.close()


@needs_bubblewrap
async def test_what_a_person_does_with_submodules_is_seen(tmp_path: Path) -> None:
    work = _nest(tmp_path)
    outside(work, "submodule", "deinit", "-q", "-f", "sub")
    inside = await Inside.open(work, tmp_path / "home")
    await inside.sh("true")
    outside(work, *_ALLOW, "submodule", "update", "-q", "--init", "--recursive")

    await inside.sh("test -f sub/a.txt; rm -f sub/deep/nested/.git", fails=True)

    assert inside.said == []
    assert (work / "sub/deep/nested/.git").is_file()
    inside.view.close()


@needs_bubblewrap
async def test_a_linked_worktree_in_the_workspace_is_not_led_elsewhere(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    outside(work, "worktree", "add", "-q", "-b", "topic", "trees/topic")
    outside(work, "worktree", "add", "-q", "-b", "far", str(tmp_path / "far"))
    make, canary = _evil(tmp_path)
    inside = await Inside.open(work, tmp_path / "home")

    await inside.sh(f"{make}; echo 'gitdir: ../../evil/.git' > trees/topic/.git", fails=True)
    await inside.sh("mv trees other; mkdir -p trees/topic; echo 'gitdir: ../../evil/.git' > trees/topic/.git")

    assert "trees/topic/.git was put there" in " ".join(inside.said)
    outside(work, "status")
    outside(work / "other/topic", "status")
    assert not canary.exists()
    inside.view.close()


@needs_bubblewrap
async def test_what_lies_in_the_git_folder_itself_needs_nothing(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    outside(work, "init", "-q", "--separate-git-dir=.repo")
    outside(work, "config", "core.worktree", str(work))
    outside(work, "worktree", "add", "-q", "-b", "topic", ".repo/trees/topic")
    inside = await Inside.open(work, tmp_path / "home")

    await inside.sh("echo x > .repo/hooks/h; echo x > a.txt; git commit -qam more; test ! -e .repo/trees")

    assert outside(work, "log", "-1", "--format=%s") == "more\n"
    assert not (work / ".repo/hooks/h").exists()
    assert not (inside.folder / "trees").exists()
    inside.view.close()


async def test_a_git_folder_of_another_name(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    outside(work, "init", "-q", "--separate-git-dir=.repo")

    assert await find(str(work)) is None
    assert git_folders(str(work)) == [f"{work}/.git", f"{work}/.repo"]


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

    assert await find(str(work)) is None
    own = [f"{work}/.git"] if has_pointer else []
    assert sorted(git_folders(str(work))) == sorted(
        [*own, f"{work}/.bare", f"{work}/main/.git", f"{work}/in/other/.git"]
    )


async def test_submodules_and_worktrees_of_a_repository_that_has_no_view(tmp_path: Path) -> None:
    work = _nest(tmp_path)
    outside(work, "config", "core.sparseCheckout", "true")
    outside(work, "worktree", "add", "-q", "-b", "topic", "topic")

    with pytest.raises(ToolError, match="sparse"):
        await find(str(work))

    found = git_folders(str(work))
    assert {f"{work}/{name}" for name in (".git", "sub/.git", "sub/deep/nested/.git", "topic/.git")} <= {
        *found
    }
    # A worktree has its submodules too, here one that is not checked out.
    assert f"{work}/topic/sub" in found


def test_folders_without_git_have_none(tmp_path: Path) -> None:
    (tmp_path / "work/a").mkdir(parents=True)
    outside(tmp_path / "work", "init", "-q", "--bare", "remote.git")

    assert git_folders(str(tmp_path / "work")) == []
    assert git_folders(str(tmp_path / "none")) == []


async def test_a_way_through_a_link_is_refused(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    outside(work, "init", "-q", "--separate-git-dir=.repo")
    (work / "link").symlink_to(".repo")
    (work / ".git").write_text("gitdir: ./link\n")
    outside(work, "config", "core.worktree", str(work))

    assert await find(str(work)) is None
    with pytest.raises(ToolError, match="behind a link"):
        git_folders(str(work))


@pytest.mark.parametrize("data", [b"", b"DIRC", b"DIRC\0\0\0\2\0\0\0\1\0\0\xe0\0", b"x" * 50 + b"\0\0\xe0\0"])
async def test_an_index_that_is_none(data: bytes, tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    (work / ".git/index").write_bytes(data)

    assert git_folders(str(work)) == [f"{work}/.git"]
