"""The event log: order, what each event carries, questions to it, and its bound."""

from __future__ import annotations

import time
from datetime import UTC

import pytest

from placet import EventLog, ReplanConfig, Runtime, Scope, tool
from placet.events.event import KINDS
from tests.runtime.plans import Recorder, call, claim, plan, write


async def test_events_are_ordered_by_seq_without_a_gap(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("note")])

    await rt.execute(plan(call("a", "note"), write("b", "k", 1), claim("c", "k", 2)))
    await rt.execute(plan(call("a", "note")))

    assert [e.seq for e in rt.events] == list(range(1, len(rt.events) + 1))


async def test_times_never_run_backwards_within_a_run(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("note")])

    await rt.execute(plan(*(call(f"a{n}", "note") for n in range(50))))

    times = [e.time for e in rt.events.query(kind=["action_executing", "action_succeeded"])]
    assert times == sorted(times)
    assert abs(times[0] - time.time()) < 60


async def test_an_event_says_which_run_proposal_action_trace_span_and_tenant_it_belongs_to() -> None:
    rt = Runtime()

    result = await rt.execute(plan(write("a", "k", 1), id="p7"), run_id="r7", scope=Scope(tenant="t7"))

    (event,) = rt.events.query(kind="action_succeeded")
    assert (event.run_id, event.proposal_id, event.action_id) == ("r7", "p7", "a")
    assert (event.trace_id, event.tenant) == (result.trace_id, "t7")
    assert event.span_id
    assert event.at.tzinfo is UTC


async def test_a_run_begins_with_its_receipt_and_ends_with_its_outcome() -> None:
    rt = Runtime()

    await rt.execute(plan(write("a", "k", 1), source="a model"))

    first, *_, last = rt.events
    assert (first.kind, last.kind) == ("proposal_received", "proposal_ended")
    assert first.data["source"] == "a model"
    assert first.data["action_count"] == 1
    assert last.data["outcome"] == "succeeded"


async def test_every_kind_that_a_run_logs_is_a_known_one(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("good"), recorder.tool("bad", raises=ValueError("no"))],
        policies=[lambda action: "no" if action.id == "denied" else None],
    )

    await rt.execute(
        plan(
            call("denied", "good", failure_behavior="skip"),
            call("invalid", "nope", failure_behavior="skip"),
            call("again", "bad", failure_behavior="retry", max_retries=1),
            write("w", "k", 1),
            claim("x", "k", 2),
        )
    )

    assert {e.kind for e in rt.events} <= set(KINDS)


async def test_a_refused_proposal_is_told_from_its_receipt_to_its_end() -> None:
    rt = Runtime()

    await rt.execute(plan(write("a", "k"), write("a", "k")))

    assert [e.kind for e in rt.events] == [
        "proposal_received",
        "action_rejected",
        "action_rejected",
        "proposal_ended",
    ]
    assert list(rt.events)[-1].data["outcome"] == "refused"


# Questions


@pytest.fixture
async def log(recorder: Recorder) -> EventLog:
    rt = Runtime(tools=[recorder.tool("note"), recorder.tool("mail")])
    await rt.execute(plan(call("a", "note"), call("b", "mail"), id="p1"), run_id="r1")
    await rt.execute(plan(call("a", "note"), write("c", "k", 1), id="p2"), run_id="r2")
    return rt.events


def test_query_by_kind(log: EventLog) -> None:
    assert {e.kind for e in log.query(kind="action_executing")} == {"action_executing"}
    assert len(log.query(kind="action_executing")) == 4
    assert len(log.query(kind=["action_executing", "action_succeeded"])) == 8
    assert log.query(kind="nothing") == []


def test_query_by_run_proposal_action_and_trace(log: EventLog) -> None:
    by_run, by_proposal = log.query(run="r1"), log.query(proposal="p1")

    assert by_run == by_proposal != []
    assert {e.proposal_id for e in log.query(action="a")} == {"p1", "p2"}
    assert log.query(trace=by_run[0].trace_id) == by_run


def test_query_by_tool(log: EventLog) -> None:
    assert {e.action_id for e in log.query(tool="mail")} == {"b"}
    assert log.query(tool="nope") == []


def test_query_by_time_includes_both_ends(log: EventLog) -> None:
    events = list(log)
    middle = events[len(events) // 2]

    assert [e for e in log.query(until=middle.time) if e.time > middle.time] == []
    assert middle in log.query(since=middle.time, until=middle.time)
    assert log.query(since=events[-1].time + 1) == []


def test_conditions_are_joined_by_and(log: EventLog) -> None:
    (event,) = log.query(kind="action_succeeded", run="r2", action="a", tool="note")

    assert event.proposal_id == "p2"


def test_without_conditions_everything_is_found_oldest_first(log: EventLog) -> None:
    assert log.query() == list(log)


def test_counts_by_kind(log: EventLog) -> None:
    counts = log.counts()

    assert counts["proposal_received"] == 2
    assert counts["action_succeeded"] == 4
    assert sum(counts.values()) == len(log)


# The ring


async def test_memory_keeps_only_the_newest_events_and_goes_on_counting() -> None:
    rt = Runtime(events=EventLog(keep=10))

    await rt.execute(plan(*(write(f"a{n}", "k", n) for n in range(100))))

    assert len(rt.events) == 10
    seqs = [e.seq for e in rt.events]
    assert seqs == list(range(seqs[0], seqs[0] + 10))
    assert seqs[-1] > 300
    assert list(rt.events)[-1].kind == "proposal_ended"


async def test_looking_at_the_log_while_it_grows_is_safe() -> None:
    rt = Runtime()
    await rt.execute(plan(write("a", "k", 1)))

    for event in rt.events:
        rt.events.append("turn_note", data={"of": event.seq})

    assert len(rt.events.query(kind="turn_note")) * 2 == len(rt.events)


def test_others_may_append_events_of_their_own_kind() -> None:
    log = EventLog()

    log.append("round_started", run_id="r", data={"n": 1})

    (event,) = log
    assert (event.kind, event.run_id, event.data) == ("round_started", "r", {"n": 1})


def test_an_event_cannot_be_changed() -> None:
    log = EventLog()
    log.append("round_started")
    (event,) = log

    with pytest.raises(AttributeError):
        event.kind = "other"  # type: ignore[misc]


async def test_cost_is_told_by_agent_and_a_replanned_run_counts_once() -> None:
    @tool(cheap=True)
    def work() -> int:
        return 1

    async def again(context: object) -> dict[str, object]:
        return {"source": "planner", "actions": [{"id": "b", "tool": "work"}]}

    rt = Runtime(tools=[work], replan=again, replan_config=ReplanConfig(max_replans=1))
    await rt.execute({"source": "planner", "actions": [{"id": "a", "tool": "missing"}]})
    await rt.execute({"source": "other", "actions": [{"id": "a", "tool": "work"}]})

    cost = rt.events.cost_by_agent()

    assert cost["planner"]["runs"] == 1
    assert cost["planner"]["tool_calls"] == 1
    assert cost["planner"]["actions_rejected"] == 1
    assert cost["other"]["tool_calls"] == 1
