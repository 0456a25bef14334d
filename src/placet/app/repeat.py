"""The command line that starts a kept run once more."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from placet.app.options import options_of
from placet.render.advice import name_words
from placet.render.history import Repeat

if TYPE_CHECKING:
    from placet.durable.sql import RunSummary
    from placet.runtime.journal import RunRecord

_OPTIONS = ("tools", "policies", "state", "permissions", "model", "isolation")
_PATHS = ("tools", "policies", "state")


def repeat_of(summary: RunSummary, record: RunRecord) -> Repeat | None:
    """How a run was started, with every option that was given; None if a program began it."""
    options = options_of(summary)
    if options is None:
        return None
    given = [
        f"--{name} {_from_here(value) if name in _PATHS else name_words(value)}"
        for name in _OPTIONS
        if (value := getattr(options, name)) is not None
    ]
    given += ["--schedule dataflow"] if options.schedule == "dataflow" else []
    caller = record.scope.caller_id if record.scope is not None else None
    given += [f"--as {name_words(caller)}"] if caller else []
    besides = [f"--workspace {_from_here(record.workspace)}"] if record.workspace is not None else []
    besides += [f"--expire {options.expires_s:.0f}s"] if options.expires_s is not None else []
    plan = "PLAN.json" if options.plan is None else _from_here(options.plan)
    return Repeat(plan, " ".join(given), " ".join(besides))


def _from_here(path: str) -> str:
    """A path as it can be typed in the current folder: short if it lies there."""
    here = f"{os.getcwd()}{os.sep}"
    return name_words(path.removeprefix(here) or path)
