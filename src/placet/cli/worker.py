"""`placet worker`: work on submitted runs; `placet workers`: which workers there are, and what waits."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from placet.cli.inputs import db_option, json_option, single, tools_option
from placet.cli.output import Output

if TYPE_CHECKING:
    from placet.engine.dbos_transport import RateLimit


_LOOK_S = 0.5
_dollars = partial(click.option, type=click.FloatRange(0, 1e12, min_open=True), metavar="USD")
_tokens = partial(click.option, type=click.IntRange(min=1), metavar="N")


@click.command(short_help="Work on runs that were submitted.")
@click.option("--queue", default="default", show_default=True, help="The queue to work on.")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 256),
    default=8,
    show_default=True,
    help="How many runs at once.",
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="How long calls in flight may go on after SIGTERM.",
)
@click.option(
    "--tenant-concurrency", type=click.IntRange(min=1), help="Runs of one tenant at once, over all workers."
)
@single("--tenant-rate", metavar="N/SECONDS", help="How many runs of one tenant may begin in that time.")
@_dollars("--tenant-budget", help="What runs of one tenant may cost in a day (UTC), over all workers.")
@_tokens("--tenant-tokens", help="How many tokens runs of one tenant may use in a day.")
@_dollars("--queue-budget", help="What all runs of the queue may cost in a day.")
@_tokens("--queue-tokens", help="How many tokens all runs of the queue may use in a day.")
@click.option("--burst", "is_burst", is_flag=True, help="End once nothing is queued or running.")
@tools_option
@single(
    "--temporal",
    metavar="HOST:PORT",
    help="The Temporal cluster that brings the work. Default: DBOS on the Postgres database.",
)
@db_option
@click.option("--json", "as_json", is_flag=True, help="Print what happens as one JSON object per line.")
@click.pass_obj
def worker(
    output: Output,
    queue: str,
    concurrency: int,
    grace: float,
    tenant_concurrency: int | None,
    tenant_rate: str | None,
    tenant_budget: float | None,
    tenant_tokens: int | None,
    queue_budget: float | None,
    queue_tokens: int | None,
    is_burst: bool,
    tools: str | None,
    temporal: str | None,
    db: str | None,
    as_json: bool,
) -> int:
    """Work on runs that were submitted to the database, until SIGTERM or Ctrl-C: then nothing more is
    begun, and what runs is left to other workers where it stands.

    With a Postgres URL as --db workers on any number of machines share the work (extra `durable`); with a
    file, those of this machine. With --temporal the work comes from a Temporal cluster (extra `temporal`)
    and is stored in the database all the same; all workers of a queue name the same cluster. Whoever can
    write to the database can have code run by its workers.

    Exit codes: 0 ended as asked, 2 bad input, or the database cannot be used.
    """
    import signal

    from placet.engine.dbos_transport import Limits
    from placet.engine.opening import open_worker
    from placet.engine.protocol import DayBudget
    from placet.policy.budget import CostBudget

    limits = Limits(tenant_concurrency=tenant_concurrency, tenant_rate=_rate(tenant_rate))
    day_budget = DayBudget(
        tenant=CostBudget(max_cost=tenant_budget, max_tokens=tenant_tokens),
        queue=CostBudget(max_cost=queue_budget, max_tokens=queue_tokens),
    )
    saying = threading.Lock()

    def report(kind: str, data: dict[str, Any]) -> None:
        with saying:
            if as_json:
                output.show_json({"event": kind, **data})
            elif line := format_report(kind, data):
                output.talk(line)

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    opening = open_worker(
        db,
        queue=queue,
        concurrency=concurrency,
        tools=tools,
        limits=limits,
        day_budget=day_budget,
        temporal=temporal,
        report=report,
    )
    with opening as found:
        try:
            found.start()
            # Not for longer: a signal that the kernel gives to another thread does not wake this one.
            while not stop.wait(_LOOK_S):
                if is_burst and not found.has_more:
                    break
        finally:
            found.drain(grace)
    return 0


def format_report(kind: str, data: dict[str, Any]) -> str:
    """What a worker reports, as a line for people; empty for what is no news to them."""
    from placet.render.text import count, moment
    from placet.safe_text import clean

    facts = {name: clean(str(value), 300) for name, value in data.items()}
    run = f"run {facts['run_id']}" if "run_id" in facts else ""
    match kind:
        case "claimed":
            return ""
        case "started":
            return f"started: queue {facts['queue']}, host {facts['host']}"
        case "released":
            state = data["state"]
            stands = facts["state"] if state is not None else "another worker has taken it over"
            other = (
                ", under other policies than it was submitted under" if "has_other_policies" in data else ""
            )
            return f"{run}: {stands}{other}"
        case "left":
            needs = clean(", ".join(data["needs"]), 300)
            return f"{run}: left to a worker that has what it needs: {needs}"
        case "deferred":
            return (
                f"{run}: queued until {moment(data['until'])}, because of --{data['limit'].replace('_', '-')}"
            )
        case "handed_over":
            return f"worker {facts['worker']} is dead: {count(data['runs'], 'run')} handed over to others"
        case "taken_over":
            return "other workers took this one for dead, and have taken over its runs"
        case "renewed":
            return f"{count(data['runs'], 'queued run')} had lost the ticket, and got a new one"
        case "problem":
            return f"{run}: {facts['message']}" if run else f"problem: {facts['message']}"
        case "draining":
            return f"draining: {count(len(data['runs']), 'run')} at work here"
    return kind.replace("_", " ")


def _rate(text: str | None) -> RateLimit | None:
    from placet.engine.dbos_transport import LONGEST_PERIOD_S, RateLimit
    from placet.errors import UsageError

    if text is None:
        return None
    limit, _, period = text.partition("/")
    try:
        made = RateLimit(int(limit), float(period or 1))
    except ValueError:
        made = RateLimit(0, 0.0)
    if made.limit < 1 or not 0 < made.period_s <= LONGEST_PERIOD_S:
        raise UsageError(
            f"--tenant-rate {text!r} is no rate. Write such as 10/60: ten within 60 seconds; at most 30 days."
        )
    return made


@click.command(short_help="Which workers there are, and what waits for them.")
@db_option
@json_option
@click.pass_obj
def workers(output: Output, db: str | None, as_json: bool) -> int:
    """List the workers that are there or have gone within a minute, and how many submissions of each queue
    stand how.

    Exit codes: 0 listed, also if there are none, 2 bad input.
    """
    from rich.text import Text

    from placet.engine.opening import open_engine
    from placet.render.text import count, moment
    from placet.safe_text import clean

    with open_engine(db) as engine:
        found = engine.submissions.workers()
        depth = engine.submissions.depth()
    if as_json:
        listed = [
            {
                "id": each.id,
                "host": each.holder.host,
                "pid": each.holder.pid,
                "queue": each.queue,
                "concurrency": each.concurrency,
                "running": each.running,
                "version": each.version,
                "offers": each.offers,
                "state": each.state,
                "started": each.started,
            }
            for each in found
        ]
        output.show_json({"workers": listed, "queues": depth})
        return 0
    for each in found:
        facts = f"{each.running} of {count(each.concurrency, 'run')}, since {moment(each.started)}"
        output.show(Text(f"{each.state:9}{clean(each.id, 100)}  {clean(each.queue, 80)}  {facts}"))
    for queue, states in sorted(depth.items()):
        told = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
        output.show(Text(f"queue {clean(queue, 80)}: {told}"))
    if not found:
        output.talk("There is no worker. Start one: placet worker")
    return 0
