"""A process that forks for each job, so that a job can be killed without a Python start for each.

    python -m tests.memory.kill_child URL

Reads lines of `import N` or `consolidate`; answers with the process id of the job, which prints `done` when
its work was acknowledged, and with `ended` when it is gone.
"""

from __future__ import annotations

import os
import sys

from placet.memory.fact import Fact
from placet.memory.memory import Memory
from placet.memory.sql import SqlFacts
from placet.storage.location import open_database


def batch(number: int, count: int = 400) -> list[Fact]:
    """Facts that a job imports: some in a conversation, one that supersedes what the batch before said."""
    made = [
        Fact(
            id=f"{number}-{n}",
            subject=f"subject {n}",
            body=f"fact {n} of batch {number} is about zebra{number}",
            source="test",
            learned=100.0 + number,
            valid_until=150.0 if n % 3 == 0 else None,
            conversation="talk" if n < 20 else None,
            position=number * 100 + n,
        )
        for n in range(count)
    ]
    made.append(
        Fact(
            id=f"{number}-count",
            subject="batches",
            key="newest",
            body=f"the newest batch is {number}",
            source="test",
            learned=100.0 + number,
            supersedes_key=True,
        )
    )
    return made


def work(url: str, job: str) -> None:
    with open_database(url) as database:
        if job == "consolidate":
            Memory(database, clock=lambda: 1_000.0).consolidate_sync()
        else:
            SqlFacts(database).add(batch(int(job)))
        print("done", flush=True)


def main(url: str) -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            print(os.getpid(), flush=True)
            work(url, line.strip())
            os._exit(0)
        os.waitpid(pid, 0)
        print("ended", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
