"""What this machine has that can be attacked at all. Each is tried, as an ordinary process."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_found: frozenset[str] = frozenset()


def present(victim: int, address: str, base: Path) -> frozenset[str]:
    """The names, as `Case.needs` uses them. It is tried once."""
    global _found
    _found = _found or _try_all(victim, address, base)
    return _found


def _try_all(victim: int, address: str, base: Path) -> frozenset[str]:
    found = {program for program in ("curl", "sqlite3", "pkill", "bwrap") if shutil.which(program)}
    found.add("records")
    for name, attempt in _attempts(victim, address, base).items():
        with suppress(OSError, ValueError):
            if attempt():
                found.add(name)
    return frozenset(found)


def _attempts(victim: int, address: str, base: Path) -> dict[str, Callable[[], object]]:
    is_x86 = os.uname().machine == "x86_64"
    return {
        "xattr": lambda: os.setxattr(base, "user.tried", b"1") is None,
        "looking": lambda: _memory(victim, int(address)),
        "mptcp": lambda: _socket(socket.AF_INET, socket.SOCK_STREAM, 262),
        "vsock": lambda: _socket(40, socket.SOCK_STREAM, 0),
        "alg": lambda: _socket(38, socket.SOCK_SEQPACKET, 0),
        "host name": lambda: os.uname().nodename != "sandbox",
        "cgroup": lambda: any(not line.endswith(":/") for line in _lines("/proc/self/cgroup")),
        "namespaces": lambda: subprocess.run(["unshare", "-r", "true"], capture_output=True).returncode == 0,
        "x86_64": lambda: is_x86,
        "io_uring": lambda: _call(425, 4, bytes(120)),
        "userfaultfd": lambda: _call(323 if is_x86 else 282, 1),
        "fanotify": lambda: _call(300 if is_x86 else 262, 0x200, 0),
        "dmesg": lambda: _call(103 if is_x86 else 116, 10, 0, 0),
        "fchmodat2": lambda: _call(452, -100, str(base).encode(), base.stat().st_mode & 0o777, 0),
        "setuid": lambda: os.stat("/usr/bin/passwd").st_mode & 0o4000,
        "cores": lambda: len(os.sched_getaffinity(0)) > 1,
        "disks": lambda: any(
            os.path.exists(f"/dev/{name}") for name in ("sda", "vda", "nvme0n1", "kmsg", "mem", "loop0")
        ),
    }


def _memory(victim: int, address: int) -> bytes:
    with open(f"/proc/{victim}/mem", "rb", 0) as file:
        file.seek(address)
        return file.read(8)


def _socket(family: int, kind: int, protocol: int) -> bool:
    with socket.socket(family, kind, protocol):
        return True


def _call(number: int, *arguments: int | bytes) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    got = libc.syscall(
        ctypes.c_long(number),
        *(each if isinstance(each, bytes) else ctypes.c_long(each) for each in arguments),
    )
    # Only a descriptor is above the standard streams; it is closed again.
    if got > 2 and number not in (103, 116):
        os.close(got)
    return bool(got >= 0)


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()
