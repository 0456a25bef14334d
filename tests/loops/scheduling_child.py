"""A scheduler in a process of its own, whose rounds write down what they do: `python -m ... JOB`.

A round notes that it began and that it ended, each with one write. JOB is JSON: the database, the file of
notes, the loops with the seconds from one due time to the next, and how long a round takes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from placet.loops.schedule import Every
from placet.loops.scheduler import Report, Scheduled, Scheduler
from placet.loops.timetable import Claim
from placet.loops.timetable_sql import SqlTimetable
from placet.sandbox.command import run_command
from placet.storage.location import open_database
from placet.tools.context import Cancel


def main(text: str) -> None:
    """Run until killed, or until everything has been seen."""
    job = json.loads(text)
    trace = os.open(job["trace"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    stop = Cancel()

    def note(what: str, claim: Claim) -> None:
        line = [what, os.getpid(), claim.key, claim.round, claim.due, claim.again]
        os.write(trace, json.dumps(line).encode() + b"\n")

    async def round(loop: Scheduled, claim: Claim, cancel: Cancel) -> Report | None:
        note("began", claim)
        running = asyncio.ensure_future(
            run_command(["sh", "-c", f": {job['mark']}; sleep {job['takes_s']}"], folder="/")
        )
        cancel.on_hard(lambda: running.cancel())
        try:
            await running
        except asyncio.CancelledError:
            note("cancelled", claim)
            return None
        note("ended", claim)
        if claim.due is not None and claim.due >= job["until"]:
            stop.cancel("all is done")
        return Report("reported")

    async def serve() -> None:
        with open_database(job["db"], create=True) as database:
            loops = [
                Scheduled(key=key, name=key, repository="/", cadence=Every(float(seconds)))
                for key, seconds in job["loops"].items()
            ]
            scheduler = Scheduler(
                SqlTimetable(database), loops, round, poll_s=0.05, watch_s=0.05, grace_s=2.0
            )
            await scheduler.serve(stop)

    asyncio.run(serve())


if __name__ == "__main__":
    main(sys.argv[1])
