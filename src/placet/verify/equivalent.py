"""Do two plans leave the same state? Tried on samples: a counterexample is certain, agreement is not.

Keep true:
1. The samples depend on the two plans alone.
2. The work is bounded: large plans are tried on fewer samples, never on none.
3. A difference is only reported where it is one; what cannot be known beforehand is no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from placet.ir.action import Action
from placet.ir.codec import decode_proposal
from placet.ir.graph import Graph, reads_and_writes
from placet.ir.json_value import JsonValue, canonical_bytes, json_equal
from placet.ir.to_dict import ToDict
from placet.policy.gate import Gate
from placet.state.store import MISSING
from placet.verify.known_tools import AnyTools, ToolCards
from placet.verify.rehearsal import Rehearsal
from placet.verify.simulation import SimulatedState, Unknown
from placet.verify.verify import ProposalGiven

MOST_SAMPLES = 256
_MOST_STEPS = 400_000
"""Samples times actions."""
_MOST_VALUES = 24
"""Values tried per key."""
_MOST_KEYS = 64
"""Keys that are varied one by one; beyond, keys vary together."""


class Difference(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """A state key that two plans leave with different values."""

    key: str
    """The state key."""
    first: str
    """The value that the first plan leaves: JSON text, `missing`, or where the value comes from."""
    second: str
    """The value that the second plan leaves."""


class Equivalence(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """Whether two plans leave the same state, as far as samples show."""

    equivalent: bool
    """Whether no difference was found."""
    tier: Literal["sampled"] = "sampled"
    """Always `"sampled"`: a difference is certain, equivalence is not."""
    counterexample: dict[str, JsonValue] | None = None
    """A starting state from which the plans differ."""
    differences: Sequence[Difference] = ()
    """How they differ from there."""
    samples: int = 0
    """How many starting states were tried."""


def equivalent(
    a: ProposalGiven, b: ProposalGiven, states: Iterable[Mapping[str, JsonValue]] | None = None
) -> Equivalence:
    """Compare the states that two plans leave, from given or generated starting states.

    Only the state is compared, not which tools are called. Tools are assumed to succeed; two equal calls,
    counted in order, are assumed to return the same.

    >>> write = {"type": "state_write", "parameters": {"key": "k", "value": 1}}
    >>> read = {"type": "state_read", "parameters": {"key": "k"}}
    >>> equivalent({"actions": [write, read]}, {"actions": [write]}).equivalent
    True
    >>> equivalent({"actions": [write]}, {"actions": []}).counterexample
    {}

    Args:
        a: The first plan.
        b: The second plan.
        states: Starting states to try. `None`: states generated from the two plans.

    Raises:
        DecodeError: a proposal cannot be decoded.
        NotJson: a state holds a value that is not JSON.
    """
    plans = (decode_proposal(a).actions, decode_proposal(b).actions)
    graphs = (Graph(plans[0]), Graph(plans[1]))
    tried = 0
    origins: dict[bytes, int] = {}
    for state in _samples([*plans[0], *plans[1]]) if states is None else states:
        tried += 1
        first, second = (_outcome(graph, state, origins) for graph in graphs)
        differences = _compare(first, second)
        if differences:
            return Equivalence(
                equivalent=False, counterexample=dict(state), differences=differences, samples=tried
            )
    return Equivalence(equivalent=True, samples=tried)


class _Outcome(NamedTuple):
    """What one plan makes of one state."""

    written: dict[str, Any]
    """Values, or Unknowns."""
    start: Mapping[str, JsonValue]
    is_blurred: bool


def _outcome(graph: Graph, state: Mapping[str, JsonValue], origins: dict[bytes, int]) -> _Outcome:
    simulated = SimulatedState(state)
    if graph.faults:
        return _Outcome({}, state, False)
    tools = AnyTools()
    rehearsal = Rehearsal(graph, Gate(tools), ToolCards(tools), simulated, origins=origins)
    rehearsal.run()
    if rehearsal.aborts:
        return _Outcome({}, state, False)
    if rehearsal.aborts is None:
        simulated.doubt_all()
    return _Outcome(simulated.cells, state, simulated.is_blurred)


def _compare(a: _Outcome, b: _Outcome) -> list[Difference]:
    if a.is_blurred != b.is_blurred:
        words = ("nothing more is written", "a key that a tool names is written")
        return [Difference(key="any key", first=words[a.is_blurred], second=words[b.is_blurred])]
    if a.is_blurred:
        # Both write some key that nobody knows yet: it may be any, and the same.
        return []
    found: list[Difference] = []
    for key in sorted({*a.written, *b.written}):
        first = a.written[key] if key in a.written else a.start.get(key, MISSING)
        second = b.written[key] if key in b.written else b.start.get(key, MISSING)
        if not _may_be_equal(first, second):
            found.append(Difference(key=key, first=_describe(first), second=_describe(second)))
    return found


def _may_be_equal(a: Any, b: Any) -> bool:
    kinds = (type(a) is Unknown, type(b) is Unknown)
    if kinds == (True, True):
        return a.origin is None or b.origin is None or a.origin == b.origin
    if True in kinds:
        unknown, known = (a, b) if kinds[0] else (b, a)
        if known is MISSING:
            return not unknown.exists
        # A tool's answer is not a constant, though it may be equal to one by chance.
        return unknown.origin is None
    return (a is MISSING) == (b is MISSING) and json_equal(a, b)


def _describe(value: Any) -> str:
    if value is MISSING:
        return "missing"
    if type(value) is Unknown:
        return "what a tool answers"
    return canonical_bytes(value).decode()


# Samples


def _samples(actions: Sequence[Action]) -> Iterator[dict[str, JsonValue]]:
    """Starting states that the conditions in the plans tell apart: all keys missing, all as the conditions
    want them, each key in turn varied from both, then mixtures."""
    values = _values_by_key(actions)
    keys = sorted(values)
    most = max(8, min(MOST_SAMPLES, _MOST_STEPS // (len(actions) + 1)))
    seen: set[bytes] = set()
    for sample in _candidates(keys, values, most):
        state = {key: value for key, value in sample.items() if value is not MISSING}
        spelled = canonical_bytes(state)
        if spelled not in seen:
            seen.add(spelled)
            yield state
            if len(seen) >= most:
                return


def _candidates(
    keys: Sequence[str], values: Mapping[str, Sequence[Any]], most: int
) -> Iterator[dict[str, Any]]:
    empty = dict.fromkeys(keys, MISSING)
    # The first value of a key is the first that a condition compares it with.
    wanted = {key: values[key][0] for key in keys}
    yield empty
    yield wanted
    if len(keys) <= _MOST_KEYS:
        for base in (wanted, empty):
            for at in range(_MOST_VALUES + 1):
                for key in keys:
                    if at < len(values[key]):
                        yield {**base, key: values[key][at]}
    # Strides that differ from key to key bring the values into ever new company.
    for turn in range(4 * most):
        yield {
            key: values[key][(turn * (2 * at + 1) + at + turn // 7) % len(values[key])]
            for at, key in enumerate(keys)
        }


def _values_by_key(actions: Sequence[Action]) -> dict[str, list[Any]]:
    """What to try for each key the plans touch: compared values, their neighbours, missing, other kinds."""
    found: dict[str, dict[bytes, Any]] = {}

    def add(key: str, *values: JsonValue) -> None:
        of_key = found.setdefault(key, {})
        for value in values:
            if len(of_key) < _MOST_VALUES - len(_OTHER_KINDS):
                of_key.setdefault(canonical_bytes(value), value)

    for action in actions:
        for precondition in action.preconditions:
            add(precondition.key, *_around(precondition.operator, precondition.value))
        for assumption in action.assumptions:
            if assumption.expected_value is not msgspec.UNSET:
                add(assumption.key, assumption.expected_value)
        if action.type == "assertion" and isinstance(action.parameters.get("key"), str):
            add(action.parameters["key"], action.parameters.get("expected"))
        reads, writes = reads_and_writes(action)
        for key in (*reads, *writes):
            if not key.startswith("\0"):
                found.setdefault(key, {})
    values: dict[str, list[Any]] = {}
    for key, of_key in found.items():
        others = {spelled: value for spelled, value in _OTHER_KINDS.items() if spelled not in of_key}
        values[key] = [*of_key.values(), *others.values(), MISSING]
    return values


_KINDS: tuple[JsonValue, ...] = (1, None, True, "text", 0, [], {"field": 1})
_OTHER_KINDS: dict[bytes, JsonValue] = {canonical_bytes(value): value for value in _KINDS}


def _around(operator: str, value: JsonValue) -> list[JsonValue]:
    """A value that a condition compares with, and what lies next to it."""
    if operator in ("exists", "not_exists"):
        return []
    if operator == "contains":
        around = [[value], [value, value]]
        return [f"a {value} b", {value: 1}, *around] if isinstance(value, str) else around
    if isinstance(value, int | float) and not isinstance(value, bool):
        # What satisfies a strict comparison comes first.
        ahead = {"gt": value + 1, "lt": value - 1, "neq": value + 1}.get(operator, value)
        return [ahead, value, value + 1, value - 1]
    return [value]
