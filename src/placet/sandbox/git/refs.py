"""Branches, tags and other refs of a git folder, read as the files they are.

Reading them takes no process, so it can be done around each command. A ref is a file beneath `refs`, or a
line of `packed-refs`; the file goes before the line.

Keep true:
1. A name counts only if git's own rules allow it. What is wrong with one ref is told and hides no other.
2. A ref that points to another ref is data here. Nobody follows it.
3. A ref that cannot be read is not one that was deleted.
"""

from __future__ import annotations

import os
import re
import time

import msgspec

from placet.sandbox.git.folder import Damaged, Folder, Signature, signature

MOST_REFS = 50_000
MOST_PACKED_BYTES = 32 << 20
MOST_REF_BYTES = 4096

HASH = re.compile(rb"(?:[0-9a-f]{40}|[0-9a-f]{64})")
SYMBOLIC = b"ref: "

_OWN_OF_A_CHECKOUT = (b"refs/bisect/", b"refs/worktree/", b"refs/rewritten/")
"""Each checkout has its own of these. They are not looked at."""
_NOT_IN_NAMES = re.compile(rb"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")
_NOT_BROUGHT = re.compile(rb"[$`;|&<>'\"]|/-")
"""Names with these are valid, and dangerous for whoever puts a branch's name into a shell."""


_SETTLED_NS = 2_000_000_000
"""A file that was changed later than so long ago may change once more and bear the same time."""


class Refs(msgspec.Struct, frozen=True):
    """What the refs of a git folder are."""

    values: dict[bytes, bytes]
    """By full name: a hash, or `ref: ` and the name of another ref."""
    bad: dict[bytes, str] = {}
    """Names of which nobody can tell the value, with the reason."""


KnownRefs = dict[str, tuple[Signature, bytes]]
"""Files of refs that were read before, and what was in them."""


def read_refs(folder: Folder, known: KnownRefs | None = None) -> Refs:
    """All refs of a common git folder. Files that are in `known` and have not changed are not read again.

    Raises:
        Damaged: there are too many, or the files cannot be read.
    """
    values = read_packed(folder.read("packed-refs", MOST_PACKED_BYTES) or b"")
    bad: dict[bytes, str] = {}
    known = {} if known is None else known
    before = dict(known)
    known.clear()
    now_ns = time.time_ns()
    for where, entry in folder.walk("refs", MOST_REFS):
        name = entry.name
        path = f"{where}/{name}"
        ref = os.fsencode(path)
        if name.endswith(".lock") or ref.startswith(_OWN_OF_A_CHECKOUT):
            continue
        if not entry.is_file(follow_symlinks=False):
            # A link could stand for a folder of refs, which would seem to have been deleted.
            raise Damaged(f"{path} is neither a file nor a folder")
        if not is_valid(ref):
            bad[ref] = "no valid name"
        else:
            try:
                seen = _seen(entry)
                if seen is not None and (old := before.get(path)) is not None and old[0] == seen:
                    known[path] = old
                    values[ref] = old[1]
                    continue
                values[ref] = parse_value(folder.read(path, MOST_REF_BYTES) or b"")
                if seen is not None and seen[3] + _SETTLED_NS < now_ns:
                    known[path] = seen, values[ref]
            except Damaged as error:
                bad[ref] = str(error)
    for ref in bad:
        values.pop(ref, None)
    return Refs(values, bad)


def _seen(entry: os.DirEntry[str]) -> Signature | None:
    """What tells whether a ref's file has changed; None if it is gone."""
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return signature(found)


def read_packed(data: bytes) -> dict[bytes, bytes]:
    """The refs in the text of a `packed-refs`.

    Raises:
        Damaged: a line is none that git writes.
    """
    values: dict[bytes, bytes] = {}
    for line in data.split(b"\n"):
        if not line or line.startswith((b"#", b"^")):
            continue
        value, _, name = line.partition(b" ")
        if not HASH.fullmatch(value) or not is_valid(name):
            raise Damaged("packed-refs holds a line that is no ref")
        if not name.startswith(_OWN_OF_A_CHECKOUT):
            values[name] = value
        if len(values) > MOST_REFS:
            raise Damaged(f"packed-refs holds more than {MOST_REFS} refs")
    return values


def write_refs(folder: Folder, values: dict[bytes, bytes]) -> None:
    """Make these the refs of a git folder, and no others.

    Raises:
        Damaged: the files cannot be written.
    """
    lines = [b"# pack-refs with: sorted \n"]
    symbolic: list[tuple[bytes, bytes]] = []
    for name, value in sorted(values.items()):
        if value.startswith(SYMBOLIC):
            symbolic.append((name, value))
        else:
            lines.append(value + b" " + name + b"\n")
    folder.write("packed-refs", b"".join(lines))
    # After the lines: in between there are too many refs, never too few.
    for each in folder.names("refs"):
        folder.remove(f"refs/{each}")
    folder.make("refs/heads")
    folder.make("refs/tags")
    for name, value in symbolic:
        folder.write(os.fsdecode(name), value + b"\n")


def parse_value(data: bytes) -> bytes:
    """What a ref's file says.

    Raises:
        Damaged: neither a hash nor the name of a ref.
    """
    text = data.strip()
    if HASH.fullmatch(text):
        return text
    if text.startswith(SYMBOLIC):
        name = text[len(SYMBOLIC) :].strip()
        if is_valid(name):
            return SYMBOLIC + name
    raise Damaged("it holds neither a hash nor the name of a ref")


def is_valid(name: bytes) -> bool:
    """Whether git allows the name of a ref.

    >>> is_valid(b"refs/heads/main"), is_valid(b"refs/heads/../../config"), is_valid(b"refs/heads/a.lock")
    (True, False, False)
    """
    if not name.startswith(b"refs/") or len(name) > 1024 or _NOT_IN_NAMES.search(name):
        return False
    parts = name.split(b"/")
    return not name.endswith(b".") and all(
        part and not part.startswith(b".") and not part.endswith(b".lock") for part in parts
    )


def is_harmless(name: bytes) -> bool:
    """Whether a valid name does no harm in a shell that is careless with it, and is mistaken for no other."""
    return not _NOT_BROUGHT.search(name) and not name.endswith(b"/HEAD")


def branch_of(head: bytes) -> bytes | None:
    """The branch that a HEAD is on; None if it is on none."""
    return head[len(SYMBOLIC) :] if head.startswith(SYMBOLIC) else None
