"""What checks depend on is guarded while they run, with and without a sandbox; and what they read is told."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placet.checks import export_guard
from placet.checks.check_runner import CheckRunner
from placet.checks.contract import CheckResult, contract_of
from placet.checks.sealing import Seal
from placet.sandbox.confinement import Isolation
from tests.coder.workbench import _known

FILES = {
    "verify.sh": "test -f tests/want.txt\n",
    "tests/want.txt": "1\n",
    "tests/test_a.py": "def test_a(): pass\n",
    "data/rates.json": "{}\n",
    "data/other.json": "{}\n",
    "app.py": "print(open('data/rates.json').read())\n",
}
BASE = CheckResult(name="sh", command="true", passed=False)
LEVELS = pytest.mark.parametrize("level", ["none", "process"])


async def checked(
    folder: Path,
    command: str,
    *,
    level: Any = "none",
    files: Mapping[str, str] = FILES,
    baseline: CheckResult | None = BASE,
    may_touch: tuple[str, ...] = (),
) -> CheckResult:
    """One check of these files, as the contract names it."""

    @asynccontextmanager
    async def fresh() -> AsyncIterator[Path]:
        top = folder / "export" / "files"
        for name, text in files.items():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_text(text)
        yield top
        shutil.rmtree(folder / "export")

    contract = contract_of([f"{command}; sh verify.sh"], may_touch=may_touch)
    name = contract.checks[0].name
    before = []
    if baseline is not None:
        before = [CheckResult(name=name, command="", passed=False, touched=baseline.touched)]
    checking = CheckRunner(Isolation(level, folder=_known()))
    [result] = await checking.run(contract, fresh, baseline=before, seal=Seal.of(contract, list(files)))
    return result


CHANGES = {
    "in place": "echo x >> tests/test_a.py",
    "and put back": "cp -p tests/test_a.py k; echo x >> tests/test_a.py; cat k > tests/test_a.py; "
    "touch -r k tests/test_a.py; rm k",
    "replaced and put back": "mv tests/test_a.py k; echo x > tests/test_a.py; mv k tests/test_a.py",
    "the folder for a moment": "mv tests k; mkdir tests; echo 1 > tests/want.txt; rm -r tests; mv k tests",
    "made": "echo x > conftest.py",
    "made for a moment": "echo x > conftest.py; rm conftest.py",
    "compiled": "mkdir tests/__pycache__; echo x > tests/__pycache__/test_a.cpython-311.pyc",
    "compiled for a moment": "mkdir tests/__pycache__; echo x > tests/__pycache__/test_a.pyc; "
    "rm -r tests/__pycache__",
    "made in a new folder": "mkdir pytest; echo x > pytest/__init__.py; rm -r pytest",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
async def test_without_a_sandbox_a_change_is_noticed(tmp_path: Path, change: str) -> None:
    result = await checked(tmp_path, change)

    assert result.exit_code == 0
    assert not result.passed
    assert result.touched


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
async def test_in_the_sandbox_no_change_is_green(tmp_path: Path, change: str) -> None:
    """What exists cannot be changed there; what is new is noticed."""
    result = await checked(tmp_path, f"({change}) 2>/dev/null", level="process")

    assert bool(result.touched) == any(new in change for new in ("conftest", "pytest", "__pycache__"))
    assert result.passed != bool(result.touched)


@LEVELS
async def test_what_a_check_may_write_leaves_it_green(tmp_path: Path, level: str) -> None:
    """Results beside the tests, caches, a copy that is changed, the program's own files."""
    writes = (
        "echo x > tests/got.txt; mkdir -p tests/__pycache__ .pytest_cache build; echo x > build/x; "
        "mkdir json; echo x > json/setup.cfg; cp -r tests copy; echo x >> copy/want.txt; "
        "echo x >> app.py; echo x >> data/rates.json"
    )

    result = await checked(tmp_path, writes, level=level)

    assert (result.passed, result.touched, result.why) == (True, (), "")


@LEVELS
async def test_what_the_baseline_rewrites_may_be_rewritten(tmp_path: Path, level: str) -> None:
    writes = "echo 2 > tests/want.txt; mkdir -p out; echo x > out/Makefile; echo x > tox.ini"

    base = await checked(tmp_path, writes, level=level, baseline=None)
    again = await checked(tmp_path, f"{writes}; echo y > out/setup.cfg", level=level, baseline=base)
    more = await checked(tmp_path, f"{writes}; echo y > setup.cfg", level=level, baseline=base)

    assert (base.passed, base.touched) == (True, ("tests/want.txt", "tox.ini"))
    assert (again.passed, again.touched) == (True, ())
    assert (more.passed, more.touched) == (False, ("setup.cfg",))


async def test_what_the_contract_lifts_is_not_guarded(tmp_path: Path) -> None:
    result = await checked(tmp_path, "echo x >> tests/test_a.py", may_touch=("tests",))

    assert result.passed


@LEVELS
async def test_the_data_that_was_read_is_told(tmp_path: Path, level: str) -> None:
    result = await checked(tmp_path, f"{sys.executable} app.py", level=level)

    assert result.read == ("data/rates.json",)


async def test_that_it_is_not_known_what_was_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_guard, "_was_read", lambda path: False)  # As a mount with noatime does.

    result = await checked(tmp_path, "cat data/*")

    assert result.read is None


async def test_more_files_than_are_mounted_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_guard, "MOST_FIXED", 1)

    result = await checked(tmp_path, "echo x >> tests/test_a.py", level="process")

    assert (result.passed, result.touched) == (False, ("tests/test_a.py",))


async def test_where_a_name_that_is_no_text_was_read_it_is_not_known_what_was(tmp_path: Path) -> None:
    name = os.fsdecode(b"data/\xff.json")

    result = await checked(tmp_path, "cat data/*", files={**FILES, name: "{}\n"})

    assert result.read is None
    assert msgspec.json.decode(msgspec.json.encode(result), type=CheckResult) == result


async def test_the_watch_is_closed_by_the_thread_of_the_event_loop_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads that close it close its number twice, and in between that has become another's: a pipe of a
    command, which then never ends."""
    closed: list[int] = []
    close = export_guard.FileEvents.close

    def noted(self: export_guard.FileEvents) -> None:
        closed.append(threading.get_ident())
        close(self)

    monkeypatch.setattr(export_guard.FileEvents, "close", noted)

    result = await checked(tmp_path, "echo x > conftest.py; rm conftest.py")

    assert result.touched == ("conftest.py",)
    assert set(closed) == {threading.get_ident()}
