"""Approvals in memory, for tests and for runs that end with the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from msgspec.structs import replace

from assent.approvals.approval import (
    Approval,
    Decision,
    asked,
    asked_again,
    checked_decision,
    decided_before,
    unknown_approval,
)
from assent.ir.json_value import copy_json


class MemoryApprovals:
    """A ledger for one process. Safe to use from any thread."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._asked: dict[str, Approval] = {}
        self._answers: dict[str, Approval] = {}
        """The latest `always` or `deny` by fingerprint."""
        self._lock = threading.Lock()

    def request(self, approval: Approval) -> Approval:
        """Ask."""
        new = asked(approval)
        with self._lock:
            stored = self._asked.setdefault(new.id, new)
        return _apart(asked_again(stored, new))

    def get(self, approval: str) -> Approval | None:
        """The approval with that id."""
        stored = self._asked.get(approval)
        return None if stored is None else _apart(stored)

    def decide(self, approval: str, decision: Decision, *, by: str, reason: str | None = None) -> Approval:
        """Answer."""
        checked_decision(decision)
        with self._lock:
            stored = self._asked.get(approval)
            if stored is None:
                raise unknown_approval(approval)
            now = self._clock()
            if not stored.open_at(now):
                return _apart(decided_before(stored, decision))
            made = replace(stored, decision=decision, reason=reason, decided_by=by, decided_at=now)
            self._asked[approval] = made
            if decision != "once":
                self._answers[made.fingerprint] = made
        return _apart(made)

    def pending(self, *, run: str | None = None, tenant: str | None = None) -> list[Approval]:
        """Those that can be decided now."""
        now = self._clock()
        found = [
            _apart(one)
            for one in list(self._asked.values())
            if one.open_at(now) and run in (None, one.run_id) and tenant in (None, one.tenant)
        ]
        return sorted(found, key=lambda one: (one.requested_at, one.id))

    def standing(self, fingerprint: str) -> Approval | None:
        """The `always` that is in force."""
        latest = self._answers.get(fingerprint)
        return _apart(latest) if latest is not None and latest.decision == "always" else None


def _apart(approval: Approval) -> Approval:
    return replace(approval, parameters=copy_json(approval.parameters))
