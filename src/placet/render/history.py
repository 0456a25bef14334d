"""A run put together again from its events.

The log is a flat list; people ask about a run: which steps there were, how each stands, what was undone. A
History takes events one at a time, so the same code serves a run that goes on right now and one that is
read from a file a year later.

Keep true:
1. Events may come from a damaged file: any may be missing, double, or hold nonsense. Taking one never raises.
2. Nothing here is guessed: what the events do not say stays None.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from placet.events.event import Event
from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal
from placet.ir.result import CANCELED_PREFIX, ExitCode, ProposalResult
from placet.render.questions import Question
from placet.render.skill_story import KINDS as SKILL_KINDS
from placet.render.steps import INTERRUPTED, TERMINAL, Part, Retry, Step, Undoing, Wait
from placet.render.text import progress
from placet.render.turns import Led

_LEVELS = ("none", "changes", "process")
"""Of isolation, from the weakest to the strongest."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """What was known when the run was taken up again."""

    data: Mapping[str, JsonValue]
    has_waited: bool = False
    """It had ended to wait for a person, and was not broken off."""
    paused_ms: float | None = None
    """How long nobody was at work."""
    was_left: bool = False
    """It is a conversation, and nobody had more to say at the time."""


class Repeat(NamedTuple):
    """The words of a command line that does the same again."""

    plan: str
    options: str = ""
    """Those that `run` and `verify` have in common."""
    run_options: str = ""
    """Those that `run` has besides."""


class History:
    """One run, as far as its events tell it."""

    def __init__(self) -> None:
        self.run_id: str | None = None
        self.trace_id: str | None = None
        self.tenant: str | None = None
        self.caller: str | None = None
        self.parts: dict[str, Part] = {}
        """By proposal id, in the order in which they came."""
        self.replans: list[tuple[str, str]] = []
        """(kind of event, words) of each replan event."""
        self.sink_failures: list[str] = []
        self.skills: list[Event] = []
        """What was said of skills."""
        self.is_a_programs = False
        """A program began the run, under rules that only it knows: only it can go on with it."""
        self.repeat: Repeat | None = None
        """How the run was started, where that is known."""
        self.resumptions: list[Resumption] = []
        self.postures: list[tuple[float, Mapping[str, JsonValue]]] = []
        """When the person has said what needs no asking, and what: an answer for each tier."""
        self.led: Led | None = None
        """The turns, where a loop leads the run: then every proposal is one call of the model's."""
        self.coding: list[Event] = []
        """What a coding session says of itself, where the run is one."""
        self.coding_status: str | None = None
        """How the run of that session stands, where that is known."""
        self.events = 0
        self.last_time: float | None = None

    @classmethod
    def of(cls, events: Iterable[Event]) -> History:
        """The history that these events tell."""
        history = cls()
        for event in events:
            history.take(event)
        return history

    def plan(self, proposal: Proposal) -> None:
        """Know the actions of a proposal before anything has happened, as a live view needs them."""
        part = self._part(proposal.id)
        part.source = proposal.source
        part.action_count = len(proposal.actions)
        for action in proposal.actions:
            step = part.step(action.id)
            step.type, step.tool, step.depends_on = action.type, action.tool, tuple(action.dependencies)

    def lead(self, about: Proposal) -> None:
        """Know what a run is for that a loop of turns leads; `about` is the plan without actions that it
        began with."""
        context = about.context
        self.led = self.led or Led()
        self.led.source = about.source
        self.led.is_chat = context.get("is_chat") is True
        self.led.model = _text(context, "model")
        self.led.tools = _texts(context.get("tools"))

    def settle(self, result: ProposalResult) -> None:
        """Take over what a result says, which is whole where a log may have gaps."""
        if self.led is not None:
            self.run_id = self.run_id or result.run_id
            if isinstance(result.loop, dict):
                self.led.settle(result.loop)
            return
        part = self._part(result.proposal_id)
        # Of a run that had ended before, nothing may be heard but its result.
        self.run_id = self.run_id or result.run_id
        part.outcome, part.error = result.outcome, why(result.error)
        part.note_irreversible(result.irreversible, result.undo_commands)
        for found in result.results:
            step = part.step(found.action_id)
            is_canceled = found.stop_cause is not msgspec.UNSET
            step.status = "canceled" if is_canceled else found.status
            step.error = why(found.error) if is_canceled else found.error
            step.output = found.output
            step.exit_code = found.exit_code
            step.rolled_back = found.rolled_back
            step.changes = dict(found.state_changes)
            if found.duration_ms is not None:
                step.duration_ms = found.duration_ms
        part.note_waiting(Wait(w.kind, w.action_id, w.reason, w.approval) for w in result.waiting)
        for step in part.steps.values():
            if step.approvals and step.status in ("proposed", "validated"):
                step.error = None  # It only says that it waits, and for what; by now it may have its answer.
        for undone in result.compensations:
            step = part.step(undone.action_id)
            step.undoing = step.undoing or Undoing("")
            step.undoing.status, step.undoing.error = undone.status, undone.error

    def break_off(self) -> None:
        """Know that nobody is at work on the run any more; no event says so, the dead cannot."""
        if self.led is not None:
            self.led.is_interrupted = True
        elif self.last is not None:
            # Also where it had waited before: that it was taken up again may be lost with the process.
            self.last.outcome, self.last.error, self.last.waiting = INTERRUPTED, None, []
        for part in self.parts.values():
            for step in part.steps.values():
                if step.status in ("executing", "retrying"):
                    step.status = "in_flight"
                if step.undoing is not None and step.undoing.status == "executing":
                    step.undoing.status = "in_flight"

    @property
    def last(self) -> Part | None:
        """The newest proposal of the run."""
        return next(reversed(self.parts.values()), None)

    def whole(self) -> Part:
        """All proposals as if they were one: of a run of turns, every call, with what it waits for."""
        whole = Part(self.run_id or "")
        for part in self.parts.values():
            whole.source = whole.source or part.source
            whole.steps.update(part.steps)
            whole.order.update(part.order)
            whole.irreversible += part.irreversible
            whole.compensated += part.compensated
            whole.waiting += part.waiting
            whole.needs_output += part.needs_output
            # Each tells the cost of the run so far.
            whole.cost.update({n: max(whole.cost.get(n, 0), amount) for n, amount in part.cost.items()})
            whole.started = whole.started if whole.started is not None else part.started
            whole.ended = part.ended if part.ended is not None else whole.ended
        return whole

    def step(self, event: Event) -> Step | None:
        """The step that an event is about."""
        part = self.parts.get(event.proposal_id or "")
        return part.steps.get(event.action_id) if part is not None and event.action_id is not None else None

    def _part(self, proposal_id: str | None) -> Part:
        name = proposal_id if isinstance(proposal_id, str) else ""
        if name not in self.parts:
            self.parts[name] = Part(name)
        return self.parts[name]

    def take(self, event: Event) -> None:
        """Learn from one event."""
        self.events += 1
        self.last_time = event.time
        self.run_id = self.run_id or event.run_id
        self.trace_id = self.trace_id or event.trace_id
        self.tenant = self.tenant or event.tenant
        data: Mapping[str, JsonValue] = event.data
        kind = event.kind
        if kind.startswith(("coding_", "check_")) or (self.coding and kind == "run_resumed"):
            self.coding.append(event)
        elif kind.startswith("turn_"):
            self.led = self.led or Led()
            self.led.take(event)
        elif kind == "session_scope":
            self.caller = _text(data, "caller_id") or self.caller
        elif kind in SKILL_KINDS:
            self.skills.append(event)
        elif kind == "sink_failed":
            self.sink_failures.append(_text(data, "error") or "no reason given")
        elif kind == "posture_changed":
            self.postures.append((event.time, dict(data)))
        elif kind == "run_resumed":
            self.resumptions.append(self._resumption(event))
            if self.led is not None:
                self.led.resume()
            for part in self.parts.values() if self.led is not None else [self.last] if self.last else ():
                for step in part.steps.values() if part.outcome == "canceled" else ():
                    if step.status == "canceled":
                        # It had not begun, and now it may.
                        step.status, step.error, step.ended, step.ended_at = "proposed", None, None, None
            self._settle(data)
            for part in self.parts.values():
                # How it ended does not count: it goes on.
                part.outcome = part.error = part.ended = None
                part.waiting, part.needs_output = [], []
                for step in part.steps.values():
                    if step.status not in TERMINAL or step.status == "unknown":
                        # What it takes from here on does not count the time in which nobody was at work.
                        step.started = step.began_at = None
        elif kind.startswith("replan_"):
            errors = "; ".join(_texts(data.get("errors")))
            self.replans.append((kind, _text(data, "error") or errors or _text(data, "reason") or ""))
        elif kind.startswith("proposal_"):
            self._proposal(kind, event, data)
        elif kind.startswith("compensation_") and event.action_id is not None:
            self._compensation(kind, self._part(event.proposal_id), event.action_id, data)
        elif kind == "state_rollback":
            keys = [key for name in ("keys", "restored", "removed") for key in _texts(data.get(name))]
            self._part(event.proposal_id).rolled_back_keys = keys
        elif kind == "workspace_restored":
            self._part(event.proposal_id).note_restored(data)
        elif event.action_id is not None:
            self._action(kind, event, self._part_of(event, event.action_id, data), data)

    def _part_of(self, event: Event, action_id: str, data: Mapping[str, JsonValue]) -> Part:
        if event.kind == "approval_recorded" and event.proposal_id is None:
            # Whoever answers from outside may not know which plan has asked.
            name = _text(data, "approval") or ""
            for part in reversed(self.parts.values()):
                if action_id in part.steps and name in part.steps[action_id].approvals:
                    return part
        return self._part(event.proposal_id)

    def _settle(self, data: Mapping[str, JsonValue]) -> None:
        """Note what was decided about actions whose outcome nobody knew."""
        decided, by = data.get("decided"), data.get("decided_by")
        for name, what in decided.items() if isinstance(decided, dict) else ():
            for part in self.parts.values():
                step = part.steps.get(name)
                if step is not None and step.status in ("executing", "unknown"):
                    step.settled = what if isinstance(what, str) else None
                    step.settled_by = _text(by, name) if isinstance(by, dict) else None

    def _resumption(self, event: Event) -> Resumption:
        last = self.last
        if self.led is not None:
            end, asking = self.led.end, [part for part in self.parts.values() if part.waiting]
            # One that waits to be told what became of a call has not come to an end that the loop could tell.
            since = end.at if end is not None else asking[-1].ended if asking else None
            paused_ms = (event.time - since) * 1000 if since is not None else None
            was_left = end is not None and self.led.is_chat and end.status != "waiting"
            return Resumption(dict(event.data), bool(asking), paused_ms, was_left)
        if last is None or last.outcome != "waiting":
            return Resumption(dict(event.data))
        paused_ms = (event.time - last.ended) * 1000 if last.ended is not None else None
        return Resumption(dict(event.data), True, paused_ms)

    def _proposal(self, kind: str, event: Event, data: Mapping[str, JsonValue]) -> None:
        part = self._part(event.proposal_id)
        if kind == "proposal_received":
            part.started = event.time
            part.source = _text(data, "source")
            count = data.get("action_count")
            part.action_count = count if isinstance(count, int) else None
            part.serial_order = _texts(data.get("order"))
            for action in _dicts(data.get("actions")):
                if isinstance(action.get("id"), str):
                    step = part.step(action["id"])
                    step.type, step.tool = _text(action, "type"), _text(action, "tool")
                    step.depends_on = tuple(_texts(action.get("depends_on")))
        elif kind == "proposal_ended":
            part.ended = event.time
            part.outcome = _text(data, "outcome")
            part.error = why(_text(data, "error"))
            cost = data.get("cost")
            if isinstance(cost, dict):
                part.cost = {name: n for name, n in cost.items() if isinstance(n, int | float)}
            commands = data.get("undo_commands")
            part.note_irreversible(
                _texts(data.get("irreversible")), commands if isinstance(commands, dict) else {}
            )
            part.note_waiting(
                Wait(
                    _text(w, "kind") or "",
                    _text(w, "action_id") or "",
                    _text(w, "reason") or "",
                    _text(w, "approval"),
                )
                for w in _dicts(data.get("waiting"))
            )
            part.needs_output = [
                _text(w, "action_id") or ""
                for w in _dicts(data.get("waiting"))
                if w.get("needs_output") is True
            ]
            self._mark_rolled_back(part)

    @staticmethod
    def _mark_rolled_back(part: Part) -> None:
        # The log says that the proposal aborted, and with it which steps do not count any more.
        if part.outcome == "aborted":
            for step in part.steps.values():
                step.rolled_back = step.status == "succeeded" and step.undoes is None

    @staticmethod
    def _compensation(kind: str, part: Part, action_id: str, data: Mapping[str, JsonValue]) -> None:
        step = part.step(action_id)
        if step.undoing is None:
            step.undoing = Undoing(_text(data, "tool") or _text(data, "action") or "")
            part.compensated.append(action_id)
        step.undoing.status = {
            "compensation_succeeded": "succeeded",
            "compensation_failed": "failed",
        }.get(kind, "executing")
        step.undoing.error = _text(data, "error")
        part.taking_back = action_id if kind == "compensation_started" else None

    def _action(self, kind: str, event: Event, part: Part, data: Mapping[str, JsonValue]) -> None:
        assert event.action_id is not None
        step = part.touch(event.action_id)
        if part.taking_back is not None and step.status == "proposed":
            step.undoes = part.taking_back
        error = _text(data, "error")
        if kind == "action_validated":
            step.status = "validated"
        elif kind == "action_executing":
            step.status, step.settled = "executing", None
            step.started = step.started or event.time
            step.began_at = step.began_at or self.events
            step.tool = step.tool or _text(data, "tool")
            given = data.get("parameters")
            if isinstance(given, dict):
                step.given = dict(given)
                if self.led is not None:
                    self.led.note_call(event.action_id, step.tool or "", given)
            attempt = data.get("attempt")
            step.attempts = attempt if isinstance(attempt, int) else step.attempts + 1
        elif kind == "action_retrying":
            step.status = "retrying"
            step.error = error
            step.retries.append(Retry(_count(data, "attempt"), _number(data, "delay_ms"), error or ""))
        elif kind == "action_progress":
            message = _text(data, "message") or ""
            step.progress = progress(message, _number(data, "done"), _number(data, "total"))
        elif kind == "command_ran":
            step.isolation = weaker(step.isolation, _text(data, "isolation"))
        elif kind == "action_replayed":
            if step.status not in TERMINAL or step.status == "unknown":
                step.status = _text(data, "status") or step.status
                step.exit_code = exit_code_in(data)
        elif kind == "permission_decision":
            step.tier, step.permission = _text(data, "tier"), _text(data, "decision")
            step.tool = step.tool or _text(data, "tool")
        elif kind == "approval_requested":
            step.tool = step.tool or _text(data, "tool")
            self._asked(step, event, data)
        elif kind == "approval_recorded":
            self._answered(step, event, data)
        elif kind == "action_deduplicated":
            step.same_as = _text(data, "of") or ""
        elif kind == "state_changed":
            changes = data.get("changes")
            if isinstance(changes, dict):
                step.changes.update(changes)
        elif kind == "policy_violation" or (kind.startswith("action_") and kind[7:] in TERMINAL):
            step.denied = step.denied or kind == "policy_violation"
            step.tool = step.tool or _text(data, "tool")
            step.status = "rejected" if kind == "policy_violation" else kind[7:]
            step.ended, step.ended_at = event.time, self.events
            step.error = why(error) if step.status == "canceled" else error
            step.duration_ms = _number(data, "duration_ms")
            if step.duration_ms is None and step.started is not None:
                step.duration_ms = max(0.0, (event.time - step.started) * 1000)
            step.is_cached = data.get("cached") is True
            step.exit_code = exit_code_in(data)
            step.left_behind = _text(data, "left_behind") or step.left_behind
            _follow(step, data)

    @staticmethod
    def _asked(step: Step, event: Event, data: Mapping[str, JsonValue]) -> None:
        if step.status not in ("succeeded", "failed", "rejected", "skipped"):
            # Whatever became of an earlier attempt: it does not start before the answer.
            step.status = "proposed"
        name = _text(data, "approval") or ""
        # At the end, where the question stands that counts now.
        question = step.approvals.pop(name, None) or Question(name)
        step.approvals[name] = question
        question.reasons = _texts(data.get("reasons")) or question.reasons
        question.asked = question.asked if question.asked is not None else event.time
        question.expires = _number(data, "expires_at")
        _follow(step, data)

    @staticmethod
    def _answered(step: Step, event: Event, data: Mapping[str, JsonValue]) -> None:
        name = _text(data, "approval") or ""
        question = step.approvals.pop(name, None) or Question(name)
        step.approvals[name] = question
        question.decision = _text(data, "decision") or ""
        question.by, question.reason = _text(data, "by"), _text(data, "reason")
        question.decided, question.noted = _number(data, "decided_at"), event.time


def _follow(step: Step, data: Mapping[str, JsonValue]) -> None:
    """Take over which way marked data came, if the event says so."""
    trail = _texts(data.get("trail"))
    if trail:
        step.trail, step.marked = trail, _text(data, "mark")


def exit_code_in(data: Mapping[str, JsonValue]) -> ExitCode:
    """The exit code that an event tells of a command, if it does."""
    code = data.get("exit_code", UNSET)
    return code if code is None or (isinstance(code, int) and not isinstance(code, bool)) else UNSET


def weaker(one: str | None, other: str | None) -> str | None:
    """The weaker of two levels of isolation, as far as they are known.

    >>> weaker(None, "process"), weaker("process", "none")
    ('process', 'none')
    """
    known = [level for level in _LEVELS if level in (one, other)]
    return known[0] if known else None


def why(error: str | None) -> str | None:
    """An error without the word that the status beside it says already."""
    return error if error is None else error.removeprefix(CANCELED_PREFIX)


def split_runs(events: Iterable[Event]) -> dict[str, list[Event]]:
    """Events by run, in the order in which the runs began; what belongs to no run is left out."""
    runs: dict[str, list[Event]] = {}
    for event in events:
        if event.run_id is not None:
            runs.setdefault(event.run_id, []).append(event)
    return runs


def _text(data: Mapping[str, JsonValue], key: str) -> str | None:
    found = data.get(key)
    return found if isinstance(found, str) else None


def _number(data: Mapping[str, JsonValue], key: str) -> float | None:
    found = data.get(key)
    return (
        float(found)
        if isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < 1e15
        else None
    )


def _count(data: Mapping[str, JsonValue], key: str) -> int:
    found = data.get(key)
    return found if isinstance(found, int) else 0


def _texts(found: JsonValue) -> list[str]:
    return [item for item in found if isinstance(item, str)] if isinstance(found, list | tuple) else []


def _dicts(found: JsonValue) -> Iterator[dict[str, JsonValue]]:
    if isinstance(found, list | tuple):
        for item in found:
            if isinstance(item, dict):
                yield item
