"""Processes that work on a round of a loop, one after the other, each to be killed: see the nursery.

All that they share is the database, the repository, the home of the rounds and the trace: a file with a line
for everything that happens. The model is a function of what it is asked.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import msgspec

from placet import EventLog, Runtime, SqlApprovals, SqlEvents, SqlJournal, open_database
from placet.checks import command_line  # noqa: F401
from placet.coder import attempt  # noqa: F401
from placet.errors import ApprovalDecided
from placet.inference.messages import Assistant as Said
from placet.inference.model import Request, Result
from placet.inference.usage import Usage
from placet.loops import subruns  # noqa: F401
from placet.loops.engine import LoopEngine
from placet.loops.executors.callback import CallbackExecutor
from placet.loops.executors.commit import CommitExecutor
from placet.loops.executors.executor import Act, Bench, Done
from placet.loops.round import Round
from placet.loops.sql import SqlRounds
from placet.loops.verdict import TOOL
from placet.sandbox.confinement import Isolation
from placet.worktree import publish, worktree  # noqa: F401
from tests.coder.coding_child import Trace
from tests.loops.bench import spec, verdict, write

USAGE = Usage(input=10, output=5)
ID = "r1"
SHORT_PHASES = ("judging", "gating", "recording", "freezing")


class Slow:
    """The model, maker and checker: known by the tools that it is offered. It takes a moment."""

    name = "slow"

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    async def generate(self, request: Request) -> Result:
        """The answer that follows from what was said before."""
        is_checker = any(tool.name == TOOL for tool in request.tools)
        turn = 1 + sum(isinstance(message, Said) for message in request.messages)
        self._trace.add("ask", "checker" if is_checker else "maker", turn)
        await asyncio.sleep(0.02)
        if turn == 1:
            call = verdict("done") if is_checker else write()
            return Result(calls=[call], usage=USAGE, cost=0.01, stop="calls")
        return Result(text="It is done.", usage=USAGE, cost=0.01)


class Traced(CommitExecutor):
    """Commits, and says so."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace

    async def execute(self, act: Act, bench: Bench) -> Done:
        """Make it."""
        self._trace.add("act", act.key)
        done = await super().execute(act, bench)
        await asyncio.sleep(0.03)
        return done


async def lead(job: dict[str, Any]) -> Round:
    """Begin the round, or go on with it; a person is there who approves, and knows what became of things."""
    folder = Path(job["folder"])
    trace = Trace(job["trace"])
    trace.add("begin", os.getpid())
    acted = folder / "acted"

    def watch(round: Round, phase: str) -> None:
        trace.add("phase", phase)
        if phase in SHORT_PHASES:
            time.sleep(0.03)

    def act(given: Act, files: Path) -> str:
        trace.add("act", given.key)
        time.sleep(0.02)
        with open(acted, "ab") as file:
            file.write(b"acted\n")
        time.sleep(0.02)
        return "acted"

    with open_database(f"sqlite://{folder}/placet.db") as database:
        journal = SqlJournal(database)
        try:
            runtime = Runtime(
                journal=journal,
                events=EventLog(sinks=[SqlEvents(database)]),
                approvals=SqlApprovals(database),
                patience_s=0,
            )
            engine = LoopEngine(
                runtime,
                Slow(trace),
                spec(job["level"]),
                folder / "repository",
                home=folder / "home",
                rounds=SqlRounds(database),
                isolation=Isolation("none", folder=job["known"]),
                executor=CallbackExecutor(act) if job["callback"] else Traced(trace),
                watch=watch,
            )
            try:
                return await _through(engine, acted)
            finally:
                runtime.events.flush()
        finally:
            journal.close()


async def _through(engine: LoopEngine, acted: Path) -> Round:
    round = await engine.run_round(round_id=ID)
    if round.is_waiting and any(each.what == "unknown" for each in round.later):
        # Only somebody who looks can know.
        was_done = await asyncio.to_thread(acted.exists)
        return await engine.resume(ID, decide={"act": "done" if was_done else "retry"})
    if round.is_waiting:
        try:
            return await engine.decide(ID, "once", by="ann")
        except ApprovalDecided:
            return await engine.resume(ID)
    return round


def serve() -> None:
    """Do job after job."""
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                said = msgspec.json.encode(asyncio.run(lead(job)))
                code = 0
            except BaseException as error:
                said = f"{type(error).__name__}: {error}\n{traceback.format_exc()}".encode()
            Path(f"{job['out']}.new").write_bytes(said)
            os.replace(f"{job['out']}.new", job["out"])
            os._exit(code)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
