"""`placet doctor`: what it says is what commands meet, also where something is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Done, command, environment

PROTECTIONS = ("fs_write", "fs_read", "net", "unix_sockets", "proc_kill", "pids", "memory", "disk")
Doctor = Callable[..., Done]


@pytest.fixture
def own(tmp_path: Path) -> dict[str, str]:
    """Folders of a person of whom nothing is known yet."""
    return {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def doctor(placet: Callable[..., Done], own: dict[str, str]) -> Doctor:
    return lambda *arguments, **options: placet("doctor", *arguments, **{**own, **options})


def without_bubblewrap(*arguments: str | Path, cwd: Path, **env: str) -> Done:
    """Run a command where the program is hidden, in a mount namespace of its own."""
    found = [path for path in ("/usr/bin/bwrap", "/usr/local/bin/bwrap") if os.path.exists(path)]
    hide = "; ".join(f"mount --bind /dev/null {path}" for path in found) or "true"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f'{hide}; exec "$@"', "sh", *command(*arguments)],
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


def test_it_remembers_and_tries_again_when_told(doctor: Doctor) -> None:
    first, second, third = doctor("--json").json, doctor("--json").json, doctor("--json", "--again").json

    assert [each["found"] for each in (first, second, third)] == ["tried", "remembered", "tried"]
    assert second["took_ms"] is None
    assert first["took_ms"] > 0
    assert second["enforced"] == first["enforced"]
    assert [each["tried"] for each in third["means"]] == [True, True, False]


def test_every_protection_has_a_sentence(doctor: Doctor) -> None:
    done = doctor()

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
