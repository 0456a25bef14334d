"""What a model would have written instead, as changes of a function."""

from __future__ import annotations

import ast
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from placet.coder.changes import Change, Changes
from placet.coder.doubts import MOST_CHANGES, Line, changes, lines
from placet.coder.python_source import Function, read_python
from placet.inference.passage import Doubt

SOURCE = '''\
def gaps(spans):
    """What lies
    between."""
    found = []
    for index in range(
        2, len(spans)
    ):
        # Those that touch.
        found.append(spans[index] - spans[index - 1])

    else:
        pass
    return found'''
FUNCTION = Function(path="spans.py", name="gaps", first=4, last=16, source=SOURCE, above="import math\n\n")
TEST = Function(
    path="test_spans.py", name="T.test", first=9, last=10, source="    def test(self):\n        pass"
)


def line_at(number: int, function: Function = FUNCTION) -> Line:
    return next(each for each in lines(function, []) if each.number == number)


def tried(number: int, *doubts: Doubt) -> list[Change]:
    return changes([(line_at(number), doubts)], Changes(FUNCTION))


def doubt(at: int, instead: str, surprise: float = 1.0) -> Doubt:
    return Doubt(at=at, instead=instead, surprise=surprise)


class TestLines:
    def test_what_does_something_is_read_from_the_top_down(self) -> None:
        found = lines(FUNCTION, [])
        assert [each.number for each in found if not each.is_missing] == [7, 8, 9, 12, 15, 16]

    def test_before_the_first_of_them_something_may_be_missing(self) -> None:
        (begun,) = [each for each in lines(FUNCTION, []) if each.is_missing]
        assert (begun.number, begun.passage.line) == (7, "    if")
        assert begun.passage.before + begun.passage.after[1:] == f"import math\n\n\n{SOURCE}\n"
        guard = "    if not spans:\n        return []"
        doubts = [doubt(4, "    found = []", 3.0), doubt(6, guard, 9.0)]
        assert changes([(begun, doubts)], Changes(FUNCTION)) == [Change("spans.py", 7, 6, guard, 1.0)]

    def test_a_line_stands_in_its_file_with_the_failing_test_beside_it(self) -> None:
        found = lines(FUNCTION, [TEST, FUNCTION])
        for each in found[:-1]:
            passage = each.passage
            assert passage.before + passage.line + passage.after == f"import math\n\n\n{SOURCE}\n"
            assert [(beside.path, beside.text) for beside in passage.beside] == [
                ("test_spans.py", "def test(self):\n    pass")
            ]
        assert found[3].passage.line == "        found.append(spans[index] - spans[index - 1])"

    def test_what_begins_the_same_stays_the_same_so_that_it_is_read_once(self) -> None:
        before = [each.passage.before for each in lines(FUNCTION, []) if not each.is_missing]
        assert all(later.startswith(earlier) for earlier, later in pairwise(before))

    def test_code_that_cannot_be_parsed_is_not_read(self) -> None:
        for source in ("def f(:", "", "x" * 3 + "\0"):
            assert lines(Function(path="x.py", name="f", first=1, last=1, source=source), []) == []

    def test_a_method_is_read_whatever_stands_left_of_it(self) -> None:
        rows = [
            "    def f(self):",
            "#        print(1)",
            "        text = '''",
            "SELECT",
            "'''",
            "        return text",
        ]
        method = Function(path="x.py", name="A.f", first=3, last=8, source="\n".join(rows))
        assert [each.number for each in lines(method, [])] == [5, 6, 8, 5]
        (change,) = changes(
            [(line_at(8, method), [doubt(15, "        return text.strip()")])], Changes(method)
        )[-1:]
        assert (change.first, change.text) == (8, "        return text.strip()")

    def test_what_is_far_above_is_left_out(self) -> None:
        text = "".join(f"VALUE_{n} = {n}\n" for n in range(500)) + "\n\ndef f():\n    return 1\n"
        read = read_python("x.py", text)
        function = read.function(next(each for each in read.definitions if each.name == "f"))
        assert 1_000 < len(function.above) <= 1_500
        assert function.above.endswith("VALUE_499 = 499\n\n")
        assert function.above.startswith("VALUE_")

    def test_a_long_function_is_read_in_parts_that_fit(self) -> None:
        rows = [f"    value_{n} = {n}" for n in range(2_000)]
        rows[3] = f"    text = '{'x' * 1_000}'"
        source = "\n".join(["def f():", *rows])
        long = Function(path="x.py", name="f", first=1, last=2_001, source=source, above="y = 1\n" * 200)
        huge = Function(path="test_x.py", name="t", first=1, last=2, source="x" * 10_000)
        found = lines(long, [huge], "z" * 10_000)
        assert [each.number for each in found] == [2, 3, 4, *range(6, 83), 2]
        for each in found[:-1]:
            passage = each.passage
            assert f"\n{passage.line}{passage.after}" in f"\n{source}\n"
            assert f"{long.above}\n{source}".find(passage.before + passage.line) >= 0
            around = [passage.before, passage.after, *(beside.text for beside in passage.beside)]
            assert sum(map(len, around)) <= 10_000


class TestChanges:
    def test_one_word_is_tried_before_the_rest_of_the_line(self) -> None:
        found = tried(16, doubt(11, "    return sorted(found)"))
        assert [(each.first, each.last, each.text) for each in found] == [
            (16, 16, "    return sorted"),
            (16, 16, "    return sorted(found)"),
        ]

    def test_what_follows_a_word_is_kept(self) -> None:
        row = line_at(12).passage.line
        found = tried(12, doubt(row.index("- spans"), "        found.append(spans[index])"))
        assert [each.text.strip() for each in found] == ["found.append(spans[index])"]
        found = tried(12, doubt(row.index("- 1"), "        found.append(spans[index] - spans[index + 1:])"))
        assert [each.text.strip() for each in found] == [
            "found.append(spans[index] - spans[index + 1])",
            "found.append(spans[index] - spans[index + 1:])",
        ]

    def test_a_line_that_begins_otherwise_may_be_one_that_is_missing(self) -> None:
        (added,) = tried(7, doubt(4, "    if not spans:\n        return []"))
        assert added == Change("spans.py", 7, 6, "    if not spans:\n        return []", 1.0)

    def test_the_depth_of_a_line_is_part_of_it(self) -> None:
        found = tried(16, doubt(0, "        return found"))
        assert Change("spans.py", 16, 16, "        return found", 1.0) in found

    def test_the_most_surprising_comes_first_and_only_so_many(self) -> None:
        doubts = [doubt(12, f"    found = {n}", n / 10) for n in range(30)]
        found = tried(7, *doubts)
        assert [each.text for each in found] == [f"    found = {n}" for n in range(29, 19, -1)]
        assert len(found) == MOST_CHANGES

    def test_what_python_would_not_run_is_not_tried(self) -> None:
        for row in ("    break", "    await found", "    nonlocal spans", "    found = yield = 1"):
            assert tried(7, doubt(4, row)) == []

    def test_an_inner_function_that_does_not_compile_by_itself_is_changed_all_the_same(self) -> None:
        source = "    def inner():\n        nonlocal count\n        count += 2"
        inner = Function(path="x.py", name="f.inner", first=3, last=5, source=source)
        found = changes([(line_at(5, inner), [doubt(17, "        count += 1")])], Changes(inner))
        assert [each.text for each in found] == ["        count += 1"]

    def test_what_says_the_same_is_not_tried(self) -> None:
        assert tried(7, doubt(12, "    found  =  [ ]  # so"), doubt(12, "    found = [[")) == []
        assert len(tried(7, doubt(12, "    found = 1"), doubt(12, "    found =  1"))) == 1

    @given(
        number=st.sampled_from([7, 8, 9, 12, 15, 16]),
        doubts=st.lists(
            st.builds(
                doubt,
                st.integers(0, 60),
                st.text(st.sampled_from("    found=[]()1:\nif spans"), max_size=30),
                st.floats(0, 20),
            ),
            max_size=6,
        ),
    )
    def test_every_change_leaves_valid_python_that_says_something_else(
        self, number: int, doubts: list[Doubt]
    ) -> None:
        meanings = [ast.dump(ast.parse(SOURCE))]
        rows = SOURCE.split("\n")
        for each in tried(number, *doubts):
            now = [*rows[: each.first - 4], *each.text.split("\n"), *rows[each.last - 3 :]]
            meanings.append(ast.dump(ast.parse("\n".join(now))))
        assert len(set(meanings)) == len(meanings)


def test_a_change_is_had_once() -> None:
    made = Changes(FUNCTION)
    assert made.made(7, 7, ["    found = 1"]) is not None
    assert made.made(7, 7, ["    found =  1"]) is None
    assert made.made(7, 7, ["    found = ["]) is None
