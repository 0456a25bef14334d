"""Rounds are kept the same in memory, SQLite and Postgres."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from placet import open_database
from placet.errors import UsageError
from placet.loops.budget import Spend
from placet.loops.levels import Standing
from placet.loops.round import Later, Round
from placet.loops.sql import SqlRounds
from placet.loops.store import MemoryRounds, Rounds
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
