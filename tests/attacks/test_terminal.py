"""What a command writes is shown to people on a terminal, and never does anything there."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.warm import Warm

HOSTILE = {
    "the title of the window": "\x1b]0;owned\x07",
    "the clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "the screen cleared": "\x1b[2J\x1b[H",
    "lines that were there": "\x1b[3A\x1b[2Kall checks passed",
    "a link that lies": "\x1b]8;;http://evil.example\x1b\\\\safe\x1b]8;;\x1b\\\\",
    "an answer typed for a person": "\x1b[6n\x1b[c\x1b]4;1;?\x07\x05",
    "8-bit controls": "\x9b2J\x9d0;owned\x9c",
    "text that runs backwards": "\u202egpj.exe\u2066 user\u2069",
    "a line written over": "approved\rdenied  ",
    "letters taken back": "rm -rf /\x08\x08\x08\x08\x08\x08\x08\x08ls      ",
    "another character set": "\x0e\x1b(0lqqk\x0f",
    "a device that is told to print": "\x1b[5i secret \x1b[4i",
}
FORBIDDEN = [chr(n) for n in range(32) if n not in (9, 10)] + [chr(n) for n in range(0x7F, 0xA0)]
FORBIDDEN += [chr(n) for n in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F)]


def _placet(warm: Warm, folder: Path, *arguments: str) -> str:
    """What the command line shows, on both streams."""
    environment = {**os.environ, "XDG_DATA_HOME": str(folder / "data"), "COLUMNS": "200"}
    done = subprocess.run(
        [*warm.command, *arguments],
        cwd=folder / "work",
        env=environment,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    return (done.stdout + done.stderr).decode()


@pytest.mark.parametrize("what", ["output", "complaint", "name of a file"])
def test_what_a_command_writes_does_nothing_to_a_terminal(
    tmp_path: Path, what: str, warm: Warm, known_isolation: Callable[[Path], None]
) -> None:
    known_isolation(tmp_path / "data")
    work = tmp_path / "work"
    work.mkdir()
    text = "".join(HOSTILE.values())
    (work / "text").write_text(text)
    command = {
        "output": "cat text",
        "complaint": "cat text >&2; exit 3",
        "name of a file": 'touch -- "$(tr -d / < text)"; ls; cat -- "$(tr -d / < text)/x"',
    }[what]
    actions = [{"id": "hostile", "tool": "shell", "parameters": {"command": command}}]
    (work / "plan.json").write_text(json.dumps({"actions": actions}))

    shown = _placet(warm, tmp_path, "run", "plan.json", "--run-id", "hostile")
    shown += _placet(warm, tmp_path, "explain", "hostile") + _placet(warm, tmp_path, "runs")

    assert "hostile" in shown
    assert "Error:" not in shown.replace("ToolError:", ""), shown
    assert [character for character in FORBIDDEN if character in shown] == []
