"""Spans of runs, proposals, actions, turns and model calls, read off the events as they come.

Names and attributes are those of the GenAI semantic conventions (`gen_ai.*`); what they have no name for is
`placet.*`.

Keep true:
1. A span is finished once: by the event that ends it, or with what it is a part of.
2. Texts of models, tools and people are attributes only if content is asked for. Ids, names, numbers and
   codes are not content.
3. Nothing here reads a clock: times are those of the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from placet.events.event import Event
from placet.events.schema import (
    ActionExecuting,
    ActionRetrying,
    ApprovalRecorded,
    ApprovalRequested,
    CompensationFailed,
    CompensationStarted,
    CompensationSucceeded,
    ModelAnswered,
    ProposalEnded,
    ProposalReceived,
    RunBegan,
    RunLeft,
    TurnAnswered,
    TurnFailed,
    TurnLoopEnded,
    typed,
)
from placet.events.span import CLOSES, SpanStatus
from placet.trace_context import TraceContext, parse_traceparent

Attribute: TypeAlias = str | int | float | bool | tuple[str, ...]
_PROVIDERS = {"gemini": "gcp.gemini", "google": "gcp.gemini", "mistral": "mistral_ai", "xai": "x_ai"}
"""Names of the conventions, where they are not ours."""
_UNFINISHED = ("waiting", "canceled")
"""Outcomes that are neither a success nor an error: the run can go on."""
_encode = msgspec.json.Encoder().encode


class Moment(msgspec.Struct, frozen=True):
    """Something that happened within a span."""

    name: str
    time: float
    attributes: Mapping[str, Attribute] = {}


class OtelSpan(msgspec.Struct, kw_only=True):
    """A span as it is exported."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str | None
    remote: bool = False
    """Whether the parent is a span of another program."""
    client: bool = False
    """Whether it is a call to another program."""
    start: float
    """Seconds since the epoch."""
    end: float = 0.0
    """Seconds since the epoch."""
    status: SpanStatus = "unset"
    message: str = ""
    """Description of an error; content."""
    attributes: dict[str, Attribute] = {}
    moments: list[Moment] = []
    sampled: bool = True
    """Whether it is sent. One that is not still counts in metrics."""


class _Run:
    """What is open of one run."""

    def __init__(self, trace: TraceContext, span: OtelSpan) -> None:
        self.trace = trace
        self.span = span
        self.turn: OtelSpan | None = None
        self.open: dict[tuple[str, str], OtelSpan] = {}
        """By what it is, and its id in the log."""
        self.proposals: dict[str | None, str] = {}
        """Span of each proposal, in the log."""
        self.ended: set[str] = set()
        """Spans of actions that have ended, in the log, until their proposal has."""
        self.last = span.start
        """Time of the newest event."""
        self._made = 0

    def new_id(self) -> str:
        self._made += 1
        return self.trace.made(f"span {self._made}")

    @property
    def above(self) -> str:
        """What a proposal or a model call belongs to."""
        return (self.turn or self.span).span_id


class SpanTable:
    """Open spans. Fed with events, it returns those that they finish."""

    def __init__(self, *, content: bool = False) -> None:
        """With `content`, texts of models and parameters of calls are attributes."""
        self._content = content
        self._runs: dict[str, _Run] = {}

    def __len__(self) -> int:
        return sum(2 + len(run.open) for run in self._runs.values())

    def add(self, events: Iterable[Event]) -> list[OtelSpan]:
        """Take events, in order; return the spans that they finish."""
        finished: list[OtelSpan] = []
        for event in events:
            if event.trace_id is None:
                continue
            if event.kind == "run_began":
                finished += self._begin(event)
            elif (run := self._runs.get(event.trace_id)) is not None:
                finished += self._next(run, event)
                run.last = event.time
        return finished

    def close(self) -> list[OtelSpan]:
        """Finish what is open: whoever worked on it works no more."""
        finished = [span for run in self._runs.values() for span in self._end(run, run.last)]
        self._runs.clear()
        return finished

    # Runs

    def _begin(self, event: Event) -> list[OtelSpan]:
        said = typed(event)
        assert event.trace_id is not None
        if not isinstance(said, RunBegan):
            return []
        before = self._runs.pop(event.trace_id, None)
        trace = TraceContext(event.trace_id, parse_traceparent(said.parent), said.stretch, said.sampled)
        operation = "invoke_agent" if said.led else "invoke_workflow"
        source = said.source.removeprefix("agent ")
        span = OtelSpan(
            name=f"{operation} {source}".strip(),
            trace_id=trace.trace_id,
            span_id=trace.run_span,
            parent_id=trace.parent.span_id if trace.parent is not None else None,
            remote=trace.parent is not None,
            start=event.time,
            sampled=trace.sampled,
            attributes={"gen_ai.operation.name": operation, **_identity(event)},
        )
        if source:
            span.attributes["gen_ai.agent.name" if said.led else "gen_ai.workflow.name"] = source
        if trace.trace_id != event.trace_id:
            span.attributes["placet.trace.id"] = event.trace_id
        self._runs[event.trace_id] = _Run(trace, span)
        return self._end(before, before.last) if before is not None else []

    def _end(self, run: _Run, at: float) -> list[OtelSpan]:
        return [
            *(_finish(span, at) for span in run.open.values()),
            *self._end_turn(run, at),
            _finish(run.span, at, run.span.status),
        ]

    def _end_turn(self, run: _Run, at: float) -> list[OtelSpan]:
        turn, run.turn = run.turn, None
        return [_finish(turn, at, turn.status)] if turn is not None else []

    # What happens in one

    def _next(self, run: _Run, event: Event) -> list[OtelSpan]:
        if event.span_id is None or event.kind == "model_answered":
            return self._of_run(run, event)
        if event.kind == "proposal_received":
            self._receive(run, event)
            return []
        if event.kind == "proposal_ended":
            return self._end_proposal(run, event)
        if event.kind.startswith("compensation_"):
            return self._compensate(run, event)
        if event.span_id == run.proposals.get(event.proposal_id):
            return []
        return self._of_action(run, event)

    def _of_run(self, run: _Run, event: Event) -> list[OtelSpan]:
        match typed(event):
            case RunLeft(outcome=outcome):
                assert event.trace_id is not None
                del self._runs[event.trace_id]
                if outcome is not None:
                    _judge(run.span, outcome)
                return self._end(run, event.time)
            case TurnAnswered() as said:
                begun = event.time - (said.latency_ms or 0.0) / 1000
                finished = self._end_turn(run, begun)
                self._open_turn(run, event, said.turn, begun, "ok")
                return [*finished, self._chat(run, event, said, run.above)]
            case TurnFailed() as said:
                finished = self._end_turn(run, run.last)
                self._open_turn(run, event, said.turn, run.last, "error")
                chat = self._span(run, "chat", run.above, run.last, event)
                chat.client = True
                chat.attributes |= {
                    "gen_ai.operation.name": "chat",
                    "error.type": said.code or "model_error",
                }
                return [*finished, self._failed(chat, event.time, said.error)]
            case TurnLoopEnded():
                return self._end_turn(run, event.time)
            case ModelAnswered() as said if event.span_id is not None:
                return [self._chat(run, event, said, run.trace.span(event.span_id))]
            case ApprovalRecorded() | ApprovalRequested() as said:
                self._moment(run.span, event, {"placet.approval.id": said.approval})
        return []

    def _open_turn(self, run: _Run, event: Event, number: int, at: float, status: SpanStatus) -> None:
        run.turn = self._span(run, f"turn {number}", run.span.span_id, at, event)
        run.turn.status = status
        run.turn.attributes["placet.turn"] = number

    def _chat(self, run: _Run, event: Event, said: TurnAnswered | ModelAnswered, above: str) -> OtelSpan:
        model = said.chosen or said.model or ""
        provider, _, name = model.rpartition(":")
        name = name or model
        span = self._span(
            run, f"chat {name}".strip(), above, event.time - (said.latency_ms or 0.0) / 1000, event
        )
        span.client = True
        found: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDERS.get(provider, provider) or "_OTHER",
            "gen_ai.request.model": name,
            "gen_ai.response.model": (said.model or "").rpartition(":")[2],
            "gen_ai.response.finish_reasons": (said.stop,) if said.stop else None,
            "gen_ai.usage.input_tokens": said.input_tokens,
            "gen_ai.usage.output_tokens": said.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": said.cached_tokens,
            "placet.cost_usd": said.cost,
        }
        if self._content and isinstance(said, TurnAnswered) and said.text:
            part = {"type": "text", "content": said.text}
            message = {"role": "assistant", "parts": [part], "finish_reason": said.stop or "unknown"}
            found["gen_ai.output.messages"] = _encode([message]).decode()
        span.attributes |= {key: value for key, value in found.items() if value is not None and value != ""}
        return _finish(span, event.time, "ok")

    # Proposals and actions

    def _receive(self, run: _Run, event: Event) -> None:
        assert event.span_id is not None
        said = typed(event)
        span = self._span(run, "proposal", run.above, event.time, event, run.trace.span(event.span_id))
        if isinstance(said, ProposalReceived):
            span.attributes |= {"placet.proposal.source": said.source, "placet.actions": said.action_count}
        run.proposals[event.proposal_id] = event.span_id
        run.open["proposal", event.span_id] = span

    def _end_proposal(self, run: _Run, event: Event) -> list[OtelSpan]:
        assert event.span_id is not None
        prefix = event.span_id[:8]
        left = [key for key in run.open if key[0] != "proposal" and key[1].startswith(prefix)]
        finished = [_finish(run.open.pop(key), event.time) for key in left]
        run.ended = {each for each in run.ended if not each.startswith(prefix)}
        run.proposals.pop(event.proposal_id, None)
        span = run.open.pop(("proposal", event.span_id), None)
        said = typed(event)
        if span is None:
            # Begun before the run was resumed here.
            span = self._span(run, "proposal", run.above, run.last, event, run.trace.span(event.span_id))
        if isinstance(said, ProposalEnded):
            _judge(span, said.outcome)
            if said.error:
                self._describe(span, said.error)
        return [*finished, _finish(span, event.time, span.status)]

    def _of_action(self, run: _Run, event: Event) -> list[OtelSpan]:
        assert event.span_id is not None
        said = typed(event)
        if event.span_id in run.ended:
            return []  # A failure that is tolerated is told twice: as one, and as skipped.
        span = run.open.get(("action", event.span_id))
        if span is None:
            above = run.proposals.get(event.proposal_id)
            parent = run.trace.span(above) if above is not None else run.above
            span = self._span(run, "action", parent, event.time, event, run.trace.span(event.span_id))
            if event.action_id is not None:
                span.attributes["gen_ai.tool.call.id"] = event.action_id
            run.open["action", event.span_id] = span
        if isinstance(tool := event.data.get("tool"), str):
            _name_tool(span, tool)
        match said:
            case ActionExecuting():
                if self._content and said.parameters is not None:
                    span.attributes["gen_ai.tool.call.arguments"] = _encode(said.parameters).decode()
            case ActionRetrying():
                self._moment(span, event, {"placet.attempt": said.attempt}, said.error)
            case ApprovalRequested() | ApprovalRecorded():
                self._moment(span, event, {"placet.approval.id": said.approval})
        status = CLOSES.get(event.kind)
        if status is None:
            return []
        del run.open["action", event.span_id]
        run.ended.add(event.span_id)
        if status != "error":
            return [_finish(span, event.time, status)]
        span.attributes["error.type"] = event.kind
        return [self._failed(span, event.time, str(event.data.get("error") or ""))]

    def _compensate(self, run: _Run, event: Event) -> list[OtelSpan]:
        assert event.span_id is not None
        said = typed(event)
        key = ("compensation", f"{event.span_id} {event.action_id}")
        span = run.open.pop(key, None)
        if span is None:
            span = self._span(run, "compensation", run.trace.span(event.span_id), event.time, event)
            span.attributes |= {"placet.compensation": True, "gen_ai.tool.call.id": event.action_id or ""}
        match said:
            case CompensationStarted():
                if said.tool:
                    _name_tool(span, said.tool)
                run.open[key] = span
                return []
            case CompensationSucceeded():
                return [_finish(span, event.time, "ok")]
            case CompensationFailed():
                span.attributes["error.type"] = event.kind
                return [self._failed(span, event.time, said.error)]
        return []

    # Spans

    def _span(
        self, run: _Run, name: str, above: str, at: float, event: Event, span_id: str | None = None
    ) -> OtelSpan:
        return OtelSpan(
            name=name,
            trace_id=run.trace.trace_id,
            span_id=span_id or run.new_id(),
            parent_id=above,
            start=at,
            sampled=run.trace.sampled,
            attributes=_identity(event),
        )

    def _failed(self, span: OtelSpan, at: float, error: str) -> OtelSpan:
        self._describe(span, error)
        return _finish(span, at, "error")

    def _describe(self, span: OtelSpan, error: str) -> None:
        if self._content:
            span.message = error

    def _moment(
        self, span: OtelSpan, event: Event, attributes: dict[str, Attribute], error: str | None = None
    ) -> None:
        if self._content and error:
            attributes["exception.message"] = error
        span.moments = [*span.moments, Moment(event.kind, event.time, attributes)]


def _identity(event: Event) -> dict[str, Attribute]:
    found = {
        "placet.run.id": event.run_id,
        "gen_ai.conversation.id": event.run_id,
        "placet.proposal.id": event.proposal_id,
        "placet.tenant": event.tenant,
    }
    return {name: value for name, value in found.items() if value is not None}


def _name_tool(span: OtelSpan, tool: str) -> None:
    span.name = f"execute_tool {tool}"
    span.attributes |= {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.type": "function",
    }


def _judge(span: OtelSpan, outcome: str) -> None:
    """Give a run or a proposal the status that its outcome means."""
    span.attributes["placet.outcome"] = outcome
    span.status = "ok" if outcome == "succeeded" else "unset" if outcome in _UNFINISHED else "error"
    if span.status == "error":
        span.attributes["error.type"] = outcome


def _finish(span: OtelSpan, at: float, status: SpanStatus | Literal["unset"] = "unset") -> OtelSpan:
    span.end = max(at, span.start)
    span.status = status
    return span
