"""A cgroup for one command: the kernel itself counts its memory and its processes.

A cgroup is a folder in a file system of the kernel's. Only who may write there can make one, so most
ordinary users get none, and the keeper's watch is all there is. Linux has two kinds. In version 1 each
resource has a tree of its own, and ours is made below the cgroup this process is in. In version 2 there is
one tree; a cgroup that holds processes hands no resource on, so ours is made beside our own.

Keep true:
1. No process is moved but the one that joins, and no cgroup is changed but those made here.
2. A command gets no more than the cgroup of this process may have, also where it is beside that.
3. `memory` and `pids` are true only if the kernel has taken the limit.
4. A killed host leaves an empty folder at most, and the next one to come removes it.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from placet.sandbox.limits import Limits

if TYPE_CHECKING:
    from types import TracebackType

NAME = "placet"
CLOSE_S = 1.0
"""How long to try to end what is in a cgroup, and to remove it."""
_RESOURCES = ("memory", "pids")
_MOST_PIDS = 4 * 1024 * 1024
"""No machine has more, and the kernel takes no larger number."""


class Events(NamedTuple):
    """What the kernel refused."""

    memory: bool
    """Memory ran out, and a process was killed for it."""
    pids: bool
    """A process or a thread was not started."""


class Cgroup:
    """One for one command. It is there until `close`, also as a context manager."""

    def __init__(self, folders: dict[str, str], *, memory: bool, pids: bool) -> None:
        self.folders = folders
        """For each resource that is held, the folder. In version 2 it is the same one."""
        self.memory = memory
        """Whether the kernel holds the limit of memory."""
        self.pids = pids
        """Whether the kernel holds the limit of processes. It counts threads as well."""
        self.joins = [f"{folder}/cgroup.procs" for folder in dict.fromkeys(folders.values())]
        """A process that writes `0` into each of these, before it becomes the command, is in the cgroup, and
        so is all that it starts."""

    def events(self) -> Events:
        """What the kernel refused so far. Ask before `close`."""
        memory, pids = self.folders.get("memory", ""), self.folders.get("pids", "")
        # Version 2 has the first file, version 1 the second.
        killed = _count(f"{memory}/memory.events", "oom_kill") or _count(
            f"{memory}/memory.oom_control", "oom_kill"
        )
        return Events(memory=killed > 0, pids=_count(f"{pids}/pids.events", "max") > 0)

    def close(self) -> None:
        """End what is in it, wait for that, and remove it.

        What does not end in a moment stays, and the folder with it, until another host comes by. The wait
        blocks, but there is none if the keeper has done its work.
        """
        for folder in dict.fromkeys(self.folders.values()):
            _remove(folder, CLOSE_S)

    def __enter__(self) -> Cgroup:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_cgroup(limits: Limits, *, wrappers: int = 0, root: str = "/") -> Cgroup | None:
    """A new cgroup that holds `limits`, or None: nothing may be made here, or there is nothing to hold.

    What killed hosts have left is removed first. `wrappers` is the number of processes in it that are not the
    command's own. `root` is where /proc and /sys are looked for.
    """
    wanted: dict[str, int] = {}
    if limits.memory_bytes is not None:
        wanted["memory"] = limits.memory_bytes
    if limits.processes is not None:
        wanted["pids"] = min(limits.processes + wrappers, _MOST_PIDS)
    places = {name: place for name, place in _places(root).items() if name in wanted}
    for parent in {parent for parent, _ in places.values()}:
        _remove_stale(parent)
    made: dict[str, str] = {}
    name = f"{NAME}-{_mark(os.getpid())}-{os.urandom(6).hex()}"
    for resource, (parent, version) in places.items():
        folder = f"{parent}/{name}"
        try:
            if folder not in made.values():
                os.mkdir(folder)
            made[resource] = folder
            _set(folder, resource, version, min(wanted[resource], _own_most(root, resource, version)))
        except OSError:
            # Refused after all, as it may be in a container. The other resource can still be held.
            if folder in made.values():
                del made[resource]
            if folder not in made.values():
                _remove(folder, CLOSE_S)
    if not made:
        return None
    return Cgroup(made, memory="memory" in made, pids="pids" in made)


def why_not(*, root: str = "/") -> str:
    """Which of memory and processes the kernel cannot hold for this process, and what to do; else empty."""
    places = _places(root)
    missing = [name for name in _RESOURCES if name not in places]
    if not missing:
        return ""
    what = " and ".join({"memory": "memory", "pids": "processes"}[name] for name in missing)
    own = _own_cgroups(root)
    if not own:
        return f"The kernel holds no limit of {what}: there are no cgroups here. A watch looks at it instead."
    fix = (
        "as root, or in a cgroup that is handed over to you: "
        "`systemd-run --user --scope -p Delegate=yes placet ...`"
    )
    if os.geteuid() == 0:
        fix = "in a container that may write to /sys/fs/cgroup, or as a service with `Delegate=yes`"
    return (
        f"The kernel holds no limit of {what}: no cgroup can be made beside or below our own. "
        f"A watch looks at it instead. To have the kernel do it, start Placet {fix}."
    )


def _places(root: str) -> dict[str, tuple[str, int]]:
    """For each resource, the folder in which a cgroup can be made for it, and the version."""
    found: dict[str, tuple[str, int]] = {}
    own = _own_cgroups(root)
    for resource in _RESOURCES:
        if resource in own:
            # Version 1. A resource is in one tree only, so the other version is not asked.
            if os.access(own[resource], os.W_OK | os.X_OK):
                found[resource] = own[resource], 1
        elif (parent := _open_parent(own.get(""), resource)) is not None:
            found[resource] = parent, 2
    return found


def _open_parent(own: str | None, resource: str) -> str | None:
    """Where in the tree of version 2 a cgroup can be made that is given the resource.

    Our own, if it is the root of all, which may hold processes and hand on as well; else the one above.
    """
    if own is None:
        return None
    # Above the root of all there is no such file.
    for folder in (own, os.path.dirname(own)):
        handed_on = _read(f"{folder}/cgroup.subtree_control").split()
        # Who joins from beside it must also be allowed to leave, which is asked of the folder above both.
        if resource in handed_on and all(
            os.access(path, os.W_OK) for path in (folder, f"{folder}/cgroup.procs")
        ):
            return folder
    return None


def _own_cgroups(root: str) -> dict[str, str]:
    """The folder of the cgroup that this process is in: by resource in version 1, under "" in version 2."""
    return _own_folders(root, _read(f"{root}/proc/self/cgroup"))


@lru_cache(maxsize=4)
def _own_folders(root: str, own: str) -> dict[str, str]:
    """The folders of the cgroups that the text `own` of /proc tells of.

    Found once as long as it is the same: a process can be moved, while the trees stay where they are mounted.
    """
    mounts: dict[str, tuple[str, str]] = {}
    for line in _read(f"{root}/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2":
            mounts.setdefault("", (fields[3], fields[4]))
        elif kind[0] == "cgroup":
            for option in kind[2].split(","):
                if option in _RESOURCES:
                    mounts.setdefault(option, (fields[3], fields[4]))
    found: dict[str, str] = {}
    for line in own.splitlines():
        _, resources, path = line.split(":", 2)
        for resource in resources.split(","):
            if resource not in mounts:
                continue
            # A container may see only a part of the tree: what is mounted is then the part from `top` on.
            top, mount = mounts[resource]
            if not _is_below(path, top):
                continue
            inner = os.path.relpath(path, top)
            folder = os.path.normpath(f"{root}/{_unescape(mount)}/{inner}")
            found[resource] = folder
    return found


def _is_below(path: str, top: str) -> bool:
    """Whether the cgroup is in what is mounted. One outside of our own namespace is written with `..`."""
    return ".." not in path.split("/") and (path == top or path.startswith(top.rstrip("/") + "/"))


def _unescape(path: str) -> str:
    """A path as /proc writes it: a space or a line's end stands as a number."""
    for code, plain in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(code, plain)
    return path


def _set(folder: str, resource: str, version: int, most: int) -> None:
    """Set the limit.

    Raises:
        OSError: the kernel does not take it.
    """
    if resource == "pids":
        _write(f"{folder}/pids.max", most)
    elif version == 1:
        _write(f"{folder}/memory.limit_in_bytes", most)
        # With what is swapped out, where the kernel counts that. It may not be lower than the first.
        _try_write(f"{folder}/memory.memsw.limit_in_bytes", most)
    else:
        _write(f"{folder}/memory.max", most)
        _try_write(f"{folder}/memory.swap.max", 0)
        # Half a command is of no use to anybody.
        _try_write(f"{folder}/memory.oom.group", 1)


def _own_most(root: str, resource: str, version: int) -> int:
    """What the cgroup of this process may have: one beside it would not be held to that."""
    own = _own_cgroups(root).get("", "") if version == 2 else ""
    most = _read(f"{own}/{resource}.max").strip()
    return int(most) if most.isdigit() else sys.maxsize


@lru_cache(maxsize=1)
def _mark(pid: int) -> str:
    """Who made a cgroup: the number of the process, when it began, and whose numbers these are."""
    return f"{pid}-{_began(pid)}-{_pid_namespace()}"


def _remove_stale(parent: str) -> None:
    """Remove the cgroups whose maker has ended. A number can come again, but not with the same beginning."""
    try:
        names = os.listdir(parent)
    except OSError:
        return
    namespace = _pid_namespace()
    for name in names:
        parts = name.split("-")
        if len(parts) != 5 or parts[0] != NAME or parts[3] != namespace or not parts[1].isdigit():
            # Not ours, or made where numbers of processes mean something else.
            continue
        if _began(int(parts[1])) != parts[2]:
            _remove(f"{parent}/{name}", 0.0)


def _began(pid: int) -> str:
    """When a process began, in the kernel's own count; empty if there is none."""
    # After the name, which may hold anything, also brackets.
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""


def _pid_namespace() -> str:
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return "0"


def _remove(folder: str, seconds: float) -> None:
    """End what is in the cgroup and in those made below it, and remove them. Never raises."""
    try:
        # Mostly all have ended, and nothing was made below it.
        os.rmdir(folder)
        return
    except OSError:
        deadline = time.monotonic() + seconds
    pause_s = 0.0005
    while True:
        _kill(folder)
        busy = False
        for inner, _, _ in os.walk(folder, topdown=False):
            try:
                os.rmdir(inner)
            except OSError as error:
                busy = busy or error.errno == errno.EBUSY
        if not busy or time.monotonic() > deadline:
            return
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.02)


def _kill(folder: str) -> None:
    if _try_write(f"{folder}/cgroup.kill", 1, only_if_there=True):
        return
    for inner, _, _ in os.walk(folder):
        for pid in _members(inner):
            try:
                fd = os.pidfd_open(pid)
            except (AttributeError, OSError):
                continue
            try:
                # Asked again: the number may have gone to somebody else before we had hold of the process.
                if pid in _members(inner):
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
            except OSError:
                continue  # It has ended.
            finally:
                os.close(fd)


def _members(folder: str) -> list[int]:
    """The processes in a cgroup. One that this process has no number for stands there as 0."""
    return [int(word) for word in _read(f"{folder}/cgroup.procs").split() if word.isdigit() and int(word) > 1]


def _count(path: str, name: str) -> int:
    for line in _read(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdigit():
            return int(value)
    return 0


def _read(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read().decode(errors="surrogateescape")
    except OSError:
        return ""


def _write(path: str, value: int) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(b"%d" % value)


def _try_write(path: str, value: int, *, only_if_there: bool = False) -> bool:
    if only_if_there and not os.path.exists(path):
        return False
    try:
        _write(path, value)
    except OSError:
        return False
    return True
