"""A log that was replaced, lost its anchor, or was appended to by somebody else: an alarm until accepted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from placet.events.anchor import Anchor
from placet.events.chain import ChainReport, genesis
from placet.events.sql import SqlEvents
from placet.storage.location import open_database
from tests.events.conftest import some_events
from tests.events.intruder import COLUMNS, Intruder

NEW_ID = "f" * 32


def found(report: ChainReport) -> list[tuple[str, int | None]]:
    return [(finding.kind, finding.position) for finding in report.findings]


def replace_log(intruder: Intruder, *, keep: int) -> None:
    """Drop the newest events, give the log another id, chain it anew, and say that it was never anchored."""
    intruder.sql("DELETE FROM events WHERE position > ?", (keep,))
    intruder.sql("UPDATE events_head SET log_id = ?, anchored = 0", (NEW_ID,))
    intruder.change(1, prev=genesis(NEW_ID))
    intruder.rehash_from(1)


def append(intruder: Intruder) -> int:
    """One more record, as we would have written it, with the head moved on."""
    last = intruder.last()
    record = {**intruder.record(last), "position": last + 1, "prev": intruder.record(last)["digest"]}
    marks = ", ".join("?" for _ in COLUMNS)
    intruder.sql(
        f"INSERT INTO events ({', '.join(COLUMNS)}) VALUES ({marks})", [record[name] for name in COLUMNS]
    )
    intruder.set_head(last + 1, intruder.rehash(last + 1))
    return last + 1


def test_a_log_that_was_replaced_as_a_whole_is_found(anchored: SqlEvents, intruder: Intruder) -> None:
    replace_log(intruder, keep=12)

    report = anchored.verify()

    assert not report.valid
    assert found(report) == [("replaced", None)]


@pytest.mark.parametrize("who", ["the same process", "another process"])
def test_no_writer_vouches_for_a_log_that_was_replaced(
    anchored: SqlEvents, anchor: Anchor, intruder: Intruder, database_url: str, who: str
) -> None:
    replace_log(intruder, keep=12)

    with open_database(database_url) as database:
        writer = anchored if who == "the same process" else SqlEvents(database, anchor=anchor)
        told = writer.write(some_events(30, 31)).result()

        assert isinstance(told, Exception)
        assert found(writer.verify()) == [("replaced", None)]
        assert anchor.read(NEW_ID).position is None


def test_a_person_accepts_a_log_that_was_replaced(
    anchored: SqlEvents, anchor: Anchor, intruder: Intruder, database_url: str
) -> None:
    replace_log(intruder, keep=12)
    with open_database(database_url) as database:
        store = SqlEvents(database, anchor=anchor)

        assert store.accept() == 12

        assert (store.verify().valid, store.verify().anchored) == (True, True)
        assert store.write(some_events(13, 14)).result() is None
        assert store.verify().valid
        replace_log(intruder, keep=3)
        assert not store.verify().valid, "accepted once is not accepted for ever"
    assert NEW_ID in (anchor.folder / "accepted").read_text()


def test_a_lost_anchor_is_an_alarm_until_it_is_accepted(
    anchored: SqlEvents, anchor: Anchor, database_url: str
) -> None:
    shutil.rmtree(anchor.folder)
    with open_database(database_url) as database:
        store = SqlEvents(database, anchor=anchor)

        for n in (30, 31):
            assert isinstance(store.write(some_events(n, n)).result(), Exception)
            assert found(store.verify()) == [("unanchored", None)]

        store.accept()

        assert store.verify().valid
        assert store.write(some_events(32, 32)).result() is None
        assert (store.verify().valid, store.verify().anchored) == (True, True)


def test_a_record_that_somebody_appended_with_a_right_digest_is_found(
    anchored: SqlEvents, intruder: Intruder
) -> None:
    position = append(intruder)

    assert found(anchored.verify()) == [("inserted", position)]


@pytest.mark.parametrize("who", ["the same process", "another process"])
def test_it_is_still_found_when_others_have_written_on(
    anchored: SqlEvents, anchor: Anchor, intruder: Intruder, database_url: str, who: str
) -> None:
    append(intruder)
    append(intruder)
    with open_database(database_url) as database:
        writer = anchored if who == "the same process" else SqlEvents(database, anchor=anchor)

        assert isinstance(writer.write(some_events(30, 34)).result(), Exception)
        writer.write(some_events(35, 36)).result()

        report = writer.verify()
        assert found(report) == [("inserted", 21)]
        writer.accept()
        assert writer.verify().valid


def test_writers_that_share_the_anchor_are_never_taken_for_somebody_else(
    anchored: SqlEvents, anchor: Anchor, database_url: str
) -> None:
    with open_database(database_url) as database:
        other = SqlEvents(database, anchor=anchor)
        for n in range(30, 40):
            writer = anchored if n % 2 else other
            assert writer.write(some_events(n, n)).result() is None
            assert other.verify().valid


def test_a_process_that_died_between_its_commit_and_the_anchor_is_no_stranger(
    anchored: SqlEvents, anchor: Anchor, database_url: str, tmp_path: Path
) -> None:
    (head,) = anchor.folder.glob("*.head")
    before = head.read_bytes()
    anchored.write(some_events(21, 25)).result()
    head.write_bytes(before)

    with open_database(database_url) as database:
        store = SqlEvents(database, anchor=anchor)
        assert store.verify().valid
        assert store.write(some_events(26, 26)).result() is None
        assert store.verify().valid


def test_a_commit_that_was_announced_and_did_not_come_about_leaves_no_room(
    anchored: SqlEvents, anchor: Anchor, intruder: Intruder
) -> None:
    log_id = intruder.sql("SELECT log_id FROM events_head")[0][0]
    anchor.announce(log_id, 21, "a" * 64)

    assert anchored.verify().valid
    append(intruder)

    assert found(anchored.verify()) == [("inserted", 21)]


def test_a_shared_log_may_be_written_by_others_and_not_be_rewritten(
    anchored: SqlEvents, anchor: Anchor, intruder: Intruder, database_url: str
) -> None:
    with open_database(database_url) as database:
        SqlEvents(database).write(some_events(21, 22)).result()
    assert not anchored.verify().valid

    anchored.accept(shared=True)
    with open_database(database_url) as database:
        SqlEvents(database).write(some_events(23, 24)).result()

    assert anchored.verify().valid
    intruder.change(3, tool="other")
    intruder.rehash_from(3)
    assert found(anchored.verify()) == [("rewritten", 22)]


def test_a_break_of_the_chain_cannot_be_accepted(anchored: SqlEvents, intruder: Intruder) -> None:
    intruder.change(5, tool="other")

    anchored.accept()

    assert found(anchored.verify()) == [("edited", 5)]


def test_a_log_that_was_begun_without_an_anchor_is_shared_until_a_person_says_otherwise(
    store: SqlEvents, anchor: Anchor, database_url: str
) -> None:
    with open_database(database_url) as database:
        late = SqlEvents(database, anchor=anchor)
        late.write(some_events(21, 21)).result()
        store.write(some_events(22, 23)).result()

        assert late.write(some_events(24, 24)).result() is None
        assert late.verify().valid

        late.accept()
        store.write(some_events(25, 25)).result()

        assert found(late.verify()) == [("inserted", 25)]
