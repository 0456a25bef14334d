"""The log of everything: search, its chain, and what it cost."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from placet.app.log_check import verify_log
from placet.events.costs import Cost
from placet.server.answers import Forbidden
from placet.server.api.runs import EventPage, Limit, Position, event_page
from placet.server.endpoint import ApiCall, Endpoint

Moment = Annotated[float, msgspec.Meta(ge=0, le=1e11)]


class LogQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which events."""

    after: Position | None = None
    before: Position | None = None
    limit: Limit = 200
    kind: str | None = None
    """A kind, or several with commas between them."""
    run: str | None = None
    tool: str | None = None
    since: Moment | None = None
    until: Moment | None = None
    newest: bool = False
    """Newest first."""


class CostsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What costs."""

    by: Literal["day", "model", "agent", "folder", "run"] = "day"
    since: Moment | None = None
    until: Moment | None = None


class CostTable(msgspec.Struct, frozen=True):
    """What runs cost."""

    by: str
    costs: list[Cost]
    total: Cost


class Verified(msgspec.Struct, frozen=True):
    """Whether the log is as it was written."""

    valid: bool
    checked: int
    anchored: bool
    findings: list[dict[str, Any]]


def search(call: ApiCall) -> EventPage:
    """Events of all runs."""
    return event_page(call, call.query, run=call.query.run)


def costs(call: ApiCall) -> CostTable:
    """What runs cost."""
    if call.token.tenant is not None:
        raise Forbidden("Costs are those of all tenants. Ask with a token of no tenant.")
    query: CostsQuery = call.query
    records = call.site.records
    found = records.events.costs(by=query.by, since=query.since, until=query.until, places=records.places)
    return CostTable(found.by, found.costs, found.total)


def verify(call: ApiCall) -> Verified:
    """Check the chain of digests."""
    if call.token.tenant is not None:
        raise Forbidden("The chain is that of all tenants. Ask with a token of no tenant.")
    report = verify_log(call.site.db, None)
    return Verified(
        report.valid,
        report.checked,
        report.anchored,
        [msgspec.to_builtins(each) for each in report.findings],
    )


ENDPOINTS = (
    Endpoint("GET", "/log", search, "see", EventPage, "Search the log.", query=LogQuery),
    Endpoint("GET", "/log/costs", costs, "see", CostTable, "Add up what runs cost.", query=CostsQuery),
    Endpoint("GET", "/log/verify", verify, "see", Verified, "Check that the log is as it was written."),
)
