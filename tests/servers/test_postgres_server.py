"""The Postgres server that other tests stand on: it isolates, survives a crash, and leaves nothing behind."""

from __future__ import annotations

import os
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.servers.postgres import (
    PostgresFailed,
    PostgresMissing,
    PostgresServer,
    install_with_apt,
    main,
    programs,
    version,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """One to break; the shared one stays whole for the tests after this."""
    with PostgresServer() as server:
        yield server


def run(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def is_alive(pid: int) -> bool:
    """False for a zombie too: it has ended, and only waits for init to notice."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def family(pid: int) -> list[int]:
    """A postmaster and its children."""
    shown = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [pid, *map(int, shown.stdout.split())]


def wait_until_gone(pids: list[int], folder: Path, limit_s: float = 20) -> None:
    """Real processes end in real time: nothing but looking again tells when."""
    deadline = time.monotonic() + limit_s
    while any(map(is_alive, pids)) or folder.exists():
        assert time.monotonic() < deadline, [pid for pid in pids if is_alive(pid)] or folder
        time.sleep(0.02)


# --- Databases ---


def test_two_databases_do_not_see_each_other(postgres_server: PostgresServer) -> None:
    one, other = postgres_server.create_database(), postgres_server.create_database()

    run(one, "CREATE TABLE only_here (n int)")

    assert run(one, "SELECT count(*) FROM only_here") == [(0,)]
    with pytest.raises(psycopg.errors.UndefinedTable):
        run(other, "SELECT count(*) FROM only_here")
    postgres_server.drop_database(one)
    postgres_server.drop_database(other)


def test_a_database_is_dropped_under_an_open_connection(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database()

    with psycopg.connect(url) as connection:
        connection.execute("SELECT 1")
        postgres_server.drop_database(url)

        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")

    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        run(url, "SELECT 1")


def test_a_database_is_emptied_under_an_open_connection(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database()
    objects = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    schemas = "SELECT nspname, nspowner::regrole::text, nspacl::text FROM pg_namespace ORDER BY nspname"
    new = run(url, schemas)

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE here (n serial PRIMARY KEY)")
        connection.execute("CREATE SCHEMA mine CREATE TABLE there (n int)")
        connection.execute("REVOKE USAGE ON SCHEMA public FROM PUBLIC")
        connection.execute("BEGIN; LOCK TABLE here")
        assert postgres_server.empty_database(url)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")

    assert run(url, objects) == []
    assert run(url, schemas) == new
    postgres_server.drop_database(url)
    assert not postgres_server.empty_database(url)


@pytest.mark.parametrize("name", ["postgres", "template1", "", 'placet_"; DROP'])
def test_only_a_database_made_here_is_dropped(postgres_server: PostgresServer, name: str) -> None:
    with pytest.raises(ValueError, match=r"not made by this server's create_database\(\)"):
        postgres_server.drop_database(postgres_server.url(name))


def test_a_database_of_another_server_is_not_dropped(postgres_server: PostgresServer) -> None:
    elsewhere = f"postgresql://placet@127.0.0.1:{postgres_server.port + 1}/placet_0123456789ab"

    with pytest.raises(ValueError, match="not made by this server"):
        postgres_server.drop_database(elsewhere)


def test_database_url_opens_an_empty_database_of_each_kind(database_url: str) -> None:
    if database_url.startswith("sqlite://"):
        with closing(sqlite3.connect(database_url.removeprefix("sqlite://"))) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
    else:
        tables = run(database_url, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")

    assert tables == []


def test_a_test_on_sqlite_asks_for_no_server(database_url: str, request: pytest.FixtureRequest) -> None:
    assert ("postgres_server" in request.fixturenames) == database_url.startswith("postgresql://")


# --- Settings ---


def test_a_commit_waits_and_text_is_utf8(postgres_url: str) -> None:
    assert run(postgres_url, "SHOW synchronous_commit") == [("on",)]
    assert run(postgres_url, "SHOW server_encoding") == [("UTF8",)]
    assert run(postgres_url, "SHOW max_connections") == [("100",)]


def test_it_listens_on_loopback_alone(postgres_server: PostgresServer) -> None:
    listening = [
        line.split()[1]
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        if line.split()[1].endswith(f":{postgres_server.port:04X}") and line.split()[3] == "0A"
    ]

    assert listening == [f"0100007F:{postgres_server.port:04X}"]
    assert run(postgres_server.url("postgres"), "SHOW unix_socket_directories") == [("",)]


def test_no_process_of_the_server_is_root(postgres_server: PostgresServer) -> None:
    for pid in family(postgres_server.pid):
        status = Path(f"/proc/{pid}/status").read_text()
        (uids,) = [line.split()[1:] for line in status.splitlines() if line.startswith("Uid:")]

        assert "0" not in uids
        if os.geteuid() != 0:
            assert set(uids) == {str(os.geteuid())}


# --- Ends and starts ---


def test_restart_keeps_committed_rows_and_the_url(server: PostgresServer) -> None:
    url = server.create_database()
    run(url, "CREATE TABLE kept AS SELECT generate_series(1, 1000) AS n")
    for mode in ("fast", "immediate"):
        with closing(psycopg.connect(url)) as unfinished:
            unfinished.execute("INSERT INTO kept VALUES (1001)")
            before = server.pid

            server.restart(mode)

            assert server.pid != before
            assert run(url, "SELECT count(*) FROM kept") == [(1000,)], mode


def test_a_killed_server_recovers_what_was_committed(server: PostgresServer) -> None:
    url = server.create_database()
    run(url, "CREATE TABLE kept AS SELECT generate_series(1, 1000) AS n")
    with closing(psycopg.connect(url)) as busy:
        busy.execute("SELECT 1")
        pids = family(server.pid)

        server.kill()

        assert len(pids) > 2
        assert not any(map(is_alive, pids))
        assert not server.running
        with pytest.raises(psycopg.OperationalError):
            busy.execute("SELECT 1")

    server.start()
    assert run(url, "SELECT count(*) FROM kept") == [(1000,)]


def test_kill_reaches_a_process_that_is_busy_and_gives_back_shared_memory(server: PostgresServer) -> None:
    """One that computes does not notice that its postmaster is gone; it has to be killed itself."""

    def segments() -> str:
        return Path("/proc/sysvipc/shm").read_text()

    segment = (server.folder / "data" / "postmaster.pid").read_text().splitlines()[6].split()[1]
    assert f" {segment} " in segments()
    with closing(psycopg.connect(server.url("postgres"))) as busy:
        busy.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 10000000000)")
        pids = family(server.pid)

        server.kill()

        assert busy.info.backend_pid in pids
        assert not any(map(is_alive, pids))
    server.stop()
    assert f" {segment} " not in segments()


def test_stop_closes_the_port_and_removes_the_folder_and_the_next_start_is_empty() -> None:
    server = PostgresServer()
    for mode in ("fast", "immediate"):
        server.start()
        names = run(server.url("postgres"), "SELECT datname FROM pg_database WHERE datname LIKE 'placet%'")
        assert names == []
        server.create_database()
        port, folder, pids = server.port, server.folder, family(server.pid)
        assert is_open(port)
        assert folder.exists()

        server.stop(mode)

        assert not is_open(port), mode
        assert not folder.exists(), mode
        assert not any(map(is_alive, pids)), mode


def test_stop_and_kill_of_a_server_that_is_not_there_do_nothing() -> None:
    server = PostgresServer()

    server.kill()
    server.stop()

    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        server.url("postgres")


def test_a_failed_start_shows_the_log_and_leaves_nothing() -> None:
    server = PostgresServer(settings={"max_connections": "many"})

    with pytest.raises(PostgresFailed, match='invalid value for parameter "max_connections": "many"'):
        server.start()

    assert not server.running
    with pytest.raises(RuntimeError, match="no folder yet"):
        server.folder


# --- The process that started it ends ---

STARTS_ONE = """
import os, sys, time
from tests.servers.postgres import PostgresServer

server = PostgresServer()
server.start()
if "fork" in sys.argv and os.fork() == 0:
    time.sleep(600)
print(server.pid, os.getpid(), server.folder, flush=True)
if "stay" in sys.argv:
    time.sleep(600)
"""


def start_one(*how: str) -> tuple[subprocess.Popen[str], list[int], Path]:
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE, *how],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout is not None
    assert select.select([parent.stdout], [], [], 60)[0]
    pid, _, folder = parent.stdout.readline().split()
    return parent, family(int(pid)), Path(folder)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda how: how.name)
def test_no_server_outlives_a_process_ended_by_a_signal(how: signal.Signals) -> None:
    parent, pids, folder = start_one("stay")
    with parent:
        assert is_alive(pids[0])

        parent.send_signal(how)
        parent.wait()

        wait_until_gone(pids, folder)


def test_no_server_outlives_a_process_that_forgets_it() -> None:
    parent, pids, folder = start_one()
    with parent:
        assert parent.wait() == 0

        wait_until_gone(pids, folder)


def test_a_fork_that_lives_on_does_not_keep_the_server() -> None:
    """It inherits the pipe to the keeper, so the pipe alone would say that somebody is still there."""
    parent, pids, folder = start_one("stay", "fork")
    try:
        parent.kill()
        parent.wait()

        wait_until_gone(pids, folder)
    finally:
        # The fork is in the session of its dead parent, which was started for this test alone.
        os.killpg(parent.pid, signal.SIGKILL)
        parent.stdout.close()


# --- The programs ---


def pretend(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch(mode=0o755)
    return folder


def test_the_newest_version_is_taken(tmp_path: Path) -> None:
    for number in ("9.6", "16", "15"):
        pretend(tmp_path / number / "bin", "initdb", "postgres")

    assert programs(path="", places=[f"{tmp_path}/*/bin"]) == tmp_path / "16" / "bin"


def test_a_folder_without_the_server_is_passed_over(tmp_path: Path) -> None:
    client = pretend(tmp_path / "17" / "bin", "initdb")
    whole = pretend(tmp_path / "15" / "bin", "initdb", "postgres")

    assert programs(path=str(client), places=[f"{tmp_path}/*/bin"]) == whole


def test_path_goes_first_and_links_are_followed(tmp_path: Path) -> None:
    whole = pretend(tmp_path / "own", "initdb", "postgres")
    pretend(tmp_path / "places" / "99", "initdb", "postgres")
    linked = pretend(tmp_path / "linked")
    (linked / "initdb").symlink_to(whole / "initdb")

    assert programs(path=str(linked), places=[f"{tmp_path}/places/*"]) == whole


def test_a_machine_without_postgres_is_told_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(PostgresMissing) as caught:
        programs(
            path="",
            places=[f"{tmp_path}/*/bin"],
            install=lambda: "Installing it needs root, which this is not.",
        )

    assert str(caught.value) == (
        f"No Postgres server here: initdb and postgres are neither on PATH nor in {tmp_path}/*/bin. "
        "Installing it needs root, which this is not. Install it with `apt-get install postgresql` (Debian, "
        "Ubuntu), `dnf install postgresql-server` (Fedora) or `brew install postgresql` (macOS), or put the "
        "folder that holds both programs on PATH."
    )


def test_what_an_install_brings_is_found(tmp_path: Path) -> None:
    def install() -> str:
        pretend(tmp_path / "15" / "bin", "initdb", "postgres")
        return "Installed."

    assert programs(path="", places=[f"{tmp_path}/*/bin"], install=install) == tmp_path / "15" / "bin"


def test_apt_installs_for_root_alone(tmp_path: Path) -> None:
    assert "needs root" in install_with_apt(apt="/bin/false", root=False, defaults=tmp_path)
    assert "no apt-get" in install_with_apt(apt=None, root=True, defaults=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_apt_is_kept_from_making_a_cluster_and_the_defaults_come_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen, defaults = tmp_path / "seen", tmp_path / "createcluster.d"
    apt = tmp_path / "apt-get"
    apt.write_text(f'#!/bin/sh\necho "$DEBIAN_FRONTEND $*" >> {seen}\ncat {defaults}/* >> {seen}\n')
    apt.chmod(0o755)

    install_with_apt(apt=str(apt), root=True, defaults=defaults)

    assert seen.read_text().splitlines() == [
        "noninteractive -qq -o DPkg::Lock::Timeout=300 update",
        "create_main_cluster = false",
        "noninteractive -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends postgresql",
        "create_main_cluster = false",
    ]
    assert list(defaults.iterdir()) == []
    assert "Installing postgresql for the tests" in capsys.readouterr().err


def test_a_failed_install_says_what_apt_said(tmp_path: Path) -> None:
    apt = tmp_path / "apt-get"
    apt.write_text("#!/bin/sh\necho E: Unable to locate package postgresql >&2\nexit 100\n")
    apt.chmod(0o755)

    said = install_with_apt(apt=str(apt), root=True, defaults=tmp_path / "createcluster.d")

    assert "E: Unable to locate package postgresql" in said


def test_processes_that_need_postgres_at_once_install_it_once(tmp_path: Path) -> None:
    """Each would install for half a second, into the same place; the second finds what the first brought."""
    code = f"""
import time
from pathlib import Path
from tests.servers.postgres import programs

def install():
    with open({str(tmp_path / "installs")!r}, "a") as count:
        count.write("x")
    time.sleep(0.5)
    folder = Path({str(tmp_path)!r}) / "15" / "bin"
    folder.mkdir(parents=True)
    for name in ("initdb", "postgres"):
        (folder / name).touch(mode=0o755)
    return "Installed."

print(programs(path="", places=[{str(tmp_path)!r} + "/*/bin"], install=install))
"""
    command = [sys.executable, "-c", code]

    workers = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = [worker.communicate(timeout=60)[0].strip() for worker in workers]

    assert answers == [str(tmp_path / "15" / "bin")] * 3
    assert (tmp_path / "installs").read_text() == "x"


def test_the_module_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0

    assert capsys.readouterr().out == f"{version(programs())} in {programs()}\n"
