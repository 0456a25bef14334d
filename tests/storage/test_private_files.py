"""Files are for their owner alone, from the first byte."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from placet.errors import StorageUnavailable
from placet.storage.location import open_database
from tests.storage.children import make_numbers, say


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


@pytest.mark.parametrize("mask", [0, 0o022, 0o077], ids=oct)
def test_the_file_what_lies_beside_it_and_its_folders_are_private(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "outer" / "inner" / "placet.db"

    with umask(mask), open_database(str(path)) as database:
        make_numbers(database)

        beside = sorted(path.parent.iterdir())
        assert [p.name for p in beside] == ["placet.db", "placet.db-shm", "placet.db-wal"]
        assert {mode(p) for p in beside} == {"0o600"}
        assert mode(path.parent) == mode(path.parent.parent) == "0o700"


@pytest.mark.parametrize("given", [0o755, 0o777, 0o700], ids=oct)
def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path, given: int) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    folder.chmod(given)

    with open_database(str(folder / "placet.db")):
        pass

    assert mode(folder) == oct(given)
    assert mode(folder / "placet.db") == "0o600"


def test_a_file_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    """Whoever shares a file with a group has chosen to."""
    path = tmp_path / "placet.db"
    with open_database(str(path)):
        pass
    path.chmod(0o660)

    with open_database(str(path)) as database:
        say(database, "CREATE TABLE t (n BIGINT)")

        assert mode(path) == mode(Path(f"{path}-wal")) == "0o660"


def test_data_of_a_project_stays_out_of_git(tmp_path: Path) -> None:
    (tmp_path / ".placet").mkdir()
    data = tmp_path / ".placet" / "data"

    with open_database(str(data / "placet.db")):
        pass

    assert (data / ".gitignore").read_text() == "*\n"
    assert not (tmp_path / ".placet" / ".gitignore").exists()


def test_a_folder_that_somebody_else_made_gets_no_gitignore(tmp_path: Path) -> None:
    data = tmp_path / ".placet" / "data"
    data.mkdir(parents=True)

    with open_database(str(data / "placet.db")), open_database(str(tmp_path / "else" / "placet.db")):
        pass

    assert list(tmp_path.rglob(".gitignore")) == []


def test_without_leave_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailable, match=r"does not exist\. .*--db and PLACET_DB"):
        open_database(str(tmp_path / "a" / "b.db"), create=False)

    assert list(tmp_path.iterdir()) == []
