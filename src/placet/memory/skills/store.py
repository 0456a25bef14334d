"""Protocol of stores of skills, and what is recorded of the runs that a skill matched.

Keep true:
1. A run is counted once for a skill, in the arm that it was first seen in.
2. An outcome of a weaker source never replaces one of a stronger source.
3. Skills and runs of one tenant never show in what another tenant gets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from placet.ir.to_dict import ToDict
from placet.memory.skills.skill import Skill
from placet.memory.skills.trial import Arm, Counts, SkillState, Trial

OutcomeSource = Literal["check", "scenario", "person", "undo"]
"""Who says how a run went; never the model that ended it.

- `check`: checks of a contract or a goal.
- `scenario`: what a scenario expects.
- `person`: a person's decision.
- `undo`: a person has undone the run.
"""
_STRENGTH: Mapping[OutcomeSource, int] = {"check": 0, "scenario": 0, "person": 1, "undo": 2}


class SkillRun(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """A run that a skill matched."""

    run: str
    """Id of the run."""
    name: str
    """The skill."""
    version: int
    """Its version at that time."""
    arm: Arm
    """Whether the run was offered the skill."""
    at: float
    """When, in seconds since the epoch."""
    succeeded: bool | None = None
    """How the run went; `None` as long as nobody has said."""
    by: OutcomeSource | None = None
    """Who said so."""


def with_outcome(run: SkillRun, succeeded: bool, by: OutcomeSource) -> SkillRun:
    """The run with an outcome, unless it has one of a stronger source."""
    if run.by is not None and _STRENGTH[by] < _STRENGTH[run.by]:
        return run
    return msgspec.structs.replace(run, succeeded=succeeded, by=by)


def trial_of(runs: Iterable[tuple[Arm, bool, int]]) -> Trial:
    """A trial from counted outcomes: arm, whether they succeeded, how many."""
    counts = {("with", True): 0, ("with", False): 0, ("without", True): 0, ("without", False): 0}
    for arm, succeeded, count in runs:
        counts[arm, succeeded] += count
    return Trial(
        offered=Counts(successes=counts["with", True], failures=counts["with", False]),
        withheld=Counts(successes=counts["without", True], failures=counts["without", False]),
    )


class SkillStore(Protocol):
    """Protocol of stores of skills. Calls that write wait for the disk."""

    def put(self, skill: Skill) -> bool:
        """Store a version of a skill. Return whether it is new; a version that is there stays as it is.

        Args:
            skill: The skill.
        """
        ...

    def listed(self, tenant: str | None, name: str | None = None) -> list[Skill]:
        """Return the newest version of each skill by name, or all versions of one, newest first.

        Args:
            tenant: The tenant.
            name: All versions of this skill.
        """
        ...

    def change(
        self,
        tenant: str | None,
        name: str,
        version: int,
        *,
        state: SkillState | None = None,
        trust: bool = False,
    ) -> bool:
        """Change the state of a version, or remove its label `untrusted`. Return whether that changed it. A
        version that is retired stays so.

        Args:
            tenant: The tenant.
            name: Name of the skill.
            version: The version.
            state: The new state.
            trust: Remove the label.
        """
        ...

    def note_runs(self, tenant: str | None, runs: Sequence[SkillRun]) -> None:
        """Record runs that matched. Of a run that is there for a skill, the first record stays.

        Args:
            tenant: The tenant.
            runs: The runs.
        """
        ...

    def set_outcome(self, tenant: str | None, run: str, succeeded: bool, by: OutcomeSource) -> list[SkillRun]:
        """Record how a run went, for every skill that it matched. Return these.

        Args:
            tenant: The tenant.
            run: Id of the run.
            succeeded: Whether it succeeded.
            by: Who says so.
        """
        ...

    def runs(
        self, tenant: str | None, *, run: str | None = None, name: str | None = None, limit: int = 1_000
    ) -> list[SkillRun]:
        """Return records of runs, newest first.

        Args:
            tenant: The tenant.
            run: Only those of this run.
            name: Only those of this skill.
            limit: Maximum number.
        """
        ...

    def trials(self, tenant: str | None) -> dict[tuple[str, int], Trial]:
        """Return the outcomes by name and version; versions without outcomes are left out.

        Args:
            tenant: The tenant.
        """
        ...
