"""What was recorded of a folder before it became a project: pointed to, never hidden without a word."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from placet.approvals.sql import SqlApprovals
from placet.coder.store_sql import SqlSessions
from placet.storage.location import open_database
from placet.testing.ledger import approval
from tests.cli.conftest import Done
from tests.coder.test_sessions import session
from tests.coder.workbench import make_repository


class Person:
    """A person with data of their own, and a repository that is no project yet, where a run waits."""

    def __init__(self, folder: Path, placet: Callable[..., Done]) -> None:
        self.folder = folder
        self.repository = make_repository(folder / "repository", {"src/a.txt": "a\n"})
        self.own = folder / "data" / "placet" / "placet.db"
        self._placet = placet

    def run(self, *arguments: str | Path, cwd: Path | None = None, **more: str) -> Done:
        """Run `placet` in the repository."""
        homes = {f"XDG_{name}_HOME": str(self.folder / name.lower()) for name in ("CONFIG", "DATA", "STATE")}
        return self._placet(*arguments, cwd=cwd or self.repository, **homes, **more)

    def start(self) -> str:
        """Begin a run that waits for an approval; its id."""
        action = {"id": "w", "tool": "write_file", "parameters": {"path": "b.txt", "text": "b"}}
        plan = self.folder / "plan.json"
        plan.write_text(json.dumps({"id": "p", "source": "s", "actions": [action]}))
        done = self.run("run", plan, "--permissions", "read_only", "--json")
        assert done.code == 4, done.err
        return str(done.json["run_id"])

    def init(self) -> Any:
        done = self.run("init", "--json")
        assert done.code == 0, done.err
        return done.json

    def follow(self, text: str) -> Iterator[Done]:
        """The commands in a text that name the person's own database, carried out as they stand."""
        for command in re.findall(rf"placet (\S.*?) --db {re.escape(str(self.own))}", text):
            yield self.run(*command.split(), "--db", self.own)


@pytest.fixture
def person(tmp_path: Path, placet: Callable[..., Done]) -> Person:
    return Person(tmp_path, placet)


def test_init_says_what_the_persons_own_database_has_of_the_folder(person: Person) -> None:
    run = person.start()

    (found,) = person.init()["other_databases"]

    assert (found["path"], found["newest_run"]) == (str(person.own), run)
    assert (found["runs"], found["runs_waiting"], found["approvals_waiting"]) == (1, 1, 1)
    assert found["next"] == [f"placet runs --db {person.own}", f"placet approvals --db {person.own}"]


def test_the_commands_that_init_names_show_them(person: Person) -> None:
    run = person.start()

    said = person.run("init").err

    runs, approvals = person.follow(said)
    assert "1 run (1 waiting for a person) and 1 approval that waits" in said
    assert run in runs.out
    assert run in approvals.out


def test_init_says_nothing_where_nothing_of_the_folder_is_there(person: Person) -> None:
    person.start()
    other = make_repository(person.folder / "other", {"a.txt": "a\n"})

    made = person.run("init", "--json", cwd=other)
    told = person.run("approvals", cwd=other)

    assert "other_databases" not in made.json
    assert str(person.own) not in told.err


def test_init_of_another_folder_names_it_in_the_command(person: Person) -> None:
    run = person.start()

    (found,) = person.run("init", person.repository, "--json", cwd=person.folder).json["other_databases"]

    assert found["next"][0] == f"placet runs --folder {person.repository} --db {person.own}"
    assert run in person.run("runs", "--folder", person.repository, "--db", person.own).out


@pytest.mark.parametrize("made", [("loop", "new", "daily-triage"), ("agent", "new", "first")])
def test_whatever_makes_the_folder_a_project_says_it_once(person: Person, made: tuple[str, ...]) -> None:
    person.start()

    first, second = (
        person.run(*made),
        person.run(
            *made[:2],
            "--name" if made[0] == "loop" else "second",
            *(("other", made[2]) if made[0] == "loop" else ()),
        ),
    )

    assert f"placet approvals --db {person.own}" in first.err
    assert (first.code, second.code) == (0, 0), second.err
    assert str(person.own) not in second.err


def test_lists_that_are_empty_point_to_it(person: Person) -> None:
    run = person.start()
    person.init()

    for command in ("approvals", "runs", "log"):
        told = person.run(command)
        (followed,) = person.follow(told.err)
        assert (told.code, followed.code) == (0, 0), command
        assert run in followed.out or command == "log"
        assert followed.out


def test_the_lists_as_json_have_a_field_more_only_where_there_is_something(person: Person) -> None:
    person.start()
    before = {command: person.run(command, "--json").json for command in ("approvals", "runs")}
    person.init()

    after = {command: person.run(command, "--json").json for command in ("approvals", "runs")}

    assert {command: set(after[command]) - set(before[command]) for command in after} == {
        "approvals": {"other_databases"},
        "runs": {"other_databases"},
    }
    assert [each["next"] for each in after["approvals"]["other_databases"]] == [
        [f"placet approvals --db {person.own}"]
    ]


def test_it_is_pointed_to_also_where_the_project_has_recorded_something(person: Person) -> None:
    person.start()
    person.init()
    plan = person.folder / "empty.json"
    plan.write_text(json.dumps({"id": "p", "source": "s", "actions": [{"id": "r", "tool": "list_files"}]}))
    assert person.run("run", plan).code in (0, 1)
    assert (person.repository / ".placet" / "data" / "placet.db").exists()

    assert f"placet approvals --db {person.own}" in person.run("approvals").err
    assert str(person.own) not in person.run("runs").err


def test_what_waits_there_is_pointed_to_beside_what_waits_in_the_project(person: Person) -> None:
    person.start()
    person.init()
    run = person.start()

    told = person.run("approvals")
    of_run = person.run("approvals", "--run", run)

    assert run in told.out
    assert f"placet approvals --db {person.own}" in told.err
    assert str(person.own) not in of_run.err


@pytest.mark.parametrize("command", [("resume",), ("runs", "show"), ("log", "show"), ("explain",)])
def test_a_run_that_the_project_does_not_know_is_found(person: Person, command: tuple[str, ...]) -> None:
    run = person.start()
    person.init()

    told = person.run(*command, run[:12])
    (followed,) = person.follow(told.err)
    as_json = person.run(*command, run, "--json")

    assert (told.code, as_json.code) == (2, 2)
    assert f"placet {' '.join(command)} {run} --db {person.own}" in as_json.json["error"]["message"]
    assert followed.code == (4 if command == ("resume",) else 0)


def test_an_approval_that_the_project_does_not_know_is_found(person: Person) -> None:
    person.start()
    person.init()
    (asked,) = person.run("approvals", "--json", "--db", person.own).json["approvals"]

    for command in (["show"], ["approve"], ["deny", "--reason", "no"], ["revoke"]):
        told = person.run("approvals", *command, asked["id"])
        assert told.code == 2
        assert f"placet approvals show {asked['id']} --db {person.own}" in told.err


def test_a_run_that_nobody_knows_stays_unknown(person: Person) -> None:
    person.start()
    person.init()

    told = person.run("resume", "nobody")

    assert told.code == 2
    assert str(person.own) not in told.err


def test_coding_sessions_are_counted_and_found(person: Person) -> None:
    person.start()
    with open_database(str(person.own)) as database:
        SqlSessions(database).put(session("coded", repository=str(person.repository), state="needs_approval"))
        SqlSessions(database).put(session("foreign", repository=str(person.folder / "other")))

    (found,) = person.init()["other_databases"]
    told = person.run("code", "list")
    (listed,) = person.run("code", "list", "--json").json["other_databases"]

    assert (found["sessions"], found["sessions_waiting"], found["runs"]) == (1, 1, 1)
    assert found["next"][-1:] == listed["next"] == [f"placet code list --db {person.own}"]
    (followed,) = person.follow(told.err)
    assert "coded" in followed.out
    assert f"placet code show coded --db {person.own}" in person.run("code", "show", "coded").err


@pytest.mark.parametrize("kept", ["runs", "approvals", "nothing"])
def test_looking_there_leaves_no_trace(person: Person, kept: str) -> None:
    """Neither a file that was not there, nor a table."""
    run = person.start() if kept == "runs" else "some"
    if kept == "approvals":
        person.own.parent.mkdir(parents=True, mode=0o700)
        with open_database(str(person.own)) as database:
            SqlApprovals(database)
    person.init()
    before = _files(person.folder)

    for command in (
        ("approvals",),
        ("runs",),
        ("log",),
        ("code", "list"),
        ("resume", run),
        ("runs", "show", run),
    ):
        person.run(*command)

    assert _files(person.folder) == before


def test_whoever_names_a_database_is_told_of_no_other(person: Person) -> None:
    run = person.start()
    person.init()
    named = person.folder / "named.db"
    with open_database(str(named)) as database:
        SqlApprovals(database)

    told = [
        person.run("approvals", "--db", named),
        person.run("approvals", PLACET_DB=str(named)),
        person.run("resume", run, "--db", named),
        person.run("resume", run, PLACET_DB=str(named)),
    ]

    assert [str(person.own) in each.err for each in told] == [False] * 4


def test_the_database_of_a_project_further_out_counts_too_if_it_is_ours(person: Person) -> None:
    person.init()
    run = person.start()
    outer = person.repository / ".placet" / "data" / "placet.db"

    (found,) = person.run("init", "src", "--json").json["other_databases"]
    told = person.run("resume", run, cwd=person.repository / "src").err
    outer.rename(outer.with_name("moved.db"))
    with open_database(str(outer)) as database:
        SqlApprovals(database).request(approval("theirs", requested_at=time.time()))

    assert (found["path"], found["runs"]) == (str(outer), 1)
    assert f"placet resume {run} --db {outer}" in told
    refused = person.run("approvals", "show", "theirs", cwd=person.repository / "src")
    assert (refused.code, str(outer) in refused.err) == (2, False)


def test_a_database_that_cannot_be_read_is_passed_over(person: Person) -> None:
    person.own.parent.mkdir(parents=True, mode=0o700)
    person.own.write_bytes(b"no database at all" * 100)

    made = person.run("init", "--json")
    told = person.run("approvals")

    assert (made.code, told.code) == (0, 0)
    assert "other_databases" not in made.json


def _files(folder: Path) -> dict[str, bytes]:
    found = [Path(place) / name for place, _, names in os.walk(folder) for name in names]
    return {str(each.relative_to(folder)): each.read_bytes() for each in found}
