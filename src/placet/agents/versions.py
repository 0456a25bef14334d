"""What is stored of agents: every version of their files, how their runs went, and their newest test.

Keep true:
1. A version never changes. A text that is the newest already makes no new one.
2. Versions of an agent are counted from 1 without gaps, also if two processes keep one at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Protocol

import msgspec

from placet.agents.report import Report

MOST_VERSIONS = 1_000
"""Of one agent; the oldest go."""


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's file as it was."""

    place: str
    """"user", or the folder of the project."""
    agent: str
    number: int
    at: float
    """When it was kept; seconds since the epoch."""
    digest: str
    """SHA-256 of the text."""
    suffix: str
    """Of the file: .toml or .md."""
    text: str


class SuccessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How the runs of an agent went."""

    runs: int = 0
    succeeded: int = 0


class StoredReport(msgspec.Struct, frozen=True, kw_only=True):
    """The newest test of an agent on all its scenarios."""

    at: float
    """When it ended; seconds since the epoch."""
    digest: str
    """Of the file that was tested."""
    report: Report


class AgentStore(Protocol):
    """Versions and records of agents. A place is "user", or the folder of a project."""

    def keep(self, place: str, agent: str, suffix: str, text: str) -> Version:
        """The newest version, which is this text: the one that was kept before, or a new one."""
        ...

    def versions(self, place: str, agent: str) -> Sequence[Version]:
        """All that are kept, the newest first."""
        ...

    def count(self, place: str, agent: str, run_id: str, *, succeeded: bool) -> None:
        """Note how a run ended; one that is resumed and ends again counts once, as it ended last."""
        ...

    def records(self, place: str) -> Mapping[str, SuccessRecord]:
        """How the runs of all agents of a place went."""
        ...

    def store_report(self, place: str, agent: str, text: str, report: Report) -> None:
        """Put the test of an agent, whose file has this text, in the place of the one before."""
        ...

    def reports(self, place: str) -> Mapping[str, StoredReport]:
        """The newest test of each agent of a place."""
        ...


def digest_of(text: str) -> str:
    """By which versions are told apart."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


class MemoryAgents:
    """A store that lasts as long as its process."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._versions: dict[tuple[str, str], list[Version]] = {}
        self._runs: dict[tuple[str, str, str], bool] = {}
        self._reports: dict[tuple[str, str], StoredReport] = {}

    def keep(self, place: str, agent: str, suffix: str, text: str) -> Version:
        """The newest version."""
        kept = self._versions.setdefault((place, agent), [])
        newest = kept[-1] if kept else None
        if newest is not None and (newest.digest, newest.suffix) == (digest_of(text), suffix):
            return newest
        made = Version(
            place=place,
            agent=agent,
            number=newest.number + 1 if newest is not None else 1,
            at=self._clock(),
            digest=digest_of(text),
            suffix=suffix,
            text=text,
        )
        kept.append(made)
        del kept[:-MOST_VERSIONS]
        return made

    def versions(self, place: str, agent: str) -> Sequence[Version]:
        """The newest first."""
        return list(reversed(self._versions.get((place, agent), [])))

    def count(self, place: str, agent: str, run_id: str, *, succeeded: bool) -> None:
        """Note how a run ended."""
        self._runs[place, agent, run_id] = succeeded

    def records(self, place: str) -> Mapping[str, SuccessRecord]:
        """How the runs of all agents of a place went."""
        found: dict[str, SuccessRecord] = {}
        for (where, agent, _), succeeded in self._runs.items():
            if where == place:
                before = found.get(agent, SuccessRecord())
                found[agent] = SuccessRecord(runs=before.runs + 1, succeeded=before.succeeded + succeeded)
        return found

    def store_report(self, place: str, agent: str, text: str, report: Report) -> None:
        """Put the test of an agent in the place of the one before."""
        made = StoredReport(at=self._clock(), digest=digest_of(text), report=report)
        self._reports[place, agent] = made

    def reports(self, place: str) -> Mapping[str, StoredReport]:
        """The newest test of each agent of a place."""
        return {agent: made for (where, agent), made in self._reports.items() if where == place}
