"""The engine that fits a database: by its kind, the transport of its workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from placet import __version__
from placet.app.work import Place
from placet.engine.queue_engine import QueueEngine, check_queue
from placet.engine.sql import WORKER_LEASE_S, SqlSubmissions
from placet.engine.worker import Worker
from placet.errors import UsageError

if TYPE_CHECKING:
    from placet.engine.dbos_transport import Limits
    from placet.engine.protocol import DayBudget, Transport


@contextmanager
def open_engine(db: str | None) -> Iterator[QueueEngine]:
    """Open the engine that stores submissions in a database, for workers anywhere; closed afterwards.

    Args:
        db: Path of a SQLite file, or URL of a database. `None`: the default one of this folder.

    Raises:
        StorageError: it cannot be opened.
    """
    from placet.app.app import open_records

    with open_records(db, create=True, writes=True) as records:
        yield QueueEngine(records)


@contextmanager
def open_worker(
    db: str | None,
    *,
    queue: str,
    concurrency: int,
    version: str = __version__,
    tools: str | None = None,
    limits: Limits | None = None,
    day_budget: DayBudget | None = None,
    temporal: str | None = None,
    report: Callable[[str, dict[str, Any]], None] = lambda kind, data: None,
) -> Iterator[Worker]:
    """A worker on the database `db`: through the Temporal cluster at `temporal` (HOST:PORT) if one is named,
    through DBOS if the database is a server, else in threads over its table. It is not
    started yet. The file `tools` is for runs that name none; `day_budget` replaces the limits of the queue.

    Raises:
        StorageError: it cannot be opened.
        UsageError: an extra is missing, or that is no name of a queue.
    """
    from placet.app.app import database_url, open_records
    from placet.app.governance import own_settings
    from placet.engine.dbos_transport import DbosTransport
    from placet.engine.dbos_transport import Limits as NoLimits
    from placet.engine.embedded import LocalTransport
    from placet.engine.temporal_transport import TemporalTransport
    from placet.storage.location import is_server

    check_queue(queue)
    url = database_url(db)
    transport: Transport
    if temporal is not None:
        if limits is not None and limits != NoLimits():
            raise UsageError(
                "Temporal shares fairly between tenants and has no limits for each of them. Leave the limits "
                "out, or use workers on Postgres without --temporal."
            )
        transport = TemporalTransport(temporal, version=version)
    elif is_server(url):
        transport = DbosTransport(url, version=version, limits=limits or NoLimits())
    else:
        transport = LocalTransport()
    with ExitStack() as stack:
        records = stack.enter_context(open_records(db, create=True, writes=True))
        submissions = SqlSubmissions(records.database)
        worker = Worker(
            submissions,
            records,
            transport,
            place=Place(db, tools=tools, leaves=True, lease_s=WORKER_LEASE_S),
            queue=queue,
            concurrency=concurrency,
            version=version,
            offers=offered(tools),
            day_budget=day_budget,
            report=report,
        )
        otel = own_settings(os.environ).otel
        if otel is not None:
            from placet.app.telemetry import export_traces
            from placet.engine.gauges import gauges_of
            from placet.events.log import EventLog

            log = EventLog(sinks=[records.events])
            stack.callback(export_traces(log, otel, gauges=gauges_of(worker, submissions)))
        yield worker


def offered(tools: str | None) -> list[str]:
    """The names that a worker in this folder has for runs that bring none of their own: tools of a file, of
    the project and of MCP servers; agents; providers of models whose key is set.

    Raises:
        PlacetError: the file of tools cannot be used.
    """
    from pathlib import Path

    from placet.app.agents import find_agents
    from placet.app.app import open_app
    from placet.app.options import RunOptions
    from placet.errors import TrustError
    from placet.inference.providers import PROVIDERS

    named: list[str] = []
    try:
        with open_app(RunOptions(tools=tools), on_paper=True) as app:
            named += [f"tool {name}" for name in app.sources]
        named += [f"agent {each.id}" for each in find_agents(os.environ, Path.cwd()).entries()]
    except TrustError:
        pass  # What this folder brings does not take effect; runs have folders of their own.
    named += [
        f"model {name}" for name, each in PROVIDERS.items() if any(os.environ.get(key) for key in each.keys)
    ]
    return named
