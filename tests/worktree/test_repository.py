"""Which folder is a repository for us, and that git of our own side obeys nobody."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from placet.errors import ToolError
from placet.worktree import git as trusted
from placet.worktree.repository import find_checkout, identity
from tests.worktree.repositories import make_repository, outside


async def test_a_main_checkout(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")

    found = await find_checkout(str(work))

    assert found is not None
    assert (found.top, found.common, found.git_dir) == (str(work), f"{work}/.git", f"{work}/.git")
    assert found.git_dir == found.common


async def test_a_linked_checkout(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    outside(work, "worktree", "add", "-q", str(tmp_path / "linked"))

    found = await find_checkout(str(tmp_path / "linked"))

    assert found is not None
    assert (found.common, found.git_dir) == (f"{work}/.git", f"{work}/.git/worktrees/linked")
    assert found.git_dir != found.common


async def test_no_repository(tmp_path: Path) -> None:
    assert await find_checkout(str(tmp_path)) is None


async def test_a_pointer_that_nothing_leads_back_to_is_none(tmp_path: Path) -> None:
    """Anybody can write such a file, and would see what it leads to."""
    work = make_repository(tmp_path / "work")
    outside(work, "worktree", "add", "-q", str(tmp_path / "linked"))
    for number, target in enumerate((work / ".git", work / ".git/worktrees/linked", tmp_path / "nothing")):
        forged = tmp_path / f"forged{number}"
        forged.mkdir()
        (forged / ".git").write_text(f"gitdir: {target}\n")

        assert await find_checkout(str(forged)) is None


async def test_a_commondir_that_leads_elsewhere_is_none(tmp_path: Path) -> None:
    work, secret = make_repository(tmp_path / "work"), make_repository(tmp_path / "secret")
    outside(work, "worktree", "add", "-q", str(tmp_path / "linked"))
    (work / ".git/worktrees/linked/commondir").write_text(f"{secret}/.git\n")

    assert await find_checkout(str(tmp_path / "linked")) is None


async def test_a_link_is_none(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/.git").symlink_to(work / ".git")

    assert await find_checkout(str(tmp_path / "other")) is None


async def test_a_repository_in_the_home_folder_is_none_for_what_lies_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_repository(tmp_path / "home")
    monkeypatch.setenv("HOME", str(home))

    assert await find_checkout(str(home / "sub")) is None
    assert await find_checkout(str(home)) is not None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("core.sparseCheckout", "true"),
        ("remote.origin.promisor", "true"),
        ("extensions.refStorage", "reftable"),
    ],
)
async def test_what_is_not_worked_on_is_refused_with_words(key: str, value: str, tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    outside(work, "config", key, value)

    with pytest.raises(ToolError, match=f"The repository of {work}"):
        await find_checkout(str(work))


async def test_identity_is_that_of_the_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = make_repository(tmp_path / "work")
    for key in ("user.name", "user.email"):
        outside(work, "config", "--unset", key)
    found = await find_checkout(str(work))
    assert found is not None
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    nobody = await identity(found)
    (tmp_path / ".gitconfig").write_text(
        f'[user]\nname = Grace\n[includeIf "gitdir:{work}/"]\npath = for-work\n'
    )
    (tmp_path / "for-work").write_text("[user]\nemail = grace@work.example\n")

    named = await identity(found)

    assert nobody == ("", "")
    assert named == ("Grace", "grace@work.example")


async def test_trusted_git_hears_nothing_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = make_repository(tmp_path / "work")
    canary = tmp_path / "canary"
    fake = tmp_path / "bin/git"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\ntouch {canary}\n")
    fake.chmod(0o755)
    (tmp_path / ".gitconfig").write_text(f'[alias]\nx = "!touch {canary}"\n[core]\nfsmonitor = {fake}\n')
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", f"'alias.x=!touch {canary}'")
    monkeypatch.setenv("GIT_EXEC_PATH", str(fake.parent))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path))
    trusted.program.cache_clear()

    listed = await trusted.git(["ls-files", "--stage"], git_dir=f"{work}/.git")
    with pytest.raises(ToolError, match="git x failed"):
        await trusted.git(["x"], git_dir=f"{work}/.git")

    assert b"a.txt" in listed
    assert not canary.exists()
