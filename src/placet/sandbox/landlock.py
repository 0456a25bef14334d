"""Keep this process, and all that it will start, to some files: by Landlock, which asks for no right at all.

It is for hosts without user namespaces. The process that is to become the command calls `restrict`, then
`filter_calls`, then its program. There is no way back. What Landlock does not know about, it does not hold:
`uncovered` tells what that is.

Keep true:
1. This is imported on a bare interpreter before each command: nothing of Placet, and little else.
2. Every right that the kernel knows is asked for. One that is left out is held for nobody.
3. If anything fails, it raises, and the caller must not go on to start the command.
"""

from __future__ import annotations

import os
import stat
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

NEWEST = 7
"""The newest version of Landlock that this module knows. A newer kernel is used as if it had this one."""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
"""Rights that a file can have. The kernel takes no other for one."""
_FIRST = (1 << 13) - 1
"""Those of version 1: the four above, and to remove and to make each kind of file."""
_BIND_AND_CONNECT = 3
_ABSTRACT_SOCKETS_AND_SIGNALS = 3

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""The same numbers on every machine that Linux runs on, but Alpha."""
_ASK_VERSION = 1
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_FILTER_STEP_BYTES = 8


def abi() -> int:
    """Which version of Landlock the kernel has; 0 if it has none, or has it switched off."""
    if os.name != "posix" or os.uname().sysname != "Linux":
        return 0
    try:
        return _call(_CREATE_RULESET, None, 0, _ASK_VERSION)
    except OSError:
        return 0


def restrict(write: Sequence[str], read: Sequence[str], *, network: bool, version: int | None = None) -> None:
    """Leave this process everything beneath `write`, reading and running beneath `read`, and nothing else.

    Both hold folders and files, which have to exist. Without `network` no TCP connection is made or taken.
    From version 6 on no process outside is signalled, and no abstract socket outside is spoken to, in any
    case. `version` makes it act as on an older kernel.

    Raises:
        OSError: the kernel refused, or a path does not exist. The process may be restricted or not.
    """
    known = min(abi(), NEWEST if version is None else version)
    if known < 1:
        raise OSError(95, "This kernel has no Landlock")
    rights = _rights(known)
    tcp = _BIND_AND_CONNECT if known >= 4 and not network else 0
    scopes = _ABSTRACT_SOCKETS_AND_SIGNALS if known >= 6 else 0
    ruleset = struct.pack("=3Q", rights, tcp, scopes)
    # An older kernel takes a longer structure than its own if the rest is zero.
    rules_fd = _call(_CREATE_RULESET, ruleset, len(ruleset), 0)
    try:
        for paths, granted in ((write, rights), (read, rights & _READ)):
            for path in paths:
                _allow(rules_fd, path, granted)
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        _call(_RESTRICT_SELF, rules_fd, 0)
    finally:
        os.close(rules_fd)


def filter_calls(program: bytes) -> None:
    """Have the kernel refuse this process, and all that it will start, what `program` refuses (seccomp).

    Raises:
        OSError: the kernel has no such filters, or does not take this one.
    """
    import ctypes

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))

    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    filter_ = Program(len(program) // _FILTER_STEP_BYTES, program)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(filter_))


def uncovered(abi: int) -> list[str]:
    """What this version leaves open, in words for people. The filter of calls covers some of it."""
    if abi < 1:
        return ["everything: this kernel has no Landlock"]
    found = [
        "the mode, owner, times and extended attributes of a file anywhere that belongs to the same user",
        "whether a file exists anywhere, its size and times, and a notice when it changes",
        "sockets that have a path",
        "UDP and every other kind of network but TCP",
        "shared memory, semaphores and queues of the host",
        "the limits and priority of other processes of the same user",
        "the arguments of all processes, if /proc can be read, and to root their environment",
    ]
    since = {
        3: "the content of a file that is cut short, anywhere",
        4: "TCP",
        5: "orders to a device (ioctl) that was opened for reading",
        6: "signals to other processes of the same user, and abstract sockets",
    }
    return found + [what for version, what in since.items() if abi < version]


def _rights(version: int) -> int:
    rights = _FIRST
    for right, since in ((_REFER, 2), (_TRUNCATE, 3), (_IOCTL_DEV, 5)):
        if version >= since:
            rights |= right
    return rights


def _allow(rules_fd: int, path: str, rights: int) -> None:
    path_fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(path_fd).st_mode):
            rights &= _OF_FILES
        _call(_ADD_RULE, rules_fd, _PATH_BENEATH, struct.pack("=Qi", rights, path_fd), 0)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        os.close(path_fd)


def _call(number: int, *arguments: Any) -> int:
    import ctypes

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    passed = [value if value is None or type(value) is bytes else ctypes.c_long(value) for value in arguments]
    result: int = syscall(ctypes.c_long(number), *passed)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _prctl(option: int, *arguments: int) -> None:
    import ctypes

    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    if prctl(option, *arguments, *[0] * (4 - len(arguments))) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
