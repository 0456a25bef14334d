"""Approvals in memory, SQLite and Postgres keep the same promises; those on disk also between processes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from placet.approvals.approval import undecided
from placet.approvals.ledger import ApprovalLedger
from placet.approvals.memory import MemoryApprovals
from placet.approvals.sql import SqlApprovals, has_approvals
from placet.errors import StorageDamaged, UsageError
from placet.storage.location import open_database
from placet.testing import FakeClock
from placet.testing.ledger import START, Check, approval, approval_ledger_suite
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
from placet.approvals.sql import SqlApprovals
from placet.errors import ApprovalDecided
from placet.storage.location import open_database
from placet.testing.ledger import START
url, me, decision = sys.argv[1:]
with open_database(url) as database:
    ledger = SqlApprovals(database, clock=lambda: START)
    print("ready", flush=True)
    for id in map(str.strip, sys.stdin):
        try:
            print(ledger.decide(id, decision, by=me).decided_by, flush=True)
        except ApprovalDecided as refused:
            print("refused, as it was decided by", str(refused).partition(" by ")[2].split()[0], flush=True)
"""


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("other", ["deny", "once"])
def test_of_processes_that_decide_at_once_exactly_one_wins(database_url: str, other: str) -> None:
    """Also if they say the same."""
    with open_database(database_url) as database:
        ledger = SqlApprovals(database, clock=FakeClock(START))
        children = {
            me: start(DECIDER, database_url, me, how) for me, how in (("ann", "once"), ("bob", other))
        }
        assert [hear(child) for child in children.values()] == ["ready", "ready"]

        for number in range(20):
            ledger.request(approval(f"q{number}"))
            for child in children.values():
                tell(child, f"q{number}")
            said = {me: hear(child) for me, child in children.items()}

            stored = ledger.get(f"q{number}")
            assert stored is not None
            winner = str(stored.decided_by)
            assert said.pop(winner) == winner
            assert list(said.values()) == [f"refused, as it was decided by {winner}"]
        for child in children.values():
            child.communicate(timeout=PATIENCE_S)


REVOKER = """
import sys
from placet.approvals.sql import SqlApprovals
from placet.errors import ApprovalDecided
from placet.storage.location import open_database
from placet.testing.ledger import START
url, me = sys.argv[1:]
with open_database(url) as database:
    ledger = SqlApprovals(database, clock=lambda: START)
    print("ready", flush=True)
    for id in map(str.strip, sys.stdin):
        try:
            print(ledger.revoke(id, by=me).revoked_by, flush=True)
        except ApprovalDecided as refused:
            winner = str(refused).partition("revoked by ")[2].split()[0]
            print("refused, as it was revoked by", winner, flush=True)
"""


@pytest.mark.usefixtures("warm")
def test_of_processes_that_revoke_at_once_exactly_one_wins(database_url: str) -> None:
    with open_database(database_url) as database:
        ledger = SqlApprovals(database, clock=FakeClock(START))
        children = {me: start(REVOKER, database_url, me) for me in ("bob", "cy")}
        assert [hear(child) for child in children.values()] == ["ready", "ready"]

        for number in range(40):
            ledger.request(approval(f"q{number}"))
            ledger.decide(f"q{number}", "always", by="ann")
            for child in children.values():
                tell(child, f"q{number}")
            said = {me: hear(child) for me, child in children.items()}

            stored = ledger.get(f"q{number}")
            assert stored is not None
            assert (stored.decision, stored.decided_by) == ("always", "ann")
            winner = str(stored.revoked_by)
            assert said.pop(winner) == winner
            assert list(said.values()) == [f"refused, as it was revoked by {winner}"]
            assert ledger.standing(stored.fingerprint) is None
        for child in children.values():
            child.communicate(timeout=PATIENCE_S)


@pytest.mark.parametrize("ids", [("q1", "q2"), ("q2", "q1")])
def test_of_two_answers_with_one_number_one_stands_and_can_be_revoked(
    database_url: str, ids: tuple[str, str]
) -> None:
    """Two servers' processes can get one number; the other must not stand once the one is revoked."""
    with open_database(database_url) as database:
        ledger = SqlApprovals(database, clock=FakeClock(START))
        for id in ids:
            ledger.request(approval(id, fingerprint="f"))
            ledger.decide(id, "always", by="ann")
        say(database, "UPDATE approvals SET answered = 1")

        (stands,) = ledger.standing_ones()

        assert ledger.standing("f") == stands
        ledger.revoke(stands.id, by="bob")
        assert ledger.standing("f") is None
        assert ledger.standing_ones() == []


OLD_QUESTION = (
    '{"id":"q1","run_id":"r1","action_id":"a1","tool":"fs.remove","parameters":{"p":1},"risk":"destructive",'
    '"reversibility":"irreversible","preview":null,"fingerprint":"f","tenant":null,"folder":null,'
    '"requested_at":1000.0,"expires_at":null,"decision":null,"reason":null,"decided_by":null,"decided_at":null}'
)
"""As the first version of the table's users wrote it."""


def test_what_was_stored_before_there_were_more_fields_can_be_read(database_url: str) -> None:
    with open_database(database_url) as database:
        ledger = SqlApprovals(database, clock=FakeClock(START))
        say(
            database,
            "INSERT INTO approvals (id, run_id, fingerprint, requested_at, asked, decision, decided_at,"
            " answer, answered) VALUES ('q1', 'r1', 'f', 1000.0, ?, 'always', 1001.0, '[\"ann\",\"go\"]', 1)",
            (OLD_QUESTION,),
        )

        found = ledger.standing("f")

        assert found is not None
        assert (found.decision, found.decided_by, found.reason) == ("always", "ann", "go")
        assert (found.reasons, found.tier, found.agent) == ((), None, None)
        assert (found.compensation, found.isolation, found.holds_until) == (None, "none", None)
        assert found.revoked_at is None
        assert ledger.request(undecided(found)) == found
        assert ledger.standing_ones() == [found]
        ended = ledger.revoke("q1", by="bob")
        assert (ended.decided_by, ended.reason, ended.revoked_by) == ("ann", "go", "bob")
        assert ledger.standing("f") is None


def test_whoever_only_reads_can_tell_that_nobody_has_asked(database_url: str) -> None:
    with open_database(database_url) as database:
        say(database, "CREATE TABLE other (n BIGINT)")
        with open_database(database_url, create=False, read_only=True) as reader:
            assert not has_approvals(reader)

            SqlApprovals(database).request(approval())

            assert has_approvals(reader)
            assert SqlApprovals(reader).find("q") == approval()


def test_an_approval_that_somebody_changed_by_hand_is_refused(database_url: str) -> None:
    with open_database(database_url) as database:
        ledger = SqlApprovals(database, clock=FakeClock(START))
        ledger.request(approval())
        say(database, "UPDATE approvals SET asked = '{}'")

        with pytest.raises(StorageDamaged, match="holds an approval that cannot be read"):
            ledger.get("q1")


OLDER = (
    '{"id":"old","run_id":"r1","action_id":"a1","tool":"write_file","parameters":{"path":"a"},"risk":'
    '"destructive","reversibility":"irreversible","preview":null,"compensation":null,"reasons":["why"],"tier":'
    '"sandbox_edit","agent":null,"secret":[],"proposal_id":"p","key":"t-0-0","isolation":"none","fingerprint":'
    '"f","tenant":null,"folder":"/w","requested_at":1000.0,"expires_at":null,"decision":null,"reason":null}'
)
"""As a version wrote it that knew nothing of confinement, recovery and edits."""


def test_a_question_of_an_earlier_version_is_read_and_decided(database_url: str) -> None:
    with open_database(database_url) as database:
        ledger = SqlApprovals(database, clock=FakeClock(START))
        say(database, "DELETE FROM approvals")
        say(
            database,
            "INSERT INTO approvals (id, run_id, fingerprint, requested_at, asked)"
            f" VALUES ('old', 'r1', 'f', 1000.0, '{OLDER}')",
        )

        [found] = ledger.pending()
        assert (found.confinement, found.recovery, found.edit, found.offers_edits) == (
            None,
            None,
            None,
            False,
        )
        with pytest.raises(UsageError):
            ledger.decide("old", "edits", by="ann")
        assert ledger.decide("old", "once", by="ann").decision == "once"
