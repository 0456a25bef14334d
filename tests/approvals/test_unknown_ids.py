"""An id that names nothing has an error class, a code and the id as a field."""

from __future__ import annotations

import pytest

from placet import MemoryApprovals, MemoryJournal, Runtime, SqlApprovals, SqlJournal, open_database
from placet.approvals.approval import Approval, only_one
from placet.errors import AmbiguousApproval, UnknownApproval, UnknownRun, UsageError


def test_an_unknown_approval_is_told_apart_by_class_and_code() -> None:
    with pytest.raises(UnknownApproval) as raised:
        MemoryApprovals().decide("a1", "once", by="ann")

    assert raised.value.code == "usage.unknown_approval"
    assert raised.value.approval == "a1"
    assert isinstance(raised.value, UsageError)


def test_an_unknown_approval_of_a_database_is_the_same_error(tmp_path: object) -> None:
    ledger = SqlApprovals(open_database(f"{tmp_path}/a.db"))

    for call in (
        lambda: ledger.find("a1"),
        lambda: ledger.revoke("a1", by="ann"),
        lambda: ledger.withdraw("a1", "done"),
    ):
        with pytest.raises(UnknownApproval):
            call()


def test_the_beginning_of_several_ids_has_a_code_of_its_own() -> None:
    found = [
        Approval(
            id=name,
            run_id="r",
            proposal_id="p",
            action_id="a",
            tool="t",
            fingerprint="f",
            risk="read_only",
            reversibility="reversible",
            requested_at=0.0,
        )
        for name in ("abc-1", "abc-2")
    ]

    with pytest.raises(AmbiguousApproval) as raised:
        only_one(found, "abc")

    assert raised.value.code == "usage.ambiguous_approval"
    assert raised.value.several == ["abc-1", "abc-2"]
    assert isinstance(raised.value, UnknownApproval), "a caller that catches that one still does"


@pytest.mark.parametrize("kind", ["memory", "sql"])
async def test_an_unknown_run_carries_its_id(kind: str, tmp_path: object) -> None:
    journal = MemoryJournal() if kind == "memory" else SqlJournal(open_database(f"{tmp_path}/j.db"))

    with pytest.raises(UnknownRun) as raised:
        await Runtime(journal=journal).resume("r1")

    assert (raised.value.code, raised.value.run_id) == ("run.unknown", "r1")
