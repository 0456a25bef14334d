"""The outcome contract: which checks must be green, and what came of running them.

Keep true:
1. A contract has at least one check, and each check can fail.
2. What the change may touch of the files that checks depend on stands in the contract, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from placet.checks.command_line import tool_of
from placet.errors import UsageError
from placet.ir.provenance import Labels, joined, printed_by_check
from placet.ir.to_dict import ToDict
from placet.safe_text import clean
from placet.tools.builtin.matching.globs import compile_glob

if TYPE_CHECKING:
    from placet.policy.toml_file import TomlFile

FILE = ".placet/contract.toml"
"""Where a repository keeps its contract."""

TIMEOUT_S = 300.0
MOST_TIMEOUT_S = 86_400.0
MOST_CHECKS = 100
MOST_CHARACTERS = 20_000
"""Of a command, and of the text that an output is to contain."""
_MOST_NAME = 100
_EXAMPLE = 'Write at least:  [[checks]]  command = "pytest -q"'


class Check(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command that must pass."""

    name: str
    """Name of the check."""
    command: str
    """Command for `/bin/sh` in the top folder of the repository."""
    expect_exit_zero: bool = True
    """The exit code must be 0. `False`: only `output_contains` decides."""
    output_contains: str | None = None
    """Text that the output must contain."""
    timeout_secs: float = TIMEOUT_S
    """Time limit in seconds, up to 86,400."""


class Contract(ToDict, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The conditions under which the work is done."""

    description: str
    """What the change is to achieve."""
    checks: tuple[Check, ...]
    """The checks, at least one; all must pass."""
    may_touch: tuple[str, ...] = ()
    """Patterns, such as `tests/**`, of files that checks depend on and that the change may modify
    nevertheless."""


class Tests(msgspec.Struct, frozen=True, kw_only=True):
    """Counts that a test program reports."""

    __test__ = False

    passed: int = 0
    """Tests that passed."""
    failed: int = 0
    """Tests that failed."""
    skipped: int = 0
    """Tests that were skipped, or were expected to fail and did."""
    unloaded: int = 0
    """Of the failed ones, test files that could not be loaded."""
    one: str = ""
    """Name of one of the tests, by which a later report of the same tests is recognised; empty if there is
    none."""
    modules: tuple[str, ...] = ()
    """Test files, in the report about the base."""
    absent: tuple[str, ...] = ()
    """Test files that could not be loaded, in the report about the base."""


class CheckResult(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check."""

    name: str
    """Name of the check."""
    command: str
    """The command."""
    passed: bool
    """Whether it passed."""
    exit_code: int | None = None
    """Exit code; `None` if it was stopped or could not be started."""
    ended_by: str = "itself"
    """What ended it: `itself`, or the limit that was reached."""
    why: str = ""
    """Why it did not pass; empty if it did."""
    output: str = ""
    """Standard output and standard error as they came; of long output, the beginning and the end."""
    duration_ms: float = 0.0
    """Time that it took, in milliseconds."""
    tests: Tests | None = None
    """Counts of the test program; `None` if it reports none."""
    touched: tuple[str, ...] = ()
    """Files that checks depend on which were changed or made while it ran. In the baseline: those that the
    check itself rewrites."""
    read: tuple[str, ...] | None = ()
    """Data files of the repository that it read; `None` if that is not known."""
    rewritten: tuple[str, ...] = ()
    """Other files that it rewrote or removed while it ran, and that checks may depend on. In the baseline:
    those that the check itself rewrites."""


def labels_of_output(results: Sequence[CheckResult]) -> Labels:
    """The labels on what a model is shown of these checks. Of those that passed it sees no output."""
    return joined(*(printed_by_check(result.name) for result in results if not result.passed))


def first_red(results: Sequence[CheckResult]) -> CheckResult | None:
    """The check that the next attempt is about."""
    return next((result for result in results if not result.passed), None)


def contract_of(
    checks: Sequence[str | Check], description: str = "", may_touch: Sequence[str] = ()
) -> Contract:
    """A contract of commands, each as it is or with all that belongs to it.

    A command on its own gets a name that no other check has.

    >>> [check.name for check in contract_of(["pytest -q", "python -m pytest slow", "ruff check"]).checks]
    ['pytest', 'pytest-2', 'ruff']

    Raises:
        UsageError: it could not decide anything; says why.
    """
    if isinstance(checks, str) or isinstance(may_touch, str):
        raise UsageError("checks and may_touch are lists of texts. Write checks=['pytest -q'].")
    taken = {check.name for check in checks if isinstance(check, Check)}
    made: list[Check] = []
    for check in checks:
        if isinstance(check, str):
            check = Check(name=_free_name(check, taken), command=check)
            taken.add(check.name)
        made.append(check)
    contract = Contract(description=description, checks=tuple(made), may_touch=tuple(may_touch))
    check_contract(contract)
    return contract


def read_contract(text: str, where: str) -> Contract:
    """The contract in a TOML file; `where` is the file's name, for errors.

        description = "parsing of dates"
        may_touch = ["tests/data/**"]

        [[checks]]
        command = "pytest -q"
        timeout_secs = 60

    Raises:
        PolicyFileError: it is not TOML, has a key that means nothing, or could not decide anything; names the
            file and the key, or the line.
    """
    from placet.policy.loader import read_toml
    from placet.policy.toml_file import TomlFile

    file = TomlFile(where, what="Contract file")
    document = read_toml(file, text.encode(errors="replace"))
    file.check_keys(document, Contract.__struct_fields__, "", "a contract")
    tables = file.tables(document.get("checks", []), "checks", "Begin each check with a line [[checks]].")
    contract = file.convert({"description": "", **document, "checks": read_checks(file, tables)}, Contract)
    for problem in contract_problems(contract):
        file.fail(problem.words, problem.key, problem.fix)
    return contract


def read_checks(file: TomlFile, tables: Sequence[dict[str, object]]) -> tuple[Check, ...]:
    """The checks that stand in a file as tables. What each says is of the right kind, and no more.

    Raises:
        PolicyFileError: a key means nothing, or a value is of another kind; names the file and the key.
    """
    taken = {str(table.get("name")) for table in tables}
    return tuple(_read_check(file, table, f"checks[{number}]", taken) for number, table in enumerate(tables))


def check_contract(contract: Contract) -> None:
    """Make sure that a contract decides something, and that what it says can be shown and run.

    Raises:
        UsageError: it does not; says which check, and what to write instead.
    """
    for problem in contract_problems(contract):
        raise UsageError(
            f"The contract cannot be used: {problem.key}: {problem.words}. {problem.fix}".rstrip()
        )


def format_contract(contract: Contract) -> str:
    """A contract for people and for models: a line for each check, and what the change may touch."""
    lines = [f"{number}. {_check_words(check)}" for number, check in enumerate(contract.checks, 1)]
    if contract.description.strip():
        lines.insert(0, clean(contract.description.strip(), lines=True))
    if contract.may_touch:
        patterns = ", ".join(clean(pattern) for pattern in contract.may_touch)
        lines.append(f"The change may touch these, although checks depend on them: {patterns}")
    return "\n".join(lines)


def _check_words(check: Check) -> str:
    wanted = ["ends with exit code 0"] if check.expect_exit_zero else []
    if check.output_contains is not None:
        wanted.append(f'writes "{clean(check.output_contains)}"')
    end = "" if check.expect_exit_zero else ", whatever its exit code"
    return (
        f"{clean(check.name)}: `{clean(check.command)}` {' and '.join(wanted)}{end}, "
        f"within {check.timeout_secs:g} s"
    )


class ContractProblem(NamedTuple):
    """Something wrong with a contract."""

    key: str
    words: str
    fix: str = ""


def contract_problems(contract: Contract) -> list[ContractProblem]:
    """Everything that is wrong with a contract, in the order in which it stands there."""
    found: list[ContractProblem] = []
    if not contract.checks:
        found.append(
            ContractProblem("checks", "there are none, so nothing would tell when the work is done", _EXAMPLE)
        )
    if len(contract.checks) > MOST_CHECKS:
        found.append(
            ContractProblem("checks", f"there are {len(contract.checks)}; {MOST_CHECKS} is the most")
        )
    names: set[str] = set()
    for number, check in enumerate(contract.checks[:MOST_CHECKS]):
        found += _problems_of(check, f"checks[{number}]")
        if check.name in names:
            again = f"'{clean(check.name, _MOST_NAME)}' is the name of another check"
            found.append(
                ContractProblem(f"checks[{number}].name", again, "Give each check a name of its own.")
            )
        names.add(check.name)
    for number, pattern in enumerate(contract.may_touch):
        if words := _pattern_problem(pattern):
            fix = "Write a path or a pattern from the top of the repository, such as tests/data/**."
            found.append(ContractProblem(f"may_touch[{number}]", f"{clean(pattern, 80)!r}: {words}", fix))
    return found


def _problems_of(check: Check, place: str) -> list[ContractProblem]:
    found: list[ContractProblem] = []
    if not check.name.strip() or len(check.name) > _MOST_NAME or clean(check.name) != check.name:
        fix = f"Write a name of at most {_MOST_NAME} plain characters."
        found.append(ContractProblem(f"{place}.name", "it is empty, too long, or has hidden characters", fix))
    if not check.command.strip():
        found.append(ContractProblem(f"{place}.command", "it is empty", 'Write one such as "pytest -q".'))
    elif clean(check.command, lines=True, tabs=True) != check.command:
        # Whoever confirms a contract must see what will run.
        hidden = "it holds control characters, or characters that nobody sees"
        found.append(ContractProblem(f"{place}.command", hidden, "Write it without them."))
    elif len(check.command) > MOST_CHARACTERS:
        long = f"it is longer than {MOST_CHARACTERS:,} characters"
        found.append(ContractProblem(f"{place}.command", long, "Put it into a script, and run that."))
    wanted = check.output_contains
    if wanted is not None and (not wanted.strip() or len(wanted) > MOST_CHARACTERS):
        words = "it is empty, so every output would contain it" if not wanted.strip() else "it is too long"
        found.append(
            ContractProblem(f"{place}.output_contains", words, "Write a text that only a success writes.")
        )
    if wanted is None and not check.expect_exit_zero:
        words = "without an exit code of 0 only output_contains could tell, and it is not given"
        found.append(
            ContractProblem(f"{place}.expect_exit_zero", words, "Write output_contains, or drop this.")
        )
    if not isfinite(check.timeout_secs) or not 0 < check.timeout_secs <= MOST_TIMEOUT_S:
        words = f"{check.timeout_secs:g} is no number of seconds above 0 and up to {MOST_TIMEOUT_S:,.0f}"
        found.append(ContractProblem(f"{place}.timeout_secs", words, "Write one such as 60."))
    return found


def _pattern_problem(pattern: str) -> str:
    """What is wrong with a pattern of files that may be touched; empty if nothing is."""
    if pattern.startswith(("/", "~", "!")):
        return f"it may not begin with '{pattern[0]}'"
    if ".." in pattern.split("/"):
        return "it may not lead outside"
    if clean(pattern) != pattern:
        return "it holds control characters, or characters that nobody sees"
    try:
        compile_glob(pattern.rstrip("/"))
    except ValueError as error:
        return str(error)
    return ""


def _read_check(file: TomlFile, table: dict[str, object], place: str, taken: set[str]) -> Check:
    file.check_keys(table, Check.__struct_fields__, place, "a check")
    if "command" not in table:
        file.fail("it has no command", place, _EXAMPLE)
    if "name" not in table:
        name = _free_name(str(table["command"]), taken)
        taken.add(name)
        table = {"name": name, **table}
    seconds = table.get("timeout_secs")
    if isinstance(seconds, int) and seconds > MOST_TIMEOUT_S:
        # A number of any length is TOML, and not one that a float can hold.
        file.fail(f"{MOST_TIMEOUT_S:,.0f} is the most", f"{place}.timeout_secs", "Write one such as 60.")
    return file.convert(table, Check, place)


def _free_name(command: str, taken: set[str]) -> str:
    first = tool_of(command)
    name, number = first, 1
    while name in taken:
        number += 1
        name = f"{first}-{number}"
    return name
