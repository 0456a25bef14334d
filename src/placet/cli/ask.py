"""`placet ask`: put a question to the agent that fits it best."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from placet.cli.agent import run as run_agent
from placet.cli.inputs import (
    collected,
    db_option,
    json_option,
    single,
    task_options,
    wait_option,
)
from placet.cli.output import Output

if TYPE_CHECKING:
    from placet.agents.routing import Route
    from placet.app.options import RunOptions


@click.command(short_help="Ask the agent that fits best.")
@click.argument("question", metavar="QUESTION")
@single("--agent", metavar="ID", help="Ask this one, whoever fits.")
@click.option("--why", is_flag=True, help="Say who fits how well, and ask nobody.")
@task_options
@wait_option
@db_option
@json_option
@click.pass_context
@collected
def ask(
    context: click.Context,
    question: str,
    agent: str | None,
    why: bool,
    options: RunOptions,
    wait: float | None,
    db: str | None,
    as_json: bool,
) -> int:
    """Put QUESTION to the enabled agent whose description fits it best, and say why that one.

    What descriptions mean is compared if there are embeddings (`placet model pull embed`), else their words.
    Among those that fit about as well, the one whose runs succeeded more often is asked. An agent whose id is
    in the question, or after --agent, is asked whatever fits. The agents of a project that you do not trust
    are left out, and hide none of yours.

    Exit codes: as `placet agent run`; with --why: 0 somebody fits; 2 nobody does.
    """
    output: Output = context.obj
    output.claim()
    from rich.text import Text

    from placet.render.scenarios import route_lines

    if not question.strip():
        raise click.UsageError("there is no question. Say in a sentence what is to be done.")
    name = agent
    from placet.app.agents import find_agents

    found = find_agents(os.environ)
    is_mine = False
    if not found.is_trusted(os.environ):
        # What nobody has looked at has no say in who is asked, and hides nobody.
        is_mine = name is None or any(each.id == name for each in found.mine.entries())
        if is_mine and any(each.place.where == "project" for each in found.entries()):
            output.talk("Note: the agents of this project are left out: it is not trusted. See: placet trust")
    if name is None or why:
        route = _route(output, question, db)
        data = route.as_json()
        if why:
            if as_json:
                output.show_json(data)
            else:
                output.show(*(Text(line) for line in route_lines(data["ranked"], route.note)))
            return 0
        name = route.chosen.id
        output.talk(f"Asking '{name}': {route.chosen.because}. Another: --agent ID")
    code: int = context.invoke(
        run_agent,
        name=name,
        task=question,
        is_user=is_mine,
        options=options,
        run_id=None,
        even_if_disabled=False,
        wait=wait,
        db=db,
        log=None,
        as_json=as_json,
    )
    return code


def _route(output: Output, question: str, db: str | None) -> Route:
    """Who fits. Where words alone do not tell, embeddings are suggested."""
    from placet.agents.routing import route
    from placet.app.agent_trials import embedder_here
    from placet.app.agents import open_agents
    from placet.errors import UsageError
    from placet.runtime.sync import run_sync

    with open_agents(db, writes=False) as agents:
        known = agents if agents.is_trusted(os.environ) else agents.mine
        specs = known.specs()
        records = {spec.id: known.record(spec.id) for spec in specs}

    async def go() -> Route:
        embedder = embedder_here()
        try:
            return await route(question, specs, embedder=embedder, records=records)
        finally:
            if embedder is not None:
                await embedder.close()

    try:
        with output.waiting("looking for the agent that fits"):
            found = run_sync(go())
    except UsageError:
        if len(specs) > 1:
            _suggest_embeddings(output)
        raise
    if not found.is_clear:
        _suggest_embeddings(output)
    return found


def _suggest_embeddings(output: Output) -> None:
    from placet.app.agent_trials import embed_advice

    if advice := embed_advice():
        output.talk(f"Hint: no agent fits clearly by its words. To compare what descriptions mean, {advice}")
