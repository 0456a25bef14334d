"""Where approvals are kept, as everyone who asks or answers sees it."""

from __future__ import annotations

from typing import Protocol

from placet.approvals.approval import Approval, Decision


class ApprovalLedger(Protocol):
    """Protocol of approval stores. Implementations pass `placet.testing.ledger.approval_ledger_suite`.

    Promises:
    1. Deciding only records. The process that owns the run reads the decision and resumes; nothing runs here.
    2. An answer is final. Of several answers given at once, also by several processes, exactly one counts;
       the others get an error. Only an `always` or `edits` can be revoked later, once, and its record keeps
       the original decision.
    3. A returned approval is on disk and shares no mutable value with the argument.
    4. Parameters are returned exactly as they were given.
    """

    def request(self, approval: Approval) -> Approval:
        """Ask a question. Asking the same question again under the same id returns the stored approval, so
        that a resumed run may repeat it.

        Args:
            approval: The question.

        Raises:
            UsageError: it contains a decision, or its id belongs to another question.
            NotJson: it holds a value that is not JSON.
        """
        ...

    def get(self, approval: str) -> Approval | None:
        """Return the approval with an id, or `None`.

        Args:
            approval: Id of the approval.
        """
        ...

    def find(self, prefix: str) -> Approval:
        """Return the approval whose id is, or starts with, a text.

        Args:
            prefix: The id, or its beginning.

        Raises:
            UnknownApproval: there is none, or there are several.
        """
        ...

    def decide(
        self,
        approval: str,
        decision: Decision,
        *,
        by: str,
        reason: str | None = None,
        holds_until: float | None = None,
        fingerprint: str | None = None,
    ) -> Approval:
        """Record the answer and return the approval.

        Args:
            approval: Id of the approval.
            decision: `"once"`, `"always"`, `"edits"` or `"deny"`.
            by: Who decides.
            reason: Why; the model is told.
            holds_until: When an `always` ends, in seconds since the epoch. `None`: it does not end.
            fingerprint: Fingerprint of the approval that the person saw; a different one is refused.

        Raises:
            ApprovalDecided: it was decided or withdrawn before, it has expired, or the fingerprint differs.
            UnknownApproval: there is no such approval.
            UsageError: there is no such decision, `by` is empty, `holds_until` is in the past or given
                without `"always"`, or `edits` answers a question that does not offer it.
            NotJson: `by` or `reason` cannot be encoded.
        """
        ...

    def withdraw(self, approval: str, reason: str) -> Approval:
        """Withdraw a question, even if it has expired. For the run that asked; a person denies.

        A question that was decided or withdrawn before stays as it is.

        Args:
            approval: Id of the approval.
            reason: Why.

        Raises:
            UnknownApproval: there is no such approval.
            NotJson: `reason` cannot be encoded.
        """
        ...

    def revoke(self, approval: str, *, by: str, reason: str | None = None) -> Approval:
        """End an `always` that is in force, or an `edits`. Equal calls need approval again; no older `always`
        comes back.

        Args:
            approval: Id of the approval.
            by: Who revokes it.
            reason: Why.

        Raises:
            ApprovalDecided: it is neither an `edits` nor an `always` that is in force.
            UnknownApproval: there is no such approval.
            UsageError: `by` is empty.
            NotJson: `by` or `reason` cannot be encoded.
        """
        ...

    def pending(self, *, run: str | None = None, tenant: str | None = None) -> list[Approval]:
        """Return the approvals that can be decided now, oldest first.

        Args:
            run: Only those of this run.
            tenant: Only those of this tenant.
        """
        ...

    def recent(self, limit: int, *, run: str | None = None) -> list[Approval]:
        """Return the newest approvals, decided or not, newest first.

        Args:
            limit: Maximum number.
            run: Only those of this run.
        """
        ...

    def standing(self, fingerprint: str) -> Approval | None:
        """Return the `always` that is in force for a fingerprint, or `None`.

        A denial or `revoke` ends it, and no older one comes back. The time in which a question could be
        answered does not limit how long its answer holds.

        Args:
            fingerprint: The fingerprint.
        """
        ...

    def standing_ones(self) -> list[Approval]:
        """Return every `always` that is in force, one for each fingerprint, newest decision first."""
        ...
