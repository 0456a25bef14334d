"""The commands of one workspace, each in a sandbox: what is prepared for one, and what follows it.

Keep true:
1. What holds for a command is in its `Facts`. Nothing is weakened without them saying so.
2. What was made for a command (cgroup, temporary folder, proxy) is gone when it has ended, however it did.
3. No command writes a git folder of the workspace. Where a means cannot hold that, what was changed is told.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from placet.errors import ToolError
from placet.sandbox.bubblewrap import KERNEL, WRAPPERS, Layout, arguments, temporary
from placet.sandbox.confined import Confined
from placet.sandbox.git_folder import read_elsewhere
from placet.sandbox.git_protected import GitWatch, config_without_secrets
from placet.sandbox.isolation import By, Facts
from placet.sandbox.layout import lay_out
from placet.sandbox.limits import Limits, most_threads
from placet.sandbox.places import Places, find_places, is_beneath

if TYPE_CHECKING:
    from placet.sandbox.hosts import HostFilter
    from placet.sandbox.workspace import Workspace


class Sandbox:
    """Confines the commands of a workspace by one means, which the self-test has tried.

    `hosts` may be spoken to through a proxy; without it there is no network. `keep_out` is a folder of ours
    that is never shown. With `reads_only` commands cannot change the workspace. `without` leaves parts out,
    for tests of what each is for.
    """

    def __init__(
        self,
        workspace: Workspace,
        by: By,
        facts: Facts,
        *,
        hosts: HostFilter | None = None,
        keep_out: str | None = None,
        reads_only: bool = False,
        without: Collection[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.workspace = workspace
        self.by = by
        self.facts = facts
        self._hosts = hosts
        self._keep_out = keep_out
        self._reads_only = reads_only
        self._without = frozenset(without)
        self._environment = os.environ if environment is None else environment
        self._is_other_user = os.geteuid() == 0
        self._places: Places | None = None

    @property
    def _groups(self) -> frozenset[str]:
        """Groups of system calls that are left out."""
        named = (part.partition("seccomp:")[2] for part in self._without)
        return frozenset(name for name in named if name)

    def confines(self) -> bool:
        """Whether it does anything at all."""
        return self.by != "nothing"

    @asynccontextmanager
    async def entered(
        self,
        argv: Sequence[str],
        *,
        folder: str | int,
        environment: Mapping[str, str],
        limits: Limits,
        readable: Sequence[str] = (),
        fixed: Sequence[str] = (),
    ) -> AsyncIterator[Confined]:
        """Around one command: what the keeper gets. Afterwards `said` tells what followed it.

        `readable` are folders that this command sees besides, `fixed` files of the workspace that it cannot
        change; only bubblewrap holds that.

        Raises:
            ToolError: something that the sandbox is made of cannot be had.
        """
        confined = Confined(argv=list(argv), folder=folder, environment=dict(environment), facts=self.facts)
        if self.by == "nothing":
            yield confined
            return
        async with AsyncExitStack() as stack:
            await self._limit(confined, limits, stack)
            if self.by == "landlock":
                self._restrict(confined, readable, stack)
            else:
                await self._connect(confined, stack)
                self._wrap(confined, limits, argv, readable, fixed)
                self._watch_for_repository(confined, stack)
            yield confined

    # The parts

    def _watch_for_repository(self, confined: Confined, stack: AsyncExitStack) -> None:
        """Have it said if the command makes the workspace a repository: nothing else can be held then."""
        own = os.path.join(self.workspace.folder, ".git")
        if not os.path.lexists(own):
            stack.callback(lambda: confined.said.extend([MADE] if os.path.lexists(own) else []))

    async def _limit(self, confined: Confined, limits: Limits, stack: AsyncExitStack) -> None:
        confine = confined.confine
        confine["modules"] = []
        if limits.processes is not None:
            confine["processes"] = most_threads(limits.processes)
        if limits.disk_bytes is not None:
            confine["file_bytes"] = limits.disk_bytes
            confine["disk"] = ([str(self.workspace.folder)], limits.disk_bytes)
            confine["modules"].append("disk")
        confine["is_watched"] = "watch" not in self._without
        if "cgroups" not in self._without:
            from placet.sandbox.cgroup import open_cgroup

            group = open_cgroup(limits, wrappers=WRAPPERS if self.by == "bubblewrap" else 0)
            if group is not None:
                stack.callback(group.close)
                confine["joins"] = group.joins
                confined.group = group

    async def _connect(self, confined: Confined, stack: AsyncExitStack) -> None:
        """Open the way to the hosts that are allowed, if any are."""
        if self._hosts is None:
            return
        from placet.sandbox.proxy import Proxy

        proxy = await stack.enter_async_context(Proxy(self._hosts))
        confined.environment["no_proxy"] = ",".join(self._hosts.loopback_of_its_own())
        confined.argv = proxy.entrance(confined.argv)
        confined.pass_fds = [proxy.entrance_fd]
        confined.proxy = proxy

    def _wrap(
        self,
        confined: Confined,
        limits: Limits,
        program_argv: Sequence[str],
        readable: Sequence[str],
        fixed: Sequence[str],
    ) -> None:
        """Let bubblewrap start the command."""
        program = find_bubblewrap(self._environment)
        if program is None:
            raise ToolError(
                f"'{confined.argv[0]}' was not run: bubblewrap, which is to confine it, is gone. Install it "
                "again (package bubblewrap).",
                retry=False,
            )
        layout = lay_out(
            self.workspace,
            self._find_places(),
            folder=confined.folder,
            argv=program_argv,
            tmp_bytes=limits.disk_bytes,
            readable=readable,
            keep_out=self._keep_out,
            reads_only=self._reads_only,
            fixed=fixed,
        )
        if self._is_other_user:
            layout = self._stage(confined, layout)
        # Not as arguments: those of the first process can be read inside.
        words = "\0".join(arguments(layout, self._without)) + "\0"
        handed: list[tuple[list[str], bytes]] = [(["--args"], os.fsencode(words))]
        hidden = config_without_secrets(layout.workspace)
        if hidden is not None and "kept" not in self._without:
            handed.append((["--ro-bind-data", hidden[0]], hidden[1]))
        if "seccomp" not in self._without:
            handed.append((["--seccomp"], _filter(self._groups)))
        confined.confine["bubblewrap"] = handed
        confined.confine["temporary"] = temporary(layout)
        confined.argv = [program, "--", *confined.argv]
        confined.folder = "/"
        git = git_environment(is_other_user=self._is_other_user)
        confined.environment = {**git, **confined.environment, "TMPDIR": "/tmp"}

    def _find_places(self) -> Places:
        """The part of the machine that commands see: found with the first one, again if a folder is gone."""
        if self._places is None or not all(map(os.path.isdir, self._places.toolchains)):
            keep_out = [self._keep_out] if self._keep_out else []
            self._places = find_places(self._environment, str(self.workspace.folder), keep_out)
        return self._places

    def _stage(self, confined: Confined, layout: Layout) -> Layout:
        """Have the keeper put what is shown where another user can reach it."""
        from placet.sandbox.other_user import STAGE, identity

        confined.confine["modules"].append("other_user")
        staged: dict[str, str] = {}
        # Also if it is only read: else it were not the other user's own. The bind itself is read-only.
        writable = {layout.workspace: layout.is_writable or self._reads_only}
        beneath = [bind.source for bind in layout.binds if is_beneath(bind.source, layout.workspace)]
        for bind in layout.binds:
            if bind.source not in beneath:
                writable[bind.source] = writable.get(bind.source, False) or bind.is_writable
        for path in layout.places.toolchains:
            writable.setdefault(path, False)
        for path in writable:
            staged[path] = f"{STAGE}/{len(staged)}"
        for path in beneath:
            # As a part of the workspace they are the other user's own, which git asks for.
            staged[path] = f"{staged[layout.workspace]}{path.removeprefix(layout.workspace)}"
        links = [(path, text) for path in (*layout.places.system, "/var/run") if (text := _link_of(path))]
        system = [path for path in layout.places.system if path not in dict(links)]
        # A folder of programs may be a link, as `lib64` beside a `bin` mostly is. What it leads to is staged:
        # a link that is put in its place after this is not followed.
        real = {path: os.path.realpath(path) for path in layout.places.toolchains}
        root = f"{STAGE}/root"
        binds = [(real.get(path, path), staged[path], writable[path]) for path in writable]
        binds += [(path, root + path, False) for path in system]
        shown = [*_POINTS, layout.places.home, *writable, *(bind.destination for bind in layout.binds)]
        points = {path: not os.path.isfile(path) for path in shown if path not in beneath}
        try:
            known = [identity(os.stat(path)) for path, _, _ in binds]
        except OSError as error:
            raise ToolError(f"Not run: {error.filename} is gone, which the sandbox needs.") from error
        confined.confine["stage"] = {
            "binds": binds,
            # Much is mounted below it that no command needs, and other cgroups can be seen there.
            "alone": [KERNEL],
            "kept": [*_MOUNTED, *(path for path in system if path != KERNEL)],
            "known": known,
            "points": [(root + path, is_folder) for path, is_folder in points.items()],
            "links": [(root + path, text) for path, text in links],
            "files": [(root + path, data) for path, data in _accounts(layout.places.home).items()],
            "devices": f"{STAGE}/dev",
        }
        return msgspec.structs.replace(layout, staged=staged, root=root, devices=f"{STAGE}/dev")

    def _restrict(self, confined: Confined, readable: Sequence[str], stack: AsyncExitStack) -> None:
        """Let the command restrict itself, and give it folders of its own for what it would put elsewhere."""
        import tempfile

        workspace = str(self.workspace.folder)
        watch = GitWatch(workspace)
        stack.callback(lambda: confined.said.extend(watch.changed()))
        own = tempfile.mkdtemp(prefix="placet-sandbox-")
        stack.callback(shutil.rmtree, own, ignore_errors=True)
        for name in ("tmp", "home"):
            os.mkdir(os.path.join(own, name))
        places = self._find_places()
        folder = [] if isinstance(confined.folder, int) else [confined.folder]
        if "disk" in confined.confine:
            confined.confine["disk"][0].append(own)
        place = [workspace]
        confined.confine["landlock"] = {
            "write": [*([] if self._reads_only else place), own, *_DEVICES],
            "read": [
                "/proc",
                *place,
                *places.system,
                *places.toolchains,
                *folder,
                *readable,
                *read_elsewhere(workspace),
            ],
            "network": False,
        }
        confined.confine["seccomp"] = _filter(self._groups, is_unshared=True)
        confined.confine["modules"].append("landlock")
        confined.environment |= {"HOME": f"{own}/home", "TMPDIR": f"{own}/tmp", "GIT_OPTIONAL_LOCKS": "0"}


_MOUNTED = ["/proc", "/dev/null"]
"""What bubblewrap itself needs of what is mounted, besides the system's folders."""
_POINTS = ["/dev", "/proc", "/run", "/tmp", "/var/tmp"]
"""Where bubblewrap mounts something of its own."""
MADE = "it made a repository here: look at .git/config and .git/hooks before you run git, which obeys them"
_DEVICES = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")]


def _link_of(path: str) -> str:
    """What a link leads to; empty if it is none."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def git_environment(*, is_other_user: bool) -> dict[str, str]:
    """Variables with which git reads a git folder that it cannot write."""
    # Whose a folder is tells git nothing inside, where users are not what they are outside.
    settings = {"safe.directory": "*", "core.fsmonitor": "false"}
    if is_other_user:
        # The owners of files are others inside. Git would read all of them again because of it.
        settings |= {"core.checkStat": "minimal", "core.trustctime": "false"}
    return {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_CONFIG_COUNT": str(len(settings)),
        **{f"GIT_CONFIG_KEY_{n}": key for n, key in enumerate(settings)},
        **{f"GIT_CONFIG_VALUE_{n}": value for n, value in enumerate(settings.values())},
    }


def find_bubblewrap(environment: Mapping[str, str]) -> str | None:
    """The program, from a place that only the administrator writes; else the first in PATH."""
    for path in ("/usr/bin/bwrap", "/usr/local/bin/bwrap"):
        if os.access(path, os.X_OK):
            return path
    return shutil.which("bwrap", path=environment.get("PATH"))


@cache
def _filter(without: frozenset[str], *, is_unshared: bool = False) -> bytes:
    from placet.sandbox import seccomp

    return seccomp.program(without=without, unshared=is_unshared)


def _accounts(home: str) -> dict[str, bytes]:
    """The lists of users and groups, with the user that a command of root's is. Programs ask who they are."""
    from placet.sandbox.other_user import UID

    lines = {
        "/etc/passwd": f"sandbox:x:{UID}:{UID}::{home}:/bin/sh\n",
        "/etc/group": f"sandbox:x:{UID}:\n",
    }
    found: dict[str, bytes] = {}
    for path, line in lines.items():
        try:
            with open(path, "rb") as file:
                found[path] = file.read().rstrip(b"\n") + b"\n" + line.encode()
        except OSError:
            continue  # A system without such a list does not need it.
    return found
