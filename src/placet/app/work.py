"""Every kind of run: how it begins, and how it is resumed, in a process that nobody sits before.

A job is data: what to do, and where. `begin` makes a run of it; `resume` goes on with a run of any kind, set
up as it was, by what is kept with it. Both lead the run until it ends or waits for a person.

Keep true:
1. What holds on the command line holds here: rules, permissions, trust and isolation of the folder. A folder
   that brings something and is not trusted is refused: there is nobody to ask.
2. Nobody is waited for. A run that needs a person lets go, and goes on when somebody has decided.
3. A run that only its program can go on with is refused, with what to do instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from placet.errors import UsageError

if TYPE_CHECKING:
    from placet.app.app import App
    from placet.events.stream import StreamEvent
    from placet.runtime.journal import Decision
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


Job: TypeAlias = PlanJob | TaskJob | ChatJob | AgentJob | CodeJob
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


async def begin(job: Job, run_id: str, place: Place, cancel: Cancel) -> None:
    """Make a run of a job, and lead it until it ends or waits.

    Raises:
        PlacetError: it cannot be set up; says why. Nothing was begun.
    """
    match job:
        case PlanJob():
            await _begin_plan(job, run_id, place, cancel)
        case TaskJob() | ChatJob():
            await _begin_turns(job, run_id, place, cancel)
        case AgentJob():
            await _begin_agent(job, run_id, place, cancel)
        case CodeJob():
            await _begin_code(job, run_id, place, cancel)


async def _begin_plan(job: PlanJob, run_id: str, place: Place, cancel: Cancel) -> None:
    from placet.ir.codec import decode_proposal

    proposal = decode_proposal(job.plan)
    with ExitStack() as stack:
        app = _open(stack, place, start=Path(job.folder), model=job.model, permissions=job.permissions)
        place.begun()
        await app.runtime.execute(proposal, run_id=run_id, cancel=cancel, scope=place.scope)


async def _begin_turns(job: TaskJob | ChatJob, run_id: str, place: Place, cancel: Cancel) -> None:
    from placet.app.assistant import limits_for, make_assistant, set_up

    _check_task(job)
    with ExitStack() as stack:
        app = _open(
            stack,
            place,
            start=Path(job.folder),
            model=job.model,
            permissions=job.permissions,
            kept=set_up(job.yes_to, None),
        )
        assistant = make_assistant(
            app,
            yes_to=job.yes_to,
            has_permissions=job.permissions is not None,
            limits=limits_for(app, turns=None, tokens=None, cost_usd=None, time_s=None),
        )
        place.begun()
        try:
            if isinstance(job, TaskJob):
                await assistant.run(
                    job.text, run_id=run_id, cancel=cancel, watch=place.hear, scope=place.scope
                )
                return
            async with assistant.chat(run_id, watch=place.hear, scope=place.scope) as chat:
                await chat.say(job.text, cancel=cancel)
        finally:
            await _close(assistant.model)


def _check_task(job: TaskJob | ChatJob | AgentJob) -> None:
    from placet.app.assistant import YES_TO

    if not job.text.strip():
        raise UsageError("There is no task. Say in a sentence what is to be done.")
    if job.yes_to is not None and job.yes_to not in YES_TO:
        raise UsageError(f"'yes_to' is one of: {', '.join(YES_TO)}.")
    if job.yes_to is not None and job.permissions is not None:
        raise UsageError("'yes_to' and 'permissions' both say what needs asking. Give one of them.")


async def _begin_agent(job: AgentJob, run_id: str, place: Place, cancel: Cancel) -> None:
    import os

    from placet.app.agents import find_agents, make_runner
    from placet.app.assistant import set_up

    _check_task(job)
    agents = find_agents(os.environ, Path(job.folder))
    entry = agents.find(job.agent)
    spec = entry.spec
    assert spec is not None
    if not spec.enabled:
        raise UsageError(f"Agent '{job.agent}' is disabled. Switch it on: placet agent enable {job.agent}")
    agents.check_trust(entry, os.environ, None)
    with ExitStack() as stack:
        app = _open(
            stack,
            place,
            start=Path(job.folder),
            model=job.model or spec.model,
            permissions=job.permissions,
            kept=set_up(job.yes_to, None),
            memory=spec.memory,
        )
        assert app.records is not None
        runner = make_runner(app, spec, yes_to=job.yes_to, has_permissions=job.permissions is not None)
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


async def _begin_code(job: CodeJob, run_id: str, place: Place, cancel: Cancel) -> None:
    import os

    from placet.app.coder import kept_contract, open_coder
    from placet.checks.contract import contract_of
    from placet.coder.session import CodeLimits
    from placet.worktree.repository import find_repository

    found = await find_repository(Path(job.folder))
    contract = (
        contract_of(job.checks, job.intent, ())
        if job.checks
        else kept_contract(found.top, os.environ, None, description=job.intent)
    )
    with open_coder(
        found.top,
        db=place.db,
        model=job.model,
        make_limits=lambda tokens: CodeLimits(context_tokens=tokens),
        ask_s=QUESTION_S,
    ) as app:
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


QUESTION_S = 24 * 3600.0
"""How long a question of a coding session waits for an answer."""


async def say(run_id: str, text: str, place: Place, cancel: Cancel) -> None:
    """Say something in a conversation, and lead it until it has answered or waits.

    Raises:
        PlacetError: it is no conversation, something has to be decided first, or it cannot be set up.
    """
    await _go_on(run_id, place, cancel, {}, text=text)


async def resume(run_id: str, place: Place, cancel: Cancel, decide: Mapping[str, Decision]) -> None:
    """Go on with a run where it stood, until it ends or waits.

    Raises:
        RunHeld: another process is at work on it.
        PlacetError: it cannot be set up as it was; says what to do.
    """
    await _go_on(run_id, place, cancel, decide)


async def _go_on(
    run_id: str, place: Place, cancel: Cancel, decide: Mapping[str, Decision], text: str | None = None
) -> None:
    from placet.agents.kept import agent_of
    from placet.app.app import is_a_programs, open_records
    from placet.app.assistant import began_here, kept_set_up, make_assistant, workspace_kept
    from placet.app.beginning import beginning_of
    from placet.app.coder import session_of
    from placet.assistant.kept import kept_of
    from placet.loops.round import LEADER as ROUND
    from placet.runtime.journal import LED_BY, Replay, is_led

    with open_records(place.db) as records:
        summary = records.journal.find(run_id)
        record = records.journal.record(summary.run_id)
        posture = Replay(records.journal.notes(run_id)).posture if is_led(record) else None
    context = record.proposal.context
    session = session_of(context)
    if session is not None:
        await _resume_code(session, place, cancel)
        return
    if context.get(LED_BY) == ROUND:
        await _resume_round(run_id, place, decide)
        return
    agent = agent_of(context)
    if "folder" not in summary.context or (not is_led(record) and is_a_programs(summary, record)):
        raise UsageError(
            f"Run '{run_id}' was begun by a program, under rules that are not known here. Go on with it "
            "there."
        )
    began = beginning_of(summary, say=lambda text: None, tools=None, policies=None, model=None, db=place.db)
    yes_to, recording = kept_set_up(summary.context)
    led = is_led(record)
    if led and agent is None:
        began_here(summary, record)
    if text is not None and (not led or agent is not None or not kept_of(record.proposal).is_chat):
        raise UsageError(f"Run '{run_id}' is no conversation.")
    uses_memory = led and (agent.spec.memory if agent is not None else kept_of(record.proposal).memory)
    expire = summary.context.get("expire")
    with ExitStack() as stack:
        app = _open(
            stack,
            place,
            start=began.folder,
            tools=began.tools,
            policies=began.policies,
            permissions=began.permissions,
            began_with=began.isolation,
            model=began.model,
            schedule="dataflow" if summary.context.get("schedule") == "dataflow" else "levels",
            workspace=workspace_kept(summary.context) if led else record.workspace,
            binds=not led,
            expires_s=float(expire) if isinstance(expire, int | float) else None,
            create=False,
            memory=bool(uses_memory),
        )
        if not led:
            place.begun()
            held = app.runtime.open_session() if record.had_session else None
            await app.runtime.resume(run_id, decide=decide, session=held, cancel=cancel)
            return
        has_permissions = began.permissions is not None
        if agent is not None:
            from placet.app.agents import make_runner

            runner = make_runner(app, agent.spec, yes_to=yes_to, has_permissions=has_permissions)
            place.begun()
            try:
                await runner.resume(run_id, decide=decide, cancel=cancel, watch=place.hear)
            finally:
                await _close(runner.model)
            return
        assistant = make_assistant(app, yes_to=yes_to, has_permissions=has_permissions, since=posture)
        place.begun()
        try:
            if not kept_of(record.proposal).is_chat:
                await assistant.resume(
                    run_id, decide=decide, cancel=cancel, watch=place.hear, record=recording
                )
                return
            async with assistant.chat(
                run_id, resume=True, decide=decide, watch=place.hear, record=recording, cancel=cancel
            ) as chat:
                if text is not None and (chat.last is None or chat.last.status != "waiting"):
                    await chat.say(text, cancel=cancel)
        finally:
            await _close(assistant.model)


async def _resume_code(session: str, place: Place, cancel: Cancel) -> None:
    from placet.app.app import open_records
    from placet.app.beginning import beginning_of
    from placet.app.coder import find_session, open_coder
    from placet.sandbox.isolation import LEVELS

    with open_records(place.db) as records:
        found = find_session(records, session)
        summary = records.journal.find(found.id)
    began = beginning_of(summary, say=lambda text: None, tools=None, policies=None, model=None, db=place.db)
    asked = summary.context.get("asked_isolation")
    with open_coder(
        Path(found.repository),
        db=place.db,
        model=began.model,
        policies=began.policies,
        isolation=next((level for level in LEVELS if level == asked), None),
        ask_s=QUESTION_S,
        create=False,
    ) as app:
        place.begun()
        try:
            await app.coder.resume(found.id, cancel=cancel)
        finally:
            await _close(app.coder.model)


async def _resume_round(round_id: str, place: Place, decide: Mapping[str, Decision]) -> None:
    from placet.app.app import open_records
    from placet.app.escalations import open_decider, policies_of

    with open_records(place.db) as records:
        round = records.rounds.find(round_id)
        policies = policies_of(records, round)
    if round.is_open and round.phase not in ("executing", "recording"):
        raise UsageError(
            f"Round '{round.id}' of loop '{round.loop}' was broken off. A scheduler goes on with it: "
            "placet loop start"
        )
    with open_decider(round, db=place.db, policies=policies) as engine:
        place.begun()
        await engine.resume(round.id, decide=decide or None)


def _open(stack: ExitStack, place: Place, *, expires_s: float | None = None, **more: Any) -> App:
    from placet.app.app import Asking, open_app

    if more.get("binds") is None:
        more["binds"] = False
    return stack.enter_context(open_app(db=place.db, asking=Asking(0, expires_s), **more))


async def _close(model: object) -> None:
    close = getattr(model, "close", None)
    if close is not None:
        await close()


def scope_of(tenant: str | None, caller: str | None) -> Scope | None:
    """On whose behalf a run runs; None where nobody is named."""
    from placet.runtime.scope import Scope

    return Scope(tenant=tenant, caller_id=caller) if tenant is not None or caller is not None else None
