"""Looking changes nothing, and needs no right to change anything."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from placet.errors import StorageUnavailable, UsageError
from placet.storage.location import open_database
from placet.storage.migrate import Migrations, migrate
from placet.storage.transaction import Rows

PART = Migrations(
    "notes", [["CREATE TABLE notes (n BIGINT PRIMARY KEY)", "INSERT INTO notes (n) VALUES (7)"]]
)


def _notes(url: str) -> Rows:
    with open_database(url, create=False, read_only=True) as database:
        migrate(database, PART)
        return database.read(lambda t: t.execute("SELECT n FROM notes"))


def test_what_others_wrote_can_be_read_without_writing(database_url: str) -> None:
    with open_database(database_url) as database:
        migrate(database, PART)

        assert _notes(database_url) == [(7,)]
    assert _notes(database_url) == [(7,)]


def test_writing_is_refused(database_url: str) -> None:
    with open_database(database_url) as database:
        migrate(database, PART)

    with (
        open_database(database_url, read_only=True) as database,
        pytest.raises(UsageError, match="for reading only"),
    ):
        database.write(lambda t: t.execute("DELETE FROM notes"))


def test_tables_are_not_made_by_looking(database_url: str) -> None:
    open_database(database_url).close()

    with pytest.raises(StorageUnavailable, match="holds no notes tables"):
        _notes(database_url)
    with open_database(database_url) as database:
        assert not database.read(lambda t: t.has_table("notes"))


def test_a_file_is_not_made_by_looking(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailable, match="does not exist"):
        _notes(str(tmp_path / "none.db"))
    (tmp_path / "empty.db").touch()
    with pytest.raises(StorageUnavailable, match="holds no notes tables"):
        _notes(str(tmp_path / "empty.db"))

    assert (tmp_path / "empty.db").stat().st_size == 0
    assert not (tmp_path / "none.db").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user to be, which only root can")
def test_somebody_without_the_right_to_write_can_read(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    file = folder / "placet.db"
    with open_database(str(file)) as database:
        migrate(database, PART)
    file.chmod(0o644)
    for parent in [folder, *folder.parents]:
        if parent == Path("/tmp") or stat.S_IMODE(parent.stat().st_mode) & 0o005 == 0o005:
            continue
        parent.chmod(0o755)

    child = os.fork()
    if child == 0:
        os.setgid(65534)
        os.setuid(65534)
        try:
            os._exit(0 if _notes(str(file)) == [(7,)] else 3)
        except BaseException:
            os._exit(4)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sorted(p.name for p in folder.iterdir()) == ["placet.db"]
