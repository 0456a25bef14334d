"""The skills of a memory: which are offered to a run, what a run loads, and what came of it.

Skills come from folders that a person has trusted, which are always offered, and from the store, where each
has to earn its place.

Keep true:
1. A skill with the label `untrusted` is offered to no run and loaded by none.
2. Which arm a run is in follows from its id alone; what is not offered cannot be loaded.
3. An outcome is recorded by checks, scenarios or people; a model that ends a run records none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from placet.errors import UsageError
from placet.memory.analysis import Indexed, query_terms, terms_of
from placet.memory.scoring import text_score
from placet.memory.skills.skill import Skill, skill_from
from placet.memory.skills.store import OutcomeSource, SkillRun, SkillStore
from placet.memory.skills.trial import Arm, SkillState, Trial, arm_of, judged
from placet.safe_text import clean

MOST_OFFERED = 12
"""Skills that match one message: those that fit best."""


class Offer(NamedTuple):
    """The skills that match a message of a run."""

    offered: Sequence[Skill]
    """Those that the run may load, by name."""
    withheld: Sequence[Skill]
    """Provisional ones that are withheld from this run, to compare."""


NOTHING = Offer((), ())


class Judgement(NamedTuple):
    """What an outcome did to a skill."""

    run: SkillRun
    """The run, with its outcome."""
    trial: Trial
    """All outcomes so far."""
    state: SkillState
    """The state of the skill now."""


class SkillShelf:
    """The skills of a memory; `Memory.skills`."""

    def __init__(self, store: SkillStore, *, tenant: str | None, clock: Callable[[], float]) -> None:
        self.store: SkillStore = store
        """The store."""
        self.folders: tuple[Skill, ...] = ()
        """Skills from folders of the project and the person. They hide those of the store with their name."""
        self._own_tenant = tenant
        self._clock = clock

    # Finding

    async def listed(self, *, tenant: str | None = None) -> list[Skill]:
        """Return the newest version of every skill, by name.

        Args:
            tenant: The tenant. `None`: that of the memory.
        """
        return await asyncio.to_thread(self._all, self.tenant(tenant))

    def _all(self, tenant: str | None) -> list[Skill]:
        found = {each.name: each for each in self.store.listed(tenant)}
        # The first one of a name counts: the project's before the person's.
        found |= {each.name: each for each in reversed(self.folders)}
        return [found[name] for name in sorted(found)]

    async def get(self, name: str, *, tenant: str | None = None) -> Skill:
        """Return the newest version of a skill.

        Args:
            name: Its name.
            tenant: The tenant. `None`: that of the memory.

        Raises:
            UsageError: there is none.
        """
        for each in await self.listed(tenant=tenant):
            if each.name == name:
                return each
        raise UsageError(f"There is no skill '{clean(name, 80)}'. List them: placet skills list")

    async def trial(self, skill: Skill, *, tenant: str | None = None) -> Trial:
        """Return the outcomes of the runs that a version of a skill matched.

        Args:
            skill: The skill.
            tenant: The tenant. `None`: that of the memory.
        """
        trials = await asyncio.to_thread(self.store.trials, self.tenant(tenant))
        return trials.get((skill.name, skill.version), Trial())

    # Offering

    async def match(
        self, run_id: str, text: str, *, persona: str | None = None, tenant: str | None = None
    ) -> Offer:
        """Return the skills that match a message, by the arm that the run is in.

        Args:
            run_id: Id of the run.
            text: The message.
            persona: The agent or user on whose behalf the run acts.
            tenant: The tenant. `None`: that of the memory.
        """
        return await asyncio.to_thread(self._match, run_id, text, persona, self.tenant(tenant))

    def _match(self, run_id: str, text: str, persona: str | None, tenant: str | None) -> Offer:
        usable = [each for each in self._all(tenant) if not each.is_untrusted and each.state != "retired"]
        fitting = [each for each in usable if each.triggers.fit(persona, text)]
        if any(each.state == "provisional" for each in fitting):
            # A run is in the trial of the version that it met first, and of no other.
            met = {each.name: each.version for each in self.store.runs(tenant, run=run_id)}
            fitting = [
                each
                for each in fitting
                if each.state == "kept" or met.get(each.name, each.version) == each.version
            ]
        if any(each.state == "kept" for each in fitting):
            trials = self.store.trials(tenant)
            # One that was kept and does badly since is offered again when it has been repaired. Those of
            # folders are mended there.
            fitting = [
                each
                for each in fitting
                if each.state != "kept"
                or not each.is_stored
                or not trials.get((each.name, each.version), Trial()).is_degraded
            ]
        if len(fitting) > MOST_OFFERED:
            weights = dict.fromkeys(query_terms(text), 1.0)
            fitting.sort(key=lambda each: (-_relevance(each, weights), each.name))
        offered, withheld = list[Skill](), list[Skill]()
        for each in sorted(fitting[:MOST_OFFERED], key=lambda each: each.name):
            (offered if _arm(each, run_id) == "with" else withheld).append(each)
        return Offer(offered, withheld)

    async def note_offer(self, run_id: str, offer: Offer, *, tenant: str | None = None) -> None:
        """Record that a run was offered skills, and that others were withheld from it.

        Args:
            run_id: Id of the run.
            offer: The skills.
            tenant: The tenant. `None`: that of the memory.
        """
        arms: tuple[tuple[Arm, Sequence[Skill]], ...] = (("with", offer.offered), ("without", offer.withheld))
        at = self._clock()
        runs = [
            SkillRun(run=run_id, name=each.name, version=each.version, arm=arm, at=at)
            for arm, skills in arms
            for each in skills
        ]
        if runs:
            await asyncio.to_thread(self.store.note_runs, self.tenant(tenant), runs)

    async def load(self, name: str, run_id: str, *, tenant: str | None = None) -> Skill:
        """Return a skill that a run was offered.

        Args:
            name: Its name.
            run_id: Id of the run.
            tenant: The tenant. `None`: that of the memory.

        Raises:
            UsageError: the run was not offered it.
        """

        def find() -> Skill | None:
            where = self.tenant(tenant)
            seen = next((each for each in self.store.runs(where, run=run_id) if each.name == name), None)
            if seen is None:
                return None
            newest = next((each for each in self._all(where) if each.name == name), None)
            if newest is not None and newest.state == "kept" and not newest.is_untrusted:
                # Offered to every run that it matches, whatever was on trial when this one began.
                return newest
            if seen.arm != "with":
                return None
            versions = [*self.folders, *self.store.listed(where, name)]
            wanted = ((each.name, each.version) == (name, seen.version) for each in versions)
            return next((each for each, fits in zip(versions, wanted, strict=True) if fits), None)

        found = await asyncio.to_thread(find)
        if found is None or found.is_untrusted or found.state == "retired":
            raise UsageError(f"This run has no skill '{clean(name, 80)}'.")
        return found

    # Outcomes

    async def record_outcome(
        self, run_id: str, succeeded: bool, *, by: OutcomeSource, tenant: str | None = None
    ) -> list[Judgement]:
        """Record how a run went, and judge the provisional skills that it matched.

        Args:
            run_id: Id of the run.
            succeeded: Whether it did what it was for.
            by: Who says so. A weaker source never replaces what a stronger one has said.
            tenant: The tenant. `None`: that of the memory.
        """
        return await asyncio.to_thread(self._record, run_id, succeeded, by, self.tenant(tenant))

    def _record(self, run_id: str, succeeded: bool, by: OutcomeSource, tenant: str | None) -> list[Judgement]:
        runs = self.store.set_outcome(tenant, run_id, succeeded, by)
        if not runs:
            return []
        trials = self.store.trials(tenant)
        judgements = []
        for run in runs:
            trial = trials.get((run.name, run.version), Trial())
            versions = self.store.listed(tenant, run.name)
            skill = next((each for each in versions if each.version == run.version), None)
            state: SkillState = skill.state if skill is not None else "kept"
            if state == "provisional" and (state := judged(trial)) != "provisional":
                self.store.change(tenant, run.name, run.version, state=state)
            judgements.append(Judgement(run, trial, state))
        return judgements

    # Changing

    async def add(
        self,
        files: Mapping[str, bytes],
        folder: str,
        *,
        source: str,
        state: SkillState = "provisional",
        tenant: str | None = None,
    ) -> Skill:
        """Store the skill in a folder, as a new version if there is one of its name. Return it.

        Args:
            files: The files by their paths, such as `read_folder` returns them.
            folder: Path of the folder; its name must be that of the skill.
            source: Where it comes from.
            state: `"kept"` if a person wants it offered always, `"provisional"` if it has to earn its place.
            tenant: The tenant. `None`: that of the memory.

        Raises:
            SkillInvalid: it is no skill; nothing is stored.
            StorageError: it cannot be stored.
        """
        skill = skill_from(files, folder, source=source, made=self._clock())
        return await self.put(replace(skill, state=state), tenant=tenant)

    async def put(self, skill: Skill, *, tenant: str | None = None) -> Skill:
        """Store a skill as its next version, unless the newest one has the same files. Return what is stored.

        Args:
            skill: The skill; its version is ignored.
            tenant: The tenant. `None`: that of the memory.
        """
        return await asyncio.to_thread(self._put, replace(skill, tenant=self.tenant(tenant)))

    def _put(self, skill: Skill) -> Skill:
        while True:
            known = self.store.listed(skill.tenant, skill.name)
            if known and known[0].files == skill.files and known[0].state != "retired":
                return known[0]
            made = replace(skill, version=known[0].version + 1 if known else 1)
            if self.store.put(made):
                return made

    async def retire(self, name: str, *, tenant: str | None = None) -> bool:
        """Stop offering a skill of the store. Return whether it was offered before.

        Args:
            name: Its name.
            tenant: The tenant. `None`: that of the memory.

        Raises:
            UsageError: there is none in the store.
        """
        found = await self._stored(name, tenant)
        return await asyncio.to_thread(self.store.change, found.tenant, name, found.version, state="retired")

    async def trust(self, name: str, *, version: int | None = None, tenant: str | None = None) -> bool:
        """Approve a skill that was made from untrusted text. A person's decision. Return whether it was
        untrusted before.

        Args:
            name: Its name.
            version: The version that the person has seen. `None`: the newest.
            tenant: The tenant. `None`: that of the memory.

        Raises:
            UsageError: there is none in the store, or the newest is another version.
        """
        found = await self._stored(name, tenant)
        if version not in (None, found.version):
            raise UsageError(f"The newest version of skill '{name}' is {found.version}, not {version}.")
        return await asyncio.to_thread(self.store.change, found.tenant, name, found.version, trust=True)

    async def _stored(self, name: str, tenant: str | None) -> Skill:
        versions = await asyncio.to_thread(self.store.listed, self.tenant(tenant), name)
        if not versions:
            raise UsageError(f"The store has no skill '{clean(name, 80)}'. List them: placet skills list")
        return versions[0]

    def tenant(self, tenant: str | None) -> str | None:
        """The tenant of a call: the one that it names, or that of the memory."""
        return self._own_tenant if tenant is None else tenant


def _arm(skill: Skill, run_id: str) -> Arm:
    return "with" if skill.state == "kept" else arm_of(run_id, skill.name, skill.version)


def _relevance(skill: Skill, weights: Mapping[str, float]) -> float:
    own = tuple(terms_of(f"{skill.name} {skill.description}"))
    return text_score(Indexed(own, tuple(terms_of(" ".join(skill.triggers.keywords))), ()), weights)[0]
