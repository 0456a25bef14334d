"""The commands of `placet code` that look at sessions and decide: list, show, diff, approve, deny, cancel,
answer, repairs, prune."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from placet.cli.code_options import repo_option, session_argument
from placet.cli.inputs import (
    before_option,
    count_option,
    db_option,
    json_option,
    plain_text,
    reason_option,
    single,
)
from placet.cli.output import Output
from placet.cli.places import all_option, folder_option, look_in, scope_of, talk_of_elsewhere
from placet.truncation import truncate

if TYPE_CHECKING:
    from pathlib import Path

    from placet.app.app import Records
    from placet.app.coder import CoderApp
    from placet.coder.repairs import Repair
    from placet.coder.session import Question, Session, State

_STATES = (
    "created",
    "contract_proposed",
    "contract_confirmed",
    "running",
    "needs_approval",
    "merged",
    "failed",
    "abandoned",
)


class _StateWord(click.ParamType[str]):
    """A state, as JSON has it or as people see it."""

    name = "state"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from placet.render.coding import state_named, state_words

        found = state_named(value)
        if found is None:
            known = ", ".join(
                state if (words := state_words(state)) == state else f"'{words}' ({state})"
                for state in _STATES
            )
            self.fail(f"there is no state '{truncate(value, 80)}'. States are: {known}.", param, ctx)
        return found


_MOST_BYTES = 16 * 2**20
"""Of a file of repairs."""


@click.command("list", short_help="The newest sessions.")
@click.option(
    "--state",
    type=_StateWord(),
    metavar="STATE",
    help="Only those that stand so: a word of the list, such as published, or its name in JSON.",
)
@count_option("--limit", 20)
@folder_option
@all_option
@db_option
@json_option
@click.pass_obj
def list_sessions(
    output: Output,
    state: State | None,
    limit: int,
    folder: str | None,
    is_all: bool,
    db: str | None,
    as_json: bool,
) -> int:
    """List the newest coding sessions of this folder's project, newest first.

    Exit codes: 0 listed, also if there are none, 2 bad input.
    """
    from placet.cli.other_databases import hidden_records
    from placet.coder.store_sql import has_sessions
    from placet.render.coding import draw_sessions, state_words

    place = scope_of(folder, is_all=is_all)

    def look(records: Records) -> tuple[list[dict[str, Any]], int, str]:
        found: Sequence[Session] = ()
        elsewhere = 0
        if has_sessions(records.database):
            found = records.sessions.listed(state=state, folder=place, limit=limit)
            elsewhere = records.sessions.elsewhere(place, state=state) if place is not None else 0
        return [_data(records, session) for session in found], elsewhere, records.database.name

    nothing: tuple[list[dict[str, Any]], int, str] = ([], 0, "")
    listed, elsewhere, name = look_in(db, look, nothing)
    hidden = None if listed else hidden_records(db, "sessions", place=place)
    if as_json:
        data = {"sessions": listed, "elsewhere": elsewhere}
        output.show_json({**data, **hidden.data()} if hidden else data)
        return 0
    if not listed:
        where = f"{name}{f' of {place}' if place is not None else ''}"
        which = "" if state is None else f" is {state_words(state)}"
        output.talk(f"No coding session in {where}{which}." if name else "There is no coding session yet.")
        if hidden:
            hidden.talk(output)
    else:
        shown = [{**each, "intent": output.redactor.text(str(each["intent"]))} for each in listed]
        output.show(*draw_sessions(shown, width=output.width, with_folders=is_all))
        if len(listed) == limit:
            output.talk(f"Only the newest {limit} are shown: --limit")
    talk_of_elsewhere(output, elsewhere, is_more=bool(listed))
    return 0


@click.command(short_help="How one session stands.")
@session_argument
@db_option
@json_option
@click.pass_obj
def show(output: Output, id: str, db: str | None, as_json: bool) -> int:
    """Show how session ID (the start of it is enough) stands: its checks and what came of them, attempts and
    iterations with what they took, open questions, and what to do next.

    Exit codes: 0 shown, 2 there is no such session.
    """
    from rich.text import Text

    from placet.app.app import open_records
    from placet.app.coder import find_session
    from placet.cli.other_databases import look_elsewhere
    from placet.render.coding import next_steps, session_lines, steps_data

    with look_elsewhere(db, "session", id, "code show"), open_records(db) as records:
        data = _data(records, find_session(records, id))
    if as_json:
        output.show_json({**data, "next": steps_data(data, db, is_shown=True)})
        return 0
    output.show(*session_lines(data))
    for step in next_steps(data, db, is_shown=True):
        output.show(Text(step.sentence))
        if step.command:
            output.show(Text(f"  {step.command}"))
    return 0


@click.command(short_help="What a session has changed.")
@session_argument
@click.option(
    "--raw", is_flag=True, help="As it is, with what would steer a terminal, for `git apply`; not on one."
)
@click.option(
    "--whole",
    is_flag=True,
    help="All that the commit changes: also what you had not committed, where the work began with it.",
)
@db_option
@json_option
@click.pass_obj
def diff(output: Output, id: str, raw: bool, whole: bool, db: str | None, as_json: bool) -> int:
    """Show what the model has changed in session ID as a unified diff: as it would be published, or as it was
    checked last.

    Characters that steer a terminal are shown as escapes, and secrets are not shown.

    Exit codes: 0 shown, also if nothing is changed, 2 there is no such session.
    """
    from placet.cli.code_view import show_diff
    from placet.render.coding import included_words, whole_command
    from placet.runtime.sync import run_sync

    output.claim()
    if raw and output.result_console().is_terminal:
        raise click.UsageError("--raw is for a file or a pipe; on a terminal the text would steer it.")
    with _deciding(output, id, db) as (app, session):
        text = run_sync(app.coder.diff(session.id, whole=whole))
    if as_json:
        output.show_json(
            {"id": session.id, "state": session.state, "included": session.included, "diff": text}
        )
    elif raw:
        output.write(text)
    else:
        show_diff(output, text)
        if not text:
            is_checked = session.result or any(each.judged is not None for each in session.attempts)
            output.talk("Nothing is changed." if is_checked else "Nothing was checked yet.")
    if session.included and not whole and not as_json:
        own = included_words(session.included, is_published=session.state == "merged")
        output.talk(f"{own} To see all: {whole_command(session.id, db)}")
    return 0


@click.command(short_help="Confirm a contract, or publish a change.")
@session_argument
@click.option("--keep", is_flag=True, help="Leave the private copies where they are.")
@db_option
@json_option
@click.pass_obj
def approve(output: Output, id: str, keep: bool, db: str | None, as_json: bool) -> int:
    """Say yes to what session ID waits for: confirm the checks that a model has drafted, which `placet code
    resume` then works on; or publish a green change as one commit on the branch placet/ID.

    Nothing is pushed, and no other branch, file or setting of the repository changes.

    Exit codes: 0 approved, 2 there is no such session, or nothing to approve.
    """
    from placet.cli.approvals import login_name

    by = login_name()
    return _decide(
        output, id, db, lambda app, name: app.coder.approve(name, keep=keep, by=by), as_json=as_json
    )


@click.command(short_help="Refuse a contract, or a change.")
@session_argument
@reason_option
@db_option
@json_option
@click.pass_obj
def deny(output: Output, id: str, reason: str | None, db: str | None, as_json: bool) -> int:
    """Say no to what session ID waits for. Nothing is published, and the session is over.

    Exit codes: 0 denied, 2 there is no such session, or nothing to deny.
    """
    from placet.cli.approvals import login_name

    by = login_name()
    return _decide(
        output, id, db, lambda app, name: app.coder.deny(name, reason or "", by=by), as_json=as_json
    )


@click.command(short_help="End a session for good.")
@session_argument
@reason_option
@db_option
@json_option
@click.pass_obj
def cancel(output: Output, id: str, reason: str | None, db: str | None, as_json: bool) -> int:
    """End session ID: at once, or, where another process is at work on it, as soon as that has noticed.

    Exit codes: 0 ended, or about to, 2 there is no such session, or it has ended.
    """
    from placet.cli.approvals import login_name

    by = login_name()
    return _decide(
        output, id, db, lambda app, name: app.coder.cancel(name, reason or "", by=by), as_json=as_json
    )


@click.command(short_help="Answer what a model asks.")
@session_argument
@click.argument("text", metavar="TEXT", callback=plain_text)
@db_option
@json_option
@click.pass_obj
def answer(output: Output, id: str, text: str, db: str | None, as_json: bool) -> int:
    """Answer question ID with TEXT. ID may also be that of a session which has one open question.

    Exit codes: 0 answered, 2 there is no such question, or nobody waits for its answer any longer.
    """
    import msgspec

    from placet.app.app import open_records
    from placet.cli.approvals import login_name

    with open_records(db, writes=True) as records:
        question = _question(records, id)
        made = records.sessions.answer(question, text, login_name())
    if as_json:
        output.show_json(msgspec.to_builtins(made))
    else:
        output.talk(f"Answered: {made.text}")
    return 0


@click.command(short_help="What helped when checks failed.")
@repo_option
@single("--export", "target", metavar="FILE", help="Write them to this file, to be shared.")
@single("--import", "source", metavar="FILE", help="Bring in what somebody has shared.")
@single("--forget", metavar="ID", help="Drop one.")
@db_option
@json_option
@click.pass_obj
def repairs(
    output: Output,
    repo: str | None,
    target: str | None,
    source: str | None,
    forget: str | None,
    db: str | None,
    as_json: bool,
) -> int:
    """List what helped when checks failed in the repository here. The next time that a check fails the same
    way, the model is told. What did not help loses rank.

    Exit codes: 0 done, 2 bad input.
    """
    from pathlib import Path

    from placet.app.app import open_records
    from placet.memory.sql import has_memory
    from placet.render.text import count
    from placet.runtime.sync import run_sync

    output.claim()
    if sum(each is not None for each in (target, source, forget)) > 1:
        raise click.UsageError("--export, --import and --forget are three things. Give one of them.")
    key = run_sync(_repository_key(Path(repo or ".")))
    if source is not None:
        data = _read(source)
        with open_records(db, create=True, writes=True) as records:
            number = records.repairs.bring_in(key, data)
        return _done(output, {"brought_in": number}, _news(number), as_json)
    if forget is not None:
        with open_records(db, writes=True) as records:
            gone = _forget(records, key, forget)
        words = f"Forgotten: {gone.id[:12]}, {truncate(' '.join(gone.approach.split()), 100)}"
        return _done(output, {"forgotten": gone.id}, words, as_json)
    with open_records(db) as records:
        has_any = has_memory(records.database)
        found = records.repairs.entries(key) if has_any else []
        exported = records.repairs.export(key) if has_any and target is not None else b""
    if target is not None:
        if not found:
            raise click.UsageError("Nothing is remembered of this repository, so there is nothing to export.")
        Path(target).write_bytes(exported)
        return _done(
            output, {"exported": len(found)}, f"{count(len(found), 'repair')} written to {target}.", as_json
        )
    _list_repairs(output, [_repair(each) for each in found], as_json=as_json)
    return 0


async def _repository_key(folder: Path) -> str:
    """What the repository around a folder is known by."""
    from placet.coder.repairs import repository_key
    from placet.worktree.repository import find_repository, first_commit

    found = await find_repository(folder)
    return repository_key(found.common, await first_commit(found))


def _list_repairs(output: Output, found: list[dict[str, Any]], *, as_json: bool) -> None:
    from placet.render.coding import repairs_table

    if as_json:
        output.show_json({"repairs": found})
    elif not found:
        output.talk("Nothing is remembered of this repository.")
    else:
        output.show(repairs_table(found))


def _repair(repair: Any) -> dict[str, Any]:
    import msgspec

    data: dict[str, Any] = msgspec.to_builtins(repair)
    del data["repository"]
    return data


def _news(number: int) -> str:
    from placet.render.text import count

    if not number:
        return "Nothing in it is new."
    counts = "counts" if number == 1 else "count"
    return f"{count(number, 'repair is', 'repairs are')} new, or {counts} otherwise now."


def _forget(records: Records, key: str, given: str) -> Repair:
    """The one that was dropped."""
    from placet.errors import UsageError

    found = [each for each in records.repairs.entries(key) if each.id.startswith(given)]
    if len(found) != 1:
        what = "Several begin" if found else "None begins"
        raise UsageError(f"{what} with '{truncate(given, 80)}'. See `placet code repairs`.")
    records.repairs.forget(key, found[0].id)
    return found[0]


def _read(path: str) -> bytes:
    from pathlib import Path

    from placet.app.files import unusable

    try:
        with Path(path).open("rb") as file:
            return file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise unusable("read the repairs", path, error) from None


def _done(output: Output, data: dict[str, Any], words: str, as_json: bool) -> int:
    if as_json:
        output.show_json(data)
    else:
        output.talk(words)
    return 0


@click.command(short_help="Drop old sessions that have ended.")
@before_option
@db_option
@json_option
@click.pass_obj
def prune(output: Output, before: float, db: str | None, as_json: bool) -> int:
    """Drop sessions that ended before WHEN, with their private copies on this machine. What was published and
    what was learned stays; runs are dropped by `placet runs prune`, events by `placet log prune`.

    Exit codes: 0 done, also if there was nothing to drop, 2 bad input.
    """
    import os

    from placet.app.app import open_records
    from placet.app.coder import prune_sessions
    from placet.render.text import count

    with open_records(db, writes=True) as records:
        dropped = prune_sessions(records, before, os.environ)
    words = f"{count(len(dropped), 'session')} dropped." if dropped else "No session ended before that."
    return _done(output, {"dropped": len(dropped)}, words, as_json)


# Sessions


@contextmanager
def _deciding(output: Output, given: str, db: str | None) -> Iterator[tuple[CoderApp, Session]]:
    """A coder that only decides and shows, and the session that is meant."""
    from pathlib import Path

    from placet.app.app import open_records
    from placet.app.coder import find_session, open_coder
    from placet.cli.other_databases import look_elsewhere
    from placet.cli.trust import terminal_question

    with look_elsewhere(db, "session", given, "code show"), open_records(db) as records:
        session = find_session(records, given)
    with open_coder(
        Path(session.repository), db=db, works=False, create=False, confirm=terminal_question(output)
    ) as app:
        output.redactor = app.redactor
        yield app, session


def _decide(
    output: Output,
    given: str,
    db: str | None,
    decide: Callable[[CoderApp, str], Awaitable[Session]],
    *,
    as_json: bool,
) -> int:
    from placet.engine.queue_engine import wake_decided
    from placet.render.coding import ending_lines, steps_data
    from placet.runtime.sync import run_sync

    output.claim()

    async def deciding(app: CoderApp, name: str) -> Session:
        return await decide(app, name)

    with _deciding(output, given, db) as (app, session):
        made = run_sync(deciding(app, session.id))
        assert app.records is not None
        wake_decided(app.records, made.id)
        data = _data(app.records, made)
    if as_json:
        output.show_json({**data, "next": steps_data(data, db)})
        return 0
    if made.is_open and data["run_status"] == "running":
        output.talk("Whoever is at work on it is asked to stop.")
        return 0
    for line in ending_lines(data, db=db, is_kept=True):
        output.talk(line)
    return 0


def _data(records: Records, session: Session) -> dict[str, Any]:
    """A session as JSON, with how its run stands."""
    from placet.app.coder import session_data
    from placet.errors import UnknownRun

    try:
        status = records.journal.find(session.id).status
    except UnknownRun:
        status = "pruned"
    return session_data(session, records.sessions.questions(session.id), run_status=status)


def _question(records: Records, given: str) -> str:
    """The id of the question that is meant."""
    from placet.coder.store_sql import has_sessions
    from placet.errors import UsageError

    if not has_sessions(records.database):
        raise UsageError(f"There is no question '{truncate(given, 80)}': nobody has coded here yet.")
    if records.sessions.question(given) is not None:
        return given
    open_ones: list[Question] = records.sessions.questions()
    found = [each.id for each in open_ones if each.id.startswith(given) or each.session.startswith(given)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"Several questions are open: {', '.join(found[:5])}. Name one of them.")
    raise UsageError(
        f"No question that begins with '{truncate(given, 80)}' waits for an answer, and no session of "
        "that name has "
        "one. See `placet code show ID`."
    )


COMMANDS = (list_sessions, show, diff, approve, deny, cancel, answer, repairs, prune)
