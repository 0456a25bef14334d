"""New objects out of a view: copied aside, hashed anew, checked, and only then put to the others.

Keep true:
1. Git never reads the view's folder. It reads copies that nobody else can change, under names made here.
2. An object is what its name says: the hashes of all are computed here or by git, from the contents.
3. A tip passes only with everything that it needs.
4. What is put into the repository was written by git, which has checked all of it. A failure leaves nothing
   there.
"""

from __future__ import annotations

import os
import re
import shutil
import zlib
from collections.abc import Iterable
from contextlib import suppress

import msgspec

from placet.errors import ToolError
from placet.sandbox.git.folder import Damaged, Folder
from placet.sandbox.git.index import SUBMODULE
from placet.sandbox.git.repository import Repository
from placet.sandbox.git.trusted import git
from placet.sandbox.limits import MIB

MOST_OBJECTS = 200_000
MOST_BYTES = 512 * MIB
"""Of all new objects together, as they lie in the view."""
MOST_UNPACKED = 2048 * MIB
"""Of all new loose objects together, once unpacked: a few bytes can unpack to any number of them."""
UNPACK_LIMIT = 200
"""Up to so many objects are put down one by one; more stay in a pack. Git does the same."""

TIDY_AT = 500
"""With more loose objects than so many left over, those that the repository has too are looked for."""

_LOOSE = re.compile(r"[0-9a-f]{38}|[0-9a-f]{62}")
_PACK = re.compile(r"pack-([0-9a-f]{40}|[0-9a-f]{64})\.pack")
_FOLDERS = tuple(f"{number:02x}" for number in range(256))
_HEADER = re.compile(rb"(?:commit|tree|blob|tag) (0|[1-9][0-9]{0,18})\0")
_PIECE = 1 << 20


class New(msgspec.Struct, frozen=True):
    """Objects that passed."""

    names: tuple[bytes, ...] = ()
    """All that are needed, also those that the repository has already."""
    folder: str = ""
    """Where those lie that it has not, as git has written them anew."""


class Quarantine:
    """A bare repository of our own, which borrows from the real one and holds copies of the new objects."""

    def __init__(self, repository: Repository, home: str) -> None:
        self._repository = repository
        self.path = os.path.join(home, f"quarantine-{os.urandom(6).hex()}")
        os.mkdir(self.path, 0o700)
        self.said: list[str] = []
        """What was not taken, in words."""
        self.loose: dict[bytes, str] = {}
        """Where in the view the loose objects lie that were taken."""
        self.packs: dict[str, frozenset[bytes]] = {}
        """The packs that were taken, as paths in the view without their ending, with what they hold."""
        self._may_make_submodules = False
        for name in ("objects/info", "objects/pack", "refs"):
            os.makedirs(os.path.join(self.path, name))
        version = "1\n[extensions]\n\tobjectformat = sha256" if repository.is_sha256 else "0"
        self._write("config", f"[core]\n\tbare = true\n\trepositoryformatversion = {version}\n".encode())
        self._write("HEAD", b"ref: refs/heads/none\n")
        self._write("objects/info/alternates", os.fsencode(repository.objects) + b"\n")
        shallow = os.path.join(repository.common, "shallow")
        if os.path.exists(shallow):
            shutil.copyfile(shallow, os.path.join(self.path, "shallow"))

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def file(self, name: str, data: bytes) -> str:
        """Where a copy of something now lies."""
        self._write(name, data)
        return os.path.join(self.path, name)

    async def take(self, view: Folder) -> None:
        """Copy the view's new objects, and drop those that are not what they say.

        Raises:
            Damaged: there are too many.
        """
        import asyncio

        for path, name in await asyncio.to_thread(self._copy, view):
            try:
                listed = await self._index(name)
            except ToolError as error:
                self._drop_pack(name)
                self.said.append(f"A pack inside is broken and was left there: {error}")
            else:
                self.packs[path] = listed

    async def check(self, tips: Iterable[bytes], known: Iterable[bytes]) -> New:
        """The objects that the tips need and that are not among what `known` needs.

        Raises:
            ToolError: one is missing or broken, or a commit makes a submodule.
        """
        asked = b"".join(tip + b"\n" for tip in sorted(tips))
        less = b"".join(b"^" + each + b"\n" for each in sorted(known))
        listed = await git(
            ["rev-list", "--objects", "--no-object-names", "--stdin"], git_dir=self.path, stdin=asked + less
        )
        if not listed:
            return New()
        if self._may_make_submodules:
            await self._check_submodules(asked + less)
        # What is not in the quarantine itself is in the repository already.
        packed = await git(
            ["pack-objects", "--local", "--stdout", "--quiet", "--delta-base-offset"],
            git_dir=self.path,
            stdin=listed,
        )
        return New(tuple(listed.split()), await self._write_anew(packed))

    async def _write_anew(self, packed: bytes) -> str:
        """Let git write the objects of a pack into a folder of their own, and check them. Which one."""
        clean = os.path.join(self.path, f"clean-{os.urandom(4).hex()}")
        for name in ("info", "pack"):
            os.makedirs(os.path.join(clean, name))
        self._write(f"{clean}/info/alternates", os.fsencode(self._repository.objects) + b"\n")
        count = int.from_bytes(packed[8:12], "big")
        how = ["unpack-objects", "-q"] if count <= UNPACK_LIMIT else ["index-pack", "--stdin"]
        await git(
            [*how, "--strict"],
            git_dir=self.path,
            stdin=packed,
            environment={"GIT_OBJECT_DIRECTORY": clean},
        )
        return clean

    async def move_in(self, new: New) -> None:
        """Put objects that passed into the repository."""
        import asyncio

        if new.folder:
            await asyncio.to_thread(_move_files, new.folder, self._repository.objects)

    async def drop_from(self, view: Folder, new: New) -> None:
        """Remove from the view what the repository has by now. It borrows from there."""
        moved = set(new.names)
        if len(self.loose.keys() - moved) > TIDY_AT:
            moved |= await self._find_doubles()
        for name, path in self.loose.items():
            if name in moved:
                view.remove(path)
        for path, held in self.packs.items():
            if held <= moved:
                for ending in ("idx", "rev", "bitmap", "mtimes", "keep", "pack"):
                    view.remove(f"{path}.{ending}")

    async def _find_doubles(self) -> set[bytes]:
        """Objects that the repository has too. Git inside writes an old object again if it needs it anew: it
        cannot give a new date to one that it can only read."""
        listed = await git(
            ["cat-file", "--batch-check=%(objectname) %(objecttype)"],
            git_dir=self.path,
            stdin=b"".join(name + b"\n" for name in self.loose),
            environment={"GIT_OBJECT_DIRECTORY": self._repository.objects},
        )
        return {line.split(b" ")[0] for line in listed.splitlines() if not line.endswith(b" missing")}

    async def _check_submodules(self, tips: bytes) -> None:
        commits = await git(["rev-list", "--stdin"], git_dir=self.path, stdin=tips)
        if not commits:
            return
        listed = await git(
            ["diff-tree", "--stdin", "-r", "-c", "--root", "--no-renames", "--no-commit-id", "--raw", "-z"],
            git_dir=self.path,
            stdin=commits,
        )
        for line in listed.split(b"\0"):
            if line.startswith(b":"):
                parents = len(line) - len(line.lstrip(b":"))
                modes = line.lstrip(b":").split(b" ")[: parents + 1]
                if modes[-1] == SUBMODULE and SUBMODULE not in modes[:-1]:
                    raise ToolError("A commit adds a submodule. Submodules are added outside.", retry=False)

    def _copy(self, view: Folder) -> list[tuple[str, str]]:
        """Copy loose objects and packs; which packs: where in the view, and their names here."""
        left, unpacked, count = MOST_BYTES, MOST_UNPACKED, 0
        for folder in _FOLDERS:
            names = [name for name in view.names(f"objects/{folder}") if _LOOSE.fullmatch(name)]
            if names:
                os.makedirs(os.path.join(self.path, "objects", folder), exist_ok=True)
            for name in names:
                count += 1
                if count > MOST_OBJECTS:
                    raise Damaged(f"there are more than {MOST_OBJECTS} new objects")
                path = f"objects/{folder}/{name}"
                into = os.path.join(self.path, path)
                size = self._copy_one(view, path, into, left)
                left -= size
                unpacked -= self._check_loose(path, into, f"{folder}{name}", unpacked)
        packs: list[tuple[str, str]] = []
        for name in view.names("objects/pack"):
            if _PACK.fullmatch(name):
                path = f"objects/pack/{name}"
                size = self._copy_one(view, path, os.path.join(self.path, path), left)
                left -= size
                if size:
                    self._may_make_submodules = True
                    packs.append((path.removesuffix(".pack"), name))
        return packs

    def _copy_one(self, view: Folder, path: str, into: str, left: int) -> int:
        try:
            return view.copy_out(path, into, left)
        except Damaged as error:
            if os.path.exists(into):
                os.unlink(into)
                raise Damaged(f"new objects take more than {MOST_BYTES} bytes") from error
            self.said.append(f"An object inside was left there: {error}.")
            return 0

    def _check_loose(self, path: str, into: str, name: str, most: int) -> int:
        """Hash an object. One that is not what its name says is dropped."""
        if not os.path.exists(into):
            return 0
        seen = _look_at(into, name, most)
        if seen is None:
            os.unlink(into)
            self.said.append(f"The object {name[:12]} inside is not what its name says, and was left there.")
            return 0
        self.loose[name.encode()] = path
        self._may_make_submodules |= seen.may_make_submodules
        return seen.size

    async def _index(self, name: str) -> frozenset[bytes]:
        """Make the index of a pack anew, and list what it holds. One from inside could say anything."""
        pack = os.path.join(self.path, "objects/pack", name)
        index = f"{pack.removesuffix('.pack')}.idx"
        await git(["index-pack", "-o", index, pack], git_dir=self.path)
        kind = "sha256" if self._repository.is_sha256 else "sha1"
        listed = await git(["show-index", f"--object-format={kind}"], git_dir=self.path, stdin=_read(index))
        return frozenset(line.split(b" ")[1] for line in listed.splitlines())

    def _drop_pack(self, name: str) -> None:
        for each in (name, f"{name.removesuffix('.pack')}.idx"):
            path = os.path.join(self.path, "objects/pack", each)
            if os.path.exists(path):
                os.unlink(path)

    def _write(self, name: str, data: bytes) -> None:
        with open(os.path.join(self.path, name), "wb") as file:
            file.write(data)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


class _Seen(msgspec.Struct, frozen=True):
    size: int
    """Unpacked."""
    may_make_submodules: bool


def _look_at(path: str, name: str, most: int) -> _Seen | None:
    """What a loose object is; None if it is not the one of that name.

    Raises:
        Damaged: it is larger than `most`.
    """
    # Not at the top: it is slow to import, and most processes never get here.
    import hashlib

    unpacker = zlib.decompressobj()
    hashed = hashlib.sha1(usedforsecurity=False) if len(name) == 40 else hashlib.sha256()
    head, last, size, said, has_mode = b"", b"", 0, None, False
    with open(path, "rb") as file:
        while not unpacker.eof:
            data = unpacker.unconsumed_tail or file.read(_PIECE)
            try:
                piece = unpacker.decompress(data, _PIECE)
            except zlib.error:
                return None
            if not data and not piece:
                return None
            hashed.update(piece)
            size += len(piece)
            if size > most:
                raise Damaged(f"new objects unpack to more than {MOST_UNPACKED} bytes")
            if said is None:
                head += piece[:64]
                match = _HEADER.match(head)
                if match is None and len(head) >= 64:
                    return None
                said = None if match is None else match.end() + int(match[1])
            has_mode = has_mode or SUBMODULE in last + piece
            last = piece[-len(SUBMODULE) :]
        if unpacker.unused_data or file.read(1):
            return None
    is_right = said == size and hashed.hexdigest() == name
    return _Seen(size, has_mode and head.startswith(b"tree ")) if is_right else None


def _move_files(source: str, target: str) -> None:
    """Copy the files of a folder of objects into another one, each whole or not at all."""
    found = [os.path.join(here, name) for here, _, names in os.walk(source) for name in names]
    # Git takes a pack for one as soon as it sees the index of it, so that comes last.
    for path in sorted(found, key=lambda path: path.endswith(".idx")):
        relative = os.path.relpath(path, source)
        into = os.path.join(target, relative)
        if relative.startswith("info") or os.path.exists(into):
            continue
        os.makedirs(os.path.dirname(into), exist_ok=True)
        temporary = os.path.join(os.path.dirname(into), f"tmp_obj_{os.urandom(6).hex()}")
        try:
            with open(path, "rb") as old, open(temporary, "xb") as new:
                shutil.copyfileobj(old, new)
                os.fchmod(new.fileno(), 0o444)
                if relative.startswith("pack"):
                    new.flush()
                    os.fsync(new.fileno())
            os.rename(temporary, into)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
