"""Races and stale reads between proposals that might run at once."""

from __future__ import annotations

from typing import Any

from placet.ir.codec import encode
from placet.verify import Finding, transaction_check
from tests.verify.plans import Fields, call, claim, plan, read, write


def named(id: str, *actions: Fields) -> Fields:
    return {"id": id, "actions": list(actions)}


def kinds(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.kind, finding.key) for finding in findings]


def test_proposals_that_share_no_key_do_not_disturb_each_other() -> None:
    assert transaction_check([named("p", write("a", "k")), named("q", write("a", "l"))]) == []
    assert transaction_check([named("p", read("a", "k")), named("q", read("a", "k"))]) == []


def test_one_proposal_does_not_race_with_itself() -> None:
    assert transaction_check([named("p", write("a", "k"), write("b", "k"), read("c", "k"))]) == []


def test_two_writers_race() -> None:
    found = transaction_check([named("p", write("a", "k")), named("q", call("b", expected_effects={"k": 1}))])

    assert kinds(found) == [("write_write", "k")]
    assert [(place.proposal_id, place.action_id) for place in found[0].writers] == [("p", "a"), ("q", "b")]
    assert "'a' of 'p'" in found[0].message
    assert "'b' of 'q'" in found[0].message


def test_a_reader_and_a_writer_race() -> None:
    for reader in (
        read("b", "k"),
        claim("b", "k", 1),
        call("b", state_dependencies=["k"]),
        call("b", read_set=["k"]),
    ):
        found = transaction_check([named("p", write("a", "k")), named("q", reader)])

        assert kinds(found) == [("read_write", "k")]
        assert [place.action_id for place in found[0].writers] == ["a"]
        assert [place.action_id for place in found[0].readers] == ["b"]


def test_a_condition_on_a_key_that_another_writes_can_be_stale() -> None:
    for condition in (
        {"preconditions": [{"key": "k", "value": 1}]},
        {"assumptions": [{"key": "k", "read_version": 3}]},
    ):
        found = transaction_check([named("p", write("a", "k")), named("q", call("b", **condition))])

        assert kinds(found) == [("stale_read", "k")]


def test_the_readers_own_proposal_is_not_the_one_that_disturbs_it() -> None:
    found = transaction_check([named("p", write("a", "k"), read("r", "k")), named("q", read("s", "k"))])

    assert [place.action_id for place in found[0].readers] == ["s"]


def test_an_assumption_that_is_untrue_already_is_found_with_a_state() -> None:
    assuming = named("p", call("a", assumptions=[{"key": "k", "expected_value": 1}]))

    assert transaction_check([assuming]) == []
    assert transaction_check([assuming], {"k": 1.0}) == []
    assert kinds(transaction_check([assuming], {"k": 2})) == [("stale_read", "k")]
    assert kinds(transaction_check([assuming], {})) == [("stale_read", "k")]


def test_an_assumption_about_what_the_plan_wrote_before_is_not_judged_by_the_state() -> None:
    document = named("p", write("w", "k", 1), call("a", assumptions=[{"key": "k", "expected_value": 1}]))

    assert transaction_check([document], {"k": 2}) == []


def test_proposals_of_one_id_are_told_apart_by_their_place() -> None:
    found = transaction_check([named("p", write("a", "k")), named("p", write("a", "k"))])

    assert [place.proposal for place in found[0].writers] == [0, 1]


def test_a_key_that_is_not_known_yet_concerns_everybody_and_is_shown_in_words() -> None:
    found = transaction_check(
        [
            named("p", call("t"), write("a", "$t.output")),
            named("q", read("b", "k")),
            named("r", write("c", "l")),
        ]
    )

    assert kinds(found) == [("write_write", "any key"), ("read_write", "any key")]
    assert not any("\0" in finding.message for finding in found)


def test_many_proposals_on_one_key_give_one_finding_of_each_kind() -> None:
    crowd: list[Any] = [
        named(f"p{i}", write("w", "k"), read("r", "k"), call("c", preconditions=[{"key": "k"}]))
        for i in range(2_000)
    ]

    found = transaction_check(crowd)

    assert kinds(found) == [("write_write", "k"), ("read_write", "k"), ("stale_read", "k")]
    assert all(len(finding.message) < 300 for finding in found)


def test_the_same_proposals_give_the_same_bytes() -> None:
    documents = [plan(write("a", "k"), write("b", "l")), plan(read("a", "k"), write("b", "l"))]

    assert encode(transaction_check(documents)) == encode(transaction_check(documents))
