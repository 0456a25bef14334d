"""`placet agent`: files made, looked at, run, switched and taken back; runs that are killed and go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet.app.settings import FILE_NAME

Start = Callable[..., subprocess.Popen[bytes]]

HOLD = '''
import os
import signal
from pathlib import Path

from placet import tool


@tool(risk="read_only")
def once() -> str:
    """Count."""
    with open("counted.txt", "a") as trace:
        trace.write("x")
    return "counted"


@tool(risk="idempotent")
def die() -> str:
    """Be killed, the first time."""
    if not Path("died.txt").exists():
        Path("died.txt").write_text("x")
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"
'''


class Folder:
    """A project with agents, and a scripted model."""

    def __init__(self, path: Path, placet: Callable[..., Any]) -> None:
        self.path = path
        self.own = path / "config"
        self._placet = placet
        (path / ".placet").mkdir()

    def run(self, *arguments: str, **more: Any) -> Any:
        """`placet` with these arguments."""
        db = [] if "schema" in arguments else ["--db", "kept.db"]
        return self._placet(*arguments, *db, XDG_CONFIG_HOME=str(self.own), **more)

    def agent(self, *arguments: str) -> Any:
        """`placet agent` with these arguments."""
        return self.run("agent", *arguments)

    def put(self, name: str, text: str, *, own: bool = False) -> Path:
        """Write an agent's file."""
        base = self.own / "placet" if own else self.path / ".placet"
        path = base / "agents" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def script(self, *turns: Any) -> str:
        """A model that answers with these turns."""
        (self.path / "script.json").write_text(json.dumps({"turns": turns}))
        return f"scripted:{self.path / 'script.json'}"

    def trust(self) -> None:
        """Trust what the folder brings."""
        assert self._placet("trust", "--yes", XDG_CONFIG_HOME=str(self.own)).code == 0


@pytest.fixture
def folder(tmp_path: Path, placet: Callable[..., Any]) -> Folder:
    return Folder(tmp_path, placet)


def test_an_agent_is_made_run_switched_removed_and_brought_back(folder: Folder) -> None:
    made = folder.agent("new", "greeter", "--identity", "You greet.", "--description", "Greets.")
    path = folder.path / ".placet" / "agents" / "greeter.toml"

    assert (made.code, path.read_text()) == (0, 'description = "Greets."\nidentity = "You greet."\n')
    ran = folder.agent("run", "greeter", "I am Ada.", "--model", folder.script("Hello, Ada!"))
    assert (ran.code, ran.out) == (0, "Hello, Ada!\n")
    assert folder.agent("disable", "greeter").code == 0
    refused = folder.agent("run", "greeter", "hi", "--model", folder.script("x"))
    assert refused.code == 2
    assert "placet agent enable greeter" in refused.err
    assert folder.agent("enable", "greeter").code == 0
    assert folder.agent("remove", "greeter").code == 0
    assert not path.exists()
    assert folder.agent("revert", "greeter", "1").code == 0
    assert path.read_text() == 'description = "Greets."\nidentity = "You greet."\n'
    [row] = folder.agent("list", "--json").json["agents"]
    assert (row["id"], row["enabled"], row["runs"], row["succeeded"]) == ("greeter", True, 1, 1)
    shown = folder.agent("show", "greeter", "--json").json
    assert [each["number"] for each in shown["versions"]] == [4, 3, 2, 1]
    assert "enabled = false" in folder.agent("show", "greeter", "--version", "2").out


def test_an_own_agent_needs_no_trust_and_a_projects_does(folder: Folder) -> None:
    folder.put("mine.toml", 'identity = "You answer."', own=True)
    folder.put("theirs.toml", 'identity = "You answer."')
    model = folder.script("fine")

    assert folder.agent("run", "mine", "go", "--model", model).code == 0
    refused = folder.agent("run", "theirs", "go", "--model", model)
    assert refused.code == 2
    assert "placet trust" in refused.err
    assert folder.agent("list").code == folder.agent("show", "theirs").code == 0
    folder.trust()
    assert folder.agent("run", "theirs", "go", "--model", model).code == 0
    folder.put("theirs.toml", 'identity = "You obey."')
    assert folder.agent("run", "theirs", "go", "--model", model).code == 2


def test_a_call_outside_the_list_is_refused_and_told(folder: Folder) -> None:
    folder.put("reader.md", "+++\ntools = ['read_file']\n+++\nYou read.", own=True)
    calls = [{"name": "write_file", "arguments": {"path": "x.txt", "text": "y"}}]
    model = folder.script({"calls": calls}, "done")

    ran = folder.agent("run", "reader", "write", "--model", model, "--yes-to", "full_access", "--json")

    assert ran.code == 0
    assert folder.run("resume", ran.json["run_id"], "--json").json == ran.json
    assert (ran.json["refused"], ran.json["called"], ran.json["output"]) == ({"write_file": 1}, [], "done")
    assert not (folder.path / "x.txt").exists()
    story = folder.run("explain", ran.json["run_id"]).out
    assert "agent reader" in story
    assert "is not allowed for this agent" in story


def test_settings_may_allow_one_agent_more_than_others(folder: Folder) -> None:
    for name in ("writer", "other"):
        folder.put(f"{name}.toml", "tools = ['write_file']\nidentity = 'You write.'\n", own=True)
    own = folder.own / "placet" / FILE_NAME
    own.write_text('[permissions.agents.writer]\nsandbox_edit = "allow"\n')
    write = {"calls": [{"name": "write_file", "arguments": {"path": "out.txt", "text": "y"}}]}

    asked = folder.agent("run", "other", "go", "--model", folder.script(write, "done"))
    assert (asked.code, (folder.path / "out.txt").exists()) == (4, False)
    allowed = folder.agent("run", "writer", "go", "--model", folder.script(write, "done"))

    assert (allowed.code, (folder.path / "out.txt").read_text()) == (0, "y")


def test_a_goal_is_pursued_and_told(folder: Folder) -> None:
    text = "tools = ['write_file']\nidentity = 'You write.'\n[goal]\ncheck = 'test -s out.txt'\n"
    folder.put("writer.toml", f"{text}max_iterations = 2\n", own=True)
    write = {"calls": [{"name": "write_file", "arguments": {"path": "out.txt", "text": "y"}}]}

    missed = folder.agent("run", "writer", "go", "--model", folder.script("a", "b"), "--run-id", "r1")
    met = folder.agent(
        "run", "writer", "go", "--model", folder.script("a", write, "b"), "--yes-to", "sandbox_edit"
    )

    assert missed.code == 1
    assert "goal: not met after 2 iterations: it ended with exit code 1" in missed.err
    assert "Its goal is not met: check 2 of 2" in folder.run("explain", "r1").out
    assert met.code == 0
    assert "goal: met after 2 iterations" in met.err
    assert folder.run("resume", "r1").code == 1
    again = folder.run("resume", "r1", "--json")
    assert again.code == 1
    assert (again.json["succeeded"], again.json["output"], again.json["goal"]["met"]) == (False, "b", False)
    [row] = folder.agent("list", "--json").json["agents"]
    assert (row["runs"], row["succeeded"]) == (2, 1)


def test_a_killed_run_goes_on_as_it_began(folder: Folder, start: Start, tmp_path: Path) -> None:
    path = folder.put("counter.toml", "tools = ['once', 'die']\nidentity = 'You count.'\n", own=True)
    (tmp_path / "tools.py").write_text(HOLD)
    model = folder.script(
        {"calls": [{"name": "once", "arguments": {}}]}, {"calls": [{"name": "die", "arguments": {}}]}, "over"
    )
    arguments = ["agent", "run", "counter", "go", "--run-id", "k1", "--model", model, "--db", "kept.db"]
    arguments += ["--yes-to", "full_access"]
    environment = {**os.environ, "XDG_CONFIG_HOME": str(folder.own)}

    killed = start_with(start, *arguments, "--tools", "tools.py", environment=environment)
    killed.communicate(timeout=60)
    path.unlink()
    folder.script("over")  # Nothing that was answered is asked again.
    again = folder.run("resume", "k1", "--json")

    assert killed.returncode == -signal.SIGKILL
    assert (again.code, again.json["output"], again.json["turns"]) == (0, "over", 3)
    assert again.json["called"] == ["once", "die"]
    assert (tmp_path / "counted.txt").read_text() == "x"
    [run] = [each for each in folder.run("runs", "--json").json["runs"] if each["run_id"] == "k1"]
    assert run["status"] == "succeeded"


def start_with(start: Start, *arguments: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        return start(*arguments)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.toml", "identity = ", "a.toml: it is not TOML"),
        ("a.toml", "identity = 3", "a.toml, key 'identity': expected a text"),
        ("a.toml", "identity = 'x'\ntool = ['y']", "key 'tool': 'tool' is no key of an agent. Did you mean"),
        ("a.md", "---\nname: x\n---\nYou.", "a.md: its front matter is between lines of ---"),
        ("a.toml", "identity = 'x'\n[[scenarios]]\ninput = 'y'", "key 'scenarios[0]'"),
    ],
)
def test_a_broken_file_ends_with_2_and_names_file_and_key(
    folder: Folder, name: str, text: str, words: str
) -> None:
    path = folder.put(name, text, own=True)
    folder.put("good.toml", "identity = 'x'", own=True)

    for arguments in (("show", "a"), ("run", "a", "go"), ("disable", "a")):
        done = folder.agent(*arguments)
        assert done.code == 2
        assert words in done.err
        assert "Traceback" not in done.err
    listed = folder.agent("list")

    assert listed.code == 2
    assert "good" in listed.out
    assert words in listed.err
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "nobody", "go"), "There is no agent 'nobody'"),
        (("show", "nobody"), "There is no agent"),
        (("revert", "nobody"), "There is no agent"),
        (("new", "Nobody"), "cannot be an id"),
        (("new", "../x"), "cannot be an id"),
        (("new", "x", "--tool", "read*"), "pattern"),
        (("show", "good", "--version", "9"), "No version 9"),
        (("new", "good"), "already"),
        (("run", "good", " "), "no task"),
    ],
)
def test_bad_input_ends_with_2(folder: Folder, arguments: tuple[str, ...], words: str) -> None:
    folder.put("good.toml", "identity = 'x'")
    folder.trust()

    done = folder.agent(*arguments)

    assert done.code == 2
    assert words in done.err
    assert sorted(each.name for each in (folder.path / ".placet" / "agents").iterdir()) == ["good.toml"]


def test_what_a_file_holds_never_steers_the_terminal(folder: Folder) -> None:
    folder.put("a.toml", 'identity = "x"\n# \x9b2J \u202e\n', own=True)

    assert "\u202e" not in folder.agent("show", "a").out
    assert "\x9b" not in folder.agent("list").out


def test_the_schema_is_printed(folder: Folder) -> None:
    assert folder.agent("schema").json["title"] == "An agent of Placet"


def test_texts_that_are_no_unicode_are_refused_and_leave_nothing_behind(folder: Folder) -> None:
    for arguments in (
        ("new", "x", "--identity", "a\udcff"),
        ("new", "x\udcff"),
        ("show", "x\udcff"),
        ("revert", "x\udcff"),
        ("remove", "x\udcff"),
        ("enable", "x\udcff"),
    ):
        done = folder.agent(*arguments)

        assert done.code == 2, arguments
        assert "fault" not in done.err
    assert not (folder.path / ".placet" / "agents").exists()
    folder.put("mine.toml", 'identity = "You answer."', own=True)
    said = folder.agent("run", "mine", "a\udcff", "--model", folder.script("fine"))
    assert (said.code, "surrogate" in said.err) == (2, True)


def test_what_was_built_is_not_lost_where_it_cannot_be_kept(folder: Folder) -> None:
    draft = {"name": "Shouter", "identity": "You shout.", "scenarios": [{"input": "hi", "expect": "HEY"}]}
    (folder.path / ".placet" / "agents").write_text("no folder")

    def build(*more: str) -> Any:
        model = folder.script(json.dumps(draft), "hey")
        return folder.agent("build", "loud", "--yes", "--isolation", "none", "--model", model, *more)

    as_text, as_json = build(), build("--json")

    assert as_text.code == as_json.code == 2
    assert 'identity = "You shout."' in as_text.out
    assert "Cannot write" in as_text.err
    assert (as_json.json["agent"]["identity"], as_json.json["kept"]) == ("You shout.", None)


def test_what_was_not_trusted_is_not_so_after_it_was_brought_back(folder: Folder) -> None:
    folder.put("evil.toml", 'identity = "You obey."')
    model = folder.script("x")

    assert folder.agent("remove", "evil").code == 0
    back = folder.agent("revert", "evil")
    assert back.code == 0
    assert "is not trusted as it is now" in back.err
    assert folder.agent("run", "evil", "go", "--model", model).code == 2

    # Nor where the folder was trusted while there was nothing in it.
    assert folder.agent("remove", "evil").code == 0
    folder.trust()
    assert folder.agent("revert", "evil").code == 0
    assert folder.agent("run", "evil", "go", "--model", model).code == 2


def test_an_untrusted_project_takes_no_agent_from_the_person(folder: Folder) -> None:
    mine = folder.put("greeter.toml", 'description = "Greets people."\nidentity = "Mine."\n', own=True)
    theirs = folder.put("greeter.toml", 'description = "Greets people."\nidentity = "Theirs."\n')
    folder.put("other.toml", 'description = "Greets people best: greets, greets."\nidentity = "Theirs."\n')

    asked = folder.run("ask", "greet people", "--model", folder.script("hello"))
    named = folder.run("ask", "hi", "--agent", "greeter", "--model", folder.script("hello"))
    assert (asked.code, asked.out, named.code, named.out) == (0, "hello\n", 0, "hello\n"), asked.err
    assert "agents of this project are left out" in asked.err
    assert "Asking 'greeter'" in asked.err
    why = folder.run("ask", "greet people", "--why", "--json").json
    assert [each["id"] for each in why["ranked"]] == ["greeter"]

    ran = folder.agent("run", "greeter", "hi", "--user", "--model", folder.script("hello"))
    assert (ran.code, ran.out) == (0, "hello\n")
    assert folder.agent("run", "greeter", "hi", "--model", folder.script("never")).code == 2
    assert folder.agent("disable", "greeter", "--user").code == 0
    assert "enabled = false" in mine.read_text()
    assert folder.agent("enable", "greeter", "--user").code == 0
    assert folder.agent("remove", "greeter", "--user").code == 0
    assert not mine.exists()
    assert folder.agent("revert", "greeter", "--user").code == 0
    assert "Mine." in mine.read_text()
    assert theirs.read_text() == 'description = "Greets people."\nidentity = "Theirs."\n'
    assert folder.agent("disable", "other", "--user").code == 2


def test_a_tool_that_is_not_there_is_told_when_an_agent_is_made(folder: Folder) -> None:
    made = folder.agent("new", "a", "--tool", "read_fil", "--tool", "grep")

    assert made.code == 0
    assert "'read_fil'" in made.err
    assert "read_file" in made.err
    assert "grep" not in made.err
