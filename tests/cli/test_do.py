"""`placet do`: a job done with a scripted model, real files and a real database, where nobody is asked."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.inference.wire_server import WireServer, events

Placet = Callable[..., Any]
Script = Callable[..., str]
Start = Callable[..., subprocess.Popen[bytes]]

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

HOLD = '''
import asyncio
from pathlib import Path

from placet import tool


@tool(risk="read_only")
async def hold(until: str) -> str:
    """Wait until a file is there."""
    while not Path(until).exists():
        await asyncio.sleep(0.02)
    return "it is there"


@tool
async def pay(until: str) -> str:
    """Leave a trace, then wait until a file is there."""
    with open("paid.txt", "a") as trace:
        trace.write("paid\\n")
    return await hold.fn(until)


@tool(risk="read_only")
def shout() -> str:
    """Answer with what steers a terminal."""
    return "\\x1b]0;mine\\x07\\x1b[2Jgone"
'''


def write(path: str = "out.txt", text: str = "hello\n") -> dict[str, Any]:
    return {"name": "write_file", "arguments": {"path": path, "text": text}}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """A scripted model that answers with these turns."""

    def make(*turns: Any, name: str = "script.json") -> str:
        (tmp_path / name).write_text(json.dumps({"turns": turns}))
        return f"scripted:{tmp_path / name}"

    return make


def first_question(placet: Placet) -> str:
    [asked] = placet("approvals", "--db", "kept.db", "--json").json["approvals"]
    return str(asked["id"])


# What is shown


def test_the_words_go_to_stdout_and_the_calls_to_stderr(
    placet: Placet, script: Script, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("milk\n")
    usage = {"input": 1200, "output": 30}
    model = script(
        {"text": "I look first.", "calls": [call("read_file", path="notes.txt")], "usage": usage},
        {"text": "It says milk.", "usage": usage, "cost": 0.5},
    )

    done = placet("do", "read my notes", "--model", model, "--db", "kept.db", "--run-id", "r1")

    assert (done.code, done.out) == (0, "I look first.\nIt says milk.\n")
    assert "→ read_file path=notes.txt" in done.err
    assert "✓ read_file" in done.err
    assert "✓ done (2 turns, 2,400 tokens read, 60 written)" in done.err
    assert "placet explain r1 --db kept.db" in done.err


def test_the_ending_is_one_json_object_and_nothing_else(placet: Placet, script: Script) -> None:
    model = script({"text": "Now.", "calls": [call("calculate", expression="1+1")]}, "It is 2.")

    done = placet("do", "add", "--model", model, "--json", "--run-id", "r1")

    assert done.code == 0
    assert done.json == {
        "status": "success",
        "summary": "It is 2.",
        "turns": 2,
        "tools": ["calculate"],
        "called": ["calculate"],
        "refused": [],
        "looked": ["t1c1"],
        "changed": [],
        "ran": [],
        "lacks": [],
        "usage": None,
        "cost_usd": None,
        "run_id": "r1",
        "error": None,
        "stop_cause": None,
        "waiting": [],
        "is_cut_off": False,
        "labels": {},
        "warnings": [],
    }


def test_an_answer_without_the_calls_that_it_needs_has_no_tick_and_exit_code_1(
    placet: Placet, script: Script, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("the budget is 1200\n")
    asked = ("do", "What is the budget in notes.txt?", "--model")

    guessed = placet(*asked, script("It is 1000."), "--json", "--run-id", "guessed")
    shown = placet(*asked, script("It is 1000."))
    read = placet(*asked, script({"calls": [call("read_file", path="notes.txt")]}, "It is 1200."))

    assert (guessed.code, shown.code, read.code) == (1, 1, 0)
    assert (guessed.json["status"], guessed.json["lacks"]) == ("unsupported", ["reading"])
    assert "\u2713" not in shown.err
    assert "t1c1" in read.err.rpartition("\u2713 done")[2]
    story = placet("explain", "guessed").out
    assert "no calls" in story


def test_what_a_model_or_a_tool_writes_steers_no_terminal(
    placet: Placet, script: Script, tmp_path: Path
) -> None:
    (tmp_path / "hold.py").write_text(HOLD)
    model = script({"text": "\x1b[31mred\x9b", "calls": [call("shout"), call("no\x1b[1m")]}, "done\x07")

    done = placet("do", "shout", "--model", model, "--tools", "hold.py", "--db", "none")

    assert done.code == 0
    assert "\\e[31mred\\x9b" in done.out
    assert "\\e]0;mine" in done.err
    assert not set(done.out + done.err) & {"\x1b", "\x07", "\x9b"}


def test_a_secret_of_the_environment_is_not_shown(placet: Placet, script: Script) -> None:
    model = script("The key is tr0ub4dor-and-3 they say.")

    done = placet("do", "tell", "--model", model, "--db", "none", SERVICE_PASSWORD="tr0ub4dor-and-3")

    assert done.out == "The key is [redacted] they say.\n"


def test_a_task_comes_from_standard_input(placet: Placet, script: Script, tmp_path: Path) -> None:
    done = placet("do", "-", "--model", script("Yes."), "--log", "run.jsonl", stdin="from a pipe\n")

    assert done.code == 0
    assert "from a pipe" in (tmp_path / "run.jsonl").read_text()


# What needs asking


@pytest.mark.parametrize(
    ("tier", "reads", "writes", "runs"),
    [
        ("none", False, False, False),
        ("read_only", True, False, False),
        (None, True, False, False),
        ("sandbox_edit", True, True, False),
        ("full_access", True, True, True),
    ],
)
def test_what_is_done_without_asking(
    placet: Placet,
    script: Script,
    tmp_path: Path,
    tier: str | None,
    reads: bool,
    writes: bool,
    runs: bool,
) -> None:
    model = script(
        {"calls": [call("list_dir", path=".")]},
        {"calls": [write()]},
        {"calls": [call("shell", command="rm -f away.txt; echo ran")]},
        "The end.",
    )
    given = [] if tier is None else ["--yes-to", tier]

    done = placet("do", "try", "--model", model, "--db", "none", "--json", *given)

    assert done.json["status"] == "success"
    assert [name in done.json["tools"] for name in ("list_dir", "write_file", "shell")] == [
        reads,
        writes,
        runs,
    ]
    assert (tmp_path / "out.txt").exists() == writes
    if not runs:
        assert "To be asked, leave out --db none" in done.err
        assert "--yes-to" in done.err


def test_settings_say_what_is_asked_where_the_option_does_not(
    placet: Placet, script: Script, tmp_path: Path
) -> None:
    config = tmp_path / "config" / "placet"
    config.mkdir(parents=True)
    (config / "settings.toml").write_text('[permissions]\nposture = "balanced"\n')
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config")}

    by_settings = placet(
        "do", "x", "--model", script({"calls": [write("a.txt")]}, "ok"), "--db", "none", "--json", **env
    )
    by_option = placet(
        *("do", "x", "--model", script({"calls": [write("b.txt")]}, "ok"), "--db", "none", "--json"),
        *("--yes-to", "read_only"),
        **env,
    )

    assert by_settings.json["tools"] == ["write_file"]
    assert by_option.json["tools"] == []


@pytest.mark.parametrize("of_project", [True, False])
def test_settings_that_say_less_loosen_nothing(
    placet: Placet, script: Script, tmp_path: Path, of_project: bool
) -> None:
    config = tmp_path / "config" / "placet"
    folder = tmp_path / ".placet" if of_project else config
    folder.mkdir(parents=True)
    (folder / "settings.toml").write_text('[permissions]\nfull_access = "deny"\n')
    model = script({"calls": [write()]}, {"calls": [call("shell", command="rm -f x")]}, "ok")

    done = placet("do", "x", "--model", model, "--db", "none", "--json", XDG_CONFIG_HOME=str(config.parent))

    assert done.json["tools"] == []
    assert "needs sandbox_edit, which is not granted without asking" in done.err


def test_a_secret_parameter_is_not_shown(placet: Placet, script: Script) -> None:
    long = {"expression": "1", "password": "hunter2hunter2", "note": f"{'x' * 50} tr0ub4dor-and-3"}
    model = script({"calls": [call("calculate", **long)]}, "ok")

    done = placet("do", "x", "--model", model, "--db", "none", SERVICE_PASSWORD="tr0ub4dor-and-3")

    assert "→ calculate" in done.err
    assert "hunter2" not in done.err
    assert "tr0ub4" not in done.err


def test_without_a_terminal_it_waits_and_goes_on_when_that_is_decided(
    placet: Placet, script: Script, tmp_path: Path
) -> None:
    model = script({"text": "I write it.", "calls": [write()]}, "Not reached.")

    waits = placet("do", "write", "--model", model, "--db", "kept.db", "--run-id", "r1")
    id = first_question(placet)
    still = placet("resume", "r1", "--db", "kept.db")
    assert not (tmp_path / "out.txt").exists()
    placet("approvals", "approve", id, "--db", "kept.db")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = placet(
        "resume",
        "r1",
        "--db",
        tmp_path / "kept.db",
        "--model",
        script("It is written.", name="b.json"),
        cwd=elsewhere,
    )

    assert waits.code == still.code == 4
    assert f"placet approvals approve {id} --db kept.db" in waits.err
    assert "placet resume r1 --db kept.db" in waits.err
    assert (done.code, done.out) == (0, "It is written.\n")
    assert (tmp_path / "out.txt").read_text() == "hello\n"
    assert not (elsewhere / "out.txt").exists()


def test_a_denial_is_told_to_the_model_with_its_reason(
    placet: Placet, script: Script, tmp_path: Path
) -> None:
    placet("do", "write", "--model", script({"calls": [write()]}), "--db", "kept.db", "--run-id", "r1")
    placet("approvals", "deny", first_question(placet), "--db", "kept.db", "--reason", "not today")

    done = placet("resume", "r1", "--db", "kept.db", "--model", script("Then not.", name="b.json"))

    assert (done.code, done.out) == (0, "Then not.\n")
    assert "not today" in done.err
    assert not (tmp_path / "out.txt").exists()


def test_a_rule_denies_whatever_was_allowed(placet: Placet, script: Script, tmp_path: Path) -> None:
    rule = '[[rule]]\nname = "no-writing"\nkind = "deny_tool"\ntool = "write_file"\n'
    (tmp_path / "rules.toml").write_text(rule)
    model = script({"calls": [write()]}, "Then not.")

    done = placet(
        "do", "write", "--model", model, "--policies", "rules.toml", "--yes-to", "full_access", "--db", "none"
    )

    assert "no-writing" in done.err
    assert not (tmp_path / "out.txt").exists()


# Going on


def test_an_ended_run_is_shown_again(placet: Placet, script: Script) -> None:
    placet("do", "x", "--model", script("The end."), "--db", "kept.db", "--run-id", "r1")

    shown = placet("resume", "r1", "--db", "kept.db")
    as_json = placet("resume", "r1", "--db", "kept.db", "--json")

    assert (shown.code, shown.out) == (0, "The end.\n")
    assert as_json.json["summary"] == "The end."


def _is_answered(db: Path) -> bool:
    """Whether the model's answer is on disk."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as connection:
        return bool(connection.execute("SELECT 1 FROM journal WHERE note LIKE '%answered%'").fetchall())
    return False


def _text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize("tool", ["hold", "pay"])
def test_a_killed_run_goes_on_where_it_stood(
    placet: Placet, start: Start, script: Script, tmp_path: Path, tool: str
) -> None:
    (tmp_path / "hold.py").write_text(HOLD)
    model = script({"text": "I wait.", "calls": [call(tool, until="go")]}, "Not reached.")
    options = ["--tools", "hold.py", "--db", "kept.db", "--run-id", "r1", "--yes-to", "full_access"]
    process = start("do", "wait", "--model", model, *options, stdin=subprocess.DEVNULL)
    trace = tmp_path / "paid.txt"
    while not _is_answered(tmp_path / "kept.db") or (tool == "pay" and not _text_of(trace)):
        assert process.poll() is None, "it ended too early"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (tmp_path / "go").touch()
    more = script("It came.", name="b.json")

    done = placet("resume", "r1", "--db", "kept.db", "--model", more)
    if tool == "pay":
        assert done.code == 4
        assert "placet resume r1 --db kept.db --decide t1c1=CHOICE" in done.err
        done = placet("resume", "r1", "--db", "kept.db", "--model", more, "--decide", 't1c1=done:"paid"')
        assert trace.read_text() == "paid\n"

    assert (done.code, done.out) == (0, "It came.\n")


def test_words_are_shown_as_they_come_and_a_signal_stops_the_model(
    placet: Placet, start: Start, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    with WireServer() as server:
        piece = {"model": "m", "choices": [{"index": 0, "delta": {"content": "It begins "}}]}
        server.answers(events(f"data: {json.dumps(piece)}\n\n".encode(), stall=True))
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-key-of-nobody")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        options = ["--model", "openai:gpt-test", "--db", "kept.db", "--run-id", "r1"]
        process = start("do", "talk", *options, stdin=subprocess.DEVNULL)
        assert process.stdout is not None
        begun = b""
        while not begun.startswith(b"It begins") and (more := os.read(process.stdout.fileno(), 100)):
            begun += more
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        has_left = server.left.wait(60)

    done = placet("resume", "r1", "--db", "kept.db", "--model", script("It ends."))

    assert begun.startswith(b"It begins")
    assert process.returncode == 130
    assert has_left
    assert "placet resume r1 --db kept.db" in said.decode()
    assert (done.code, done.out) == (0, "It ends.\n")


def test_a_run_works_in_the_folder_that_it_began_with(placet: Placet, script: Script, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    model = script({"calls": [write("a.txt")]}, {"calls": [write("b.txt")]})
    placet("do", "x", "--model", model, "--workspace", "job", "--db", "kept.db", "--run-id", "r1")
    placet("approvals", "approve", first_question(placet), "--db", "kept.db")

    done = placet("resume", "r1", "--db", "kept.db", "--model", script("Done.", name="b.json"))

    assert done.code == 0
    assert [each.name for each in folder.iterdir()] == ["a.txt"]
    assert placet("runs", "--db", "kept.db", "--json").json["runs"][0]["status"] == "succeeded"


def test_what_was_allowed_and_where_it_is_recorded_holds_when_it_goes_on(
    placet: Placet, script: Script, tmp_path: Path
) -> None:
    begun = ("--yes-to", "sandbox_edit", "--record", "answers.jsonl", "--db", "kept.db", "--run-id", "r1")
    first = placet("do", "x", "--model", script({"calls": [call("shell", command="rm -f x")]}), *begun)
    placet("approvals", "approve", first_question(placet), "--db", "kept.db")

    more = script({"calls": [write("a.txt")]}, "Written.", name="b.json")
    done = placet("resume", "r1", "--db", "kept.db", "--model", more)

    assert (first.code, done.code) == (4, 0)
    assert (tmp_path / "a.txt").exists()
    assert "Written." in (tmp_path / "answers.jsonl").read_text()


# Limits and records


def test_limits_end_it_and_what_was_done_stays(placet: Placet, script: Script) -> None:
    turn = {"calls": [call("now")], "usage": {"input": 100, "output": 10}, "cost": 0.01}
    model = script(turn, {**turn, "calls": [call("calculate", expression="1")]}, "Done.")

    turns = placet("do", "x", "--model", model, "--turns", "1", "--db", "none", "--json")
    tokens = placet("do", "x", "--model", model, "--max-tokens", "50", "--db", "none", "--json")
    cost = placet("do", "x", "--model", model, "--max-cost", "0.005", "--db", "none", "--json")

    assert (turns.code, turns.json["status"]) == (1, "max_turns")
    assert (tokens.code, tokens.json["status"]) == (1, "budget")
    assert (cost.code, cost.json["status"]) == (1, "budget")


def test_answers_are_recorded_and_can_be_replayed(placet: Placet, script: Script, tmp_path: Path) -> None:
    model = script({"calls": [call("calculate", expression="6*7")]}, "It is 42.")
    first = placet("do", "x", "--model", model, "--record", "answers.jsonl", "--db", "none")

    again = placet("do", "x", "--model", "replay:answers.jsonl", "--db", "none")

    assert first.out == again.out == "It is 42.\n"
    assert again.code == 0


# Pictures


def sse(text: str) -> bytes:
    piece = {"model": "m", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
    return f"data: {json.dumps(piece)}\n\ndata: [DONE]\n\n".encode()


def test_a_picture_reaches_the_model(placet: Placet, tmp_path: Path) -> None:
    (tmp_path / "dot.jpg").write_bytes(PNG)  # Its name says something else than it is.
    with WireServer() as server:
        server.answers(events(sse("A dot.")))
        done = placet(
            *("do", "what is this?", "--model", "openai:gpt-test", "--image", "dot.jpg", "--db", "none"),
            OPENAI_API_KEY="sk-test-key-of-nobody",
            OPENAI_BASE_URL=server.url,
        )
        [asked] = server.seen

    assert done.out == "A dot.\n"
    *_, said = asked.json["messages"]
    assert said["content"][0] == {"type": "text", "text": "what is this?"}
    assert said["content"][1]["image_url"]["url"] == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"<svg/>", "PNG, JPEG, GIF or WebP"), (PNG + bytes(6 * 2**20), "bytes"), (None, "No such file")],
)
def test_what_is_no_picture_is_refused(
    placet: Placet, script: Script, tmp_path: Path, data: bytes | None, says: str
) -> None:
    if data is not None:
        (tmp_path / "dot.png").write_bytes(data)

    done = placet("do", "x", "--model", script("No."), "--image", "dot.png")

    assert done.code == 2
    assert says in done.err
    assert "dot.png" in done.err


def test_a_pipe_is_no_picture(placet: Placet, script: Script, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "dot.png")

    assert placet("do", "x", "--model", script("No."), "--image", "dot.png").code == 2


# Bad input


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["do", "x"], "No model is chosen"),
        (["do", "  "], "there is no task"),
        (["do", "x", "--yes-to", "everything"], "read_only"),
        (["do", "x", "--yes-to", "none", "--permissions", "cautious"], "Give one of them"),
        (["do", "x", "--turns", "0"], "--turns"),
        (["do", "x", "--workspace", "nowhere"], "nowhere"),
        (["do", "x", "--record", "kept.db", "--db", "kept.db"], "--record kept.db"),
    ],
)
def test_bad_input_is_told_before_anything_runs(placet: Placet, words: list[str], says: str) -> None:
    done = placet(*words)

    assert done.code == 2
    assert says in done.err
    assert "Traceback" not in done.err


def test_a_local_model_that_is_not_there_begins_no_run(placet: Placet, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()

    done = placet("do", "x", "--model", "local", "--db", "kept.db", PLACET_MODELS=str(tmp_path / "none"))

    assert done.code == 2
    assert "local" in done.err
    assert placet("runs", "--db", "kept.db").out == ""


def test_a_task_in_several_words_is_to_be_quoted(placet: Placet, script: Script) -> None:
    done = placet("do", "make", "a", "list", "--model", script("No."), "--db", "none")

    assert done.code == 2
    assert "Put it in quotes: placet do 'make a list'" in done.err


def test_it_says_who_answers_and_that_calls_were_refused(placet: Placet, script: Script) -> None:
    model = script({"calls": [write("a.txt", "1")]}, "I could not.")

    done = placet("do", "write", "--model", model, "--db", "none")

    assert done.code == 0
    assert re.match(r"model: scripted:\S*script.json \(--model names it\)\n", done.err)
    assert "✓ done; 1 call was refused (write_file) (" in done.err


def test_a_result_is_told_by_what_is_new_in_it(placet: Placet, script: Script, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("\nmilk\nbread\n")
    model = script(
        {"calls": [call("read_file", path="notes.txt"), call("shell", command="echo here; echo there")]},
        {"calls": [write("a.txt", "1")]},
        "Done.",
    )

    done = placet("do", "read", "--model", model, "--db", "none", "--yes-to", "full_access")

    assert "  ✓ read_file: milk\n" in done.err
    assert "  ✓ shell: exit code 0: here\n" in done.err
    assert "  ✓ write_file: bytes: 1, created: true\n" in done.err


def test_what_is_ours_is_not_put_into_the_models_mouth(placet: Placet, script: Script) -> None:
    placet(
        "do", "x", "--model", script({"calls": [write("a.txt", "1")]}), "--db", "kept.db", "--run-id", "r1"
    )

    for words in (["explain", "r1"], ["runs", "show", "r1"]):
        assert "It said last" not in placet(*words, "--db", "kept.db").out
