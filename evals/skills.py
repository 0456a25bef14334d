"""Learning, end to end: runs with the local model, a skill distilled from one, offered in half of the others,
judged by a check, degraded when the world changes, repaired. And the rule by which skills stay, with numbers.

`--rule-only` leaves the model out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from typing import Any

from placet import Assistant, Memory, Runtime, TurnLimits, tool
from placet.inference.opening import open_model
from placet.memory.skills.trial import lower_bound
from placet.testing.skill_store import make_skill
from tests.servers.local_model import model_environment, model_files

RATES = {"helps": 0.4, "hurts": -0.4, "nothing": 0.0}
"""What each skill adds to a success rate of one half."""
TEACHING = (
    "Archive order {n}. First call get_code with the order, then call archive with the order and that code, "
    "then call confirm with the order. Then say done."
)
TASK = "Archive order {n}."


async def over_sixty_runs(seeds: int) -> dict[str, dict[str, float]]:
    """For each skill, the share of trials of 60 runs after which it was kept, and the runs until then."""
    kept = dict.fromkeys(RATES, 0)
    runs = dict.fromkeys(RATES, 0)
    for seed in range(seeds):
        chance, shelf = random.Random(seed), Memory().skills
        for name in RATES:
            await shelf.put(make_skill(name))
        for n in range(60):
            run = f"{seed}-{n}"
            offer = await shelf.match(run, "go")
            await shelf.note_offer(run, offer)
            rate = 0.5 + sum(RATES[each.name] for each in offer.offered)
            await shelf.record_outcome(run, chance.random() < rate, by="check")
            for each in await shelf.listed():
                runs[each.name] += each.state == "provisional"
        for each in await shelf.listed():
            kept[each.name] += each.state == "kept"
    return {
        name: {"kept": round(kept[name] / seeds, 3), "runs on trial": round(runs[name] / seeds, 1)}
        for name in RATES
    }


class Orders:
    """The world: an order is archived by three calls in order; later by one more."""

    def __init__(self) -> None:
        self.codes: dict[int, str] = {}
        self.archived: set[int] = set()
        self.confirmed: set[int] = set()
        self.is_changed = False

    def tools(self) -> list[Any]:
        @tool(risk="read_only")
        def get_code(order: int) -> str:
            """Return the code of an order."""
            return self.codes.setdefault(order, f"K{order * 7}")

        @tool(risk="idempotent", idempotent=True)
        def archive(order: int, code: str) -> str:
            """Archive an order, with its code."""
            if code != self.codes.get(order):
                raise ValueError("the code is wrong: call get_code first")
            self.archived.add(order)
            return "archived"

        @tool(risk="idempotent", idempotent=True)
        def confirm(order: int) -> str:
            """Confirm an archived order."""
            if self.is_changed:
                raise ValueError("confirm is closed: an order is confirmed by seal")
            self.confirmed.add(order)
            return "confirmed"

        @tool(risk="idempotent", idempotent=True)
        def seal(order: int) -> str:
            """Seal an order."""
            if self.is_changed and order in self.archived:
                self.confirmed.add(order)
            return "sealed"

        return [get_code, archive, confirm, seal]

    def is_done(self, order: int) -> bool:
        return order in self.archived and order in self.confirmed


async def with_model(name: str, environment: dict[str, str], runs: int) -> dict[str, Any]:
    """The loop with a real model."""
    orders, memory = Orders(), Memory()
    model = open_model(name, environment)
    runtime = Runtime(orders.tools(), memory=memory, model=model, auto_distill=True)
    offered = ["get_code", "archive", "confirm", "seal", "load_skill"]
    assistant = Assistant(
        runtime, model, tools=offered, memory=True, posture="full_access", limits=TurnLimits(turns=8)
    )

    async def one(n: int, task: str) -> bool:
        began = time.monotonic()
        run = f"order-{n}"
        ending = await assistant.run(task.format(n=n), run_id=run)
        passed = orders.is_done(n)
        await memory.record_outcome(run, passed, by="check")
        seen = [f"{each.name} {each.version} {each.arm}" for each in memory.skills.store.runs(None, run=run)]
        took = time.monotonic() - began
        print(
            f"{run}: {'passed' if passed else 'failed'}, ended {ending.status}, {seen}, {took:.0f} s",
            flush=True,
        )
        return passed

    for n in range(1, 4):
        if await one(n, TEACHING) and await memory.skills.listed():
            break
    for n in range(10, 10 + runs):
        await one(n, TASK)
    orders.is_changed = True
    for n in range(50, 50 + runs):
        await one(n, TASK)
        if any(each.version > 1 for each in await memory.skills.listed()):
            break
    found = {}
    for version in (
        v for each in await memory.skills.listed() for v in memory.skills.store.listed(None, each.name)
    ):
        trial = await memory.skills.trial(version)
        found[f"{version.name} {version.version}"] = {
            "state": version.state,
            "offered": trial.offered.to_dict(),
            "withheld": trial.withheld.to_dict(),
            "degraded": trial.is_degraded,
            "lower bound": round(lower_bound(trial), 2),
            "instructions": version.document.body,
        }
    kinds = ("skill_offered", "skill_outcome", "skill_distilled", "evolution_triggered")
    events = [each.kind for each in runtime.events if each.kind in kinds]
    close = getattr(model, "aclose", None)
    if close is not None:
        await close()
    return {"skills": found, "events": {kind: events.count(kind) for kind in kinds}}


def main(arguments: list[str]) -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m evals skills")
    parser.add_argument("--model", default="local", metavar="NAME")
    parser.add_argument("--runs", type=int, default=8, metavar="N")
    parser.add_argument("--seeds", type=int, default=200, metavar="N")
    parser.add_argument("--rule-only", action="store_true")
    parser.add_argument("--json", action="store_true", dest="as_json")
    given = parser.parse_args(arguments)
    report: dict[str, Any] = {"rule": asyncio.run(over_sixty_runs(given.seeds))}
    if not given.rule_only:
        environment = model_files("local") if given.model == "local" else model_environment()
        if environment is None:
            print("The local model is not there.", file=sys.stderr)
            return 2
        report["loop"] = asyncio.run(with_model(given.model, dict(environment), given.runs))
    print(json.dumps(report) if given.as_json else json.dumps(report, indent=2))
    return 0
