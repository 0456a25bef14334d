"""What the record of a loop says about how far it could go: a level is suggested, and that is all.

Pure: rounds come in, newest first as a store lists them; words go out.

Keep true:
1. Nothing here raises a level: a person does, by changing the loop's file.
2. One act that was taken back weighs more than any number of rounds that went well.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from placet.loops.levels import Level
from placet.loops.round import Round

REPORTS = 10
"""Rounds of L1 without a failure, before L2 is suggested."""
DECISIONS = 20
"""Rounds of L2 that a person decided about, before L3 is."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the rounds at the present level come to."""

    rounds: int = 0
    failed: int = 0
    """Failed, or out of budget."""
    verified: int = 0
    approved: int = 0
    denied: int = 0
    false_alarms: int = 0
    """Not verified, and a person approved it all the same: the checker was too strict."""
    false_greens: int = 0
    """Verified, and a person denied it: the checker was too lax."""
    reversals: int = 0
    """Acts that were taken back."""


class Suggestion(msgspec.Struct, frozen=True, kw_only=True):
    """A level that the record speaks for."""

    level: Level
    because: str


def evidence(rounds: Sequence[Round], level: Level) -> Evidence:
    """What the rounds of a level come to, since the loop was last at another one."""
    found = Evidence()
    for round in rounds:
        if round.is_open:
            continue
        if round.level != level:
            break
        said = {each.what for each in round.later}
        approved, denied = "approved" in said, "denied" in said
        found = Evidence(
            rounds=found.rounds + 1,
            failed=found.failed + (round.outcome in ("failed", "budget_exhausted")),
            verified=found.verified + round.verified,
            approved=found.approved + approved,
            denied=found.denied + denied,
            false_alarms=found.false_alarms + (approved and not round.verified),
            false_greens=found.false_greens + (denied and round.verified),
            reversals=found.reversals + ("reversed" in said),
        )
    return found


def suggestion(rounds: Sequence[Round], level: Level, *, has_checks: bool) -> Suggestion | None:
    """The next level, if the record speaks for it; None if it does not, or there is none above."""
    seen = evidence(rounds, level)
    if level == "L1":
        if seen.rounds < REPORTS or seen.failed:
            return None
        return Suggestion(level="L2", because=f"{seen.rounds} rounds in a row were reported, and none failed")
    if level == "L2":
        decided = seen.approved + seen.denied
        if decided < DECISIONS or not has_checks:
            return None
        if seen.denied or seen.false_greens or seen.reversals or seen.failed:
            return None
        if seen.false_alarms * 10 > decided:
            return None
        words = f"{seen.approved} changes in a row were approved and none taken back"
        return Suggestion(level="L3", because=f"{words}, with {seen.false_alarms} false alarms")
    return None
