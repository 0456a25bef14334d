"""The command line that starts a kept run once more."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from placet.render.advice import name_words
from placet.render.history import Repeat

if TYPE_CHECKING:
    from placet.durable.sql import RunSummary
    from placet.runtime.journal import RunRecord

_OPTIONS = {
    "tools": "--tools",
    "policies": "--policies",
    "state": "--state",
    "permissions": "--permissions",
    "model": "--model",
    "asked_isolation": "--isolation",
}
_PATHS = ("tools", "policies", "state")


def repeat_of(summary: RunSummary, record: RunRecord) -> Repeat | None:
    """How a run was started, with every option that was given; None if a program began it."""
    context = summary.context
    if "folder" not in context:
        return None
    given = [
        f"{option} {_from_here(value) if key in _PATHS else name_words(value)}"
        for key, option in _OPTIONS.items()
        if isinstance(value := context.get(key), str)
    ]
    given += ["--schedule dataflow"] if context.get("schedule") == "dataflow" else []
    caller = record.scope.caller_id if record.scope is not None else None
    given += [f"--as {name_words(caller)}"] if caller else []
    besides = [f"--workspace {_from_here(record.workspace)}"] if record.workspace is not None else []
    expire = context.get("expire")
    besides += [f"--expire {expire:.0f}s"] if isinstance(expire, int | float) else []
    plan = context.get("plan")
    return Repeat(
        _from_here(plan) if isinstance(plan, str) else "PLAN.json", " ".join(given), " ".join(besides)
    )


def _from_here(path: str) -> str:
    """A path as it can be typed in the current folder: short if it lies there."""
    here = f"{os.getcwd()}{os.sep}"
    return name_words(path.removeprefix(here) or path)
