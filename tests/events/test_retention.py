"""What is dropped on purpose is no alarm; what somebody drops and calls a segment is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.errors import StorageUnavailable
from placet.events.anchor import Anchor
from placet.events.chain import Segment, seal
from placet.events.event import Event
from placet.events.sql import SqlEvents
from placet.storage.location import open_database
from tests.events.conftest import some_events
from tests.events.intruder import Intruder

# Event n happened at 1000 + n.


def found(store: SqlEvents) -> list[tuple[str, int | None]]:
    return [(finding.kind, finding.position) for finding in store.verify().findings]


def test_a_closed_segment_says_what_was_dropped(store: SqlEvents, intruder: Intruder) -> None:
    digest = intruder.record(8)["digest"]

    dropped = store.prune(before=1009.0)

    assert dropped is not None
    assert (dropped.first, dropped.last, dropped.count, dropped.digest) == (1, 8, 8, digest)
    assert (dropped.first_time, dropped.last_time) == (1001.0, 1008.0)
    assert dropped.closed_at > 1_000_000_000
    assert store.segments() == [dropped]
    assert [event.seq for event in store.query()] == list(range(9, 21))


def test_the_log_verifies_and_goes_on_after_it(anchored: SqlEvents) -> None:
    anchored.prune(before=1009.0)
    anchored.write(some_events(21, 25)).result()
    anchored.prune(before=1016.0)
    anchored.write(some_events(26, 26)).result()

    report = anchored.verify()

    assert (report.valid, report.anchored, report.dropped) == (True, True, 15)
    assert (report.checked, report.first, report.last) == (11, 16, 26)
    assert [(s.first, s.last) for s in anchored.segments()] == [(1, 8), (9, 15)]
    assert anchored.last_position() == 26


def test_nothing_to_drop_is_nothing(store: SqlEvents) -> None:
    assert store.prune(before=1001.0) is None
    assert store.prune(before=0) is None
    assert store.segments() == []


def test_the_newest_event_always_stays(store: SqlEvents) -> None:
    dropped = store.prune(before=9999.0)

    assert dropped is not None
    assert dropped.last == 19
    assert store.prune(before=9999.0) is None
    assert store.verify().valid


def test_an_empty_log_has_nothing_to_drop(database_url: str) -> None:
    with open_database(database_url) as database:
        assert SqlEvents(database).prune(before=9999.0) is None


def test_an_event_that_is_not_older_is_never_dropped(store: SqlEvents) -> None:
    """Clocks of several machines differ: an older event may stand behind a younger one."""
    store.write([Event(1, "turn_note", 1005.0), Event(2, "turn_note", 3000.0)]).result()

    dropped = store.prune(before=1010.0)

    assert dropped is not None
    assert dropped.last == 9
    assert [event.seq for event in store.query(until=1009.0)] == [21]


@pytest.mark.parametrize(
    "change",
    [
        "last_position = 7",
        "first_position = 2",
        "records = 9",
        "digest = 'x'",
        "first_time = 0",
        "last_time = 0",
        "closed_at = 0",
        "seal = 'x'",
    ],
)
def test_an_edited_segment_is_found(store: SqlEvents, intruder: Intruder, change: str) -> None:
    store.prune(before=1009.0)
    intruder.sql(f"UPDATE events_segments SET {change}")

    assert ("edited", 7 if change == "last_position = 7" else 8) in found(store)


def test_a_deleted_segment_is_found(store: SqlEvents, intruder: Intruder) -> None:
    store.prune(before=1005.0)
    store.prune(before=1009.0)
    intruder.sql("DELETE FROM events_segments WHERE first_position = 1")

    assert found(store) == [("removed", 1)]

    intruder.sql("DELETE FROM events_segments")

    assert found(store) == [("removed", 1)]


def test_records_missing_behind_a_segment_are_found(store: SqlEvents, intruder: Intruder) -> None:
    store.prune(before=1009.0)
    intruder.delete(9, 10)

    assert found(store) == [("removed", 9)]


def forge(intruder: Intruder, last: int) -> None:
    """Drop the beginning by hand, and make up a segment that says it was retention."""
    log_id = intruder.sql("SELECT log_id FROM events_head")[0][0]
    made_up = Segment(
        first=1,
        last=last,
        count=last,
        digest=intruder.record(last)["digest"],
        first_time=1001.0,
        last_time=1000.0 + last,
        closed_at=2e9,
    )
    values = (1, last, last, made_up.digest, 1001.0, 1000.0 + last, 2e9, seal(log_id, made_up))
    intruder.sql("INSERT INTO events_segments VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
    intruder.delete(1, last)


def test_a_forged_segment_is_found_by_the_anchor(anchored: SqlEvents, intruder: Intruder) -> None:
    forge(intruder, 8)

    report = anchored.verify()

    assert found(anchored) == [("removed", 1)]
    assert "made up" in report.findings[0].message


def test_a_log_pruned_past_an_old_anchor_is_valid(
    anchored: SqlEvents, anchor: Anchor, intruder: Intruder
) -> None:
    """The head outside lies in what was dropped; the closing of the segment vouches for it."""
    log_id = intruder.sql("SELECT log_id FROM events_head")[0][0]
    old = anchor.head_file(log_id).read_bytes()
    anchored.write(some_events(21, 40)).result()
    anchored.prune(before=1031.0)
    anchor.head_file(log_id).write_bytes(old)

    assert anchored.verify().valid


def test_nothing_is_dropped_if_its_closing_cannot_be_anchored(database_url: str, tmp_path: Path) -> None:
    in_the_way = tmp_path / "anchors"
    in_the_way.write_text("")
    with open_database(database_url) as database:
        store = SqlEvents(database, anchor=Anchor(in_the_way))
        store.write(some_events(1, 20)).result()

        with pytest.raises(StorageUnavailable, match="nothing was dropped"):
            store.prune(before=1009.0)

        assert len(store.query()) == 20
        assert store.segments() == []
        assert store.verify().valid


def test_a_log_can_be_checked_while_it_is_pruned(store: SqlEvents, monkeypatch: pytest.MonkeyPatch) -> None:
    """What disappears during the check, because it was dropped, is no alarm."""
    monkeypatch.setattr("placet.events.sql.PAGE", 4)
    stored = store._stored

    def with_pruning(top: int | None) -> object:
        for number, record in enumerate(stored(top)):
            if number == 2:
                store.prune(before=1012.0)
            yield record

    monkeypatch.setattr(store, "_stored", with_pruning)

    assert store.verify().valid
