"""Git under Landlock alone: it reads in a linked worktree, and a forged pointer shows nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from placet.sandbox.command import Finished, run_command
from placet.sandbox.isolation import Facts
from placet.sandbox.landlock import abi
from placet.sandbox.limits import Limits
from placet.sandbox.sandbox import Sandbox
from placet.sandbox.workspace import Workspace

pytestmark = pytest.mark.skipif(abi() < 1, reason="this kernel has no Landlock")


def git(folder: Path, *argv: str) -> None:
    named = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    subprocess.run(["git", *named, *argv], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    main = tmp_path / "main"
    main.mkdir()
    git(main, "init", "-q")
    (main / "file").write_text("one\n")
    git(main, "add", "file")
    git(main, "commit", "-qm", "first")
    git(main, "worktree", "add", "-q", "../linked")
    return tmp_path / "linked"


async def run(folder: Path, command: str) -> Finished:
    workspace = Workspace(folder)
    try:
        sandbox = Sandbox(workspace, "landlock", Facts())
        return await run_command(
            ["sh", "-c", command], folder=workspace.fd, limits=Limits(time_s=30), sandbox=sandbox
        )
    finally:
        workspace.close()


async def test_git_reads_in_a_linked_worktree(linked: Path) -> None:
    (linked / "file").write_text("two\n")

    log = await run(linked, "git log --format=%s")
    changed = await run(linked, "git status --porcelain && git diff --stat")

    assert (log.exit_code, log.stdout) == (0, b"first\n")
    assert changed.exit_code == 0
    assert changed.stdout.startswith(b" M file\n")


async def test_git_does_not_write_there(linked: Path) -> None:
    common = linked.parent / "main/.git"
    config, refs = (common / "config").read_bytes(), sorted((common / "refs").rglob("*"))

    finished = await run(linked, "git config core.hooksPath /x; git branch other; git commit -qam no; true")

    assert finished.exit_code == 0
    assert (common / "config").read_bytes() == config
    assert sorted((common / "refs").rglob("*")) == refs


async def test_a_pointer_that_a_command_has_forged_shows_nothing(linked: Path) -> None:
    secret = linked.parent / "elsewhere"
    git(linked.parent, "init", "-q", str(secret))
    (secret / ".git/secret").write_text("hidden")
    worktree = secret / ".git/worktrees/mine"
    forged = linked / "fake/worktrees/mine"
    forged.mkdir(parents=True)
    (forged / "gitdir").write_text(f"{linked}/.git\n")
    (forged / "commondir").write_text(f"{secret}/.git\n")

    for pointer in (f"{secret}/.git", str(worktree), str(forged), f"{linked}/fake"):
        (linked / ".git").write_text(f"gitdir: {pointer}\n")
        finished = await run(linked, f"cat {secret}/.git/secret")
        assert finished.exit_code != 0, pointer
        assert b"hidden" not in finished.stdout


async def test_it_is_the_landlock_that_keeps_the_rest_out(linked: Path) -> None:
    (linked.parent / "main/other").write_text("hidden")

    finished = await run(linked, f"cat {linked.parent}/main/other")

    assert finished.exit_code != 0
    assert finished.stdout == b""
