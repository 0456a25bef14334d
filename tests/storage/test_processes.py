"""Processes that come to one database at the same moment all get their turn."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from placet.extras import install_command
from placet.storage.location import open_database
from placet.storage.transaction import Rows, Transaction
from tests.properties.effort import SOAK
from tests.servers.postgres import PostgresServer
from tests.storage.children import PATIENCE_S, ask, hear, run, start, tell
from tests.warm import Warm

PROCESSES = 10
ROWS = 50
ROUNDS = 20 if SOAK else 2

NEWCOMER = """
import sys
from placet.storage.location import open_database
from placet.storage.migrate import Migrations, migrate
import placet.storage.sqlite, placet.storage.postgres, psycopg  # Loaded before the start, not in the race.
first = Migrations("first", [["CREATE TABLE one (who BIGINT, n BIGINT)"], ["CREATE INDEX w ON one (who)"]])
second = Migrations("second", [["CREATE TABLE two (who BIGINT, n BIGINT)"]])
me = int(sys.argv[1])
print("ready", flush=True)
for url in map(str.strip, sys.stdin):
    with open_database(url) as database:
        migrate(database, first)
        migrate(database, second)
        for n in range(50):
            insert = f"INSERT INTO {('one', 'two')[n % 2]} (who, n) VALUES ({me}, {n})"
            database.write(lambda t: t.execute(insert)).result(60)
    print("done", flush=True)
"""


def race(urls: list[str], folder: Path, warm: Warm) -> None:
    """Ten processes open each database, still fresh, at once: all succeed, and nothing is missing."""
    program = folder / "newcomer.py"
    program.write_text(NEWCOMER)
    children = [
        subprocess.Popen(
            [*warm.python, str(program), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    try:
        assert [hear(child) for child in children] == ["ready"] * PROCESSES
        for url in urls:
            for child in children:
                tell(child, url)
            assert [hear(child) for child in children] == ["done"] * PROCESSES

            with open_database(url) as database:
                found = ask(database, "SELECT who, n FROM one UNION ALL SELECT who, n FROM two")
                parts = ask(database, "SELECT part, version FROM schema_parts ORDER BY part")
            assert sorted(found) == [(who, n) for who in range(PROCESSES) for n in range(ROWS)]
            assert parts == [("first", 2), ("second", 1)]
    finally:
        for child in children:
            child.kill()
            child.communicate()


def test_ten_processes_open_a_fresh_file_at_once(tmp_path: Path, warm: Warm) -> None:
    race([str(tmp_path / f"new{n}" / "folder" / "placet.db") for n in range(ROUNDS)], tmp_path, warm)


def test_ten_processes_open_a_fresh_postgres_database_at_once(
    postgres_server: PostgresServer, tmp_path: Path, warm: Warm
) -> None:
    urls = [postgres_server.create_database() for _ in range(ROUNDS)]
    try:
        race(urls, tmp_path, warm)
    finally:
        for url in urls:
            postgres_server.drop_database(url)


@pytest.mark.usefixtures("warm")
def test_processes_that_deadlock_both_finish(postgres_url: str) -> None:
    """Two that change the same rows in opposite order: the server fails one of them, which is tried again."""
    with open_database(postgres_url) as database:
        database.write(lambda t: t.execute("CREATE TABLE counters (id BIGINT PRIMARY KEY, n BIGINT)"))
        database.write(lambda t: t.execute("INSERT INTO counters (id, n) VALUES (1, 0), (2, 0)")).result(30)
        code = """
            import sys
            from placet.storage.location import open_database
            url, *order = sys.argv[1:]
            def work(t):
                for n, id in enumerate(order):
                    t.execute("UPDATE counters SET n = n + 1 WHERE id = ?", (int(id),))
                    if not n:
                        t.execute("SELECT pg_sleep(0.3)")
            with open_database(url) as database:
                database.write(work).result(30)
            """
        children = [start(code, postgres_url, *order) for order in ((1, 2), (2, 1))]
        assert [child.communicate(timeout=PATIENCE_S) and child.returncode for child in children] == [0, 0]

        assert ask(database, "SELECT id, n FROM counters ORDER BY id") == [(1, 2), (2, 2)]


@pytest.mark.usefixtures("warm")
def test_a_reader_waits_for_no_writer_and_sees_one_moment(database_url: str) -> None:
    """Another process holds a long transaction open; what it has not committed is not seen, even in part."""
    with open_database(database_url) as database:
        database.write(lambda t: t.execute("CREATE TABLE pairs (name TEXT PRIMARY KEY, n BIGINT)"))
        database.write(lambda t: t.execute("INSERT INTO pairs VALUES ('left', 0), ('right', 0)")).result(30)
        writer = start(
            """
            import sys
            from placet.storage.location import open_database
            def work(t):
                t.execute("UPDATE pairs SET n = n + 1 WHERE name = 'left'")
                print("half", flush=True)
                sys.stdin.readline()
                t.execute("UPDATE pairs SET n = n + 1 WHERE name = 'right'")
            with open_database(sys.argv[1]) as database:
                database.write(work).result(30)
            print("whole", flush=True)
            """,
            database_url,
        )
        assert hear(writer) == "half"

        assert ask(database, "SELECT n FROM pairs ORDER BY name") == [(0,), (0,)]

        def across_the_commit(t: Transaction) -> Rows:
            left = t.execute("SELECT n FROM pairs WHERE name = 'left'")
            assert writer.communicate("go\n", timeout=PATIENCE_S) == ("whole\n", None)
            return left + t.execute("SELECT n FROM pairs WHERE name = 'right'")

        assert database.read(across_the_commit) == [(0,), (0,)]
        assert ask(database, "SELECT n FROM pairs ORDER BY name") == [(1,), (1,)]


def test_psycopg_that_is_not_installed_is_named_with_its_command() -> None:
    done = run(
        """
        import sys
        sys.modules["psycopg"] = None
        from placet.errors import StorageUnavailable
        from placet.storage.location import open_database
        try:
            open_database("postgresql://someone:hush@127.0.0.1/db")
        except StorageUnavailable as error:
            print(error)
        """
    )

    assert install_command("postgres") in done.stdout
    assert "hush" not in done.stdout
