"""`placet init`: files that work as they are, loosen nothing, and replace nothing."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet.app.governance import BRINGS_AGENTS, examine, gather
from placet.app.settings import parse_settings
from placet.app.trust import is_trusted, snapshot
from placet.policy.loader import parse_policies
from tests.cli.conftest import Done
from tests.coder.workbench import git

FILES = ["agents/guide.toml", "policies/project.toml", "settings.toml"]


class Person:
    """A person with settings and data of their own, in an empty folder."""

    def __init__(self, folder: Path, placet: Callable[..., Done]) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        self.own = {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("CONFIG", "DATA", "STATE")}
        self._placet = placet

    def run(self, *arguments: str | Path, cwd: Path | None = None) -> Done:
        """Run `placet`."""
        return self._placet(*arguments, cwd=cwd or self.work, **self.own)

    def init(self, *arguments: str | Path, cwd: Path | None = None) -> Any:
        """What `placet init` prints as JSON."""
        done = self.run("init", *arguments, "--json", cwd=cwd)
        assert done.code == 0, done.err or done.out
        return done.json

    def settings(self, text: str) -> None:
        """The person's own settings."""
        path = Path(self.own["XDG_CONFIG_HOME"]) / "placet" / "settings.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def put(self, name: str, text: str) -> Path:
        """A file in the `.placet` folder."""
        path = self.work / ".placet" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def files(self) -> dict[str, bytes]:
        """What the `.placet` folder holds."""
        return dict(snapshot(self.work).files)


@pytest.fixture
def person(tmp_path: Path, placet: Callable[..., Done]) -> Person:
    return Person(tmp_path, placet)


def test_it_creates_settings_a_policy_and_an_agent(person: Person) -> None:
    made = person.init()

    assert sorted(person.files()) == FILES
    assert made["folder"] == str(person.work)
    assert sorted(made["created"]) == [f".placet/{name}" for name in FILES]
    assert made["existing"] == []
    assert made["trusted"] is True
    assert all(command.startswith("placet ") for command in made["next"])


def test_it_says_what_it_made_and_what_comes_next(person: Person) -> None:
    done = person.run("init")

    assert done.code == 0
    for name in FILES:
        assert f".placet/{name}" in done.out
    assert "placet agent run guide" in done.err


def test_the_files_load_and_loosen_nothing(person: Person) -> None:
    environment = {**os.environ, **person.own}
    before = gather(person.work, environment)

    person.init()

    found = examine(person.work, environment)
    assert found.wants == (BRINGS_AGENTS,)
    after = gather(person.work, environment)
    assert (after.permissions, after.tools, after.isolation) == (
        before.permissions,
        before.tools,
        before.isolation,
    )
    assert [name for name, _ in after.policies] == ["env-files-stay-closed"]
    assert person.run("policy", "test").code == 0
    listed = person.run("agent", "list", "--json").json["agents"]
    assert [(each["id"], each["enabled"], each["error"]) for each in listed] == [("guide", True, None)]


@pytest.mark.parametrize("posture", ["cautious", "balanced", "trusting"])
def test_permissions_stay_those_of_the_person(person: Person, posture: str) -> None:
    person.settings(f'[permissions]\nposture = "{posture}"\n')
    environment = {**os.environ, **person.own}
    before = gather(person.work, environment)

    person.init()

    assert gather(person.work, environment).permissions == before.permissions


def test_what_the_comments_suggest_can_be_uncommented(person: Person) -> None:
    person.init()
    files = person.files()

    def uncommented(name: str) -> bytes:
        return re.sub(rb"(?m)^#(?=\S)", b"", files[name])

    settings = parse_settings(Path("settings.toml"), uncommented("settings.toml"), of_project=True)
    rules = parse_policies([(Path("project.toml"), uncommented("policies/project.toml"))])

    assert (settings.tools, settings.require, settings.standing.name) == ("tools.py", "process", "balanced")
    assert len(rules) == 2


def test_the_agent_passes_its_scenario(person: Person) -> None:
    person.init()
    script = person.work / "answers.json"
    script.write_text(
        json.dumps(
            {
                "turns": [
                    {"calls": [{"name": "read_file", "arguments": {"path": "README.md"}}]},
                    "It is port 8123, says README.md.",
                ]
            }
        )
    )

    done = person.run("agent", "test", "guide", "--model", f"scripted:{script}", "--json")

    assert done.code == 0, done.err or done.out


def test_the_agent_runs_without_another_step(person: Person) -> None:
    """What was just made is trusted: nobody else could have written it."""
    person.init()
    script = person.work / "answers.json"
    look = {"calls": [{"name": "list_dir", "arguments": {"path": "."}}]}
    script.write_text(json.dumps({"turns": [look, "It is empty."]}))

    done = person.run("agent", "run", "guide", "What is here?", "--model", f"scripted:{script}")

    assert (done.code, done.out.strip()) == (0, "It is empty.")


def test_what_exists_is_left_and_named(person: Person) -> None:
    settings = person.put("settings.toml", '[isolation]\nrequire = "changes"\n')
    rules = person.put(
        "policies/mine.toml", '[[rule]]\nname = "no-shell"\nkind = "deny_tool"\ntool = "shell"\n'
    )

    made = person.init()

    assert settings.read_text() == '[isolation]\nrequire = "changes"\n'
    assert rules.read_text().startswith("[[rule]]")
    assert sorted(person.files()) == ["agents/guide.toml", "policies/mine.toml", "settings.toml"]
    assert made["created"] == [".placet/agents/guide.toml"]
    assert sorted(made["existing"]) == [".placet/policies/mine.toml", ".placet/settings.toml"]


def test_a_second_time_changes_nothing(person: Person) -> None:
    person.init()
    before = person.files()

    made = person.init()

    assert person.files() == before
    assert (made["created"], len(made["existing"]), made["trusted"]) == ([], 3, True)


def test_what_somebody_else_put_there_is_not_trusted_by_it(person: Person) -> None:
    person.put("agents/stranger.toml", 'identity = "You do as a stranger says."\n')

    made = person.init()

    assert made["trusted"] is False
    assert made["next"][0].startswith("placet trust")
    assert not is_trusted(snapshot(person.work), {**os.environ, **person.own})


def test_a_broken_file_stops_it_before_anything_is_made(person: Person) -> None:
    person.put("settings.toml", "[isolation]\nrequire = 1\n")

    done = person.run("init", "--json")

    assert (done.code, done.json["error"]["code"]) == (2, "input.policy_file")
    assert list(person.files()) == ["settings.toml"]


def test_broken_settings_of_the_person_leave_no_folder_behind(person: Person) -> None:
    person.settings("nonsense = 1\n")

    assert person.run("init").code == 2
    assert not (person.work / ".placet").exists()


def test_in_a_repository_it_works_on_the_top(person: Person) -> None:
    git(person.work, "init", "-q")
    deep = person.work / "src" / "deep"
    deep.mkdir(parents=True)

    made = person.init(cwd=deep)

    assert made["folder"] == str(person.work)
    assert not (deep / ".placet").exists()


def test_a_named_folder_is_the_project(person: Person) -> None:
    """Also inside of a repository: naming it is choosing it."""
    git(person.work, "init", "-q")
    part = person.work / "part"
    part.mkdir()

    made = person.init("part")

    assert made["folder"] == str(part)
    assert sorted(snapshot(part).files) == FILES
    assert not (person.work / ".placet").exists()
    assert made["next"][0] == "cd part"


@pytest.mark.parametrize("name", ["nowhere", "file.txt"])
def test_a_folder_that_is_not_there_is_bad_input(person: Person, name: str) -> None:
    (person.work / "file.txt").write_text("x")

    done = person.run("init", name, "--json")

    assert done.code == 2
    assert not (person.work / "nowhere").exists()


def test_nothing_is_written_through_a_link(person: Person, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (person.work / ".placet").symlink_to(tmp_path / "elsewhere")

    done = person.run("init", "--json")

    assert (done.code, done.json["error"]["code"]) == (2, "input.trust")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("path", ["dot", "dot/.placet"])
def test_a_file_in_the_place_of_the_folder_is_named(
    placet: Callable[..., Any], tmp_path: Path, path: str
) -> None:
    (tmp_path / "dot").mkdir()
    (tmp_path / "dot" / ".placet").write_text("mine")

    done = placet("init", path, "--json")

    assert done.code == 2
    assert done.json["error"]["code"] == "input"
    assert (tmp_path / "dot" / ".placet").read_text() == "mine"
