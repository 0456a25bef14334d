"""Processes that lead a run of turns, one after the other, each to be killed.

Reads one job per line, forks a process for it that has everything loaded, prints its id and then, when it has
ended, its exit code: 0 done, 4 it waits for a decision. All that the processes share is the database and the
trace: a file with a line for everything that happens.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import sys
import traceback
from pathlib import Path
from typing import Any

import msgspec

from placet import Assistant, EventLog, Runtime, SqlEvents, SqlJournal, open_database, tool
from placet.inference.messages import Assistant as Said
from placet.inference.messages import ToolCall
from placet.inference.model import Request, Result
from placet.tools import Tool

ANSWER_S = 0.03
PAUSE_S = 0.006


class Trace:
    """What has happened, outside of all processes."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def add(self, *what: Any) -> None:
        """One line, written at once."""
        os.write(self._file, json.dumps(what).encode() + b"\n")


class Slow:
    """A model with a script, that takes a moment for each answer."""

    def __init__(self, script: list[list[list[Any]]], trace: Trace) -> None:
        self._script = script
        self._trace = trace

    async def generate(self, request: Request) -> Result:
        """The answer that follows from how many were given before."""
        turn = 1 + sum(isinstance(message, Said) for message in request.messages)
        seen = hashlib.sha256(msgspec.json.encode(request.messages)).hexdigest()
        self._trace.add("begin", turn, seen)
        await asyncio.sleep(ANSWER_S)
        calls = self._script[turn - 1] if turn <= len(self._script) else []
        self._trace.add("answer", turn)
        return Result(
            text="" if calls else "Done.",
            calls=[ToolCall(name=name, arguments={"n": n}) for name, n in calls],
        )


def tools(trace: Trace) -> list[Tool]:
    """Tools whose every step is in the trace, with moments between them in which to be killed."""

    async def act(n: int) -> int:
        trace.add("enter", n)
        await asyncio.sleep(random.random() * PAUSE_S)
        trace.add("effect", n)
        await asyncio.sleep(random.random() * PAUSE_S)
        trace.add("exit", n)
        return n

    return [
        tool(act, name="pay", description="Must not happen twice."),
        tool(act, name="put", description="May happen twice.", idempotent=True, risk="idempotent"),
        tool(act, name="look", description="Changes nothing.", risk="read_only"),
    ]


async def lead(job: dict[str, Any]) -> int:
    """Begin the run, or go on with it."""
    trace, run_id = Trace(job["trace"]), job["run"]
    with open_database(job["url"]) as database:
        journal = SqlJournal(database)
        try:
            runtime = Runtime(
                tools=tools(trace), events=EventLog(sinks=[SqlEvents(database)]), journal=journal
            )
            assistant = Assistant(runtime, Slow(job["script"], trace), posture="full_access")
            if any(row.run_id == run_id for row in journal.runs(limit=10_000)):
                ending = await assistant.resume(run_id, decide=job["decide"])
            else:
                ending = await assistant.run("Do it.", run_id=run_id)
        finally:
            journal.close()
    job["ending"] = ending.as_json()
    return 4 if ending.status == "waiting" else 0


def serve() -> None:
    """Do job after job."""
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                code = asyncio.run(lead(job))
                Path(job["out"]).write_text(json.dumps(job.get("ending")))
            except BaseException:
                Path(job["out"]).write_text(traceback.format_exc())
            finally:
                os._exit(code)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
