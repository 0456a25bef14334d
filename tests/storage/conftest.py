"""One open database for each test that asks, closed afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from placet.storage.database import Database
from placet.storage.location import open_database
from tests.storage.children import make_numbers


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A new database of each kind, with the table of the tests."""
    with open_database(database_url) as opened:
        make_numbers(opened)
        yield opened
