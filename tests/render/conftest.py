"""Hand-made runs, so that drawing is tested without running anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from placet.events.event import Event

MakeEvents = Callable[..., list[Event]]


@pytest.fixture
def make_events() -> MakeEvents:
    """Events of one run from (kind, action id, data) tuples, a tenth of a second apart."""

    def make(
        *items: tuple[str, str | None, dict[str, Any]], run: str = "run1", proposal: str = "p1"
    ) -> list[Event]:
        return [
            Event(n, kind, 1000 + n / 10, run, proposal, action, "t1", f"s{action}", None, data)
            for n, (kind, action, data) in enumerate(items, start=1)
        ]

    return make


@pytest.fixture
def aborted(make_events: MakeEvents) -> list[Event]:
    """A run with everything in it: a retry, a denial, a skip, an abort, compensations, a rollback."""
    actions = [
        {"id": "look", "type": "tool_call", "tool": "find", "depends_on": []},
        {"id": "book", "type": "tool_call", "tool": "book", "depends_on": ["look"]},
        {"id": "mail", "type": "tool_call", "tool": "mail", "depends_on": ["look"]},
        {"id": "extra", "type": "tool_call", "tool": "luxury", "depends_on": []},
        {"id": "after", "type": "tool_call", "tool": "lounge", "depends_on": ["extra"]},
        {"id": "pay", "type": "tool_call", "tool": "charge", "depends_on": ["book"]},
    ]
    order = [a["id"] for a in actions]
    return make_events(
        ("session_scope", None, {"caller_id": "ada"}),
        (
            "proposal_received",
            None,
            {"source": "planner", "action_count": 6, "actions": actions, "order": order},
        ),
        ("action_validated", "look", {}),
        ("action_executing", "look", {"attempt": 1, "tool": "find"}),
        ("action_retrying", "look", {"attempt": 2, "delay_ms": 100, "error": "busy"}),
        ("action_executing", "look", {"attempt": 2, "tool": "find"}),
        ("action_succeeded", "look", {"duration_ms": 20.0, "tool": "find"}),
        ("action_executing", "book", {"attempt": 1, "tool": "book"}),
        ("action_executing", "mail", {"attempt": 1, "tool": "mail"}),
        ("action_succeeded", "book", {"duration_ms": 30.0, "tool": "book"}),
        ("state_changed", "book", {"changes": {"status": "booked"}}),
        ("action_succeeded", "mail", {"duration_ms": 30.0, "tool": "mail"}),
        ("policy_violation", "extra", {"error": "policy 'modest': no luxury", "tool": "luxury"}),
        ("action_skipped", "after", {"error": "dependency 'extra' was rejected"}),
        ("action_executing", "pay", {"attempt": 1, "tool": "charge"}),
        ("action_failed", "pay", {"error": "card declined", "attempt": 1, "tool": "charge"}),
        ("compensation_started", "book", {"tool": "cancel"}),
        ("action_executing", "book.compensation", {"attempt": 1, "tool": "cancel"}),
        ("action_succeeded", "book.compensation", {"duration_ms": 5.0, "tool": "cancel"}),
        ("compensation_succeeded", "book", {"tool": "cancel"}),
        ("state_snapshot", None, {"state": {"status": "new"}}),
        ("state_rollback", None, {"restored": ["status"], "removed": []}),
        (
            "proposal_ended",
            None,
            {
                "outcome": "aborted",
                "error": "action 'pay' failed: card declined",
                "cost": {"tool_calls": 6, "retries": 1},
                "irreversible": ["mail"],
            },
        ),
    )
