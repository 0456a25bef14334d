"""`placet submit`: a run is stored for workers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet.app.app import open_records
from placet.engine.opening import open_engine
from placet.engine.protocol import State
from placet.engine.sql import SqlSubmissions
from placet.ir.codec import decode_proposal
from placet.ir.result import ProposalResult
from placet.runtime.journal import RunRecord, Taken
from placet.runtime.sync import run_sync
from tests.cli.conftest import Placet


def test_the_same_plan_under_the_same_key_is_one_run(placet: Placet, plan: Callable[..., Path]) -> None:
    """Also one that leaves ids and its time to be made up."""
    written = plan({"type": "tool_call", "tool": "echo", "parameters": {"text": "hi"}})
    command = ("submit", written, "--key", "k", "--db", "x.db", "--json")

    first, second = placet(*command), placet(*command)
    other = placet("submit", plan({"type": "state_read", "parameters": {"key": "a"}}), *command[2:])

    assert (first.code, second.code, other.code) == (0, 0, 2)
    assert first.json["run_id"] == second.json["run_id"]
    listed = [placet("runs", "list", *more, *command[4:]) for more in ((), ("--status", "waiting"))]
    assert [len(each.json["submitted"]) for each in listed] == [1, 0]


def test_a_submitted_run_that_was_resumed_by_hand_is_over_for_its_workers(
    placet: Placet, plan: Callable[..., Path], tmp_path: Path
) -> None:
    db = str(tmp_path / "x.db")
    written = plan({"type": "tool_call", "tool": "write_file", "parameters": {"path": "a", "text": "b"}})
    asked = ("--permissions", "read_only", "--run-id", "r", "--db", db)
    assert placet("submit", written, *asked).code == 0
    assert placet("worker", "--burst", "--db", db).code == 0
    with open_records(db, writes=True) as records:
        (approval,) = records.approvals.pending()
        records.approvals.decide(approval.id, "once", by="ann")

    resumed = placet("resume", "r", "--db", db)
    placet("worker", "--burst", "--db", db)

    assert resumed.code == 0, resumed.err
    assert placet("workers", "--db", db, "--json").json["queues"] == {"default": {"ended": 1}}


@pytest.mark.parametrize("was", ["waiting", "canceled"])
def test_a_submitted_run_that_another_process_goes_on_with_is_stopped_there(
    placet: Placet, plan: Callable[..., Path], tmp_path: Path, was: str
) -> None:
    db = str(tmp_path / "x.db")
    written = plan({"type": "tool_call", "tool": "write_file", "parameters": {"path": "a", "text": "b"}})
    asked = ("--permissions", "read_only", "--run-id", "r", "--db", db)
    assert placet("submit", written, *asked).code == 0
    assert placet("worker", "--burst", "--db", db).code == 0
    if was == "canceled":
        assert placet("runs", "cancel", "r", "--db", db).code == 0

    with open_records(db, writes=True) as elsewhere:
        taken = run_sync(elsewhere.journal.take("r"))
        assert isinstance(taken, Taken)
        canceled = placet("runs", "cancel", "r", "--reason", "enough", "--db", db, "--json")
        asked_to = taken.journal.stop_requested()
        taken.journal.release()

    assert (canceled.code, canceled.json["was"], canceled.json["accepted"]) == (0, was, True)
    assert asked_to is not None
    assert asked_to.reason == "enough"


def test_run_that_waits_for_a_person_is_canceled_without_a_worker(
    placet: Placet, plan: Callable[..., Path], tmp_path: Path
) -> None:
    db = ("--db", str(tmp_path / "x.db"))
    written = plan({"type": "tool_call", "tool": "write_file", "parameters": {"path": "a", "text": "b"}})
    assert placet("submit", written, "--permissions", "read_only", "--run-id", "r", *db).code == 0
    assert placet("worker", "--burst", *db).code == 0

    canceled = placet("runs", "cancel", "r", *db, "--json")
    shown = placet("runs", "show", "r", *db, "--json").json
    again = placet("runs", "cancel", "r", *db)

    assert (canceled.code, canceled.json["was"], canceled.json["state"]) == (0, "waiting", "canceled")
    assert (shown["status"], shown["submission"]["state"]) == ("canceled", "canceled")
    assert [each["status"] for each in shown["result"]["results"]] == ["skipped"]
    assert [each["command"] for each in shown["next"]] == [f"placet resume r --db {db[1]}"]
    assert placet("approvals", "list", *db, "--json").json["approvals"] == []
    assert again.code == 1
    assert "'r'" in again.err

    assert placet("runs", "retry", "r", *db).code == 0
    assert placet("worker", "--burst", *db).code == 0
    assert placet("runs", "show", "r", *db, "--json").json["status"] == "waiting"


def test_submitted_run_that_waits_again_after_it_was_resumed_by_hand_is_canceled(
    placet: Placet, plan: Callable[..., Path], tmp_path: Path
) -> None:
    db = ("--db", str(tmp_path / "x.db"))
    written = plan({"type": "tool_call", "tool": "write_file", "parameters": {"path": "a", "text": "b"}})
    assert placet("submit", written, "--permissions", "read_only", "--run-id", "r", *db).code == 0
    assert placet("worker", "--burst", *db).code == 0
    assert placet("runs", "cancel", "r", *db).code == 0
    assert placet("resume", "r", *db).code == 4

    canceled = placet("runs", "cancel", "r", *db, "--json")

    assert (canceled.code, canceled.json["was"], canceled.json["state"]) == (0, "waiting", "canceled")
    assert placet("approvals", "list", *db, "--json").json["approvals"] == []


def test_run_that_was_not_submitted_and_waits_for_a_person_is_canceled(
    placet: Placet, plan: Callable[..., Path], tmp_path: Path
) -> None:
    db = ("--db", str(tmp_path / "x.db"))
    written = plan({"type": "tool_call", "tool": "write_file", "parameters": {"path": "a", "text": "b"}})
    assert placet("run", written, "--permissions", "read_only", "--run-id", "r", *db).code == 4

    canceled = placet("runs", "cancel", "r", "--reason", "enough", *db, "--json")
    shown = placet("runs", "show", "r", *db, "--json").json
    left = placet("approvals", "list", *db, "--json").json["approvals"]
    resumed = placet("resume", "r", *db)
    told, again = (placet("runs", "cancel", "r", *db) for _ in range(2))

    assert (canceled.code, canceled.json) == (
        0,
        {"run_id": "r", "was": "waiting", "state": "canceled", "accepted": True},
    )
    assert (shown["result"]["outcome"], shown["result"]["stop_cause"]) == ("canceled", "person")
    assert [each["status"] for each in shown["result"]["results"]] == ["skipped"]
    assert [each["command"] for each in shown["next"]] == [f"placet resume r --db {db[1]}"]
    assert left == []
    assert resumed.code == 4, "it asks again"
    assert (told.code, f"placet resume r --db {db[1]}" in told.err) == (0, True)
    assert (again.code, "canceled" in again.err) == (1, True)


@pytest.mark.parametrize(("command", "state"), [("do", "canceled"), ("chat", "waiting")])
def test_turns_that_were_not_submitted_and_wait_for_a_person_ask_nothing_more(
    placet: Placet, tmp_path: Path, command: str, state: str
) -> None:
    """A conversation goes on with its next message, as before."""
    db = ("--db", str(tmp_path / "x.db"))
    call = {"name": "write_file", "arguments": {"path": "a", "text": "b"}}
    (tmp_path / "m.json").write_text(json.dumps({"turns": [{"calls": [call]}]}))
    model = ("--model", f"scripted:{tmp_path / 'm.json'}", "--permissions", "read_only", "--run-id", "r")
    words, given = ((), {"stdin": "write\n"}) if command == "chat" else (("write",), {})
    assert placet(command, *words, *model, *db, **given).code == 4
    asked = placet("approvals", "list", *db, "--json").json["approvals"]

    canceled, again = (placet("runs", "cancel", "r", *db, "--json") for _ in range(2))
    shown = placet("runs", "show", "r", *db, "--json").json
    left = placet("approvals", "list", *db, "--json").json["approvals"]

    assert (len(asked), left) == (1, [])
    assert (canceled.code, canceled.json["state"], again.code) == (0, state, 1)
    assert shown["status"] == state
    assert f"placet resume r --db {db[1]}" in [each["command"] for each in shown["next"]]
    if command == "do":
        assert shown["result"]["loop"]["status"] == "cancelled"
        assert placet("resume", "r", *db).code == 4, "it asks again"


def test_run_that_waits_with_the_one_that_started_it_is_stopped_there(placet: Placet, tmp_path: Path) -> None:
    db = str(tmp_path / "x.db")
    waits = ProposalResult(proposal_id="p", run_id="part", trace_id="t", outcome="waiting")
    with open_records(db, create=True, writes=True) as records:
        part = decode_proposal(b'{"id": "p", "source": "s", "actions": [{"id": "a", "tool": "echo"}]}')
        record = RunRecord(run_id="part", trace_id="t", proposal=part, parent="whole")
        held = run_sync(records.journal.begin(record))
        run_sync(held.end(waits))

    canceled = placet("runs", "cancel", "part", "--db", db)

    assert (canceled.code, f"placet runs cancel whole --db {db}" in canceled.err) == (1, True)
    assert placet("runs", "show", "part", "--db", db, "--json").json["status"] == "waiting"


def test_decision_that_comes_while_a_run_is_canceled_leaves_it_to_a_worker(
    placet: Placet, plan: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = str(tmp_path / "x.db")
    written = plan({"type": "tool_call", "tool": "write_file", "parameters": {"path": "a", "text": "b"}})
    assert placet("submit", written, "--permissions", "read_only", "--run-id", "r", "--db", db).code == 0
    assert placet("worker", "--burst", "--db", db).code == 0
    real = SqlSubmissions.cancel

    def decided_first(self: SqlSubmissions, *given: Any, **more: Any) -> State | None:
        assert self.wake_waiting("r")
        return real(self, *given, **more)

    with open_engine(db) as engine, monkeypatch.context() as patched:
        patched.setattr(SqlSubmissions, "cancel", decided_first)
        accepted = run_sync(engine.cancel("r", "no longer wanted"))
    between = placet("runs", "show", "r", "--db", db, "--json").json
    assert placet("worker", "--burst", "--db", db).code == 0
    after = placet("runs", "show", "r", "--db", db, "--json").json

    assert accepted
    assert (between["status"], between["submission"]["state"]) == ("waiting", "queued")
    assert between["next"] == []
    assert "being canceled" in between["submission"]["waits_for"]
    assert (after["status"], after["submission"]["state"]) == ("canceled", "canceled")
    assert not (tmp_path / "a").exists()


def test_id_that_is_not_known_and_one_that_is_not_unique_are_told_apart(
    placet: Placet, plan: Callable[..., Path]
) -> None:
    written = plan({"type": "tool_call", "tool": "write_file", "parameters": {"path": "a", "text": "b"}})
    for name in ("run-1", "run-2"):
        assert placet("submit", written, "--run-id", name, "--db", "x.db").code == 0

    asked = ("--permissions", "read_only", "--run-id", "run-3", "--db", "x.db")
    assert placet("run", written, *asked).code == 4

    unknown, several, others = (
        placet("runs", "cancel", each, "--db", "x.db") for each in ("nope", "run-", "run-3")
    )

    assert (unknown.code, several.code) == (2, 2)
    assert all(f"'run-{number}'" in several.err for number in (1, 2, 3))
    assert "submitted" not in unknown.err
    assert (others.code, "run-3" in others.err) == (0, True)


def test_beginning_of_an_id_that_fits_several_runs_that_were_not_submitted_names_them(
    placet: Placet, plan: Callable[..., Path]
) -> None:
    written = plan({"type": "tool_call", "tool": "write_file", "parameters": {"path": "a", "text": "b"}})
    for name in ("run-1", "run-2"):
        asked = ("--permissions", "read_only", "--run-id", name, "--db", "x.db")
        assert placet("run", written, *asked).code == 4

    canceled, shown = (placet("runs", each, "run-", "--db", "x.db") for each in ("cancel", "show"))

    assert (canceled.code, canceled.err) == (2, shown.err)
    assert all(f"'run-{number}'" in canceled.err for number in (1, 2))


def test_run_that_begins_later_says_when(placet: Placet, plan: Callable[..., Path]) -> None:
    written = plan({"type": "tool_call", "tool": "echo", "parameters": {"text": "hi"}})

    later = placet("submit", written, "--run-id", "r", "--in", "10m", "--db", "x.db")
    now = placet("submit", written, "--run-id", "s", "--db", "x.db")
    shown = [placet("runs", "show", each, "--db", "x.db").out for each in ("r", "s")]

    assert ["begins at" in each for each in (later.err, now.err, *shown)] == [True, False, True, False]
