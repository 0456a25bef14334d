"""Agents that are tested from the page: each on its scenarios, in a thread, one agent after the other.

Keep true:
1. An agent is tested once at a time, in a folder in which work may be started.
2. The result is stored as that of `placet agent test`, and the log says that there is one.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from placet.app.agent_trials import open_trials, store_report
from placet.app.agents import Agents, find_agents
from placet.app.options import RunOptions
from placet.errors import UsageError
from placet.runtime.sync import run_sync
from placet.server.answers import Conflict
from placet.tools.context import Cancel

if TYPE_CHECKING:
    from placet.agents.registry import AgentEntry
    from placet.app.app import Records

AT_ONCE = 2
"""Runs of scenarios that there are at the same time."""


class AgentTests:
    """The tests of agents that a server runs."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="placet-agent-test")
        self._lock = threading.Lock()
        self._running: dict[str, Cancel] = {}
        """By the path of the agent's file."""

    def is_running(self, path: str) -> bool:
        """Whether an agent is being tested."""
        with self._lock:
            return path in self._running

    def start(self, agent: str, folder: Path, *, k: int, model: str | None) -> None:
        """Begin to test an agent.

        Raises:
            UsageError: there is none, or it has no scenarios.
            TrustError: it is a project's that is not trusted.
            Conflict: it is being tested.
        """
        agents = find_agents(os.environ, folder)
        entry = agents.find(agent)
        assert entry.spec is not None
        if not entry.spec.scenarios:
            raise UsageError(f"Agent '{agent}' has no scenarios. Add some to {entry.path}.")
        agents.check_trust(entry, os.environ, None)
        cancel = Cancel()
        with self._lock:
            if str(entry.path) in self._running:
                raise Conflict(f"Agent '{agent}' is being tested already.")
            self._running[str(entry.path)] = cancel
        self._pool.submit(self._test, agents, entry, folder, k, model, cancel)

    def drain(self) -> None:
        """Stop what runs, and wait for it."""
        with self._lock:
            found = list(self._running.values())
        for cancel in found:
            cancel.cancel("the server ends", hard=True)
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _test(
        self, agents: Agents, entry: AgentEntry, folder: Path, k: int, model: str | None, cancel: Cancel
    ) -> None:
        spec = entry.spec
        assert spec is not None
        problem = ""
        try:
            options = RunOptions(folder=str(folder), model=model or spec.model)
            with open_trials(options, at_once=AT_ONCE) as app:
                report = run_sync(app.trying.try_all(spec, k=k, cancel=cancel))
                redactor = app.redactor
            if not cancel.hard:
                store_report(self._records, entry, report, redactor)
                return
            problem = "the server ended"
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        finally:
            with self._lock:
                self._running.pop(str(entry.path), None)
            if problem:
                self._records.note("agent_tested", data={"agent": entry.id, "k": k, "error": problem})
