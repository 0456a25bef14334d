"""`placet agent build`: an agent from one sentence, tried before it is kept."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from placet.cli.agent_test import limits_of, stoppable, trial_options
from placet.cli.inputs import collected, db_option, json_option, single
from placet.cli.output import OPENING, Output

if TYPE_CHECKING:
    from placet.agents.builder import Attempt, Built
    from placet.agents.spec import AgentSpec
    from placet.app.options import RunOptions
    from placet.tools.context import Cancel

_SIGNALLED = 128


class _NotKept(Exception):
    """The file of an agent could not be written; why was told."""


@click.command(short_help="Build an agent from one sentence.")
@click.argument("sentence", metavar="SENTENCE")
@single("--id", "agent_id", metavar="ID", help="What to call it. Default: made from its name.")
@click.option(
    "--attempts",
    type=click.IntRange(min=1, max=20),
    default=3,
    show_default=True,
    metavar="N",
    help="How often the model may draft.",
)
@click.option("--yes", is_flag=True, help="Keep an agent that passes without asking.")
@click.option("--user", "is_user", is_flag=True, help="Among your own, also inside of a project.")
@single("--format", "suffix", type=click.Choice(["toml", "md"]), help="Of the file. Default: toml.")
@trial_options
@db_option
@json_option
@click.pass_obj
@collected
def build(
    output: Output,
    sentence: str,
    agent_id: str | None,
    attempts: int,
    yes: bool,
    is_user: bool,
    suffix: str | None,
    options: RunOptions,
    k: int,
    at_once: int,
    db: str | None,
    as_json: bool,
) -> int:
    """Have the model draft the agent that SENTENCE describes, with scenarios of its own; try it on them, and
    tell the model what failed, until a draft passes or there are no attempts left.

    You see every attempt, then the file, and are asked whether to keep it. Read its scenarios: it can be no
    better than they are. Without a terminal nothing is kept unless --yes is given, and then only an agent
    that passes. If none does, the best draft is shown with its issues; kept, it is switched off.

    Exit codes: 0 an agent passed, 1 none did or you said no, 2 bad input, 130 after Ctrl-C.
    """
    output.claim()
    from placet.agents.builder import Builder
    from placet.app.agent_trials import open_trials
    from placet.app.agents import find_agents
    from placet.cli.asker import is_terminal
    from placet.cli.trust import terminal_question
    from placet.errors import UsageError
    from placet.render.scenarios import attempt_lines

    taken = {entry.id for entry in find_agents(os.environ).entries(with_hidden=True)}
    if agent_id in taken:
        raise UsageError(f"There is an agent '{agent_id}' already. Choose another id.")
    limits = limits_of(options)
    opening = open_trials(options, at_once=at_once, confirm=terminal_question(output))
    with output.opened(opening, OPENING) as app:
        output.redactor = app.redactor
        builder = Builder(app.trying, tools=app.tools(), max_attempts=attempts, k=k)

        def heard(attempt: Attempt) -> None:
            for line in attempt_lines(attempt.as_json(), attempts):
                output.talk(line)

        async def work(cancel: Cancel) -> Built:
            from placet.agents.compose import one_budget

            async with one_budget(app.trying.runtime, limits, source="agent build", cancel=cancel) as run:
                return await builder.build(
                    sentence,
                    agent_id=agent_id,
                    budget=run,
                    cancel=cancel,
                    heard=heard,
                    telling=output.wait_for,
                )

        built, signal = stoppable(output, work, app.trying.model, "building the agent")
    kept, could_keep = None, True
    if built.spec is not None and not signal:
        spec = _free(built.spec, taken, is_passing=built.passed)
        try:
            kept = _keep(output, built, spec, yes=yes, is_user=is_user, suffix=suffix, db=db, as_json=as_json)
        except _NotKept:
            could_keep = False
    elif built.spec is None:
        for issue in built.issues:
            output.talk(f"✗ {issue}")
    if as_json:
        output.show_json({**built.as_json(), "kept": kept})
    if signal:
        return _SIGNALLED + signal
    if not could_keep:
        return 2
    said_no = kept is None and not yes and is_terminal()
    return 0 if built.passed and not said_no else 1


def _keep(
    output: Output,
    built: Built,
    spec: AgentSpec,
    *,
    yes: bool,
    is_user: bool,
    suffix: str | None,
    db: str | None,
    as_json: bool,
) -> str | None:
    """Show the file, ask, and write it; the path, if it was kept."""
    from pathlib import Path

    from placet.agents.files import write_agent
    from placet.agents.spec import problems
    from placet.app.agents import open_agents
    from placet.cli.asker import is_terminal
    from placet.cli.other_databases import hidden_by_new, project_file
    from placet.errors import PlacetError
    from placet.safe_text import clean

    ending = f".{suffix or 'toml'}"
    text = write_agent(spec, ending)
    if not as_json:
        output.write(clean(output.redactor.text(text), lines=True, tabs=True))
    for issue in built.issues:
        output.talk(f"✗ {issue}")
    if problems(spec):
        output.talk("It cannot be used as it is, and was not kept.")
        return None
    if yes and built.passed:
        agreed = True
    elif is_terminal():
        question = "Keep it?" if built.passed else "Not all of its scenarios passed. Keep it, switched off?"
        agreed = click.confirm(question, default=built.passed, err=True)
    else:
        agreed = False
        output.talk("It was not kept: there is no terminal to ask on. Keep one that passes with --yes.")
    if not agreed:
        return None
    before = project_file(Path.cwd())
    try:
        with open_agents(db, writes=True, is_new=not is_user) as agents, agents.changing(os.environ):
            entry = agents.save(spec, "user" if is_user else None, suffix=ending)
            agents.note(entry)
    except PlacetError as error:
        # What it took to build it would be lost: here it is on stdout, as a file or as JSON.
        output.talk(f"Error: {error}")
        output.talk("It was not kept. What is on stdout can be saved by hand.")
        raise _NotKept from None
    output.talk(f"✓ made {entry.path}" + ("" if spec.enabled else " (disabled)"))
    hidden_by_new(Path.cwd(), before).talk(output)
    return str(entry.path)


def _free(spec: AgentSpec, taken: set[str], *, is_passing: bool) -> AgentSpec:
    """The agent under an id that nobody has; switched off if it did not pass."""
    import msgspec

    name, number = spec.id, 2
    while name in taken:
        name, number = f"{spec.id[:60]}-{number}", number + 1
    return msgspec.structs.replace(spec, id=name, enabled=is_passing)
