"""A run taken up again by `placet resume`, by its kind: a job goes on, a chat reopens, a round settles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from placet.cli.output import OPENING, Output

if TYPE_CHECKING:
    from placet.agents.kept import AgentKept
    from placet.agents.result import AgentResult
    from placet.app.app import App
    from placet.app.options import RunOptions
    from placet.cli.conversing import View
    from placet.durable.sql import RunSummary
    from placet.ir.result import ProposalResult
    from placet.render.advice import Advice
    from placet.runtime.journal import Decision, RunRecord
    from placet.tools.context import Cancel
    from placet.turns.ending import Ending, Watch


class Again(NamedTuple):
    """A run to go on with."""

    output: Output
    summary: RunSummary
    record: RunRecord
    named: RunOptions
    """What is named anew: it goes before the options that the run began with."""
    decide: Mapping[str, Decision] = {}
    wait: float | None = None
    db: str | None = None
    log: str | None = None
    as_json: bool = False


def go_on(run: Again) -> int:
    """Go on with a run where it stood, or show how it ended; returns the exit code.

    Raises:
        UsageError: a program or a coding session leads it, or its folder is gone.
    """
    from placet.engine.kinds import kind_of

    return _BY_KIND[kind_of(run.record).name](run)


def _refer_to_session(run: Again) -> int:
    from placet.app.coder import session_of
    from placet.errors import UsageError

    session = session_of(run.record.proposal.context) or ""
    raise UsageError(
        f"Run '{run.summary.run_id}' belongs to a coding session. Go on with: "
        f"{coding_commands(session, run.db)[0].command}"
    )


def _settle_round(run: Again) -> int:
    from placet.cli.loop_decisions import resume_round

    round = str(run.record.proposal.context.get("round"))
    return resume_round(run.output, round, run.decide, run.db, as_json=run.as_json)


def _go_on_with_plan(run: Again) -> int:
    from msgspec.structs import replace

    from placet.app.app import open_app
    from placet.app.options import is_a_programs, resume_options
    from placet.cli.execution import Told, carry_out, patience
    from placet.cli.isolation import tell_lowering
    from placet.cli.trust import terminal_question
    from placet.errors import UsageError
    from placet.runtime.resume import state_after

    output, record, run_id = run.output, run.record, run.summary.run_id
    if is_a_programs(run.summary, record):
        raise UsageError(
            f"Run '{run_id}' was begun by a program, under rules that are not known here "
            f"({', '.join(record.policies[:10])}). Go on with it there: runtime.resume('{run_id}')."
        )
    options = resume_options(run.summary, run.named, say=output.talk, db=run.db)
    opening = open_app(
        replace(options, workspace=record.workspace),
        db=run.db,
        create=False,
        wait_s=patience(run.wait),
        confirm=terminal_question(output),
    )
    with output.opened(opening, OPENING) as app:
        tell_lowering(output, app)

        async def start(cancel: Cancel) -> ProposalResult:
            # A run of `placet mcp serve` began in the session of its connection, which is gone.
            session = app.runtime.open_session() if record.had_session else None
            result = await app.runtime.resume(run_id, decide=run.decide, session=session, cancel=cancel)
            if app.records is not None and not app.runtime.events.query(kind="run_resumed"):
                # It had ended, and nothing was done: what may be shown of it, and the state that it left.
                result = app.records.journal.shown(run_id) or result
                app.runtime.state.replace_all(state_after(record, result))
            return result

        has_tools, waits = bool(app.sources), run.wait is not None
        told = Told(f"run {run_id}", run.as_json, has_tools=has_tools, db=run.db, waits=waits)
        return carry_out(output, app, record.proposal, start, told)


def _go_on_with_agent(run: Again) -> int:
    """An agent goes on as it was when the run began, whatever its file says by now."""
    from placet.agents.kept import agent_of
    from placet.app.agents import make_runner, place_of
    from placet.cli.agent import lead_agent
    from placet.errors import UsageError

    run_id = run.summary.run_id
    kept = agent_of(run.record.proposal.context)
    assert kept is not None
    if "folder" not in run.summary.context:
        raise UsageError(
            f"Run '{run_id}' was begun by a program, whose tools and rules are not known here. Go on with it "
            f"there: runner.resume({run_id!r})."
        )
    if not is_open(run.summary):
        return _show_again(run, kept)
    with _opened(run, kept.spec.memory) as (app, view, _):
        runner = make_runner(app, kept.spec)
        view.tell_model(app, runner.model)

        async def start(cancel: Cancel, watch: Watch) -> AgentResult:
            return await runner.resume(run_id, decide=run.decide, cancel=cancel, watch=watch)

        return lead_agent(
            run.output,
            app,
            runner,
            start,
            view,
            db=run.db,
            as_json=run.as_json,
            store=app.records.agents if app.records is not None else None,
            place=place_of(kept.spec.id),
        )


def _go_on_with_task(run: Again) -> int:
    from placet.app.assistant import began_here, make_assistant, posture_since
    from placet.assistant.assistant import kept_of
    from placet.cli.conversing import Told, closing, lead

    run_id = run.summary.run_id
    began_here(run.summary, run.record)
    if not is_open(run.summary):
        return _show_again(run)
    with _opened(run, kept_of(run.record.proposal).memory) as (app, view, options):
        assistant = make_assistant(app, since=posture_since(app, run_id))
        view.tell_model(app, assistant.model)

        async def start(cancel: Cancel, watch: Watch) -> Ending:
            return await assistant.resume(
                run_id, decide=run.decide, cancel=cancel, watch=watch, record=options.record
            )

        told = Told(run.as_json, run.db, is_kept=True)
        return lead(run.output, app, start, told, view, closing(assistant.model))


def _go_on_with_chat(run: Again) -> int:
    from placet.app.assistant import began_here, make_assistant, posture_since
    from placet.assistant.assistant import kept_of
    from placet.cli.chat import converse
    from placet.errors import UsageError

    run_id = run.summary.run_id
    began_here(run.summary, run.record)
    if not is_open(run.summary):
        return _show_again(run)
    if run.as_json:
        raise UsageError(f"Run '{run_id}' is a conversation, which has no one result: without --json.")
    with _opened(run, kept_of(run.record.proposal).memory) as (app, view, _):
        assistant = make_assistant(app, since=posture_since(app, run_id))
        return converse(run.output, app, assistant, view, db=run.db, run_id=run_id, decide=run.decide)


_BY_KIND: dict[str, Callable[[Again], int]] = {
    "code": _refer_to_session,
    "round": _settle_round,
    "agent": _go_on_with_agent,
    "chat": _go_on_with_chat,
    "task": _go_on_with_task,
    "plan": _go_on_with_plan,
}
"""How each kind of `engine/kinds.py` goes on before a person."""


@contextmanager
def _opened(run: Again, memory: bool) -> Iterator[tuple[App, View, RunOptions]]:
    from placet.app.assistant import check_workspace
    from placet.app.options import resume_options
    from placet.cli.conversing import open_for

    options = resume_options(run.summary, run.named, say=run.output.talk, db=run.db)
    check_workspace(options)
    with open_for(
        run.output,
        options,
        db=run.db,
        wait=run.wait,
        log=run.log,
        as_json=run.as_json,
        create=False,
        memory=memory,
    ) as (app, view):
        yield app, view, options


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


def _show_again(run: Again, agent: AgentKept | None = None) -> int:
    from placet.agents.result import result_of
    from placet.app.app import open_records
    from placet.cli.conversing import Told, show_ending
    from placet.cli.ending import exit_code
    from placet.errors import UnknownRun, UsageError
    from placet.turns.leading import ending_of

    summary = run.summary
    if run.decide:
        raise UsageError(f"Run '{summary.run_id}' has ended ({summary.status}); nothing is to be decided.")
    with open_records(run.db) as records:
        result = records.journal.shown(summary.run_id)
    if result is None:
        raise UnknownRun(f"How run '{summary.run_id}' ended is not kept.")
    ending = ending_of(result)
    told = Told(run.as_json, run.db, is_kept=True)
    if agent is not None:
        # As it was shown when it ended.
        whole = result_of(result, agent.spec)
        told = told._replace(data=whole.to_dict)
    show_ending(run.output, ending, told, with_summary=True)
    return exit_code(ending)
