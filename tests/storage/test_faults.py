"""A file that fails in one of the ways files do: the right error, clear words, nothing half-written.

Keep true: each test also shows that things work again once the cause is gone.
"""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from placet.errors import StorageDamaged, StorageError, StorageFull, StorageLocked, StorageUnavailable
from placet.storage import sqlite
from placet.storage.location import open_database
from tests.storage.children import (
    add,
    hear,
    in_namespace,
    integrity,
    make_numbers,
    numbers,
    run,
    say,
    start,
    tell,
)
from tests.storage.test_order import Together


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with the table of the tests and one number in it."""
    path = tmp_path / "placet.db"
    with open_database(str(path)) as database:
        make_numbers(database)
        database.write(add(1)).result(30)
    return path


def holds(path: Path) -> list[int]:
    with open_database(str(path), create=False) as database:
        return numbers(database)


# No space


def test_a_full_disk_is_told_and_nothing_is_half_written(tmp_path: Path) -> None:
    """On a disk of one megabyte, mounted for one process alone."""
    done = run(
        """
        import os, sys
        from pathlib import Path
        from placet.errors import StorageFull
        from placet.storage.location import open_database
        from tests.storage.children import add, integrity, make_numbers, numbers

        disk = Path(sys.argv[1])
        path = disk / "data" / "placet.db"
        database = open_database(str(path))
        make_numbers(database)
        database.write(add(1)).result(30)
        assert numbers(database) == [1]
        ballast = disk / "ballast"
        with ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

        def much(t):
            for n in range(100):
                t.execute("INSERT INTO numbers (n) VALUES (?)", (n,))
            t.execute("CREATE TABLE much (text TEXT)")
            t.insert("much", ["text"], [("x" * 100_000,)] * 20)

        for _ in range(2):
            try:
                database.write(much).result(30)
            except StorageFull as error:
                print(error)
        assert numbers(database) == [1], numbers(database)
        try:
            open_database(str(disk / "other" / "placet.db"))
        except StorageFull as error:
            print(error)

        ballast.unlink()
        database.write(add(2)).result(30)
        assert numbers(database) == [1, 2]
        database.close()
        assert integrity(path) == "ok"
        with open_database(str(path)) as again:
            assert numbers(again) == [1, 2]
        """,
        tmp_path,
        before=in_namespace(f"mount -t tmpfs -o size=1m none {tmp_path}"),
    )

    words = "has no space left to grow. Free some space on its disk, then go on."
    assert done.stdout.count(words) == 3, done.stdout


def test_a_database_that_may_not_grow_is_told_and_smaller_work_still_fits(path: Path) -> None:
    with open_database(str(path)) as database:
        pages = say(database, "PRAGMA page_count")[0][0]
        say(database, f"PRAGMA max_page_count = {pages + 1}")

        with Together(database):
            small = database.write(add(2))
            large = database.write(lambda t: t.insert("numbers", ["n"], [(n,) for n in range(10_000)]))
            other = database.write(add(3))

        with pytest.raises(StorageFull, match=r"no space left to grow\. Free some space"):
            large.result(30)
        assert (small.result(30), other.result(30)) == (2, 3)
        assert numbers(database) == [1, 2, 3]
        say(database, "PRAGMA max_page_count = 1000000")
        assert database.write(add(4)).result(30) == 4
    assert holds(path) == [1, 2, 3, 4]


# No right to write

READER = """
import os, sys
from placet.errors import StorageReadOnly
from placet.storage import sqlite
from placet.storage.location import open_database
from tests.storage.children import add, numbers
if len(sys.argv) > 2 and os.getuid() == 0:
    # Root may write anything. Only now, as nobody else may be able to read Python itself.
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    with open_database(sys.argv[1], create=False) as database:
        print(numbers(database))
        database.write(add(2)).result(30)
except StorageReadOnly as error:
    print(error)
"""

READ_ONLY = "may be read but not written. Change its permissions and those of its folder, or name another"


@pytest.fixture
def closed_to_others(path: Path) -> Iterator[Path]:
    """The file, which others may reach and read but not write."""
    changed = [(p, p.stat().st_mode) for p in path.parents if p.stat().st_mode & 0o005 != 0o005]
    for folder, mode in changed:
        folder.chmod(mode | 0o055)
    path.chmod(0o444)
    yield path
    for folder, mode in changed:
        folder.chmod(mode)


def test_a_file_that_may_only_be_read_is_read_and_not_written(closed_to_others: Path) -> None:
    """While its owner has it open; who may read can follow what happens."""
    path = closed_to_others
    with open_database(str(path)) as owner:
        assert numbers(owner) == [1]

        done = run(READER, path, "as somebody else")

        assert done.stdout.startswith("[1]\n")
        assert READ_ONLY in done.stdout
        assert owner.write(add(3)).result(30) == 3
    assert holds(path) == [1, 3]


def test_a_file_in_a_folder_that_may_not_be_written_is_told(closed_to_others: Path) -> None:
    """SQLite needs to put a file beside it even to read, and says no more than that it cannot open."""
    done = run(READER, closed_to_others, "as somebody else")

    assert READ_ONLY in done.stdout
    assert holds(closed_to_others) == [1]


def test_a_disk_that_may_only_be_read_is_told(path: Path) -> None:
    before = in_namespace(f"mount --bind {path.parent} {path.parent}\nmount -o remount,ro,bind {path.parent}")

    done = run(READER, path, before=before)
    new = run(READER.replace("create=False", "create=True"), path.parent / "new.db", before=before)

    assert READ_ONLY in done.stdout
    assert READ_ONLY in new.stdout
    assert holds(path) == [1]


# Locked


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.3)


HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute(sys.argv[2])
connection.execute("UPDATE numbers SET n = n")
print("locked", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
print("free", flush=True)
sys.stdin.readline()
"""


@pytest.mark.usefixtures("impatient", "warm")
def test_a_file_that_stays_locked_is_told_and_nothing_is_half_written(path: Path) -> None:
    with open_database(str(path)) as database:
        holder = start(HOLDER, path, "BEGIN IMMEDIATE")
        assert hear(holder) == "locked"

        futures = [database.write(add(n)) for n in (2, 3)]
        for future in futures:
            with pytest.raises(StorageLocked) as caught:
                future.result(30)
        assert "stays locked by another process (waited 0.3 s). Wait for that process or end it" in str(
            caught.value
        )
        assert numbers(database) == [1], "a reader does not care"

        tell(holder, "let go")
        assert hear(holder) == "free"
        assert database.write(add(4)).result(30) == 4
        holder.communicate(timeout=30)
    assert holds(path) == [1, 4]


@pytest.mark.usefixtures("impatient", "warm")
def test_a_file_that_is_locked_whole_cannot_be_opened_until_it_is_free(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    holder = start(HOLDER, path, "BEGIN EXCLUSIVE")
    assert hear(holder) == "locked"

    with pytest.raises(StorageLocked, match=r"waited 0\.3 s"):
        open_database(str(path))

    tell(holder, "let go")
    assert hear(holder) == "free"
    assert holds(path) == [1]
    holder.communicate(timeout=30)


@pytest.mark.usefixtures("warm")
def test_a_lock_that_ends_in_time_is_only_waited_for(path: Path) -> None:
    with open_database(str(path)) as database:
        holder = start(HOLDER, path, "BEGIN IMMEDIATE")
        assert hear(holder) == "locked"
        futures = [database.write(add(n)) for n in (2, 3)]
        threading.Timer(0.3, tell, (holder, "let go")).start()

        assert [future.result(30) for future in futures] == [2, 3]

        holder.communicate(timeout=30)
        assert numbers(database) == [1, 2, 3]


# Damaged, or not ours


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A file of some hundred pages, all of them in use."""
    path = tmp_path / "large.db"
    with open_database(str(path)) as database:
        make_numbers(database)
        database.write(lambda t: t.insert("numbers", ["n"], [(n,) for n in range(40_000)])).result(30)
    return path


def scribble(path: Path, start: int, length: int) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(random.Random(7).randbytes(length))


@pytest.mark.parametrize("start", [0, 16, 60], ids=["magic", "page size", "rest of the header"])
def test_a_file_with_a_damaged_head_is_refused_and_left_as_it_is(large: Path, start: int) -> None:
    scribble(large, start, 200)
    before = large.read_bytes()

    with pytest.raises(StorageDamaged) as caught, open_database(str(large)) as database:
        numbers(database)

    assert "Move it" in str(caught.value)
    assert large.read_bytes() == before
    large.rename(large.with_suffix(".away"))
    with open_database(str(large)) as database:
        make_numbers(database)


def test_damage_in_the_middle_is_told_when_it_is_met(large: Path) -> None:
    pages = large.stat().st_size // 4096
    scribble(large, 4096 * (pages // 2), 4096 * (pages // 2 - 2))

    with open_database(str(large)) as database:
        with pytest.raises(StorageDamaged) as caught:
            numbers(database)
        with pytest.raises(StorageDamaged):
            database.write(lambda t: (add(1)(t), t.execute("SELECT sum(n) FROM numbers"))).result(30)

    assert "is damaged. Move it and its -wal and -shm files away" in str(caught.value)
    assert "`sqlite3 FILE .recover`" in str(caught.value)


def test_a_file_of_some_other_kind_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear all, " * 1000)

    with pytest.raises(
        StorageDamaged, match=r"is no SQLite file, .* Move it away, or name another with --db"
    ):
        open_database(str(path))

    assert path.read_text() == "Dear all, " * 1000
    assert [p.name for p in tmp_path.iterdir()] == ["letter.txt"]


@pytest.fixture(params=["tables", "a mark of its own"])
def foreign(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Another program's SQLite file."""
    path = tmp_path / "theirs.db"
    connection = sqlite3.connect(path)
    if request.param == "tables":
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    else:
        connection.execute("PRAGMA application_id = 252006674")
    connection.commit()
    connection.close()
    return path


def test_another_programs_database_is_refused_and_left_as_it_is(foreign: Path) -> None:
    before = foreign.read_bytes()

    with pytest.raises(StorageDamaged, match=r"belongs to another program\. Name another file with --db"):
        open_database(str(foreign))

    assert foreign.read_bytes() == before
    assert list(foreign.parent.iterdir()) == [foreign]


def test_a_file_that_vanishes_takes_no_acknowledged_write_back_in_silence(path: Path) -> None:
    """Whoever removes the file has removed it; opening it again without leave to make one says so."""
    path.unlink()

    with pytest.raises(StorageUnavailable, match="does not exist"):
        open_database(str(path), create=False)

    assert not path.exists()


def test_what_sqlite_says_of_a_wrong_statement_comes_through(path: Path) -> None:
    with open_database(str(path)) as database, pytest.raises(StorageError, match="nowhere") as caught:
        say(database, "SELECT nowhere FROM numbers")

    assert type(caught.value) is StorageError


@pytest.mark.usefixtures("warm")
def test_a_process_that_is_killed_while_writing_leaves_whole_commits(path: Path) -> None:
    """Killed anywhere: each commit of two rows is there or not, and everything acknowledged is."""
    child = start(
        """
        import sys
        from placet.storage.location import open_database
        database = open_database(sys.argv[1])
        for n in range(2, 1_000_000):
            def work(t):
                t.execute("INSERT INTO numbers (n) VALUES (?)", (n,))
                t.execute("INSERT INTO numbers (n) VALUES (?)", (-n,))
            database.write(work).result()
            print(n, flush=True)
        """,
        path,
    )
    while hear(child) != "100":
        pass
    child.kill()
    with child:
        assert child.stdout is not None
        said = child.stdout.read()  # Not communicate(), which knows nothing of the lines that are read ahead.

    found = holds(path)
    last = int(said.split()[-1]) if said.split() else 100
    assert found[:1] == [1]
    assert found[1::2] == [-n for n in found[2::2]]
    assert last in found
    assert found[-1] in {-last, -last - 1}
    assert integrity(path) == "ok"


# Things that act by themselves


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    ("kind", "sql"),
    [
        ("trigger", "CREATE TRIGGER yes AFTER INSERT ON numbers BEGIN UPDATE numbers SET n = 7; END"),
        ("view", "CREATE VIEW yes AS SELECT 7 AS n"),
    ],
)
def test_a_file_with_a_trigger_or_a_view_is_not_ours(
    path: Path, kind: str, sql: str, read_only: bool
) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(sql)

    with pytest.raises(StorageDamaged, match=rf"holds a {kind} \('yes'\) that no version of Placet makes"):
        open_database(str(path), read_only=read_only)

    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT n FROM numbers").fetchall() == [(1,)]
        connection.execute(f"DROP {kind} yes")
    assert holds(path) == [1]
