"""Decision links: one decision for whoever holds the link, on whatever device.

Keep true: a link takes no answer that reaches further than the one thing that it is for.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import msgspec

from placet.app import decisions
from placet.app.needs import Need, kind_of, mark_of, needs
from placet.engine.protocol import Engine
from placet.errors import UsageError
from placet.runtime.journal import Decision
from placet.server.answers import NotFound, TooMany
from placet.server.api.coding import Diff
from placet.server.api.decisions import Reason
from placet.server.api.starting import engine_of
from placet.server.endpoint import ApiCall, Endpoint
from placet.server.links import Link


class LinkShown(msgspec.Struct, frozen=True):
    """What a link is for."""

    item: dict[str, Any]
    """As `/needs-you` lists it; of a change also its `diff`."""
    expires_at: float


class LinkAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the person says."""

    decision: Literal["once", "deny", "approve"] | None = None
    """To an approval or a round `once` or `deny`, to drafted checks or a change `approve` or `deny`."""
    reason: Reason | None = None
    text: Reason | None = None
    """The answer to a question."""
    choice: Literal["done", "retry", "fail"] | None = None
    """What became of an action."""
    output: Any | msgspec.UnsetType = msgspec.UNSET
    """Its answer, if it is `done`."""


class LinkUsed(msgspec.Struct, frozen=True):
    """What was decided."""

    id: str
    status: str


BY = "link"
"""Who decides with a link, as it is recorded."""


def _found(call: ApiCall) -> tuple[Link, Need]:
    """The link, and what it is for.

    Raises:
        NotFound: it is none, is used or too old, or what it is for was decided.
    """
    site = call.site
    if (wait_s := site.failures.wait_s(call.client)) > 0:
        raise TooMany("Too many wrong links came from this address. Wait before you try again.", wait_s)
    link = site.links.find(call.path["code"])
    if link is None:
        site.failures.note(call.client)
        raise NotFound("This link is not good, or not any more: it works once, and for a day.")
    waiting = needs(site.records, site.redactor, tenant=link.tenant)
    item = next((each for each in waiting if kind_of(each) == link.kind and each.id == link.need), None)
    if item is None or link.fingerprint not in (None, mark_of(item)):
        raise NotFound(
            "What this link is for does not wait any more: somebody has decided, or its time is up."
        )
    return link, item


def show(call: ApiCall) -> LinkShown:
    """What a link is for. Nothing is used up."""
    link, item = _found(call)
    data: dict[str, Any] = msgspec.to_builtins(item)
    if link.kind in ("round", "change"):
        diff = _diff(call, link.kind, item.run_id)
        data |= {"diff": diff.diff, "diff_missing": diff.missing}
    return LinkShown(data, link.expires_at)


def _diff(call: ApiCall, kind: str, run_id: str) -> Diff:
    from placet.server.api import coding, loops

    as_owner = call._replace(token=msgspec.structs.replace(call.token, tenant=None))
    if kind == "round":
        return loops.show_diff(as_owner._replace(path={"round": run_id}))
    return coding.show_diff(as_owner._replace(path={"session": run_id}))


async def use(call: ApiCall) -> LinkUsed:
    """Decide. The link is used up."""
    said: LinkAnswer = call.body
    link, item = await asyncio.to_thread(_found, call)
    _check(link.kind, said)
    engine = engine_of(call) if link.kind == "outcome" else None
    if await asyncio.to_thread(call.site.links.use, call.path["code"]) is None:
        raise NotFound("This link was used a moment ago.")
    if engine is not None:
        return await _settle(engine, link, item, said)
    return await asyncio.to_thread(_decide, call, link, item, said)


def _check(kind: str, said: LinkAnswer) -> None:
    """Before anything is used up."""
    wanted = {
        "approval": said.decision in ("once", "deny"),
        "round": said.decision in ("once", "deny"),
        "contract": said.decision in ("approve", "deny"),
        "change": said.decision in ("approve", "deny"),
        "question": bool(said.text),
        "outcome": said.choice is not None,
    }
    if not wanted.get(kind):
        raise UsageError("That is no answer to what this link is for. Nothing was decided.")


def _decide(call: ApiCall, link: Link, item: Need, said: LinkAnswer) -> LinkUsed:
    site = call.site
    match link.kind:
        case "approval" | "round":
            approval = site.records.approvals.get(link.need)
            assert approval is not None
            decision: Literal["once", "deny"] = "deny" if said.decision == "deny" else "once"
            made = decisions.decide(
                site.records,
                approval,
                decision,
                by=BY,
                reason=said.reason,
                fingerprint=link.fingerprint,
                db=site.db,
            )
            site.decided(made.run_id)
            return LinkUsed(made.id, "denied" if decision == "deny" else "approved")
        case "question":
            site.records.sessions.answer(link.need, said.text or "", BY)
            return LinkUsed(link.need, "answered")
        case _:
            session = site.records.sessions.get(link.need)
            assert session is not None
            stands = decisions.decide_session(
                session,
                "deny" if said.decision == "deny" else "approve",
                by=BY,
                reason=said.reason or "",
                db=site.db,
            )
            if stands.state == "contract_confirmed":
                site.decided(stands.id)
            return LinkUsed(stands.id, stands.state)


async def _settle(engine: Engine, link: Link, item: Need, said: LinkAnswer) -> LinkUsed:
    assert said.choice is not None
    made = Decision(choice=said.choice, output=said.output, by=BY)
    action = getattr(item, "action_id", "")
    await engine.wake(item.run_id, decide={action: made})
    return LinkUsed(link.need, "decided")


ENDPOINTS = (
    Endpoint("GET", "/links/{code}", show, None, LinkShown, "Show what a link is for.", is_open=True),
    Endpoint(
        "POST",
        "/links/{code}",
        use,
        None,
        LinkUsed,
        "Decide what a link is for.",
        body=LinkAnswer,
        is_open=True,
    ),
)
