"""One command as its sandbox has prepared it, and what only the sandbox knows of how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from placet.sandbox.git_protected import was_refused
from placet.sandbox.isolation import Facts, How

if TYPE_CHECKING:
    from placet.sandbox.cgroup import Cgroup
    from placet.sandbox.finished import Finished
    from placet.sandbox.proxy import Proxy

GIT_IS_READ_ONLY = ".git is read-only inside a command"
_NAMED = 5
"""Hosts that are named in a note."""
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
        is_killed = finished.ended_by in ("itself", "signal") and finished.exit_code in (None, _KILLED)
        if is_killed and self.group is not None and self.group.events().memory:
            # The kernel ends one of its processes, and that is how the command itself mostly ends.
            finished = msgspec.structs.replace(finished, ended_by="memory", exit_code=None, signal="")
        if (
            self.group is not None
            and finished.ended_by in ("itself", "signal")
            and finished.exit_code != 0
            and self.group.events().pids
        ):
            # What was refused a process mostly gives up. One that managed without has not been ended by it.
            finished = msgspec.structs.replace(finished, ended_by="processes", exit_code=None, signal="")
        if was_refused(finished.stderr + finished.stdout):
            self.said.append(GIT_IS_READ_ONLY)
        enforced = msgspec.structs.replace(self.facts.enforced, **self._held())
        return msgspec.structs.replace(finished, facts=msgspec.structs.replace(self.facts, enforced=enforced))

    def _held(self) -> dict[str, How]:
        """What holds for this very command: cgroups may have come or gone since the self-test."""
        if self.group is not None:
            held: dict[str, How] = {"memory": "kernel"} if self.group.memory else {}
            return held | {"pids": "kernel" if self.group.pids else self._watched("pids")}
        return {name: self._watched(name) for name in ("memory", "pids")}

    def _watched(self, name: str) -> How:
        """How far a limit holds without a cgroup: only the watch is left of what the self-test saw."""
        how: How = getattr(self.facts.enforced, name)
        return "watchdog" if how == "kernel" else how

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
