"""Root stops being root before it starts a command, and the command can still work in root's folders.

What a command needs is staged in a mount namespace, and then the process becomes a user who owns
nothing. The staged folders are id-mapped: their owner on disk and that user are exchanged. So what the
command makes belongs on disk to the owner of the folder, and what that owner has there is the command's.

Staging is also the way in: the folders may lie below others, such as /root, that the user cannot enter.

A stage is prepared once and entered by every command that needs the same folders: nobody but root can mount
anything there, and bubblewrap works in a copy of it.

Keep true:
1. It runs in the resident process and in forked children of the keeper, on a bare interpreter: nothing of
   this package is imported, and other modules only where they are used.
2. Nothing is mounted where a process outside of a stage can see it, and nothing is made on the host's disk.
3. After `become` no right of root is left. If a step fails, the caller must not go on.
4. Looking for a folder can take for ever, and is therefore done in a process that nobody has to wait for.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

UID = 65530
"""The user, and also the group, that root becomes. It is below 65536, since many a container has only so
many users, and above what is given to people; and it is not `nobody`, to whom much belongs that is nobody's.
It is also beyond those that systemd gives to services for a while."""

STAGE = "/run"
"""Where everything is staged. It is on every Linux, and what is really there is no business of a command."""

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "fd": "/proc/self/fd",
    "core": "/proc/kcore",
    "ptmx": "pts/ptmx",
}

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT, _MS_BIND = 0x1, 0x2, 0x4, 0x8, 0x20, 0x1000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_MNT_DETACH, _UMOUNT_NOFOLLOW = 0x2, 0x8
# The same numbers on every machine: they are newer than the tables that differ.
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_OPEN_TREE_CLONE = 0x1
_MOVE_MOUNT_F_EMPTY_PATH = 0x4
_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW, _AT_NO_AUTOMOUNT, _AT_EMPTY_PATH, _AT_RECURSIVE = 0x100, 0x800, 0x1000, 0x8000
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV, _ATTR_IDMAP = 0x1, 0x2, 0x4, 0x100000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_PR_CAPBSET_DROP = 24
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION_3 = 0x20080522
_EINVAL, _ETIMEDOUT, _ESTALE = 22, 110, 116
_SIGKILL = 9
_READY = b"ready"


def become(
    binds: Sequence[tuple[str, str, bool]], stage: int | None = None, *, devices: str = "", **rest: Any
) -> None:
    """Become the user UID, for good, on a stage: `stage` if there is one already, else a new one.

    The arguments besides are those of `make_stage`. With `devices` there are terminals of its own.

    The system forgets what was set with PR_SET_PDEATHSIG when a process changes its user: set it afterwards.
    It also makes the process one that nobody of the user may look into, until it becomes another program.

    Raises:
        OSError: which step failed, and the path. The process may be in the middle: end it.
    """
    system = _system()
    system.enter(make_stage(binds, devices=devices, **rest) if stage is None else stage)
    if devices:
        # Others are on this stage too, and must see neither these terminals nor each other's.
        system.unshare_mounts()
        options = "newinstance,ptmxmode=0666,mode=620"
        system.mount("make terminals", "devpts", f"{devices}/pts", "devpts", _MS_NOSUID | _MS_NOEXEC, options)
    system.drop_rights()


def make_stage(
    binds: Sequence[tuple[str, str, bool]],
    *,
    kept: Sequence[str] = (),
    alone: Sequence[str] = (),
    known: Sequence[tuple[int, ...]] = (),
    points: Sequence[tuple[str, bool]] = (),
    links: Sequence[tuple[str, str]] = (),
    files: Sequence[tuple[str, bytes]] = (),
    devices: str = "",
    patience_s: float = 60.0,
) -> int:
    """The descriptor of a mount namespace in which `binds` are staged.

    Each bind is a path on the host, a path below STAGE where it is to be found, and whether it may be
    written. Sources are folders or files, not links. No staged path lies inside another. Of the sources in
    `alone` nothing is taken that is mounted below them. `known` tells of each source who it is
    (`identity`); one that has become another since is refused.

    On the stage there are besides: `points`, empty folders, or files where it says False; `links`; `files`,
    which lie over something that is staged; and at `devices` a few harmless ones.

    With `kept`, only what is mounted at, below or above those paths is left of the host's mounts: bubblewrap
    goes through all mounts again and again.

    Raises:
        OSError: which step failed, and the path; or it took longer than `patience_s`.
    """
    system = _system()

    def prepare() -> None:
        system.unshare_mounts()
        # Before anything is mounted, or the host would see it.
        system.mount("keep mounts private", None, "/", None, _MS_REC | _MS_PRIVATE, None)
        mappings: dict[tuple[int, int], int] = {}
        # All are taken before the stage is covered: a source may lie in it.
        trees = [system.clone(source, is_alone=source in alone) for source, _, _ in binds]
        for tree, (source, _, _), before in zip(trees, binds, known, strict=False):
            if identity(os.fstat(tree)) != tuple(before):
                raise OSError(_ESTALE, "cannot stage what has just become another", source)
        for tree, (source, _, writable) in zip(trees, binds, strict=True):
            system.set_attributes(tree, source, writable, mappings)
        nodes = [system.clone(f"/dev/{name}") for name in DEVICES] if devices else []
        if kept:
            system.unmount_all_but(kept)
        system.mount("make the stage", "tmpfs", STAGE, "tmpfs", _MS_NOSUID | _MS_NODEV, "size=1m,mode=755")
        os.umask(0o022)
        for target, is_folder in points:
            # Only while the stage is bare: no link leads away from it.
            _make_mount_point(target, is_folder=is_folder)
        for tree, (_, target, _) in zip(trees, binds, strict=True):
            _make_mount_point(target, is_folder=stat.S_ISDIR(os.fstat(tree).st_mode))
        for path, text in links:
            os.symlink(text, path)
        for tree, (_, target, _) in zip(trees, binds, strict=True):
            system.attach(tree, target)
        for n, (path, data) in enumerate(files):
            system.lay_over(f"{STAGE}/file-{n}", data, path)
        if devices:
            system.make_devices(devices, nodes)

    return system.in_child(prepare, "mnt", patience_s=patience_s)


def identity(found: os.stat_result) -> tuple[int, ...]:
    """Which folder or file it is, and to whom it belongs."""
    return found.st_dev, found.st_ino, found.st_uid, found.st_gid


def can_become(folder: str) -> str | None:
    """None if a child of this process could become the user and write in `folder`; else why not.

    It is tried, in a process of its own: whether a folder can be mapped is for its file system to say. Once
    it worked it is not tried again for folders that differ in nothing that matters to it.
    """
    import subprocess
    import sys

    if sys.platform != "linux":
        return "Only Linux can show a folder to another user as that user's own."
    if os.geteuid() != 0:
        return "Only root can become another user."
    traits = _traits(folder)
    if traits in _worked:
        return None
    try:
        tried = subprocess.run(
            [sys.executable, "-I", "-S", __file__, folder],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            # Nothing of the host's, but where the interpreter finds its own libraries.
            env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
            timeout=20,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"Becoming another user could not be tried: {error}."
    said = tried.stdout.decode(errors="replace").strip()
    if tried.returncode == 0 and said == "yes":
        if traits is not None:
            _worked.add(traits)
        return None
    return said or f"Becoming another user could not be tried: the try ended with {tried.returncode}."


_worked: set[tuple[object, ...]] = set()
"""The traits of folders in which this process has seen the user write."""


def _traits(folder: str) -> tuple[object, ...] | None:
    """All that decides whether the user can write in a folder: its mount, owner and mode.

    None where that is not all: something else is mounted below it, or it cannot be looked at.
    """
    try:
        path = os.path.realpath(folder)
        found = os.stat(path)
        with open("/proc/self/mountinfo", "rb") as file:
            mounts = [(os.fsdecode(_unescaped(line.split(b" ", 5)[4])), line) for line in file]
    except OSError:
        return None
    if any(at != path and _is_beneath(at, path) for at, _ in mounts):
        return None
    # Of two at one place the later one covers the other.
    above = [(len(at), number) for number, (at, _) in enumerate(mounts) if _is_beneath(path, at)]
    if not above:
        return None
    return mounts[max(above)[1]][1], found.st_dev, found.st_uid, found.st_gid, found.st_mode


def _system() -> _System:
    """The calls, looked up once: also for those that are forked later."""
    global _known
    if _known is None:
        _known = _System()
    return _known


class _System:
    """The calls of the kernel that Python has no name for."""

    def __init__(self) -> None:
        import ctypes

        self.c = ctypes
        self.libc: Any = ctypes.CDLL(None, use_errno=True)
        self.libc.syscall.restype = ctypes.c_long
        self.libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]

    def unshare_mounts(self) -> None:
        if self.libc.unshare(_CLONE_NEWNS) != 0:
            self._fail("cannot make a mount namespace", "")

    def mount(
        self, what: str, source: str | None, target: str, kind: str | None, flags: int, data: str | None
    ) -> None:
        parts = [None if part is None else os.fsencode(part) for part in (source, target, kind, data)]
        if self.libc.mount(*parts[:3], self.c.c_ulong(flags), parts[3]) != 0:
            self._fail(f"cannot {what}", target)

    def enter(self, stage: int) -> None:
        if self.libc.setns(stage, _CLONE_NEWNS) != 0:
            self._fail("cannot enter the stage", "")

    def unmount_all_but(self, kept: Sequence[str]) -> None:
        """Let go of what is mounted neither at, below nor above one of these paths."""
        with open("/proc/self/mountinfo", "rb") as file:
            paths = [os.fsdecode(_unescaped(line.split(b" ", 5)[4])) for line in file]
        for path in reversed(paths):
            if not any(_is_beneath(path, each) or _is_beneath(each, path) for each in kept):
                # What does not let go is only one more to go through.
                self.libc.umount2(os.fsencode(path), _MNT_DETACH | _UMOUNT_NOFOLLOW)

    def clone(self, source: str, *, is_alone: bool = False) -> int:
        """The descriptor of a copy of the mount at `source`, with those below it, or alone."""
        flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_SYMLINK_NOFOLLOW | _AT_NO_AUTOMOUNT
        flags |= 0 if is_alone else _AT_RECURSIVE
        tree = self._call(_OPEN_TREE, _AT_FDCWD, os.fsencode(source), flags)
        if tree < 0:
            self._fail("cannot take hold of", source)
        if stat.S_ISLNK(os.fstat(tree).st_mode):
            # Whoever can write beside it would choose what the command gets.
            raise OSError(_EINVAL, "cannot stage a link", source)
        return tree

    def set_attributes(
        self, tree: int, source: str, writable: bool, mappings: dict[tuple[int, int], int]
    ) -> None:
        """Make it read-only, or the user's own. A mapping is made once for each owner."""
        mode, mapping = _ATTR_NOSUID | _ATTR_NODEV, 0
        found = os.fstat(tree)
        owner = found.st_uid, found.st_gid
        if not writable:
            mode |= _ATTR_RDONLY
        elif owner != (UID, UID):
            if owner not in mappings:
                mappings[owner] = self.make_mapping(*owner)
            mode |= _ATTR_IDMAP
            mapping = mappings[owner]
        attributes = (self.c.c_uint64 * 4)(mode, 0, 0, mapping)
        where = (tree, b"", _AT_EMPTY_PATH | _AT_RECURSIVE)
        if self._call(_MOUNT_SETATTR, *where, self.c.byref(attributes), self.c.sizeof(attributes)) < 0:
            words = "cannot show it to another user as that user's own" if mapping else "cannot protect"
            self._fail(words, source)

    def lay_over(self, source: str, data: bytes, path: str) -> None:
        """Put a read-only file over another one. `source` is where it is kept."""
        with open(source, "wb") as file:
            file.write(data)
        tree = self.clone(source)
        self.set_attributes(tree, source, False, {})
        self.attach(tree, path)

    def make_devices(self, folder: str, nodes: Sequence[int]) -> None:
        """A read-only folder with DEVICES, links to streams, and room for terminals and shared memory."""
        os.mkdir(folder)
        self.mount("make devices", "tmpfs", folder, "tmpfs", _MS_NOSUID | _MS_NOEXEC, "size=64k,mode=755")
        for name, node in zip(DEVICES, nodes, strict=True):
            _make_mount_point(f"{folder}/{name}", is_folder=False)
            self.attach(node, f"{folder}/{name}")
        for name, text in _DEVICE_LINKS.items():
            os.symlink(text, f"{folder}/{name}")
        for name in ("pts", "shm"):
            os.mkdir(f"{folder}/{name}")
        flags = _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NOEXEC
        self.mount("protect", None, folder, None, flags, None)

    def attach(self, tree: int, target: str) -> None:
        if self._call(_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH) < 0:
            self._fail("cannot mount", target)

    def drop_rights(self) -> None:
        """Become the user. What only root may give up is given up first."""
        self.libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
        number = 0
        while self.libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) == 0:
            number += 1
        if self.c.get_errno() != _EINVAL:
            # That is the end of the list; anything else is a refusal.
            self._fail("cannot give up a capability", "")
        try:
            os.setgroups([])
            os.setresgid(UID, UID, UID)
            os.setresuid(UID, UID, UID)
        except OSError as error:
            self._raise(error.errno or 0, f"cannot become the user {UID}", "")
        # The change of user has cleared all but those that are inherited, unless the host had locked that.
        header = (self.c.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
        if self.libc.capset(self.c.byref(header), self.c.byref((self.c.c_uint32 * 6)())) != 0:
            self._fail("cannot give up the capabilities", "")

    def make_mapping(self, uid: int, gid: int) -> int:
        """The descriptor of a user namespace in which the owner and the user are exchanged.

        Nobody runs in it: a mount takes its mapping from there, and nothing else.
        """

        def unshare() -> None:
            if self.libc.unshare(_CLONE_NEWUSER) != 0:
                self._fail("cannot make a user namespace", "")

        def exchange(pid: int) -> None:
            for name, owner in (("uid_map", uid), ("gid_map", gid)):
                with open(f"/proc/self/{name}", "rb") as file:
                    text = _exchange(file.read(), owner)
                with open(f"/proc/{pid}/{name}", "wb", buffering=0) as file:
                    file.write(text)

        try:
            return self.in_child(unshare, "user", exchange)
        except OSError as error:
            self._raise(error.errno or 0, f"cannot exchange the users {uid} and {UID}", "")

    def in_child(
        self,
        prepare: Callable[[], None],
        kind: str,
        finish: Callable[[int], None] | None = None,
        *,
        patience_s: float = 60.0,
    ) -> int:
        """The descriptor of the namespace that a child has after `prepare`. `finish` gets its number.

        The child stays until the namespace is held by somebody else, or this process is gone.

        Raises:
            OSError: what `prepare` or `finish` raised; or `prepare` takes longer than `patience_s`.
        """
        import select

        ready_fd, ready_write_fd = os.pipe()
        hold_read_fd, hold_fd = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(ready_fd)
            os.close(hold_fd)
            self._prepare_and_wait(prepare, ready_write_fd, hold_read_fd)
        os.close(ready_write_fd)
        os.close(hold_read_fd)
        try:
            if not select.select([ready_fd], [], [], patience_s)[0]:
                os.kill(pid, _SIGKILL)
                self._raise(_ETIMEDOUT, "cannot make a namespace", "")
            said = os.read(ready_fd, 4096)
            if said != _READY:
                number, _, rest = said.decode(errors="surrogateescape").partition(" ")
                words, _, path = rest.partition("\0")
                raise OSError(int(number or 0), words or "no namespace", *([path] if path else []))
            if finish is not None:
                finish(pid)
            return os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(ready_fd)
            os.close(hold_fd)
            os.waitpid(pid, 0)

    def _prepare_and_wait(
        self, prepare: Callable[[], None], ready_write_fd: int, hold_read_fd: int
    ) -> NoReturn:
        try:
            self.libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
            try:
                prepare()
                said = _READY
            except OSError as error:
                words = f"{error.errno or 0} {error.strerror}\0{error.filename or ''}"
                said = words.encode(errors="surrogateescape")
            os.write(ready_write_fd, said)
            os.close(ready_write_fd)
            os.read(hold_read_fd, 1)
        finally:
            os._exit(0)

    def _call(self, number: int, *arguments: Any) -> int:
        # As wide as a register each: a plain int would leave the upper half to chance.
        wide = [self.c.c_long(each) if isinstance(each, int) else each for each in arguments]
        return int(self.libc.syscall(self.c.c_long(number), *wide))

    def _fail(self, what: str, path: str) -> NoReturn:
        self._raise(self.c.get_errno(), what, path)

    def _raise(self, number: int, what: str, path: str) -> NoReturn:
        text = f"{what}: {os.strerror(number)}"
        raise OSError(number, text, path) if path else OSError(number, text)


_known: _System | None = None


def _exchange(known: bytes, owner: int) -> bytes:
    """The lines of a uid_map or gid_map in which `owner` and UID are exchanged. Others stay themselves.

    `known` is the map of this process: in a container it may have fewer users than there are numbers.
    """
    lines = []
    pair = sorted({owner, UID})
    for line in known.splitlines():
        first, _, count = map(int, line.split())
        end = first + count
        for each in pair:
            if first <= each < end:
                if first < each:
                    lines.append((first, first, each - first))
                lines.append((each, UID if each == owner else owner, 1))
                first = each + 1
        if first < end:
            lines.append((first, first, end - first))
    return b"".join(b"%d %d %d\n" % line for line in lines)


def _is_beneath(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _unescaped(path: bytes) -> bytes:
    """A path as /proc writes it: a space or a line's end stands as a number."""
    first, *parts = path.split(b"\\")
    return first + b"".join(bytes([int(part[:3], 8)]) + part[3:] for part in parts)


def _make_mount_point(target: str, *, is_folder: bool) -> None:
    """An empty folder or file on the stage, which is still bare: so none is made on the host's disk."""
    if not target.startswith(f"{STAGE}/") or os.path.normpath(target) != target:
        raise OSError(_EINVAL, f"cannot stage outside of {STAGE}", target)
    if is_folder:
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _try(folder: str) -> None:
    """Say on standard output how it went: `yes`, or what was in the way."""
    staged = f"{STAGE}/tried"
    # As the keeper is: some of what root does to such a process needs one more right.
    _system().libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    try:
        become([(folder, staged, True)])
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        print(f"Root could not become another user here: {error.strerror}{where}.")
    else:
        print(
            "yes" if os.access(staged, os.R_OK | os.W_OK | os.X_OK) else f"{folder} cannot be written then."
        )


if __name__ == "__main__":
    import sys

    _try(sys.argv[1])
