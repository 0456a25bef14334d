"""What a small model is asked: one place at a time, the beginning always the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from placet.checks.contract import CheckResult
from placet.coder.angles import BLANK, Angle, angles
from placet.coder.blanks import filled
from placet.coder.changes import Changes
from placet.coder.context import Chosen
from placet.coder.prompt import angle_words, task_words
from placet.coder.python_source import Function
from placet.coder.style import LARGE, SMALL, style_for

SOURCE = '''\
def gaps(spans):
    """What lies between."""
    found = []
    for index in range(1, len(spans)):
        if spans[index] is None:
            continue
        found.append(spans[index] - spans[index - 1])
    return found
'''
PROGRAM = f"import math\n\n\n{SOURCE}"
METHODS = """\
class Account:
    def take(self, sum):
        if sum > self.balance:
            raise ValueError(
                "too much"
            )
        self.balance += sum
"""


def gaps() -> Function:
    return Function(path="spans.py", name="gaps", first=4, last=11, source=SOURCE.rstrip("\n"))


def take() -> Function:
    source = METHODS.split("\n", 1)[1].rstrip("\n")
    return Function(path="account.py", name="Account.take", first=2, last=7, source=source)


def at(found: list[Angle], row: str) -> Angle:
    return next(each for each in found if each.row == row)


class TestAngles:
    def test_what_decides_comes_first_and_then_the_rest(self) -> None:
        found = angles([gaps()])
        assert [each.row for each in found if each.way == "blank"] == [
            f"for index in {BLANK}:",
            f"if {BLANK}:",
            f"return {BLANK}",
            f"found = {BLANK}",
            f"found.{BLANK}",
            BLANK,
        ]

    def test_lines_are_those_of_the_file(self) -> None:
        found = angles([gaps()])
        loop = at(found, f"for index in {BLANK}:")
        assert (loop.first, loop.last, loop.was) == (7, 7, "for index in range(1, len(spans)):")
        missing = [(each.first, each.last) for each in found if each.way == "missing"]
        assert missing == [(6, 5), (11, 10)]

    def test_only_one_place_is_blank_and_the_rest_is_as_it_was(self) -> None:
        for each in angles([gaps(), take()]):
            assert each.shown.count(BLANK) == 1
            rows, was = each.shown.split("\n"), each.function.source.split("\n")
            begin, end = each.first - each.function.first, each.last - each.function.first + 1
            assert rows[:begin] == was[:begin]
            assert rows[begin + 1 :] == was[end:]

    def test_a_statement_of_several_lines_is_one_blank(self) -> None:
        raises = next(each for each in angles([take()]) if each.last > each.first)
        assert (raises.first, raises.last, raises.row) == (4, 6, BLANK)

    def test_the_operator_of_an_assignment_is_part_of_the_blank(self) -> None:
        assert at(angles([take()]), f"self.balance {BLANK}").first == 7

    @pytest.mark.parametrize("source", ["def broken(:\n    pass", "def f():\n    return '____'", ""])
    def test_what_cannot_be_looked_at_has_no_angles(self, source: str) -> None:
        assert angles([Function(path="x.py", name="f", first=1, last=2, source=source)]) == []


class TestWords:
    def test_angles_differ_only_at_the_end(self) -> None:
        chosen = Chosen(
            text="Failing test x:\n1: def x():\n\nCode involved, nearest first:\n\ngaps:\n4: def gaps",
            functions=(gaps(), take()),
        )
        words = [angle_words(chosen, each) for each in angles([gaps()])]
        start = "Failing test x:\ndef x():\n\nCode that it uses:\n\n    def take(self, sum):"
        assert all(each.startswith(start) for each in words)
        # Of the function that is looked at, the line in question is shown nowhere.
        assert "range(1, len(spans))" not in words[0]
        assert words[0].endswith(f"for index in {BLANK}:")

    def test_hidden_characters_are_shown(self) -> None:
        odd = Function(path="x.py", name="f", first=1, last=2, source="def f():\n    return '\x1b[31m'")
        assert "\x1b" not in angle_words(Chosen(text="", functions=(odd,)), angles([odd])[-1])

    def test_what_a_check_wrote_is_not_told_twice(self) -> None:
        red = CheckResult(name="t", command="t", passed=False, exit_code=1, output="it is broken")
        common: dict[str, Any] = {"hint": None, "sealed": (), "said": 0}
        assert "it is broken" not in task_words("mend it", [red], chosen="code", **common)
        assert "it is broken" in task_words("mend it", [red], chosen="", **common)

    def test_which_style(self) -> None:
        assert style_for(["local"], None) is SMALL
        assert style_for(["openai:x"], None) is LARGE
        assert SMALL.takes_angles
        assert not LARGE.takes_angles
        assert SMALL.temperature(1, 1) == 0.0


class TestFilling:
    @staticmethod
    def fill(angle: Angle, code: str) -> str | None:
        """The function with what a model wrote in its place; None if that is no change."""
        answer = msgspec.json.encode({"code": code}).decode()
        change = filled(angle, answer, Changes(angle.function))
        if change is None:
            return None
        rows = PROGRAM.split("\n")
        return "\n".join([*rows[: change.first - 1], *change.text.split("\n"), *rows[change.last :]])

    @pytest.mark.parametrize(
        "code", ["range(2)", "for index in range(2):", "    for index in range(2):\n", "range(2):"]
    )
    def test_the_whole_line_or_what_is_blank(self, code: str) -> None:
        angle = at(angles([gaps()]), f"for index in {BLANK}:")
        assert self.fill(angle, code) == PROGRAM.replace("range(1, len(spans))", "range(2)")

    def test_another_method(self) -> None:
        angle = at(angles([gaps()]), f"found.{BLANK}")
        now = self.fill(angle, "found.insert(0, 1)")
        assert now == PROGRAM.replace("found.append(spans[index] - spans[index - 1])", "found.insert(0, 1)")

    def test_what_is_missing_is_put_before_the_line(self) -> None:
        angle = next(each for each in angles([gaps()]) if each.way == "missing")
        now = self.fill(angle, "if not spans:\n    return []")
        assert now == PROGRAM.replace(
            "    found = []\n", "    if not spans:\n        return []\n    found = []\n"
        )

    @pytest.mark.parametrize(
        "code", ["range(1, len(spans))", "for index in range(1,len( spans)):", "((", "\0"]
    )
    def test_what_says_the_same_or_makes_no_sense_is_no_change(self, code: str) -> None:
        assert self.fill(at(angles([gaps()]), f"for index in {BLANK}:"), code) is None

    @pytest.mark.parametrize("answer", ["", "range(2)", "[]", "{}", '{"code": 3}'])
    def test_an_answer_of_another_shape_is_no_change(self, answer: str) -> None:
        angle = angles([gaps()])[0]
        assert filled(angle, answer, Changes(angle.function)) is None
