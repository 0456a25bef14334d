"""The graph of a proposal: serial order, layers, conflicts, and why a plan is refused."""

from __future__ import annotations

from typing import Any

import pytest

from placet import Runtime, ToolSchema
from placet.ir.action import Action, ActionCompensation
from placet.ir.codec import decode_proposal
from placet.ir.graph import Graph, reads_and_writes
from tests.runtime.plans import Fields, Recorder, call, claim, plan, read, write


def look(*actions: Fields) -> Any:
    rt = Runtime()
    rt.register(ToolSchema(name="t"), lambda: None)
    return rt.verify(plan(*actions))


async def refusal(*actions: Fields) -> str:
    """Execute a plan that is refused; returns why."""
    recorder = Recorder()
    rt = Runtime(tools=[recorder.tool("t")])

    result = await rt.execute(plan(*actions))

    assert result.outcome == "refused"
    assert {r.status for r in result.results} == {"rejected"}
    # Each is told its own fault, or only that the whole was refused.
    assert all(
        r.error in (result.error or "") or r.error == "the proposal was refused" for r in result.results
    )
    assert recorder.calls == []
    assert not rt.verify(plan(*actions)).valid
    return result.error or ""


def conflicts(report: Any) -> set[tuple[str, str, str, str]]:
    return {(c.key, c.kind, c.first, c.then) for c in report.conflicts}


# The serial order


def test_without_edges_the_serial_order_is_that_of_the_list() -> None:
    report = look(call("c", "t"), call("a", "t"), call("b", "t"))

    assert list(report.execution_order) == ["c", "a", "b"]
    assert [list(level) for level in report.execution_levels] == [["c", "a", "b"]]


def test_ties_are_decided_by_position() -> None:
    report = look(
        call("z", "t", dependencies=["m"]),
        call("y", "t"),
        call("m", "t"),
        call("b", "t", dependencies=["y"]),
        call("a", "t", dependencies=["m"]),
    )

    assert list(report.execution_order) == ["y", "m", "z", "b", "a"]


def test_a_dependency_may_stand_later_in_the_list() -> None:
    report = look(call("a", "t", dependencies=["b"]), call("b", "t", dependencies=["c"]), call("c", "t"))

    assert list(report.execution_order) == ["c", "b", "a"]
    assert [list(level) for level in report.execution_levels] == [["c"], ["b"], ["a"]]


def test_a_reference_is_an_edge_like_a_dependency() -> None:
    report = look(
        {"id": "a", "type": "state_write", "parameters": {"key": "k", "value": ["$b.output"]}}, read("b", "j")
    )

    assert list(report.execution_order) == ["b", "a"]


def test_conflicts_do_not_change_the_serial_order() -> None:
    report = look(read("r", "k"), write("w", "k", 1), claim("c", "k", 1), write("x", "j", 1))

    assert list(report.execution_order) == ["r", "w", "c", "x"]
    assert [list(level) for level in report.execution_levels] == [["r", "x"], ["w"], ["c"]]


def test_naming_a_dependency_twice_is_naming_it_once() -> None:
    report = look(call("a", "t"), call("b", "t", dependencies=["a", "a"]))

    assert report.valid
    assert list(report.execution_order) == ["a", "b"]


# Reads, writes and conflicts


@pytest.mark.parametrize(
    ("fields", "reads", "writes"),
    [
        ({"tool": "t"}, set(), set()),
        ({"tool": "t", "state_dependencies": ["a"], "read_set": ["b"]}, {"a", "b"}, set()),
        ({"tool": "t", "preconditions": [{"key": "a"}], "assumptions": [{"key": "b"}]}, {"a", "b"}, set()),
        ({"tool": "t", "write_set": ["a"], "expected_effects": {"b": 1}}, set(), {"a", "b"}),
        ({"type": "state_write", "parameters": {"key": "k"}}, set(), {"k"}),
        ({"type": "state_read", "parameters": {"key": "k"}}, {"k"}, set()),
        ({"type": "assertion", "parameters": {"key": "k"}}, {"k"}, set()),
        (
            {"type": "state_write", "parameters": {"key": "k"}, "write_set": ["w"], "read_set": ["r"]},
            {"r"},
            {"k", "w"},
        ),
        ({"tool": "t", "parameters": {"key": "k"}}, set(), set()),
    ],
)
def test_what_an_action_reads_and_writes(fields: Fields, reads: set[str], writes: set[str]) -> None:
    """Explicit sets only add to what the action does anyway."""
    (action,) = decode_proposal({"actions": [{"id": "a", **fields}]}).actions

    found = reads_and_writes(action)

    assert (set(found[0]), set(found[1])) == (reads, writes)


def test_every_conflict_on_a_key_is_an_edge_along_the_serial_order() -> None:
    report = look(
        write("w1", "k", 1), read("r1", "k"), read("r2", "k"), write("w2", "k", 2), write("w3", "k", 3)
    )

    assert conflicts(report) == {
        ("k", "write_read", "w1", "r1"),
        ("k", "write_read", "w1", "r2"),
        ("k", "read_write", "r1", "w2"),
        ("k", "read_write", "r2", "w2"),
        ("k", "write_write", "w2", "w3"),
    }
    assert [list(level) for level in report.execution_levels] == [["w1"], ["r1", "r2"], ["w2"], ["w3"]]


def test_two_readers_do_not_conflict() -> None:
    report = look(read("a", "k"), claim("b", "k", None), call("c", "t", read_set=["k"]))

    assert conflicts(report) == set()
    assert [list(level) for level in report.execution_levels] == [["a", "b", "c"]]


def test_an_action_that_reads_and_writes_one_key_does_not_wait_for_itself() -> None:
    report = look(
        call("a", "t", read_set=["k"], write_set=["k"]), call("b", "t", read_set=["k"], write_set=["k"])
    )

    assert report.valid
    assert [list(level) for level in report.execution_levels] == [["a"], ["b"]]


def test_conflicts_never_make_a_cycle() -> None:
    report = look(
        write("a", "x", 1, read_set=["y"]),
        write("b", "y", 1, read_set=["x"]),
        write("c", "x", 2, read_set=["y"]),
    )

    assert report.valid


def test_a_conflict_follows_the_serial_order_and_not_the_list() -> None:
    report = look(
        write("late", "k", "late", dependencies=["early"]), write("mid", "k", "mid"), write("early", "j")
    )

    assert list(report.execution_order) == ["mid", "early", "late"]
    assert conflicts(report) == {("k", "write_write", "mid", "late")}


# Refusals


async def test_duplicate_ids_are_named() -> None:
    error = await refusal(call("a", "t"), call("b", "t"), call("a", "t"), call("b", "t"), call("c", "t"))

    assert "'a'" in error
    assert "'b'" in error
    assert "'c'" not in error


async def test_an_unknown_dependency_is_named_with_its_action() -> None:
    error = await refusal(call("a", "t", dependencies=["b", "ghost"]), call("b", "t"))

    assert error == "action 'a' depends on 'ghost', but the proposal has no action 'ghost'"


async def test_every_unknown_dependency_is_named() -> None:
    error = await refusal(call("a", "t", dependencies=["x"]), call("b", "t", dependencies=["y", "z"]))

    assert all(f"'{name}'" in error for name in "xyz")


async def test_an_action_cannot_depend_on_itself() -> None:
    assert "a -> a" in await refusal(call("a", "t", dependencies=["a"]))


async def test_an_action_cannot_refer_to_itself() -> None:
    assert "a -> a" in await refusal(call("a", "t", {"x": "$a.output"}))


async def test_a_cycle_is_named_in_order() -> None:
    error = await refusal(
        call("free", "t"),
        call("a", "t", dependencies=["c", "free"]),
        call("b", "t", {"x": "$a.output"}),
        call("c", "t", dependencies=["b"]),
        call("behind", "t", dependencies=["c"]),
    )

    assert "cycle" in error
    assert any(turn in error for turn in ("a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c"))
    assert "free" not in error
    assert "behind" not in error


async def test_a_very_long_cycle_is_not_spelled_out_in_full() -> None:
    count = 5_000
    error = await refusal(*(call(f"a{n}", "t", dependencies=[f"a{(n + 1) % count}"]) for n in range(count)))

    assert "cycle" in error
    assert len(error) < 1_000


async def test_an_unknown_compensation_is_named() -> None:
    error = await refusal(call("a", "t", compensation={"type": "action_ref", "action_id": "ghost"}))

    assert "'a'" in error
    assert "'ghost'" in error


async def test_an_action_is_not_its_own_compensation() -> None:
    assert "'a'" in await refusal(call("a", "t", compensation={"type": "action_ref", "action_id": "a"}))


async def test_a_compensation_that_refers_to_an_unknown_action_is_named() -> None:
    error = await refusal(
        call("a", "t", compensation={"type": "tool", "tool": "t", "parameters": {"x": "$ghost.output"}})
    )

    assert "'ghost'" in error


async def test_several_faults_are_all_told() -> None:
    error = await refusal(call("a", "t"), call("a", "t", dependencies=["ghost"]))

    assert "share an id: 'a'" in error
    assert "'ghost'" in error


# Compensations and the schedule


def test_a_compensations_target_is_in_no_layer_and_no_conflict() -> None:
    report = look(
        write("undo", "k", "undone"),
        call("a", "t", compensation={"type": "action_ref", "action_id": "undo"}),
        read("r", "k"),
    )

    assert list(report.execution_order) == ["a", "r"]
    assert [list(level) for level in report.execution_levels] == [["a", "r"]]
    assert conflicts(report) == set()


# A consumer before its only producer


def test_a_consumer_listed_before_the_only_writer_of_its_key_is_an_error_that_says_so() -> None:
    report = look(call("use", "t", state_dependencies=["k"]), write("make", "k", 1))

    assert not report.valid
    (error,) = [e for e in report.errors if e.action_id == "use"]
    assert "'k'" in error.message
    assert "'make'" in error.message


# Size


def test_ten_thousand_actions_on_one_key_make_as_many_edges() -> None:
    """Were every pair an edge, there would be fifty million."""
    actions = [
        Action(id=f"a{n}", type="state_write" if n % 3 == 0 else "state_read", parameters={"key": "k"})
        for n in range(10_000)
    ]

    graph = Graph(actions)

    assert not graph.faults
    assert len(graph.conflicts) < 20_000
    assert len(graph.layers) == 6_667


def test_a_chain_of_ten_thousand_listed_backwards_is_ordered() -> None:
    count = 10_000
    actions = [
        Action(id=f"a{n}", tool="t", dependencies=[f"a{n + 1}"] if n < count - 1 else [])
        for n in range(count)
    ]

    graph = Graph(actions)

    assert graph.ids(graph.order)[:2] == ["a9999", "a9998"]
    assert len(graph.layers) == count


def test_actions_that_only_compensate_each_other_are_refused_with_their_ids() -> None:
    graph = Graph(
        [
            Action(id="a", tool="t", compensation=ActionCompensation(action_id="b")),
            Action(id="b", tool="t", compensation=ActionCompensation(action_id="a")),
        ]
    )

    assert [set(f.action_ids) for f in graph.faults] == [{"a", "b"}]
    assert "circle" in graph.faults[0].message
