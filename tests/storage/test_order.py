"""What is handed in is committed, in order, whole, whatever happens to whoever waits for it."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from placet.errors import StorageError, StorageNewer, UsageError
from placet.storage.database import Database
from placet.storage.location import open_database
from placet.storage.transaction import Transaction
from tests.storage.children import add, ask, integrity, make_numbers, numbers, run, say


def fail_after(n: int, error: BaseException) -> Callable[[Transaction], None]:
    """Work that writes, and then fails."""

    def work(t: Transaction) -> None:
        add(n)(t)
        raise error

    return work


class Together:
    """While it is held, everything handed in waits, and then goes into one commit."""

    def __init__(self, database: Database) -> None:
        self._go = threading.Event()
        begun = threading.Event()

        def wait(_: Transaction) -> None:
            begun.set()
            self._go.wait(30)

        self._first = database.write(wait)
        begun.wait(30)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self._go.set()
        self._first.result(30)


def test_work_is_committed_in_the_order_in_which_it_was_handed_in(database: Database) -> None:
    with Together(database):
        futures = [database.write(add(n)) for n in range(300)]

    assert [f.result(30) for f in futures] == list(range(300))
    assert numbers(database) == list(range(300))


def test_what_comes_from_many_threads_is_all_there_and_each_thread_in_order(database: Database) -> None:
    def hand_in(start: int) -> None:
        for n in range(start, start + 50):
            database.write(add(n))

    threads = [threading.Thread(target=hand_in, args=(1000 * i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    database.write(add(-1)).result(30)

    found = numbers(database)
    assert sorted(found) == sorted([-1, *(1000 * i + n for i in range(8) for n in range(50))])
    for i in range(8):
        assert [n for n in found if n // 1000 == i and n >= 0] == list(range(1000 * i, 1000 * i + 50))


@pytest.mark.parametrize(
    "error",
    [ValueError("mine"), KeyboardInterrupt(), asyncio.CancelledError()],
    ids=lambda e: type(e).__name__,
)
def test_work_that_fails_takes_nothing_else_with_it(database: Database, error: BaseException) -> None:
    """Also within one commit: what it wrote itself is gone, what stands before and after it is there."""
    with Together(database):
        before = database.write(add(1))
        bad = database.write(fail_after(2, error))
        after = database.write(add(3))

    assert (before.result(30), after.result(30)) == (1, 3)
    assert bad.exception(30) is error
    assert numbers(database) == [1, 3]
    assert say(database, "INSERT INTO numbers (n) VALUES (4) RETURNING n") == [(4,)]


def test_a_statement_that_the_database_refuses_takes_nothing_else_with_it(database: Database) -> None:
    with Together(database):
        before = database.write(add(1))
        bad = database.write(lambda t: (add(2)(t), t.execute("INSERT INTO no_such_table VALUES (1)")))
        after = database.write(add(3))

    assert (before.result(30), after.result(30)) == (1, 3)
    with pytest.raises(StorageError, match="no_such_table"):
        bad.result(30)
    assert numbers(database) == [1, 3]


def test_tables_of_one_part_that_are_too_new_fail_no_other_work(database: Database) -> None:
    newer = StorageNewer("db", "holds newer tables", "Update.")

    with Together(database):
        bad = database.write(fail_after(1, newer))
        good = database.write(add(2))

    assert good.result(30) == 2
    assert bad.exception(30) is newer


def test_what_fails_after_a_commit_does_not_make_it_happen_twice(database: Database) -> None:
    seen: list[str] = []

    def work(t: Transaction) -> None:
        add(1)(t)
        t.after_commit(lambda: 1 / 0)
        t.after_commit(lambda: seen.append("told"))

    with Together(database):
        futures: list[Future[Any]] = [database.write(work), database.write(add(2))]

    assert [f.exception(30) for f in futures] == [None, None]
    assert numbers(database) == [1, 2]
    assert seen == ["told"]


def test_nothing_is_told_of_a_commit_that_failed(database: Database) -> None:
    seen: list[str] = []

    def work(t: Transaction) -> None:
        t.after_commit(lambda: seen.append("told"))
        t.before_commit(lambda: fail_after(1, ValueError("late"))(t))

    with pytest.raises(ValueError, match="late"):
        database.write(work).result(30)

    assert seen == []
    assert numbers(database) == []


async def test_a_waiter_that_is_cancelled_drops_nothing(database: Database) -> None:
    with Together(database):
        first = asyncio.wrap_future(database.write(add(1)))
        second = database.write(add(2))
        first.cancel()
        assert second.cancel() is False

    assert await asyncio.wrap_future(database.write(add(3))) == 3
    assert first.cancelled()
    assert numbers(database) == [1, 2, 3]


def test_closing_finishes_everything_that_was_handed_in(database_url: str) -> None:
    database = open_database(database_url)
    make_numbers(database)
    futures = [database.write(add(n)) for n in range(500)]

    database.close()
    database.close()

    assert all(f.done() and f.exception() is None for f in futures)
    with open_database(database_url) as again:
        assert numbers(again) == list(range(500))


def test_the_end_of_the_process_finishes_everything_too(database_url: str) -> None:
    """Nobody closes it, nobody waits; only the process ends in the ordinary way."""
    done = run(
        """
        import atexit, sys
        from placet.errors import UsageError
        from placet.storage.location import open_database
        from tests.storage.children import add, make_numbers
        def late():
            try:
                database.write(add(-1)).result(5)
            except UsageError:
                print("refused")
        atexit.register(late)  # Runs after our own end, having been asked for before it.
        database = open_database(sys.argv[1])
        make_numbers(database)
        for n in range(500):
            database.write(add(n))
        """,
        database_url,
    )

    assert done.stdout == "refused\n"
    with open_database(database_url) as again:
        assert numbers(again) == list(range(500))


def test_a_closed_database_says_so(database: Database) -> None:
    database.close()

    with pytest.raises(UsageError, match=r"has been closed. Open it again"):
        database.write(add(1))
    with pytest.raises(UsageError, match=r"has been closed. Open it again"):
        ask(database, "SELECT 1")


def test_nothing_slips_in_behind_the_end(database: Database) -> None:
    """A thread that writes while another closes gets its rows on disk or an error, and waits for neither."""
    handed: list[Future[int]] = []
    ended: list[str] = []

    def hand_in() -> None:
        try:
            while True:
                handed.append(database.write(add(1)))
        except UsageError as error:
            ended.append(str(error))

    threads = [threading.Thread(target=hand_in) for _ in range(4)]
    for thread in threads:
        thread.start()
    while not handed:
        pass
    database.close()
    for thread in threads:
        thread.join(30)

    assert len(ended) == 4
    assert all(future.done() for future in handed)


def test_the_last_user_may_be_a_piece_of_work(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the writing thread lets go of the database itself, and must not wait for its own end."""
    complaints: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", complaints.append)
    monkeypatch.setattr("sys.excepthook", lambda *info: complaints.append(info))
    gone = threading.Event()

    class Store:
        def __init__(self) -> None:
            self.database = open_database(database_url)

        def work(self, t: Transaction) -> int:
            gone.wait(30)
            return len(t.execute("SELECT 1"))

    before = threading.active_count()
    store = Store()
    future = store.database.write(store.work)
    del store
    gc.collect()
    gone.set()

    assert future.result(30) == 1
    for thread in threading.enumerate()[before:]:
        thread.join(30)
    gc.collect()
    assert complaints == []


def test_after_a_fork_the_child_is_told_and_the_parent_goes_on(database_url: str) -> None:
    done = run(
        """
        import os, sys, warnings
        from placet.errors import UsageError
        from placet.storage.location import open_database
        from tests.storage.children import add, make_numbers, numbers
        warnings.simplefilter("ignore", DeprecationWarning)
        database = open_database(sys.argv[1])
        make_numbers(database)
        database.write(add(1)).result(30)
        assert numbers(database) == [1]
        child = os.fork()
        if not child:
            for call in (lambda: database.write(add(2)), lambda: numbers(database)):
                try:
                    call()
                except UsageError as error:
                    print(error, flush=True)
            database.close()
            sys.exit(7)  # The ordinary way, so that everything inherited is cleared away.
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7, status
        database.write(add(3)).result(30)
        assert numbers(database) == [1, 3]
        database.close()
        """,
        database_url,
    )

    assert done.stdout.count("was opened in another process. Open it again after a fork.") == 2
    if database_url.startswith("sqlite:"):
        from placet.storage.location import sqlite_path

        assert integrity(sqlite_path(database_url)) == "ok"


def test_a_reader_sees_what_was_acknowledged_at_once(database: Database) -> None:
    for n in range(50):
        database.write(add(n), durable=bool(n % 2)).result(30)

        assert numbers(database)[-1] == n


def test_a_read_cannot_write(database: Database) -> None:
    with pytest.raises(StorageError):
        database.read(add(1))

    assert numbers(database) == []


def test_an_error_in_a_read_comes_back_as_it_is(database: Database) -> None:
    def work(_: Transaction) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        database.read(work)

    assert numbers(database) == []


def test_values_come_back_as_they_went_in(database: Database) -> None:
    say(database, "CREATE TABLE kinds (a TEXT, b BIGINT, c DOUBLE PRECISION, d TEXT)")
    row = ("\u2028 ' %s ? é \U0001f600", -(2**63), 5e-324, None)

    database.write(lambda t: t.insert("kinds", ("a", "b", "c", "d"), [row, row])).result(30)
    say(database, "INSERT INTO kinds (a, b, c, d) VALUES (?, ?, ?, ?)", row)

    assert ask(database, "SELECT a, b, c, d FROM kinds") == [row] * 3


def test_the_clock_of_the_database_is_the_present(database: Database) -> None:
    import time

    assert abs(database.read(lambda t: t.now()) - time.time()) < 5
