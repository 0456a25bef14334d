"""The private repository of a session: trees and commits of our own, above the person's objects.

It is a git folder that only we know. It borrows the objects of the person's repository and writes new ones
into its own folder, so nothing is written to the person's.

Keep true:
1. Its config is ours alone and names no program. So attributes of files, whoever wrote them, run nothing.
2. It can be made again over what is there at any time: whatever was killed before, the next one goes on.
3. Paths are the bytes that git has, as Python's own strings for them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from placet.errors import ToolError, UsageError
from placet.sandbox.git_folder import LENDS
from placet.sandbox.lookalikes import GIT, is_read_as
from placet.truncation import truncate_repr
from placet.worktree.git import Entries, git, index_lines, quoted
from placet.worktree.repository import NOBODY, Repository, Settings
from placet.worktree.scratch import Scratch

MOST_DIFF = 1_000_000
"""Bytes of a diff that are given."""
SUBMODULE = b"160000"
_FILES = (b"100644", b"100755")
_MOST_LISTED = 4
_MOST_TEXTS = 500
_LONGEST_TEXT = 256 * 1024
_MOST_REMEMBERED = 8 << 20
"""Characters of texts."""
_NEXT_FILE = b"diff --git "
_PIECE = 1 << 16
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LOST = re.compile(
    r"unable to (read|find)|failed to unpack tree|bad object|missing|not a (tree|valid)|invalid object"
    r"|could not (read|parse)|does not exist|alternate object",
    re.IGNORECASE,
)
_AUTHOR = re.compile(r"(?P<name>[^<>\n\0]*[^<>\n\0 ]) *<(?P<mail>[^<>\n\0 ]+)>")

Kind = Literal["added", "deleted", "modified"]
_KINDS: dict[str, Kind] = {"A": "added", "D": "deleted"}

ATTRIBUTES = "persons-attributes"
"""Attributes that hold in all repositories of the person, in the private git folder."""
_LEFT_BY_TOOLS = b"\n__pycache__/\n.pytest_cache/\n.mypy_cache/\n.ruff_cache/\n.hypothesis/\n"
"""What trying things out leaves behind; not everybody ignores it, and nobody means it."""


class Changed(msgspec.Struct, frozen=True):
    """One file that differs between two trees."""

    path: str
    kind: Kind


class ObjectsGone(UsageError):
    """The person's repository has lost what was begun from."""


class ObjectStore:
    """The private repository, in the folder `path`."""

    def __init__(self, path: Path, repository: Repository, scratch: Scratch) -> None:
        self.path = path
        self.repository = repository
        self.scratch = scratch
        self._listed: dict[str, Entries] = {}
        """The trees that were listed last. What a hash names never changes."""
        self._texts: dict[bytes, str | None] = {}
        """Texts of blobs that were read last; None for one that is too long."""

    async def open(self, settings: Settings) -> None:
        """Make it, or bring it up to date with the person's."""
        shallow = _read(os.path.join(self.repository.common, "shallow"))
        files = {
            "HEAD": b"ref: refs/heads/none\n",
            "config": config_text(self.repository.found.is_sha256, settings.data, bare=True),
            "objects/info/alternates": self.alternates(),
            "info/exclude": settings.ignored + _LEFT_BY_TOOLS,
            "info/attributes": settings.attributes,
            ATTRIBUTES: settings.persons_attributes,
            # Commands in the attempts beside it may read its objects.
            LENDS: os.fsencode(self.path.parent) + b"\n",
            **({"shallow": shallow} if shallow else {}),
        }
        if self.path.is_dir():
            for name, data in files.items():
                if _read(str(self.path / name)) != data:
                    async with self.scratch.folder() as aside:
                        (aside / "new").write_bytes(data)
                        os.replace(aside / "new", self.path / name)
            return
        async with self.scratch.folder() as aside:
            made = aside / "repository"
            write_git_folder(made, files)
            os.rename(made, self.path)

    def alternates(self) -> bytes:
        """The folders of objects that the person's repository has, a line for each."""
        found = self.repository.found
        return alternates_text([found.objects, *found.borrowed])

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        index: Path | None = None,
        work_tree: Path | None = None,
        environment: Mapping[str, str] = {},
    ) -> bytes:
        """What git says here. `index` is the file of one, `work_tree` the folder of files to look at.

        Raises:
            UsageError: objects that are needed are not there any more.
            ToolError: git fails for another reason.
        """
        given = {**environment, **({} if index is None else {"GIT_INDEX_FILE": str(index)})}
        try:
            return await git(
                argv,
                attributes=str(self.path / ATTRIBUTES),
                git_dir=str(self.path),
                stdin=stdin,
                environment=given,
                work_tree=None if work_tree is None else str(work_tree),
            )
        except ToolError as error:
            if self._has_objects() and not _LOST.search(str(error)):
                raise
            raise ObjectsGone(
                f"The repository {self.repository.top} no longer has all objects that this session began "
                "from. It was moved, or `git gc` has removed them after its history was changed. Begin a new "
                f"session. Git says: {error}"
            ) from error

    def _has_objects(self) -> bool:
        return os.path.isdir(self.repository.found.objects)

    async def entries(self, tree: str) -> Entries:
        """Every file of a tree, submodules too."""
        if tree not in self._listed:
            listed = await self._list(tree)
            while len(self._listed) >= _MOST_LISTED:
                self._listed.pop(next(iter(self._listed)))
            self._listed[tree] = listed
        return self._listed[tree]

    async def _list(self, tree: str) -> Entries:
        listed = await self.run(["ls-tree", "-r", "-z", "--full-tree", checked(tree)])
        found = {}
        for line in listed.split(b"\0"):
            if line:
                about, _, path = line.partition(b"\t")
                mode, _, name = about.split(b" ")
                found[path] = (mode, name)
        return found

    async def paths(self, tree: str) -> list[str]:
        """The files of a tree, without submodules."""
        entries = await self.entries(tree)
        return [os.fsdecode(path) for path, (mode, _) in entries.items() if mode != SUBMODULE]

    async def texts(self, tree: str, paths: Collection[str], *, most: int = _MOST_TEXTS) -> dict[str, str]:
        """What stands in some files of a tree, at most so many; long ones, and links, are left out."""
        entries = await self.entries(tree)
        held = [(path, entry[1]) for path in paths if (entry := entries.get(os.fsencode(path))) is not None]
        held = [(path, name) for path, name in held if entries[os.fsencode(path)][0] in _FILES][:most]
        if not held:
            return {}
        known = {name: self._texts[name] for _, name in held if name in self._texts}
        read = await self._read(list(dict.fromkeys(name for _, name in held if name not in known)))
        self._remember(read)
        known |= read
        return {path: text for path, name in held if (text := known[name]) is not None}

    async def _read(self, names: Sequence[bytes]) -> dict[bytes, str | None]:
        """The texts of blobs; None for a long one."""
        if not names:
            return {}
        told = await self.run(["cat-file", "--batch-check"], stdin=_lines(names))
        sizes = [int(line.rsplit(b" ", 1)[1]) for line in told.splitlines()]
        short = [name for name, size in zip(names, sizes, strict=True) if size <= _LONGEST_TEXT]
        written = await self.run(["cat-file", "--batch"], stdin=_lines(short)) if short else b""
        found: dict[bytes, str | None] = dict.fromkeys(names)
        at = 0
        for name in short:
            begin = written.index(b"\n", at) + 1
            end = begin + int(written[at : begin - 1].rsplit(b" ", 1)[1])
            found[name], at = written[begin:end].decode(errors="replace"), end + 1
        return found

    def _remember(self, read: Mapping[bytes, str | None]) -> None:
        if sum(len(text or "") for text in read.values()) <= _MOST_REMEMBERED:
            self._texts |= read
            while sum(len(text or "") for text in self._texts.values()) > _MOST_REMEMBERED:
                self._texts.pop(next(iter(self._texts)))

    async def changed(self, old: str, new: str) -> list[Changed]:
        """What differs between two trees, by path. A file that was renamed is one that is gone and one that
        came."""
        if old == new:
            return []
        listed = await self.run(
            ["diff-tree", "-r", "-z", "--name-status", "--no-renames", checked(old), checked(new)]
        )
        parts = os.fsdecode(listed).split("\0")
        found: list[Changed] = []
        for status, path in zip(parts[::2], parts[1::2], strict=False):
            found.append(Changed(path, _KINDS.get(status, "modified")))
        return found

    async def with_base(self, tree: str, base: str, paths: Collection[str]) -> str:
        """The tree in which some paths are as in another: also those that are not there."""
        if not paths:
            return tree
        kept = await self.entries(base)
        wanted = [os.fsencode(inside(path)) for path in paths]
        async with self.scratch.folder() as aside:
            index = aside / "index"
            await self.run(["read-tree", checked(tree)], index=index)
            stdin = index_lines(kept, wanted, len(tree))
            await self.run(["update-index", "-z", "--index-info"], index=index, stdin=stdin)
            return (await self.run(["write-tree"], index=index)).decode().strip()

    async def diff(self, old: str, new: str, *, context: int = 3) -> str:
        """The difference of two trees as a unified diff, of which at most `MOST_DIFF` bytes are given.

        It is text of whoever wrote the files: whatever shows it on a terminal cleans it.
        """
        how = ["diff-tree", "-p", "-r", "-M", "--no-ext-diff", "--no-textconv", "--no-color"]
        async with self.scratch.folder() as aside:
            # Into a file: a diff can be larger than what should be in memory.
            written = aside / "diff"
            await self.run([*how, f"-U{context}", f"--output={written}", checked(old), checked(new)])
            return _shortened(written)

    async def commit(
        self, tree: str, parent: str, message: str, *, when: int, author: str, zone: str = "+0000"
    ) -> str:
        """A commit of a tree. The same arguments give the same commit.

        Raises:
            UsageError: `author` is not of the shape `Name <mail>`.
        """
        named = _AUTHOR.fullmatch(author)
        if named is None:
            raise UsageError(
                f"The author {truncate_repr(author, 80)} cannot be named so in a commit. Write: Name <mail>."
            )
        date = f"@{when} {zone}"
        who = {
            f"GIT_{role}_{part}": value
            for role in ("AUTHOR", "COMMITTER")
            for part, value in (("NAME", named["name"]), ("EMAIL", named["mail"]), ("DATE", date))
        }
        text = message.replace("\0", "").strip() + "\n"
        said = await self.run(
            ["commit-tree", checked(tree), "-p", checked(parent)],
            stdin=text.encode(errors="replace"),
            environment=who,
        )
        return said.decode().strip()


def checked(name: str) -> str:
    """The name of an object, if it is one.

    Raises:
        UsageError: it is none.
    """
    if not _HASH.fullmatch(name):
        raise UsageError(
            f"{truncate_repr(name, 80)} is no name of a tree or commit: it is 40 or 64 hexadecimal digits."
        )
    return name


def inside(path: str) -> str:
    """A path, if it is one that can be in a tree.

    Raises:
        UsageError: it leads elsewhere, or into a git folder.
    """
    if "\0" in path or any(part in ("", ".", "..") or is_read_as(part, GIT) for part in path.split("/")):
        raise UsageError(f"{truncate_repr(path, 200)} is no path of a file in a repository.")
    return path


def config_text(is_sha256: bool, data: Mapping[str, str], *, bare: bool, author: str = NOBODY) -> bytes:
    """A config of ours: how a repository reads files, and nothing that starts a program."""
    named = _AUTHOR.fullmatch(author) or _AUTHOR.fullmatch(NOBODY)
    assert named is not None
    lines = ["[core]", f"\trepositoryformatversion = {int(is_sha256)}", f"\tbare = {str(bare).lower()}"]
    lines += ["\tquotePath = false", "\tsafecrlf = false", "\tsplitIndex = false"]
    lines += [f"\t{key.removeprefix('core.')} = {value}" for key, value in data.items()]
    lines += ["[gc]", "\tauto = 0", "[maintenance]", "\tauto = false"]
    lines += ["[extensions]", "\tobjectformat = sha256"] if is_sha256 else []
    lines += ["[user]", f"\tname = {_quoted(named['name'])}", f"\temail = {_quoted(named['mail'])}"]
    return os.fsencode("\n".join(lines) + "\n")


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    return f'"{escaped}"'


def alternates_text(folders: Sequence[str]) -> bytes:
    """Folders of objects to borrow from, as git reads them."""
    names = [os.fsencode(folder) for folder in folders]
    return b"".join((quoted(name) if b"\n" in name else name) + b"\n" for name in names)


def write_git_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make a git folder with these files in it."""
    for name in ("objects/info", "objects/pack", "refs/heads", "info"):
        (folder / name).mkdir(parents=True)
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def _shortened(written: Path) -> str:
    """What a file holds, up to the end of a line; and what was left out of it, in words."""
    with open(written, "rb") as file:
        data = file.read(MOST_DIFF)
        size = os.fstat(file.fileno()).st_size
        if size == len(data):
            return data.decode(errors="replace")
        kept = data[: data.rfind(b"\n") + 1] or data
        file.seek(len(kept))
        files = sum(1 for line in iter(lambda: file.readline(_PIECE), b"") if line.startswith(_NEXT_FILE))
    more = f", with {files} more files" if files else ""
    text = kept.decode(errors="replace")
    return f"{text}... {size - len(kept):,} further bytes of the diff are left out{more}.\n"


def _lines(names: Iterable[bytes]) -> bytes:
    return b"".join(name + b"\n" for name in names)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return b""
