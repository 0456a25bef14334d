"""Checks that cannot run on this machine, whatever the files are: a fault of the environment, and no change
of a program could turn them green.

A red check is mostly about the files, and a missing module is mostly the bug to mend. So a fault is only what
names the program or the test tool that the check itself starts, and only if no file could be meant by that
name and no test has run.

Keep true:
1. Whatever may be what is to be made, or what is wrong with the files, is no fault.
2. Pure, but for asking whether a file exists: the output is read, nothing is run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from posixpath import basename, join, normpath
from typing import Literal, NamedTuple

from placet.checks.command_line import TASK_RUNNERS, TEST_TOOLS, Simple, is_interpreter, simple_commands
from placet.checks.contract import CheckResult, Contract
from placet.checks.failure import lines_of
from placet.safe_text import clean

Kind = Literal["program", "module", "interpreter"]

_NOT_RUN = (126, 127)
"""What a shell ends with if it could not run a program, or found none."""
_REASON = r"((command )?not found|No such file or directory|Permission denied|(\S+: )?bad interpreter: .*)"
_MISSING = rf"""(^|[\s:‘'"])WORD[’'"]?: {_REASON}\s*$"""
_MODULES = """
pytest nose nose2 coverage tox nox mypy ruff flake8 pylint black isort pyright
"""
_PARTS = {"_pytest": "pytest", "pluggy": "pytest", "iniconfig": "pytest"}
"""Modules that come with a tool, and whose absence says that it is only partly installed."""
_TOOLS = {name: name for name in _MODULES.split()} | _PARTS
_PYTHON_SAYS = re.compile(
    r"(?P<python>\S*(?:python|pypy)[\d.]*): No module named '?(?P<name>\w+)[\w.]*'?\s*$"
)
"""What Python says of `-m NAME`, and of nothing else."""
_NO_MODULE = re.compile(
    r"(?:(?:\w+\.)*ModuleNotFoundError: )?No module named ['‘\"]?(?P<name>\w+)[\w.]*['’\"]?\s*$"
)
_FATAL = re.compile(r"Fatal Python error: .*|.*error while loading shared libraries: lib(?:python|pypy).*")
_NO_LIBRARY = re.compile(
    r".*No module named '?encodings'?.*|Fatal Python error: init_\w+.*|.*shared libraries.*"
)
_OWN_PATH = re.compile(r"(?<![A-Za-z_])PATH=")
"""A check with a PATH of its own may be led to what is to be made."""
_ENVIRONMENTS = {".venv", "venv", "env", ".env", ".virtualenv", "virtualenv", ".tox", ".nox", "node_modules"}
"""Folders that hold installed programs, never sources."""


class Fault(NamedTuple):
    """Why a check cannot run here."""

    check: str
    kind: Kind
    missing: str
    """The program or the module; of a broken interpreter its name."""
    where: str = ""
    """The interpreter that lacks it, where it is known."""


def find_fault(results: Sequence[CheckResult], contract: Contract, paths: Collection[str]) -> Fault | None:
    """The first check that cannot run on this machine, where `paths` are the files that it ran on."""
    found = (_fault(result, contract, paths) for result in results)
    return next((fault for fault in found if fault is not None), None)


def format_fault(fault: Fault, *, top: str, environment: Mapping[str, str]) -> str:
    """What is missing, in which environment, and what to do, in sentences.

    Args:
        top: The person's repository, to tell whether a program lies there and is only ignored by git.
        environment: What the check found.
    """
    name, missing = clean(fault.check, 80), clean(fault.missing, 200)
    around = _environment_words(environment)
    head = f"Check '{name}' cannot run in this environment"
    if fault.kind == "interpreter":
        return (
            f"{head}: the Python interpreter '{missing}' is broken and does not start ({around}). Make the "
            "virtual environment anew, or activate one that works, or name another check."
        )
    if fault.kind == "module":
        python = clean(fault.where, 200) or "python"
        return (
            f"{head}: the module '{missing}' is not installed for '{python}' ({around}). Install it "
            f"({python} -m pip install {missing}), or activate the environment that has it, or name another "
            "check."
        )
    if (
        "/" in missing
        and not os.path.isabs(fault.missing)
        and os.path.lexists(os.path.join(top, fault.missing))
    ):
        there = clean(os.path.join(top, fault.missing), 400)
        return (
            f"{head}: the program '{missing}' is in your folder, but git ignores it, and checks run on a "
            f"copy without ignored files. Name it by its whole path ({there}), or activate the environment "
            f"and write `{basename(missing)}`."
        )
    return (
        f"{head}: the program '{missing}' was not found ({around}). Install it, or activate the environment "
        "that has it, or name another check."
    )


def _environment_words(environment: Mapping[str, str]) -> str:
    active = environment.get("VIRTUAL_ENV")
    if active:
        return f"virtual environment: {clean(active, 200)}"
    return f"no virtual environment is active; PATH is {clean(environment.get('PATH', ''), 300)}"


def _fault(result: CheckResult, contract: Contract, paths: Collection[str]) -> Fault | None:
    if result.passed or result.tests is not None or _OWN_PATH.search(result.command):
        return None
    commands = simple_commands(result.command)
    lines = lines_of(result.output)
    if missing := _missing_program(result, commands, paths):
        return Fault(result.name, "program", missing)
    if any(map(_FATAL.fullmatch, lines)) and any(map(_NO_LIBRARY.fullmatch, lines)):
        started = [simple.words[0] for simple in commands if is_interpreter(simple.program)]
        return Fault(result.name, "interpreter", started[0] if started else "python")
    ours = set(_names(paths))
    for python, module in _missing_modules(lines, commands):
        if module not in ours and _TOOLS[module] not in ours:
            return Fault(result.name, "module", _TOOLS[module], python)
    # What make or npm runs stands in a file that the change may not touch, unless the contract says so.
    if not contract.may_touch and any(simple.program in TASK_RUNNERS for simple in commands):
        for tool in sorted(TEST_TOOLS - ours):
            if _is_said_missing(tool, result.output):
                return Fault(result.name, "program", tool)
    return None


def _missing_program(result: CheckResult, commands: Sequence[Simple], paths: Collection[str]) -> str:
    """The program that a check names and this machine has not."""
    if result.exit_code not in _NOT_RUN:
        return ""
    ours = {basename(path) for path in paths}
    for simple in commands:
        word = simple.words[0]
        if "$" in word or (word in ours if "/" not in word else not _is_installed(simple, paths)):
            continue
        if _is_said_missing(word, result.output):
            return word
    return ""


def _is_installed(simple: Simple, paths: Collection[str]) -> bool:
    """Whether a program that is named by its path was meant to be installed, and not to be made."""
    path = normpath(join(simple.folder, simple.words[0]))
    if path in paths:
        return False
    if os.path.isabs(path):
        return is_interpreter(simple.program) or simple.program in TEST_TOOLS
    return not _ENVIRONMENTS.isdisjoint(path.split("/")[:-1])


def _is_said_missing(word: str, output: str) -> bool:
    return re.search(_MISSING.replace("WORD", re.escape(word)), output, re.MULTILINE) is not None


def _missing_modules(lines: Sequence[str], commands: Sequence[Simple]) -> Iterator[tuple[str, str]]:
    """Interpreters with the module of a tool that each of them lacks."""
    named = {
        _TOOLS[word] for simple in commands for word in (simple.program, *simple.words) if word in _TOOLS
    }
    pythons = [simple.words[0] for simple in commands if is_interpreter(simple.program)]
    for line in lines:
        if (said := _PYTHON_SAYS.fullmatch(line.strip())) is not None and said["name"] in _TOOLS:
            yield said["python"], said["name"]
        elif (said := _NO_MODULE.fullmatch(line.strip())) is not None and _TOOLS.get(said["name"]) in named:
            yield pythons[0] if pythons else "", said["name"]


def _names(paths: Collection[str]) -> Iterator[str]:
    """What a module of the repository may be called."""
    for path in paths:
        *folders, name = path.split("/")
        yield from folders
        yield name
        yield name.partition(".")[0]
