"""What must be enforced before a plan runs, and which tools are offered then."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet import Isolation, Runtime, basic_tools, tool
from placet.errors import IsolationMissing
from placet.ir.tool_spec import ToolSchema
from placet.sandbox.workspace import Workspace
from placet.testing import action, proposal
from placet.tools.subprocess import CommandSpec, command_tool
from tests.sandbox.test_confinement import weak

PROCESS_TOOLS = [
    "read_file",
    "write_file",
    "edit_file",
    "list_dir",
    "find_files",
    "grep",
    "shell",
    "http_get",
]


@tool
def deploy(name: str) -> str:
    return name


@tool
def look_up(name: str) -> str:
    return f"{name} was found"


def test_python_tools_are_withheld_and_verify_says_why(tmp_path: Path) -> None:
    isolation = Isolation("process", trusted=["look_up"])
    rt = Runtime(
        tools=[deploy, look_up], builtin=basic_tools(tmp_path, isolation=isolation), isolation=isolation
    )

    assert "deploy" not in rt.tools
    assert "look_up" in rt.tools
    assert set(PROCESS_TOOLS) <= set(rt.tools.names())
    plan = proposal(action("a", "deploy", parameters={"name": "x"}))
    words = "tool 'deploy' is not offered under isolation 'process'"
    [issue] = [each for each in rt.verify(plan).issues if each.severity == "error"]
    assert words in issue.message
    result = rt.execute_sync(plan)
    assert result["a"].status == "rejected"
    assert words in (result["a"].error or "")


def test_a_program_in_a_sandbox_is_offered_and_one_outside_is_not(tmp_path: Path) -> None:
    isolation = Isolation("process")
    workspace = Workspace(tmp_path)

    def program(name: str, **options: object) -> object:
        spec = CommandSpec(argv=["cat"], folder=workspace.fd, workspace=workspace, **options)  # type: ignore[arg-type]
        return command_tool(ToolSchema(name=name), spec)

    rt = Runtime(tools=[program("inside", isolation=isolation), program("outside")], isolation=isolation)  # type: ignore[list-item]

    assert rt.tools.names() == ["inside"]
    assert rt.tools.require("inside").schema.labels == ("confined",)


async def test_nothing_starts_where_less_is_enforced(tmp_path: Path) -> None:
    isolation = weak(Isolation("process"))
    rt = Runtime(builtin=basic_tools(tmp_path, isolation=isolation), isolation=isolation, workspace=tmp_path)

    with pytest.raises(IsolationMissing):
        await rt.execute(proposal(action("a", "write_file", parameters={"path": "made", "text": "x"})))

    assert not (tmp_path / "made").exists()
    assert len(rt.events) == 0


async def test_a_confined_command_is_taken_back_with_its_workspace(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "kept").write_text("as it was")
    isolation = Isolation("process", folder=tmp_path / "data")
    workspace = Workspace(work)
    rt = Runtime(
        builtin=basic_tools(workspace, isolation=isolation),
        isolation=isolation,
        workspace=workspace,
        snapshots=tmp_path / "snapshots",
    )
    plan = proposal(
        action("a", "shell", parameters={"command": "echo changed > kept; echo new > made; rm -rf nothing"}),
        action(
            "b", "read_file", parameters={"path": "missing"}, dependencies=["a"], failure_behavior="abort"
        ),
    )

    result = await rt.execute(plan)

    assert result.outcome == "aborted"
    assert result["a"].output["isolation"] == "process"  # type: ignore[index, call-overload]
    assert result.irreversible == []
    assert (work / "kept").read_text() == "as it was"
    assert not (work / "made").exists()
    [ran] = [event for event in rt.events if event.kind == "command_ran"]
    assert ran.data["by"] == "bubblewrap"
    assert ran.data["enforced"]["net"] == "kernel"  # type: ignore[index, call-overload]
