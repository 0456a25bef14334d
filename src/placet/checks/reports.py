"""What a test program says of itself beside its exit code: how many tests ran, and how they ended.

A program under test runs inside the test program, and can end it with exit code 0 before a test has run. So
pytest writes a report when it has come to its end, and what it ran is compared with what ran in the base.

Keep true:
1. A report is somebody else's text: it is searched for numbers, and never parsed as XML.
2. The base is the measure: what ended well there without a report is not asked for one later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape

from placet.checks.command_line import runs, runs_one_of, simple_commands
from placet.checks.contract import Check, CheckResult, Tests
from placet.checks.sealing import lifts
from placet.safe_text import clean
from placet.truncation import truncate

MOST_BYTES = 64 * 1024 * 1024
"""A larger report is none."""

PYTEST = ("pytest", "py.test")
_VARIABLE = "PLACET_TEST_REPORT"
_OPTION = f"--junitxml=${_VARIABLE}"
"""pytest fills in the variable: so the path needs no quotes, whatever is in it."""

_SUITE = re.compile(rb"<testsuite\s([^<>]{0,10000})>")
_COUNT = re.compile(rb'\b(tests|errors|failures|skipped)="(\d{1,9})"')
_CASE = re.compile(rb'<testcase classname="([^"<>]{0,2000})" name="([^"<>]{0,2000})"')
_UNLOADED = b'<error message="collection failure"'
_SKIPPED = re.compile(rb"<skipped\b[^<>]{0,10000}>([^<]{0,4000})</skipped>")
_PLACE = re.compile(r"(.+):\d+: ", re.DOTALL)
_LEFT = re.compile(r"^!+ _pytest\.outcomes\.Exit: .* !+$", re.MULTILINE)
"""What pytest writes when `pytest.exit` was called: the tests that were still to come did not run."""
_MOST_MODULES = 5_000
_NOTICE = re.compile(r"^-+ generated xml file: [^\n]*?\.placet-[0-9a-f]{16}[^\n]*\n?", re.MULTILINE)
_RAN = re.compile(
    r"^Ran (\d{1,9}) tests? in [\d.]+s[ \t\r]*\n\s*(?:OK|FAILED|NO TESTS RAN)(?: \(([^()\n]*)\))?[ \t\r]*$",
    re.MULTILINE,
)
_ENDS = re.compile(r"(failures|errors|skipped|expected failures)=(\d{1,9})")
_UNLOADED_CASE = "(unittest.loader._FailedTest"


def variables(path: str, given: str = "") -> dict[str, str]:
    """What tells pytest to write its report to `path`; `given` is what it is told already."""
    return {"PYTEST_ADDOPTS": f"{given} {_OPTION}".strip(), _VARIABLE: path}


def is_unknown_option(exit_code: int | None, output: str) -> bool:
    """Whether pytest ran without the part of it that writes reports."""
    return exit_code == 4 and "unrecognized arguments" in output and _OPTION in output


def without_notice(output: str) -> str:
    """An output without pytest's line about the report, which nobody asked for."""
    return _NOTICE.sub("", output)


def was_left(output: str) -> bool:
    """Whether pytest was told from inside to leave before its end."""
    return _LEFT.search(output) is not None


def read_report(data: bytes, *, is_base: bool = False) -> Tests | None:
    """What pytest reports; None if it is no report. Of the base, also which modules hold the tests."""
    suites = _SUITE.findall(data)
    if not suites:
        return None
    counts = dict.fromkeys((b"tests", b"errors", b"failures", b"skipped"), 0)
    for suite in suites:
        for name, number in _COUNT.findall(suite):
            counts[name] += int(number)
    failed = counts[b"errors"] + counts[b"failures"]
    return Tests(
        passed=max(0, counts[b"tests"] - failed - counts[b"skipped"]),
        failed=failed,
        skipped=counts[b"skipped"],
        unloaded=data.count(_UNLOADED),
        one=next((name for name in _names(data) if clean(name) == name), ""),
        modules=_modules(data) if is_base else (),
        absent=_modules(data, absent=True) if is_base else (),
    )


def read_output(output: str) -> Tests | None:
    """What unittest writes at its end, of all its runs together; None if it does not."""
    found = _RAN.findall(output)
    if not found:
        return None
    ran = failed = skipped = 0
    for number, ends in found:
        ran += int(number)
        for name, count in _ENDS.findall(ends):
            if name in ("failures", "errors"):
                failed += int(count)
            else:
                skipped += int(count)
    unloaded = output.count(_UNLOADED_CASE)
    return Tests(passed=max(0, ran - failed - skipped), failed=failed, skipped=skipped, unloaded=unloaded)


def doubt(
    check: Check,
    now: Tests | None,
    report: bytes,
    baseline: CheckResult | None,
    may_touch: Sequence[str] = (),
) -> str:
    """Why a check that seems green is not, going by what its tests report; mostly nothing.

    `baseline` is the same check in the base.
    """
    if baseline is None:
        return ""
    before = baseline.tests
    if before is None and (baseline.passed or not _is_expected(check)):
        return ""
    if now is None or (before is not None and before.one and not report):
        return "its test program did not come to its end, where it reports what ran: it was ended from inside"
    if now.passed == 0 and (before is None or before.passed + before.failed):
        return "no test ran to its end"
    if before is None or _may_be_fewer(report, may_touch):
        return ""
    if before.unloaded:
        return _unloaded_doubt(check, before, now, report)
    if not _is_same(before, report):
        return ""
    ran = before.passed + before.failed
    if now.passed < ran:
        return f"{now.passed} tests passed, but in the base {ran} ran: the others were left out"
    if now.skipped - before.skipped > now.passed - ran:
        return f"{now.skipped} tests were skipped, in the base {before.skipped}"
    return ""


def _unloaded_doubt(check: Check, before: Tests, now: Tests, report: bytes) -> str:
    """How many tests are in files that could not be loaded in the base is not known; that they run now is."""
    tools = [simple for simple in simple_commands(check.command) if runs_one_of(simple, PYTEST)]
    # Where pytest runs more than once, or out of our sight, the report may be of other files.
    if len(tools) != 1:
        return ""
    names = list(_names(report))
    for module in before.absent:
        if not any(name.startswith((f"{module}::", f"{module}.")) for name in names):
            return f"no test of {module} ran, which could not be loaded in the base"
    if now.skipped > before.skipped and (place := _skipped_from(report, names)):
        return (
            f"tests were skipped from {clean(place, 200)}, which is no test: in the base they could not be "
            "loaded, so they have to run now"
        )
    return ""


def _skipped_from(report: bytes, names: Sequence[str]) -> str:
    """The file that skips tests without being one itself; empty if there is none."""
    modules = {name.partition("::")[0].replace(".", "/") for name in names}
    tests = {f"{path}.py" for module in modules for path in (module, module.rpartition("/")[0]) if path}
    for match in _SKIPPED.finditer(report):
        place = _PLACE.match(unescape(match[1].decode(errors="replace")))
        file = place[1] if place is not None else "an unknown place"
        # It lies in an export, whose place says nothing.
        file = re.sub(r".*/exports/[0-9a-f]+/files/", "", file)
        if file.rpartition("/")[2] != "conftest.py" and not any(f"/{file}".endswith(f"/{t}") for t in tests):
            return file
    return ""


def _is_expected(check: Check) -> bool:
    """Whether a check, once it gets so far, reports: pytest to us, or unittest on its output."""
    if "junit" in check.command or "PYTEST_ADDOPTS" in check.command or "env -i" in check.command:
        return False
    return runs(check.command, (*PYTEST, "unittest"))


def _is_same(before: Tests, report: bytes) -> bool:
    """Whether a report is of the tests that reported before: a check may run pytest more than once, and only
    the last run's report is there."""
    return not before.one or before.one in _names(report)


def _may_be_fewer(report: bytes, may_touch: Sequence[str]) -> bool:
    """Whether files with tests may be touched: then tests may go."""
    patterns = [lifts(pattern) for pattern in may_touch]
    if not patterns:
        return False
    modules = {name.partition("::")[0].replace(".", "/") for name in _names(report)}
    # The name of a class may follow that of the file.
    files = {f"{path}.py" for module in modules for path in (module, module.rpartition("/")[0])}
    return any(fits(file) for file in files for fits in patterns)


def _modules(report: bytes, *, absent: bool = False) -> tuple[str, ...]:
    """The modules that hold the tests of a report; only those that could not be loaded, if wanted."""
    found: dict[str, None] = {}
    for name in _names(report):
        place, _, test = name.partition("::")
        # One that could not be loaded stands where a test would, in no place.
        module = test if not place else "" if absent else place
        if module and clean(module) == module and len(found) < _MOST_MODULES:
            found[module] = None
    return tuple(found)


def _names(report: bytes) -> Iterator[str]:
    """Tests by name, without what they are given: that may look different each time."""
    for match in _CASE.finditer(report):
        place, name = (unescape(part.decode(errors="replace")) for part in match.groups())
        yield truncate(f"{place}::{name.partition('[')[0]}", 500)
