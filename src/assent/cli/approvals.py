"""`assent approvals`: what waits for a person, and what the person says.

Keep true:
1. Deciding only records. No command here runs, resumes or ends anything.
2. Who decides sees what will run: whatever is left out for the terminal's sake is said to be left out, and
   what a plan wrote stands behind a bar, so that it cannot pass for words of ours.
3. Once a decision is on disk, nothing that is only looked up for the person can make the command fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from assent.cli.inputs import Span, Subject, db_option, json_option, not_empty
from assent.cli.output import Output

if TYPE_CHECKING:
    from rich.text import Text

    from assent.app.app import Records
    from assent.approvals.approval import Approval, Decision
    from assent.redaction import Redactor
    from assent.render.advice import Advice

_LONGEST_LINE = 600
_MOST_LINES = 200
"""Of parameters, a preview or a compensation, in the terminal."""
_LABELS = 14
"""Columns for the names of facts."""

_LOOKS = {
    "waiting": ("?", "bold yellow"),
    "expired": ("–", "dim"),
    "approved": ("✓", "green"),
    "denied": ("⊘", "magenta"),
    "withdrawn": ("■", "dim"),
}


def _text(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse what is empty, and bytes that are no text: neither can be kept as a name or a reason."""
    value = not_empty(context, parameter, value)
    try:
        if value is not None:
            value.encode()
    except UnicodeEncodeError:
        raise click.BadParameter("it is no text in UTF-8.", context, parameter) from None
    return value


id_argument = click.argument("id", metavar="ID", callback=_text)
by_option = click.option(
    "--by", metavar="NAME", callback=_text, help="Who decides. Default: the name you are logged in with."
)


@click.group(cls=Subject, short_help="List what waits for a person, show one, approve or deny it.")
def approvals() -> None:
    """What waits for a person's decision. Without a command: all that does."""


@approvals.command("list", short_help="What waits to be decided.")
@click.option("--run", metavar="RUN", callback=_text, help="Of this run; the start of its id is enough.")
@click.option(
    "--all", "with_closed", is_flag=True, help="Also the newest that are decided, or too old to be."
)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many at most.")
@db_option
@json_option
@click.pass_obj
def list_approvals(
    output: Output, run: str | None, with_closed: bool, limit: int, db: str | None, as_json: bool
) -> int:
    """List what waits to be decided, oldest first; with --all then the newest that no longer do.

    Exit codes: 0 listed, also if there is nothing, 2 bad input.
    """
    import time

    from assent.app.app import open_records
    from assent.approvals.sql import has_approvals
    from assent.render.advice import db_words
    from assent.render.text import count

    waiting: list[Approval] = []
    newest: list[Approval] = []
    with open_records(db) as records:
        name = records.database.name
        if has_approvals(records.database):
            run = _run_id(records, run)
            waiting = records.approvals.pending(run=run)
            if with_closed:
                newest = records.approvals.recent(limit + len(waiting), run=run)
    now = time.time()
    # Somebody may decide one between the two looks, or its time run out: it stands in one of the lists.
    known = {one.id for one in waiting}
    closed = [one for one in newest if one.id not in known and not one.open_at(now)]
    shown = waiting[:limit] + closed[:limit]
    left_out = len(waiting) - limit
    if as_json:
        output.show_json({"approvals": [_as_data(one, now) for one in shown], "left_out": max(left_out, 0)})
        return 0
    if not waiting:
        of_run = "" if run is None else f" of run '{run}'"
        output.talk(f"Nothing{of_run} waits for a decision in {name}.")
    if shown:
        width = output.result_console().width
        output.show(_table(shown, output.redactor, now, width, with_status=with_closed))
    if left_out > 0:
        output.talk(f"{count(left_out, 'more waits', 'more wait')}; see them with --limit.")
    if waiting:
        output.talk(f"See what one is about, and how to decide it: assent approvals show ID{db_words(db)}")
    return 0


@approvals.command(short_help="What one is about.")
@id_argument
@db_option
@json_option
@click.pass_obj
def show(output: Output, id: str, db: str | None, as_json: bool) -> int:
    """Show what would be done, why that is asked and until when it can be decided. The start of ID is enough.

    Long texts are cut in the middle; --json shows them whole. Secrets are not shown.

    Exit codes: 0 shown, 2 there is no such approval.
    """
    import time

    from rich.text import Text

    from assent.app.app import open_records
    from assent.render.advice import db_words, name_words

    now = time.time()
    with open_records(db) as records:
        found = _find(records, id)
    if as_json:
        output.show_json(_as_data(found, now))
        return 0
    shown = _without_secrets(found, output.redactor)
    output.show(*_description(shown, now, output.result_console().width))
    if shown != found:
        output.show(Text("What is secret is not shown; the decision is about the values as they are."))
    if found.isolation == "none":
        output.show(
            Text("Nothing keeps code that runs in the same account from answering this by itself.", "dim")
        )
    if found.open_at(now):
        rest = f"{name_words(found.id)}{db_words(db)}"
        output.show(Text("To decide:"))
        output.show(Text(f"  assent approvals approve {rest}"))
        output.show(Text(f"  assent approvals deny {rest} --reason TEXT"))
    return 0


@approvals.command(short_help="Say yes.")
@id_argument
@click.option("--always", is_flag=True, help="Also whenever exactly the same is asked again.")
@click.option(
    "--for", "span_s", type=Span(), metavar="DURATION", help="How long --always holds: 30m, 12h, 7d."
)
@click.option("--reason", metavar="TEXT", callback=_text, help="Why.")
@by_option
@db_option
@json_option
@click.pass_obj
def approve(
    output: Output,
    id: str,
    always: bool,
    span_s: float | None,
    reason: str | None,
    by: str | None,
    db: str | None,
    as_json: bool,
) -> int:
    """Let the action that ID asks for run, this one time or --always. The start of ID is enough.

    `--always` is for the same tool with the same parameters, folder, tenant and policies. A decision is
    final.

    Exit codes: 0 approved, 2 there is no such approval, or it can no longer be decided.
    """
    import time

    if span_s is not None and not always:
        raise click.UsageError("--for says how long an approval stands. Add --always.")
    until = time.time() + span_s if span_s is not None else None
    return _decide(output, id, "always" if always else "once", by, reason, until, db, as_json=as_json)


@approvals.command(short_help="Say no.")
@id_argument
@click.option("--reason", metavar="TEXT", required=True, callback=_text, help="Why; whoever asked is told.")
@by_option
@db_option
@json_option
@click.pass_obj
def deny(output: Output, id: str, reason: str, by: str | None, db: str | None, as_json: bool) -> int:
    """Keep the action that ID asks for from running. The start of ID is enough.

    This also ends an earlier `--always` for the same. A decision is final.

    Exit codes: 0 denied, 2 there is no such approval, or it can no longer be decided.
    """
    return _decide(output, id, "deny", by, reason, None, db, as_json=as_json)


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

    from assent.app.app import open_records
    from assent.approvals.approval import how_decided
    from assent.render.text import clean

    with open_records(db, writes=True) as records:
        found = _find(records, given)
        made = records.approvals.decide(
            found.id,
            decision,
            by=by or _login_name(),
            reason=reason,
            holds_until=holds_until,
            fingerprint=found.fingerprint,
        )
        advice = list(_advise(records, made, db))
    if as_json:
        output.show_json({**_as_data(made, time.time()), "next": [one._asdict() for one in advice]})
        return 0
    sign, style = _LOOKS[_status(made, time.time())]
    shown = _without_secrets(made, output.redactor)
    output.show(Text.assemble((sign, style), f" {_what(shown)} was {clean(how_decided(shown), 500)}."))
    for one in advice:
        output.show(Text(one.sentence))
        if one.command:
            output.show(Text(f"  {one.command}"))
    return 0


def _find(records: Records, given: str) -> Approval:
    from assent.approvals.approval import unknown_approval
    from assent.approvals.sql import has_approvals

    if not has_approvals(records.database):
        raise unknown_approval(given)
    return records.approvals.find(given)


def _run_id(records: Records, given: str | None) -> str | None:
    """The whole id of a run; one that is not kept here may have asked all the same."""
    from assent.errors import StorageUnavailable, UnknownRun

    if given is None or records.approvals.recent(1, run=given):
        return given
    try:
        return records.journal.find(given).run_id
    except StorageUnavailable:
        raise UnknownRun(f"There is no run '{given}' in {records.database.name}. See: assent runs") from None


def _login_name() -> str:
    import getpass
    import os
    from contextlib import suppress

    with suppress(OSError, KeyError, ImportError):  # Such an account has a number and no name.
        name = getpass.getuser().strip()
        if name:
            return name.encode(errors="backslashreplace").decode()
    return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"


def _advise(records: Records, approval: Approval, db: str | None) -> Iterator[Advice]:
    """How the run goes on."""
    from assent.durable.sql import RESUMABLE
    from assent.errors import RunError, StorageError
    from assent.render.advice import Advice, db_words, name_words
    from assent.render.text import clean

    run, place = name_words(approval.run_id), db_words(db)
    try:
        if others := len(records.approvals.pending(run=approval.run_id)):
            what = (
                "Another question of this run waits" if others == 1 else f"{others:,} more of this run wait"
            )
            yield Advice(f"{what} to be decided:", f"assent approvals list --run {run}{place}")
        summary = records.journal.find(approval.run_id)
        status = summary.status if summary.run_id == approval.run_id else None
    except (RunError, StorageError):
        status = None
    if status is None:
        yield Advice(
            "Its run is not kept in this database; if its process still runs, that goes on by itself."
        )
    elif status == "running":
        yield Advice("Its run is at work and goes on by itself.")
    elif status == "interrupted" or status in RESUMABLE:
        yield Advice("To go on with the run:", f"assent resume {run}{place}")
    else:
        yield Advice(f"Its run has ended ({clean(status, 40)}), and stays as it is.")


def _status(approval: Approval, now: float) -> str:
    match approval.decision:
        case None:
            return "waiting" if approval.open_at(now) else "expired"
        case "once" | "always":
            return "approved"
        case "deny":
            return "denied"
        case "withdrawn":
            return "withdrawn"


def _as_data(approval: Approval, now: float) -> dict[str, Any]:
    import msgspec

    return {**msgspec.to_builtins(approval), "status": _status(approval, now)}


def _without_secrets(approval: Approval, redactor: Redactor) -> Approval:
    """The approval as it may be shown. Before anything is cut: half a secret would not be known as one."""
    from msgspec.structs import replace

    def of(text: str | None) -> str | None:
        return text if text is None else redactor.text(text)

    return replace(
        approval,
        run_id=redactor.text(approval.run_id),
        action_id=redactor.text(approval.action_id),
        tool=redactor.text(approval.tool),
        parameters=redactor.value(approval.parameters),
        compensation=redactor.value(approval.compensation),
        preview=of(approval.preview),
        reasons=[redactor.text(reason) for reason in approval.reasons],
        agent=of(approval.agent),
        folder=of(approval.folder),
        tenant=of(approval.tenant),
        reason=of(approval.reason),
        decided_by=of(approval.decided_by),
    )


def _table(found: list[Approval], redactor: Redactor, now: float, width: int, *, with_status: bool) -> Any:
    from rich.table import Table
    from rich.text import Text

    from assent.render.text import clean, columns

    headings = ["id", "status", "run", "action", "tool", "why", "asked", "expires"]
    flexible = {"run": 24, "action": 24, "tool": 24, "why": 60}
    rows = []
    for one in (_without_secrets(each, redactor) for each in found):
        status = _status(one, now)
        cells = (
            clean(one.id, 40),
            f"{_LOOKS[status][0]} {status}",
            *(clean(text, 60) for text in (one.run_id, one.action_id, one.tool, _reasons(one)[0])),
            _ago(now - one.requested_at),
            _expiry(one, now),
        )
        rows.append(dict(zip(headings, cells, strict=True)))
    if not with_status:
        headings.remove("status")
    # An id that is cut cannot be copied: the texts share what the rest leaves over, or give way.
    sizes = {name: max(columns(text) for text in [name, *(row[name] for row in rows)]) for name in headings}
    room = width - 2 * (len(headings) - 1) - sum(sizes[name] for name in headings if name not in flexible)
    for name in ("run", "action", "tool"):
        if room < 24:
            headings.remove(name)
            room += 2
        else:
            sizes[name] = min(sizes[name], flexible[name], max(room // 5, 6))
            room -= sizes[name]
    sizes["why"] = min(sizes["why"], flexible["why"], max(room, 12))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in headings:
        table.add_column(
            name, no_wrap=True, overflow="ellipsis", min_width=sizes[name], max_width=sizes[name]
        )
    for row in rows:
        style = {"status": _LOOKS[row["status"][2:]][1]}
        table.add_row(*(Text(row[name], style=style.get(name, "")) for name in headings))
    return table


def _what(approval: Approval) -> str:
    from assent.render.text import clean

    return (
        f"{clean(approval.tool, 80)}, action '{clean(approval.action_id, 80)}' "
        f"of run {clean(approval.run_id, 80)},"
    )


def _reasons(approval: Approval) -> list[str]:
    return list(approval.reasons) or [f"it is {approval.risk} and {approval.reversibility}"]


def _description(approval: Approval, now: float, width: int) -> Iterator[Text]:
    """Everything that whoever decides has to know, line by line."""
    from rich.text import Text

    from assent.approvals.approval import how_decided, moment
    from assent.cli.output import to_json
    from assent.render.text import clean

    status = _status(approval, now)
    sign, style = _LOOKS[status]
    yield Text.assemble((f"{sign} {status}", style), f"  {_what(approval).rstrip(',')}")
    end = approval.expires_at
    facts: list[tuple[str, str | None]] = [
        ("id", approval.id),
        *(("asked because" if not n else "", reason) for n, reason in enumerate(_reasons(approval))),
        ("risk", approval.risk),
        ("undoing", approval.reversibility),
        ("tier", approval.tier),
        ("folder", approval.folder),
        ("tenant", approval.tenant),
        ("agent", approval.agent),
        ("isolation", approval.isolation if approval.isolation != "none" else None),
        ("fingerprint", approval.fingerprint[:16]),
        ("asked", f"{moment(approval.requested_at)} ({_ago(now - approval.requested_at)})"),
        ("expires", "never" if end is None else f"{moment(end)} ({_expiry(approval, now)})"),
        ("decision", how_decided(approval) or None),
    ]
    for label, fact in facts:
        if fact is not None:
            yield from _fact(label, clean(fact, _LONGEST_LINE), width)
    yield from _block("parameters", to_json(approval.parameters, indent=True), width)
    if approval.preview is not None:
        yield from _block("what would change", approval.preview, width)
    if approval.compensation is not None:
        yield from _block(
            "what would take it back, and is approved with it",
            to_json(approval.compensation, indent=True),
            width,
        )


def _fact(label: str, words: str, width: int) -> Iterator[Text]:
    from rich.text import Text

    from assent.render.text import wrap

    for number, line in enumerate(wrap(words, max(width - _LABELS - 3, 20))):
        yield Text.assemble((f"  {label if not number else '':{_LABELS}}", "dim"), f" {line}")


def _block(heading: str, text: str, width: int) -> Iterator[Text]:
    """A text of several lines, behind a bar: a long line must not go on at the margin, as if it were ours."""
    from rich.text import Text

    from assent.render.text import clean

    yield Text(f"{heading}:")
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    left_out = len(lines) - _MOST_LINES
    if left_out > 0:
        half = _MOST_LINES // 2
        lines[half:-half] = [f"… {left_out:,} lines are left out here; see them with --json …"]
    for line in lines:
        for piece in _pieces(_cut(clean(line)), max(width - 4, 20)):
            yield Text.assemble(("  │ ", "dim"), piece)


def _pieces(line: str, width: int) -> Iterator[str]:
    """A line in pieces that fit. Not between words: here every space counts."""
    from assent.render.text import columns

    begun, used = 0, 0
    for position, character in enumerate(line):
        size = columns(character)
        if used + size > width:
            yield line[begun:position]
            begun, used = position, 0
        used += size
    yield line[begun:]


def _cut(line: str) -> str:
    """A line without its middle, if it is long."""
    left_out = len(line) - _LONGEST_LINE
    if left_out <= 0:
        return line
    half = _LONGEST_LINE // 2
    return f"{line[:half]} … {left_out:,} characters are left out here; see them with --json … {line[-half:]}"


def _expiry(approval: Approval, now: float) -> str:
    if approval.expires_at is None:
        return "never"
    left = approval.expires_at - now
    return f"in {_span(left)}" if left > 0 else _ago(-left)


def _ago(seconds: float) -> str:
    return "just now" if seconds < 60 else f"{_span(seconds)} ago"


def _span(seconds: float) -> str:
    from assent.render.text import count

    if seconds < 60:
        return "less than 1 min"
    if seconds < 7_200:
        return f"{int(seconds // 60)} min"
    if seconds < 172_800:
        return f"{int(seconds // 3600)} h"
    return count(int(seconds // 86_400), "day")
