"""Several proposals at once: a key's value is always its newest write by a proposal that has not aborted."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from placet import Cancel, ProposalResult, Runtime, Scope, ToolContext, ToolSchema
from placet.state.store import MISSING
from tests.properties.effort import FIFTH, UNHURRIED, Tally, examples
from tests.properties.plans import Dice
from tests.properties.virtual_time import run

pytestmark = UNHURRIED

KEYS = ("k0", "k1")
TENANTS = (None, None, None, "t")


@dataclass(frozen=True)
class Run:
    """One proposal, when it starts, and when it is told to stop."""

    id: str
    tenant: str | None
    actions: list[dict[str, Any]]
    start_ms: int
    cancel_ms: int | None
    hard: bool


@dataclass(frozen=True)
class Outside:
    """A write that belongs to no proposal."""

    at_ms: int
    tenant: str | None
    key: str
    value: Any


@st.composite
def crowds(draw: Any) -> tuple[list[Run], list[Outside], str]:
    """Proposals that overlap in time and in keys."""
    dice = Dice(draw)
    runs = []
    for p in range(dice.number(2, 5)):
        name = f"p{p}"
        actions = [_action(dice, name, i) for i in range(dice.number(2, 6))]
        if dice.chance(40):
            for earlier, action in pairwise(actions):
                action["dependencies"] = [earlier["id"]]
        if dice.chance(50):
            fate = "abort" if dice.chance(80) else "skip"
            actions[-1].update(type="tool_call", tool="work", failure_behavior=fate)
            actions[-1]["parameters"] = {"fails": True, "ms": dice.number(0, 6)}
        if len(actions) > 3 and dice.chance(40):
            # Taking it back writes too, and that must go as well.
            undo = {"type": "action_ref", "action_id": actions[2]["id"]}
            actions[0].update(type="tool_call", tool="send", parameters={"ms": 1}, compensation=undo)
            actions[2].update(
                type="state_write", tool=None, parameters={"key": KEYS[0], "value": f"{name} undone"}
            )
        cancel_ms = dice.number(0, 12) if dice.chance(15) else None
        tenant = dice.pick(TENANTS)
        runs.append(Run(name, tenant, actions, dice.number(0, 8), cancel_ms, hard=dice.chance(50)))
    outside = [
        Outside(dice.number(0, 12), dice.pick(TENANTS), dice.pick(KEYS), dice.pick((f"outside {n}", MISSING)))
        for n in range(dice.number(0, 2))
    ]
    return runs, outside, dice.pick(("levels", "dataflow"))


def _action(dice: Dice, proposal: str, i: int) -> dict[str, Any]:
    name = f"{proposal}.a{i}"
    action: dict[str, Any] = {"id": name, "failure_behavior": dice.pick(("abort", "skip"))}
    match dice.number(0, 3):
        case 0:
            action |= {"type": "state_write", "parameters": {"key": dice.pick(KEYS), "value": name}}
        case 1:
            action |= {"tool": "ask", "idempotent": True, "parameters": {"n": dice.number(0, 1)}}
            action["expected_effects"] = {dice.pick(KEYS): name}
        case _:
            action |= {"tool": "work", "parameters": {"ms": dice.number(0, 6)}}
            action["expected_effects"] = dict.fromkeys(dice.some(KEYS, 60), name)
    return action


class Crowd:
    """A runtime on which several proposals run at once."""

    def __init__(self, schedule: Any) -> None:
        self.runtime = Runtime(schedule=schedule, state={"k0": "start"})
        self.runtime.state.scoped("t").set("k1", "start of t")
        self.runtime.register(ToolSchema(name="work", risk="network"), self.work)
        self.runtime.register(ToolSchema(name="ask", risk="idempotent", idempotent=True), self.ask)
        self.runtime.register(ToolSchema(name="send", reversibility="compensable"), self.work)
        self.results: dict[str, ProposalResult] = {}

    async def work(self, parameters: dict[str, Any], context: ToolContext) -> str:
        await asyncio.sleep(parameters.get("ms", 0) / 1000)
        if parameters.get("fails"):
            raise RuntimeError("out of order")
        return context.action_id

    async def ask(self, parameters: dict[str, Any], context: ToolContext) -> str:
        await asyncio.sleep(0.003)
        return f"answer {parameters['n']} to {context.tenant}, found for {context.action_id}"

    async def execute(self, one: Run) -> None:
        cancel = Cancel()
        await asyncio.sleep(one.start_ms / 1000)
        if one.cancel_ms is not None:
            asyncio.get_running_loop().call_later(
                one.cancel_ms / 1000, lambda: cancel.cancel("enough", hard=one.hard)
            )
        self.results[one.id] = await self.runtime.execute(
            {"id": one.id, "actions": one.actions}, scope=Scope(tenant=one.tenant), cancel=cancel
        )
        self.check()

    async def write(self, one: Outside) -> None:
        await asyncio.sleep(one.at_ms / 1000)
        space = self.runtime.state.scoped(one.tenant)
        if one.value is MISSING:
            space.delete(one.key)
        else:
            space.set(one.key, one.value)
        self.check()

    def check(self) -> None:
        """Compare every key with its newest write that was not taken back."""
        undone = {e.proposal_id for e in self.runtime.events.query(kind="state_rollback")}
        newest: dict[tuple[str | None, str], Any] = {}
        for t in self.runtime.state.transitions_since(0):
            is_undo = t.proposal_id is not None and t.action_id is None
            if not is_undo and t.proposal_id not in undone:
                newest[t.tenant, t.key] = t.new
        for tenant in (None, "t"):
            space = self.runtime.state.scoped(tenant)
            expected = {key: v for (whose, key), v in newest.items() if whose == tenant and v is not MISSING}
            assert space.snapshot() == expected

    def facts(self) -> dict[str, bool]:
        log = self.runtime.state.transitions_since(0)
        writers: dict[tuple[str | None, str], set[str]] = {}
        for t in log:
            if t.proposal_id is not None and t.action_id is not None:
                writers.setdefault((t.tenant, t.key), set()).add(t.proposal_id)
        aborted = {name for name, r in self.results.items() if r.outcome == "aborted"}
        shared = [names for names in writers.values() if len(names) > 1]
        return {
            "aborted": bool(aborted),
            "canceled": any(r.outcome == "canceled" for r in self.results.values()),
            "succeeded": any(r.outcome == "succeeded" for r in self.results.values()),
            "shared_key": bool(shared),
            "aborted_on_shared_key": any(names & aborted for names in shared),
            "undo_showed": any(t.proposal_id in aborted and t.action_id is None for t in log),
            "deduplicated": bool(self.runtime.events.query(kind="action_deduplicated")),
        }


def test_a_key_holds_its_newest_write_that_was_not_taken_back() -> None:
    tally = Tally()

    @examples(450)
    @given(crowds())
    def check(drawn: tuple[list[Run], list[Outside], str]) -> None:
        runs, outside, schedule = drawn
        crowd = Crowd(schedule)

        async def main() -> None:
            await asyncio.gather(*map(crowd.execute, runs), *map(crowd.write, outside))

        run(main())

        crowd.check()
        _remembered_answers_are_good(crowd)
        tally.add(**crowd.facts())

    check()
    tally.require(
        {
            "aborted": FIFTH,
            "succeeded": FIFTH,
            "shared_key": FIFTH,
            "aborted_on_shared_key": FIFTH,
            "undo_showed": FIFTH,
            "canceled": 0.05,
            "deduplicated": 0.1,
        }
    )


def _remembered_answers_are_good(crowd: Crowd) -> None:
    """An answer of another proposal is used only once that one has ended, without aborting; in one tenant."""
    ended: dict[str | None, str] = {}
    tenant_of = {e.proposal_id: e.tenant for e in crowd.runtime.events.query(kind="proposal_received")}
    for event in crowd.runtime.events:
        if event.kind == "proposal_ended":
            ended[event.proposal_id] = event.data["outcome"]
        elif event.kind == "action_deduplicated":
            source = event.data["of"].split(".")[0]
            assert tenant_of[source] == event.tenant
            if source != event.proposal_id:
                assert ended.get(source) not in (None, "aborted")
