"""Shared with the tests of the runtime; and a log of twenty events that somebody is about to tamper with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from placet.events.anchor import Anchor
from placet.events.event import Event
from placet.events.sql import SqlEvents
from placet.storage.location import open_database
from tests.events.intruder import Intruder
from tests.runtime.conftest import recorder

__all__ = ["recorder"]


def some_events(first: int, last: int) -> list[Event]:
    """Events that differ in every column."""
    return [
        Event(
            n,
            f"turn_{n % 3}",
            1000.0 + n,
            f"r{n}",
            f"p{n}",
            f"a{n}",
            f"t{n}",
            f"s{n}",
            f"tenant{n}",
            {"tool": f"tool{n}", "n": n},
        )
        for n in range(first, last + 1)
    ]


@pytest.fixture
def store(database_url: str) -> Iterator[SqlEvents]:
    """Twenty events in four commits, without an anchor."""
    with open_database(database_url) as database:
        store = SqlEvents(database)
        for first in range(1, 21, 5):
            store.write(some_events(first, first + 4)).result()
        yield store


@pytest.fixture
def anchor(tmp_path: Path) -> Anchor:
    return Anchor(tmp_path / "anchors")


@pytest.fixture
def anchored(database_url: str, anchor: Anchor) -> Iterator[SqlEvents]:
    """The same with one."""
    with open_database(database_url) as database:
        store = SqlEvents(database, anchor=anchor)
        for first in range(1, 21, 5):
            store.write(some_events(first, first + 4)).result()
        yield store


@pytest.fixture
def intruder(database_url: str) -> Iterator[Intruder]:
    made = Intruder(database_url)
    yield made
    made.close()
