"""Results on the wire: their fields, and that they are JSON."""

from __future__ import annotations

import json

import msgspec

from placet import ProposalResult, Runtime, ToolSchema
from placet.ir.codec import encode
from tests.runtime.plans import Recorder, call, claim, plan, undone_by, write


async def test_a_result_has_the_fields_that_are_promised(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[
            recorder.tool("book", reversibility="compensable"),
            recorder.tool("unbook"),
            recorder.tool("pay", raises=ConnectionResetError("gone")),
        ]
    )

    result = await rt.execute(plan(call("a", "book", **undone_by("unbook")), call("b", "pay")))

    document = json.loads(encode(result))
    assert document.keys() == {
        "proposal_id",
        "run_id",
        "trace_id",
        "outcome",
        "error",
        "results",
        "cost",
        "waiting",
        "irreversible",
        "undo_commands",
        "compensations",
        "replans",
    }
    assert document["results"][0].keys() == {
        "action_id",
        "status",
        "output",
        "error",
        "state_changes",
        "duration_ms",
        "timestamp",
        "rolled_back",
    }
    assert document["cost"].keys() == {
        "tool_calls",
        "actions_executed",
        "actions_rejected",
        "actions_skipped",
        "total_duration_ms",
        "retries",
    }
    assert document["compensations"] == [{"action_id": "a", "status": "succeeded", "error": None}]
    assert document["waiting"][0]["action_id"] == "b"


async def test_a_result_is_read_back_equal() -> None:
    result = await Runtime().execute(plan(write("a", "k", {"x": [1, None, "ä"]}), claim("b", "k", 1)))

    assert msgspec.json.decode(encode(result), type=ProposalResult) == result


async def test_every_result_says_when_it_came_about() -> None:
    result = await Runtime().execute(plan(write("a", "k", 1), call("b", "nope", failure_behavior="skip")))

    assert all(r.timestamp.tzinfo is not None for r in result.results)
    assert result["a"].duration_ms is not None
    assert result["b"].duration_ms is None


def test_a_tool_that_declares_nothing_is_destructive_and_irreversible() -> None:
    schema = ToolSchema(name="t")

    assert schema.risk == "destructive"
    assert schema.undo == "irreversible"
    assert (schema.idempotent, schema.deduplicates, schema.repeatable) == (False, False, False)


def test_a_tool_that_only_reads_leaves_nothing_to_undo() -> None:
    assert ToolSchema(name="t", risk="read_only").undo == "reversible"
