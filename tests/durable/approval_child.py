"""A process that begins a run, or goes on with it, and asks people on the way.

    approval_child.py URL EFFECTS PATIENCE RUN=PLAN...

All that it shares with others is the database and the file of effects. It leaves `EFFECTS.at-work` in the
moment in which it begins. PATIENCE is in seconds, or `live`.
Prints one line of JSON for each run; exits with 4 if one waits.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from typing import Any

from placet import DenyTool, EventLog, Runtime, SqlEvents, SqlJournal, ToolContext, open_database, tool
from placet.approvals.sql import SqlApprovals
from placet.ir.result import ProposalResult
from placet.tools import Tool

PAUSE_S = 0.01


def tools(effects: str) -> list[Tool]:
    """Tools whose every effect is a line in a file: when, in which run, which action, which number."""

    async def act(context: ToolContext, n: int) -> int:
        await asyncio.sleep(random.random() * PAUSE_S)
        line = json.dumps([time.time(), context.run_id, context.action_id, n]) + "\n"
        handle = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)
        await asyncio.sleep(random.random() * PAUSE_S)
        return n

    # Neither may happen twice.
    return [tool(name="act")(act), tool(name="gated")(act)]


def runtime(database: Any, journal: SqlJournal, effects: str, patience_s: float | None) -> Runtime:
    """One that asks before it does what is gated."""
    return Runtime(
        tools=tools(effects),
        policies=[("careful", DenyTool(tool="gated", reason="it is gated", unless_approved=True))],
        events=EventLog(sinks=[SqlEvents(database)]),
        journal=journal,
        approvals=SqlApprovals(database),
        patience_s=patience_s,
        schedule=random.choice(["levels", "dataflow"]),
    )


def told(result: ProposalResult) -> dict[str, Any]:
    """What the parent wants to know."""
    return {
        "run": result.run_id,
        "outcome": result.outcome,
        "waiting": [[w.kind, w.action_id, w.approval] for w in result.waiting],
        "results": {r.action_id: [r.status, r.output, r.error] for r in result.results},
    }


async def main(url: str, effects: str, patience: str, *given: str) -> int:
    """Every run at once."""
    with open_database(url) as database:
        journal = SqlJournal(database)
        try:
            rt = runtime(database, journal, effects, None if patience == "live" else float(patience))
            os.close(os.open(f"{effects}.at-work", os.O_CREAT | os.O_WRONLY, 0o600))
            known = {summary.run_id for summary in journal.runs(limit=10_000)}

            async def one(run_id: str, document: dict[str, Any]) -> ProposalResult:
                if run_id in known:
                    return await rt.resume(run_id, decide=document.get("decide"))
                return await rt.execute(document["plan"], run_id=run_id)

            parts = [text.partition("=") for text in given]
            results = await asyncio.gather(*(one(name, json.loads(text)) for name, _, text in parts))
        finally:
            journal.close()
    for result in results:
        print(json.dumps(told(result)), flush=True)
    return 4 if any(result.outcome == "waiting" for result in results) else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
