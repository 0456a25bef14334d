"""`placet submit`: store a run for workers to do, and return its id at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from placet.cli.code_options import candidates_option
from placet.cli.inputs import (
    Span,
    collected,
    db_option,
    isolation_option,
    json_option,
    limit_options,
    model_option,
    plan_argument,
    run_id_option,
    runtime_options,
    single,
    task_options,
    workspace_option,
)
from placet.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from placet.app.options import RunOptions
    from placet.app.work import Job
    from placet.engine.protocol import SubmitOptions

Command = TypeVar("Command", bound=Callable[..., Any])

_FIRST = "run"
turns_option = click.option("--turns", type=click.IntRange(min=1), metavar="N", help="How often it is asked.")
_QUEUED = ("run_id", "key", "priority", "tenant", "queue", "delay", "is_anywhere")


class Submitting(click.Group):
    """A group whose first word may be a plan."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `run` in where the arguments name no command."""
        if not args:
            args = [next(iter(ctx.help_option_names))]
        elif args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [_FIRST, *args]
        return super().parse_args(ctx, args)


def queue_options(command: Command) -> Command:
    """How a job is queued; the command gets them as one `queued: SubmitOptions`."""

    @wraps(command)
    def call(*args: Any, **given: Any) -> Any:
        from placet.engine.protocol import SubmitOptions
        from placet.runtime.scope import Scope

        found = {name: given.pop(name) for name in _QUEUED}
        queued = SubmitOptions(
            run_id=found["run_id"],
            key=found["key"],
            priority=found["priority"],
            scope=Scope(tenant=found["tenant"]) if found["tenant"] is not None else None,
            queue=found["queue"],
            delay_s=found["delay"] or 0.0,
            is_anywhere=found["is_anywhere"],
        )
        return command(*args, queued=queued, **given)

    made = cast(Command, call)
    for option in (
        json_option,
        db_option,
        click.option(
            "--anywhere",
            "is_anywhere",
            is_flag=True,
            help="Let a worker on any host do it, in the worker's own folder. Default: on this host, here.",
        ),
        click.option(
            "--in", "delay", type=Span(), metavar="DURATION", help="Begin so much later, such as 10m."
        ),
        click.option("--queue", default="default", show_default=True, help="The queue whose workers do it."),
        single("--tenant", metavar="NAME", help="On whose behalf: its limits and its share count."),
        click.option(
            "--priority",
            type=click.IntRange(1, 5),
            default=3,
            show_default=True,
            help="From 1 (first) to 5 (last), among the runs of its tenant.",
        ),
        single(
            "--key", metavar="TEXT", help="Of several submissions of a tenant with one key, one run is made."
        ),
        run_id_option,
    ):
        made = option(made)
    return made


@click.group(cls=Submitting, short_help="Store a run for workers to do.")
def submit() -> None:
    """Store a run in the database for `placet worker`, on this host or another, and print its id at once.
    Where the first word is no command, it is a plan."""


@submit.command(_FIRST, short_help="Execute a plan.")
@plan_argument
@runtime_options
@workspace_option
@queue_options
@click.pass_obj
@collected
def submit_run(
    output: Output, plan: str, options: RunOptions, queued: SubmitOptions, db: str | None, as_json: bool
) -> int:
    """Have a worker execute the plan in the file PLAN ('-' reads standard input).

    Exit codes: 0 stored, 2 bad input.
    """
    from placet.app.files import load_plan_document
    from placet.app.work import PlanJob
    from placet.ir.codec import decode_proposal

    job = PlanJob(folder=".", plan=load_plan_document(plan))
    decode_proposal(job.plan)  # What is no plan is refused now, not by a worker.
    return _store(output, job, options, queued, db, as_json=as_json)


@submit.command("do", short_help="Have a model do a job.")
@click.argument("task", metavar="TASK")
@task_options
@turns_option
@limit_options()
@queue_options
@click.pass_obj
@collected
def submit_do(
    output: Output, task: str, options: RunOptions, queued: SubmitOptions, db: str | None, as_json: bool
) -> int:
    """Have a worker lead an assistant that does the job TASK. What needs asking waits for `placet approvals`.

    Exit codes: 0 stored, 2 bad input.
    """
    from placet.app.work import TaskJob

    return _store(output, TaskJob(folder=".", text=task), options, queued, db, as_json=as_json)


@submit.command("agent", short_help="Have an agent do a job.")
@click.argument("name", metavar="NAME")
@click.argument("task", metavar="TASK")
@task_options
@turns_option
@limit_options()
@queue_options
@click.pass_obj
@collected
def submit_agent(
    output: Output,
    name: str,
    task: str,
    options: RunOptions,
    queued: SubmitOptions,
    db: str | None,
    as_json: bool,
) -> int:
    """Have a worker lead the agent NAME, which does the job TASK.

    Exit codes: 0 stored, 2 bad input.
    """
    from placet.app.work import AgentJob

    job = AgentJob(folder=".", agent=name, text=task)
    return _store(output, job, options, queued, db, as_json=as_json)


@submit.command("code", short_help="Have a model change a program until checks are green.")
@click.argument("intent", metavar="INTENT")
@click.option(
    "--check", "checks", multiple=True, metavar="COMMAND", help="A command that must pass. May be repeated."
)
@candidates_option
@limit_options()
@isolation_option
@model_option
@queue_options
@click.pass_obj
@collected
def submit_code(
    output: Output,
    intent: str,
    checks: Sequence[str],
    candidates: int,
    options: RunOptions,
    queued: SubmitOptions,
    db: str | None,
    as_json: bool,
) -> int:
    """Have a worker lead a coding session that makes the change INTENT. A green change waits for `placet code
    approve`.

    Exit codes: 0 stored, 2 bad input.
    """
    from placet.app.work import CodeJob

    job = CodeJob(folder=".", intent=intent, checks=list(checks), candidates=candidates)
    return _store(output, job, options, queued, db, as_json=as_json)


@submit.command("loop", short_help="Run one round of a loop.")
@click.argument("name", metavar="NAME")
@isolation_option
@model_option
@queue_options
@click.pass_obj
@collected
def submit_loop(
    output: Output, name: str, options: RunOptions, queued: SubmitOptions, db: str | None, as_json: bool
) -> int:
    """Have a worker run one round of the loop NAME now.

    Exit codes: 0 stored, 2 bad input.
    """
    from placet.app.work import RoundJob

    return _store(output, RoundJob(folder=".", loop=name), options, queued, db, as_json=as_json)


def _store(
    output: Output, job: Job, options: RunOptions, queued: SubmitOptions, db: str | None, *, as_json: bool
) -> int:
    from msgspec.structs import replace

    from placet.engine.opening import open_engine
    from placet.render.text import moment

    if not queued.is_anywhere:  # Else only the worker's host knows which names there are.
        _check_names(job, options)
    with open_engine(db) as engine:
        made = engine.add(job, replace(queued, run=options))
        hint = engine.why_queued(made)
    if as_json:
        output.show_json({"run_id": made.run_id, "state": made.state, "due": made.due, "note": hint})
        return 0
    output.write(f"{made.run_id}\n")
    if made.due > made.submitted and made.state == "queued":
        output.talk(f"It begins at {moment(made.due)}.")
    if hint:
        output.talk(f"Note: {hint}")
    return 0


def _check_names(job: Job, options: RunOptions) -> None:
    """Refuse names that mean nothing in this folder on this host. Keys and weights may be missing here: the
    worker may have them.

    Raises:
        PlacetError: there is no such agent, loop or model, or no such file of tools.
    """
    import os
    from contextlib import suppress
    from pathlib import Path

    from placet.app.agents import find_agents
    from placet.app.governance import own_settings
    from placet.app.loop_files import loop_named, loops_of
    from placet.app.models import attach
    from placet.app.options import digest_of
    from placet.app.project import project_root
    from placet.app.work import AgentJob, RoundJob
    from placet.errors import KeyMissing, ModelMissing, UsageError
    from placet.runtime.sync import run_sync
    from placet.worktree.repository import find_repository

    here = Path.cwd()
    if options.tools is not None and digest_of(options.tools) is None:
        raise UsageError(
            f"The file of tools '{options.tools}' cannot be read here. Name one that is there, or, if only "
            "the workers have it, start them with --tools and leave it out."
        )
    if isinstance(job, AgentJob):
        find_agents(os.environ, here).find(job.agent)
    elif isinstance(job, RoundJob):
        top = run_sync(find_repository(here)).top
        loop_named(loops_of(top, project_root(here) or top), job.loop)
    if options.model is not None:
        with suppress(KeyMissing, ModelMissing):
            attach(options.model, own_settings(os.environ).models, os.environ)
