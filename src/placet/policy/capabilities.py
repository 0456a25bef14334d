"""What a caller may use at all: tools, state keys, and how much of a plan at once."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from placet.ir.action import Action
from placet.ir.graph import reads_and_writes
from placet.policy.pattern import matches_any


class CapabilitySet(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on what a runtime may use at all. `None` means no limit, an empty list means nothing."""

    allowed_tools: Sequence[str] | None = None
    """Names of tools; `*` matches any text."""
    denied_tools: Sequence[str] = ()
    """Names of tools; wins over `allowed_tools`."""
    allowed_state_keys: Sequence[str] | None = None
    """State keys that an action may read or write, in whatever field it names them; `*` matches any text."""
    max_actions: int | None = None
    """A proposal with more actions is refused."""

    def too_many(self, count: int) -> str | None:
        """Why a proposal of `count` actions is refused, or None."""
        if self.max_actions is not None and count > self.max_actions:
            return (
                f"capability denied: the proposal has {count} actions, at most {self.max_actions} are allowed"
            )
        return None

    def problems(self, action: Action) -> list[str]:
        """Why one action is rejected, references already resolved."""
        found: list[str] = []
        tools = [action.tool] if action.type == "tool_call" and action.tool else []
        for tool in tools:
            allowed = self.allowed_tools is None or matches_any(tool, self.allowed_tools)
            if not allowed or matches_any(tool, self.denied_tools):
                found.append(f"capability denied: tool '{tool}' is not allowed")
        if self.allowed_state_keys is not None:
            reads, writes = reads_and_writes(msgspec.structs.replace(action, references=False))
            found += [
                f"capability denied: state key '{key}' is not allowed"
                for key in dict.fromkeys((*reads, *writes))
                if not matches_any(key, self.allowed_state_keys)
            ]
        return found
