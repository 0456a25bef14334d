"""`placet memory`: facts as a person meets them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet.inference.local.weights import EMBED
from placet.storage.location import open_database
from tests.storage.children import ask

Placet = Callable[..., Any]


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "facts.db")


def line(**fields: Any) -> str:
    return json.dumps({"id": "a", "subject": "s", "body": "b", "source": "x", "learned": 1.0} | fields)


def test_a_fact_is_added_found_explained_replaced_and_forgotten(placet: Placet, db: str) -> None:
    first = placet("memory", "add", "ann", "Ann lives in Rome", "--key", "city", "--db", db, "--json").json
    second = placet("memory", "add", "ann", "Ann lives in Oslo", "--key", "city", "--replace", "--db", db)
    assert second.code == 0

    found = placet("memory", "query", "where does Ann live?", "--db", db, "--json").json
    shown = placet("memory", "query", "where does Ann live?", "--explain", "--db", db)
    old = placet("memory", "show", first["id"], "--db", db, "--json").json

    assert [hit["fact"]["body"] for hit in found["hits"]] == ["Ann lives in Oslo"]
    assert found["hits"][0]["fact"]["source"].startswith("person:")
    assert "left_out" not in found
    assert "score" in shown.out
    assert old["superseded_by"] == second.out.strip()
    assert placet("memory", "forget", second.out.strip(), "--db", db).code == 0
    assert placet("memory", "query", "Oslo", "--db", db).code == 1
    listed = placet("memory", "show", "--past", "--db", db, "--json").json
    assert [fact["id"] for fact in listed["facts"]] == [first["id"]]


def test_a_rule_that_denies_holds_for_a_person_too(placet: Placet, db: str, tmp_path: Path) -> None:
    rules = tmp_path / ".placet" / "policies"
    rules.mkdir(parents=True)
    (rules / "memory.toml").write_text(
        '[[rule]]\nname = "no"\nkind = "deny_tool"\ntool = "remember"\nreason = "whatever the parameters"\n'
    )

    done = placet("memory", "add", "ann", "secret things", "--db", db)
    file = tmp_path / "facts.jsonl"
    file.write_text(line())
    imported = placet("memory", "import", file, "--db", db)

    assert (done.code, imported.code) == (3, 3), done.err
    assert placet("memory", "show", "--db", db, "--json").json == {"facts": []}


def test_whatever_is_typed_is_stored_as_it_is(placet: Placet, db: str) -> None:
    text = "$page.output"
    fields = [
        option for name in ("--key", "--kind", "--source", "--tag", "--alias") for option in (name, text)
    ]

    added = placet("memory", "add", text, text, *fields, "--db", db, "--json")

    fact = placet("memory", "show", added.json["id"], "--db", db, "--json").json
    assert [fact[name] for name in ("subject", "body", "key", "kind", "source")] == [text] * 5
    assert (fact["tags"], fact["aliases"]) == ([text], [text])
    assert placet("memory", "add", "s", "b", "--tag", "x" * 400, "--db", db).code == 2


def test_an_export_replaces_a_file_whole_and_for_its_owner_alone(
    placet: Placet, db: str, tmp_path: Path
) -> None:
    placet("memory", "add", "s", "one", "--secret", "--db", db)
    file = tmp_path / "facts.jsonl"
    file.write_text("something that others may read")
    file.chmod(0o644)

    assert placet("memory", "export", "--with-secret", "--to", file, "--db", db).code == 0
    assert placet("memory", "export", "--to", tmp_path / "missing" / "facts.jsonl", "--db", db).code == 2

    assert json.loads(file.read_text())["body"] == "one"
    assert file.stat().st_mode & 0o077 == 0


def test_labels_kinds_and_times_are_stored(placet: Placet, db: str) -> None:
    options = ("--kind", "constraint", "--tag", "ci", "--alias", "shipping", "--untrusted", "--secret")
    more = ("--valid-until", "2999-01-31", "--confidence", "0.5", "--for", "everyone", "--tenant", "acme")
    id = placet("memory", "add", "ci", "Ship on Friday", *options, *more, "--db", db).out.strip()

    fact = placet("memory", "show", id, "--tenant", "acme", "--db", db, "--json").json

    assert fact["labels"] == ["secret", "untrusted"]
    assert (fact["kind"], fact["tags"], fact["aliases"]) == ("constraint", ["ci"], ["shipping"])
    assert (fact["confidence"], fact["tenant"], fact["scope"]) == (0.5, "acme", {})
    assert fact["valid_until"] > 3e10
    assert placet("memory", "show", id, "--db", db).code == 2
    assert placet("memory", "trust", id, "--tenant", "acme", "--db", db).code == 0
    assert placet("memory", "show", id, "--tenant", "acme", "--db", db, "--json").json["labels"] == ["secret"]


def test_what_is_exported_is_imported_as_it_was(placet: Placet, db: str, tmp_path: Path) -> None:
    for body in ("one", "two"):
        placet("memory", "add", "s", body, "--db", db)
    placet("memory", "add", "s", "three", "--secret", "--db", db)
    file, other = tmp_path / "facts.jsonl", str(tmp_path / "other.db")

    assert placet("memory", "export", "--to", file, "--db", db).code == 0
    first = placet("memory", "import", file, "--db", other, "--json").json
    again = placet("memory", "import", file, "--db", other, "--json").json

    assert (first, again) == ({"added": 2, "known": 0}, {"added": 0, "known": 2})
    assert placet("memory", "export", "--db", other).out == file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    assert placet("memory", "export", "--with-secret", "--db", db).out.count("\n") == 3


@pytest.mark.parametrize(
    ("bad", "place"),
    [
        (line(body=7), "$.body"),
        (line(bodey="x"), "bodey"),
        (line(learned="soon"), "$.learned"),
        (line(source=""), "$.source"),
        (line(tags=["ok", ""]), "$.tags[1]"),
        (line(confidence=2), "$.confidence"),
        (line(learned=-9e10), "$.learned"),
        (line(tenant="acme"), "$.tenant"),
        ('{"id": "a", "id": "b"}', "id"),
        ("{oops", "line 1"),
        ("[]", "$"),
    ],
)
def test_a_malformed_import_names_file_line_and_field_and_imports_nothing(
    placet: Placet, db: str, tmp_path: Path, bad: str, place: str
) -> None:
    file = tmp_path / "facts.jsonl"
    file.write_text(f"{line(id='good')}\n\n{bad}\n{line(id='later')}\n")

    done = placet("memory", "import", file, "--db", db, "--json")

    error = done.json["error"]
    assert (done.code, error["code"]) == (2, "input.decode")
    assert f"{file}, line 3" in error["message"]
    assert place in error["message"]
    assert placet("memory", "show", "--db", db).code == 2 or not Path(db).exists()


def test_an_import_is_for_the_tenant_of_the_command(placet: Placet, db: str, tmp_path: Path) -> None:
    file = tmp_path / "facts.jsonl"
    file.write_text(f"{line(id='a', body='$b.output')}\n{line(id='b', tenant='acme', learned=2.0)}\n")

    assert placet("memory", "import", file, "--tenant", "other", "--db", db).code == 2
    assert placet("memory", "import", file, "--tenant", "acme", "--db", db).code == 0

    export = placet("memory", "export", "--tenant", "acme", "--db", db).out
    assert [json.loads(each)["body"] for each in export.splitlines()] == ["$b.output", "b"]


@pytest.mark.parametrize("command", [("query", "where does Ann live?"), ("consolidate",)])
def test_an_embedder_that_fails_is_said_once(
    placet: Placet, db: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    placet("memory", "add", "ann", "Ann lives in Rome", "--db", db)
    models = tmp_path / "models"
    models.mkdir()
    for file in EMBED.files:
        with open(models / file.name, "wb") as made:
            made.truncate(file.size)

    done = placet("memory", *command, "--db", db, PLACET_MODELS=str(models))

    assert done.code == 0, done.err
    assert done.err.count("the embedder failed") == 1


def test_consolidation_is_recorded(placet: Placet, db: str) -> None:
    placet("memory", "add", "s", "old news", "--valid-until", "2000-01-31", "--db", db)

    done = placet("memory", "consolidate", "--db", db, "--json").json
    events = placet("log", "query", "--kind", "consolidated", "--db", db, "--json")

    assert done["expired"] == 1
    assert '"expired":1' in events.out.replace(" ", "")


def test_an_assistant_has_a_memory_when_the_settings_say_so(placet: Placet, db: str, tmp_path: Path) -> None:
    config = tmp_path / "config"
    (config / "placet").mkdir(parents=True)
    (config / "placet" / "settings.toml").write_text("memory = true\n")
    placet("memory", "add", "deploy", "Deploys happen on Fridays", "--for", "everyone", "--db", db)
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"turns": ["On Fridays."]}))
    record = tmp_path / "run.jsonl"

    done = placet(
        *("do", "When do deploys happen?", "--model", f"scripted:{script}", "--record", record, "--db", db),
        XDG_CONFIG_HOME=str(config),
    )

    assert done.code == 0, done.err
    assert "Deploys happen on Fridays" in record.read_text()


def test_a_project_may_not_switch_memory_on(placet: Placet, tmp_path: Path) -> None:
    (tmp_path / ".placet").mkdir()
    (tmp_path / ".placet" / "settings.toml").write_text("memory = true\n")

    done = placet("memory", "add", "s", "b", "--json")

    assert done.json["error"]["code"] == "input.policy_file"


def test_an_agent_whose_file_asks_for_memory_has_it_and_is_tried_without(
    placet: Placet, db: str, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    agents = config / "placet" / "agents"
    agents.mkdir(parents=True)
    (agents / "ops.toml").write_text(
        'id = "ops"\nidentity = "You answer."\nmemory = true\n'
        '[[scenarios]]\ninput = "When do deploys happen?"\nexpect = "Fridays"\n'
    )
    placet("memory", "add", "deploy", "Deploys happen on Fridays", "--for", "everyone", "--db", db)
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"turns": ["On Fridays."]}))

    model = ("--model", f"scripted:{script}", "--json")
    done = placet(
        *("agent", "run", "ops", "When do deploys happen?", *model, "--db", db), XDG_CONFIG_HOME=str(config)
    )
    tried = placet(*("agent", "test", "ops", "--isolation", "none", *model), XDG_CONFIG_HOME=str(config))

    assert done.code == 0, done.err
    with open_database(db) as database:
        assert ask(database, "SELECT count(*) FROM memory_recalled") == [(1,)]
    assert tried.code == 0, tried.err


def test_what_is_forgotten_is_in_no_file_of_the_database(placet: Placet, db: str, tmp_path: Path) -> None:
    added = [
        placet("memory", "add", "s", body, "--db", db).out.strip()
        for body in ("zyzzyva $a.output", 'a "quoted" zyzzyva', "kept")
    ]
    assert b"zyzzyva" in Path(db).read_bytes()

    assert placet("memory", "forget", *added[:2], "--db", db).code == 0

    for file in tmp_path.glob("facts.db*"):
        assert b"zyzzyva" not in file.read_bytes()
    with open_database(db) as database:
        records = [row[0] for row in ask(database, "SELECT record FROM runs ORDER BY begun")]
    assert ["kept" in record for record in records] == [False, False, True]
