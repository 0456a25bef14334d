"""The serial order is the printed one, layers keep every edge, and building all of it is linear."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given

from placet import Action
from placet.ir.action import ActionCompensation, Precondition
from placet.ir.graph import Graph
from tests.properties.effort import FIFTH, UNHURRIED, Tally, examples
from tests.properties.plans import Dice, SeededDice, seeds

pytestmark = UNHURRIED

KEYS = ("k0", "k1", "k2")


def plan(dice: Dice) -> list[Action]:
    """Actions with edges of every kind, most of them without a cycle."""
    size = dice.number(1, 10)
    hidden = list(range(size))
    if dice.chance(70):
        for i in range(size - 1, 0, -1):
            j = dice.number(0, i)
            hidden[i], hidden[j] = hidden[j], hidden[i]
    free = dice.chance(10)
    made = []
    for i in range(size):
        earlier = [j for j in range(size) if j != i and (free or hidden[j] < hidden[i])]
        named = [f"a{j}" for j in dice.some(earlier, 25)]
        referred = [f"a{j}" for j in dice.some(earlier, 10)]
        kind = dice.pick(("tool_call", "tool_call", "state_write", "state_read", "assertion"))
        parameters: dict[str, Any] = {"x": [f"see ${name}.output" for name in referred]}
        if kind != "tool_call":
            parameters["key"] = dice.pick(KEYS)
            if referred and dice.chance(10):
                parameters["key"] = f"${referred[0]}.output"
        made.append(
            Action(
                id=f"a{i}",
                type=kind,
                tool="t",
                parameters=parameters,
                dependencies=named + named[:1],
                read_set=dice.some(KEYS, 20),
                write_set=dice.some(KEYS, 15),
                expected_effects=dict.fromkeys(dice.some(KEYS, 15), 1),
                state_dependencies=dice.some(KEYS, 10),
                preconditions=[Precondition(key=key) for key in dice.some(KEYS, 10)],
                compensation=ActionCompensation(action_id=f"a{dice.pick(earlier)}")
                if earlier and dice.chance(4)
                else None,
            )
        )
    return made


def edges_of(actions: list[Action]) -> list[set[int]]:
    """Explicit edges, by reading the text."""
    index = {a.id: i for i, a in enumerate(actions)}
    found = []
    for a in actions:
        named = {index[name] for name in a.dependencies}
        named |= {i for name, i in index.items() if f"${name}.output" in repr(a.parameters)}
        found.append(named)
    return found


def touched_by(action: Action) -> tuple[set[str], set[str]]:
    """What an action reads and writes; "*" is a key that is not known yet."""
    reads = {*action.read_set, *action.state_dependencies, *(p.key for p in action.preconditions)}
    writes = {*action.write_set, *action.expected_effects}
    if action.type != "tool_call":
        key = action.parameters["key"]
        (writes if action.type == "state_write" else reads).add("*" if "$" in key else key)
    return reads, writes


def conflict(a: Action, b: Action) -> bool:
    """Whether two actions touch one key, and one of them writes it."""
    (ra, wa), (rb, wb) = touched_by(a), touched_by(b)

    def meet(some: set[str], others: set[str]) -> bool:
        return bool(some & others) or bool(some and others and ("*" in some or "*" in others))

    return meet(wa, rb | wb) or meet(wb, ra | wa)


def reachable(before: list[list[int]]) -> list[set[int]]:
    """Everything that each action waits for, however indirectly."""
    closed: list[set[int]] = [set(b) for b in before]
    for _ in before:
        for own in closed:
            for p in list(own):
                own |= closed[p]
    return closed


def smallest_order(edges: list[set[int]], scheduled: list[int]) -> list[int] | None:
    """The first of all topological orders when they are sorted by position; None where there is none."""
    left, order = set(scheduled), []
    while left:
        ready = [i for i in left if not edges[i] & left]
        if not ready:
            return None
        order.append(min(ready))
        left.remove(min(ready))
    return order


def test_order_layers_and_conflicts() -> None:
    tally = Tally()

    @examples(1000, shrink=False)
    @given(seeds)
    def check(seed: int) -> None:
        actions = plan(SeededDice(seed))
        edges = edges_of(actions)

        graph = Graph(actions)

        scheduled = [i for i in range(len(actions)) if i not in graph.targets]
        targets = {
            int(a.compensation.action_id[1:])
            for a in actions
            if isinstance(a.compensation, ActionCompensation)
        }
        assert set(graph.targets) == targets
        assert [set(e) for e in graph.explicit] == edges
        order = smallest_order([e - targets for e in edges], scheduled)
        tally.add(
            cyclic=order is None,
            out_of_order=order is not None and order != scheduled,
            with_targets=bool(targets),
            with_conflicts=any(conflict(a, b) for a, b in itertools.combinations(actions, 2)),
            unknown_key=any("*" in keys for a in actions for keys in touched_by(a)),
        )
        if order is None or _undo_each_other(actions):
            assert graph.faults
            return
        assert not graph.faults
        assert list(graph.order) == order
        _respects_every_edge(graph, actions, edges, order)

    check()
    tally.require(
        {
            "cyclic": 0.01,
            "out_of_order": FIFTH,
            "with_targets": 0.05,
            "with_conflicts": FIFTH,
            "unknown_key": 0.01,
        }
    )


def _undo_each_other(actions: list[Action]) -> bool:
    """Whether following compensations from some action leads round in a circle."""
    for action in actions:
        seen = {action.id}
        while isinstance(action.compensation, ActionCompensation):
            action = actions[int(action.compensation.action_id[1:])]
            if action.id in seen:
                return True
            seen.add(action.id)
    return False


def _respects_every_edge(
    graph: Graph, actions: list[Action], edges: list[set[int]], order: list[int]
) -> None:
    layer_of = {i: n for n, layer in enumerate(graph.layers) for i in layer}
    assert sorted(layer_of) == sorted(order), "each action stands in one layer"
    assert all(graph.layers), "no layer is empty"
    rank = {i: r for r, i in enumerate(order)}
    assert all(layer == sorted(layer, key=rank.__getitem__) for layer in graph.layers)
    before = reachable(graph.before)
    for i in order:
        for p in edges[i] - graph.targets.keys():
            assert layer_of[p] < layer_of[i]
            assert p in before[i]
    for a, b in itertools.combinations(order, 2):
        if conflict(actions[a], actions[b]):
            assert layer_of[a] < layer_of[b], f"{a} and {b} touch one key in one layer"
            assert a in before[b], f"nothing keeps {a} and {b} apart"
    # And no more than that, unless a key is not known yet: then the whole state counts as one key.
    is_blurred = any("*" in keys for action in actions for keys in touched_by(action))
    for i in order:
        for p in graph.before[i]:
            assert rank[p] < rank[i]
            assert p in edges[i] or is_blurred or conflict(actions[p], actions[i])
    for first, then, _, kind in graph.conflicts:
        assert rank[first] < rank[then] or first == then
        assert kind in ("write_read", "read_write", "write_write")
    longest = {}
    for i in order:
        longest[i] = max((longest[p] + 1 for p in before[i]), default=0)
    assert longest == layer_of, "each stands in the first layer that it can"
    _needs_are_right(graph, actions, edges, order)


def _needs_are_right(graph: Graph, actions: list[Action], edges: list[set[int]], order: list[int]) -> None:
    """What must succeed first: explicit edges, and the last writer of a needed key."""
    last: dict[str, int] = {}
    for i in order:
        writers = {last[key] for key in actions[i].state_dependencies if key in last}
        assert set(graph.needs[i]) == edges[i] | writers
        for key in touched_by(actions[i])[1]:
            last[key] = i


def _size(graph: Graph) -> int:
    return sum(map(len, graph.before)) + len(graph.conflicts) + sum(map(len, graph.layers))


def _accesses(actions: list[Action]) -> int:
    return sum(1 + len(a.dependencies) + len(a.read_set) + len(a.write_set) for a in actions)


def one_key(n: int) -> list[Action]:
    return [Action(id=f"a{i}", tool="t", read_set=["k"], write_set=["k"]) for i in range(n)]


def writers_only(n: int) -> list[Action]:
    return [Action(id=f"a{i}", tool="t", write_set=["k"]) for i in range(n)]


def readers_with_writers_between(n: int) -> list[Action]:
    return [
        Action(id=f"a{i}", tool="t", write_set=["k"])
        if i % 100 == 50
        else Action(id=f"a{i}", tool="t", read_set=["k"])
        for i in range(n)
    ]


def many_readers_one_writer(n: int) -> list[Action]:
    return [
        *(Action(id=f"a{i}", tool="t", read_set=["k"]) for i in range(n)),
        Action(id="w", tool="t", write_set=["k"]),
    ]


def one_depends_on_all(n: int) -> list[Action]:
    return [
        *(Action(id=f"a{i}", tool="t") for i in range(n)),
        Action(id="z", tool="t", dependencies=[f"a{i}" for i in range(n)]),
    ]


def one_listed_before_all(n: int) -> list[Action]:
    return list(reversed(one_depends_on_all(n)))


def chain(n: int) -> list[Action]:
    return [Action(id=f"a{i}", tool="t", dependencies=[f"a{i - 1}"] if i else []) for i in range(n)]


def chain_listed_backwards(n: int) -> list[Action]:
    return list(reversed(chain(n)))


def many_keys(n: int) -> list[Action]:
    return [Action(id=f"a{i}", tool="t", read_set=[f"k{i % 7}"], write_set=[f"k{i % 5}"]) for i in range(n)]


SHAPES = [
    one_key,
    writers_only,
    readers_with_writers_between,
    many_readers_one_writer,
    one_depends_on_all,
    one_listed_before_all,
    chain,
    chain_listed_backwards,
    many_keys,
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_the_graph_of_ten_thousand_actions_has_no_more_edges_than_accesses(shape: Any) -> None:
    actions = shape(10_000)

    graph = Graph(actions)

    assert not graph.faults
    assert _size(graph) <= 4 * _accesses(actions)


class Steps:
    """Counts what the interpreter does: lines of the graph's own code that run."""

    def __init__(self) -> None:
        self.lines = 0

    def build(self, actions: list[Action]) -> int:
        import sys

        def trace(frame: Any, event: str, arg: Any) -> Any:
            if not frame.f_code.co_filename.endswith("ir/graph.py"):
                return None
            self.lines += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            graph = Graph(actions)
            graph.before
        finally:
            sys.settrace(before)
        return self.lines


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_four_times_the_actions_take_four_times_the_steps(shape: Any) -> None:
    """Counted in lines of code, not in seconds."""
    few = Steps().build(shape(1000))
    many = Steps().build(shape(4000))

    assert many <= 4.5 * few
