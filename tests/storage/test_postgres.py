"""A server that restarts, vanishes or goes silent in the middle: nothing acknowledged is lost or doubled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from placet.errors import StorageFull, StorageLocked, StorageReadOnly, StorageUnavailable
from placet.storage import postgres
from placet.storage.location import open_database
from placet.storage.postgres import PostgresLink
from placet.storage.transaction import Transaction
from tests.servers.postgres import Mode, PostgresServer
from tests.storage.children import add, hear, make_numbers, numbers, say, start, tell
from tests.storage.proxy import Cut, Proxy
from tests.storage.test_order import Together


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server that these tests may stop and start."""
    with PostgresServer() as server:
        yield server


WRITER = """
import sys, threading
from placet.storage.location import open_database
from tests.storage.children import add
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
with open_database(sys.argv[1]) as database:
    n = 0
    while not stop.is_set():
        futures = [database.write(add(n + i)) for i in range(5)]
        for future in futures:
            print(future.result(60), flush=True)
        n += 5
"""


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("mode", ["immediate", "fast"])
def test_a_restart_in_the_middle_loses_and_doubles_nothing(own_server: PostgresServer, mode: Mode) -> None:
    url = own_server.create_database()
    with open_database(url) as database:
        make_numbers(database)
        child = start(WRITER, url)
        said: list[int] = []
        listener = threading.Thread(target=lambda: said.extend(map(int, iter(lambda: hear(child), ""))))
        assert hear(child) == "0"
        listener.start()

        for _ in range(2):
            so_far = len(said)
            own_server.restart(mode)
            wait_until(lambda: len(said) > so_far + 50)  # noqa: B023
        tell(child, "stop")
        listener.join(60)

        assert child.wait(60) == 0
        assert said == list(range(1, len(said) + 1)), "each was acknowledged once, in order"
        assert numbers(database) == [0, *said]
        child.communicate()


def wait_until(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not true():
        assert time.monotonic() < until, "nothing is written any more"
        time.sleep(0.01)


def test_a_reader_outlives_a_restart(own_server: PostgresServer) -> None:
    with open_database(own_server.create_database()) as database:
        make_numbers(database)
        database.write(add(1)).result(30)
        assert numbers(database) == [1]

        for mode in ("immediate", "fast"):
            own_server.restart(mode)  # type: ignore[arg-type]
            assert numbers(database) == [1]


def test_a_read_whose_connection_is_ended_in_the_middle_is_made_again(postgres_url: str) -> None:
    pids: list[int] = []

    def work(t: Transaction) -> list[int]:
        pids.append(t.execute("SELECT pg_backend_pid()")[0][0])
        if len(pids) == 1:
            with psycopg.connect(postgres_url, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s, 5000)", pids)
        return [row[0] for row in t.execute("SELECT n FROM numbers")]

    with open_database(postgres_url) as database:
        make_numbers(database)
        database.write(add(1)).result(30)

        assert database.read(work) == [1]
    assert len(set(pids)) == 2


@pytest.mark.parametrize("cut", ["answer lost", "request lost", "request lost unnoticed", "answer slow"])
def test_a_commit_whose_answer_was_lost_is_not_made_twice(postgres_url: str, cut: Cut) -> None:
    with Proxy(postgres_url) as proxy, open_database(proxy.url) as database:
        make_numbers(database)
        if cut == "answer slow":
            slow_commits(postgres_url)
        database.write(add(1)).result(30)

        with Together(database):
            futures = [database.write(add(n)) for n in (2, 3, 4)]
            database.write(lambda _: proxy.cut_at_the_next_commit(cut))
        assert [future.result(30) for future in futures] == [2, 3, 4]
        database.write(add(5)).result(30)

        assert proxy.cuts == 1
        assert numbers(database) == [1, 2, 3, 4, 5]


def slow_commits(url: str) -> None:
    """Make each COMMIT take a while on the server."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path TO placet")
        connection.execute(
            "CREATE FUNCTION doze() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_sleep(0.2); RETURN NULL; END $$"
        )
        connection.execute(
            "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON numbers DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION doze()"
        )


def test_a_server_that_does_not_come_back_in_time_is_told_and_used_again_later(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "PATIENCE_S", 0.2)
    with open_database(own_server.create_database()) as database:
        make_numbers(database)
        assert numbers(database) == []
        own_server.kill()
        try:
            with pytest.raises(
                StorageUnavailable, match=r"cannot be reached: .* that the server runs"
            ) as caught:
                database.write(add(1)).result(30)
            with pytest.raises(StorageUnavailable):
                numbers(database)
        finally:
            own_server.start()

        assert "not known" not in str(caught.value)
        assert "Is the server" not in str(caught.value)
        assert database.write(add(2)).result(30) == 2
        assert numbers(database) == [2]


def test_the_loss_of_a_commit_and_then_of_the_server_leaves_the_outcome_open_and_says_so(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "PATIENCE_S", 0.2)
    with Proxy(postgres_url) as proxy:
        database = open_database(proxy.url)
        make_numbers(database)

        def work(t: Transaction) -> None:
            add(1)(t)
            proxy.cut_at_the_next_commit("answer lost")
            proxy.refuse()

        with pytest.raises(StorageUnavailable, match="whether the last write was kept is not known"):
            database.write(work).result(30)
        database.close()


def test_what_the_server_will_not_let_us_do_is_told(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS guest")
        connection.execute("CREATE ROLE guest LOGIN")
    url = postgres_url.replace("placet@", "guest@")
    try:
        with pytest.raises(
            StorageReadOnly, match=r"permission denied .* Grant the user rights on the schema"
        ):
            open_database(url)
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DROP ROLE guest")


def test_a_server_that_only_reads_is_told(postgres_url: str) -> None:
    with open_database(postgres_url) as database:
        make_numbers(database)
        with pytest.raises(StorageReadOnly, match=r"may be read but not written\. Name the primary"):
            database.write(lambda t: (t.execute("SET TRANSACTION READ ONLY"), add(1)(t))).result(30)

        assert database.write(add(2)).result(30) == 2
        assert numbers(database) == [2]


def test_a_wait_that_the_server_cuts_short_fails_nobody_else(postgres_url: str) -> None:
    with open_database(postgres_url) as database, psycopg.connect(postgres_url) as other:
        make_numbers(database)
        other.execute("LOCK TABLE placet.numbers IN EXCLUSIVE MODE")

        slow = database.write(lambda t: (t.execute("SET LOCAL lock_timeout TO 100"), add(1)(t)))

        with pytest.raises(StorageLocked, match="lock timeout"):
            slow.result(30)
        other.rollback()
        assert database.write(add(2)).result(30) == 2
        assert numbers(database) == [2]


def test_a_transaction_that_stands_still_fails_nobody_who_waits_for_it(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert postgres.IDLE_S < postgres._LOCK_S
    monkeypatch.setattr(postgres, "IDLE_S", 1)
    holds, ends = threading.Event(), threading.Event()

    def frozen(t: Transaction) -> None:
        t.execute("LOCK TABLE numbers IN EXCLUSIVE MODE")
        holds.set()
        assert ends.wait(60)

    with open_database(postgres_url) as other, open_database(postgres_url) as database:
        make_numbers(database)
        stands_still = other.write(frozen)
        assert holds.wait(30)

        assert database.write(add(1)).result(30) == 1

        ends.set()
        # Its connection was ended, so it was begun again.
        stands_still.result(30)
        assert numbers(database) == [1]


def test_a_full_disk_of_the_server_is_told(postgres_url: str) -> None:
    link = PostgresLink(postgres_url, writes=False)

    explained = link.explain(psycopg.errors.DiskFull("could not extend file"))

    assert isinstance(explained, StorageFull)
    assert "Free some space on the server." in str(explained)
    link.close()


def test_writers_that_are_gone_leave_no_marks(postgres_url: str) -> None:
    for _ in range(3):
        with open_database(postgres_url) as database:
            say(database, "SELECT 1")

    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT count(*) FROM placet.storage_writers").fetchone() == (0,)
