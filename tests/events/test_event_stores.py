"""Events are asked for in the same way, and answer the same, in memory, in SQLite and in Postgres."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from placet import EventLog
from placet.events.event import Event
from placet.events.sql import SqlEvents
from placet.storage.location import open_database
from placet.testing import event_store_suite

every_check = pytest.mark.parametrize("check", event_store_suite, ids=lambda check: check.__name__)


@every_check
def test_memory_keeps_the_promise(check: Callable[..., None]) -> None:
    def make(events: Sequence[Event]) -> EventLog:
        log = EventLog()
        log.replace(events)
        return log

    check(make)


@every_check
def test_a_database_keeps_the_promise(check: Callable[..., None], database_url: str) -> None:
    with open_database(database_url) as database:

        def make(events: Sequence[Event]) -> SqlEvents:
            store = SqlEvents(database)
            if events:
                store.write(events).result()
            return store

        check(make)
