"""The line that tells most in the output of a failed check, and what kind of error it tells of.

Tools are known by how they write: test programs first, since they quote everything else; then compilers,
type checkers and linters; then tracebacks; then words.

Keep true:
1. Pure, and it never raises: the output is somebody else's text, cut anywhere.
2. No pattern looks beyond its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from placet.checks.failed_tests import TEST_PROGRAMS, marked
from placet.checks.failure import EXCEPTION, PANIC, ErrorClass, Finder, Finding, Lines, below, raised

RUNS_OUT = re.compile(r"(?:^|[\s;&|(/])timeout\s")
"""The program `timeout`, in a command."""


def find(lines: Lines, *, is_red: bool = True) -> Finding | None:
    """The failure that an output tells of; without `is_red` only what is surely one."""
    for finder in (*_TOOLS, *(_WORDS if is_red else ())):
        found = finder(lines)
        if found is not None:
            return found
    return None


def last_of(lines: Lines) -> Finding | None:
    """The last line that speaks of trouble, else the last one."""
    spoken = [line.strip() for line in lines if re.search(r"\w", line)]
    told = [line for line in spoken if _TROUBLE.search(line)]
    return Finding("other", (told or spoken)[-1]) if spoken else None


# Compilers, type checkers, linters: the first line of the kind, since what follows may follow from it.

_TSC = re.compile(r"(?P<where>\S.*?)(?:\(\d+,\d+\):|:\d+:\d+ -) error (?P<what>TS(?P<code>\d+): .*)")
_TYPES = re.compile(
    r"\s*(?P<where>\S.*?\.pyi?):\d+(?::\d+)?(?::| -) error: (?P<what>.*?(?:\s+[\[(](?P<code>[\w-]+)[\])])?)\Z"
)
_COMPILER = re.compile(r"(?P<where>[^\s:][^:]*):\d+(?::\d+)?: (?:fatal )?error: (?P<what>.*)")
_LINKER = re.compile(r"(?:(?P<where>[^\s:]+):.*: )?(?P<what>undefined (?:reference|symbol)\b.*)")
_GO = re.compile(r"(?:vet: )?(?P<where>\S+\.go):\d+(?::\d+)?: (?P<what>.*)")
_CONCISE = re.compile(r"(?P<where>\S.*?):\d+:\d+: (?P<what>(?P<code>[A-Z]+\d+|invalid-syntax):? .*)")
_ABOVE_ARROW = re.compile(r"(?P<what>(?P<code>error(?:\[E\d+\])?|[A-Z]+\d+|invalid-syntax|unformatted):? .*)")
_ARROW = re.compile(r"\s*--> (?P<where>.+?):\d+:\d+")
_ROW = re.compile(r"\s+\d+:\d+\s+error\s+(?P<what>\S.*)")
_FORMAT = re.compile(r"(?P<what>would reformat|Would reformat:) (?P<where>\S.*)")
_NO_GO_PACKAGE = re.compile(r"is not in std|no required module|cannot find (?:package|module)")
_SYNTAX_CODES = ("syntax", "invalid-syntax", "E999", "E0001")


def _compiled(lines: Lines) -> Finding | None:
    for pattern, kind in _COMPILED:
        for line in lines:
            if match := pattern.match(line):
                return Finding(
                    kind(match.groupdict().get("code") or "", line), match["what"], match["where"] or ""
                )
    for n, line in enumerate(lines):
        if (match := _ABOVE_ARROW.match(line)) and (arrow := _ARROW.match(below(lines, n, 1))):
            lints = not match["code"].startswith("error") or any("clippy::" in one for one in lines)
            broken = match["code"] in _SYNTAX_CODES
            return Finding("lint" if lints and not broken else "compile_error", match["what"], arrow["where"])
    return None


def _tsc_kind(code: str, line: str) -> ErrorClass:
    return (
        "compile_error"
        if len(code) == 4 and code[0] == "1"
        else "import_error"
        if code == "2307"
        else "type_error"
    )


def _types_kind(code: str, line: str) -> ErrorClass:
    missing = code.startswith("import") or code == "reportMissingImports"
    return "compile_error" if code in _SYNTAX_CODES else "import_error" if missing else "type_error"


def _go_kind(code: str, line: str) -> ErrorClass:
    return "import_error" if _NO_GO_PACKAGE.search(line) else "compile_error"


def _lint_kind(code: str, line: str) -> ErrorClass:
    return "compile_error" if code in _SYNTAX_CODES else "lint"


_COMPILED: tuple[tuple[re.Pattern[str], Callable[[str, str], ErrorClass]], ...] = (
    (_TSC, _tsc_kind),
    (_TYPES, _types_kind),
    (_COMPILER, lambda code, line: "compile_error"),
    (_LINKER, lambda code, line: "compile_error"),
    (_CONCISE, _lint_kind),
    (_GO, _go_kind),
    (_FORMAT, lambda code, line: "lint"),
)


def _eslint(lines: Lines) -> Finding | None:
    file = ""
    for line in lines:
        if line and not line[0].isspace():
            file = line
        elif file and (row := _ROW.match(line)):
            kind: ErrorClass = "compile_error" if row["what"].startswith("Parsing error") else "lint"
            return Finding(kind, row["what"], file)
    return None


# Programs that broke off

_FRAME = re.compile(r"\s+File \"(?P<file>[^\"]+)\", line \d+(?:, in (?P<name>.+))?")
_OWN_WORDS: tuple[tuple[re.Pattern[str], ErrorClass], ...] = (
    (re.compile(r"\S*python\S*: (?P<what>No module named .*)"), "import_error"),
    (re.compile(r"\S*python\S*: (?P<what>can't open file .*)"), "not_found"),
)


def _traceback(lines: Lines) -> Finding | None:
    """The exception that ended a program, and where it was raised."""
    for line in lines:
        for pattern, kind in _OWN_WORDS:
            if match := pattern.match(line):
                return Finding(kind, match["what"])
    frame: re.Match[str] | None = None
    found: Finding | None = None
    for n, line in enumerate(lines):
        if match := _FRAME.match(line):
            frame = match
        elif EXCEPTION.match(line) and (frame or re.match(r"\s+at ", _stack(lines, n))):
            place = " in ".join(part for part in frame.groups() if part) if frame else ""
            found, frame = raised(line, "crash", place), None
    return found


def _stack(lines: Lines, start: int) -> str:
    """The first line of a JavaScript stack below an exception, if there is one."""
    return next((line for line in lines[start + 1 : start + 12] if re.match(r"\s+at \S", line)), "")


def _panic(lines: Lines) -> Finding | None:
    for n, line in enumerate(lines):
        if match := PANIC.match(line):
            place = re.search(r"panicked at (?:'.*', )?(?P<file>[^\s:']+):\d+", line)
            return Finding("crash", match["old"] or below(lines, n), place["file"] if place else "")
        if line.startswith("panic: "):
            return Finding("crash", line)
    return None


# Words

_TROUBLE = re.compile(
    r"(?i)error|fail|fatal|cannot|can't|could not|unable|denied|invalid|missing|no such|not found"
)
_BROKE = re.compile(
    r"Fatal Python error|[Ss]egmentation fault|Aborted|Assertion .* failed|[Cc]ore dumped|Bus error"
)
_MEMORY = re.compile(
    r"(?i)out of memory|cannot allocate memory|\bMemoryError\b|std::bad_alloc|oom-kill|\bENOMEM\b"
)
_ABSENT = re.compile(
    r"(?i)\bnot found\b|no such file|no rule to make target|no makefile found|missing script|\bENOENT\b"
)
_REFUSED = re.compile(
    r"(?i)permission denied|operation not permitted|read-only file system|\b(?:EACCES|EPERM|EROFS)\b"
)
_SHELL_SYNTAX = re.compile(r"(?i)\b\d+: syntax error\b")
_FAILED = re.compile(
    r"\b(?:FAILED|FAIL|FAILURES?)\b|\b[1-9]\d* (?:tests? )?fail(?:ed|ures?|ing)\b|\*\*\*Test Failed"
)
_SLOW = re.compile(r"(?i)\btimed out\b|\btime limit exceeded\b")


def _worded(pattern: re.Pattern[str], kind: ErrorClass) -> Finder:
    def finder(lines: Lines) -> Finding | None:
        found = next((line.strip() for line in lines if pattern.search(line)), None)
        return None if found is None else Finding(kind, found)

    return finder


def crash_of(lines: Lines) -> Finding | None:
    """What an output says of a program that a signal ended."""
    return _worded(_MEMORY, "out_of_memory")(lines) or _worded(_BROKE, "crash")(lines)


missing_of = _worded(_ABSENT, "not_found")
"""What an output says of a command that is not there."""

denied_of = _worded(_REFUSED, "permission")
"""What an output says of a command that may not be run."""

_TOOLS: tuple[Finder, ...] = (
    _eslint,
    *TEST_PROGRAMS,
    _compiled,
    marked,
    _traceback,
    _panic,
)
_WORDS: tuple[Finder, ...] = (
    _worded(_MEMORY, "out_of_memory"),
    _worded(_BROKE, "crash"),
    _worded(_SHELL_SYNTAX, "compile_error"),
    _worded(_ABSENT, "not_found"),
    _worded(_REFUSED, "permission"),
    _worded(_SLOW, "timeout"),
    _worded(_FAILED, "test_failure"),
)
