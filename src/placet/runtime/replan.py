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
    """How often to ask, how long to wait before, and whether to verify the answer."""

    max_replans: int = 0
    delay_ms: int = 0
    verify_before_execute: bool = True


class FailedAction(msgspec.Struct, frozen=True, kw_only=True):
    """One action that did not work."""

    action_id: str
    tool: str | None
    error: str
    parameters: dict[str, JsonValue]


class ReplanContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a planner needs to know to do better."""

    proposal_id: str
    """Of the proposal the run began with."""
    attempt: int
    """1 for the first replan."""
    failed_actions: Sequence[FailedAction]
    completed_action_ids: Sequence[str]
    """What succeeded and stayed; what was rolled back is not among them."""
    state: dict[str, JsonValue]
    replans_remaining: int
    """After this one."""
    original_source: str
    original_action_count: int
    original_context: dict[str, JsonValue]
    rejections: Sequence[str]
    """Why earlier answers of this run were sent back."""


ReplanAnswer = Proposal | str | bytes | dict[str, Any]
ReplanCallback = Callable[[ReplanContext], ReplanAnswer | Awaitable[ReplanAnswer]]
