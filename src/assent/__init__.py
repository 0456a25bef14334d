"""Assent: models propose; Assent verifies, gates, executes and records.

    from assent import Runtime, tool

Names are loaded when first used, so that importing `assent` costs little and does nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Action": "assent.ir.action",
    "ActionResult": "assent.ir.result",
    "AllowToolParam": "assent.policy.rule",
    "AssentError": "assent.errors",
    "Calls": "assent.policy.calls",
    "Cancel": "assent.tools.context",
    "CapabilitySet": "assent.policy.capabilities",
    "CostBudget": "assent.policy.budget",
    "Decision": "assent.runtime.journal",
    "DenyIrreversible": "assent.policy.flow",
    "DenyKeyword": "assent.policy.rule",
    "DenyTool": "assent.policy.rule",
    "DenyToolParam": "assent.policy.rule",
    "DenyToolParamMatching": "assent.policy.rule",
    "EventLog": "assent.events.log",
    "FlowRule": "assent.policy.flow",
    "HostFilter": "assent.sandbox.hosts",
    "JsonlSink": "assent.events.jsonl",
    "JsonlTrajectories": "assent.runtime.trajectory",
    "Isolation": "assent.sandbox.confinement",
    "Limits": "assent.sandbox.limits",
    "MarkOutput": "assent.policy.flow",
    "MemoryApprovals": "assent.approvals.memory",
    "MemoryJournal": "assent.durable.memory",
    "Permissions": "assent.policy.permission",
    "Posture": "assent.policy.permission",
    "Proposal": "assent.ir.proposal",
    "ProposalResult": "assent.ir.result",
    "RateLimitTool": "assent.policy.rule",
    "Redactor": "assent.redaction",
    "ReplanConfig": "assent.runtime.replan",
    "RequireState": "assent.policy.rule",
    "Runtime": "assent.runtime.runtime",
    "Scope": "assent.runtime.scope",
    "SqlApprovals": "assent.approvals.sql",
    "SqlCheckpoints": "assent.runtime.sql",
    "SqlEvents": "assent.events.sql",
    "SqlJournal": "assent.durable.sql",
    "SqlTrajectories": "assent.runtime.sql",
    "ToolContext": "assent.tools.context",
    "ToolError": "assent.errors",
    "ToolSchema": "assent.ir.tool_spec",
    "TraceRule": "assent.policy.trace",
    "basic_tools": "assent.tools.builtin",
    "equivalent": "assent.verify.equivalent",
    "open_database": "assent.storage.location",
    "optimize": "assent.verify.optimize",
    "simulate": "assent.verify.simulate",
    "tool": "assent.tools.tool",
    "transaction_check": "assent.verify.transaction",
    "verify": "assent.verify.verify",
    "AgentResult": "assent.agents.result",
    "AgentRunner": "assent.agents.runner",
    "AgentSpec": "assent.agents.spec",
    "Assistant": "assent.assistant.assistant",
    "Ending": "assent.turns.ending",
    "Reply": "assent.runtime.asking",
    "Stance": "assent.policy.permission",
    "TurnLimits": "assent.turns.limits",
    "Check": "assent.coder.contract",
    "CodeLimits": "assent.coder.session",
    "Coder": "assent.coder.coder",
    "Contract": "assent.coder.contract",
    "SqlRepairs": "assent.coder.repairs_sql",
    "SqlSessions": "assent.coder.store_sql",
    "LoopEngine": "assent.loops.engine",
    "LoopSpec": "assent.loops.spec",
    "SqlRounds": "assent.loops.sql",
}

if TYPE_CHECKING:
    from assent.agents.result import AgentResult
    from assent.agents.runner import AgentRunner
    from assent.agents.spec import AgentSpec
    from assent.approvals.memory import MemoryApprovals
    from assent.approvals.sql import SqlApprovals
    from assent.assistant.assistant import Assistant
    from assent.coder.coder import Coder
    from assent.coder.contract import Check, Contract
    from assent.coder.repairs_sql import SqlRepairs
    from assent.coder.session import CodeLimits
    from assent.coder.store_sql import SqlSessions
    from assent.durable.memory import MemoryJournal
    from assent.durable.sql import SqlJournal
    from assent.errors import AssentError, ToolError
    from assent.events.jsonl import JsonlSink
    from assent.events.log import EventLog
    from assent.events.sql import SqlEvents
    from assent.ir.action import Action
    from assent.ir.proposal import Proposal
    from assent.ir.result import ActionResult, ProposalResult
    from assent.ir.tool_spec import ToolSchema
    from assent.loops.engine import LoopEngine
    from assent.loops.spec import LoopSpec
    from assent.loops.sql import SqlRounds
    from assent.policy.budget import CostBudget
    from assent.policy.calls import Calls
    from assent.policy.capabilities import CapabilitySet
    from assent.policy.flow import DenyIrreversible, FlowRule, MarkOutput
    from assent.policy.permission import Permissions, Posture, Stance
    from assent.policy.rule import (
        AllowToolParam,
        DenyKeyword,
        DenyTool,
        DenyToolParam,
        DenyToolParamMatching,
        RateLimitTool,
        RequireState,
    )
    from assent.policy.trace import TraceRule
    from assent.redaction import Redactor
    from assent.runtime.asking import Reply
    from assent.runtime.journal import Decision
    from assent.runtime.replan import ReplanConfig
    from assent.runtime.runtime import Runtime
    from assent.runtime.scope import Scope
    from assent.runtime.sql import SqlCheckpoints, SqlTrajectories
    from assent.runtime.trajectory import JsonlTrajectories
    from assent.sandbox.confinement import Isolation
    from assent.sandbox.hosts import HostFilter
    from assent.sandbox.limits import Limits
    from assent.storage.location import open_database
    from assent.tools.builtin import basic_tools
    from assent.tools.context import Cancel, ToolContext
    from assent.tools.tool import tool
    from assent.turns.ending import Ending
    from assent.turns.limits import TurnLimits
    from assent.verify.equivalent import equivalent
    from assent.verify.optimize import optimize
    from assent.verify.simulate import simulate
    from assent.verify.transaction import transaction_check
    from assent.verify.verify import verify

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
    "SqlRepairs",
    "SqlSessions",
    "Ending",
    "Reply",
    "Stance",
    "TurnLimits",
    "Action",
    "ActionResult",
    "AllowToolParam",
    "AssentError",
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
    "FlowRule",
    "HostFilter",
    "JsonlSink",
    "JsonlTrajectories",
    "Isolation",
    "Limits",
    "MarkOutput",
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
    "SqlApprovals",
    "SqlCheckpoints",
    "SqlEvents",
    "SqlJournal",
    "SqlTrajectories",
    "ToolContext",
    "ToolError",
    "ToolSchema",
    "TraceRule",
    "basic_tools",
    "equivalent",
    "open_database",
    "optimize",
    "simulate",
    "tool",
    "transaction_check",
    "verify",
]


class _Package(ModuleType):
    """`assent.verify` is a function people call, and also a folder: the function wins the name.

    Importing a submodule sets it on its parent; that one binding is let fall here. `from assent.verify
    import ...` goes through sys.modules and is not touched.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'assent' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
