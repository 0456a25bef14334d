"""Changes to a repository: the only place that writes to one, but for new objects.

Keep true:
1. A ref is changed only if it still has the value that the change was decided on. So too HEAD and the index.
2. Whoever else works in the repository is kept out, and heard, by git's own locks.
3. Git writes refs and HEAD. Files are written here only where git has no command for it: the index as git
   has made it, hashes and texts of a merge, the log of the stash.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from placet.errors import ToolError
from placet.sandbox.git.checkout import HASHES, TEXTS, Checkout
from placet.sandbox.git.folder import Folder, Signature, signature
from placet.sandbox.git.lock_note import drop_note, take_lock
from placet.sandbox.git.refs import parse_value
from placet.sandbox.git.repository import Repository
from placet.sandbox.git.trusted import git

Move = tuple[bytes | None, bytes | None]
"""A ref's old and new value; None where there is none."""

WHY = "placet: brought over from the sandbox"


class Writing:
    """Changes to one repository, decided on when it was as `now` says. `note` is a file of ours."""

    def __init__(self, repository: Repository, host: Folder, now: Checkout, note: str) -> None:
        self._repository = repository
        self._host = host
        self._now = now
        self._inner = repository.inner
        self._zeros = b"0" * (64 if repository.is_sha256 else 40)
        self._index = os.path.join(repository.git_dir, "index")
        self._lock = f"{self._index}.lock"
        self._note = note
        self._is_locked = False

    async def move_refs(self, moves: Mapping[bytes, Move]) -> None:
        """Change refs: all of them or none.

        Raises:
            ToolError: one is not what it was, or git does not take it.
        """
        lines: list[bytes] = []
        for name, (old, new) in sorted(moves.items()):
            order = [b"delete " + name] if new is None else [b"update " + name, new]
            lines += [*order, old or self._zeros]
        if lines:
            await git(
                ["update-ref", "-m", WHY, "--stdin", "-z"],
                git_dir=self._repository.git_dir,
                stdin=b"".join(line + b"\0" for line in lines),
            )

    async def move_head(self, here: Checkout) -> None:
        """Put HEAD on another branch, or on a commit.

        Raises:
            ToolError: it is not where it was.
        """
        if parse_value(self._host.read(f"{self._inner}HEAD", 4096) or b"") != self._now.head:
            raise ToolError("HEAD was moved outside meanwhile.")
        branch = here.branch
        if branch is None:
            how = ["update-ref", "-m", WHY, "--no-deref", "HEAD", here.head.decode()]
        else:
            how = ["symbolic-ref", "-m", WHY, "HEAD", os.fsdecode(branch)]
        await git(how, git_dir=self._repository.git_dir)

    def write_states(self, states: Mapping[str, bytes]) -> None:
        """Write down what a merge that is going on has left, or that none is."""
        for name in (*HASHES, *TEXTS):
            new = states.get(name)
            if new == self._now.states.get(name):
                continue
            if new is None:
                self._host.remove(f"{self._inner}{name}")
            else:
                self._host.write(f"{self._inner}{name}", new)

    def write_stash(self, stash: bytes) -> None:
        """Write the log of the stash. When the stash is empty, git has removed it with the ref."""
        if stash:
            self._host.write("logs/refs/stash", stash)

    def lock(self) -> bool:
        """Take the lock of the index; whether it was free.

        Raises:
            ToolError: the index is not what it was.
        """
        if not take_lock(self._lock, self._note):
            return False
        self._is_locked = True
        if self._host.signature(f"{self._inner}index") != self._now.index:
            self.unlock()
            raise ToolError("The index was changed outside meanwhile.")
        return True

    def unlock(self) -> None:
        """Let go of the lock of the index, if it is ours."""
        if self._is_locked:
            self._is_locked = False
            os.unlink(self._lock)
            drop_note(self._note)

    def put_index(self, data: bytes) -> Signature:
        """Let another index take the place of the old one, by the name of its lock, as git does."""
        assert self._is_locked
        with open(self._lock, "wb") as file:
            file.write(data)
            file.flush()
            if self._now.index is not None:
                old = os.stat(self._index)
                os.fchmod(file.fileno(), old.st_mode & 0o777)
                if os.geteuid() == 0:
                    os.fchown(file.fileno(), old.st_uid, old.st_gid)
                # Files that were changed after git last looked must not seem older than the index.
                os.utime(file.fileno(), ns=(old.st_mtime_ns, old.st_mtime_ns))
        os.rename(self._lock, self._index)
        self._is_locked = False
        drop_note(self._note)
        return signature(os.stat(self._index))
