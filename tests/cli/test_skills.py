"""`placet skills`: skills as a person meets them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet.memory.skills.document import read_folder
from placet.memory.skills.sql import SqlSkills
from placet.storage.location import open_database
from placet.testing.skill_store import make_run, make_skill

Placet = Callable[..., Any]
FILES = {
    "SKILL.md": "---\nname: deploy\ndescription: How to deploy.\nmetadata:\n  domain: ops\n"
    "  keywords: deploy, roll back\n---\n\nAsk first. \x1b[31m\n",
    "scripts/go.sh": "#!/bin/sh\ntouch ran\n",
    "references/api.md": "# API\n",
}


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "skills.db")


def skill_at(folder: Path, files: dict[str, str] = FILES) -> Path:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def listed(placet: Placet, db: str) -> dict[str, str]:
    found = placet("skills", "list", "--db", db, "--json").json
    return {each["name"]: each["state"] for each in found["skills"]}


def test_a_skill_comes_is_shown_goes_out_as_it_came_and_retires(
    placet: Placet, db: str, tmp_path: Path
) -> None:
    folder = skill_at(tmp_path / "deploy")

    added = placet("skills", "import", folder, "--db", db, "--json").json
    again = placet("skills", "import", folder, "--db", db, "--json").json
    shown = placet("skills", "show", "deploy", "--db", db)
    data = placet("skills", "show", "deploy", "--db", db, "--json").json
    (tmp_path / "out").mkdir()
    exported = placet("skills", "export", "deploy", "--to", tmp_path / "out", "--db", db)
    twice = placet("skills", "export", "deploy", "--to", tmp_path / "out", "--db", db)

    assert added == again == {"name": "deploy", "version": 1, "state": "kept"}
    assert "Ask first." in shown.out
    assert "\x1b" not in shown.out
    assert (data["domain"], data["triggers"]["keywords"]) == ("ops", ["deploy", "roll back"])
    assert (exported.code, twice.code) == (0, 2)
    assert read_folder(tmp_path / "out" / "deploy") == read_folder(folder)
    assert not list(tmp_path.rglob("ran"))
    assert placet("skills", "retire", "deploy", "--db", db, "--json").json["changed"]
    assert listed(placet, db) == {"deploy": "retired"}
    assert placet("skills", "show", "other", "--db", db).code == 2
    assert placet("skills", "retire", "other", "--db", db).code == 2


def test_a_malformed_skill_names_file_line_and_field_and_imports_nothing(
    placet: Placet, db: str, tmp_path: Path
) -> None:
    folder = skill_at(tmp_path / "deploy", {"SKILL.md": "---\nname: Deploy\ndescription: x\n---\n"})

    refused = placet("skills", "import", folder, "--db", db)

    assert refused.code == 2
    assert f"{folder}/SKILL.md, line 2, field 'name'" in " ".join(refused.err.split())
    assert not Path(db).exists()
    assert placet("skills", "import", tmp_path / "missing", "--db", db).code == 2


def test_a_projects_skills_need_trust_and_a_persons_do_not(
    placet: Placet, db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    skill_at(tmp_path / ".placet" / "skills" / "deploy")
    skill_at(
        config / "placet" / "skills" / "mine", {"SKILL.md": "---\nname: mine\ndescription: Mine.\n---\nBody."}
    )
    (config / "placet" / "skills" / "broken").mkdir()

    before = placet("skills", "list", "--db", db, "--json").json
    assert placet("trust", tmp_path, "--yes").code == 0
    after = placet("skills", "list", "--db", db, "--json").json
    (tmp_path / ".placet" / "skills" / "deploy" / "SKILL.md").write_text("changed")

    assert [each["name"] for each in before["skills"]] == ["mine"]
    assert len(before["problems"]) == 2
    assert {each["name"]: each["source"].partition(":")[0] for each in after["skills"]} == {
        "deploy": "project",
        "mine": "person",
    }
    assert list(listed(placet, db)) == ["mine"]


def test_a_person_judges_a_run_and_approves_a_skill(placet: Placet, db: str) -> None:
    with open_database(db) as database:
        store = SqlSkills(database)
        store.put(make_skill(labels=("untrusted",)))
        store.note_runs(None, [make_run("r1")])

    judged = placet("skills", "judge", "r1", "--bad", "--db", db, "--json").json
    nothing = placet("skills", "judge", "r2", "--ok", "--db", db)
    before = placet("skills", "list", "--db", db)
    approved = placet("skills", "trust", "deploy", "--db", db, "--json").json

    assert judged["skills"][0]["trial"]["offered"] == {"successes": 0, "failures": 1}
    assert nothing.code == 2
    assert "waits for approval" in before.out
    assert approved["changed"]
    assert placet("skills", "show", "deploy", "--db", db, "--json").json["labels"] == []


def test_where_nothing_was_stored_nothing_is_made(placet: Placet, db: str) -> None:
    assert placet("skills", "--db", db).code == 0
    assert not Path(db).exists()
