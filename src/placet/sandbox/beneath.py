"""Open a path beneath a folder, wherever its links lead: outside is refused by whoever resolves it.

Looking at a path and opening it afterwards loses against anybody who swaps a folder for a link in between.
So nothing here looks first. Linux resolves the path and refuses in one step (`openat2`). Elsewhere, and
where a container forbids that call, the path is walked by hand on descriptors, which is slower and equal.

Keep true:
1. Both ways open the same things and refuse the same things; the tests run on both.
2. By hand, the kernel gets one name at a time and follows no link. `..` never reaches it.
3. What leads outside is an `OSError` with EXDEV. No other reason has that number.
4. A descriptor from here is closed in programs that are started, opening never waits, and no terminal becomes
   ours.
5. Nothing is made here: whoever makes or replaces a file does so by its name in a descriptor of its folder.
"""

from __future__ import annotations

import errno
import functools
import os
import sys
from collections.abc import Callable

MAX_LINKS = 40
"""Links followed for one path, as in Linux."""
MAX_PATH = 4096
"""Bytes of a path, with the zero at its end."""

O_PATH: int = getattr(os, "O_PATH", 0)
"""A descriptor to start from, not to read. Systems without it open folders for reading instead."""
FOLDER: int = O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
"""How to open a folder to start from."""

_IS_LINK = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})
"""What systems say of a link where none may be, or of a file where a folder must be."""

_OPENAT2 = 437
_OTHER_NUMBERS = ("alpha", "mips")
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_TRIES = 64
"""How often a path is resolved anew because something was renamed meanwhile, before walking it by hand."""

Openat2 = Callable[[int, bytes, int, int], int]


def open_beneath(root: int, path: str, flags: int, *, by_hand: bool | None = None) -> int:
    """A descriptor of `path`, which is relative to the folder that `root` is a descriptor of.

    `flags` are those of reading, or `FOLDER`. `by_hand` chooses the way; None takes the kernel's where there
    is one.

    Raises:
        OSError: in the kernel's words; EXDEV for what leads outside.
    """
    flags |= os.O_CLOEXEC
    if not flags & O_PATH:
        # A named pipe must not make us wait for somebody, nor a terminal become ours.
        flags |= os.O_NOCTTY | os.O_NONBLOCK
    name = os.fsencode(path)
    if not name or b"\0" in name or len(name) >= MAX_PATH:
        number = errno.EINVAL if b"\0" in name else errno.ENAMETOOLONG if name else errno.ENOENT
        raise OSError(number, os.strerror(number), path)
    if by_hand is None:
        by_hand = not has_openat2()
    if not by_hand:
        found = _open_by_kernel(root, name, flags)
        if found is not None:
            return found
    return _Walk(root, name).open(flags)


def names_of(path: str) -> tuple[str, ...]:
    """The names of a path, without empty ones and single dots."""
    return tuple(name for name in path.split("/") if name not in ("", "."))


def split(path: str) -> tuple[str, str]:
    """The folder part and the last name; the name is "." for a path that can only be a folder."""
    *head, name = names_of(path) or (".",)
    if name == "..":
        return "/".join([*head, name]), "."
    return "/".join(head) or ".", name


@functools.cache
def has_openat2() -> bool:
    """Whether the kernel resolves beneath a folder, found out once by asking it to."""
    if sys.platform != "linux" or os.uname().machine.startswith(_OTHER_NUMBERS):
        return False
    root = os.open("/", FOLDER)
    try:
        os.close(_openat2()(root, b".", FOLDER, _BENEATH | _NO_MAGICLINKS))
    except OSError:
        # Older than Linux 5.6, or forbidden by whoever runs the container.
        return False
    finally:
        os.close(root)
    return True


@functools.cache
def _openat2() -> Openat2:
    import ctypes

    class How(ctypes.Structure):
        _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]

    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    call.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.POINTER(How), ctypes.c_size_t]

    def openat2(root: int, name: bytes, flags: int, resolve: int) -> int:
        how = How(flags, 0, resolve)
        found: int = call(_OPENAT2, root, name, how, ctypes.sizeof(how))
        if found < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), os.fsdecode(name))
        return found

    return openat2


def _open_by_kernel(root: int, name: bytes, flags: int) -> int | None:
    """A descriptor, or None if renames elsewhere kept the kernel from being sure of the path."""
    resolve = _BENEATH | _NO_MAGICLINKS
    for _ in range(_TRIES):
        try:
            return _openat2()(root, name, flags, resolve)
        except (InterruptedError, BlockingIOError):
            # A signal came, or a `..` was resolved while something was renamed, anywhere on the machine.
            continue
    return None


class _Walk:
    """One path, walked by hand: where we are as a stack of descriptors, and the names still to come."""

    def __init__(self, root: int, name: bytes) -> None:
        self._root = root
        self._entered: list[int] = []
        """Below `root`, each inside the one before; ours to close."""
        self._names: list[bytes] = []
        """Still to come, the next one last."""
        self._followed = 0
        self._add(name)

    def open(self, flags: int) -> int:
        try:
            while self._names:
                name = self._names.pop()
                if name in (b"", b"."):
                    continue
                if name == b"..":
                    if not self._entered:
                        raise _os_error(errno.EXDEV, name)
                    os.close(self._entered.pop())
                elif self._names:
                    self._enter(name)
                else:
                    found = self._open_last(name, flags)
                    if found is not None:
                        return found
            return os.open(".", flags, dir_fd=self._here)
        finally:
            for entered in self._entered:
                os.close(entered)

    @property
    def _here(self) -> int:
        return self._entered[-1] if self._entered else self._root

    def _add(self, path: bytes) -> None:
        if path.startswith(b"/"):
            raise _os_error(errno.EXDEV, path)
        self._names += reversed(path.split(b"/"))

    def _enter(self, name: bytes) -> None:
        try:
            self._entered.append(os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=self._here))
        except OSError as error:
            self._follow(name, error)

    def _open_last(self, name: bytes, flags: int) -> int | None:
        """A descriptor, or None if the name is a link whose text is to be walked now."""
        try:
            return os.open(name, flags | os.O_NOFOLLOW, dir_fd=self._here)
        except OSError as error:
            if flags & os.O_NOFOLLOW:
                raise
            self._follow(name, error)
            return None

    def _follow(self, name: bytes, refusal: OSError) -> None:
        """Put the text of a link in its place, or raise `refusal` if `name` is no link."""
        if refusal.errno not in _IS_LINK:
            raise refusal  # Without asking for the text of what is no link.
        try:
            text = os.readlink(name, dir_fd=self._here)
        except OSError:
            raise refusal from None
        self._followed += 1
        if self._followed > MAX_LINKS:
            raise _os_error(errno.ELOOP, name)
        self._add(text)


def _os_error(number: int, name: bytes) -> OSError:
    return OSError(number, os.strerror(number), os.fsdecode(name))
