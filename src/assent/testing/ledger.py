"""What every ledger of approvals promises, as checks that any of them can be put through.

A check takes a function that makes an empty ledger with a given clock, and raises AssertionError where a
promise is broken:

    @pytest.mark.parametrize("check", approval_ledger_suite, ids=lambda check: check.__name__)
    def test_my_ledger(check):
        check(lambda clock: MyLedger(clock=clock))

Keep true:
1. A check uses the protocol alone, never what one implementation adds.
2. Each check stands alone, on a ledger of its own.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from assent.approvals.approval import Approval, Decision, fingerprint
from assent.approvals.ledger import ApprovalLedger
from assent.errors import ApprovalDecided, NotJson, UsageError
from assent.testing.clock import FakeClock
from assent.testing.state_store import AWKWARD

MakeLedger = Callable[[Callable[[], float]], ApprovalLedger]
Check = Callable[[MakeLedger], None]

START = 1_000.0


def approval(id: str = "q1", **changes: Any) -> Approval:
    """A question with everything filled in, for tests to change."""
    parameters = changes.pop("parameters", {"path": "/tmp/x", "token": "sk-not-a-secret"})
    fields: dict[str, Any] = {
        "run_id": "r1",
        "action_id": "a1",
        "tool": "fs.remove",
        "parameters": parameters,
        "risk": "destructive",
        "reversibility": "irreversible",
        "preview": "- /tmp/x",
        "fingerprint": fingerprint("fs.remove", parameters, folder="/w", tenant="t", policy_version="1"),
        "tenant": "t",
        "folder": "/w",
        "requested_at": START,
        "expires_at": START + 60,
    }
    return Approval(id=id, **{**fields, **changes})


def _same(actual: object, expected: object, what: str) -> None:
    # repr tells 1 from True and 1.0, which == does not.
    if actual != expected or repr(actual) != repr(expected):
        raise AssertionError(f"{what}: got {actual!r:.300}, expected {expected!r:.300}")


def _refuses(call: Callable[[], object], error: type[Exception], what: str, words: str = "") -> None:
    try:
        call()
    except error as caught:
        if words not in str(caught):
            raise AssertionError(f"{what}: says {caught}, expected '{words}'") from caught
        return
    raise AssertionError(f"{what} was accepted")


def an_empty_ledger_holds_nothing(make: MakeLedger) -> None:
    ledger = make(FakeClock(START))

    _same(ledger.get("q1"), None, "get")
    _same(ledger.pending(), [], "pending")
    _same(ledger.standing("f"), None, "standing")
    _refuses(lambda: ledger.decide("q1", "once", by="ann"), UsageError, "an unknown id", "no approval 'q1'")


def what_was_asked_comes_back_as_it_was(make: MakeLedger) -> None:
    """Unredacted, and with every digit and character: whoever decides must see what will run."""
    ledger = make(FakeClock(START))
    whole = approval(parameters={f"k{n}": value for n, value in enumerate(AWKWARD)})
    bare = approval("q2", preview=None, tenant=None, folder=None, expires_at=None, parameters={})

    _same(ledger.request(whole), whole, "request")
    _same(ledger.request(bare), bare, "request of a bare one")
    _same(ledger.get("q1"), whole, "get")
    _same(ledger.get("q2"), bare, "get of a bare one")
    _same(ledger.pending(), [whole, bare], "pending")


def what_is_not_json_is_refused(make: MakeLedger) -> None:
    ledger = make(FakeClock(START))
    bad = replace(approval(), parameters={"x": [math.nan]})

    _refuses(lambda: ledger.request(bad), NotJson, "NaN", "parameters.x[0]")
    _same(ledger.pending(), [], "pending after a refusal")


def nothing_is_aliased(make: MakeLedger) -> None:
    ledger = make(FakeClock(START))
    given: dict[str, Any] = {"list": [1]}
    returned = ledger.request(approval(parameters=given))

    given["list"].append("changed")
    returned.parameters["list"].append("changed")
    for found in (ledger.get("q1"), *ledger.pending()):
        assert found is not None
        found.parameters["list"].append("changed")

    _same(getattr(ledger.get("q1"), "parameters", None), {"list": [1]}, "after changing all that is outside")


def asking_again_finds_what_is_known(make: MakeLedger) -> None:
    """A run that is resumed asks what it asked before, and hears the answer given meanwhile."""
    ledger = make(FakeClock(START))
    ledger.request(approval())
    _same(ledger.request(approval()), approval(), "the same question")
    decided = ledger.decide("q1", "deny", by="ann", reason="no")

    _same(ledger.request(approval()), decided, "the same question, decided")
    _refuses(lambda: ledger.request(approval(tool="other")), UsageError, "another question", "id of its own")
    _same(ledger.get("q1"), decided, "after all that")


def a_decision_is_not_brought_along(make: MakeLedger) -> None:
    """Else an agent could approve what it asks for."""
    ledger = make(FakeClock(START))

    _refuses(
        lambda: ledger.request(approval(decision="always", decided_by="me", decided_at=START)),
        UsageError,
        "a request with a decision",
    )
    _same(ledger.get("q1"), None, "after a refusal")


def a_decision_is_recorded_with_who_when_and_why(make: MakeLedger) -> None:
    clock = FakeClock(START)
    decisions: tuple[Decision, ...] = ("once", "always", "deny")
    ledger = make(clock)
    for number, decision in enumerate(decisions):
        ledger.request(approval(f"q{number}"))
        clock.advance(1)

        made = ledger.decide(f"q{number}", decision, by="ann \0é", reason="because\0")

        expected = replace(
            approval(f"q{number}"),
            decision=decision,
            decided_by="ann \0é",
            reason="because\0",
            decided_at=clock(),
        )
        _same(made, expected, f"decide {decision}")
        _same(ledger.get(f"q{number}"), expected, f"get after {decision}")
    _same(ledger.pending(), [], "pending after all are decided")


def what_is_no_decision_is_refused(make: MakeLedger) -> None:
    ledger = make(FakeClock(START))
    ledger.request(approval())

    for word in ("yes", "", "Once", None):
        _refuses(
            lambda word=word: ledger.decide("q1", word, by="ann"),  # type: ignore[misc]
            UsageError,
            f"the decision {word!r}",
            "once, always, deny",
        )
    _same(ledger.pending(), [approval()], "after refusals")


def a_decision_is_final(make: MakeLedger) -> None:
    ledger = make(FakeClock(START))
    ledger.request(approval())
    made = ledger.decide("q1", "deny", by="ann", reason="no")

    _refuses(
        lambda: ledger.decide("q1", "once", by="bob"), ApprovalDecided, "another decision", "'deny' by ann"
    )
    _same(ledger.decide("q1", "deny", by="bob", reason="also no"), made, "the same decision again")
    _same(ledger.get("q1"), made, "after deciding again")


def what_has_expired_cannot_be_decided(make: MakeLedger) -> None:
    clock = FakeClock(START)
    ledger = make(clock)
    ledger.request(approval("q1"))
    ledger.request(approval("q2"))
    ledger.request(approval("q3", expires_at=None))
    clock.advance(59.5)
    made = ledger.decide("q2", "once", by="ann")

    clock.advance(0.5)

    _refuses(lambda: ledger.decide("q1", "once", by="ann"), ApprovalDecided, "too late", "has expired")
    _same(ledger.get("q1"), approval("q1"), "an expired one stays as it was")
    _same(ledger.decide("q2", "once", by="ann"), made, "what was decided in time")
    _same([one.id for one in ledger.pending()], ["q3"], "pending")
    _same(ledger.decide("q3", "once", by="ann").decision, "once", "one without an end")


def pending_is_chosen_by_run_and_tenant(make: MakeLedger) -> None:
    ledger = make(FakeClock(START))
    ledger.request(approval("q3", run_id="r1", tenant="t1", requested_at=START + 3))
    ledger.request(approval("q2", run_id="r2", tenant="t1", requested_at=START + 2))
    ledger.request(approval("q1", run_id="r1", tenant="t2", requested_at=START + 1))
    ledger.request(approval("q0", run_id="r1", tenant=None, requested_at=START))

    def ids(run: str | None = None, tenant: str | None = None) -> list[str]:
        return [one.id for one in ledger.pending(run=run, tenant=tenant)]

    _same(ids(), ["q0", "q1", "q2", "q3"], "all, the oldest first")
    _same(ids(run="r1"), ["q0", "q1", "q3"], "of a run")
    _same(ids(tenant="t1"), ["q2", "q3"], "of a tenant")
    _same(ids(run="r1", tenant="t1"), ["q3"], "of both")
    _same(ids(run="r%"), [], "of a run that is a pattern")


def always_stands_for_its_fingerprint_alone(make: MakeLedger) -> None:
    clock = FakeClock(START)
    ledger = make(clock)
    ledger.request(approval("q1", fingerprint="f1"))
    ledger.request(approval("q2", fingerprint="f2"))
    _same(ledger.standing("f1"), None, "undecided")

    made = ledger.decide("q1", "always", by="ann")
    ledger.decide("q2", "once", by="ann")

    _same(ledger.standing("f1"), made, "always")
    _same(ledger.standing("f2"), None, "once")
    _same(ledger.standing("f"), None, "unknown")
    clock.advance(1_000_000)
    _same(ledger.standing("f1"), made, "long after the question would have expired")


def a_later_denial_ends_an_always(make: MakeLedger) -> None:
    """Also if no time passes between them; and a still later `always` stands again."""
    ledger = make(FakeClock(START))
    for number in range(4):
        ledger.request(approval(f"q{number}", fingerprint="f"))

    ledger.decide("q3", "always", by="ann")
    ledger.decide("q1", "deny", by="ann")
    _same(ledger.standing("f"), None, "after a denial")
    ledger.decide("q2", "once", by="ann")
    _same(ledger.standing("f"), None, "after a single yes")
    made = ledger.decide("q0", "always", by="ann")
    _same(ledger.standing("f"), made, "after another always")


def of_many_decisions_at_once_exactly_one_counts(make: MakeLedger) -> None:
    for _ in range(5):
        ledger = make(FakeClock(START))
        ledger.request(approval())
        start = threading.Barrier(8)
        won: list[Approval] = []
        lost: list[ApprovalDecided] = []

        def decide(
            number: int,
            ledger: ApprovalLedger = ledger,
            start: threading.Barrier = start,
            won: list[Approval] = won,
            lost: list[ApprovalDecided] = lost,
        ) -> None:
            decision: Decision = "deny" if number % 2 else "always"
            start.wait()
            try:
                won.append(ledger.decide("q1", decision, by=str(number)))
            except ApprovalDecided as error:
                lost.append(error)

        threads = [threading.Thread(target=decide, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        stored = ledger.get("q1")
        _same((len(won), len(lost)), (4, 4), "those that agree with the outcome, and those that do not")
        for one in won:
            _same(one, stored, "what each of them was told")


approval_ledger_suite: tuple[Check, ...] = (
    an_empty_ledger_holds_nothing,
    what_was_asked_comes_back_as_it_was,
    what_is_not_json_is_refused,
    nothing_is_aliased,
    asking_again_finds_what_is_known,
    a_decision_is_not_brought_along,
    a_decision_is_recorded_with_who_when_and_why,
    what_is_no_decision_is_refused,
    a_decision_is_final,
    what_has_expired_cannot_be_decided,
    pending_is_chosen_by_run_and_tenant,
    always_stands_for_its_fingerprint_alone,
    a_later_denial_ends_an_always,
    of_many_decisions_at_once_exactly_one_counts,
)
"""Every promise of `ApprovalLedger`, one check each."""
