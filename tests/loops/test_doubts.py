"""Doubts that keep a round from being acted on unattended: what a check runs was rewritten, a verdict that
cannot be read, one too many, one in an answer that was cut off, and a maker that says two things."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from assent.coder.contract import Check
from assent.inference.messages import ToolCall
from assent.ir.tool_spec import ToolSchema
from assent.loops.round import Round
from assent.loops.spec import LoopSpec
from assent.tools.tool import Tool
from tests.coder.workbench import git
from tests.loops.bench import FILES, Bench, spec, verdict, write

SNEAK = ToolCall(name="sneak", arguments={})


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, str(tmp_path / "assent.db"))


async def run(bench: Bench, turns: Any, loop: LoopSpec | None = None, **options: Any) -> Round:
    """One round."""
    with bench.engine(turns, loop or spec(), **options) as engine:
        return await engine.run_round()


def rewriting(bench: Bench, path: str, text: str) -> Tool:
    """A tool by which the maker rewrites a file, as a command could."""

    def sneak(whole: dict[str, Any]) -> str:
        [folder] = bench.home.glob("*/attempt-1")
        (folder / path).write_text(text)
        return "done"

    return Tool.from_schema(ToolSchema(name="sneak", risk="idempotent"), sneak, trusted=True)


def branches(bench: Bench) -> list[str]:
    """What was published."""
    return git(bench.repository, "branch", "--list", "--format=%(refname:short)", "assent/*").split()


async def test_a_script_that_a_check_reaches_through_a_makefile_is_put_back(tmp_path: Path) -> None:
    makefile = "check:\n\tsh scripts/check.sh\n"
    files = {**FILES, "Makefile": makefile, "scripts/check.sh": "grep -q right a.txt\n"}
    bench = Bench(tmp_path, str(tmp_path / "assent.db"), files)
    loop = spec(checks=(Check(name="all", command="make check"),))
    turns = [write(text="wrong\n"), SNEAK, "made it", verdict("done"), "fine"]

    ended = await run(bench, turns, loop, maker_tools=[rewriting(bench, "scripts/check.sh", "true\n")])

    assert ended.sealed == ["scripts/check.sh"]
    assert ended.changed == ["a.txt"]
    assert [check.passed for check in ended.checks] == [False]
    assert ended.outcome == "escalated"
    assert not ended.verified
    assert branches(bench) == []


async def test_what_reported_tests_before_any_work_is_a_test(tmp_path: Path) -> None:
    """Whatever it is called: the loop's own baseline says so."""
    files = {**FILES, "proof.py": "def test_it():\n    assert open('a.txt').read() == 'right\\n'\n"}
    bench = Bench(tmp_path, str(tmp_path / "assent.db"), files)
    command = f"{sys.executable} -m pytest -q -o python_files='*.py' ."
    tool = rewriting(bench, "proof.py", "def test_it(): pass\n")
    turns = [SNEAK, "made it", verdict("done"), "fine"]

    ended = await run(bench, turns, spec(checks=(Check(name="all", command=command),)), maker_tools=[tool])

    assert ended.sealed == ["proof.py"]
    assert ended.outcome == "escalated"
