"""A simpler plan that does the same."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from placet.ir.codec import encode
from placet.verify import equivalent, optimize, verify
from placet.verify.reachability import implied
from tests.verify.plans import call, plan, read, write
from tests.verify.test_simulate import plans


def dependencies(document: Any) -> dict[str, list[str]]:
    return {action.id: list(action.dependencies) for action in optimize(document).actions}


def test_a_dependency_that_a_chain_implies_is_removed() -> None:
    document = plan(call("a"), call("b", dependencies=["a"]), call("c", dependencies=["a", "b"]))

    assert dependencies(document) == {"a": [], "b": ["a"], "c": ["b"]}


def test_a_dependency_that_is_a_reference_too_is_removed_and_the_reference_stays() -> None:
    document = plan(call("a"), call("b", parameters={"x": "$a.output"}, dependencies=["a"]))

    assert dependencies(document) == {"a": [], "b": []}
    assert optimize(document).actions[1].parameters == {"x": "$a.output"}


def test_a_chain_through_references_counts() -> None:
    document = plan(call("a"), call("b", parameters={"x": "$a.output"}), call("c", dependencies=["b", "a"]))

    assert dependencies(document)["c"] == ["b"]


def test_a_name_given_twice_is_kept_once() -> None:
    assert dependencies(plan(call("a"), call("b", dependencies=["a", "a"])))["b"] == ["a"]


def test_a_diamond_is_left_as_it_is() -> None:
    document = plan(
        call("a"),
        call("b", dependencies=["a"]),
        call("c", dependencies=["a"]),
        call("d", dependencies=["b", "c"]),
    )

    assert dependencies(document)["d"] == ["b", "c"]


def test_a_conflict_on_a_key_implies_nothing() -> None:
    """What needs a failed action is skipped along dependencies, never along mere conflicts."""
    document = plan(write("a", "k"), read("b", "k"), call("c", dependencies=["a", "b"]))

    assert dependencies(document)["c"] == ["a", "b"]


def test_a_way_through_a_compensation_implies_nothing() -> None:
    document = plan(
        call("a", compensation={"type": "action_ref", "action_id": "u"}),
        call("u", dependencies=["a"]),
        call("c", dependencies=["a", "u"]),
    )

    assert dependencies(document)["c"] == ["a", "u"]


def test_a_compensation_keeps_its_dependencies() -> None:
    document = plan(
        call("a", compensation={"type": "action_ref", "action_id": "u"}),
        call("b", dependencies=["a"]),
        call("u", dependencies=["a", "b"]),
    )

    assert dependencies(document)["u"] == ["a", "b"]


def test_a_plan_that_would_be_refused_comes_back_as_it_is() -> None:
    document = plan(call("a", dependencies=["b"]), call("b", dependencies=["a", "a"]))

    assert [list(action.dependencies) for action in optimize(document).actions] == [["b"], ["a", "a"]]


def test_everything_else_in_the_plan_stays() -> None:
    document = plan(
        call("a"), call("b", dependencies=["a", "a"], colour="red"), source="me", context={"x": 1}
    )

    optimized = optimize(document)

    assert (optimized.id, optimized.source, optimized.context) == ("p1", "me", {"x": 1})
    assert list(optimized.unknown_fields) == [("b", "colour")]


@st.composite
def dense_plans(draw: st.DrawFn) -> dict[str, Any]:
    """Plans with many more dependencies than they need, listed in any order."""
    document = draw(plans())
    actions = document["actions"]
    for i, action in enumerate(actions):
        if i:
            action["dependencies"] = draw(
                st.lists(st.sampled_from([a["id"] for a in actions[:i]]), max_size=6)
            )
    return plan(*draw(st.permutations(actions)))


@given(dense_plans())
def test_an_optimized_plan_is_equivalent_and_keeps_its_order(document: Any) -> None:
    before, after = verify(document), verify(optimize(document))

    assert equivalent(document, optimize(document)).equivalent
    assert before.execution_order == after.execution_order
    assert before.execution_levels == after.execution_levels
    assert before.valid == after.valid


@given(dense_plans())
def test_optimizing_twice_changes_nothing_more(document: Any) -> None:
    once = optimize(document)

    assert encode(optimize(once)) == encode(once)


@given(st.lists(st.lists(st.integers(0, 30), max_size=4), max_size=30))
def test_implied_edges_are_those_that_a_search_finds(edges: list[list[int]]) -> None:
    before = [sorted({p % i for p in ps}) if i else [] for i, ps in enumerate(edges)]
    pairs = [(a, b) for b in range(len(before)) for a in range(b)]

    def ancestors(i: int) -> set[int]:
        found: set[int] = set()
        todo = list(before[i])
        while todo:
            at = todo.pop()
            if at not in found:
                found.add(at)
                todo += before[at]
        return found

    expected = {(a, b) for a, b in pairs if any(a in ancestors(p) for p in before[b])}
    assert implied(range(len(before)), before, pairs) == expected


def test_a_long_chain_with_needless_dependencies_is_managed() -> None:
    document = plan(
        *[
            call(f"a{i}", dependencies=[f"a{j}" for j in {0, i - 3, i - 2, i - 1} if 0 <= j < i])
            for i in range(10_000)
        ]
    )

    optimized = optimize(document)

    assert all(list(a.dependencies) == [f"a{i}"] for i, a in enumerate(optimized.actions[1:]))
