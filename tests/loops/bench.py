"""A real git repository, a runtime with everything kept in a database, and loops with scripted models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from placet import EventLog, Runtime, SqlApprovals, SqlEvents, SqlJournal, open_database
from placet.checks.contract import Check
from placet.inference import Scripted
from placet.inference.messages import ToolCall
from placet.inference.model import Model, Request, Result
from placet.inference.usage import Usage
from placet.loops.engine import LoopEngine
from placet.loops.spec import ExecutorSpec, LoopSpec, Worker
from placet.loops.sql import SqlRounds
from placet.loops.verdict import TOOL
from placet.sandbox.confinement import Isolation
from placet.storage.lease import StopRequest
from tests.coder.workbench import _known, make_database, make_repository

FILES = {"a.txt": "one\n", "notes/b.txt": "two\n"}
GREEN = Check(name="right", command="grep -q right a.txt")


def spec(level: str = "L3", **more: Any) -> LoopSpec:
    """A loop that is allowed to commit, if all is well."""
    made: dict[str, Any] = {
        "name": "tidy",
        "intent": "keep a.txt right",
        "level": level,
        "kind": "tidying",
        "allow": ("tidying",),
        "gate": "allowlist",
        "maker": Worker(prompt="write right into a.txt"),
        "checker": Worker(prompt="see that a.txt is right"),
        "checks": (GREEN,),
        "executor": ExecutorSpec(use="commit"),
        **more,
    }
    return LoopSpec(**made)


def write(path: str = "a.txt", text: str = "right\n") -> ToolCall:
    """A call that writes a file."""
    return ToolCall(name="write_file", arguments={"path": path, "text": text})


def verdict(word: str, summary: str = "it was looked at", **more: Any) -> ToolCall:
    """A call that gives a verdict."""
    return ToolCall(name=TOOL, arguments={"verdict": word, "summary": summary, **more})


def used(turn: str | ToolCall, input: int, output: int, cost: float | None = 0.0) -> Result:
    """An answer that took so much."""
    usage = Usage(input=input, output=output)
    if isinstance(turn, str):
        return Result(text=turn, usage=usage, cost=cost)
    return Result(calls=[turn], usage=usage, cost=cost, stop="calls")


def request_stop(engine: LoopEngine, round: str, reason: str) -> None:
    """Ask for a round to stop, as another process does."""
    journal = engine.runtime.journal
    assert journal is not None
    journal.request_stop(round, StopRequest(reason=reason))


HONEST: Sequence[Any] = [write(), "made it right", verdict("done", "checked"), "all is right"]


class Bench:
    """A repository of a person, and loops at work on it."""

    def __init__(self, folder: Path, url: str, files: Mapping[str, str] = FILES) -> None:
        self.folder = folder
        self.url = url
        self.repository = make_repository(folder / "repository", files)
        if (database := Path(url.removeprefix("sqlite://"))).is_absolute():
            make_database(database)
        self.home = folder / "home"

    @contextmanager
    def engine(
        self,
        turns: Sequence[Any] | Callable[[Request], Any] | Model,
        spec: LoopSpec,
        *,
        policies: Sequence[Any] = (),
        isolated: bool = False,
        expire_s: float | None = None,
        **options: Any,
    ) -> Iterator[LoopEngine]:
        """An engine with this script, or this model, whose records are those of all engines here."""
        model = turns if hasattr(turns, "generate") else Scripted(turns)  # type: ignore[arg-type]
        level = "process" if isolated else "none"
        with open_database(self.url) as database:
            journal = SqlJournal(database)
            try:
                runtime = Runtime(
                    journal=journal,
                    events=EventLog(sinks=[SqlEvents(database)]),
                    approvals=SqlApprovals(database),
                    patience_s=0,
                    policies=policies,
                    approvals_expire_s=expire_s,
                )
                made: dict[str, Any] = {
                    "home": self.home,
                    "rounds": SqlRounds(database),
                    "isolation": Isolation(level, folder=_known()),
                    **options,
                }
                yield LoopEngine(runtime, model, spec, self.repository, **made)
                runtime.events.flush()
            finally:
                journal.close()
