"""All policies of a runtime or a session, and what they say to one action.

Keep true:
1. Every policy that is about the action is asked; every violation is reported.
2. A policy that raises, or answers with something else than a reason or None, denies.
3. A function judges and changes nothing: it gets a copy of the action, and a view that cannot write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from inspect import Parameter, iscoroutine, signature
from typing import Any

import msgspec

from placet.errors import UsageError
from placet.ir.action import Action
from placet.ir.graph import ANY_KEY, Footprint
from placet.ir.json_value import JsonValue
from placet.policy.case import Case, Rule
from placet.policy.rule import Counter, RateLimitTool
from placet.policy.trace import Trace, TraceRule
from placet.validator import ToolFacts, Undecided, View

PolicyCallable = Callable[..., str | None]
"""Function `(action, state)` or `(action)` that returns a reason to deny, or `None`. One that raises denies.
"""


class Policy:
    """A rule or a callable, under its name."""

    __slots__ = ("_counter", "_footprint", "_takes_state", "call", "name", "rule")

    def __init__(
        self,
        name: str,
        rule: Rule | PolicyCallable,
        *,
        clock: Callable[[], float],
        reads: Iterable[str] | None = None,
    ) -> None:
        self.name = name
        self.rule = rule if isinstance(rule, Rule) else None
        self.call = None if isinstance(rule, Rule) else rule
        self._counter: Counter | None = None
        self._takes_state = False
        self._footprint: Footprint = ((), ())
        if isinstance(rule, Rule):
            self._counter = rule.counter(clock) if isinstance(rule, RateLimitTool) else None
        elif callable(rule):
            self._takes_state = _takes_state(rule)
            if self._takes_state:
                # What a function reads cannot be seen from outside: any key, unless it is declared.
                self._footprint = ((ANY_KEY,) if reads is None else tuple(reads), ())
        else:
            raise UsageError(
                f"Policy '{name}' is a {type(rule).__name__}. Give a rule such as DenyTool(tool='shell'), "
                "or a function (action, state) that returns a reason or None."
            )

    def about(self, action: Action, tool: ToolFacts | None) -> bool:
        """Whether this policy is about the action at all."""
        return self.rule is None or self.rule.about(action, tool)

    def touches(self, action: Action, tool: ToolFacts | None) -> Footprint:
        """What judging the action reads of the state, or counts."""
        return self._footprint if self.rule is None else self.rule.touches(self.name, action, tool)

    @property
    def asks(self) -> bool:
        """Whether a person may overrule it."""
        return self.rule is not None and self.rule.unless_approved

    @property
    def reads_parameters(self) -> bool:
        """Whether the answer may depend on parameters."""
        return self.rule is None or self.rule.reads_parameters

    @property
    def counts(self) -> bool:
        """Whether it must be told of what runs."""
        return self._counter is not None or isinstance(self.rule, TraceRule)

    @property
    def is_counting(self) -> bool:
        """Whether the answer depends on what ran lately."""
        return self._counter is not None

    def violation(self, case: Case, trace: Trace, *, is_open: bool = False) -> str | None:
        """Why the action is denied, or None. With `is_open` some parameters are still to come.

        Raises:
            Undecided: the view, or what is still to run, decides.
        """
        rule = self.rule
        try:
            if rule is not None and not rule.fits_path(case.action):
                return None
            if self._counter is not None:
                return self._full(case.action)
            if isinstance(rule, TraceRule):
                return rule.judge(case, trace.of(self), is_open)
            if rule is not None:
                return rule.check(case)
            assert self.call is not None
            # A copy: what was validated is what runs, whatever the function does to what it was shown.
            shown = deepcopy(case.action)
            answer = self.call(shown, _Window(case.view)) if self._takes_state else self.call(shown)
        except (Undecided, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            # Only the kind of error: its text may hold the very value that must not be shown.
            return f"it raised {type(error).__name__}, so the action is denied"
        return _reason(answer)

    def _full(self, action: Action) -> str | None:
        assert self._counter is not None
        assert self.rule is not None
        if self._counter.is_full():
            return self.rule.reason or f"tool '{action.tool}' was called too often lately"
        return None

    def begun(
        self,
        case: Case,
        trace: Trace,
        *,
        sure: bool = True,
        is_open: bool = False,
        by: int = 1,
        call: str = "",
    ) -> None:
        """The action passed every gate: count it; or, with `by` -1, take it off the count again."""
        if isinstance(self.rule, TraceRule):
            self.rule.begun(trace.of(self), case, sure=sure, is_open=is_open, by=by)
        elif self._counter is not None and self.rule is not None and self.rule.fits_path(case.action):
            # What was made was made: also a plan that waits, or is taken back, has made its calls.
            if by > 0:
                self._counter.note(call)

    def succeeded(
        self, case: Case, trace: Trace, *, sure: bool = True, is_open: bool = False, by: int = 1
    ) -> None:
        """The action succeeded; or, with `by` -1, it was taken back."""
        if isinstance(self.rule, TraceRule):
            self.rule.succeeded(trace.of(self), case, sure=sure, is_open=is_open, by=by)


class _Window:
    """The state as a function sees it: every way of looking, and no method that belongs to the store."""

    __slots__ = ("__view",)

    def __init__(self, view: View) -> None:
        self.__view: Any = view

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """A copy of the value, or `default`."""
        return self.__view.get(key, default)

    def exists(self, key: str) -> bool:
        """Whether the key holds a value; null is one."""
        return bool(self.__view.exists(key))

    def keys(self) -> Sequence[str]:
        """All keys."""
        return list(self.__view.keys())

    def version_of(self, key: str) -> int:
        """The version at which the key last changed; 0 if it never did."""
        version: int = self.__view.version_of(key)
        return version

    def snapshot(self) -> dict[str, JsonValue]:
        """A copy of everything."""
        found: dict[str, JsonValue] = self.__view.snapshot()
        return found


def _takes_state(call: PolicyCallable) -> bool:
    try:
        parameters = signature(call).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = [
        p for p in parameters if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    ]
    return len(positional) != 1 or any(p.kind is Parameter.VAR_POSITIONAL for p in parameters)


def _reason(answer: Any) -> str | None:
    if answer is None:
        return None
    if isinstance(answer, str):
        # A reason is logged and sent, so it must be text that can be.
        return answer.encode(errors="replace").decode() or "denied"
    if iscoroutine(answer):
        answer.close()
    return f"it returned a {type(answer).__name__} instead of a reason or None, so the action is denied"


def _check_values(name: str, rule: Rule) -> None:
    """A rule made in Python is not checked against its own annotations: a typo would match nothing."""
    try:
        msgspec.convert(msgspec.to_builtins(rule), type(rule))
    except msgspec.ValidationError as error:
        raise UsageError(f"Policy '{name}' ({type(rule).__name__}) cannot mean anything: {error}.") from None
    except TypeError:
        return  # A rule of one's own, with values that no file could hold.


class PolicySet:
    """Named policies, in the order in which they were added."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Create an empty set.

        Args:
            clock: Monotonic clock in seconds, for rate limits.
        """
        self._clock = clock
        self._policies: dict[str, Policy] = {}
        self.revision = 0
        """Another number whenever a policy comes or goes."""
        self.general: frozenset[str] = frozenset()
        """Policies that hold in many places: a tool that one of them names need not be known here."""
        self._by_tool: dict[tuple[str, str | None], tuple[ToolFacts | None, tuple[Policy, ...]]] = {}
        """What was found for a tool, as it was declared then."""

    def add(self, name: str, rule: Rule | PolicyCallable, *, reads: Iterable[str] | None = None) -> None:
        """Add a policy.

        Args:
            name: Name in messages and events.
            rule: A rule, or a policy function.
            reads: State keys that the function reads. `None`: any key.

        Raises:
            UsageError: the name is in use, or `rule` is neither a rule nor a function.
        """
        if isinstance(rule, Rule):
            _check_values(name, rule)
        if name in self._policies:
            raise UsageError(f"A policy named '{name}' exists. Remove it first, or choose another name.")
        self._policies[name] = Policy(name, rule, clock=self._clock, reads=reads)
        self.revision += 1
        self._by_tool.clear()

    def add_unnamed(self, rule: Rule | PolicyCallable) -> None:
        """Add a policy under the name of its kind or function, with a number if that is in use.

        Args:
            rule: A rule, or a policy function.

        Raises:
            UsageError: `rule` is neither a rule nor a function.
        """
        name = str(
            type(rule).__struct_config__.tag
            if isinstance(rule, Rule)
            else getattr(rule, "__name__", "policy")
        )
        if name in self._policies:
            numbers = range(2, len(self._policies) + 3)
            name = next(f"{name}-{n}" for n in numbers if f"{name}-{n}" not in self._policies)
        self.add(name, rule)

    def remove(self, name: str) -> bool:
        """Remove a policy.

        Args:
            name: Name of the policy.

        Returns:
            `False` if there is none of that name.
        """
        self._by_tool.clear()
        self.revision += 1
        return self._policies.pop(name, None) is not None

    def names(self) -> Sequence[str]:
        """Return all names, in order."""
        return list(self._policies)

    def __len__(self) -> int:
        return len(self._policies)

    def __iter__(self) -> Iterator[Policy]:
        return iter(self._policies.values())

    def about(self, action: Action, tool: ToolFacts | None) -> tuple[Policy, ...]:
        """The policies that judge this action. Which ones depends on its type and tool alone."""
        key = (action.type, action.tool)
        found = self._by_tool.get(key)
        # Runtimes that share policies may each have a tool of this name.
        if found is None or found[0] is not tool:
            if len(self._by_tool) >= 4096:
                self._by_tool.clear()
            found = (tool, tuple(p for p in self._policies.values() if p.about(action, tool)))
            self._by_tool[key] = found
        return found[1]

    def spelled_out(self) -> list[JsonValue]:
        """Every policy as JSON, by which two sets can be told apart: a function by its name."""
        return [
            [p.name, msgspec.to_builtins(p.rule, enc_hook=repr)]
            if p.rule is not None
            else [
                p.name,
                getattr(p.call, "__module__", ""),
                getattr(p.call, "__qualname__", repr(type(p.call))),
            ]
            for p in self._policies.values()
        ]
