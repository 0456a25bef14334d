"""Names that mean nothing: tools and parameters in rules, and fields in plans.

A rule with a misspelt name applies to nothing, and nobody notices. So each such name is a warning, with the
nearest name that is known.

Keep true:
1. A warning decides nothing: what a plan may do is the same with and without it.
2. A rule is reported once, however many actions a plan has.
3. A name that is known elsewhere is no warning: of a tool that is withheld, that comes with Placet, or that
   an MCP server offers. Nor is a name in a rule that holds in many places, unless a known one is close to it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher, get_close_matches
from typing import Literal, NamedTuple, Protocol

import msgspec

from placet.ir.action import Action, ActionCompensation, Assumption, Precondition, ToolCompensation
from placet.ir.proposal import Proposal
from placet.ir.tool_spec import ToolSchema
from placet.policy.calls import Calls
from placet.policy.capabilities import CapabilitySet
from placet.policy.case import Rule
from placet.policy.engine import Policy
from placet.policy.flow import FlowRule
from placet.policy.gate import Objection
from placet.policy.pattern import name_pattern
from placet.policy.sources import ValueSource
from placet.policy.trace import TraceRule
from placet.truncation import truncate
from placet.validator import ToolFacts
from placet.verify.report import printable

CAPABILITIES = "capabilities"
"""The name under which a CapabilitySet is reported."""

_NEAR = 0.6
"""How alike two names must be for one to be suggested."""
_LIKELY = 0.75
"""How alike they must be where the name may well be right, and is only not known here."""
_LONGEST = 200
_MOST_HINTS = 100
"""Looking for a near name takes a while."""
_MORE_PROPERTIES = frozenset(
    {
        *("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "then", "else"),
        *("dependentSchemas", "patternProperties", "unevaluatedProperties"),
    }
)
"""Keywords that may let a schema take more properties than it lists."""
_FIELDS: dict[str, Sequence[str]] = {
    "proposal": Proposal.__struct_fields__,
    "action": Action.__struct_fields__,
    "preconditions": Precondition.__struct_fields__,
    "assumptions": Assumption.__struct_fields__,
    "compensation": ("type", *ToolCompensation.__struct_fields__, *ActionCompensation.__struct_fields__),
}
_NESTED = re.compile(r"(preconditions|assumptions|compensation)(?:\[\d+\])?\.")
_ALSO_PARAMETERS = frozenset({"args", "arguments", "input", "inputs", "kwargs", "param"})
"""What other formats call the parameters of a call."""


class NameWarning(msgspec.Struct, frozen=True, kw_only=True):
    """A name in a rule or a plan that matches nothing known."""

    kind: Literal["unknown_tool", "unknown_parameter", "unknown_field"]
    """Kind of thing that has no such name."""
    name: str
    """As it was written."""
    nearest: str | None = None
    """A known name that may be meant."""
    rule: str | None = None
    """The policy that uses it; `capabilities` for a CapabilitySet."""
    action_id: str | None = None
    """The action that uses it, where it is a field of one."""
    message: str
    """Sentence for people."""


class KnownTools(Protocol):
    """The tools of a runtime, and the names of others that exist."""

    def names(self) -> Sequence[str]: ...

    def get(self, name: str) -> ToolFacts | None: ...

    @property
    def withheld(self) -> Mapping[str, str]: ...

    @property
    def hints(self) -> Mapping[str, str]: ...

    @property
    def elsewhere(self) -> Collection[str]:
        """Names of tools that exist and are not offered here; `*` stands for any text."""


def rule_warnings(
    policies: Iterable[Policy], tools: KnownTools, *, general: Collection[str] = ()
) -> list[NameWarning]:
    """The tools and parameters that rules name and nobody knows.

    Functions are left out: what they look for cannot be seen. `general` names rules that hold in many places;
    of these only likely slips are reported.
    """
    known = _Known(tools)
    found: list[NameWarning] = []
    for policy in policies:
        if policy.rule is not None:
            found += _about_rule(policy.name, policy.rule, known, is_general=policy.name in general)
    return found


def capability_warnings(capabilities: CapabilitySet | None, tools: KnownTools) -> list[NameWarning]:
    """The tools that are denied and that nobody knows. A tool that is allowed and not known is left out: a
    misspelt name there denies, and says so."""
    if capabilities is None or not capabilities.denied_tools:
        return []
    known = _Known(tools)
    place = "capabilities, 'denied_tools'"
    named = (_unknown_tool(CAPABILITIES, place, name, known, False) for name in capabilities.denied_tools)
    return [each for each in named if each is not None]


def field_warnings(proposal: Proposal) -> list[NameWarning]:
    """The fields of a plan that mean nothing, in the order in which they stand."""
    hints: dict[tuple[str, str], str | None] = {}
    found: list[NameWarning] = []
    for action_id, path in proposal.unknown_fields:
        match = _NESTED.match(path) if action_id is not None else None
        place = "proposal" if action_id is None else match[1] if match else "action"
        name = path[match.end() :] if match else path
        if (place, name) not in hints and len(hints) < _MOST_HINTS:
            hints[place, name] = _near_field(place, name)
        near = hints.get((place, name))
        hint = f"; did you mean '{near}'?" if near else ""
        found.append(
            NameWarning(
                kind="unknown_field",
                name=path,
                nearest=near,
                action_id=action_id,
                message=printable(f"unknown field '{path}' is ignored{hint}"),
            )
        )
    return found


def misnamed_parameters(proposal: Proposal) -> dict[str, str]:
    """By action, the unknown field that holds its parameters, or those of its compensation.

    Only where there are no parameters under their own name: then nobody can mean the action as it stands.

    >>> from placet.ir.codec import decode_proposal
    >>> plan = {"actions": [{"id": "a", "tool": "t", "params": {"x": 1}}]}
    >>> misnamed_parameters(decode_proposal(plan))
    {'a': 'params'}
    """
    if not proposal.ignored_objects:
        return {}
    empty = set()
    for action in proposal.actions:
        if not action.parameters:
            empty.add((action.id, ""))
        if isinstance(action.compensation, ToolCompensation) and not action.compensation.parameters:
            empty.add((action.id, "compensation"))
    found: dict[str, str] = {}
    for action_id, path in proposal.ignored_objects:
        place, _, name = path.rpartition(".")
        if action_id is not None and (action_id, place) in empty and _means_parameters(name):
            found[action_id] = min(path, found.get(action_id, path))
    return found


def with_misnamed(
    found: Sequence[Objection], misnamed: Mapping[str, str], action: Action
) -> Sequence[Objection]:
    """The objections to an action, and that its parameters stand in a field of another name."""
    field = misnamed.get(action.id)
    if field is None:
        return found
    why = printable(f"its unknown field '{_cut(field)}' is ignored; did you mean 'parameters'?")
    # Nobody is asked about an action that cannot run as it is.
    return [*(o for o in found if o.kind != "ask"), Objection("invalid", why)]


def _means_parameters(name: str) -> bool:
    if name.lower() in _ALSO_PARAMETERS:
        return True
    return bool(get_close_matches(name, ["parameters"], n=1, cutoff=_LIKELY))


def _near_field(place: str, name: str) -> str | None:
    if place == "action" and name.lower() in _ALSO_PARAMETERS:
        return "parameters"
    near = get_close_matches(name, _FIELDS[place], n=1)
    return near[0] if near else None


# Rules


class _Known:
    """Every name that is known, and the schemas of those tools that are here."""

    def __init__(self, tools: KnownTools) -> None:
        self.tools = tools
        self.registered = list(tools.names())
        self._unseen = [
            *tools.withheld,
            *tools.hints,
            *(name for name in tools.elsewhere if "*" not in name),
        ]
        """Tools of which only the name is known."""
        self._names = {*self.registered, *self._unseen}
        self._patterns = [name for name in tools.elsewhere if "*" in name]
        self._looks = 0

    def has(self, pattern: str) -> bool:
        """Whether some tool may answer to the name, or fit the pattern."""
        fits = name_pattern(pattern)
        if "*" not in pattern:
            return pattern in self._names or any(name_pattern(p)(pattern) for p in self._patterns)
        return any(map(fits, self._names)) or self._may_overlap(pattern)

    def has_unseen(self, pattern: str) -> bool:
        """Whether the pattern may also mean tools whose parameters are not known."""
        here = set(self.registered)
        if "*" not in pattern:
            return pattern not in here
        return any(name_pattern(pattern)(name) for name in self._unseen if name not in here) or (
            self._may_overlap(pattern)
        )

    def _may_overlap(self, pattern: str) -> bool:
        begin = pattern.partition("*")[0]
        others = [other.partition("*")[0] for other in self._patterns]
        return any(begin.startswith(other) or other.startswith(begin) for other in others)

    def nearest(self, pattern: str, cutoff: float) -> str | None:
        """The known name that is most like this one; of a pattern, like the longest piece of it."""
        self._looks += 1
        if self._looks > _MOST_HINTS or len(pattern) > _LONGEST:
            return None
        if "*" not in pattern:
            near = get_close_matches(pattern, sorted(self._names), n=1, cutoff=cutoff)
            return near[0] if near else None
        piece = max(pattern.split("*"), key=len)
        if not piece:
            return None
        at_start, at_end = pattern.startswith(piece), pattern.endswith(piece)

        def likeness(name: str) -> float:
            # A tool is meant whose name goes on where the pattern has a star.
            part = name[: len(piece)] if at_start else name[-len(piece) :] if at_end else name
            return SequenceMatcher(None, part, piece).ratio()

        best = max(sorted(self._names), key=likeness, default=None)
        return best if best is not None and likeness(best) >= cutoff else None


class _Named(NamedTuple):
    """Where a rule names tools."""

    place: str
    calls: Calls


def _about_rule(name: str, rule: Rule, known: _Known, *, is_general: bool) -> Iterator[NameWarning]:
    whose = f"policy '{_cut(name)}'"
    named = [_Named(whose, rule)]
    if isinstance(rule, TraceRule) and rule.other is not None:
        key = next(key for key in ("only_after", "only_before", "never_with") if getattr(rule, key))
        named.append(_Named(f"{whose}, '{key}'", rule.other))
    if isinstance(rule, FlowRule):
        named += [_Named(f"{whose}, 'unless_from'", source) for source in rule.sources]
    is_known = True
    for place, calls in named:
        warned = _unknown_tool(name, place, calls.tool, known, is_general)
        is_known = is_known and (warned is None and known.has(calls.tool))
        if warned is not None:
            yield warned
    if is_known:
        yield from _unknown_parameters(name, whose, rule, _parameters_of(rule), known, is_general)
        for place, calls in named:
            if isinstance(calls, ValueSource) and calls.named_param is not None:
                yield from _unknown_parameters(name, place, calls, [calls.named_param], known, is_general)


def _unknown_tool(rule: str, place: str, pattern: str, known: _Known, is_general: bool) -> NameWarning | None:
    if not pattern.strip("*") or known.has(pattern):
        return None
    near = known.nearest(pattern, _LIKELY if is_general else _NEAR)
    if near is None and is_general:
        return None
    is_named = "is named" if "*" not in pattern else "matches"
    return NameWarning(
        kind="unknown_tool",
        name=pattern,
        nearest=near,
        rule=rule,
        message=printable(f"{place}: no known tool {is_named} '{_cut(pattern)}'{_hint(near)}"),
    )


def _unknown_parameters(
    name: str, place: str, calls: Calls, wanted: Sequence[str], known: _Known, is_general: bool
) -> Iterator[NameWarning]:
    if not wanted:
        return
    meant = []
    for each in known.registered:
        tool = known.tools.get(each)
        if tool is not None and Calls.about(calls, Action(id="-", tool=each), tool):
            meant.append(tool.schema)
    listed = [_properties(schema) for schema in meant]
    if not listed or None in listed:
        return
    properties = sorted({each for names in listed for each in names or ()})
    # A rule for any tool is also for those that are not here now.
    is_likely_only = is_general or not calls.tool.strip("*") or known.has_unseen(calls.tool)
    owner = f"tool '{_cut(meant[0].name)}' has" if len(meant) == 1 else "no tool that it applies to has"
    for param in wanted:
        if param in properties:
            continue
        near = get_close_matches(param, properties, n=1, cutoff=_LIKELY if is_likely_only else _NEAR)
        if near or not is_likely_only:
            nearest = near[0] if near else None
            no = "no " if len(meant) == 1 else "a "
            yield NameWarning(
                kind="unknown_parameter",
                name=param,
                nearest=nearest,
                rule=name,
                message=printable(f"{place}: {owner} {no}parameter '{_cut(param)}'{_hint(nearest)}"),
            )


def _parameters_of(rule: Rule) -> list[str]:
    given = getattr(rule, "param", None)
    listed = given if isinstance(given, list | tuple) else [given]
    # A rule of one's own may mean something else by it.
    params = [param for param in listed if isinstance(param, str)]
    if isinstance(rule, FlowRule):
        # `message.to` is a part of the parameter `message`.
        params = [param.partition(".")[0] for param in params]
    return list(dict.fromkeys(params))


def _properties(schema: ToolSchema) -> set[str] | None:
    """The parameters of a tool; None if it may take others than its schema lists."""
    parameters = schema.parameters
    properties = parameters.get("properties")
    listed = set(properties) if isinstance(properties, dict) else set()
    more = parameters.get("additionalProperties")
    if more is False and "patternProperties" not in parameters:
        return listed
    if more is not None or not listed or not _MORE_PROPERTIES.isdisjoint(parameters):
        return None
    return listed


def _hint(near: str | None) -> str:
    return f"; did you mean '{_cut(near)}'?" if near is not None else ""


def _cut(text: str) -> str:
    return truncate(text, _LONGEST, "...")
