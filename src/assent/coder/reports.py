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

from assent.coder.command_line import runs, runs_one_of, simple_commands
from assent.coder.contract import Check, CheckResult, Tests
from assent.coder.sealing import lifts
from assent.safe_text import clean

MOST_BYTES = 64 * 1024 * 1024
"""A larger report is none."""

PYTEST = ("pytest", "py.test")
_VARIABLE = "ASSENT_TEST_REPORT"
_OPTION = f"--junitxml=${_VARIABLE}"
"""pytest fills in the variable: so the path needs no quotes, whatever is in it."""

_SUITE = re.compile(rb"<testsuite\s([^<>]{0,10000})>")
_COUNT = re.compile(rb'\b(tests|errors|failures|skipped)="(\d{1,9})"')
_CASE = re.compile(rb'<testcase classname="([^"<>]{0,2000})" name="([^"<>]{0,2000})"')
_UNLOADED = b'<error message="collection failure"'
_NOTICE = re.compile(r"^-+ generated xml file: [^\n]*?\.assent-[0-9a-f]{16}[^\n]*\n?", re.MULTILINE)
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


def read_report(data: bytes) -> Tests | None:
    """What pytest reports; None if it is no report."""
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
        return _unloaded_doubt(check, before, report)
    if not _is_same(before, report):
        return ""
    ran = before.passed + before.failed
    if now.passed < ran:
        return f"{now.passed} tests passed, but in the base {ran} ran: the others were left out"
    if now.skipped - before.skipped > now.passed - ran:
        return f"{now.skipped} tests were skipped, in the base {before.skipped}"
    return ""


def _unloaded_doubt(check: Check, before: Tests, report: bytes) -> str:
    """How many tests are in files that could not be loaded in the base is not known; that they run now is."""
    place, _, module = before.one.partition("::")
    tools = [simple for simple in simple_commands(check.command) if runs_one_of(simple, PYTEST)]
    # Where pytest runs more than once, or out of our sight, the report may be of other files.
    if place or not module or len(tools) != 1:
        return ""
    if any(name.startswith((f"{module}::", f"{module}.")) for name in _names(report)):
        return ""
    return f"no test of {module} ran, which could not be loaded in the base"


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


def _names(report: bytes) -> Iterator[str]:
    """Tests by name, without what they are given: that may look different each time."""
    for match in _CASE.finditer(report):
        place, name = (unescape(part.decode(errors="replace")) for part in match.groups())
        yield f"{place}::{name.partition('[')[0]}"[:500]
