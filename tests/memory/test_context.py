"""A context holds what a model should know, in a fixed order and within its budget, and names the rest."""

from __future__ import annotations

from placet.memory.context import times_of, token_count
from placet.memory.fact import FactScope
from placet.memory.memory import Memory
from placet.testing import FakeClock


def filled() -> Memory:
    clock = FakeClock(1_700_000_000.0)
    memory = Memory(clock=clock)
    for subject, body, more in (
        ("deploy", "Deploys happen on Fridays only", {}),
        ("deploy", "Never deploy without a review", {"kind": "constraint"}),
        ("assistant", "You work for the Rome office", {"kind": "identity"}),
        ("deploy", "A web page says to deploy from a fork", {"labels": ["untrusted"]}),
        ("deploy", "The deploy token is hunter2", {"labels": ["secret"]}),
        ("lunch", "Lunch is at noon", {}),
    ):
        memory.add_sync(subject, body, source="test", **more)
        clock.advance(1.0)
    return memory


def test_identity_and_constraints_come_first_and_untrusted_facts_stand_apart() -> None:
    text = filled().build_context_sync("when do we deploy?", events=["run 7 failed", "run 8 passed"]).text

    places = [
        text.index(words)
        for words in (
            "Identity:",
            "Rome office",
            "Constraints:",
            "without a review",
            "Fridays only",
            "untrusted sources",
            "from a fork",
            "Recent events:",
            "run 7",
            "run 8",
        )
    ]
    assert places == sorted(places)
    assert "hunter2" not in text
    assert "noon" not in text


def test_the_same_facts_give_the_same_text() -> None:
    memory = filled()

    first, second = (memory.build_context_sync("when do we deploy?") for _ in range(2))

    assert first == second
    assert first.labels == ("untrusted",)


def test_the_budget_holds_and_what_is_left_out_is_named() -> None:
    memory = filled()
    whole = memory.build_context_sync("when do we deploy?", events=["one", "two"])

    for budget in range(0, whole.tokens + 2, 3):
        part = memory.build_context_sync("when do we deploy?", budget, events=["one", "two"])
        assert part.tokens <= budget
        assert part.tokens == token_count(part.text)
        assert set(part.ids) | set(part.left_out) == set(whole.ids)
        assert part.text.count("\n- ") == len(part.ids) + 2 - part.events_left_out
    assert whole.left_out == ()


def test_nothing_known_is_no_text() -> None:
    context = Memory().build_context_sync("anything?")

    assert (context.text, context.tokens, context.ids) == ("", 0, ())


def test_a_context_obeys_scope_and_shows_contradictions() -> None:
    clock = FakeClock(1_700_000_000.0)
    memory = Memory(clock=clock)
    memory.add_sync("ann", "born in May", key="birthday", source="a")
    memory.add_sync("ann", "born in June", key="birthday", source="b")
    memory.add_sync("ann", "born to run", source="c", scope=FactScope(agent="other"))

    text = memory.build_context_sync("when was ann born").text

    assert "contradicted by 2023-11-14: born in" in text
    assert "born to run" not in text


def test_constraints_that_contradict_each_other_say_so() -> None:
    memory = Memory(clock=FakeClock(1_700_000_000.0))
    for body in ("Never on Fridays", "On Fridays only"):
        memory.add_sync("deploy", body, key="day", kind="constraint", source="ann")

    context = memory.build_context_sync("")

    assert context.text.count("contradicted by 2023-11-14: ") == 2
    assert set(context.quoted) == set(context.ids)


def test_every_constraint_is_in_the_context_or_named_as_left_out() -> None:
    memory = Memory(clock=FakeClock(1_700_000_000.0))
    ids = {memory.add_sync("s", f"rule {n}", kind="constraint", source="x").id for n in range(150)}

    whole = memory.build_context_sync("rule", 100_000)
    short = memory.build_context_sync("rule", 300)

    assert (set(whole.ids), whole.left_out) == (ids, ())
    assert {*short.ids, *short.left_out} == ids
    assert short.ids


def test_two_times_of_one_day_can_be_told_apart() -> None:
    assert times_of(0.0, 60.0) == ("1970-01-01 00:00:00", "1970-01-01 00:01:00")
    assert times_of(0.0, 90_000.0) == ("1970-01-01", "1970-01-02")
