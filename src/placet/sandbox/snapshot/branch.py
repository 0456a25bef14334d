"""The branch of a linked worktree, put back in the repository that the worktree is linked to.

Only this branch, and only if it is what was made of it in the worktree: every move of a branch from there is
in the worktree's own log, so a value that did not come into it since is somebody else's work.

Keep true:
1. The log of the branch is written before the branch: broken off in between, it is done again.
2. The branch is changed under the lock that git itself takes.
"""

from __future__ import annotations

import os
from contextlib import suppress

from placet.sandbox.snapshot.contents import write_all
from placet.sandbox.snapshot.manifest import Branch, shown
from placet.sandbox.snapshot.repository import value_of


def restore_branch(branch: Branch) -> tuple[bool, str | None]:
    """Whether it was put back, and why it could not be, if it could not. Call it before the worktree's own
    git folder is put back.
    """
    now = value_of(branch.common, branch.name)
    if now == branch.value:
        return False, None
    # To bring one back that is gone takes nothing from anybody.
    if now and now not in _moves(branch):
        return False, f"branch {shown(branch.name)} was moved by somebody else since, and was left"
    words = f"branch {shown(branch.name)}"
    path = os.path.join(branch.common, branch.name)
    lock = path + b".lock"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not _lock(lock, branch.value + b"\n"):
            return False, f"{words} is locked by another git; remove its .lock if none runs"
        _restore_log(branch)
        if branch.value:
            os.rename(lock, path)
        else:
            with suppress(FileNotFoundError):
                os.unlink(path)
            os.unlink(lock)
    except OSError as error:
        return False, f"{words}: {error.strerror}"
    return True, None


def hold_branch(common: bytes, name: bytes, value: bytes) -> str | None:
    """See that a branch names a value in a file of its own, and not in one with others that is put back; why
    not, if it cannot be."""
    path = os.path.join(common, name)
    if os.path.isfile(path) and value_of(common, name) == value:
        return None
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not _lock(path + b".lock", value + b"\n"):
            return f"branch {shown(name)} is locked by another git; it should name {shown(value)}"
        os.rename(path + b".lock", path)
    except OSError as error:
        return f"branch {shown(name)} should name {shown(value)}: {error.strerror}"
    return None


def _lock(lock: bytes, text: bytes) -> bool:
    """Take git's lock with the new value in it; also one that we took before we were killed."""
    temporary = lock + b".placet.tmp"
    _write_new(temporary, text)
    try:
        # A second name is there at once with all of its text, or not at all.
        os.link(temporary, lock)
        return True
    except FileExistsError:
        with open(lock, "rb") as file:
            return file.read(len(text) + 1) == text
    finally:
        os.unlink(temporary)


def _restore_log(branch: Branch) -> None:
    path = os.path.join(branch.common, b"logs", branch.name)
    if branch.log is None:
        with suppress(FileNotFoundError):
            os.unlink(path)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = path + b".placet.tmp"
    _write_new(temporary, branch.log)
    os.rename(temporary, path)


def _write_new(path: bytes, data: bytes) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        write_all(opened, data)
    finally:
        os.close(opened)


def _moves(branch: Branch) -> set[bytes]:
    """What the worktree's own log says that its HEAD has named since the snapshot."""
    try:
        with open(os.path.join(branch.private, b"logs/HEAD"), "rb") as file:
            text = file.read()
    except OSError:
        return set()
    # A log that has become shorter was written anew.
    lines = text[branch.moves if len(text) >= branch.moves else 0 :].splitlines()
    return {words[1] for words in (line.split(b" ", 2) for line in lines) if len(words) == 3}
