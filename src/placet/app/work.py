"""How each kind of run begins, and how it is resumed, in a process that nobody sits before.

A job is data: what to do, and where. `begin_x` makes a run of it; `resume_x` goes on with a stored run, set
up as it was. Both lead the run until it ends or waits for a person. `engine/kinds.py` has them by name.

Keep true:
1. What holds on the command line holds here: rules, permissions, trust and isolation of the folder. A folder
   that brings something and is not trusted is refused: there is nobody to ask.
2. Nobody is waited for. A run that needs a person lets go, and goes on when somebody has decided.
3. A run that only its program can go on with is refused, with what to do instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from placet.app.assistant import began_here, check_workspace
from placet.app.options import RunOptions, is_a_programs, options_of, resume_options
from placet.errors import NamesMissing, UsageError
from placet.runtime.journal import is_led
from placet.storage.lease import LEASE_S

if TYPE_CHECKING:
    from placet.durable.sql import RunSummary
    from placet.events.stream import StreamEvent
    from placet.policy.budget import Budget
    from placet.runtime.journal import Decision, RunRecord
    from placet.runtime.scope import Scope
    from placet.tools.context import Cancel

Hear = Callable[["StreamEvent[Any]"], None]
"""Hears what happens in turns, as it happens."""
Begun = Callable[[], None]
"""Called once everything is set up, just before the run begins."""


class _Job(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    folder: str
    """Where it works; its rules and settings hold."""
    model: str | None = None
    """Who answers. `None`: what the settings say."""
    permissions: str | None = None
    """A posture in the place of that of the settings."""

    @property
    def options(self) -> RunOptions:
        """The options of the run: those that may be chosen from outside."""
        yes_to: str | None = getattr(self, "yes_to", None)
        return RunOptions(folder=self.folder, model=self.model, permissions=self.permissions, yes_to=yes_to)


class PlanJob(_Job, frozen=True, kw_only=True, tag="plan"):
    """Execute a plan."""

    plan: dict[str, Any]
    """The proposal."""


class TaskJob(_Job, frozen=True, kw_only=True, tag="task"):
    """Have an assistant do a job."""

    text: str
    """The task."""
    yes_to: str | None = None
    """What may be done without asking: `none`, `read_only`, `sandbox_edit` or `full_access`."""


class ChatJob(_Job, frozen=True, kw_only=True, tag="chat"):
    """Begin a conversation with an assistant."""

    text: str
    """The first message."""
    yes_to: str | None = None
    """As for a task."""


class AgentJob(_Job, frozen=True, kw_only=True, tag="agent"):
    """Have an agent do a job."""

    agent: str
    """Id of the agent: one of the folder's project, or of the person."""
    text: str
    """The task."""
    yes_to: str | None = None
    """As for a task."""


class CodeJob(_Job, frozen=True, kw_only=True, tag="code"):
    """Have a coding session change the repository around the folder."""

    intent: str
    """The change to make."""
    checks: list[str] = []
    """Commands that must pass; without any the repository's contract, or the model drafts some."""
    candidates: int = 1
    """Attempts that are made side by side."""


class RoundJob(_Job, frozen=True, kw_only=True, tag="round"):
    """Run a round of a loop now, also while the loop is paused; one that was interrupted is resumed."""

    loop: str
    """Name of the loop, one of the repository around the folder."""


Job: TypeAlias = PlanJob | TaskJob | ChatJob | AgentJob | CodeJob | RoundJob
"""Something to do, told apart by `kind`."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run is kept, and how it is followed."""

    db: str | None
    """The database, as the person named it."""
    scope: Scope | None = None
    """On whose behalf it runs."""
    hear: Hear | None = None
    begun: Begun = lambda: None
    tools: str | None = None
    """The file of tools for runs that name none."""
    leaves: bool = False
    """Whether a run that needs a name which is not here is left to somebody else, not refused."""
    lease_s: float = LEASE_S
    """How long others wait before they take over its run."""
    budget: Budget | None = None
    """The budget that the run counts against as well, such as that of the day."""


async def begin_plan(options: RunOptions, job: PlanJob, run_id: str, place: Place, cancel: Cancel) -> None:
    """Execute a plan."""
    from placet.app.app import open_app
    from placet.ir.codec import decode_proposal

    proposal = decode_proposal(job.plan)
    with open_app(options, db=place.db, lease_s=place.lease_s) as app:
        app.runtime.counts_for = place.budget
        called = {each.tool for each in proposal.actions if each.tool is not None}
        missing = sorted(name for name in called if name not in app.runtime.tools)
        if missing and place.leaves:
            raise NamesMissing([f"tool {name}" for name in missing])
        place.begun()
        await app.runtime.execute(proposal, run_id=run_id, cancel=cancel, scope=place.scope)


async def begin_turns(
    options: RunOptions, job: TaskJob | ChatJob, run_id: str, place: Place, cancel: Cancel
) -> None:
    """Have an assistant do a job, or begin a conversation."""
    from placet.app.app import open_app
    from placet.app.assistant import limits_for, make_assistant

    _check_task(options, job)
    with open_app(options, db=place.db, lease_s=place.lease_s, binds=False) as app:
        app.runtime.counts_for = place.budget
        assistant = make_assistant(app, limits=limits_for(app))
        place.begun()
        try:
            if isinstance(job, TaskJob):
                await assistant.run(
                    job.text,
                    run_id=run_id,
                    cancel=cancel,
                    watch=place.hear,
                    scope=place.scope,
                    record=options.record,
                )
                return
            async with assistant.chat(
                run_id, watch=place.hear, scope=place.scope, record=options.record
            ) as chat:
                await chat.say(job.text, cancel=cancel)
        finally:
            await _close(assistant.model)


def _check_task(options: RunOptions, job: TaskJob | ChatJob | AgentJob) -> None:
    from placet.app.assistant import YES_TO

    if not job.text.strip():
        raise UsageError("There is no task. Say in a sentence what is to be done.")
    if options.yes_to is not None and options.yes_to not in YES_TO:
        raise UsageError(f"'yes_to' is one of: {', '.join(YES_TO)}.")
    if options.yes_to is not None and options.permissions is not None:
        raise UsageError("'yes_to' and 'permissions' both say what needs asking. Give one of them.")


async def begin_agent(options: RunOptions, job: AgentJob, run_id: str, place: Place, cancel: Cancel) -> None:
    """Have an agent do a job."""
    import os

    from placet.app.agents import find_agents, make_runner
    from placet.app.app import open_app

    _check_task(options, job)
    agents = find_agents(os.environ, Path(options.folder or "."))
    if place.leaves and job.agent not in {each.id for each in agents.entries()}:
        raise NamesMissing([f"agent {job.agent}"])
    entry = agents.find(job.agent)
    spec = entry.spec
    assert spec is not None
    if not spec.enabled:
        raise UsageError(f"Agent '{job.agent}' is disabled. Switch it on: placet agent enable {job.agent}")
    agents.check_trust(entry, os.environ, None)
    options = replace(options, model=options.model or spec.model)
    with open_app(options, db=place.db, lease_s=place.lease_s, binds=False, memory=spec.memory) as app:
        app.runtime.counts_for = place.budget
        assert app.records is not None
        runner = make_runner(app, spec)
        app.records.agents.keep(entry.place.key, entry.id, entry.path.suffix, entry.text)
        place.begun()
        try:
            result = await runner.run(
                job.text, run_id=run_id, cancel=cancel, watch=place.hear, scope=place.scope
            )
        finally:
            await _close(runner.model)
        if result.status not in ("waiting", "cancelled"):
            app.records.agents.count(entry.place.key, entry.id, run_id, succeeded=result.succeeded)


async def begin_code(options: RunOptions, job: CodeJob, run_id: str, place: Place, cancel: Cancel) -> None:
    """Begin a coding session."""
    import os

    from placet.app.coder import kept_contract, open_coder
    from placet.checks.contract import contract_of
    from placet.worktree.repository import find_repository

    found = await find_repository(Path(options.folder or "."))
    contract = (
        contract_of(job.checks, job.intent, ())
        if job.checks
        else kept_contract(found.top, os.environ, None, description=job.intent)
    )
    with open_coder(found.top, options, db=place.db, is_new=True, ask_s=QUESTION_S) as app:
        app.coder.runtime.counts_for = place.budget
        place.begun()
        try:
            await app.coder.run(
                job.intent,
                contract=contract,
                candidates=job.candidates,
                session_id=run_id,
                cancel=cancel,
                watch=None,
            )
        finally:
            await _close(app.coder.model)


async def begin_round(
    options: RunOptions, job: RoundJob, run_id: str, place: Place, cancel: Cancel
) -> str | None:
    """Run a round of a loop, or resume the one that was interrupted: then return how that ended."""
    import os

    from placet.app.loop_files import loop_named, trusted_loops
    from placet.app.loops import open_loops
    from placet.app.project import project_root
    from placet.loops.scheduler import Scheduler
    from placet.worktree.repository import find_repository

    folder = Path(options.folder or ".")
    top = (await find_repository(folder)).top
    home = project_root(folder) or top
    spec = loop_named(trusted_loops(top, home, os.environ, None), job.loop)
    with open_loops(top, {job.loop: spec}, options, start=home, db=place.db, report=lambda text: None) as app:
        app.runtime.counts_for = place.budget
        # Not before its first phase: until then it may be refused.
        app.watch = lambda round, phase: place.begun()
        [loop] = app.scheduled([job.loop])
        scheduler = Scheduler(app.records.timetable, [loop], app.run_round, new_id=lambda: run_id)
        report = await scheduler.run_now(loop.key, cancel)
        is_stored = app.records.rounds.get(run_id) is not None
    return report.how if report is not None and not is_stored else None


QUESTION_S = 24 * 3600.0
"""How long a question of a coding session waits for an answer."""


class Stored(NamedTuple):
    """A run as it is stored."""

    summary: RunSummary
    record: RunRecord

    def options(self, db: str | None) -> RunOptions:
        """The options that it began with.

        Raises:
            UsageError: they cannot be read, or a program began it.
        """
        if options_of(self.summary) is None and (
            is_led(self.record) or is_a_programs(self.summary, self.record)
        ):
            raise UsageError(
                f"Run '{self.record.run_id}' was begun by a program, under rules that are not known here. Go "
                "on with it there."
            )
        return resume_options(self.summary, db=db)


class Told(NamedTuple):
    """What a run is told when it goes on."""

    decide: Mapping[str, Decision] = {}
    """What became of actions whose outcome was unknown."""
    text: str | None = None
    """Something that a person says in a conversation."""


async def resume_plan(run: Stored, place: Place, cancel: Cancel, told: Told) -> None:
    """Resume the execution of a plan."""
    from placet.app.app import open_app

    record = run.record
    options = replace(run.options(place.db), workspace=record.workspace)
    with open_app(options, db=place.db, lease_s=place.lease_s, create=False) as app:
        app.runtime.counts_for = place.budget
        place.begun()
        held = app.runtime.open_session() if record.had_session else None
        await app.runtime.resume(record.run_id, decide=told.decide, session=held, cancel=cancel)


async def resume_agent(run: Stored, place: Place, cancel: Cancel, told: Told) -> None:
    """Resume the job of an agent, as it was when the run began."""
    from placet.agents.kept import agent_of
    from placet.app.agents import make_runner
    from placet.app.app import open_app

    options = run.options(place.db)
    agent = agent_of(run.record.proposal.context)
    assert agent is not None
    check_workspace(options)
    with open_app(
        options, db=place.db, lease_s=place.lease_s, binds=False, create=False, memory=agent.spec.memory
    ) as app:
        app.runtime.counts_for = place.budget
        runner = make_runner(app, agent.spec)
        place.begun()
        try:
            await runner.resume(run.record.run_id, decide=told.decide, cancel=cancel, watch=place.hear)
        finally:
            await _close(runner.model)


async def resume_turns(run: Stored, place: Place, cancel: Cancel, told: Told) -> None:
    """Resume a task, or a conversation."""
    from placet.app.app import open_app
    from placet.app.assistant import make_assistant, posture_since
    from placet.assistant.kept import kept_of

    options = run.options(place.db)
    began_here(run.summary, run.record)
    run_id, text, decide = run.record.run_id, told.text, told.decide
    kept = kept_of(run.record.proposal)
    check_workspace(options)
    with open_app(
        options, db=place.db, lease_s=place.lease_s, binds=False, create=False, memory=kept.memory
    ) as app:
        app.runtime.counts_for = place.budget
        assistant = make_assistant(app, since=posture_since(app, run_id))
        place.begun()
        try:
            if not kept.is_chat:
                await assistant.resume(
                    run_id, decide=decide, cancel=cancel, watch=place.hear, record=options.record
                )
                return
            async with assistant.chat(
                run_id, resume=True, decide=decide, watch=place.hear, record=options.record, cancel=cancel
            ) as chat:
                if text is not None and (chat.last is None or chat.last.status != "waiting"):
                    await chat.say(text, cancel=cancel)
        finally:
            await _close(assistant.model)


async def resume_code(run: Stored, place: Place, cancel: Cancel, told: Told) -> None:
    """Resume a coding session."""
    from placet.app.coder import open_coder, resumed_session, session_of

    session, options = resumed_session(session_of(run.record.proposal.context) or "", db=place.db)
    with open_coder(Path(session.repository), options, db=place.db, ask_s=QUESTION_S, create=False) as app:
        app.coder.runtime.counts_for = place.budget
        place.begun()
        try:
            await app.coder.resume(session.id, cancel=cancel)
        finally:
            await _close(app.coder.model)


async def resume_round(run: Stored, place: Place, cancel: Cancel, told: Told) -> None:
    """Resume a round of a loop that was interrupted, or settle one that somebody has decided on."""
    from placet.app.app import open_records
    from placet.app.escalations import open_decider, policies_of
    from placet.loops.round import loop_key

    with open_records(place.db) as records:
        round = records.rounds.find(run.record.run_id)
        policies = policies_of(records, round)
        slot = records.timetable.get(loop_key(round.repository, round.loop))
    if round.is_open and round.phase not in ("executing", "recording"):
        if slot is None or slot.round != round.id:
            raise UsageError(
                f"Round '{round.id}' of loop '{round.loop}' was interrupted, and another came after it."
            )
        options = resume_options(run.summary, db=place.db)
        job = RoundJob(folder=options.folder or round.repository, loop=round.loop)
        await begin_round(replace(options, folder=job.folder), job, round.id, place, cancel)
        return
    with open_decider(round, db=place.db, policies=policies) as engine:
        place.begun()
        await engine.resume(round.id, decide=told.decide or None)


async def _close(model: object) -> None:
    close = getattr(model, "close", None)
    if close is not None:
        await close()


def scope_of(tenant: str | None, caller: str | None) -> Scope | None:
    """On whose behalf a run runs; None where nobody is named."""
    from placet.runtime.scope import Scope

    return Scope(tenant=tenant, caller_id=caller) if tenant is not None or caller is not None else None
