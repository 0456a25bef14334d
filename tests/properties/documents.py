"""Random proposals as documents, and a writer that spells JSON in every way JSON allows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from hypothesis import strategies as st

names = st.text(min_size=1, max_size=6) | st.sampled_from(
    ["a1", "k:1", 'quo"te', "back\\slash", "$a1.output", "é:\u2028"]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(2**63, 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | st.sampled_from([":", "a:b", '":', "\\u003a", "$$a1.output", "\x7f", "\U0001f600"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(names, values, max_size=3)
texts = st.lists(names, max_size=2)


def _some(fields: dict[str, Any], **needed: Any) -> Any:
    return st.fixed_dictionaries(needed, optional=fields)


preconditions = _some(
    {"operator": st.sampled_from(["eq", "like"]), "value": values, "description": names}, key=names
)
assumptions = _some({"expected_value": values, "read_version": st.none() | st.integers(0, 9)}, key=names)
compensations = _some({"parameters": objects}, type=st.just("tool"), tool=names) | _some(
    {}, type=st.just("action_ref"), action_id=names
)
actions = _some(
    {
        "id": names | st.just(""),
        "type": st.sampled_from(["tool_call", "state_write", "state_read", "assertion"]),
        "tool": st.none() | names,
        "parameters": objects,
        "preconditions": st.lists(preconditions, max_size=2),
        "expected_effects": objects,
        "dependencies": texts,
        "state_dependencies": texts,
        "read_set": texts,
        "write_set": texts,
        "assumptions": st.lists(assumptions, max_size=2),
        "idempotent": st.booleans(),
        "max_retries": st.integers(0, 1000),
        "failure_behavior": st.sampled_from(["abort", "retry", "skip"]),
        "timeout_ms": st.none() | st.integers(1, 10**9),
        "invocation_mode": st.sampled_from(["one_shot", "streaming", "long_running"]),
        "reversibility": st.none() | st.sampled_from(["reversible", "compensable", "irreversible"]),
        "compensation": st.none() | compensations,
        "references": st.booleans(),
        "metadata": objects,
    }
)
proposals = _some(
    {
        "source": names,
        "timestamp": st.sampled_from(
            ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678+02:00", "1999-12-31T23:59:59-11:30"]
        ),
        "context": objects,
        "actions": st.lists(actions, max_size=4),
    },
    id=names,
)
"""Documents that decode, with every field there or not."""


def places(document: Any) -> Iterator[Any]:
    """Every object in a document."""
    if isinstance(document, dict):
        yield document
        for item in document.values():
            yield from places(item)
    elif isinstance(document, list):
        for item in document:
            yield from places(item)


class Speller:
    """Writes JSON with whitespace and escapes wherever JSON allows them, and a key twice where told to."""

    def __init__(self, seed: int, *, twice_in: dict[str, Any] | None = None) -> None:
        self._dice = Random(seed)
        # Plain documents take a shorter way through the decoder; both ways have to be tried.
        self._escapes = self._dice.choice([(0.0,), (0.0, 0.3, 1.0)])
        self._twice_in = twice_in

    def write(self, value: Any) -> str:
        if isinstance(value, dict):
            pairs = list(value.items())
            if value is self._twice_in:
                key, kept = self._dice.choice(pairs)
                dropped = self._dice.choice([kept, 0, "x:y", {"a": {"b": ":"}}, [], None])
                pairs.insert(self._dice.randint(0, len(pairs)), (key, dropped))
            return self._wrap("{", [f"{self._text(k)}{self._gap()}:{self.write(v)}" for k, v in pairs], "}")
        if isinstance(value, list):
            return self._wrap("[", [self.write(item) for item in value], "]")
        if isinstance(value, str):
            return f"{self._gap()}{self._text(value)}{self._gap()}"
        return f"{self._gap()}{json.dumps(value)}{self._gap()}"

    def _wrap(self, first: str, parts: list[str], last: str) -> str:
        between = f"{self._gap()},{self._gap()}"
        return f"{self._gap()}{first}{self._gap()}{between.join(parts)}{last}{self._gap()}"

    def _gap(self) -> str:
        return self._dice.choice(["", "", "", "", " ", "\n", "\t", " \r\n "])

    def _text(self, text: str) -> str:
        escape = self._dice.choice(self._escapes)
        return '"' + "".join(self._character(c, escape) for c in text) + '"'

    def _character(self, c: str, escape: float) -> str:
        if c in '"\\' or ord(c) < 32 or self._dice.random() < escape:
            if c == "/" and self._dice.random() < 0.5:
                return "\\/"
            units = c.encode("utf-16-be")
            spelled = "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
            return spelled.upper().replace("\\U", "\\u") if self._dice.random() < 0.5 else spelled
        return c
