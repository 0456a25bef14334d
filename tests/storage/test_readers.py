"""Connections for reading: several at once, and never more than so many."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from placet.storage.location import MOST_READERS, open_database
from placet.storage.transaction import Transaction

MINE = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND starts_with(application_name, 'placet')"
)


def test_databases_of_a_process_share_few_connections_for_reading(postgres_url: str) -> None:
    """Twelve threads read through six databases, and as many as there are connections do so at once."""
    together = threading.Barrier(MOST_READERS)
    counts: list[int] = []

    def look(t: Transaction) -> None:
        together.wait(30)
        counts.append(t.execute(MINE)[0][0])

    with ExitStack() as stack:
        opened = [stack.enter_context(open_database(postgres_url)) for _ in range(6)]
        threads = [threading.Thread(target=opened[n % 6].read, args=(look,)) for n in range(3 * MOST_READERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    assert len(counts) == 3 * MOST_READERS
    assert max(counts) <= 6 + MOST_READERS


def test_readers_are_made_anew_after_the_last_database_is_closed(postgres_url: str) -> None:
    for _ in range(2):
        with open_database(postgres_url) as database:
            assert database.read(lambda t: t.execute("SELECT 1")) == [(1,)]
