"""Traces and metrics as a receiver gets them: the tree of spans, their attributes, and what is not sent."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from placet import AgentRunner, Assistant, DenyTool, Runtime, ToolSchema, open_database, tool
from placet.agents.compose import agent_tool
from placet.agents.spec import AgentSpec
from placet.app.app import open_app
from placet.approvals.memory import MemoryApprovals
from placet.durable.memory import MemoryJournal
from placet.errors import UsageError
from placet.events.log import EventLog
from placet.events.otel import sink as sinks
from placet.events.otel.sink import Gauge, OpenTelemetrySink, OtelSettings, SpanQueue
from placet.events.otel.spans import SpanTable
from placet.events.sql import SqlEvents
from placet.extras import install_command
from placet.inference import Result, Scripted, ToolCall
from placet.inference.model import Choice
from placet.inference.usage import Usage
from placet.redaction import Redactor
from placet.testing import RecordingTool, action, proposal
from placet.tools import program_tool
from placet.trace_context import current_traceparent, join_trace, parse_traceparent
from tests.events.otel.receiver import Got, Receiver

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def export(receiver: Receiver) -> Iterator[Callable[..., EventLog]]:
    """A log whose runs are exported; closed by calling its `close`."""
    receiver.requests.clear()
    receiver.answer = 200
    made: list[OpenTelemetrySink] = []

    def log(**settings: Any) -> EventLog:
        more = {"redactor": settings.pop("redactor")} if "redactor" in settings else {}
        sink = OpenTelemetrySink(OtelSettings(endpoint=receiver.url, **settings))
        made.append(sink)
        return EventLog(sinks=[sink], **more)

    yield log
    for each in made:
        each.close()


def sent(log: EventLog) -> None:
    """Have everything sent."""
    log.flush()
    assert isinstance(log.tracer, OpenTelemetrySink)
    assert log.tracer.close() is None


def until(is_so: Callable[[], bool]) -> None:
    """Wait for something that another thread does."""
    while not is_so():
        time.sleep(0.01)


def by_name(spans: list[Got]) -> dict[str, Got]:
    return {span.name: span for span in spans}


def asked(model: str = "anthropic:claude-x") -> Scripted:
    """A model that calls `double` once."""
    chosen = Choice(model=model, role="default", because="named")
    return Scripted(
        [
            Result(
                text="The secret answer",
                calls=[ToolCall(name="double", arguments={"x": 21})],
                model="claude-x-1",
                choice=chosen,
                usage=Usage(input=30, output=7),
                cost=0.25,
            ),
            "It is 42.",
        ]
    )


@tool(risk="read_only")
def double(x: int) -> int:
    """Double a number."""
    return 2 * x


async def test_a_conversation_is_a_tree_by_the_conventions(
    receiver: Receiver, export: Callable[..., EventLog]
) -> None:
    log = export()
    ending = await Assistant(Runtime([double], events=log), asked()).run("twice 21")
    sent(log)

    spans = receiver.spans()
    found = by_name(spans)
    run, turn, chat = found["invoke_agent assistant"], found["turn 1"], found["chat claude-x"]
    call, plan = found["execute_tool double"], found["proposal"]
    assert ending.status == "success"
    assert len(spans) == 7  # Two turns with a model call each, one proposal with its action, and the run.
    assert {span.trace for span in spans} == {log.query(kind="run_began")[0].trace_id}
    assert (run.parent, turn.parent, chat.parent) == ("", run.id, turn.id)
    assert (plan.parent, call.parent, found["turn 2"].parent) == (turn.id, plan.id, run.id)
    executed = log.query(kind="action_executing")[0]
    assert call.id == executed.span_id
    assert {span.status for span in spans} == {"ok"}
    assert all(0 < span.start <= span.end for span in spans)
    assert run.start <= turn.start <= plan.start <= call.start <= call.end <= plan.end <= run.end
    assert run.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert run.attributes["gen_ai.agent.name"] == "assistant"
    assert run.attributes["gen_ai.conversation.id"] == executed.run_id
    assert call.attributes["gen_ai.operation.name"] == "execute_tool"
    assert call.attributes["gen_ai.tool.name"] == "double"
    assert call.attributes["gen_ai.tool.call.id"] == executed.action_id
    assert chat.kind == 3  # CLIENT
    assert {k: v for k, v in chat.attributes.items() if k.startswith("gen_ai.")} == {
        "gen_ai.conversation.id": executed.run_id,
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-x",
        "gen_ai.response.model": "claude-x-1",
        "gen_ai.response.finish_reasons": ["end"],
        "gen_ai.usage.input_tokens": 30,
        "gen_ai.usage.output_tokens": 7,
    }
    assert run.resource["service.name"] == "placet"
    assert "secret answer" not in str(receiver.requests)

    metrics = receiver.metrics()
    about = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic"}
    tokens = {p["gen_ai.token.type"]: (v, p) for v, p in metrics["gen_ai.client.token.usage"]}
    assert (tokens["input"][0], tokens["output"][0]) == (30, 7)
    assert about.items() <= tokens["input"][1].items()
    operations = {p["gen_ai.operation.name"] for _, p in metrics["gen_ai.client.operation.duration"]}
    assert operations == {"chat", "execute_tool", "invoke_agent"}
    assert metrics["placet.cost"][0][0] == 0.25


def test_names_are_those_of_the_conventions() -> None:
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as known

    source = Path(sinks.__file__).parent
    used = {
        word
        for file in ("spans.py", "otlp.py")
        for word in (source / file).read_text().split('"')
        if word.startswith("gen_ai.") and not word.startswith("gen_ai.client.")
    }
    names = {value for name, value in vars(known).items() if name.startswith("GEN_AI_")}
    assert used - {"gen_ai.usage.{kind}_tokens"} <= names


async def test_content_is_sent_only_if_asked_for_and_never_a_secret(
    receiver: Receiver, export: Callable[..., EventLog]
) -> None:
    log = export(content=True, redactor=Redactor(["hunter22-hunter22"]))

    @tool(risk="read_only")
    def login(password: str, user: str) -> str:
        """Fail."""
        raise ValueError(f"no {user} with hunter22-hunter22")

    runtime = Runtime([login], events=log)
    model = Scripted(
        [
            Result(
                text="Say hello",
                calls=[ToolCall(name="login", arguments={"password": "hunter22-hunter22", "user": "ann"})],
            ),
            "no",
        ]
    )
    await Assistant(runtime, model).run("log in")
    sent(log)

    found = by_name(receiver.spans())
    call = found["execute_tool login"]
    assert json.loads(call.attributes["gen_ai.tool.call.arguments"])["user"] == "ann"
    assert "no ann" in call.message
    (message,) = json.loads(found["chat scripted"].attributes["gen_ai.output.messages"])
    assert message["parts"] == [{"type": "text", "content": "no"}]
    assert "hunter22" not in str(receiver.requests)


async def test_every_action_ends_with_its_status(receiver: Receiver, export: Callable[..., EventLog]) -> None:
    log = export()
    runtime = Runtime(
        [double, RecordingTool("mail"), RecordingTool("broken", answers=[ValueError("the reason")])],
        policies=[DenyTool(tool="mail", reason="quiet")],
        events=log,
    )
    result = await runtime.execute(
        proposal(
            action("good", "double", parameters={"x": 1}),
            action("bad", "broken", failure_behavior="skip"),
            action("denied", "mail", failure_behavior="skip"),
            action("never", "double", parameters={"x": 1}, dependencies=["denied"]),
        )
    )
    sent(log)

    spans = {span.attributes.get("gen_ai.tool.call.id"): span for span in receiver.spans()}
    run = by_name(receiver.spans())["invoke_workflow unknown"]
    assert len(receiver.spans()) == 6
    assert spans["good"].status == "ok"
    assert (spans["bad"].status, spans["bad"].attributes["error.type"]) == ("error", "action_failed")
    assert spans["never"].status == "unset"
    assert (spans["denied"].status, spans["denied"].attributes["error.type"]) == ("error", "policy_violation")
    assert (run.status, run.attributes["placet.outcome"], result.outcome) == ("error", "partial", "partial")
    assert all(span.end for span in receiver.spans())
    assert "the reason" not in str(receiver.requests)


async def test_a_run_belongs_to_the_trace_of_its_caller_and_what_it_starts_to_it(
    receiver: Receiver, export: Callable[..., EventLog], tmp_path: Path
) -> None:
    """The caller's span is the parent of the run, its calls of a program and of a subagent."""
    log = export()
    code = "import json, os; print(json.dumps(os.environ['TRACEPARENT']))"
    program = program_tool(
        ToolSchema(name="program", risk="read_only"),
        [sys.executable, "-I", "-S", "-c", code],
        folder=tmp_path,
    )
    spec = AgentSpec(id="helper", identity="You help.")
    helper = AgentRunner(Runtime(events=log), Scripted(["done"]), spec)
    as_tool = agent_tool(helper, AgentSpec(id="caller", identity="You call.", tools=("helper",)))
    runtime = Runtime([program, as_tool], events=log)
    with join_trace(CALLER):
        result = await runtime.execute(
            proposal(action("p", "program"), action("h", "helper", parameters={"task": "x"}))
        )
    sent(log)

    spans = receiver.spans()
    found = by_name(spans)
    run, child = found["invoke_workflow unknown"], found["invoke_agent helper"]
    assert result.succeeded, result
    assert {span.trace for span in spans} == {TRACE}
    assert run.parent == "b7ad6b7169203331"
    assert run.attributes["placet.trace.id"] == result.trace_id
    assert child.parent == found["execute_tool helper"].id
    assert result["p"].output == f"00-{TRACE}-{found['execute_tool program'].id}-01"
    assert current_traceparent() is None


async def test_without_an_exporter_the_callers_context_is_passed_on(tmp_path: Path) -> None:
    code = "import json, os; print(json.dumps(os.environ.get('TRACEPARENT')))"
    program = program_tool(
        ToolSchema(name="program", risk="read_only"),
        [sys.executable, "-I", "-S", "-c", code],
        folder=tmp_path,
    )
    runtime = Runtime([program])
    plan = proposal(action("p", "program"))

    untraced = await runtime.execute(plan)
    with join_trace(CALLER):
        traced = await runtime.execute(plan)

    assert (untraced["p"].output, traced["p"].output) == (None, CALLER)
    assert not runtime.events.query(kind=("run_began", "run_left"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        CALLER.replace("b7ad6b7169203331", "0" * 16),
        CALLER.replace(TRACE, "0" * 32),
        CALLER.replace("00-", "ff-"),
        CALLER.upper(),
        CALLER + "-more",
        f"{CALLER}\n{CALLER}",
        None,
        7,
    ],
)
def test_what_is_no_traceparent_is_ignored(text: object) -> None:
    with join_trace(text):
        assert current_traceparent() is None
    assert parse_traceparent(text) is None


def test_a_traceparent_of_a_later_version_is_read() -> None:
    assert parse_traceparent(f"01-{TRACE}-b7ad6b7169203331-03-later") == (TRACE, "b7ad6b7169203331", True)


async def test_a_caller_that_is_not_sampled_is_followed(
    receiver: Receiver, export: Callable[..., EventLog]
) -> None:
    log = export()
    with join_trace(CALLER[:-1] + "0"):
        await Runtime([double], events=log).execute(proposal(action("a", "double", parameters={"x": 1})))
    sent(log)

    assert receiver.spans() == []
    assert "gen_ai.client.operation.duration" in receiver.metrics()


async def test_a_run_that_waits_is_ended_and_goes_on_in_spans_of_its_own(
    receiver: Receiver, export: Callable[..., EventLog]
) -> None:
    log = export()
    approvals = MemoryApprovals()
    runtime = Runtime(
        [RecordingTool("mail")],
        events=log,
        journal=MemoryJournal(),
        approvals=approvals,
        patience_s=0,
        policies=[DenyTool(tool="mail", unless_approved=True)],
    )
    with join_trace(CALLER):
        waits = await runtime.execute(proposal(action("m", "mail")))
    log.flush()
    approvals.decide(waits.waiting[0].approval, "once", by="ann")
    done = await runtime.resume(waits.run_id)
    sent(log)

    runs = [span for span in receiver.spans() if span.name.startswith("invoke_workflow")]
    calls = [span for span in receiver.spans() if span.attributes.get("gen_ai.tool.call.id") == "m"]
    assert (waits.outcome, done.outcome) == ("waiting", "succeeded")
    assert [(span.status, span.attributes["placet.outcome"]) for span in runs] == [
        ("unset", "waiting"),
        ("ok", "succeeded"),
    ]
    assert {span.trace for span in receiver.spans()} == {TRACE}
    assert {span.parent for span in runs} == {"b7ad6b7169203331"}
    assert [span.status for span in calls] == ["unset", "ok"]
    ids = [span.id for span in receiver.spans()]
    assert len(set(ids)) == len(ids)


async def test_a_receiver_that_refuses_is_an_event_and_no_delay(
    receiver: Receiver, export: Callable[..., EventLog]
) -> None:
    log = export()
    receiver.answer = 400
    runtime = Runtime([double], events=log)
    plan = proposal(action("a", "double", parameters={"x": 1}))

    first = await runtime.execute(plan)
    queue = log.tracer._queue  # type: ignore[union-attr]
    await asyncio.to_thread(until, lambda: queue.failure is not None)
    more = [await runtime.execute(plan) for _ in range(3)]
    log.flush()

    failures = log.query(kind="sink_failed")
    assert first.succeeded
    assert all(result.succeeded for result in more)
    assert [event.data["sink"] for event in failures] == ["OpenTelemetrySink"]
    assert "400" in str(failures[0].data["error"])
    assert log.lost == 0
    assert queue.dropped >= 3


async def test_a_full_queue_drops_and_counts_and_never_waits() -> None:
    """The exporter hangs in its first batch."""
    hangs, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    class Hanging:
        def send(self, spans: Any, dropped: int) -> None:
            loop.call_soon_threadsafe(hangs.set)
            go.wait()

        def close(self) -> None: ...

        interrupt = close
        is_failing = False

    queue = SpanQueue(OtelSettings(), most=5, exporter=Hanging)
    log = EventLog(sinks=[OpenTelemetrySink._sharing(queue)])
    runtime = Runtime([double], events=log)
    plan = proposal(action("a", "double", parameters={"x": 1}))
    await runtime.execute(plan)
    await hangs.wait()
    for _ in range(10):
        assert (await runtime.execute(plan)).succeeded

    assert queue.dropped == 3 * 10 - 5
    go.set()
    queue.close()
    assert queue.failure is None


async def test_a_receiver_that_is_not_there_is_recorded_when_a_program_ends(tmp_path: Path) -> None:
    with open_database(str(tmp_path / "x.db")) as database:
        events = SqlEvents(database)
        log = EventLog(sinks=[events])
        from placet.app.telemetry import export_traces

        close = export_traces(log, OtelSettings(endpoint="http://127.0.0.1:9"))
        result = await Runtime([double], events=log).execute(
            proposal(action("a", "double", parameters={"x": 1}))
        )
        close()
        await log.settle()
        failed = events.query(kind="sink_failed")

    assert result.succeeded
    assert len(failed) == 1


async def test_gauges_are_sent_with_the_metrics(receiver: Receiver, export: Callable[..., EventLog]) -> None:
    log = export()
    assert isinstance(log.tracer, OpenTelemetrySink)

    def broken() -> Any:
        raise RuntimeError("no database")

    log.tracer._queue.gauges += [
        Gauge("placet.queue.depth", lambda: [(3, {"queue": "default"})], "{run}", "Runs that wait."),
        Gauge("placet.broken", broken),
    ]
    sent(log)

    assert receiver.metrics()["placet.queue.depth"] == [(3, {"queue": "default"})]
    assert "placet.broken" not in receiver.metrics()


def test_open_spans_end_with_what_they_are_part_of() -> None:
    log = EventLog()
    table = SpanTable()
    trace = "1" * 32
    for kind, data in (("run_began", {"source": "s", "led": True}), ("turn_answered", {"turn": 1})):
        log.append(kind, "r", "p", None, trace, None, None, data)
    log.append("proposal_received", "r", "p", None, trace, "11111111ffffffff")
    log.append("action_executing", "r", "p", "a", trace, "1111111100000000", None, {"tool": "t"})
    table.add(log)

    closed = table.close()

    assert {span.name for span in closed} == {"invoke_agent s", "turn 1", "proposal", "execute_tool t"}
    assert all(span.end >= span.start for span in closed)
    assert len(table) == 0


def test_a_missing_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "is_installed", lambda _: False)

    with pytest.raises(UsageError) as raised:
        OpenTelemetrySink()

    assert install_command("otel") in str(raised.value)


def test_importing_placet_imports_nothing_of_it() -> None:
    code = (
        "import sys, placet, placet.app.settings, placet.events.otel.sink, placet.runtime.runtime;"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_settings_switch_it_on_and_say_where_to(
    receiver: Receiver, export: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config" / "placet"
    config.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config.parent))
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    monkeypatch.chdir(tmp_path)
    plan = proposal(action("a", "calculate", parameters={"expression": "1+1"}))
    written = f'[otel]\nendpoint = "{receiver.url}"\nheaders = {{ "x-api-key" = "k-123456789" }}\n'

    (config / "settings.toml").write_text(written)
    with open_app() as app:
        app.runtime.execute_sync(plan)
    off = list(receiver.requests)
    (config / "settings.toml").write_text(written + "enabled = true\n")
    with open_app() as app:
        app.runtime.execute_sync(plan)
        log = app.runtime.events
        assert log.redactor.text("k-123456789") != "k-123456789"
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    on = list(receiver.requests)
    with open_app() as app:
        app.runtime.execute_sync(plan)

    assert off == []
    assert receiver.spans()[0].resource["service.name"] == "mine"
    assert {headers["x-api-key"] for _, headers, _ in on} == {"k-123456789"}
    assert receiver.requests == on
