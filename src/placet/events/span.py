"""Spans: stretches of time, read off the events.

An event names the span it belongs to; the first one opens it, the one that ends an action or a proposal
closes it. Spans are therefore never out of step with the log, and cost nothing until somebody looks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from placet.events.event import Event

SpanStatus = Literal["ok", "error", "unset"]

_CLOSES: dict[str, SpanStatus] = {
    "action_succeeded": "ok",
    "action_failed": "error",
    "action_rejected": "error",
    "policy_violation": "error",
    "action_unknown": "error",
    "action_skipped": "unset",
    "action_canceled": "unset",
}


class Span(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A proposal, or one of its actions, from its first event to its last."""

    name: str
    """`proposal` or `action`."""
    trace_id: str
    span_id: str
    parent_id: str | None = None
    start: float
    run_id: str | None = None
    proposal_id: str | None = None
    action_id: str | None = None
    tool: str | None = None
    end: float | None = None
    """None while it is open."""
    status: SpanStatus = "unset"


def spans_of(events: Iterable[Event]) -> list[Span]:
    """The spans that these events make, in the order in which they began."""
    spans: dict[tuple[str, str], Span] = {}
    root: dict[tuple[str, str | None], str] = {}
    for event in events:
        if event.trace_id is None or event.span_id is None:
            continue
        key = (event.trace_id, event.span_id)
        family = (event.trace_id, event.proposal_id)
        if event.kind == "proposal_received":
            root[family] = event.span_id
        span = spans.get(key)
        if span is None:
            is_root = root.get(family) == event.span_id
            span = spans[key] = Span(
                name="proposal" if is_root else "action",
                trace_id=event.trace_id,
                span_id=event.span_id,
                parent_id=None if is_root else root.get(family),
                start=event.time,
                run_id=event.run_id,
                proposal_id=event.proposal_id,
                action_id=None if is_root else event.action_id,
            )
        if span.tool is None and span.name == "action":
            span.tool = event.data.get("tool")
        if event.kind == "proposal_ended":
            span.end = event.time
            span.status = "ok" if event.data.get("outcome") == "succeeded" else "error"
        elif event.kind in _CLOSES and span.name == "action":
            span.end = event.time
            span.status = _CLOSES[event.kind]
    return list(spans.values())
