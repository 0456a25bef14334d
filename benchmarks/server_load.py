"""A server under load: 50 viewers, 500 events a second for a minute, and the first page of 10,000 runs.

    .venv/bin/python -m benchmarks.server_load --seconds 60

Prints what each viewer got, the memory of the server every five seconds, and how long the first page of runs
takes. A lost, doubled or disordered event is an error (exit code 1).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2

from placet.app.app import Records, open_records
from placet.events.event import Event
from placet.ir.proposal import Proposal
from placet.ir.result import ProposalResult
from placet.runtime.journal import RunRecord


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--viewers", type=int, default=50)
    parser.add_argument("--rate", type=int, default=500, help="events a second")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--runs", type=int, default=10_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(measure(Path(folder), given))


async def measure(folder: Path, given: argparse.Namespace) -> int:
    db = str(folder / "load.db")
    environment = {
        **os.environ,
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }
    with open_records(db, create=True, writes=True, anchor=folder / "anchors") as records:
        await fill(records, given.runs)
        server = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-m", "placet.cli.main", "serve", "--port", "0", "--no-open", "--db", db],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
        )
        try:
            assert server.stdout is not None
            origin = server.stdout.readline().partition("/login")[0]
            token = (folder / "data" / "placet" / "server" / "token").read_text()
            return await load(records, server.pid, origin, token, given)
        finally:
            server.terminate()
            server.wait()


async def fill(records: Records, runs: int) -> None:
    """Runs that have ended."""
    for n in range(runs):
        plan = Proposal(id=f"p{n}", source="load", actions=())
        kept = await records.journal.begin(RunRecord(run_id=f"run-{n}", trace_id="t", proposal=plan))
        if n % 500 == 0:
            await kept.settle()
        result = ProposalResult(proposal_id=f"p{n}", run_id=f"run-{n}", trace_id="t", outcome="succeeded")
        ending = asyncio.ensure_future(kept.end(result))
        if n % 200 == 199 or n == runs - 1:
            await ending


async def load(records: Records, pid: int, origin: str, token: str, given: argparse.Namespace) -> int:
    headers = {"authorization": f"Bearer {token}"}
    limits = httpx2.Limits(max_connections=given.viewers + 10)
    async with httpx2.AsyncClient(base_url=origin, headers=headers, timeout=60, limits=limits) as client:
        took = []
        for _ in range(5):
            begun = time.perf_counter()
            page = (await client.get("/api/v1/runs?limit=50")).json()
            took.append(time.perf_counter() - begun)
        assert len(page["runs"]) == min(50, given.runs)
        total = int(given.rate * given.seconds)
        start = records.events.last_position()
        ready = [asyncio.Event() for _ in range(given.viewers)]
        viewers = [asyncio.create_task(watch(client, start + total, each)) for each in ready]
        await asyncio.gather(*(each.wait() for each in ready))
        began = time.perf_counter()
        curve: list[int] = []
        sampling = asyncio.create_task(sample(pid, curve))
        await write(records, given.rate, total)
        wrote = time.perf_counter() - began
        got = await asyncio.gather(*viewers)
        lag = time.perf_counter() - began - wrote
        sampling.cancel()
        curve.append(memory(pid))
    expected = list(range(start + 1, start + total + 1))
    wrong = sum(each != expected for each in got)
    figures: dict[str, Any] = {
        "viewers": given.viewers,
        "events": total,
        "events_per_s": round(total / wrote),
        "viewers_with_a_gap": wrong,
        "last_viewer_after_last_event_s": round(lag, 2),
        "server_mb_every_5_s": [round(each / 1e6, 1) for each in curve],
        "first_page_ms": [round(each * 1000, 1) for each in took],
        "runs": given.runs,
    }
    print(json.dumps(figures, indent=1))
    return 1 if wrong else 0


async def watch(client: httpx2.AsyncClient, last: int, ready: asyncio.Event) -> list[int]:
    """The positions that a viewer gets."""
    got: list[int] = []
    async with client.stream("GET", "/api/v1/stream") as stream:
        async for line in stream.aiter_lines():
            ready.set()
            if line.startswith("data: ["):
                got += [event["seq"] for event in json.loads(line[6:])]
                if got[-1] >= last:
                    return got
    return got


async def write(records: Records, rate: int, total: int) -> None:
    """Write events at a steady rate, as a process beside the server."""
    begun, written = time.perf_counter(), 0
    while written < total:
        due = min(int((time.perf_counter() - begun) * rate) + 1, total)
        if due > written:
            batch = [
                Event(
                    0,
                    "action_progress",
                    time.time(),
                    f"run-{n % 100}",
                    "p",
                    "a",
                    data={"message": f"step {n}"},
                )
                for n in range(written, due)
            ]
            written = due
            await asyncio.wrap_future(records.events.write(batch))
        await asyncio.sleep(0.02)


async def sample(pid: int, curve: list[int]) -> None:
    """Look at the memory of the server every five seconds."""
    while True:
        curve.append(memory(pid))
        await asyncio.sleep(5.0)


def memory(pid: int) -> int:
    """Bytes of a process that are in memory."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    sys.exit(main())
