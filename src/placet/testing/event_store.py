"""What every store of events promises, as checks that any of them can be put through.

A check takes a function that makes a store holding given events, and raises AssertionError where a promise is
broken:

    @pytest.mark.parametrize("check", event_store_suite, ids=lambda check: check.__name__)
    def test_my_store(check):
        check(lambda events: MyStore(events))

Keep true:
1. A check uses the protocol alone, never what one implementation adds.
2. Each check stands alone, on a store of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from placet.events.event import Event
from placet.events.store import EventStore
from placet.ir.json_value import JsonValue
from placet.testing.checks import same

MakeStore = Callable[[Sequence[Event]], EventStore]
Check = Callable[[MakeStore], None]

AWKWARD: JsonValue = {
    "": None,
    "numbers": [0, -0.0, 1.5, 2**53 + 1, 2**64, 10**300 + 7, 1e308, 5e-324, True],
    "text": ["", "a\0b", "\u2028 \U0001f600 é", "'; DROP TABLE events; --", "%s ? $1"],
    "deep": {"": {"": [[]]}},
}
"""Data that stores lose or bend when they are careless."""


def _events() -> list[Event]:
    """Two runs of one tenant and one of another, interleaved, with a clock that once goes backwards."""
    rows: list[tuple[str, float, str, str, str | None, str, str | None, dict[str, JsonValue]]] = [
        ("proposal_received", 100.0, "r1", "p1", None, "t1", "acme", {"source": "planner"}),
        ("proposal_received", 101.0, "r2", "p2", None, "t2", "acme", {"source": "other"}),
        ("action_executing", 102.0, "r1", "p1", "a", "t1", "acme", {"tool": "note"}),
        ("action_succeeded", 103.0, "r1", "p1", "a", "t1", "acme", {"tool": "note", "output": 1}),
        ("action_executing", 102.5, "r2", "p2", "a", "t2", "acme", {"tool": "mail"}),
        ("proposal_ended", 104.0, "r1", "p1", None, "t1", "acme", _ended("planner", 1)),
        ("action_failed", 105.0, "r2", "p2", "a", "t2", "acme", {"tool": "mail", "error": "no"}),
        ("proposal_ended", 106.0, "r2", "p2", None, "t2", "acme", _ended("other", 2)),
        ("proposal_ended", 107.0, "r2", "p3", None, "t2", "acme", _ended("other", 5)),
        ("proposal_received", 108.0, "r3", "p1", None, "t3", None, {"source": "planner"}),
        ("proposal_ended", 109.0, "r3", "p1", None, "t3", None, _ended("planner", 10)),
        ("round_started", 110.0, "r3", "p1", None, "t3", None, {}),
    ]
    return [
        Event(n, kind, time, run, proposal, action, trace, f"s{n}", tenant, data)
        for n, (kind, time, run, proposal, action, trace, tenant, data) in enumerate(rows, start=1)
    ]


def _ended(source: str, calls: int) -> dict[str, JsonValue]:
    return {"outcome": "succeeded", "source": source, "cost": {"tool_calls": calls, "duration_ms": 0.5}}


def _seqs(events: Iterable[Event]) -> list[int]:
    return [event.seq for event in events]


def an_empty_store_has_nothing(make: MakeStore) -> None:
    store = make([])

    same(store.query(), [], "query()")
    same(store.query(kind="action_failed", newest=True, limit=3), [], "query with conditions")
    same(store.counts(), {}, "counts()")
    same(store.cost_by_agent(), {}, "cost_by_agent()")


def events_come_back_as_they_went_in(make: MakeStore) -> None:
    events = [*_events(), Event(13, "turn_note", 111.25, data=AWKWARD)]

    same(make(events).query(), events, "query()")


def order_is_that_of_writing_not_of_time(make: MakeStore) -> None:
    store = make(_events())

    same(_seqs(store.query()), list(range(1, 13)), "oldest first")
    same(_seqs(store.query(newest=True)), list(range(12, 0, -1)), "newest first")


def each_condition_holds(make: MakeStore) -> None:
    store = make(_events())
    expected: list[tuple[dict[str, Any], list[int]]] = [
        ({"kind": "action_executing"}, [3, 5]),
        ({"kind": ["action_executing", "action_failed"]}, [3, 5, 7]),
        ({"kind": {"action_executing"}}, [3, 5]),
        ({"kind": ()}, []),
        ({"kind": "nothing"}, []),
        ({"run": "r2"}, [2, 5, 7, 8, 9]),
        ({"trace": "t3"}, [10, 11, 12]),
        ({"proposal": "p1"}, [1, 3, 4, 6, 10, 11, 12]),
        ({"action": "a"}, [3, 4, 5, 7]),
        ({"tool": "mail"}, [5, 7]),
        ({"tool": "nope"}, []),
        ({"tenant": "acme"}, list(range(1, 10))),
        ({"since": 102.5}, list(range(4, 13))),
        ({"until": 102.5}, [1, 2, 3, 5]),
        ({"since": 102.5, "until": 103.0}, [4, 5]),
        ({"since": 1000.0}, []),
        ({"since": 103, "until": 102}, []),
        ({"after": 10}, [11, 12]),
        ({"after": 0}, list(range(1, 13))),
        ({"after": 12}, []),
        ({"before": 3}, [1, 2]),
        ({"after": 4, "before": 7}, [5, 6]),
        ({"before": 1}, []),
        ({"limit": 2}, [1, 2]),
        ({"limit": 0}, []),
        ({"limit": 99}, list(range(1, 13))),
    ]

    for conditions, seqs in expected:
        same(_seqs(store.query(**conditions)), seqs, f"query({conditions})")
        limited = "limit" in conditions and conditions["limit"] == 2
        newest = [12, 11] if limited else seqs[::-1]
        same(_seqs(store.query(**conditions, newest=True)), newest, f"query({conditions}, newest=True)")


def conditions_are_joined_by_and(make: MakeStore) -> None:
    store = make(_events())

    same(_seqs(store.query(run="r2", kind="proposal_ended")), [8, 9], "run and kind")
    same(_seqs(store.query(run="r2", kind=["proposal_ended", "action_failed"], after=7)), [8, 9], "and after")
    same(_seqs(store.query(action="a", tool="note", trace="t1", proposal="p1")), [3, 4], "four of them")
    same(_seqs(store.query(kind="proposal_ended", limit=2, newest=True)), [11, 9], "the newest two of a kind")
    same(
        _seqs(store.query(kind="proposal_ended", until=108.0, tenant="acme")), [6, 8, 9], "kind, time, tenant"
    )
    same(_seqs(store.query(run="r1", trace="t2")), [], "a contradiction")


def text_in_a_condition_is_only_text(make: MakeStore) -> None:
    names = ["'", '"', "%", "_", "?", "%s", "\\", "a\nb", "é", "e\u0301", "A", "a", "\U0001f600", ""]
    events = [Event(n, "turn_note", 1.0, run_id=name) for n, name in enumerate(names, start=1)]
    store = make(events)

    for number, name in enumerate(names, start=1):
        same(_seqs(store.query(run=name)), [number], f"query(run={name!r})")


def many_are_found_as_well_as_few(make: MakeStore) -> None:
    """More than fit on a page, whatever a page is."""
    count = 2_500
    events = [Event(n, f"turn_{n % 2}", float(n), run_id=f"r{n % 3}") for n in range(1, count + 1)]
    store = make(events)

    same(_seqs(store.query()), list(range(1, count + 1)), "all")
    same(_seqs(store.query(newest=True)), list(range(count, 0, -1)), "all, newest first")
    same(_seqs(store.query(kind="turn_1")), list(range(1, count, 2)), "every other")
    same(_seqs(store.query(limit=1_500, after=700)), list(range(701, 2_201)), "a limit of more than a page")
    same(_seqs(store.query(limit=1_500, newest=True)), list(range(count, 1_000, -1)), "and from the end")
    same(
        _seqs(store.query(limit=1_500, newest=True, before=2_000)),
        list(range(1_999, 499, -1)),
        "and from before one",
    )
    same(_seqs(store.query(since=100, until=2_200)), list(range(100, 2_201)), "a stretch of time")
    same(sorted(store.counts().items()), [("turn_0", 1_250), ("turn_1", 1_250)], "counts()")


def counts_are_by_kind(make: MakeStore) -> None:
    counts = make(_events()).counts()

    expected = {
        "action_executing": 2,
        "action_failed": 1,
        "action_succeeded": 1,
        "proposal_ended": 4,
        "proposal_received": 3,
        "round_started": 1,
    }
    same({kind: counts[kind] for kind in sorted(counts)}, expected, "counts()")


def cost_is_by_agent_and_a_replanned_run_counts_once(make: MakeStore) -> None:
    expected = {
        "planner": {"runs": 2, "tool_calls": 11, "duration_ms": 1.0},
        "other": {"runs": 1, "tool_calls": 5, "duration_ms": 0.5},
    }

    same(make(_events()).cost_by_agent(), expected, "cost_by_agent()")


def what_models_took_is_counted_by_agent(make: MakeStore) -> None:
    answer: dict[str, JsonValue] = {"input_tokens": 90, "output_tokens": 10, "cached_tokens": 0, "cost": 0.5}
    rows: list[tuple[str, dict[str, JsonValue]]] = [
        ("turn_loop_started", {"source": "assistant"}),
        ("turn_answered", answer),
        ("model_answered", {**answer, "cost": None}),
    ]
    events = [Event(n, kind, 100.0 + n, "r1", data=data) for n, (kind, data) in enumerate(rows, start=1)]
    took = {"model_answers": 2, "input_tokens": 180, "output_tokens": 20, "cached_tokens": 0}
    unknown = {"uncounted_answers": 0, "unpriced_answers": 1}

    expected = {"assistant": {"runs": 1, **took, "cost_usd": 0.5, **unknown}}
    same(make(events).cost_by_agent(), expected, "cost_by_agent() of models")


event_store_suite: tuple[Check, ...] = (
    an_empty_store_has_nothing,
    events_come_back_as_they_went_in,
    order_is_that_of_writing_not_of_time,
    each_condition_holds,
    conditions_are_joined_by_and,
    text_in_a_condition_is_only_text,
    many_are_found_as_well_as_few,
    counts_are_by_kind,
    cost_is_by_agent_and_a_replanned_run_counts_once,
    what_models_took_is_counted_by_agent,
)
"""One check for each promise of `EventStore`. A check takes a function that makes a store of given events,
and raises `AssertionError` if the promise is broken."""
