"""Context is chosen from what real test programs print about real small repositories."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.checks.contract import CheckResult
from placet.checks.failure_report import failures_of, places_in, unfinished
from placet.coder.context import Chosen, choose
from placet.coder.python_source import read_python
from tests.properties.effort import examples

PYTEST = f"{sys.executable} -m pytest -p no:cacheprovider -W ignore -q"
UNITTEST = f"{sys.executable} -m unittest"

MONEY = """\
LIMIT = 10_000


def rounded(cents):
    return int(cents)


class Price:
    def __init__(self, cents):
        self.cents = min(cents, LIMIT)

    def with_tax(self, rate):
        return Price(rounded(self.cents * (1 + rate)))


def unrelated():
    return "nobody calls this"
"""
CART = """\
from .money import Price


class Basket:
    def count(self):
        return len(self.prices) + 1


class Cart(Basket):
    def __init__(self):
        self.prices = []

    def add(self, cents):
        self.prices.append(Price(cents))

    def total(self):
        return sum(each.cents for each in self.prices[1:])

    def first(self):
        return self.prices[0]
"""
CONFTEST = """\
import pytest
from shop import Cart


@pytest.fixture
def cart():
    return Cart()
"""
TEST_CART = """\
import unittest

import pytest

from shop import Cart


def test_total(cart):
    cart.add(100)
    cart.add(250)
    assert cart.total() == 350


@pytest.mark.parametrize("n", [1, 2])
def test_first(n):
    assert Cart().first().cents == n


class TestTax(unittest.TestCase):
    def setUp(self):
        self.cart = Cart()

    def test_tax(self):
        from shop.money import Price

        self.assertEqual(Price(150).with_tax(0.01).cents, 152)

    def test_count(self):
        self.assertEqual(self.cart.count(), 0)
"""
SHOP = {
    "shop/__init__.py": "from shop.cart import Cart\nfrom shop.money import *\n",
    "shop/money.py": MONEY,
    "shop/cart.py": CART,
    "tests/__init__.py": "",
    "tests/conftest.py": CONFTEST,
    "tests/test_cart.py": TEST_CART,
}


def make(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def run(folder: Path, command: str) -> CheckResult:
    """A red check, run on a copy in another folder that is gone afterwards, as exports are."""
    export = folder.parent / "exports" / "a1"
    shutil.copytree(folder, export)
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    env.pop("PYTEST_ADDOPTS", None)
    ended = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=export,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    shutil.rmtree(export)
    assert ended.returncode != 0, ended.stdout
    return red(ended.stdout, command, exit_code=ended.returncode)


def red(output: str, command: str = "", *, ended_by: str = "itself", exit_code: int = 1) -> CheckResult:
    code = exit_code if ended_by == "itself" else None
    return CheckResult(
        name="check", command=command, passed=False, exit_code=code, ended_by=ended_by, output=output
    )


def names(chosen: Chosen) -> list[str]:
    return [each.name for each in chosen.functions]


def shown_tests(chosen: Chosen) -> list[str]:
    return [each.name for each in chosen.tests]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("shop") / "repository", SHOP)


@pytest.fixture(scope="module")
def shop_output(shop: Path) -> CheckResult:
    return run(shop, PYTEST)


def test_a_wrong_result_shows_the_test_what_it_said_and_the_function_on_the_failing_line(shop: Path) -> None:
    chosen = choose(shop, [run(shop, f"{PYTEST} -k test_total")], most=4000)

    assert names(chosen)[0] == "Cart.total"
    assert {"Cart.add", "Cart.__init__", "Price.__init__"} <= set(names(chosen))
    assert shown_tests(chosen) == ["test_total", "cart"]
    assert chosen.text.startswith(
        "Failing test test_total in tests/test_cart.py, lines 8 to 11; it fails at line 11:\n"
        "8: def test_total(cart):\n"
    )
    assert chosen.text.index("assert 250 == 350") < chosen.text.index("16:     def total(self):")
    assert "LIMIT = 10_000" in chosen.text
    assert "unrelated" not in chosen.text
    total = chosen.functions[0]
    assert (total.path, total.first, total.last) == ("shop/cart.py", 16, 17)
    assert total.source.splitlines() == [
        "    def total(self):",
        "        return sum(each.cents for each in self.prices[1:])",
    ]


@pytest.mark.parametrize("style", ["long", "short", "native"])
def test_the_frame_where_it_happened_is_nearest(shop: Path, style: str) -> None:
    chosen = choose(shop, [run(shop, f"{PYTEST} --tb={style} -k test_first")], most=4000)

    assert names(chosen)[0] == "Cart.first"
    assert shown_tests(chosen) == ["test_first"]
    assert "it fails at line 16" in chosen.text
    assert "IndexError: list index out of range" in chosen.text


def test_without_a_traceback_the_test_that_is_named_is_followed(shop: Path) -> None:
    chosen = choose(shop, [run(shop, f"{PYTEST} --tb=no -k test_tax")], most=4000)

    assert {"Price.with_tax", "rounded"} <= set(names(chosen))
    assert shown_tests(chosen)[0] == "TestTax.test_tax"
    assert "AssertionError: 151 != 152" in chosen.text


def test_unittest_is_read_like_pytest_and_setup_and_bases_are_followed(shop: Path) -> None:
    chosen = choose(shop, [run(shop, f"{UNITTEST} tests.test_cart.TestTax.test_count")], most=4000)

    assert shown_tests(chosen) == ["TestTax.test_count", "TestTax.setUp"]
    assert names(chosen)[0] == "Basket.count"
    assert "AssertionError: 1 != 0" in chosen.text


def test_several_failures_are_all_there_and_each_thing_is_said_once(
    shop: Path, shop_output: CheckResult
) -> None:
    chosen = choose(shop, [shop_output], most=8000)

    assert {"Cart.total", "Cart.first", "Price.with_tax", "rounded", "Basket.count"} <= set(names(chosen))
    assert chosen.text.count("IndexError: list index out of range") == 1
    assert "left out: failing test" in chosen.text.lower()


@pytest.mark.parametrize("most", [0, 1, 40, 150, 400, 900, 1500, 3000, 20_000])
def test_the_text_is_never_longer_than_asked_for_and_names_what_it_left_out(
    shop: Path, shop_output: CheckResult, most: int
) -> None:
    chosen = choose(shop, [shop_output], most=most)

    assert len(chosen.text) <= most
    assert len(chosen.functions) >= 5
    if most in (900, 1500):
        assert "Left out: " in chosen.text


def test_a_green_check_has_nothing_to_show(shop: Path, shop_output: CheckResult) -> None:
    green = CheckResult(name="check", command="true", passed=True, output=shop_output.output)

    assert choose(shop, [green], most=4000) == Chosen(text="")


@pytest.mark.parametrize("command", [PYTEST, UNITTEST])
def test_a_syntax_error_shows_the_lines_around_it(tmp_path: Path, command: str) -> None:
    files = {**SHOP, "shop/money.py": MONEY.replace("def rounded(cents):", "def rounded(cents)")}
    folder = make(tmp_path / "repository", files)

    chosen = choose(folder, [run(folder, command)], most=4000)

    assert "Around line 4 of shop/money.py:" in chosen.text
    assert "4: def rounded(cents)\n5:     return int(cents)" in chosen.text
    assert "SyntaxError: expected ':'" in chosen.text


@pytest.mark.parametrize("command", [PYTEST, UNITTEST])
def test_an_import_of_a_name_that_is_not_there_tells_which_are(tmp_path: Path, command: str) -> None:
    test = "from shop.money import taxed\n\n\ndef test_taxed():\n    assert taxed(100) == 119\n"
    files = {**SHOP, "tests/test_cart.py": test}
    folder = make(tmp_path / "repository", files)

    chosen = choose(folder, [run(folder, command)], most=4000)

    assert "cannot import name 'taxed'" in chosen.text
    assert "shop/money.py defines LIMIT (line 1), rounded (line 4), Price (line 8)" in chosen.text
    assert "assert taxed(100) == 119" in chosen.text


def test_a_module_that_is_not_there_tells_its_neighbours(tmp_path: Path) -> None:
    files = {**SHOP, "tests/test_cart.py": "from shop.crt import Cart\n\n\ndef test_it():\n    Cart()\n"}
    folder = make(tmp_path / "repository", files)

    chosen = choose(folder, [run(folder, PYTEST)], most=4000)

    assert "Files there: shop/__init__.py, shop/cart.py, shop/money.py." in chosen.text


def test_a_fixture_that_fails_is_part_of_the_tests(tmp_path: Path) -> None:
    files = {**SHOP, "tests/conftest.py": CONFTEST.replace("return Cart()", "return Cart().filled()")}
    folder = make(tmp_path / "repository", files)

    chosen = choose(folder, [run(folder, f"{PYTEST} -k test_total")], most=4000)

    assert shown_tests(chosen) == ["test_total", "cart"]
    assert "Cart defines __init__ (line 10), add (line 13), total (line 16), first" in chosen.text


@pytest.mark.parametrize(
    ("output", "command", "test"),
    [
        ("", f"{PYTEST} tests/test_cart.py::TestTax::test_tax", "TestTax.test_tax"),
        (".FF", PYTEST, "TestTax.test_tax"),
        ("tests/test_cart.py .FF", "pytest", "TestTax.test_tax"),
        (".", f"{PYTEST} tests/test_cart.py", "test_first"),
        ("tests/test_cart.py::TestTax::test_tax ", "pytest -v", "TestTax.test_tax"),
        ("test_tax (tests.test_cart.TestTax.test_tax) ... ", UNITTEST, "TestTax.test_tax"),
        ("test_tax (tests.test_cart.TestTax)\nAbout taxes. ... ", UNITTEST, "TestTax.test_tax"),
    ],
)
def test_a_check_that_was_ended_shows_the_test_it_was_in(
    shop: Path, output: str, command: str, test: str
) -> None:
    chosen = choose(shop, [red(output, command, ended_by="time")], most=4000)

    assert shown_tests(chosen)[0] == test
    assert ("Price.with_tax" in names(chosen)) == (test == "TestTax.test_tax")


def test_a_real_endless_loop_is_found_by_counting(tmp_path: Path) -> None:
    files = {**SHOP, "shop/money.py": MONEY.replace("return int(cents)", "while True: pass")}
    folder = make(tmp_path / "repository", files)
    program = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "ignore", "-q"],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert program.stdout is not None
    output = program.stdout.read(3)
    program.kill()
    program.wait()
    program.stdout.close()

    chosen = choose(folder, [red(output.decode(), PYTEST, ended_by="time")], most=4000)

    assert shown_tests(chosen)[0] == "TestTax.test_tax"
    assert "while True: pass" in chosen.text


def test_a_script_that_fails_shows_its_frames(tmp_path: Path) -> None:
    folder = make(
        tmp_path / "repository",
        {"app.py": "def half(n):\n    return n / 0\n\n\ndef main():\n    print(half(3))\n\n\nmain()\n"},
    )

    chosen = choose(folder, [run(folder, f"{sys.executable} app.py")], most=2000)

    assert names(chosen) == ["half", "main"]
    assert "ZeroDivisionError: division by zero" in chosen.text


def test_a_test_that_runs_a_program_by_its_file_shows_that_file(tmp_path: Path) -> None:
    test = (
        "import subprocess, sys\n\n\ndef test_it():\n"
        "    out = subprocess.run([sys.executable, 'tool.py'], capture_output=True).stdout\n"
        "    assert out == b'3'\n"
    )
    folder = make(
        tmp_path / "repository",
        {"test_tool.py": test, "tool.py": "def add(a, b):\n    return a - b\n\n\nprint(add(1, 2))\n"},
    )

    chosen = choose(folder, [run(folder, PYTEST)], most=2000)

    assert names(chosen) == ["add"]


def test_what_the_failing_line_uses_is_nearer_than_what_was_used_before(tmp_path: Path) -> None:
    calls = "    other()\n    left()\n    right()\n    assert left() == right()\n"
    source = "def other(): ...\ndef left(): ...\ndef right(): ...\n"
    test = f"from sides import *\n\ndef test_a():\n{calls}"
    folder = make(tmp_path / "repository", {"sides.py": source, "test_a.py": test})
    output = "____ test_a ____\n\ntest_a.py:7: AssertionError\n"

    chosen = choose(folder, [red(output, PYTEST)], most=2000)

    assert names(chosen) == ["left", "right", "other"]


def test_a_doctest_shows_the_function_that_holds_it(tmp_path: Path) -> None:
    source = 'def twice(n):\n    """Twice.\n\n    >>> twice(2)\n    4\n    """\n    return n * 3\n'
    folder = make(tmp_path / "repository", {"pkg/sums.py": source})

    chosen = choose(folder, [run(folder, f"{sys.executable} -m doctest pkg/sums.py")], most=2000)
    from_pytest = choose(folder, [red("FAILED pkg/sums.py::pkg.sums.twice", PYTEST)], most=2000)

    assert names(chosen) == names(from_pytest) == ["twice"]


@pytest.mark.parametrize(
    "output",
    [
        "src/main.c:12:5: error: expected ';' before 'return'",
        "src/main.c(12,5): error TS1005: ';' expected.",
        "error: expected `;`\n --> src/main.c:12:5",
        "    at run (/elsewhere/repository/src/main.c:12:5)",
    ],
)
def test_places_in_other_languages_show_the_lines_around(tmp_path: Path, output: str) -> None:
    lines = [f"int v{n};" for n in range(1, 41)]
    folder = make(tmp_path / "repository", {"src/main.c": "\n".join(lines)})

    chosen = choose(folder, [red(output, "make")], most=2000)

    assert "Around line 12 of src/main.c:\n4: int v4;" in chosen.text
    assert "20: int v20;" in chosen.text
    assert "v21" not in chosen.text


def test_a_type_checkers_words_lead_to_the_function(tmp_path: Path) -> None:
    folder = make(tmp_path / "repository", SHOP)
    output = "shop/cart.py:17: error: Incompatible return value type\nFound 1 error in 1 file"

    chosen = choose(folder, [red(output, "mypy shop")], most=2000)

    assert names(chosen)[0] == "Cart.total"
    assert "It said:\nshop/cart.py:17: error: Incompatible" in chosen.text


def test_a_long_function_is_cut_around_the_line_that_failed(tmp_path: Path) -> None:
    body = "".join(f"    step_{n} = {n}\n" for n in range(400))
    source = f"def long():\n{body}    raise ValueError('here')\n{body}\n\nlong()\n"
    folder = make(tmp_path / "repository", {"app.py": source})

    chosen = choose(folder, [run(folder, f"{sys.executable} app.py")], most=1500)

    assert len(chosen.text) <= 1500
    assert "402:     raise ValueError('here')" in chosen.text
    assert "[…]" in chosen.text


def test_nothing_outside_of_the_folder_is_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("def key():\n    return 'top secret'\n")
    folder = make(tmp_path / "repository", {"test_a.py": "from lib import key\n\ndef test_a():\n    key()\n"})
    (folder / "lib.py").symlink_to(secret)
    (folder / "more").symlink_to(tmp_path)

    output = f'  File "{secret}", line 2, in key\nlib.py:2: x\nmore/secret.py:2: x\n../secret.py:2: x\n'
    told = f"Traceback (most recent call last):\n{output}ValueError: no\nFAILED test_a.py::test_a"
    chosen = choose(folder, [red(told, PYTEST)], most=4000)

    assert "top secret" not in chosen.text
    assert chosen.functions == ()


def test_what_hides_in_a_file_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    source = "def test_a():\n    x = '\x1b[31m\u202e'\n    assert x == 1\n"
    folder = make(tmp_path / "repository", {"test_a.py": source})

    chosen = choose(folder, [red("FAILED test_a.py::test_a - \x1b[1mno\x07", PYTEST)], most=4000)

    assert "\x1b" not in chosen.text
    assert "\u202e" not in chosen.text
    assert "\\u202e" in chosen.text


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe\x00\x00" * 50,
        b"def f(:\n",
        b"x = " + b"-" * 100_000 + b"1\n",
        b"x = 1" + b"+1" * 50_000 + b"\n",
        b"if a:\n    pass\n" + b"elif a:\n    pass\n" * 20_000,
        b"x = a" + b".a" * 900 + b"\n",
        b"import " + b"a." * 50_000 + b"a\n",
        b"class A(" + b"A," * 20_000 + b"): pass\n" * 1,
        b"class B: pass\n" * 3_000 + b"class A(" + b"B," * 3_000 + b"): pass\n",
        b"# -*- coding: cp1252 -*-\nx = '\x80'\n",
        b"x = '\\d'\n",
        b"\x00" * 100,
        b"#" * 3_000_000,
        b"def test_a():\r\n    assert 1 == 2\r\n",
        b"def f(): return f()\n" * 5_000 + b"def test_a(): f()\n",
    ],
)
def test_any_file_is_taken(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "test_a.py").write_bytes(data)
    output = 'FAILED test_a.py::test_a - no\n  File "test_a.py", line 3, in f\ntest_a.py:99999: x'

    chosen = choose(tmp_path, [red(output, PYTEST)], most=3000)

    assert len(chosen.text) <= 3000


ODD_LINES = st.lists(
    st.sampled_from(
        [
            "____ test_total ____",
            "_ _ _ _",
            "==== FAILURES ====",
            "=== short test summary info ===",
            "FAILED tests/test_cart.py::test_total - no",
            "ERROR tests/test_cart.py",
            "ERROR: x (unittest.loader._FailedTest.x)",
            "FAIL: test_tax (tests.test_cart.TestTax.test_tax)",
            "Traceback (most recent call last):",
            '  File "shop/cart.py", line 0, in <module>',
            '  File "/a/shop/cart.py", line 9999999, in x',
            "E   AssertionError: 'A' object has no attribute 'x'",
            "No module named ''",
            "module 'shop' has no attribute 'x'",
            "shop/cart.py:20: in first",
            "Current thread 0x1 (most recent call first):",
            "...F",
            "-" * 70,
            "",
        ]
    )
    | st.text(max_size=40),
    max_size=15,
).map("\n".join)


@examples(150)
@given(output=ODD_LINES, command=st.text(max_size=20), ended=st.sampled_from(["itself", "time"]))
def test_any_output_is_taken(shop: Path, output: str, command: str, ended: str) -> None:
    chosen = choose(shop, [red(output, command, ended_by=ended)], most=700)

    assert len(chosen.text) <= 700


def test_a_stack_that_is_told_from_the_inside_out_ends_where_it_happened() -> None:
    told = (
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n"
        '  File "/x/inner.py", line 2 in f\n  File "/x/outer.py", line 9 in <module>\n'
    )

    assert [each.path for each in failures_of(told)[0].places] == ["/x/outer.py", "/x/inner.py"]


def test_a_green_line_and_a_warning_are_no_failures() -> None:
    told = "tests/a.py::test_a PASSED\n=== warnings summary ===\ntests/a.py:3: UserWarning: old\n"

    assert failures_of(told) == []
    assert [place.line for place, _ in places_in(told)] == [3]
    assert unfinished(red(told)) is None


def test_decorators_belong_to_a_function_and_functions_within_it_too() -> None:
    source = "@a\n@b\ndef f():\n    def g():\n        pass\n    return g\n\nclass C:\n    x = 1\n"
    read = read_python("a.py", source)

    assert [(each.name, each.first, each.last) for each in read.definitions] == [
        ("f", 1, 6),
        ("C", 8, 9),
        ("C.x", 9, 9),
    ]
    at_five = read.at(5)
    assert at_five is not None
    assert at_five.name == "f"
    assert read.at(7) is None
