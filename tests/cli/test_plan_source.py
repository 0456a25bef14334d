"""A run of a plan is known by the plan's name, wherever runs are listed, told and added up."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet import Proposal, Runtime, SqlJournal, open_database

Placet = Callable[..., Any]

WRITE = {"id": "w", "type": "state_write", "parameters": {"key": "k", "value": 1}}


@pytest.mark.parametrize(
    ("named", "source"),
    [
        ({}, "deploy.prod"),
        ({"id": "release-7"}, "release-7"),
        ({"id": "release-7", "source": "planner"}, "planner"),
        ({"source": "unknown", "id": ""}, "deploy.prod"),
    ],
    ids=["neither", "id", "source", "empty"],
)
def test_a_plan_is_known_by_its_source_its_id_or_its_file(
    placet: Placet, tmp_path: Path, named: dict[str, str], source: str
) -> None:
    (tmp_path / "deploy.prod.json").write_text(json.dumps({**named, "actions": [WRITE]}))

    assert placet("run", "deploy.prod.json", "--db", "kept.db", "--run-id", "r1").code == 0

    [listed] = placet("runs", "--db", "kept.db", "--json").json["runs"]
    events = placet("log", "show", "r1", "--db", "kept.db", "--json").json["events"]
    told = placet("explain", "r1", "--db", "kept.db")
    assert listed["source"] == source
    told_by = [e["data"]["source"] for e in events if "source" in e.get("data", {})]
    assert set(told_by) == {source}
    assert f"'{source}'" in told.out.splitlines()[0]
    assert source in placet("runs", "--db", "kept.db").out
    costs = placet("log", "costs", "--by", "agent", "--db", "kept.db", "--json").json["costs"]
    assert [cost["agent"] for cost in costs] == [source]


def test_a_plan_from_a_pipe_is_known_as_that(placet: Placet) -> None:
    placet("run", "-", "--db", "kept.db", stdin=json.dumps({"actions": [WRITE]}))

    [listed] = placet("runs", "--db", "kept.db", "--json").json["runs"]
    assert listed["source"] == "stdin"


def test_a_run_that_goes_on_keeps_the_name(placet: Placet, tools: Path, tmp_path: Path) -> None:
    mark = {"id": "m", "tool": "mark", "parameters": {"file": "trace"}}
    (tmp_path / "deploy.json").write_text(json.dumps({"actions": [mark]}))
    begun = placet(
        *("run", "deploy.json", "--tools", tools, "--db", "kept.db", "--run-id", "r1"),
        *("--permissions", "read_only"),
    )
    assert begun.code == 4
    [asked] = placet("approvals", "--db", "kept.db", "--json").json["approvals"]
    assert placet("approvals", "approve", asked["id"], "--by", "ann", "--db", "kept.db").code == 0

    done = placet("resume", "r1", "--db", "kept.db")

    assert done.code == 0, done.err
    ended = placet("log", "query", "--kind", "proposal_ended", "--db", "kept.db", "--json").json["events"]
    assert [event["data"]["source"] for event in ended] == ["deploy", "deploy"]


@pytest.mark.parametrize(
    ("named", "source"),
    [({"id": "order-7"}, "order-7"), ({"id": "order-7", "source": "planner"}, "planner"), ({}, "unknown")],
    ids=["id", "source", "neither"],
)
@pytest.mark.parametrize("make", [dict, json.dumps, Proposal], ids=["dict", "text", "Proposal"])
def test_a_plan_of_a_program_is_known_by_its_source_or_its_id(
    tmp_path: Path, make: Any, named: dict[str, str], source: str
) -> None:
    with open_database(f"{tmp_path}/j.db") as database:
        journal = SqlJournal(database)
        plan = make(**named) if make is Proposal else make({**named, "actions": []})
        Runtime(journal=journal).execute_sync(plan, run_id="r1")

        assert journal.find("r1").source == source
