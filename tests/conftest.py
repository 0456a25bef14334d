"""For every test: random examples are the same in every run, and none fails for being slow.

Also the databases. A test that asks for Postgres gets a real server, one per worker, started when the first
test asks. Where it cannot be started the test fails with the reason: a skipped test proves nothing.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

from tests.servers.postgres import PostgresServer

for _signal in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    # Whoever starts the tests in the background has these ignored, and every program that a test starts
    # would ignore them too.
    if signal.getsignal(_signal) is signal.SIG_IGN:
        with suppress(ValueError):
            signal.signal(_signal, signal.default_int_handler if _signal == signal.SIGINT else signal.SIG_DFL)

# `make soak` is where new examples are looked for; there the property tests choose their own settings.
settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The server that the tests of one worker share. A test that stops or kills it starts one of its own."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A new, empty Postgres database; dropped afterwards, with whatever is still connected to it."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(params=["sqlite", "postgres"], ids=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new, empty database, once of each kind: the test runs on both."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path.resolve()}/assent.db"
    # Asked for by name, so that a test on SQLite starts no server.
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(scope="session", autouse=True)
def _own_data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing that a test runs is kept among the runs of the person who tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.delenv("ASSENT_DB", raising=False)
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests measured (`record_property("figure", ...)`), wherever they ran."""
    reports = [r for name in ("passed", "failed") for r in terminalreporter.stats.get(name, ())]
    figures = [(r.nodeid, value) for r in reports for name, value in r.user_properties if name == "figure"]
    if figures:
        terminalreporter.section("figures")
    for test, figure in figures:
        terminalreporter.write_line(f"{test.rpartition('::')[2]}: {figure}")
