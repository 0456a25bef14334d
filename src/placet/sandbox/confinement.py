"""What the commands of a program must be kept from, and what they are kept from: the two together.

Keep true:
1. What is required and not there stops the work before it begins, with what to do about it. It is never
   replaced by less.
2. The level comes from a person: from a program, a setting or an option, never from a plan.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from placet.errors import IsolationMissing, UsageError
from placet.ir.call_facts import Confinement, Network
from placet.ir.json_value import JsonValue
from placet.sandbox.isolation import LEVELS, NOTHING, Facts, Level, is_at_least
from placet.sandbox.turn import Turn
from placet.sandbox.workspace import Workspace

if TYPE_CHECKING:
    from placet.sandbox.hosts import HostFilter
    from placet.sandbox.ladder import Ladder
    from placet.sandbox.sandbox import Sandbox


Outside = Literal["python", "program", "server"]
"""What a tool is that runs outside of every sandbox: a Python function, a program that is to be, or a tool of
an MCP server."""

_OUTSIDE: dict[Outside, str] = {
    "python": "it is a Python tool, so it runs in Placet's own process, outside of every sandbox. "
    "Make it a program in a TOML file of tools, or",
    "program": "it is a program with `sandbox = false`. Drop that line, or",
    "server": "it is a tool of an MCP server, which runs outside of every sandbox. To use it all the same,",
}


def withheld_words(tool: str, what: Outside = "python") -> str:
    """Why a tool is not offered where `process` is required, and how a person can trust it."""
    return (
        f"tool '{tool}' is not offered under isolation 'process': {_OUTSIDE[what]} trust it: "
        f'trusted_tools = ["{tool}"] under [isolation] in your own settings.toml, '
        f'or Isolation(trusted=["{tool}"]) in a program'
    )


class Isolation:
    """Protections for commands, for `Runtime(isolation=...)` and `basic_tools(isolation=...)`.

    >>> Isolation("process").required
    'process'
    """

    def __init__(
        self,
        required: Level | None = None,
        *,
        hosts: HostFilter | None = None,
        trusted: Iterable[str] = (),
        folder: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Create a description of the required protections. Nothing is checked yet.

        Args:
            required: `None`: confine commands as far as this machine can. `"changes"` and `"process"`: the
                least that is accepted; with less, nothing starts. `"none"`: run commands with all rights of
                the user.
            hosts: Hosts that commands may contact, through a proxy that lets nothing else pass. `None`: no
                network.
            trusted: Names of tools that are offered under `"process"` although they run outside the sandbox.
            folder: Folder for the results of the self-test.
                `None`: `basic_tools` uses the user's data folder.
            environment: Where `PATH` and `HOME` are looked up. `None`: `os.environ`.

        Raises:
            UsageError: there is no such level, or an argument has the wrong type.
        """
        if required is not None and required not in LEVELS:
            raise UsageError(f"isolation is {required!r}; there are {', '.join(LEVELS)}.")
        _check_types(hosts, trusted, environment)
        self.required = required
        """The level that is required, or `None`."""
        self.hosts = hosts
        """Hosts that commands may contact, or `None`."""
        self.trusted: frozenset[str] = frozenset(trusted)
        """Names of tools that are offered although they run outside the sandbox."""
        self.folder: Path | None = None if folder is None else Path(folder)
        """Folder for the results of the self-test."""
        self._environment = os.environ if environment is None else environment
        self._ladder: Ladder | None = None
        self._sandboxes: dict[str, Sandbox] = {}
        self._turn = Turn()

    def lowered(self) -> dict[str, JsonValue]:
        """What a log should know of a person's decision that less will do; mostly nothing."""
        return {}

    @property
    def is_certain(self) -> bool:
        """Whether every command is sure to reach nothing but its workspace: neither files nor hosts."""
        return self.required == "process" and self.hosts is None

    def refusal_of(self, tool: str, *, is_confined: bool, is_trusted: bool) -> str | None:
        """Why a tool is not offered under what is required; None if it is."""
        if self.required != "process" or is_confined or is_trusted or tool in self.trusted:
            return None
        return withheld_words(tool)

    def speaking_to(self, hosts: HostFilter) -> Isolation:
        """The same, for commands that may speak to other hosts."""
        made = Isolation(
            self.required,
            hosts=hosts,
            trusted=self.trusted,
            folder=self.folder,
            environment=self._environment,
        )
        made._ladder = self._ladder
        return made

    async def ladder(self) -> Ladder:
        """What works on this machine. Tried when first asked for, then known."""
        async with self._turn.take():
            if self._ladder is None:
                from placet.sandbox.ladder import climb

                self._ladder = await climb(environment=self._environment, memory=self.folder)
            return self._ladder

    async def check(self, workspace: Workspace | None = None) -> Facts:
        """Return the protections that hold for commands.

        Args:
            workspace: The folder in which commands would run. `None`: the weakest of those checked before.

        Raises:
            IsolationMissing: less than required is enforced.
        """
        if self.required == "none":
            return NOTHING
        if workspace is not None:
            return (await self.sandbox(workspace)).facts
        ladder = await self.ladder()
        known = [sandbox.facts for sandbox in self._sandboxes.values()] or [ladder.facts]
        weakest = min(known, key=lambda facts: LEVELS.index(facts.isolation))
        self._require(weakest.isolation, ladder)
        return weakest

    async def sandbox(self, workspace: Workspace) -> Sandbox:
        """The sandbox for the commands in `workspace`.

        Raises:
            IsolationMissing: less than is required.
        """
        from placet.sandbox.sandbox import Sandbox

        if self.required == "none":
            return Sandbox(workspace, "nothing", NOTHING)
        ladder = await self.ladder()
        async with self._turn.take():
            key = str(workspace.folder)
            found = self._sandboxes.get(key)
            if found is None or found.workspace is not workspace:
                found = self._sandboxes[key] = await self._open(workspace, ladder)
        self._require(found.facts.isolation, ladder)
        return found

    async def _open(self, workspace: Workspace, ladder: Ladder, *, reads_only: bool = False) -> Sandbox:
        from placet.sandbox.opening import open_sandbox

        return await open_sandbox(
            workspace,
            ladder,
            hosts=self.hosts,
            folder=self.folder,
            environment=self._environment,
            reads_only=reads_only,
        )

    async def confinement(self, workspace: Workspace) -> Confinement:
        """Return what is enforced around a command, for a person who decides about one.

        Args:
            workspace: Folder in which the command would run.

        Raises:
            IsolationMissing: less than is required, so that no command starts.
        """
        sandbox = await self.sandbox(workspace)
        facts = sandbox.facts
        network: Network = "any" if facts.enforced.net == "no" else "none" if self.hosts is None else "hosts"
        return Confinement(
            runs_in="sandbox" if sandbox.confines() else "program",
            isolation=facts.isolation,
            by=facts.by,
            folder=str(workspace.folder) if facts.enforced.fs_write != "no" else None,
            network=network,
            hosts=self.hosts.allowed if self.hosts is not None and network == "hosts" else (),
        )

    async def reading(self, workspace: Workspace) -> Sandbox:
        """A sandbox for commands that read `workspace` and its repository and can change neither.

        Raises:
            IsolationMissing: less than is required.
        """
        ladder = await self.ladder()
        found = await self._open(workspace, ladder, reads_only=True)
        self._require(found.facts.isolation, ladder)
        return found

    def forget(self, workspace: Workspace) -> None:
        """Let go of what is known of a workspace that is used no more."""
        self._sandboxes.pop(str(workspace.folder), None)

    def _require(self, level: Level, ladder: Ladder) -> None:
        if self.required is None or is_at_least(level, self.required):
            return
        from placet.sandbox.remedies import remedies

        raise IsolationMissing(self.required, level, remedies(ladder, self._environment))


def isolation_of(given: object) -> Isolation | None:
    """What was given in the place of an `Isolation`.

    Raises:
        UsageError: it is something else.
    """
    if given is None or isinstance(given, Isolation):
        return given
    wanted = f'Isolation("{given}")' if given in LEVELS else 'Isolation("process")'
    raise UsageError(f"isolation is {given!r}, which is no Isolation. Write isolation={wanted}.")


def _check_types(hosts: object, trusted: object, environment: object) -> None:
    """Refuse what looks right and would mean something else, or nothing."""
    if hosts is not None:
        from placet.sandbox.hosts import HostFilter

        if not isinstance(hosts, HostFilter):
            names = (
                [hosts] if isinstance(hosts, str) else list(hosts) if isinstance(hosts, list | tuple) else []
            )
            wanted = f"HostFilter(allow={names or ['pypi.org']!r})"
            raise UsageError(f"hosts is {hosts!r}, which is no HostFilter. Write hosts={wanted}.")
    if isinstance(trusted, str) or not isinstance(trusted, Iterable):
        wanted = trusted if isinstance(trusted, str) else "deploy"
        raise UsageError(f"trusted is {trusted!r}, which is no list of names. Write trusted=[{wanted!r}].")
    if environment is not None and not isinstance(environment, Mapping):
        raise UsageError(f"environment is {environment!r}. Write names with values, such as os.environ.")
