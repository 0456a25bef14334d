"""What events carry is what the reference says they carry, for every kind that is emitted today."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from placet import (
    AgentRunner,
    AgentSpec,
    Assistant,
    Cancel,
    CodeLimits,
    Coder,
    DenyTool,
    FlowRule,
    Isolation,
    JsonlTrajectories,
    Memory,
    MemoryApprovals,
    ReplanConfig,
    Reply,
    Runtime,
    Scope,
    ToolContext,
    ToolError,
    TurnLimits,
    basic_tools,
    tool,
)
from placet.agents.spec import Goal
from placet.app.isolation import LoweredIsolation, Lowering, Required
from placet.durable.memory import MemoryJournal
from placet.errors import ModelError
from placet.events.event import Event
from placet.events.log import EventLog
from placet.events.otel.sink import OpenTelemetrySink, OtelSettings, SpanQueue
from placet.events.otel.spans import OtelSpan
from placet.events.schema import Unknown, typed
from placet.inference import Scripted, ToolCall
from placet.sandbox.workspace import Workspace
from placet.testing import RecordingTool, action, proposal
from placet.testing.skill_store import make_skill
from tests.docs.pages import REFERENCE, codes_in, rows_of, section


class Kept:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, events: Sequence[Event]) -> None:
        self.events += events


class Broken:
    """A sink, and a trajectory store, that never work."""

    def write(self, events: Sequence[Event]) -> None:
        raise OSError("disk full")

    append = write


def compensated(id: str, by: str) -> dict[str, object]:
    how = {"type": "action_ref", "action_id": by} if by == "aside" else {"type": "tool", "tool": by}
    return {"id": id, "tool": "book", "compensation": how, "dependencies": []}


async def everything_happens(kept: Kept, folder: Path) -> None:
    """Runs in which every kind of event occurs at least once."""
    tools = [
        RecordingTool("book", reversibility="compensable"),
        RecordingTool("free", risk="idempotent"),
        RecordingTool("stuck_free", default=ToolError("gone", retry=False)),
        RecordingTool("flaky", answers=[ToolError("busy")], risk="network"),
        RecordingTool("broken", default=ToolError("no", retry=False)),
        RecordingTool("cached", risk="read_only", cache_ttl_secs=60, default=1),
        RecordingTool("same", risk="idempotent", default=1),
        RecordingTool("slow", default=RecordingTool.HANG),
        RecordingTool("denied"),
    ]
    log = EventLog(sinks=[kept, Broken()])
    rt = Runtime(tools=tools, events=log, state={"n": 1}, trajectories=JsonlTrajectories(folder / "t.jsonl"))
    rt.add_policy("no", DenyTool(tool="denied"))
    rt.add_policy("slip", DenyTool(tool="dneied"))
    aborting = proposal(
        compensated("one", "free"),
        compensated("two", "stuck_free"),
        compensated("three", "aside"),
        action("aside", "free"),
        action("flaky", "flaky", failure_behavior="retry"),
        action("denied", "denied", failure_behavior="skip"),
        action("rejected", "nobody", failure_behavior="skip"),
        action("tolerated", "broken", failure_behavior="skip"),
        {"id": "w", "type": "state_write", "parameters": {"key": "n", "value": 2}},
        {"id": "new", "type": "state_write", "parameters": {"key": "m", "value": 2}},
        action("last", "broken", dependencies=["w", "new"]),
        {**compensated("never", "free"), "dependencies": ["last"]},
    )
    await rt.execute(aborting, scope=Scope(caller_id="c", tenant="t", claims={"k": 1}))
    again = [action(name, tool, idempotent=tool == "same") for name, tool in (("a", "same"), ("c", "cached"))]
    await rt.execute(proposal(*again))
    await rt.execute(proposal(*again))
    await rt.execute(proposal(action("s", "slow", timeout_ms=10)))
    cancel = Cancel()
    asyncio.get_running_loop().call_later(0.02, lambda: cancel.cancel(hard=True))
    await rt.execute(proposal(action("s", "slow"), action("z", "book", dependencies=["s"])), cancel=cancel)
    await rt.execute(proposal(action("x", "book", dependencies=["x"])))
    rt.checkpoint()
    await a_run_is_resumed(log)
    await a_person_is_asked(log)
    await a_tool_reports(log)
    await a_bound_folder_is_restored(log, folder)
    await isolation_was_lowered(log)
    await a_model_answers(log)
    await a_model_leads(log)
    await a_coder_works(log, folder)
    await an_agent_works(log, folder)
    await memory_is_consolidated(log)
    await a_run_is_traced(log)
    await a_skill_is_offered(log)

    answers = iter(["junk", {"actions": [{"id": "b", "tool": "broken"}]}])
    options = {"tools": tools, "events": log, "replan_config": ReplanConfig(max_replans=2)}
    failing = proposal(action("b", "broken"))
    await Runtime(replan=lambda _: next(answers), **options).execute(failing)
    await Runtime(replan=lambda _: 1 / 0, trajectories=Broken(), **options).execute(failing)  # type: ignore[arg-type, return-value]
    log.flush()


async def a_run_is_resumed(log: EventLog) -> None:
    cancel = Cancel()

    @tool(returns={"type": "object", "properties": {"exit_code": {"type": "integer"}}})
    async def once() -> dict[str, int]:
        """Asks to stop after this."""
        cancel.cancel("enough")
        return {"exit_code": 1}

    rt = Runtime(tools=[once], events=log, journal=MemoryJournal())
    two = proposal(action("one", "once"), action("two", "once", dependencies=["one"]))
    await rt.execute(two, run_id="broken off", cancel=cancel)
    result = await rt.resume("broken off")

    assert result.succeeded


async def a_tool_reports(log: EventLog) -> None:
    @tool(risk="read_only")
    async def copy(context: ToolContext) -> None:
        """Says how far it is."""
        context.progress("copying", done=1, total=2)
        await asyncio.sleep(0)

    await Runtime(tools=[copy], events=log).execute(proposal(action("copy", "copy")))


async def a_bound_folder_is_restored(log: EventLog, folder: Path) -> None:
    bound = folder / "bound"
    bound.mkdir()
    (bound / "a").write_text("one")
    tools = [RecordingTool("broken", default=ToolError("no", retry=False))]
    rt = Runtime(
        tools=tools,
        builtin=basic_tools(bound, isolation=Isolation("none")),
        events=log,
        workspace=bound,
        snapshots=folder / "snapshots",
    )
    changing = action("change", "shell", parameters={"command": "echo two > a"})

    await rt.execute(proposal(changing, action("stop", "broken", dependencies=["change"])))

    assert (bound / "a").read_text() == "one"


async def isolation_was_lowered(log: EventLog) -> None:
    decided = Lowering(
        level="none", until="2999-01-01T00:00:00+00:00", because="a test", time="2026-01-01T00:00:00+00:00"
    )
    lowered = LoweredIsolation(Required("none", "process", decided))

    await Runtime(events=log, isolation=lowered).execute(proposal())


async def a_person_is_asked(log: EventLog) -> None:
    """Untrusted data wants to choose what a tool does: one rule denies that, another asks."""
    page = RecordingTool("page", risk="read_only", marks=["untrusted"], default="x")
    ledger = MemoryApprovals()
    rt = Runtime(
        tools=[page, RecordingTool("send"), RecordingTool("drop")],
        events=log,
        journal=MemoryJournal(),
        approvals=ledger,
        patience_s=0,
        permissions="trusting",
    )
    rt.add_policy("ask", FlowRule(mark="untrusted", tool="send", unless_approved=True))
    rt.add_policy("never", FlowRule(mark="untrusted", tool="drop"))
    asked = [
        action(name, name, parameters={"to": "$page.output"}, failure_behavior="skip")
        for name in ("send", "drop")
    ]
    await rt.execute(proposal(action("page", "page"), *asked), run_id="asked")
    ledger.decide(ledger.pending()[0].id, "once", by="ann")
    result = await rt.resume("asked")

    assert [each.status for each in result.results] == ["succeeded", "succeeded", "rejected"]


def kinds() -> list[list[str]]:
    page = REFERENCE / "events.md"
    headings = ("Kinds", "Kinds of a loop", "Kinds of a coding session")
    return [row for heading in headings for row in rows_of(section(page, heading))]


def documented() -> dict[str, tuple[set[str], set[str]]]:
    """By kind, the keys that are always there, and those that may be."""
    found = {}
    for row in kinds():
        keys = re.findall(r"`(\w+)`(\?)?", row[2])
        [kind] = codes_in(row[0])
        found[kind] = ({k for k, maybe in keys if not maybe}, {k for k, maybe in keys if maybe})
    return found


async def a_model_answers(log: EventLog) -> None:
    rt = Runtime(model=Scripted(["hello"]), events=log)

    await rt.execute(proposal(action("ask", "infer", parameters={"prompt": "?"})))


async def a_model_leads(log: EventLog) -> None:
    """Turns in which everything happens that a loop says of itself."""

    @tool(risk="read_only")
    def look(name: str) -> str:
        """Look something up."""
        return name

    def asks(wanted: str, **arguments: object) -> ToolCall:
        return ToolCall(id="c", name=wanted, arguments=arguments)

    turns = [
        ModelError("overloaded"),
        asks("nobody"),
        *[asks("look", name=f"{n}" + "x" * 3000) for n in range(12)],
        *[asks("look", name="the same")] * 40,
    ]
    assistant = Assistant(
        Runtime(tools=[look], events=log),
        Scripted(turns),
        failures=2,
        limits=TurnLimits(context_tokens=4000, turns=100),
    )

    assert (await assistant.run("Look.")).status == "stuck"

    async with Assistant(Runtime(events=log), Scripted(["Hello."])).chat() as chat:
        await chat.set_posture("sandbox_edit")


async def a_coder_works(log: EventLog, folder: Path) -> None:
    """A session in which everything happens that a coding session says of itself."""
    top = folder / "program"
    top.mkdir()
    (top / "Makefile").write_text("all:\n")
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Begin"]):
        await asyncio.to_thread(subprocess.run, ["git", *who, *words], cwd=top, check=True)

    async def answers(question: object) -> str:
        return "both"

    async def agrees(approval: object) -> Reply:
        return Reply("once")

    def asks(wanted: str, **arguments: object) -> ToolCall:
        return ToolCall(name=wanted, arguments=arguments)

    coder = Coder(
        Runtime(events=log, person=agrees, journal=MemoryJournal()),
        Scripted(
            [
                [asks("ask_user", question="Which?"), asks("shell", command="echo > Makefile; echo > done")],
                "Done.",
                "Done without it.",
            ]
        ),
        top,
        home=folder / "private",
        isolation=Isolation("none"),
        limits=CodeLimits(iterations=2),
        ask_s=60,
        ask=answers,
    )

    session = await coder.run("x", ["test -f done"])
    session = await coder.approve(session.id, by="ann")

    assert session.state == "merged"


async def an_agent_works(log: EventLog, folder: Path) -> None:
    """A goal that is not met at first."""
    workspace = Workspace(folder)
    goal = Goal(check="test -e met || ! touch met")
    spec = AgentSpec(id="a", identity="You work.", goal=goal)
    runner = AgentRunner(
        Runtime(events=log), Scripted(["a", "b"]), spec, workspace=workspace, isolation=Isolation("none")
    )

    assert (await runner.run("Work.")).succeeded
    workspace.close()


async def a_skill_is_offered(log: EventLog) -> None:
    """It does not help, so that it is repaired, and its domain gets another one."""
    memory = Memory()
    await memory.skills.put(make_skill(state="kept"))
    text = '{"name": "x", "description": "x", "keywords": [], "instructions": "x"}'
    runtime = Runtime(events=log, memory=memory, model=Scripted([text] * 9), auto_distill=True)
    for n in range(9):
        await Assistant(runtime, Scripted(["ok"]), memory=True).run("go", run_id=f"skill-{n}")
    for n in range(9):
        await memory.record_outcome(f"skill-{n}", n < 3, by="check")


async def a_run_is_traced(log: EventLog) -> None:
    sent: list[OtelSpan] = []

    class Exporter:
        is_failing = False

        def send(self, spans: Sequence[OtelSpan], dropped: int) -> None:
            sent.extend(spans)

        def close(self) -> None: ...

        interrupt = close

    queue = SpanQueue(OtelSettings(), exporter=Exporter)
    log.add_sink(sink := OpenTelemetrySink._sharing(queue))
    await Runtime(events=log).execute({"actions": []})
    log.remove_sink(sink)
    queue.close()

    assert {span.status for span in sent} == {"ok"}


async def memory_is_consolidated(log: EventLog) -> None:
    plan = {"actions": [{"id": "a", "tool": "memory.consolidate"}]}

    assert (await Runtime(events=log, memory=Memory()).execute(plan)).outcome == "succeeded"


@pytest.fixture
async def events(tmp_path: Path) -> list[Event]:
    kept = Kept()
    await everything_happens(kept, tmp_path)
    return kept.events


async def test_events_carry_what_the_reference_says(events: list[Event]) -> None:
    reference = documented()

    for event in events:
        always, maybe = reference[event.kind]
        assert always <= set(event.data) <= always | maybe, f"{event.kind}: {sorted(event.data)}"


async def test_every_event_is_the_record_of_its_kind(events: list[Event]) -> None:
    """Also its keys: what is emitted and no record has is lost to whoever shows the run."""
    for event in events:
        said = typed(event)
        assert not isinstance(said, Unknown), f"{event.kind}: {event.data}"
        assert set(event.data) <= set(said.__struct_fields__), event.kind


async def test_every_kind_and_key_of_the_reference_really_occurs(events: list[Event]) -> None:
    seen: dict[str, set[str]] = {}
    for event in events:
        seen.setdefault(event.kind, set()).update(event.data)
    reserved = {kind for row in kinds() if "reserved" in row[1] for kind in codes_in(row[0])}

    for kind, (always, maybe) in documented().items():
        if kind in reserved:
            assert kind not in seen, f"{kind} is emitted now: say what it carries"
        else:
            assert kind in seen, f"{kind} did not occur"
            assert seen[kind] == always | maybe - LEFT_OUT.get(kind, set()), kind


LEFT_OUT = {
    "action_unknown": {"left_behind"},  # Needs something that will not stop.
    "action_failed": {"left_behind", "took_effect"},
    "compensation_failed": {"action"},  # The one that fails here is a tool.
}
