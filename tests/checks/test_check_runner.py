"""Checks run by us, in the sandbox, on fresh exports; green is what the contract says and nothing less."""

from __future__ import annotations

import asyncio
import itertools
import py_compile
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from placet.checks.check_runner import OUTPUT_BYTES, CheckRunner
from placet.checks.contract import Check, CheckResult, Contract, Tests, contract_of
from placet.checks.reports import doubt, read_output, read_report
from placet.errors import IsolationMissing
from placet.sandbox.confinement import Isolation
from placet.sandbox.limits import Limits
from tests.sandbox.programs import is_running, wait_until
from tests.sandbox.test_confinement import weak

PYTEST = f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {sys.executable} -m pytest -q"
UNITTEST = f"{sys.executable} -m unittest test_app"
APP = "def double(n):\n    return n + n\n"
WRONG = "def double(n):\n    return n\n"
TESTS = """
from app import double

def test_nothing():
    assert double(0) == 0

def test_something():
    assert double(2) == 4
"""
CASES = """
import unittest
from app import double

class Case(unittest.TestCase):
    def test_nothing(self):
        self.assertEqual(double(0), 0)

    def test_something(self):
        self.assertEqual(double(2), 4)
"""

Fresh = Callable[[], AbstractAsyncContextManager[Path]]


@pytest.fixture(scope="module")
def isolation(tmp_path_factory: pytest.TempPathFactory) -> Isolation:
    return Isolation("process", folder=tmp_path_factory.mktemp("kept"))


def export(top: Path, files: Mapping[str, str], made: list[Path] | None = None) -> Fresh:
    """Fresh folders below `top` with these files; each is gone after its use."""
    numbers = itertools.count()

    @asynccontextmanager
    async def fresh() -> AsyncIterator[Path]:
        folder = top / f"export {next(numbers)}" / "$HOME"
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        folder.mkdir(parents=True, exist_ok=True)
        if made is not None:
            made.append(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)

    return fresh


def contract(*checks: str | Check, may_touch: tuple[str, ...] = ()) -> Contract:
    return contract_of(checks, may_touch=may_touch)


UNCONFINED = Isolation("none")


async def run_one(fresh: Fresh, check: str | Check, **options: object) -> CheckResult:
    isolation = options.pop("isolation", UNCONFINED)
    limits = options.pop("limits", None)
    environment = options.pop("environment", None)
    checking = CheckRunner(isolation, limits=limits, environment=environment)  # type: ignore[arg-type]
    [result] = await checking.run(contract(check), fresh, **options)  # type: ignore[arg-type]
    return result


async def test_every_check_runs_in_order_each_on_a_fresh_export_in_the_sandbox(
    tmp_path: Path, isolation: Isolation
) -> None:
    made: list[Path] = []
    told: list[str] = []
    work = tmp_path / "work"
    work.mkdir()
    outside = tmp_path / "outside"

    results = await CheckRunner(isolation).run(
        contract(
            "test ! -e left && touch left && cat a.txt", f"echo x > {outside}; exit 1", "test ! -e left"
        ),
        export(work, {"a.txt": "hello\n"}, made),
        started=lambda check: told.append(f"started {check.name}"),
        completed=lambda result: told.append(f"completed {result.name}"),
    )

    assert [result.passed for result in results] == [True, False, True]
    assert results[0].output == "hello\n"
    assert results[0].why == ""
    assert results[1].exit_code == 1
    assert not outside.exists()
    assert told == [
        f"{word} {check}" for check in ("test", "echo", "test-2") for word in ("started", "completed")
    ]
    assert len(set(made)) == 3
    assert not any(folder.exists() for folder in made)


async def test_streams_are_merged_as_they_came_and_bad_bytes_replaced(tmp_path: Path) -> None:
    command = "echo one; echo two >&2; printf 'th\\377ree\\033[31m\\n'; exit 3"

    result = await run_one(export(tmp_path, {}), command)

    assert result.output == "one\ntwo\nth\ufffdree\\e[31m\n"
    assert (result.passed, result.exit_code, result.why) == (False, 3, "it ended with exit code 3")
    assert result.ended_by == "itself"
    assert result.duration_ms > 0


async def test_long_output_keeps_its_head_and_tail_and_the_whole_is_searched(tmp_path: Path) -> None:
    middle = Check(
        name="m",
        command=f"{sys.executable} -c \"print('first' + 'x' * 60000 + 'needle' + 'y' * 60000 + 'last')\"",
        output_contains="needle",
    )

    result = await run_one(export(tmp_path, {}), middle)

    assert result.passed
    assert len(result.output.encode()) <= OUTPUT_BYTES
    assert result.output.startswith("first")
    assert result.output.endswith("last\n")
    assert "120,016 bytes in all" in result.output


async def test_the_text_alone_can_decide_and_the_exit_code_alone_cannot_do_without_it(tmp_path: Path) -> None:
    fresh = export(tmp_path, {})
    alone = Check(name="a", command="echo right; exit 9", expect_exit_zero=False, output_contains="right")
    both = Check(name="b", command="echo right; exit 9", output_contains="right")
    missing = Check(name="c", command="echo wrong", output_contains="right")

    assert (await run_one(fresh, alone)).passed
    assert (await run_one(fresh, both)).why == "it ended with exit code 9"
    assert (await run_one(fresh, missing)).why == 'its output does not contain "right"'


async def test_a_check_that_takes_too_long_or_writes_too_much_is_ended_and_red(tmp_path: Path) -> None:
    fresh = export(tmp_path, {})
    slow = Check(name="s", command="echo begun; sleep 60", timeout_secs=0.5, output_contains="begun")
    loud = Check(name="l", command="yes", expect_exit_zero=False, output_contains="y")

    late = await run_one(fresh, slow)
    full = await run_one(fresh, loud, limits=Limits(output_bytes=10_000))

    assert (late.passed, late.ended_by, late.exit_code) == (False, "time", None)
    assert late.why == "it was ended after 0.5 s, the time it had"
    assert late.output == "begun\n"
    assert (full.passed, full.ended_by) == (False, "output")


async def test_what_is_left_running_is_ended(tmp_path: Path) -> None:
    note = tmp_path / "note"

    result = await run_one(export(tmp_path, {}), f"sleep 60 & echo $! > {note}")

    assert result.passed
    assert not is_running(int(note.read_text()))


async def test_a_cancellation_ends_the_command_and_removes_the_export(tmp_path: Path) -> None:
    note = tmp_path / "note"
    made: list[Path] = []
    work = tmp_path / "work"
    work.mkdir()
    command = f"echo $$ > {note}.new; mv {note}.new {note}; exec sleep 60"
    running = asyncio.ensure_future(run_one(export(work, {}, made), command))
    await asyncio.to_thread(wait_until, note.exists)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert not is_running(int(note.read_text()))
    assert not made[0].exists()


async def test_a_check_that_cannot_be_started_is_red_with_words(tmp_path: Path) -> None:
    result = await run_one(export(tmp_path, {}), "true", environment={"BAD": "nul\0"})

    assert (result.passed, result.exit_code, result.ended_by) == (False, None, "start")
    assert "it could not be run: " in result.why


async def test_too_little_isolation_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(IsolationMissing):
        await run_one(export(tmp_path, {}), "true", isolation=weak(Isolation("process")))


async def test_compiled_code_of_the_change_is_not_run(tmp_path: Path) -> None:
    """Python does not look at the source when what is compiled tells it not to."""
    bent = tmp_path / "bent.py"
    bent.write_text("def fails():\n    pass\n")
    compiled = tmp_path / "compiled.pyc"
    py_compile.compile(
        str(bent), str(compiled), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    work = tmp_path / "work"
    work.mkdir()
    inner = export(work, {"helper.py": "def fails():\n    raise SystemExit(1)\n"})

    @asynccontextmanager
    async def fresh() -> AsyncIterator[Path]:
        async with inner() as folder:
            (folder / "__pycache__").mkdir()
            shutil.copy(compiled, folder / "__pycache__" / f"helper.{sys.implementation.cache_tag}.pyc")
            (folder / "sub").mkdir()
            (folder / "sub" / "__pycache__").symlink_to("../__pycache__")
            yield folder

    result = await run_one(fresh, f"{sys.executable} -c 'import helper; helper.fails()'")

    assert result.exit_code == 1, result.output


# What tests report


async def test_pytest_reports_what_it_ran(tmp_path: Path, isolation: Isolation) -> None:
    base = export(tmp_path, {"app.py": WRONG, "test_app.py": TESTS})

    result = await run_one(base, PYTEST, isolation=isolation)

    assert not result.passed
    assert result.tests == Tests(passed=1, failed=1, one="test_app::test_nothing", modules=("test_app",))
    assert "generated xml" not in result.output
    assert "1 failed, 1 passed" in result.output


@pytest.mark.parametrize(
    "app",
    [
        "import os\nos._exit(0)\n",
        "import pytest\npytest.exit('done', 0)\n",
        "import pytest\npytest.skip('not now', allow_module_level=True)\n",
        "import pytest\ndef double(n):\n    return n if n == 0 else pytest.skip('not now')\n",
        "import pytest\ndef double(n):\n    return n if n == 0 else pytest.xfail('never mind')\n",
    ],
)
async def test_tests_that_are_ended_or_skipped_from_inside_are_red(tmp_path: Path, app: str) -> None:
    baseline = CheckResult(
        name="pytest",
        command=PYTEST,
        passed=False,
        tests=Tests(passed=1, failed=1, one="test_app::test_nothing"),
    )

    result = await run_one(
        export(tmp_path, {"app.py": app, "test_app.py": TESTS}), PYTEST, baseline=[baseline]
    )

    assert not result.passed
    assert result.why


async def test_a_file_of_tests_that_could_not_be_loaded_must_run_later(tmp_path: Path) -> None:
    tests = {"test_app.py": TESTS, "test_old.py": "def test_old():\n    pass\n"}
    skips = "import pytest\npytest.skip('not now', allow_module_level=True)\n"

    baseline = await run_one(export(tmp_path, {"app.py": "", **tests}), PYTEST)
    skipped = await run_one(export(tmp_path, {"app.py": skips, **tests}), PYTEST, baseline=[baseline])
    right = await run_one(export(tmp_path, {"app.py": APP, **tests}), PYTEST, baseline=[baseline])

    assert baseline.tests == Tests(
        failed=1, unloaded=1, one="::test_app", modules=("test_app",), absent=("test_app",)
    )
    assert skipped.exit_code == 0
    assert skipped.why == "no test of test_app ran, which could not be loaded in the base"
    assert right.passed, right.why


async def test_a_right_change_is_green_beside_its_baseline(tmp_path: Path) -> None:
    baseline = await run_one(export(tmp_path, {"app.py": WRONG, "test_app.py": TESTS}), PYTEST)

    result = await run_one(
        export(tmp_path, {"app.py": APP, "test_app.py": TESTS}), PYTEST, baseline=[baseline]
    )

    assert result.passed, result.why
    assert result.tests == Tests(passed=2, one="test_app::test_nothing")


async def test_pytest_without_its_reports_is_run_again_without_them(tmp_path: Path) -> None:
    result = await run_one(
        export(tmp_path, {"app.py": APP, "test_app.py": TESTS}), f"{PYTEST} -p no:junitxml"
    )

    assert result.passed, result.output
    assert result.tests is None


async def test_unittest_is_read_from_its_output(tmp_path: Path) -> None:
    baseline = await run_one(export(tmp_path, {"app.py": WRONG, "test_app.py": CASES}), UNITTEST)
    right = await run_one(
        export(tmp_path, {"app.py": APP, "test_app.py": CASES}), UNITTEST, baseline=[baseline]
    )
    ended = await run_one(
        export(tmp_path, {"app.py": "import os\nos._exit(0)", "test_app.py": CASES}),
        UNITTEST,
        baseline=[baseline],
    )

    assert baseline.tests == Tests(passed=1, failed=1)
    assert (right.passed, right.tests) == (True, Tests(passed=2))
    assert "ended from inside" in ended.why


async def test_a_report_is_not_read_through_a_link_out_of_the_export(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('<testsuite tests="7"><testcase classname="a" name="b"/></testsuite>')
    work = tmp_path / "work"
    work.mkdir()
    plant = 'mkdir -p "$(dirname "$PLACET_TEST_REPORT")"'

    linked = await run_one(export(work, {}), f'{plant}; ln -s {secret} "$PLACET_TEST_REPORT"')
    piped = await run_one(export(work, {}), f'{plant}; mkfifo "$PLACET_TEST_REPORT"')

    assert (linked.passed, linked.tests) == (True, None)
    assert (piped.passed, piped.tests) == (True, None)


def result_of(tests: Tests | None, *, passed: bool = False) -> CheckResult:
    return CheckResult(name="pytest", command="pytest", passed=passed, tests=tests)


def report(*names: str, module: str = "tests.test_a", **counts: int) -> bytes:
    attributes = " ".join(f'{name}="{count}"' for name, count in counts.items())
    cases = "".join(f'<testcase classname="{module}" name="{name}"/>' for name in names)
    return f"<testsuite {attributes}>{cases}</testsuite>".encode()


ONE = "tests.test_a::test_one"


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        # Stopped at the first failure in the base: more run now, and a few of those are skipped.
        (Tests(passed=2, failed=1, one=ONE), report("test_one", tests=20, skipped=3), ""),
        (Tests(passed=2, failed=1, one=ONE), report("test_one", tests=20, skipped=17), "were skipped"),
        (Tests(passed=2, failed=1, one=ONE), report("test_one[x]", tests=2), "the others were left out"),
        (Tests(passed=2, failed=1, one=ONE), report("test_one", tests=3), ""),
        # Another run of pytest in the same check.
        (Tests(passed=9, failed=1, one=ONE), report("test_other", tests=2), ""),
        (Tests(passed=9, failed=1, one=ONE), report("test_other", tests=2, skipped=2), "no test ran"),
        # Nobody knows what was in files that could not be loaded.
        (Tests(failed=3, unloaded=1, one=ONE), report("test_one", tests=1), ""),
        (Tests(failed=3, unloaded=1, one=ONE), report(tests=0), "no test ran"),
        (Tests(passed=1, failed=1, one=ONE), b"", "ended from inside"),
        (None, b"", "ended from inside"),
        (None, report("test_one", tests=1), ""),
    ],
)
def test_what_runs_is_compared_with_what_ran_in_the_base(
    before: Tests | None, now: bytes, words: str
) -> None:
    said = doubt(Check(name="pytest", command="pytest -q"), read_report(now), now, result_of(before))

    assert (words in said) if words else said == ""


def test_what_a_program_prints_is_no_report_of_pytest() -> None:
    printed = read_output("Ran 2 tests in 0.1s\n\nOK\n")
    before = result_of(Tests(passed=1, failed=1, one=ONE))

    assert "ended from inside" in doubt(Check(name="pytest", command="pytest"), printed, b"", before)


def test_without_a_report_in_a_green_base_or_where_none_is_sure_none_is_asked_for() -> None:
    plain = Check(name="pytest", command="pytest -q")

    assert doubt(plain, None, b"", None) == ""
    assert doubt(plain, None, b"", result_of(None, passed=True)) == ""
    assert doubt(Check(name="pytest", command="make test"), None, b"", result_of(None)) == ""
    assert doubt(Check(name="pytest", command="pytest --junitxml=a"), None, b"", result_of(None)) == ""


def test_tests_that_may_be_touched_may_become_fewer() -> None:
    plain = Check(name="pytest", command="pytest -q")
    before = result_of(Tests(passed=5, failed=1, one=ONE))
    now = report("test_one", tests=2, module="tests.test_a.TestClass") + report("test_one", tests=0)

    assert doubt(plain, read_report(now), now, before, ["tests/**"]) == ""
    assert "left out" in doubt(plain, read_report(now), now, before, ["app.py"])


def test_reports_are_read_without_believing_them() -> None:
    bomb = (
        b'<!DOCTYPE a [<!ENTITY b "cc">]><testsuite tests="1&b;" errors="x" failures="9' + b"9" * 50 + b'">'
    )

    assert read_report(bomb) == Tests()
    assert read_report(b"") is None
    assert read_report(b"<testsuite " * 100_000) is None
    assert read_report(report("a\x1b", "b", tests=1)) == Tests(passed=1, one="tests.test_a::b")
    assert read_output("Ran 3 tests in 0.1s\n\nFAILED (failures=1, errors=1)\n") == Tests(passed=1, failed=2)
    assert read_output("Ran 1 test in 0.1s\n\nOK (skipped=1)\nRan 2 tests in 1s\n\nOK") == Tests(
        passed=2, skipped=1
    )
    assert read_output("Ran out of tests") is None
