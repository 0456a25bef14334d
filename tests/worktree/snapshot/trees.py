"""Trees on the disk, told in full so that two of them can be compared; and git in a repository of a test."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

Told = dict[bytes, tuple[str, int, bytes]]


def told(folder: Path | str, *, objects: bool = True, besides: tuple[bytes, ...] = ()) -> Told:
    """Everything beneath a folder: kind, mode, and bytes or the text of a link. Without `objects`, files that
    hold objects of git are passed over, and the folders that hold only those."""
    top = os.fsencode(folder)
    found: Told = {b"": ("folder", stat.S_IMODE(os.lstat(top).st_mode), b"")}
    for where, folders, files in os.walk(top):
        for name in sorted((*folders, *files)):
            path = os.path.join(where, name)
            inside = os.path.relpath(path, top)
            if inside.startswith(besides) and besides:
                continue
            if not objects and b".git/objects/" in inside:
                continue
            mode = os.lstat(path).st_mode
            bits = stat.S_IMODE(mode)
            if stat.S_ISLNK(mode):
                found[inside] = ("link", 0, os.readlink(path))
            elif stat.S_ISDIR(mode):
                found[inside] = ("folder", bits, b"")
            elif stat.S_ISREG(mode):
                with open(path, "rb") as file:
                    found[inside] = ("file", bits, file.read())
            else:
                found[inside] = ("other", bits, b"")
    return found


def git(folder: Path | str, *arguments: str, check: bool = True) -> str:
    """Run git in a repository of a test, as a person would, with no settings but these."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_COUNT": "1",  # No housekeeping after a commit: it takes longer than the commit.
        "GIT_CONFIG_KEY_0": "maintenance.auto",
        "GIT_CONFIG_VALUE_0": "false",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.org",
        "GIT_OPTIONAL_LOCKS": "0",
    }
    done = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def views(folder: Path) -> dict[str, str]:
    """What git says of a repository, in the ways in which people ask."""
    asked = {
        "status": ("status", "--porcelain=v2", "--branch", "--ignored"),
        "stash": ("stash", "list"),
        "staged": ("diff", "--cached"),
        "unstaged": ("diff",),
        "log": ("log", "--all", "--oneline", "--decorate=full"),
        "refs": ("for-each-ref",),
    }
    return {name: git(folder, *arguments) for name, arguments in asked.items()}


def make_repository(folder: Path, files: int = 300) -> None:
    """A repository with everything that a person leaves lying about: staged, unstaged, untracked, ignored,
    stashed, links, modes, several branches, packed and loose objects."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q")
    git(folder, "config", "user.name", "A")
    git(folder, "config", "user.email", "a@example.org")
    for n in range(files):
        path = folder / f"pkg{n % 12}" / f"module_{n}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# module {n}\n" * (n % 40 + 1))
    (folder / ".gitignore").write_text("*.log\nbuild/\nnode_modules/\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("pkg0/module_0.py")
    (folder / "away").symlink_to("/nowhere/at/all")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    git(folder, "branch", "other")
    git(folder, "gc", "-q")
    (folder / "pkg1" / "module_1.py").write_text("second\n")
    git(folder, "commit", "-q", "-am", "second")
    git(folder, "tag", "v1")
    (folder / "pkg2" / "module_2.py").write_text("stashed\n")
    git(folder, "stash", "-q")
    (folder / "pkg3" / "module_3.py").write_text("stashed too\n")
    (folder / "new-in-stash.txt").write_text("untracked, in the stash\n")
    git(folder, "stash", "-q", "-u")
    (folder / "pkg4" / "module_4.py").write_text("staged\n")
    (folder / "pkg4" / "added.py").write_text("added\n")
    git(folder, "add", "pkg4")
    git(folder, "rm", "-q", "--cached", "pkg5/module_5.py")
    (folder / "pkg4" / "module_4.py").write_text("staged and then changed\n")
    (folder / "pkg6" / "module_6.py").unlink()
    (folder / "untracked.txt").write_text("never added\n")
    (folder / 'odd "name"\n\\ with\ttab.txt').write_text("odd\n")
    (folder / "debug.log").write_text("ignored\n")
    (folder / "build").mkdir()
    (folder / "build" / "out.bin").write_bytes(os.urandom(2000))
    (folder / "empty" / "within").mkdir(parents=True)
    (folder / "empty").chmod(0o555)
    os.utime(folder / "run.sh", ns=(10**18, 10**18 + 123456789))
