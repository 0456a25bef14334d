"""Models: one seam, and what stands behind it.

    messages     what a conversation is made of
    model        the seam: `Request`, `Result`, and what a model has to do
    usage        tokens and prices
    roles        several models behind the seam; choice: which answers where nobody names one
    opening      from a name to a model, with all that goes around it
    wrappers     retry, time limit, reasoning apart, recording and replay
    tool_modes   tools for models that have none of their own
    wire         the three wire formats; http and sse carry them
    local        a model on this machine; embedding: vectors on this machine
    scripted     a model that says what it was told to, for tests
    tools        infer, classify, embed: what a plan can ask of a model

Names are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "Assistant": "messages",
    "Embedder": "model",
    "Image": "messages",
    "Intent": "model",
    "Limited": "wrappers.limits",
    "Message": "messages",
    "Model": "model",
    "ModelProfile": "profile",
    "Models": "roles",
    "Price": "usage",
    "Recording": "wrappers.recording",
    "Replaying": "wrappers.replaying",
    "Request": "model",
    "Result": "model",
    "Retrying": "wrappers.retry",
    "Scripted": "scripted",
    "System": "messages",
    "Text": "messages",
    "Thought": "model",
    "ToolCall": "messages",
    "ToolResult": "messages",
    "Usage": "usage",
    "User": "messages",
    "Words": "model",
    "open_model": "opening",
    "stream": "model",
}

if TYPE_CHECKING:
    from placet.inference.messages import (
        Assistant,
        Image,
        Message,
        System,
        Text,
        ToolCall,
        ToolResult,
        User,
    )
    from placet.inference.model import (
        Embedder,
        Intent,
        Model,
        Request,
        Result,
        Thought,
        Words,
        stream,
    )
    from placet.inference.opening import open_model
    from placet.inference.profile import ModelProfile
    from placet.inference.roles import Models
    from placet.inference.scripted import Scripted
    from placet.inference.usage import Price, Usage
    from placet.inference.wrappers.limits import Limited
    from placet.inference.wrappers.recording import Recording
    from placet.inference.wrappers.replaying import Replaying
    from placet.inference.wrappers.retry import Retrying

__all__ = [
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


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = found
    return found
