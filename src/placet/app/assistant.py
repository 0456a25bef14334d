"""An assistant on the command line: made from an app, with what a person allows, limits and records.

Keep true: what decides how a run goes on is kept with the run, so that it goes on the same from anywhere.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from placet.app.app import App
    from placet.app.models import Attached
    from placet.app.options import RunOptions
    from placet.app.settings import Settings
    from placet.assistant.assistant import Assistant
    from placet.durable.sql import RunSummary
    from placet.inference.model import Model
    from placet.policy.permission import Permissions, Posture
    from placet.runtime.journal import RunRecord
    from placet.turns.limits import TurnLimits

YES_TO = ("none", "read_only", "sandbox_edit", "full_access")
"""What may be done without asking."""


def make_assistant(app: App, *, limits: TurnLimits | None = None, since: Posture | None = None) -> Assistant:
    """An assistant with the tools and the model of an app. What needs asking is said by the posture that the
    person has set `since` a run began, else by the app's options (`yes_to`, then `permissions`), else by the
    settings.

    Raises:
        ModelMissing: no model is set up.
    """
    from placet.app.governance import own_settings
    from placet.assistant.assistant import Assistant

    posture = since or posture_of(app.options.yes_to)
    if posture is None and app.options.permissions is None:
        posture = settled_posture(own_settings(os.environ), app.runtime.permissions)
    return Assistant(
        app.runtime,
        model_of(app.attached),
        posture=posture,
        limits=limits,
        spill=app.spill,
        memory=app.uses_memory,
    )


def model_of(attached: Attached) -> Model:
    """Who answers.

    Raises:
        ModelMissing: no model is set up, or the one that was named is not on this machine; says how to get
            one.
    """
    from placet.app.models import NO_MODEL
    from placet.errors import ModelMissing
    from placet.inference.local.weights import LOCAL, need

    if attached.models is None or attached.chosen is None:
        words = attached.missing or NO_MODEL
        raise ModelMissing(f"{words[0].upper()}{words[1:]}.")
    if attached.chosen.name == LOCAL.name and attached.chosen.is_hard:
        # Before a run begins that could not ask anybody. Where it was not named, another one may answer.
        need(LOCAL, os.environ)
    return attached.models


def posture_of(yes_to: str | None) -> Posture | None:
    """What is answered tier by tier, where a person has said what may be done without asking."""
    from placet.policy.permission import Posture

    if yes_to is None:
        return None
    return Posture(read_only="ask") if yes_to == "none" else Posture.named(yes_to)


def settled_posture(mine: Settings, found: Permissions | None) -> Posture:
    """What the settings answer. `found` is what holds in the folder; where the person's own settings, `mine`,
    say nothing of a tier, it can only be stricter than asking about all but reading: a folder that brings
    settings makes nothing milder by that."""
    from placet.policy.permission import TIERS, Permissions, Posture

    said = TIERS if mine.standing.name is not None else tuple(mine.standing.answers)
    least = {tier: "allow" if tier in said else Posture.named("read_only").to(tier) for tier in TIERS}
    return (found or Permissions()).standing.tightened(msgspec.convert(least, Posture))


def posture_words(posture: Posture) -> str:
    """What a posture lets pass without asking, as `--yes-to` would say it; else tier by tier.

    >>> from placet.policy.permission import Posture
    >>> posture_words(Posture.named("sandbox_edit"))
    'up to sandbox_edit'
    """
    from placet.policy.permission import TIERS

    for name in YES_TO:
        if posture_of(name) == posture:
            return "nothing" if name == "none" else f"up to {name}"
    return ", ".join(f"{tier}: {posture.to(tier)}" for tier in TIERS)


def limits_for(app: App) -> TurnLimits:
    """The limits that the app's options set; how much the model can read is what is known of it."""
    from placet.inference.prices import facts_of
    from placet.inference.profile import profile_of
    from placet.turns.limits import TurnLimits

    facts = facts_of(app.chosen.name) if app.chosen is not None else None
    set_context = profile_of(app.attached.models).context_tokens
    options = app.options
    return TurnLimits(
        **({"turns": options.turns} if options.turns is not None else {}),
        tokens=options.tokens,
        cost_usd=options.cost_usd,
        time_s=options.time_s,
        context_tokens=set_context or (facts.context if facts is not None else None),
    )


def began_here(summary: RunSummary, record: RunRecord) -> None:
    """Refuse a run that a program leads: its tools and rules are not known here.

    Raises:
        UsageError: it is one.
    """
    from placet.assistant.assistant import LEADER
    from placet.errors import UsageError
    from placet.runtime.journal import LED_BY

    if "folder" not in summary.context or record.proposal.context.get(LED_BY) != LEADER:
        raise UsageError(
            f"Run '{summary.run_id}' was begun by a program, whose tools and rules are not known here. Go on "
            f"with it there: assistant.resume({summary.run_id!r})."
        )


def posture_since(app: App, run_id: str) -> Posture | None:
    """The posture that the person has set since a run began; None if they have not."""
    from placet.runtime.journal import Replay

    return Replay(app.records.journal.notes(run_id)).posture if app.records is not None else None


def check_workspace(options: RunOptions) -> None:
    """Refuse to resume a run whose workspace is gone.

    Raises:
        UsageError: it is.
    """
    from placet.errors import UsageError

    folder = options.workspace
    if folder is not None and not os.path.isdir(folder):
        raise UsageError(f"The folder that this run works in is gone: {folder}. Bring it back, then resume.")
