"""The arguments of bubblewrap: which part of the sandbox is made by which of them.

Each part has a name, so that a test can leave it out and see the case break that it is there for.

Keep true:
1. Later arguments lie over earlier ones: what is hidden inside something shown comes after it.
2. Nothing here depends on what a model wrote: neither which parts there are nor what they contain.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from placet.sandbox.places import Places, is_beneath

PARTS: dict[str, str] = {
    "user": "a user namespace: what is root in it is nobody outside, and the other namespaces need it",
    "nested": "no user namespace inside this one, in which a command would be its own root again",
    "pid": "a process table of its own: no process outside can be seen, signalled or traced",
    "net": "a network of its own, with nothing in it but loopback",
    "ipc": "shared memory, semaphores and message queues of its own",
    "uts": "a host name of its own",
    "cgroup": "no sight of where the host runs in the cgroup tree",
    "parent": "ended by the kernel when what watches over it ends",
    "system": "the system's folders read-only",
    "root": "nothing can be made beside what is shown",
    "dev": "a few harmless devices instead of the machine's",
    "proc": "the files in /proc are those of its own processes",
    "tmp": "temporary folders of its own, of limited size",
    "shm": "shared memory of its own, of limited size",
    "run": "no sockets of services",
    "home": "an empty home, of limited size",
    "toolchains": "the programs in the home read-only",
    "kept": "what a run was started with is not written, and Placet's own records are not seen",
    "seccomp": "a filter of system calls",
}
"""What each part is for."""


WRAPPERS = 2
"""Processes of bubblewrap's own: one that waits outside, and the first one inside."""


KERNEL = "/sys"
"""Shown last: much is mounted below it, and bubblewrap goes through all mounts for each one that follows."""


class Bind(msgspec.Struct, frozen=True):
    """A folder or a file of the host that is shown inside."""

    source: str
    destination: str
    is_writable: bool = False


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """What is where inside a sandbox."""

    places: Places
    workspace: str
    folder: str
    """Where the command runs."""
    tmp_bytes: int | None = None
    """How large a temporary folder, the shared memory and the home may grow, each."""
    is_writable: bool = True
    """Whether the workspace is."""
    binds: Sequence[Bind] = ()
    """What is shown besides, in order."""
    fixed: Sequence[str] = ()
    """Files of the workspace that are read-only, and before them the folders above them, which cannot be
    moved away."""
    empty: Sequence[str] = ()
    """Folders that are shown empty."""
    blank: Sequence[str] = ()
    """Files that cannot be read."""
    staged: Mapping[str, str] = {}
    """Where the source of a bind is to be found, if not at its own place."""
    root: str = ""
    """Where all of the system's folders are to be found at once, with the places of all others; empty if they
    are shown one by one."""
    devices: str = ""
    """Where a few harmless devices are to be found; empty if bubblewrap is to make them."""


def temporary(layout: Layout) -> list[str]:
    """Folders inside whose contents are in memory, and count as such."""
    return ["/tmp", "/var/tmp", "/dev/shm", "/run", layout.places.home]


def arguments(layout: Layout, without: Collection[str] = ()) -> list[str]:
    """The arguments for `layout`, without the program that is to run."""
    return [word for part, words in _parts(layout) if part not in without for word in words]


def _parts(layout: Layout) -> Iterator[tuple[str, list[str]]]:
    places = layout.places
    size = [] if layout.tmp_bytes is None else ["--size", str(layout.tmp_bytes)]
    yield "user", ["--unshare-user", "--cap-drop", "ALL"]
    yield "nested", ["--disable-userns"]
    yield "pid", ["--unshare-pid"]
    yield "net", ["--unshare-net"]
    yield "ipc", ["--unshare-ipc"]
    yield "uts", ["--unshare-uts", "--hostname", "sandbox"]
    yield "cgroup", ["--unshare-cgroup-try"]
    yield "parent", ["--die-with-parent"]
    if layout.root:
        # One mount for all: bubblewrap goes through all mounts for each one.
        yield "system", ["--ro-bind", layout.root, "/"]
        yield "dev", ["--dev-bind", layout.devices, "/dev"]
        yield "shm", [*size, "--tmpfs", "/dev/shm"]
    else:
        for path in places.system:
            if path != KERNEL:
                yield "system", shown(path)
        yield "dev", ["--dev", "/dev"]
        yield "shm", [*size, "--tmpfs", "/dev/shm"]
        yield "dev", ["--remount-ro", "/dev"]
    yield "proc", ["--proc", "/proc"]
    yield "run", [*size, "--tmpfs", "/run", *([] if layout.root else _link("/var/run", "../run"))]
    for path in ("/tmp", "/var/tmp"):
        yield "tmp", [*size, "--perms", "1777", "--tmpfs", path]
    yield "home", [*size, "--perms", "0700", "--tmpfs", places.home]
    for path in places.toolchains:
        yield "toolchains", ["--ro-bind", layout.staged.get(path, path), path]
    option = "--bind" if layout.is_writable else "--ro-bind"
    yield "workspace", [option, layout.staged.get(layout.workspace, layout.workspace), layout.workspace]
    for bind in layout.binds:
        option = "--bind" if bind.is_writable else "--ro-bind"
        yield (
            "kept" if is_beneath(bind.destination, layout.workspace) else "more",
            [
                option,
                layout.staged.get(bind.source, bind.source),
                bind.destination,
            ],
        )
    staged = layout.staged.get(layout.workspace, layout.workspace)
    for path in layout.fixed:
        option = "--bind" if os.path.isdir(path) else "--ro-bind"
        yield "kept", [option, f"{staged}{path.removeprefix(layout.workspace)}", path]
    for path in layout.empty:
        yield "kept", ["--perms", "0500", "--tmpfs", path, "--remount-ro", path]
    for path in layout.blank:
        yield "kept", ["--ro-bind", "/dev/null", path]
    if not layout.root:
        if KERNEL in places.system:
            yield "system", shown(KERNEL)
        yield "root", ["--remount-ro", "/"]
    yield "folder", ["--chdir", layout.folder]


def shown(path: str) -> list[str]:
    """A folder of the system as it is: most of them are links into /usr nowadays."""
    if os.path.islink(path):
        return ["--symlink", os.readlink(path), path]
    return ["--ro-bind", path, path]


def _link(path: str, target: str) -> list[str]:
    return ["--symlink", target, path] if os.path.islink(path) else []
