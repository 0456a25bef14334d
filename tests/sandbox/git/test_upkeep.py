"""A view can be used by the next command and by the next run, whatever the last one left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.sandbox.git import refs
from placet.sandbox.git.folder import Folder
from placet.sandbox.git.refs import KnownRefs, read_refs
from tests.sandbox.git.repositories import Inside, make_repository, needs_bubblewrap, outside


@pytest.fixture
async def inside(tmp_path: Path) -> AsyncIterator[Inside]:
    opened = await Inside.open(make_repository(tmp_path / "work"), tmp_path / "home")
    yield opened
    opened.view.close()


@pytest.fixture
async def linked(tmp_path: Path) -> AsyncIterator[Inside]:
    make_repository(tmp_path / "work")
    outside(tmp_path / "work", "worktree", "add", "-q", "-b", "topic", str(tmp_path / "linked"))
    opened = await Inside.open(tmp_path / "linked", tmp_path / "home")
    yield opened
    opened.view.close()


@pytest.fixture(params=["inside", "linked"])
def here(request: pytest.FixtureRequest) -> Inside:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Inside)
    return found


async def _again(inside: Inside) -> Inside:
    """The same view in the hands of the next run."""
    inside.view.close()
    return await Inside.open(inside.workspace, Path(inside.view.home))


@needs_bubblewrap
async def test_what_one_run_puts_there_is_not_run_by_another(here: Inside) -> None:
    script = "printf '#!/bin/sh\\ntouch ran\\n' > ran.sh; chmod +x ran.sh"
    await here.sh(
        f"{script}; d=$(git rev-parse --git-common-dir); cp ran.sh $d/hooks/pre-commit; mkdir $d/modules; "
        "git config core.fsmonitor ./ran.sh; git config extensions.worktreeConfig true; "
        "git config --worktree core.pager ./ran.sh; "
        "git branch mine; echo x > a.txt; git stash -q; git status; test -e ran; rm ran"
    )
    again = await _again(here)

    await again.sh(
        "git stash list | grep -q . ; git status; git commit -q --allow-empty -m next; test ! -e ran"
    )

    assert await again.git("config", "--get-regexp", "fsmonitor|pager", fails=True) == ""
    assert "mine" in await again.git("branch")
    assert not (again.folder / "modules").exists()
    again.view.close()


@needs_bubblewrap
async def test_a_hook_lasts_from_one_command_to_the_next(inside: Inside) -> None:
    await inside.sh(
        "printf '#!/bin/sh\\ntouch ran\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit"
    )

    await inside.sh("git commit -q --allow-empty -m next; test -e ran")


_KILLED = """
import os, signal, sys
from placet.sandbox.git.lock_note import take_lock
assert take_lock(sys.argv[1], sys.argv[2])
os.kill(os.getpid(), signal.SIGKILL)
"""


def _take_lock_and_die(lock: Path, note: str) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, str(lock), note], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL


@needs_bubblewrap
async def test_the_lock_of_a_process_that_was_killed_is_removed(inside: Inside, tmp_path: Path) -> None:
    lock = inside.workspace / ".git/index.lock"
    _take_lock_and_die(lock, inside.view.lock_note)
    assert lock.exists()
    inside.view.close()
    for name in ("quarantine-1/objects", "old-2/refs"):
        (tmp_path / "home" / name).mkdir(parents=True)

    again = await _again(inside)
    await again.sh("echo x > a.txt; git commit -qam more")

    assert outside(again.workspace, "log", "-1", "--format=%s") == "more\n"
    assert [path.name for path in (again.workspace / ".git").glob("index*")] == ["index"]
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["agreed", "empty", "index", "view"]
    again.view.close()


@needs_bubblewrap
async def test_the_lock_of_another_git_is_not_removed(inside: Inside) -> None:
    lock = inside.workspace / ".git/index.lock"
    _take_lock_and_die(lock, inside.view.lock_note)
    other = lock.with_name("other")
    other.write_text("")
    other.replace(lock)

    again = await _again(inside)
    await again.sh("echo x > a.txt; git add a.txt")

    assert lock.exists()
    assert "index.lock is there" in " ".join(again.said)
    again.view.close()


_DEEP = """
import os
os.chdir(".git/refs")
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
"""


@needs_bubblewrap
async def test_folders_however_deep_are_removed(inside: Inside, tmp_path: Path) -> None:
    await inside.view.refresh()
    inside.only_run(sys.executable, "-c", _DEEP)
    await inside.bring_over()

    assert "main" in await inside.git("branch")
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["agreed", "empty", "index", "view"]


@needs_bubblewrap
@pytest.mark.parametrize(
    "script",
    [
        "chmod 000 .git/refs",
        "chmod 000 .git/refs/heads .git/objects .git/info .git/logs",
        "chmod 000 .git/HEAD .git/index .git/config .git/packed-refs",
        "chmod 000 .git/refs/heads/main; chmod 400 .git/logs/HEAD; chmod 500 .git",
        "chmod 000 .git",
    ],
)
async def test_modes_are_mended(script: str, inside: Inside) -> None:
    await inside.sh("git branch mine; git update-ref refs/private/x HEAD; git commit -q --allow-empty -m x")

    await inside.sh(script)
    await inside.sh("git commit -q --allow-empty -m after; git rev-parse refs/private/x")

    for path in (inside.folder, *inside.folder.rglob("*")):
        assert os.stat(path).st_mode & 0o400, path
        assert not path.is_dir() or os.stat(path).st_mode & 0o700 == 0o700, path
    assert outside(inside.workspace, "log", "-1", "--format=%s") == "after\n"


@needs_bubblewrap
@pytest.mark.parametrize(
    "name", ["config", "shallow", "info/exclude", "logs/HEAD", "objects/info/alternates", "commondir", "x"]
)
async def test_nobody_waits_at_a_pipe(name: str, inside: Inside) -> None:
    await inside.sh(f"git commit -q --allow-empty -m before; rm -f .git/{name}; mkfifo .git/{name}")
    said = inside.said

    log = await inside.run("timeout", "20", "git", "log", "--format=%s", "-1")
    await inside.run("timeout", "20", "git", "commit", "-q", "--allow-empty", "-m", "after")

    assert log == "before\n"
    assert "Brought over" in " ".join(said)
    assert outside(inside.workspace, "log", "-1", "--format=%s") == "after\n"


@needs_bubblewrap
async def test_a_socket_or_a_link_of_no_use_to_git_does_no_harm(inside: Inside) -> None:
    await inside.sh("git update-ref refs/private/x HEAD; ln -s /x .git/some-link")

    await inside.sh("git rev-parse refs/private/x; test -L .git/some-link")


@needs_bubblewrap
async def test_a_stash_that_stays_inside_is_told(linked: Inside) -> None:
    (linked.workspace / "a.txt").write_text("work of a person\n")

    await linked.git("stash")
    said = " ".join(linked.said)
    await linked.sh("true")
    later = linked.said
    again = await _again(linked)
    await again.sh("git status")
    next_run = " ".join(again.said)
    await again.git("stash", "pop")

    assert "1 stash entry stays inside: `git stash pop`" in said
    assert later == []
    assert "1 stash entry stays inside" in next_run
    assert "stash" not in " ".join(again.said)
    assert (linked.workspace / "a.txt").read_text() == "work of a person\n"
    again.view.close()


def test_refs_that_have_not_changed_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were changed just now are: they could change again and bear the same time."""
    git_dir = make_repository(tmp_path / "work") / ".git"
    known: KnownRefs = {}
    with Folder(str(git_dir)) as folder:
        first = read_refs(folder, known)
        assert known == {}
        monkeypatch.setattr(refs, "_SETTLED_NS", -(10**12))
        read_refs(folder, known)
        assert {"refs/heads/main", "refs/heads/other", "refs/tags/v1"} == {*known}
        monkeypatch.setattr(refs, "parse_value", lambda data: pytest.fail("it was read again"))
        assert read_refs(folder, known) == first
        monkeypatch.undo()

        # In place, so that no folder changes.
        (git_dir / "refs/heads/other").write_text("f" * 40 + "\n")
        outside(tmp_path / "work", "tag", "-d", "v1")

        changed = read_refs(folder, known)
        assert changed.values[b"refs/heads/other"] == b"f" * 40
        assert b"refs/tags/v1" not in changed.values
        assert "refs/tags/v1" not in known
