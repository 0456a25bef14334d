"""What the output of a check says about its failures: which tests, at which places, in which words.

It reads what pytest and unittest print, and Python's own tracebacks; of other programs the places such as
`src/main.c:12`. Paths are as they were told: most of them belong to a folder that is gone by now.

Keep true:
1. Any text is taken. What is not understood is passed over, and nothing here raises.
2. The work is bounded by the length of the text: one pass over its lines, and no pattern that tries again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from placet.checks.contract import CheckResult
from placet.truncation import truncate, truncate_tail

MOST_READ = 400_000
"""Characters of output."""
MOST_FAILURES = 50
MOST_PLACES = 200
_MOST_SAID = 24
"""Lines that one failure has to say."""
_LINE = 400
"""Characters of a line that matter."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_HEADER = re.compile(r"_+ (\S.*\S|\S) _+")
_SECTION = re.compile(r"=+ (\S.*\S|\S) =+")
_OF_HEADER = re.compile(r"(?:ERROR at (?:setup|teardown) of |\[doctest\] )?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")
_SUMMARY = re.compile(
    r"(?:FAILED|ERROR|SUBFAILED(?:\([^()]*\)|\[[^\[\]]*\])?) (\S+?\.py)(?:::([\w.]+(?:::\w+)*))?"
)
_VERBOSE = re.compile(r"(\S+?\.py)::(\w+(?:::\w+)*)")
_VERBOSE_RED = re.compile(
    r"(\S+?\.py)::(\w+(?:::\w+)*)\S* (?:FAILED|ERROR)\b"
    r"|\[gw\d+\] \[ *\d+%\] (?:FAILED|ERROR) (\S+?\.py)::(\w+(?:::\w+)*)"
)
_STOPPED = re.compile(
    r"ImportError while loading conftest |!+ \S*KeyboardInterrupt !+|~+ Stack of |(?:Current t|T)hread 0x\w+ "
)
_UNITTEST = re.compile(r"(?:FAIL|ERROR): ([\w.]+) \(([\w.]+)\)")
_TELLING = re.compile(r"(\w+) \(([\w.]+)\)(?: \.\.\.)?")
_FILE_LINE = re.compile(r'(?:E {1,8})? *File "([^"]{1,1000})", line (\d{1,7})')
_PYTEST_LINE = re.compile(r"([^\s:][^:\n]{0,1000}\.py):(\d{1,7}): ?")
_ANY_PLACE = re.compile(r"([\w@+./-]{1,300}\.[A-Za-z]\w{0,9})(?::|\()(\d{1,7})\b")
_PROGRESS = re.compile(r"(?:(\S+\.py) )?([.FEsxX]+)(?: *\[ *\d+%\])?")
_ENDS_TRACEBACK = re.compile(r"-{20,}|={20,}|_{3,} |={3,} |!{3,}")
_QUIET = ("warnings summary", "slowest", "Captured")
"""Sections with places in them that no failure is about."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file, as the output told it."""

    path: str
    line: int


@dataclass(slots=True)
class Failure:
    """One test that failed, or one error that was told."""

    test: str = ""
    """`test_total` or `TestCart.test_total`, without parameters; empty if none is named."""
    path: str = ""
    """The test's file, if it was told."""
    module: str = ""
    """The test's module, if that was told instead."""
    places: list[Place] = field(default_factory=list)
    """As they were told: the outermost first, so that the last is where it happened."""
    said: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far pytest came before it was ended: one mark for each test that was over."""

    path: str
    """The file that it was in; empty if it was not told."""
    marks: str


def plain(text: str) -> str:
    """Output without colours, and of too much of it the end."""
    return _COLOUR.sub("", truncate_tail(text, MOST_READ)).replace("\r\n", "\n")


def failures_of(output: str) -> list[Failure]:
    """The failures that some output tells of, in its order, those that did not end last.

    >>> [each.test for each in failures_of("FAILED tests/test_a.py::TestA::test_b - assert 1 == 2")]
    ['TestA.test_b']
    """
    reading = _Reading()
    for line in plain(output).split("\n"):
        reading.take(truncate(line, _LINE).rstrip())
        if len(reading.failures) >= MOST_FAILURES:
            break
    return [each for each in reading.failures if each.test or each.path or each.module or each.places]


class _Reading:
    """The state of going over output line by line."""

    def __init__(self) -> None:
        self.failures: list[Failure] = []
        self._now: Failure | None = None
        self._is_traceback = False
        """Whether what comes is a traceback of Python's own, or the words at its end."""
        self._is_quiet = False
        self._is_upside_down = False

    def take(self, line: str) -> None:
        if self._takes_header(line) or self._is_quiet:
            return
        if line.endswith("Traceback (most recent call last):"):
            # Within a test, and for an exception behind another, it is all one failure.
            if self._now is None:
                self._begin(Failure())
            self._is_traceback = True
        elif self._now is not None:
            self._takes_detail(line, self._now)

    def _begin(self, failure: Failure | None) -> None:
        self._now = failure
        self._is_traceback = self._is_upside_down = False
        if failure is not None:
            self.failures.append(failure)

    def _takes_header(self, line: str) -> bool:
        """Whether a line begins or ends a failure."""
        if (header := _HEADER.fullmatch(line)) and header[1].strip("_ "):
            self._is_quiet = False
            self._begin(_from_header(header[1]))
        elif section := _SECTION.fullmatch(line):
            self._begin(None)
            self._is_quiet = section[1].startswith(_QUIET)
        elif re.match(r"-+ Captured ", line):
            self._is_quiet = True
        elif summary := _SUMMARY.match(line):
            self._begin(None)
            self._sum_up(summary, line[summary.end() :])
        elif told := _UNITTEST.match(line):
            self._is_quiet = False
            self._begin(_from_unittest(told[1], told[2]))
        elif told := _VERBOSE_RED.match(line):
            self._find((told[2] or told[4]).replace("::", "."), told[1] or told[3])
        elif _STOPPED.match(line):
            self._begin(Failure())
            # Where a thread was is told from the inside out.
            self._is_upside_down = line.endswith("(most recent call first):")
        else:
            return False
        return True

    def _takes_detail(self, line: str, now: Failure) -> None:
        place = _FILE_LINE.match(line) or _PYTEST_LINE.match(line)
        if place is not None and len(now.places) < MOST_PLACES:
            found = Place(place[1], int(place[2]))
            now.places.insert(0 if self._is_upside_down else len(now.places), found)
        if line.startswith("E ") and not _FILE_LINE.match(line):
            _add(now.said, line[1:].removeprefix("   "))
        elif self._is_traceback and _ENDS_TRACEBACK.match(line) and now.said:
            self._begin(None)
        elif self._is_traceback and not line.startswith(" ") and not _ENDS_TRACEBACK.match(line):
            if line or now.said:
                _add(now.said, line)

    def _sum_up(self, summary: re.Match[str], rest: str) -> None:
        found = self._find((summary[2] or "").replace("::", "."), summary[1])
        words = rest.partition(" - ")[2]
        if words and not found.said:
            _add(found.said, words)

    def _find(self, test: str, path: str) -> Failure:
        """The failure of a test, which may have been told of before."""
        for each in self.failures:
            if each.test == test and each.path in ("", path) and (test or each.path == path):
                each.path = path
                return each
        found = Failure(test=test, path=path)
        self.failures.append(found)
        return found


def _add(said: list[str], line: str) -> None:
    if len(said) < _MOST_SAID:
        said.append(line.rstrip())


def _from_header(title: str) -> Failure:
    if title.startswith("ERROR collecting "):
        return Failure(path=title.removeprefix("ERROR collecting "))
    found = _OF_HEADER.match(title)
    return Failure(test=found[1] if found else "")


def _from_unittest(name: str, where: str) -> Failure:
    """`test_tax (tests.test_cart.TestCase.test_tax)`, in older Pythons without the last name."""
    if "_FailedTest" in where:
        return Failure(module=where.partition("_FailedTest.")[2] or name)
    whole = where if where.endswith(f".{name}") else f"{where}.{name}"
    module, _, method = whole.rpartition(".")
    module, _, owner = module.rpartition(".")
    return Failure(test=f"{owner}.{method}", module=module)


def unfinished(result: CheckResult) -> Failure | Progress | None:
    """The test that a check was in when it was ended, if its output shows that; else how far it came."""
    if result.ended_by == "itself":
        return None
    lines = [line for line in plain(result.output).split("\n") if line.strip()]
    if not lines:
        return Progress("", "")
    last = truncate(lines[-1], _LINE).strip()
    if told := _VERBOSE.match(last):
        return Failure(test=told[2].replace("::", "."), path=told[1])
    # With a docstring the dots are on a line of their own.
    for line in reversed(lines[-2:]):
        if told := _TELLING.fullmatch(line.strip()):
            return _from_unittest(told[1], told[2])
    marks = ""
    for line in reversed(lines):
        told = _PROGRESS.fullmatch(line.strip())
        if told is None:
            break
        marks = told[2] + marks
        if told[1]:
            return Progress(told[1], marks)
    return Progress("", marks)


def places_in(output: str) -> Iterable[tuple[Place, str]]:
    """Every place that some output names, whatever program wrote it, each with its line of the output."""
    left = MOST_PLACES
    for line in plain(output).split("\n"):
        shown = truncate(line, _LINE)
        found = _FILE_LINE.match(shown)
        for each in [found] if found else _ANY_PLACE.finditer(shown):
            if left == 0:
                return
            left -= 1
            yield Place(each[1], int(each[2])), shown.strip()
