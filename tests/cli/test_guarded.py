"""The commands that tests start reach nothing outside; what those commands start meets no guard of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Placet


@pytest.mark.parametrize("way", ["as a fresh process", "as a process that was loaded before"])
def test_the_placet_that_tests_start_is_guarded(
    tmp_path: Path, placet: Placet, fresh: Placet, way: str
) -> None:
    (tmp_path / "tools.py").write_text(
        "import socket\n"
        "from placet import tool\n"
        "@tool(risk='network')\n"
        "def call() -> str:\n"
        "    socket.create_connection(('192.0.2.1', 9), 0.1)\n"
        "    return 'out'\n"
    )
    (tmp_path / "plan.json").write_text('{"id": "p", "actions": [{"id": "a", "tool": "call"}]}')
    run = fresh if way == "as a fresh process" else placet

    done = run("run", "plan.json", "--tools", "tools.py", "--db", "none", "--json")

    assert "connect to 192.0.2.1: refused" in done.out, done.err


def test_the_programs_that_placet_starts_meet_no_guard_of_ours(tmp_path: Path, placet: Placet) -> None:
    """Neither its environment nor what it finds on its path tells that a test is running."""
    (tmp_path / "show.py").write_text(
        "import os, subprocess, sys\n"
        "from placet import tool\n"
        "@tool(risk='read_only')\n"
        "def show() -> str:\n"
        '    code = \'import sys; print("network_guard" in sys.modules, sys.path[0] == "")\'\n'
        "    return subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout\n"
    )
    (tmp_path / "plan.json").write_text('{"id": "p", "actions": [{"id": "a", "tool": "show"}]}')

    done = placet("run", "plan.json", "--tools", "show.py", "--db", "none", "--json")

    assert "False True" in done.out, done.err
