"""A coder on the command line: put together from rules, records and a model, for one repository.

Keep true:
1. Nothing that a repository brings is loaded: its rules hold, its tools are not used, its contract waits for
   trust.
2. Commands must be kept in by the kernel unless a person asks for less, this time or by a lowering.
3. What decides how a session goes on is kept with its run, so that it goes on the same from anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from placet.app.app import Records, open_records
from placet.app.options import RunOptions, options_of, resume_options
from placet.safe_text import clean

if TYPE_CHECKING:
    from placet.app.governance import Question as TrustQuestion
    from placet.app.isolation import Required
    from placet.app.model_settings import ModelSettings
    from placet.app.models import Attached
    from placet.checks.contract import CheckResult, Contract
    from placet.coder.asking import AskPerson
    from placet.coder.coder import Coder
    from placet.coder.session import Attempt, CodeLimits, Iteration, Question, Session
    from placet.coder.store import Sessions
    from placet.inference.choice import Chosen
    from placet.inference.model import Model, Request, Result
    from placet.ir.json_value import JsonValue
    from placet.redaction import Redactor
    from placet.runtime.asking import Person
    from placet.runtime.runtime import Runtime

ASK_S = 600.0
"""How long a question waits for whoever sits at the terminal."""

Confirm = Callable[["TrustQuestion"], bool]


class CoderApp(NamedTuple):
    """A coder, and what is around it."""

    coder: Coder
    runtime: Runtime
    sessions: Sessions
    records: Records | None
    required: Required
    chosen: Chosen | None
    """The model that answers."""
    redactor: Redactor


class NoModel:
    """Stands where a model would, for whoever only decides something."""

    name = ""

    async def generate(self, request: Request) -> Result:
        """Refuses."""
        from placet.errors import ModelMissing

        raise ModelMissing("No model was opened: nothing is to be asked here.")


def home_folder(environment: Mapping[str, str]) -> Path:
    """Where the private copies of all sessions are."""
    from placet.storage.location import state_folder

    return state_folder(environment) / "code"


@contextmanager
def open_coder(
    repository: Path,
    options: RunOptions = RunOptions(),  # noqa: B008  (frozen)
    *,
    db: str | None,
    works: bool = True,
    is_new: bool = False,
    ask_s: float | None = None,
    ask: AskPerson | None = None,
    person: Person | None = None,
    confirm: Confirm | None = None,
    create: bool = True,
) -> Iterator[CoderApp]:
    """A coder for the repository around a folder, with what is kept in `db`; closed afterwards.

    One that never `works` only decides, shows and ends: it needs neither a model nor isolation. The isolation
    of the options is in the place of "process". Sessions that are resumed keep their limits; `is_new` is for
    one that begins, under the limits of the options. A `person` can be asked about a call right here, `ask`
    puts a model's question to somebody here, and `confirm` asks whether to trust what the folder brings.

    Raises:
        IsolationMissing: this machine enforces less than is required.
        ModelMissing: no model is set up.
        StorageError: the database cannot be used.
        UsageError: less isolation is asked for than settings require; or there is a limit on money, and
            nobody knows what the model costs.
    """
    from placet.app.models import attach
    from placet.app.private_work import ground, open_workplace
    from placet.coder.coder import Coder
    from placet.coder.repairs import Repairs
    from placet.coder.store import MemorySessions

    home = home_folder(os.environ)
    held = ground(
        repository,
        options,
        home=home,
        demands=[("process", "`placet code`")] if works else [],
        works=works,
        confirm=confirm,
    )
    attached = attach(options.model, held.rules.own.models, os.environ) if works else None
    limits = _limits(options, attached) if is_new else None
    if limits is not None and limits.cost_usd is not None:
        _check_price(attached, held.rules.own.models)
    with open_workplace(held, db=db, person=person, works=works, create=create) as place:
        records = place.records
        sessions: Sessions = records.sessions if records is not None else MemorySessions()
        coder = Coder(
            place.runtime,
            _model(attached),
            repository,
            home=home,
            sessions=sessions,
            repairs=records.repairs if records is not None else Repairs(redactor=place.redactor),
            isolation=held.confined,
            limits=limits,
            style=options.style if is_new else None,
            ask_s=ask_s,
            ask=ask,
        )
        chosen = attached.chosen if attached is not None else None
        yield CoderApp(coder, place.runtime, sessions, records, held.required, chosen, place.redactor)


def _model(attached: Attached | None) -> Model:
    from placet.app.assistant import model_of

    return model_of(attached) if attached is not None else NoModel()


def _limits(options: RunOptions, attached: Attached | None) -> CodeLimits:
    from placet.coder.session import CodeLimits
    from placet.inference.prices import facts_of

    facts = facts_of(attached.chosen.name) if attached is not None and attached.chosen is not None else None
    named = {"iterations": options.iterations, "turns": options.turns}
    return CodeLimits(
        **{name: value for name, value in named.items() if value is not None},
        tokens=options.tokens,
        cost_usd=options.cost_usd,
        time_s=options.time_s,
        context_tokens=facts.context if facts is not None else None,
    )


def _check_price(attached: Attached | None, settings: ModelSettings | None) -> None:
    """Refuse a limit on money that cannot be kept, before anything is spent.

    Raises:
        UsageError: nobody knows what the model costs.
    """
    from placet.errors import UsageError
    from placet.inference.opening import BUILT_IN
    from placet.inference.prices import facts_of

    if attached is None or attached.chosen is None:
        return
    name = attached.chosen.name
    # A script or a recording says itself what an answer is to have cost.
    if name.partition(":")[0] in BUILT_IN or facts_of(name, settings.prices if settings else None):
        return
    raise UsageError(
        f"The price of '{clean(name, 80)}' is not known, so --max-cost cannot be kept. Say what it costs, in "
        f'your settings under [models.prices."{clean(name, 80)}"], or limit it by --max-tokens or --time.'
    )


# The contract that a repository keeps


def kept_contract(
    top: Path, environment: Mapping[str, str], confirm: Confirm | None, *, description: str
) -> Contract | None:
    """The contract in the file of a repository, if it has one and a person trusts what the folder brings.
    Where it says nothing about itself, `description` does.

    Raises:
        PolicyFileError: the file means nothing as it stands; says where.
        TrustError: it is not trusted.
    """
    import msgspec

    from placet.app.governance import CONTRACT, RUNS_CHECKS, granted
    from placet.app.trust import snapshot
    from placet.checks.contract import FILE, read_contract
    from placet.errors import PolicyFileError, TrustError

    path = top / FILE
    if not (path.is_symlink() or path.exists()):
        return None
    # Read once: what was looked at is what is used.
    seen = snapshot(top)
    data = seen.files.get(CONTRACT)
    if data is None:
        raise PolicyFileError(
            str(path), "it is no plain file", fix="Make it one, or remove it.", what="Contract file"
        )
    contract = read_contract(data.decode(errors="replace"), str(path))
    if not granted(seen, (RUNS_CHECKS,), environment, confirm):
        raise TrustError(
            str(seen.folder), f"is not trusted, and it {RUNS_CHECKS}", "Name checks with --check."
        )
    if contract.description.strip():
        return contract
    return msgspec.structs.replace(contract, description=description)


# Sessions that are looked at


def find_session(records: Records, given: str) -> Session:
    """The session whose id begins so; also by the id of one of its runs.

    Raises:
        UsageError: there is none, or several; or it is a run of another kind.
    """
    from placet.coder.store import NoSession, only_one
    from placet.coder.store_sql import has_sessions
    from placet.errors import PlacetError, UsageError

    has_any = has_sessions(records.database)
    try:
        return records.sessions.find(given) if has_any else only_one([], given)
    except NoSession as error:
        try:
            run = records.journal.record(records.journal.find(given).run_id)
        except PlacetError:
            raise error from None
        name = session_of(run.proposal.context)
        found = records.sessions.get(name) if has_any and name is not None else None
        if found is None:
            raise UsageError(
                f"'{run.run_id}' is a run of another kind, and no coding session. See it with: "
                f"placet runs show {run.run_id}"
            ) from None
        return found


def resumed_session(
    given: str,
    named: RunOptions = RunOptions(),  # noqa: B008  (frozen)
    *,
    say: Callable[[str], None] = lambda text: None,
    db: str | None,
) -> tuple[Session, RunOptions]:
    """A session, and the options to resume it with: those it began with, and before them what is `named`.

    Raises:
        UsageError: there is no such session.
    """
    from msgspec.structs import replace

    with open_records(db) as records:
        session = find_session(records, given)
        summary = records.journal.find(session.id)
    began = options_of(summary)
    # Of its checks and of the settings it is found anew what commands must have.
    asked = named.isolation or (began.isolation if began is not None else None)
    return session, replace(resume_options(summary, named, say=say, db=db), isolation=asked)


def prune_sessions(records: Records, before: float, environment: Mapping[str, str]) -> list[str]:
    """Drop the sessions that ended before a moment, each with its folder here; returns their ids. One that a
    process is just about to let go of stays.

    Raises:
        InputError: a folder cannot be removed; its session stays.
    """
    from placet.app.files import unusable
    from placet.coder.store_sql import has_sessions
    from placet.errors import UnknownRun
    from placet.worktree.scratch import remove_tree
    from placet.worktree.snapshot.mounts import OtherMount

    dropped: list[str] = []
    for session in records.sessions.ended_before(before) if has_sessions(records.database) else ():
        try:
            if records.journal.find(session.id).status == "running":
                continue
        except UnknownRun:
            pass  # Its run was pruned.
        folder = home_folder(environment) / session.id
        # An id that we have not made could lead elsewhere.
        if folder.name == session.id != "..":
            try:
                # First: a session without its folder is pruned the next time, and a folder alone is not.
                remove_tree(folder)
            except (OSError, OtherMount) as error:
                raise unusable("remove", str(folder), error) from None
        records.sessions.drop(session.id)
        dropped.append(session.id)
    return dropped


def session_of(context: Mapping[str, JsonValue]) -> str | None:
    """The coding session that a run belongs to, by what is kept with the run; None if it belongs to none."""
    from placet.runtime.journal import LED_BY

    name = context.get("session")
    return name if context.get(LED_BY) == "coder" and isinstance(name, str) else None


def session_data(
    session: Session, questions: Sequence[Question] = (), *, run_status: str | None = None
) -> dict[str, Any]:
    """A session as JSON, without what only the loop needs. `run_status` is how its run stands."""
    folder = home_folder(os.environ) / session.id
    return {
        "id": session.id,
        "state": session.state,
        "reason": session.reason,
        "run_status": run_status,
        "intent": session.intent,
        "repository": session.repository,
        "model": session.model,
        "style": session.style,
        "begun_on": session.begun_on,
        "includes_changes": session.includes_changes,
        "included": list(session.included),
        "branch": session.branch or None,
        "commit": session.commit or None,
        "contract": _contract_data(session.contract),
        "checks": [_result_data(result) for result in session.results],
        "baseline": [_result_data(result) for result in session.baseline],
        "green": session.is_green,
        "candidates": session.candidates,
        "winner": session.winner,
        "attempts": [_attempt_data(attempt) for attempt in session.attempts],
        "iterations": session.iterations,
        # Whoever was answered has used some; none means that the model does not tell.
        "tokens": session.tokens or (None if _has_answers(session) else 0),
        "cost_usd": session.cost_usd,
        "created_at": session.created_at,
        "changed_at": session.changed_at,
        "questions": [_question_data(question) for question in questions],
        "has_change": bool(session.result)
        or any(each.judged is not None and each.judged.tree != session.base for each in session.attempts),
        "folder": str(folder) if any(folder.glob("attempt-*")) else None,
    }


def _has_answers(session: Session) -> bool:
    answered = (each.has_answers for attempt in session.attempts for each in attempt.iterations)
    return any(answered) or session.drafting is not None


def _contract_data(contract: Contract | None) -> JsonValue:
    import msgspec

    data: JsonValue = msgspec.to_builtins(contract)
    return data


def _result_data(result: CheckResult) -> dict[str, Any]:
    import msgspec

    data: dict[str, Any] = msgspec.to_builtins(result)
    return data


def _attempt_data(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "ended": attempt.ended,
        "iterations": [_iteration_data(each) for each in attempt.iterations],
    }


def _iteration_data(iteration: Iteration) -> dict[str, Any]:
    usage = iteration.usage
    return {
        "number": iteration.number,
        "run_id": iteration.run_id,
        "status": iteration.status,
        "turns": iteration.turns,
        "tokens": (usage.total or None) if usage is not None else None,
        "cost_usd": iteration.cost_usd,
        "hint": iteration.hint,
        "summary": iteration.summary,
        "sealed": list(iteration.sealed),
        "needs_person": dict(iteration.needs_person),
        "green": iteration.is_green,
        "checks": [
            {"name": each.name, "passed": each.passed, "why": each.why, "duration_ms": each.duration_ms}
            for each in iteration.results
        ],
    }


def _question_data(question: Question) -> dict[str, Any]:
    return {
        "id": question.id,
        "text": question.text,
        "asked_at": question.asked_at,
        "until": question.until,
    }
