"""Going on after the death of a process: what is read back, what is done again, what is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from placet import CostBudget, ReplanConfig, Runtime, Scope, ToolContext, ToolSchema, tool
from placet.durable.memory import MemoryJournal, MemoryRun
from placet.errors import RunHeld, StorageFull, UnknownRun, UsageError
from placet.ir.result import ProposalResult
from placet.runtime.journal import Beginning, Decision, Ended, Note, Replaced, RunRecord, Started, Taken
from placet.testing import action, proposal


class World:
    """Tools whose effects can be counted, and that can stop the world in the middle of one."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.keys: list[str] = []
        self.more: list[Any] = []
        self.hang_in: str | None = None
        self.hanging = asyncio.Event()
        self.wake = asyncio.Event()

    def tools(self) -> list[Any]:
        async def act(name: str, context: ToolContext) -> dict[str, str]:
            self.effects.append(name)
            self.keys.append(context.idempotency_key)
            if name == self.hang_in:
                self.hanging.set()
                await self.wake.wait()
            return {"did": name}

        @tool
        async def unsafe(name: str, context: ToolContext) -> dict[str, str]:
            """Must not be done twice."""
            return await act(name, context)

        @tool(idempotent=True)
        async def safe(name: str, context: ToolContext) -> dict[str, str]:
            """May be done twice."""
            return await act(name, context)

        @tool
        async def broken(name: str, context: ToolContext) -> dict[str, str]:
            """Always fails."""
            await act(name, context)
            raise ValueError("it broke")

        @tool(reversibility="compensable")
        async def book(name: str, context: ToolContext) -> dict[str, str]:
            """Can be taken back."""
            return await act(name, context)

        return [unsafe, safe, broken, book, *self.more]


def runtime(world: World, journal: MemoryJournal, **more: Any) -> Runtime:
    return Runtime(tools=world.tools(), journal=journal, **more)


async def die_in(world: World, journal: MemoryJournal, plan: Any, hang_in: str, **more: Any) -> None:
    """Run a plan until it hangs in one effect, then lose the process around it."""
    world.hang_in = hang_in
    task = asyncio.create_task(runtime(world, journal, **more).execute(plan, run_id="r"))
    await world.hanging.wait()
    # What a dead process would have written afterwards is cut off: only what was noted so far counts.
    kept = journal._runs["r"]
    notes = list(kept.notes)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    kept.notes[:] = notes
    kept.result = None
    journal.lose_holders()
    world.hang_in = None
    world.hanging.clear()


CHAIN = proposal(
    action("a", "unsafe", parameters={"name": "a"}, expected_effects={"seen": "a"}),
    action("b", "unsafe", parameters={"name": "$a.output.did"}, dependencies=["a"]),
    action("c", "safe", parameters={"name": "c"}, dependencies=["b"], expected_effects={"last": 1}),
)


async def test_what_has_ended_is_read_back_and_not_done_again() -> None:
    world, journal = World(), MemoryJournal()
    await die_in(world, journal, CHAIN, "c")
    rt = runtime(world, journal)

    result = await rt.resume("r")

    assert result.outcome == "succeeded"
    assert world.effects == ["a", "a", "c", "c"]  # b's name is a's output; c is idempotent and was in flight
    assert result["b"].output == {"did": "a"}
    assert rt.state.snapshot() == {"seen": "a", "last": 1}
    assert result.run_id == "r"
    assert [e.action_id for e in rt.events.query(kind="action_replayed")] == ["a", "b"]


async def test_an_action_whose_parameters_are_misnamed_is_rejected_after_a_crash_too() -> None:
    """The journal does not keep the unknown field itself."""
    world, journal = World(), MemoryJournal()
    plan = {
        "actions": [
            {"id": "c", "tool": "safe", "parameters": {"name": "c"}},
            {"id": "d", "tool": "defaults", "params": {"name": "d"}, "dependencies": ["c"]},
        ]
    }

    @tool
    async def defaults(name: str = "default") -> None:
        """Can be called without parameters."""
        world.effects.append(name)

    world.more = [defaults]
    await die_in(world, journal, plan, "c")
    kept = journal._runs["r"]
    kept.record = msgspec.json.decode(msgspec.json.encode(kept.record), type=RunRecord)
    result = await runtime(world, journal).resume("r")

    assert result["d"].status == "rejected"
    assert world.effects == ["c", "c"]


async def test_what_ran_before_its_tool_was_declared_compensable_is_named_irreversible() -> None:
    """It brought no compensation, because it needed none then; it stays done all the same."""
    world, journal = World(), MemoryJournal()
    plan = proposal(
        action("a", "unsafe", parameters={"name": "a"}),
        action("c", "safe", parameters={"name": "c"}, dependencies=["a"]),
        action("x", "broken", parameters={"name": "x"}, dependencies=["c"]),
    )
    await die_in(world, journal, plan, "c")
    rt = runtime(world, journal)

    async def unsafe(parameters: dict[str, Any]) -> None:
        raise AssertionError("it ran already")

    rt.register(ToolSchema(name="unsafe", reversibility="compensable"), unsafe)
    result = await rt.resume("r")

    assert result.outcome == "aborted"
    assert "a" in result.irreversible
    assert result.compensations == []


async def test_an_idempotent_action_gets_the_same_key_when_it_is_repeated() -> None:
    world, journal = World(), MemoryJournal()
    await die_in(world, journal, CHAIN, "c")

    await runtime(world, journal).resume("r")

    assert world.keys == ["r-0-0", "r-0-1", "r-0-2", "r-0-2"]


async def test_an_unsafe_action_in_flight_is_unknown_and_the_run_waits() -> None:
    world, journal = World(), MemoryJournal()
    await die_in(
        world, journal, proposal(*CHAIN.actions[:1], action("d", "unsafe", parameters={"name": "d"})), "d"
    )
    rt = runtime(world, journal)

    result = await rt.resume("r")

    assert result.outcome == "waiting"
    assert [(w.kind, w.action_id) for w in result.waiting] == [("unknown_outcome", "d")]
    assert [result[i].status for i in ("a", "d")] == ["succeeded", "unknown"]
    assert world.effects == ["a", "d"]
    assert rt.state.snapshot() == {}


@pytest.mark.parametrize(
    ("choice", "outcome", "effects", "status"),
    [
        ("done", "succeeded", ["a", "b", "c"], "succeeded"),
        ("retry", "succeeded", ["a", "b", "b", "c"], "succeeded"),
        ("fail", "aborted", ["a", "b"], "failed"),
    ],
)
async def test_a_decision_lets_the_run_go_on(
    choice: Any, outcome: str, effects: list[str], status: str
) -> None:
    world, journal = World(), MemoryJournal()
    plan = proposal(
        action("a", "unsafe", parameters={"name": "a"}, expected_effects={"seen": "a"}),
        action("b", "unsafe", parameters={"name": "b"}, dependencies=["a"]),
        action("c", "safe", parameters={"name": "c"}, dependencies=["b"], expected_effects={"last": 1}),
    )
    await die_in(world, journal, plan, "b")
    rt = runtime(world, journal)
    assert (await rt.resume("r")).outcome == "waiting"

    result = await rt.resume("r", decide={"b": choice})

    assert result.outcome == outcome
    assert world.effects == effects
    assert result["b"].status == status
    assert rt.state.snapshot() == ({} if choice == "fail" else {"seen": "a", "last": 1})


async def test_what_is_decided_done_can_bring_its_output() -> None:
    world, journal = World(), MemoryJournal()
    plan = proposal(
        action("a", "unsafe", parameters={"name": "a"}),
        action("b", "safe", parameters={"name": "$a.output.did"}, dependencies=["a"]),
    )
    await die_in(world, journal, plan, "a")

    result = await runtime(world, journal).resume(
        "r", decide={"a": Decision(choice="done", output={"did": "by hand"})}
    )

    assert result.succeeded
    assert world.effects == ["a", "by hand"]


async def test_a_decision_about_something_else_changes_nothing() -> None:
    world, journal = World(), MemoryJournal()
    await die_in(world, journal, proposal(action("a", "unsafe", parameters={"name": "a"})), "a")
    rt = runtime(world, journal)
    before = list(journal._runs["r"].notes)

    with pytest.raises(UsageError, match=r"does not wait for a decision about 'x'. It waits for 'a'"):
        await rt.resume("r", decide={"x": "done"})

    assert journal._runs["r"].notes == before
    assert (await rt.resume("r", decide={"a": "done"})).succeeded


async def test_a_run_that_has_ended_says_how_and_does_nothing() -> None:
    world, journal = World(), MemoryJournal()
    rt = runtime(world, journal)
    first = await rt.execute(CHAIN, run_id="r")
    effects = list(world.effects)

    again = await rt.resume("r")

    assert again == first
    assert world.effects == effects
    with pytest.raises(UsageError, match="has ended"):
        await rt.resume("r", decide={"a": "done"})


async def test_a_canceled_run_can_go_on() -> None:
    from placet import Cancel

    world, journal = World(), MemoryJournal()
    cancel = Cancel()
    rt = runtime(world, journal)
    world.hang_in = "c"
    task = asyncio.create_task(rt.execute(CHAIN, run_id="r", cancel=cancel))
    await world.hanging.wait()
    cancel.cancel("stop", hard=True)
    assert (await task).outcome == "canceled"
    world.hang_in = None

    result = await runtime(world, journal).resume("r")

    assert result.succeeded
    assert world.effects == ["a", "a", "c", "c"]


async def test_only_one_can_hold_a_run() -> None:
    world, journal = World(), MemoryJournal()
    world.hang_in = "a"
    task = asyncio.create_task(runtime(world, journal).execute(CHAIN, run_id="r"))
    await world.hanging.wait()

    with pytest.raises(RunHeld):
        await runtime(world, journal).resume("r")

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_process_that_lost_its_run_does_nothing_more() -> None:
    """Frozen in one action, taken over meanwhile: its next effect, and every compensation, is stopped."""
    world, journal = World(), MemoryJournal()
    plan = proposal(
        action(
            "k",
            "book",
            parameters={"name": "k"},
            compensation={"type": "tool", "tool": "unsafe", "parameters": {"name": "undo k"}},
        ),
        action("a", "safe", parameters={"name": "a"}, dependencies=["k"]),
        action("b", "unsafe", parameters={"name": "b"}, dependencies=["a"]),
    )
    world.hang_in = "a"
    frozen = asyncio.create_task(runtime(world, journal).execute(plan, run_id="r"))
    await world.hanging.wait()
    journal.lose_holders()
    world.hang_in = None
    assert (await runtime(world, journal).resume("r")).succeeded
    before = list(world.effects)

    frozen.cancel()

    with pytest.raises((RunHeld, asyncio.CancelledError)):
        await frozen
    assert world.effects == before


async def test_an_unknown_run_is_named() -> None:
    with pytest.raises(UnknownRun, match="'nope'"):
        await Runtime(journal=MemoryJournal()).resume("nope")


async def test_without_a_journal_there_is_nothing_to_resume() -> None:
    with pytest.raises(UsageError, match="journal="):
        await Runtime().resume("r")


# A journal that cannot be written


class FullJournal(MemoryJournal):
    """Has space for so many notes."""

    space = 10**9

    async def begin(self, record: RunRecord) -> MemoryRun:
        return self._limit(await super().begin(record))

    async def take(self, run_id: str) -> Taken | ProposalResult:
        taken = await super().take(run_id)
        if isinstance(taken, Taken):
            self._limit(taken.journal)
        return taken

    def _limit(self, run: Any) -> Any:
        keep, settle = run.note, run.settle
        failed: list[bool] = []

        def note(note: Note) -> None:
            if self.space > 0:
                self.space -= 1
                keep(note)
            else:
                failed.append(True)

        async def limited() -> None:
            await settle()
            if failed:
                failed.clear()
                raise StorageFull("the journal", "has no space left", "Free some.")

        run.note, run.settle = note, limited
        return run


BOOK_AND_PAY = proposal(
    action(
        "k",
        "book",
        parameters={"name": "k"},
        compensation={"type": "tool", "tool": "safe", "parameters": {"name": "undo k"}},
    ),
    action("pay", "unsafe", parameters={"name": "pay"}, dependencies=["k"]),
)


async def test_what_cannot_be_noted_beforehand_is_not_done_and_nothing_is_taken_back() -> None:
    """Otherwise the run, resumed when there is space, would pay for a booking that was cancelled."""
    world, journal = World(), FullJournal()
    journal.space = 2

    result = await runtime(world, journal).execute(BOOK_AND_PAY, run_id="r")

    assert result.outcome == "canceled"
    assert "cannot be noted beforehand: The database the journal has no space left" in (result.error or "")
    assert result["pay"].status == "skipped"
    assert world.effects == ["k"]
    journal.space = 100
    journal.lose_holders()
    assert (await runtime(world, journal).resume("r")).succeeded
    assert world.effects == ["k", "pay"]


async def test_an_abort_that_cannot_be_noted_beforehand_takes_nothing_back() -> None:
    """Otherwise the run, resumed by somebody who saw that the last action was done, would have succeeded
    without its booking."""
    world, journal = World(), FullJournal()
    booked = BOOK_AND_PAY.actions[0]
    plan = proposal(booked, action("f", "broken", parameters={"name": "f"}, dependencies=["k"]))
    journal.space = 3

    result = await runtime(world, journal).execute(plan, run_id="r")

    assert result.outcome == "canceled"
    assert "nothing was taken back, because that cannot be noted beforehand" in (result.error or "")
    assert world.effects == ["k", "f"]
    journal.space = 100
    journal.lose_holders()
    assert (await runtime(world, journal).resume("r", decide={"f": "done"})).succeeded
    assert world.effects == ["k", "f"]


@pytest.mark.parametrize("space", range(9))
async def test_wherever_the_space_ends_the_world_is_whole_after_resuming(space: int) -> None:
    """The last action fails: either everything is taken back, or, told to retry, it is all done over."""
    world, journal = World(), FullJournal()
    plan = proposal(
        *BOOK_AND_PAY.actions, action("f", "broken", parameters={"name": "f"}, dependencies=["pay"])
    )
    journal.space = space
    first = await runtime(world, journal).execute(plan, run_id="r")
    assert first.outcome == ("aborted" if "undo k" in world.effects else "canceled")
    journal.space = 100
    journal.lose_holders()

    result = await runtime(world, journal).resume("r")
    while result.outcome == "waiting":
        happened = {w.action_id: "fail" if w.action_id == "f" else "done" for w in result.waiting}
        result = await runtime(world, journal).resume("r", decide=happened)

    assert result.outcome == "aborted"
    assert world.effects.count("k") == 1
    assert world.effects.count("pay") == 1
    assert world.effects.count("undo k") >= 1
    assert world.effects[-1] == "undo k"


# Every place where a run can be broken off


def _effects_of(notes: list[Note]) -> int:
    return sum(isinstance(n, Ended) for n in notes)


PLANS: dict[str, Callable[[], Any]] = {
    "a chain": lambda: CHAIN,
    "an abort with compensations": lambda: proposal(
        action(
            "k1",
            "book",
            parameters={"name": "k1"},
            compensation={"type": "tool", "tool": "unsafe", "parameters": {"name": "undo k1"}},
        ),
        action(
            "k2", "book", parameters={"name": "k2"}, compensation={"type": "action_ref", "action_id": "u2"}
        ),
        action("u2", "safe", parameters={"name": "undo k2"}),
        action("w", type="state_write", parameters={"key": "x", "value": 1}),
        action("f", "broken", parameters={"name": "f"}, dependencies=["k1", "k2", "w"]),
    ),
    "failures that are skipped": lambda: proposal(
        action("f", "broken", parameters={"name": "f"}, failure_behavior="skip"),
        action("g", "safe", parameters={"name": "g"}, dependencies=["f"]),
        action("h", "unsafe", parameters={"name": "h"}, expected_effects={"h": True}),
        action("r", type="state_read", parameters={"key": "h"}, dependencies=["h"]),
    ),
    "equal calls": lambda: proposal(
        action("a", "safe", parameters={"name": "same"}, idempotent=True),
        action("b", "safe", parameters={"name": "same"}, idempotent=True, dependencies=["a"]),
        action("c", "unsafe", parameters={"name": "c"}, dependencies=["b"]),
    ),
    "a budget": lambda: proposal(
        *[
            action(f"n{k}", "unsafe", parameters={"name": f"n{k}"}, dependencies=[f"n{k - 1}"] if k else [])
            for k in range(5)
        ]
    ),
}


def _comparable(result: ProposalResult) -> Any:
    return (
        result.outcome,
        result.error,
        [(r.action_id, r.status, r.output, r.error, r.state_changes, r.rolled_back) for r in result.results],
        [(c.action_id, c.status) for c in result.compensations],
        result.irreversible,
        (
            result.cost.tool_calls,
            result.cost.actions_executed,
            result.cost.actions_skipped,
            result.cost.retries,
        ),
    )


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("schedule", ["levels", "dataflow"])
async def test_broken_off_after_any_note_it_ends_the_same(name: str, schedule: Any) -> None:
    """Whatever prefix of the notes survived: same result, same state, nothing that ended done twice."""
    more: dict[str, Any] = {"schedule": schedule}
    if name == "a budget":
        more["budget"] = CostBudget(max_tool_calls=3)
    whole_world, whole = World(), MemoryJournal()
    rt = runtime(whole_world, whole, state={"before": 1}, **more)
    expected = await rt.execute(PLANS[name](), run_id="r")
    record, notes = whole._runs["r"].record, whole._runs["r"].notes
    assert len(notes) > 3

    for cut in range(len(notes) + 1):
        world, journal = World(), MemoryJournal()
        held = await journal.begin(record)
        for note in notes[:cut]:
            held.note(note)
        journal.lose_holders()
        fresh = runtime(world, journal, **more)

        result = await fresh.resume("r")
        if result.outcome == "waiting":
            assert fresh.state.snapshot() in ({}, {"before": 1})
            # The effect has not happened in this world, so it is done now.
            result = await fresh.resume("r", decide={w.action_id: "retry" for w in result.waiting})

        assert _comparable(result) == _comparable(expected), f"cut after {cut} of {len(notes)} notes"
        assert fresh.state.snapshot() == {k: v for k, v in rt.state.snapshot().items() if k != "before"}
        done_before = {n.key for n in notes[:cut] if isinstance(n, Ended)}
        repeated = [key for key in world.keys if key.removeprefix("r-") in done_before]
        assert not repeated, f"done again after {cut} notes: {repeated}"


async def test_a_replanned_run_goes_on_with_the_plan_it_was_given() -> None:
    asked: list[int] = []

    def replan(context: Any) -> Any:
        asked.append(context.attempt)
        return proposal(
            action("n1", "unsafe", parameters={"name": "n1"}),
            action("n2", "safe", parameters={"name": "n2"}, dependencies=["n1"]),
        )

    more = {"replan": replan, "replan_config": ReplanConfig(max_replans=2)}
    world, journal = World(), MemoryJournal()
    await die_in(world, journal, proposal(action("f", "broken", parameters={"name": "f"})), "n2", **more)

    result = await runtime(world, journal, **more).resume("r")

    assert result.succeeded
    assert result.replans == 1
    assert asked == [1]
    assert world.effects == ["f", "n1", "n2", "n2"]


async def test_scope_and_trace_are_those_of_the_run() -> None:
    world, journal = World(), MemoryJournal()
    world.hang_in = "c"
    task = asyncio.create_task(
        runtime(world, journal).execute(CHAIN, run_id="r", scope=Scope(tenant="acme", caller_id="ada"))
    )
    await world.hanging.wait()
    record = journal._runs["r"].record
    notes = list(journal._runs["r"].notes)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    journal._runs["r"].notes[:] = notes
    journal._runs["r"].result = None
    journal.lose_holders()
    world.hang_in = None
    rt = runtime(world, journal)

    result = await rt.resume("r")

    assert result.trace_id == record.trace_id
    assert rt.state.scoped("acme").snapshot() == {"seen": "a", "last": 1}
    assert rt.state.snapshot() == {}


async def test_an_assumed_version_still_means_what_it_meant() -> None:
    """A fresh store counts from nothing; a version read before the restart must not hold by accident."""
    world, journal = World(), MemoryJournal()
    rt = runtime(world, journal, state={"k": 1})
    for n in range(20):
        rt.state.set("other", n)
    read_at = rt.state.version
    plan = proposal(
        action("a", "unsafe", parameters={"name": "a"}),
        action("w", type="state_write", parameters={"key": "k", "value": 2}, dependencies=["a"]),
        action(
            "b",
            "unsafe",
            parameters={"name": "b"},
            dependencies=["w"],
            assumptions=[{"key": "k", "read_version": read_at}],
            failure_behavior="skip",
        ),
    )
    expected = await rt.execute(plan, run_id="r")
    assert expected["b"].status == "rejected"
    record, notes = journal._runs["r"].record, journal._runs["r"].notes
    again = MemoryJournal()
    held = await again.begin(record)
    for note in notes[:2]:
        held.note(note)
    again.lose_holders()

    result = await runtime(world, again).resume("r")

    assert result["b"].status == "rejected"
    assert world.effects == ["a"]


async def test_what_is_decided_counts_towards_the_budget() -> None:
    world, journal = World(), MemoryJournal()
    budget = CostBudget(max_tool_calls=2)
    plan = PLANS["a budget"]()
    await die_in(world, journal, plan, "n1", budget=budget)

    result = await runtime(world, journal, budget=budget).resume("r", decide={"n1": "done"})

    assert result.outcome == "budget"
    assert [r.status for r in result.results] == ["succeeded", "succeeded", "skipped", "skipped", "skipped"]
    assert world.effects == ["n0", "n1"]
    assert result.cost.tool_calls == 2


async def test_a_run_waits_only_for_what_can_be_decided() -> None:
    """What ended as unknown has ended: it is told with the result, not asked about."""
    world, journal = World(), MemoryJournal()

    @tool
    async def lost() -> None:
        """Nobody knows."""
        raise TimeoutError("no answer")

    plan = proposal(
        action("l", "lost", failure_behavior="skip"),
        action("w", type="state_write", parameters={"key": "k"}),
        action("u", "unsafe", parameters={"name": "u"}, dependencies=["w"]),
    )
    world.hang_in = "u"
    tools = [lost, *world.tools()]
    task = asyncio.create_task(Runtime(tools=tools, journal=journal).execute(plan, run_id="r"))
    await world.hanging.wait()
    journal.lose_holders()
    world.hang_in = None
    rt = Runtime(tools=tools, journal=journal)

    waiting = await rt.resume("r")
    result = await rt.resume("r", decide={w.action_id: "done" for w in waiting.waiting})

    assert [w.action_id for w in waiting.waiting] == ["u"]
    assert waiting["l"].status == "unknown"
    assert result.outcome == "partial"
    assert [w.action_id for w in result.waiting] == ["l"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_actions_of_two_plans_that_share_an_id_can_both_be_decided() -> None:
    """Two plans of one run, both with an `a` in flight: the newest has the name, the older its key."""
    first = proposal(action("a", "unsafe", parameters={"name": "first"}))
    second = proposal(action("a", "unsafe", parameters={"name": "second"}))
    world, journal = World(), MemoryJournal()
    held = await journal.begin(RunRecord(run_id="r", trace_id="0" * 32, proposal=first))
    for note in (Started("0-0", 1), Replaced(1, 1, second, Beginning()), Started("1-0", 1)):
        held.note(note)
    journal.lose_holders()
    rt = runtime(world, journal, replan=lambda _: second, replan_config=ReplanConfig(max_replans=1))

    waiting = await rt.resume("r")
    result = await rt.resume("r", decide={"0-0": "fail", "a": "done"})

    assert {w.action_id for w in waiting.waiting} == {"a", "0-0"}
    assert result.succeeded
    assert world.effects == []


@pytest.mark.parametrize("compensation", ["unsafe", "safe"])
async def test_a_process_that_lost_its_run_takes_nothing_back(compensation: str) -> None:
    """It fails after another has finished: what it would take back is a success by then."""
    world, journal = World(), MemoryJournal()
    falls = asyncio.Event()

    @tool(risk="read_only")
    async def gate() -> str:
        """Hold, and fall."""
        if falls.is_set():
            return "open"
        world.hanging.set()
        await falls.wait()
        raise ValueError("it fell")

    plan = proposal(
        action(
            "k",
            "book",
            parameters={"name": "k"},
            compensation={"type": "tool", "tool": compensation, "parameters": {"name": "undo k"}},
        ),
        action("g", "gate", dependencies=["k"]),
    )

    def fresh() -> Runtime:
        return Runtime(tools=[gate, *world.tools()], journal=journal)

    frozen_runtime = fresh()
    frozen = asyncio.create_task(frozen_runtime.execute(plan, run_id="r"))
    await world.hanging.wait()
    journal.lose_holders()
    taken = await journal.take("r")
    assert not isinstance(taken, ProposalResult)

    falls.set()

    with pytest.raises(RunHeld):
        await frozen
    assert world.effects == ["k"]
    assert frozen_runtime.events.query(kind="proposal_ended") == [], "it has no say in how the run ended"
    taken.journal.release()
    assert (await fresh().resume("r")).succeeded


async def test_what_could_not_be_noted_was_not_started_and_nobody_is_asked_about_it() -> None:
    """The journal fails for a moment, before an unsafe call; what it could not keep then it keeps later."""

    class Failing(MemoryJournal):
        async def begin(self, record: RunRecord) -> MemoryRun:
            held = await super().begin(record)
            settle = held.settle

            async def fail_once() -> None:
                if isinstance(self._runs["r"].notes[-1], Started) and self._runs["r"].notes[-1].key == "0-1":
                    raise StorageFull("x.db", "has no space left to grow", "Free some.")
                await settle()

            held.settle = fail_once  # type: ignore[method-assign]
            return held

    world, journal = World(), Failing()
    plan = proposal(
        action("a", "unsafe", parameters={"name": "a"}),
        action("b", "unsafe", parameters={"name": "b"}, dependencies=["a"]),
    )

    stopped = await runtime(world, journal).execute(plan, run_id="r")
    assert (stopped.outcome, world.effects) == ("canceled", ["a"])
    result = await runtime(world, journal).resume("r")

    assert result.succeeded
    assert world.effects == ["a", "b"]


# What a person can get wrong


async def test_a_run_does_not_go_on_without_the_tools_it_had() -> None:
    """It would be rejected, aborted and taken back, for good, because a file was not named."""
    world, journal = World(), MemoryJournal()
    await die_in(world, journal, CHAIN, "c")
    before = list(journal._runs["r"].notes)

    with pytest.raises(UsageError, match="began with tools that are not here: 'safe', 'unsafe'"):
        await Runtime(journal=journal).resume("r")

    assert journal._runs["r"].notes == before
    assert (await runtime(world, journal).resume("r")).succeeded


async def test_done_without_an_output_that_others_use_is_not_taken() -> None:
    world, journal = World(), MemoryJournal()
    plan = proposal(
        action("a", "unsafe", parameters={"name": "a"}),
        action("b", "safe", parameters={"name": "$a.output.did"}, dependencies=["a"]),
    )
    await die_in(world, journal, plan, "a")
    rt = runtime(world, journal)

    waiting = (await rt.resume("r")).waiting
    with pytest.raises(UsageError, match="'done' must say what it was: 'a=done:JSON'"):
        await rt.resume("r", decide={"a": "done"})

    assert [w.needs_output for w in waiting] == [True]
    assert (await rt.resume("r", decide={"a": "retry"})).succeeded


async def test_looking_at_a_run_that_waits_leaves_no_trace() -> None:
    world, journal = World(), MemoryJournal()
    await die_in(world, journal, proposal(action("a", "unsafe", parameters={"name": "a"})), "a")
    rt = runtime(world, journal)
    first = await rt.resume("r")
    events = len(rt.events)

    again = await rt.resume("r")

    assert again == first
    assert len(rt.events) == events
    assert (await rt.resume("r", decide={"a": "done"})).succeeded


@pytest.mark.parametrize("name", ["", 7])
async def test_a_run_needs_a_name_or_none(name: Any) -> None:
    with pytest.raises(UsageError, match="run_id is"):
        await Runtime().execute(proposal(), run_id=name)


# A state that has been kept


async def _canceled(rt: Runtime, world: World, plan: Any) -> None:
    """Run a plan until it hangs in `c`, and cancel it there; what it did so far stays."""
    from placet import Cancel

    cancel = Cancel()
    world.hang_in = "c"
    task = asyncio.create_task(rt.execute(plan, run_id="r", cancel=cancel))
    await world.hanging.wait()
    cancel.cancel("stop", hard=True)
    assert (await task).outcome == "canceled"
    world.hang_in = None


COUNTED = proposal(
    action("a", "unsafe", parameters={"name": "a"}, expected_effects={"n": 1, "new": 1}),
    action("c", "safe", parameters={"name": "c"}, dependencies=["a"]),
    action("f", "broken", parameters={"name": "f"}, dependencies=["c"]),
)


async def test_a_canceled_run_that_is_resumed_and_aborts_leaves_the_state_as_it_was_before_it_began() -> None:
    world, journal = World(), MemoryJournal()
    rt = runtime(world, journal, state={"n": 0})
    await _canceled(rt, world, COUNTED)
    assert rt.state.snapshot() == {"n": 1, "new": 1}

    result = await rt.resume("r")

    assert result.outcome == "aborted"
    assert rt.state.snapshot() == {"n": 0}


async def test_what_others_wrote_while_a_run_was_broken_off_stays() -> None:
    world, journal = World(), MemoryJournal()
    rt = runtime(world, journal, state={"n": 0})
    await _canceled(rt, world, proposal(*COUNTED.actions[:2]))
    rt.state.set("n", 42)

    result = await rt.resume("r")

    assert result.succeeded
    assert rt.state.snapshot() == {"n": 42, "new": 1}


# Being stopped while something is taken back

TWICE_BOOKED = proposal(
    *(
        action(
            name,
            "book",
            parameters={"name": name},
            compensation={"type": "tool", "tool": "safe", "parameters": {"name": f"undo {name}"}},
        )
        for name in ("k1", "k2")
    ),
    action("f", "broken", parameters={"name": "f"}, dependencies=["k1", "k2"]),
)


async def test_a_run_that_is_stopped_while_it_is_taken_back_goes_on_taking_back() -> None:
    from placet import Cancel

    world, journal = World(), MemoryJournal()
    cancel = Cancel()
    world.hang_in = "undo k2"
    task = asyncio.create_task(runtime(world, journal).execute(TWICE_BOOKED, run_id="r", cancel=cancel))
    await world.hanging.wait()
    cancel.cancel("stopped by SIGTERM", hard=True)
    first = await task
    world.hang_in = None

    result = await runtime(world, journal).resume("r")

    assert first.outcome == "canceled"
    assert "while it was being taken back" in (first.error or "")
    assert result.outcome == "aborted"
    assert [c.status for c in result.compensations] == ["succeeded", "succeeded"]
    assert world.effects == ["k1", "k2", "f", "undo k2", "undo k2", "undo k1"]


async def test_a_process_that_loses_its_run_while_taking_back_stops_and_is_silent() -> None:
    """Also under a Cancel, as on the command line, where each compensation has a task of its own."""
    from placet import Cancel

    world, journal = World(), MemoryJournal()
    rt = runtime(world, journal)
    world.hang_in = "undo k2"
    frozen = asyncio.create_task(rt.execute(TWICE_BOOKED, run_id="r", cancel=Cancel()))
    await world.hanging.wait()
    journal.lose_holders()
    world.hang_in = None
    assert (await runtime(world, journal).resume("r")).outcome == "aborted"
    effects, events = list(world.effects), len(rt.events)

    world.wake.set()
    with pytest.raises(RunHeld):
        await frozen

    assert world.effects == effects
    said = [e.kind for e in list(rt.events)[events:]]
    assert "proposal_ended" not in said
    assert said.count("compensation_failed") == 0


async def test_attempts_that_were_over_are_not_made_again() -> None:
    calls: list[int] = []

    @tool(risk="read_only")
    async def look() -> None:
        """Never sees anything."""
        calls.append(1)
        raise ValueError("nothing there")

    journal = MemoryJournal()
    plan = proposal(action("a", "look", failure_behavior="retry", max_retries=2))
    whole = await Runtime(tools=[look], journal=journal).execute(plan, run_id="r")
    record, notes = journal._runs["r"].record, journal._runs["r"].notes
    assert whole.cost.retries == 2
    assert len(calls) == 3

    for cut in range(len(notes)):
        again = MemoryJournal()
        held = await again.begin(record)
        for note in notes[:cut]:
            held.note(note)
        again.lose_holders()
        calls.clear()

        result = await Runtime(tools=[look], journal=again).resume("r")

        assert len(calls) == 3 - cut
        assert result.cost.retries == 2
