"""Approvals in memory, for tests and for runs that end with the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from msgspec.structs import replace

from placet.approvals.approval import (
    Approval,
    Decision,
    apart,
    asked,
    asked_again,
    check_answer,
    check_offered,
    check_person,
    not_standing,
    only_one,
    refusal,
)
from placet.errors import UnknownApproval
from placet.ir.json_value import copy_json


class MemoryApprovals:
    """Approvals of one process, in memory. Safe to use from any thread."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        """Create an empty store.

        Args:
            clock: Returns seconds since the epoch.
        """
        self._clock = clock
        self._asked: dict[str, Approval] = {}
        self._answers: dict[str, Approval] = {}
        """The latest `always` or `deny` by fingerprint, in the order in which they were given."""
        self._lock = threading.Lock()

    def request(self, approval: Approval) -> Approval:
        """Ask."""
        new = asked(approval)
        with self._lock:
            stored = self._asked.setdefault(new.id, new)
        return apart(asked_again(stored, new))

    def get(self, approval: str) -> Approval | None:
        """The approval with that id."""
        stored = self._asked.get(approval)
        return None if stored is None else apart(stored)

    def find(self, prefix: str) -> Approval:
        """The approval whose id is, or begins with, `prefix`."""
        exact = self._asked.get(prefix)
        if exact is not None:
            return apart(exact)
        return apart(
            only_one([one for one in self._newest() if prefix and one.id.startswith(prefix)], prefix)
        )

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
        """Answer."""
        with self._lock:
            now = self._clock()
            check_answer(decision, by=by, reason=reason, holds_until=holds_until, now=now)
            stored = self._stored(approval)
            if not stored.open_at(now) or fingerprint not in (None, stored.fingerprint):
                raise refusal(stored, now=now, fingerprint=fingerprint)
            check_offered(stored, decision)
            made = replace(
                stored,
                decision=decision,
                reason=reason,
                decided_by=by,
                decided_at=now,
                holds_until=holds_until,
            )
            self._asked[approval] = made
            if decision in ("always", "deny"):
                self._answers.pop(made.fingerprint, None)  # To stand last, and not where an older one stood.
                self._answers[made.fingerprint] = made
        return apart(made)

    def withdraw(self, approval: str, reason: str) -> Approval:
        """Take a question back."""
        copy_json(reason, "reason")
        with self._lock:
            stored = self._stored(approval)
            if stored.decision is None:
                stored = replace(stored, decision="withdrawn", reason=reason, decided_at=self._clock())
                self._asked[approval] = stored
        return apart(stored)

    def revoke(self, approval: str, *, by: str, reason: str | None = None) -> Approval:
        """End an `always`, or an `edits`."""
        check_person(by, reason)
        with self._lock:
            now = self._clock()
            stored = self._stored(approval)
            latest = self._answers.get(stored.fingerprint)
            if not stored.covers_edits and (latest is not stored or not stored.stands_at(now)):
                raise not_standing(stored, latest, now=now)
            made = replace(stored, revoked_by=by, revoked_at=now, revoked_reason=reason)
            self._asked[approval] = made
            if latest is stored:
                # It stays the latest answer, so that no older one takes its place.
                self._answers[made.fingerprint] = made
        return apart(made)

    def pending(self, *, run: str | None = None, tenant: str | None = None) -> list[Approval]:
        """Those that can be decided now."""
        now = self._clock()
        found = [
            apart(one)
            for one in list(self._asked.values())
            if one.open_at(now) and run in (None, one.run_id) and tenant in (None, one.tenant)
        ]
        return sorted(found, key=lambda one: (one.requested_at, one.id))

    def recent(self, limit: int, *, run: str | None = None) -> list[Approval]:
        """What was asked last."""
        found = [one for one in self._newest() if run in (None, one.run_id)]
        return [apart(one) for one in found[: max(limit, 0)]]

    def standing(self, fingerprint: str) -> Approval | None:
        """The `always` that is in force."""
        latest = self._answers.get(fingerprint)
        return apart(latest) if latest is not None and latest.stands_at(self._clock()) else None

    def standing_ones(self) -> list[Approval]:
        """Every `always` that is in force."""
        with self._lock:
            now = self._clock()
            return [apart(one) for one in reversed(self._answers.values()) if one.stands_at(now)]

    def _stored(self, approval: str) -> Approval:
        stored = self._asked.get(approval)
        if stored is None:
            raise UnknownApproval(approval)
        return stored

    def _newest(self) -> list[Approval]:
        return sorted(self._asked.values(), key=lambda one: (one.requested_at, one.id), reverse=True)
