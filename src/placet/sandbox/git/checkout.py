"""What one side has, the repository or the view; and what both had when they last agreed.

Keep true:
1. Both sides are read by the same code, so what is equal compares equal.
2. What was agreed on is kept outside the view, where no command reaches it.
"""

from __future__ import annotations

import os
import re

import msgspec

from placet.sandbox.git.folder import Damaged, Folder, Signature
from placet.sandbox.git.refs import HASH, MOST_REF_BYTES, KnownRefs, Refs, branch_of, parse_value, read_refs

MOST_LOG_BYTES = 1 << 20
MOST_TEXT_BYTES = 1 << 20

STASH = b"refs/stash"
HASHES = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "ORIG_HEAD")
"""Files of a checkout that hold hashes, one in a line."""
TEXTS = ("MERGE_MSG", "MERGE_MODE", "SQUASH_MSG")
"""Files of a checkout that git shows or takes as text, and nothing else."""
UNDER_WAY = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase or am",
    "sequencer": "a cherry-pick or revert of several commits",
    "BISECT_START": "a bisect",
}
"""What git goes on with by its own notes. Such notes can hold commands, so they stay on their side."""

_STASH_LINE = re.compile(rb"([0-9a-f]{40,64}) ([0-9a-f]{40,64}) [^\n\t]{1,1000} \d{1,12} [+-]\d{4}\t[^\n]*")
_STEERING = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")


class Checkout(msgspec.Struct, frozen=True, kw_only=True):
    """One side."""

    refs: dict[bytes, bytes]
    bad: dict[bytes, str] = {}
    head: bytes
    """A hash, or `ref: ` and the name of a branch."""
    states: dict[str, bytes]
    """What the files in HASHES and TEXTS hold, where there are any."""
    stash: bytes
    """The log of the stash: each line is one entry of it."""
    index: Signature | None

    @property
    def branch(self) -> bytes | None:
        return branch_of(self.head)

    @property
    def standing(self) -> tuple[bytes, bytes, dict[str, bytes]]:
        """What the checkout is, but for the index: HEAD, the commit it is on, a merge under way."""
        branch = self.branch
        commit = self.head if branch is None else self.refs.get(branch, b"")
        return self.head, commit, self.states


class Agreed(msgspec.Struct, kw_only=True):
    """What both sides had when they last agreed."""

    repository: str
    """The git folder that it is about: a view of another one is of no use."""
    common: Checkout
    """As it was in the repository."""
    view_index: Signature | None = None
    """The view's index file when it held the same."""
    own: set[bytes] = set()
    """Branches that a linked checkout may move: those it was on, and those made inside."""
    is_given_up: bool = False
    """Whether the view's checkout is to be thrown away at the next refresh, for the repository's."""


def read_checkout(common: Folder, inner: str, known: KnownRefs | None = None) -> Checkout:
    """One side, of which `common` is the git folder and `inner` the part of the checkout in it.

    `known` is what was read there before.

    Raises:
        Damaged: something is not what git writes.
    """
    refs: Refs = read_refs(common, known)
    head = parse_head(common.read(f"{inner}HEAD", MOST_REF_BYTES))
    states: dict[str, bytes] = {}
    for name in HASHES:
        data = common.read(f"{inner}{name}", 1 << 16)
        if data is not None:
            states[name] = _hashes(name, data)
    for name in TEXTS:
        data = common.read(f"{inner}{name}", MOST_TEXT_BYTES)
        if data is not None:
            states[name] = data
    stash = b""
    if STASH in refs.values:
        stash = parse_stash(common.read("logs/refs/stash", MOST_LOG_BYTES) or b"")
    return Checkout(
        refs=refs.values,
        bad=refs.bad,
        head=head,
        states=states,
        stash=stash,
        index=common.signature(f"{inner}index"),
    )


def read_inside(view: Folder, inner: str, known: KnownRefs | None = None) -> Checkout:
    """The view's side.

    Raises:
        Damaged: something is not what git writes.
    """
    for name in ("packed-refs", "refs"):
        if not view.exists(name):
            # Git never removes them, and without them the refs in them would seem to have been deleted.
            raise Damaged(f"{name} is gone")
    return read_checkout(view, inner, known)


def parse_head(data: bytes | None) -> bytes:
    """What a HEAD says.

    Raises:
        Damaged: it is neither on a branch nor on a commit.
    """
    try:
        value = parse_value(data or b"")
    except Damaged as error:
        raise Damaged(f"HEAD is broken: {error}") from None
    branch = branch_of(value)
    if branch is not None and not branch.startswith(b"refs/heads/"):
        raise Damaged("HEAD is on no branch beneath refs/heads")
    return value


def parse_stash(data: bytes) -> bytes:
    """The log of a stash, without characters that steer a terminal.

    Raises:
        Damaged: a line is none that git writes.
    """
    lines = data.splitlines(keepends=False)
    for line in lines:
        if not _STASH_LINE.fullmatch(line):
            raise Damaged("the log of the stash holds a line that is none")
    return _STEERING.sub(b"?", b"".join(line + b"\n" for line in lines))


def stash_hashes(stash: bytes) -> list[bytes]:
    """The commits that the entries of a stash stand for, the newest last."""
    return [line.split(b" ", 2)[1] for line in stash.splitlines()]


def under_way(common: Folder, inner: str) -> str | None:
    """What git is in the middle of, in words; None if nothing."""
    return next((words for name, words in UNDER_WAY.items() if common.exists(f"{inner}{name}")), None)


def load(path: str) -> Agreed | None:
    """What was agreed on, from its file; None if there is none that can be read."""
    try:
        with open(path, "rb") as file:
            return msgspec.msgpack.decode(file.read(), type=Agreed)
    except (OSError, msgspec.DecodeError):
        return None


def save(path: str, agreed: Agreed) -> None:
    """Write what was agreed on, whole or not at all."""
    temporary = f"{path}.tmp"
    with open(temporary, "wb") as file:
        file.write(msgspec.msgpack.encode(agreed))
    os.replace(temporary, path)


def _hashes(name: str, data: bytes) -> bytes:
    lines = data.split()
    if not all(HASH.fullmatch(line) for line in lines):
        raise Damaged(f"{name} holds something that is no hash")
    return b"".join(line + b"\n" for line in lines)
