"""A queue with its workers, once over each engine."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.engine.fleet import Fleet
from tests.servers.postgres import PostgresServer
from tests.servers.temporal import TemporalServer
from tests.warm import Warm

_NUMBERS = count()


@pytest.fixture(scope="module")
def fleet_server(postgres_server: PostgresServer) -> Iterator[str]:
    """One database for all tests of a file: the tables of DBOS are made once. Each test has its own queue."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(scope="module")
def temporal_server() -> Iterator[TemporalServer]:
    with TemporalServer() as server:
        yield server


@pytest.fixture(params=["embedded", "dbos", "temporal"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path, warm: Warm) -> Iterator[Fleet]:
    """No worker is started yet."""
    if request.param == "embedded":
        url = f"sqlite://{tmp_path.resolve()}/placet.db"
    else:
        url = str(request.getfixturevalue("fleet_server"))
    options: list[str] = []
    if request.param == "temporal":
        options = ["--temporal", request.getfixturevalue("temporal_server").address]
    with Fleet(url, f"q{next(_NUMBERS)}", tmp_path, warm, options).opened() as made:
        yield made
