"""From a sentence to an agent: drafts, what is dropped, what is fed back, which draft is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet import Runtime
from placet.agents.builder import Attempt, Builder, read_draft
from placet.agents.scenarios import Trying
from placet.errors import RequestRefused, UsageError
from placet.inference import Scripted
from placet.inference.messages import Assistant, User
from placet.inference.model import Request
from placet.ir.proposal import Proposal
from placet.policy.budget import CostBudget
from tests.agents.trying import NOT_KEPT_IN, told

TOOLS = {"read_file": "Read a file.", "write_file": "Write a file."}


def draft(*scenarios: tuple[str, str], **more: Any) -> str:
    made = {"name": "Greeter", "description": "It greets.", "identity": "You greet.", "tools": []}
    made |= {"scenarios": [{"input": given, "expect": wanted} for given, wanted in scenarios], **more}
    return json.dumps(made)


def builder(model: Scripted, **more: Any) -> Builder:
    return Builder(Trying(Runtime(), model, isolation=NOT_KEPT_IN, at_once=1), **{"tools": TOOLS, **more})


async def test_a_draft_that_passes_its_scenarios_is_the_agent() -> None:
    model = Scripted([f"Here it is:\n```json\n{draft(('hi', 'hello'))}\n```", "Hello there, friend!"])

    built = await builder(model).build("a friendly greeter")

    assert built.passed
    assert built.issues == ()
    assert built.spec is not None
    assert (built.spec.id, built.spec.name, len(built.spec.scenarios)) == ("greeter", "Greeter", 1)
    assert len(built.attempts) == 1


async def test_the_model_is_held_to_a_schema_and_offered_the_tools() -> None:
    model = Scripted([draft(("hi", "hello")), "hello"])

    await builder(model).build("a friendly greeter", agent_id="mine")

    request = model.requests[0]
    assert request.schema is not None
    assert request.schema["properties"]["tools"]["items"]["enum"] == ["read_file", "write_file"]
    asked = str(request.messages[1].content)  # type: ignore[union-attr]
    assert "- read_file: Read a file." in asked
    assert "a friendly greeter" in asked


async def test_invented_tools_are_dropped() -> None:
    model = Scripted([draft(("q", "a"), tools=["send_email", "read_file", "READ_FILE", 7]), "answer: a"])

    built = await builder(model).build("x", agent_id="x")

    assert built.passed
    assert built.spec is not None
    assert built.spec.tools == ("read_file",)
    assert built.spec.id == "x"


async def test_a_failing_scenario_is_fed_back_and_the_next_draft_can_pass() -> None:
    model = Scripted(
        [
            draft(("q", "RIGHT"), identity="v1"),
            "WRONG",
            draft(("q", "RIGHT"), identity="v2"),
            "the RIGHT answer",
        ]
    )
    seen: list[Attempt] = []

    built = await builder(model).build("x", heard=seen.append)

    assert built.passed
    assert [each.passed for each in seen] == [False, True]
    assert built.spec is not None
    assert built.spec.identity == "v2"
    again = model.requests[2].messages
    assert isinstance(again[2], Assistant)
    assert isinstance(again[3], User)
    assert "containing 'RIGHT', got 'WRONG'" in str(again[3].content)
    # What a model keeps of the first question is kept for the second.
    assert list(again[:2]) == list(model.requests[0].messages)


async def test_without_a_draft_that_passes_the_best_one_comes_back_the_later_on_a_tie() -> None:
    two = [("a", "yes"), ("b", "yes")]
    model = Scripted(
        [
            *(draft(*two, identity="one of two"), "yes", "no"),
            *(draft(*two, identity="none"), "no", "no"),
            *(draft(*two, identity="one again"), "no", "yes"),
            *(draft(*two, identity="none again"), "no", "no"),
        ]
    )

    built = await builder(model, max_attempts=4).build("x")

    assert not built.passed
    assert built.spec is not None
    assert built.spec.identity == "one again"
    assert len(built.issues) == 1
    assert "'#1'" in built.issues[0]
    assert len(built.attempts) == 4


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ("I cannot do that.", "no JSON object"),
        ("} {", "no JSON object"),
        ('{"name": }', "no JSON"),
        ('{"name": "A", "name": "B"}', "no JSON"),
        (draft(), "there is no scenario"),
        (draft(("q", "")), "expect"),
        (draft(("", "x")), "input"),
        (draft(("q", "a"), identity=""), "identity"),
        (draft(("q", "a"), scenarios=["x", {"input": "y"}]), "there is no scenario"),
    ],
)
async def test_what_is_no_agent_is_an_attempt_with_its_issue_fed_back(said: str, says: str) -> None:
    model = Scripted([said, draft(("q", "a")), "a"])

    built = await builder(model).build("x")

    assert built.passed
    assert len(built.attempts) == 2
    assert says in built.attempts[0].issues[0]
    assert built.attempts[0].report is None
    assert says in str(model.requests[1].messages[3].content)  # type: ignore[union-attr]


async def test_a_model_that_fails_uses_up_attempts_and_is_told_of() -> None:
    model = Scripted([RequestRefused("the provider said no"), RequestRefused("the provider said no")])

    built = await builder(model, max_attempts=2).build("x")

    assert built.spec is None
    assert not built.passed
    assert len(built.attempts) == 2
    assert built.issues[0].startswith("generation failed: the provider said no")


async def test_a_draft_that_was_tried_is_better_than_one_that_could_not_be() -> None:
    model = Scripted([draft(("q", "a"), identity="tried"), "b", draft(), "nothing"])

    built = await builder(model, max_attempts=3).build("x")

    assert built.spec is not None
    assert built.spec.identity == "tried"


async def test_each_attempt_is_warmer_than_the_one_before() -> None:
    model = Scripted(lambda _: "no")

    await builder(model, max_attempts=3).build("x")

    assert [request.temperature for request in model.requests] == [0.0, 0.3, 0.6]


async def test_drafts_and_scenarios_share_one_budget() -> None:
    def answer(request: Request) -> Any:
        return told(draft(("q", "RIGHT")) if request.schema is not None else "WRONG", 100)

    model, runtime = Scripted(answer), Runtime()
    trying = Trying(runtime, model, isolation=NOT_KEPT_IN)
    async with runtime.open_run(Proposal(), budget=CostBudget(max_tokens=250)) as run:
        built = await Builder(trying, tools={}, max_attempts=5).build("x", budget=run)

    assert len(model.requests) == 3
    assert built.tokens is None or built.tokens <= 300
    assert "limit on tokens" in built.attempts[-1].issues[0]


@pytest.mark.parametrize(("sentence", "agent_id"), [("  ", None), ("x", "No Id"), ("x", "../x")])
async def test_what_cannot_be_built_is_refused_before_anything_is_asked(
    sentence: str, agent_id: str | None
) -> None:
    model = Scripted([])

    with pytest.raises(UsageError):
        await builder(model).build(sentence, agent_id=agent_id)

    assert model.requests == []


@given(
    st.text(max_size=200),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["name", "identity", "tools", "scenarios", "input", "expect"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
)
def test_whatever_a_model_writes_comes_to_a_spec_or_issues(noise: str, value: Any) -> None:
    for text in (noise, json.dumps(value), noise + json.dumps(value)):
        spec, issues = read_draft(text, "a sentence", None, TOOLS)

        assert spec is not None or issues
        if spec is not None:
            assert set(spec.tools) <= set(TOOLS)
