"""`agent_scenarios`: one line in a test file, really run by pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from placet.agents.spec import AgentSpec
from placet.errors import UsageError
from placet.inference import Scripted
from placet.testing import agent_scenarios

AGENT = """
identity = "You greet."

[[scenarios]]
name = "greets"
input = "hi"
expect = "hello"

[[scenarios]]
input = "bye"
expect = "farewell"
"""
LINE = """
from placet import Isolation
from placet.inference import Scripted
from placet.testing import agent_scenarios

test_greeter = agent_scenarios(
    "greeter.toml", lambda: Scripted(["Hello!"] * 3), k=2, isolation=Isolation("none")
)
"""


def test_each_scenario_is_a_test_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "greeter.toml").write_text(AGENT)
    (tmp_path / "test_it.py").write_text(LINE)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA", "test_it.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_ADDOPTS": "-p no:schemathesis"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert "PASSED test_it.py::test_greeter[greets]" in done.stdout
    assert "FAILED test_it.py::test_greeter[#2]" in done.stdout
    assert "expected an answer containing 'farewell', got 'Hello!'" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


def test_an_agent_without_scenarios_is_no_test() -> None:
    with pytest.raises(UsageError, match="no scenarios"):
        agent_scenarios(AgentSpec(id="a", identity="x"), lambda: Scripted([]))
