"""By what a run is known, whatever its plans are.

Keep true: a run that goes on later has the same id and trace, and the time that it was at work counts.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from placet.errors import UsageError
from placet.events.sink import Tracer
from placet.ir.proposal import new_id
from placet.runtime.scope import Scope, tenant_of
from placet.tools.context import Cancel
from placet.trace_context import TraceContext, current_traceparent, parse_traceparent

if TYPE_CHECKING:
    from placet.runtime.journal import RunRecord


class RunInfo(NamedTuple):
    """What all attempts of one run share."""

    run_id: str
    trace_id: str
    tenant: str | None
    cancel: Cancel | None
    started: float
    """perf_counter() at the start of the run."""
    caller: str | None = None
    leader: str | None = None
    """The agent or assistant that sends the plans, where the run gets them one after the other."""
    deps: Any = None
    """The caller's own objects for tools. Never stored, never logged."""
    parent: str | None = None
    """W3C `traceparent` of whoever began the run."""
    trace: TraceContext | None = None
    """How its spans are exported; `None` if they are not."""


def run_info(
    scope: Scope | None,
    cancel: Cancel | None,
    run_id: str | None = None,
    *,
    record: RunRecord | None = None,
    elapsed_ms: float = 0.0,
    deps: Any = None,
    tracer: Tracer | None = None,
) -> RunInfo:
    """What a run is known by that begins now; or goes on, after it was at work for `elapsed_ms`.

    `record` is how it is recorded if it goes on, and `tracer` who exports its spans.

    Raises:
        UsageError: `run_id` is no name.
    """
    if run_id is not None and (type(run_id) is not str or not run_id):
        raise UsageError(f"run_id is {run_id!r}; name the run with a text, or leave it out.")
    trace_id, parent = (None, None) if record is None else (record.trace_id, record.traceparent)
    own, parent = trace_id or os.urandom(16).hex(), parent or current_traceparent()
    trace = None
    if tracer is not None:
        # What was exported when the run was left cannot be changed any more: it goes on in spans of its own.
        stretch = os.urandom(4).hex() if trace_id is not None else ""
        trace = tracer.trace_run(own, parse_traceparent(parent), stretch)
    return RunInfo(
        run_id or new_id(),
        own,
        tenant_of(scope),
        cancel,
        time.perf_counter() - elapsed_ms / 1000,
        scope.caller_id if scope is not None else None,
        deps=deps,
        parent=parent,
        trace=trace,
    )
