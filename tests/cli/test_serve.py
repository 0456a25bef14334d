"""`placet serve` as a command: what it says on the way. What it serves is tested beside the server."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cli.conftest import Placet, environment, warm_command


def test_a_token_is_printed_with_what_it_allows(placet: Placet, tmp_path: Path) -> None:
    own = {"HOME": str(tmp_path), "XDG_DATA_HOME": ""}

    plain = placet("serve", "token", "add", "bob", **own)
    more = placet(
        *("serve", "token", "add", "ann", "--right", "see", "--right", "decide", "--json"), **own
    ).json

    assert len(plain.out.split()) == 1
    assert "It allows: see." in plain.err
    assert more["rights"] == ["see", "decide"]


def test_a_database_that_was_not_there_is_said_to_be_new(tmp_path: Path) -> None:
    said = [_start_and_stop(tmp_path, str(tmp_path / "new.db")) for _ in range(2)]

    assert ["has been created" in each for each in said] == [True, False]


def _start_and_stop(folder: Path, db: str) -> str:
    with subprocess.Popen(
        warm_command("serve", "start", "--port", "0", "--no-open", "--db", db),
        cwd=folder,
        env=environment(HOME=str(folder), XDG_DATA_HOME=""),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        lines = [process.stderr.readline()]
        while lines[-1] and not lines[-1].startswith("Database: "):
            lines.append(process.stderr.readline())
        process.terminate()
        process.communicate(timeout=60)
    return "".join(lines)
