"""`placet approvals`: what waits for a person, and what the person says.

Keep true:
1. Deciding only records. No command here runs, resumes or ends anything, but what a round of a loop asked:
   nobody else would carry that out (`loop_decisions.py`).
2. Secrets are taken out before anything is drawn, and not again from what is drawn: half a secret would not
   be known as one, and whatever is hidden is counted. A plan can make what runs look like a secret, so who
   decides is told, and can see it.
3. Once a decision is on disk, nothing that is only looked up for the person can make the command fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from placet.cli.inputs import (
    Span,
    Subject,
    count_option,
    db_option,
    json_option,
    plain_text,
    reason_option,
)
from placet.cli.output import Output, to_json
from placet.cli.places import look_in

if TYPE_CHECKING:
    from placet.app.app import Records
    from placet.approvals.approval import Approval, Decision
    from placet.cli.changes import Change
    from placet.render.advice import Advice

_RUNS = ("tool", "parameters", "compensation")
"""The fields that say what will run."""


id_argument = click.argument("id", metavar="ID", callback=plain_text)
by_option = click.option(
    "--by", metavar="NAME", callback=plain_text, help="Who decides. Default: the name you are logged in with."
)


@click.group(cls=Subject, short_help="List what waits for a person, show one, approve, deny or revoke it.")
def approvals() -> None:
    """What waits for a person's decision. Without a command: all that does."""


@approvals.command("list", short_help="What waits to be decided.")
@click.option("--run", metavar="RUN", callback=plain_text, help="Of this run; the start of its id is enough.")
@click.option(
    "--all", "with_closed", is_flag=True, help="Also the newest that are decided, or too old to be."
)
@click.option("--standing", is_flag=True, help="Instead, what is approved for always and holds now.")
@count_option("--limit", 50)
@db_option
@json_option
@click.pass_obj
def list_approvals(
    output: Output,
    run: str | None,
    with_closed: bool,
    standing: bool,
    limit: int,
    db: str | None,
    as_json: bool,
) -> int:
    """List what waits to be decided, oldest first; with --all then the newest that no longer do.

    With --standing it lists what is approved for always and holds now, with until when, the latest first.

    Exit codes: 0 listed, also if there is nothing, 2 bad input.
    """
    import time

    from placet.app.approvals import without_secrets
    from placet.approvals.sql import has_approvals
    from placet.cli.other_databases import hidden_here, look_elsewhere
    from placet.render.advice import db_words
    from placet.render.approvals import approvals_table
    from placet.render.text import count

    if standing and with_closed:
        raise click.UsageError("--standing and --all are two lists. Leave one of them out.")
    if standing:
        return _list_standing(output, run, limit, db, as_json=as_json)
    waiting: list[Approval] = []
    newest: list[Approval] = []

    def look(records: Records) -> str:
        nonlocal run, waiting, newest
        if has_approvals(records.database):
            run = _run_id(records, run)
            waiting = records.approvals.pending(run=run)
            if with_closed:
                newest = records.approvals.recent(limit + len(waiting), run=run)
        return f" in {records.database.name}"

    with look_elsewhere(db, "run", run, "approvals list --run"):
        name = look_in(db, look, "")
    # Also beside others: nobody comes back for a question that they do not see.
    hidden = None if waiting and run is not None else hidden_here(db, "approvals")
    now = time.time()
    # Somebody may decide one between the two looks, or its time run out: it stands in one of the lists.
    known = {one.id for one in waiting}
    closed = [one for one in newest if one.id not in known and not one.open_at(now)]
    shown = waiting[:limit] + closed[:limit]
    left_out = len(waiting) - limit
    if as_json:
        data = {"approvals": _all_as_data(output, shown, now), "left_out": max(left_out, 0)}
        _show_json(output, {**data, **hidden.data()} if hidden else data)
        return 0
    if not waiting:
        of_run = "" if run is None else f" of run '{run}'"
        output.talk(f"Nothing{of_run} waits for a decision{name}.")
    if shown:
        rows = [for_people(one, now) for one in without_secrets(shown, output.redactor)]
        output.show(*approvals_table(rows, now, output.width, with_status=with_closed))
    if left_out > 0:
        output.talk(f"{count(left_out, 'more waits', 'more wait')}; see them with --limit.")
    if waiting:
        output.talk(f"See what one is about, and how to decide it: placet approvals show ID{db_words(db)}")
    if hidden:
        hidden.talk(output)
    return 0


def _list_standing(output: Output, run: str | None, limit: int, db: str | None, *, as_json: bool) -> int:
    import time

    from placet.app.approvals import without_secrets
    from placet.approvals.sql import has_approvals
    from placet.render.advice import db_words
    from placet.render.approvals import standing_table
    from placet.render.text import count

    found: list[Approval] = []

    def look(records: Records) -> str:
        nonlocal run, found
        if has_approvals(records.database):
            run = _run_id(records, run)
            found = [one for one in records.approvals.standing_ones() if run in (None, one.run_id)]
        return f" in {records.database.name}"

    name = look_in(db, look, "")
    now = time.time()
    shown, left_out = found[:limit], max(len(found) - limit, 0)
    if as_json:
        _show_json(output, {"approvals": _all_as_data(output, shown, now), "left_out": left_out})
        return 0
    if not shown:
        of_run = "" if run is None else f" that run '{run}' asked for"
        output.talk(f"Nothing{of_run} is approved for always{name}.")
        return 0
    rows = [for_people(one, now) for one in without_secrets(shown, output.redactor)]
    output.show(*standing_table(rows, now, output.width))
    if left_out:
        output.talk(f"{count(left_out, 'more holds', 'more hold')}; see them with --limit.")
    output.talk(f"See what one is about, and how to revoke it: placet approvals show ID{db_words(db)}")
    return 0


@approvals.command(short_help="What one is about.")
@id_argument
@click.option(
    "--reveal", is_flag=True, help="Hide and cut nothing: also what is secret or looks so is shown as it is."
)
@db_option
@json_option
@click.pass_obj
def show(output: Output, id: str, reveal: bool, db: str | None, as_json: bool) -> int:
    """Show what would be done, why that is asked and until when it can be decided. The start of ID is enough.

    It says what confines the call and what undoes it. Of an edit of files the change is shown as a diff: of
    one that waits with the files as they are now. So is that of a round of a loop.

    Long texts are cut in the middle; --json shows them whole. Secrets, and what looks like one, are not
    shown: it is said in how many places, and --reveal shows them.

    Exit codes: 0 shown, 2 there is no such approval.
    """
    import time

    from rich.console import Group
    from rich.text import Text

    from placet.app.app import open_records
    from placet.app.approvals import count_hidden, hidden_places, without_secrets
    from placet.app.escalations import diff_of, round_of
    from placet.cli.changes import change_of, preview_now
    from placet.cli.other_databases import look_elsewhere
    from placet.render.advice import db_words, name_words
    from placet.render.approvals import approval_lines
    from placet.render.text import count
    from placet.safe_text import clean

    now = time.time()
    with look_elsewhere(db, "approval", id, "approvals show"), open_records(db) as records:
        found = find(records, id)
        latest = records.approvals.standing(found.fingerprint)
        asked_by = round_of(records, found)
    change, gone = diff_of(asked_by) if asked_by is not None else ("", "")
    seen = change if reveal else output.redactor.text(change)
    (shown,) = [found] if reveal else without_secrets([found], output.redactor)
    hidden = hidden_places(found, shown) + count_hidden(change, seen)
    edited = None
    if found.open_at(now):
        edited = preview_now(found, str if reveal else output.redactor.text)
    if as_json:
        data = {**_as_data(shown, now), "hidden": hidden}
        if found.edit is not None:
            data["preview_now"] = None
            if edited is not None:
                data["preview_now"] = {"diff": edited.diff, "problem": edited.problem}
        if asked_by is not None:
            data |= {"diff": clean(seen, lines=True, tabs=True), "no_diff_because": gone or None}
        _show_json(output, data)
        return 0
    width = output.page_width
    # As one: line by line, what begins a line where a long one is broken may look like a secret once more.
    drawn = for_people(shown, now, change_of(shown, edited, is_redacted=not reveal))
    output.show(Group(*approval_lines(drawn, now, width, is_whole=reveal)))
    if asked_by is not None:
        from placet.cli.loop_decisions import show_change

        show_change(output, asked_by, seen, gone, db, is_whole=reveal)
    if hidden:
        output.show(
            Text(
                f"{count(hidden, 'place is', 'places are')} not shown: secret, or made to look so. "
                "The decision is about what is there. To see it:"
            ),
            Text(f"  {reveal_words(found, db)}"),
        )
    if found.isolation == "none":
        output.show(
            Text("Nothing keeps code that runs in the same account from answering this by itself.", "dim")
        )
    if found.open_at(now):
        rest = f"{name_words(found.id)}{db_words(db)}"
        output.show(Text("To decide:"))
        output.show(Text(f"  placet approvals approve {rest}"))
        output.show(Text(f"  placet approvals deny {rest} --reason TEXT"))
        if found.offers_edits:
            output.show(Text("To approve it with all further edits of files in its run:"))
            output.show(Text(f"  placet approvals approve {rest} --edits"))
    if found.covers_edits or (latest is not None and latest.id == found.id):
        output.show(Text("It holds now. To be asked again:"))
        output.show(Text(f"  placet approvals revoke {name_words(found.id)}{db_words(db)}"))
    return 0


@approvals.command(short_help="Say yes.")
@id_argument
@click.option("--always", is_flag=True, help="Also whenever exactly the same is asked again.")
@click.option(
    "--edits",
    is_flag=True,
    help="Also all further edits of files in the same run, up to the tier sandbox_edit.",
)
@click.option(
    "--for", "span_s", type=Span(), metavar="DURATION", help="How long --always holds: 30m, 12h, 7d."
)
@click.option(
    "--rebase",
    is_flag=True,
    help="Of a loop's change that no longer applies: bring it over, check it again, and ask anew.",
)
@click.option("--model", metavar="MODEL", callback=plain_text, help="With --rebase: the model to ask.")
@reason_option
@by_option
@db_option
@json_option
@click.pass_obj
def approve(
    output: Output,
    id: str,
    always: bool,
    edits: bool,
    span_s: float | None,
    rebase: bool,
    model: str | None,
    reason: str | None,
    by: str | None,
    db: str | None,
    as_json: bool,
) -> int:
    """Let the action that ID asks for run, this one time or --always. The start of ID is enough.

    `--always` is for the same tool with the same parameters, folder, tenant, isolation and policies.
    `--edits` is for an edit of files that is asked about because of its tier: no further one of the run is
    asked about, unless a rule asks. A decision is final; what is approved with either can be revoked.

    What a round of a loop asked is carried out at once, on exactly the change that was shown. Where that no
    longer applies it is refused, and --rebase has it brought over and checked again.

    Exit codes: 0 approved, 1 it was approved and could not be carried out, 2 there is no such approval, or it
    can no longer be decided, 3 the change no longer applies, 4 it was brought over, and waits to be approved.
    """
    import time

    from placet.cli.loop_decisions import decide_round, rebase_round

    if always and edits:
        raise click.UsageError("--always and --edits are two answers. Give one of them.")
    decision: Decision = "always" if always else "edits" if edits else "once"
    if rebase:
        if always or edits or span_s is not None:
            raise click.UsageError("--rebase asks anew. Leave --always, --edits and --for out.")
        return rebase_round(output, id, by or login_name(), model, db, as_json=as_json)
    if model is not None:
        raise click.UsageError("--model is for --rebase.")
    done = decide_round(output, id, decision, by or login_name(), reason, db, as_json=as_json)
    if done is not None:
        return done
    if span_s is not None and not always:
        raise click.UsageError("--for says how long an approval stands. Add --always.")
    until = time.time() + span_s if span_s is not None else None
    return _decide(output, id, decision, by, reason, until, db, as_json=as_json)


@approvals.command(short_help="Say no.")
@id_argument
@click.option(
    "--reason", metavar="TEXT", required=True, callback=plain_text, help="Why; whoever asked is told."
)
@by_option
@db_option
@json_option
@click.pass_obj
def deny(output: Output, id: str, reason: str, by: str | None, db: str | None, as_json: bool) -> int:
    """Keep the action that ID asks for from running. The start of ID is enough.

    This also ends an earlier `--always` for the same. A decision is final.

    Exit codes: 0 denied, 2 there is no such approval, or it can no longer be decided.
    """
    from placet.cli.loop_decisions import decide_round

    done = decide_round(output, id, "deny", by or login_name(), reason, db, as_json=as_json)
    if done is not None:
        return done
    return _decide(output, id, "deny", by, reason, None, db, as_json=as_json)


@approvals.command(short_help="End an approval for always, or for all edits of a run.")
@id_argument
@reason_option
@by_option
@db_option
@json_option
@click.pass_obj
def revoke(output: Output, id: str, reason: str | None, by: str | None, db: str | None, as_json: bool) -> int:
    """End what ID approved for always, or for all edits of its run, from now on: the same is asked about
    again. The start of ID is enough.

    See what holds for always with: placet approvals list --standing. An older approval does not come back.

    Exit codes: 0 revoked, 2 there is no such approval, or it is none that holds.
    """
    import time

    from placet.app.app import open_records
    from placet.app.approvals import without_secrets
    from placet.cli.other_databases import look_elsewhere
    from placet.render.approvals import revoked_lines

    with look_elsewhere(db, "approval", id, "approvals show"), open_records(db, writes=True) as records:
        found = find(records, id)
        made = records.approvals.revoke(found.id, by=by or login_name(), reason=reason)
    if as_json:
        (data,) = _all_as_data(output, [made], time.time())
        _show_json(output, data)
        return 0
    (shown,) = without_secrets([made], output.redactor)
    output.show(*revoked_lines(for_people(shown, time.time())))
    return 0


def _decide(
    output: Output,
    given: str,
    decision: Decision,
    by: str | None,
    reason: str | None,
    holds_until: float | None,
    db: str | None,
    *,
    as_json: bool,
) -> int:
    import time

    from rich.text import Text

    from placet.app.app import open_records
    from placet.app.approvals import hidden_places, without_secrets
    from placet.cli.other_databases import look_elsewhere
    from placet.engine.queue_engine import wake_decided
    from placet.render.approvals import decision_line

    with look_elsewhere(db, "approval", given, "approvals show"), open_records(db, writes=True) as records:
        found = find(records, given)
        made = records.approvals.decide(
            found.id,
            decision,
            by=by or login_name(),
            reason=reason,
            holds_until=holds_until,
            fingerprint=found.fingerprint,
        )
        records.note_answer(made)
        wake_decided(records, made.run_id)
        advice = list(_advise(records, made, db))
    (shown,) = without_secrets([made], output.redactor)
    if decision != "deny" and hidden_places(made, shown, _RUNS):
        output.talk(f"Note: parts of what runs were not shown: {reveal_words(made, db)}")
    if as_json:
        (data,) = _all_as_data(output, [made], time.time())
        steps = output.redactor.value([one._asdict() for one in advice])
        _show_json(output, {**data, "next": steps})
        return 0
    output.show(decision_line(for_people(shown, time.time())))
    for one in advice:
        output.show(Text(one.sentence))
        if one.command:
            output.show(Text(f"  {one.command}"))
    return 0


def find(records: Records, given: str) -> Approval:
    from placet.approvals.sql import has_approvals
    from placet.errors import UnknownApproval

    if not has_approvals(records.database):
        raise UnknownApproval(given)
    return records.approvals.find(given)


def _run_id(records: Records, given: str | None) -> str | None:
    """The whole id of a run; one that is not kept here may have asked all the same."""
    from placet.errors import StorageUnavailable, UnknownRun

    if given is None or records.approvals.recent(1, run=given):
        return given
    try:
        return records.journal.find(given).run_id
    except StorageUnavailable:
        raise UnknownRun(f"There is no run '{given}' in {records.database.name}. See: placet runs") from None


def login_name() -> str:
    import getpass
    import os
    from contextlib import suppress

    with suppress(OSError, KeyError, ImportError):  # Such an account has a number and no name.
        name = getpass.getuser().strip()
        if name:
            return name.encode(errors="backslashreplace").decode()
    return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"


_OWNERS = {"assistant": "assistant", "agent": "runner"}
"""By who leads a run, the object of a program that resumes it."""


def _advise(records: Records, approval: Approval, db: str | None) -> Iterator[Advice]:
    """How the run goes on."""
    from placet.durable.sql import RESUMABLE
    from placet.errors import RunError, StorageError
    from placet.render.advice import Advice, db_words, name_words
    from placet.runtime.journal import LED_BY
    from placet.safe_text import clean

    run, place = name_words(approval.run_id), db_words(db)
    try:
        if others := len(records.approvals.pending(run=approval.run_id)):
            what = (
                "Another question of this run waits" if others == 1 else f"{others:,} more of this run wait"
            )
            yield Advice(f"{what} to be decided:", f"placet approvals list --run {run}{place}")
        summary = records.journal.find(approval.run_id)
        status = summary.status if summary.run_id == approval.run_id else None
        by_command = "folder" in summary.context
    except (RunError, StorageError):
        status = None
    if status is None:
        yield Advice(
            "Its run is not kept in this database; if its process still runs, that goes on by itself."
        )
    elif status == "running":
        yield Advice("Its run is at work and goes on by itself.")
    elif status == "interrupted" or status in RESUMABLE:
        if by_command:
            yield Advice("To go on with the run:", f"placet resume {run}{place}")
        else:
            about = records.journal.record(approval.run_id).proposal.context
            owner = _OWNERS.get(str(about.get(LED_BY)), "runtime")
            name = clean(repr(approval.run_id))
            call = f"chat({name}, resume=True)" if about.get("is_chat") is True else f"resume({name})"
            yield Advice("To resume the run, in the program that began it:", f"{owner}.{call}")
    else:
        yield Advice(f"Its run went on, and has ended ({clean(status, 40)}).")


def _as_data(approval: Approval, now: float) -> dict[str, Any]:
    import msgspec

    from placet.app.approvals import status_of

    return {**msgspec.to_builtins(approval), "status": status_of(approval, now)}


def _all_as_data(output: Output, approvals: Sequence[Approval], now: float) -> list[dict[str, Any]]:
    """As they may be shown, each with the number of places that are hidden."""
    from placet.app.approvals import hidden_places, without_secrets

    shown = without_secrets(approvals, output.redactor)
    return [
        {**_as_data(one, now), "hidden": hidden_places(whole, one)}
        for whole, one in zip(approvals, shown, strict=True)
    ]


def _show_json(output: Output, data: dict[str, Any]) -> None:
    """Print what has been made fit to be shown: the names of what is secret are no secrets."""
    output.show_json(data, is_declaration=True)


def reveal_words(approval: Approval, db: str | None) -> str:
    from placet.render.advice import db_words, name_words

    return f"placet approvals show {name_words(approval.id)} --reveal{db_words(db)}"


def for_people(approval: Approval, now: float, change: Change | None = None) -> dict[str, Any]:
    """An approval as it is drawn: the same data, with words where a person does not read data, and the
    `change` to files in the place of the parameters that it shows."""
    from placet.approvals.approval import how_decided, how_revoked
    from placet.render.preview import split_texts

    undo = approval.compensation
    shows = change.shows if change is not None else frozenset()
    parameters, texts = split_texts(
        {
            name: "(in the diff below)" if name in shows else value
            for name, value in approval.parameters.items()
        }
    )
    return {
        **_as_data(approval, now),
        "parameters": to_json(parameters, indent=True),
        "texts": texts,
        "change": (change.heading, change.diff) if change is not None else None,
        "compensation": to_json(undo, indent=True) if undo is not None else None,
        "decided": how_decided(approval),
        "revoked": how_revoked(approval),
    }
