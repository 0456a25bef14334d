"""Warnings of names that mean nothing: in rules and settings, and in the plan.

Keep true: each is said once for a command, on stderr and as data, and changes nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from placet.cli.output import Output

if TYPE_CHECKING:
    from placet.app.app import App
    from placet.ir.proposal import Proposal
    from placet.verify.names import NameWarning

_SHOWN = 20
"""Of more warnings than this, the rest are counted."""


def warn_of_names(output: Output, app: App, proposal: Proposal | None = None) -> list[NameWarning]:
    """Say on stderr which names mean nothing in the rules, and in the plan if there is one; returns them all,
    with those of the settings."""
    from placet.verify.names import field_warnings

    found = app.runtime.rule_warnings()
    found += field_warnings(proposal) if proposal is not None else []
    for each in found[:_SHOWN]:
        whose = f"action '{each.action_id}': " if each.action_id is not None else ""
        output.talk(f"Warning: {whose}{each.message}")
    if len(found) > _SHOWN:
        output.talk(f"Warning: {len(found) - _SHOWN:,} more names mean nothing; --json lists all")
    return [*found, *app.trusted_warnings()]
