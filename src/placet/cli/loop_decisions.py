"""What a person says to a round of a loop: recorded, and carried out at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from placet.cli.output import Output
from placet.truncation import redacted

if TYPE_CHECKING:
    from placet.approvals.approval import Approval, Decision
    from placet.loops.round import Round
    from placet.runtime.journal import Decision as RunDecision


_MOST_LINES = 400
"""Lines of a change that are shown with the question."""


def _asked_by_round(given: str, db: str | None) -> tuple[Approval, Round, str | None] | None:
    """The question, the round that asked it, and its policies; None if something else asked."""
    from placet.app.app import open_records
    from placet.app.escalations import policies_of, round_of
    from placet.cli.approvals import find
    from placet.cli.other_databases import look_elsewhere

    with look_elsewhere(db, "approval", given, "approvals show"), open_records(db) as records:
        approval = find(records, given)
        round = round_of(records, approval)
        if round is None or not round.is_waiting:
            return None
        return approval, round, policies_of(records, round)


def show_change(
    output: Output, round: Round, diff: str, gone: str, db: str | None, *, is_whole: bool
) -> None:
    """What a round changes, for whoever decides about it: of a long change the beginning."""
    from rich.text import Text

    from placet.render.advice import db_words
    from placet.render.diff import diff_lines
    from placet.safe_text import clean

    if gone:
        output.show(Text(f"The change is not shown: {clean(gone, 300)}"))
        return
    if not is_whole and diff.count("\n") > _MOST_LINES:
        diff = redacted(diff)
    lines = diff.removesuffix("\n").split("\n")
    cut = lines if is_whole else lines[:_MOST_LINES]
    output.show(Text("The change:"))
    output.show(*diff_lines("\n".join(cut)))
    if len(cut) < len(lines):
        left = len(lines) - len(cut)
        output.show(Text(f"... {left} further lines of the change are not shown here. All of it:"))
        output.show(Text(f"  placet loop diff {round.id}{db_words(db)}"))


def decide_round(
    output: Output,
    given: str,
    decision: Decision,
    by: str,
    reason: str | None,
    db: str | None,
    *,
    as_json: bool,
) -> int | None:
    """Decide what a round asked, and carry that out; the exit code. None if it was no round that asked."""
    from placet.app.escalations import open_decider
    from placet.errors import ApprovalDecided
    from placet.loops.copies import BaseMoved
    from placet.render.advice import db_words
    from placet.runtime.sync import run_sync

    found = _asked_by_round(given, db)
    if found is None:
        return None
    approval, round, policies = found
    if decision in ("always", "edits"):
        raise click.UsageError(
            f"What a round of a loop asks is about one change. Approve it without --{decision}."
        )
    with open_decider(round, db=db, policies=policies) as engine:
        try:
            with output.waiting(f"carrying out what was decided about round {round.number}"):
                ended = run_sync(engine.decide(round.id, decision, by=by, reason=reason))
        except BaseMoved as error:
            output.talk(str(error).replace(" ID ", f" {approval.id} "))
            return 3
        except ApprovalDecided:
            # The process that had decided it may have died before it was carried out.
            output.talk(f"If that was not carried out or closed yet: placet resume {round.id}{db_words(db)}")
            raise
    return _show(output, ended, approval.id, as_json=as_json)


def rebase_round(
    output: Output, given: str, by: str, model: str | None, db: str | None, *, as_json: bool
) -> int:
    """Have a change brought over to where the person is now, and checked again; the exit code."""
    import os
    from pathlib import Path

    import msgspec

    from placet.app.loop_files import loop_named, trusted_loops
    from placet.app.loops import open_loops
    from placet.app.options import RunOptions
    from placet.cli.loop_options import home_of
    from placet.cli.signals import Stopping
    from placet.cli.trust import terminal_question
    from placet.errors import UsageError
    from placet.loops.levels import lower_of
    from placet.render.advice import db_words
    from placet.runtime.sync import run_sync
    from placet.tools.context import Cancel

    found = _asked_by_round(given, db)
    if found is None:
        raise click.UsageError("--rebase is for what a round of a loop asked, and waits.")
    _, round, policies = found
    if any(each.what == "unknown" for each in round.later):
        raise UsageError(
            f"Nobody knows whether what round '{round.id}' came to was done. Look, and say so first: placet "
            f"resume {round.id} --decide act=done|retry|fail"
        )
    top = Path(round.repository)
    # A project below the top is found from there; a round does not say which it was.
    here = home_of(None) if Path.cwd().resolve().is_relative_to(top) else top
    confirm = terminal_question(output)
    # The file may have been changed, or taken away, since the round began: it says how far the loop may go.
    now = loop_named(trusted_loops(top, here, os.environ, confirm), round.loop)
    spec = msgspec.structs.replace(round.spec, level=lower_of(round.spec.level, now.level))
    specs = {round.loop: now}
    with open_loops(
        top,
        specs,
        RunOptions(model=model, policies=policies),
        start=here,
        db=db,
        say=output.talk,
        report=lambda text: None,
    ) as app:
        cancel = Cancel()

        async def bring() -> Round | None:
            with Stopping(cancel):
                return await app.rebase(round, spec, by, cancel)

        with output.waiting(f"bringing round {round.number} over, and checking it again"):
            made = run_sync(bring())
    if made is None:
        output.talk(
            "It was broken off, and what was asked still waits. Go on with it: placet loop run "
            f"{round.loop}{db_words(db)}"
        )
        return 130
    if as_json:
        output.show_json(_data(made))
    else:
        output.show(
            f"Round {made.number} of loop '{made.loop}' brought it over: {made.outcome}. {made.reason}"
            if made.is_waiting
            else f"Round {made.number} of loop '{made.loop}' ended: {made.outcome}. {made.reason}"
        )
        if made.is_waiting and made.approval:
            output.show(f"  placet approvals show {made.approval}")
    if made.outcome in ("failed", "budget_exhausted"):
        output.talk("What was asked before still waits.")
        return 1
    return 4 if made.is_waiting else 0


def resume_round(
    output: Output, given: str, decide: Mapping[str, RunDecision], db: str | None, *, as_json: bool
) -> int:
    """Settle a round that was decided about, or of whose act nobody knows what became; the exit code.

    Raises:
        UsageError: its maker or checker is still to work, which takes a model.
    """
    from placet.app.app import open_records
    from placet.app.escalations import open_decider, policies_of
    from placet.errors import UsageError
    from placet.runtime.sync import run_sync

    with open_records(db) as records:
        round = records.rounds.find(given)
        policies = policies_of(records, round)
    if round.is_open and round.phase not in ("executing", "recording"):
        raise UsageError(
            f"Round '{round.id}' of loop '{round.loop}' was broken off. Go on with it: placet loop run "
            f"{round.loop}; a scheduler does so by itself: placet loop start"
        )
    if decide and not (round.is_open or round.is_waiting):
        raise UsageError(f"Round '{round.id}' has ended ({round.outcome}); nothing is to be decided.")
    waiting = output.waiting(f"carrying out round {round.number}")
    with open_decider(round, db=db, policies=policies) as engine, waiting:
        ended = run_sync(engine.resume(round.id, decide=decide or None))
    return _show(output, ended, ended.approval, as_json=as_json)


def _show(output: Output, round: Round, approval: str, *, as_json: bool) -> int:
    from rich.text import Text

    from placet.safe_text import clean

    said = round.later[-1] if round.later else None
    if as_json:
        output.show_json({"approval": approval, **_data(round)})
    elif round.is_waiting:
        why = said.reason if said is not None and said.what == "unknown" else round.reason
        output.show(Text(f"Round {round.number} of loop '{round.loop}' still waits: {clean(why, 500)}"))
    elif said is not None and said.what != "unknown":
        signed = f" by {clean(said.by, 80)}" if said.by else ""
        output.show(Text(f"Round {round.number} of loop '{round.loop}' was {said.what}{signed}."))
        if round.receipt is not None:
            output.show(Text(f"Done: {clean(round.receipt.summary, 500)}"))
        elif said.what == "failed":
            output.show(Text(f"It was approved, and not done: {clean(said.reason, 500)}"))
    else:
        more = f": {clean(round.reason, 500)}" if round.reason else "."
        output.show(Text(f"Round {round.number} of loop '{round.loop}' ended ({round.outcome}){more}"))
    if round.is_waiting:
        return 4
    has_failed = round.outcome in ("failed", "budget_exhausted") or (
        said is not None and said.what == "failed"
    )
    return 1 if has_failed else 0


def _data(round: Round) -> dict[str, object]:
    from placet.loops.delivery import round_data

    return round_data(round)
