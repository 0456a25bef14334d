"""Spans: stretches of time, read off the events.

An event names the span it belongs to; the first one opens it, the one that ends an action or a proposal
closes it. Spans are therefore never out of step with the log, and cost nothing until somebody looks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from placet.events.event import Event
from placet.ir.to_dict import ToDict

SpanStatus = Literal["ok", "error", "unset"]
"""How a span ended.

- `ok`: it succeeded.
- `error`: it did not.
- `unset`: it is open.
"""

CLOSES: dict[str, SpanStatus] = {
    "action_succeeded": "ok",
    "action_failed": "error",
    "action_rejected": "error",
    "policy_violation": "error",
    "action_unknown": "error",
    "action_skipped": "unset",
    "action_canceled": "unset",
}


class Span(ToDict, msgspec.Struct, kw_only=True, omit_defaults=True):
    """A proposal, or one of its actions, from its first event to its last."""

    name: str
    """`proposal` or `action`."""
    trace_id: str
    """Id of the trace."""
    span_id: str
    """Id of the span."""
    parent_id: str | None = None
    """Id of the enclosing span."""
    start: float
    """Start in seconds since the epoch."""
    run_id: str | None = None
    """Id of the run."""
    proposal_id: str | None = None
    """Id of the proposal."""
    action_id: str | None = None
    """Id of the action; `None` for a proposal."""
    tool: str | None = None
    """The tool that the action calls."""
    end: float | None = None
    """End in seconds since the epoch; `None` while it is open."""
    status: SpanStatus = "unset"
    """How it ended."""


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
        elif event.kind in CLOSES and span.name == "action":
            span.end = event.time
            span.status = CLOSES[event.kind]
    return list(spans.values())
