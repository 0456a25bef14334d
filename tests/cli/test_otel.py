"""Traces across processes: from the environment into a command, and over MCP in both directions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from placet import Runtime
from placet.engine.sql import SqlSubmissions
from placet.engine.submission import WorkerInfo
from placet.events.log import EventLog
from placet.events.otel.sink import OpenTelemetrySink, OtelSettings
from placet.storage.lease import holder
from placet.storage.location import open_database
from placet.testing import action, proposal
from placet.tools.mcp.connections import Connections
from placet.tools.mcp.server import McpServer, switch_on
from tests.cli.conftest import Placet, environment
from tests.events.otel.receiver import Receiver
from tests.warm import Warm

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def config(receiver: Receiver, tmp_path: Path) -> str:
    """A person's settings that switch traces on."""
    receiver.requests.clear()
    folder = tmp_path / "config"
    (folder / "placet").mkdir(parents=True)
    (folder / "placet" / "settings.toml").write_text(
        f'[otel]\nenabled = true\nendpoint = "{receiver.url}"\n', encoding="utf-8"
    )
    return str(folder)


def test_a_command_belongs_to_the_trace_of_whoever_starts_it(
    placet: Placet, plan: Callable[..., Path], tools: Path, receiver: Receiver, config: str
) -> None:
    done = placet(
        "run",
        plan({"id": "a", "type": "tool_call", "tool": "look"}),
        *("--tools", tools, "--json"),
        XDG_CONFIG_HOME=config,
        TRACEPARENT=CALLER,
    )

    spans = receiver.spans()
    assert done.code == 0, done.err
    assert {span.trace for span in spans} == {TRACE}
    (run,) = [span for span in spans if span.name == "invoke_workflow test"]
    assert (run.parent, run.run, run.status) == ("b7ad6b7169203331", done.json["run_id"], "ok")


def test_a_receiver_that_is_not_there_changes_nothing_but_the_log(
    placet: Placet, plan: Callable[..., Path], tools: Path, config: str
) -> None:
    settings = Path(config) / "placet" / "settings.toml"
    settings.write_text('[otel]\nenabled = true\nendpoint = "http://127.0.0.1:9"\n', encoding="utf-8")
    written = plan({"id": "a", "type": "tool_call", "tool": "look"})

    done = placet("run", written, "--tools", tools, "--db", "x.db", XDG_CONFIG_HOME=config)
    log = placet("log", "query", "--db", "x.db", "--kind", "sink_failed", "--json", XDG_CONFIG_HOME=config)

    assert (done.code, "OpenTelemetry" in done.err + done.out) == (0, False)
    assert [event["data"]["sink"] for event in log.json["events"]] == ["OpenTelemetrySink"]


def test_a_mistake_in_the_settings_names_the_key(
    placet: Placet, plan: Callable[..., Path], tools: Path, config: str
) -> None:
    settings = Path(config) / "placet" / "settings.toml"
    settings.write_text("[otel]\nenabled = true\nratio = 2\n", encoding="utf-8")

    done = placet("run", plan(), "--tools", tools, XDG_CONFIG_HOME=config)

    assert done.code == 2
    assert "otel.ratio" in done.err


async def test_a_call_over_mcp_is_one_trace_in_both_programs(
    receiver: Receiver, config: str, tools: Path, warm: Warm, tmp_path: Path
) -> None:
    """We call `placet mcp serve`: its run is the child of our call."""
    environ = environment(XDG_CONFIG_HOME=config)
    server = McpServer(
        command=(*warm.command, "mcp", "serve", "--tools", str(tools), "--db", "none"),
        folder=str(tmp_path),
        environment=tuple(environ),
    )
    connections = Connections({**os.environ, **environ})
    try:
        on = {offer.name: switch_on(offer, read_only=True) for offer in connections.offers("s", server)}
        (look,) = [
            each for each in connections.tools("s", replace(server, tools=on)) if each.name == "s.look"
        ]
        sink = OpenTelemetrySink(OtelSettings(endpoint=receiver.url))
        runtime = Runtime([look], events=EventLog(sinks=[sink]))
        result = await runtime.execute(proposal(action("a", "s.look", parameters={"what": "y"})))
        runtime.events.flush()
    finally:
        connections.close()
    assert sink.close() is None

    spans = receiver.spans()
    assert result.succeeded, result
    (call,) = [span for span in spans if span.name == "execute_tool s.look"]
    (served,) = [
        span for span in spans if span.name.startswith("invoke_workflow") and span.run != result.run_id
    ]
    assert {span.trace for span in spans} == {result.trace_id}
    assert served.parent == call.id


def test_a_worker_exports_its_queue_and_the_run_in_the_trace_of_whoever_submitted_it(
    placet: Placet, plan: Callable[..., Path], receiver: Receiver, config: str, tmp_path: Path
) -> None:
    """Nobody has traces switched on where it is submitted."""
    written = plan({"id": "a", "type": "tool_call", "tool": "calculate", "parameters": {"expression": "1"}})
    submit = ("submit", written, "--db", "x.db", "--json")
    run = placet(*submit, TRACEPARENT=CALLER)
    later = placet(*submit, "--in", "1h")
    assert (run.code, later.code) == (0, 0), run.err + later.err
    with open_database(str(tmp_path / "x.db")) as database:
        other = WorkerInfo(id="other", holder=holder("x"), queue="else", concurrency=1, version="0")
        SqlSubmissions(database, lease_s=600).heartbeat(other)

    done = placet("worker", "--db", "x.db", "--burst", XDG_CONFIG_HOME=config)

    spans, metrics = receiver.spans(), receiver.metrics()
    assert done.code == 0, done.err
    assert {(span.run, span.trace) for span in spans} == {(run.json["run_id"], TRACE)}
    assert "b7ad6b7169203331" in {span.parent for span in spans}
    assert (1, {"queue": "default", "state": "queued"}) in metrics["placet.queue.depth"]
    assert (0, {"queue": "default", "state": "dead"}) in metrics["placet.queue.depth"]
    assert (1, {"queue": "else", "state": "up"}) in metrics["placet.workers"]
    ((at_work, about),) = metrics["placet.worker.runs"]
    assert (at_work, about["queue"], about["worker"] != "other") == (0, "default", True)
