"""Links for what waits, sent to a person who is somewhere else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from placet.app.needs import Need, kind_of, mark_of, needs
from placet.app.notify import Notification, NotifySettings, send
from placet.errors import PlacetError
from placet.events.event import Event
from placet.safe_text import clean
from placet.server.stream import NEEDS

if TYPE_CHECKING:
    from placet.server.site import Site


_log = logging.getLogger(__name__)


class Pusher:
    """Sends one link for each thing that begins to wait."""

    def __init__(self, site: Site, settings: NotifySettings, url: str) -> None:
        """`url` is where the server is reached if the settings do not say it."""
        self._site = site
        self._settings = settings
        self._url = settings.url or url
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self.problems: list[str] = []
        """What went wrong last, in words."""

    def heard(self, events: Sequence[Event]) -> None:
        """Something happened. On the event loop."""
        if any(event.kind in NEEDS for event in events):
            self.look()

    def look(self) -> None:
        """Look for what waits, and send links for what is new. On the event loop."""
        self._again = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._push(), name="placet-push")

    async def end(self) -> None:
        """Finish what is being sent."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=5.0)

    async def _push(self) -> None:
        while self._again:
            self._again = False
            try:
                made = await asyncio.to_thread(self._new)
            except PlacetError as error:
                self._failed([str(error)])
                return
            for note in made:
                if problems := await send(self._settings, note):
                    self._failed(problems)

    def _failed(self, problems: Sequence[str]) -> None:
        self.problems = [self._site.redactor.text(each) for each in problems]
        for each in self.problems:
            _log.warning("[notify] A person could not be told of what waits: %s", clean(each, 300))

    def _new(self) -> list[Notification]:
        site = self._site
        waiting = needs(site.records, site.redactor)
        return [
            self._notification(each)
            for each in waiting
            if not site.links.knows(kind_of(each), each.id, mark_of(each))
        ]

    def _notification(self, item: Need) -> Notification:
        kind = kind_of(item)
        code, expires_at = self._site.links.make(
            kind,
            item.id,
            tenant=getattr(item, "tenant", None),
            fingerprint=mark_of(item),
            until=item.expires_at,
        )
        return Notification(
            title=item.title,
            link=f"{self._url}/d/{code}",
            kind=kind,
            run_id=item.run_id,
            expires_at=expires_at,
        )
