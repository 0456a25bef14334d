"""A question to a person about one action, and the answer.

Keep true:
1. What is shown is what will run: parameters stand here as they are, unredacted and uncut.
2. The fingerprint depends on everything that the answer depends on, and on nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal, get_args

import msgspec

from assent.errors import ApprovalDecided, UsageError
from assent.ir.json_value import JsonValue, canonical_bytes, copy_json
from assent.ir.tool_spec import Reversibility, Risk

Decision = Literal["once", "always", "deny"]
"""This one time; whenever the fingerprint is the same; not at all."""


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """One action that waits for a person, or has been decided by one. Times are seconds since the epoch."""

    id: str
    run_id: str
    action_id: str
    tool: str
    parameters: dict[str, JsonValue] = {}
    risk: Risk
    reversibility: Reversibility
    preview: str | None = None
    """What would change, as a diff or a text for people."""
    fingerprint: str
    """From `fingerprint`: what an `always` is good for."""
    tenant: str | None = None
    folder: str | None = None
    requested_at: float
    expires_at: float | None = None
    """From then on it can no longer be decided. Without one the question stays open."""

    decision: Decision | None = None
    reason: str | None = None
    decided_by: str | None = None
    """A person, as the terminal, API or page knows them."""
    decided_at: float | None = None

    def open_at(self, now: float) -> bool:
        """Whether it can be decided."""
        return self.decision is None and (self.expires_at is None or now < self.expires_at)


def fingerprint(
    tool: str,
    parameters: Mapping[str, JsonValue],
    *,
    folder: str | None,
    tenant: str | None,
    policy_version: str,
) -> str:
    """What makes two calls the same in the eyes of whoever approves them, as SHA-256 in hex.

    The order of keys does not matter; every value does, and so do folder, tenant and the policy's version.

    >>> a = fingerprint("rm", {"p": 1, "q": 2}, folder="/w", tenant=None, policy_version="1")
    >>> a == fingerprint("rm", {"q": 2, "p": 1}, folder="/w", tenant=None, policy_version="1")
    True
    >>> a == fingerprint("rm", {"p": 1, "q": 2}, folder="/", tenant=None, policy_version="1")
    False

    Raises:
        NotJson: the parameters hold what JSON cannot carry.
    """
    parts = [tool, copy_json(dict(parameters), "parameters"), folder, tenant, policy_version]
    # As one JSON list: no two different calls can be spelled alike, whatever their texts hold.
    return hashlib.sha256(canonical_bytes(parts)).hexdigest()


def asked(approval: Approval) -> Approval:
    """The approval as a ledger keeps it: a copy, of JSON alone, that nobody has decided.

    Raises:
        UsageError: it comes with a decision; only `decide` makes one.
        NotJson: its parameters hold what JSON cannot carry.
    """
    if approval.decision is not None or approval.decided_at is not None or approval.decided_by is not None:
        raise UsageError(f"Approval '{approval.id}' comes with a decision. Request it, then decide() it.")
    return msgspec.structs.replace(approval, parameters=copy_json(approval.parameters, "parameters"))


def asked_again(stored: Approval, approval: Approval) -> Approval:
    """The stored one, if the question is the same.

    Raises:
        UsageError: the id is that of another question.
    """
    bare = msgspec.structs.replace(stored, decision=None, reason=None, decided_by=None, decided_at=None)
    if canonical_bytes(bare) != canonical_bytes(approval):
        raise UsageError(
            f"Approval '{approval.id}' asks about something else already. Give it an id of its own."
        )
    return stored


def checked_decision(decision: str) -> None:
    """Returns if there is such a decision.

    Raises:
        UsageError: there is none.
    """
    if decision not in get_args(Decision):
        raise UsageError(f"'{decision}' is no decision. Use one of: {', '.join(get_args(Decision))}.")


def decided_before(stored: Approval, decision: Decision) -> Approval:
    """The stored one, which can no longer be decided, if it says the same.

    Raises:
        ApprovalDecided: it says something else, or its time is up.
    """
    if stored.decision == decision:
        return stored
    if stored.decision is None:
        raise ApprovalDecided(stored.id, "has expired")
    raise ApprovalDecided(stored.id, f"was decided as '{stored.decision}' by {stored.decided_by}")


def unknown_approval(approval: str) -> UsageError:
    """For an id that nobody asked under."""
    return UsageError(f"There is no approval '{approval}'. List those that wait with pending().")
