"""`placet db`: what is old is brought up to date, and what is wrong is told with an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placet.app.readiness import schema_parts
from placet.durable import sql as durable
from placet.durable.sql import SqlJournal
from placet.engine import sql as engine
from placet.storage.location import open_database
from placet.storage.migrate import Migrations, migrate, schema_versions
from placet.storage.transaction import Transaction
from tests.cli.conftest import Placet
from tests.storage.children import ask, say


def known() -> dict[str, int]:
    return {each.part: len(each.steps) for each in (*schema_parts(), engine.MIGRATIONS)}


def test_an_older_database_is_told_of_and_brought_up_to_date(placet: Placet, database_url: str) -> None:
    with open_database(database_url) as database:
        migrate(database, Migrations("runs", durable.MIGRATIONS.steps[:2]))

    before = placet("db", "check", "--db", database_url, "--json")
    done = placet("db", "migrate", "--db", database_url, "--json")
    after = placet("db", "check", "--db", database_url, "--json")
    again = placet("db", "migrate", "--db", database_url)

    runs = {each["part"]: each for each in before.json["parts"]}["runs"]
    assert (before.code, before.json["ok"]) == (1, False)
    assert runs == {"part": "runs", "found": 2, "known": known()["runs"]}
    assert done.code == 0
    assert {each["part"]: each["to"] for each in done.json["parts"]} == known()
    assert {"part": "runs", "from": 2, "to": known()["runs"]} in done.json["parts"]
    assert (after.code, after.json["problems"], after.json["missing"]) == (0, [], [])
    assert after.json["size"] > 0
    assert abs(after.json["clock_s"]) < 60
    assert (again.code, "->" in again.out) == (0, False)
    with open_database(database_url, read_only=True) as database:
        assert schema_versions(database) == known()


def test_what_is_missing_or_was_left_is_a_problem(placet: Placet, database_url: str) -> None:
    with open_database(database_url) as database:
        for part in (*schema_parts(), engine.MIGRATIONS):
            migrate(database, part)
        say(database, "DROP INDEX runs_by_status")
        say(
            database,
            "INSERT INTO runs (run_id, proposal_id, source, actions, status, begun, hold, held_until,"
            " context, record) VALUES ('r', 'p', 's', 0, 'running', 1, 1, 1, '{}', '{}')",
        )

    found = placet("db", "check", "--db", database_url, "--json")

    assert found.code == 1
    assert found.json["missing"] == ["index runs_by_status"]
    assert (found.json["expired_leases"], found.json["writable"]) == (1, True)
    with open_database(database_url, read_only=True) as database:
        assert ask(database, "SELECT count(*) FROM runs") == [(1,)]


def test_a_database_that_is_not_there_is_an_error(placet: Placet, tmp_path: Path) -> None:
    missing = placet("db", "check", "--db", "nowhere.db", "--json")
    server = placet("db", "check", "--db", "postgresql://nobody:secret@127.0.0.1:9/none")

    assert (missing.code, server.code) == (2, 2)
    assert "error" in json.loads(missing.out)
    assert "secret" not in server.err
    assert not (tmp_path / "nowhere.db").exists()


def plan(t: Transaction, sql: str) -> str:
    explain = "EXPLAIN " if t.dialect == "postgres" else "EXPLAIN QUERY PLAN "
    if t.dialect == "postgres":
        t.execute("SET LOCAL enable_seqscan TO off")  # The table is small here.
    return str(t.execute(explain + sql))


@pytest.mark.parametrize(
    ("condition", "index"), [("status = 'waiting'", "runs_by_status"), ("tenant = 'a'", "runs_by_tenant")]
)
def test_lists_by_status_and_tenant_use_an_index(database_url: str, condition: str, index: str) -> None:
    sql = f"SELECT run_id FROM runs WHERE {condition} ORDER BY begun DESC, run_id DESC LIMIT 20"
    with open_database(database_url) as database:
        SqlJournal(database).close()

        found = database.read(lambda t: plan(t, sql))

    assert index in found


def test_tables_that_nobody_has_needed_yet_are_no_problem(placet: Placet, database_url: str) -> None:
    with open_database(database_url) as database:
        migrate(database, engine.MIGRATIONS)

    found = placet("db", "check", "--db", database_url, "--json")

    assert (found.code, found.json["problems"]) == (0, [])
    assert {each["part"] for each in found.json["parts"] if not each["found"]} == {*known()} - {"engine"}
