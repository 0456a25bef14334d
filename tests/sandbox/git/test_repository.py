"""Which folder is a repository for us, and that git of our own side obeys nobody."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from placet.errors import ToolError
from placet.sandbox.git import trusted
from placet.sandbox.git.repository import find, identity
from placet.sandbox.git.view import open_view
from tests.sandbox.git.repositories import Inside, make_repository, needs_bubblewrap, outside


async def test_a_main_checkout(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")

    found = await find(str(work))

    assert found is not None
    assert (found.top, found.common, found.git_dir) == (str(work), f"{work}/.git", f"{work}/.git")
    assert (found.is_linked, found.pointer, found.inner) == (False, None, "")


async def test_a_linked_checkout(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    outside(work, "worktree", "add", "-q", str(tmp_path / "linked"))

    found = await find(str(tmp_path / "linked"))

    assert found is not None
    assert (found.common, found.git_dir) == (f"{work}/.git", f"{work}/.git/worktrees/linked")
    assert (found.is_linked, found.pointer) == (True, str(tmp_path / "linked/.git"))


async def test_no_repository(tmp_path: Path) -> None:
    assert await find(str(tmp_path)) is None
    assert await open_view(str(tmp_path), str(tmp_path / "home")) is None
    assert not (tmp_path / "home").exists()


async def test_a_pointer_that_nothing_leads_back_to_is_none(tmp_path: Path) -> None:
    """Anybody can write such a file, and would see what it leads to."""
    work = make_repository(tmp_path / "work")
    outside(work, "worktree", "add", "-q", str(tmp_path / "linked"))
    for number, target in enumerate((work / ".git", work / ".git/worktrees/linked", tmp_path / "nothing")):
        forged = tmp_path / f"forged{number}"
        forged.mkdir()
        (forged / ".git").write_text(f"gitdir: {target}\n")

        assert await find(str(forged)) is None


async def test_a_commondir_that_leads_elsewhere_is_none(tmp_path: Path) -> None:
    work, secret = make_repository(tmp_path / "work"), make_repository(tmp_path / "secret")
    outside(work, "worktree", "add", "-q", str(tmp_path / "linked"))
    (work / ".git/worktrees/linked/commondir").write_text(f"{secret}/.git\n")

    assert await find(str(tmp_path / "linked")) is None


async def test_a_link_is_none(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/.git").symlink_to(work / ".git")

    assert await find(str(tmp_path / "other")) is None


async def test_a_repository_in_the_home_folder_is_none_for_what_lies_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_repository(tmp_path / "home")
    monkeypatch.setenv("HOME", str(home))

    assert await find(str(home / "sub")) is None
    assert await find(str(home)) is not None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("core.sparseCheckout", "true"),
        ("remote.origin.promisor", "true"),
        ("extensions.refStorage", "reftable"),
    ],
)
async def test_what_cannot_be_shown_is_refused_with_words(key: str, value: str, tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    outside(work, "config", key, value)

    with pytest.raises(ToolError, match="Git is not offered inside"):
        await open_view(str(work), str(tmp_path / "home"))


async def test_identity_is_that_of_the_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = make_repository(tmp_path / "work")
    for key in ("user.name", "user.email"):
        outside(work, "config", "--unset", key)
    found = await find(str(work))
    assert found is not None
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    nobody = await identity(found)
    (tmp_path / ".gitconfig").write_text(
        f'[user]\nname = Grace\n[includeIf "gitdir:{work}/"]\npath = for-work\n'
    )
    (tmp_path / "for-work").write_text("[user]\nemail = grace@work.example\n")

    named = await identity(found)

    assert nobody == {}
    assert named["GIT_AUTHOR_NAME"] == named["GIT_COMMITTER_NAME"] == "Grace"
    assert named["GIT_COMMITTER_EMAIL"] == "grace@work.example"


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


async def test_one_folder_serves_one_view_at_a_time(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    first = await open_view(str(work), str(tmp_path / "home"))

    with pytest.raises(ToolError, match="in use"):
        await open_view(str(work), str(tmp_path / "home"))

    assert first is not None
    first.close()
    again = await open_view(str(work), str(tmp_path / "home"))
    assert again is not None
    again.close()


@needs_bubblewrap
@pytest.mark.parametrize(
    "kind", ["shared", "relative", "shallow", "split index", "index v4", "packed", "empty", "sha256"]
)
async def test_repositories_of_all_kinds(kind: str, tmp_path: Path) -> None:
    work = make_repository(tmp_path / "first")
    match kind:
        case "shared" | "relative":
            outside(tmp_path, "clone", "-q", "--shared", "first", "second")
            outside(tmp_path, "clone", "-q", "--shared", "second", "third")
            work = tmp_path / "third"
            if kind == "relative":
                (work / ".git/objects/info/alternates").write_text("../../../second/.git/objects\n")
        case "shallow":
            outside(tmp_path, "clone", "-q", "--depth", "1", f"file://{work}", "third")
            work = tmp_path / "third"
        case "split index":
            outside(work, "update-index", "--split-index")
            outside(work, "config", "core.splitIndex", "true")
        case "index v4":
            outside(work, "update-index", "--index-version", "4")
        case "packed":
            outside(work, "gc", "-q")
        case "sha256":
            work = make_repository(tmp_path / "third", "--object-format=sha256")
        case _:
            work = tmp_path / "new"
            work.mkdir()
            outside(work, "init", "-q", "-b", "main")
    for key, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        outside(work, "config", key, value)
    inside = await Inside.open(work, tmp_path / "home")

    assert await inside.git("status", "--porcelain") == ""
    (work / "a.txt").write_text("changed\n")
    (work / "new.txt").write_text("new\n")
    await inside.git("add", ".")
    staged = outside(work, "diff", "--cached", "--name-only")
    await inside.git("commit", "-qm", "inside")
    await inside.git("gc", "-q")

    assert staged == "a.txt\nnew.txt\n"
    assert outside(work, "log", "-1", "--format=%s") == "inside\n"
    assert outside(work, "status", "--porcelain") == ""
    assert await inside.git("log", "-1", "--format=%s") == "inside\n"
    outside(work, "fsck", "--strict", "--no-dangling")
    inside.view.close()


@needs_bubblewrap
async def test_a_submodule_is_a_checkout_of_its_own(tmp_path: Path) -> None:
    make_repository(tmp_path / "library")
    work = make_repository(tmp_path / "work")
    add = ("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(tmp_path / "library"), "lib")
    outside(work, *add)
    outside(work, "commit", "-qm", "with a library")
    for key, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        outside(work / "lib", "config", key, value)
    within = await Inside.open(work / "lib", tmp_path / "home")
    above = await Inside.open(work, tmp_path / "other")

    await within.sh("echo x > a.txt; git commit -qam in-the-library")
    await above.git("status", "--porcelain")
    above.only_run("sh", "-c", "echo 'gitdir: /tmp' > lib/.git", fails=True)
    await above.sh("echo x > a.txt; git commit -qam above")

    assert outside(work / "lib", "log", "-1", "--format=%s") == "in-the-library\n"
    assert outside(work, "log", "-1", "--format=%s") == "above\n"
    assert outside(work, "status", "--porcelain") == " M lib\n"
    within.view.close()
    above.view.close()
