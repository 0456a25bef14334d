"""How far a loop may go by itself, and what the engine makes of that whatever a gate answers.

L1 reports: it looks, and changes nothing. L2 assists: it prepares a change, and a person decides about each.
L3 acts: unattended, within an allowlist, and only on what was verified.

Keep true:
1. What `allowed` lets through is all that ever runs without a person. A gate can only be stricter.
2. Nothing is verified without a structured `done` and at least one check that ran and was green.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from placet.ir.to_dict import ToDict

if TYPE_CHECKING:
    from placet.checks.contract import CheckResult
    from placet.loops.verdict import Verdict
    from placet.tools.tool import Tool

Level = Literal["L1", "L2", "L3"]
"""How far a loop may go by itself.

- `L1`: it reports, and changes nothing.
- `L2`: it prepares a change; a person decides about each.
- `L3`: it acts unattended, within an allowlist, on verified changes.
"""
LEVELS: tuple[Level, ...] = get_args(Level)
WORDS: dict[Level, str] = {"L1": "report", "L2": "assisted", "L3": "unattended"}
LOOKS = ("read_only", "network")
"""The risks of tools that a loop of level L1 is offered."""


class Standing(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """The highest level at which a loop may act, whatever its file says. At L3 only the file decides."""

    loop: str
    """Key of the loop."""
    level: Level
    """The highest level."""
    reason: str
    """Why it was lowered or restored."""
    since: float
    """Since when, in seconds since the epoch."""
    by: str = ""
    """Who restored it; empty if it was lowered."""

    @property
    def lowers(self) -> bool:
        """Whether it restricts the loop."""
        return self.level != "L3"


def lower_of(one: Level, other: Level) -> Level:
    """The one that allows less.

    >>> lower_of("L3", "L2")
    'L2'
    """
    return min(one, other, key=LEVELS.index)


def below(level: Level) -> Level:
    """The next level that allows less; L1 has none below it."""
    return LEVELS[max(LEVELS.index(level) - 1, 0)]


def offered(tools: Sequence[Tool], level: Level) -> list[Tool]:
    """The tools that a loop of a level is offered at all."""
    if level == "L1":
        return [tool for tool in tools if tool.schema.risk in LOOKS]
    return list(tools)


def why_not_verified(
    verdict: Verdict | None, doubt: str, checks: Sequence[CheckResult], sealed: Sequence[str]
) -> str:
    """Why a change does not count as verified, in words; empty if it does.

    `doubt` is what is wrong with how the verdict was given, whatever it says.
    """
    if verdict is None:
        return doubt or "the checker gave no verdict"
    if verdict.verdict != "done":
        return f"the checker's verdict is {verdict.verdict}"
    if doubt:
        return doubt
    if sealed:
        return f"the maker changed {sealed[0]}, which checks depend on; it was put back"
    if not checks:
        return "there is no check that could have failed"
    red = [check for check in checks if not check.passed]
    if red:
        return f"the check '{red[0].name}' is red: {red[0].why or 'it did not pass'}"
    return ""


def why_not_allowed(level: Level, kind: str, allow: Collection[str], unverified: str) -> str:
    """Why an action may not run without a person, in words; empty if it may."""
    if level != "L3":
        return f"a loop of level {level} ({WORDS[level]}) never acts without a person"
    if kind not in allow:
        return f"'{kind}' is no kind that the loop may act on by itself"
    return unverified
