"""How each action of a proposal ended, written down once: result, event, and what follows for the plan.

Keep true:
1. Every action ends in exactly one result, and its last event says the same.
2. An action whose tool was called has not been skipped: it succeeded, failed, or is `unknown`. The one
   exception is `failure_behavior="skip"`, by which an action that failed is called skipped.
3. A late answer of something that was given up on changes nothing.
4. One look at the clock serves an ending; the clock never runs backwards within a run.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from time import perf_counter, time
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from placet.ir.action import Action
from placet.ir.graph import Graph
from placet.ir.json_value import JsonValue, copy_json
from placet.ir.proposal import Proposal
from placet.ir.result import CANCELED_PREFIX, ActionResult, ExitCode, Status, Waiting
from placet.ir.stop_cause import StopCause
from placet.runtime.calls import HUNG_TASK, AttemptFailed
from placet.runtime.run_info import RunInfo
from placet.tools.tool import Tool
from placet.validator import undo_of

if TYPE_CHECKING:
    from placet.runtime.services import Services

NOTHING: dict[str, JsonValue] = {}

_DID_NOT_SUCCEED: dict[str, str] = {
    "rejected": "was rejected",
    "failed": "failed",
    "skipped": "was skipped",
    "unknown": "has an unknown outcome",
}
_ABORTS: dict[str, str] = {**_DID_NOT_SUCCEED, "unknown": "ended with an unknown outcome"}
_NEVER = datetime.fromtimestamp(0, UTC)
_SUFFIXES: list[str] = []
"""Positions in hexadecimal, made once: spelling a number costs more than the rest of an event."""


def _suffix(i: int) -> str:
    if i >= 65_536:
        return f"{i:08x}"
    while len(_SUFFIXES) <= i:
        _SUFFIXES.append(f"{len(_SUFFIXES):08x}")
    return _SUFFIXES[i]


def _exit_code(output: JsonValue) -> ExitCode:
    """The exit code in what a tool that declares one has answered."""
    code = output.get("exit_code", UNSET) if isinstance(output, dict) else UNSET
    return code if code is None or (isinstance(code, int) and not isinstance(code, bool)) else UNSET


def _say_nothing(
    kind: str,
    action_id: str | None = None,
    span_id: str | None = None,
    data: dict[str, JsonValue] = NOTHING,
    at: float = 0.0,
) -> None:
    """Stands in for a recorder."""


class Stop(NamedTuple):
    """Why nothing more is started."""

    kind: Literal["aborted", "budget", "canceled", "waiting"]
    error: str
    """For the proposal."""
    words: str
    """For the actions that do not run because of it."""
    cause: StopCause | msgspec.UnsetType = msgspec.UNSET
    """Of what was canceled."""


class Ledger:
    """The endings of one proposal's actions, and why the plan stopped if it did."""

    __slots__ = (
        "_epoch",
        "_span_prefix",
        "_stamp",
        "_stamped",
        "actions",
        "answered",
        "bad_answers",
        "finished",
        "graph",
        "on_end",
        "on_success",
        "proposal",
        "record",
        "results",
        "run",
        "services",
        "size",
        "span_id",
        "status",
        "stop",
        "tools",
        "waiting",
    )

    def __init__(
        self, services: Services, proposal: Proposal, graph: Graph, run: RunInfo, attempt: int
    ) -> None:
        n = len(proposal.actions)
        self.services = services
        self.proposal = proposal
        self.graph = graph
        self.run = run
        self.size = n
        self.actions: list[Action] = list(proposal.actions)
        """The proposal's own, and behind them what ran aside."""
        self.tools: list[Tool | None] = [None] * n
        self.status: list[Status | None] = [None] * n
        self.results: list[ActionResult | None] = [None] * n
        self.finished: list[int] = []
        """Positions of actions that took effect, in the order in which they did: those that succeeded, and
        those in `bad_answers`."""
        self.bad_answers: dict[int, JsonValue | msgspec.UnsetType] = {}
        """Actions that failed although their tool did its work, with the answer where it is JSON."""
        self.answered: set[int] = set()
        """Of these, the ones answered from memory: their effect is not this plan's to undo."""
        self.stop: Stop | None = None
        self.on_end: Callable[[int], None] | None = None
        """Told of every ending that is one for good, if somebody keeps them."""
        self.on_success: Callable[[int, Action, JsonValue], None] | None = None
        """Told of every success, with the action as it ran and its output, if something follows from it."""
        self.waiting: list[Waiting] = []
        """What people have to decide before the plan goes on."""
        self.record = services.events.recorder(run.run_id, proposal.id, run.trace_id, run.tenant)
        self._epoch = time() - perf_counter()
        self._span_prefix = f"{int(run.trace_id[:8], 16) + attempt & 0xFFFFFFFF:08x}"
        self.span_id = self._span_prefix + "ffffffff"
        self._stamp = _NEVER
        self._stamped = 0.0

    def mute(self) -> None:
        """Record nothing more: the run is another's."""
        self.record = _say_nothing
        self.on_end = None

    def now(self) -> float:
        """Seconds since the epoch, by a clock that never runs backwards."""
        return self._epoch + perf_counter()

    def span_of(self, i: int) -> str:
        """The span of one action."""
        return self._span_prefix + (_SUFFIXES[i] if i < len(_SUFFIXES) else _suffix(i))

    def emit(self, kind: str, action_id: str | None = None, data: dict[str, JsonValue] = NOTHING) -> None:
        """Record an event of the proposal as a whole."""
        self.record(kind, action_id, self.span_id, data)

    def note(self, kind: str, i: int, data: dict[str, JsonValue]) -> None:
        """Record an event of one action."""
        self.record(kind, self.actions[i].id, self.span_of(i), data)

    # Endings

    def succeed(
        self,
        i: int,
        action: Action,
        output: JsonValue,
        started: float,
        changes: dict[str, JsonValue],
        *,
        cached: bool = False,
    ) -> None:
        """The action did what was asked; `changes` is what it wrote. An earlier answer took no time."""
        if self.on_success is not None:
            self.on_success(i, action, output)
        now = self._epoch + perf_counter()
        duration_ms = 0.0 if cached else (now - started) * 1000
        data: dict[str, JsonValue] = {"duration_ms": duration_ms}
        if action.tool is not None:
            data["tool"] = action.tool
        if cached:
            data["cached"] = True
            self.answered.add(i)
        tool = self.tools[i]
        exit_code: ExitCode = UNSET
        if tool is not None and tool.has_exit_code and (exit_code := _exit_code(output)) is not UNSET:
            data["exit_code"] = exit_code
        span_id = self._span_prefix + _SUFFIXES[i] if i < len(_SUFFIXES) else self.span_of(i)
        record = self.record
        if changes:
            # A copy: whoever gets the result may change it, and the log stays what it was.
            record("state_changed", action.id, span_id, {"changes": copy_json(changes)}, now)
        record("action_succeeded", action.id, span_id, data, now)
        self.finished.append(i)
        self.status[i] = "succeeded"
        if now - self._stamped > 0.001:
            self._restamp(now)
        self.results[i] = ActionResult(
            action_id=action.id,
            status="succeeded",
            output=output,
            state_changes=changes,
            duration_ms=duration_ms,
            timestamp=self._stamp,
            exit_code=exit_code,
        )
        if self.on_end is not None:
            self.on_end(i)

    def fail(
        self, i: int, action: Action, failure: AttemptFailed, attempts: int, tool: Tool | None, started: float
    ) -> None:
        """No attempt is left: end the action as its failure_behavior says."""
        # A read has no effect whose outcome could be unknown.
        unknown = failure.unknown and tool is not None and tool.schema.risk != "read_only"
        data: dict[str, JsonValue] = {"error": failure.error, "attempt": attempts}
        if action.tool is not None:
            data["tool"] = action.tool
        if failure.left_behind:
            data["left_behind"] = failure.left_behind
        if failure.took_effect and tool is not None and tool.schema.risk != "read_only":
            data["took_effect"] = True
            self.finished.append(i)
            self.bad_answers[i] = failure.answer
        status: Status = (
            "unknown" if unknown else "skipped" if action.failure_behavior == "skip" else "failed"
        )
        self.note("action_unknown" if unknown else "action_failed", i, data)
        if status == "skipped":
            self.note("action_skipped", i, {"error": failure.error})
        self._end(i, status, failure.error, (self.now() - started) * 1000)
        self.conclude(i)

    def reject(
        self,
        i: int,
        action: Action,
        is_policy: bool,
        error: str,
        also: dict[str, JsonValue] = NOTHING,
    ) -> None:
        """A gate said no; `also` is more for the log."""
        data: dict[str, JsonValue] = {"error": error, **also}
        if action.tool is not None:
            data["tool"] = action.tool
        self.note("policy_violation" if is_policy else "action_rejected", i, data)
        self._end(i, "rejected", error)
        self.conclude(i)

    def conclude(self, i: int) -> None:
        """An action has ended without success, and for good: what that means for the plan."""
        if self.on_end is not None:
            self.on_end(i)
        action, result = self.actions[i], self.results[i]
        if action.failure_behavior == "abort" and result is not None:
            self.abort(f"action '{action.id}' {_ABORTS[result.status]}: {result.error}")

    def refuse(self, i: int, error: str) -> None:
        """The proposal is refused whole."""
        self.note("action_rejected", i, {"error": error})
        self._end(i, "rejected", error)

    def skip(self, i: int, error: str, cause: StopCause | msgspec.UnsetType = msgspec.UNSET) -> None:
        """The action does not run; `cause` is set if that is because the plan was canceled."""
        self.note("action_skipped" if cause is msgspec.UNSET else "action_canceled", i, {"error": error})
        self._end(i, "skipped", error, cause=cause)

    def skip_stopped(self, i: int) -> None:
        """The action does not run, because the plan was stopped."""
        assert self.stop is not None
        self.skip(i, self.stop.words, self.stop.cause)

    def skip_dependent(self, i: int, needed: int) -> None:
        """Something the action needs did not succeed."""
        name = self.actions[needed].id
        if needed in self.graph.targets:
            self.skip(i, f"dependency '{name}' only runs as a compensation")
        else:
            self.skip(i, f"dependency '{name}' {_DID_NOT_SUCCEED[self.status[needed] or 'skipped']}")

    def stopped(
        self, i: int, action: Action, tool: Tool | None, *, begun: bool, left_behind: str = ""
    ) -> None:
        """The action was stopped in flight; `left_behind` says what would not stop."""
        if self.results[i] is not None:
            return  # It was left behind, and has only now noticed.
        # If nobody asked us to stop, the task around us was cancelled; whoever runs us passes that on.
        self.stop_canceled()
        assert self.stop is not None
        if not begun:
            self.skip_stopped(i)
            return
        has_effect = tool is not None and tool.schema.risk != "read_only"
        error = f"{self.stop.words}; it was stopped in flight"
        if has_effect:
            error += ", so it is not known whether it took effect"
        data: dict[str, JsonValue] = {"error": error, "tool": action.tool}
        if left_behind:
            data["left_behind"] = left_behind
        self.note("action_unknown" if has_effect else "action_failed", i, data)
        if has_effect:
            self._end(i, "unknown", error)
        elif action.failure_behavior == "skip":
            self.note("action_skipped", i, {"error": error})
            self._end(i, "skipped", error, cause=self.stop.cause)
        else:
            self._end(i, "failed", error)

    def wait(self, i: int, error: str) -> None:
        """The action's outcome is not known, and nothing goes on before that is decided."""
        self.note("action_unknown", i, {"error": error, "tool": self.actions[i].tool})
        self._end(i, "unknown", error)

    def leave(self, i: int) -> None:
        """The plan waits, and the action with it."""
        self._end(i, "proposed", None)

    def hold(self, i: int, approval: str, reason: str) -> None:
        """The action waits for a person, and so does the plan."""
        action_id = self.actions[i].id
        self._end(i, "validated", f"it waits for approval '{approval}'")
        self.waiting.append(Waiting(kind="approval", action_id=action_id, reason=reason, approval=approval))
        if self.stop is None:
            self.stop = Stop("waiting", "", "the plan waits for an approval")

    def resettle(self) -> None:
        """The plan was about to wait, and was stopped for another reason: nothing waits any more."""
        self.waiting.clear()
        for i in range(self.size):
            if self.status[i] in ("validated", "proposed"):
                self.skip_stopped(i)

    def leave_behind(self, i: int) -> None:
        """End an action whose task would not stop."""
        if self.results[i] is None:
            self.stopped(i, self.actions[i], self.tools[i], begun=True, left_behind=HUNG_TASK)

    def _end(
        self,
        i: int,
        status: Status,
        error: str | None,
        duration_ms: float | None = None,
        *,
        cause: StopCause | msgspec.UnsetType = msgspec.UNSET,
    ) -> None:
        self.status[i] = status
        self._restamp(self.now())
        self.results[i] = ActionResult(
            action_id=self.actions[i].id,
            status=status,
            error=error,
            duration_ms=duration_ms,
            timestamp=self._stamp,
            stop_cause=cause,
        )

    def _restamp(self, now: float) -> None:
        # A moment with a time zone is slow to make, and a millisecond is fine enough to share one.
        self._stamp = datetime.fromtimestamp(now, UTC)
        self._stamped = now

    # Stopping

    @property
    def is_aborted(self) -> bool:
        """Whether the plan is to be taken back."""
        return self.stop is not None and self.stop.kind == "aborted"

    def abort(self, error: str) -> None:
        """Start nothing more, and undo what was done."""
        if not self.is_aborted:
            self.stop = Stop("aborted", error, "the plan was aborted")

    def stop_canceled(
        self, reason: str = "the surrounding task was cancelled", cause: StopCause = StopCause.TASK
    ) -> None:
        """Start nothing more; what was done stays."""
        if self.stop is None or self.stop.kind == "waiting":
            words = f"{CANCELED_PREFIX}{reason}"
            self.stop = Stop("canceled", words, words, cause)

    def undo_of(self, i: int) -> str:
        """How far an action can be taken back."""
        return undo_of(self.actions[i], self.tools[i])
