"""Tables grow by numbered steps: each taken once, all or none, and never changed once released."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import placet
from placet.errors import StorageError, StorageNewer
from placet.storage.database import Database
from placet.storage.location import open_database
from placet.storage.migrate import Conversion, Migrations, migrate
from tests.storage.children import ask, run, say

ONE = ["CREATE TABLE things (id BIGINT PRIMARY KEY, name TEXT NOT NULL)"]
TWO = ["ALTER TABLE things ADD COLUMN size BIGINT NOT NULL DEFAULT 7"]
THREE = ["CREATE TABLE more (id BIGINT)", "UPDATE things SET size = size + id"]
BROKEN = [
    "UPDATE things SET name = 'changed'",
    "CREATE TABLE half (id BIGINT)",
    "ALTER TABLE nowhere ADD x TEXT",
]


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with open_database(database_url) as opened:
        yield opened


def versions(database: Database) -> dict[str, int]:
    return dict(ask(database, "SELECT part, version FROM schema_parts"))  # type: ignore[arg-type]


def test_tables_of_the_first_version_become_those_of_the_third_and_keep_their_rows(
    database: Database,
) -> None:
    migrate(database, Migrations("things", [ONE]))
    say(database, "INSERT INTO things (id, name) VALUES (1, 'a'), (2, 'b')")

    migrate(database, Migrations("things", [ONE, TWO, THREE]))

    assert ask(database, "SELECT id, name, size FROM things ORDER BY id") == [(1, "a", 8), (2, "b", 9)]
    assert ask(database, "SELECT count(*) FROM more") == [(0,)]
    assert versions(database) == {"things": 3}


def test_each_step_is_taken_once(database: Database) -> None:
    for _ in range(3):
        migrate(database, Migrations("things", [ONE, ["INSERT INTO things VALUES (1, 'a')"]]))

    assert ask(database, "SELECT id, name FROM things") == [(1, "a")]


def test_a_step_that_fails_leaves_the_tables_as_they_were(database: Database) -> None:
    """Also the steps before it in the same go, and also on a database that was empty."""
    migrate(database, Migrations("things", [ONE]))
    say(database, "INSERT INTO things (id, name) VALUES (1, 'a')")

    with pytest.raises(StorageError, match="nowhere"):
        migrate(database, Migrations("things", [ONE, TWO, BROKEN]))
    with pytest.raises(StorageError, match="nowhere"):
        migrate(database, Migrations("others", [["CREATE TABLE others (id BIGINT)"], BROKEN]))

    assert ask(database, "SELECT * FROM things") == [(1, "a")]
    assert versions(database) == {"things": 1}
    assert not database.read(lambda t: t.has_table("half") or t.has_table("others"))
    migrate(database, Migrations("things", [ONE, TWO]))
    assert ask(database, "SELECT * FROM things") == [(1, "a", 7)]


def test_tables_of_a_newer_version_are_refused_and_left_alone(database: Database) -> None:
    migrate(database, Migrations("things", [ONE, TWO]))
    say(database, "INSERT INTO things (id, name) VALUES (1, 'a')")

    with pytest.raises(StorageNewer) as caught:
        migrate(database, Migrations("things", [ONE]))

    assert "holds things tables of version 2; this program knows version 1." in str(caught.value)
    assert "Use the newer version of Placet, or another database." in str(caught.value)
    assert caught.value.code == "storage.newer"
    assert ask(database, "SELECT * FROM things") == [(1, "a", 7)]
    assert versions(database) == {"things": 2}


def test_two_parts_are_independent(database: Database) -> None:
    migrate(database, Migrations("things", [ONE, TWO]))

    migrate(database, Migrations("others", [["CREATE TABLE others (id BIGINT)"]]))
    with pytest.raises(StorageNewer):
        migrate(database, Migrations("things", [ONE]))
    migrate(database, Migrations("others", [["CREATE TABLE others (id BIGINT)"], ["DROP TABLE others"]]))

    assert versions(database) == {"things": 2, "others": 2}


def test_tables_that_are_up_to_date_need_no_right_to_write(tmp_path: Path) -> None:
    """Looking alone tells, so a second process may migrate while a long write is under way."""
    path = tmp_path / "placet.db"
    with open_database(str(path)) as database:
        migrate(database, Migrations("things", [ONE]))

        def busy(_: object) -> None:
            run(
                """
                import sys
                from placet.storage import sqlite
                sqlite.BUSY_TIMEOUT_S = 0.1
                from placet.storage.location import open_database
                from placet.storage.migrate import Conversion, Migrations, migrate
                with open_database(sys.argv[1]) as database:
                    migrate(database, Migrations("things", [[]]))
                """,
                path,
            )

        database.write(busy).result(60)


# What has been released

RELEASED = Path(__file__).with_name("released.json")


def parts_of_the_product() -> dict[str, Migrations]:
    """The tables of every package: whatever `Migrations` a module of the product holds."""
    found: dict[str, Migrations] = {}
    folder = Path(placet.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        if path.parent.name == "storage" or "Migrations(" not in path.read_text(encoding="utf-8"):
            continue
        name = ".".join(["placet", *path.relative_to(folder).with_suffix("").parts])
        module = importlib.import_module(name)
        # A part whose first step has something random in it is made by a function.
        made = module.migrations() if hasattr(module, "migrations") else None
        for part in (*vars(module).values(), made):
            if isinstance(part, Migrations):
                assert part.part not in found, f"{name} and another module both keep a part '{part.part}'"
                found[part.part] = part
    return found


def digests(part: Migrations) -> list[str]:
    """One for each step; what is random in it, long and in hex, does not count."""
    named = [[each.name if isinstance(each, Conversion) else each for each in step] for step in part.steps]
    steps = [re.sub(r"'[0-9a-f]{32,}'", "'random'", json.dumps(step)) for step in named]
    return [hashlib.sha256(step.encode()).hexdigest() for step in steps]


def test_a_released_step_never_changes() -> None:
    released: dict[str, list[str]] = json.loads(RELEASED.read_text(encoding="utf-8"))
    written = {name: digests(part) for name, part in parts_of_the_product().items()}
    wanted = json.dumps(written, indent=2, sort_keys=True)

    for name, steps in released.items():
        assert written.get(name, [])[: len(steps)] == steps, (
            f"A released step of '{name}' has been changed or removed. Databases out there have taken it "
            "as it was and will not take it again: put it back, and write what is new as a step at the end. "
            f"(Only while no release has it may its digest in {RELEASED.name} change:\n{wanted})"
        )
    assert written == released, (
        f"There is a new step. If it is finished, let {RELEASED.name} hold exactly this; from then on it may "
        f"not change:\n{wanted}"
    )


@pytest.mark.parametrize("name", sorted(parts_of_the_product()))
def test_the_tables_of_every_part_can_be_made_from_every_released_version(
    name: str, database: Database
) -> None:
    part = parts_of_the_product()[name]

    for version in range(1, len(part.steps) + 1):
        migrate(database, Migrations(part.part, part.steps[:version]))

    assert versions(database) == {name: len(part.steps)}


def test_there_are_parts_to_look_at() -> None:
    """Guards against a moved folder, over which every other test here would pass."""
    assert {"approvals", "events", "runs", "runtime"} <= set(parts_of_the_product())
