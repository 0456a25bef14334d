"""The part of a program that a failure is about, chosen for a model that cannot go looking on its own.

The failing test comes first, then what it said, then the functions that it reached, nearest first: those in
which the failure happened, those that the failing line uses, those that these use.

Keep true:
1. `choose` never raises because of what a repository or an output holds, and its text is never longer than
   was asked for.
2. What did not fit is named, so that whoever can look knows where.
3. Nothing hidden is in the text: lines of files and of output are cleaned like any text of others.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from placet.checks.contract import CheckResult
from placet.checks.failure_report import Failure, Progress, failures_of, places_in, plain, unfinished
from placet.coder.excerpts import Page, Spot
from placet.coder.program import Program, Start, is_test
from placet.coder.python_source import Definition, Function, times_run
from placet.truncation import redacted

MOST_FUNCTIONS = 50
_MOST_CASES = 8
"""Failures that are followed; with more of them the first few tell enough."""
_MOST_FRAMES = 12
_MOST_TESTS = 20
_MOST_SPOTS = 6
_SHORT_CLASS = 40
"""Lines of a class that is shown whole, if the failure is in its body."""
_FILE_NAME = re.compile(r"[\w@+./-]{1,300}\.[A-Za-z]\w{0,9}")
_NO_NAME = re.compile(
    r"cannot import name '\w+' from (?:partially initialized module )?'([\w.]+)'"
    r"|module '([\w.]+)' has no attribute"
)
_NO_MODULE = re.compile(r"No module named '([\w.]+)'")
_NO_ATTRIBUTE = re.compile(r"'(\w+)' object has no attribute|type object '(\w+)' has no attribute")


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is shown of a program."""

    text: str
    functions: tuple[Function, ...] = ()
    """Nearest first; also those that the text had no room for. None of them is in a file of tests."""
    tests: tuple[Function, ...] = ()
    """The failing tests, then what else of the files of tests they use."""


@dataclass(slots=True)
class _Case:
    """One failure, with what of it was found in the repository."""

    test: Definition | None = None
    test_line: int | None = None
    frames: list[tuple[Definition, int]] = field(default_factory=list)
    """Where it happened comes first."""
    spots: list[Spot] = field(default_factory=list)
    """Lines outside of every function."""
    said: list[str] = field(default_factory=list)
    others: list[Definition] = field(default_factory=list)
    """Tests that could not even be started, or one of which it may be."""

    @property
    def is_found(self) -> bool:
        return bool(self.test or self.frames or self.spots or self.others)


def choose(
    folder: Path,
    results: Sequence[CheckResult],
    *,
    most: int,
    refuse: Callable[[str], str | None] | None = None,
) -> Chosen:
    """What matters for turning the red checks green, in at most `most` characters of text.

    `folder` is a checkout of what the checks ran on; paths in their output may begin with another folder.
    Functions of files that `refuse` names are left out, and of those that could not be changed by lines.

    Raises:
        UsageError: there is no such folder.
    """
    red = [result for result in results if not result.passed]
    if not red:
        return Chosen(text="")
    with closing(Program(folder)) as program:
        choice = _Choice(program, refuse)
        for result in red:
            choice.take(result)
        return choice.chosen(most)


class _Choice:
    """What was found so far."""

    def __init__(self, program: Program, refuse: Callable[[str], str | None] | None) -> None:
        self._program = program
        self._refuse = refuse
        self._cases: list[_Case] = []
        self._red: list[CheckResult] = []

    def take(self, result: CheckResult) -> None:
        """Add what one red check tells."""
        self._red.append(result)
        stopped = unfinished(result)
        failures = failures_of(result.output)
        if isinstance(stopped, Failure):
            failures.insert(0, stopped)
        cases = [case for failure in failures if (case := self._case(failure)).is_found]
        if not cases and isinstance(stopped, Progress):
            cases = self._from_progress(result, stopped)
        cases = cases or self._from_places(result) or self._from_command(result)
        if not any(case.said for case in cases):
            lines = [line for line in redacted(plain(result.output)).split("\n") if line.strip()]
            cases[:1] = [cases[0] if cases else _Case()]
            # A program that was ended says little at its end.
            kept = lines[-12:] if result.ended_by == "itself" else lines[-3:]
            cases[0].said = [*([result.why] if result.why else []), *kept]
        self._cases += cases

    def chosen(self, most: int) -> Chosen:
        cases = self._cases[:_MOST_CASES]
        near = self._nearest(cases)
        failing = list(dict.fromkeys(case.test for case in cases if case.test is not None))
        surely = frozenset(failing)
        failing += [each for case in cases for each in case.others if each not in surely]
        functions = [each for each in near if self._may_change(each)][:MOST_FUNCTIONS]
        shared = [each for each in near if is_test(each.path) and each.kind == "function"]
        helpers = [each for each in shared if each not in failing]
        values = [each for each in near if each.kind == "value" and each.name and not is_test(each.path)]
        spots = self._spots(cases)
        if not functions and not any(not is_test(spot.path) for spot in spots):
            found, named = self._named(failing)
            functions = [each for each in found if self._may_change(each)]
            spots += named
        page = Page(most, lambda path: lines.lines if (lines := self._program.file(path)) else [])
        lines_of = {case.test: case.test_line for case in cases if case.test is not None and case.test_line}
        page.add_tests(failing, surely, lines_of)
        page.add_said([case.said for case in cases], self._hints(cases))
        page.add_spots(spots)
        page.add_functions(functions, {each: line for case in cases for each, line in case.frames})
        page.add_others(values, helpers)
        return Chosen(
            text=page.text(),
            functions=tuple(self._function(each) for each in functions),
            tests=tuple(self._function(each) for each in (*failing, *helpers)[:MOST_FUNCTIONS]),
        )

    def _may_change(self, definition: Definition) -> bool:
        if not _is_editable(definition, self._program):
            return False
        if self._refuse is None:
            return True
        read = self._program.file(definition.path)
        return not self._refuse(definition.path) and read is not None and read.is_plain

    def _function(self, definition: Definition) -> Function:
        read = self._program.file(definition.path)
        assert read is not None, "a definition comes from a file that was read"
        return read.function(definition)

    def _case(self, failure: Failure) -> _Case:
        """A failure as places of this repository."""
        case = _Case(said=failure.said)
        path = self._test_path(failure)
        if path is not None and failure.test:
            case.test = self._program.test(path, failure.test)
        for place in reversed(failure.places):
            inside = self._program.path_of(place.path)
            read = self._program.file(inside) if inside is not None else None
            if inside is None or read is None:
                continue
            here = read.at(place.line)
            name = failure.test.rpartition(".")[2]
            if case.test is None and here is not None and name and here.last_name == name:
                case.test = here
            if here is not None and here is case.test:
                case.test_line = case.test_line or place.line
            elif here is None or (here.kind == "class" and here.last - here.first > _SHORT_CLASS):
                case.spots.append(Spot(inside, place.line))
            elif len(case.frames) < _MOST_FRAMES and all(here is not each for each, _ in case.frames):
                case.frames.append((here, place.line))
        if path is not None and not failure.test:
            case.others = self._program.tests_in(path)[:_MOST_TESTS]
        return case

    def _test_path(self, failure: Failure) -> str | None:
        if failure.path:
            return self._program.path_of(failure.path)
        if failure.module:
            as_path = failure.module.replace(".", "/") + ".py"
            return self._program.module(failure.module, "") or self._program.path_of(as_path)
        return None

    def _from_progress(self, result: CheckResult, progress: Progress) -> list[_Case]:
        """The test that pytest was in, found by counting; all that it may be if they cannot be counted."""
        path = self._program.path_of(progress.path) if progress.path else None
        tests = self._program.tests_in(path) if path is not None else self._tests_of(result.command)
        over = len(progress.marks)
        runs: list[Definition] = []
        for each in tests:
            times = times_run(each)
            if times is None or len(runs) > over:
                break
            runs += [each] * min(times, over + 1)
        if over < len(runs):
            red = [each for each, mark in zip(runs, progress.marks, strict=False) if mark in "FE"]
            return [_Case(test=each) for each in dict.fromkeys([runs[over], *red])]
        return [_Case(others=tests[:_MOST_TESTS])] if tests else []

    def _from_places(self, result: CheckResult) -> list[_Case]:
        """The places that any other program names, each with its words."""
        case = _Case()
        for place, line in places_in(result.output):
            path = self._program.path_of(place.path)
            read = self._program.file(path) if path is not None else None
            if path is None or read is None or not 0 < place.line <= len(read.lines):
                continue
            here = read.at(place.line)
            if here is None or here.kind == "class":
                case.spots.append(Spot(path, place.line))
            elif len(case.frames) < _MOST_FRAMES and all(here is not each for each, _ in case.frames):
                case.frames.append((here, place.line))
            if line not in case.said:
                case.said.append(line)
        return [case] if case.is_found else []

    def _from_command(self, result: CheckResult) -> list[_Case]:
        tests = self._tests_of(result.command)
        return [_Case(others=tests[:_MOST_TESTS])] if tests else []

    def _tests_of(self, command: str) -> list[Definition]:
        """The tests that a command names; all there are, if it runs a test program and names none."""
        words = _words(command)
        paths: list[str] = []
        only: list[Definition] = []
        for word in words:
            told, _, name = word.partition("::")
            inside = told.strip("/").removeprefix("./")
            path = self._program.path_of(told) if told.endswith(".py") else None
            if path is not None and name:
                test = self._program.test(path, name.partition("[")[0].replace("::", "."))
                only += [test] if test is not None else []
            elif path is not None:
                paths.append(path)
            elif inside and "/" not in word and re.fullmatch(r"\w+(\.\w+)+", word):
                paths += self._module_named(word)
            elif inside:
                paths += [each for each in self._program.paths if each.startswith(f"{inside}/")]
        if not paths and not only and any(re.search(r"pytest|unittest|tox|nox", word) for word in words):
            paths = self._program.paths
        tests = [path for path in dict.fromkeys(paths) if is_test(path) and path.endswith(".py")]
        return only + [each for path in tests[:_MOST_TESTS] for each in self._program.tests_in(path)]

    def _module_named(self, dotted: str) -> list[str]:
        """The file of `tests.test_cart.TestCase.test_tax`."""
        parts = dotted.split(".")
        found = (self._program.module(".".join(parts[:at]), "") for at in range(len(parts), 0, -1))
        return [each for each in found if each is not None][:1]

    def _nearest(self, cases: Sequence[_Case]) -> list[Definition]:
        """What the failures reach, nearest first; what more of them reach is nearer."""
        best: dict[Definition, float] = {}
        times: dict[Definition, int] = {}
        for at, case in enumerate(cases):
            starts = [Start(each, line, 0.1 * n) for n, (each, line) in enumerate(case.frames)]
            if case.test is not None:
                starts.append(Start(case.test, case.test_line, 0.5 if case.frames else 0.0))
            for spot in case.spots:
                read = self._program.file(spot.path)
                if read is not None and (here := read.statement_at(spot.line)) is not None:
                    starts.append(Start(here, None, 0.3))
            starts += [Start(each, None, 3.0 if starts else 0.0) for each in case.others]
            for each, cost in self._program.reached(starts).items():
                best[each] = min(best.get(each, cost + 0.2 * at), cost + 0.2 * at)
                times[each] = times.get(each, 0) + 1
        return sorted(best, key=lambda each: best[each] - 0.5 * (times[each] - 1) / len(cases))

    def _spots(self, cases: Sequence[_Case]) -> list[Spot]:
        found = list(dict.fromkeys(spot for case in cases for spot in case.spots))
        return found[:_MOST_SPOTS]

    def _named(self, tests: Sequence[Definition]) -> tuple[list[Definition], list[Spot]]:
        """When nothing else is known: the files that a failing test, a command or an output names."""
        texts = [self._function(each).source for each in tests]
        texts += [text for result in self._red for text in (result.command, plain(result.output))]
        told = [name for text in texts for name in _FILE_NAME.findall(text)[:200]]
        paths = [path for name in dict.fromkeys(told) if (path := self._program.path_of(name)) is not None]
        functions: list[Definition] = []
        spots: list[Spot] = []
        for path in list(dict.fromkeys(path for path in paths if not is_test(path)))[:_MOST_SPOTS]:
            read = self._program.file(path)
            own = [] if read is None else [each for each in read.definitions if each.kind == "function"]
            functions += own
            spots += [] if own or read is None else [Spot(path, 1)]
        return functions[:MOST_FUNCTIONS], spots

    def _hints(self, cases: Sequence[_Case]) -> list[str]:
        """For a name that is not there: which ones are."""
        found: list[str] = []
        for line in [line for case in cases for line in case.said][:200]:
            if told := _NO_NAME.search(line):
                path = self._program.module(told[1] or told[2], "")
                found += self._outline(path, "") if path is not None else []
            elif told := _NO_MODULE.search(line):
                folder = "/".join(told[1].split(".")[:-1])
                near = [each for each in self._program.paths if each.endswith(".py")]
                near = [each for each in near if f"/{each}".rpartition("/")[0].endswith(f"/{folder}")]
                found.append(f"Files there: {', '.join(near[:20])}." if near and folder else "")
            elif told := _NO_ATTRIBUTE.search(line):
                name = told[1] or told[2]
                paths = {each.path for case in cases for each in self._all(case)}
                found += [words for path in sorted(paths) for words in self._outline(path, name)]
        return [each for each in dict.fromkeys(found) if each]

    def _all(self, case: _Case) -> Iterable[Definition]:
        starts = [*case.others, *([case.test] if case.test else []), *(each for each, _ in case.frames)]
        return self._program.reached(Start(each) for each in starts)

    def _outline(self, path: str, owner: str) -> list[str]:
        """The names that a file, or a class in it, defines."""
        read = self._program.file(path)
        if read is None or (owner and not read.named(owner)):
            return []
        inner = [each for each in read.definitions if each.owner == owner]
        names = ", ".join(f"{each.last_name} (line {each.first})" for each in inner[:40])
        return [f"{owner or path} defines {names or 'nothing'}."]


def _is_editable(definition: Definition, program: Program) -> bool:
    """Whether it is a function of the program itself; a class counts if it has no methods."""
    if is_test(definition.path) or definition.kind == "value":
        return False
    if definition.kind == "function":
        return True
    read = program.file(definition.path)
    return read is not None and not read.has_methods(definition.name)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command, comments=True)
    except ValueError:
        return command.split()
