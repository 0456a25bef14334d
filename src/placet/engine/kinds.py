"""Every kind of run by name: how it begins, how a stored run of it is known, and how it is resumed.

Whoever begins or resumes runs looks here: `submit`, workers, the server, `placet resume`.

Keep true:
1. A stored run is of exactly one kind: the first in the list that knows it. Plans come last.
2. The name of a kind is the tag of its job; it is stored with submissions, and never changes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from placet.app import work
from placet.app.options import RunOptions, digest_of
from placet.app.work import Job, Place, Stored, Told
from placet.errors import KeyMissing, ModelMissing, NamesMissing, UnknownModel, UsageError
from placet.runtime.journal import LED_BY, is_led

if TYPE_CHECKING:
    from placet.durable.sql import RunSummary
    from placet.runtime.journal import RunRecord
    from placet.tools.context import Cancel

Begin = Callable[[RunOptions, Any, str, Place, "Cancel"], Awaitable["str | None"]]
"""Leads a new run: its options, its job, its id. Returns how it ended where the journal does not say."""
Resume = Callable[[Stored, Place, "Cancel", Told], Awaitable[None]]
"""Leads a run that has begun."""


class Kind(NamedTuple):
    """One kind of run."""

    name: str
    begin: Begin
    is_of: Callable[[RunRecord], bool]
    """Whether a stored run is of this kind."""
    resume: Resume
    is_conversation: bool = False
    """Whether a person can say something in it."""
    is_tried_again: bool = False
    """Whether it goes on where it stood after an error of its model: nobody has to say anything first."""


def _is_session(record: RunRecord) -> bool:
    from placet.app.coder import session_of

    return session_of(record.proposal.context) is not None


def _is_round(record: RunRecord) -> bool:
    from placet.loops.round import LEADER

    return record.proposal.context.get(LED_BY) == LEADER


def _is_agents(record: RunRecord) -> bool:
    from placet.agents.kept import agent_of

    return is_led(record) and agent_of(record.proposal.context) is not None


def _is_chat(record: RunRecord) -> bool:
    from placet.assistant.kept import kept_of

    return is_led(record) and kept_of(record.proposal).is_chat


KINDS: tuple[Kind, ...] = (
    Kind("code", work.begin_code, _is_session, work.resume_code),
    Kind("round", work.begin_round, _is_round, work.resume_round),
    Kind("agent", work.begin_agent, _is_agents, work.resume_agent, is_tried_again=True),
    Kind("chat", work.begin_turns, _is_chat, work.resume_turns, is_conversation=True),
    Kind("task", work.begin_turns, is_led, work.resume_turns, is_tried_again=True),
    Kind("plan", work.begin_plan, lambda record: True, work.resume_plan),
)
_BY_NAME = {kind.name: kind for kind in KINDS}


def kind_of(record: RunRecord) -> Kind:
    """The kind of a stored run."""
    return next(kind for kind in KINDS if kind.is_of(record))


def kind_of_job(job: Job) -> Kind:
    """The kind of run that a job becomes."""
    return _BY_NAME[str(type(job).__struct_config__.tag)]


def options_from(text: str) -> RunOptions:
    """The options of a submission; the usual ones if they cannot be read, which `begin` refuses."""
    try:
        return msgspec.json.decode(text, type=RunOptions)
    except msgspec.DecodeError:
        return RunOptions()


def has_other_policies(options: str, summary: RunSummary) -> bool:
    """Whether a run began under other policies than it was submitted under: those of the worker apply."""
    submitted = options_from(options).policies_sha256
    applied = summary.context.get("policies_sha256")
    return None not in (submitted, applied) and submitted != applied


async def begin(request: str, options: str, run_id: str, place: Place, cancel: Cancel) -> str | None:
    """Make a run of a job and its options, both as JSON, and lead it until it ends or waits. Returns how it
    ended where the journal does not say.

    Raises:
        NamesMissing: something is not here that it needs.
        PlacetError: it cannot be set up; says why. Nothing was begun.
    """
    try:
        job = msgspec.json.decode(request, type=Job)
        given = msgspec.json.decode(options, type=RunOptions)
    except msgspec.DecodeError as error:
        raise UsageError(
            f"What was submitted as run '{run_id}' cannot be read: {error}. If a newer release of Placet "
            "stored it, work on it with that one."
        ) from None
    if given.tools is not None and digest_of(given.tools) not in (None, given.tools_sha256):
        # Loading it runs it.
        raise UsageError(
            f"{given.tools} is not what it was when run '{run_id}' was submitted. Look at it, then submit it "
            "again."
        )
    given = replace(given, tools=given.tools or place.tools)
    try:
        return await kind_of_job(job).begin(given, job, run_id, place, cancel)
    except (ModelMissing, KeyMissing, UnknownModel) as error:
        if not place.leaves:
            raise
        named = (given.model or "of any provider").partition(":")[0]
        raise NamesMissing([f"model {named}"]) from error


async def resume(run: Stored, place: Place, cancel: Cancel, told: Told = Told()) -> None:  # noqa: B008  (frozen)
    """Go on with a run where it stood, until it ends or waits.

    Raises:
        RunHeld: another process is at work on it.
        PlacetError: it cannot be set up as it was; says what to do. Or something was to be said in it, and it
            is no conversation.
    """
    kind = kind_of(run.record)
    if told.text is not None and not kind.is_conversation:
        raise UsageError(f"Run '{run.record.run_id}' is no conversation.")
    await kind.resume(run, place, cancel, told)
