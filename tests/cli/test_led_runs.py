"""A run that a model led, as a person finds it again: `explain`, `runs`, `log show`, `log costs`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet import Assistant, EventLog, JsonlSink, MemoryApprovals, Runtime, SqlEvents, SqlJournal, tool
from placet.inference import Result, Scripted, ToolCall, Usage
from placet.runtime.sync import run_sync
from placet.storage.location import open_database

Placet = Callable[..., Any]

USAGE = Usage(input=90, output=10)


@tool(risk="read_only")
def look(name: str) -> str:
    """Look something up."""
    return name


@tool
def change(name: str) -> str:
    """Change something."""
    return name


def _asks(tool: str) -> Result:
    call = ToolCall(id="c", name=tool, arguments={"name": "x"})
    return Result(calls=[call], usage=USAGE, cost=0.5, stop="calls")


async def _work(folder: Path) -> None:
    with open_database(str(folder / "kept.db")) as database:
        log = EventLog(sinks=[SqlEvents(database), JsonlSink(folder / "led.jsonl")])
        runtime = Runtime(
            tools=[look, change],
            events=log,
            journal=SqlJournal(database),
            approvals=MemoryApprovals(),
            patience_s=0,
        )
        done = Result(text="It is x.", usage=USAGE, cost=0.5)
        await Assistant(runtime, Scripted([_asks("look"), done])).run("What is it?", run_id="led-1")
        await Assistant(runtime, Scripted([_asks("change")]), name="clerk").run("Do it.", run_id="led-2")
        async with Assistant(runtime, Scripted(["Hello to you."])).chat("chat-1") as chat:
            await chat.say("Hello.")


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Where three are kept: one that is done, one that waits for an approval, and a conversation."""
    run_sync(_work(tmp_path))
    return tmp_path / "kept.db"


def test_explain_tells_the_turns_from_the_database_and_from_a_file(placet: Placet, kept: Path) -> None:
    from_database = placet("explain", "led-1", "--db", str(kept))
    from_file = placet("explain", str(kept.parent / "led.jsonl"), "--run", "led-1")

    assert from_database.code == from_file.code == 0
    for told in (from_database.out, from_file.out):
        assert "Task: What is it?" in told
        assert "2 turns, 1 call, succeeded, 180 tokens in, 20 out, $1.0000." in told
        assert "Turn 1 asked for look" in told
    assert f"placet log show led-1 --db {kept}" in from_database.out


def test_explain_gives_the_turns_as_json(placet: Placet, kept: Path) -> None:
    done = placet("explain", "led-1", "--db", str(kept), "--json")

    loop = json.loads(done.out)["loop"]
    [message] = loop["messages"]
    assert [turn["calls"] for turn in message["turns"]] == [["look"], []]
    assert message["ended"]["status"] == "success"
    assert loop["spent"]["cost_usd"] == 1.0


def test_what_a_program_began_only_the_program_can_go_on_with(placet: Placet, kept: Path) -> None:
    done = placet("explain", "led-2", "--db", str(kept))

    assert "? It waits for a person" in done.out
    assert "assistant.resume('led-2'), in the program that began it" in done.out
    assert "placet resume" not in done.out


def test_runs_lists_and_shows_them_turn_by_turn(placet: Placet, kept: Path) -> None:
    listed = placet("runs", "--db", str(kept)).out.splitlines()
    shown = placet("runs", "show", "led-1", "--db", str(kept)).out
    waits = placet("runs", "show", "led-2", "--db", str(kept)).out
    chat = placet("runs", "show", "chat-1", "--db", str(kept)).out

    assert [line.split()[0] for line in listed[1:]] == ["chat-1", "led-2", "led-1"]
    assert " - " in listed[3]
    assert "assistant: What is it?" in listed[3]
    assert "? waiting " in listed[2]
    assert "· idle chat " in listed[1]
    assert "✓ succeeded  run led-1  2 turns, 180 tokens in, 20 out, $1.0000" in shown
    assert "t1c1  look  succeeded" in shown
    assert "It said last: It is x." in shown
    assert "waits for approval" in waits
    assert "turn 1  Hello to you." in chat
    assert "waiting for a person" not in chat
    assert "It said last" not in waits
    assert "To go on with the conversation:" in chat
    data = json.loads(placet("runs", "show", "led-1", "--db", str(kept), "--json").out)
    assert data["result"]["loop"]["summary"] == "It is x."


KILLED = """
import os, sys
from placet import Assistant, EventLog, Runtime, SqlEvents, SqlJournal, open_database, tool
from placet.inference import Result, Scripted, ToolCall
from placet.runtime.sync import run_sync

@tool
def pay() -> str:
    if sys.argv[2] == "die":
        os.kill(os.getpid(), 9)
    return "paid"

asks = Result(text="I pay.", calls=[ToolCall(id="c", name="pay", arguments={})], stop="calls")
with open_database(sys.argv[1]) as database:
    rt = Runtime(tools=[pay], events=EventLog(sinks=[SqlEvents(database)]), journal=SqlJournal(database))
    if sys.argv[2] == "die":
        Assistant(rt, Scripted([asks]), posture="full_access").run_sync("Pay.", run_id="killed")
    decide = {"t1c1": "done"} if sys.argv[2] == "decide" else None
    run_sync(Assistant(rt, Scripted(["All is paid."]), posture="full_access").resume("killed", decide=decide))
"""


def test_a_killed_run_is_told_as_such_then_as_waiting_then_as_decided(placet: Placet, tmp_path: Path) -> None:
    db = str(tmp_path / "killed.db")

    def work(how: str) -> int:
        return subprocess.run([sys.executable, "-c", KILLED, db, how], check=False).returncode

    assert work("die") == -signal.SIGKILL
    killed = placet("explain", "killed", "--db", db).out
    assert work("look") == 0
    waits = placet("explain", "killed", "--db", db).out
    assert work("decide") == 0
    done = placet("explain", "killed", "--db", db).out

    assert "? It was broken off: its process is gone." in killed
    assert "? t1c1 (pay): it is not known whether it took effect" in killed
    assert "? It waits for a person: it was in flight when the run was broken off" in waits
    assert "assistant.resume('killed', decide={'t1c1': CHOICE}), in the program that began it" in waits
    assert "It was broken off and taken up again when 0 actions had ended" in done
    assert "It let go to wait for a person, and was taken up again" in done
    assert "it was decided: 't1c1' done." in done
    assert done.count("Turn 1 asked for pay") == 1
    assert "✓ The model was done." in done


KILLS = """
import os, sys
from pathlib import Path

from placet import tool


@tool
def pay(to: str, key: str, note: str) -> str:
    if Path("die").exists():
        os.kill(os.getpid(), 9)
    return "paid"
"""


def test_who_has_to_decide_about_a_call_sees_which_it_is(
    placet: Placet, fresh: Placet, tmp_path: Path
) -> None:
    (tmp_path / "pay.py").write_text(KILLS)
    (tmp_path / "die").touch()
    given = {"to": "ann", "key": "ghp_" + "a1B2c3D4e5F6" * 3, "note": "x\\x1b[2J" * 400}
    turns = [{"text": "I pay.", "calls": [{"name": "pay", "arguments": given}]}, "All is paid."]
    (tmp_path / "script.json").write_text(json.dumps({"turns": turns}))
    kept = ("--db", "kept.db", "--model", "scripted:script.json")
    begun = fresh("do", "Pay.", *kept, "--tools", "pay.py", "--yes-to", "full_access", "--run-id", "r1")
    assert begun.code == -signal.SIGKILL
    (tmp_path / "die").unlink()

    killed = placet("explain", "r1", "--db", "kept.db")
    resumed = placet("resume", "r1", *kept)
    waits = placet("explain", "r1", "--db", "kept.db")
    shown = placet("runs", "show", "r1", "--db", "kept.db")

    assert resumed.code == 4
    assert "t1c1: pay with to=ann, key=" in resumed.err
    assert "0 turns" not in resumed.err
    for done in (killed, waits):
        assert "It was called with to=ann, key=" in done.out
    assert "to=ann, key=" in shown.out
    for done in (resumed, killed, waits, shown):
        assert "a1B2c3D4" not in done.out + done.err
        assert "\x1b" not in done.out + done.err


def test_what_a_call_was_given_and_what_came_of_it_is_told(placet: Placet, kept: Path) -> None:
    for words in (["explain", "led-1"], ["runs", "show", "led-1"], ["log", "show", "led-1"]):
        assert "name=x" in placet(*words, "--db", str(kept)).out
    assert "      name=x → x\n" in placet("explain", "led-1", "--db", str(kept)).out


def test_log_show_begins_with_the_newest_also_if_it_called_nothing(placet: Placet, kept: Path) -> None:
    newest = placet("log", "show", "--db", str(kept)).out

    assert "turn asked                  Hello." in newest
    assert "led-1" not in newest


def test_log_costs_tells_tokens_and_money_by_agent(placet: Placet, kept: Path) -> None:
    lines = placet("log", "costs", "--db", str(kept)).out.splitlines()
    listed = json.loads(placet("log", "costs", "--db", str(kept), "--json").out)["costs"]

    told = {line.split()[0]: line.split() for line in lines}
    agents = {cost["agent"]: cost for cost in listed}
    assert told["clerk"][1:3] == ["1", "0"]
    assert told["clerk"][-5:] == ["1", "90", "-", "10", "$0.5000"]
    assert told["assistant"][1:3] == ["2", "1"]
    assert " ".join(told["assistant"]).endswith(" 3 180 + ? - 20 + ? $1.0000 + ?")
    assert agents["assistant"]["unpriced_answers"] == 1
    assert agents["clerk"]["cost_usd"] == 0.5
