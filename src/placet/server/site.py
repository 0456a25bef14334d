"""What the server serves: the records of one database, and what stands around them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from placet.app.run_export import shown_event
from placet.engine.embedded import EmbeddedEngine
from placet.engine.protocol import Engine
from placet.engine.queue_engine import wake_decided
from placet.errors import PlacetError, UnknownApproval, UnknownRun
from placet.events.event import Event
from placet.events.stream import StreamEvent, TextDelta, ThinkingDelta
from placet.render.speech import Speech
from placet.server.agent_tests import AgentTests
from placet.server.answers import NotFound
from placet.server.folds import Folds
from placet.server.guard import Failures
from placet.server.links import Links
from placet.server.tokens import Token, Tokens

if TYPE_CHECKING:
    from placet.app.app import Records
    from placet.approvals.approval import Approval
    from placet.durable.sql import RunSummary
    from placet.redaction import Redactor
    from placet.server.push import Pusher
    from placet.server.stream import Stream


MOST_MISSED = 500
"""Runs that are looked at when the server starts."""


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
        self.folds = Folds(records, redactor)
        self.folders = tuple(folders)
        self.db = db
        self.links = Links(tokens.folder)
        self.agent_tests = AgentTests(records)
        self.failures = Failures()
        """Wrong tokens and links, by address."""
        self.pusher: Pusher | None = None
        """Who tells a person elsewhere what waits; None if nobody does."""
        self.engine: Engine | None = None
        """Who does the work; None where nothing is begun here."""
        self._speeches: dict[tuple[str, bool], Speech] = {}
        """What models are saying, and thinking, by their runs."""
        self._numbers = count(1)
        """Of what they said."""
        self._catching_up: asyncio.Task[None] | None = None
        self.is_draining = False
        self.description: dict[str, Any] = {}
        """The API, as OpenAPI."""

    def begin(self) -> None:
        """Let the engine hear of decisions, and everybody who watches of what a model says. On the event
        loop."""
        if self.pusher is not None:
            self.stream.listen(self.pusher.heard)
            self.pusher.look()
        engine = self.engine
        if not isinstance(engine, EmbeddedEngine):
            return
        loop = asyncio.get_running_loop()

        def call(function: Callable[..., None], *arguments: Any, **options: Any) -> None:
            with suppress(RuntimeError):  # The loop has gone.
                loop.call_soon_threadsafe(partial(function, *arguments, **options))

        def hear(run_id: str, tenant: str | None, event: StreamEvent[Any]) -> None:
            match event:
                case TextDelta() | ThinkingDelta():
                    is_thought = isinstance(event, ThinkingDelta)
                    speech = self._speeches.get((run_id, is_thought))
                    if speech is None:
                        # What is said between two calls has a number: whoever hears it joins its parts.
                        say = partial(call, self.stream.say, run_id, tenant, next(self._numbers))
                        speech = self._speeches[run_id, is_thought] = Speech(
                            partial(say, thinking=is_thought), self.redactor.text, self.redactor.open_tail
                        )
                    speech.say(event.text)
                case _:
                    # What else happens is in the log; what was being said is over.
                    for is_thought in (False, True):
                        if (ended := self._speeches.pop((run_id, is_thought), None)) is not None:
                            ended.end()
                            call(self.stream.hush, run_id)

        def tell(run_id: str, tenant: str | None, reason: str) -> None:
            problem = {"run_id": run_id, "message": self.redactor.text(reason)}
            call(self.stream.send, "problem", problem, tenant=tenant, run_id=run_id)

        engine.watch, engine.problem = hear, tell
        engine.start()
        self.stream.listen(self._heard)
        self._catching_up = asyncio.create_task(asyncio.to_thread(self._catch_up))

    def _catch_up(self) -> None:
        """Go on with what was decided while no server ran."""
        for summary in self.records.journal.page(status="waiting", limit=MOST_MISSED):
            with suppress(PlacetError):
                result = self.records.journal.shown(summary.run_id)
                asked = (
                    [each.approval for each in result.waiting if each.approval] if result is not None else []
                )
                found = [self.records.approvals.get(each) for each in asked]
                if self.engine is not None and any(each is not None and each.decision for each in found):
                    self.engine.decided(summary.run_id)

    def decided(self, run_id: str) -> None:
        """Have whoever works on a run go on with it: somebody has decided about it."""
        if self.engine is not None:
            self.engine.decided(run_id)
        else:
            wake_decided(self.records, run_id)

    def _heard(self, events: Sequence[Event]) -> None:
        """Go on with what was decided, by whatever process."""
        engine = self.engine
        for event in events:
            if engine is not None and event.kind == "approval_recorded" and event.run_id is not None:
                engine.decided(event.run_id)

    async def end(self) -> None:
        """Stop what runs here, so that it can be resumed."""
        self.is_draining = True
        if self.pusher is not None:
            await self.pusher.end()
        await asyncio.to_thread(self.agent_tests.drain)
        if self.engine is not None:
            await self.engine.drain()

    def drain(self) -> None:
        """Begin nothing more, and let everybody who watches go. On the event loop."""
        self.is_draining = True
        self.stream.close()

    def shown(self, event: Event) -> Event:
        """An event as it may be sent."""
        return shown_event(event, self.redactor)

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
