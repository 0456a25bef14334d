"""The declared rules: what people can write down without writing code.

Keep true:
1. A rule that cannot be evaluated denies.
2. The value that was denied never appears in the reason.
3. A rule says beforehand which state it reads and what it counts, so the graph can keep actions in
   order where the order decides.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, ClassVar

import msgspec

from assent.ir.action import Action
from assent.ir.graph import Footprint
from assent.ir.json_value import JsonValue, json_equal, show_json
from assent.policy.pattern import name_pattern
from assent.validator import Undecided, View

_NOTHING: Footprint = ((), ())


class Rule(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """What every declared rule has: the tools it is about, and words for the person."""

    tool: str = "*"
    """A tool's name; `*` stands for any text."""
    reason: str = ""
    """Said instead of the rule's own words."""
    reads_parameters: ClassVar[bool] = True

    def applies_to(self, action: Action) -> bool:
        """Whether the rule is about this action at all."""
        return action.tool is not None and name_pattern(self.tool)(action.tool)

    def check(self, action: Action, view: View) -> str | None:
        """Why the action is denied, or None."""
        raise NotImplementedError

    def footprint(self, name: str) -> Footprint:
        """State keys the rule reads, and keys that stand for what it counts."""
        return _NOTHING

    def counter(self, clock: Callable[[], float]) -> Counter | None:
        """A fresh memory for a rule that counts what ran; None for all others."""
        return None


class Counter:
    """How often a rule's tools were admitted lately."""

    def __init__(self, limit: int, interval_s: float, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._interval_s = interval_s
        self._clock = clock
        self._starts: deque[float] = deque()

    def is_full(self) -> bool:
        """Whether the window has no room now."""
        now = self._clock()
        while self._starts and now - self._starts[0] >= self._interval_s:
            self._starts.popleft()
        return len(self._starts) >= self._limit

    def note(self) -> None:
        """Count one admission."""
        self._starts.append(self._clock())


class DenyTool(Rule, frozen=True, kw_only=True, tag="deny_tool"):
    """Deny a tool altogether."""

    reads_parameters: ClassVar[bool] = False

    def check(self, action: Action, view: View) -> str | None:
        return self.reason or f"tool '{action.tool}' is denied"


class DenyToolParam(Rule, frozen=True, kw_only=True, tag="deny_tool_param"):
    """Deny a tool when a parameter holds, equals, or merely is given."""

    param: str
    contains: str | None = None
    """Denied when this text stands anywhere in the value, in any case of letters."""
    equals: JsonValue | msgspec.UnsetType = msgspec.UNSET
    presence: bool = False
    """Denied when the parameter is given at all."""

    def __post_init__(self) -> None:
        given = (self.contains is not None) + (self.equals is not msgspec.UNSET) + self.presence
        if given != 1:
            raise ValueError("deny_tool_param needs exactly one of 'contains', 'equals', 'presence = true'")

    def check(self, action: Action, view: View) -> str | None:
        if self.param not in action.parameters:
            return None
        value = action.parameters[self.param]
        if self.presence:
            return self.reason or f"parameter '{self.param}' is not allowed"
        if self.contains is not None:
            if any(self.contains.casefold() in text.casefold() for text in _texts(value)):
                return self.reason or f"parameter '{self.param}' contains a denied text"
        elif json_equal(value, self.equals):
            return self.reason or f"parameter '{self.param}' has a denied value"
        return None


class AllowToolParam(Rule, frozen=True, kw_only=True, tag="allow_tool_param"):
    """Allow a tool only with listed values of a parameter. The one allowlist, so it fails closed."""

    param: str
    values: Sequence[JsonValue] = ()
    matching: str | None = None
    """A regular expression that the whole text of the value must fit."""

    def check(self, action: Action, view: View) -> str | None:
        if self.param in action.parameters:
            value = action.parameters[self.param]
            if any(json_equal(value, allowed) for allowed in self.values):
                return None
            if self.matching is not None and isinstance(value, str):
                compiled = _compiled(self.matching)
                if compiled is not None and compiled.fullmatch(value):
                    return None
            return self.reason or f"parameter '{self.param}' is not one of the allowed values"
        return self.reason or f"parameter '{self.param}' must be given, with one of the allowed values"


class DenyKeyword(Rule, frozen=True, kw_only=True, tag="deny_keyword"):
    """Deny any action whose parameters mention a word, in any case of letters."""

    keyword: Annotated[str, msgspec.Meta(min_length=1)]

    def applies_to(self, action: Action) -> bool:
        return self.tool == "*" or super().applies_to(action)

    def check(self, action: Action, view: View) -> str | None:
        wanted = self.keyword.casefold()
        if any(wanted in text.casefold() for text in _texts(action.parameters)):
            return self.reason or "its parameters contain a denied keyword"
        return None


class DenyToolParamMatching(Rule, frozen=True, kw_only=True, tag="deny_tool_param_matching"):
    """Deny a tool when a parameter fits a regular expression. One that does not compile denies the tool."""

    param: str
    pattern: str

    def check(self, action: Action, view: View) -> str | None:
        compiled = _compiled(self.pattern)
        if compiled is None:
            return "its pattern does not compile, so the tool is denied"
        if self.param in action.parameters:
            value = action.parameters[self.param]
            if any(compiled.search(text) for text in (*_texts(value), show_json(value))):
                return self.reason or f"parameter '{self.param}' fits a denied pattern"
        return None


class RequireState(Rule, frozen=True, kw_only=True, tag="require_state"):
    """Allow a tool only while a state key exists, or has a value."""

    key: str
    value: JsonValue | msgspec.UnsetType = msgspec.UNSET
    reads_parameters: ClassVar[bool] = False

    def check(self, action: Action, view: View) -> str | None:
        if view.exists(self.key) and (
            self.value is msgspec.UNSET or json_equal(view.get(self.key), self.value)
        ):
            return None
        return self.reason or f"state key '{self.key}' does not have the required value"

    def footprint(self, name: str) -> Footprint:
        return (self.key,), ()


class RateLimitTool(Rule, frozen=True, kw_only=True, tag="rate_limit_tool"):
    """Deny a tool that was admitted too often within a sliding window."""

    max_calls: Annotated[int, msgspec.Meta(ge=0)]
    interval_secs: Annotated[float, msgspec.Meta(gt=0)]
    reads_parameters: ClassVar[bool] = False

    def check(self, action: Action, view: View) -> str | None:
        # The rule is data; what ran lately is in the counter that the policy keeps for it.
        raise Undecided("depends on what runs within the window")

    def footprint(self, name: str) -> Footprint:
        # Who is denied depends on who came first, so the tools it counts run in serial order.
        return (), (f"\0rule:{name}",)

    def counter(self, clock: Callable[[], float]) -> Counter | None:
        return Counter(self.max_calls, self.interval_secs, clock)


DeclaredRule = (
    DenyTool
    | DenyToolParam
    | AllowToolParam
    | DenyKeyword
    | DenyToolParamMatching
    | RequireState
    | RateLimitTool
)


def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None


def _texts(value: JsonValue) -> Iterator[str]:
    """Every text in a value, keys included; numbers as they are written."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif value is not None:
        yield show_json(value)
