"""Budgets below budgets: what a child uses counts above it, once, however often it is gone through again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.ir.usage import Usage
from placet.policy.budget import Budget, CostBudget, Spent

AMOUNTS = Spent.__struct_fields__


def three(**limits: float) -> tuple[Budget, Budget, Budget]:
    """A grandparent with limits, its child and its grandchild."""
    above = Budget(CostBudget(**limits), name="above")  # type: ignore[arg-type]
    middle = Budget(parent=above, name="middle")
    return above, middle, Budget(parent=middle, name="below")


@pytest.mark.parametrize(
    ("limits", "limit"), [({"max_tokens": 10}, "max_tokens"), ({"max_cost": 0.5}, "max_cost")]
)
def test_what_a_grandchild_uses_stops_everyone_under_the_limit(limits: dict[str, float], limit: str) -> None:
    above, middle, below = three(**limits)
    sibling = Budget(parent=above, name="sibling")

    below.charge(Usage(input=9, output=0), 0.4)
    assert all(each.exceeded() is None for each in (above, middle, below, sibling))
    below.charge(Usage(input=0, output=1), 0.1)

    for each in (above, middle, below, sibling):
        over = each.exceeded()
        assert over is not None
        assert (over.limit, over.per) == (limit, "above")
    # What was asked for last may still be done: only a model is not asked any more.
    assert below.exceeded(alone=True) is None
    assert below.reserve(is_tool_call=True)


def test_own_limits_are_named_before_those_above() -> None:
    above = Budget(CostBudget(max_tokens=5), name="above")
    below = Budget(CostBudget(max_tokens=5), parent=above, name="below")

    below.spend(5, 0.0)

    over = below.exceeded()
    assert over is not None
    assert over.per == "below"


def test_calls_of_children_are_shares_of_the_parent() -> None:
    above, _, below = three(max_tool_calls=2)

    assert [below.reserve(is_tool_call=True) for _ in range(3)] == [True, True, False]
    assert not above.reserve(is_tool_call=True)
    assert above.reserve(is_tool_call=False)
    assert (above.spent.actions, above.spent.tool_calls) == (3, 2)


def test_what_is_not_told_uses_up_every_limit_above() -> None:
    above, middle, below = three(max_tokens=1000)

    below.charge(None, None)

    over = above.exceeded()
    assert over is not None
    assert over.limit == "max_tokens"
    assert "does not say" in over.words
    assert (above.spent.tokens, middle.spent.cost) == (0, 0.0)


def test_a_child_that_is_gone_through_again_counts_once() -> None:
    above, middle, below = three()
    for _ in range(3):
        below.charge(Usage(input=5, output=5), 0.25)

    again = Budget(parent=middle, name="below")
    for _ in range(2):
        again.charge(Usage(input=5, output=5), 0.25)
    assert above.spent.tokens == 30
    again.restore(Spent(tokens=30, cost=0.75))
    assert (above.spent.tokens, above.spent.cost) == (30, 0.75)
    again.charge(Usage(input=1, output=1), 0.25)

    assert (above.spent.tokens, above.spent.cost) == (32, 1.0)


def test_what_was_prepaid_is_not_charged_again() -> None:
    above, middle, below = three(max_tokens=30)

    middle.prepay(Usage(input=4, output=6), 0.25)
    middle.prepay(Usage(input=4, output=6), 0.25)
    assert (above.spent.tokens, below.spent.tokens) == (20, 0)
    below.charge(Usage(input=8, output=12), 0.5)

    assert (above.spent.tokens, above.spent.cost, below.spent.tokens) == (20, 0.5, 20)
    below.charge(Usage(input=1, output=9), 0.0)
    assert above.spent.tokens == 30
    assert below.exceeded() is not None


def test_time_in_which_a_person_is_waited_for_counts_nowhere_above() -> None:
    now = 100.0
    above = Budget(CostBudget(max_duration_ms=10_000), name="above", clock=lambda: now, started=100.0)
    one, other = (Budget(parent=above, name=name, clock=lambda: now, started=100.0) for name in "ab")

    now = 104.0
    one.wait_begins()
    other.wait_begins()
    now = 150.0
    assert above.elapsed_ms == 4_000
    one.wait_ends()
    other.wait_ends()
    now = 155.0
    assert (above.elapsed_ms, one.elapsed_ms) == (9_000, 9_000)
    assert other.exceeded() is None
    now = 156.0

    over = other.exceeded()
    assert over is not None
    assert over.limit == "max_duration_ms"


def test_a_budget_continues_from_another() -> None:
    first = Budget(CostBudget(max_tokens=10), clock=lambda: 9.0, started=4.0)
    first.spend(6, 0.0)
    second = Budget(CostBudget(max_tokens=10), clock=lambda: 9.0, started=9.0)

    second.continue_from(first)
    second.spend(4, 0.0)

    assert second.elapsed_ms == 5_000
    assert second.exceeded() is not None


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, int, int, float]]:
    """Who does what: charge, prepay, count, or be opened again; by the number of a child, with amounts."""
    what = st.sampled_from(["charge", "charge", "prepay", "count", "again"])
    one = st.tuples(what, st.integers(0, 3), st.integers(0, 50), st.sampled_from([0.0, 0.5, 0.25]))
    return draw(st.lists(one, max_size=40))


@given(histories())
def test_children_never_have_more_than_their_parent_has_counted(
    history: list[tuple[str, int, int, float]],
) -> None:
    root = Budget(name="root")
    parents = [Budget(parent=root, name=f"p{n}") for n in range(2)]
    children = [Budget(parent=parents[n % 2], name=f"c{n}") for n in range(4)]
    seen: dict[int, int] = {}

    for what, n, amount, cost in history:
        before = {name: getattr(root.spent, name) for name in AMOUNTS}
        match what:
            case "charge":
                children[n].charge(Usage(input=amount, output=1), cost)
            case "prepay":
                children[n].prepay(Usage(input=amount, output=1), cost)
            case "count":
                children[n].count(1)
            case _:
                children[n] = Budget(parent=parents[n % 2], name=f"c{n}")
        seen[n] = max(seen.get(n, 0), children[n].spent.tokens)
        # Nothing is taken back.
        assert all(getattr(root.spent, name) >= before[name] for name in AMOUNTS)

    for parent, mine in ((parents[0], children[::2]), (parents[1], children[1::2])):
        for name in AMOUNTS:
            assert sum(getattr(child.spent, name) for child in mine) <= getattr(parent.spent, name)
            assert getattr(parent.spent, name) <= getattr(root.spent, name)
    assert root.spent.tokens == sum(parent.spent.tokens for parent in parents) == sum(seen.values())
