"""Break a small program in one place, the way a person does by mistake.

Keep true:
1. A bug is one stretch of the text replaced; all the rest stays byte for byte.
2. A program and a seed always give the same bug, on every machine and Python: the choice uses no clock and
   no order of sets, and a test that does not end is counted in lines run, not in seconds.
3. Every bug makes a test of its program fail.
4. The kind is chosen before the place, so that kinds with many places do not crowd out the others.

Changing a program, the list of edits or their order changes the bugs of every seed, and with it what a score
means.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from evals.code.edits import Edit, Kind, edits

PROGRAMS = Path(__file__).parent / "programs"
TIME_LIMIT_S = 5.0
Outcome = Literal["passed", "failed", "hung"]

# The module is made by hand, so that nothing is written to a disk. Lines are counted with a trace function:
# a busy machine then finds the same programs endless as an idle one.
RUNNER = """
import json, os, resource, sys, types

name, source, tests = json.load(sys.stdin)
HUNG, left = 3, 500_000

def count(frame, event, argument):
    global left
    left -= 1
    if left < 0:
        os._exit(HUNG)
    return count

try:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
except (OSError, ValueError):
    pass
sys.settrace(count)
try:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name + ".py", "exec"), module.__dict__)
    scope = {"__name__": "test_" + name}
    exec(compile(tests, "test_" + name + ".py", "exec"), scope)
    for key, test in list(scope.items()):
        if key.startswith("test_"):
            test()
except MemoryError:
    os._exit(HUNG)
except BaseException:
    os._exit(1)
"""


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program that works, and the tests that show it."""

    name: str
    """Its module: the program is `NAME.py`, its tests `test_NAME.py` beside it."""
    source: str
    tests: str


class Bug(msgspec.Struct, frozen=True, kw_only=True):
    """A program that was broken in one place."""

    name: str
    """Of the program."""
    kind: Kind
    line: int
    """Where the change begins; the first line is 1."""
    original: str
    """What stood there."""
    mutated: str
    """What stands there now; empty if something is missing."""
    source: str
    """The whole broken program."""


class Chosen(NamedTuple):
    """One edit to try."""

    kind: Kind
    edit: Edit


def programs() -> list[Program]:
    """All programs, sorted by name."""
    return [
        Program(
            name=path.stem,
            source=path.read_text(encoding="utf-8"),
            tests=(PROGRAMS / "tests" / f"test_{path.name}").read_text(encoding="utf-8"),
        )
        for path in sorted(PROGRAMS.glob("*.py"))
    ]


def outcome(program: Program, source: str) -> Outcome:
    """How the tests of a program end if this is its source."""
    try:
        ended = subprocess.run(
            [sys.executable, "-P", "-s", "-S", "-c", RUNNER],
            input=msgspec.json.encode([program.name, source, program.tests]),
            # Sets of texts are walked in the same order each time.
            env={"PYTHONHASHSEED": "0"},
            timeout=TIME_LIMIT_S,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "hung"
    match ended.returncode:
        case 0:
            return "passed"
        case 1:
            return "failed"
        case _:
            return "hung"


def candidates(program: Program, seed: int) -> list[Chosen]:
    """All edits of a program in the order in which a seed tries them: one kind after the other."""
    chance = random.Random(f"{seed}:{program.name}")
    by_kind = edits(program.source)
    kinds = sorted(by_kind)
    chance.shuffle(kinds)
    order: list[Chosen] = []
    for kind in kinds:
        places = list(by_kind[kind])
        chance.shuffle(places)
        order += [Chosen(kind, edit) for edit in places]
    return order


def broken(program: Program, seed: int) -> Bug:
    """The bug of a program for a seed.

    A bug with which the tests do not end is taken only if there is no other.

    Raises:
        ValueError: no edit makes a test fail; the tests see nothing.
    """
    endless: Bug | None = None
    for kind, edit in candidates(program, seed):
        bug = Bug(
            name=program.name,
            kind=kind,
            line=program.source.count("\n", 0, edit.start) + 1,
            original=program.source[edit.start : edit.end],
            mutated=edit.text,
            source=edit.applied(program.source),
        )
        match outcome(program, bug.source):
            case "failed":
                return bug
            case "hung":
                endless = endless or bug
            case "passed":
                continue
    if endless is None:
        raise ValueError(f"No edit of {program.name} makes a test fail. Write sharper tests.")
    return endless


def bugs(seed: int) -> list[Bug]:
    """One bug of each program."""
    return [broken(program, seed) for program in programs()]
