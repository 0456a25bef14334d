"""The head outside the log: it only moves forwards, harms no run, and is missed when it is gone."""

from __future__ import annotations

import fcntl
import shutil
import stat
import threading
from pathlib import Path

import pytest

from placet import EventLog
from placet.errors import StorageUnavailable
from placet.events.anchor import Anchor
from placet.events.sql import SqlEvents
from placet.storage.location import open_database
from tests.events.conftest import some_events
from tests.events.intruder import Intruder
from tests.storage import children

LOG = "0123456789abcdef" * 2


def digest(n: int) -> str:
    return f"{n:064x}"


def test_the_head_outside_is_the_one_in_the_log(
    anchored: SqlEvents, anchor: Anchor, intruder: Intruder
) -> None:
    position, digest, log_id = intruder.sql("SELECT position, digest, log_id FROM events_head")[0]

    known = anchor.read(log_id)
    report = anchored.verify()

    assert (known.position, known.digest) == (position, digest) == (20, intruder.record(20)["digest"])
    assert (report.valid, report.anchored) == (True, True)


def test_file_and_folder_are_the_owners_alone_and_made_only_when_needed(tmp_path: Path) -> None:
    anchor = Anchor(tmp_path / "new" / "anchors")
    with open_database(str(tmp_path / "a.db")) as database:
        store = SqlEvents(database, anchor=anchor)
        store.verify()
        assert not anchor.folder.exists()

        store.write(some_events(1, 1)).result()

    files = list(anchor.folder.iterdir())
    assert sorted(file.suffix for file in files) == [".database", ".head", ".next"]
    assert stat.S_IMODE(anchor.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_it_only_moves_forwards(anchor: Anchor) -> None:
    for position in (5, 3, 9, 9, 1):
        anchor.advance(LOG, position, digest(position))

    assert anchor.read(LOG)[1:3] == (9, digest(9))


ADVANCE = """
import sys
from pathlib import Path
from placet.events.anchor import Anchor
folder, log, start = sys.argv[1:]
for position in range(int(start), 1_000, 4):
    Anchor(Path(folder)).advance(log, position, f"{position:064x}")
"""


@pytest.mark.usefixtures("warm")
def test_many_processes_leave_the_furthest(anchor: Anchor) -> None:
    processes = [children.start(ADVANCE, anchor.folder, LOG, start) for start in range(4)]

    assert [process.communicate() and process.returncode for process in processes] == [0] * 4

    assert anchor.read(LOG)[1:3] == (999, digest(999))


def test_whoever_moves_it_has_it_alone(anchor: Anchor) -> None:
    anchor.advance(LOG, 1, digest(1))
    with open(anchor.head_file(LOG), "rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        late = threading.Thread(target=anchor.advance, args=(LOG, 2, digest(2)))
        late.start()
        late.join(timeout=0.2)
        assert late.is_alive()
        assert anchor.read(LOG).position == 1
    late.join()

    assert anchor.read(LOG).position == 2


@pytest.mark.parametrize("log_id", ["", "../escape", "a/b", "x" * 32, LOG + "\n", LOG.upper()])
def test_an_id_from_an_edited_table_leads_nowhere(anchor: Anchor, log_id: str) -> None:
    with pytest.raises(ValueError, match="is no id of a log"):
        anchor.advance(log_id, 1, digest(1))

    assert anchor.read(log_id).position is None


def test_a_symbolic_link_is_not_followed(anchor: Anchor, tmp_path: Path) -> None:
    anchor.folder.mkdir()
    (tmp_path / "precious").write_text("precious")
    anchor.head_file(LOG).symlink_to(tmp_path / "precious")

    with pytest.raises(OSError):
        anchor.advance(LOG, 1, digest(1))

    assert (tmp_path / "precious").read_text() == "precious"


def test_a_log_whose_anchor_is_gone_says_which_file_it_misses(
    anchored: SqlEvents, anchor: Anchor, intruder: Intruder
) -> None:
    log_id = intruder.sql("SELECT log_id FROM events_head")[0][0]
    shutil.rmtree(anchor.folder)

    report = anchored.verify()

    ((kind, position, message),) = report.findings
    assert (report.valid, report.anchored, kind, position) == (False, False, "unanchored", None)
    assert str(anchor.folder / f"{log_id}.head") in message
    assert "--anchor FOLDER" in message
    assert "cut off the end" in message


def test_a_log_that_was_anchored_is_not_taken_for_one_that_never_was(
    anchored: SqlEvents, anchor: Anchor, database_url: str
) -> None:
    """Whoever opens it without an anchor is told; with the right folder all is well."""
    with open_database(database_url) as database:
        without = SqlEvents(database)

        assert [finding.kind for finding in without.verify().findings] == ["unanchored"]
        assert without.verify(anchor=anchor).valid


def test_a_damaged_anchor_is_none(anchored: SqlEvents, anchor: Anchor) -> None:
    (file,) = anchor.folder.glob("*.head")
    file.write_bytes(file.read_bytes()[:40])

    assert [finding.kind for finding in anchored.verify().findings] == ["unanchored"]


def test_an_older_anchor_is_still_a_good_one(anchored: SqlEvents, anchor: Anchor, tmp_path: Path) -> None:
    """A copy of the head alone says nothing about what came later."""
    shutil.copytree(anchor.folder, tmp_path / "older", ignore=shutil.ignore_patterns("*.next", "*.database"))
    anchored.write(some_events(21, 30)).result()

    report = anchored.verify(anchor=Anchor(tmp_path / "older"))

    assert (report.valid, report.anchored) == (True, True)


def test_a_log_that_gets_an_anchor_late_is_anchored_from_then_on(
    store: SqlEvents, database_url: str, anchor: Anchor, intruder: Intruder
) -> None:
    with open_database(database_url) as database:
        late = SqlEvents(database, anchor=anchor)
        assert not late.verify().anchored
        late.write(some_events(21, 21)).result()
        assert late.verify().anchored

        intruder.delete(15, 21)
        intruder.set_head(14, intruder.record(14)["digest"])

        assert [finding[:2] for finding in late.verify().findings] == [("truncated", 15)]


async def test_a_folder_that_cannot_be_written_is_told_once_and_loses_no_event(
    database_url: str, tmp_path: Path
) -> None:
    in_the_way = tmp_path / "anchors"
    in_the_way.write_text("")
    with open_database(database_url) as database:
        store = SqlEvents(database, anchor=Anchor(in_the_way))
        log = EventLog(sinks=[store])

        for n in range(3):
            log.append("turn_note", data={"n": n})
            await log.settle()

        (told,) = log.query(kind="sink_failed")
        assert "cannot keep the head of the event log" in told.data["error"]
        assert str(in_the_way) in told.data["error"]
        assert log.lost == 0
        await log.settle()
        assert [e.data.get("n") for e in store.query(kind="turn_note")] == [0, 1, 2]
        # Never anchored, so nothing is missing.
        assert (store.verify().valid, store.verify().anchored) == (True, False)

        in_the_way.unlink()
        log.append("turn_note")
        await log.settle()
        assert store.verify().anchored
        shutil.rmtree(in_the_way)
        in_the_way.write_text("")
        log.append("turn_note")
        await log.settle()
        assert len(log.query(kind="sink_failed")) == 2, "a second outage is told again"


@pytest.mark.parametrize("who", ["the same process", "another process"])
def test_an_anchor_never_vouches_for_a_log_that_was_cut(
    anchored: SqlEvents, anchor: Anchor, intruder: Intruder, database_url: str, who: str
) -> None:
    """Otherwise whoever cuts the end off only has to wait for the next run to grow past it."""
    intruder.sql("DELETE FROM events WHERE position > 8")
    intruder.sql("UPDATE events_head SET position = 8, digest = ?", (intruder.record(8)["digest"],))
    with open_database(database_url) as database:
        writer = anchored if who == "the same process" else SqlEvents(database, anchor=anchor)

        told = writer.write(some_events(30, 60)).result()

        assert "no longer holds the record that was anchored at position 20" in str(told)
        assert not writer.verify().valid
        assert writer.last_position() == 39


def test_what_is_anchored_elsewhere_is_not_dropped_from_here(
    anchored: SqlEvents, database_url: str, tmp_path: Path
) -> None:
    with open_database(database_url) as database:
        stranger = SqlEvents(database, anchor=Anchor(tmp_path / "elsewhere"))

        with pytest.raises(StorageUnavailable, match="anchored elsewhere"):
            stranger.prune(before=2e9)

    assert anchored.verify().valid


def test_a_password_in_the_url_is_no_part_of_the_anchor(postgres_url: str, tmp_path: Path) -> None:
    scheme, _, rest = postgres_url.partition("://")
    user, _, place = rest.rpartition("@")
    secret = f"{scheme}://{user.partition(':')[0]}:secret@{place}"
    anchor = Anchor(tmp_path / "anchors")
    with open_database(secret, create=True) as database:
        SqlEvents(database, anchor=anchor).write(some_events(1, 3))

    with open_database(postgres_url) as database:
        report = SqlEvents(database, anchor=anchor).verify()

    assert (report.valid, report.anchored) == (True, True)
    assert not [each for each in (tmp_path / "anchors").rglob("*") if b"secret" in each.name.encode()]
