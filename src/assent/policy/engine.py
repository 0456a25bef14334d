"""All policies of a runtime or a session, and what they say to one action.

Keep true:
1. Every policy that is about the action is asked; every violation is reported.
2. A policy that raises, or answers with something else than a reason or None, denies.
3. A function judges and changes nothing: it gets a copy of the action, and a view that cannot write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from inspect import Parameter, iscoroutine, signature
from typing import Any

from assent.errors import UsageError
from assent.ir.action import Action
from assent.ir.graph import ANY_KEY, Footprint
from assent.ir.json_value import JsonValue
from assent.policy.rule import Counter, Rule
from assent.validator import Undecided, View

PolicyCallable = Callable[..., str | None]
"""(action, state) -> reason or None; one that takes only the action reads no state."""


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
            self._footprint = rule.footprint(name)
            self._counter = rule.counter(clock)
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

    def applies_to(self, action: Action) -> bool:
        """Whether this policy is about the action at all."""
        return self.rule is None or self.rule.applies_to(action)

    def touches(self, action: Action) -> Footprint:
        """What judging the action reads of the state, or counts."""
        return self._footprint if self.applies_to(action) else ((), ())

    @property
    def reads_parameters(self) -> bool:
        """Whether the answer may depend on parameters."""
        return self.rule is None or self.rule.reads_parameters

    @property
    def is_counting(self) -> bool:
        """Whether the answer depends on what ran lately."""
        return self._counter is not None

    def violation(self, action: Action, view: View) -> str | None:
        """Why the action is denied, or None.

        Raises:
            Undecided: the view cannot tell beforehand.
        """
        try:
            if self._counter is not None:
                return self._full(action)
            if self.rule is not None:
                return self.rule.check(action, view)
            assert self.call is not None
            # A copy: what was validated is what runs, whatever the function does to what it was shown.
            shown = deepcopy(action)
            answer = self.call(shown, _Window(view)) if self._takes_state else self.call(shown)
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

    def note(self) -> None:
        """The action was admitted: count it."""
        if self._counter is not None:
            self._counter.note()


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


class PolicySet:
    """Named policies, in the order in which they were added."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._policies: dict[str, Policy] = {}
        self._by_tool: dict[tuple[str, str | None], tuple[Policy, ...]] = {}

    def add(self, name: str, rule: Rule | PolicyCallable, *, reads: Iterable[str] | None = None) -> None:
        """Add a policy.

        Raises:
            UsageError: the name is taken, or `rule` is neither a rule nor a function.
        """
        if name in self._policies:
            raise UsageError(f"A policy named '{name}' exists. Remove it first, or choose another name.")
        self._policies[name] = Policy(name, rule, clock=self._clock, reads=reads)
        self._by_tool.clear()

    def remove(self, name: str) -> bool:
        """Remove a policy; false if there is none of that name."""
        self._by_tool.clear()
        return self._policies.pop(name, None) is not None

    def names(self) -> Sequence[str]:
        """All names, in order."""
        return list(self._policies)

    def __len__(self) -> int:
        return len(self._policies)

    def about(self, action: Action) -> tuple[Policy, ...]:
        """The policies that judge this action. Which ones depends on its type and tool alone."""
        key = (action.type, action.tool)
        found = self._by_tool.get(key)
        if found is None:
            if len(self._by_tool) >= 4096:
                self._by_tool.clear()
            found = tuple(p for p in self._policies.values() if p.applies_to(action))
            self._by_tool[key] = found
        return found
