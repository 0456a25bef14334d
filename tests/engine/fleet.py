"""Workers as processes of their own, and the engine that they serve."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from placet import __version__
from placet.app.app import Records, open_records
from placet.app.governance import examine
from placet.app.trust import trust
from placet.app.work import PlanJob
from placet.engine.dbos_transport import SCHEMA
from placet.engine.protocol import SubmitOptions
from placet.engine.queue_engine import QueueEngine
from placet.engine.submission import Submission
from placet.engine.temporal_transport import TemporalTransport
from placet.runtime.scope import Scope
from tests.warm import Warm

T = TypeVar("T")

PATIENCE_S = 80.0
SKEWED = Path(__file__).with_name("skewed.py")
BRIEF = Path(__file__).with_name("brief.py")
EFFECTS = Path(__file__).with_name("effects.py")


class WorkerProcess:
    """A `placet worker`."""

    def __init__(self, command: Sequence[str], environment: dict[str, str], cwd: Path) -> None:
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env=environment,
            cwd=cwd,
        )
        self.events: list[dict[str, Any]] = []
        self._heard: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        self.id = str(self.until("started")["worker"])
        self.pid = int(self.id.rsplit("-", 2)[1])

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._heard.put({**json.loads(line), "heard": time.monotonic()})
        self._heard.put(None)

    def until(self, kind: str, **facts: object) -> dict[str, Any]:
        """The next event of a kind, with these facts."""
        for event in self.events:
            if event["event"] == kind and facts.items() <= event.items() and "used" not in event:
                event["used"] = True
                return event
        deadline = time.monotonic() + PATIENCE_S
        while True:
            event = self._heard.get(timeout=max(0.01, deadline - time.monotonic()))
            if event is None:
                assert self._process.stderr is not None
                raise AssertionError(f"the worker has ended: {self._process.stderr.read()[-3000:]}")
            assert "error" not in event, event
            self.events.append(event)
            if event["event"] == kind and facts.items() <= event.items():
                event["used"] = True
                return event

    def drained(self) -> list[dict[str, Any]]:
        """All that it has said so far."""
        with suppress(queue.Empty):
            while (event := self._heard.get_nowait()) is not None:
                self.events.append(event)
        return self.events

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """As a loss of power."""
        self.signal(signal.SIGKILL)
        self._process.wait(30)
        self._reading.join(30)

    def end(self) -> int:
        """As systemd ends it; its exit code."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                self.signal(signal.SIGCONT)
                self.signal(signal.SIGTERM)
        code = self._process.wait(30)
        self._reading.join(30)
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()
        return code


class Fleet:
    """One queue of one database, and its workers."""

    def __init__(self, url: str, name: str, folder: Path, warm: Warm, options: Sequence[str] = ()) -> None:
        """Workers are started with `options`."""
        self.url = url
        self._options = options
        self.queue = name
        self.folder = folder / "work"
        self._warm = warm
        # Every worker would load its engine anew.
        if "--temporal" in options:
            warm.load("temporalio.client", "temporalio.worker")
        elif not url.startswith("sqlite"):
            warm.load("dbos", "dbos._sys_db_postgres")
        brought = self.folder / ".placet"
        brought.mkdir(parents=True)
        (brought / "settings.toml").write_text('tools = "effects.py"\n')
        shutil.copy(EFFECTS, brought / "effects.py")
        trust(examine(self.folder, os.environ).seen, os.environ)
        self.workers: list[WorkerProcess] = []
        self.records: Records
        self.engine: QueueEngine

    @contextmanager
    def opened(self) -> Iterator[Fleet]:
        with open_records(self.url, create=True, writes=True) as records:
            self.records = records
            self.engine = QueueEngine(records)
            try:
                yield self
            finally:
                for each in self.workers:
                    each.end()

    def start(
        self,
        *options: str,
        concurrency: int = 4,
        url: str | None = None,
        clock_off_s: float = 0.0,
        lease_s: float | None = None,
    ) -> WorkerProcess:
        """Start a worker, also one whose clock is wrong, or whose lease is not the usual one."""
        command = ["worker", "--db", url or self.url, "--queue", self.queue, "--json"]
        placet = self._warm.command
        if clock_off_s:
            placet = [*self._warm.python, str(SKEWED), str(clock_off_s)]
        elif lease_s is not None:
            placet = [*self._warm.python, str(BRIEF), str(lease_s)]
        made = WorkerProcess(
            [
                *placet,
                *command,
                "--concurrency",
                str(concurrency),
                "--grace",
                "1",
                *self._options,
                *options,
            ],
            dict(os.environ),
            self.folder,
        )
        self.workers.append(made)
        return made

    def plan(self, *calls: tuple[str, str], **more: Any) -> PlanJob:
        """A plan of calls in a row: each is a tool and what it is called with."""
        actions = [
            {
                "id": f"a{n}",
                "tool": tool,
                "parameters": {"name": name} if name else {},
                "dependencies": [f"a{n - 1}"] if n else [],
            }
            for n, (tool, name) in enumerate(calls)
        ]
        more = {"permissions": "full_access", **more}
        return PlanJob(folder=str(self.folder), plan={"actions": actions}, **more)

    async def submit(self, job: Any, *, tenant: str | None = None, **options: Any) -> str:
        """Store a job."""
        scope = Scope(tenant=tenant) if tenant is not None else None
        return await self.engine.submit(job, SubmitOptions(queue=self.queue, scope=scope, **options))

    def freeze(self, worker: WorkerProcess) -> None:
        """Stop a worker where it stands, but not inside a transaction: over a file that would keep all others
        out for good, and on Postgres until the server ends it."""
        worker.signal(signal.SIGSTOP)
        while not self._can_be_written():
            worker.signal(signal.SIGCONT)
            time.sleep(0.3)
            worker.signal(signal.SIGSTOP)

    def _can_be_written(self) -> bool:
        if not self.url.startswith("sqlite"):
            time.sleep(0.1)  # What the server works on now is done by then.
            sql = (
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() AND state IN ('active', 'idle in transaction')"
            )
            return self.records.database.read(lambda t: t.execute(sql))[0][0] == 0
        with closing(sqlite3.connect(self.url.removeprefix("sqlite://"), timeout=0.1)) as database:
            try:
                database.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
            return True

    def are_enqueued(self, *run_ids: str) -> None:
        """Wait until the transport has the tickets of these runs, as far as no worker has claimed them: until
        then a worker only means to enqueue them, and they are in no order."""
        self.until(lambda: self._are_placed(run_ids))
        found = [self.engine.submissions.get(each) for each in run_ids]
        tickets = [each.ticket(__version__) for each in found if each is not None and each.state == "queued"]
        if "--temporal" in self._options:
            transport = TemporalTransport(self._options[self._options.index("--temporal") + 1])
            try:
                self.until(lambda: not transport.lost(tickets))
            finally:
                transport.close()
        elif not self.url.startswith("sqlite"):
            sql = f"SELECT count(*) FROM {SCHEMA}.workflow_status WHERE workflow_uuid = ?"
            known = partial(
                self.records.database.read, lambda t: [t.execute(sql, (each.id,)) for each in tickets]
            )
            self.until(lambda: all(rows[0][0] for rows in known()))
        time.sleep(
            0.3
        )  # A cluster acknowledges before it sorts, and a worker of one process after it stored.

    def _are_placed(self, run_ids: Sequence[str]) -> bool:
        sql = "SELECT 1 FROM submissions WHERE run_id = ? AND placed IS NOT NULL"
        return self.records.database.read(lambda t: all(t.execute(sql, (each,)) for each in run_ids))

    def effects(self) -> list[str]:
        """What has happened so far."""
        file = self.folder / "effects"
        return file.read_text().splitlines() if file.exists() else []

    def go(self, name: str) -> None:
        """Let a tool go on."""
        (self.folder / f"{name}.go").touch()

    def until(self, look: Callable[[], T | bool | None], *, patience_s: float = PATIENCE_S) -> T:
        """What is there once it is there."""
        deadline = time.monotonic() + patience_s
        while not (found := look()):
            if time.monotonic() > deadline:
                listed = "\n".join(map(str, self.engine.submissions.listed()))
                told = "\n".join(str(event) for each in self.workers for event in each.events)
                raise AssertionError(f"it did not come:\n{listed}\n{told}")
            time.sleep(0.03)
        return found  # type: ignore[return-value]

    def stands(self, run_id: str, *states: str) -> Submission:
        """A submission once it stands so."""

        def look() -> Submission | None:
            found = self.engine.submissions.get(run_id)
            return found if found is not None and found.state in states else None

        return self.until(look)
