"""Processes as /proc shows them: who is below whom, what they use, and how to end them.

It runs on the keeper's bare interpreter too, so it imports next to nothing, and nothing of ours.
"""

from __future__ import annotations

# The module `signal` is this one and some enums, which take longer to make than all the rest.
import _signal as signal  # type: ignore[import-not-found]
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ENDED = (b"Z", b"X", b"x")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def kill_below(root: int, deadline: float) -> None:
    """Kill every process below `root` that is found.

    They are stopped first, all of them, and killed then: one that runs could start another while we look. One
    that is stopped also cannot take the end of its child, whose number could then go to somebody else.
    """
    stopped: dict[int, None] = {}
    while time.monotonic() < deadline:
        fresh = [pid for pid in descendants(root) if pid not in stopped]
        if not fresh:
            break
        for pid in fresh:
            send(os.kill, pid, signal.SIGSTOP)
            stopped[pid] = None
    for pid in stopped:
        send(os.kill, pid, signal.SIGKILL)


def descendants(root: int, *, by_scan: bool = False) -> list[int]:
    """The processes below `root` that have not ended, parents before children.

    The kernel lists the children of a thread, if built so. Else (`by_scan`) every process is looked at.
    """
    if not by_scan and not os.path.exists(f"/proc/{root}/task/{root}/children"):
        by_scan = True
    children = _scan() if by_scan else None
    found: list[int] = []
    todo = [root]
    seen = {root}
    while todo:
        parent = todo.pop(0)
        for pid in _children(parent) if children is None else children.get(parent, ()):
            if pid not in seen:
                seen.add(pid)
                todo.append(pid)
                if _stat(pid)[0] not in _ENDED:
                    found.append(pid)
    return found


def send(how: Any, target: int, number: int) -> None:
    try:
        how(target, number)
    except OSError:
        return  # It has ended, or is not ours to end; the deadline is for those.


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
        except OSError:
            continue
    return found


def _scan() -> dict[int, list[int]]:
    """The children of every process."""
    found: dict[int, list[int]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return found
    for name in names:
        if name.isdigit():
            found.setdefault(_stat(int(name))[1], []).append(int(name))
    return found


def _stat(pid: int) -> tuple[bytes, int]:
    """The state of a process and the number of its parent."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # After the name, which may hold anything, also brackets.
            state, parent, *_ = file.read().rpartition(b")")[2].split()
    except (OSError, ValueError):
        return b"X", 0
    return state, int(parent)


def resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def used_in(folder: str, outside: str) -> int:
    """What is in a file system of a sandbox; `outside` is the folder of the same name on this machine."""
    try:
        number = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return 0
    try:
        found, device = os.fstatvfs(number), os.fstat(number).st_dev
        # Until everything is mounted inside, it may still be the machine's own.
        if device in (os.stat("/").st_dev, os.stat(outside).st_dev):
            return 0
    except OSError:
        return 0
    finally:
        os.close(number)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def nameless(pids: list[int]) -> int:
    """Bytes in files that live in memory and have no name, of all that these processes hold open."""
    found: dict[tuple[int, int], int] = {}
    for pid in pids:
        try:
            for name in os.listdir(f"/proc/{pid}/fd"):
                path = f"/proc/{pid}/fd/{name}"
                if os.readlink(path).startswith("/memfd:"):
                    status = os.stat(path)
                    found[status.st_dev, status.st_ino] = status.st_blocks * 512
        except OSError:
            continue  # It has ended, or is not ours to look into.
    return sum(found.values())


def proportional(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, IndexError):
        pass
    return resident(pid)
