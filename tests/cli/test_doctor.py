"""`placet doctor`: what it says is what commands meet, also where something is missing."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from placet import SqlCheckpoints, SqlTrajectories
from placet.app.app import open_records
from placet.app.governance import BRINGS_AGENTS
from placet.app.readiness import database_report
from placet.extras import EXTRAS, install_command
from tests.cli.conftest import ROOT, Done, environment, without_module
from tests.coder.workbench import make_repository
from tests.warm import Warm

PROTECTIONS = ("fs_write", "fs_read", "net", "unix_sockets", "proc_kill", "pids", "memory", "disk")
Doctor = Callable[..., Done]


@pytest.fixture
def own(tmp_path: Path, known_isolation: Callable[[Path], None]) -> dict[str, str]:
    """Folders of a person of whom nothing is known yet but what the sandbox holds here."""
    known_isolation(tmp_path / "data")
    return {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def doctor(placet: Callable[..., Done], own: dict[str, str]) -> Doctor:
    return lambda *arguments, **options: placet("doctor", *arguments, **{**own, **options})


HIDDEN = """
import ctypes
import os
import sys

from placet.cli.main import main

CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
system = ctypes.CDLL(None, use_errno=True)


def done(code):
    if code:
        raise OSError(ctypes.get_errno(), "the program cannot be hidden")


done(system.unshare(CLONE_NEWNS))
done(system.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
for path in filter(os.path.exists, ("/usr/bin/bwrap", "/usr/local/bin/bwrap")):
    done(system.mount(b"/dev/null", path.encode(), None, MS_BIND, None))
sys.exit(main(sys.argv[1:]))
"""
"""A command in a mount namespace of its own, where bubblewrap is hidden."""


def without_bubblewrap(*arguments: str | Path, cwd: Path, **env: str) -> Done:
    """Run a command where the program is hidden."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as program:
        program.write(HIDDEN)
        program.flush()
        done = subprocess.run(
            [*Warm.last.python, program.name, *map(str, arguments)],
            cwd=cwd,
            # Only the folders above: there might be another one elsewhere.
            env=environment(PATH="/usr/bin:/bin:/usr/sbin:/sbin", **env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="hiding a program takes the rights to mount")


def test_what_it_says_is_what_a_command_meets(
    doctor: Doctor, placet: Callable[..., Done], own: dict[str, str], tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of mine")
    work = tmp_path / "work"
    work.mkdir()

    told = doctor("--json", cwd=work).json
    call = ("tools", "call", "shell", f"command=cat {secret}; echo changed > {secret}", "--json")
    output = placet(*call, cwd=work, **own).json["results"][0]["output"]

    assert tuple(told["enforced"]) == PROTECTIONS
    assert told["isolation"] == output["isolation"]
    assert ("of mine" in output["stdout"]) == (told["enforced"]["fs_read"] == "no")
    assert (secret.read_text() == "changed\n") == (told["enforced"]["fs_write"] == "no")


def test_it_tells_the_facts_around(doctor: Doctor, tmp_path: Path) -> None:
    told = doctor("--json").json

    assert told["placet"]
    assert told["platform"].startswith(os.uname().sysname)
    assert (told["user"] == "root") == (os.geteuid() == 0)
    assert told["folder"] == str(tmp_path)
    assert told["git"]["path"] == (shutil.which("git") or "")
    assert told["bubblewrap"]["path"] == (shutil.which("bwrap") or "")
    assert [each["by"] for each in told["means"]] == ["bubblewrap", "landlock", "nothing"]
    assert [each["used"] for each in told["means"]].count(True) == 1
    assert told["required"] == {
        "level": "none",
        "source": "",
        "lowered_to": None,
        "until": "",
        "problem": "",
    }


def test_it_remembers_and_tries_again_when_told(doctor: Doctor, own: dict[str, str], tmp_path: Path) -> None:
    own["XDG_DATA_HOME"] = str(tmp_path / "nothing known")
    first, second, third = doctor("--json").json, doctor("--json").json, doctor("--json", "--again").json

    assert [each["found"] for each in (first, second, third)] == ["tried", "remembered", "tried"]
    assert second["took_ms"] is None
    assert first["took_ms"] > 0
    assert second["enforced"] == first["enforced"]
    assert [each["tried"] for each in third["means"]] == [True, True, False]


def test_every_protection_has_a_sentence(doctor: Doctor) -> None:
    done = doctor("--again")

    assert done.code == 0, done.err
    lines = done.out.splitlines()
    for name in PROTECTIONS:
        [line] = [line for line in lines if line.startswith(f"{name} ")]
        assert line.split()[1] in ("kernel", "watchdog", "no")
        assert line.rstrip().endswith(".")
    assert "required here: nothing" in done.out
    assert "tried just now" in done.out


def test_it_tells_what_is_required_and_by_whom(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / ".placet").mkdir()
    settings = tmp_path / ".placet" / "settings.toml"
    settings.write_text('[isolation]\nrequire = "changes"\n')

    assert f"required here: changes, by {settings}" in doctor().out

    settings.write_text("[isolation]\nrequire = 1\n")
    done = doctor()
    assert done.code == 0, "it is asked what is wrong"
    assert "required here: not known" in done.out
    assert "key 'isolation.require'" in done.out


def test_words_of_a_program_do_not_steer_the_terminal(doctor: Doctor, tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nprintf 'git \\033[2J\\033]0;x\\007 version\\n'\n")
    fake.chmod(0o755)

    done = doctor(PATH=f"{fake.parent}:{os.environ['PATH']}")

    assert "\033" not in done.out
    assert "\\e[2J" in done.out


def test_enough_for_a_script(doctor: Doctor) -> None:
    told = doctor("--json").json

    assert doctor("--require", "none").code == 0
    assert doctor("--require", "process").code == (0 if told["isolation"] == "process" else 3)
    assert doctor("--require", "everything").code == 2


@needs_root
def test_without_bubblewrap_it_says_so_and_what_to_do(own: dict[str, str], tmp_path: Path) -> None:
    done = without_bubblewrap("doctor", "--json", cwd=tmp_path, **own)

    told = done.json
    assert done.code == 0, done.err
    assert told["bubblewrap"] == {"path": "", "version": ""}
    assert told["isolation"] == "none"
    assert told["by"] != "bubblewrap"
    assert any(words.startswith("Install bubblewrap") for words in told["remedies"])
    assert not told["means"][0]["used"]
    assert told["means"][0]["why"]


@needs_root
def test_too_little_for_a_script(own: dict[str, str], tmp_path: Path) -> None:
    done = without_bubblewrap("doctor", "--require", "process", cwd=tmp_path, **own)

    assert done.code == 3
    assert "Isolation 'process' is asked for, and 'none' is enforced." in done.err
    assert "to get more" in done.out


@needs_root
def test_what_was_remembered_is_not_believed_where_a_program_is_gone(
    doctor: Doctor, own: dict[str, str], tmp_path: Path
) -> None:
    before = doctor("--json").json

    after = without_bubblewrap("doctor", "--json", cwd=tmp_path, **own).json

    assert (before["isolation"], after["isolation"]) == ("process", "none")
    assert after["found"] == "tried"


# --- what is set up ---


@pytest.fixture
def nobody(tmp_path: Path, own: dict[str, str]) -> dict[str, str]:
    """A person without keys, settings, models and records."""
    unset = {name: "" for name in os.environ if name.endswith("_API_KEY")}
    return {
        **own,
        **unset,
        "PLACET_MODEL": "",
        "PLACET_DB": "",
        "PLACET_MODELS": str(tmp_path / "models"),
        "OLLAMA_HOST": "http://127.0.0.1:9",
    }


def test_it_tells_which_model_would_answer_and_why(
    placet: Callable[..., Done], nobody: dict[str, str]
) -> None:
    none = placet("doctor", "--json", **nobody).json["models"]
    key = placet("doctor", "--json", **{**nobody, "ANTHROPIC_API_KEY": "sk-hidden-1"})
    listed = placet("model", "list", "--json", **{**nobody, "ANTHROPIC_API_KEY": "sk-hidden-1"}).json

    assert none["chosen"] is None
    assert "placet model pull local" in none["advice"]
    assert [(each["name"], each["there"]) for each in none["on_machine"]] == [
        ("local", False),
        ("embed", False),
    ]
    assert key.json["models"]["chosen"] == listed["chosen"]
    assert "hidden" not in key.out


def test_a_model_that_cannot_be_asked_is_told_with_the_reason(
    placet: Callable[..., Done], nobody: dict[str, str]
) -> None:
    told = placet("doctor", "--json", **{**nobody, "PLACET_MODEL": "local"}).json["models"]

    assert told["chosen"]["name"] == "local"
    assert "placet model pull local" in told["chosen"]["problem"]


def test_it_names_extras_that_are_missing_with_the_command(
    fresh: Callable[..., Done], nobody: dict[str, str], tmp_path: Path
) -> None:
    told = fresh("doctor", "--json", **nobody, **without_module(tmp_path, "onnxruntime")).json["extras"]

    extras = {each["name"]: each for each in told}
    assert list(extras) == list(EXTRAS)
    assert not extras["embed"]["installed"]
    assert extras["embed"]["install"] == install_command("embed")
    assert [each["install"] for each in told if each["installed"]] == [""] * (len(told) - 1)


def test_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert set(EXTRAS) == set(project["optional-dependencies"]) - {"all", "dev"}


def test_it_tells_where_runs_are_recorded(
    placet: Callable[..., Done], nobody: dict[str, str], tmp_path: Path
) -> None:
    before = placet("doctor", "--json", **nobody).json["database"]
    (tmp_path / "plan.json").write_text('{"actions": [{"id": "a", "tool": "now"}]}')
    assert placet("run", "plan.json", **nobody).code == 0
    after = placet("doctor", "--json", **nobody).json["database"]

    path = str(tmp_path / "data" / "placet" / "placet.db")
    assert (before["name"], before["source"], before["exists"], before["opens"]) == (
        path,
        "user",
        False,
        None,
    )
    assert (after["name"], after["exists"], after["opens"], after["problem"]) == (path, True, True, "")
    assert (after["schema_state"], after["schema"]["runs"] >= 1) == ("current", True)
    assert not (tmp_path / ".placet").exists()


def test_every_table_that_is_recorded_is_known(
    placet: Callable[..., Done], nobody: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "all.db"
    with open_records(str(path), create=True, writes=True) as records:
        made = (records.events, records.journal, records.approvals, records.sessions, records.repairs)
        assert all((*made, records.agents, records.rounds, records.timetable))
        SqlTrajectories(records.database)
        SqlCheckpoints(records.database)

    told = placet("doctor", "--json", **{**nobody, "PLACET_DB": str(path)}).json["database"]

    assert (told["source"], told["schema_state"]) == ("PLACET_DB", "current")


@pytest.mark.parametrize(("version", "state"), [(99, "newer"), (0, "older")])
def test_tables_of_another_version_are_told(
    placet: Callable[..., Done], nobody: dict[str, str], tmp_path: Path, version: int, state: str
) -> None:
    path = tmp_path / "other.db"
    with open_records(str(path), create=True, writes=True) as records:
        assert records.journal
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE schema_parts SET version = ? WHERE part = 'runs'", (version,))

    told = placet("doctor", "--json", **{**nobody, "PLACET_DB": str(path)}).json["database"]

    assert (told["opens"], told["schema_state"], told["schema"]["runs"]) == (True, state, version)


def test_a_database_that_cannot_be_opened_is_told_and_the_rest_too(
    placet: Callable[..., Done], nobody: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "broken.db"
    path.write_text("this is no database, though it is long enough to be taken for one" * 20)

    done = placet("doctor", "--json", **{**nobody, "PLACET_DB": str(path)})

    assert done.code == 0
    assert done.json["database"]["opens"] is False
    assert str(path) in done.json["database"]["problem"]
    assert done.json["models"]["advice"]


def test_a_server_is_not_asked_and_its_password_not_shown(
    placet: Callable[..., Done], nobody: dict[str, str], tmp_path: Path
) -> None:
    told = placet("doctor", "--json", **{**nobody, "PLACET_DB": "postgresql://me:hidden@127.0.0.1:9/x"})
    shown = placet("doctor", **{**nobody, "PLACET_DB": "postgresql://me:hidden@127.0.0.1:9/x"})

    assert (told.json["database"]["kind"], told.json["database"]["opens"]) == ("postgres", None)
    assert "hidden" not in told.out + told.err + shown.out + shown.err
    # Not only because what is shown is looked through for secrets.
    url = "postgresql://me:pw@127.0.0.1:9/x?password=pw"
    assert "pw" not in database_report(tmp_path, {"PLACET_DB": url}).name


def test_nothing_is_recorded_where_somebody_says_so(
    placet: Callable[..., Done], nobody: dict[str, str]
) -> None:
    told = placet("doctor", "--json", **{**nobody, "PLACET_DB": "none"}).json["database"]

    assert (told["kind"], told["opens"]) == ("none", None)


def test_it_tells_what_counts_as_the_project(
    placet: Callable[..., Done], nobody: dict[str, str], tmp_path: Path
) -> None:
    repository = make_repository(tmp_path / "repository", {"src/a.txt": "a\n"})

    plain = placet("doctor", "--json", **nobody).json["project"]
    git = placet("doctor", "--json", cwd=repository / "src", **nobody).json["project"]
    placet("init", cwd=repository / "src", **nobody)
    made = placet("doctor", "--json", cwd=repository / "src", **nobody).json["project"]

    assert (plain["folder"], plain["by"]) == ("", "")
    assert (git["folder"], git["by"], git["trust"]) == (str(repository), "git", "nothing")
    assert (made["folder"], made["by"], made["trust"]) == (str(repository), ".placet", "trusted")


def test_it_tells_what_waits_for_trust(
    placet: Callable[..., Done], nobody: dict[str, str], tmp_path: Path
) -> None:
    placet("init", **nobody)
    (tmp_path / "inner" / ".placet").mkdir(parents=True)
    with (tmp_path / ".placet" / "agents" / "guide.toml").open("a") as file:
        file.write("# Changed.\n")

    told = placet("doctor", "--json", **nobody).json["project"]
    inner = placet("doctor", "--json", cwd=tmp_path / "inner", **nobody).json["project"]
    shown = placet("doctor", **nobody)

    assert (told["trust"], told["wants"]) == ("changed", [BRINGS_AGENTS])
    assert "placet trust" in shown.out
    assert (inner["trust"], inner["outer"]) == ("nothing", [str(tmp_path)])


def test_a_project_that_cannot_be_read_is_told_and_the_rest_too(
    placet: Callable[..., Done], nobody: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / ".placet").write_text("no folder")

    done = placet("doctor", "--json", **nobody)

    assert done.code == 0
    assert str(tmp_path / ".placet") in done.json["project"]["problem"]
    assert done.json["database"]["problem"]
    assert done.json["models"]["advice"]


def test_it_tells_whether_there_is_node(
    placet: Callable[..., Done], nobody: dict[str, str], tmp_path: Path
) -> None:
    """Npx is only looked for: npm takes its time to say which version it is."""
    for name, words in (("node", "v99.1.2"), ("npx", "never run")):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\necho {words}\ntouch {tmp_path}/ran-{name}\n")
        program.chmod(0o755)
    there = f"{tmp_path}/bin:/usr/bin:/bin"

    told = placet("doctor", "--json", **{**nobody, "PATH": there}).json
    gone = placet("doctor", "--json", **{**nobody, "PATH": str(tmp_path / "nowhere")}).json

    assert told["node"] == {"path": f"{tmp_path}/bin/node", "version": "v99.1.2"}
    assert told["npx"] == {"path": f"{tmp_path}/bin/npx", "version": ""}
    assert not (tmp_path / "ran-npx").exists()
    assert (gone["node"]["path"], gone["npx"]["path"]) == ("", "")


def test_all_of_it_is_shown_to_people(placet: Callable[..., Done], nobody: dict[str, str]) -> None:
    lines = placet("doctor", **nobody).out.splitlines()

    for name in ("node", "project", "database", "model", "extras"):
        assert [line for line in lines if line.startswith(f"{name} ")], name
