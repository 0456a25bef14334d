"""What the server serves: the records of one database, and what stands around them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from placet.errors import UnknownApproval, UnknownRun
from placet.events.event import Event
from placet.events.run_view import RunFold
from placet.runtime.account import LISTED_ACTIONS
from placet.runtime.shown import shown_proposal
from placet.server.answers import NotFound
from placet.server.tokens import Token, Tokens

if TYPE_CHECKING:
    from placet.app.app import Records
    from placet.approvals.approval import Approval
    from placet.durable.sql import RunSummary
    from placet.redaction import Redactor
    from placet.server.stream import Stream


class Site:
    """One server. What a caller names is looked up here, so that no tenant sees another's."""

    def __init__(
        self,
        records: Records,
        tokens: Tokens,
        stream: Stream,
        redactor: Redactor,
        *,
        folders: Sequence[str] = (),
        db: str | None = None,
    ) -> None:
        """`folders` are those in which work may be started; `db` is the database as the person named it."""
        self.records = records
        self.tokens = tokens
        self.stream = stream
        self.redactor = redactor
        self.folders = tuple(folders)
        self.db = db
        self.is_draining = False
        self.description: dict[str, Any] = {}
        """The API, as OpenAPI."""

    def fold(self, run_id: str) -> RunFold:
        """The view of a run, from all that is in the log. A plan that is too long for it comes from the
        journal."""
        fold = RunFold(run_id)
        events = self.records.events.scan(run=run_id)
        for event in events:
            fold.take(self.shown(event))
        plans = fold.view.proposals
        if fold.view.kind == "plan" and plans and plans[0].count > LISTED_ACTIONS:
            with suppress(UnknownRun):
                fold.plan(shown_proposal(self.records.journal.record(run_id).proposal, self.redactor))
        return fold

    def drain(self) -> None:
        """Begin nothing more, and let everybody who watches go. On the event loop."""
        self.is_draining = True
        self.stream.close()

    def shown(self, event: Event) -> Event:
        """An event as it may be sent. Whoever wrote it has taken the secrets out that it knew."""
        from msgspec.structs import replace

        data = self.redactor.value(event.data)
        assert isinstance(data, dict)
        return event if data is event.data else replace(event, data=data)

    def run(self, token: Token, given: str) -> RunSummary:
        """A run that the caller may see; its whole id must be given.

        Raises:
            NotFound: there is none.
        """
        try:
            found = self.records.journal.find(given)
        except UnknownRun:
            found = None
        if found is None or found.run_id != given or not token.sees(found.tenant):
            raise NotFound(f"There is no run '{given}'.")
        return found

    def approval(self, token: Token, given: str) -> Approval:
        """An approval that the caller may see; its whole id must be given.

        Raises:
            NotFound: there is none.
        """
        try:
            found = self.records.approvals.get(given)
        except UnknownApproval:
            found = None
        if found is None or not token.sees(found.tenant):
            raise NotFound(f"There is no approval '{given}'.")
        return found
