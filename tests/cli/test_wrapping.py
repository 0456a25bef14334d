"""At 80 and at 100 columns every command breaks its lines between words; in a pipe none does."""

from __future__ import annotations

import json
import os
import pty
import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import environment, warm_command
from tests.warm import Warm

Placet = Callable[..., Any]
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PROSE = (
    "The answer is long enough to need more than one line, because every word of it has to be read at last "
)
ANSWER = f"{PROSE * 3}\n\n- {PROSE}"


def on_terminal(width: int, *arguments: str | Path, cwd: Path, is_quiet: bool = False) -> list[str]:
    """The lines that a command writes to a terminal of so many columns; only its results if `is_quiet`."""
    import fcntl
    import termios

    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    env = environment(TERM="xterm-256color", NO_COLOR="1")
    process = subprocess.Popen(
        warm_command(*arguments),
        stdin=subprocess.DEVNULL,
        stdout=side,
        stderr=subprocess.DEVNULL if is_quiet else side,
        cwd=cwd,
        env=env,
    )
    os.close(side)
    seen = b""
    try:
        while data := os.read(main, 65_536):
            seen += data
    except OSError:
        pass  # So a terminal ends whose last program has ended.
    os.close(main)
    process.wait(timeout=30)
    return re.split(r"\r\n|\r|\n", STYLE.sub("", seen.decode()))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Path:
    """A folder with a run of an assistant, and one of a plan that failed with a long reason."""
    folder = tmp_path_factory.mktemp("told")
    turns = [{"calls": [{"name": "read_file", "arguments": {"path": "nowhere.txt"}}]}, ANSWER]
    (folder / "script.json").write_text(json.dumps({"turns": turns * 4}))
    tools = (
        "from placet import ToolError, tool\n\n@tool\ndef fail() -> str:\n    raise ToolError('''"
        + PROSE
        + "''')\n"
    )
    (folder / "tools.py").write_text(tools)
    (folder / "plan.json").write_text(json.dumps({"actions": [{"id": "a", "tool": "fail"}]}))
    kept = ("--db", "kept.db", "--run-id")
    with open(os.devnull, "r+b") as nothing:
        for words in (
            ["do", PROSE, "--model", "scripted:script.json", *kept, "r1"],
            ["run", "plan.json", "--tools", "tools.py", *kept, "r2"],
        ):
            warm.run(words, cwd=folder, environment=environment(), streams=[nothing.fileno()] * 3)
    return folder


COMMANDS: dict[str, list[str]] = {
    "answer": ["do", "Tell me.", "--model", "scripted:script.json", "--db", "none"],
    "run": ["run", "plan.json", "--tools", "tools.py", "--db", "none"],
    "story": ["explain", "r1", "--db", "kept.db"],
    "story-of-a-plan": ["explain", "r2", "--db", "kept.db"],
    "tree": ["runs", "show", "r2", "--db", "kept.db"],
    "turns": ["runs", "show", "r1", "--db", "kept.db"],
    "log": ["log", "show", "r1", "--db", "kept.db"],
    "error": ["runs", "show", "nosuchrun", "--db", "kept.db"],
    "models": ["model", "list"],
    "tool": ["tools", "show", "shell"],
}


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_is_left_to_be_folded_in_a_word(told: Path, name: str, width: int) -> None:
    lines = on_terminal(width, *COMMANDS[name], cwd=told)

    assert len(lines) > 1
    for line in lines:
        # What is longer is one thing to copy: a path, or a command.
        words = line.split()
        assert len(line.rstrip()) <= width or len(words) == 1 or "placet " in line, line


@pytest.mark.parametrize("width", [80, 100])
def test_an_answer_keeps_its_words_and_its_list(told: Path, width: int) -> None:
    lines = on_terminal(width, *COMMANDS["answer"], cwd=told)

    text = " ".join(" ".join(lines).split())
    assert " ".join(ANSWER.split()) in text
    item = next(n for n, line in enumerate(lines) if line.startswith("- The answer"))
    assert lines[item + 1].startswith("  ")


def test_results_are_as_wide_as_their_own_terminal(told: Path) -> None:
    """Also where stdin and stderr are none, so that nobody else could be asked for its width."""
    lines = on_terminal(160, *COMMANDS["run"], cwd=told, is_quiet=True)

    [branch] = [line for line in lines if "── ✗ a" in line]
    assert 100 < len(branch) <= 160


@pytest.mark.parametrize("name", ["answer", "story", "story-of-a-plan", "tree"])
def test_in_a_pipe_nothing_is_broken(told: Path, placet: Placet, name: str) -> None:
    done = placet(*COMMANDS[name], cwd=told)

    whole = done.out + done.err
    assert any(len(line) > 120 for line in whole.splitlines())
    if name == "answer":
        assert done.out == f"{ANSWER}\n"
