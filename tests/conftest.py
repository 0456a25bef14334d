"""For every test: random examples are the same in every run, none fails for being slow, and no socket of the
tests leaves this machine.

Also the databases. A test that asks for Postgres gets a real server, one per worker, started when the first
test asks. Where it cannot be started the test fails with the reason: a skipped test proves nothing.
"""

from __future__ import annotations

from tests.bytecode import compile_for_workers  # isort: skip

import gc
import os
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from placet.inference.providers import PROVIDERS
from placet.testing.network import NetworkRefused, no_network
from tests.properties.effort import SOAK
from tests.servers.postgres import PostgresServer
from tests.warm import Warm

for _signal in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    # Whoever starts the tests in the background has these ignored, and every program that a test starts
    # would ignore them too.
    if signal.getsignal(_signal) is signal.SIG_IGN:
        with suppress(ValueError):
            signal.signal(_signal, signal.default_int_handler if _signal == signal.SIGINT else signal.SIG_DFL)

for _provider in PROVIDERS.values():
    # Whose keys are here must not matter: a key alone chooses a model.
    for _name in (*_provider.keys, _provider.url_variable, "PLACET_MODEL"):
        os.environ.pop(_name, None)

if (_python := shutil.which("python3")) and Path(_python).read_bytes()[:2] == b"#!":
    # A script of a version manager: it takes longer than the interpreter, and tests start hundreds.
    os.environ["PATH"] = f"{sys.base_prefix}/bin{os.pathsep}{os.environ['PATH']}"

# `make soak` is where new examples are looked for; there the property tests choose their own settings.
settings.register_profile(
    "steady", max_examples=100 if SOAK else 30, deadline=None, derandomize=True, database=None
)
settings.load_profile("steady")
if not SOAK:
    # Hypothesis also draws what stands in our own modules, as far as they are loaded: other examples after
    # every change of the code, and others for one file than for all. A soak still has them.
    providers._get_local_constants = lambda: providers._local_constants

ROOT = Path(__file__).resolve().parents[1]


def pytest_configure(config: pytest.Config) -> None:
    """Compile before the workers start."""
    if not hasattr(config, "workerinput"):
        compile_for_workers(config, ROOT)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What loading leaves stays: searching it for garbage, again and again as it grows, finds nothing."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that mostly wait come first: then one worker waits while the others compute.

    Workers take from each other what is last, so at the end all of them would wait for the same few.
    """
    items.sort(key=lambda item: not item.nodeid.startswith("tests/engine/"))


def pytest_collection_finish() -> None:
    """What is here once the tests were found stays to the end: no search for garbage looks at it again.

    Those for what tests leave are ten times as far apart as usual: there is room enough.
    """
    gc.freeze()
    gc.set_threshold(7_000, 10, 10)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Of a test that passed, a worker reports the call alone.

    To pack, send and unpack what says that nothing happened before and after it takes as long as most tests.
    """
    if not hasattr(item.config, "workerinput") or item.config.getoption("durations") is not None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    passed = all(report.passed for report in reports)
    for report in reports:
        if not passed or report.when == "call":
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


NETWORK = no_network()
"""On for the whole run, in every worker; `tests/command.py` says what holds for other processes."""
NETWORK.__enter__()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """A test that went for the network fails, also where somebody swallowed the refusal."""
    before = len(NETWORK.refused)
    result = yield
    if len(NETWORK.refused) > before:
        raise NetworkRefused(NETWORK.refused[before])
    return result


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The server that the tests of one worker share. A test that stops or kills it starts one of its own."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def spare_databases() -> list[str]:
    """Databases of the shared server that no test uses now. They are empty."""
    return []


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, spare_databases: list[str]) -> Iterator[str]:
    """An empty Postgres database; whatever is still connected to it afterwards is cut off.

    It is emptied for the next test, not dropped: making one takes five times as long.
    """
    url = spare_databases.pop() if spare_databases else postgres_server.create_database()
    yield url
    if postgres_server.empty_database(url):
        # To whoever remembers the log that was there, an empty database is one that somebody emptied.
        shutil.rmtree(Path(os.environ["XDG_DATA_HOME"]) / "placet" / "anchors", ignore_errors=True)
        spare_databases.append(url)
    else:
        postgres_server.drop_database(url)


@pytest.fixture(params=["sqlite", "postgres"], ids=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new, empty database, once of each kind: the test runs on both."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path.resolve()}/placet.db"
    # Asked for by name, so that a test on SQLite starts no server.
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(scope="session", autouse=True)
def _own_data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing that a test runs is kept among the runs of the person who tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.delenv("PLACET_DB", raising=False)
        yield


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    """See `tests/warm.py`."""
    process = Warm(tmp_path_factory.mktemp("warm"), os.environ)
    yield process
    process.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests measured (`record_property("figure", ...)`), wherever they ran."""
    reports = [r for name in ("passed", "failed") for r in terminalreporter.stats.get(name, ())]
    figures = [(r.nodeid, value) for r in reports for name, value in r.user_properties if name == "figure"]
    if figures:
        terminalreporter.section("figures")
    for test, figure in figures:
        terminalreporter.write_line(f"{test.rpartition('::')[2]}: {figure}")


@pytest.fixture(scope="session")
def known_isolation(warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], None]:
    """Write into a data folder what the self-test of the sandbox found here: trying once is enough for all
    to whom the trying does not matter."""
    folder = tmp_path_factory.mktemp("tried")
    with open(os.devnull, "r+b") as nothing:
        environment = {**os.environ, "XDG_DATA_HOME": str(folder)}
        warm.run(["doctor"], cwd=folder, environment=environment, streams=[nothing.fileno()] * 3)

    def write(data_home: Path) -> None:
        # Where something cannot be tried nothing is remembered, and it is tried again.
        shutil.copytree(folder / "placet", data_home / "placet", dirs_exist_ok=True)

    return write
