"""The declared rules: what people can write down without writing code. What all of them keep is in `case`."""

from __future__ import annotations

import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import Annotated, ClassVar

import msgspec

from placet.errors import RuleError
from placet.ir.action import Action
from placet.ir.graph import Footprint
from placet.ir.json_value import JsonValue, json_equal, show_json, texts_in
from placet.policy.case import LATER, Case, Foreseen, Rule
from placet.policy.flow import DenyIrreversible, FlowRule, MarkOutput
from placet.policy.sources import compiled_pattern
from placet.policy.trace import TraceRule
from placet.validator import Blanks, ToolFacts, Undecided


class Counter:
    """How often a rule's tools were admitted lately."""

    def __init__(self, limit: int, interval_s: float, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._interval_s = interval_s
        self._clock = clock
        self._starts: deque[tuple[float, str]] = deque()
        self._counted: set[str] = set()
        """The calls in the window, by what names them: one that is gone through again counts once."""

    def is_full(self) -> bool:
        """Whether the window has no room now."""
        now = self._clock()
        while self._starts and now - self._starts[0][0] >= self._interval_s:
            self._counted.discard(self._starts.popleft()[1])
        return len(self._starts) >= self._limit

    def note(self, call: str) -> None:
        """Count one admission, of a call of that name."""
        if call not in self._counted:
            self._starts.append((self._clock(), call))
            self._counted.add(call)


class DenyTool(Rule, frozen=True, kw_only=True, tag="deny_tool"):
    """Denies a tool."""

    reads_parameters: ClassVar[bool] = False

    def check(self, case: Case) -> str | None:
        return self.reason or f"tool '{case.action.tool}' is denied"


class DenyToolParam(Rule, frozen=True, kw_only=True, tag="deny_tool_param"):
    """Denies a tool if a parameter has a certain value. Give exactly one of `contains`, `equals`, `presence`,
    `above` and `below`.
    """

    param: str
    """Name of the parameter."""
    contains: str | None = None
    """Deny if this text occurs anywhere in the value, in any case and any equivalent Unicode spelling."""
    equals: JsonValue | msgspec.UnsetType = msgspec.UNSET
    """Deny if the value equals this, as JSON."""
    presence: bool = False
    """Deny if the parameter is given at all."""
    above: int | float | None = None
    """Deny if the value is a greater number, or not a number."""
    below: int | float | None = None
    """Deny if the value is a smaller number, or not a number."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("above", "below"):
            limit = getattr(self, name)
            if limit is not None and not _is_number(limit):
                raise RuleError(f"'{name}' must be a finite number")
        given = (self.contains is not None) + (self.equals is not msgspec.UNSET) + self.presence
        given += (self.above is not None) + (self.below is not None)
        if given != 1:
            raise RuleError(
                "deny_tool_param needs exactly one of 'contains', 'equals', 'presence = true', 'above' and "
                "'below'"
            )

    def check(self, case: Case) -> str | None:
        if self._has_limit:
            return self._beyond_limit(case)
        if self.param not in case.action.parameters:
            return None
        value = case.action.parameters[self.param]
        if self.presence:
            return self._says_given()
        if self.contains is not None:
            if _mentions(value, self.contains):
                return self._says_contains()
        elif json_equal(value, self.equals):
            return self.reason or f"parameter '{self.param}' has a denied value"
        return None

    def foresee(self, case: Case, blanks: Blanks) -> Foreseen:
        if self.param not in blanks:
            return True, self.check(case)
        if self.presence:
            return True, self._says_given()
        if self._has_limit and any(True for _ in blanks.texts(self.param)):
            # It is a text, an array or an object, whatever is filled in.
            return True, self._says_no_number()
        if self.contains is not None and _is_part(self.contains, blanks.texts(self.param)):
            return True, self._says_contains()
        return LATER

    @property
    def _has_limit(self) -> bool:
        return self.above is not None or self.below is not None

    def _beyond_limit(self, case: Case) -> str | None:
        if self.param in case.action.parameters:
            value = case.action.parameters[self.param]
        else:
            # A tool fills in its default, so that is what the call would do.
            value = _default_of(case.tool, self.param)
            if value is msgspec.UNSET:
                return None
        if not _is_number(value):
            return self._says_no_number()
        if self.above is not None and value > self.above:
            return self.reason or f"parameter '{self.param}' is above {show_json(self.above)}"
        if self.below is not None and value < self.below:
            return self.reason or f"parameter '{self.param}' is below {show_json(self.below)}"
        return None

    def _says_no_number(self) -> str:
        words = f"parameter '{self.param}' is not a number, so it cannot be compared with the limit"
        return self.reason or words

    def _says_given(self) -> str:
        return self.reason or f"parameter '{self.param}' is not allowed"

    def _says_contains(self) -> str:
        return self.reason or f"parameter '{self.param}' contains a denied text"


class AllowToolParam(Rule, frozen=True, kw_only=True, tag="allow_tool_param"):
    """Denies a tool unless a parameter has one of the listed values."""

    param: str
    """Name of the parameter; a call without it is denied."""
    values: Sequence[JsonValue] = ()
    """Allowed values."""
    matching: str | None = None
    """Regular expression that the whole text of the value must match to be allowed."""

    def check(self, case: Case) -> str | None:
        if self.param in case.action.parameters:
            value = case.action.parameters[self.param]
            if any(json_equal(value, allowed) for allowed in self.values):
                return None
            if self.matching is not None and isinstance(value, str):
                compiled = compiled_pattern(self.matching)
                if compiled is not None and compiled.fullmatch(value):
                    return None
            return self.reason or f"parameter '{self.param}' is not one of the allowed values"
        return self.reason or f"parameter '{self.param}' must be given, with one of the allowed values"

    def foresee(self, case: Case, blanks: Blanks) -> Foreseen:
        return LATER if self.param in blanks else (True, self.check(case))


class DenyKeyword(Rule, frozen=True, kw_only=True, tag="deny_keyword"):
    """Denies any action whose parameters or expected effects contain a text."""

    keyword: Annotated[str, msgspec.Meta(min_length=1)]
    """The text, in any case and any equivalent Unicode spelling; not empty."""

    def about(self, action: Action, tool: ToolFacts | None) -> bool:
        if action.type != "tool_call":
            return self.tool == "*" and self.risk is None and self.label is None
        return super().about(action, tool)

    def check(self, case: Case) -> str | None:
        if _mentions(case.action.parameters, self.keyword):
            return self._says_contain()
        if case.action.expected_effects and _mentions(case.action.expected_effects, self.keyword):
            return self.reason or "its expected effects contain a denied keyword"
        return None

    def foresee(self, case: Case, blanks: Blanks) -> Foreseen:
        if any(_is_part(self.keyword, (name, *blanks.texts(name))) for name in blanks):
            return True, self._says_contain()
        denial = self.check(case)
        return LATER if denial is None else (True, denial)

    def _says_contain(self) -> str:
        return self.reason or "its parameters contain a denied keyword"


class DenyToolParamMatching(Rule, frozen=True, kw_only=True, tag="deny_tool_param_matching"):
    """Denies a tool if a parameter matches a regular expression. A pattern that does not compile denies the
    tool.
    """

    param: str
    """Name of the parameter."""
    pattern: str
    """Regular expression, searched for in each text of the value and in its JSON."""

    def check(self, case: Case) -> str | None:
        compiled = compiled_pattern(self.pattern)
        if compiled is None:
            return "its pattern does not compile, so the tool is denied"
        if self.param in case.action.parameters:
            value = case.action.parameters[self.param]
            if any(compiled.search(text) for text in (*texts_in(value), show_json(value))):
                return self.reason or f"parameter '{self.param}' fits a denied pattern"
        return None

    def foresee(self, case: Case, blanks: Blanks) -> Foreseen:
        if self.param in blanks and compiled_pattern(self.pattern) is not None:
            return LATER
        return True, self.check(case)


class RequireState(Rule, frozen=True, kw_only=True, tag="require_state"):
    """Denies a tool unless a state key exists or has a certain value."""

    key: str
    """The state key."""
    value: JsonValue | msgspec.UnsetType = msgspec.UNSET
    """The value that it must have. Unset: it is enough that the key exists."""
    reads_parameters: ClassVar[bool] = False

    def check(self, case: Case) -> str | None:
        if case.view.exists(self.key) and (
            self.value is msgspec.UNSET or json_equal(case.view.get(self.key), self.value)
        ):
            return None
        return self.reason or f"state key '{self.key}' does not have the required value"

    def touches(self, name: str, action: Action, tool: ToolFacts | None) -> Footprint:
        return (self.key,), ()


class RateLimitTool(Rule, frozen=True, kw_only=True, tag="rate_limit_tool"):
    """Denies a tool that was admitted too often within a sliding window."""

    max_calls: Annotated[int, msgspec.Meta(ge=0)]
    """Number of calls within the window, 0 or more."""
    interval_secs: Annotated[float, msgspec.Meta(gt=0)]
    """Length of the window in seconds, above 0."""
    reads_parameters: ClassVar[bool] = False

    def check(self, case: Case) -> str | None:
        # The rule is data; what ran lately is in the counter that the policy keeps for it.
        raise Undecided("depends on what runs within the window")

    def touches(self, name: str, action: Action, tool: ToolFacts | None) -> Footprint:
        # Who is denied depends on who came first, so the tools it counts run in serial order.
        return (), (f"\0rule:{name}",)

    def counter(self, clock: Callable[[], float]) -> Counter:
        """A fresh memory of what was admitted."""
        return Counter(self.max_calls, self.interval_secs, clock)


DeclaredRule = (
    DenyTool
    | DenyToolParam
    | AllowToolParam
    | DenyKeyword
    | DenyToolParamMatching
    | RequireState
    | RateLimitTool
    | TraceRule
    | FlowRule
    | MarkOutput
    | DenyIrreversible
)


def _is_number(value: JsonValue) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    # Not `isfinite`: it refuses integers that no float can hold.
    return isinstance(value, int) and not isinstance(value, bool)


def _default_of(tool: ToolFacts | None, param: str) -> JsonValue | msgspec.UnsetType:
    """The default that a tool's schema declares for a parameter; UNSET if it declares none."""
    properties = tool.schema.parameters.get("properties") if tool is not None else None
    declared = properties.get(param) if isinstance(properties, dict) else None
    return declared.get("default", msgspec.UNSET) if isinstance(declared, dict) else msgspec.UNSET


def _mentions(value: JsonValue, wanted: str) -> bool:
    """Whether a text stands anywhere in a value: in any case of letters, in any canonically equal form."""
    folded, composed = wanted.casefold(), _composed(wanted)
    for text in texts_in(value):
        # Both: composing also hides, where an accent that follows would join the last letter of the word.
        if folded in text.casefold() or (not text.isascii() and composed in _composed(text)):
            return True
    return False


def _is_part(wanted: str, known: Iterable[str]) -> bool:
    """Whether a text stands in one of the known pieces of longer ones. Only case is folded: how a piece is
    composed depends on what comes after it."""
    folded = wanted.casefold()
    return any(folded in piece.casefold() for piece in known)


def _composed(text: str) -> str:
    # Folding case may take a composed letter apart, so compose once more.
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
