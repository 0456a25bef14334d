"""A tree brought back to what a manifest says, by descriptors.

Keep true:
1. Nothing is written or removed through a link: a folder that became one is removed, not followed.
2. A file is replaced whole. Done twice, or after having been broken off anywhere, it ends the same.
3. What stands in the way of one name is told, and the rest is brought back all the same.
4. What was left out of the snapshot is neither written nor removed, wherever it was moved to.
5. Nothing on another mount is touched.
6. Only where room is short is something removed before what belongs in its place is there.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Container, Mapping
from contextlib import suppress

from placet.sandbox.beneath import open_beneath
from placet.sandbox.spot import TEMPORARY, Id, id_of, look
from placet.worktree.snapshot.blobs import Blobs
from placet.worktree.snapshot.manifest import Entry, LeftOut, Tree, joined, shown
from placet.worktree.snapshot.mounts import OtherMount, mount_of
from placet.worktree.snapshot.removal import READ_FOLDER, make_ours, open_folder, remove
from placet.worktree.snapshot.tree import is_placets

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_TYPES: Mapping[str, int] = {"file": stat.S_IFREG, "folder": stat.S_IFDIR, "link": stat.S_IFLNK}


class Restoring:
    """One tree on its way back."""

    def __init__(
        self,
        tree: Tree,
        blobs: Blobs,
        untouched: Container[Id],
    ) -> None:
        self._blobs = blobs
        self._untouched = untouched
        self._own = frozenset(tree.own)
        self._within: dict[bytes, dict[bytes, Entry]] = {}
        """What was in each folder, by name."""
        self._top: Entry | None = None
        for entry in tree.entries:
            if not entry.path:
                self._top = entry
                continue
            folder, _, last = entry.path.rpartition(b"/")
            self._within.setdefault(folder, {})[last] = entry
        left = [*tree.left_out, *([] if tree.git is None else [tree.git])]
        self._left: dict[bytes, LeftOut] = {each.path: each for each in left}
        self._moved: dict[Id, LeftOut] = {(each.device, each.inode): each for each in left if each.inode}
        self._top_fd = -1
        self._makes_room = False
        self._can_give = os.geteuid() == 0
        self.changed = 0
        self.removed = 0
        self.brought_back = 0
        self.problems: list[str] = []
        self.is_short = False
        """Whether there was no room for something."""
        self.left: dict[bytes, None] = {}
        """What came since and is not ours to remove."""

    def bring(self, top: int) -> None:
        """Bring back what was beneath an open folder."""
        self._top_fd = top
        make_ours(top)
        self._folder(top, b"")

    def make_room(self, top: int) -> None:
        """Remove what came since, and files that have grown. Bring everything back once more then: what there
        was no room for may have it now."""
        self._makes_room = True
        self._clear(top, b"", makes_room=True)
        self.is_short = False
        self.problems.clear()

    def clear(self, top: int) -> None:
        """Remove what was not there, and put the rights of folders back. Comes after `bring`: now every
        folder is there into which something that was left out, and moved, may belong."""
        self._clear(top, b"")
        if self._top is not None:
            self._rights(top, self._top)

    def settle(self, top: int) -> None:
        """Put the rights of folders back, and remove nothing. Comes after `bring`."""
        folders = [
            entry for each in self._within.values() for entry in each.values() if entry.kind == "folder"
        ]
        for entry in sorted(folders, key=lambda each: each.path, reverse=True):
            try:
                opened = open_beneath(top, os.fsdecode(entry.path), READ_FOLDER)
                try:
                    self._rights(opened, entry)
                finally:
                    os.close(opened)
            except OSError as error:
                self._tell(entry.path, error)
        if self._top is not None:
            self._rights(top, self._top)

    def remove_new(self, path: bytes, top: int, folders: Container[bytes]) -> None:
        """Remove one thing that came since, and the folders around it that did and are empty then: all that
        are not among `folders`."""
        above, _, name = path.rpartition(b"/")
        try:
            parent = open_beneath(top, os.fsdecode(above) or ".", READ_FOLDER)
            try:
                if not self._stays(parent, name, path) and remove(name, parent, self._spare):
                    self.removed += 1
            finally:
                os.close(parent)
            while above and above not in folders:
                around, _, name = above.rpartition(b"/")
                parent = open_beneath(top, os.fsdecode(around) or ".", READ_FOLDER)
                try:
                    os.rmdir(name, dir_fd=parent)
                finally:
                    os.close(parent)
                above = around
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                self._tell(path, error)

    # What was there

    def _folder(self, opened: int, path: bytes) -> None:
        for name, entry in self._within.get(path, {}).items():
            try:
                self._entry(opened, name, entry)
            except OSError as error:
                self._tell(entry.path, error)

    def _entry(self, parent: int, name: bytes, entry: Entry) -> None:
        found = look_at(name, parent)
        was_there = found is not None
        if found is not None and stat.S_IFMT(found.st_mode) != _TYPES[entry.kind]:
            if not remove(name, parent, self._spare):
                raise OSError(errno.EEXIST, "something that was left out of the snapshot is in its place")
            found = None
        match entry.kind:
            case "folder":
                if found is None:
                    os.mkdir(name, 0o700, dir_fd=parent)
                    self._count(was_there)
                self._inner(parent, name, entry)
            case "link":
                if found is None or os.readlink(name, dir_fd=parent) != entry.content:
                    self._link(parent, name, entry)
                    self._count(was_there)
            case "file":
                self._file(parent, name, entry, found, was_there)

    def _inner(self, parent: int, name: bytes, entry: Entry) -> None:
        opened = open_folder(name, parent)
        try:
            self._folder(opened, entry.path)
        finally:
            os.close(opened)

    def _link(self, parent: int, name: bytes, entry: Entry) -> None:
        temporary = _temporary()
        os.symlink(entry.content, temporary, dir_fd=parent)
        try:
            if self._can_give:
                os.chown(temporary, entry.user, entry.group, dir_fd=parent, follow_symlinks=False)
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            _forget(temporary, parent)
            raise

    def _file(
        self, parent: int, name: bytes, entry: Entry, found: os.stat_result | None, was_there: bool
    ) -> None:
        if found is not None and _is_the_same(entry, found):
            return
        if found is None or not self._mend(parent, name, entry, found):
            try:
                self._write(parent, name, entry)
            except OSError as error:
                if found is None or not self._makes_room or error.errno not in NO_ROOM:
                    raise
                # There is not room for both.
                os.unlink(name, dir_fd=parent)
                self._write(parent, name, entry)
            self._count(was_there)

    def _mend(self, parent: int, name: bytes, entry: Entry, found: os.stat_result) -> bool:
        """If the file holds what it did, put only its rights and its time back; false if it does not."""
        if found.st_size != entry.size or (found.st_nlink > 1 and found.st_ino != entry.inode):
            return False  # Also where it may be another's: his rights are not ours to change.
        try:
            opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
        except OSError:
            return False
        try:
            if mount_of(opened) != mount_of(parent):
                raise OtherMount
            if id_of(os.fstat(opened)) != id_of(found) or not self._blobs.is_same(entry.content, opened):
                return False
            if self._rights(opened, entry):
                self.changed += 1
            if found.st_mtime_ns != entry.mtime_ns:
                os.utime(opened, ns=(found.st_atime_ns, entry.mtime_ns))
            return True
        except PermissionError:
            return False  # Not ours to mend; but it may be ours to replace.
        finally:
            os.close(opened)

    def _write(self, parent: int, name: bytes, entry: Entry) -> None:
        temporary = _temporary()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        opened = os.open(temporary, flags, 0o600, dir_fd=parent)
        try:
            try:
                self._blobs.write(entry.content, opened)
                self._rights(opened, entry)
                # The same time as before: nothing is built or looked at again for it.
                os.utime(opened, ns=(entry.mtime_ns, entry.mtime_ns))
            finally:
                os.close(opened)
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            _forget(temporary, parent)
            raise

    def _rights(self, opened: int, entry: Entry) -> bool:
        """Give an open file or folder the owner and the mode that it had; whether that was needed."""
        found = os.fstat(opened)
        is_other = (found.st_uid, found.st_gid) != (entry.user, entry.group)
        if is_other and self._can_give:
            os.fchown(opened, entry.user, entry.group)
            found = os.fstat(opened)
        if stat.S_IMODE(found.st_mode) == entry.mode:
            return is_other
        os.fchmod(opened, entry.mode)
        return True

    # What was not

    def _clear(self, opened: int, path: bytes, *, makes_room: bool = False) -> None:
        """Remove what came since, and put the rights of folders back, from within."""
        with os.scandir(opened) as listed:
            names = [os.fsencode(each.name) for each in listed]
        wanted = self._within.get(path, {})
        for name in names:
            at = joined(path, name)
            entry = wanted.get(name)
            try:
                if makes_room and entry is not None and self._takes_room(opened, name, entry):
                    remove(name, opened, self._spare)
                elif entry is not None and entry.kind == "folder":
                    self._clear_inner(opened, name, at, entry, makes_room)
                elif entry is None and not self._stays(opened, name, at):
                    if remove(name, opened, self._spare):
                        self.removed += 1
                    else:
                        raise OSError(errno.ENOTEMPTY, "it holds what was left out of the snapshot")
            except FileNotFoundError:
                continue
            except OSError as error:
                self._tell(at, error)

    def _clear_inner(self, parent: int, name: bytes, at: bytes, entry: Entry, makes_room: bool) -> None:
        opened = open_folder(name, parent)
        try:
            self._clear(opened, at, makes_room=makes_room)
            if not makes_room:
                self._rights(opened, entry)
        finally:
            os.close(opened)

    def _takes_room(self, parent: int, name: bytes, entry: Entry) -> bool:
        """Whether a file has grown. What has become another kind of thing was removed by now."""
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        return entry.kind == "file" and stat.S_ISREG(found.st_mode) and found.st_size > entry.size

    def _stays(self, parent: int, name: bytes, at: bytes) -> bool:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if at in self._left:
            return True
        if is_placets(name, found, self._untouched):
            if at not in self._own and id_of(found) not in self._untouched:
                self.left[at] = None
            return True
        return False

    def _spare(self, parent: int, name: bytes, found: os.stat_result) -> bool:
        """What is beneath something that is being removed, and must not be. What was left out goes home."""
        left = self._moved.get(id_of(found))
        if left is not None:
            with suppress(OSError):
                self._bring_home(parent, name, left)
            return True
        return is_placets(name, found, self._untouched)

    def _bring_home(self, parent: int, name: bytes, left: LeftOut) -> None:
        folder, _, last = left.path.rpartition(b"/")
        home = open_beneath(self._top_fd, os.fsdecode(folder) or ".", READ_FOLDER)
        try:
            if look_at(last, home) is None:
                os.rename(name, last, src_dir_fd=parent, dst_dir_fd=home)
        finally:
            os.close(home)

    # Telling

    def _count(self, was_there: bool) -> None:
        self.changed += was_there
        self.brought_back += not was_there

    def _tell(self, path: bytes, error: OSError) -> None:
        self.is_short = self.is_short or error.errno in NO_ROOM
        self.problems.append(f"{shown(path)}: {error.strerror or error}")


def look_at(name: bytes, parent: int) -> os.stat_result | None:
    """What has a name in a folder, a link being a link; None if nothing has."""
    return look(os.fsdecode(name), parent)


def _is_the_same(entry: Entry, found: os.stat_result) -> bool:
    """Whether a file is surely as it was: nobody can set the time of the last change of any kind."""
    return entry.inode != 0 and (
        (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        == (entry.inode, entry.size, entry.mtime_ns, entry.ctime_ns)
    )


def _temporary() -> bytes:
    return f"{TEMPORARY}{os.urandom(8).hex()}.tmp".encode()


def _forget(name: bytes, parent: int) -> None:
    with suppress(OSError):
        os.unlink(name, dir_fd=parent)
