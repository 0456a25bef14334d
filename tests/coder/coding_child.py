"""Processes that work on a coding session, one after the other, each to be killed.

Reads one job per line, forks a process for it that has everything loaded, prints its id and then, when it has
ended, its exit code. All that the processes share is the database, the repository, the home of the sessions
and the trace: a file with a line for everything that happens.

The model is a function of what it is asked: it writes the wrong thing first and the right one after it was
told, and makes a call again that did not succeed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from placet import EventLog, Runtime, SqlApprovals, SqlEvents, SqlJournal, open_database
from placet.checks import command_line  # noqa: F401
from placet.coder import attempt, context, drafting  # noqa: F401
from placet.coder.coder import Coder
from placet.coder.events import Event
from placet.coder.repairs import Repairs
from placet.coder.session import Session
from placet.coder.store_sql import SqlSessions
from placet.errors import RunExists
from placet.inference.messages import Assistant as Said
from placet.inference.messages import ToolCall, ToolResult
from placet.inference.model import Request, Result
from placet.inference.usage import Usage
from placet.sandbox.confinement import Isolation
from placet.worktree import publish, worktree  # noqa: F401
from tests.coder.workbench import user_text

ANSWER_S = 0.02
INTENT = "put the word into x.txt"
CHECK = "sleep 0.02; cat x.txt; grep -q right x.txt"
CONTRACT = {"description": "the word is there", "checks": [{"name": "word", "command": CHECK}]}
USAGE = Usage(input=10, output=5)


class Trace:
    """What has happened, outside of all processes."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def add(self, *what: Any) -> None:
        """One line, written at once."""
        os.write(self._file, json.dumps(what).encode() + b"\n")


class Slow:
    """The model. It takes a moment for each answer."""

    name = "slow"

    def __init__(self, trace: Trace, *, long: str = "", asks: bool = False) -> None:
        self._trace = trace
        self._long = long
        """A command that takes its time, instead of the short one."""
        self._asks = asks
        """It asks a person for the word."""

    async def generate(self, request: Request) -> Result:
        """The answer that follows from what was said before."""
        turn = 1 + sum(isinstance(message, Said) for message in request.messages)
        asked = user_text(request)
        # Candidates are told apart by how they are asked, iterations by what failed.
        number = 0 if "These checks failed" not in asked else 2 if request.temperature else 1
        iteration = 2 if "wrong" in asked else 1
        self._trace.add("ask", number, iteration, turn)
        await asyncio.sleep(ANSWER_S)
        self._trace.add("answer", number, iteration, turn)
        if not number:
            return Result(text=json.dumps(CONTRACT), usage=USAGE, cost=0.01)
        steps = [
            ToolCall(name="write_file", arguments={"path": "x.txt", "text": "wrong\n"}),
            ToolCall(name="shell", arguments={"command": self._long or "sleep 0.03; sort a.txt > b.txt"}),
        ]
        if iteration == 2:
            steps = [ToolCall(name="write_file", arguments={"path": "x.txt", "text": "right\n"})]
        if self._asks:
            heard = next((each.text for each in request.messages if isinstance(each, ToolResult)), "")
            steps = [
                ToolCall(name="ask_user", arguments={"question": "which word?"}),
                ToolCall(name="write_file", arguments={"path": "x.txt", "text": heard}),
            ]
        results = [message for message in request.messages if isinstance(message, ToolResult)]
        through = sum(not result.is_error for result in results)
        if through == len(steps):
            return Result(text="It is done.", usage=USAGE, cost=0.01)
        return Result(calls=[steps[through]], usage=USAGE, cost=0.01, stop="calls")


def watcher(trace: Trace) -> Any:
    """Puts into the trace what is told."""

    def watch(event: Event) -> None:
        kind: str = type(event).__struct_config__.tag  # type: ignore[assignment]
        more = getattr(event, "state", None) or getattr(event, "tool", None) or getattr(event, "text", None)
        trace.add(kind, getattr(event, "attempt", 0), more)

    return watch


async def lead(job: dict[str, Any]) -> Session:
    """Begin the session, or go on with it; a person who approves everything is there."""
    folder = Path(job["folder"])
    trace = Trace(job["trace"])
    trace.add("begin", os.getpid())
    with open_database(f"sqlite://{folder}/placet.db") as database:
        journal = SqlJournal(database)
        try:
            runtime = Runtime(
                journal=journal,
                events=EventLog(sinks=[SqlEvents(database)]),
                approvals=SqlApprovals(database),
                patience_s=0,
            )
            sessions = SqlSessions(database)
            coder = Coder(
                runtime,
                Slow(trace, long=job.get("long", ""), asks="ask_s" in job),
                folder / "repository",
                home=folder / "home",
                sessions=sessions,
                repairs=Repairs(database),
                isolation=Isolation("process", folder=job["known"]),
                ask_s=job.get("ask_s"),
            )
            try:
                return await _through(coder, sessions, job, watcher(trace))
            finally:
                runtime.events.flush()
        finally:
            journal.close()


async def _through(coder: Coder, sessions: SqlSessions, job: dict[str, Any], watch: Any) -> Session:
    match job.get("do", "all"):
        case "approve":
            return await coder.approve(job["id"], watch=watch)
        case "resume":
            return await coder.resume(job["id"], watch=watch)
    found = next((each for each in sessions.listed() if each.id.startswith(job["id"])), None)
    if found is None:
        found = await _begun(coder, job, watch)
    else:
        found = await coder.resume(found.id, approve=True, watch=watch)
    if found.state == "contract_proposed":
        await coder.approve(found.id, watch=watch)
        found = await coder.resume(found.id, approve=True, watch=watch)
    return found


async def _begun(coder: Coder, job: dict[str, Any], watch: Any) -> Session:
    for number in range(100):
        try:
            return await coder.run(
                INTENT,
                () if job["drafts"] else [job.get("check") or CHECK],
                candidates=job["candidates"],
                approve=job.get("do") != "wait",
                session_id=f"{job['id']}-{number}",
                watch=watch,
            )
        except RunExists:
            # Killed when the run was kept and the session was not: nobody has heard of either.
            continue
    raise AssertionError("every id is taken")


def serve() -> None:
    """Do job after job."""
    for line in sys.stdin:
        job = json.loads(line)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass  # One that was started beside others, and has ended.
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
        if not job.get("beside"):
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
