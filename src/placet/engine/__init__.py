"""Runs for workers: an engine takes jobs, and sees to it that they are done, here or elsewhere.

    from placet.engine import PlanJob, SubmitOptions, open_engine

Names are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from placet.app.work import AgentJob, ChatJob, CodeJob, PlanJob, RoundJob, TaskJob
    from placet.engine.opening import open_engine
    from placet.engine.protocol import SubmitOptions

__all__ = [
    "AgentJob",
    "ChatJob",
    "CodeJob",
    "PlanJob",
    "RoundJob",
    "SubmitOptions",
    "TaskJob",
    "open_engine",
]

_HOME = {"SubmitOptions": "placet.engine.protocol", "open_engine": "placet.engine.opening"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME.get(name, "placet.app.work")), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
