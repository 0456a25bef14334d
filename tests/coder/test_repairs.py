"""Repairs in memory, SQLite and Postgres keep the same promises; those on disk also between processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.checks.signature import Signature
from placet.coder.repairs import (
    MIGRATIONS,
    MOST_APPROACH,
    MOST_BYTES,
    MOST_REPAIRS,
    Hint,
    Repairs,
    approach_words,
    cut,
    repository_key,
)
from placet.errors import DecodeError
from placet.memory.memory import Memory
from placet.memory.sql import SqlFacts, has_memory
from placet.redaction import REDACTED, Redactor
from placet.safe_text import clean
from placet.storage.location import open_database
from placet.storage.migrate import Migrations, migrate
from placet.testing import FakeClock
from tests.properties.effort import examples
from tests.storage.children import run

START = 1_000.0
Make = Callable[..., Repairs]


def signature(message: str = "test_a: assert <n> == <n>", **changes: Any) -> Signature:
    return Signature(**{"command": "pytest -q", "error_class": "test_failure", "message": message, **changes})


OTHER = signature("test_b: assert <n> == <n>")
"""The same command and kind."""
ELSEWHERE = signature(command="make")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Any) -> Iterator[Make]:
    """Makes an empty memory of each kind."""
    if request.param == "memory":
        yield lambda **options: Repairs(clock=clock, **options)
        return
    url = (
        f"sqlite://{tmp_path}/r.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    )
    with open_database(url) as database:
        yield lambda **options: Repairs(database, clock=clock, **options)


@pytest.fixture
def repairs(make: Make) -> Repairs:
    return make()


def shown(repairs: Repairs, known: Signature | None = None) -> Hint:
    hint = repairs.recall("r", known or signature())
    assert hint is not None
    return hint


def counts(repairs: Repairs, repository: str = "r") -> dict[str, tuple[int, int]]:
    return {one.approach: (one.wins, one.losses) for one in repairs.entries(repository)}


def test_what_helped_is_recalled_for_that_failure_alone(repairs: Repairs) -> None:
    repairs.learned("r", signature(), "swap the operands", hint=None)

    hint = shown(repairs)
    assert (hint.approach, hint.is_coarse) == ("swap the operands", False)
    assert shown(repairs, OTHER) == Hint(id=hint.id, approach="swap the operands", is_coarse=True)
    assert repairs.recall("r", ELSEWHERE) is None
    assert repairs.recall("r", signature(error_class="lint")) is None
    assert repairs.recall("another repository", signature()) is None


def test_an_exact_match_comes_before_a_better_coarse_one(repairs: Repairs) -> None:
    for _ in range(3):
        repairs.learned("r", OTHER, "often", hint=None)
    repairs.learned("r", signature(), "once", hint=None)

    assert shown(repairs).approach == "once"
    assert shown(repairs, signature("test_c")).approach == "often"


def test_the_same_approach_again_is_a_win(repairs: Repairs, clock: FakeClock) -> None:
    repairs.learned("r", signature(), "a", hint=None)
    clock.advance(5)
    repairs.learned("r", signature(), "  a\n", hint=None)

    (kept,) = repairs.entries("r")
    assert (kept.wins, kept.losses, kept.made, kept.used) == (2, 0, START, START + 5)
    assert kept.signature == signature()


def test_of_equal_rank_the_newest_is_shown(repairs: Repairs, clock: FakeClock) -> None:
    repairs.learned("r", signature(), "old", hint=None)
    clock.advance(1)
    repairs.learned("r", signature(), "new", hint=None)
    assert shown(repairs).approach == "new"

    clock.advance(1)
    repairs.learned("r", signature(), "old", hint=None)
    assert shown(repairs).approach == "old"


def test_a_loss_makes_nothing_newer(repairs: Repairs, clock: FakeClock) -> None:
    for approach in ("old", "new", "old"):
        repairs.learned("r", signature(), approach, hint=None)
        clock.advance(1)
    repairs.failed(shown(repairs).id)

    assert counts(repairs) == {"old": (2, 1), "new": (1, 0)}
    assert shown(repairs).approach == "new"


def test_a_hint_that_failed_loses_rank_and_is_shown_no_more_in_the_end(repairs: Repairs) -> None:
    repairs.learned("r", signature(), "a", hint=None)
    repairs.learned("r", signature(), "b", hint=None)
    first = shown(repairs)

    repairs.failed(first.id)
    second = shown(repairs)
    assert second.id != first.id
    assert counts(repairs)[first.approach] == (1, 1)

    # Two more losses than wins, and it is gone; the coarse way does not bring it back.
    for hint in (first, second, first, second, second):
        repairs.failed(hint.id)
    assert repairs.recall("r", signature()) is None
    assert repairs.recall("r", OTHER) is None
    assert len(repairs.entries("r")) == 2

    # Whoever finds the same way again makes it worth showing.
    repairs.learned("r", signature(), first.approach, hint=None)
    assert shown(repairs).id == first.id


def test_one_loss_more_than_wins_is_still_shown(repairs: Repairs) -> None:
    repairs.learned("r", signature(), "a", hint=None)
    for _ in range(2):
        repairs.failed(shown(repairs).id)

    assert counts(repairs) == {"a": (1, 2)}
    assert shown(repairs).approach == "a"


def test_a_hint_that_went_green_wins_once(repairs: Repairs) -> None:
    repairs.learned("r", signature(), "a", hint=None)
    repairs.learned("r", signature(), "did as told", hint=shown(repairs).id)
    assert counts(repairs) == {"a": (2, 0), "did as told": (1, 0)}

    repairs.learned("r", signature(), "a", hint=shown(repairs).id)
    assert counts(repairs)["a"] == (3, 0)


def test_what_is_no_longer_kept_may_be_counted(repairs: Repairs) -> None:
    repairs.failed("gone")
    repairs.learned("r", signature(), "a", hint="gone\0")

    assert counts(repairs) == {"a": (1, 0)}


def test_nothing_to_say_is_not_kept_but_the_hint_still_wins(repairs: Repairs) -> None:
    repairs.learned("r", signature(), "a", hint=None)
    repairs.learned("r", signature(), " \n", hint=shown(repairs).id)

    assert counts(repairs) == {"a": (2, 0)}


def test_awkward_texts_are_kept_as_they_can_be_shown(repairs: Repairs) -> None:
    repairs.learned("r", signature("a\0b\ud800"), "do\0 \x1b[31m\ud800 \u202e this\nand that", hint=None)

    hint = shown(repairs, signature("a\0b\ud800"))
    assert not hint.is_coarse
    assert hint.approach == "do\\x00 \\e[31m\\ud800 \\u202e this\nand that"
    assert repairs.bring_in("r", repairs.export("r")) == 0


def test_secrets_are_neither_kept_nor_in_the_way(make: Make) -> None:
    repairs = make(redactor=Redactor(["hunter2hunter2"]))
    known = signature("login with hunter2hunter2 failed", command="curl -u hunter2hunter2")
    repairs.learned("r", known, "use hunter2hunter2 to log in", hint=None)

    assert shown(repairs, known) == Hint(
        id=repairs.entries("r")[0].id, approach=f"use {REDACTED} to log in", is_coarse=False
    )
    assert b"hunter2" not in repairs.export("r")


def test_forgetting(repairs: Repairs) -> None:
    repairs.learned("r", signature(), "a", hint=None)
    (kept,) = repairs.entries("r")

    assert not repairs.forget("q", kept.id)
    assert repairs.forget("r", kept.id)
    assert not repairs.forget("r", kept.id)
    assert repairs.entries("r") == []
    assert repairs.recall("r", signature()) is None


def test_a_file_brings_repairs_to_another_repository(repairs: Repairs, clock: FakeClock) -> None:
    repairs.learned("r", signature(), "a", hint=None)
    repairs.learned("r", OTHER, "b", hint=None)
    repairs.failed(shown(repairs, OTHER).id)
    file = repairs.export("r")
    clock.advance(10)

    assert repairs.bring_in("s", file) == 2
    assert msgspec.json.decode(repairs.export("s"))["version"] == 1
    assert counts(repairs, "s") == {"a": (1, 0), "b": (1, 1)}
    hint = repairs.recall("s", signature())
    assert hint is not None
    assert hint.approach == "a"
    # Each repository counts for itself.
    repairs.failed(hint.id)
    assert counts(repairs, "s")["a"] == (1, 1)
    assert counts(repairs, "r")["a"] == (1, 0)


def test_bringing_in_the_same_file_twice_changes_nothing(repairs: Repairs, clock: FakeClock) -> None:
    repairs.learned("r", signature(), "a", hint=None)
    file = repairs.export("r")
    repairs.learned("r", signature(), "a", hint=None)
    repairs.failed(shown(repairs).id)
    before = repairs.entries("r")
    clock.advance(5)

    assert repairs.bring_in("r", file) == 0
    assert repairs.entries("r") == before

    ahead = file.replace(b'"wins":1,', b'"wins":7,').replace(b'"used":1000.0', b'"used":9e9')
    assert ahead != file
    assert [repairs.bring_in("r", ahead), repairs.bring_in("r", ahead)] == [1, 0]
    assert counts(repairs) == {"a": (7, 1)}
    assert [repairs.bring_in("new", ahead), repairs.bring_in("new", ahead)] == [1, 0]
    # What somebody's clock says is not believed: nothing is kept for ever because it was used tomorrow.
    assert repairs.entries("new")[0].used == START + 5


LINE: dict[str, Any] = {
    "command": "c", "error_class": "lint", "message": "m", "approach": "a",
    "wins": 1, "losses": 0, "made": 1.0, "used": 1.0,
}  # fmt: skip


def file_with(*lines: dict[str, Any], **top: Any) -> bytes:
    return msgspec.json.encode({"version": 1, "repairs": lines, **top})


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"{", "malformed"),
        (b"[]", "object"),
        (b'{"version":1}', "repairs"),
        (b'{"version":1,"version":1,"repairs":[]}', "twice"),
        (file_with(version=2), "version is 2"),
        (file_with(version="\x1b[31m"), "\\e[31m"),
        (file_with(extra=1), "extra"),
        (file_with({**LINE, "id": "x"}), "id"),
        (file_with({**LINE, "error_class": "nonsense"}), "nonsense"),
        (file_with({**LINE, "wins": -1}), "$.repairs[0].wins"),
        (file_with({**LINE, "wins": 10**9}), "$.repairs[0].wins"),
        (file_with({**LINE, "made": -5}), "$.repairs[0].made"),
        (file_with({**LINE, "approach": ""}), "approach"),
        (file_with({**LINE, "approach": "x" * 1025}), "approach"),
        (file_with({**LINE, "message": "x" * 301}), "message"),
        (file_with(LINE, {"command": "c"}), "$.repairs[1]"),
        (file_with(*[LINE] * (MOST_REPAIRS + 1)), "1000"),
        (b" " * (MOST_BYTES + 1), "larger"),
    ],
)
def test_a_file_that_is_not_right_brings_nothing(data: bytes, words: str) -> None:
    repairs = Repairs()

    with pytest.raises(DecodeError) as refused:
        repairs.bring_in("r", data)

    assert words in str(refused.value)
    assert clean(str(refused.value)) == str(refused.value)
    assert repairs.entries("r") == []


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
@examples(100)
def test_any_bytes_are_refused_in_words(data: bytes) -> None:
    with pytest.raises(DecodeError):
        Repairs().bring_in("r", data)


def test_the_newest_are_listed_and_shared_and_nothing_is_lost(repairs: Repairs, clock: FakeClock) -> None:
    full = [{**LINE, "approach": f"a{n}", "made": n, "used": n} for n in range(MOST_REPAIRS)]
    assert repairs.bring_in("r", file_with(*full)) == MOST_REPAIRS
    repairs.learned("q", signature(), "of another repository", hint=None)

    repairs.learned("r", signature(), "new", hint=None)

    listed = repairs.entries("r")
    assert len(listed) == MOST_REPAIRS
    assert listed[0].approach == "new"
    oldest = next(each for each in full if each["approach"] not in {one.approach for one in listed})
    assert oldest["approach"] == "a0"
    repairs._store.forget(None, [each.id for each in listed])
    assert counts(repairs) == {"a0": (1, 0)}
    assert counts(repairs, "q") == {"of another repository": (1, 0)}


def test_whoever_counts_at_once_counts(repairs: Repairs) -> None:
    repairs.learned("r", signature(), "a", hint=None)
    id = shown(repairs).id

    def count() -> None:
        for _ in range(5):
            repairs.failed(id)
            repairs.learned("r", signature(), "a", hint=None)

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert counts(repairs) == {"a": (16, 15)}


LEARNER = """
import sys
from placet.coder.repairs import Repairs
from placet.checks.signature import Signature
from placet.storage.location import open_database
with open_database(sys.argv[1]) as database:
    known = Signature(command="pytest -q", error_class="test_failure", message="m")
    Repairs(database).learned("r", known, "learned elsewhere", hint=None)
"""


def test_what_one_process_learned_another_recalls(database_url: str) -> None:
    with open_database(database_url) as database:
        assert not has_memory(database)
        run(LEARNER, database_url)

        assert has_memory(database)
        assert shown(Repairs(database), signature("m")).approach == "learned elsewhere"


def test_a_repair_is_a_fact_of_the_memory_that_only_its_kind_finds(database_url: str) -> None:
    with open_database(database_url) as database:
        repairs = Repairs(database, tenant="a")
        repairs.learned(
            "r", signature("ZeroDivisionError"), "check the divisor", hint=None, labels=["secret"]
        )
        memory = Memory(database, tenant="a")

        (hit,) = memory.query_sync("ZeroDivisionError divisor", kinds=["repair"], everywhere=True).hits
        assert (hit.fact.body, hit.fact.labels) == ("check the divisor", ("untrusted", "secret"))
        assert hit.fact.id == repairs.entries("r")[0].id
        assert not memory.query_sync("ZeroDivisionError divisor", everywhere=True).hits
        assert memory.forget_sync(hit.fact.id) == 1
        assert repairs.recall("r", signature("ZeroDivisionError")) is None


def test_a_tenant_has_repairs_of_its_own(make: Make, database_url: str) -> None:
    with open_database(database_url) as database:
        mine, theirs = Repairs(database, tenant="a"), Repairs(database, tenant="b")
        mine.learned("r", signature(), "a", hint=None)
        theirs.learned("r", signature(), "b", hint=None)
        theirs.failed(shown(mine).id)

        assert counts(mine) == {"a": (1, 0)}
        assert counts(theirs) == {"b": (1, 0)}
        assert not theirs.forget("r", shown(mine).id)
        assert Repairs(database).entries("r") == []


def test_what_a_person_has_invalidated_is_recalled_no_more(repairs: Repairs) -> None:
    repairs.learned("r", signature(), "a", hint=None)
    (known,) = repairs.entries("r")

    assert repairs._store.invalidate(None, known.id, START)

    assert repairs.recall("r", signature()) is None


def test_a_repair_keeps_its_labels_and_is_untrusted_until_a_person_trusts_it(repairs: Repairs) -> None:
    repairs.learned("r", signature(), "a", hint=None, labels=["secret"])
    repairs.bring_in("s", repairs.export("r"))

    assert shown(repairs).labels == ("untrusted", "secret")
    assert [each.labels for each in repairs.entries("s")] == [("untrusted",)]
    repairs.learned("r", signature(), "a", hint=None)
    assert shown(repairs).labels == ("untrusted", "secret")
    assert repairs._store.trust(None, shown(repairs).id)
    assert shown(repairs).labels == ("secret",)


ROWS = [
    (
        "i1",
        "commit:c0ffee",
        "pytest -q",
        "test_failure",
        "test_a: assert <n> == <n>",
        "swap",
        3,
        1,
        10.0,
        20.0,
    ),
    ("i2", "commit:c0ffee", "make", "lint", "", "format", 0, 2, 11.0, 12.0),
    ("i3", "folder:abc", "pytest -q", "crash", "boom", "two\nlines", 1, 0, 5.0, 5.0),
]


def test_repairs_of_a_released_table_become_facts_and_the_table_goes(database_url: str) -> None:
    columns = "id, repository, command, error_class, message, approach, wins, losses, made, used"
    with open_database(database_url) as database:
        migrate(database, Migrations(MIGRATIONS.part, MIGRATIONS.steps[:1]))
        rows = [(*row, "coarse") for row in ROWS]
        database.write(lambda t: t.insert("repairs", [*columns.split(", "), "coarse"], rows)).result()

        for _ in range(2):
            repairs = Repairs(database)

        found = {each.id: each for key in ("commit:c0ffee", "folder:abc") for each in repairs.entries(key)}
        names = columns.split(", ")
        assert [tuple(getattr(found[row[0]], name) for name in names) for row in ROWS] == ROWS
        assert len(found) == len(ROWS)
        assert not database.read(lambda t: t.has_table("repairs"))
        hint = repairs.recall("commit:c0ffee", signature())
        assert hint is not None
        assert (hint.id, hint.approach, hint.is_coarse, hint.labels) == ("i1", "swap", False, ("untrusted",))
        assert len(SqlFacts(database).listed(None)) == len(ROWS)


def test_a_repository_is_known_by_its_first_commit_wherever_it_is() -> None:
    assert repository_key("/a/.git", "c0ffee") == repository_key("/b/.git", "c0ffee")
    assert repository_key("/a/.git", None) != repository_key("/b/.git", None)
    assert "ann" not in repository_key("/home/ann/.git", None)


def test_an_approach_ends_at_a_word() -> None:
    words = approach_words(signature(), "word " * 500)

    assert len(words) <= MOST_APPROACH
    assert words.endswith("word")
    assert len(approach_words(signature(), "x" * 5_000)) == MOST_APPROACH
    assert "pytest -q" in approach_words(signature(), "\n")


@given(st.text(max_size=30).map(lambda text: text * 60))
@examples(100)
def test_an_approach_that_was_cut_stays_as_it_is(text: str) -> None:
    once = cut(text)

    assert len(once) <= MOST_APPROACH
    assert cut(once) == once
