"""Skills in the memory of one process: the reference of all stores. Safe to use from any thread."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from placet.memory.skills.skill import Skill
from placet.memory.skills.store import OutcomeSource, SkillRun, trial_of, with_outcome
from placet.memory.skills.trial import Arm, SkillState, Trial


def changed(skill: Skill, state: SkillState | None, trust: bool) -> Skill:
    """A skill with another state, or trusted. One that is retired stays so: an outcome that comes meanwhile
    does not undo what a person has said."""
    labels = tuple(each for each in skill.labels if each != "untrusted") if trust else skill.labels
    now = skill.state if skill.state == "retired" else state or skill.state
    return replace(skill, state=now, labels=labels)


class MemorySkills:
    """A store of skills that is lost with the process."""

    def __init__(self) -> None:
        self._skills: dict[str | None, dict[tuple[str, int], Skill]] = defaultdict(dict)
        self._runs: dict[str | None, dict[tuple[str, str], SkillRun]] = defaultdict(dict)
        self._lock = threading.RLock()

    def put(self, skill: Skill) -> bool:
        """Store a version."""
        with self._lock:
            kept = self._skills[skill.tenant]
            return kept.setdefault((skill.name, skill.version), skill) is skill

    def listed(self, tenant: str | None, name: str | None = None) -> list[Skill]:
        """The newest versions, or all of one."""
        with self._lock:
            found = sorted(self._skills[tenant].values(), key=lambda each: (each.name, each.version))
        if name is not None:
            return [each for each in reversed(found) if each.name == name]
        return list({each.name: each for each in found}.values())

    def change(
        self,
        tenant: str | None,
        name: str,
        version: int,
        *,
        state: SkillState | None = None,
        trust: bool = False,
    ) -> bool:
        """Change the state or the label."""
        with self._lock:
            known = self._skills[tenant].get((name, version))
            if known is None or (new := changed(known, state, trust)) == known:
                return False
            self._skills[tenant][name, version] = new
            return True

    def note_runs(self, tenant: str | None, runs: Sequence[SkillRun]) -> None:
        """Record runs that matched."""
        with self._lock:
            for each in runs:
                self._runs[tenant].setdefault((each.run, each.name), each)

    def set_outcome(self, tenant: str | None, run: str, succeeded: bool, by: OutcomeSource) -> list[SkillRun]:
        """Record how a run went."""
        with self._lock:
            found = self.runs(tenant, run=run)
            for each in found:
                self._runs[tenant][each.run, each.name] = with_outcome(each, succeeded, by)
            return self.runs(tenant, run=run)

    def runs(
        self, tenant: str | None, *, run: str | None = None, name: str | None = None, limit: int = 1_000
    ) -> list[SkillRun]:
        """Records of runs."""
        with self._lock:
            found = [
                each
                for each in self._runs[tenant].values()
                if run in (None, each.run) and name in (None, each.name)
            ]
        return sorted(found, key=lambda each: (-each.at, each.run, each.name))[:limit]

    def trials(self, tenant: str | None) -> dict[tuple[str, int], Trial]:
        """The outcomes by version."""
        counted: dict[tuple[str, int], Counter[tuple[Arm, bool]]] = defaultdict(Counter)
        with self._lock:
            for each in self._runs[tenant].values():
                if each.succeeded is not None:
                    counted[each.name, each.version][each.arm, each.succeeded] += 1
        return {
            key: trial_of((arm, succeeded, count) for (arm, succeeded), count in counts.items())
            for key, counts in counted.items()
        }
