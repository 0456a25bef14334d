"""Agents with scripted models, for tests of what stands on the runner."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from placet import Runtime
from placet.agents.scenarios import Trying
from placet.agents.spec import AgentSpec, Scenario
from placet.inference import Scripted
from placet.inference.messages import ToolCall, User
from placet.inference.model import Request, Result
from placet.inference.usage import Usage
from placet.sandbox.confinement import Isolation

NOT_KEPT_IN = Isolation("none")
"""For tests to which commands do not matter."""


def spec(*scenarios: Scenario, tools: Iterable[str] = (), **more: Any) -> AgentSpec:
    """An agent that has these scenarios."""
    return AgentSpec(
        **{"id": "t", "identity": "You answer.", "tools": tuple(tools), "scenarios": scenarios, **more}
    )


def call(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(id="", name=name, arguments=arguments)


def told(text: str, tokens: int) -> Result:
    """An answer that says what it took."""
    return Result(text=text, usage=Usage(input=tokens - 1, output=1), cost=0.0)


def last_said(request: Request) -> str:
    """What the model was last told by a person."""
    return next(str(each.content) for each in reversed(request.messages) if isinstance(each, User))


def trying(model: Any, *, runtime: Runtime | None = None, **more: Any) -> Trying:
    """What scenarios are tried with. `model`: turns, a function of a request, or a model."""
    made = model if hasattr(model, "generate") else Scripted(model)
    return Trying(runtime or Runtime(), made, **{"isolation": NOT_KEPT_IN, **more})


Answer = Callable[[Request], Any]
