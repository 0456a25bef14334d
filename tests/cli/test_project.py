"""Which folder counts as the project where something is made: one answer for agents and for loops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.coder.workbench import git, make_repository


class Person:
    """A person with settings and data of their own, in folders inside and outside of repositories."""

    def __init__(self, folder: Path, placet: Callable[..., Any]) -> None:
        self.folder = folder
        self.repository = make_repository(folder / "home" / "repository", {"src/deep/a.txt": "a\n"})
        self.deep = self.repository / "src" / "deep"
        self._placet = placet

    def run(self, *arguments: str, cwd: Path, code: int = 0) -> Any:
        """What a command prints as JSON."""
        done = self._placet(
            *arguments,
            "--json",
            cwd=cwd,
            HOME=str(self.folder / "home"),
            **{f"XDG_{name}_HOME": str(self.folder / name.lower()) for name in ("CONFIG", "DATA", "STATE")},
        )
        assert done.code == code, done.err or done.out
        return done.json

    def new_agent(self, name: str, cwd: Path) -> Path:
        """Where `placet agent new` puts an agent."""
        return Path(self.run("agent", "new", name, cwd=cwd)["path"])

    def new_loop(self, name: str, cwd: Path) -> Path:
        """Where `placet loop new` puts a loop."""
        return Path(self.run("loop", "new", name, cwd=cwd)["path"])


@pytest.fixture
def person(tmp_path: Path, placet: Callable[..., Any]) -> Person:
    return Person(tmp_path, placet)


def test_agents_and_loops_go_to_the_top_of_the_repository(person: Person) -> None:
    agent = person.new_agent("first", person.deep)
    loop = person.new_loop("daily-triage", person.deep)

    assert agent == person.repository / ".placet" / "agents" / "first.toml"
    assert loop == person.repository / ".placet" / "loops" / "daily-triage.toml"


def test_it_is_the_same_the_other_way_round_and_in_a_linked_worktree(person: Person) -> None:
    linked = person.folder / "home" / "linked"
    git(person.repository, "worktree", "add", "-q", str(linked))

    loop = person.new_loop("daily-triage", linked / "src")
    agent = person.new_agent("first", linked / "src" / "deep")

    assert loop.parents[1] == agent.parents[1] == linked / ".placet"
    assert not (person.repository / ".placet").exists()


def test_an_agent_of_a_new_project_is_trusted_and_its_versions_are_found(person: Person) -> None:
    person.new_agent("first", person.deep)

    shown = person.run("agent", "show", "first", cwd=person.deep)
    trusted = person.run("trust", "--list", cwd=person.deep)

    assert (shown["where"], [each["number"] for each in shown["versions"]]) == ("project", [1])
    assert [(each["folder"], each["status"]) for each in trusted["folders"]] == [
        (str(person.repository), "as trusted")
    ]


def test_the_nearest_folder_counts(person: Person) -> None:
    """A `.placet` below the top is nearer than the repository; one above it is further away."""
    (person.deep / ".placet").mkdir()
    (person.repository.parent / ".placet").mkdir()

    assert person.new_agent("inner", person.deep).parents[1] == person.deep / ".placet"
    assert person.new_agent("whole", person.repository).parents[1] == person.repository / ".placet"


def test_a_loop_goes_to_the_nearest_folder_as_an_agent_does_and_is_found_there(person: Person) -> None:
    """A `.placet` below the top of the repository is the project of what lies in it."""
    inner = person.repository / "src"
    person.run("init", str(inner), cwd=inner)

    agent = person.new_agent("first", person.deep)
    loop = person.new_loop("daily-triage", person.deep)

    assert agent.parents[1] == loop.parents[1] == inner / ".placet"
    listed = person.run("loop", "list", cwd=person.deep)["loops"]
    assert [each["name"] for each in listed] == ["daily-triage"]
    assert person.run("loop", "show", "daily-triage", cwd=inner)["name"] == "daily-triage"
    assert person.run("loop", "list", cwd=person.repository)["loops"] == []
    assert not (person.repository / ".placet").exists()


def test_outside_of_a_project_an_agent_is_the_persons_own(person: Person) -> None:
    """A home folder under version control is no project of everything below it."""
    git(person.folder / "home", "init", "-q")
    plain = person.folder / "home" / "downloads"
    plain.mkdir()

    made = person.new_agent("mine", plain)

    assert made == person.folder / "config" / "placet" / "agents" / "mine.toml"


def test_an_agent_of_ones_own_makes_no_project(person: Person) -> None:
    person.run("agent", "new", "mine", "--user", cwd=person.deep)

    assert not (person.repository / ".placet").exists()


def test_an_agent_that_cannot_be_made_leaves_no_project_behind(person: Person) -> None:
    person.run("agent", "new", "No Such Id", cwd=person.deep, code=2)

    assert not (person.repository / ".placet").exists()
