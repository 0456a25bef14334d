"""The same calls again and again: one warning, then the end."""

from __future__ import annotations

import pytest

from placet.inference.messages import ToolCall
from placet.turns.repetition import STUCK_AFTER, WARN_AFTER, WARNING, Repetition


def call(name: str = "look", /, *, id: str = "", **arguments: object) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments)


def verdicts(*turns: list[ToolCall]) -> list[str]:
    guard = Repetition()
    return [guard.saw(calls) for calls in turns]


def test_three_in_a_row_warn_once_and_six_are_stuck_for_good() -> None:
    turns = [[call(path="a.txt")] for _ in range(8)]

    assert verdicts(*turns) == ["fine", "fine", "warn", "fine", "fine", "stuck", "stuck", "stuck"]
    assert (WARN_AFTER, STUCK_AFTER) == (3, 6)


def test_another_call_begins_a_new_streak_with_its_own_warning() -> None:
    a, b = [call(n=1)], [call(n=2)]

    assert verdicts(a, a, a, b, a, a, a) == ["fine", "fine", "warn", "fine", "fine", "fine", "warn"]


def test_calls_in_turns_of_two_are_no_streak() -> None:
    a, b = [call(n=1)], [call(n=2)]

    assert set(verdicts(*[a, b] * 10)) == {"fine"}


def test_a_turn_without_calls_ends_the_streak_and_is_none_itself() -> None:
    a = [call(n=1)]

    assert verdicts(a, a, [], a, a) == ["fine"] * 5
    assert set(verdicts(*[[]] * 10)) == {"fine"}


def test_ids_and_the_order_of_keys_do_not_count() -> None:
    first = [call(id="1", a=1, b={"x": 1, "y": 2})]
    second = [call(id="2", b={"y": 2, "x": 1}, a=1)]

    assert verdicts(first, second, first) == ["fine", "fine", "warn"]


@pytest.mark.parametrize(
    "other",
    [
        [call("read", path="b")],
        [call("write", path="a")],
        [call("read", path="a", more=None)],
        [call("read", path="a"), call("read", path="a")],
        [call("read", path="a"), call("read", path="b")],
        [ToolCall(name="read", problem="no JSON", raw='{"path":"a"}')],
        [],
    ],
)
def test_anything_else_is_another_call(other: list[ToolCall]) -> None:
    a = [call("read", path="a")]

    assert verdicts(a, a, other, a) == ["fine"] * 4


def test_the_order_of_calls_counts() -> None:
    a, b = call("read", path="a"), call("read", path="b")

    assert verdicts([a, b], [b, a], [a, b]) == ["fine"] * 3


def test_malformed_calls_are_compared_as_they_were_written() -> None:
    def broken(raw: str, problem: str = "no JSON") -> list[ToolCall]:
        return [ToolCall(name="read", problem=problem, raw=raw)]

    assert verdicts(broken("{"), broken("{", "cut off"), broken("{")) == ["fine", "fine", "warn"]
    assert verdicts(broken("{"), broken("["), broken("{")) == ["fine"] * 3


def test_what_no_json_can_carry_is_compared_too() -> None:
    half = [call("read", path="\ud800")]
    broken = [ToolCall(name="\ud800", problem="no JSON", raw="\ud800")]

    assert verdicts(half, half, half) == ["fine", "fine", "warn"]
    assert verdicts(broken, broken, broken) == ["fine", "fine", "warn"]


def test_nothing_of_the_calls_is_kept() -> None:
    guard = Repetition()

    guard.saw([call(content="x" * 100_000)])

    assert all(len(repr(getattr(guard, name))) < 100 for name in Repetition.__slots__)


def test_the_warning_is_words_for_the_model() -> None:
    assert "three times in a row" in WARNING
    assert "\n" not in WARNING
