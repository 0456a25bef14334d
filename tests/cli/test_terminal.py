"""On a terminal: a live tree, colour unless it is not wanted, and the cursor given back."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command import PLACET

ROOT = Path(__file__).resolve().parents[2]
Plan = Callable[..., Path]
COLOUR = re.compile(rb"\x1b\[[0-9;]*3[0-7]m")


def _on_a_terminal(*arguments: str | Path, cwd: Path, keys: bytes = b"", **env: str) -> tuple[int, bytes]:
    """Run a command with all three streams on a terminal; `keys` are typed once something runs."""
    main, side = pty.openpty()
    base = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), base.get("PYTHONPATH", "")]))
    process = subprocess.Popen(
        [*PLACET, *map(str, arguments)],
        stdin=side,
        stdout=side,
        stderr=side,
        cwd=cwd,
        env={**base, "PYTHONPATH": path, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30", **env},
        start_new_session=True,
        # The terminal must be the process's own, or Ctrl-C typed on it is only a character.
        preexec_fn=_take_terminal,
    )
    os.close(side)
    seen = b""
    end = time.monotonic() + 40
    while time.monotonic() < end:
        if select.select([main], [], [], 0.1)[0]:
            try:
                data = os.read(main, 65536)
            except OSError:
                break
            if not data:
                break
            seen += data
            if keys and b"running" in seen:
                os.write(main, keys)
                keys = b""
        elif process.poll() is not None:
            break
    os.close(main)
    return process.wait(timeout=10), seen


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_run_is_shown_as_a_live_tree_that_gives_the_cursor_back(
    tmp_path: Path, plan: Plan, tools: Path
) -> None:
    path = plan(
        {"id": "slow", "tool": "wait", "parameters": {"seconds": 0.5}}, {"id": "talk", "tool": "loud"}
    )

    code, seen = _on_a_terminal("run", path, "--tools", tools, cwd=tmp_path)

    assert code == 0, seen
    assert b"\x1b[?25l" in seen, "the cursor is hidden while the tree is drawn"
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l")
    assert "▸ ".encode() in seen
    assert COLOUR.search(seen)
    assert b"python speaks" in seen
    final = seen[seen.rindex(b"\x1b[?25h") :].decode()
    assert final.count("slow") == 1, "the live tree is wiped; what stays is drawn once"


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colour_can_be_declined(tmp_path: Path, plan: Plan, tools: Path, env: dict[str, str]) -> None:
    path = plan({"id": "slow", "tool": "wait", "parameters": {"seconds": 0.2}}, {"id": "no", "tool": "fail"})

    code, seen = _on_a_terminal("run", path, "--tools", tools, cwd=tmp_path, **env)

    assert code == 1
    assert not COLOUR.search(seen)
    assert "✗ " in seen.decode()
    assert "failed" in seen.decode()


def test_ctrl_c_on_a_terminal_shows_the_tree_so_far(tmp_path: Path, plan: Plan, tools: Path) -> None:
    path = plan({"id": "long", "tool": "wait", "parameters": {"seconds": 50}})

    code, seen = _on_a_terminal("run", path, "--tools", tools, cwd=tmp_path, keys=b"\x03")

    assert code == 130
    assert b"canceled" in seen
    assert b"Traceback" not in seen
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l")


def test_json_on_a_terminal_is_indented_for_people(tmp_path: Path, plan: Plan, tools: Path) -> None:
    code, seen = _on_a_terminal("tools", "--tools", tools, "--json", cwd=tmp_path)

    assert code == 0
    assert b'{\r\n  "tools": [\r\n' in seen
