"""A contract decides something, and says so in words that can be shown."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.checks.command_line import Named, named_files, runs, simple_commands, tool_of
from placet.checks.contract import (
    Check,
    CheckResult,
    Contract,
    check_contract,
    contract_of,
    first_red,
    format_contract,
    read_contract,
)
from placet.errors import PolicyFileError, UsageError
from tests.properties.effort import UNHURRIED, examples

FULL = """
description = "dates are read"
may_touch = ["tests/data/**"]

[[checks]]
command = "pytest -q"

[[checks]]
name = "prints"
command = "./run.sh"
expect_exit_zero = false
output_contains = "all good"
timeout_secs = 5
"""


def check(**given_: object) -> Check:
    return msgspec.convert({"name": "a", "command": "true", **given_}, Check)


def test_a_file_becomes_a_contract() -> None:
    contract = read_contract(FULL, "contract.toml")

    assert contract == Contract(
        description="dates are read",
        checks=(
            Check(name="pytest", command="pytest -q"),
            Check(
                name="prints",
                command="./run.sh",
                expect_exit_zero=False,
                output_contains="all good",
                timeout_secs=5,
            ),
        ),
        may_touch=("tests/data/**",),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = [", "it is not TOML"),
        ("check = 1", "Did you mean 'checks'?"),
        ("[[checks]]\ncomand = 'x'", "key 'checks[0].comand': 'comand' is no key of a check. Did you mean"),
        ("[[checks]]\nname = 'x'", "it has no command"),
        ("[[checks]]\ncommand = 3", "expected a text, got a whole number"),
        ("[[checks]]\ncommand = 'x'\nexpect_exit_zero = 0", "expected true or false"),
        ("[[checks]]\ncommand = 'x'\ntimeout_secs = true", "expected a number"),
        (f"[[checks]]\ncommand = 'x'\ntimeout_secs = {'9' * 400}", "86,400 is the most"),
        ("[[checks]]\ncommand = 'x'\ntimeout_secs = nan", "timeout_secs"),
        ("[checks]\ncommand = 'x'", "it must be a list of tables"),
        ("checks = []", "there are none"),
        ("", "there are none"),
        ("description = 7", "expected a text"),
        ("may_touch = 'tests'", "expected a list, got a text"),
        ("may_touch = ['../x']\n[[checks]]\ncommand = 'x'", "it may not lead outside"),
        ("[[checks]]\nname = 'a'\ncommand = 'x'\n[[checks]]\nname = 'a'\ncommand = 'y'", "checks[1].name"),
    ],
)
def test_a_file_that_means_nothing_names_what_does_not(text: str, words: str) -> None:
    with pytest.raises(PolicyFileError, match=r"^Contract file here\.toml") as caught:
        read_contract(text, "here.toml")

    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("checks", "may_touch", "words"),
    [
        ([], [], "there are none"),
        ([check(name=" ")], [], "checks[0].name"),
        ([check(name="a\x1b[31m")], [], "checks[0].name"),
        ([check(), check(command="false")], [], "'a' is the name of another check"),
        ([check(command="  ")], [], "it is empty"),
        ([check(command="true\0")], [], "control characters"),
        ([check(command="true \u202e# eslaf")], [], "control characters"),
        ([check(expect_exit_zero=False)], [], "output_contains"),
        ([check(output_contains="")], [], "every output would contain it"),
        ([check(timeout_secs=0)], [], "above 0"),
        ([check(timeout_secs=86_401)], [], "above 0"),
        ([check(timeout_secs=float("inf"))], [], "above 0"),
        ([check()], ["/etc/passwd"], "may not begin with '/'"),
        ([check()], ["a/../../b"], "may not lead outside"),
        ([check()], [""], "it is empty"),
        ([check(name=str(n)) for n in range(101)], [], "100 is the most"),
    ],
)
def test_what_decides_nothing_is_refused(checks: list[Check], may_touch: list[str], words: str) -> None:
    contract = Contract(description="", checks=tuple(checks), may_touch=tuple(may_touch))

    with pytest.raises(UsageError) as caught:
        check_contract(contract)

    assert words in str(caught.value)


def test_commands_of_several_lines_are_fine() -> None:
    check_contract(
        contract_of(["set -e\n\tpytest -q\nruff check"], may_touch=["tests/", "Makefile", "*.toml"])
    )


def test_names_are_made_from_what_runs_and_each_is_its_own() -> None:
    given_ = Check(name="pytest", command="true")

    made = contract_of(["python3 -m pytest -q", given_, "CI=1 uv run --with x pytest", "$(", "make test"])

    assert [each.name for each in made.checks] == ["pytest-2", "pytest", "pytest-3", "check", "make"]


def test_one_text_is_no_list() -> None:
    with pytest.raises(UsageError, match="lists"):
        contract_of("pytest")


def test_words_show_all_that_decides_and_nothing_that_steers() -> None:
    words = format_contract(
        Contract(
            description="bell \a",
            checks=(
                Check(name="a", command="pytest -q\nruff"),
                Check(
                    name="b", command="x", expect_exit_zero=False, output_contains="ok\x1b", timeout_secs=2
                ),
            ),
            may_touch=("tests/**",),
        )
    )

    assert words.splitlines() == [
        "bell \\x07",
        "1. a: `pytest -q\\nruff` ends with exit code 0, within 300 s",
        '2. b: `x` writes "ok\\e", whatever its exit code, within 2 s',
        "The change may touch these, although checks depend on them: tests/**",
    ]


def test_the_first_red_one_is_what_matters() -> None:
    green = CheckResult(name="a", command="", passed=True)
    red = [CheckResult(name=name, command="", passed=False) for name in "bc"]

    assert first_red([green, *red]) is red[0]
    assert first_red([green]) is None


# What a command line runs


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("A=1 B='x y' pytest -q", [("pytest", "-q")]),
        ("env -u X A=1 timeout -k 5 10s nice -n 3 ./a b", [("./a", "b")]),
        ("poetry run python a.py | tee log", [("python", "a.py"), ("tee", "log")]),
        ("uv run --with a -- pytest", [("pytest",)]),
        ("npx --yes jest", [("jest",)]),
        ("bash -lc 'cd x && ./y'", [("./y",)]),
        ("if ! test -f a; then exec ./b; fi # ./c", [("test", "-f", "a"), ("./b",), ("fi",)]),
        ("grep ';' a 2>&1 >out && (cd b; ./c)", [("grep", ";", "a"), ("./c",)]),
        ('echo "a \\" && ./b"', [("echo", 'a " && ./b')]),
        ("echo 'open", [("echo", "open")]),
        ("a \\\n b\n./c", [("a", "b"), ("./c",)]),
        ("", []),
    ],
)
def test_a_command_line_is_taken_apart(command: str, words: list[tuple[str, ...]]) -> None:
    assert [simple.words for simple in simple_commands(command)] == words


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("./check.sh x.txt", [("check.sh", "run")]),
        ("sh -e ci/check.sh", [("ci/check.sh", "run")]),
        ("cd ci && bash ./check.sh; ../top.sh", [("ci/check.sh", "run"), ("top.sh", "run")]),
        ("(cd ci; ./a) && ./b", [("ci/a", "run"), ("b", "run")]),
        ("python -s -W error tools/check.py --all", [("tools/check.py", "run")]),
        ("python < check.py", [("check.py", "run")]),
        ("node --require ./setup.js run.mjs", [("setup.js", "run"), ("run.mjs", "run")]),
        ("make -f ci/rules.txt test", [("ci/rules.txt", "run")]),
        ("grep -q right x.txt", []),
        ("python -c 'import a' b.py", []),
        ("pytest -s -k a.py sub/a.py::test_x", [("sub/a.py", "test")]),
        ("pytest -c odd.cfg", [("odd.cfg", "configures"), ("odd.cfg", "test")]),
        ("diff expected.txt out.txt", [("expected.txt", "compares")]),
        ("../outside.sh; /bin/x", []),
    ],
)
def test_a_command_names_what_it_runs_and_not_what_it_reads(
    command: str, named: list[tuple[str, str]]
) -> None:
    assert named_files(command) == [Named(*each) for each in named]  # type: ignore[arg-type]


def test_a_module_is_named_by_every_place_it_may_be_in() -> None:
    assert {each.path for each in named_files("python -m app.main")} == {
        "app/main.py",
        "app/main/__main__.py",
        "src/app/main.py",
        "src/app/main/__main__.py",
    }
    assert Named("tests/test_a.py", "test") in named_files("coverage run -m unittest tests.test_a.Case")
    assert Named("unit.py", "test") in named_files("python -m coverage run --source x -m pytest unit.py")


def test_whether_a_tool_is_sure_to_run() -> None:
    for command in ("pytest -q", "mypy . && python -m pytest", "cd a; CI=1 uv run pytest | tail"):
        assert runs(command, ["pytest"]), command
    for command in ("make test", "pytest --version", "false || pytest", "grep pytest a", "echo pytest"):
        assert not runs(command, ["pytest"]), command


@UNHURRIED
@examples(300)
@given(st.text(st.sampled_from("ab .-/'\"\\$(){}|&;<>\n#=mcpython"), max_size=60) | st.text(max_size=40))
def test_any_text_can_be_read_as_a_command(command: str) -> None:
    simple_commands(command)
    assert tool_of(command)
    for path, _ in named_files(command):
        assert not path.startswith(("/", "../"))
