"""`shell` answers however a command ends, in the workspace, and within its time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from placet import Runtime
from placet.errors import ToolError
from placet.sandbox.confinement import Isolation
from placet.sandbox.limits import Limits
from placet.sandbox.workspace import Workspace
from placet.testing import action, proposal
from placet.tools.builtin.shell import shell_tools
from tests.sandbox.programs import is_running

PLENTY = Limits()

UNCONFINED = Isolation("none")


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    folder = tmp_path / "work"
    folder.mkdir()
    opened = Workspace(folder)
    yield opened
    opened.close()


async def shell(
    workspace: Workspace, command: str, *, limits: Limits = PLENTY, **more: Any
) -> dict[str, Any]:
    (tool,) = shell_tools(workspace, isolation=UNCONFINED, limits=limits)
    answer: dict[str, Any] = await tool(command, **more)
    return answer


async def test_a_command_line_runs_in_the_workspace(workspace: Workspace) -> None:
    answer = await shell(workspace, "echo one > a.txt; cat a.txt | sed s/o/O/; echo oops >&2; pwd")

    assert answer == {
        "exit_code": 0,
        "stdout": f"One\n{workspace.folder}\n",
        "stderr": "oops\n",
        "isolation": "none",
    }
    assert (workspace.folder / "a.txt").read_text() == "one\n"


async def test_another_exit_code_is_an_answer(workspace: Workspace) -> None:
    answer = await shell(workspace, "echo no such thing >&2; exit 4")

    assert answer == {"exit_code": 4, "stdout": "", "stderr": "no such thing\n", "isolation": "none"}


async def test_a_command_reads_what_it_is_given(workspace: Workspace) -> None:
    assert (await shell(workspace, "wc -c", stdin="häh"))["stdout"].strip() == "4"
    assert (await shell(workspace, "wc -c"))["stdout"].strip() == "0"


async def test_bytes_that_are_no_text_are_shown_as_such(workspace: Workspace) -> None:
    answer = await shell(workspace, r"printf 'a\377b'")

    assert answer["stdout"] == "a\ufffdb"


async def test_no_secret_of_the_host_is_seen(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "sesame")
    (tool,) = shell_tools(workspace, isolation=UNCONFINED, environment={"GREETING": "hello"})

    answer = await tool("env")

    assert "sesame" not in answer["stdout"]
    assert "GREETING=hello" in answer["stdout"]


@pytest.mark.parametrize(
    ("command", "limits", "ended_by", "note"),
    [
        ("sleep 60", {"time_s": 0.3}, "time", "it was ended after 0.3 s, the time it had"),
        (
            "yes",
            {"output_bytes": 1000},
            "output",
            "it was ended for writing more than 1000 bytes; the rest is lost",
        ),
        ("kill -SEGV $$", {}, "signal", "it was ended by SIGSEGV"),
    ],
)
async def test_an_early_end_is_an_answer_that_says_why(
    workspace: Workspace, command: str, limits: dict[str, Any], ended_by: str, note: str
) -> None:
    answer = await shell(workspace, f"echo begin; {command}", limits=Limits(**limits))

    assert answer["exit_code"] is None
    assert answer["stdout"].startswith("begin\n")
    assert answer["ended_by"] == ended_by
    assert answer["note"] == note


async def test_what_ran_in_the_background_is_told_of(workspace: Workspace) -> None:
    answer = await shell(workspace, "sleep 60 & sleep 60 & echo $!")

    assert answer["exit_code"] == 0
    assert "ended_by" not in answer
    assert answer["note"] == "2 processes that it had started were still running and were ended"
    assert not is_running(int(answer["stdout"]))


async def test_a_model_can_shorten_the_time_and_not_lengthen_it(workspace: Workspace) -> None:
    shorter = await shell(workspace, "sleep 60", timeout_s=0.2)
    longer = await shell(workspace, "sleep 60", timeout_s=3600, limits=Limits(time_s=0.2))

    assert shorter["note"] == longer["note"] == "it was ended after 0.2 s, the time it had"


async def test_what_no_program_can_be_given_is_a_failure(workspace: Workspace) -> None:
    with pytest.raises(ToolError, match="null character"):
        await shell(workspace, "echo a\0b")


def test_what_a_model_reads_of_it(workspace: Workspace) -> None:
    (tool,) = shell_tools(workspace, isolation=UNCONFINED, limits=Limits(time_s=30))

    properties = tool.schema.parameters["properties"]
    assert (tool.name, tool.schema.risk) == ("shell", "destructive")
    assert "It has 30 seconds." in tool.schema.description
    assert list(properties) == ["command", "stdin", "timeout_s"]
    assert tool.schema.parameters["required"] == ["command"]
    assert all(each["description"] for each in properties.values())
    assert tool.validate is not None
    assert tool.validate({"command": ""}) is not None
    assert tool.validate({"command": "ls", "timeout_s": 0}) is not None
    assert tool.validate({"command": "ls", "timeout_s": 1.5}) is None
    assert properties["timeout_s"]["default"] == 30


def test_it_works_without_an_event_loop_of_the_callers_own(workspace: Workspace) -> None:
    rt = Runtime()
    rt.tools.add(*shell_tools(workspace, isolation=UNCONFINED))

    result = rt.execute_sync(proposal(action("a", "shell", parameters={"command": "echo hello"})))

    assert result["a"].output == {"exit_code": 0, "stdout": "hello\n", "stderr": "", "isolation": "none"}
