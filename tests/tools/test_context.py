"""Cancel and ToolContext: asking for the end, and reporting what was spent."""

from __future__ import annotations

import threading

import pytest

from placet.errors import UsageError
from placet.tools import Cancel, ToolContext


def test_a_fresh_cancel_asks_for_nothing() -> None:
    cancel = Cancel()

    assert (cancel.requested, cancel.hard, cancel.reason) == (False, False, "")


def test_a_soft_cancel_says_why_and_wakes_nobody() -> None:
    woken: list[str] = []
    cancel = Cancel()
    cancel.on_hard(lambda: woken.append("hard"))

    cancel.cancel("lunch")

    assert (cancel.requested, cancel.hard, cancel.reason) == (True, False, "lunch")
    assert woken == []


def test_the_default_reason_names_the_caller() -> None:
    cancel = Cancel()

    cancel.cancel()

    assert cancel.reason == "cancellation requested by caller"


def test_a_hard_cancel_wakes_each_listener_once() -> None:
    woken: list[str] = []
    cancel = Cancel()
    cancel.on_hard(lambda: woken.append("a"))
    cancel.on_hard(lambda: woken.append("b"))

    cancel.cancel("soft first")
    cancel.cancel("then hard", hard=True)
    cancel.cancel("again", hard=True)

    assert woken == ["a", "b"]
    assert (cancel.hard, cancel.reason) == (True, "soft first")


def test_a_late_listener_is_called_at_once() -> None:
    woken: list[str] = []
    cancel = Cancel()
    cancel.cancel(hard=True)

    unsubscribe = cancel.on_hard(lambda: woken.append("late"))
    unsubscribe()

    assert woken == ["late"]


def test_an_unsubscribed_listener_is_left_alone() -> None:
    woken: list[str] = []
    cancel = Cancel()
    same = lambda: woken.append("x")  # noqa: E731 - subscribed twice, so it needs a name
    first = cancel.on_hard(same)
    cancel.on_hard(same)

    first()
    first()
    cancel.cancel(hard=True)

    assert woken == ["x"]


def test_a_listener_that_raises_does_not_silence_the_others() -> None:
    woken: list[str] = []
    cancel = Cancel()

    def broken() -> None:
        raise RuntimeError("loop is closed")

    cancel.on_hard(broken)
    cancel.on_hard(lambda: woken.append("still here"))

    with pytest.raises(RuntimeError, match="loop is closed"):
        cancel.cancel(hard=True)

    assert woken == ["still here"]


def test_listeners_may_use_the_token_themselves() -> None:
    cancel = Cancel()
    seen: list[bool] = []
    cancel.on_hard(lambda: cancel.on_hard(lambda: seen.append(cancel.hard)))

    cancel.cancel(hard=True)

    assert seen == [True]


def test_no_listener_is_lost_or_called_twice_between_threads() -> None:
    for _ in range(200):
        cancel = Cancel()
        woken: list[int] = []
        gate = threading.Barrier(3)

        def listen(number: int, cancel: Cancel = cancel, woken: list[int] = woken, gate=gate) -> None:
            gate.wait()
            cancel.on_hard(lambda: woken.append(number))

        threads = [threading.Thread(target=listen, args=(n,)) for n in range(2)]
        for thread in threads:
            thread.start()
        gate.wait()
        cancel.cancel(hard=True)
        for thread in threads:
            thread.join()

        assert sorted(woken) == [0, 1]


def test_spending_is_reported_as_it_happens() -> None:
    reports: list[tuple[int, float]] = []
    context = ToolContext(action_id="a1", run_id="r1", on_spend=lambda t, c: reports.append((t, c)))

    context.spend(tokens=10)
    context.spend(cost=0.25)

    assert reports == [(10, 0.0), (0, 0.25)]


def test_a_context_without_a_runtime_spends_into_the_void() -> None:
    context = ToolContext(action_id="a1", run_id="r1")

    context.spend(tokens=1, cost=1.0)

    assert (context.tenant, context.idempotency_key, context.cancel.requested) == (None, "", False)


@pytest.mark.parametrize("amounts", [{"tokens": -1}, {"cost": -0.1}, {"cost": float("nan")}])
def test_nothing_can_be_earned_back(amounts: dict[str, float]) -> None:
    reports: list[tuple[int, float]] = []
    context = ToolContext(action_id="a1", run_id="r1", on_spend=lambda t, c: reports.append((t, c)))

    with pytest.raises(UsageError, match="zero or more"):
        context.spend(**amounts)

    assert reports == []
