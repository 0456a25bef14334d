"""The programs that a model is asked to mend: they work, their bugs do not, and both stay the same.

Bugs are chosen by trying them, which takes a process each: a few programs stand for all.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import types
from typing import get_args

import pytest

from evals.code.edits import Edit, Kind, edits
from evals.code.mutations import Program, broken, candidates, outcome, programs

PROGRAMS = programs()
SOME = ("account", "lookup", "roman", "tree", "wrapping")
FINGERPRINT = "eba2312f4244b5f1"
"""Of all programs with their tests and edits. A new value means other bugs: older scores do not compare."""


@pytest.fixture(scope="module")
def all_edits() -> dict[str, dict[Kind, list[Edit]]]:
    """Of each program; thousands are tried out for it."""
    return {program.name: edits(program.source) for program in PROGRAMS}


def named(name: str) -> Program:
    return next(program for program in PROGRAMS if program.name == name)


def run(source: str, name: str) -> dict[str, object]:
    module = types.ModuleType(name)
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    return module.__dict__


def test_programs_pass_their_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    for program in PROGRAMS:
        module = types.ModuleType(program.name)
        exec(compile(program.source, f"{program.name}.py", "exec"), module.__dict__)
        monkeypatch.setitem(sys.modules, program.name, module)

        tests = [test for key, test in run(program.tests, "tests").items() if key.startswith("test_")]

        assert 4 <= len(tests) <= 10, program.name
        for test in tests:
            assert callable(test)
            test()


def test_programs_are_small_and_say_what_they_do() -> None:
    assert len(PROGRAMS) >= 40
    for program in PROGRAMS:
        assert program.name not in sys.stdlib_module_names
        assert 15 <= program.source.count("\n") <= 50, program.name
        for node in ast.walk(ast.parse(program.source)):
            if isinstance(node, ast.FunctionDef) and node.name != "__init__":
                assert ast.get_docstring(node), f"{program.name}.{node.name}"


def test_each_program_can_be_broken_in_many_ways(all_edits: dict[str, dict[Kind, list[Edit]]]) -> None:
    assert set().union(*all_edits.values()) == set(get_args(Kind))
    assert min(map(len, all_edits.values())) >= 5


def test_bugs_are_the_ones_that_scores_were_measured_with(
    all_edits: dict[str, dict[Kind, list[Edit]]],
) -> None:
    digest = hashlib.sha256()
    for program in PROGRAMS:
        known = (program.name, program.source, program.tests, sorted(all_edits[program.name].items()))
        digest.update(repr(known).encode())

    assert digest.hexdigest()[:16] == FINGERPRINT


@pytest.mark.parametrize("name", SOME)
def test_bug_is_one_change_that_a_test_sees(name: str) -> None:
    program = named(name)

    bug = broken(program, seed=1)

    start = sum(map(len, program.source.splitlines(keepends=True)[: bug.line - 1]))
    assert bug.source != program.source
    assert bug.original != bug.mutated
    assert any(
        bug.source == program.source[:at] + bug.mutated + program.source[at + len(bug.original) :]
        for at in range(start, program.source.index("\n", start) + 1)
    )
    compile(bug.source, name, "exec")
    assert outcome(program, bug.source) == "failed"
    assert broken(program, seed=1) == bug


def test_seeds_choose_differently() -> None:
    orders = [[candidates(named(name), seed)[0] for name in SOME] for seed in (1, 1, 3)]

    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


def test_tests_that_do_not_end_are_told_from_tests_that_fail() -> None:
    program = Program(name="endless", source="", tests="")

    assert outcome(program, "") == "passed"
    assert outcome(program, "while True:\n    pass") == "hung"
    assert outcome(program, "raise ValueError") == "failed"
