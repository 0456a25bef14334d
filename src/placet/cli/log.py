"""`placet log`: what is recorded of all runs: looked at, searched, followed, exported, checked, pruned."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from placet.cli.inputs import Moment, Subject, count_option, db_option, file_names, folder_names, json_option
from placet.cli.output import Output
from placet.cli.places import NOTHING_YET, look_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from placet.app.app import Records
    from placet.events.costs import By
    from placet.events.event import Event

Command = TypeVar("Command", bound=Callable[..., Any])

_FOLLOW_S = 0.5
_BY = ("day", "model", "agent", "folder", "run")


def _known_kinds(
    context: click.Context, parameter: click.Parameter, kinds: tuple[str, ...]
) -> tuple[str, ...]:
    """Refuse a kind that no event can have: an answer that is empty for a slip of the pen misleads."""
    from difflib import get_close_matches

    from placet.events.event import KINDS

    for kind in kinds:
        if kind not in KINDS and not kind.startswith(("turn_", "check_", "round_")):
            near = get_close_matches(kind, KINDS, n=1, cutoff=0.0)
            raise click.BadParameter(
                f"No event is of the kind {kind!r}. Did you mean '{near[0]}'?", context, parameter
            )
    return kinds


def filter_options(command: Command) -> Command:
    """Which events are meant."""
    for option in (
        click.option("--until", type=Moment(), metavar="WHEN", help="Not after this moment."),
        click.option(
            "--since",
            type=Moment(),
            metavar="WHEN",
            help="Not before: 2026-01-31, 2026-01-31T12:00, or 2h ago as 2h.",
        ),
        click.option("--tenant", metavar="NAME", help="Of this tenant."),
        click.option("--tool", metavar="NAME", help="About calls of this tool."),
        click.option("--action", metavar="ID", help="About this action."),
        click.option("--proposal", metavar="ID", help="About this proposal."),
        click.option("--trace", metavar="ID", help="Of this trace."),
        click.option("--run", metavar="ID", help="Of this run; the start of its id is enough."),
        click.option(
            "--kind",
            metavar="KIND",
            multiple=True,
            callback=_known_kinds,
            help="Of this kind; may be given several times.",
        ),
    ):
        command = option(command)
    return command


@click.group(cls=Subject, short_help="Look at, search, export and check what is recorded.")
def log() -> None:
    """What is recorded of all runs. Without a command: the newest run as a timeline."""


@log.command(short_help="One run as a timeline.")
@click.argument("run", metavar="[RUN]", required=False)
@db_option
@json_option
@click.pass_obj
def show(output: Output, run: str | None, db: str | None, as_json: bool) -> int:
    """Show what happened in a run, event by event: the newest run, or RUN (the start of its id is enough).

    Exit codes: 0 shown, also if nothing is recorded yet, 2 there is no such run.
    """
    from placet.app.app import open_records
    from placet.cli.other_databases import hidden_here, look_elsewhere
    from placet.cli.wording import no_events

    if run is None:
        found: list[Event] = look_in(db, _newest_run, [])
        if not found and not as_json:
            output.talk(NOTHING_YET)
            hidden_here(db, "log").talk(output)
    else:
        with look_elsewhere(db, "run", run, "log show"), open_records(db) as records:
            run = records.run_id(run)
            found = records.events.query(run=run)
        if not found:
            raise no_events(run, db)
    _print(output, found, as_json=as_json, with_runs=False)
    return 0


def _newest_run(records: Records) -> list[Event]:
    """The events of the run that began last; none if there is no run."""
    begins = ("proposal_received", "turn_loop_started")
    newest = records.events.query(limit=1, newest=True, kind=begins)
    return records.events.query(run=newest[0].run_id) if newest else []


@log.command(short_help="Events that match.")
@filter_options
@count_option("--limit", 100, "The newest so many.")
@db_option
@json_option
@click.pass_obj
def query(
    output: Output,
    /,
    kind: tuple[str, ...],
    run: str | None,
    limit: int,
    db: str | None,
    as_json: bool,
    **filters: Any,
) -> int:
    """List the newest events that match everything given, oldest first.

    Exit codes: 0 listed, also if nothing matches, 2 bad input.
    """
    from placet.cli.other_databases import hidden_here, look_elsewhere

    def look(records: Records) -> list[Event]:
        of_run = records.run_id(run) if run is not None else None
        return records.events.query(kind=kind or None, run=of_run, limit=limit, newest=True, **filters)

    with look_elsewhere(db, "run", run, "log show"):
        found: list[Event] = look_in(db, look, [])
    _print(output, reversed(found), as_json=as_json, with_runs=run is None)
    if not found and not as_json:
        output.talk("No event matches.")
        hidden_here(db, "log").talk(output)
    if len(found) == limit:
        output.talk(
            f"Only the newest {limit} are shown; see more with --limit, or all with `placet log export`."
        )
    return 0


@log.command(short_help="The newest events, and those to come.")
@filter_options
@click.option(
    "-n", "--lines", type=click.IntRange(min=0), default=20, show_default=True, help="How many to begin with."
)
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@db_option
@click.option("--json", "as_json", is_flag=True, help="Print each event as a JSON line.")
@click.pass_obj
def tail(
    output: Output,
    /,
    kind: tuple[str, ...],
    run: str | None,
    lines: int,
    follow: bool,
    db: str | None,
    as_json: bool,
    **filters: Any,
) -> int:
    """Show the newest events, and with --follow those to come as well.

    Exit codes: 0 shown, 2 bad input, 130 after Ctrl-C.
    """
    from placet.app.app import open_records

    with open_records(db) as records:
        run = records.run_id(run) if run is not None else None
        position = records.events.last_position()
        wanted = {"kind": kind or None, "run": run, **filters}
        found = records.events.query(limit=lines, newest=True, **wanted) if lines else []
        position = max([position, *(e.seq for e in found)])
        _print(output, reversed(found), as_json=as_json, with_runs=True, lines=True)
        while follow:
            time.sleep(_FOLLOW_S)
            found = records.events.query(after=position, **wanted)
            if found:
                position = found[-1].seq
                _print(output, found, as_json=as_json, with_runs=True, lines=True)
    return 0


@log.command(short_help="Events as JSON lines.")
@filter_options
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    shell_complete=file_names,
    help="Write there instead of to standard output.",
)
@click.option("--chat", is_flag=True, help="Runs that a model led instead, each as a line of chat JSON.")
@db_option
@click.pass_obj
def export(
    output: Output,
    /,
    kind: tuple[str, ...],
    run: str | None,
    target: str | None,
    chat: bool,
    db: str | None,
    **filters: Any,
) -> int:
    """Write all events that match as JSON lines, oldest first; `placet explain FILE` reads them.

    With --chat, each run that a model led is one line instead, with `messages` as chat APIs take them: a data
    set to train or to judge models with.

    What is recorded holds no secrets, and neither does this. Exit codes: 0 written, 2 bad input.
    """
    from placet.app.app import database_files, open_records
    from placet.app.files import check_target, write_lines
    from placet.cli.output import to_json
    from placet.events.dataset import conversations
    from placet.render.text import count

    if target is not None:
        check_target(target, "-o", database_files(db), instead="events.jsonl")
    with open_records(db) as records:
        run = records.run_id(run) if run is not None else None
        events = records.events.scan(kind=kind or None, run=run, **filters)
        found = conversations(events) if chat else events
        lines = (to_json(each) + "\n" for each in found)
        if target is None:
            for line in lines:
                output.write(line)
            return 0
        written = write_lines(target, lines)
    output.talk(f"{count(written, 'run' if chat else 'event')} written to {target}.")
    return 0


@log.command(short_help="Whether anybody changed the records.")
@click.option(
    "--anchor",
    metavar="FOLDER",
    shell_complete=folder_names,
    help="Where the head of the log is kept, if not in your data folder.",
)
@db_option
@json_option
@click.pass_obj
def verify(output: Output, anchor: str | None, db: str | None, as_json: bool) -> int:
    """Check the chain of digests over all records, and its head against the one kept outside the log.

    Names what was edited, removed, inserted, reordered or cut off. Exit codes: 0 nothing was, 1 something
    was, 2 bad input.
    """
    from pathlib import Path

    from rich.text import Text

    from placet.app.log_check import verify_log
    from placet.render.text import count
    from placet.safe_text import clean

    report = verify_log(db, Path(anchor) if anchor is not None else None)
    if as_json:
        import msgspec

        data = msgspec.to_builtins(report)
        data["findings"] = [finding._asdict() for finding in report.findings]
        output.show_json(data)
        return 0 if report.valid else 1
    dropped = f", {count(report.dropped, 'record')} dropped on purpose before them" if report.dropped else ""
    if report.valid:
        output.show(
            Text(f"✓ {count(report.checked, 'record')} checked{dropped}: nothing was changed.", style="green")
        )
        if not report.anchored and report.checked:
            output.show(
                Text("  No head is kept outside this log, so records cut off its end would not be noticed.")
            )
        return 0
    is_whole = not report.more and all(finding.kind == "unanchored" for finding in report.findings)
    what = "the chain is whole, but its head cannot be checked" if is_whole else "the log was changed"
    output.show(Text(f"✗ {count(report.checked, 'record')} checked{dropped}: {what}.", style="bold red"))
    for finding in report.findings:
        output.show(Text(f"  {finding.kind}: {clean(finding.message, 1000)}"))
    if report.more:
        output.show(Text(f"  … and {report.more:,} more"))
    if not is_whole:
        output.show(
            Text(
                "Compare with a backup or an export; keep this file as it is for whoever looks into it.",
            )
        )
    return 1


@log.command(short_help="Anchor the log as it is now.")
@click.option(
    "--anchor",
    metavar="FOLDER",
    shell_complete=folder_names,
    help="Where the head of the log is kept, if not in your data folder.",
)
@click.option(
    "--shared", is_flag=True, help="Others write to this log too, with anchors of their own or none."
)
@db_option
@json_option
@click.pass_obj
def accept(output: Output, anchor: str | None, shared: bool, db: str | None, as_json: bool) -> int:
    """Accept the log as it is now: anchor its present end, and forget what the anchor knew before. Use it
    when you know why `verify` reports that the log was replaced, has lost its anchor, or was appended to.

    Breaks of the chain itself cannot be accepted. Exit codes: 0 `verify` is satisfied now, 1 it is not, 2 bad
    input.
    """
    from pathlib import Path

    from rich.text import Text

    from placet.app.app import open_records
    from placet.render.text import count
    from placet.safe_text import clean

    with open_records(db, writes=True, anchor=Path(anchor) if anchor is not None else None) as records:
        before = records.events.verify()
        position = records.events.accept(shared=shared)
        after = records.events.verify()
    if as_json:
        data = {
            "valid": after.valid,
            "position": position,
            "accepted": [f._asdict() for f in before.findings if f not in after.findings],
            "findings": [f._asdict() for f in after.findings],
        }
        output.show_json(data)
        return 0 if after.valid else 1
    for finding in before.findings:
        if finding not in after.findings:
            output.show(Text(f"  accepted: {finding.kind}: {clean(finding.message, 1000)}"))
    output.show(Text(f"The log is anchored at its end, record {position:,}."))
    if after.valid:
        return 0
    output.show(Text(f"✗ {count(len(after.findings) + after.more, 'finding')} left:", style="bold red"))
    for finding in after.findings:
        output.show(Text(f"  {finding.kind}: {clean(finding.message, 1000)}"))
    return 1


@log.command(short_help="Drop old records, on purpose.")
@click.option(
    "--before", type=Moment(), metavar="WHEN", required=True, help="Older than: a date, or 90d for 90 days."
)
@db_option
@json_option
@click.pass_obj
def prune(output: Output, before: float, db: str | None, as_json: bool) -> int:
    """Drop the oldest records. What is dropped becomes a closed segment with its digest, so that `verify`
    goes on to hold; the newest record always stays. Runs that can be resumed are not touched.

    Exit codes: 0 done, also if there was nothing to drop, 2 bad input.
    """
    from rich.text import Text

    from placet.app.app import open_records
    from placet.render.text import count

    with open_records(db, writes=True) as records:
        segment = records.events.prune(before)
    if as_json:
        output.show_json({"dropped": segment.count if segment is not None else 0, "segment": segment})
    elif segment is None:
        output.show(Text("Nothing is that old."))
    else:
        output.show(Text(f"{count(segment.count, 'record')} dropped, up to position {segment.last}."))
    return 0


@log.command(short_help="What runs cost: tokens, money, calls.")
@click.option(
    "--by",
    type=click.Choice(_BY),
    default="agent",
    show_default=True,
    help="A line for each day (UTC), model, agent, folder or run.",
)
@click.option(
    "--since", type=Moment(), metavar="WHEN", help="Not before: 2026-01-31, or 7d for the last 7 days."
)
@click.option("--until", type=Moment(), metavar="WHEN", help="Not after this moment.")
@db_option
@json_option
@click.pass_obj
def costs(
    output: Output, by: By, since: float | None, until: float | None, db: str | None, as_json: bool
) -> int:
    """Add up what runs used: tool calls, time, model answers, tokens and money. What a model did not report
    is shown as unknown (`?`, null in JSON), never as 0.

    Exit codes: 0 shown, also if there is nothing, 2 bad input.
    """
    import msgspec

    from placet.events.costs import Cost, Costs
    from placet.render.costs import draw_costs
    from placet.render.text import count

    def look(records: Records) -> tuple[Costs, str]:
        found = records.events.costs(by=by, since=since, until=until, places=records.places)
        return found, records.database.name

    found, name = look_in(db, look, (Costs(by=by, costs=[], total=Cost()), ""))
    if as_json:
        listed = [{by: cost.pop("name"), **cost} for cost in msgspec.to_builtins(found.costs)]
        total = msgspec.to_builtins(found.total)
        del total["name"]
        output.show_json({"by": by, "since": since, "until": until, "costs": listed, "total": total})
        return 0
    if not found.costs:
        when = "" if since is until is None else " for that time"
        output.talk(f"No runs are recorded in {name}{when}." if name else NOTHING_YET)
        return 0
    output.show(*draw_costs(found, width=output.width))
    told = (("tokens", found.total.uncounted_answers), ("price", found.total.unpriced_answers))
    missing = [f"the {what} of {count(number, 'answer')}" for what, number in told if number]
    if missing:
        output.talk(f"? Not known: {' and '.join(missing)}.")
    return 0


def _print(
    output: Output, events: Iterable[Event], *, as_json: bool, with_runs: bool, lines: bool = False
) -> None:
    if not as_json:
        from placet.render.timeline import draw_timeline

        output.show(*draw_timeline(events, with_runs=with_runs))
    elif lines:
        from placet.cli.output import to_json

        for event in events:
            output.write(to_json(event) + "\n")
    else:
        output.show_json({"events": list(events)})
