"""Secrets leave the log by none of its ways out."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet import EventLog, Runtime
from placet.events.sql import SqlEvents
from placet.redaction import REDACTED, Redactor
from placet.storage.location import open_database
from tests.events.test_sinks import Kept
from tests.runtime.plans import call, plan, tool_of

SECRET = "correct-horse-battery"


@pytest.fixture
def log() -> EventLog:
    log = EventLog(redactor=Redactor([SECRET]))
    log.append(
        "action_succeeded",
        "r1",
        f"plan {SECRET}",
        f"act {SECRET}",
        "t1",
        "s1",
        data={"tool": "note", "output": f"it is {SECRET}", "password": "anything"},
    )
    log.append(
        "proposal_ended", "r1", "p1", None, "t1", "s0", data={"source": SECRET, "cost": {"tool_calls": 1}}
    )
    return log


def test_iterating_querying_spans_and_sums_show_no_secret(log: EventLog) -> None:
    ways = [
        list(log),
        log.query(),
        log.query(run="r1", limit=5, newest=True),
        log.spans(),
        log.cost_by_agent(),
    ]

    assert all(SECRET not in repr(way) for way in ways)
    first = log.query()[0]
    assert first.data == {"tool": "note", "output": f"it is {REDACTED}", "password": REDACTED}
    assert (first.action_id, first.proposal_id) == (f"act {REDACTED}", f"plan {REDACTED}")
    assert log.spans()[0].action_id == f"act {REDACTED}"


def test_an_event_without_a_secret_is_handed_out_as_it_is(log: EventLog) -> None:
    log.append("turn_note", data={"n": 1})

    assert log.query(kind="turn_note")[0] is log.query(kind="turn_note")[0]


def test_a_secret_registered_later_is_gone_from_earlier_events_too() -> None:
    log = EventLog()
    log.append("turn_note", data={"text": SECRET})

    log.redactor.add_secret(SECRET)

    assert SECRET not in repr(list(log))


async def test_sinks_get_events_without_secrets() -> None:
    sink = Kept()
    log = EventLog(sinks=[sink], redactor=Redactor([SECRET]))
    rt = Runtime(tools=[tool_of("tell", lambda: {"said": SECRET, "api_key": "k-1"})], events=log)

    result = await rt.execute(plan(call("a", "tell")))

    assert result.succeeded
    assert sink.events
    assert SECRET not in repr(sink.events)
    assert "k-1" not in repr(sink.events)


def test_no_secret_reaches_the_disk(tmp_path: Path) -> None:
    with open_database(str(tmp_path / "a.db")) as database:
        log = EventLog(sinks=[SqlEvents(database)], redactor=Redactor([SECRET]))
        log.append("turn_note", "r1", f"p {SECRET}", f"a {SECRET}", data={SECRET: [SECRET]})

    assert all(SECRET.encode() not in file.read_bytes() for file in tmp_path.iterdir())
    assert log.lost == 0


async def test_a_checkpoint_holds_no_secret_in_its_events() -> None:
    rt = Runtime(tools=[tool_of("tell", lambda: SECRET)], events=EventLog(redactor=Redactor([SECRET])))
    await rt.execute(plan(call("a", "tell")))

    assert SECRET not in repr(rt.checkpoint().events)


async def test_a_secret_that_an_error_message_escapes_does_not_reach_the_disk(tmp_path: Path) -> None:
    secret = "Zq9-'\"k\\w7X-p\u00e4ss"

    def look_up() -> str:
        return {"other": "x"}[secret]

    def send() -> str:
        raise ValueError(f"bad header {secret.encode()!r}, {secret!a}")

    with open_database(str(tmp_path / "a.db")) as database:
        log = EventLog(sinks=[SqlEvents(database)], redactor=Redactor([secret]))
        rt = Runtime(tools=[tool_of("look_up", look_up), tool_of("send", send)], events=log)
        for name in ("look_up", "send"):
            assert not (await rt.execute(plan(call("a", name)))).succeeded
        log.flush()

    written = (tmp_path / "a.db").read_bytes()
    assert b"bad header" in written
    assert b"w7X" not in written
