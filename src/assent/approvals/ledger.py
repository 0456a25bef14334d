"""Where approvals are kept, as everyone who asks or answers sees it."""

from __future__ import annotations

from typing import Protocol

from assent.approvals.approval import Approval, Decision


class ApprovalLedger(Protocol):
    """Questions and answers. Implementations pass `assent.testing.ledger.approval_ledger_suite`.

    Promises:
    1. Deciding only records. Whoever owns the run sees it and goes on; nothing runs from here.
    2. An answer is final. Of several given at once, also by several processes, exactly one counts.
    3. What is returned is on disk, and shares nothing with what was handed in.
    4. Parameters come back as they were given: whoever decides must see what will run.
    """

    def request(self, approval: Approval) -> Approval:
        """Ask. Asking the same under the same id again returns what is known, so a resumed run may do so.

        Raises:
            UsageError: it brings a decision, or its id is that of another question.
            NotJson: its parameters hold what JSON cannot carry.
        """
        ...

    def get(self, approval: str) -> Approval | None:
        """The approval with that id."""
        ...

    def decide(self, approval: str, decision: Decision, *, by: str, reason: str | None = None) -> Approval:
        """Answer, and return what is recorded. Giving the same answer again changes nothing.

        Raises:
            ApprovalDecided: it was decided otherwise, or its time is up.
            UsageError: there is no such approval, or no such decision.
        """
        ...

    def pending(self, *, run: str | None = None, tenant: str | None = None) -> list[Approval]:
        """Those that can be decided now, the oldest first; of one run or tenant, or of all."""
        ...

    def standing(self, fingerprint: str) -> Approval | None:
        """The `always` that is in force for a fingerprint: the latest, unless a denial came after it.

        The time in which a question could be answered does not limit how long its answer holds.
        """
        ...
