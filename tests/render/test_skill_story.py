"""What `placet explain` tells of skills."""

from __future__ import annotations

from placet import Assistant, Memory, Runtime
from placet.inference import Scripted
from placet.render.history import History
from placet.render.skill_story import tell_skills
from placet.testing.skill_store import make_skill

DRAFT = '{"name": "x", "description": "x", "keywords": [], "instructions": "x"}'


async def test_the_story_tells_offer_outcome_repair_and_evolution() -> None:
    memory = Memory()
    await memory.skills.put(make_skill(state="kept", domain="ops"))
    runtime = Runtime(memory=memory, model=Scripted([DRAFT] * 3), auto_distill=True)
    for n in range(9):
        await Assistant(runtime, Scripted(["ok"]), memory=True).run("go", run_id=f"r{n}")
    for n in range(9):
        await memory.record_outcome(f"r{n}", n < 3, by="check")
    lines: list[str] = []
    for n in range(9):
        history = History()
        for event in runtime.events:
            if event.run_id == f"r{n}":
                history.take(event)
        lines += [line.plain for line in tell_skills(history.skills)]

    assert sum("offered 'deploy 1'" in line for line in lines) == 9
    assert sum("By a check, it did what" in line for line in lines) == 3
    assert sum("deploy 1, with: kept, degraded" in line for line in lines) == 1
    assert sum("'deploy 2' was repaired" in line for line in lines) == 1
    assert sum("In the domain 'ops'" in line for line in lines) == 1
