"""Placet: models propose; Placet verifies, gates, executes and records.

    from placet import Runtime, tool

Names are loaded when first used, so that importing `placet` costs little and does nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Action": "placet.ir.action",
    "Approval": "placet.approvals.approval",
    "Confinement": "placet.ir.call_facts",
    "FileEdit": "placet.ir.call_facts",
    "Recovery": "placet.ir.call_facts",
    "Person": "placet.runtime.asking",
    "ActionResult": "placet.ir.result",
    "AllowToolParam": "placet.policy.rule",
    "PlacetError": "placet.errors",
    "Calls": "placet.policy.calls",
    "Cancel": "placet.tools.context",
    "CapabilitySet": "placet.policy.capabilities",
    "CostBudget": "placet.policy.budget",
    "Decision": "placet.runtime.journal",
    "DenyIrreversible": "placet.policy.flow",
    "DenyKeyword": "placet.policy.rule",
    "DenyTool": "placet.policy.rule",
    "DenyToolParam": "placet.policy.rule",
    "DenyToolParamMatching": "placet.policy.rule",
    "EventLog": "placet.events.log",
    "FlowRule": "placet.policy.flow",
    "HostFilter": "placet.sandbox.hosts",
    "JsonlSink": "placet.events.jsonl",
    "JsonlTrajectories": "placet.runtime.trajectory",
    "Isolation": "placet.sandbox.confinement",
    "Limits": "placet.sandbox.limits",
    "MarkOutput": "placet.policy.flow",
    "Fact": "placet.memory.fact",
    "FactScope": "placet.memory.fact",
    "Memory": "placet.memory.memory",
    "SqlFacts": "placet.memory.sql",
    "MemoryApprovals": "placet.approvals.memory",
    "MemoryJournal": "placet.durable.memory",
    "Permissions": "placet.policy.permission",
    "Posture": "placet.policy.permission",
    "Proposal": "placet.ir.proposal",
    "ProposalResult": "placet.ir.result",
    "RateLimitTool": "placet.policy.rule",
    "Redactor": "placet.redaction",
    "ReplanConfig": "placet.runtime.replan",
    "RequireState": "placet.policy.rule",
    "Runtime": "placet.runtime.runtime",
    "Scope": "placet.runtime.scope",
    "SqlApprovals": "placet.approvals.sql",
    "SqlCheckpoints": "placet.runtime.sql",
    "SqlEvents": "placet.events.sql",
    "Gauge": "placet.events.otel.sink",
    "OpenTelemetrySink": "placet.events.otel.sink",
    "OtelSettings": "placet.events.otel.sink",
    "current_traceparent": "placet.trace_context",
    "join_trace": "placet.trace_context",
    "SqlJournal": "placet.durable.sql",
    "SqlTrajectories": "placet.runtime.sql",
    "SourcedText": "placet.ir.provenance",
    "ToolContext": "placet.tools.context",
    "ToolError": "placet.errors",
    "ToolSchema": "placet.ir.tool_spec",
    "TraceRule": "placet.policy.trace",
    "ValueSource": "placet.policy.sources",
    "basic_tools": "placet.tools.builtin",
    "equivalent": "placet.verify.equivalent",
    "observe": "placet.runtime.observation",
    "open_database": "placet.storage.location",
    "optimize": "placet.verify.optimize",
    "simulate": "placet.verify.simulate",
    "tool": "placet.tools.tool",
    "transaction_check": "placet.verify.transaction",
    "verify": "placet.verify.verify",
    "AgentResult": "placet.agents.result",
    "AgentRunner": "placet.agents.runner",
    "AgentSpec": "placet.agents.spec",
    "Assistant": "placet.assistant.assistant",
    "Ending": "placet.ir.ending",
    "Reply": "placet.runtime.asking",
    "Stance": "placet.policy.permission",
    "StopCause": "placet.ir.stop_cause",
    "TurnLimits": "placet.turns.limits",
    "Check": "placet.checks.contract",
    "CodeLimits": "placet.coder.session",
    "Coder": "placet.coder.coder",
    "Contract": "placet.checks.contract",
    "Repairs": "placet.coder.repairs",
    "SqlSessions": "placet.coder.store_sql",
    "LoopEngine": "placet.loops.engine",
    "LoopSpec": "placet.loops.spec",
    "SqlRounds": "placet.loops.sql",
}

if TYPE_CHECKING:
    from placet.agents.result import AgentResult
    from placet.agents.runner import AgentRunner
    from placet.agents.spec import AgentSpec
    from placet.approvals.approval import Approval
    from placet.approvals.memory import MemoryApprovals
    from placet.approvals.sql import SqlApprovals
    from placet.assistant.assistant import Assistant
    from placet.checks.contract import Check, Contract
    from placet.coder.coder import Coder
    from placet.coder.repairs import Repairs
    from placet.coder.session import CodeLimits
    from placet.coder.store_sql import SqlSessions
    from placet.durable.memory import MemoryJournal
    from placet.durable.sql import SqlJournal
    from placet.errors import PlacetError, ToolError
    from placet.events.jsonl import JsonlSink
    from placet.events.log import EventLog
    from placet.events.otel.sink import Gauge, OpenTelemetrySink, OtelSettings
    from placet.events.sql import SqlEvents
    from placet.ir.action import Action
    from placet.ir.call_facts import Confinement, FileEdit, Recovery
    from placet.ir.ending import Ending
    from placet.ir.proposal import Proposal
    from placet.ir.provenance import SourcedText
    from placet.ir.result import ActionResult, ProposalResult
    from placet.ir.stop_cause import StopCause
    from placet.ir.tool_spec import ToolSchema
    from placet.loops.engine import LoopEngine
    from placet.loops.spec import LoopSpec
    from placet.loops.sql import SqlRounds
    from placet.memory.fact import Fact, FactScope
    from placet.memory.memory import Memory
    from placet.memory.sql import SqlFacts
    from placet.policy.budget import CostBudget
    from placet.policy.calls import Calls
    from placet.policy.capabilities import CapabilitySet
    from placet.policy.flow import DenyIrreversible, FlowRule, MarkOutput
    from placet.policy.permission import Permissions, Posture, Stance
    from placet.policy.rule import (
        AllowToolParam,
        DenyKeyword,
        DenyTool,
        DenyToolParam,
        DenyToolParamMatching,
        RateLimitTool,
        RequireState,
    )
    from placet.policy.sources import ValueSource
    from placet.policy.trace import TraceRule
    from placet.redaction import Redactor
    from placet.runtime.asking import Person, Reply
    from placet.runtime.journal import Decision
    from placet.runtime.observation import observe
    from placet.runtime.replan import ReplanConfig
    from placet.runtime.runtime import Runtime
    from placet.runtime.scope import Scope
    from placet.runtime.sql import SqlCheckpoints, SqlTrajectories
    from placet.runtime.trajectory import JsonlTrajectories
    from placet.sandbox.confinement import Isolation
    from placet.sandbox.hosts import HostFilter
    from placet.sandbox.limits import Limits
    from placet.storage.location import open_database
    from placet.tools.builtin import basic_tools
    from placet.tools.context import Cancel, ToolContext
    from placet.tools.tool import tool
    from placet.trace_context import current_traceparent, join_trace
    from placet.turns.limits import TurnLimits
    from placet.verify.equivalent import equivalent
    from placet.verify.optimize import optimize
    from placet.verify.simulate import simulate
    from placet.verify.transaction import transaction_check
    from placet.verify.verify import verify

__all__ = [
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


class _Package(ModuleType):
    """`placet.verify` is a function people call, and also a folder: the function wins the name.

    Importing a submodule sets it on its parent; that one binding is let fall here. `from placet.verify
    import ...` goes through sys.modules and is not touched.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'placet' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
