"""Runs that a model led, as conversations to train or to judge models with: each is one line of chat JSON.

The log is the source: it holds no secrets, and of long texts and parameters the beginning.

Keep true: every tool message answers a call of the assistant message before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from placet.events.event import Event


def conversations(events: Iterable[Event]) -> list[dict[str, Any]]:
    """By run, in the order in which the runs began: `messages` as chat APIs take them, and how the run went.

    Calls that were refused or denied are left out. `outcome` is what a check, a scenario, a person or an undo
    has said; `None` if nobody has.
    """
    found: dict[str, _Conversation] = {}
    for event in events:
        if event.run_id is not None and (event.kind == "turn_loop_started" or event.run_id in found):
            found.setdefault(event.run_id, _Conversation(event.run_id)).take(event)
    return [each.to_dict() for each in found.values() if len(each.messages) > 1]


class _Conversation:
    def __init__(self, run: str) -> None:
        self.messages: list[dict[str, Any]] = []
        self._about: dict[str, Any] = {"run": run, "model": "", "ended": None, "outcome": None}
        self._calls: dict[str, str] = {}
        """By call that waits for its answer, its tool."""
        self._assistant: dict[str, Any] | None = None

    def take(self, event: Event) -> None:
        data = event.data
        call = f"{event.proposal_id}/{event.action_id}"
        match event.kind:
            case "turn_loop_started":
                self._about["model"] = data.get("model", "")
            case "turn_asked":
                self.messages.append({"role": "user", "content": data.get("text", "")})
            case "turn_answered":
                self._close()
                self._assistant = {"role": "assistant", "content": data.get("text", "")}
                self.messages.append(self._assistant)
            case "action_executing" if self._assistant is not None and data.get("attempt") == 1:
                arguments = msgspec.json.encode(data.get("parameters", {})).decode()
                function = {"name": data.get("tool", ""), "arguments": arguments}
                made = {"id": call, "type": "function", "function": function}
                self._assistant.setdefault("tool_calls", []).append(made)
                self._calls[call] = str(data.get("tool", ""))
            case "turn_call_ended":
                key = next((each for each in (call, *self._calls) if each in self._calls), None)
                if key is not None:
                    del self._calls[key]
                    content = data.get("text", "")
                    self.messages.append({"role": "tool", "tool_call_id": key, "content": content})
            case "turn_loop_ended":
                self._close()
                self._about["ended"] = data.get("status")
            case "skill_outcome":
                self._about["outcome"] = {"succeeded": data.get("succeeded"), "by": data.get("by")}

    def _close(self) -> None:
        """Answer calls whose end is not in the log: chat APIs want an answer to each."""
        for key in self._calls:
            self.messages.append({"role": "tool", "tool_call_id": key, "content": "(not recorded)"})
        self._calls.clear()

    def to_dict(self) -> dict[str, Any]:
        return {"messages": self.messages, **self._about}
