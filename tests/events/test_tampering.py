"""Whatever somebody does to the tables by hand is found, and the place is named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placet.events.chain import ChainReport
from placet.events.sql import SqlEvents
from placet.storage.location import open_database
from tests.events.conftest import some_events
from tests.events.intruder import COLUMNS, Intruder


def found(report: ChainReport) -> list[tuple[str, int | None]]:
    assert report.valid is not bool(report.findings)
    for finding in report.findings:
        # Positions are named in words too, for whoever reads only those.
        assert finding.position is None or str(finding.position) in finding.message
    return [(finding.kind, finding.position) for finding in report.findings]


def test_a_log_that_nobody_touched_is_valid(store: SqlEvents) -> None:
    report = store.verify()

    assert (report.valid, report.checked, report.first, report.last) == (True, 20, 1, 20)
    assert (report.findings, report.more, report.anchored, report.dropped) == ([], 0, False, 0)


def test_an_empty_log_is_valid(database_url: str) -> None:
    with open_database(database_url) as database:
        report = SqlEvents(database).verify()

    assert (report.valid, report.checked, report.first, report.last) == (True, 0, None, None)


# Edited


EDITS: list[tuple[str, Any]] = [
    ("kind", "action_succeeded"),
    ("time", 5.0),
    ("run_id", "other"),
    ("proposal_id", None),
    ("action_id", ""),
    ("trace_id", "t 7"),
    ("span_id", "other"),
    ("tenant", "other"),
    ("tool", "other"),
    ("data", '{"n": 8}'),
    ("prev", "0" * 64),
    ("digest", "0" * 64),
]


@pytest.mark.parametrize("position", [1, 7, 20])
def test_an_edited_column_is_found(store: SqlEvents, intruder: Intruder, position: int) -> None:
    for column, value in EDITS:
        before = intruder.record(position)[column]
        intruder.change(position, **{column: value})

        assert found(store.verify()) == [("edited", position)], column
        intruder.change(position, **{column: before})


@pytest.mark.parametrize("position", [1, 7, 19])
def test_an_edited_record_with_a_digest_computed_anew_is_found_by_the_next(
    store: SqlEvents, intruder: Intruder, position: int
) -> None:
    intruder.change(position, data='{"n": 1000}')
    intruder.rehash(position)

    report = store.verify()

    assert found(report) == [("edited", position)]
    assert "removed" in report.findings[0].message, "the other reading must be told"


def test_the_last_record_edited_with_a_digest_computed_anew_is_found_by_the_head(
    store: SqlEvents, intruder: Intruder
) -> None:
    intruder.change(20, data='{"n": 1000}')
    intruder.rehash(20)

    report = store.verify()

    assert found(report) == [("edited", 20)]
    assert "head row" in report.findings[0].message


def test_several_edits_are_all_named(store: SqlEvents, intruder: Intruder) -> None:
    for position in (3, 4, 11):
        intruder.change(position, tenant="other")

    assert found(store.verify()) == [("edited", 3), ("edited", 4), ("edited", 11)]


def test_findings_beyond_twenty_are_counted(database_url: str, intruder: Intruder) -> None:
    with open_database(database_url) as database:
        store = SqlEvents(database)
        store.write(some_events(1, 2_000)).result()
        intruder.sql("UPDATE events SET tenant = 'other' WHERE position <= 1500")

        report = store.verify()

    assert (len(report.findings), report.more) == (20, 1_480)
    assert (report.valid, report.checked) == (False, 2_000)


# Removed


@pytest.mark.parametrize(("first", "last"), [(1, 1), (7, 7), (4, 9), (1, 19)])
def test_removed_records_leave_a_gap(store: SqlEvents, intruder: Intruder, first: int, last: int) -> None:
    intruder.delete(first, last)

    report = store.verify()

    assert found(report) == [("removed", first)]
    assert str(last) in report.findings[0].message


@pytest.mark.parametrize("position", [1, 7, 19])
def test_a_removed_record_is_found_though_later_ones_were_renumbered(
    store: SqlEvents, intruder: Intruder, position: int
) -> None:
    intruder.delete(position, position)
    intruder.renumber(position, by=-1)

    assert found(store.verify()) == [("removed", position)]


def test_a_removed_record_is_found_though_the_head_was_set_back_too(
    store: SqlEvents, intruder: Intruder
) -> None:
    """Nothing tells this from an edited record; both are said."""
    intruder.delete(7, 7)
    intruder.renumber(7, by=-1)
    intruder.sql("UPDATE events_head SET position = 19")

    report = store.verify()

    assert found(report) == [("edited", 6)]
    assert "between the two were removed" in report.findings[0].message


def test_with_an_anchor_a_removed_record_is_told_from_an_edited_one(
    anchored: SqlEvents, intruder: Intruder
) -> None:
    intruder.delete(7, 7)
    intruder.renumber(7, by=-1)
    intruder.sql("UPDATE events_head SET position = 19")

    assert found(anchored.verify()) == [("removed", 7)]


# Inserted


def test_a_record_put_in_with_a_digest_that_fits_is_found(store: SqlEvents, intruder: Intruder) -> None:
    intruder.renumber(8, by=1)
    intruder.insert(
        {**intruder.record(7), "position": 8, "prev": intruder.record(7)["digest"], "run_id": "x"}
    )
    intruder.rehash(8)

    assert found(store.verify()) == [("inserted", 8)]


def test_a_record_put_in_with_a_made_up_digest_is_found(store: SqlEvents, intruder: Intruder) -> None:
    intruder.renumber(8, by=1)
    intruder.insert({**intruder.record(7), "position": 8, "prev": "1" * 64, "digest": "2" * 64})

    assert found(store.verify()) == [("inserted", 8)]


def test_several_records_put_in_are_found_as_one_stretch(store: SqlEvents, intruder: Intruder) -> None:
    intruder.renumber(8, by=3)
    for position in (8, 9, 10):
        intruder.insert({**intruder.record(position - 1), "position": position})
        intruder.change(position, prev=intruder.record(position - 1)["digest"])
        intruder.rehash(position)

    report = store.verify()

    assert found(report) == [("inserted", 8)]
    assert "8 to 10" in report.findings[0].message


@pytest.mark.parametrize("position", [0, -3])
def test_a_record_put_before_the_first_is_found(store: SqlEvents, intruder: Intruder, position: int) -> None:
    intruder.insert({**intruder.record(5), "position": position})

    report = store.verify()

    assert not report.valid
    assert position in {finding.position for finding in report.findings}


def test_a_record_appended_by_hand_is_found_by_the_head(store: SqlEvents, intruder: Intruder) -> None:
    intruder.insert({**intruder.record(20), "position": 21, "prev": intruder.record(20)["digest"]})
    intruder.rehash(21)

    assert found(store.verify()) == [("inserted", 21)]


# Reordered


@pytest.mark.parametrize(("one", "other"), [(5, 12), (1, 20), (3, 17)])
def test_two_records_that_changed_positions_are_both_named(
    store: SqlEvents, intruder: Intruder, one: int, other: int
) -> None:
    intruder.swap(one, other)

    assert found(store.verify()) == [("reordered", one), ("reordered", other)]


@pytest.mark.parametrize("first", [1, 7, 19])
def test_two_neighbours_that_changed_positions_are_found(
    store: SqlEvents, intruder: Intruder, first: int
) -> None:
    intruder.swap(first, first + 1)

    report = store.verify()

    assert [finding.kind for finding in report.findings] == ["reordered"]
    assert report.findings[0].position in (first, first + 1)


def test_contents_that_changed_places_are_found(store: SqlEvents, intruder: Intruder) -> None:
    fifth, twelfth = intruder.record(5), intruder.record(12)
    keys = ("position", "prev", "digest")
    intruder.change(5, **{name: value for name, value in twelfth.items() if name not in keys})
    intruder.change(12, **{name: value for name, value in fifth.items() if name not in keys})

    assert found(store.verify()) == [("reordered", 5), ("reordered", 12)]


def test_a_record_moved_to_the_end_is_found(store: SqlEvents, intruder: Intruder) -> None:
    intruder.sql("UPDATE events SET position = 21 WHERE position = 7")

    report = store.verify()

    assert found(report) == [("reordered", 21)]
    assert "right after the record that is now at 6" in report.findings[0].message


def test_a_position_changed_where_no_order_changes_is_found(store: SqlEvents, intruder: Intruder) -> None:
    intruder.sql("UPDATE events SET position = 25 WHERE position = 20")

    assert found(store.verify()) == [("edited", 25)]


def test_all_positions_shifted_are_found(store: SqlEvents, intruder: Intruder) -> None:
    intruder.renumber(1, by=100)

    report = store.verify()

    assert found(report)[0] == ("edited", 101)


# Cut off, written anew


@pytest.mark.parametrize("last", [19, 12, 0])
def test_records_cut_off_the_end_are_found_by_the_head(
    store: SqlEvents, intruder: Intruder, last: int
) -> None:
    intruder.delete(last + 1, 20)

    assert found(store.verify()) == [("truncated", last + 1)]


@pytest.mark.parametrize("last", [19, 12])
def test_records_cut_off_with_the_head_set_back_are_found_by_the_anchor(
    anchored: SqlEvents, intruder: Intruder, last: int
) -> None:
    intruder.delete(last + 1, 20)
    intruder.set_head(last, intruder.record(last)["digest"])

    report = anchored.verify()

    assert found(report) == [("truncated", last + 1)]
    assert "anchor" in report.findings[0].message


def test_everything_deleted_with_the_head_set_back_is_found_by_the_anchor(
    anchored: SqlEvents, intruder: Intruder
) -> None:
    first = intruder.record(1)["prev"]
    intruder.delete(1, 20)
    intruder.set_head(0, first)

    assert found(anchored.verify()) == [("truncated", 1)]


@pytest.mark.parametrize("position", [1, 7, 20])
def test_everything_after_a_record_written_anew_is_found_by_the_anchor(
    anchored: SqlEvents, intruder: Intruder, position: int
) -> None:
    intruder.change(position, data='{"n": 1000}')
    intruder.rehash_from(position)

    assert found(anchored.verify()) == [("rewritten", 20)]


def test_without_an_anchor_a_log_written_anew_is_not_found_and_the_report_says_that_it_had_none(
    store: SqlEvents, intruder: Intruder
) -> None:
    """The limit of a chain without a key, told and not hidden."""
    intruder.change(7, data='{"n": 1000}')
    intruder.rehash_from(7)

    report = store.verify()

    assert (report.valid, report.anchored) == (True, False)


# The head row


def test_a_deleted_head_row_is_found_and_nothing_is_appended_any_more(
    store: SqlEvents, intruder: Intruder, database_url: str
) -> None:
    intruder.sql("DELETE FROM events_head")

    report = store.verify()

    assert found(report) == [("removed", None)]
    assert report.checked == 20
    with open_database(database_url) as database:
        again = SqlEvents(database)
        with pytest.raises(Exception, match="lost the head of its event log"):
            again.write(some_events(21, 21)).result()
        assert not again.verify().valid, "opening it again must not make it look right"


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ("position = 12", ("inserted", 13)),
        ("position = 25", ("edited", 20)),
        ("digest = 'x'", ("edited", 20)),
        ("position = 12, digest = 'x'", ("edited", 12)),
        ("log_id = '00000000000000000000000000000000'", ("edited", 1)),
        ("log_id = '../../etc/passwd'", ("edited", 1)),
    ],
)
def test_an_edited_head_row_is_found(
    store: SqlEvents, intruder: Intruder, change: str, finding: tuple[str, int]
) -> None:
    if change == "position = 12":
        change += f", digest = '{intruder.record(12)['digest']}'"
    intruder.sql(f"UPDATE events_head SET {change}")

    assert found(store.verify()) == [finding]


# Anything


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_of_one_column_of_one_record_is_found(
    store: SqlEvents, intruder: Intruder, data: st.DataObject
) -> None:
    position = data.draw(st.integers(1, 20))
    column = data.draw(st.sampled_from(COLUMNS))
    before = intruder.record(position)
    text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=70)
    values: dict[str, st.SearchStrategy[Any]] = {
        "position": st.integers(-5, 50).filter(lambda n: not 1 <= n <= 20),
        "time": st.floats(allow_nan=False, allow_infinity=False),
        **dict.fromkeys(("kind", "data", "prev", "digest"), text),
    }
    value = data.draw(values.get(column, st.none() | text).filter(lambda v: v != before[column]))

    intruder.change(position, **{column: value})
    report = store.verify()

    now = value if column == "position" else position
    assert not report.valid
    assert report.findings
    intruder.change(now, **{column: before[column]})
    assert store.verify().valid


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(1, 9)))
def test_any_other_order_is_found(store: SqlEvents, intruder: Intruder, order: list[int]) -> None:
    for position, to in enumerate(order, start=7):
        intruder.sql("UPDATE events SET position = ? WHERE position = ?", (-to - 6, position))
    intruder.sql("UPDATE events SET position = -position WHERE position < 0")

    report = store.verify()

    in_order = order == sorted(order)
    assert report.valid is in_order
    assert {finding.kind for finding in report.findings} <= {"reordered"}
    for position, to in enumerate(order, start=7):
        intruder.sql("UPDATE events SET position = ? WHERE position = ?", (-position, to + 6))
    intruder.sql("UPDATE events SET position = -position WHERE position < 0")
