"""Where a runtime is easily wrong: order, skips, unknown outcomes, claims, budgets, undo, tenants."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet import (
    Action,
    Cancel,
    CostBudget,
    DenyTool,
    ReplanConfig,
    Runtime,
    Scope,
    ToolContext,
    ToolSchema,
)
from placet.errors import ToolDeclarationError
from placet.ir.tool_spec import RateLimit
from tests.runtime.plans import (
    Recorder,
    call,
    claim,
    data_of,
    kinds,
    plan,
    read,
    statuses,
    tool_of,
    undone_by,
    write,
)


async def hang(_: Any) -> None:
    await asyncio.Event().wait()


# Nothing takes effect after a failure


async def test_nothing_in_a_layer_takes_effect_after_a_failure_that_aborts(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("pay"), recorder.tool("bad", raises=ValueError("no"))])

    result = await rt.execute(
        plan(
            call("a", "pay", failure_behavior="skip"),
            call("b", "bad"),
            call("c", "pay", failure_behavior="skip"),
            write("d", "k", 1, failure_behavior="skip"),
        )
    )

    assert recorder.names == ["pay", "bad"]
    assert statuses(result) == {"a": "succeeded", "b": "failed", "c": "skipped", "d": "skipped"}


async def test_a_layer_with_effects_and_an_action_that_may_abort_runs_one_by_one(recorder: Recorder) -> None:
    seen: list[str] = []

    async def work(name: str) -> None:
        seen.append(f"{name} starts")
        for _ in range(5):
            await asyncio.sleep(0)
        seen.append(f"{name} ends")

    rt = Runtime(tools=[tool_of("work", work), tool_of("look", work, risk="read_only")])

    await rt.execute(
        plan(
            call("a", "look", {"name": "a"}),
            call("b", "work", {"name": "b"}, failure_behavior="skip"),
            call("c", "look", {"name": "c"}),
        )
    )

    assert seen == ["a starts", "a ends", "b starts", "b ends", "c starts", "c ends"]


async def test_a_rejection_that_aborts_stops_the_rest_of_its_layer(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("pay"), recorder.tool("denied")], policies=[("no", DenyTool(tool="denied"))]
    )

    result = await rt.execute(plan(call("a", "denied"), call("b", "pay")))

    assert recorder.calls == []
    assert statuses(result) == {"a": "rejected", "b": "skipped"}


async def test_a_layer_that_only_reads_runs_together_although_each_may_abort() -> None:
    barrier = asyncio.Barrier(3)

    async def look() -> None:
        await barrier.wait()

    rt = Runtime(tools=[tool_of("look", look, risk="read_only")], state={"k": 1})

    result = await rt.execute(
        plan(call("a", "look"), read("b", "k"), call("c", "look"), claim("d", "k", 1), call("e", "look"))
    )

    assert result.outcome == "succeeded"


# Rejections


async def test_a_rejection_with_abort_aborts_the_plan(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("mail")], policies=[("quiet", DenyTool(tool="mail"))])

    result = await rt.execute(plan(write("w", "k", 1), call("a", "mail", dependencies=["w"])))

    assert result.outcome == "aborted"
    assert result.error == "action 'a' was rejected: policy 'quiet': tool 'mail' is denied"
    assert rt.state.snapshot() == {}
    assert result["w"].rolled_back


@pytest.mark.parametrize("behavior", ["skip", "retry"])
async def test_a_rejection_with_skip_or_retry_lets_the_rest_go_on_and_is_never_retried(behavior: str) -> None:
    asked: list[str] = []

    def refuse(action: Action) -> str | None:
        asked.append(action.id)
        return "no" if action.id == "a" else None

    rt = Runtime(policies=[refuse])

    result = await rt.execute(plan(write("a", "k", 1, failure_behavior=behavior), write("b", "j", 2)))

    assert asked == ["a", "b"]
    assert result.outcome == "partial"
    assert statuses(result) == {"a": "rejected", "b": "succeeded"}
    assert result.cost.retries == 0
    assert rt.state.snapshot() == {"j": 2}


# What needs an action that did not succeed is skipped


@pytest.mark.parametrize(
    ("needed", "words"),
    [
        (call("a1", "unknown", failure_behavior="skip"), "was rejected"),
        (call("a1", "bad", failure_behavior="retry", max_retries=0), "failed"),
        (call("a1", "bad", failure_behavior="skip"), "was skipped"),
        (call("a1", "lost", failure_behavior="skip"), "has an unknown outcome"),
    ],
    ids=["rejected", "failed", "skipped", "unknown"],
)
@pytest.mark.parametrize("how", ["dependency", "reference", "state dependency"])
async def test_what_needs_an_action_that_did_not_succeed_is_skipped(
    recorder: Recorder, schedule: Any, needed: dict[str, Any], words: str, how: str
) -> None:
    rt = Runtime(
        tools=[
            recorder.tool("bad", raises=ValueError("no")),
            recorder.tool("lost", raises=ConnectionResetError("gone")),
            recorder.tool("next"),
        ],
        state={"k": "from before"},
        schedule=schedule,
    )
    needy = {
        "dependency": call("a2", "next", dependencies=["a1"]),
        "reference": call("a2", "next", {"x": "$a1.output"}),
        "state dependency": call("a2", "next", state_dependencies=["k"]),
    }[how]

    result = await rt.execute(plan({**needed, "expected_effects": {"k": 1}}, needy))

    assert result["a2"].status == "skipped"
    assert result["a2"].error == f"dependency 'a1' {words}"
    assert "next" not in recorder.names


async def test_skips_go_on_along_the_chain(recorder: Recorder, schedule: Any) -> None:
    rt = Runtime(tools=[recorder.tool("next")], schedule=schedule)

    result = await rt.execute(
        plan(
            call("a", "unknown", failure_behavior="skip"),
            call("b", "next", dependencies=["a"]),
            call("c", "next", {"x": "$b.output"}),
            call("d", "next"),
        )
    )

    assert statuses(result) == {"a": "rejected", "b": "skipped", "c": "skipped", "d": "succeeded"}
    assert result["c"].error == "dependency 'b' was skipped"
    assert result.outcome == "partial"


async def test_only_the_last_writer_of_a_needed_key_counts(recorder: Recorder, schedule: Any) -> None:
    rt = Runtime(
        tools=[recorder.tool("bad", raises=ValueError("no")), recorder.tool("next")], schedule=schedule
    )

    result = await rt.execute(
        plan(
            call("w1", "bad", failure_behavior="skip", expected_effects={"k": 1}),
            write("w2", "k", 2),
            call("a", "next", state_dependencies=["k"]),
            call("w3", "bad", failure_behavior="skip", expected_effects={"k": 3}),
            call("b", "next", state_dependencies=["k"]),
        )
    )

    assert result["a"].status == "succeeded"
    assert result["b"].error == "dependency 'w3' was skipped"
    assert rt.state.get("k") == 2


@pytest.mark.parametrize(
    "reader",
    [
        read("r", "k"),
        claim("r", "k", 0),
        write("r", "k", 5),
        call("r", "next", preconditions=[{"key": "k", "value": 0}]),
        call("r", "next", assumptions=[{"key": "k", "expected_value": 0}]),
        call("r", "next", read_set=["k"]),
        call("r", "next", write_set=["k"]),
        call("r", "next", expected_effects={"k": 7}),
    ],
    ids=lambda a: "+".join(sorted(a.keys() - {"id", "parameters", "tool"})) or a.get("type", ""),
)
async def test_a_mere_conflict_orders_but_skips_nothing(
    recorder: Recorder, schedule: Any, reader: dict[str, Any]
) -> None:
    rt = Runtime(
        tools=[recorder.tool("bad", raises=ValueError("no")), recorder.tool("next")],
        state={"k": 0},
        schedule=schedule,
    )

    result = await rt.execute(
        plan(call("w", "bad", failure_behavior="skip", expected_effects={"k": 1}), reader)
    )

    assert statuses(result) == {"w": "skipped", "r": "succeeded"}


# Unknown outcomes


@pytest.mark.parametrize("behavior", ["retry", "skip", "abort"])
async def test_a_time_limit_on_an_effect_ends_unknown_and_is_never_retried(
    recorder: Recorder, behavior: str
) -> None:
    rt = Runtime(tools=[recorder.tool("pay", hang)])

    result = await rt.execute(
        plan(call("a", "pay", timeout_ms=20, failure_behavior=behavior), read("b", "k"))
    )

    assert len(recorder.calls) == 1
    assert result["a"].status == "unknown"
    assert result["a"].error == "action timed out after 20 ms"
    assert [(w.kind, w.action_id, w.reason) for w in result.waiting] == [
        ("unknown_outcome", "a", "action timed out after 20 ms")
    ]
    assert result.outcome == ("aborted" if behavior == "abort" else "partial")
    assert kinds(rt, "a")[-1] == "action_unknown"


async def test_an_unknown_outcome_in_an_aborted_plan_is_irreversible(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("pay", hang, reversibility="compensable"), recorder.tool("refund")])

    result = await rt.execute(
        plan(write("w", "k", 1), call("a", "pay", timeout_ms=20, **undone_by("refund")))
    )

    assert result.outcome == "aborted"
    assert result.error == "action 'a' ended with an unknown outcome: action timed out after 20 ms"
    assert list(result.irreversible) == ["a"]
    assert recorder.names == ["pay"]
    assert rt.state.snapshot() == {}


async def test_an_unknown_outcome_is_not_forgotten_when_another_plan_works(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("pay", raises=ConnectionResetError("gone")), recorder.tool("good")],
        replan=lambda _: plan(call("b", "good"), id="second"),
        replan_config=ReplanConfig(max_replans=1),
    )

    result = await rt.execute(plan(call("a", "pay", failure_behavior="retry")))

    assert result.outcome == "succeeded"
    assert [w.action_id for w in result.waiting] == ["a"]


async def test_a_time_limit_while_waiting_for_a_turn_is_a_plain_failure(recorder: Recorder) -> None:
    """Nothing began, so nothing is unknown, and another attempt may be made."""
    rt = Runtime(tools=[recorder.tool("pay", rate_limit=RateLimit(max_calls=1, interval_secs=60))])
    await rt.execute(plan(call("first", "pay")))

    result = await rt.execute(plan(call("a", "pay", timeout_ms=20, failure_behavior="retry", max_retries=1)))

    assert result["a"].status == "failed"
    assert result.cost.retries == 1
    assert result.cost.tool_calls == 0
    assert list(result.waiting) == []
    assert len(recorder.calls) == 1


# Equal calls


async def test_two_equal_calls_in_flight_become_one(recorder: Recorder, schedule: Any) -> None:
    release = asyncio.Event()

    async def slow(_: Any) -> str:
        await release.wait()
        return "once"

    async def free(_: Any) -> None:
        release.set()

    rt = Runtime(
        tools=[recorder.tool("ask", slow, risk="idempotent"), recorder.tool("free", free)], schedule=schedule
    )
    fields: dict[str, Any] = {"idempotent": True, "failure_behavior": "skip"}

    result = await rt.execute(
        plan(
            call("a", "ask", **fields), call("b", "ask", **fields), call("c", "free", failure_behavior="skip")
        )
    )

    assert recorder.names == ["ask", "free"]
    assert result["a"].output == result["b"].output == "once"
    assert data_of(rt, "action_deduplicated", "b") == [{"of": "a"}]
    assert result.cost.tool_calls == 2


async def test_if_the_first_of_two_equal_calls_fails_the_other_runs_itself(
    recorder: Recorder, schedule: Any
) -> None:
    begun = asyncio.Event()

    async def fail_once(_: Any) -> str:
        if not begun.is_set():
            begun.set()
            for _ in range(5):
                await asyncio.sleep(0)
            raise ValueError("no")
        return "second time"

    rt = Runtime(tools=[recorder.tool("ask", fail_once, risk="idempotent")], schedule=schedule)
    fields: dict[str, Any] = {"idempotent": True, "failure_behavior": "skip"}

    result = await rt.execute(plan(call("a", "ask", **fields), call("b", "ask", **fields)))

    assert statuses(result) == {"a": "skipped", "b": "succeeded"}
    assert result["b"].output == "second time"
    assert len(recorder.calls) == 2


async def test_other_proposals_see_an_answer_only_after_its_proposal_has_ended_unaborted(
    recorder: Recorder,
) -> None:
    go_on, waiting = asyncio.Event(), asyncio.Event()

    async def wait(_: Any) -> None:
        waiting.set()
        await go_on.wait()

    rt = Runtime(
        tools=[recorder.tool("ask", 1, risk="idempotent"), recorder.tool("wait", wait, risk="read_only")]
    )
    ask = call("a", "ask", idempotent=True)
    aborts = asyncio.create_task(
        rt.execute(
            plan(
                ask,
                call("w", "wait", dependencies=["a"]),
                claim("x", "never", 1, dependencies=["w"]),
                id="p1",
            )
        )
    )
    await waiting.wait()

    await rt.execute(plan(ask, claim("x", "never", 1, dependencies=["a"]), id="also aborts"))
    go_on.set()
    await aborts
    asked_so_far = recorder.names.count("ask")
    await rt.execute(plan(ask, id="first to end well"))
    await rt.execute(plan(ask, id="answered"))

    assert asked_so_far == 2
    assert recorder.names.count("ask") == 3


# A plan's claims may be stricter, never laxer


@pytest.mark.parametrize(
    ("declared", "claimed", "calls"),
    [(False, True, 2), (True, False, 2), (True, True, 1), (False, False, 2)],
)
async def test_calls_are_deduplicated_only_if_tool_and_plan_both_say_so(
    recorder: Recorder, declared: bool, claimed: bool, calls: int
) -> None:
    rt = Runtime(tools=[recorder.tool("ask", 1, idempotent=declared)])

    await rt.execute(plan(call("a", "ask", idempotent=claimed), call("b", "ask", idempotent=claimed)))

    assert len(recorder.calls) == calls


async def test_a_claim_of_idempotence_does_not_make_an_unknown_outcome_repeatable(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("pay", raises=ConnectionResetError("gone"))])

    result = await rt.execute(plan(call("a", "pay", idempotent=True, failure_behavior="retry")))

    assert len(recorder.calls) == 1
    assert result["a"].status == "unknown"


@pytest.mark.parametrize(
    ("declared", "claimed", "undone", "irreversible"),
    [
        ("irreversible", None, False, True),
        ("irreversible", "reversible", False, True),
        ("irreversible", "compensable", False, True),
        ("compensable", None, True, False),
        ("compensable", "reversible", True, False),
        ("compensable", "irreversible", False, True),
        ("reversible", None, False, False),
        ("reversible", "compensable", True, False),
        ("reversible", "irreversible", False, True),
        (None, None, False, True),
        (None, "reversible", False, True),
    ],
)
async def test_a_claim_of_reversibility_may_be_stricter_than_the_tools_never_laxer(
    recorder: Recorder, declared: Any, claimed: Any, undone: bool, irreversible: bool
) -> None:
    rt = Runtime(tools=[recorder.tool("book", reversibility=declared), recorder.tool("unbook")])
    fields = {"compensation": undone_by("unbook")["compensation"], "reversibility": claimed}

    result = await rt.execute(plan(call("a", "book", **fields), claim("x", "never", 1)))

    assert result.outcome == "aborted"
    assert ("unbook" in recorder.names) is undone
    assert list(result.irreversible) == (["a"] if irreversible else [])


def test_a_cache_for_a_destructive_tool_is_refused_at_registration() -> None:
    with pytest.raises(ToolDeclarationError, match="cache_ttl_secs"):
        Runtime().register(ToolSchema(name="pay", cache_ttl_secs=60), lambda: None)


# Budgets


async def test_shares_of_a_budget_go_in_serial_order_whatever_could_run_together(
    recorder: Recorder, schedule: Any
) -> None:
    """`d` stands early in the serial order although it belongs to the second layer."""
    rt = Runtime(
        tools=[recorder.tool("look", risk="read_only")],
        budget=CostBudget(max_tool_calls=3),
        schedule=schedule,
    )

    result = await rt.execute(
        plan(call("a", "look"), call("d", "look", dependencies=["a"]), call("b", "look"), call("c", "look"))
    )

    assert statuses(result) == {"a": "succeeded", "d": "succeeded", "b": "succeeded", "c": "skipped"}
    assert result["c"].error == "cost budget exceeded"


@pytest.mark.parametrize(
    ("own", "given", "calls"), [(2, 3, 2), (3, 2, 2), (None, 1, 1), (1, None, 1), (0, 5, 0)]
)
async def test_a_budget_for_one_call_only_tightens(
    recorder: Recorder, own: int | None, given: int | None, calls: int
) -> None:
    rt = Runtime(tools=[recorder.tool("look")], budget=CostBudget(max_tool_calls=own))

    await rt.execute(
        plan(*(call(f"a{n}", "look") for n in range(4))), budget=CostBudget(max_tool_calls=given)
    )

    assert len(recorder.calls) == calls


async def test_limits_that_only_one_of_two_budgets_sets_both_hold(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("look")], budget=CostBudget(max_tool_calls=5))

    result = await rt.execute(
        plan(write("w", "k", 1), *(call(f"a{n}", "look") for n in range(4))), budget=CostBudget(max_actions=3)
    )

    assert len(recorder.calls) == 2
    assert result.outcome == "budget"


async def test_a_budget_for_one_call_ends_with_it(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("look")])

    await rt.execute(plan(call("a", "look")), budget=CostBudget(max_tool_calls=0))
    result = await rt.execute(plan(call("a", "look")))

    assert result.outcome == "succeeded"


@pytest.mark.parametrize("stop", ["cancel", "hard cancel", "budget"])
async def test_a_stop_that_is_no_abort_keeps_the_state_and_compensates_nothing(
    recorder: Recorder, schedule: Any, stop: str
) -> None:
    cancel = Cancel()

    async def book(_: Any) -> None:
        if "cancel" in stop:
            cancel.cancel(hard=stop == "hard cancel")

    rt = Runtime(
        tools=[recorder.tool("book", book, reversibility="compensable"), recorder.tool("unbook")],
        schedule=schedule,
    )

    result = await rt.execute(
        plan(
            write("w", "k", 1),
            call("a", "book", dependencies=["w"], **undone_by("unbook")),
            call("b", "book", dependencies=["a"], **undone_by("unbook")),
        ),
        cancel=cancel,
        budget=CostBudget(max_tool_calls=1) if stop == "budget" else None,
    )

    assert result.outcome == ("budget" if stop == "budget" else "canceled")
    assert result["b"].status == "skipped"
    assert rt.state.snapshot() == {"k": 1}
    assert recorder.names == ["book"]


# Taking back


async def test_taking_back_goes_in_reverse_with_own_outputs_through_the_gates_and_reports_failures(
    recorder: Recorder,
) -> None:
    rt = Runtime(
        tools=[
            recorder.tool("book", lambda p: {"ref": p["n"] * 10}, reversibility="compensable"),
            recorder.tool("unbook"),
            recorder.tool("broken", raises=ValueError("no line")),
            recorder.tool("denied"),
        ],
        policies=[("never", DenyTool(tool="denied"))],
    )

    result = await rt.execute(
        plan(
            call("a", "book", {"n": 1}, **undone_by("unbook", ref="$a.output.ref")),
            call("b", "book", {"n": 2}, **undone_by("broken", ref="$b.output.ref")),
            call("c", "book", {"n": 3}, **undone_by("denied", ref="$c.output.ref")),
            claim("x", "never", 1),
        )
    )

    assert recorder.calls[3:] == [("broken", {"ref": 20}), ("unbook", {"ref": 10})]
    assert [(c.action_id, c.status, c.error) for c in result.compensations] == [
        ("c", "rejected", "policy 'never': tool 'denied' is denied"),
        ("b", "failed", "ValueError: no line"),
        ("a", "succeeded", None),
    ]


async def test_what_compensations_wrote_is_undone_too(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("book", reversibility="compensable"), recorder.tool("unbook")])
    before = {"seat": "free"}
    rt.state.replace_all(before)

    result = await rt.execute(
        plan(
            call(
                "a",
                "book",
                expected_effects={"seat": "taken"},
                compensation={"type": "action_ref", "action_id": "undo"},
            ),
            call("undo", "unbook", expected_effects={"seat": "released", "note": "undone"}),
            claim("x", "never", 1),
        )
    )

    assert [c.status for c in result.compensations] == ["succeeded"]
    assert recorder.names == ["book", "unbook"]
    assert rt.state.snapshot() == before


async def test_a_compensations_target_leaves_the_schedule_and_orders_nobody(
    recorder: Recorder, schedule: Any
) -> None:
    rt = Runtime(
        tools=[recorder.tool("book", reversibility="compensable"), recorder.tool("unbook")], schedule=schedule
    )
    proposal = plan(
        call("undo", "unbook", expected_effects={"k": "undone"}),
        call("a", "book", compensation={"type": "action_ref", "action_id": "undo"}),
        claim("c", "k", None),
    )

    report = rt.verify(proposal)
    result = await rt.execute(proposal)

    assert list(report.execution_order) == ["a", "c"]
    assert recorder.names == ["book"]
    assert result.outcome == "succeeded"
    assert rt.state.snapshot() == {}


# Several proposals at once


class Together:
    """Two proposals, of which the one goes on when the other says so."""

    def __init__(self) -> None:
        self.gates: dict[str, asyncio.Event] = {}
        self.waiting: dict[str, asyncio.Event] = {}
        self.recorder = Recorder()
        self.rt = Runtime(tools=[self.recorder.tool("wait", self._wait, risk="read_only")], state={"k": 0})

    async def _wait(self, parameters: dict[str, Any]) -> None:
        self.waiting[parameters["for"]].set()
        await self.gate(parameters["for"]).wait()

    def gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    async def start(self, name: str, value: Any, *, aborts: bool) -> asyncio.Task[Any]:
        """Write `value`, then wait for the gate of that name, then end."""
        last = claim("end", "never", 1 if aborts else None, dependencies=["wait"])
        waiting = self.waiting[name] = asyncio.Event()
        task = asyncio.create_task(
            self.rt.execute(
                plan(
                    write("w", "k", value),
                    call("wait", "wait", {"for": name}, dependencies=["w"]),
                    last,
                    id=name,
                )
            )
        )
        await waiting.wait()
        return task

    async def finish(self, name: str, task: asyncio.Task[Any]) -> None:
        self.gate(name).set()
        await task


@pytest.mark.parametrize(
    ("first_aborts", "second_aborts", "final"),
    [(False, False, 2), (True, False, 2), (False, True, 1), (True, True, 0)],
)
@pytest.mark.parametrize("first_ends_first", [True, False])
async def test_a_keys_value_is_its_newest_write_by_a_proposal_that_has_not_aborted(
    first_aborts: bool, second_aborts: bool, final: int, first_ends_first: bool
) -> None:
    both = Together()
    first = await both.start("first", 1, aborts=first_aborts)
    second = await both.start("second", 2, aborts=second_aborts)

    tasks = [("first", first), ("second", second)]
    for name, task in tasks if first_ends_first else reversed(tasks):
        await both.finish(name, task)

    assert both.rt.state.get("k") == final


async def test_an_abort_leaves_a_newer_write_from_outside_alone() -> None:
    both = Together()
    first = await both.start("first", 1, aborts=True)

    both.rt.state.set("k", "by hand")
    await both.finish("first", first)

    assert both.rt.state.get("k") == "by hand"


async def test_proposals_do_not_hide_their_writes_from_each_other_while_running() -> None:
    both = Together()
    first = await both.start("first", 1, aborts=True)

    seen = await both.rt.execute(plan(read("r", "k"), id="second"))
    await both.finish("first", first)

    assert seen["r"].output == 1
    assert both.rt.state.get("k") == 0


@pytest.mark.parametrize("by", ["value", "version"])
async def test_an_assumption_is_the_guard_against_what_another_proposal_wrote(by: str) -> None:
    both = Together()
    looked_at = both.rt.state.version
    assumption = {"value": {"expected_value": 0}, "version": {"read_version": looked_at}}[by]
    guarded = plan(write("g", "j", 1, assumptions=[{"key": "k", **assumption}]), id="second")
    unaware = plan(write("g", "j", 1), id="third")
    first = await both.start("first", 1, aborts=False)

    assert (await both.rt.execute(guarded))["g"].status == "rejected"
    assert (await both.rt.execute(unaware))["g"].status == "succeeded"
    await both.finish("first", first)


# The key a tool may hand to the outside world


async def test_the_idempotency_key_is_the_same_for_every_attempt_and_another_for_every_action() -> None:
    keys: dict[str, list[str]] = {}

    async def pay(ctx: ToolContext) -> None:
        seen = keys.setdefault(ctx.action_id, [])
        seen.append(ctx.idempotency_key)
        if len(seen) < 2:
            raise ValueError("try again")

    rt = Runtime(tools=[tool_of("pay", pay)])

    await rt.execute(
        plan(call("a", "pay", failure_behavior="retry"), call("b", "pay", failure_behavior="retry"))
    )

    assert keys["a"][0] == keys["a"][1] != ""
    assert keys["b"][0] == keys["b"][1] != ""
    assert keys["a"][0] != keys["b"][0]


async def test_the_idempotency_key_differs_between_runs_and_compensations(recorder: Recorder) -> None:
    keys: list[str] = []

    async def note(ctx: ToolContext) -> None:
        keys.append(ctx.idempotency_key)

    rt = Runtime(tools=[tool_of("book", note, reversibility="compensable"), tool_of("unbook", note)])
    proposal = plan(
        call("a", "book", **undone_by("unbook")), call("b", "book", **undone_by("unbook")), claim("x", "k", 1)
    )

    await rt.execute(proposal)
    await rt.execute(proposal)

    assert len(keys) == len(set(keys)) == 8


# Tenants


@pytest.mark.parametrize("what", ["state", "idempotency", "cache", "rate limit", "undo", "assumption"])
async def test_no_tenant_meets_another(recorder: Recorder, what: str) -> None:
    once = RateLimit(max_calls=1, interval_secs=60)
    rt = Runtime(
        tools=[
            recorder.tool("idempotency", 1, risk="idempotent"),
            recorder.tool("cache", 1, risk="read_only", cache_ttl_secs=600),
            recorder.tool("rate limit", 1, risk="read_only", rate_limit=once),
        ]
    )
    proposal = {
        "state": plan(claim("c", "k", None), write("w", "k", 1)),
        "idempotency": plan(call("a", "idempotency", idempotent=True)),
        "cache": plan(call("a", "cache")),
        "rate limit": plan(call("a", "rate limit", timeout_ms=1000)),
        "undo": plan(write("w", "k", 1), claim("c", "k", 2)),
        "assumption": plan(write("w", "k", 1, assumptions=[{"key": "k", "read_version": 0}])),
    }[what]
    expected = "aborted" if what == "undo" else "succeeded"

    for scope in (Scope(tenant="t1"), Scope(tenant="t2"), None):
        result = await rt.execute(proposal, scope=scope)
        assert result.outcome == expected

    if what in ("idempotency", "cache", "rate limit"):
        assert recorder.names == [what] * 3
    if what == "state":
        assert [rt.state.scoped(t).snapshot() for t in (None, "t1", "t2")] == [{"k": 1}] * 3
    if what == "undo":
        assert [rt.state.scoped(t).snapshot() for t in (None, "t1", "t2")] == [{}] * 3
