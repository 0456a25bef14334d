"""A run that is led, taken up again by `placet resume`: a job goes on, a chat reopens, a round settles."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from placet.cli.output import Output

if TYPE_CHECKING:
    from placet.agents.kept import AgentKept
    from placet.agents.result import AgentResult
    from placet.app.app import App
    from placet.cli.conversing import View
    from placet.durable.sql import RunSummary
    from placet.policy.permission import Posture
    from placet.render.advice import Advice
    from placet.runtime.journal import Decision, RunRecord
    from placet.sandbox.isolation import Level
    from placet.tools.context import Cancel
    from placet.turns.ending import Ending, Watch


def go_on(
    output: Output,
    summary: RunSummary,
    record: RunRecord,
    *,
    decide: Mapping[str, Decision],
    tools: str | None,
    policies: str | None,
    isolation: Level | None,
    model: str | None,
    wait: float | None,
    db: str | None,
    log: str | None = None,
    as_json: bool = False,
) -> int:
    """Go on with a run where it stood, or show how it ended; returns the exit code.

    Raises:
        UsageError: a program or a coding session leads it, or its folder is gone.
    """
    from placet.agents.kept import agent_of
    from placet.app.assistant import began_here, kept_set_up, make_assistant, workspace_kept
    from placet.app.beginning import beginning_of
    from placet.app.coder import session_of
    from placet.assistant.assistant import kept_of
    from placet.cli.conversing import Told, closing, lead, open_for
    from placet.errors import UsageError
    from placet.loops.round import LEADER
    from placet.runtime.journal import LED_BY

    session = session_of(record.proposal.context)
    if session is not None:
        raise UsageError(
            f"Run '{summary.run_id}' belongs to a coding session. Go on with: "
            f"{coding_commands(session, db)[0].command}"
        )
    round = record.proposal.context.get("round")
    if record.proposal.context.get(LED_BY) == LEADER and isinstance(round, str):
        from placet.cli.loop_decisions import resume_round

        return resume_round(output, round, decide, db, as_json=as_json)
    agent = agent_of(record.proposal.context)
    if agent is None:
        began_here(summary, record)
    elif "folder" not in summary.context:
        raise UsageError(
            f"Run '{summary.run_id}' was begun by a program, whose tools and rules are not known here. Go on "
            f"with it there: runner.resume({summary.run_id!r})."
        )
    if not is_open(summary):
        return _show_again(output, summary, agent, decide, db, as_json=as_json)
    is_chat = agent is None and kept_of(record.proposal).is_chat
    if is_chat and as_json:
        raise UsageError(
            f"Run '{summary.run_id}' is a conversation, which has no one result: without --json."
        )
    began = beginning_of(summary, say=output.talk, tools=tools, policies=policies, model=model, db=db)
    yes_to, recording = kept_set_up(summary.context)
    if recording is not None and not os.path.exists(recording):
        # Without its beginning no recording can be replayed, so there is nothing to go on with.
        output.talk(f"The recording {recording} is gone. The run goes on, and is not recorded any more.")
        recording = None
    with open_for(
        output,
        tools=began.tools,
        policies=began.policies,
        permissions=began.permissions,
        isolation=isolation,
        began_with=began.isolation,
        model=began.model,
        workspace=workspace_kept(summary.context),
        yes_to=yes_to,
        record=recording,
        start=began.folder,
        create=False,
        db=db,
        log=log,
        wait=wait,
        as_json=as_json,
        memory=agent.spec.memory if agent is not None else kept_of(record.proposal).memory,
    ) as (app, view):
        if agent is not None:
            return _go_on_with_agent(
                output,
                app,
                view,
                agent,
                summary.run_id,
                decide=decide,
                yes_to=yes_to,
                has_permissions=began.permissions is not None,
                db=db,
                as_json=as_json,
            )
        assistant = make_assistant(
            app,
            yes_to=yes_to,
            has_permissions=began.permissions is not None,
            since=_posture_since(app, summary.run_id),
        )
        if is_chat:
            from placet.cli.chat import converse

            return converse(
                output,
                app,
                assistant,
                view,
                db=db,
                run_id=summary.run_id,
                decide=decide,
                record=recording,
            )

        view.tell_model(app, assistant.model)

        async def start_again(cancel: Cancel, watch: Watch) -> Ending:
            return await assistant.resume(
                summary.run_id, decide=decide, cancel=cancel, watch=watch, record=recording
            )

        told = Told(as_json, db, is_kept=True)
        return lead(output, app, start_again, told, view, closing(assistant.model))


def _posture_since(app: App, run_id: str) -> Posture | None:
    """What the person has said in the run about what needs no asking; None if nothing."""
    from placet.runtime.journal import Replay

    return Replay(app.records.journal.notes(run_id)).posture if app.records is not None else None


def _go_on_with_agent(
    output: Output,
    app: App,
    view: View,
    kept: AgentKept,
    run_id: str,
    *,
    decide: Mapping[str, Decision],
    yes_to: str | None,
    has_permissions: bool,
    db: str | None,
    as_json: bool,
) -> int:
    """An agent goes on as it was when the run began, whatever its file says by now."""
    from placet.app.agents import make_runner, place_of
    from placet.cli.agent import lead_agent

    runner = make_runner(app, kept.spec, yes_to=yes_to, has_permissions=has_permissions)
    view.tell_model(app, runner.model)

    async def start(cancel: Cancel, watch: Watch) -> AgentResult:
        return await runner.resume(run_id, decide=decide, cancel=cancel, watch=watch)

    return lead_agent(
        output,
        app,
        runner,
        start,
        view,
        db=db,
        as_json=as_json,
        store=app.records.agents if app.records is not None else None,
        place=place_of(kept.spec.id),
    )


def coding_commands(session: str, db: str | None) -> list[Advice]:
    """What to do with a run of a coding session: the session is what can be gone on with, and looked at."""
    from placet.render.advice import Advice, db_words, name_words

    rest = f"{name_words(session)}{db_words(db)}"
    return [
        Advice("It belongs to a coding session. To go on with that:", f"placet code resume {rest}"),
        Advice("To see how it stands:", f"placet code show {rest}"),
    ]


def is_open(summary: RunSummary) -> bool:
    """Whether more can come of a run."""
    from placet.durable.sql import RESUMABLE

    return summary.status == "interrupted" or summary.status in RESUMABLE


def _show_again(
    output: Output,
    summary: RunSummary,
    agent: AgentKept | None,
    decide: Mapping[str, Decision],
    db: str | None,
    *,
    as_json: bool,
) -> int:
    from placet.agents.result import result_of
    from placet.app.app import open_records
    from placet.cli.conversing import Told, show_ending
    from placet.cli.ending import exit_code
    from placet.errors import UnknownRun, UsageError
    from placet.turns.leading import ending_of

    if decide:
        raise UsageError(f"Run '{summary.run_id}' has ended ({summary.status}); nothing is to be decided.")
    with open_records(db) as records:
        result = records.journal.shown(summary.run_id)
    if result is None:
        raise UnknownRun(f"How run '{summary.run_id}' ended is not kept.")
    ending = ending_of(result)
    told = Told(as_json, db, is_kept=True)
    if agent is not None:
        # As it was shown when it ended.
        whole = result_of(result, agent.spec)
        told = told._replace(data=whole.to_dict)
    show_ending(output, ending, told, with_summary=True)
    return exit_code(ending)
