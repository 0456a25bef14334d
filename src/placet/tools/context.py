"""What a running tool knows of its call, and how it hears that the call should end.

A function asks for the context by annotating a parameter with `ToolContext`; that parameter is filled in
by the runtime and never shown to a model.

Keep true:
1. `Cancel` may be used from any thread. Each callback runs exactly once, outside the lock, in the
   thread that cancelled (or that subscribed, if it came late).
2. A cancel is never taken back: `requested` and `hard` only go from False to True.
3. A context works without a runtime, so that a tool can be tested: `ToolContext(action_id="a", run_id="r")`.
4. No text shows what `deps` holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic

import msgspec

from placet.errors import UsageError
from placet.ir.json_value import JsonValue
from placet.ir.provenance import Labels
from placet.ir.stop_cause import StopCause

if TYPE_CHECKING:
    # The default lets `ToolContext` stand for `ToolContext[Any]`. Only checkers need it, and 3.11's typing
    # lacks it.
    from typing_extensions import TypeVar

    DepsT = TypeVar("DepsT", default=Any)
else:
    from typing import TypeVar

    DepsT = TypeVar("DepsT")


class Cancel:
    """A request to stop, shared by the caller and the work. Safe to use from any thread.

    A soft cancel lets started work finish; a hard one also stops work in flight.

    >>> cancel = Cancel()
    >>> cancel.cancel("the user pressed stop")
    >>> cancel.requested, cancel.hard, cancel.reason
    (True, False, 'the user pressed stop')
    """

    __slots__ = ("_callbacks", "_lock", "_soft", "cause", "hard", "reason", "requested")

    def __init__(self) -> None:
        self.requested: bool = False
        """Whether a stop was requested."""
        self.hard: bool = False
        """Whether work in flight is to be stopped, too."""
        self.reason: str = ""
        """The reason of the first call of `cancel`; empty before."""
        self.cause: StopCause | None = None
        """The cause of the first call of `cancel`; `None` before."""
        self._callbacks: dict[object, Callable[[], object]] = {}
        self._soft: dict[object, Callable[[], object]] = {}
        self._lock = Lock()

    def cancel(
        self,
        reason: str = "cancellation requested by caller",
        *,
        hard: bool = False,
        cause: StopCause = StopCause.CALLER,
    ) -> None:
        """Request a stop. A later call can make a soft cancel hard, but keeps the first reason and cause.

        Args:
            reason: Why, in words; shown in results and events.
            hard: Also stop work in flight.
            cause: Why, as a value: what happens next may depend on it.
        """
        with self._lock:
            if not self.requested:
                # The reason is set first: a reader without the lock who sees `requested` finds it.
                self.reason, self.cause = reason, cause
                self.requested = True
            waiting = list(self._soft.values())
            self._soft.clear()
            if hard and not self.hard:
                self.hard = True
                waiting += self._callbacks.values()
                self._callbacks.clear()
        failure: Exception | None = None
        for callback in waiting:
            try:
                callback()
            except Exception as error:
                # One broken listener must not keep the others running.
                failure = failure or error
        if failure is not None:
            raise failure

    def on_hard(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call a function on a hard cancel; immediately, if that has already happened.

        Args:
            callback: The function; runs once, in the thread that cancels.

        Returns:
            A function that ends the subscription; calling it twice is harmless.
        """
        return self._subscribe(callback, self._callbacks, lambda: self.hard)

    def on_request(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call a function on any cancel, soft or hard.

        Takes the arguments of `on_hard`.

        Returns:
            A function that ends the subscription.
        """
        return self._subscribe(callback, self._soft, lambda: self.requested)

    def _subscribe(
        self,
        callback: Callable[[], object],
        waiting: dict[object, Callable[[], object]],
        is_late: Callable[[], bool],
    ) -> Callable[[], None]:
        token = object()
        with self._lock:
            late = is_late()
            if not late:
                waiting[token] = callback
        if late:
            callback()

        def unsubscribe() -> None:
            with self._lock:
                waiting.pop(token, None)

        return unsubscribe

    def __repr__(self) -> str:
        if not self.requested:
            return "<Cancel not requested>"
        return f"<Cancel {'hard' if self.hard else 'soft'}: {self.reason!r}>"


class ToolContext(msgspec.Struct, Generic[DepsT], frozen=True, kw_only=True, eq=False):
    """The call that a tool is serving. `ToolContext[Deps]` also has the caller's own objects, as `deps`."""

    action_id: str
    """Id of the action."""
    run_id: str
    """Id of the run."""
    tenant: str | None = None
    """Tenant of the run."""
    caller: str | None = None
    """The agent or user on whose behalf the run acts; `Scope.caller_id`."""
    cancel: Cancel = msgspec.field(default_factory=Cancel)
    """Request to stop; check it, or subscribe to it, in long work."""
    deps: DepsT = None  # type: ignore[assignment]
    """The caller's own objects, from `Runtime(deps=...)` or from the call: connections, clients, settings.
    They are never stored or logged. A tool that takes a `ToolContext[Deps]` is not called without them."""
    idempotency_key: str = ""
    """The same for every attempt of this call, also after a restart. Pass it to external services."""
    traceparent: str = ""
    """W3C trace context of this call, for whatever works on it elsewhere; empty where there is no trace."""
    budget: Any = None
    """What the run may use, for runs that the call starts: `Runtime.open_run(counts_for=context.budget)`. Set
    by the runtime."""
    on_spend: Callable[[int | None, float | None], None] | None = None
    """Receives the reports of `spend`; set by the runtime, called in the tool's thread."""
    on_progress: Callable[[str, float | None, float | None], None] | None = None
    """Receives the reports of `progress`; set by the runtime, called in the tool's thread."""
    on_command: Callable[[dict[str, JsonValue]], None] | None = None
    """Receives how a command of a built-in tool was confined; set by the runtime, called on the event loop.
   """
    on_model: Callable[[dict[str, JsonValue]], None] | None = None
    """Receives which model answered a built-in tool and what it used; set by the runtime, called on the event
    loop."""
    typed: Sequence[str] = ()
    """Texts that the person typed in the conversation that makes this call, and in those that led to it."""
    on_labels: Callable[[str | None], Labels] | None = None
    """Answers `labels_of`; set by the runtime."""
    on_label: Callable[[Labels], None] | None = None
    """Receives the reports of `label_output`; set by the runtime, called in the tool's thread."""

    def __repr__(self) -> str:
        return f"<ToolContext of action {self.action_id!r} in run {self.run_id!r}>"

    def progress(self, message: str = "", *, done: float | None = None, total: float | None = None) -> None:
        """Report the progress of the call. Call it as often as you like: only some reports are recorded.

        Args:
            message: What is being done.
            done: Amount of work done, in any unit.
            total: Total amount of work, in the same unit.

        Raises:
            UsageError: a number is negative or not finite.
        """
        for name, number in (("done", done), ("total", total)):
            if number is not None and not (isfinite(number) and number >= 0):
                raise UsageError(f"ToolContext.progress got {name}={number}: it must be zero or more.")
        if self.on_progress is not None:
            self.on_progress(str(message), done, total)

    def labels_of(self, parameter: str | None = None) -> Labels:
        """Return the labels on a parameter of this call, each with its path; on any of them without a name.

        Args:
            parameter: Name of the parameter, such as `to`, or `message.to` inside an object.
        """
        return self.on_labels(parameter) if self.on_labels is not None else {}

    def label_output(self, labels: Labels) -> None:
        """Label the output of this call, or its error, besides what the tool declares: for a tool whose
        answers are not all from the same source. Reports add up.

        Args:
            labels: The labels, each with the path by which it came.
        """
        if labels and self.on_label is not None:
            self.on_label(labels)

    def spend(self, *, tokens: int | None = 0, cost: float | None = 0.0) -> None:
        """Report what this call used, so that budgets count it. Reports add up.

        Args:
            tokens: Number of tokens since the last report. `None`: unknown, which uses up a limit on tokens.
            cost: Cost in US dollars since the last report. `None`: unknown, which uses up a limit on cost.

        Raises:
            UsageError: an amount is negative or not finite.
        """
        if (tokens or 0) < 0 or (cost or 0) < 0 or not isfinite(cost or 0):
            raise UsageError(
                f"ToolContext.spend got tokens={tokens}, cost={cost}: both must be zero or more. "
                "Report what was used since the last report."
            )
        if self.on_spend is not None:
            self.on_spend(tokens, cost)
