"""`placet agent`: agents as data, made, looked at, run, switched on and off, and taken back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from placet.cli.agent_commands import COMMANDS
from placet.cli.inputs import (
    Subject,
    collected,
    db_option,
    json_option,
    log_option,
    run_id_option,
    task_options,
    user_option,
    wait_option,
)
from placet.cli.output import Output

if TYPE_CHECKING:
    from placet.agents.result import AgentResult
    from placet.agents.runner import AgentRunner
    from placet.agents.versions import AgentStore
    from placet.app.options import RunOptions
    from placet.tools.context import Cancel
    from placet.turns.ending import Ending, Watch


@click.group(cls=Subject, short_help="Agents as data: write, run, switch on and off.")
def agent() -> None:
    """An agent is a file: who it is, the tools it may use and no other, what it is for, and scenarios.

    Agents are in .placet/agents of a project, and in your own settings folder; a project's hides yours of the
    same name. Without a command: list.
    """


for _command in COMMANDS:
    agent.add_command(_command)


@agent.command("run", short_help="Give an agent something to do.")
@click.argument("name", metavar="AGENT")
@click.argument("task", metavar="TASK")
@user_option
@task_options
@run_id_option
@click.option("--even-if-disabled", is_flag=True, help="Run it although it is disabled.")
@wait_option
@db_option
@log_option
@json_option
@click.pass_obj
@collected
def run(
    output: Output,
    name: str,
    task: str,
    is_user: bool,
    options: RunOptions,
    run_id: str | None,
    even_if_disabled: bool,
    wait: float | None,
    db: str | None,
    log: str | None,
    as_json: bool,
) -> int:
    """Have the agent AGENT do what TASK says in words.

    It has the tools that its file lists and no other; what it may do without asking is as in `placet do`.
    With a goal it is told what is missing until the check passes, or its iterations are used up. The run is
    kept: `placet resume ID` goes on with it as it began.

    Exit codes: 0 it was done, and its goal met if it has one; 1 ran and did not succeed, 2 bad input, 4
    waiting for a person, 130 after Ctrl-C.
    """
    output.claim()
    from msgspec.structs import replace

    from placet.app.agents import find_agents, make_runner
    from placet.cli.conversing import open_for
    from placet.cli.trust import terminal_question
    from placet.ir.proposal import new_id

    agents = find_agents(os.environ)
    entry = agents.find(name, "user" if is_user else None)
    spec = entry.spec
    assert spec is not None
    if not spec.enabled and not even_if_disabled:
        raise click.UsageError(f"agent '{name}' is disabled. Switch it on: placet agent enable {name}")
    if not task.strip():
        raise click.UsageError("there is no task. Say in a sentence what the agent is to do.")
    agents.check_trust(entry, os.environ, terminal_question(output))
    options = replace(options, model=options.model or spec.model)
    with open_for(output, options, db=db, wait=wait, log=log, as_json=as_json, memory=spec.memory) as (
        app,
        view,
    ):
        runner = make_runner(app, spec)
        store = app.records.agents if app.records is not None else None
        if store is not None:
            store.keep(entry.place.key, entry.id, entry.path.suffix, entry.text)
        for missing in runner.missing:
            output.talk(f"Note: there is no tool '{missing}' here; the agent goes without it.")
        made = run_id or new_id()
        if app.records is not None and not run_id:
            output.talk(f"Run {made}")
        view.tell_model(app, runner.model)

        async def start(cancel: Cancel, watch: Watch) -> AgentResult:
            return await runner.run(task, run_id=made, cancel=cancel, watch=watch)

        return lead_agent(
            output, app, runner, start, view, db=db, as_json=as_json, store=store, place=entry.place.key
        )


def lead_agent(
    output: Output,
    app: Any,
    runner: AgentRunner,
    start: Any,
    view: Any,
    *,
    db: str | None,
    as_json: bool,
    store: AgentStore | None,
    place: str | None,
) -> int:
    """Let an agent work, show how it ended, and count it; returns the exit code."""
    from placet.cli.conversing import Told, closing, lead
    from placet.render.agents import goal_words

    came: list[AgentResult] = []

    async def started(cancel: Cancel, watch: Watch) -> Ending:
        came.append(await start(cancel, watch))
        return came[0].ending

    told = Told(as_json, db, app.records is not None, data=lambda: came[0].to_dict())
    code = lead(output, app, started, told, view, closing(runner.model))
    result = came[0]
    goal = result.goal
    if goal is not None and not as_json:
        output.talk(f"  {goal_words(met=goal.met, iterations=goal.iterations, reason=goal.reason)}")
    if store is not None and place is not None and result.status not in ("waiting", "cancelled"):
        store.count(place, runner.spec.id, result.run_id, succeeded=result.succeeded)
    return code
