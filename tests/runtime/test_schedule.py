"""When actions start, what runs together, and that both schedules come to the same."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from placet import Runtime
from tests.runtime.plans import Recorder, call, claim, plan, read, statuses, tool_of, write


async def test_eight_async_tools_are_in_flight_together(schedule: Any) -> None:
    barrier = asyncio.Barrier(8)

    async def meet() -> None:
        await barrier.wait()

    rt = Runtime(tools=[tool_of("meet", meet, risk="read_only")], schedule=schedule)

    result = await rt.execute(plan(*(call(f"a{n}", "meet") for n in range(8))))

    assert result.outcome == "succeeded"


async def test_eight_sync_tools_are_in_flight_together(schedule: Any) -> None:
    barrier = threading.Barrier(8, timeout=30)

    def meet() -> None:
        barrier.wait()

    rt = Runtime(tools=[tool_of("meet", meet, risk="read_only")], schedule=schedule)

    result = await rt.execute(plan(*(call(f"a{n}", "meet") for n in range(8))))

    assert result.outcome == "succeeded"


async def test_tools_with_effects_run_together_when_none_of_them_aborts(schedule: Any) -> None:
    barrier = asyncio.Barrier(4)

    async def meet() -> None:
        await barrier.wait()

    rt = Runtime(tools=[tool_of("meet", meet)], schedule=schedule)

    result = await rt.execute(plan(*(call(f"a{n}", "meet", failure_behavior="skip") for n in range(4))))

    assert result.outcome == "succeeded"


async def test_results_have_the_order_of_the_proposal(recorder: Recorder, schedule: Any) -> None:
    rt = Runtime(tools=[recorder.tool("note")], schedule=schedule)
    proposal = plan(
        call("last", "note", {"n": 3}, dependencies=["middle"]),
        call("middle", "note", {"n": 2}, dependencies=["first"]),
        call("first", "note", {"n": 1}),
    )

    result = await rt.execute(proposal)

    assert [r.action_id for r in result.results] == ["last", "middle", "first"]
    assert [p["n"] for _, p in recorder.calls] == [1, 2, 3]


async def test_an_action_starts_after_everything_it_depends_on_has_ended(schedule: Any) -> None:
    seen: list[str] = []

    async def slow(name: str) -> None:
        seen.append(f"{name} starts")
        for _ in range(20):
            await asyncio.sleep(0)
        seen.append(f"{name} ends")

    rt = Runtime(tools=[tool_of("slow", slow, risk="read_only")], schedule=schedule)

    await rt.execute(
        plan(
            call("c", "slow", {"name": "c"}, dependencies=["a", "b"]),
            call("a", "slow", {"name": "a"}),
            call("b", "slow", {"name": "b"}),
        )
    )

    assert seen == ["a starts", "b starts", "a ends", "b ends", "c starts", "c ends"]


async def test_a_reference_is_a_dependency(recorder: Recorder, schedule: Any) -> None:
    rt = Runtime(
        tools=[recorder.tool("make", {"n": 7}, risk="read_only"), recorder.tool("use", risk="read_only")],
        schedule=schedule,
    )

    await rt.execute(plan(call("b", "use", {"n": "$a.output.n"}), call("a", "make")))

    assert recorder.calls == [("make", {}), ("use", {"n": 7})]


async def test_a_reader_sees_the_writer_before_it_in_the_list(schedule: Any) -> None:
    rt = Runtime(state={"k": "old"}, schedule=schedule)

    result = await rt.execute(plan(read("r1", "k"), write("w", "k", "new"), read("r2", "k")))

    assert result["r1"].output == "old"
    assert result["r2"].output == "new"


async def test_writers_of_one_key_leave_the_value_of_the_last_in_serial_order(schedule: Any) -> None:
    rt = Runtime(schedule=schedule)

    await rt.execute(plan(write("w1", "k", 1, dependencies=["w3"]), write("w2", "k", 2), write("w3", "k", 3)))

    assert rt.state.get("k") == 1


async def test_effects_of_slow_tools_land_in_serial_order(schedule: Any) -> None:
    release = asyncio.Event()

    async def slow() -> None:
        await release.wait()

    async def free() -> None:
        release.set()

    rt = Runtime(
        tools=[tool_of("slow", slow, risk="read_only"), tool_of("free", free, risk="read_only")],
        schedule=schedule,
    )

    await rt.execute(
        plan(
            call("a", "slow", expected_effects={"k": "slow"}),
            call("b", "free"),
            write("c", "k", "quick"),
        )
    )

    assert rt.state.get("k") == "quick"
    assert [t.action_id for t in rt.state.transitions_since(0)] == ["a", "c"]


async def test_levels_wait_for_the_whole_layer() -> None:
    seen: list[str] = []

    async def slow() -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        seen.append("slow ended")

    async def quick(name: str) -> None:
        seen.append(name)

    rt = Runtime(tools=[tool_of("slow", slow, risk="read_only"), tool_of("quick", quick, risk="read_only")])

    await rt.execute(
        plan(
            call("a", "quick", {"name": "a"}),
            call("b", "slow"),
            call("c", "quick", {"name": "c"}, dependencies=["a"]),
        )
    )

    assert seen == ["a", "slow ended", "c"]


async def test_dataflow_starts_an_action_when_its_own_dependencies_have_ended() -> None:
    """`b` ends only after `c` has run, which a schedule by layers could never do."""
    c_ran = asyncio.Event()

    async def wait_for_c() -> None:
        await c_ran.wait()

    async def tell() -> None:
        c_ran.set()

    async def nothing() -> None:
        return None

    rt = Runtime(
        tools=[
            tool_of("wait_for_c", wait_for_c, risk="read_only"),
            tool_of("tell", tell, risk="read_only"),
            tool_of("nothing", nothing, risk="read_only"),
        ],
        schedule="dataflow",
    )

    result = await rt.execute(
        plan(call("a", "nothing"), call("b", "wait_for_c"), call("c", "tell", dependencies=["a"]))
    )

    assert result.outcome == "succeeded"


async def test_dataflow_keeps_at_most_max_concurrency_in_flight() -> None:
    in_flight = most = 0

    async def work() -> None:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        for _ in range(5):
            await asyncio.sleep(0)
        in_flight -= 1

    rt = Runtime(tools=[tool_of("work", work, risk="read_only")], schedule="dataflow", max_concurrency=3)

    result = await rt.execute(plan(*(call(f"a{n}", "work") for n in range(12))))

    assert result.outcome == "succeeded"
    assert most == 3


async def test_an_abort_stops_what_is_in_flight(recorder: Recorder, schedule: Any) -> None:
    began = asyncio.Event()
    stopped: list[str] = []

    async def hang() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append("hang")
            raise

    async def fail() -> None:
        await began.wait()
        raise ValueError("no")

    rt = Runtime(
        tools=[tool_of("hang", hang, risk="read_only"), tool_of("fail", fail, risk="read_only")],
        schedule=schedule,
    )

    result = await rt.execute(plan(call("a", "hang"), call("b", "fail")))

    assert result.outcome == "aborted"
    assert stopped == ["hang"]
    assert statuses(result) == {"a": "failed", "b": "failed"}


async def test_both_schedules_leave_the_same_state() -> None:
    async def echo(value: Any) -> Any:
        for _ in range(value % 3):
            await asyncio.sleep(0)
        return value

    actions = [
        call(
            f"a{n}",
            "echo",
            {"value": n},
            expected_effects={f"k{n % 4}": n},
            state_dependencies=[f"k{(n + 1) % 4}"] if n % 5 == 0 else [],
            dependencies=[f"a{n - 7}"] if n % 3 == 0 and n >= 7 else [],
            failure_behavior="skip",
        )
        for n in range(40)
    ]
    finals = []
    for schedule in ("levels", "dataflow"):
        rt = Runtime(tools=[tool_of("echo", echo)], state={"k1": 0}, schedule=schedule)
        result = await rt.execute(plan(*actions))
        finals.append((rt.state.snapshot(), statuses(result)))

    assert finals[0] == finals[1]
    assert finals[0][0] == {"k0": 36, "k1": 37, "k2": 38, "k3": 39}


async def test_the_serial_order_is_what_verify_prints(recorder: Recorder, schedule: Any) -> None:
    rt = Runtime(tools=[recorder.tool("note")], schedule=schedule)
    proposal = plan(
        call("d", "note", {"id": "d"}, dependencies=["b"]),
        call("a", "note", {"id": "a"}),
        call("c", "note", {"id": "c"}, dependencies=["d"]),
        call("b", "note", {"id": "b"}),
    )

    report = rt.verify(proposal)
    await rt.execute(plan(*proposal["actions"]))

    assert list(report.execution_order) == ["a", "b", "d", "c"]
    assert [p["id"] for _, p in recorder.calls if p["id"] in "bdc"] == ["b", "d", "c"]


async def test_an_empty_plan_succeeds(schedule: Any) -> None:
    rt = Runtime(schedule=schedule)

    result = await rt.execute(plan())

    assert result.outcome == "succeeded"
    assert list(result.results) == []


@pytest.mark.parametrize(
    ("actions", "named"),
    [
        ([write("a", "k"), write("a", "j")], "'a'"),
        ([write("a", "k", dependencies=["ghost"])], "'ghost'"),
        ([write("a", "k", dependencies=["a"])], "a -> a"),
        ([write("a", "k", dependencies=["b"]), write("b", "j", dependencies=["a"])], "cycle"),
        ([write("a", "k", "$ghost.output")], "'ghost'"),
        ([write("a", "k", compensation={"type": "action_ref", "action_id": "ghost"})], "'ghost'"),
    ],
    ids=[
        "duplicate id",
        "unknown dependency",
        "itself",
        "cycle",
        "unknown reference",
        "unknown compensation",
    ],
)
async def test_a_plan_that_cannot_be_ordered_is_refused_with_the_ids_named(
    actions: list[dict[str, Any]], named: str
) -> None:
    rt = Runtime()

    result = await rt.execute(plan(*actions))

    assert result.outcome == "refused"
    assert named in (result.error or "")
    assert {r.status for r in result.results} == {"rejected"}
    assert rt.state.snapshot() == {}


async def test_other_work_gets_its_turn_during_a_long_plan_of_instant_actions(schedule: Any) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    rt = Runtime(schedule=schedule)
    ticking = asyncio.create_task(tick())

    await rt.execute(plan(*(write(f"a{n}", "k", n) for n in range(3000))))
    ticking.cancel()

    assert ticks > 5


async def test_ten_thousand_actions_on_one_key_end_as_the_serial_order_says(schedule: Any) -> None:
    rt = Runtime(schedule=schedule)
    actions = [write(f"w{n}", "k", n) if n % 2 == 0 else read(f"r{n}", "k") for n in range(10_000)]

    result = await rt.execute(plan(*actions))

    assert result.outcome == "succeeded"
    assert rt.state.get("k") == 9_998
    assert [r.output for r in result.results[1::2]] == list(range(0, 10_000, 2))


async def test_an_assertion_between_two_writes_sees_the_first(schedule: Any) -> None:
    rt = Runtime(schedule=schedule)

    result = await rt.execute(plan(write("w1", "k", 1), claim("c", "k", 1), write("w2", "k", 2)))

    assert result.outcome == "succeeded"
    assert rt.state.get("k") == 2
