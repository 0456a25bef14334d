"""Asking for another plan when one has failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal

MAX_ACTIONS = 100
"""A replanned proposal larger than this is sent back."""


class ReplanConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How often to ask for another proposal, and how to treat it."""

    max_replans: int = 0
    """Maximum number of replans in one run."""
    delay_ms: int = 0
    """Time to wait before each replan, in milliseconds."""
    verify_before_execute: bool = True
    """Whether a new proposal is verified before it runs."""


class FailedAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action that failed or was rejected."""

    action_id: str
    """Id of the action."""
    tool: str | None
    """The tool it called; `None` for other types of action."""
    error: str
    """Why it failed."""
    parameters: dict[str, JsonValue]
    """Its parameters."""


class ReplanContext(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that a replan callback receives."""

    proposal_id: str
    """Id of the proposal with which the run began."""
    attempt: int
    """`1` for the first replan."""
    failed_actions: Sequence[FailedAction]
    """The actions that failed or were rejected."""
    completed_action_ids: Sequence[str]
    """Actions that succeeded and were not rolled back."""
    state: dict[str, JsonValue]
    """The state now."""
    replans_remaining: int
    """How many replans are left after this one."""
    original_source: str
    """`source` of the proposal with which the run began."""
    original_action_count: int
    """Its number of actions."""
    original_context: dict[str, JsonValue]
    """Its `context`."""
    rejections: Sequence[str]
    """Why earlier answers of the callback in this run were not used."""


ReplanAnswer = Proposal | str | bytes | dict[str, Any]
"""A proposal, as an object, JSON text or a dict."""
ReplanCallback = Callable[[ReplanContext], ReplanAnswer | Awaitable[ReplanAnswer]]
"""Function, async or not, that returns another proposal after a failure."""
