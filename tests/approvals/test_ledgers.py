"""Approvals in memory, SQLite and Postgres keep the same promises; those on disk also between processes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from assent.approvals.ledger import ApprovalLedger
from assent.approvals.memory import MemoryApprovals
from assent.approvals.sql import SqlApprovals
from assent.errors import StorageDamaged
from assent.storage.location import open_database
from assent.testing import FakeClock
from assent.testing.ledger import START, Check, approval, approval_ledger_suite
from tests.storage.children import PATIENCE_S, hear, say, start, tell


@pytest.mark.parametrize("check", approval_ledger_suite, ids=lambda check: check.__name__)
def test_memory_keeps_the_promise(check: Check) -> None:
    check(lambda clock: MemoryApprovals(clock=clock))


@pytest.mark.parametrize("check", approval_ledger_suite, ids=lambda check: check.__name__)
def test_a_database_keeps_the_promise(check: Check, database_url: str) -> None:
    with open_database(database_url) as database:

        def make(clock: Callable[[], float]) -> ApprovalLedger:
            ledger = SqlApprovals(database, clock=clock)
            say(database, "DELETE FROM approvals")
            return ledger

        check(make)


def test_what_one_process_asks_another_answers(database_url: str) -> None:
    with open_database(database_url) as asking, open_database(database_url) as answering:
        asked, answered = (SqlApprovals(db, clock=FakeClock(START)) for db in (asking, answering))
        asked.request(approval())

        assert answered.pending() == [approval()]
        made = answered.decide("q1", "always", by="ann")

        assert asked.get("q1") == made
        assert asked.standing(approval().fingerprint) == made
        assert asked.pending() == []


DECIDER = """
import sys
from assent.approvals.sql import SqlApprovals
from assent.errors import ApprovalDecided
from assent.storage.location import open_database
from assent.testing.ledger import START
url, me, decision = sys.argv[1:]
with open_database(url) as database:
    ledger = SqlApprovals(database, clock=lambda: START)
    print("ready", flush=True)
    for id in map(str.strip, sys.stdin):
        try:
            print(ledger.decide(id, decision, by=me).decided_by, flush=True)
        except ApprovalDecided:
            print("lost", flush=True)
"""


def test_of_processes_that_decide_at_once_exactly_one_wins(database_url: str) -> None:
    with open_database(database_url) as database:
        ledger = SqlApprovals(database, clock=FakeClock(START))
        children = {
            me: start(DECIDER, database_url, me, how) for me, how in (("ann", "once"), ("bob", "deny"))
        }
        assert [hear(child) for child in children.values()] == ["ready", "ready"]

        for number in range(20):
            ledger.request(approval(f"q{number}"))
            for child in children.values():
                tell(child, f"q{number}")
            said = {me: hear(child) for me, child in children.items()}

            stored = ledger.get(f"q{number}")
            assert stored is not None
            assert sorted(said.values()) == sorted([stored.decided_by, "lost"])
            assert said[str(stored.decided_by)] == stored.decided_by
        for child in children.values():
            child.communicate(timeout=PATIENCE_S)


def test_an_approval_that_somebody_changed_by_hand_is_refused(database_url: str) -> None:
    with open_database(database_url) as database:
        ledger = SqlApprovals(database, clock=FakeClock(START))
        ledger.request(approval())
        say(database, "UPDATE approvals SET asked = '{}'")

        with pytest.raises(StorageDamaged, match="holds an approval that cannot be read"):
            ledger.get("q1")
