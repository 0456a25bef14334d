"""Programs as tools, from Python."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from placet import Isolation, Limits, Runtime, ToolSchema
from placet.errors import ToolDeclarationError, UsageError
from placet.tools import Tool, program_tool

COUNT = """
import json, os, sys
asked = json.load(sys.stdin)
print("looking", file=sys.stderr)
if asked.get("fail"):
    sys.exit("nothing to count")
if path := asked.get("write"):
    open(path, "w").write("x")
print(json.dumps({
    "words": len(asked.get("text", "").split()),
    "run": os.environ["PLACET_RUN_ID"],
    "here": os.getcwd(),
    "key": os.environ.get("TEST_KEY"),
    "other": os.environ.get("TEST_OTHER"),
}))
"""
SCHEMA = ToolSchema(
    name="count_words",
    description="Count the words of a text.",
    parameters={"type": "object", "properties": {"text": {"type": "string"}}},
    risk="read_only",
)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    path = folder / "count.py"
    path.write_text(COUNT)
    return path


def call(runtime: Runtime, **parameters: Any) -> Any:
    plan = {"actions": [{"id": "a", "tool": "count_words", "parameters": parameters}]}
    return runtime.execute_sync(plan, run_id="r7")["a"]


def made(program: Path, **options: Any) -> Tool:
    return program_tool(SCHEMA, [sys.executable, program], **options)


def test_a_program_answers_a_call(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "k")
    monkeypatch.setenv("TEST_OTHER", "o")
    work = tmp_path / "work"
    work.mkdir()

    result = call(Runtime([made(program, folder=work, environment=["TEST_KEY"])]), text="one two")

    assert result.status == "succeeded", result.error
    assert result.output == {"words": 2, "run": "r7", "here": str(work), "key": "k", "other": None}


def test_a_program_that_fails_says_why(program: Path) -> None:
    result = call(Runtime([made(program)]), fail=True)

    assert result.status == "failed"
    assert "nothing to count" in result.error


def test_parameters_are_checked_before_it_is_started(program: Path) -> None:
    assert call(Runtime([made(program)]), text=5).status == "rejected"


def test_its_time_is_limited(program: Path) -> None:
    slow = program_tool(
        SCHEMA, [sys.executable, "-c", "import time; time.sleep(60)"], limits=Limits(time_s=0.2)
    )

    assert call(Runtime([slow])).status == "failed"


def test_under_isolation_it_runs_confined(program: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    isolation = Isolation("process", folder=tmp_path / "data")
    outside = tmp_path / "outside.txt"
    runtime = Runtime([made(program, folder=work, isolation=isolation)], isolation=isolation)

    inside = call(runtime, text="one", write="inside.txt")
    call(runtime, text="one", write=str(outside))

    assert inside.status == "succeeded", inside.error
    assert (work / "inside.txt").read_text() == "x"
    assert not outside.exists(), "what it writes elsewhere is gone with its sandbox"


def test_one_that_is_not_confined_is_withheld_under_isolation(program: Path, tmp_path: Path) -> None:
    isolation = Isolation("process", folder=tmp_path / "data")

    runtime = Runtime([made(program)], isolation=isolation)

    assert "count_words" in runtime.tools.withheld


@pytest.mark.parametrize("command", ["python3 count.py", [], [""], ["python3", 5], Path("x"), ["a\0b"]])
def test_a_command_that_cannot_be_meant_is_refused(command: Any) -> None:
    with pytest.raises(ToolDeclarationError):
        program_tool(SCHEMA, command)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolDeclarationError, match=r"count\.py"):
        program_tool(SCHEMA, ["python3", tmp_path / "count.py"])


@pytest.mark.parametrize("options", [{"environment": ["A=b"]}, {"hosts": ["example.org"]}])
def test_options_that_cannot_work_are_refused(program: Path, options: Any) -> None:
    with pytest.raises(ToolDeclarationError):
        made(program, **options)


def test_a_folder_that_is_not_there_is_refused(program: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        made(program, folder=tmp_path / "nowhere")


def test_a_path_is_found_from_anywhere(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(program.parent)
    tool = program_tool(SCHEMA, [sys.executable, Path("count.py")])
    monkeypatch.chdir("/")

    assert call(Runtime([tool]), text="one").output["here"] == os.fspath(program.parent)
    assert json.dumps(call(Runtime([tool]), text="one").output)


def test_a_runtime_that_is_there_already_takes_it(program: Path) -> None:
    runtime = Runtime()
    tool = program_tool(SCHEMA, [sys.executable, program])

    assert runtime.register(tool) is tool
    assert call(runtime, text="one").status == "succeeded"
