"""A log cannot slip away from its anchor: not by its own word, by another path, or by a part that is lost."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from placet.errors import StorageDamaged
from placet.events.anchor import Anchor
from placet.events.chain import ChainReport, genesis
from placet.events.sql import SqlEvents, report_missing
from placet.storage.location import open_database
from tests.events.conftest import some_events
from tests.events.intruder import Intruder
from tests.events.test_accepting import NEW_ID, append


def found(report: ChainReport) -> list[tuple[str, int | None]]:
    assert report.valid is not bool(report.findings)
    return [(finding.kind, finding.position) for finding in report.findings]


def write(url: str | Path, anchor: Anchor | None, first: int, last: int) -> object:
    """Write some events as a process of its own would; what the writer warns of."""
    with open_database(str(url)) as database:
        return SqlEvents(database, anchor=anchor).write(some_events(first, last)).result()


def verify(url: str | Path, anchor: Anchor | None) -> ChainReport:
    """Check a log as a process of its own would."""
    with open_database(str(url), create=False, read_only=True) as database:
        return SqlEvents(database, anchor=anchor).verify()


def rewrite(path: Path, log_id: str = NEW_ID) -> None:
    """Drop the newest records and chain the rest anew, under another id, never anchored."""
    intruder = Intruder(str(path))
    intruder.sql("DELETE FROM events WHERE position > 3")
    intruder.sql("UPDATE events_head SET log_id = ?, anchored = 0", (log_id,))
    intruder.change(1, prev=genesis(log_id))
    intruder.rehash_from(1)
    intruder.close()


# What the database says of itself


@pytest.mark.parametrize("log_id", ["", "x", "../escape", "F" * 32, NEW_ID + "\n", NEW_ID])
def test_no_id_keeps_a_log_from_being_compared_with_its_anchor(
    anchored: SqlEvents, anchor: Anchor, intruder: Intruder, database_url: str, log_id: str
) -> None:
    intruder.delete(1, 5)
    intruder.renumber(6, by=-5)
    intruder.sql("UPDATE events_head SET log_id = ?, anchored = 0", (log_id,))
    intruder.change(1, prev=genesis(log_id))
    intruder.rehash_from(1)

    assert found(anchored.verify()) == [("replaced", None)]
    assert isinstance(write(database_url, anchor, 30, 31), Exception)
    assert found(anchored.verify()) == [("replaced", None)]


@pytest.mark.parametrize("log_id", ["", "x", "../escape", "F" * 32, NEW_ID + "\n"])
def test_an_id_that_no_log_can_have_is_an_alarm_where_nobody_knows_the_database(
    store: SqlEvents, anchor: Anchor, intruder: Intruder, database_url: str, log_id: str
) -> None:
    intruder.sql("UPDATE events_head SET log_id = ?", (log_id,))
    intruder.change(1, prev=genesis(log_id))
    intruder.rehash_from(1)

    assert found(store.verify()) == [("edited", None)]
    assert found(store.verify(anchor=anchor)) == [("edited", None)]
    with open_database(database_url) as database, pytest.raises(StorageDamaged):
        SqlEvents(database, anchor=anchor).accept()
    assert not anchor.folder.exists()


def test_a_damaged_note_of_which_log_is_in_a_database_is_an_alarm(
    anchored: SqlEvents, anchor: Anchor
) -> None:
    (file,) = anchor.folder.glob("*.database")
    file.unlink()
    file.mkdir()

    assert found(anchored.verify()) == [("replaced", None)]


# Another path to the database


def to_a_link(path: Path) -> Path:
    """The file is moved, and a link is left in its place."""
    path.rename(path.with_name(".moved.db"))
    path.symlink_to(".moved.db")
    return path


def to_a_hard_link(path: Path) -> Path:
    os.link(path, path.with_name("hard.db"))
    return path.with_name("hard.db")


def to_a_linked_folder(path: Path) -> Path:
    """The folder is moved, and a link is left in its place."""
    path.parent.rename(path.parent.with_name(".moved"))
    path.parent.symlink_to(".moved")
    return path


def to_a_folder_behind_a_link(path: Path) -> Path:
    """The same, for whoever works inside: the system knows their folder by its new name."""
    return Path(os.path.realpath(to_a_linked_folder(path)))


def to_a_path_with_dots(path: Path) -> Path:
    (path.parent / "x").mkdir()
    return path.parent / "x" / ".." / path.name


def to_itself(path: Path) -> Path:
    return path


WAYS = [
    to_itself,
    to_a_link,
    to_a_hard_link,
    to_a_linked_folder,
    to_a_folder_behind_a_link,
    to_a_path_with_dots,
]


@pytest.fixture
def project(tmp_path: Path, anchor: Anchor) -> Path:
    """A database in a folder of its own, with five records that are anchored."""
    folder = tmp_path / "project"
    folder.mkdir()
    write(folder / "runs.db", anchor, 1, 5)
    return folder / "runs.db"


@pytest.mark.parametrize("way", WAYS)
def test_a_replaced_log_is_found_by_whatever_path_it_is_reached(
    project: Path, anchor: Anchor, way: Callable[[Path], Path]
) -> None:
    rewrite(project)
    path = way(project)

    assert found(verify(path, anchor)) == [("replaced", None)]
    assert isinstance(write(path, anchor, 30, 30), Exception)
    assert isinstance(write(path, anchor, 31, 31), Exception), "no warning was the last"
    assert anchor.read(NEW_ID).position is None
    assert found(verify(path, anchor)) == [("replaced", None)]


@pytest.mark.parametrize("way", WAYS)
def test_an_accepted_log_is_accepted_by_all_its_paths(
    project: Path, anchor: Anchor, way: Callable[[Path], Path]
) -> None:
    rewrite(project)
    path = way(project)
    with open_database(str(path)) as database:
        SqlEvents(database, anchor=anchor).accept()

    assert verify(path, anchor).valid
    assert verify(project, anchor).valid
    assert write(project, anchor, 30, 30) is None
    assert write(path, anchor, 31, 31) is None
    assert verify(path, anchor).valid


@pytest.mark.parametrize("way", WAYS)
def test_another_path_to_the_same_log_is_no_alarm(
    project: Path, anchor: Anchor, way: Callable[[Path], Path]
) -> None:
    path = way(project)

    assert verify(path, anchor).valid
    assert write(path, anchor, 6, 6) is None
    assert write(project, anchor, 7, 7) is None
    assert (verify(path, anchor).valid, verify(project, anchor).valid) == (True, True)


def test_a_link_that_leads_to_another_log_is_an_alarm(tmp_path: Path, anchor: Anchor) -> None:
    """The path that was given is known, too: not only where it led."""
    write(tmp_path / "first.db", anchor, 1, 5)
    (tmp_path / "runs.db").symlink_to("first.db")
    write(tmp_path / "runs.db", anchor, 6, 6)
    write(tmp_path / "second.db", None, 1, 5)
    (tmp_path / "runs.db").unlink()
    (tmp_path / "runs.db").symlink_to("second.db")

    assert found(verify(tmp_path / "runs.db", anchor)) == [("replaced", None)]
    assert isinstance(write(tmp_path / "runs.db", anchor, 30, 30), Exception)


def test_a_path_with_dots_is_not_shortened_past_a_link(tmp_path: Path, anchor: Anchor) -> None:
    """`link/../runs.db` lies beside the folder that the link leads to."""
    (tmp_path / "there" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("there/inner")
    write(tmp_path / "link" / ".." / "runs.db", anchor, 1, 5)

    assert write(tmp_path / "runs.db", anchor, 1, 5) is None, "another database, known to nobody"
    assert verify(tmp_path / "runs.db", anchor).valid
    assert verify(tmp_path / "there" / "runs.db", anchor).valid


def test_a_project_that_was_moved_is_still_compared_with_its_anchor(project: Path, anchor: Anchor) -> None:
    moved = project.parent.rename(project.parent.with_name("elsewhere")) / project.name

    report = verify(moved, anchor)
    assert (report.valid, report.anchored) == (True, True)
    assert write(moved, anchor, 6, 7) is None
    intruder = Intruder(str(moved))
    intruder.delete(5, 7)
    intruder.set_head(4, intruder.record(4)["digest"])
    intruder.close()

    assert found(verify(moved, anchor)) == [("truncated", 5)]


def test_a_log_replaced_and_moved_at_once_is_not_found_and_the_report_says_that_it_has_no_anchor(
    project: Path, anchor: Anchor
) -> None:
    """A limit, stated in the documentation: neither its id nor its path is known."""
    rewrite(project)
    moved = project.parent.rename(project.parent.with_name("elsewhere")) / project.name

    report = verify(moved, anchor)

    assert (report.valid, report.anchored) == (True, False)


def test_another_log_put_in_this_place_is_found_though_it_has_an_anchor(
    project: Path, anchor: Anchor, tmp_path: Path
) -> None:
    elsewhere = Anchor(tmp_path / "other-anchors")
    write(tmp_path / "other.db", elsewhere, 1, 7)
    for file in elsewhere.folder.iterdir():
        shutil.copy(file, anchor.folder)
    shutil.copy(tmp_path / "other.db", project)

    assert found(verify(project, anchor)) == [("replaced", None)]
    assert isinstance(write(project, anchor, 30, 30), Exception)


def test_both_set_back_to_an_older_copy_are_not_found(project: Path, anchor: Anchor, tmp_path: Path) -> None:
    """A limit, stated in the documentation: nothing outside the two knows better."""
    shutil.copytree(anchor.folder, tmp_path / "older")
    shutil.copy(project, tmp_path / "older.db")
    write(project, anchor, 6, 9)

    shutil.copy(tmp_path / "older.db", project)
    assert found(verify(project, anchor)) == [("truncated", 6)]

    shutil.rmtree(anchor.folder)
    shutil.copytree(tmp_path / "older", anchor.folder)
    assert verify(project, anchor).valid


# A part of the anchor that is lost


@pytest.mark.parametrize("kind", ["head", "next"])
def test_a_lost_part_of_the_anchor_is_an_alarm_whatever_the_database_says(
    anchored: SqlEvents, anchor: Anchor, intruder: Intruder, database_url: str, kind: str
) -> None:
    (file,) = anchor.folder.glob(f"*.{kind}")
    file.unlink()
    intruder.sql("UPDATE events_head SET anchored = 0")

    report = verify(database_url, anchor)

    assert found(report) == [("unanchored", None)]
    assert str(file) in report.findings[0].message
    assert isinstance(write(database_url, anchor, 30, 31), Exception)
    assert found(verify(database_url, anchor)) == [("unanchored", None)]
    assert not file.exists(), "no writer makes it anew"
    anchored.accept()
    assert verify(database_url, anchor).valid
    assert write(database_url, anchor, 32, 32) is None


@pytest.mark.parametrize("who", ["the same process", "another process"])
def test_a_record_appended_where_nothing_counts_is_an_alarm(
    anchored: SqlEvents, anchor: Anchor, intruder: Intruder, database_url: str, who: str
) -> None:
    (file,) = anchor.folder.glob("*.next")
    file.unlink()
    append(intruder)

    assert found(verify(database_url, anchor)) == [("unanchored", None)]
    with open_database(database_url) as database:
        writer = anchored if who == "the same process" else SqlEvents(database, anchor=anchor)
        for n in (30, 31, 32):
            assert isinstance(writer.write(some_events(n, n)).result(), Exception)
            assert found(verify(database_url, anchor)) == [("unanchored", None)]
        assert not file.exists(), "no writer makes it anew"
        writer.accept()
        assert writer.write(some_events(33, 33)).result() is None
    assert verify(database_url, anchor).valid


@pytest.mark.parametrize("kind", ["head", "next"])
def test_a_lost_part_is_missed_in_a_project_that_was_moved(project: Path, anchor: Anchor, kind: str) -> None:
    moved = project.parent.rename(project.parent.with_name("elsewhere")) / project.name
    (file,) = anchor.folder.glob(f"*.{kind}")
    file.unlink()
    intruder = Intruder(str(moved))
    intruder.sql("UPDATE events_head SET anchored = 0")
    intruder.close()

    assert found(verify(moved, anchor)) == [("unanchored", None)]
    assert isinstance(write(moved, anchor, 30, 30), Exception)
    assert found(verify(moved, anchor)) == [("unanchored", None)]


def test_nothing_is_dropped_while_the_anchor_is_lost(
    anchored: SqlEvents, anchor: Anchor, intruder: Intruder
) -> None:
    (file,) = anchor.folder.glob("*.head")
    file.unlink()
    intruder.sql("UPDATE events_head SET anchored = 0")

    with pytest.raises(Exception, match="anchor"):
        anchored.prune(before=2e9)


def test_a_first_commit_that_failed_half_way_is_no_alarm(
    database_url: str, anchor: Anchor, tmp_path: Path
) -> None:
    """The database is known last, when all parts are there: an anchor half made is none."""
    with open_database(database_url) as database:
        store = SqlEvents(database, anchor=anchor)
        anchor.folder.mkdir()
        blocked = anchor.head_file(_log_id(database_url))
        blocked.mkdir()
        assert isinstance(store.write(some_events(1, 1)).result(), Exception)
        assert (store.verify().valid, store.verify().anchored) == (True, False)

        blocked.rmdir()
        assert store.write(some_events(2, 2)).result() is None
        assert (store.verify().valid, store.verify().anchored) == (True, True)


def _log_id(url: str) -> str:
    intruder = Intruder(url)
    log_id = intruder.sql("SELECT log_id FROM events_head")[0][0]
    intruder.close()
    assert isinstance(log_id, str)
    return log_id


# A log that is gone


@pytest.mark.parametrize("table", ["events", "events_head", "events_segments"])
def test_a_table_that_was_dropped_is_an_alarm(store: SqlEvents, intruder: Intruder, table: str) -> None:
    intruder.sql(f"DROP TABLE {table}")

    report = store.verify()

    assert found(report) == [("removed", None)]
    assert table in report.findings[0].message


def test_a_database_without_a_log_is_an_alarm_where_the_anchor_knows_one(
    project: Path, anchor: Anchor, tmp_path: Path
) -> None:
    with sqlite3.connect(project) as connection:
        connection.execute("DROP TABLE events")
        connection.execute("DROP TABLE events_head")
        connection.execute("DROP TABLE events_segments")
        connection.execute("DROP TABLE schema_parts")

    report = report_missing(str(project), anchor)

    assert report is not None
    assert found(report) == [("removed", None)]
    assert report_missing(str(to_a_hard_link(project)), anchor) is not None
    assert report_missing(str(tmp_path / "never.db"), anchor) is None
    assert isinstance(write(project, anchor, 1, 1), Exception), "a new log in its place is an alarm"
    assert found(verify(project, anchor)) == [("replaced", None)]


def test_a_deleted_database_is_an_alarm_where_the_anchor_knows_its_log(project: Path, anchor: Anchor) -> None:
    project.unlink()

    report = report_missing(str(project), anchor)

    assert report is not None
    assert found(report) == [("removed", None)]
