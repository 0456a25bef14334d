"""The default database of a project: one that this person has made, or none."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from placet.app import own_database
from placet.app.own_database import check_own, note_log
from placet.errors import TrustError
from placet.storage.location import open_database

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "XDG_DATA_HOME": str(tmp_path / "share")}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a project's database would be."""
    (tmp_path / "p" / ".placet").mkdir(parents=True)
    return tmp_path / "p" / ".placet" / "data" / "placet.db"


def record(env: dict[str, str]) -> Path:
    return Path(env["XDG_DATA_HOME"]) / "placet" / "databases.json"


def test_what_is_made_here_is_known_again(path: Path, env: dict[str, str]) -> None:
    check_own(path, env, create=False)
    assert not path.parent.exists()
    assert not record(env).exists()

    check_own(path, env, create=True)
    with open_database(str(path), create=False) as database:
        note_log(path, env)
        database.write(lambda t: t.execute("CREATE TABLE t (n BIGINT)")).result(30)
        check_own(path, env, create=True)

    check_own(path, env, create=False)
    assert sorted(file.name for file in path.parent.iterdir()) == [".gitignore", "placet.db"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert record(env).stat().st_mode & 0o777 == 0o600
    assert list(json.loads(record(env).read_text())["databases"]) == [str(path.resolve())]


def test_it_is_known_under_its_real_path(path: Path, env: dict[str, str], tmp_path: Path) -> None:
    check_own(path, env, create=True)
    (tmp_path / "short").symlink_to(tmp_path / "p")

    check_own(tmp_path / "short" / ".placet" / "data" / "placet.db", env, create=False)


FOREIGN = ["came with the folder", "put in its place", "written over it", "a copy of it", "empty", "a pipe"]


@pytest.mark.parametrize("how", FOREIGN)
@pytest.mark.parametrize("create", [False, True])
def test_what_was_not_made_here_is_refused(
    path: Path, env: dict[str, str], tmp_path: Path, how: str, create: bool
) -> None:
    other = tmp_path / "other.db"
    with open_database(str(other)):
        pass
    if how in ("came with the folder", "empty", "a pipe"):
        path.parent.mkdir()
    else:
        check_own(path, env, create=True)
    if how == "empty":
        path.touch()
    elif how == "a pipe":
        os.mkfifo(path)
    elif how == "written over it":
        # The same file by its number on the disk.
        path.write_bytes(other.read_bytes())
    elif how == "a copy of it":
        shutil.copy(path, other)
        other.rename(path)
    else:
        other.rename(path)

    with pytest.raises(TrustError) as caught:
        check_own(path, env, create=create)

    assert caught.value.path == str(path)
    assert "was not made by you on this machine: it may have come with the folder" in str(caught.value)
    assert str(caught.value).endswith(f"name it: --db {path}")


def test_what_another_person_has_made_is_refused(path: Path, env: dict[str, str], tmp_path: Path) -> None:
    check_own(path, {**env, "XDG_DATA_HOME": str(tmp_path / "theirs")}, create=True)

    with pytest.raises(TrustError, match="was not made by you"):
        check_own(path, env, create=True)


@pytest.mark.parametrize("name", [".placet", ".placet/data", ".placet/data/placet.db"])
def test_a_link_is_refused(path: Path, env: dict[str, str], tmp_path: Path, name: str) -> None:
    check_own(path, env, create=True)
    link = tmp_path / "p" / name
    link.rename(tmp_path / "moved")
    link.symlink_to(tmp_path / "moved")

    with pytest.raises(TrustError, match="is a link") as caught:
        check_own(path, env, create=False)
    assert caught.value.path == str(link)

    if link != path:
        return
    (tmp_path / "moved").unlink()
    with pytest.raises(TrustError, match="is a link"):
        check_own(path, env, create=True)
    assert not (tmp_path / "moved").exists()


def hostile_log(path: Path, target: Path) -> None:
    """A log that would write a word of somebody else's into a database."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE words (word)")
        connection.execute("INSERT INTO words VALUES ('approved')")
        connection.commit()
        shutil.copy(f"{path}-wal", target)


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("end", ["-wal", "-journal"])
def test_a_log_that_came_with_the_folder_is_not_played_back(
    path: Path, env: dict[str, str], tmp_path: Path, is_there: bool, end: str
) -> None:
    if is_there:
        check_own(path, env, create=True)
    else:
        path.parent.mkdir()
    hostile_log(tmp_path / "theirs.db", Path(f"{path}{end}"))

    with pytest.raises(TrustError, match=r"would be played back .* may have come with the folder") as caught:
        check_own(path, env, create=True)

    assert caught.value.path == f"{path}{end}"
    assert path.exists() == is_there


DIE = """
import os, sys
from pathlib import Path
from placet.app.own_database import check_own, note_log
from placet.storage.location import open_database
path = Path(sys.argv[1])
check_own(path, os.environ, create=True)
database = open_database(str(path))
note_log(path, os.environ)
database.write(lambda t: t.execute("CREATE TABLE IF NOT EXISTS mine (n BIGINT)")).result(30)
os.kill(os.getpid(), 9)
"""


def test_the_log_that_a_crash_left_is_ours_and_no_other(
    path: Path, env: dict[str, str], tmp_path: Path
) -> None:
    child = {**os.environ, **env, "PYTHONPATH": str(ROOT / "src")}
    for _ in range(2):
        subprocess.run([sys.executable, "-c", DIE, str(path)], env=child, check=False, timeout=60)
        log = Path(f"{path}-wal")
        assert log.stat().st_size > 0

        check_own(path, env, create=False)

    with open_database(str(path)) as database:
        note_log(path, env)
        assert database.read(lambda t: t.has_table("mine"))
    note_log(path, env)
    assert not log.exists()
    assert [made["log"] for made in json.loads(record(env).read_text())["databases"].values()] == [None]
    hostile_log(tmp_path / "theirs.db", log)
    with pytest.raises(TrustError, match="would be played back"):
        check_own(path, env, create=False)


def test_a_log_that_another_process_begins_during_the_look_is_ours(
    path: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record was read before the other process noted its log, and the log is looked at after."""
    check_own(path, env, create=True)
    with open_database(str(path), create=False) as database:
        identity = own_database._identity

        def identity_late(path: Path) -> tuple[int, int]:
            note_log(path, env)
            database.write(lambda t: t.execute("CREATE TABLE IF NOT EXISTS t (n BIGINT)")).result(30)
            return identity(path)

        monkeypatch.setattr(own_database, "_identity", identity_late)

        check_own(path, env, create=False)

        assert Path(f"{path}-wal").stat().st_size > 0


def test_a_damaged_record_knows_of_none_and_is_not_written_over(path: Path, env: dict[str, str]) -> None:
    check_own(path, env, create=True)
    record(env).write_text("{")

    with pytest.raises(TrustError, match=r"databases\.json is damaged, so it is not known which databases"):
        check_own(path, env, create=False)
    note_log(path, env)
    path.unlink()
    with pytest.raises(TrustError, match=r"databases\.json is damaged"):
        check_own(path, env, create=True)

    assert record(env).read_text() == "{"
    assert not path.exists()


def test_what_a_crash_left_half_made_is_no_hindrance(path: Path, env: dict[str, str]) -> None:
    path.parent.mkdir()
    path.with_name("placet.db.part").write_text("half")

    check_own(path, env, create=True)

    assert [file.name for file in path.parent.iterdir()] == ["placet.db"]


def test_a_new_one_is_made_where_the_old_was_moved_away(
    path: Path, env: dict[str, str], tmp_path: Path
) -> None:
    check_own(path, env, create=True)
    path.rename(tmp_path / "old.db")

    check_own(path, env, create=True)
    check_own(path, env, create=False)


MANY = """
import os, sys
from pathlib import Path
from placet.app.own_database import check_own, note_log
from placet.storage.location import open_database
print("ready", flush=True)
sys.stdin.readline()
for name in sys.argv[1:]:
    check_own(Path(name), os.environ, create=True)
    with open_database(name) as database:
        note_log(Path(name), os.environ)
        database.write(lambda t: t.execute("CREATE TABLE IF NOT EXISTS t (n BIGINT)")).result(30)
        check_own(Path(name), os.environ, create=False)
    note_log(Path(name), os.environ)
"""


def test_processes_that_make_and_use_it_at_once_all_know_it(tmp_path: Path, env: dict[str, str]) -> None:
    paths = [tmp_path / f"p{number}" / ".placet" / "data" / "placet.db" for number in range(25)]
    for path in paths:
        path.parents[1].mkdir(parents=True)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MANY, *map(str, paths)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **env, "PYTHONPATH": str(ROOT / "src")},
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()

    words = [process.communicate(timeout=60)[1] for process in processes]

    assert [process.returncode for process in processes] == [0, 0, 0], words
    for path in paths:
        check_own(path, env, create=False)
