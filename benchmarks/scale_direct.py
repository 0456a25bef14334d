"""The same work with DBOS alone: a queued workflow, and a step for each action. Prints the seconds."""

from __future__ import annotations

import logging
import sys
import time

from dbos import DBOS, DBOSPortableJSONSerializer

QUEUE = "direct"


@DBOS.step()
def act(i: int) -> int:
    """Must not be repeated."""
    return i


@DBOS.workflow()
def work(actions: int) -> int:
    """So many steps in a row."""
    for i in range(actions):
        act(i)
    return actions


def main(url: str, runs: int, actions: int) -> None:
    """Enqueue the workflows, and wait for all of them."""
    logging.getLogger("dbos").setLevel(logging.CRITICAL)
    DBOS(
        config={
            "name": "direct",
            "system_database_url": url.replace("postgresql://", "postgresql+psycopg://"),
            "serializer": DBOSPortableJSONSerializer(),
            "log_level": "CRITICAL",
        }
    )
    DBOS.listen_queues([QUEUE])
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=8, polling_interval_sec=0.2, on_conflict="always_update")
    began = time.perf_counter()
    handles = [DBOS.enqueue_workflow(QUEUE, work, actions) for _ in range(runs)]
    for each in handles:
        each.get_result(polling_interval_sec=0.05)
    print(time.perf_counter() - began)
    DBOS.destroy()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
