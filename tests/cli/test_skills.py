"""`placet skills`: skills as a person meets them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet.memory.skills.document import read_folder
from placet.memory.skills.sql import SqlSkills
from placet.storage.location import open_database
from placet.testing.skill_store import make_run, make_skill
from tests.inference.wire_server import Seen, WireServer, events

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
    assert f"{tmp_path}/out/deploy" in twice.err
    assert "--to FOLDER" in twice.err
    nowhere = placet("skills", "export", "deploy", "--to", tmp_path / "no", "--db", db)
    assert (nowhere.code, f"no folder {tmp_path}/no." in nowhere.err) == (2, True)
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
    untested = placet("skills", "test", "deploy", "--agent", "clerk", "--db", db)
    approved = placet("skills", "trust", "deploy", "--db", db, "--json").json

    assert judged["skills"][0]["trial"]["offered"] == {"successes": 0, "failures": 1}
    assert nothing.code == 2
    assert "waits for approval" in before.out
    assert untested.code == 2
    assert "placet skills trust deploy" in untested.err
    assert approved["changed"]
    assert placet("skills", "show", "deploy", "--db", db, "--json").json["labels"] == []


def test_a_persons_word_about_a_run_is_told_and_learned_from(placet: Placet, db: str, tmp_path: Path) -> None:
    config = tmp_path / "config" / "placet"
    config.mkdir(parents=True)
    (config / "settings.toml").write_text("memory = true\nauto_distill = true\n")
    look = {"calls": [{"name": "list_dir", "arguments": {"path": "."}}]}
    draft = {"name": "look", "description": "Looks.", "keywords": [], "instructions": "Look."}
    for name, turns in {"work": [look, look, look, "Done."], "learn": [json.dumps(draft)]}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"turns": turns}))
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config")}

    def use(name: str) -> tuple[str, ...]:
        return ("--model", f"scripted:{tmp_path / name}.json", "--db", db)

    assert placet("do", "Look", "--run-id", "d1", *use("work"), **env).code == 0
    assert listed(placet, db) == {}
    judged = placet("skills", "judge", "d1", "--ok", *use("learn"), "--json", **env)

    assert judged.json == {"run": "d1", "skills": [], "learned": ["look 1"]}
    assert listed(placet, db) == {"look": "provisional"}
    told = placet("explain", "d1", "--db", db).out
    assert "By a person, it did what it was for." in told
    assert "The skill 'look 1' was made from it." in told
    data = json.loads(placet("log", "export", "--chat", "--db", db).out)
    assert data["outcome"] == {"succeeded": True, "by": "person"}


def test_where_nothing_was_stored_nothing_is_made(placet: Placet, db: str) -> None:
    assert placet("skills", "--db", db).code == 0
    assert placet("skills", "judge", "r1", "--ok", "--db", db).code == 2
    assert not Path(db).exists()


def answering(words: Callable[[str], str]) -> Callable[[Seen], Any]:
    """A model whose answer depends on what it was sent."""

    def answer(asked: Seen) -> Any:
        said = {"index": 0, "delta": {"content": words(asked.body.decode())}, "finish_reason": "stop"}
        return events(f"data: {json.dumps({'model': 'm', 'choices': [said]})}\n\ndata: [DONE]\n\n".encode())

    return answer


@pytest.mark.parametrize(("helps", "code"), [(True, 0), (False, 1)])
def test_scenarios_run_with_a_skill_and_without_it_and_their_outcomes_count(
    placet: Placet, db: str, tmp_path: Path, helps: bool, code: int
) -> None:
    agents = tmp_path / "config" / "placet" / "agents"
    agents.mkdir(parents=True)
    (agents / "clerk.toml").write_text(
        'identity = "You answer."\n[[scenarios]]\ninput = "Which box?"\nexpect = "blue-3"\n'
    )
    folder = skill_at(tmp_path / "boxes", {"SKILL.md": "---\nname: boxes\ndescription: B.\n---\nTake blue."})
    placet("skills", "import", folder, "--trial", "--db", db)

    with WireServer() as server:
        server.answers(answering(lambda sent: "blue-3" if ("Take blue." in sent) is helps else "inbox"))
        env = {
            "OPENAI_API_KEY": "sk-test-key-of-nobody",
            "OPENAI_BASE_URL": server.url,
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
        }
        base = ("skills", "test", "boxes", "--agent", "clerk", "--model", "openai:gpt-test", "--db", db)
        done = placet(*base, "--k", "2", "--json", **env)
        unknown = placet("skills", "test", "other", "--agent", "clerk", "--db", db, **env)

    good, bad = {"successes": 2, "failures": 0}, {"successes": 0, "failures": 2}
    assert done.code == code, done.err
    offered, withheld = (good, bad) if helps else (bad, good)
    assert done.json["trial"] == {"offered": offered, "withheld": withheld}
    shown = placet("skills", "show", "boxes", "--db", db, "--json").json
    assert (shown["trial"], shown["state"], shown["next_look"]) == (done.json["trial"], "provisional", 16)
    assert unknown.code == 2
    with open_database(db) as database:
        assert {each.by for each in SqlSkills(database).runs(None)} == {"scenario"}


def test_a_persons_undo_is_a_failure_of_the_run_and_stands_in_the_data_set(
    placet: Placet, db: str, tmp_path: Path
) -> None:
    config = tmp_path / "config" / "placet"
    config.mkdir(parents=True)
    (config / "settings.toml").write_text("memory = true\n")
    placet("skills", "import", skill_at(tmp_path / "deploy"), "--db", db)
    call = {"name": "write_file", "arguments": {"path": "a.txt", "text": "1"}}
    (tmp_path / "script.json").write_text(json.dumps({"turns": [{"calls": [call]}, "Deployed."]}))

    done = placet(
        *("chat", "--model", f"scripted:{tmp_path / 'script.json'}", "--run-id", "c1"),
        *("--db", db, "--yes-to", "sandbox_edit"),
        stdin="deploy it\n/undo\n",
        XDG_CONFIG_HOME=str(tmp_path / "config"),
    )

    assert done.code == 0, done.err
    assert not (tmp_path / "a.txt").exists()
    with open_database(db) as database:
        (run,) = SqlSkills(database).runs(None)
    assert (run.run, run.arm, run.succeeded, run.by) == ("c1", "with", False, "undo")
    placet("skills", "judge", "c1", "--ok", "--db", db)
    shown = placet("skills", "show", "deploy", "--db", db, "--json").json
    assert shown["trial"]["offered"] == {"successes": 0, "failures": 1}

    told = placet("log", "export", "--chat", "--db", db)
    to_file = placet("log", "export", "--chat", "--db", db, "-o", tmp_path / "chat.jsonl")
    (line,) = [json.loads(each) for each in told.out.splitlines()]
    roles = [each["role"] for each in line["messages"]]
    assert (line["run"], line["outcome"], roles) == (
        "c1",
        {"succeeded": False, "by": "undo"},
        ["user", "assistant", "tool", "assistant"],
    )
    asked, answered = line["messages"][1]["tool_calls"][0], line["messages"][2]
    assert asked["function"]["name"] == "write_file"
    assert answered["tool_call_id"] == asked["id"]
    assert to_file.code == 0
    assert (tmp_path / "chat.jsonl").read_text() == told.out
