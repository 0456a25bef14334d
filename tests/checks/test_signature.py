"""The same failure has the same signature, another has another: on what real tools write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.checks.contract import CheckResult
from placet.checks.failure import ErrorClass
from placet.checks.signature import (
    MOST_COMMAND,
    MOST_MESSAGE,
    Signature,
    normal_command,
    normal_message,
    signature_of,
)
from placet.safe_text import clean
from tests.properties.effort import examples


def red(output: str = "", *, command: str = "make check", code: int | None = 1, **more: Any) -> CheckResult:
    return CheckResult(name="x", command=command, passed=False, exit_code=code, output=output, **more)


def signed(folder: Path, command: str) -> Signature:
    """What is made of a real command, run in `folder`."""
    shell = f"set -- ; PATH={Path(sys.executable).parent}:$PATH\n{command}"
    done = subprocess.run(
        ["sh", "-c", f"exec 2>&1\n{shell}"], cwd=folder, stdout=subprocess.PIPE, check=False, timeout=60
    )
    output = done.stdout.decode(errors="replace")
    return signature_of(red(output, command=command, code=done.returncode))


CALC = "def add(a, b):\n    return a - b\n\n\ndef mean(xs):\n    return sum(xs) / len(xs)\n"
PYTEST = "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python -m pytest -q -p no:cacheprovider"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "calc.py").write_text(CALC)
    (tmp_path / "broken.py").write_text("def f(:\n  pass\n")
    (tmp_path / "test_calc.py").write_text(
        "import calc\n\ndef test_add():\n    assert calc.add(2, 3) == 5\n\n"
        "class TestMean:\n    def test_empty(self):\n        assert calc.mean([]) == 0\n"
    )
    (tmp_path / "case.py").write_text(
        "import calc, unittest\n\nclass Sums(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n"
    )
    return tmp_path


def test_a_failed_test_is_known_by_its_name_whatever_number_was_wrong(project: Path) -> None:
    first = signed(project, f"{PYTEST} test_calc.py")
    (project / "calc.py").write_text(CALC.replace("a - b", "a * b * 10"))
    again = signed(project, f"{PYTEST} test_calc.py")
    (project / "calc.py").write_text(CALC.replace("len(xs)", "max(len(xs), 1)"))
    other = signed(project, f"{PYTEST} test_calc.py")

    assert first.error_class == "test_failure"
    # Of two that failed it is always the same one.
    assert first.message == "test_calc.py::TestMean::test_empty: ZeroDivisionError: division by zero"
    assert again.key == first.key
    assert other.message == "test_calc.py::test_add: assert <n> == <n>"
    assert other.key != first.key
    assert other.coarse == first.coarse


def test_what_does_not_load_is_told_apart(project: Path) -> None:
    (project / "test_calc.py").write_text("from calc import subtract\n")
    missing = signed(project, f"{PYTEST} test_calc.py")
    (project / "test_calc.py").write_text("import broken\n")
    broken = signed(project, f"{PYTEST} test_calc.py")

    assert missing.error_class == "import_error"
    assert missing.message == (
        "test_calc.py: ImportError: cannot import name 'subtract' from 'calc' (calc.py)"
    )
    assert broken.error_class == "compile_error"
    assert broken.message == "test_calc.py: SyntaxError: invalid syntax in broken.py"


@pytest.mark.parametrize(
    ("command", "kind", "message"),
    [
        ("python -m unittest -q case", "test_failure", "case.Sums.test_add: AssertionError: <n> != <n>"),
        ("python -m unittest nope", "import_error", None),
        (
            "python -c 'import calc; calc.mean([])'",
            "crash",
            "calc.py in mean: ZeroDivisionError: division by zero",
        ),
        ("python -c 'assert 1 == 2, 17'", "test_failure", "<string> in <module>: AssertionError: <n>"),
        ("python broken.py", "compile_error", "broken.py: SyntaxError: invalid syntax"),
        ("python -m nope", "import_error", "No module named nope"),
        ("python nope.py", "not_found", "can't open file 'nope.py': [Errno <n>] No such file or directory"),
        ("python -c 'x = \"a\" * (1 << 60)'", "out_of_memory", "<string> in <module>: MemoryError"),
        ("python -c 'import os; os.abort()'", "crash", None),
        ("pytst -q", "not_found", "sh: <n>: pytst: not found"),
        ("./calc.py", "permission", "sh: <n>: calc.py: Permission denied"),
        ("cat nope.txt", "not_found", "cat: nope.txt: No such file or directory"),
        ("grep -q right calc.py", "other", "no output, exit code 1"),
        ("exit 7", "other", "no output, exit code 7"),
        ("if; then", "compile_error", None),
        ("kill -9 $$", "crash", "it was ended by a signal"),
    ],
)
def test_programs_and_shells(project: Path, command: str, kind: str, message: str | None) -> None:
    found = signed(project, command)

    assert found.error_class == kind, found
    if message is not None and not (sys.platform != "linux" and message.startswith("sh:")):
        assert found.message == message


GCC = """\
a.c: In function ‘main’:
a.c:3:2: error: expected ‘,’ or ‘;’ before ‘printf’
    3 |  printf("%d", y); return 0; }
      |  ^~~~~~
"""
LD = """\
/usr/bin/ld: /tmp/ccweweeW.o: in function `main':
l.c:(.text+0x5): undefined reference to `f'
collect2: error: ld returned 1 exit status
"""
RUSTC = """\
   Compiling cr v0.1.0 (/tmp/sigc/c/cr)
error[E0425]: cannot find value `b` in this scope
 --> src/lib.rs:1:29
  |
1 | pub fn add(a: i32) -> i32 { b }
  |                             ^
error: could not compile `cr` (lib) due to 1 previous error
"""
CARGO = """\
running 1 test
test adds ... FAILED

failures:

---- adds stdout ----

thread 'adds' (12197) panicked at src/lib.rs:2:21:
assertion `left == right` failed
  left: -1
 right: 5
note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.


failures:
    adds

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.09s

error: test failed, to rerun pass `--lib`
"""
PANIC = """\

thread 'main' (12126) panicked at p.rs:1:55:
index out of bounds: the len is 0 but the index is 3
"""
GO_TEST = """\
--- FAIL: TestSums (0.00s)
    --- FAIL: TestSums/small (0.00s)
        sum_test.go:9: Add(2, 3) = -1, want 5
FAIL
FAIL\texample.com/sum\t0.002s
"""
GO_BUILD = "# example.com/sum\n./sum.go:4:9: undefined: foo\n"
TSC = """\
a.ts(1,7): error TS2322: Type 'string' is not assignable to type 'number'.
a.ts(2,1): error TS2304: Cannot find name 'foo'.
"""
TSC_PRETTY = (
    "\x1b[96ma.ts\x1b[0m:\x1b[93m1\x1b[0m:\x1b[93m7\x1b[0m - \x1b[91merror\x1b[0m\x1b[90m TS2322: \x1b[0m"
    "Type 'string' is not assignable to type 'number'.\n"
)
TSC_IMPORT = "b.ts(1,17): error TS2307: Cannot find module './nope' or its corresponding type declarations.\n"
ESLINT = """\

/tmp/sigc/js/l.js
  1:5   error  'q' is assigned a value but never used  no-unused-vars
  1:12  error  'foo' is not defined                    no-undef

✖ 2 problems (2 errors, 0 warnings)
"""
JEST = """\
FAIL ./a.test.js
  ✕ adds (4 ms)

  ● adds

    expect(received).toBe(expected) // Object.is equality

    Expected: 3
    Received: 2
"""
JEST_IMPORT = """\
FAIL ./b.test.js
  ● Test suite failed to run

    Cannot find module './nope' from 'b.test.js'
"""
MOCHA = """\
  m
    1) adds


  0 passing (7ms)
  1 failing

  1) m
       adds:

      AssertionError [ERR_ASSERTION]: 1 == 2
      + expected - actual
"""
NODE_TEST = """\
TAP version 13
# Subtest: adds
not ok 1 - adds
  ---
  duration_ms: 2.788509
  location: '/tmp/sigc/c/n.test.js:1:64'
  failureType: 'testCodeFailure'
  error: |-
    Expected values to be strictly equal:
"""
NODE = """\
node:internal/modules/cjs/loader:1210
  throw err;
  ^

Error: Cannot find module './nope'
Require stack:
- /tmp/sigc/c/q.js
    at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15)
"""
RUFF = """\
F401 [*] `calc.subtract` imported but unused
 --> test_imp.py:1:18
  |
1 | from calc import subtract
  |                  ^^^^^^^^
help: Remove unused import: `calc.subtract`

Found 1 error.
"""
RUFF_FORMAT = (
    "unformatted: File would be reformatted\n --> calc.py:4:1\n  |\n4 +\n\n1 file would be reformatted\n"
)
MYPY = """\
calc.py:1: error: Function is missing a type annotation  [no-untyped-def]
Found 1 error in 1 file (checked 1 source file)
"""
PYTEST_TIMEOUT = """\
=================================== FAILURES ===================================
__________________________________ test_slow ___________________________________

    def test_slow():
>       time.sleep(5)
E       Failed: Timeout (>1.0s) from pytest-timeout.

test_slow.py:5: Failed
"""
MAKE = "cc    -c -o a.o a.c\n" + GCC + "make: *** [<builtin>: a.o] Error 1\n"


@pytest.mark.parametrize(
    ("output", "kind", "message"),
    [
        (GCC, "compile_error", "a.c: expected ‘,’ or ‘;’ before ‘printf’"),
        (MAKE, "compile_error", "a.c: expected ‘,’ or ‘;’ before ‘printf’"),
        (LD, "compile_error", "l.c: undefined reference to `f'"),
        (RUSTC, "compile_error", "lib.rs: error[E0425]: cannot find value `b` in this scope"),
        (CARGO, "test_failure", "adds: assertion <s> failed"),
        (PANIC, "crash", "p.rs: index out of bounds: the len is <n> but the index is <n>"),
        (GO_TEST, "test_failure", "small: sum_test.go:<n>: Add(<n>) = <n>, want <n>"),
        (GO_BUILD, "compile_error", "sum.go: undefined: foo"),
        (TSC, "type_error", "a.ts: TS2322: Type 'string' is not assignable to type 'number'."),
        (TSC_PRETTY, "type_error", "a.ts: TS2322: Type 'string' is not assignable to type 'number'."),
        (TSC_IMPORT, "import_error", None),
        ("c.ts(1,12): error TS1109: Expression expected.\n", "compile_error", None),
        (ESLINT, "lint", "l.js: 'q' is assigned a value but never used no-unused-vars"),
        (JEST, "test_failure", "adds: expect(received).toBe(expected) // Object.is equality"),
        (JEST_IMPORT, "import_error", None),
        (MOCHA, "test_failure", "m adds: AssertionError [ERR_ASSERTION]: <n> == <n>"),
        (NODE_TEST, "test_failure", "adds: Expected values to be strictly equal:"),
        (NODE, "import_error", "Error: Cannot find module 'nope'"),
        (RUFF, "lint", "test_imp.py: F401 [*] `calc.subtract` imported but unused"),
        ("x.py:1:18: F401 [*] `calc.subtract` imported but unused\n", "lint", None),
        ("x.py:1:7: invalid-syntax: Expected a parameter\n", "compile_error", None),
        (RUFF_FORMAT, "lint", "calc.py: unformatted: File would be reformatted"),
        (MYPY, "type_error", "calc.py: Function is missing a type annotation [no-untyped-def]"),
        ('broken.py:1: error: Expected ")"  [syntax]\n', "compile_error", None),
        (
            'a.py:1: error: Cannot find implementation for module "q"  [import-not-found]',
            "import_error",
            None,
        ),
        ("make: *** No rule to make target 'zzz'.  Stop.\n", "not_found", None),
        ("make: *** [Makefile:4: run] Error 1\n", "other", "make: *** [Makefile:<n>: run] Error <n>"),
        ('npm error Missing script: "nope"\n', "not_found", None),
        ("ERROR: file or directory not found: test_none.py\n\nno tests ran in 0.22s\n", "not_found", None),
        ("\nno tests ran in 0.14s\n", "other", "no tests ran"),
        (PYTEST_TIMEOUT, "timeout", "test_slow: Failed: Timeout (><n>) from pytest-timeout."),
        ("tar: x: Cannot open: Permission denied\n", "permission", None),
        ("done 3 of 4\n", "other", "done <n> of <n>"),
    ],
)
def test_tools_are_known_by_how_they_write(output: str, kind: str, message: str | None) -> None:
    found = signature_of(red(output))

    assert found.error_class == kind, found
    if message is not None:
        assert found.message == message


@pytest.mark.parametrize(
    ("result", "kind", "message"),
    [
        (red("...", code=None, ended_by="time"), "timeout", "it ran out of time"),
        (red(command="timeout 5 ./x", code=124), "timeout", "it ran out of time"),
        (red(code=None, ended_by="memory"), "out_of_memory", "it used too much memory"),
        (red(code=None, ended_by="signal"), "crash", "it was ended by a signal"),
        (red("Segmentation fault\n", code=139), "crash", "Segmentation fault"),
        (red(code=None, ended_by="output"), "other", "it was ended by: output"),
        (red("wrong\n", code=0, why='its output does not contain "right"'), "no_output_match", None),
        (red(code=0, why="pytest ended with 0 but wrote no report: it was ended from inside"), "other", None),
        (red(code=None, ended_by="start", why="it could not be run: no such folder"), "other", None),
    ],
)
def test_how_it_ended_decides_first(result: CheckResult, kind: str, message: str | None) -> None:
    found = signature_of(result)

    assert found.error_class == kind
    assert found.message == (result.why.replace("0", "<n>") if message is None else message)


FAILED = "FAILED tests/test_{file}.py::test_{name} - {why}\n1 failed in {time}s\n"


def test_the_same_failure_on_another_day_is_the_same() -> None:
    one = "0x7f41: job 3f2a9c1d77 in /tmp/of-ann/pytest-7/x took 0.31s at 2024-01-02T03:04:05Z: failed"
    other = "0x9a0c: job 77ab01cd3e in /tmp/of-bob/pytest-9/y took 12ms at 2025-11-12 13:14:15: failed"

    assert signature_of(red(one)) == signature_of(red(other))
    assert signature_of(
        red(FAILED.format(file="a", name="b", why="assert 'x' == 'yy'", time=1))
    ) == signature_of(red(FAILED.format(file="a", name="b", why="assert 'z z' == 'yy'", time=22)))
    assert signature_of(red(command="/home/ann/p/.venv/bin/pytest  -n 4")) == signature_of(
        red(command="/srv/bob/.venv/bin/pytest -n 8")
    )


def test_names_make_another_failure() -> None:
    outputs = [
        FAILED.format(file="a", name="b1", why="assert 1 == 2", time=1),
        FAILED.format(file="a", name="b2", why="assert 1 == 2", time=1),
        FAILED.format(file="c", name="b1", why="assert 1 == 2", time=1),
        FAILED.format(file="a", name="b1", why="KeyError: 'left'", time=1),
        FAILED.format(file="a", name="b1", why="KeyError: 'right'", time=1),
        "ModuleNotFoundError: No module named 'left'\n",
        "ModuleNotFoundError: No module named 'right'\n",
        TSC.replace("'number'", "'boolean'"),
        TSC,
    ]

    assert len({signature_of(red(output)).key for output in outputs}) == len(outputs)


def test_the_order_of_failures_does_not_matter() -> None:
    two = [FAILED.format(file="a", name=name, why="assert 1 == 2", time=1) for name in ("x", "y")]

    assert signature_of(red("".join(two))) == signature_of(red("".join(reversed(two))))


def test_a_green_exit_is_not_judged_by_words() -> None:
    found = signature_of(
        red("0 errors, nothing failed, not found: none\n", code=0, why="does not contain 'x'")
    )

    assert found.error_class == "no_output_match"


def test_nobodys_folders_are_in_it() -> None:
    found = signature_of(
        red(
            "/home/ann/secret/app.py:3: error: bad  [misc]",
            command="/home/ann/bin/mypy /home/ann/secret/app.py",
        )
    )

    assert found == Signature(command="mypy app.py", error_class="type_error", message="app.py: bad [misc]")


PIECES = (
    "\n", " ", "FAILED a.py::t - ", "E   ", "___ t ___", "==== FAILURES ====", "Error: ", "'", '"', "`",
    '  File "x", line 1, in f', "/tmp/", "a/", "0x1f", "12.5s", ": error: ", "a.py:1:2", "--> b:1:2",
    "\x1b[31m", "\ud800", "\x00", "\u202e", "not ok 1 - ", "---- t stdout ----", "thread 'x' panicked at ",
    "● t", "1 failing",
)  # fmt: skip


@given(
    st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=60).map("".join),
    st.sampled_from([0, 1, 2, 124, 127, 139, None]),
)
@examples(400)
def test_whatever_was_written_gives_a_short_plain_signature(output: str, code: int | None) -> None:
    found = signature_of(red(output, command=output[:40], code=code))

    assert found.error_class in get_args(ErrorClass)
    assert len(found.message) <= MOST_MESSAGE
    assert len(found.command) <= MOST_COMMAND
    assert clean(found.message) == found.message
    assert clean(found.command) == found.command
    assert found.key != found.coarse
    assert signature_of(red(output, command=output[:40], code=code)) == found


def test_long_output_is_read_at_both_ends() -> None:
    middle = "x.py:1: error: none of it is read  [misc]\n" * 10_000
    filler = "y" * 90_000 + "\n"

    assert (
        "test_b"
        in signature_of(red(filler + middle + FAILED.format(file="a", name="b", why="", time=1))).message
    )


def test_normalising_again_changes_nothing() -> None:
    for text in (GCC, CARGO, TSC, ESLINT, MOCHA, NODE, RUFF, MYPY):
        for line in text.splitlines():
            once = normal_message(line)
            assert normal_message(once) == once
    assert normal_command(normal_command("make -C /tmp/q X=1 -j8")) == normal_command(
        "make -C /tmp/q X=1 -j8"
    )
