"""Whatever is proposed, verify answers with a report or says that it cannot be read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import DecodeError
from placet.ir.codec import encode
from placet.verify import Report, equivalent, optimize, simulate, transaction_check, verify
from tests.properties.effort import examples
from tests.verify.plans import TOOLS

NAMES = st.sampled_from(["a", "b", "c", "d", ""])
KEYS = st.sampled_from(["k", "l", "\0any", "", "$a.output", "a.b"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
TEXTS = st.sampled_from(
    ["$a.output", "$b.output.x[0]", "$$a.output", "see $a.output!", "$c.output.value", "$", "$nobody.output"]
)
JSON = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
CONDITIONS = st.fixed_dictionaries(
    {"key": KEYS},
    optional={
        "operator": st.sampled_from(["eq", "neq", "gt", "lte", "exists", "not_exists", "contains", "odd"]),
        "value": JSON,
    },
)
ASSUMPTIONS = st.fixed_dictionaries(
    {"key": KEYS}, optional={"expected_value": JSON, "read_version": st.integers(-1, 5)}
)
COMPENSATIONS = st.one_of(
    st.builds(lambda name: {"type": "action_ref", "action_id": name}, NAMES),
    st.builds(
        lambda p: {"type": "tool", "tool": "unbook", "parameters": p}, st.dictionaries(KEYS, JSON, max_size=2)
    ),
)
ACTIONS = st.fixed_dictionaries(
    {},
    optional={
        "id": NAMES,
        "type": st.sampled_from(["tool_call", "state_write", "state_read", "assertion"]),
        "tool": st.sampled_from(["look", "add", "mail", "book", "nothing", "", None]),
        "parameters": st.dictionaries(
            st.sampled_from(["key", "value", "expected", "n"]), KEYS | JSON, max_size=3
        ),
        "preconditions": st.lists(CONDITIONS, max_size=2),
        "expected_effects": st.dictionaries(KEYS, JSON, max_size=2),
        "dependencies": st.lists(NAMES, max_size=3),
        "state_dependencies": st.lists(KEYS, max_size=2),
        "read_set": st.lists(KEYS, max_size=2),
        "write_set": st.lists(KEYS, max_size=2),
        "assumptions": st.lists(ASSUMPTIONS, max_size=2),
        "idempotent": st.booleans(),
        "failure_behavior": st.sampled_from(["abort", "retry", "skip"]),
        "invocation_mode": st.sampled_from(["one_shot", "streaming"]),
        "reversibility": st.sampled_from(["reversible", "compensable", "irreversible", None]),
        "compensation": COMPENSATIONS,
        "references": st.booleans(),
        "surprise": JSON,
    },
)
PROPOSALS = st.fixed_dictionaries({"id": st.just("p")}, optional={"actions": st.lists(ACTIONS, max_size=6)})
STATES = st.none() | st.dictionaries(KEYS, JSON, max_size=3)


def is_control(letter: str) -> bool:
    return letter < " " or "\x7f" <= letter <= "\x9f"


@examples(250)
@given(PROPOSALS, STATES, st.sampled_from([None, TOOLS, ["look", "add"]]))
def test_any_proposal_gets_a_report_that_can_be_written_down(document: Any, state: Any, tools: Any) -> None:
    report = verify(document, state, tools)

    assert isinstance(report, Report)
    assert report.valid == (not report.errors)
    assert encode(verify(document, state, tools)) == encode(report)
    assert not any("\0" in conflict.key for conflict in report.conflicts)
    assert not any(is_control(letter) for issue in report.issues for letter in issue.message)


@examples(125)
@given(PROPOSALS, PROPOSALS, STATES)
def test_the_other_questions_are_answered_too(a: Any, b: Any, state: Any) -> None:
    assert isinstance(simulate(a, state), dict)
    assert equivalent(a, optimize(a)).equivalent
    equivalent(a, b)
    transaction_check([a, b], state)


@given(JSON)
def test_what_is_no_proposal_is_refused_with_a_decode_error(document: Any) -> None:
    try:
        report = verify(document)
    except DecodeError:
        return
    assert isinstance(report, Report)


@given(st.text(max_size=40) | st.binary(max_size=40))
def test_text_that_is_no_proposal_is_refused_with_a_decode_error(text: Any) -> None:
    with pytest.raises(DecodeError):
        verify(text)
