"""The chain itself, without a database: what is hashed, and that nothing but the log as written passes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placet.events.chain import Head, Row, Stored, genesis, link, verify_chain

LOG = "0123456789abcdef" * 2


def row(n: int) -> Row:
    return Row("turn_note", 1000.0 + n, f"r{n}", None, None, None, None, None, None, f'{{"n":{n}}}')


def chain(count: int) -> Iterator[Stored]:
    digest = genesis(LOG)
    for n in range(1, count + 1):
        prev, digest = digest, link(digest, row(n))
        yield n, row(n), prev, digest


def head_of(records: list[Stored]) -> Head:
    return Head(records[-1][0], records[-1][3], LOG, False)


def test_the_form_of_hashing_does_not_change() -> None:
    """Logs that were written must verify for ever: if this fails, the code is wrong and not the test."""
    full = Row("kind", 1.5, "run", "proposal", "action", "trace", "span", "tenant", "tool", '{"é":"\\u0000"}')

    assert genesis(LOG) == "e20721f7f04d11c3179dca28c0fd3d2d1c98b8104b0ccbb8ba6ff9aa926b00db"
    assert link(genesis(LOG), full) == "1f1f392d5cb472ce4d875d0ffd3d0c8004813f334a1d8fbc3c0c0b7255de1b22"
    assert link(genesis(LOG), row(1)) == "1b12303a94b0559590417b6af05ebca8032d6da8c5861a72ce27b798809e626a"


def test_text_cannot_move_from_one_column_to_the_next() -> None:
    moved = [
        row(1)._replace(run_id="ab", proposal_id="c"),
        row(1)._replace(run_id="a", proposal_id="bc"),
        row(1)._replace(run_id="abc"),
        row(1)._replace(proposal_id="abc"),
        row(1)._replace(run_id="abc", proposal_id=""),
        row(1)._replace(run_id='abc","'),
        row(1)._replace(run_id="null"),
        row(1)._replace(run_id=None),
        row(1)._replace(run_id="abc\n"),
        row(1)._replace(data="\n" + row(1).data),
    ]

    assert len({link("0" * 64, each) for each in moved}) == len(moved)


def test_a_long_log_streams_by() -> None:
    records = list(chain(5_000))
    seen = iter(records)

    report = verify_chain(seen, head=head_of(records))

    assert report.valid
    assert report.checked == 5_000


@pytest.mark.parametrize(
    "bad",
    [b"r1", 5, 5.0, True, "\ud800"],
    ids=["a blob", "an integer", "a number", "a truth", "half a surrogate pair"],
)
def test_a_column_of_a_type_that_no_record_has_is_an_edit(bad: Any) -> None:
    records = list(chain(5))
    for changed in (
        (2, records[1][1]._replace(run_id=bad), *records[1][2:]),
        (2, records[1][1]._replace(kind=bad), *records[1][2:]),
        (2, records[1][1]._replace(data=bad), *records[1][2:]),
        (2, records[1][1], bad, records[1][3]),
        (2, records[1][1], records[1][2], bad),
    ):
        report = verify_chain([records[0], changed, *records[2:]], head=head_of(records))

        assert report.findings
        assert report.findings[0].position == 2
        assert report.findings[0].kind == "edited"


def test_a_blob_that_is_encoded_like_a_text_does_not_stand_for_it() -> None:
    digest = link(genesis(LOG), row(1)._replace(run_id="eA=="))
    forged: Any = row(1)._replace(run_id=b"x")

    report = verify_chain([(1, forged, genesis(LOG), digest)], head=Head(1, digest, LOG, False))

    assert [finding.kind for finding in report.findings] == ["edited"]


@pytest.mark.parametrize("position", ["7", None, 7.5, b"7"])
def test_a_position_that_is_no_number_is_an_edit(position: Any) -> None:
    records = list(chain(5))

    report = verify_chain([*records, (position, *records[0][1:])], head=head_of(records))

    assert not report.valid


@st.composite
def misdeeds(draw: st.DrawFn) -> tuple[list[Stored], list[Stored]]:
    """A log, and the same after a few changes of the kinds that people think of."""
    records = list(chain(draw(st.integers(2, 12))))
    now = list(records)
    for _ in range(draw(st.integers(0, 4))):
        if not now:
            break
        one = draw(st.integers(0, len(now) - 1))
        other = draw(st.integers(0, len(now) - 1))
        position, content, prev, digest = now[one]
        match draw(
            st.sampled_from(["edit", "forge", "delete", "swap", "swap contents", "copy", "move", "close"])
        ):
            case "edit":
                now[one] = (position, content._replace(run_id="x"), prev, digest)
            case "forge":
                forged = content._replace(tenant="x")
                now[one] = (position, forged, prev, link(prev, forged))
            case "delete":
                del now[one]
            case "swap":
                now[one], now[other] = (position, *now[other][1:]), (now[other][0], content, prev, digest)
            case "swap contents":
                there = now[other]
                now[one] = (position, there[1], prev, digest)
                now[other] = (there[0], content, there[2], there[3]) if one != other else there
            case "copy":
                now.insert(other, now[one])
            case "move":
                now.insert(other, now.pop(one))
            case "close":
                now = [(n, *record[1:]) for n, record in enumerate(now, start=1)]
    if draw(st.booleans()):
        now = [(n, *record[1:]) for n, record in enumerate(now, start=1)]
    now.sort(key=lambda record: record[0])
    return records, now


@settings(max_examples=400)
@given(logs=misdeeds())
def test_only_the_log_as_it_was_written_passes(logs: tuple[list[Stored], list[Stored]]) -> None:
    written, now = logs

    report = verify_chain(now, head=head_of(written))

    assert report.valid is (now == written)
    assert report.valid is (not report.findings)


@settings(max_examples=150)
@given(logs=misdeeds())
def test_a_head_set_to_the_new_end_hides_only_what_was_cut_off(
    logs: tuple[list[Stored], list[Stored]],
) -> None:
    written, now = logs
    if not now:
        return

    report = verify_chain(now, head=Head(now[-1][0], now[-1][3], LOG, False))

    cut = now == written[: len(now)]
    last_forged = now[:-1] == written[: len(now) - 1] and [now[-1][2]] == [
        w[2] for w in written[len(now) - 1 : len(now)]
    ]
    assert report.valid <= (cut or last_forged)
