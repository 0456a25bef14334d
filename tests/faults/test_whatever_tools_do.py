"""Whatever tools do, every action ends in exactly one way, and everything that was begun is ended."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet import Cancel, ProposalResult, Runtime, ToolContext, ToolSchema
from placet.ir.codec import encode
from placet.testing import action, proposal
from tests.faults.misdeeds import FINE, RAISES, RETURNS
from tests.properties.effort import FIFTH, UNHURRIED, Tally, examples
from tests.properties.plans import Dice
from tests.properties.virtual_time import VirtualLoop
from tests.properties.world import spoil

pytestmark = UNHURRIED

ENDS = {
    "succeeded": {"action_succeeded"},
    "failed": {"action_failed"},
    "rejected": {"action_rejected", "policy_violation"},
    "skipped": {"action_skipped", "action_canceled"},
    "unknown": {"action_unknown"},
}
CLOSING = set().union(*ENDS.values())

Runs = Literal["async", "thread", "cheap"]


@dataclass(frozen=True)
class Deed:
    """What a tool does for one action."""

    kind: str
    """raise, return, fine, hang, deaf (does not hear that it should stop), stubborn (never stops), mutate."""
    what: str = ""
    after_ms: int = 0


@dataclass(frozen=True)
class Plan:
    actions: list[dict[str, Any]]
    deeds: dict[str, Deed]
    schedule: str
    cancel_ms: int | None
    hard: bool
    outer_ms: int | None
    """When the task around `execute` is cancelled."""


@st.composite
def plans(draw: Any, *, runs: tuple[Runs, ...]) -> Plan:
    dice = Dice(draw)
    actions: list[dict[str, Any]] = []
    deeds: dict[str, Deed] = {}
    # Something must end a plan that hangs: a time limit on each such action, or a stop from outside.
    stop = dice.pick(("none", "soft", "hard", "outer", "both"))
    for i in range(dice.number(1, 6)):
        name = f"a{i}"
        how = dice.pick(runs)
        tool = f"{how}_{dice.pick(('safe', 'wild', 'returns'))}"
        action: dict[str, Any] = {"id": name, "tool": tool, "parameters": {"list": [1], "deep": {"a": [2]}}}
        deed = _deed(dice, how)
        if deed.kind in ("hang", "deaf", "stubborn"):
            is_stopped = stop in ("hard", "both") and deed.kind != "stubborn"
            if how != "cheap" and (not is_stopped or dice.chance(50)):
                action["timeout_ms"] = dice.number(1, 20)
        elif dice.chance(20) and how != "cheap":
            action["timeout_ms"] = dice.number(1, 20)
        action["failure_behavior"] = dice.pick(("skip", "abort", "retry"))
        if action["failure_behavior"] == "retry":
            action["max_retries"] = dice.number(0, 2 if "thread" not in runs else 0)
        if i and dice.chance(30):
            action["dependencies"] = [f"a{dice.number(0, i - 1)}"]
        if dice.chance(30):
            action["expected_effects"] = {dice.pick(("k0", "k1")): i}
        if tool.endswith("wild"):
            if dice.chance(70):
                undo = f"{how}_{dice.pick(('safe', 'wild'))}"
                action["compensation"] = {"type": "tool", "tool": undo, "parameters": {}}
                deeds[f"{name}.compensation"] = _deed(dice, how, may_hang=False)
            elif dice.chance(80):
                # The others have nothing that takes them back, and are rejected.
                action["reversibility"] = "irreversible"
        if dice.chance(20):
            action["idempotent"] = True
        actions.append(action)
        deeds[name] = deed
    moment = dice.number(0, 30)
    return Plan(
        actions,
        deeds,
        schedule=dice.pick(("levels", "dataflow")),
        cancel_ms=moment if stop in ("soft", "hard", "both") else None,
        hard=stop in ("hard", "both"),
        outer_ms=moment + dice.number(1, 10) if stop in ("outer", "both") else None,
    )


def _deed(dice: Dice, how: str, *, may_hang: bool = True) -> Deed:
    kinds = ["fine", "fine", "raise", "raise", "return", "return", "mutate"]
    if may_hang and how == "async":
        kinds += ["hang", "deaf", "stubborn"]
    if may_hang and how == "thread":
        kinds += ["hang", "hang"]
    kind = dice.pick(kinds)
    what = {"fine": FINE, "raise": RAISES, "return": RETURNS}.get(kind, {"": None})
    return Deed(kind, dice.pick(sorted(what)), dice.number(0, 10) if how != "cheap" else 0)


class Stage:
    """A runtime with tools of each kind that do what the plan's deeds say."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.runtime = Runtime(schedule=plan.schedule, state={"k0": "before"})  # type: ignore[arg-type]
        self.release = threading.Event()
        for how, call in (("async", self.wait), ("thread", self.block), ("cheap", self.now)):
            for name, declared in {
                "safe": {"risk": "read_only"},
                "wild": {"reversibility": "compensable"},
                "returns": {"returns": {"type": "string"}, "risk": "idempotent", "idempotent": True},
            }.items():
                schema = ToolSchema(name=f"{how}_{name}", **declared)  # type: ignore[arg-type]
                self.runtime.register(schema, call, cheap=how == "cheap")

    def _deed(self, context: ToolContext) -> Deed:
        return self.plan.deeds.get(context.action_id, Deed("fine", "None"))

    async def wait(self, parameters: dict[str, Any], context: ToolContext) -> Any:
        deed = self._deed(context)
        await asyncio.sleep(deed.after_ms / 1000)
        if deed.kind == "hang":
            await asyncio.get_running_loop().create_future()
        if deed.kind == "deaf":
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                return "late"
        while deed.kind == "stubborn":
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                continue
        return self._do(deed, parameters)

    def block(self, parameters: dict[str, Any], context: ToolContext) -> Any:
        deed = self._deed(context)
        self.release.wait(None if deed.kind == "hang" else deed.after_ms / 1000)
        return self._do(deed, parameters)

    def now(self, parameters: dict[str, Any], context: ToolContext) -> Any:
        return self._do(self._deed(context), parameters)

    def _do(self, deed: Deed, parameters: dict[str, Any]) -> Any:
        match deed.kind:
            case "raise":
                return RAISES[deed.what]()
            case "return":
                return RETURNS[deed.what]()
            case "fine":
                return FINE[deed.what]()
            case "mutate":
                parameters["list"].append("mutated")
                parameters["deep"]["a"].clear()
                parameters.clear()
                return "mutated"
        return None

    async def execute(self) -> ProposalResult | None:
        """The result, or None if the task around it was cancelled."""
        plan = self.plan
        cancel = Cancel() if plan.cancel_ms is not None else None
        if cancel is not None and plan.cancel_ms is not None:
            # From another thread as often as not in real life; the loop's own timer is the same to it.
            asyncio.get_running_loop().call_later(
                plan.cancel_ms / 1000, lambda: cancel.cancel("enough", hard=plan.hard)
            )
        running = self.runtime.execute({"id": "plan", "actions": plan.actions}, cancel=cancel)
        if plan.outer_ms is None:
            return await running
        try:
            return await asyncio.wait_for(running, plan.outer_ms / 1000)
        except TimeoutError:
            return None


def check_endings(stage: Stage, result: ProposalResult | None) -> Counter[str]:
    """Every action ended once, in the result and in the log; every span is ended; all of it is JSON."""
    plan, events = stage.plan, list(stage.runtime.events)
    names = [a["id"] for a in plan.actions]
    encode(events)
    closing: dict[str, list[str]] = {name: [] for name in names}
    for event in events:
        if event.kind in CLOSING and event.action_id in closing:
            closing[event.action_id].append(event.kind)
    statuses: Counter[str] = Counter()
    for one in plan.actions:
        kinds = closing[one["id"]]
        if one["failure_behavior"] == "skip" and kinds == ["action_failed", "action_skipped"]:
            kinds = ["action_skipped"]  # How it went, and what becomes of it.
        assert len(kinds) == 1, f"{one['id']} ended {len(kinds)} times: {kinds}"
        statuses.update(status for status, ends in ENDS.items() if kinds[0] in ends)
        if result is not None:
            assert kinds[0] in ENDS[result[one["id"]].status]
    assert [e.kind for e in events if e.kind.startswith("proposal_")] == [
        "proposal_received",
        "proposal_ended",
    ]
    spans = stage.runtime.events.spans()
    assert all(span.end is not None for span in spans)
    assert Counter(s.action_id for s in spans if s.name == "action" and s.action_id in closing) == Counter(
        names
    )
    assert [s.name for s in spans].count("proposal") == 1
    if result is not None:
        encode(result)
        assert [r.action_id for r in result.results] == names
        assert all(r.status in ENDS for r in result.results)
        assert all((r.error is None) == (r.status == "succeeded") for r in result.results)
        assert all(r.output is None or r.status == "succeeded" for r in result.results)
        if result.outcome == "aborted":
            assert stage.runtime.state.snapshot() == {"k0": "before"}
    encode(stage.runtime.state.snapshot())
    return statuses


def facts(plan: Plan, result: ProposalResult | None, statuses: Counter[str]) -> dict[str, bool]:
    kinds = {deed.kind for deed in plan.deeds.values()}
    return {
        **{status: statuses[status] > 0 for status in ENDS},
        **{kind: kind in kinds for kind in ("raise", "return", "hang", "deaf", "stubborn", "mutate")},
        "aborted": result is not None and result.outcome == "aborted",
        "canceled": result is not None and result.outcome == "canceled",
        "cut_off": result is None,
        "compensated": result is not None and bool(result.compensations),
        "undone": result is not None and any(c.status == "succeeded" for c in result.compensations),
    }


def test_every_action_ends_once_whatever_async_and_inline_tools_do() -> None:
    tally = Tally()

    @examples(1200)
    @given(plans(runs=("async", "async", "async", "cheap")))
    def check(plan: Plan) -> None:
        stage = Stage(plan)
        loop = VirtualLoop()
        said: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: said.append(context))
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            task = loop.create_task(stage.execute())
            try:
                result = loop.run_until_complete(task)
                # What was left behind may come back late; nothing must feel it.
                late = loop.run_until_complete(_late(stage))
            finally:
                _drop(loop)
        statuses = check_endings(stage, result)

        assert late == len(list(stage.runtime.events)), "something was logged after the end"
        assert not said, f"the event loop complained: {said}"
        assert not [str(w.message) for w in warned if "never awaited" in str(w.message)]
        tally.add(**facts(plan, result, statuses))

    check()
    tally.require(
        {
            "raise": FIFTH,
            "return": FIFTH,
            "hang": 0.1,
            "deaf": 0.1,
            "stubborn": 0.1,
            "mutate": 0.1,
            "failed": FIFTH,
            "skipped": FIFTH,
            "unknown": 0.1,
            "succeeded": FIFTH,
            "aborted": 0.1,
            "canceled": 0.05,
            "cut_off": 0.05,
            "rejected": 0.01,
            "compensated": 0.01,
            "undone": 0.005,
        }
    )


async def _late(stage: Stage) -> int:
    before = len(list(stage.runtime.events))
    await asyncio.sleep(2)
    return before


def _drop(loop: asyncio.AbstractEventLoop) -> None:
    """Close a loop on which tools were left behind, and them with it: at a moment of our own choosing."""
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        task.get_coro().close()
    loop.close()


def test_every_action_ends_once_whatever_tools_in_threads_do() -> None:
    tally = Tally()

    @examples(135)
    @given(plans(runs=("thread", "thread", "cheap", "async")))
    def check(plan: Plan) -> None:
        stage = Stage(plan)
        loop = asyncio.new_event_loop()
        said: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: said.append(context))
        try:
            result = loop.run_until_complete(stage.execute())
        finally:
            stage.release.set()
            _drop(loop)
        statuses = check_endings(stage, result)

        assert not said, f"the event loop complained: {said}"
        tally.add(**facts(plan, result, statuses))

    check()
    tally.require(
        {"raise": FIFTH, "return": FIFTH, "hang": 0.05, "failed": FIFTH, "succeeded": FIFTH, "unknown": 0.05}
    )


@pytest.mark.parametrize("what", sorted(RAISES))
def test_an_exception_of_any_kind_fails_only_its_own_action(what: str) -> None:
    for runs, timeout_ms, schedule in product(
        ("async", "thread", "cheap"), (None, 60_000), ("levels", "dataflow")
    ):
        case = f"{runs}, {timeout_ms} ms, {schedule}"
        common: dict[str, Any] = {
            "tool": f"{runs}_safe",
            "timeout_ms": timeout_ms,
            "failure_behavior": "skip",
        }
        write = {"type": "state_write", "parameters": {"key": "k", "value": 1}, "dependencies": ["a1"]}
        actions = [{"id": "a0", **common}, {"id": "a1", **common}, {"id": "a2", **write}]
        stage = Stage(Plan(actions, {"a0": Deed("raise", what)}, schedule, None, False, None))

        result = stage.runtime.execute_sync({"actions": actions})

        assert [r.status for r in result.results] == ["skipped", "succeeded", "succeeded"], case
        assert result["a0"].error, case
        assert result["a0"].error.isprintable(), case
        encode(result)


@pytest.mark.parametrize("runs", ["async", "thread", "cheap"])
@pytest.mark.parametrize("what", sorted(RETURNS))
def test_an_answer_that_is_not_json_fails_the_action_and_is_not_tried_again(what: str, runs: Runs) -> None:
    undo = {"type": "tool", "tool": f"{runs}_safe"}
    actions = [{"id": "a0", "tool": f"{runs}_wild", "failure_behavior": "retry", "compensation": undo}]
    stage = Stage(Plan(actions, {"a0": Deed("return", what)}, "levels", None, False, None))

    result = stage.runtime.execute_sync({"actions": actions})

    assert result["a0"].status == "failed"
    assert result.cost.retries == 0
    assert result.cost.tool_calls == 1
    encode(result)


@pytest.mark.parametrize("runs", ["async", "thread", "cheap"])
def test_a_tool_that_changes_its_arguments_changes_nothing_else(runs: Runs) -> None:
    """Not the plan, nor a result it was given by reference, nor its next attempt, nor the state."""
    given: list[Any] = []

    def change(parameters: dict[str, Any]) -> str:
        given.append(deepcopy(parameters))
        spoil(parameters)
        if len(given) == 1:
            raise RuntimeError("again")
        return "done"

    async def change_async(parameters: dict[str, Any]) -> str:
        return change(parameters)

    rt = Runtime(state={"k": {"a": [1]}})
    rt.register(ToolSchema(name="t"), change_async if runs == "async" else change, cheap=runs == "cheap")
    parameters = {"list": [1], "deep": {"a": [2]}, "x": "$read.output", "y": ["$read.output"]}
    plan = proposal(
        action("read", type="state_read", parameters={"key": "k"}),
        action("a", "t", parameters=parameters, failure_behavior="retry", max_retries=1),
        action(
            "write", type="state_write", parameters={"key": "j", "value": "$read.output"}, dependencies=["a"]
        ),
    )

    result = rt.execute_sync(plan)

    assert result["a"].output == "done"
    assert given == [{"list": [1], "deep": {"a": [2]}, "x": {"a": [1]}, "y": [{"a": [1]}]}] * 2
    assert plan.actions[1].parameters == parameters
    assert result["read"].output == {"a": [1]}
    assert rt.state.snapshot() == {"k": {"a": [1]}, "j": {"a": [1]}}


@pytest.mark.parametrize("runs", ["async", "cheap"])
def test_ctrl_c_inside_a_tool_passes_through_and_leaves_nothing_half_done(runs: Runs) -> None:
    rt = Runtime(state={"k": "before"})

    def interrupt(parameters: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    async def interrupt_async(parameters: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    rt.register(
        ToolSchema(name="t"), interrupt if runs == "cheap" else interrupt_async, cheap=runs == "cheap"
    )
    plan = {
        "actions": [
            {"id": "a0", "type": "state_write", "parameters": {"key": "k", "value": "half"}},
            {"id": "a1", "tool": "t", "dependencies": ["a0"]},
            {"id": "a2", "tool": "t", "dependencies": ["a1"]},
        ]
    }

    with pytest.raises(KeyboardInterrupt):
        rt.execute_sync(plan)

    assert rt.state.snapshot() == {"k": "before"}
    assert all(span.end is not None for span in rt.events.spans())
