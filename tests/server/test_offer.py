"""How tools are offered to clients, and what clients are answered."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.tool_name_validation import TOOL_NAME_REGEX

from placet import ToolSchema
from placet.ir.result import ActionResult, ProposalResult
from placet.server.answer import Answers
from placet.server.offer import OWN, as_offered, offered_names

TRICKY = st.sampled_from(["a b", "a_b", "a/b", "a_b_2", "x" * 128, "x" * 129, "x" * 200, "ü", *OWN])


@given(st.lists(TRICKY | st.text(min_size=1), unique=True))
def test_every_tool_has_one_permitted_name_of_its_own(names: list[str]) -> None:
    offered = offered_names(names)

    assert sorted(offered.values()) == sorted(names)
    assert not set(offered) & set(OWN)
    for shown, name in offered.items():
        assert TOOL_NAME_REGEX.match(shown)
        if TOOL_NAME_REGEX.match(name) and "\n" not in name and name not in OWN:
            assert shown == name


@pytest.mark.parametrize(
    ("risk", "hints"),
    [
        ("read_only", (True, False, True, False)),
        ("idempotent", (False, False, True, False)),
        ("network", (False, True, False, True)),
        ("destructive", (False, True, False, True)),
    ],
)
def test_hints_follow_the_risk(risk: Any, hints: tuple[bool, ...]) -> None:
    offered = as_offered("t", ToolSchema(name="t", risk=risk)).annotations

    assert offered is not None
    told = (
        offered.read_only_hint,
        offered.destructive_hint,
        offered.idempotent_hint,
        offered.open_world_hint,
    )
    assert told == hints


def test_a_tool_that_takes_anything_still_takes_an_object() -> None:
    assert as_offered("t", ToolSchema(name="t")).input_schema == {"type": "object"}


@pytest.mark.parametrize(
    ("output", "is_data"),
    [
        ({"a": 1}, True),
        ([1, 2], False),
        ("text", False),
        ({"a": "x" * 20_000}, False),
        ({"a": "turned \u202e around"}, False),
        ({"a": 2**70}, True),
    ],
    ids=["object", "list", "text", "long", "steers", "large"],
)
def test_data_goes_along_only_if_all_of_it_may_be_seen(output: Any, is_data: bool) -> None:
    ended = ActionResult(action_id="call", status="succeeded", output=output, timestamp=datetime.now(UTC))
    result = ProposalResult(proposal_id="p", run_id="r", trace_id="t", outcome="succeeded", results=[ended])

    answer = Answers(None, None).of_call(result)

    assert not answer.is_error
    assert answer.structured_content == (output if is_data else None)
    text = answer.content[0].model_dump_json()
    assert len(text) < 17_000
    assert "\u202e" not in text


def test_half_a_character_is_no_reason_to_answer_nothing() -> None:
    output: Any = {"\ud800": ["half a character: \udfff"]}
    ended = ActionResult(action_id="call", status="succeeded", output=output, timestamp=datetime.now(UTC))
    result = ProposalResult(proposal_id="p", run_id="r", trace_id="t", outcome="succeeded", results=[ended])

    for answer in (Answers(None, None).of_call(result), Answers(None, None).of_plan(result)):
        assert "half a character: ?" in answer.model_dump_json()
