"""Failures as test programs report them: pytest, unittest, cargo, go, jest, mocha, and whatever writes TAP.

Keep true:
1. Of several failures the same one is chosen, in whatever order the tests ran.
2. A test is named, and so is what it said; what surrounds both is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from placet.checks.failure import EXCEPTION, PANIC, Finder, Finding, Lines, below, first_of, raised

# pytest

_SUMMARY = re.compile(r"(?P<kind>FAILED|ERROR) (?P<test>\S.*?\.py(?:::.*?)?)(?: - (?P<why>.*))?\Z")
_HEADER = re.compile(r"_{3,} (?P<title>.+?) _{3,}\Z")
_SECTION = re.compile(r"=+ (?:FAILURES|ERRORS) =+\Z")
_SAID = re.compile(r"E {3,}(?P<text>\S.*)")
_TITLE = re.compile(r"(?:ERROR (?:collecting|at setup of|at teardown of) )?(?P<name>.+)")


def _pytest(lines: Lines) -> Finding | None:
    summary = [match for line in lines if (match := _SUMMARY.match(line))]
    if not summary and not any(_SECTION.match(line) for line in lines):
        return _pytest_itself(lines)
    said = _pytest_said(lines)
    if not summary:
        return first_of(raised(text, "test_failure", name) for name, text in said.items())
    errors = [match for match in summary if match["kind"] == "ERROR"]

    def judged() -> Iterator[Finding]:
        for match in errors or summary:
            test = match["test"]
            short = test.partition("::")[2].replace("::", ".")
            text = said.get(short) or said.get(test) or (match["why"] or "").removesuffix("...")
            yield raised(text, "test_failure", test)

    return first_of(judged())


def _pytest_said(lines: Lines) -> dict[str, str]:
    """By the title of each section, what its failure says."""
    said: dict[str, str] = {}
    title = ""
    for line in lines:
        if header := _HEADER.match(line):
            name = _TITLE.match(header["title"])
            title = name["name"] if name else ""
        elif line.startswith("==="):
            title = ""
        elif title and (found := _SAID.match(line)):
            text = found["text"]
            place = re.match(r"File \"(.+)\", line", said.get(title, ""))
            if title not in said:
                said[title] = text
            elif place and EXCEPTION.match(text):
                # A syntax error shows the place before it says what it is.
                said[title] = f"{text} in {place[1]}"
    return said


_USAGE = re.compile(r"(?:\S*pytest\S*|__main__\.py): error: (?P<text>.+)")


def _pytest_itself(lines: Lines) -> Finding | None:
    """What pytest says when no test was to blame."""
    if not any(re.search(r"\b(?:no tests ran|pytest|deselected)\b", line) for line in lines):
        return None
    for line in lines:
        if line.startswith("INTERNALERROR> ") and EXCEPTION.match(line[15:]):
            return Finding("crash", line[15:])
        if usage := _USAGE.match(line):
            return Finding("other", usage["text"])
    for line in lines:
        if line.startswith("ERROR: ") and not line.endswith(")"):
            return Finding("not_found" if "not found" in line else "other", line[7:])
    if any(re.match(r"(?:=+ )?(?:no tests ran|\d+ deselected)\b", line) for line in lines):
        return Finding("other", "no tests ran")
    return None


# unittest

_CASE = re.compile(r"(?P<kind>ERROR|FAIL): (?P<name>\S+)(?: \((?P<full>[\w.]+)\))?")


def _unittest(lines: Lines) -> Finding | None:
    blocks: dict[str, list[tuple[str, str]]] = {"ERROR": [], "FAIL": []}
    current: tuple[str, str] | None = None
    for n, line in enumerate(lines):
        if line.startswith("=====") and n + 1 < len(lines) and (case := _CASE.match(lines[n + 1])):
            full = case["full"] or ""
            test = full if full.endswith(case["name"]) else f"{full}.{case['name']}".lstrip(".")
            current = (case["kind"], test)
            blocks[case["kind"]].append((test, ""))
        elif re.match(r"Ran \d+ tests? in ", line):
            current = None
        elif current is not None and EXCEPTION.match(line):
            blocks[current[0]][-1] = (current[1], line)
    # An error hides what the test would have said.
    return first_of(raised(text, "test_failure", test) for test, text in blocks["ERROR"] or blocks["FAIL"])


# Test programs of other languages: a title, and what is said below it.

_TITLED = (
    # cargo test, with what the panic said; go test; jest; rspec
    re.compile(r"---- (?P<test>\S+) stdout ----\Z"),
    re.compile(r"\s*--- FAIL: (?P<test>\S+)"),
    re.compile(r"\s*● (?P<test>(?!Console\Z|.*› Console\Z).+)"),
    re.compile(r"rspec (?P<test>\S+_spec\.rb):\d+ #"),
)
_TAP = re.compile(r"\s*not ok \d+ (?:- )?(?P<test>.+)")
_MARKED = re.compile(
    r"\s*(?:[✖✕×✗] (?!\d+ problems?)|test (?=.* FAILED\Z))(?P<test>.+?)(?: \.\.\. FAILED)?\Z"
)


def _titled(lines: Lines) -> Finding | None:
    for pattern in _TITLED:
        found = first_of(
            raised(_told(lines, n), "test_failure", match["test"])
            for n, line in enumerate(lines)
            # A group of tests fails with those in it, which say more.
            if (match := pattern.match(line)) and "--- FAIL" not in below(lines, n, 1)
        )
        if found is not None:
            return found._replace(compares=found.error_class == "test_failure")
    return None


def _told(lines: Lines, title: int) -> str:
    text = below(lines, title)
    if panic := PANIC.match(text):
        return panic["old"] or below(lines, next(n for n in range(title + 1, len(lines)) if text in lines[n]))
    return text


def _mocha(lines: Lines) -> Finding | None:
    start = next((n for n, line in enumerate(lines) if re.match(r"\s+\d+ failing\Z", line)), None)
    if start is None:
        return None
    title: list[str] = []
    for n, line in enumerate(lines[start + 1 : start + 20], start + 1):
        if line.strip():
            title.append(re.sub(r"\A\d+\) ", "", line.strip()).removesuffix(":"))
        if line.endswith(":"):
            return raised(below(lines, n), "test_failure", " ".join(title))
    return None


def _tap(lines: Lines) -> Finding | None:
    def each() -> Iterator[Finding]:
        for n, line in enumerate(lines):
            if match := _TAP.match(line):
                said = (re.match(r"\s+error: (.*)", below) for below in lines[n + 1 : n + 10])
                error = next((found[1] for found in said if found), "")
                at = next((m for m in range(n, min(n + 10, len(lines))) if "error: |" in lines[m]), None)
                yield raised(
                    below(lines, at) if at is not None else error.strip("'"), "test_failure", match["test"]
                )

    found = first_of(each())
    return found and found._replace(compares=found.error_class == "test_failure")


def marked(lines: Lines) -> Finding | None:
    """A test with a cross before its name. Linters write like that too, so they are asked first."""
    titles = (match["test"] for line in lines if (match := _MARKED.match(line)))
    return first_of(Finding("test_failure", "", re.sub(r" \([\d.]+ ?m?s\)\Z", "", title)) for title in titles)


TEST_PROGRAMS: tuple[Finder, ...] = (_pytest, _unittest, _mocha, _titled, _tap)
