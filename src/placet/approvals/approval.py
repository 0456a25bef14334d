"""A question to a person about one action, and the answer.

Keep true:
1. What is shown is what will run: parameters stand here as they are, unredacted and uncut.
2. The fingerprint depends on everything that the answer depends on, and on nothing else.
3. An approval that was stored by an earlier version can still be read: a new field has a default.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Literal, assert_never

import msgspec

from placet.errors import AmbiguousApproval, ApprovalDecided, UnknownApproval, UsageError
from placet.ir.call_facts import Confinement, FileEdit, Recovery
from placet.ir.json_value import JsonValue, canonical_bytes, copy_json
from placet.ir.to_dict import ToDict
from placet.ir.tool_spec import Reversibility, Risk

Decision = Literal["once", "always", "edits", "deny", "withdrawn"]
"""Answer to an approval. A person gives one of the first four.

- `once`: approve this call.
- `always`: approve every call with the same fingerprint.
- `edits`: approve this and every further edit of files in the run, up to the tier `sandbox_edit`.
- `deny`: deny it.
- `withdrawn`: the run has withdrawn its question.
"""

ANSWERS: tuple[Decision, ...] = ("once", "always", "deny", "edits")
"""What a person can say."""

GIVEN: tuple[Decision, ...] = ("once", "always", "edits")
"""Those that let the action run."""

_ANSWER_FIELDS = (
    "decision",
    "reason",
    "decided_by",
    "decided_at",
    "holds_until",
    "revoked_by",
    "revoked_at",
    "revoked_reason",
)


class Approval(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """A question to a person about one action, and the answer. Times are seconds since the epoch."""

    id: str
    """Id of the approval."""
    run_id: str
    """Id of the run that asks."""
    action_id: str
    """Id of the action."""
    tool: str
    """The tool that would be called."""
    parameters: dict[str, JsonValue] = {}
    """Its parameters, complete and unredacted."""
    risk: Risk
    """Declared risk of the tool."""
    reversibility: Reversibility
    """Whether the effect can be undone."""
    preview: str | None = None
    """What would change, as a diff or a text for people; of a file tool a unified diff, without secrets."""
    confinement: Confinement | None = None
    """What is enforced around the call. None where nobody has established that."""
    recovery: Recovery | None = None
    """How the call can be undone. None where nobody has established that."""
    edit: FileEdit | None = None
    """Which files it edits, where it is a call of one of Placet's own file tools."""
    offers_edits: bool = False
    """Whether `edits` can be answered: it edits files, and is asked about because of its tier alone."""
    compensation: dict[str, JsonValue] | None = None
    """The call that would undo the action. The answer covers it, too: it runs without another question."""
    reasons: Sequence[str] = ()
    """Why approval is needed, one sentence each: "policy 'x': ...". Always a tuple."""
    tier: str | None = None
    """Tier of the action, if a posture asks."""
    agent: str | None = None
    """The agent that wants to act."""
    secret: Sequence[str] = ()
    """Names of the parameters that hold secret data."""
    proposal_id: str = ""
    """Id of the proposal."""
    key: str = ""
    """Key of the action in the run; distinguishes actions with the same id in several plans."""
    isolation: str = "none"
    """Protection that keeps the agent from answering its own question; `"none"`: there is none."""
    fingerprint: str
    """Hash of everything that the answer depends on; an `always` covers calls with the same fingerprint."""
    tenant: str | None = None
    """Tenant of the run."""
    folder: str | None = None
    """Working folder; the answer is valid for this folder only."""
    requested_at: float
    """When it was asked."""
    expires_at: float | None = None
    """When it can no longer be answered. `None`: it stays open."""

    decision: Decision | None = None
    """The answer; `None` while it is open."""
    reason: str | None = None
    """Why it was decided so; the model is told."""
    decided_by: str | None = None
    """Who decided, as the terminal or program knows them."""
    decided_at: float | None = None
    """When it was decided."""
    holds_until: float | None = None
    """When an `always` ends. `None`: it does not end."""
    revoked_by: str | None = None
    """Who revoked an `always`. The original decision stays in the record."""
    revoked_at: float | None = None
    """When it was revoked."""
    revoked_reason: str | None = None
    """Why it was revoked."""

    def __post_init__(self) -> None:
        # A decoder makes lists, a caller makes either: one kind, so that two approvals compare.
        msgspec.structs.force_setattr(self, "reasons", tuple(self.reasons))
        msgspec.structs.force_setattr(self, "secret", tuple(self.secret))

    def open_at(self, now: float) -> bool:
        """Return whether it can be decided at a time.

        Args:
            now: Seconds since the epoch.
        """
        return self.decision is None and (self.expires_at is None or now < self.expires_at)

    def stands_at(self, now: float) -> bool:
        """Return whether it is an `always` that is in force at a time.

        Args:
            now: Seconds since the epoch.
        """
        return (
            self.decision == "always"
            and self.revoked_at is None
            and (self.holds_until is None or now < self.holds_until)
        )

    @property
    def covers_edits(self) -> bool:
        """Whether it allows all further edits of files in its run."""
        return self.revoked_at is None and self.decision == "edits"


def fingerprint(
    tool: str,
    parameters: Mapping[str, JsonValue],
    *,
    folder: str | None,
    tenant: str | None,
    policy_version: str,
    compensation: Mapping[str, JsonValue] | None = None,
    isolation: str | None = None,
    agent: Sequence[str | None] = (),
) -> str:
    """What makes two calls the same in the eyes of whoever approves them, as SHA-256 in hex.

    The order of keys does not matter; every value does, and so do folder, tenant, the policy's version and,
    where there are any, the compensation, the `isolation` that is enforced around the call and the `agent`:
    on whose behalf it runs and who proposed it.

    >>> a = fingerprint("rm", {"p": 1, "q": 2}, folder="/w", tenant=None, policy_version="1")
    >>> a == fingerprint("rm", {"q": 2, "p": 1}, folder="/w", tenant=None, policy_version="1")
    True
    >>> a == fingerprint("rm", {"p": 1, "q": 2}, folder="/", tenant=None, policy_version="1")
    False

    Raises:
        NotJson: the parameters or the compensation hold what JSON cannot carry.
    """
    parts = [tool, copy_json(dict(parameters), "parameters"), folder, tenant, policy_version]
    if compensation is not None:
        # Only then: what was approved before there were any must keep its fingerprint.
        parts.append(copy_json(dict(compensation), "compensation"))
    if isolation is not None:
        # What was approved because it is confined is another call where it is not.
        parts.append({"isolation": isolation})
    if any(agent):
        parts.append({"agent": list(agent)})
    # As one JSON list: no two different calls can be spelled alike, whatever their texts hold.
    return hashlib.sha256(canonical_bytes(parts)).hexdigest()


def asked(approval: Approval) -> Approval:
    """The approval as a ledger keeps it: a copy, of JSON alone, that nobody has decided.

    Raises:
        UsageError: it comes with a decision; only `decide` makes one.
        NotJson: it holds what JSON cannot carry.
    """
    if any(getattr(approval, name) is not None for name in _ANSWER_FIELDS):
        raise UsageError(f"Approval '{approval.id}' comes with a decision. Request it, then decide() it.")
    for name in approval.__struct_fields__:
        if isinstance(value := getattr(approval, name), str | tuple):
            copy_json(value, name)
        elif isinstance(value, msgspec.Struct):
            copy_json(msgspec.to_builtins(value), name)
    return apart(approval)


def apart(approval: Approval) -> Approval:
    """A copy that shares nothing with the original that could be changed."""
    return msgspec.structs.replace(
        approval,
        parameters=copy_json(approval.parameters, "parameters"),
        compensation=copy_json(approval.compensation, "compensation"),
    )


def undecided(approval: Approval) -> Approval:
    """The question alone."""
    return msgspec.structs.replace(approval, **dict.fromkeys(_ANSWER_FIELDS))


def asked_again(stored: Approval, approval: Approval) -> Approval:
    """The stored one, if the question is the same.

    Raises:
        UsageError: the id is that of another question.
    """
    if canonical_bytes(undecided(stored)) != canonical_bytes(approval):
        raise UsageError(
            f"Approval '{approval.id}' asks about something else already. Give it an id of its own."
        )
    return stored


def check_answer(
    decision: str, *, by: str, reason: str | None, holds_until: float | None, now: float
) -> None:
    """Returns if a person can say that.

    Raises:
        UsageError: there is no such answer, nobody gives it, or it does not hold as long as it says.
        NotJson: a text that no encoding can carry.
    """
    if decision not in ANSWERS:
        raise UsageError(f"'{decision}' is no decision. Use one of: {', '.join(ANSWERS)}.")
    check_person(by, reason)
    if holds_until is None:
        return
    if decision != "always":
        raise UsageError(f"Only 'always' can hold until a moment. Leave holds_until out of '{decision}'.")
    if not isfinite(holds_until) or holds_until <= now:
        raise UsageError(
            f"An approval cannot hold until {moment(holds_until)}: that has passed. Name a moment to come."
        )


def check_offered(stored: Approval, decision: str) -> None:
    """Returns if that can be answered to this question.

    Raises:
        UsageError: all edits are to be allowed, and it is no question about one, or not about its tier alone.
    """
    if decision == "edits" and not stored.offers_edits:
        raise UsageError(
            f"Approval '{stored.id}' cannot be answered with 'edits': that is for edits of files that need "
            "nothing above sandbox_edit, and that no rule asks about. Use once, always or deny."
        )


def check_person(by: str, reason: str | None) -> None:
    """Returns if that can be kept as who decides and why.

    Raises:
        UsageError: nobody decides.
        NotJson: a text that no encoding can carry.
    """
    if not by.strip():
        raise UsageError("A decision needs a name: say with `by` who decides.")
    copy_json(by, "by")
    copy_json(reason, "reason")


def refusal(stored: Approval, *, now: float, fingerprint: str | None) -> ApprovalDecided:
    """Why an approval cannot be decided now."""
    if stored.decision is not None:
        return ApprovalDecided(stored.id, f"was {_what_became(stored)}")
    if not stored.open_at(now) and stored.expires_at is not None:
        return ApprovalDecided(stored.id, f"expired on {moment(stored.expires_at)}")
    assert fingerprint is not None
    return ApprovalDecided(
        stored.id,
        f"is about other parameters than those you saw: its fingerprint is {stored.fingerprint[:16]}, "
        f"yours is {fingerprint[:16]}",
        fix="Look at it again before you decide: placet approvals show ID",
    )


def not_standing(stored: Approval, latest: Approval | None, *, now: float) -> ApprovalDecided:
    """Why an approval cannot be revoked now. `latest` is the last `always` or denial of its fingerprint."""
    fix = "There is nothing to revoke. See what holds: placet approvals list --standing"
    if stored.decision is None:
        if stored.expires_at is None or stored.open_at(now):
            return ApprovalDecided(
                stored.id, "is not decided yet", fix="To refuse it: placet approvals deny ID --reason TEXT"
            )
        return ApprovalDecided(stored.id, f"expired on {moment(stored.expires_at)}", fix=fix)
    if stored.decision != "always" or stored.revoked_at is not None:
        return ApprovalDecided(stored.id, f"was {_what_became(stored)}", fix=fix)
    if not stored.stands_at(now) and stored.holds_until is not None:
        return ApprovalDecided(stored.id, f"ran out on {moment(stored.holds_until)}", fix=fix)
    assert latest is not None
    # Else whoever revokes the older one would believe that the same is asked about again.
    if latest.stands_at(now):
        fix = f"To end that, revoke '{latest.id}'."
    return ApprovalDecided(
        stored.id,
        f"counts no longer: a later one about the same, '{latest.id}', was {_what_became(latest)}",
        fix=fix,
    )


def how_decided(approval: Approval) -> str:
    """What was decided, by whom and when, in words that go on after "it was"; empty if nothing was.

    >>> asks = {"id": "q", "run_id": "r", "action_id": "a", "tool": "rm", "requested_at": 0.0}
    >>> asks |= {"risk": "destructive", "reversibility": "irreversible", "fingerprint": "f"}
    >>> how_decided(Approval(**asks, decision="deny", decided_by="ann", decided_at=60.0, reason="not now"))
    'denied by ann on 1970-01-01 00:01:00 UTC (not now)'
    """
    match approval.decision:
        case None:
            return ""
        case "once":
            what = "approved for this one time"
        case "always" if approval.holds_until is not None:
            what = f"approved until {moment(approval.holds_until)}"
        case "always":
            what = "approved for good"
        case "edits":
            what = "approved with all further edits of files in its run"
        case "deny":
            what = "denied"
        case "withdrawn":
            what = "withdrawn by its run"
        case _:
            assert_never(approval.decision)
    return what + _signed(approval.decided_by, approval.decided_at, approval.reason)


def how_revoked(approval: Approval) -> str:
    """By whom, when and why it was revoked, in words that go on after "it was"; empty if it was not.

    >>> asks = {"id": "q", "run_id": "r", "action_id": "a", "tool": "rm", "requested_at": 0.0}
    >>> asks |= {"risk": "destructive", "reversibility": "irreversible", "fingerprint": "f"}
    >>> how_revoked(Approval(**asks, decision="always", revoked_by="bob", revoked_at=60.0))
    'revoked by bob on 1970-01-01 00:01:00 UTC'
    """
    if approval.revoked_at is None:
        return ""
    return "revoked" + _signed(approval.revoked_by, approval.revoked_at, approval.revoked_reason)


def _what_became(approval: Approval) -> str:
    revoked = how_revoked(approval)
    return f"{how_decided(approval)}, and {revoked}" if revoked else how_decided(approval)


def _signed(who: str | None, when: float | None, why: str | None) -> str:
    by = f" by {who}" if who is not None else ""
    on = f" on {moment(when)}" if when is not None else ""
    return f"{by}{on} ({why})" if why else f"{by}{on}"


def moment(seconds: float) -> str:
    """A moment for people; never raises, whatever a clock says.

    >>> moment(60.0)
    '1970-01-01 00:01:00 UTC'
    """
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.0f} s after 1970"


def only_one(found: Sequence[Approval], prefix: str) -> Approval:
    """The approval that was found by the start of its id.

    Raises:
        UnknownApproval: there is none.
        AmbiguousApproval: there are several.
    """
    if not found:
        raise UnknownApproval(prefix)
    if len(found) > 1:
        raise AmbiguousApproval(prefix, several=[one.id for one in found])
    return found[0]
