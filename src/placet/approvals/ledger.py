"""Where approvals are kept, as everyone who asks or answers sees it."""

from __future__ import annotations

from typing import Protocol

from placet.approvals.approval import Approval, Decision


class ApprovalLedger(Protocol):
    """Questions and answers. Implementations pass `placet.testing.ledger.approval_ledger_suite`.

    Promises:
    1. Deciding only records. Whoever owns the run sees it and goes on; nothing runs from here.
    2. An answer is final. Of several given at once, also by several processes, exactly one counts, and
       everyone else is told so, also those who said the same. Only an `always` and an `edits` can be ended
       later, once, and the record keeps what was decided before.
    3. What is returned is on disk, and shares nothing with what was handed in.
    4. Parameters come back as they were given: whoever decides must see what will run.
    """

    def request(self, approval: Approval) -> Approval:
        """Ask. Asking the same under the same id again returns what is known, so a resumed run may do so.

        Raises:
            UsageError: it brings a decision, or its id is that of another question.
            NotJson: it holds what JSON cannot carry.
        """
        ...

    def get(self, approval: str) -> Approval | None:
        """The approval with that id."""
        ...

    def find(self, prefix: str) -> Approval:
        """The approval whose id is, or begins with, `prefix`.

        Raises:
            UsageError: there is none, or there are several.
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
        """Answer, and return what is recorded.

        Args:
            holds_until: When an `always` ends; without one it holds for good.
            fingerprint: Of what the person saw: the answer is for that and nothing else.

        Raises:
            ApprovalDecided: it was decided or withdrawn before, its time is up, or it is about something
                else than what the person saw.
            UsageError: there is no such approval, no such answer, nobody who gives it, `holds_until` is
                past or not of an `always`, or `edits` is answered to a question that does not offer it.
            NotJson: `by` or `reason` is a text that no encoding can carry.
        """
        ...

    def withdraw(self, approval: str, reason: str) -> Approval:
        """Take a question back, also one whose time is up, and return what is recorded.

        One that was decided or withdrawn before stays as it is. For the run that asked; a person denies.

        Raises:
            UsageError: there is no such approval.
            NotJson: `reason` is a text that no encoding can carry.
        """
        ...

    def revoke(self, approval: str, *, by: str, reason: str | None = None) -> Approval:
        """End an `always` that is in force, or an `edits`, from now on, and return what is recorded.

        The same is asked about again. No older `always` comes back.

        Raises:
            ApprovalDecided: it is neither an `edits` nor an `always` in force: it is open, was decided
                otherwise, ran out, was revoked before, or a later answer about the same took its place.
            UsageError: there is no such approval, or nobody who revokes it.
            NotJson: `by` or `reason` is a text that no encoding can carry.
        """
        ...

    def pending(self, *, run: str | None = None, tenant: str | None = None) -> list[Approval]:
        """Those that can be decided now, the oldest first; of one run or tenant, or of all."""
        ...

    def recent(self, limit: int, *, run: str | None = None) -> list[Approval]:
        """At most `limit` of all, decided or not, what was asked last first; of one run, or of all."""
        ...

    def standing(self, fingerprint: str) -> Approval | None:
        """The `always` that is in force for a fingerprint: the latest, if it has not run out.

        A denial ends it, and so does `revoke`, and whatever ended never brings back an older one. The time in
        which a question could be answered does not limit how long its answer holds.
        """
        ...

    def standing_ones(self) -> list[Approval]:
        """Every `always` that is in force, one for each fingerprint, what was decided last first."""
        ...
