"""The repository of a workspace beside a snapshot: what git_commit did is taken back, all else is told.

No command can write the git folder in a sandbox, so it is neither kept nor brought back. What a program
without a sandbox, or a person, has done to it stays.

Keep true:
1. The branch moves back only over commits of git_commit, each the tip when it was made, and only if it leads
   to the commit that was there before.
2. The index moves first: broken off in between, it is done again.
3. What is looked at names no program that is run.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from placet.errors import ToolError
from placet.sandbox.git_folder import GitFolder, look_up, names_in, read, read_line
from placet.worktree.git import REFLOG, git_sync, index_lines

INDEX = "index-seen"
"""The index as it was, in the store of a snapshot."""
_MOST = 1 << 24
_BRANCH = re.compile(r"ref: (refs/heads/[^\0\n]+)\Z")
_NAMED = re.compile(rb"([0-9a-f]{40}(?:[0-9a-f]{24})?)\s*\Z")


class GitState(msgspec.Struct, frozen=True, array_like=True):
    """What people see of a repository, as far as it is theirs."""

    head: str
    """The branch that is checked out, as HEAD has it."""
    commit: str
    """The commit of that branch; empty if there is none."""
    stash: str
    index: str
    """Digest of what is staged."""
    settings: str
    """Digest of config and hooks."""


class Reverted(NamedTuple):
    """What became of the repository."""

    commits: int = 0
    """How many commits were taken back."""
    not_restored: Sequence[str] = ()
    """What is not as before."""


def repository_of(folder: str) -> GitFolder | None:
    """The git folder of a workspace that is the top of a checkout."""
    found = look_up(folder)
    return found if found is not None and found.top == os.path.realpath(folder) else None


def git_state(found: GitFolder) -> GitState:
    """Look at a repository."""
    return GitState(
        *tip_of(found),
        _value(found.common, "refs/stash"),
        _digest(_staged(found)),
        _digest(_settings(found)),
    )


def tip_of(found: GitFolder) -> tuple[str, str]:
    """HEAD, and the commit of its branch, or its own; empty if there is none."""
    head = read_line(found.git_dir, "HEAD") or ""
    branch = _BRANCH.match(head)
    return head, _value(found.common, branch[1]) if branch is not None else head


def revert(before: GitState, found: GitFolder | None, index: str) -> Reverted:
    """Take back the commits of git_commit since `before`, and tell what else is not as before.

    `index` is a copy of the index of then.
    """
    if found is None:
        return Reverted(not_restored=[".git (it is gone, or is another repository)"])
    now = git_state(found)
    commits = _ours(found, before, now)
    problem = ""
    if commits:
        try:
            _reset(found, before.commit, now.commit, index)
        except ToolError as error:
            problem = f".git (a commit was not taken back: {error})"
        now = git_state(found)
    parts = {
        "HEAD": now.head != before.head,
        "the commit of its branch": now.commit != before.commit,
        "stash": now.stash != before.stash,
        "index": now.index != before.index,
        "config or hooks": now.settings != before.settings,
    }
    changed = ", ".join(name for name, is_other in parts.items() if is_other)
    told = [problem] if problem else [f".git ({changed})"] if changed else []
    return Reverted(0 if problem else len(commits), told)


def _ours(found: GitFolder, before: GitState, now: GitState) -> list[str]:
    """The commits of git_commit that lead from what was there before to what is there now; else none."""
    on_no_branch = now.head == now.commit and before.head == before.commit
    if now.commit == before.commit or not (now.head == before.head or on_no_branch):
        return []
    at, commits = now.commit, []
    log = read(os.path.join(found.git_dir, "logs"), "HEAD", _MOST) or b""
    for line in reversed(log.decode(errors="replace").splitlines()):
        about, _, reason = line.partition("\t")
        old, new = [*about.split(" ", 2), "", ""][:2]
        if new != at or not reason.startswith(f"{REFLOG}: "):
            return []
        commits.append(new)
        at = old
        if at == before.commit:
            return commits
    return []


def _reset(found: GitFolder, old: str, now: str, index: str) -> None:
    """Move the branch back, and the entries of what was committed in the index."""
    named = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", old, now]
    paths = [path for path in git_sync(named, git_dir=found.git_dir).split(b"\0") if path]
    listed = git_sync(
        ["ls-files", "--stage", "-z"], git_dir=found.git_dir, environment={"GIT_INDEX_FILE": index}
    )
    entries: dict[bytes, tuple[bytes, bytes]] = {}
    for line in listed.split(b"\0"):
        about, _, path = line.partition(b"\t")
        if path:
            mode, name, _ = about.split(b" ")
            entries[path] = mode, name
    lines = index_lines(entries, paths, len(old))
    git_sync(["update-index", "-z", "--index-info"], git_dir=found.git_dir, stdin=lines)
    who = {"GIT_COMMITTER_NAME": "Placet", "GIT_COMMITTER_EMAIL": "placet@localhost"}
    reason = "placet: aborted"
    git_sync(["update-ref", "-m", reason, "HEAD", old, now], git_dir=found.git_dir, environment=who)


def _staged(found: GitFolder) -> bytes:
    try:
        return git_sync(["ls-files", "--stage", "-z"], git_dir=found.git_dir)
    except ToolError:
        return b""


def _settings(found: GitFolder) -> bytes:
    hooks = os.path.join(found.common, "hooks")
    kept = [read(found.common, "config", _MOST) or b""]
    for name in names_in(hooks, 1000):
        kept.append(os.fsencode(name) + b"\0" + (read(hooks, name, _MOST) or b""))
    return b"\0".join(kept)


def _value(common: str, name: str) -> str:
    """What a ref names; empty if it does not exist, or refs are kept in another way here."""
    folder, _, last = name.rpartition("/")
    data = read(os.path.join(common, folder), last, _MOST)
    if data is not None:
        found = _NAMED.match(data)
        return found[1].decode() if found is not None else ""
    for line in (read(common, "packed-refs", _MOST) or b"").splitlines():
        value, _, of = line.partition(b" ")
        if of == os.fsencode(name):
            return value.decode()
    return ""


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
