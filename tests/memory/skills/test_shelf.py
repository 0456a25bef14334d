"""Skills in runs: offered in half of them, loaded on demand, judged by what came of the runs."""

from __future__ import annotations

import asyncio
import random
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from placet import (
    AgentRunner,
    AgentSpec,
    Assistant,
    MemoryApprovals,
    MemoryJournal,
    Runtime,
    basic_tools,
    tool,
)
from placet.errors import SkillInvalid, UsageError
from placet.inference import Request, Scripted, ToolCall, ToolResult, User
from placet.memory.memory import Memory
from placet.memory.skills.skill import Skill, Triggers, skill_from
from placet.memory.skills.tools import script_tools
from placet.memory.skills.trial import arm_of
from placet.sandbox.workspace import Workspace
from placet.testing.skill_store import make_skill
from placet.tools.context import ToolContext
from placet.tools.tool import Tool

TASK = "Please deploy the shop"


async def memory_with(*skills: Skill) -> Memory:
    memory = Memory()
    for skill in skills:
        await memory.skills.put(skill)
    return memory


def run_in(arm: str, name: str = "deploy", version: int = 1) -> str:
    """Id of a run that is in an arm."""
    return next(f"run-{n}" for n in range(100) if arm_of(f"run-{n}", name, version) == arm)


def words(request: Request) -> str:
    (newest,) = [each for each in request.messages if isinstance(each, User)][-1:]
    return "\n".join(getattr(part, "text", "") for part in newest.parts)


def told(runtime: Runtime, kind: str) -> list[dict[str, Any]]:
    return [each.data for each in runtime.events if each.kind == kind]


async def test_name_and_description_are_offered_and_the_body_is_loaded_when_chosen() -> None:
    memory = await memory_with(make_skill(state="kept"))
    runtime = Runtime(memory=memory)
    model = Scripted([ToolCall(name="load_skill", arguments={"name": "deploy"}), "done"])

    await Assistant(runtime, model, memory=True).run(TASK, run_id="r")

    assert "- deploy: How to deploy." in words(model.requests[0])
    assert "Do it." not in words(model.requests[0])
    (answer,) = [each for each in model.requests[1].messages if isinstance(each, ToolResult)]
    assert "Do it." in answer.text
    assert told(runtime, "skill_offered") == [{"offered": ["deploy 1"], "withheld": []}]
    assert [(each.run, each.arm) for each in memory.skills.store.runs(None)] == [("r", "with")]


async def test_a_provisional_skill_is_withheld_from_one_arm_also_if_its_name_is_known() -> None:
    memory = await memory_with(make_skill())
    offered, withheld = run_in("with"), run_in("without")
    call = ToolCall(name="load_skill", arguments={"name": "deploy"})
    seen = {}
    for run in (offered, withheld):
        model = Scripted([call, "done"])
        await Assistant(Runtime(memory=memory), model, memory=True).run(TASK, run_id=run)
        (answer,) = [each for each in model.requests[1].messages if isinstance(each, ToolResult)]
        seen[run] = ("deploy" in words(model.requests[0]).removeprefix(TASK), "Do it." in answer.text)

    assert seen == {offered: (True, True), withheld: (False, False)}
    assert {each.run: each.arm for each in memory.skills.store.runs(None)} == {
        offered: "with",
        withheld: "without",
    }


async def test_a_resumed_run_stays_in_its_arm() -> None:
    memory = await memory_with(make_skill())
    for arm in ("with", "without"):
        journal, approvals, run = MemoryJournal(), MemoryApprovals(), run_in(arm)

        def runtime(journal: Any = journal, approvals: Any = approvals) -> Runtime:
            return Runtime(memory=memory, journal=journal, approvals=approvals, patience_s=0)

        ask = ToolCall(name="skill.trust", arguments={"name": "deploy", "version": 1})
        first = await Assistant(runtime(), Scripted([ask]), memory=True).run(TASK, run_id=run)
        again = Scripted(["done"])
        second = await Assistant(runtime(), again, memory=True).resume(run)

        assert (first.status, second.status) == ("waiting", "waiting")
        assert [each.arm for each in memory.skills.store.runs(None, run=run)] == [arm]


async def test_an_agent_is_offered_skills_if_it_may_load_them() -> None:
    memory = await memory_with(make_skill(state="kept", triggers=Triggers(personas=("ops",))))
    for tools, is_offered in ((["load_skill"], True), ([], False)):
        model = Scripted(["done"])
        spec = AgentSpec(id="ops", identity="You.", memory=True, tools=tools)

        await AgentRunner(Runtime(memory=memory), model, spec).run("hello")

        assert ("- deploy:" in words(model.requests[0])) == is_offered


async def test_without_the_option_no_skill_is_offered() -> None:
    memory = await memory_with(make_skill(state="kept"))
    assistant = Assistant(Runtime(memory=memory), Scripted(["done"]))

    await assistant.run(TASK)

    assert "load_skill" not in assistant.offered()
    assert memory.skills.store.runs(None) == []


async def test_only_fitting_usable_skills_match_and_the_best_of_many() -> None:
    memory = await memory_with(
        make_skill("a", state="kept"),
        make_skill("b", state="retired"),
        make_skill("c", state="kept", labels=("untrusted",)),
        make_skill("d", state="kept", triggers=Triggers(keywords=("zebra",))),
    )
    assert [each.name for each in (await memory.skills.match("r", TASK)).offered] == ["a"]

    for n in range(20):
        await memory.skills.put(make_skill(f"x{n:02}", state="kept"))
    await memory.skills.put(make_skill("shop", state="kept", description="Deploy a shop."))

    names = [each.name for each in (await memory.skills.match("r", TASK)).offered]
    assert len(names) == 12
    assert "shop" in names


async def test_what_does_not_fit_the_context_was_not_offered() -> None:
    memory = await memory_with(
        *(make_skill(f"s{n}", state="kept", description="long " * 200) for n in range(9))
    )
    model = Scripted(["done"])

    await Assistant(Runtime(memory=memory), model, memory=True).run(TASK)

    shown = {f"s{n}" for n in range(9) if f"- s{n}:" in words(model.requests[0])}
    assert {each.name for each in memory.skills.store.runs(None)} == shown
    assert 0 < len(shown) < 9


async def test_a_folder_hides_the_store_and_the_project_the_person() -> None:
    memory = await memory_with(make_skill(description="from the store"))
    project, person = (make_skill(state="kept", description=text) for text in ("project", "person"))
    memory.skills.folders = (project, person)

    assert (await memory.skills.get("deploy")).description == "project"
    offer = await memory.skills.match("r", TASK)
    await memory.skills.note_offer("r", offer)
    assert (await memory.skills.load("deploy", "r")).description == "project"


async def test_runs_with_a_folders_skill_judge_no_skill_of_the_store() -> None:
    memory = await memory_with(make_skill())
    shelf = memory.skills
    shelf.folders = (replace(skill_from(make_skill().files, "deploy", source="project"), state="kept"),)
    for n in range(60):
        await shelf.note_offer(f"r{n}", await shelf.match(f"r{n}", TASK))
        await shelf.record_outcome(f"r{n}", False, by="check")

    # Whoever has the folder mends it; no version tells that it was.
    assert [each.version for each in (await shelf.match("r", TASK)).offered] == [0]
    assert (await shelf.trial(await shelf.get("deploy"))).is_degraded
    (stored,) = shelf.store.listed(None, "deploy")
    assert (stored.state, (await shelf.trial(stored)).runs) == ("provisional", 0)


async def test_tenants_have_skills_of_their_own() -> None:
    memory = Memory()
    await memory.skills.put(make_skill(state="kept"), tenant="a")

    assert (await memory.skills.match("r", TASK, tenant="b")).offered == []
    with pytest.raises(UsageError):
        await memory.skills.get("deploy", tenant="b")
    assert (await memory.skills.get("deploy", tenant="a")).tenant == "a"


async def test_another_text_is_the_next_version_and_begins_anew() -> None:
    memory = await memory_with(make_skill())
    shelf = memory.skills
    first = await shelf.get("deploy")
    assert await shelf.put(make_skill()) == first

    second = await shelf.put(replace(make_skill(), files={"SKILL.md": first.files["SKILL.md"] + b"Now.\n"}))

    assert (second.version, second.state) == (2, "provisional")
    assert (await shelf.trial(second)).runs == 0
    assert await shelf.retire("deploy")
    assert not await shelf.retire("deploy")
    with pytest.raises(UsageError):
        await shelf.retire("other")
    with pytest.raises(SkillInvalid):
        await shelf.add({"SKILL.md": b"---\nname: x\n---\n"}, "x", source="test")
    assert [each.name for each in await shelf.listed()] == ["deploy"]


CHANCES = {"helps": 0.4, "hurts": -0.4, "nothing": 0.0}
"""What the instructions of each skill add to the chance that a run files its note in the right box."""


class Clerk:
    """A scripted model: it reads the skills that it is offered, follows them, and always claims success."""

    def __init__(self, seed: int) -> None:
        self.filed = ""
        self._random = random.Random(seed)

    def tool(self) -> Tool:
        @tool(risk="idempotent", idempotent=True)
        def file_note(box: str) -> str:
            "File the note."
            self.filed = box
            return "filed"

        return file_note

    def answer(self, request: Request) -> Any:
        results = [each for each in request.messages if isinstance(each, ToolResult)]
        offered = [name for name in CHANCES if f"- {name}:" in words(request)]
        if not results and offered:
            return [ToolCall(name="load_skill", arguments={"name": name}) for name in offered]
        if len(results) > len(offered):
            return "Done, with great success."
        read = [name for name in CHANCES if any(f"Way of {name}." in each.text for each in results)]
        is_right = self._random.random() < 0.5 + sum(CHANCES[name] for name in read)
        return ToolCall(name="file_note", arguments={"box": "right" if is_right else "wrong"})


# Chance decides a trial too: 17 of the first 20 seeds end so, as `test_trials` works out.
@pytest.mark.parametrize("seed", [2, 3])
async def test_over_sixty_runs_what_helps_stays_and_the_others_go(seed: int) -> None:
    clerk, memory = Clerk(seed), Memory()
    for name in CHANCES:
        text = f"---\nname: {name}\ndescription: How.\n---\nWay of {name}.\n"
        await memory.skills.put(make_skill(name, files={"SKILL.md": text.encode()}))
    runtime = Runtime([clerk.tool()], memory=memory)
    assistant = Assistant(runtime, Scripted(clerk.answer), memory=True, posture="full_access")

    for n in range(60):
        run = f"{seed}-{n}"
        assert (await assistant.run("File the note", run_id=run)).status == "success"
        await memory.record_outcome(run, clerk.filed == "right", by="check")

    skills = {each.name: each for each in await memory.skills.listed()}
    states = {name: each.state for name, each in skills.items()}
    trials = {name: await memory.skills.trial(each) for name, each in skills.items()}
    assert states == {"helps": "kept", "hurts": "retired", "nothing": "retired"}, trials
    assert all(each.runs == 60 for each in trials.values())
    assert trials["hurts"].offered.rate < trials["hurts"].withheld.rate  # type: ignore[operator]


async def test_only_an_outcome_counts_and_an_undo_takes_it_back() -> None:
    shelf = (await memory_with(make_skill())).skills
    run = run_in("with")
    await shelf.note_offer(run, await shelf.match(run, TASK))
    skill = await shelf.get("deploy")
    assert (await shelf.trial(skill)).runs == 0

    await shelf.record_outcome(run, True, by="check")
    assert (await shelf.trial(skill)).offered.successes == 1
    await shelf.record_outcome(run, False, by="undo")
    await shelf.record_outcome(run, True, by="check")

    trial = await shelf.trial(skill)
    assert (trial.offered.successes, trial.offered.failures) == (0, 1)


async def test_a_run_that_ends_records_no_outcome() -> None:
    memory = await memory_with(make_skill(state="kept"))
    ended = await Assistant(
        Runtime(memory=memory), Scripted(["All done, a great success!"]), memory=True
    ).run(TASK)

    assert ended.status == "success"
    assert [each.succeeded for each in memory.skills.store.runs(None)] == [None]


async def test_a_kept_skill_that_is_degraded_is_not_offered() -> None:
    shelf = (await memory_with(make_skill(state="kept"))).skills
    for n in range(3):
        await shelf.note_offer(f"r{n}", await shelf.match(f"r{n}", TASK))
        await shelf.record_outcome(f"r{n}", False, by="person")

    assert (await shelf.trial(await shelf.get("deploy"))).is_degraded
    assert (await shelf.match("r9", TASK)).offered == []


async def test_a_conversation_can_load_what_was_kept_or_imported_since_it_began() -> None:
    memory = await memory_with(make_skill())
    shelf = memory.skills
    run = next(f"r{n}" for n in range(100) if arm_of(f"r{n}", "deploy", 1) == "without")
    await shelf.note_offer(run, await shelf.match(run, TASK))
    shelf.store.change(None, "deploy", 1, state="kept")
    offer = await shelf.match(run, TASK)
    await shelf.note_offer(run, offer)
    kept = await shelf.load("deploy", run)
    newer = await shelf.put(make_skill(state="kept", files={**make_skill().files, "more.md": b"more"}))

    assert [each.title for each in offer.offered] == ["deploy 1"]
    assert kept.title == "deploy 1"
    assert (await shelf.load("deploy", run)).title == newer.title == "deploy 2"


async def test_a_repair_is_not_tried_on_a_run_that_met_the_version_before() -> None:
    memory = await memory_with(make_skill())
    shelf = memory.skills
    run = next(
        f"r{n}" for n in range(100) if {arm_of(f"r{n}", "deploy", version) for version in (1, 2)} == {"with"}
    )
    await shelf.note_offer(run, await shelf.match(run, TASK))
    await shelf.put(make_skill(files={**make_skill().files, "more.md": b"more"}))

    offer = await shelf.match(run, TASK)
    elsewhere = await shelf.match("another", TASK)

    assert [*offer.offered, *offer.withheld] == []
    assert [each.version for each in (*elsewhere.offered, *elsewhere.withheld)] == [2]


async def test_scripts_run_as_calls_in_the_sandbox_and_never_on_being_read(tmp_path: Path) -> None:
    escaped, folder = tmp_path / "escaped", tmp_path / "work"
    folder.mkdir()
    (folder / "data.txt").write_text("42")
    files = dict(make_skill().files)
    show = f'cat data.txt "$1"; cat "$(dirname "$0")/../references/r.md"; touch {escaped}'
    files["scripts/show.sh"] = f"#!/bin/sh\n{show}\n".encode()
    files["references/run.sh"] = b"#!/bin/sh\necho hello"
    files["scripts/plain.txt"] = b"echo hello"
    files["references/r.md"] = b"read me"
    memory = await memory_with(make_skill(state="kept", files=files))
    workspace = Workspace(folder)
    arguments = {"name": "deploy", "script": "scripts/show.sh", "arguments": ["/dev/null"]}
    calls = [
        ToolCall(name="load_skill", arguments={"name": "deploy"}),
        ToolCall(name="load_skill", arguments={"name": "deploy", "file": "references/r.md"}),
        ToolCall(name="load_skill", arguments={"name": "deploy", "file": "../../etc/passwd"}),
        ToolCall(name="run_skill_script", arguments=arguments),
        ToolCall(name="run_skill_script", arguments=arguments | {"script": "scripts/plain.txt"}),
        ToolCall(name="run_skill_script", arguments=arguments | {"script": "references/run.sh"}),
    ]
    answers = {}
    for posture in ("full_access", "read_only"):
        tools = [*basic_tools(workspace), *script_tools(memory, workspace)]
        runtime = Runtime(memory=memory, builtin=tools, permissions=posture)
        model = Scripted([*calls, "done"])
        await Assistant(runtime, model, memory=True).run(TASK)
        answers[posture] = [each for each in model.requests[-1].messages if isinstance(each, ToolResult)]
    workspace.close()

    read, reference, outside, ran, plain, no_script = answers["full_access"]
    assert "scripts/show.sh" in read.text
    assert "echo hello" not in read.text
    assert "read me" in reference.text
    assert outside.is_error
    assert "42read me" in ran.text
    assert not escaped.exists()
    assert plain.is_error
    assert no_script.is_error
    assert answers["read_only"][3].is_error


class SlowFiles(dict[str, bytes]):
    """Files that somebody writes out while a test looks."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(files)
        self.begun, self.may_end = threading.Event(), threading.Event()

    def items(self) -> Any:
        self.begun.set()
        self.may_end.wait()
        return super().items()


async def test_a_cancelled_script_leaves_no_folder_that_is_still_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    files = SlowFiles({**make_skill().files, "scripts/a.sh": b"#!/bin/sh\n"})
    memory = await memory_with(make_skill(state="kept"))

    async def load(name: str, run_id: str, *, tenant: str | None = None) -> Skill:
        return make_skill(files=files)

    monkeypatch.setattr(memory.skills, "load", load)
    workspace = Workspace(tmp_path)
    (run,) = script_tools(memory, workspace)
    context = ToolContext(action_id="a", run_id="r")

    calling = asyncio.ensure_future(run.fn(name="deploy", script="scripts/a.sh", context=context))
    await asyncio.to_thread(files.begun.wait)
    calling.cancel()
    await asyncio.sleep(0)
    while_written = calling.done(), len(list(scratch.iterdir()))
    files.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await calling
    workspace.close()

    assert while_written == (False, 1)
    assert list(scratch.iterdir()) == []
