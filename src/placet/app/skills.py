"""Skills on the command line: those of the project, once it is trusted, of the person, and of the store.

Keep true:
1. A project's skill is offered only where a person trusts what the folder brings; what was looked at is what
   is offered.
2. A folder that is no skill is left out and named; it ends no run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from placet.app.governance import SKILLS
from placet.errors import SkillInvalid, TrustError
from placet.memory.skills.document import read_folder
from placet.memory.skills.skill import Skill, skill_from
from placet.storage.location import PROJECT_FOLDER, config_folder, project_folder

if TYPE_CHECKING:
    from placet.agents.report import Report
    from placet.agents.spec import AgentSpec
    from placet.app.app import Records
    from placet.events.log import EventLog
    from placet.memory.memory import Memory
    from placet.memory.skills.shelf import SkillShelf
    from placet.memory.skills.trial import Arm, SkillState, Trial


class FolderSkills(NamedTuple):
    """Skills in folders, and what is wrong with others."""

    skills: tuple[Skill, ...] = ()
    """The project's before the person's."""
    problems: tuple[str, ...] = ()
    """Why folders were left out."""


def folder_skills(start: Path, environment: Mapping[str, str]) -> FolderSkills:
    """The skills of the project around `start`, if it is trusted, and those of the person."""
    found: list[Skill] = []
    problems: list[str] = []

    def add(folder: Path, source: str, files: Mapping[str, bytes] | None = None) -> None:
        try:
            read = read_folder(folder) if files is None else files
            found.append(replace(skill_from(read, str(folder), source=source), state="kept"))
        except SkillInvalid as error:
            problems.append(str(error))

    brought, problem = _of_project(start, environment)
    problems += [problem] if problem else []
    for folder, files in brought.items():
        add(folder, f"project:{folder.parent.parent.parent}", files)
    mine = config_folder(environment) / SKILLS
    if mine.is_dir():
        for folder in sorted(mine.iterdir()):
            if folder.is_dir():
                add(folder, f"person:{folder}")
    return FolderSkills(tuple(found), tuple(problems))


def _of_project(start: Path, environment: Mapping[str, str]) -> tuple[dict[Path, dict[str, bytes]], str]:
    """By folder, the files of the project's skills; and why they are left out."""
    from placet.app.trust import is_trusted, snapshot

    holder = project_folder(start)
    if holder is None or not (holder / SKILLS).is_dir():
        return {}, ""
    try:
        seen = snapshot(holder.parent)
        if not is_trusted(seen, environment):
            words = f"The skills in {holder / SKILLS} are not offered: the folder is not trusted."
            return {}, f"{words} Look at them, then type: placet trust"
    except TrustError as error:
        return {}, str(error)
    brought: dict[Path, dict[str, bytes]] = {}
    for path, data in seen.files.items():
        top, _, rest = path.partition("/")
        name, _, inside = rest.partition("/")
        if top == SKILLS and inside:
            folder = seen.folder / PROJECT_FOLDER / SKILLS / name
            brought.setdefault(folder, {})[inside] = data
    return brought, ""


class OpenSkills(NamedTuple):
    """The skills of this folder."""

    shelf: SkillShelf
    problems: tuple[str, ...]


@contextmanager
def open_skills(db: str | None, *, writes: bool = False) -> Iterator[OpenSkills]:
    """The skills of the database `db`, or of the default one, and those of folders.

    Raises:
        StorageError: it cannot be opened.
    """
    from placet.app.app import database_url, open_records
    from placet.app.memory import memory_of
    from placet.memory.memory import Memory
    from placet.memory.skills.sql import has_skills
    from placet.storage.location import is_server, sqlite_path

    folders = folder_skills(Path.cwd(), os.environ)
    with ExitStack() as stack:
        memory = Memory()  # Where nothing was ever stored, and nothing is to be.
        url = database_url(db)
        if writes or is_server(url) or Path(sqlite_path(url)).exists():
            records = stack.enter_context(open_records(db, create=writes, writes=writes))
            if writes or has_skills(records.database):
                memory = memory_of(records, with_embedder=False)
        memory.skills.folders = folders.skills
        yield OpenSkills(memory.skills, folders.problems)


class Judging(NamedTuple):
    """What a person's word about runs needs."""

    memory: Memory
    """It records outcomes, logs them, and learns from them where the settings say so."""
    records: Records
    events: EventLog
    """What is logged here."""


@contextmanager
def open_judging(db: str | None, *, model: str | None = None) -> Iterator[Judging]:
    """The memory of the database `db`, or of the default one, for outcomes of its runs.

    Raises:
        StorageError: the database is not there, or cannot be opened.
        ModelError: the named model is not there; only where models make skills.
    """
    from placet.app.app import known_secrets, open_records
    from placet.app.governance import own_settings
    from placet.app.memory import memory_of
    from placet.app.models import attach
    from placet.events.log import EventLog
    from placet.redaction import Redactor
    from placet.runtime.runtime import Runtime

    mine = own_settings(os.environ)
    redactor = Redactor(known_secrets(os.environ))
    with open_records(db, writes=True, redactor=redactor) as records:
        memory = memory_of(records, with_embedder=False)
        events = EventLog(sinks=[records.events], redactor=redactor)
        models = attach(model, mine.models, os.environ).models if mine.auto_distill else None
        learns = models is not None
        Runtime(
            events=events,
            memory=memory,
            model=models,
            trajectories=records.trajectories if learns else None,
            auto_distill=learns,
        )
        yield Judging(memory, records, events)
        events.flush()


def with_trials(shelf: SkillShelf, tenant: str | None) -> list[tuple[Skill, Trial]]:
    """All skills, each with the outcomes of its runs."""
    from placet.memory.skills.trial import Trial
    from placet.runtime.sync import run_sync

    found = run_sync(shelf.listed(tenant=tenant))
    trials = shelf.store.trials(tenant)
    return [(skill, trials.get((skill.name, skill.version), Trial())) for skill in found]


def skill_data(skill: Skill, trial: Trial) -> dict[str, Any]:
    """A skill as JSON, with the sizes of its files."""
    from placet.memory.skills.trial import lower_bound, next_look

    data: dict[str, Any] = skill.to_dict()
    data["files"] = {path: len(content) for path, content in skill.files.items()}
    judged = {"degraded": trial.is_degraded, "lower_bound": round(lower_bound(trial), 4)}
    look = next_look(trial) if skill.state == "provisional" else None
    return data | {"trial": trial.to_dict(), "next_look": look} | judged


def with_skill(spec: AgentSpec, skill: Skill) -> AgentSpec:
    """An agent that has read a skill."""
    identity = f"{spec.identity}\n\nSkill '{skill.name}', to follow where it fits:\n\n{skill.document.body}"
    return replace(spec, identity=identity)


def record_scenarios(
    shelf: SkillShelf, skill: Skill, reports: Mapping[Arm, Report], *, tenant: str | None
) -> tuple[Trial, SkillState]:
    """Record the outcomes of scenarios that were run with a skill and without it. Return all outcomes so far,
    and the state of the skill."""
    from placet.memory.skills.store import SkillRun
    from placet.runtime.sync import run_sync

    for arm, report in reports.items():
        for trial in (each for scenario in report.scenarios for each in scenario.trials):
            run = SkillRun(run=trial.run_id, name=skill.name, version=skill.version, arm=arm, at=time.time())
            shelf.store.note_runs(tenant, [run])
            run_sync(shelf.record_outcome(trial.run_id, trial.passed, by="scenario", tenant=tenant))
    now = run_sync(shelf.get(skill.name, tenant=tenant))
    return run_sync(shelf.trial(skill, tenant=tenant)), now.state
