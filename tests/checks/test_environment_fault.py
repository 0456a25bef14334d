"""A check that cannot run on this machine stops a session before any model is asked; others are worked on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from placet.checks.contract import CheckResult, Contract, Tests, contract_of
from placet.checks.environment_fault import Fault, find_fault, format_fault
from placet.coder.session import CodeLimits
from placet.errors import EnvironmentBroken
from placet.inference import Scripted
from placet.sandbox.confinement import Isolation
from tests.coder.workbench import Workbench, write

PYTHON = sys.executable
BARE = f"{PYTHON} -S"
"""Without its packages, so also without pytest."""


def red(command: str, output: str, code: int = 1, tests: Tests | None = None) -> CheckResult:
    return CheckResult(
        name="c", command=command, passed=False, exit_code=code, output=output, why="x", tests=tests
    )


def fault_of(
    command: str, output: str, code: int = 1, *paths: str, may_touch: tuple[str, ...] = ()
) -> Fault | None:
    contract = contract_of([command], "d", may_touch)
    return find_fault([red(command, output, code)], contract, paths)


# What is seen before any model is asked


@pytest.mark.parametrize(
    ("check", "missing"),
    [
        (f"{BARE} -m pytest -q", "pytest"),
        (f"cd . && CI=1 {BARE} -m pytest", "pytest"),
        ("make test", "pytest"),
        (".venv/bin/python -m pytest", ".venv/bin/python"),
        ("/nowhere/bin/python -m pytest", "/nowhere/bin/python"),
        (f"PYTHONHOME=/nowhere {PYTHON} -c pass", PYTHON),
    ],
    ids=["module", "after-cd", "make", "ignored-environment", "no-interpreter", "broken-interpreter"],
)
async def test_a_session_stops_as_if_it_had_not_begun(check: str, missing: str, tmp_path: Path) -> None:
    here = Workbench(tmp_path, {"a.py": "a = 1\n", "Makefile": f"test:\n\t@{BARE} -m pytest\n"})
    model = Scripted([])

    with here.coder(model) as coder:
        with pytest.raises(EnvironmentBroken) as broken:
            await coder.run("x", [check], session_id="s1")
        session = coder._sessions.find("s1")

    assert broken.value.missing == missing
    assert model.requests == []
    assert session.state == "contract_confirmed"
    assert session.baseline == []
    assert session.attempts == []
    assert session.reason == str(broken.value)


async def test_it_is_resumed_when_the_environment_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Workbench(tmp_path, {"a.txt": "wrong\n"})
    here.isolation = Isolation("none")
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    with here.coder([]) as coder, pytest.raises(EnvironmentBroken):
        await coder.run("x", ["looks-right a.txt"], session_id="s1")
    (tools / "looks-right").write_text('#!/bin/sh\ngrep -q right "$1"\n')
    (tools / "looks-right").chmod(0o755)

    with here.coder([write("a.txt", "right\n"), "done"]) as coder:
        session = await coder.resume("s1")

    assert session.state == "needs_approval"
    assert [result.passed for result in session.baseline] == [False]


@pytest.mark.parametrize(
    ("command", "output", "code", "fault"),
    [
        ("pytest -q", "Traceback:\nModuleNotFoundError: No module named 'pytest'\n", 1, ("module", "pytest")),
        ("pytest -q", "ModuleNotFoundError: No module named 'pluggy'\n", 1, ("module", "pytest")),
        ("pytest", "/bin/sh: 1: pytest: not found\n", 127, ("program", "pytest")),
        ("venv/bin/pytest", "sh: venv/bin/pytest: /old/python: bad interpreter: No such file", 126,
         ("program", "venv/bin/pytest")),
        ("coverage run -m pytest", "No module named 'pytest'\n", 1, ("module", "pytest")),
        ("make test", "make: pytest: No such file or directory\nmake: *** [test] Error 127\n", 2,
         ("program", "pytest")),
        ("npm test", "sh: 1: jest: not found\n", 127, ("program", "jest")),
        ("PYTHONPATH=. python3 -m pytest", "python3: No module named pytest\n", 1, ("module", "pytest")),
    ],
)  # fmt: skip
def test_what_programs_say_of_themselves(
    command: str, output: str, code: int, fault: tuple[str, str]
) -> None:
    found = fault_of(command, output, code)

    assert found is not None
    assert (found.kind, found.missing) == fault


# What is an ordinary red baseline


@pytest.mark.parametrize(
    "check",
    [
        f"{PYTHON} -m shop.run",
        f"{PYTHON} -c 'import shopp'",
        f"{PYTHON} run_tests.py",
        f"{BARE} -m nose2",
        f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {PYTHON} -m pytest -q -p no:cacheprovider test_a.py",
        "./run.sh",
        "bin/pytest",
        "sh calls.sh",
    ],
    ids=[
        "module-to-make",
        "wrong-import",
        "file-to-make",
        "own-module-called-like-a-tool",
        "test-that-imports-what-is-missing",
        "script-to-make",
        "program-to-make",
        "script-that-calls-what-is-missing",
    ],
)
async def test_what_may_be_mended_is_worked_on(check: str, tmp_path: Path) -> None:
    files = {
        "nose2/__init__.py": "",
        "test_a.py": "import coverage_of_ours\n\ndef test_a(): pass\n",
        "calls.sh": "pytset -q\n",
    }
    here = Workbench(tmp_path, files)
    with here.coder(["no idea"], limits=CodeLimits(iterations=1)) as coder:
        session = await coder.run("x", [check])

    assert session.iterations == 1


@pytest.mark.parametrize(
    ("command", "output", "code", "paths"),
    [
        ("python -m pytest", "E   ModuleNotFoundError: No module named 'shop'\n", 2, ()),
        ("python -m pytest", "/usr/bin/python: No module named pytest\n", 1, ("src/pytest/__init__.py",)),
        ("python -m green", "/usr/bin/python: No module named green\n", 1, ()),
        ("python check.py", "ModuleNotFoundError: No module named 'pytest'\n", 1, ("check.py",)),
        ('PATH="$PWD/bin:$PATH" pytest', "sh: pytest: not found\n", 127, ()),
        ("cc a.c -o build/python; build/python", "sh: build/python: not found\n", 127, ()),
    ],
)
def test_names_that_may_be_meant_otherwise_are_no_fault(
    command: str, output: str, code: int, paths: tuple[str, ...]
) -> None:
    assert fault_of(command, output, code, *paths) is None


def test_where_tests_have_run_nothing_is_a_fault() -> None:
    command, output = "python -m pytest", "python: No module named pytest\n"
    contract: Contract = contract_of([command], "d")

    assert find_fault([red(command, output)], contract, ()) is not None
    assert find_fault([red(command, output, tests=Tests(failed=1))], contract, ()) is None


def test_what_make_runs_may_be_mended_where_the_contract_allows_it() -> None:
    said = "make: pytest: No such file or directory\n"

    assert fault_of("make test", said, 2, may_touch=("Makefile",)) is None


def test_a_program_that_git_ignores_is_told_from_one_that_is_nowhere(tmp_path: Path) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").touch()
    fault = Fault("c", "program", ".venv/bin/python")

    here = format_fault(fault, top=str(tmp_path), environment={"PATH": "/bin"})
    elsewhere = format_fault(fault, top="/nowhere", environment={"PATH": "/bin"})

    assert str(tmp_path / ".venv" / "bin" / "python") in here
    assert "/bin" in elsewhere
    assert str(tmp_path) not in elsewhere
