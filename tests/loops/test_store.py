"""Rounds are kept the same in memory, SQLite and Postgres."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placet import open_database
from placet.errors import UsageError
from placet.loops.budget import Spend
from placet.loops.levels import Standing
from placet.loops.round import Later, Round, SubRun
from placet.loops.sql import MIGRATIONS, SqlRounds
from placet.loops.store import MemoryRounds, Rounds
from placet.storage.migrate import Migrations, migrate
from tests.loops.bench import spec


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def rounds(request: Any, tmp_path: Path) -> Iterator[Rounds]:
    if request.param == "memory":
        yield MemoryRounds()
        return
    is_file = request.param == "sqlite"
    url = str(tmp_path / "placet.db") if is_file else request.getfixturevalue("postgres_url")
    with open_database(url) as database:
        yield SqlRounds(database)


def made(name: str, *, loop: str = "tidy", at: float = 1.0, **more: Any) -> Round:
    """A round."""
    round = Round(id=name, loop=loop, repository="/r", spec=spec(name=loop), started_at=at)
    for key, value in more.items():
        setattr(round, key, value)
    return round


def test_rounds_are_counted_kept_and_found(rounds: Rounds) -> None:
    first = rounds.begin(made("aa1"))
    other = rounds.begin(made("bb1", loop="other", at=2.0))
    second = rounds.begin(made("aa2", at=3.0))
    again = rounds.begin(made("aa2", at=9.0))
    second.outcome, second.spend = "reported", Spend(input_tokens=5, cost_usd=0.5)
    rounds.put(second)

    assert (first.number, other.number, second.number, again.number) == (1, 1, 2, 2)
    assert again.started_at == 3.0
    assert [each.id for each in rounds.listed(first.key)] == ["aa2", "aa1"]
    assert [each.id for each in rounds.listed(limit=2)] == ["aa2", "bb1"]
    assert [each.id for each in rounds.unfinished()] == ["aa1", "bb1"]
    assert rounds.find("aa2").spend.input_tokens == 5
    assert rounds.spent(first.key, 2.0) == Spend(input_tokens=5, cost_usd=0.5)
    assert rounds.spent(first.key, 2.0, but="aa2") == Spend()
    assert rounds.get("zz") is None
    with pytest.raises(UsageError, match="Several"):
        rounds.find("aa")
    with pytest.raises(UsageError, match="no round"):
        rounds.find("zz")


def test_what_waits_is_known_until_it_is_decided(rounds: Rounds) -> None:
    round = rounds.begin(made("aa1", outcome="escalated"))

    assert [each.id for each in rounds.waiting()] == ["aa1"]

    round.later.append(Later(what="denied", at=2.0))
    rounds.put(round)
    assert rounds.waiting() == []


def test_levels_are_lowered_and_raised(rounds: Rounds) -> None:
    assert rounds.standing("k") is None
    rounds.set_standing(Standing(loop="k", level="L1", reason="x", since=1.0))
    rounds.set_standing(Standing(loop="k", level="L2", reason="y", since=2.0))

    assert rounds.standing("k") == Standing(loop="k", level="L2", reason="y", since=2.0)


def test_rounds_that_begin_at_once_get_numbers_of_their_own(rounds: Rounds) -> None:
    begun: list[int] = []

    def begin(number: int) -> None:
        begun.append(rounds.begin(made(f"r{number}")).number)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(begun) == list(range(1, 9))


def ended(rounds: Rounds, name: str, at: float, **more: Any) -> Round:
    round = rounds.begin(made(name, at=at))
    for key, value in {"outcome": "reported", "summary": name, "ended_at": at, **more}.items():
        setattr(round, key, value)
    rounds.put(round)
    return round


def test_the_last_five_rounds_that_have_ended_are_recalled_from_the_memory(rounds: Rounds) -> None:
    first, *_ = [ended(rounds, f"r{n}", float(n)) for n in range(1, 8)]
    rounds.begin(made("open", at=9.0))
    ended(rounds, "zz", 3.0, loop="other")

    recalled = rounds.recall(first.key)

    assert [(each.position, each.body) for each in recalled] == [
        (n, f"round {n}: reported: r{n}") for n in range(3, 8)
    ]
    assert {each.kind for each in recalled} == {"round"}
    assert rounds.recall("nothing") == []


def test_what_is_decided_later_supersedes_the_fact_and_the_same_round_is_stored_once(rounds: Rounds) -> None:
    round = ended(rounds, "r1", 1.0, outcome="escalated", maker=SubRun(run_id="m", labels={"secret": ("x",)}))
    rounds.put(round)
    (before,) = rounds.recall(round.key)
    round.later.append(Later(what="denied", at=5.0, by="ann"))
    rounds.put(round)

    (after,) = rounds.recall(round.key)

    assert after.supersedes_key
    assert before.id != after.id
    assert (before.body, after.body) == ("round 1: escalated: r1", "round 1: escalated; later denied: r1")
    assert (before.labels, after.labels) == (("secret",), ("secret",))


def test_rounds_of_released_tables_become_facts(database_url: str) -> None:
    with open_database(database_url) as database:
        migrate(database, Migrations(MIGRATIONS.part, MIGRATIONS.steps[:2]))
        columns = ["id", "loop", "number", "started", "is_open", "is_waiting", "data"]
        rows = []
        for n in range(1, 4):
            round = made(f"r{n}", number=n, summary=f"did {n}", outcome="proceeded" if n < 3 else None)
            data = msgspec.json.encode(round).decode()
            rows.append((round.id, round.key, n, float(n), int(round.is_open), 0, data))
        database.write(lambda t: t.insert("loop_rounds", columns, rows)).result()

        for _ in range(2):
            found = SqlRounds(database).recall(made("x").key)

    assert [each.body for each in found] == ["round 1: proceeded: did 1", "round 2: proceeded: did 2"]
    assert [each.labels for each in found] == [(), ()]
