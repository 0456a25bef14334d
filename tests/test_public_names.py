"""What the package promises by name, and that importing it is free of surprises.

A name leaves or enters these lists only together with a line in CHANGELOG.md.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

PLACET = [
    "AgentResult",
    "AgentRunner",
    "AgentSpec",
    "LoopEngine",
    "LoopSpec",
    "SqlRounds",
    "Assistant",
    "Check",
    "CodeLimits",
    "Coder",
    "Contract",
    "Repairs",
    "SqlSessions",
    "Approval",
    "Confinement",
    "FileEdit",
    "Recovery",
    "Person",
    "Ending",
    "Reply",
    "Stance",
    "StopCause",
    "TurnLimits",
    "Action",
    "ActionResult",
    "AllowToolParam",
    "PlacetError",
    "Calls",
    "Cancel",
    "CapabilitySet",
    "CostBudget",
    "Decision",
    "DenyIrreversible",
    "DenyKeyword",
    "DenyTool",
    "DenyToolParam",
    "DenyToolParamMatching",
    "EventLog",
    "Fact",
    "FactScope",
    "FlowRule",
    "HostFilter",
    "JsonlSink",
    "JsonlTrajectories",
    "Isolation",
    "Limits",
    "MarkOutput",
    "Memory",
    "MemoryApprovals",
    "MemoryJournal",
    "Permissions",
    "Posture",
    "Proposal",
    "ProposalResult",
    "RateLimitTool",
    "Redactor",
    "ReplanConfig",
    "RequireState",
    "Runtime",
    "Scope",
    "SourcedText",
    "SqlApprovals",
    "SqlCheckpoints",
    "SqlEvents",
    "Gauge",
    "OpenTelemetrySink",
    "OtelSettings",
    "current_traceparent",
    "join_trace",
    "SqlFacts",
    "SqlJournal",
    "SqlTrajectories",
    "ToolContext",
    "ToolError",
    "ToolSchema",
    "TraceRule",
    "ValueSource",
    "basic_tools",
    "equivalent",
    "observe",
    "open_database",
    "optimize",
    "simulate",
    "tool",
    "transaction_check",
    "verify",
]

EVENTS = [
    "ErrorReported",
    "Notice",
    "RunFinished",
    "StreamEvent",
    "TextDelta",
    "ThinkingDelta",
    "ToolCallFinished",
    "ToolCallStarted",
    "Watch",
]

TOOLS = [
    "Cancel",
    "McpTools",
    "Registry",
    "Tool",
    "ToolContext",
    "program_tool",
    "tool",
]

INFERENCE = [
    "Assistant",
    "Embedder",
    "Image",
    "Intent",
    "Limited",
    "Message",
    "Model",
    "ModelProfile",
    "Models",
    "Price",
    "Recording",
    "Replaying",
    "Request",
    "Result",
    "Retrying",
    "Scripted",
    "System",
    "Text",
    "Thought",
    "ToolCall",
    "ToolResult",
    "Usage",
    "User",
    "Words",
    "open_model",
    "stream",
]

ENGINE = [
    "AgentJob",
    "ChatJob",
    "CodeJob",
    "PlanJob",
    "RoundJob",
    "SubmitOptions",
    "TaskJob",
    "open_engine",
]

TESTING = [
    "FakeClock",
    "NetworkGuard",
    "NetworkRefused",
    "RecordingTool",
    "action",
    "agent_scenarios",
    "event_store_suite",
    "fact_store_suite",
    "journal_suite",
    "no_network",
    "proposal",
    "state_store_suite",
]

PUBLIC = {
    "placet": PLACET,
    "placet.events": EVENTS,
    "placet.tools": TOOLS,
    "placet.inference": INFERENCE,
    "placet.engine": ENGINE,
    "placet.server": ["app"],
    "placet.testing": TESTING,
}

HEAVY = ["jsonschema_rs", "pydantic", "click", "rich", "httpx2"]


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_the_promised_ones(module: str) -> None:
    assert sorted(importlib.import_module(module).__all__) == sorted(PUBLIC[module])


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_resolves_and_shows_in_dir(module: str) -> None:
    """Names are loaded on first use, so a list entry alone proves nothing."""
    loaded = importlib.import_module(module)

    for name in loaded.__all__:
        assert getattr(loaded, name) is not None
    assert set(loaded.__all__) <= set(dir(loaded))


def test_an_unknown_name_is_an_ordinary_attribute_error() -> None:
    import placet

    with pytest.raises(AttributeError, match="no_such_name"):
        placet.no_such_name  # type: ignore[attr-defined]


SHADOWS = """
import placet
for name in ["Runtime", *placet.__all__]:
    assert callable(getattr(placet, name)), f"placet.{name} is hidden by a module"
from placet import verify
assert verify({"actions": []}).valid
"""


def test_no_module_of_the_package_hides_a_public_name() -> None:
    """`verify` is a function and a folder: whoever loads the runtime first still gets something to call."""
    done = subprocess.run(
        [sys.executable, "-c", SHADOWS], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr


PROBE = f"""
import json, sys
import placet
print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]), file=sys.stderr)
"""


def test_importing_placet_loads_nothing_heavy_prints_nothing_and_makes_no_file(tmp_path: Path) -> None:
    home = tmp_path / "home"
    cwd = tmp_path / "cwd"
    for folder in (home, cwd):
        folder.mkdir()

    done = subprocess.run(
        [sys.executable, "-B", "-c", PROBE],
        cwd=cwd,
        env={"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "TMPDIR": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert json.loads(done.stderr) == [], "imported before anything needed it"
    assert sorted(tmp_path.rglob("*")) == sorted([cwd, home])
