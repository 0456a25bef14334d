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
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from placet.approvals.approval import ANSWERS, Approval, Decision, fingerprint, how_decided, how_revoked
from placet.approvals.ledger import ApprovalLedger
from placet.errors import ApprovalDecided, NotJson, UnknownApproval, UsageError
from placet.ir.call_facts import Confinement, FileEdit, Recovery
from placet.testing.checks import at_once, same
from placet.testing.clock import FakeClock
from placet.testing.state_store import AWKWARD

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
        "compensation": {"tool": "fs.restore", "parameters": {"path": "/tmp/x"}},
        "reasons": ("policy 'careful': nothing is removed unasked", "above the tier 'write'"),
        "tier": "full",
        "agent": "tidy",
        "isolation": "container",
        "fingerprint": fingerprint("fs.remove", parameters, folder="/w", tenant="t", policy_version="1"),
        "tenant": "t",
        "folder": "/w",
        "requested_at": START,
        "expires_at": START + 60,
    }
    return Approval(id=id, **{**fields, **changes})


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

    same(ledger.get("q1"), None, "get")
    same(ledger.pending(), [], "pending")
    same(ledger.recent(5), [], "recent")
    same(ledger.standing("f"), None, "standing")
    same(ledger.standing_ones(), [], "those that stand")
    _refuses(lambda: ledger.revoke("q1", by="ann"), UnknownApproval, "an unknown id", "no approval 'q1'")
    _refuses(
        lambda: ledger.decide("q1", "once", by="ann"), UnknownApproval, "an unknown id", "no approval 'q1'"
    )
    _refuses(lambda: ledger.withdraw("q1", "done"), UnknownApproval, "an unknown id", "no approval 'q1'")
    for prefix in ("q1", ""):
        _refuses(partial(ledger.find, prefix), UnknownApproval, "find", "placet approvals list")


def what_was_asked_comes_back_as_it_was(make: MakeLedger) -> None:
    """Unredacted, and with every digit and character: whoever decides must see what will run."""
    ledger = make(FakeClock(START))
    awkward = {f"k{n}": value for n, value in enumerate(AWKWARD)}
    whole = approval(
        parameters=awkward,
        compensation=awkward,
        confinement=Confinement(runs_in="sandbox", isolation="process", by="bubblewrap", hosts=["a.b"]),
        recovery=Recovery(by="git", command="git restore -- x"),
        edit=FileEdit(folder="/tmp", paths=["x"], shows=["path"]),
        offers_edits=True,
    )
    bare = Approval(
        id="q2",
        run_id="r1",
        action_id="a1",
        tool="fs.remove",
        risk="destructive",
        reversibility="irreversible",
        fingerprint="f",
        requested_at=START,
    )

    same(ledger.request(whole), whole, "request")
    same(ledger.request(bare), bare, "request of a bare one")
    same(ledger.get("q1"), whole, "get")
    same(ledger.get("q2"), bare, "get of a bare one")
    same(ledger.pending(), [whole, bare], "pending")


def what_is_not_json_is_refused(make: MakeLedger) -> None:
    ledger = make(FakeClock(START))
    half = "\ud83d"

    bad_ones: dict[str, dict[str, Any]] = {
        "parameters.x[0]": {"parameters": {"x": [math.nan]}},
        "compensation.x": {"compensation": {"x": half}},
        "reasons[1]": {"reasons": ["why", half]},
        "preview": {"preview": half},
        "agent": {"agent": half},
        "recovery.command": {"recovery": Recovery(by="git", command=half)},
    }
    for place, changes in bad_ones.items():
        bad = replace(approval(), **changes)
        _refuses(partial(ledger.request, bad), NotJson, place, place)
    same(ledger.recent(5), [], "after refusals")

    ledger.request(approval())
    _refuses(lambda: ledger.decide("q1", "once", by=half), NotJson, "by", "by")
    _refuses(lambda: ledger.decide("q1", "once", by="ann", reason=half), NotJson, "reason", "reason")
    _refuses(lambda: ledger.withdraw("q1", half), NotJson, "why it is withdrawn", "reason")
    same(ledger.pending(), [approval()], "after more refusals")
    made = ledger.decide("q1", "always", by="ann")
    _refuses(lambda: ledger.revoke("q1", by=half), NotJson, "who revokes", "by")
    _refuses(lambda: ledger.revoke("q1", by="ann", reason=half), NotJson, "why it is revoked", "reason")
    same(ledger.get("q1"), made, "after still more refusals")


def nothing_is_aliased(make: MakeLedger) -> None:
    ledger = make(FakeClock(START))
    given: dict[str, Any] = {"list": [1]}
    reasons = ["why"]
    asks = approval(parameters=given, compensation=given, reasons=reasons, fingerprint="f")

    def change(found: Approval | None) -> None:
        assert found is not None
        found.parameters["list"].append("changed")
        assert found.compensation is not None
        found.compensation["list"].append("changed")

    def check(what: str) -> None:
        found = ledger.get("q1")
        same(found and found.parameters, {"list": [1]}, f"parameters after {what}")
        same(found and found.compensation, {"list": [1]}, f"compensation after {what}")
        same(found and found.reasons, ("why",), f"reasons after {what}")

    returned = ledger.request(asks)
    given["list"].append("changed")
    reasons.append("changed")
    for found in (returned, ledger.get("q1"), ledger.find("q"), *ledger.pending(), *ledger.recent(5)):
        change(found)
    check("changing all that is outside")
    change(ledger.decide("q1", "always", by="ann"))
    change(ledger.standing("f"))
    for found in ledger.standing_ones():
        change(found)
    change(ledger.withdraw("q1", "late"))
    change(ledger.revoke("q1", by="ann"))
    check("changing the answers")


def asking_again_finds_what_is_known(make: MakeLedger) -> None:
    """A run that is resumed asks what it asked before, and hears the answer given meanwhile."""
    ledger = make(FakeClock(START))
    ledger.request(approval())
    same(ledger.request(approval()), approval(), "the same question")
    decided = ledger.decide("q1", "deny", by="ann", reason="no")

    same(ledger.request(approval()), decided, "the same question, decided")
    _refuses(lambda: ledger.request(approval(tool="other")), UsageError, "another question", "id of its own")
    same(ledger.get("q1"), decided, "after all that")


def a_decision_is_not_brought_along(make: MakeLedger) -> None:
    """Else an agent could approve what it asks for."""
    ledger = make(FakeClock(START))

    for brought in (
        {"decision": "always", "decided_by": "me", "decided_at": START},
        {"decision": "withdrawn"},
        {"decided_by": "me"},
        {"holds_until": START + 5},
        {"reason": "because"},
        {"revoked_by": "me"},
        {"revoked_at": START},
        {"revoked_reason": "because"},
    ):
        _refuses(
            partial(ledger.request, approval(**brought)),
            UsageError,
            f"a request with {brought}",
            "comes with a decision",
        )
    same(ledger.get("q1"), None, "after a refusal")


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
        same(made, expected, f"decide {decision}")
        same(ledger.get(f"q{number}"), expected, f"get after {decision}")
    same(ledger.pending(), [], "pending after all are decided")


def what_is_no_decision_is_refused(make: MakeLedger) -> None:
    ledger = make(FakeClock(START))
    ledger.request(approval())

    wrong: list[Any] = ["yes", "", "Once", None, "withdrawn"]
    for word in wrong:
        _refuses(
            partial(ledger.decide, "q1", word, by="ann"),
            UsageError,
            f"the decision {word!r}",
            "once, always, deny",
        )
    same(ledger.pending(), [approval()], "after refusals")


def all_edits_are_allowed_only_where_that_is_offered(make: MakeLedger) -> None:
    ledger = make(FakeClock(START))
    offered = approval("q1", fingerprint="f1", offers_edits=True)
    for question in (offered, approval("q2", fingerprint="f2")):
        ledger.request(question)

    _refuses(
        lambda: ledger.decide("q2", "edits", by="ann"), UsageError, "edits where it is not offered", "'edits'"
    )
    same(ledger.pending(), [offered, approval("q2", fingerprint="f2")], "after a refusal")
    made = ledger.decide("q1", "edits", by="ann")
    same(made.covers_edits, True, "an answer that allows all edits")
    same(ledger.get("q1"), made, "get after edits")
    same(ledger.standing("f1"), None, "standing: it is for one run, not for a fingerprint")
    _refuses(lambda: ledger.decide("q1", "edits", by="bob"), ApprovalDecided, "a second answer")


def what_allows_all_edits_is_revoked_once(make: MakeLedger) -> None:
    clock = FakeClock(START)
    ledger = make(clock)
    ledger.request(approval("older", fingerprint="f"))
    ledger.request(approval("q1", fingerprint="f", offers_edits=True))
    older = ledger.decide("older", "always", by="ann")
    ledger.decide("q1", "edits", by="ann")
    clock.advance(1)

    made = ledger.revoke("q1", by="bob", reason="enough")

    same(made.covers_edits, False, "after revoking")
    same(
        (made.revoked_by, made.revoked_at, made.revoked_reason), ("bob", clock(), "enough"), "who, when, why"
    )
    same(ledger.get("q1"), made, "get after revoking")
    same(ledger.standing("f"), older, "an always about the same")
    _refuses(lambda: ledger.revoke("q1", by="cy"), ApprovalDecided, "revoking twice", "revoked by bob")


def nobody_decides_nothing(make: MakeLedger) -> None:
    ledger = make(FakeClock(START))
    ledger.request(approval())

    for nobody in ("", "  "):
        _refuses(
            partial(ledger.decide, "q1", "once", by=nobody),
            UsageError,
            "a decision by nobody",
            "who decides",
        )
    same(ledger.pending(), [approval()], "after refusals")


def a_decision_is_final(make: MakeLedger) -> None:
    """Also for whoever says the same: two people who both think that they decided are one too many."""
    clock = FakeClock(START)
    ledger = make(clock)
    said: dict[str, tuple[Decision, dict[str, Any]]] = {
        "denied by ann on 1970-01-01 00:16:40 UTC (no)": ("deny", {"reason": "no"}),
        "approved for this one time by ann on 1970-01-01 00:16:40 UTC": ("once", {}),
        "approved for good by ann on 1970-01-01 00:16:40 UTC": ("always", {}),
        "approved until 1970-01-01 00:16:50 UTC by ann": ("always", {"holds_until": START + 10}),
    }
    for number, (words, (decision, more)) in enumerate(said.items()):
        id = f"q{number}"
        clock.now = START
        ledger.request(approval(id))
        made = ledger.decide(id, decision, by="ann", **more)

        for seconds in (5, 1_000):  # In time, and after the time is up.
            clock.advance(seconds)
            for again in ANSWERS:
                _refuses(
                    partial(ledger.decide, id, again, by="bob"),
                    ApprovalDecided,
                    f"{again} after {decision}",
                    f"Approval '{id}' was {words}",
                )
        same(ledger.get(id), made, "after deciding again")


def only_what_was_seen_is_decided(make: MakeLedger) -> None:
    ledger = make(FakeClock(START))
    asked = ledger.request(approval(fingerprint="f1"))

    for other in ("f2", ""):
        _refuses(
            partial(ledger.decide, "q1", "once", by="ann", fingerprint=other),
            ApprovalDecided,
            "a decision about other parameters",
            "other parameters than those you saw",
        )
    same(ledger.get("q1"), asked, "after refusals")

    made = ledger.decide("q1", "once", by="ann", fingerprint="f1")

    same(made.decision, "once", "a decision about these")
    _refuses(
        lambda: ledger.decide("q1", "once", by="bob", fingerprint="f2"),
        ApprovalDecided,
        "a decision about what is decided",
        "approved for this one time by ann",
    )


def a_question_can_be_taken_back(make: MakeLedger) -> None:
    clock = FakeClock(START)
    ledger = make(clock)
    for id in ("q1", "q2", "q3"):
        ledger.request(approval(id, fingerprint="f"))
    clock.advance(1)
    allowed = ledger.decide("q2", "always", by="ann")

    taken = ledger.withdraw("q1", "the run was canceled\0")

    expected = replace(
        approval("q1", fingerprint="f"),
        decision="withdrawn",
        reason="the run was canceled\0",
        decided_at=START + 1,
    )
    same(taken, expected, "withdraw")
    same(ledger.get("q1"), expected, "get after it")
    same([one.id for one in ledger.pending()], ["q3"], "pending after it")
    same(ledger.standing("f"), allowed, "what stands is not touched by it")
    _refuses(
        lambda: ledger.decide("q1", "once", by="ann"),
        ApprovalDecided,
        "deciding what was taken back",
        "was withdrawn by its run on 1970-01-01 00:16:41 UTC (the run was canceled",
    )
    same(ledger.withdraw("q1", "again"), expected, "what was taken back")
    same(ledger.withdraw("q2", "too late"), allowed, "what was decided")
    same(ledger.request(approval("q1", fingerprint="f")), expected, "asking that again")
    clock.advance(1_000)
    same(ledger.withdraw("q3", "nobody came").decision, "withdrawn", "what had expired")


def what_has_expired_cannot_be_decided(make: MakeLedger) -> None:
    clock = FakeClock(START)
    ledger = make(clock)
    ledger.request(approval("q1"))
    ledger.request(approval("q2"))
    ledger.request(approval("q3", expires_at=None))
    clock.advance(59.5)
    made = ledger.decide("q2", "once", by="ann")

    clock.advance(0.5)

    _refuses(
        lambda: ledger.decide("q1", "once", by="ann"),
        ApprovalDecided,
        "too late",
        "'q1' expired on 1970-01-01 00:17:40 UTC",
    )
    same(ledger.get("q1"), approval("q1"), "an expired one stays as it was")
    same(ledger.get("q2"), made, "what was decided in time")
    same([one.id for one in ledger.pending()], ["q3"], "pending")
    same(ledger.decide("q3", "once", by="ann").decision, "once", "one without an end")


def pending_is_chosen_by_run_and_tenant(make: MakeLedger) -> None:
    ledger = make(FakeClock(START))
    ledger.request(approval("q3", run_id="r1", tenant="t1", requested_at=START + 3))
    ledger.request(approval("q2", run_id="r2", tenant="t1", requested_at=START + 2))
    ledger.request(approval("q1", run_id="r1", tenant="t2", requested_at=START + 1))
    ledger.request(approval("q0", run_id="r1", tenant=None, requested_at=START))

    def ids(run: str | None = None, tenant: str | None = None) -> list[str]:
        return [one.id for one in ledger.pending(run=run, tenant=tenant)]

    same(ids(), ["q0", "q1", "q2", "q3"], "all, the oldest first")
    same(ids(run="r1"), ["q0", "q1", "q3"], "of a run")
    same(ids(tenant="t1"), ["q2", "q3"], "of a tenant")
    same(ids(run="r1", tenant="t1"), ["q3"], "of both")
    same(ids(run="r%"), [], "of a run that is a pattern")


def the_newest_come_first_whatever_became_of_them(make: MakeLedger) -> None:
    clock = FakeClock(START)
    ledger = make(clock)
    for number, run in enumerate(("r1", "r2", "r1", "r2", "r1")):
        ledger.request(approval(f"q{number}", run_id=run, requested_at=START + number))
    ledger.request(approval("q40", run_id="r1", requested_at=START + 4))
    ledger.decide("q1", "deny", by="ann")
    ledger.withdraw("q2", "canceled")
    clock.advance(60)

    def ids(limit: int, run: str | None = None) -> list[str]:
        return [one.id for one in ledger.recent(limit, run=run)]

    same(ids(9), ["q40", "q4", "q3", "q2", "q1", "q0"], "all")
    same([one.decision for one in ledger.recent(5)], [None, None, None, "withdrawn", "deny"], "decisions")
    same(ids(2), ["q40", "q4"], "some")
    same(ids(2, run="r2"), ["q3", "q1"], "of a run")
    same(ids(0), [], "none")
    same(ids(-1), [], "less than none")


def the_start_of_an_id_is_enough(make: MakeLedger) -> None:
    ledger = make(FakeClock(START))
    ids = ("ab", "abc", "abd", "é1", "é2x", "A", "%", "_x")
    for id in ids:
        ledger.request(approval(id))

    for start, whole in {"ab": "ab", "abc": "abc", "abd": "abd", "é2": "é2x", "%": "%", "_": "_x"}.items():
        same(ledger.find(start), approval(whole), f"find {start!r}")
    for start in ("x", "", "abcd", "AB", "b", "%b", "__"):
        _refuses(
            partial(ledger.find, start),
            UsageError,
            f"find {start!r}",
            f"no approval '{start}'. See those that wait: placet approvals list",
        )
    _refuses(lambda: ledger.find("é"), UnknownApproval, "find 'é'", "Several approvals begin with 'é'")
    _refuses(lambda: ledger.find("a"), UnknownApproval, "find 'a'", "placet approvals list")
    same(ledger.decide("ab", "once", by="ann").id, "ab", "decide")
    _refuses(
        lambda: ledger.decide("é2", "once", by="ann"), UnknownApproval, "decide by a start", "no approval"
    )


def an_always_holds_until_it_ends(make: MakeLedger) -> None:
    clock = FakeClock(START)
    ledger = make(clock)
    for number in range(4):
        ledger.request(approval(f"q{number}", fingerprint="f", expires_at=None))
    ledger.decide("q0", "always", by="ann")

    made = ledger.decide("q1", "always", by="ann", holds_until=START + 10)

    same(made.holds_until, START + 10, "what is recorded")
    same(ledger.get("q1"), made, "get")
    clock.advance(9.5)
    same(ledger.standing("f"), made, "before it ends")
    clock.advance(0.5)
    same(ledger.standing("f"), None, "when it ends, with an older one behind it")
    again = ledger.decide("q2", "always", by="ann", holds_until=START + 20)
    same(ledger.standing("f"), again, "a later one")
    ledger.decide("q3", "deny", by="ann")
    same(ledger.standing("f"), None, "after a denial")


def what_cannot_hold_so_long_is_refused(make: MakeLedger) -> None:
    ledger = make(FakeClock(START))
    ledger.request(approval())

    decisions: tuple[Decision, ...] = ("once", "deny")
    for decision in decisions:
        _refuses(
            partial(ledger.decide, "q1", decision, by="ann", holds_until=START + 5),
            UsageError,
            f"{decision} until a moment",
            "Only 'always' can hold until",
        )
    for until in (START, START - 1, -math.inf, math.inf, math.nan):
        _refuses(
            partial(ledger.decide, "q1", "always", by="ann", holds_until=until),
            UsageError,
            f"always until {until}",
            "Name a moment to come",
        )
    same(ledger.pending(), [approval()], "after refusals")


def always_stands_for_its_fingerprint_alone(make: MakeLedger) -> None:
    clock = FakeClock(START)
    ledger = make(clock)
    ledger.request(approval("q1", fingerprint="f1"))
    ledger.request(approval("q2", fingerprint="f2"))
    same(ledger.standing("f1"), None, "undecided")

    made = ledger.decide("q1", "always", by="ann")
    ledger.decide("q2", "once", by="ann")

    same(ledger.standing("f1"), made, "always")
    same(ledger.standing("f2"), None, "once")
    same(ledger.standing("f"), None, "unknown")
    clock.advance(1_000_000)
    same(ledger.standing("f1"), made, "long after the question would have expired")


def a_later_denial_ends_an_always(make: MakeLedger) -> None:
    """Also if no time passes between them; and a still later `always` stands again."""
    ledger = make(FakeClock(START))
    for number in range(4):
        ledger.request(approval(f"q{number}", fingerprint="f"))

    ledger.decide("q3", "always", by="ann")
    ledger.decide("q1", "deny", by="ann")
    same(ledger.standing("f"), None, "after a denial")
    ledger.decide("q2", "once", by="ann")
    same(ledger.standing("f"), None, "after a single yes")
    made = ledger.decide("q0", "always", by="ann")
    same(ledger.standing("f"), made, "after another always")


def a_revoked_always_stands_no_longer(make: MakeLedger) -> None:
    """The record says who, when and why, and keeps what was decided before."""
    clock = FakeClock(START)
    ledger = make(clock)
    for number, until in enumerate((None, START + 50)):
        id = f"q{number}"
        ledger.request(approval(id, fingerprint=id))
        made = ledger.decide(id, "always", by="ann", reason="go\0", holds_until=until)
        clock.advance(5)

        ended = ledger.revoke(id, by="bob \0é", reason="left\0")

        expected = replace(made, revoked_by="bob \0é", revoked_at=clock(), revoked_reason="left\0")
        same(ended, expected, "revoke")
        same(ledger.get(id), expected, "get after it")
        same(ledger.standing(id), None, "standing after it")
        same(ledger.request(approval(id, fingerprint=id)), expected, "asking that again")
        same(ledger.withdraw(id, "late"), expected, "withdrawing that")
        _refuses(
            partial(ledger.decide, id, "always", by="ann"),
            ApprovalDecided,
            "deciding what was revoked",
            f"was {how_decided(expected)}, and {how_revoked(expected)}",
        )
    same(ledger.standing_ones(), [], "those that stand")
    ledger.request(approval("q2", fingerprint="q0"))
    again = ledger.decide("q2", "always", by="ann")
    same(ledger.standing("q0"), again, "a later always")
    same(ledger.revoke("q2", by="bob").revoked_reason, None, "revoking without a reason")


def no_older_always_comes_back_when_one_is_revoked(make: MakeLedger) -> None:
    """And the older one cannot be revoked in its place: whoever did so would believe that nothing stands."""
    ledger = make(FakeClock(START))
    for number in range(3):
        ledger.request(approval(f"q{number}", fingerprint="f"))
    older = ledger.decide("q2", "always", by="ann")
    newer = ledger.decide("q1", "always", by="ann")

    _refuses(
        lambda: ledger.revoke("q2", by="bob"),
        ApprovalDecided,
        "revoking the older one",
        "'q1', was approved for good by ann on 1970-01-01 00:16:40 UTC. To end that, revoke 'q1'.",
    )
    same(ledger.standing("f"), newer, "after a refusal")
    ledger.revoke("q1", by="bob")

    same(ledger.standing("f"), None, "standing")
    same(ledger.standing_ones(), [], "those that stand")
    same(ledger.get("q2"), older, "the older one")
    _refuses(
        lambda: ledger.revoke("q2", by="bob"),
        ApprovalDecided,
        "revoking the older one afterwards",
        "'q1', was approved for good by ann on 1970-01-01 00:16:40 UTC, and revoked by bob on",
    )


def only_an_always_that_stands_is_revoked(make: MakeLedger) -> None:
    clock = FakeClock(START)
    ledger = make(clock)
    ids = ("open", "endless", "once", "denied", "taken", "short", "revoked", "ended", "ends")
    for id in ids:
        mark = "f" if id in ("ended", "ends") else id
        ledger.request(approval(id, fingerprint=mark, expires_at=None if id == "endless" else START + 60))
    ledger.decide("once", "once", by="ann")
    ledger.decide("denied", "deny", by="ann", reason="no")
    ledger.withdraw("taken", "canceled")
    ledger.decide("short", "always", by="ann", holds_until=START + 10)
    ledger.decide("revoked", "always", by="ann")
    ledger.revoke("revoked", by="bob", reason="left")
    ledger.decide("ended", "always", by="ann")
    ledger.decide("ends", "deny", by="ann")
    clock.advance(10)
    before = [ledger.get(id) for id in ids]

    at = "on 1970-01-01 00:16:40 UTC"
    said = {
        "open": "'open' is not decided yet. To refuse it: placet approvals deny",
        "endless": "'endless' is not decided yet",
        "once": f"'once' was approved for this one time by ann {at}. There is nothing to revoke.",
        "denied": f"'denied' was denied by ann {at} (no)",
        "taken": f"'taken' was withdrawn by its run {at} (canceled)",
        "short": "'short' ran out on 1970-01-01 00:16:50 UTC. There is nothing to revoke.",
        "revoked": f"'revoked' was approved for good by ann {at}, and revoked by bob {at} (left)",
        "ended": f"'ended' counts no longer: a later one about the same, 'ends', was denied by ann {at}",
    }
    for id, words in said.items():
        _refuses(partial(ledger.revoke, id, by="cy"), ApprovalDecided, f"revoking {id}", words)
    same([ledger.get(id) for id in ids], before, "after refusals")
    clock.advance(50)
    _refuses(lambda: ledger.revoke("open", by="cy"), ApprovalDecided, "an old one", "expired on 1970-01-01")


def nobody_revokes_nothing(make: MakeLedger) -> None:
    ledger = make(FakeClock(START))
    ledger.request(approval("q1", fingerprint="f"))
    made = ledger.decide("q1", "always", by="ann")

    for nobody in ("", "  "):
        _refuses(
            partial(ledger.revoke, "q1", by=nobody),
            UsageError,
            "revoking by nobody",
            "who decides",
        )
    _refuses(lambda: ledger.revoke("q", by="ann"), UnknownApproval, "revoking by a start", "no approval 'q'")
    same(ledger.standing("f"), made, "after refusals")


def those_that_stand_are_listed_the_latest_first(make: MakeLedger) -> None:
    """One for each fingerprint, and in the order in which they were decided, also within one instant."""
    clock = FakeClock(START)
    ledger = make(clock)
    for number, mark in enumerate(("f0", "f1", "f2", "f3", "f4", "f5", "f0", "f5")):
        ledger.request(approval(f"q{number}", fingerprint=mark, requested_at=START + number))
    for id in ("q0", "q5", "q2", "q1"):
        ledger.decide(id, "always", by="ann", holds_until=START + 10 if id == "q2" else None)
    ledger.decide("q3", "once", by="ann")
    newest = ledger.decide("q6", "always", by="ann")

    def ids() -> list[str]:
        return [one.id for one in ledger.standing_ones()]

    same(ledger.standing_ones()[0], newest, "the latest")
    same(ids(), ["q6", "q1", "q2", "q5"], "all")
    ledger.decide("q7", "deny", by="ann")
    same(ids(), ["q6", "q1", "q2"], "after a denial")
    ledger.revoke("q6", by="ann")
    same(ids(), ["q1", "q2"], "after one is revoked, with an older one behind it")
    clock.advance(10)
    same(ids(), ["q1"], "after one ran out")


def of_many_who_revoke_at_once_exactly_one_does(make: MakeLedger) -> None:
    for _ in range(4):
        ledger = make(FakeClock(START))
        ledger.request(approval("q1", fingerprint="f"))
        ledger.decide("q1", "always", by="ann")
        won: list[Approval] = []
        lost: list[ApprovalDecided] = []

        def revoke(
            number: int,
            ledger: ApprovalLedger = ledger,
            won: list[Approval] = won,
            lost: list[ApprovalDecided] = lost,
        ) -> None:
            try:
                won.append(ledger.revoke("q1", by=str(number)))
            except ApprovalDecided as error:
                lost.append(error)

        at_once(8, revoke)

        stored = ledger.get("q1")
        assert stored is not None
        same(won, [stored], "who revoked it")
        same(len(lost), 7, "those who did not")
        for refused in lost:
            same(f"revoked by {stored.revoked_by} on" in str(refused), True, f"'{refused}' says who did")
        same(ledger.standing("f"), None, "what stands")


def of_many_decisions_at_once_exactly_one_counts(make: MakeLedger) -> None:
    """Whatever each of them says; and a run that takes its question back is one of them."""
    for agreed in (False, True, False, True):
        ledger = make(FakeClock(START))
        ledger.request(approval())
        won: list[Approval] = []
        lost: list[ApprovalDecided] = []
        taken: list[Approval] = []

        def decide(
            number: int,
            agreed: bool = agreed,
            ledger: ApprovalLedger = ledger,
            won: list[Approval] = won,
            lost: list[ApprovalDecided] = lost,
            taken: list[Approval] = taken,
        ) -> None:
            decision: Decision = "deny" if number % 2 and not agreed else "always"
            try:
                if number == 7:
                    taken.append(ledger.withdraw("q1", "canceled"))
                else:
                    won.append(ledger.decide("q1", decision, by=str(number)))
            except ApprovalDecided as error:
                lost.append(error)

        at_once(8, decide)

        stored = ledger.get("q1")
        assert stored is not None
        people = 0 if stored.decision == "withdrawn" else 1
        same((len(won), len(lost)), (people, 7 - people), "those who decided, and those who did not")
        for one in (*won, *taken):
            same(one, stored, "what each of them was told")
        for refused in lost:
            same(how_decided(stored) in str(refused), True, f"'{refused}' says what was decided")


approval_ledger_suite: tuple[Check, ...] = (
    an_empty_ledger_holds_nothing,
    what_was_asked_comes_back_as_it_was,
    what_is_not_json_is_refused,
    nothing_is_aliased,
    asking_again_finds_what_is_known,
    a_decision_is_not_brought_along,
    a_decision_is_recorded_with_who_when_and_why,
    what_is_no_decision_is_refused,
    all_edits_are_allowed_only_where_that_is_offered,
    what_allows_all_edits_is_revoked_once,
    nobody_decides_nothing,
    a_decision_is_final,
    only_what_was_seen_is_decided,
    a_question_can_be_taken_back,
    what_has_expired_cannot_be_decided,
    pending_is_chosen_by_run_and_tenant,
    the_newest_come_first_whatever_became_of_them,
    the_start_of_an_id_is_enough,
    always_stands_for_its_fingerprint_alone,
    an_always_holds_until_it_ends,
    what_cannot_hold_so_long_is_refused,
    a_later_denial_ends_an_always,
    a_revoked_always_stands_no_longer,
    no_older_always_comes_back_when_one_is_revoked,
    only_an_always_that_stands_is_revoked,
    nobody_revokes_nothing,
    those_that_stand_are_listed_the_latest_first,
    of_many_who_revoke_at_once_exactly_one_does,
    of_many_decisions_at_once_exactly_one_counts,
)
"""Every promise of `ApprovalLedger`, one check each."""
