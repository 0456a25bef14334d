"""Which agent is asked: by meaning where there are embeddings, else by words, then by who has done well."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.agents.routing import route
from placet.agents.spec import AgentSpec
from placet.agents.versions import SuccessRecord
from placet.errors import ModelMissing, UsageError


def about(id: str, description: str, **more: object) -> AgentSpec:
    return AgentSpec(id=id, identity="You help.", description=description, **more)  # type: ignore[arg-type]


TICKETS = about("tickets", "Sorts support tickets into billing, bug or other.")
DATES = about("dates", "Turns dates in letters into ISO dates.")
HEAT = about("heat", "Converts temperatures from Celsius to Fahrenheit.")
ALL = [TICKETS, DATES, HEAT]


class Vectors:
    """Says which texts mean the same."""

    def __init__(self, near: dict[str, float]) -> None:
        self.near = near

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        def one(text: str) -> list[float]:
            score = next((value for key, value in self.near.items() if key in text), 0.0)
            return [score, (1 - score**2) ** 0.5]

        return [[1.0, 0.0], *(one(text) for text in texts[1:])]


class Missing:
    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        raise ModelMissing("There are no vectors here.")


async def test_words_decide_where_there_are_no_embeddings_and_are_told() -> None:
    found = await route("convert 30 degrees celsius please", ALL)

    assert found.chosen.id == "heat"
    assert found.chosen.how == "words"
    assert found.chosen.shared == ("convert", "celsius")
    assert "'celsius'" in found.chosen.because


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"description": "Sorts tickets."}, "its description shares 'tickets' with"),
        ({"identity": "You sort tickets."}, "its identity shares 'tickets' with"),
        ({"name": "Tickets"}, "its name shares 'tickets' with"),
        ({"standing_goal": "no open ticket"}, "its standing goal shares 'tickets' with"),
        (
            {"name": "Ticket", "description": "Celsius."},
            "its description and name share 'tickets', 'celsius'",
        ),
    ],
)
async def test_the_reason_names_what_has_the_words(more: dict[str, str], said: str) -> None:
    found = await route("tickets in celsius", [AgentSpec(**{"id": "a", "identity": "x", **more})])

    assert said in found.chosen.because


async def test_meaning_decides_where_there_are_embeddings() -> None:
    vectors = Vectors({"tickets": 0.2, "temperatures": 0.8})

    found = await route("how warm is that for an American? I have tickets", ALL, embedder=vectors)

    assert [each.id for each in found.ranked] == ["tickets", "heat"]  # The first is named.
    assert found.ranked[1].how == "meaning"
    found = await route("how warm is that for an American?", ALL, embedder=vectors)
    assert [(each.id, each.score) for each in found.ranked] == [("heat", 0.8), ("tickets", 0.2)]


async def test_without_the_model_for_meaning_words_decide_and_that_is_said() -> None:
    found = await route("sort this ticket", ALL, embedder=Missing())

    assert found.chosen.id == "tickets"
    assert "no vectors here" in found.note


async def test_an_agent_that_is_named_is_asked() -> None:
    found = await route("ask Dates about celsius", ALL)

    assert found.chosen.id == "dates"
    assert "names it" in found.chosen.because


async def test_the_record_decides_between_those_that_fit_alike() -> None:
    one, two = about("one", "Sorts mail."), about("two", "Sorts mail.")

    assert (await route("sort my mail", [two, one])).chosen.id == "one"
    records = {"one": SuccessRecord(runs=9, succeeded=1), "two": SuccessRecord(runs=9, succeeded=8)}
    found = await route("sort my mail", [one, two], records=records)
    assert found.chosen.id == "two"
    assert "8 of its 9 runs succeeded" in found.chosen.because


async def test_the_record_does_not_outweigh_what_fits() -> None:
    records = {"tickets": SuccessRecord(runs=100, succeeded=100), "heat": SuccessRecord(runs=5)}

    assert (await route("celsius to fahrenheit", ALL, records=records)).chosen.id == "heat"


async def test_who_is_disabled_is_not_asked() -> None:
    off = about("heat2", "Converts Celsius.", enabled=False)

    assert [each.id for each in (await route("celsius", [off, HEAT])).ranked] == ["heat"]


@pytest.mark.parametrize(
    ("question", "agents", "says"),
    [
        ("x", [], "No agent is enabled"),
        ("x", [about("a", "b", enabled=False)], "No agent is enabled"),
        ("what is the meaning of life", ALL, "None of the 3 agents fits"),
        ("", ALL, "None of the 3"),
    ],
)
async def test_where_none_fits_none_is_asked(question: str, agents: list[AgentSpec], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        await route(question, agents)


@given(st.text(max_size=80), st.permutations(ALL))
async def test_the_order_of_agents_and_the_wildest_question_change_nothing(
    question: str, agents: list[AgentSpec]
) -> None:
    async def ranked(given: list[AgentSpec]) -> list[str]:
        try:
            return [each.id for each in (await route(question, given)).ranked]
        except UsageError:
            return []

    assert await ranked(list(agents)) == await ranked(ALL)


async def test_words_with_quotes_and_operators_are_only_words() -> None:
    found = await route('celsius" OR NEAR( * -"fahrenheit" AND', ALL)

    assert found.chosen.id == "heat"
