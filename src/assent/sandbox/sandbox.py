"""The commands of one workspace, each in a sandbox: what is prepared for one, and what follows it.

Keep true:
1. What holds for a command is in its `Facts`. Nothing is weakened without them saying so.
2. What was made for a command (cgroup, temporary folder, proxy) is gone when it has ended, however it did.
3. The repository of the workspace is touched by our own git alone, and never while a command is being
   started that could see half of it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import weakref
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from assent.errors import ToolError
from assent.sandbox.bubblewrap import Bind, Layout, arguments, temporary
from assent.sandbox.compiled import code_of
from assent.sandbox.isolation import By, Facts, How, is_at_least
from assent.sandbox.limits import Limits
from assent.sandbox.places import find_places, is_beneath

if TYPE_CHECKING:
    from assent.sandbox.cgroup import Cgroup
    from assent.sandbox.finished import Finished
    from assent.sandbox.git.view import View
    from assent.sandbox.hosts import HostFilter
    from assent.sandbox.ladder import Ladder
    from assent.sandbox.proxy import Proxy
    from assent.sandbox.self_test import Tested
    from assent.sandbox.workspace import Workspace


_NAMED = 5
"""Hosts that are named in a note."""
_VIEWS = 16
"""Processes that may work in one repository at a time."""
_KILLED = 128 + 9
"""How bubblewrap tells that its command was killed."""


class Confined(msgspec.Struct, kw_only=True):
    """A command as the keeper is to start it."""

    argv: list[str]
    folder: str | int
    environment: dict[str, str]
    facts: Facts
    confine: dict[str, Any] = {}
    """What the keeper does besides; its keys are those that keeper.py reads."""
    pass_fds: list[int] = []
    said: list[str] = []
    """What came of it besides: filled when the command has ended."""
    group: Cgroup | None = None
    proxy: Proxy | None = None

    def judge(self, finished: Finished) -> Finished:
        """How it ended, with what only the sandbox knows."""
        facts = self.facts
        if self.group is not None:
            held: dict[str, How] = {"memory": "kernel"} if self.group.memory else {}
            held |= {"pids": "kernel"} if self.group.pids else {}
            facts = msgspec.structs.replace(facts, enforced=msgspec.structs.replace(facts.enforced, **held))
            if self.group.events().memory and finished.ended_by in ("itself", "signal"):
                # The kernel ends one of its processes, and that is how the command itself mostly ends.
                code = finished.exit_code
                if code is None or code == _KILLED:
                    finished = msgspec.structs.replace(finished, ended_by="memory", exit_code=None, signal="")
        return msgspec.structs.replace(finished, facts=facts)

    def failure(self) -> tuple[str, int] | None:
        """Of a command that was never reached: what was missing, `program` or `door`, and the errno."""
        if self.proxy is None or self.proxy.failure is None:
            return None
        return self.proxy.failure.what, self.proxy.failure.number

    def notes(self) -> list[str]:
        """What somebody should know besides, when all is over."""
        told = [] if self.proxy is None else self.proxy.told
        refused = [f"{each.host}:{each.port}" for each in told if not each.is_allowed]
        more = f" and {len(refused) - _NAMED} more" if len(refused) > _NAMED else ""
        words = [f"it was not let through to {', '.join(refused[:_NAMED])}{more}"] if refused else []
        return [*self.said, *words]


class Sandbox:
    """Confines the commands of a workspace by one means, which the self-test has tried.

    `hosts` may be spoken to through a proxy; without it there is no network. `keep` is a folder of ours for
    what lasts from one command to the next. `without` leaves parts out, for tests of what each is for.
    """

    def __init__(
        self,
        workspace: Workspace,
        by: By,
        facts: Facts,
        *,
        hosts: HostFilter | None = None,
        keep: str | None = None,
        without: Collection[str] = (),
        environment: Mapping[str, str] | None = None,
        as_other_user: bool | None = None,
    ) -> None:
        self.workspace = workspace
        self.by = by
        self.facts = facts
        self._hosts = hosts
        self._keep = keep
        self._without = frozenset(without)
        self._environment = os.environ if environment is None else environment
        self._is_other_user = os.geteuid() == 0 if as_other_user is None else as_other_user
        self._view: View | None = None
        self._no_view = ""
        """Why the repository is only shown as it is, read-only."""
        self._is_looked_for = keep is None
        """Whether it is known if there is a repository."""
        self._turn = asyncio.Lock()
        self._running = 0

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
    ) -> AsyncIterator[Confined]:
        """Around one command: what the keeper gets. Afterwards `said` tells what followed it.

        `readable` are folders that this command sees besides.

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
                view = await self._enter_repository(confined, stack)
                await self._connect(confined, stack)
                self._wrap(confined, limits, readable, view)
            yield confined

    async def close(self) -> None:
        """Let go of what lasted from one command to the next."""
        if self._view is not None:
            self._view.close()
            self._view = None

    # The parts

    async def _limit(self, confined: Confined, limits: Limits, stack: AsyncExitStack) -> None:
        confine = confined.confine
        confine["code"] = {}
        if limits.processes is not None:
            confine["processes"] = most_threads(limits.processes)
        if limits.disk_bytes is not None:
            confine["file_bytes"] = limits.disk_bytes
            confine["disk"] = ([str(self.workspace.folder)], limits.disk_bytes)
            confine["code"]["disk"] = code_of("assent.sandbox.disk")
        confine["is_watched"] = "watch" not in self._without
        if "cgroups" not in self._without:
            from assent.sandbox.cgroup import open_cgroup

            group = open_cgroup(limits)
            if group is not None:
                stack.callback(group.close)
                confine["joins"] = group.joins
                confined.group = group

    async def _enter_repository(self, confined: Confined, stack: AsyncExitStack) -> View | None:
        """Show the repository of the workspace, if it has one, through a view of our own."""
        view = await self._find_view()
        if view is None:
            confined.said += [self._no_view] if self._no_view else []
            return None
        async with self._turn:
            if not self._running:
                await view.refresh()
            self._running += 1

        async def bring_over() -> None:
            async with self._turn:
                self._running -= 1
                confined.said += await view.bring_over()

        stack.push_async_callback(bring_over)
        confined.environment = {**view.environment, **confined.environment}
        return view

    async def _find_view(self) -> View | None:
        async with self._turn:
            if not self._is_looked_for:
                assert self._keep is not None
                try:
                    self._view = await _open_view(str(self.workspace.folder), self._keep)
                except ToolError as error:
                    self._no_view = f"git can only read inside: {error}"
                self._is_looked_for = True
                if self._view is not None:
                    weakref.finalize(self, self._view.close)
        return self._view

    async def _connect(self, confined: Confined, stack: AsyncExitStack) -> None:
        """Open the way to the hosts that are allowed, if any are."""
        if self._hosts is None:
            return
        from assent.sandbox.proxy import Proxy

        proxy = await stack.enter_async_context(Proxy(self._hosts))
        confined.argv = proxy.entrance(confined.argv)
        confined.pass_fds = [proxy.entrance_fd]
        confined.proxy = proxy

    def _wrap(self, confined: Confined, limits: Limits, readable: Sequence[str], view: View | None) -> None:
        """Let bubblewrap start the command."""
        program = find_bubblewrap(self._environment)
        if program is None:
            raise ToolError(
                f"'{confined.argv[0]}' was not run: bubblewrap, which is to confine it, is gone. Install it "
                "again (package bubblewrap).",
                retry=False,
            )
        layout = self._layout(confined, limits, readable, view)
        handed: list[tuple[list[str], bytes]] = []
        if self._is_other_user:
            layout = self._stage(confined, layout)
            for name, text in _accounts(layout.places.home).items():
                handed.append((["--ro-bind-data", name], text))
        if "seccomp" not in self._without:
            handed.append((["--seccomp"], _filter(self._groups)))
        confined.confine["bubblewrap"] = handed
        confined.confine["temporary"] = temporary(layout)
        confined.argv = [program, *arguments(layout, self._without), "--", *confined.argv]
        confined.folder = "/"
        confined.environment["TMPDIR"] = "/tmp"

    def _layout(
        self, confined: Confined, limits: Limits, readable: Sequence[str], view: View | None
    ) -> Layout:
        workspace = str(self.workspace.folder)
        places = find_places(self._environment, workspace, [self._keep] if self._keep else [])
        folder = workspace if isinstance(confined.folder, int) else os.path.abspath(confined.folder)
        shown = [path for path in (folder, *readable) if not is_beneath(path, workspace)]
        binds = [Bind(path, path) for path in dict.fromkeys(shown) if os.path.exists(path)]
        closed, sealed = self.workspace.apart()
        before: list[Bind] = []
        if view is not None:
            before = [Bind(*bind) for bind in view.before]
            binds += [Bind(*bind) for bind in view.binds]
        elif os.path.lexists(own := os.path.join(workspace, ".git")) and not os.path.islink(own):
            # What git runs for whoever works here next is in it.
            binds.append(Bind(own, own))
        binds += [Bind(path, path) for path in sealed]
        return Layout(
            places=places,
            workspace=workspace,
            folder=folder,
            tmp_bytes=limits.disk_bytes,
            before=before,
            binds=binds,
            empty=[path for path in closed if os.path.isdir(path)],
            blank=[path for path in closed if not os.path.isdir(path)],
        )

    def _stage(self, confined: Confined, layout: Layout) -> Layout:
        """Have the keeper put what is shown where another user can reach it."""
        from assent.sandbox.other_user import STAGE

        confined.confine["code"]["other_user"] = code_of("assent.sandbox.other_user")
        staged: dict[str, str] = {}
        writable = {layout.workspace: True}
        for bind in (*layout.before, *layout.binds):
            writable[bind.source] = writable.get(bind.source, False) or bind.is_writable
        for path in layout.places.toolchains:
            writable.setdefault(path, False)
        for path in writable:
            staged[path] = f"{STAGE}/{len(staged)}"
        confined.confine["binds"] = [(path, staged[path], writable[path]) for path in writable]
        return msgspec.structs.replace(layout, staged=staged)

    def _restrict(self, confined: Confined, readable: Sequence[str], stack: AsyncExitStack) -> None:
        """Let the command restrict itself, and give it folders of its own for what it would put elsewhere."""
        import tempfile

        workspace = str(self.workspace.folder)
        own = tempfile.mkdtemp(prefix="assent-sandbox-")
        stack.callback(shutil.rmtree, own, ignore_errors=True)
        for name in ("tmp", "home"):
            os.mkdir(os.path.join(own, name))
        places = find_places(self._environment, workspace, [self._keep] if self._keep else [])
        folder = [] if isinstance(confined.folder, int) else [confined.folder]
        if "disk" in confined.confine:
            confined.confine["disk"][0].append(own)
        confined.confine["landlock"] = {
            "write": [workspace, own, *_DEVICES],
            "read": ["/proc", *places.system, *places.toolchains, *folder, *readable],
            "network": False,
        }
        confined.confine["seccomp"] = _filter(self._groups, is_unshared=True)
        confined.confine["code"]["landlock"] = code_of("assent.sandbox.landlock")
        confined.environment |= {"HOME": f"{own}/home", "TMPDIR": f"{own}/tmp"}


_DEVICES = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")]


async def _open_view(workspace: str, keep: str) -> View | None:
    """A view of the repository of a workspace. Each process has its own: what they do may contradict."""
    from assent.sandbox.git.view import ViewInUse, open_view

    name = sha256(os.fsencode(workspace)).hexdigest()[:16]
    for number in range(1, _VIEWS + 1):
        try:
            return await open_view(workspace, os.path.join(keep, name, str(number)))
        except ViewInUse:
            if number == _VIEWS:
                raise
    raise AssertionError


async def open_sandbox(
    workspace: Workspace,
    ladder: Ladder,
    *,
    hosts: HostFilter | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Sandbox:
    """The best sandbox that there is for a workspace."""
    best = ladder.best
    is_other = None
    if best.by == "bubblewrap" and os.geteuid() == 0:
        from assent.sandbox.other_user import can_become

        if why := can_become(str(workspace.folder)):
            # Its file system is not the one that was tried, and does not let another user in.
            best, is_other = await _as_root(environment, why), False
    keep = None if folder is None else str(folder / "repositories")
    facts = best.facts
    if not is_at_least(facts.isolation, "changes") and await _is_worktree(str(workspace.folder)):
        facts = msgspec.structs.replace(facts, isolation="changes")
    return Sandbox(
        workspace,
        best.by,
        facts,
        hosts=hosts,
        keep=keep,
        environment=environment,
        as_other_user=is_other,
    )


async def _is_worktree(folder: str) -> bool:
    """Whether a folder is a linked worktree: a copy of the files, which can be thrown away."""
    from assent.sandbox.git.repository import find

    try:
        found = await find(folder)
    except ToolError:
        return False
    return found is not None and found.is_linked


async def _as_root(environment: Mapping[str, str] | None, why: str) -> Tested:
    from assent.sandbox.self_test import self_test

    tested = await self_test("bubblewrap", environment=environment, as_other_user=False)
    return msgspec.structs.replace(tested, why=why)


def most_threads(processes: int) -> int:
    """How many threads the kernel allows where so many processes may run.

    The kernel counts threads, and a process may well have a few. That there are no more processes than
    allowed is watched; this bound is for what grows faster than anybody can look.
    """
    return processes * 8 + 64


def find_bubblewrap(environment: Mapping[str, str]) -> str | None:
    """The program, from a place that only the administrator writes; else the first in PATH."""
    for path in ("/usr/bin/bwrap", "/usr/local/bin/bwrap"):
        if os.access(path, os.X_OK):
            return path
    return shutil.which("bwrap", path=environment.get("PATH"))


@cache
def _filter(without: frozenset[str], *, is_unshared: bool = False) -> bytes:
    from assent.sandbox import seccomp

    return seccomp.program(without=without, unshared=is_unshared)


def _accounts(home: str) -> dict[str, bytes]:
    """The lists of users and groups, with the user that a command of root's is. Programs ask who they are."""
    from assent.sandbox.other_user import UID

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
