"""Coding sessions: what they came to, their questions, and what a person decides."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from placet.app.coder import session_data
from placet.app.decisions import decide_session
from placet.coder.session import Session, State
from placet.errors import UnknownRun, UsageError
from placet.server.answers import Conflict, NotFound
from placet.server.api.decisions import Reason
from placet.server.api.runs import Limit
from placet.server.api.starting import Text
from placet.server.endpoint import ApiCall, Endpoint


class SessionsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which sessions."""

    limit: Limit = 50
    folder: str | None = None


class SessionPage(msgspec.Struct, frozen=True):
    """Coding sessions, newest first."""

    sessions: list[dict[str, Any]]


class Diff(msgspec.Struct, frozen=True):
    """A change."""

    diff: str
    missing: str | None = None
    """Why there is none."""


class SessionDecision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a person says to drafted checks, or to a change."""

    decision: Literal["approve", "deny", "cancel"]
    reason: Reason = ""
    kind: Literal["contract", "change"] | None = None
    """State that the person was shown: of a session that has come further since, nothing is decided."""


class SessionStands(msgspec.Struct, frozen=True):
    """How a session stands."""

    id: str
    state: str


class QuestionAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to a question."""

    text: Text


class AnsweredQuestion(msgspec.Struct, frozen=True):
    """A question that was answered."""

    id: str
    run_id: str
    answered: bool


_ASKING: Mapping[str, State] = {"contract": "contract_proposed", "change": "needs_approval"}
"""The state in which a session asks about its checks, and about its change."""


def _session(call: ApiCall) -> Session:
    found = call.site.records.sessions.get(call.path["session"]) if call.token.tenant is None else None
    if found is None:
        raise NotFound(f"There is no coding session '{call.path['session']}'.")
    return found


def _shown(call: ApiCall, session: Session) -> dict[str, Any]:
    records = call.site.records
    try:
        status = records.journal.find(session.id).status
    except UnknownRun:
        status = None
    data = session_data(session, records.sessions.questions(session.id), run_status=status)
    shown = call.site.redactor.value(data)
    assert isinstance(shown, dict)
    return shown


def list_sessions(call: ApiCall) -> SessionPage:
    """The newest sessions."""
    if call.token.tenant is not None:
        return SessionPage([])
    found = call.site.records.sessions.listed(folder=call.query.folder, limit=call.query.limit)
    return SessionPage([_shown(call, each) for each in found])


def show_session(call: ApiCall) -> dict[str, Any]:
    """One session."""
    return _shown(call, _session(call))


def show_diff(call: ApiCall) -> Diff:
    """The change of a session, as it would be published."""
    from pathlib import Path

    from placet.app.coder import open_coder
    from placet.errors import PlacetError
    from placet.runtime.sync import run_sync

    session = _session(call)
    try:
        with open_coder(Path(session.repository), db=call.site.db, works=False, create=False) as app:
            diff = run_sync(app.coder.diff(session.id, whole=True))
    except (PlacetError, OSError) as error:
        return Diff("", call.site.redactor.text(f"it cannot be read: {error}"))
    return Diff(call.site.redactor.text(diff))


async def decide(call: ApiCall) -> SessionStands:
    """Record what a person says, and go on."""
    said: SessionDecision = call.body
    site = call.site
    session = await asyncio.to_thread(_session, call)
    if said.kind is not None and session.state != _ASKING[said.kind]:
        raise Conflict(f"That does not wait any more: the session is {session.state} by now.")
    try:
        made = await asyncio.to_thread(
            decide_session,
            session,
            said.decision,
            by=call.token.name,
            reason=said.reason,
            db=site.db,
        )
    except UsageError as error:
        now = site.records.sessions.get(session.id)
        if now is not None and now.state != session.state:
            raise Conflict(f"Somebody else was quicker: it is {now.state} by now.") from None
        raise error
    if made.state == "contract_confirmed":
        site.decided(made.id)
    return SessionStands(made.id, made.state)


def answer(call: ApiCall) -> AnsweredQuestion:
    """Answer what a model asks."""
    records = call.site.records
    name = call.path["question"]
    found = records.sessions.question(name) if call.token.tenant is None else None
    if found is None:
        raise NotFound(f"There is no question '{name}'.")
    if found.answer is not None:
        raise Conflict(f"{found.by or 'Somebody'} has answered that already.")
    made = records.sessions.answer(name, call.body.text, call.token.name)
    return AnsweredQuestion(made.id, made.session, True)


ENDPOINTS = (
    Endpoint("GET", "/code", list_sessions, "see", SessionPage, "List coding sessions.", query=SessionsQuery),
    Endpoint("GET", "/code/{session}", show_session, "see", dict[str, Any], "Show a coding session."),
    Endpoint("GET", "/code/{session}/diff", show_diff, "see", Diff, "Show the change of a coding session."),
    Endpoint(
        "POST",
        "/code/{session}/decision",
        decide,
        "decide",
        SessionStands,
        "Confirm drafted checks, publish a change, reject either, or end the session.",
        body=SessionDecision,
    ),
    Endpoint(
        "POST",
        "/questions/{question}/answer",
        answer,
        "decide",
        AnsweredQuestion,
        "Answer a question of a model.",
        body=QuestionAnswer,
    ),
)
