"""Doubts that keep a round from being acted on unattended: what a check runs was rewritten, a verdict that
cannot be read, one too many, one in an answer that was cut off, and a maker that says two things."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from placet.checks.contract import Check
from placet.inference.messages import ToolCall
from placet.inference.model import Result
from placet.ir.tool_spec import ToolSchema
from placet.loops.levels import Standing
from placet.loops.round import Round
from placet.loops.spec import ExecutorSpec, LoopSpec
from placet.loops.verdict import REPORT, TOOL
from placet.tools.context import Cancel
from placet.tools.tool import Tool
from tests.coder.workbench import git
from tests.loops.bench import FILES, HONEST, Bench, spec, verdict, write

SNEAK = ToolCall(name="sneak", arguments={})


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, str(tmp_path / "placet.db"))


async def run(bench: Bench, turns: Any, loop: LoopSpec | None = None, **options: Any) -> Round:
    """One round."""
    with bench.engine(turns, loop or spec(), **options) as engine:
        return await engine.run_round()


def rewriting(bench: Bench, path: str, text: str) -> Tool:
    """A tool by which the maker rewrites a file, as a command could."""

    def sneak(whole: dict[str, Any]) -> str:
        [folder] = bench.home.glob("*/attempt-1")
        (folder / path).write_text(text)
        return "done"

    return Tool.from_schema(ToolSchema(name="sneak", risk="idempotent"), sneak, trusted=True)


def branches(bench: Bench) -> list[str]:
    """What was published."""
    return git(bench.repository, "branch", "--list", "--format=%(refname:short)", "placet/*").split()


YES = "def same(one, other):\n    return True\n"
COMPARED = {
    "shop.py": "def total(prices):\n    return sum(prices) + 1\n",
    "pytest.ini": "[pytest]\npythonpath = .\n",
    "golden/out.js": "3\n",
    "compare.py": "def same(one, other):\n    return one == other\n",
    "tests/test_shop.py": (
        "import runpy\nfrom pathlib import Path\n\nfrom shop import total\n\n"
        "same = runpy.run_path('compare.py')['same']\n\n\n"
        "def test_total():\n    assert same(total([1, 2]), int(Path('golden/out.js').read_text()))\n\n\n"
        "if __name__ == '__main__':\n    test_total()\n"
    ),
}
REWRITES = f"{COMPARED['shop.py']}import pathlib\npathlib.Path('compare.py').write_text({YES!r})\n"


@pytest.mark.parametrize(
    ("path", "text", "changed", "needs_person"),
    [
        ("golden/out.js", "4\n", [], []),
        ("compare.py", YES, ["compare.py"], ["compare.py"]),
        ("shop.py", REWRITES, ["shop.py"], ["compare.py"]),
    ],
    ids=["sealed", "needs a person", "rewritten while the check runs"],
)
async def test_source_that_only_a_test_names_is_not_acted_on_alone(
    tmp_path: Path, path: str, text: str, changed: list[str], needs_person: list[str]
) -> None:
    bench = Bench(tmp_path, str(tmp_path / "placet.db"), COMPARED)
    # Without pytest, which takes ten times as long to start.
    plain = f"PYTHONPATH=. {sys.executable} -S tests/test_shop.py"
    turns = [write(path=path, text=text), "made it", verdict("done"), "fine"]

    ended = await run(bench, turns, spec("L3", checks=(Check(name="all", command=plain),)))

    assert ended.outcome == "escalated"
    assert branches(bench) == []
    assert list(ended.needs_person) == needs_person
    assert ended.changed == changed


async def test_a_script_that_a_check_reaches_through_a_makefile_is_put_back(tmp_path: Path) -> None:
    makefile = "check:\n\tsh scripts/check.sh\n"
    files = {**FILES, "Makefile": makefile, "scripts/check.sh": "grep -q right a.txt\n"}
    bench = Bench(tmp_path, str(tmp_path / "placet.db"), files)
    loop = spec(checks=(Check(name="all", command="make check"),))
    turns = [write(text="wrong\n"), SNEAK, "made it", verdict("done"), "fine"]

    ended = await run(bench, turns, loop, maker_tools=[rewriting(bench, "scripts/check.sh", "true\n")])

    assert ended.sealed == ["scripts/check.sh"]
    assert ended.changed == ["a.txt"]
    assert [check.passed for check in ended.checks] == [False]
    assert ended.outcome == "escalated"
    assert not ended.verified
    assert branches(bench) == []


async def test_what_reported_tests_before_any_work_is_a_test(tmp_path: Path) -> None:
    """Whatever it is called: the loop's own baseline says so."""
    files = {**FILES, "proof.py": "def test_it():\n    assert open('a.txt').read() == 'right\\n'\n"}
    bench = Bench(tmp_path, str(tmp_path / "placet.db"), files)
    command = f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {sys.executable} -m pytest -q -o python_files='*.py' ."
    tool = rewriting(bench, "proof.py", "def test_it(): pass\n")
    turns = [SNEAK, "made it", verdict("done"), "fine"]

    ended = await run(bench, turns, spec(checks=(Check(name="all", command=command),)), maker_tools=[tool])

    assert ended.sealed == ["proof.py"]
    assert ended.outcome == "escalated"


def said(**arguments: Any) -> ToolCall:
    """A call of the checker's tool, whatever it says."""
    return ToolCall(name=TOOL, arguments=arguments)


def reported(word: str, summary: str = "so it is") -> ToolCall:
    """A call by which the maker says how far it came."""
    return ToolCall(name=REPORT, arguments={"verdict": word, "summary": summary})


UNREADABLE = [
    [verdict("done"), said(verdict="blocked"), "fine"],
    [verdict("done"), said(verdict="NOT DONE", summary="it is broken"), "fine"],
    [said(verdict="blocked", summary=None), verdict("done"), "fine"],
    [
        Result(calls=[verdict("done"), ToolCall(name=TOOL, arguments={}, problem="no JSON")], stop="calls"),
        "x",
    ],
]


@pytest.mark.parametrize("turns", UNREADABLE)
async def test_a_verdict_that_cannot_be_read_leaves_no_other_standing(bench: Bench, turns: list[Any]) -> None:
    ended = await run(bench, [write(), "made it", *turns])

    assert (ended.outcome, ended.verified) == ("escalated", False)
    assert "cannot be read" in ended.reason
    assert branches(bench) == []


async def test_more_verdicts_than_are_kept_are_none(bench: Bench) -> None:
    many = [verdict("done", f"look {number}") for number in range(100)]
    answer = Result(calls=[*many, verdict("blocked", "it is broken")], stop="calls")

    ended = await run(bench, [write(), "made it", answer, "fine"])

    assert (ended.outcome, ended.verdict) == ("escalated", None)
    assert branches(bench) == []


async def test_too_many_verdicts_of_one_word_are_none_too(bench: Bench) -> None:
    many = [verdict("done", f"look {number}") for number in range(103)]

    ended = await run(bench, [write(), "made it", Result(calls=many, stop="calls"), "fine"])

    assert (ended.outcome, ended.verdict) == ("escalated", None)
    assert "more than 100" in ended.reason


REPORTS = [
    (["blocked", "done"], "the maker is blocked", False),
    (["needs_context", "blocked"], "the maker is blocked", False),
    (["done", "needs_context"], "the maker is needs_context", False),
    (["done", "done_with_concerns"], "the maker is done_with_concerns", True),
    (["finished"], "cannot be read", True),
]


@pytest.mark.parametrize(("words", "why", "is_checked"), REPORTS)
async def test_a_maker_that_says_it_is_not_done_escalates_whatever_else_it_says(
    bench: Bench, words: list[str], why: str, is_checked: bool
) -> None:
    reports = Result(calls=[reported(word) for word in words], stop="calls")
    after = ["made it"] if words == ["finished"] else []

    ended = await run(bench, [write(), reports, *after, verdict("done"), verdict("done", "again"), "fine"])

    assert (ended.outcome, ended.verified) == ("escalated", False)
    assert why in ended.reason
    assert (ended.checker is not None) == is_checked
    assert branches(bench) == []


async def test_a_maker_that_reports_done_is_checked_and_acted_on(bench: Bench) -> None:
    ended = await run(bench, [write(), reported("done"), verdict("done"), verdict("done", "again")])

    assert ended.outcome == "proceeded"


async def test_a_verdict_in_an_answer_that_was_cut_off_counts_for_nothing(bench: Bench) -> None:
    cut = Result(text="It looks", calls=[verdict("done")], stop="length")

    ended = await run(bench, [write(), "made it", cut, "fine"])

    assert (ended.outcome, ended.verified) == ("escalated", False)
    assert "cut off" in ended.reason
    assert branches(bench) == []


LESS: list[dict[str, Any]] = [{"level": "L2"}, {"allow": ()}]


@pytest.mark.parametrize("phase", ["making", "executing"])
@pytest.mark.parametrize("less", [*LESS, None])
async def test_a_round_that_was_broken_off_is_held_to_what_the_loop_may_by_now(
    bench: Bench, phase: str, less: dict[str, Any] | None
) -> None:
    """Lowered in its file, or because something was taken back."""
    cancel = Cancel()

    def watch(round: Round, begun: str) -> None:
        if begun == phase:
            cancel.cancel("the machine goes down", hard=True)

    with bench.engine(HONEST, spec(), watch=watch) as engine:
        broken_off = await engine.run_round(round_id="r1", cancel=cancel)
        assert (broken_off.outcome, broken_off.level) == (None, "L3")
        if less is None:
            lowered = Standing(loop=broken_off.key, level="L2", reason="it was taken back", since=1.0)
            engine.rounds.set_standing(lowered)
    with bench.engine(HONEST if phase == "making" else [], spec(**(less or {}))) as engine:
        ended = await engine.run_round(round_id="r1")

    assert ended.outcome == "escalated", ended.reason
    assert ended.approval
    assert branches(bench) == []


async def test_a_round_that_was_broken_off_gains_nothing_from_a_level_that_was_raised(bench: Bench) -> None:
    cancel = Cancel()
    with bench.engine(HONEST, spec("L2"), watch=lambda *_: cancel.cancel("later", hard=True)) as engine:
        assert (await engine.run_round(round_id="r1", cancel=cancel)).is_open
    with bench.engine(HONEST, spec("L3")) as engine:
        ended = await engine.run_round(round_id="r1")

    assert (ended.outcome, ended.level) == ("escalated", "L2")
    assert branches(bench) == []


@pytest.mark.parametrize(
    ("executor", "outcome"),
    [
        (ExecutorSpec(use="commit"), "reported"),
        (ExecutorSpec(use="record"), "reported"),
        (ExecutorSpec(use="command", command="true"), "escalated"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.use,
)
async def test_a_round_that_changed_nothing_has_not_proceeded(
    tmp_path: Path, executor: ExecutorSpec, outcome: str
) -> None:
    """The check was green before: that it still is shows nothing."""
    bench = Bench(tmp_path, str(tmp_path / "placet.db"), {**FILES, "a.txt": "right\n"})
    turns = ["it is right already", verdict("done"), "fine"]

    ended = await run(bench, turns, spec(executor=executor))

    assert [check.passed for check in ended.checks] == [True]
    assert (ended.outcome, ended.receipt) == (outcome, None)


OWNED = {
    "shop.py": "def rate():\n    return int(open('rate.txt').read())\n",
    "rate.txt": "18\n",
    "verify.py": "import sys, shop\n\nsys.exit(0 if shop.rate() == 19 else 1)\n",
}


@pytest.mark.parametrize(("may_touch", "outcome"), [((), "escalated"), (("rate.txt",), "proceeded")])
async def test_data_that_a_check_read_is_a_persons_to_approve(
    tmp_path: Path, may_touch: tuple[str, ...], outcome: str
) -> None:
    bench = Bench(tmp_path, str(tmp_path / "placet.db"), OWNED)
    loop = spec(checks=(Check(name="rate", command="python3 verify.py"),), may_touch=may_touch)

    ended = await run(bench, [write("rate.txt", "19\n"), "made it", verdict("done"), "fine"], loop)

    assert [check.passed for check in ended.checks] == [True]
    assert (ended.outcome, ended.verified) == (outcome, outcome == "proceeded")
    assert list(ended.needs_person) == ([] if may_touch else ["rate.txt"])
