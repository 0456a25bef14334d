"""Learning, end to end: runs with the local model, a skill distilled from one, offered in half of the others,
judged by a check, degraded when the world changes, repaired. And the rule by which skills stay, with numbers.

The job cannot be guessed: which box a note belongs into is said once, in the run that the skill is distilled
from. Afterwards only the skill knows. The check is the state of the boxes, never what the model says.

`--rule-only` leaves the model out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from placet import (
    Assistant,
    EventLog,
    Memory,
    Runtime,
    SqlEvents,
    SqlJournal,
    SqlTrajectories,
    TurnLimits,
    open_database,
    tool,
)
from placet.inference.opening import open_model
from placet.memory.skills.trial import lower_bound
from placet.testing.skill_store import make_skill
from tests.servers.local_model import model_environment, model_files

RATES = {"helps": 0.4, "hurts": -0.4, "nothing": 0.0}
"""What each skill adds to a success rate of one half."""
TEACHING = (
    "File the note of order {n}. The rule of the house: notes of orders always go into box blue-3. First "
    "call find_order, second call check_note, third call file_note with the box blue-3. Then say done."
)
TASK = "File the note of order {n}."


async def over_sixty_runs(seeds: int) -> dict[str, dict[str, float]]:
    """For each skill, the share of trials of 60 runs after which it was kept, and the runs until then."""
    found = {}
    for name, gain in RATES.items():
        kept = runs = 0
        for seed in range(seeds):
            chance, shelf = random.Random(seed), Memory().skills
            await shelf.put(make_skill(name))
            for n in range(60):
                run = f"{seed}-{n}"
                offer = await shelf.match(run, "go")
                await shelf.note_offer(run, offer)
                succeeded = chance.random() < 0.5 + gain * len(offer.offered)
                (judgement,) = await shelf.record_outcome(run, succeeded, by="check")
                runs += 1
                if judgement.state != "provisional":
                    kept += judgement.state == "kept"
                    break
        found[name] = {"kept": round(kept / seeds, 3), "runs on trial": round(runs / seeds, 1)}
    return found


class Boxes:
    """The world: each note is filed once, and only into the right box."""

    def __init__(self) -> None:
        self.right = "blue-3"
        self.filed: dict[int, str] = {}

    def tools(self) -> list[Any]:
        @tool(risk="read_only")
        def find_order(order: int) -> str:
            """Look up an order."""
            return f"order {order}: paid, one note to be filed"

        @tool(risk="idempotent", idempotent=True)
        def file_note(order: int, box: str) -> str:
            """Put the note of an order into a box. A note is filed only once."""
            if order in self.filed:
                raise ValueError("this note has been filed already, and cannot be moved")
            self.filed[order] = box
            if box == "blue-3" and self.right != "blue-3":
                rule = f"Notes of orders always go into box {self.right} now"
                raise ValueError(f"box blue-3 is closed, the note is lost. {rule}")
            return "filed"

        @tool(risk="read_only")
        def check_note(order: int) -> str:
            """Say whether the note of an order has been filed."""
            return "filed" if order in self.filed else "not filed"

        return [find_order, file_note, check_note]


class Learning:
    """The loop with a real model, and everything on disk, so that it can be told afterwards."""

    def __init__(self, name: str, environment: dict[str, str], folder: Path) -> None:
        self.path = folder / "learning.db"
        self.database = open_database(str(self.path))
        self.boxes, self.memory = Boxes(), Memory(self.database)
        self.model = open_model(name, environment)
        self.lines: list[str] = []
        self.runtime = Runtime(
            self.boxes.tools(),
            memory=self.memory,
            model=self.model,
            auto_distill=True,
            journal=SqlJournal(self.database),
            events=EventLog(sinks=[SqlEvents(self.database)]),
            trajectories=SqlTrajectories(self.database),
        )
        self.assistant = Assistant(
            self.runtime,
            self.model,
            tools=["find_order", "file_note", "check_note", "load_skill"],
            memory=True,
            posture="full_access",
            limits=TurnLimits(turns=8),
        )

    async def one(self, n: int, task: str = TASK) -> bool:
        """One run, and what the check says of it."""
        began, run = time.monotonic(), f"order-{n}"
        ending = await self.assistant.run(task.format(n=n), run_id=run)
        passed = self.boxes.filed.get(n) == self.boxes.right
        await self.memory.record_outcome(run, passed, by="check")
        seen = [f"{e.name} {e.version} {e.arm}" for e in self.memory.skills.store.runs(None, run=run)]
        facts = f"box {self.boxes.filed.get(n)}, ended {ending.status} after {list(ending.tools)}, {seen}"
        print(
            f"{run}: {'passed' if passed else 'failed'}, {facts}, {time.monotonic() - began:.0f} s",
            flush=True,
        )
        return passed

    def _explained(self, run: str) -> str:
        command = [str(Path(sys.executable).with_name("placet")), "explain", run, "--db", str(self.path)]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    async def versions(self) -> list[Any]:
        """All versions of all skills."""
        listed = await self.memory.skills.listed()
        return [version for each in listed for version in self.memory.skills.store.listed(None, each.name)]

    async def run(self, runs: int) -> dict[str, Any]:
        """Teach, try, change the world, and try until the skill was repaired, and some more."""
        for n in range(1, 4):
            await self.one(n, TEACHING)
            if await self.versions():
                break
        for n in range(10, 10 + runs):
            await self.one(n)
        self.boxes.right = "red-7"
        for n in range(100, 100 + 5 * runs):
            await self.one(n)
            if any(each.version > 1 for each in await self.versions()):
                break
        for n in range(200, 200 + runs):
            await self.one(n)
        found = {}
        for version in await self.versions():
            trial = await self.memory.skills.trial(version)
            found[f"{version.name} {version.version}"] = {
                "state": version.state,
                "offered": trial.offered.to_dict(),
                "withheld": trial.withheld.to_dict(),
                "degraded": trial.is_degraded,
                "lower bound": round(lower_bound(trial), 2),
                "source": version.source,
                "instructions": version.document.body,
            }
        kinds = ("skill_offered", "skill_outcome", "skill_distilled", "evolution_triggered")
        events = [each for each in self.runtime.events if each.kind in kinds]
        told = {each.run_id: "" for each in events if each.kind == "skill_distilled" and each.run_id}
        await self.model.close()
        self.database.close()
        for run in told:
            told[run] = await asyncio.to_thread(self._explained, run)
        counts = {kind: sum(each.kind == kind for each in events) for kind in kinds}
        return {"skills": found, "events": counts, "explain": told}


def main(arguments: list[str]) -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m evals skills")
    parser.add_argument("--model", default="local", metavar="NAME")
    parser.add_argument("--runs", type=int, default=6, metavar="N")
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
        with tempfile.TemporaryDirectory() as folder:
            learning = Learning(given.model, dict(environment), Path(folder))
            report["loop"] = asyncio.run(learning.run(given.runs))
    told = report.get("loop", {}).pop("explain", {}) if not given.as_json else {}
    print(json.dumps(report) if given.as_json else json.dumps(report, indent=2))
    for run, story in told.items():
        print(f"\nplacet explain {run}\n{story}")
    return 0
