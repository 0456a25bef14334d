"""`placet agent test`, `placet agent build` and `placet ask` with scripted models, in the real sandbox."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from placet.extras import install_command
from placet.inference.local.weights import EMBED
from tests.cli.conftest import without_module

GREETER = """
id = "greeter"
description = "Greets people by their names."
identity = "You greet."

[[scenarios]]
name = "greets"
input = "I am Ada"
expect = "hello"
"""
MAKER = """
id = "maker"
description = "Writes notes into files."
identity = "You write."
tools = ["write_file"]

[[scenarios]]
name = "writes"
input = "write"
called = ["write_file"]
check = "grep -q right out.txt"
"""
DRAFT = {
    "name": "Shouter",
    "description": "Answers loudly.",
    "identity": "You shout.",
    "tools": ["telepathy"],
    "scenarios": [{"input": "hi", "expect": "HEY"}],
}


class Desk:
    """A person in a folder with agents of their own."""

    def __init__(self, folder: Path, placet: Callable[..., Any]) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self.home = folder / "home"
        self.agents = self.home / "config" / "placet" / "agents"
        self.agents.mkdir(parents=True)
        self.own = {f"XDG_{name}_HOME": str(self.home / name.lower()) for name in ("CONFIG", "DATA", "STATE")}
        self._placet = placet

    def script(self, *turns: Any) -> str:
        path = self.home / "script.json"
        path.write_text(json.dumps({"turns": turns}))
        return f"scripted:{path}"

    def run(self, *arguments: str) -> Any:
        return self._placet(*arguments, cwd=self.folder, **self.own)


@pytest.fixture
def desk(tmp_path: Path, placet: Callable[..., Any], known_isolation: Callable[[Path], None]) -> Desk:
    made = Desk(tmp_path, placet)
    known_isolation(made.home / "data")
    (made.agents / "greeter.toml").write_text(GREETER)
    return made


# agent test


def test_all_scenarios_pass_and_the_exit_code_says_so(desk: Desk) -> None:
    done = desk.run("agent", "test", "greeter", "--k", "2", "--model", desk.script("Hello Ada", "hello"))

    assert done.code == 0, done.err
    assert "✓ greeter greets  2 of 2 runs" in done.out
    assert "1 of 1 scenario passed, each in all of 2 runs (pass^2)" in done.out
    assert "✓ greets [1 of 2]" in done.err


def test_a_failure_is_told_in_words_json_and_xml(desk: Desk) -> None:
    report = desk.folder / "report.xml"
    model = desk.script("hello", "\x1b[31mgo away & <never> come back")

    done = desk.run(
        *("agent", "test", "greeter", "--k", "2", "--at-once", "1", "--model", model),
        *("--junit", str(report), "--json"),
    )

    assert done.code == 1
    data = done.json
    assert data["all_passed"] is False
    assert data["agents"][0]["scenarios"][0]["times"] == 1
    top = ElementTree.parse(report).getroot()
    assert (top.get("tests"), top.get("failures")) == ("2", "1")
    failure = top.find(".//failure")
    assert failure is not None
    assert "go away & <never>" in (failure.text or "")
    plain = desk.run("agent", "test", "greeter", "--model", desk.script("\x1b[31mgo away"))
    assert "expected an answer containing 'hello', got '\\e[31mgo away'" in plain.out
    assert "\x1b" not in plain.out + plain.err


def test_a_tool_that_is_not_there_is_named(desk: Desk) -> None:
    (desk.agents / "maker.toml").write_text(MAKER.replace('["write_file"]', '["write_fil", "read_file"]'))

    done = desk.run("agent", "test", "maker", "--model", desk.script("done"))

    assert done.code == 1
    notes = [line for line in done.err.splitlines() if line.startswith("Note:")]
    assert len(notes) == 1
    assert "write_fil" in notes[0]
    assert "write_file" in notes[0]


def test_agents_work_in_folders_of_their_own_under_the_real_sandbox(desk: Desk) -> None:
    (desk.agents / "maker.toml").write_text(MAKER)
    call = {"calls": [{"name": "write_file", "arguments": {"path": "out.txt", "text": "right\n"}}]}

    done = desk.run("agent", "test", "maker", "--model", desk.script(call, "done"), "--json")

    assert done.code == 0, done.out + done.err
    assert done.json["agents"][0]["scenarios"][0]["trials"][0]["called"] == ["write_file"]
    assert list(desk.folder.iterdir()) == []


def test_without_a_name_every_enabled_agent_with_scenarios_is_tried(desk: Desk) -> None:
    off = GREETER.replace('"greeter"', '"off"', 1).replace("identity", "enabled = false\nidentity", 1)
    (desk.agents / "off.toml").write_text(off)
    (desk.agents / "bare.toml").write_text('id = "bare"\nidentity = "x"\n')

    done = desk.run("agent", "test", "--model", desk.script("hello"), "--json")

    assert [each["agent"] for each in done.json["agents"]] == ["greeter"]


def test_without_a_name_a_file_that_cannot_be_used_is_named_and_nothing_runs(desk: Desk) -> None:
    (desk.agents / "broken.toml").write_text('identity = "x"\ntools = 3\n')

    done = desk.run("agent", "test", "--model", desk.script("hello"))

    assert (done.code, done.out) == (2, "")
    assert "broken.toml" in done.err
    assert "tools" in done.err
    assert "greets" not in done.err
    assert desk.run("agent", "test", "greeter", "--model", desk.script("hello")).code == 0


def test_the_budget_is_over_all_runs(desk: Desk) -> None:
    turn = {"text": "hello", "usage": {"input": 99, "output": 1}}
    model = desk.script(turn, turn, turn)

    done = desk.run(
        "agent",
        "test",
        "greeter",
        "--k",
        "3",
        "--at-once",
        "1",
        "--max-tokens",
        "150",
        "--model",
        model,
        "--json",
    )

    trials = done.json["agents"][0]["scenarios"][0]["trials"]
    assert [each["status"] for each in trials] == ["success", "success", "budget"]


@pytest.mark.parametrize("limit", [("--max-tokens", "150"), ("--max-cost", "0.15"), ("--time", "1m")])
def test_the_budget_is_one_over_all_agents(desk: Desk, limit: tuple[str, str]) -> None:
    for name in ("second", "third"):
        (desk.agents / f"{name}.toml").write_text(GREETER.replace('"greeter"', f'"{name}"', 1))
    turn = {"text": "hello", "usage": {"input": 99, "output": 1}, "cost": 0.1}

    done = desk.run("agent", "test", *limit, "--model", desk.script(turn), "--json")

    found = [each["scenarios"][0]["trials"][0]["status"] for each in done.json["agents"]]
    assert found == ["success", "success", "success" if limit[0] == "--time" else "budget"]


def test_a_report_that_cannot_be_written_is_refused_before_anything_runs(desk: Desk) -> None:
    notes = desk.folder / "notes.txt"
    notes.write_text("mine")
    agent = desk.agents / "greeter.toml"
    for target, says in (
        (notes, "no JUnit report"),
        (agent, "would write over the agent 'greeter'"),
        (desk.folder / "none" / "report.xml", "Cannot write"),
        (desk.folder, "Cannot write"),
    ):
        done = desk.run("agent", "test", "greeter", "--junit", str(target), "--model", desk.script("hello"))

        assert (done.code, done.out) == (2, ""), done.err
        assert says in done.err
        assert "greets" not in done.err
    assert (notes.read_text(), agent.read_text()) == ("mine", GREETER)
    report = desk.folder / "report.xml"
    for _ in range(2):
        again = desk.run("agent", "test", "greeter", "--junit", str(report), "--model", desk.script("hello"))
        assert again.code == 0, again.err


def test_a_scenario_that_one_of_the_agents_has_not_is_refused_before_any_runs(desk: Desk) -> None:
    other = GREETER.replace('"greeter"', '"other"', 1).replace('"greets"', '"welcomes"')
    (desk.agents / "other.toml").write_text(other)

    done = desk.run(
        "agent", "test", "greeter", "other", "--scenario", "greets", "--model", desk.script("hello")
    )

    assert (done.code, done.out) == (2, "")
    assert "Agent 'other' has no scenario 'greets'" in done.err
    assert "✓" not in done.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["test", "nobody"], "nobody"),
        (["test", "greeter", "--scenario", "none"], "no scenario 'none'"),
        (["test", "greeter", "--k", "0"], "--k"),
        (["build", "  "], "no sentence"),
        (["build", "x", "--id", "No Id"], "cannot be the id"),
        (["build", "x", "--id", "greeter"], "already"),
    ],
)
def test_bad_input_is_one_message_and_2(desk: Desk, arguments: list[str], says: str) -> None:
    done = desk.run("agent", *arguments, "--model", desk.script("hello"))

    assert done.code == 2
    assert says in done.err
    assert "Traceback" not in done.err


# agent build


def test_a_built_agent_is_shown_attempt_by_attempt_and_kept_with_yes(desk: Desk) -> None:
    model = desk.script(json.dumps(DRAFT), "no", json.dumps(DRAFT | {"identity": "You SHOUT."}), "HEY you")

    done = desk.run("agent", "build", "somebody loud", "--yes", "--model", model)

    assert done.code == 0, done.err
    assert "── attempt 1 of 3" in done.err
    assert "── attempt 2 of 3" in done.err
    assert "✗ hi → HEY" in done.err
    assert "You SHOUT." in (desk.agents / "shouter.toml").read_text()
    assert "You SHOUT." in done.out
    assert "telepathy" not in done.out
    again = desk.run("agent", "test", "shouter", "--model", desk.script("hey"))
    assert again.code == 0, again.err


def test_without_a_terminal_nothing_is_kept_unasked(desk: Desk) -> None:
    done = desk.run("agent", "build", "somebody loud", "--model", desk.script(json.dumps(DRAFT), "hey"))

    assert done.code == 0
    assert "You shout." in done.out
    assert "It was not kept" in done.err
    assert not (desk.agents / "shouter.toml").exists()


def test_the_best_draft_comes_back_with_its_issues_and_is_not_kept_by_yes(desk: Desk) -> None:
    model = desk.script(json.dumps(DRAFT), "no", "nothing", json.dumps(DRAFT), "no")

    done = desk.run("agent", "build", "somebody loud", "--yes", "--json", "--model", model)

    assert done.code == 1
    data = done.json
    assert (data["passed"], data["kept"], len(data["attempts"])) == (False, None, 3)
    assert "containing 'HEY', got 'no'" in data["issues"][0]
    assert data["agent"]["identity"] == "You shout."
    assert not (desk.agents / "shouter.toml").exists()


def test_a_taken_id_is_left_alone(desk: Desk) -> None:
    model = desk.script(json.dumps(DRAFT | {"name": "Greeter"}), "hey")

    done = desk.run("agent", "build", "a greeter", "--yes", "--model", model)

    assert done.code == 0, done.err
    assert (desk.agents / "greeter.toml").read_text() == GREETER
    assert (desk.agents / "greeter-2.toml").exists()


# ask


def test_the_agent_that_fits_is_asked_and_why_is_said(desk: Desk) -> None:
    (desk.agents / "maker.toml").write_text(MAKER)

    done = desk.run("ask", "greet these people", "--model", desk.script("Hello all"))

    assert done.code == 0, done.err
    assert done.out == "Hello all\n"
    assert "Asking 'greeter': its description shares 'greet', 'people'" in done.err


def test_another_agent_can_be_named_and_why_asks_nobody(desk: Desk) -> None:
    (desk.agents / "maker.toml").write_text(MAKER)

    named = desk.run("ask", "greet people", "--agent", "maker", "--model", desk.script("I write"))
    assert named.out == "I write\n"
    why = desk.run("ask", "greet people and write notes", "--why", "--json")
    assert why.code == 0
    assert {each["id"] for each in why.json["ranked"]} == {"greeter", "maker"}
    words = desk.run("ask", "greet people", "--why")
    assert words.out.startswith("greeter")


def test_what_runs_have_shown_decides_between_equals(desk: Desk) -> None:
    (desk.agents / "adder.toml").write_text(GREETER.replace('"greeter"', '"adder"', 1))
    db = ("--db", str(desk.home / "kept.db"))
    assert desk.run("ask", "greet", "--why", "--json").json["chosen"] == "adder"

    failed = desk.run("agent", "run", "adder", "x", "--model", desk.script(), *db)
    done = desk.run("agent", "run", "greeter", "x", "--model", desk.script("hi"), *db)

    assert (failed.code, done.code) == (1, 0)
    chosen = desk.run("ask", "greet", "--why", "--json", *db).json
    assert chosen["chosen"] == "greeter"
    assert "1 of its 1 runs succeeded" in chosen["ranked"][0]["because"]


def test_a_question_for_nobody_is_said_and_nobody_is_asked(desk: Desk) -> None:
    done = desk.run("ask", "zzz", "--model", desk.script("never"))

    assert done.code == 2
    assert "None of the 1 agents fits" in done.err


PULL = "placet model pull embed"


@pytest.mark.parametrize(
    ("question", "code"),
    [
        pytest.param("greet", 0, id="two fit about as well"),
        pytest.param("zzz", 2, id="nobody fits"),
    ],
)
def test_embeddings_are_suggested_once_where_they_would_help(desk: Desk, question: str, code: int) -> None:
    (desk.agents / "adder.toml").write_text(GREETER.replace('"greeter"', '"adder"', 1))

    done = desk.run("ask", question, "--model", desk.script("Hello"))
    why = desk.run("ask", question, "--why", "--json")

    assert done.code == why.code == code
    assert (done.err.count(PULL), why.err.count(PULL)) == (1, 1)
    assert PULL not in done.out + why.out


@pytest.mark.parametrize(
    ("others", "arguments"),
    [
        pytest.param((), ("greet",), id="one agent"),
        pytest.param((MAKER,), ("greet these people, then write",), id="one fits clearly"),
        pytest.param((MAKER,), ("maker or greet",), id="one is named in the question"),
        pytest.param((MAKER,), ("greet and write", "--agent", "maker"), id="one is chosen"),
    ],
)
def test_embeddings_are_not_suggested_where_it_is_clear(
    desk: Desk, others: tuple[str, ...], arguments: tuple[str, ...]
) -> None:
    for text in others:
        (desk.agents / "maker.toml").write_text(text)

    done = desk.run("ask", *arguments, "--model", desk.script("Hello"))

    assert done.code == 0, done.err
    assert PULL not in done.err


def test_the_extra_is_named_with_its_command_where_it_is_missing(
    desk: Desk, fresh: Callable[..., Any]
) -> None:
    (desk.agents / "adder.toml").write_text(GREETER.replace('"greeter"', '"adder"', 1))

    done = fresh(
        "ask", "greet", "--why", cwd=desk.folder, **desk.own, **without_module(desk.home, EMBED.module)
    )

    assert done.code == 0, done.err
    assert done.err.count(PULL) == done.err.count(install_command("embed")) == 1


def test_nothing_is_suggested_where_the_settings_name_another_embedder(desk: Desk) -> None:
    """It cannot be reached, which is said; what is on this machine is not what the person wants."""
    (desk.agents / "adder.toml").write_text(GREETER.replace('"greeter"', '"adder"', 1))
    (desk.home / "config" / "placet" / "settings.toml").write_text(
        '[models]\nembed = "lab:vectors"\n'
        '[models.providers.lab]\nurl = "http://127.0.0.1:9/v1"\nformat = "openai"\n'
    )

    done = desk.run("ask", "greet", "--why")

    assert done.code == 0, done.err
    assert PULL not in done.err
