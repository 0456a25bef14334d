"""Which files checks load or read beside the program: sealed, to be looked at by a person, or free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from placet.coder.contract import CheckResult, contract_of
from placet.coder.conventions import is_code
from placet.coder.sealing import Seal


def seal_of(
    files: Mapping[str, str],
    checks: Sequence[str] = ("pytest",),
    *,
    read: tuple[str, ...] | None = (),
    may_touch: Sequence[str] = (),
) -> Seal:
    """The seal over these files, after a baseline in which each check read some of them."""
    contract = contract_of(checks, may_touch=may_touch)
    return Seal.of(
        contract,
        list(files),
        texts={path: text for path, text in files.items() if path.endswith((".sh", "Makefile"))},
        sources={path: text for path, text in files.items() if is_code(path)},
        baseline=[
            CheckResult(name=check.name, command=check.command, passed=False, read=read)
            for check in contract.checks
        ],
    )


def kinds(seal: Seal, paths: Sequence[str]) -> dict[str, str]:
    """What each file is."""
    return {path: "sealed" if seal.why(path) else "unsure" if seal.doubt(path) else "free" for path in paths}


MODULES = {
    "one module and its helper": (
        {
            "shop.py": "",
            "tests/test_shop.py": "import shop\nfrom helpers import same",
            "helpers.py": "",
        },
        {"shop.py": "free", "helpers.py": "sealed"},
    ),
    "a helper that says what it is by what it defines or loads": (
        {
            "shop.py": "",
            "tests/test_shop.py": "import shop, one, two, three",
            "one.py": "import pytest",
            "two.py": "def assert_same(a, b): ...",
            "three.py": "x = 1",
        },
        {"shop.py": "free", "one.py": "sealed", "two.py": "sealed", "three.py": "unsure"},
    ),
    "a package is the program, with what it loads": (
        {
            "calc/__init__.py": "",
            "calc/a.py": "from calc.helpers import x",
            "calc/helpers.py": "",
            "calc/b.py": "",
            "tests/test_all.py": "from calc import (a,\n  b)\nfrom support import x",
            "support.py": "",
            "odd.py": "",
            "tests/test_more.py": "import odd",
        },
        {
            "calc/a.py": "free",
            "calc/b.py": "free",
            "calc/helpers.py": "free",
            "support.py": "sealed",
            "odd.py": "unsure",
        },
    ),
    "a helper that only helpers load": (
        {
            "src/shop/__init__.py": "",
            "src/shop/cart.py": "",
            "support/__init__.py": "from .deep import x",
            "support/deep.py": "",
            "tests/test_cart.py": "from shop.cart import Cart\nimport support",
        },
        {"src/shop/cart.py": "free", "support/__init__.py": "sealed", "support/deep.py": "sealed"},
    ),
    "a helper that the program loads as well": (
        {
            "app.py": "import shop",
            "shop.py": "import helpers",
            "helpers.py": "",
            "tests/test_shop.py": "import shop, helpers",
        },
        {"shop.py": "free", "helpers.py": "free"},
    ),
    "a helper in the package of the program": (
        {
            "src/shop/__init__.py": "",
            "src/shop/cart.py": "",
            "src/shop/testing.py": "",
            "tests/test_cart.py": "from shop.cart import Cart\nfrom shop.testing import fake",
        },
        {"src/shop/cart.py": "free", "src/shop/testing.py": "unsure"},
    ),
    "a plugin that is only named": (
        {
            "shop.py": "",
            "tests/conftest.py": "pytest_plugins = ['plug']",
            "tests/test_shop.py": "import shop",
            "plug.py": "import pytest",
        },
        {"shop.py": "free", "plug.py": "sealed"},
    ),
    "the only module that tests load": (
        {"calc.py": "", "tests/test_all.py": "import calc"},
        {"calc.py": "free"},
    ),
    "modules of another language": (
        {
            "src/cart.js": "",
            "lib/expect.js": "",
            "test/cart.test.js": "import {a} from '../src/cart.js'; const b = require('../lib/expect')",
        },
        {"src/cart.js": "free", "lib/expect.js": "sealed"},
    ),
}


@pytest.mark.parametrize(("files", "expected"), MODULES.values(), ids=MODULES.keys())
def test_helpers_are_told_from_the_program(files: dict[str, str], expected: dict[str, str]) -> None:
    assert kinds(seal_of(files), list(expected)) == expected


def test_what_the_contract_lifts_is_free() -> None:
    files, _ = MODULES["one module and its helper"]

    assert kinds(seal_of(files, may_touch=["helpers.py"]), ["helpers.py"]) == {"helpers.py": "free"}


TESTS = (
    "import json, shop\nopen('sum.md'); json.load(open('want/sum.json'))\n"
    "for each in Path('golden').iterdir(): ..."
)
PROGRAM = "open('rates.json'); open(f'lands/{land}.yaml')"
DATA = {"shop.py": PROGRAM, "tests/test_shop.py": TESTS}


@pytest.mark.parametrize(
    ("path", "read", "kind"),
    [
        ("want/sum.json", (), "sealed"),
        ("golden/a.txt", (), "sealed"),
        ("rates.json", (), "free"),
        ("rates.json", ("rates.json",), "unsure"),
        ("lands/de.yaml", ("lands/de.yaml",), "unsure"),
        ("other.yaml", ("other.yaml",), "unsure"),
        ("other.csv", (), "free"),
        ("other.csv", ("other.csv",), "unsure"),
        ("other.csv", None, "unsure"),
        ("README.md", ("README.md",), "unsure"),
        ("README.md", (), "free"),
        ("sum.md", (), "free"),
        ("sum.md", ("sum.md",), "unsure"),
    ],
)
def test_data_is_judged_by_who_names_and_reads_it(path: str, read: tuple[str, ...] | None, kind: str) -> None:
    seal = seal_of({**DATA, path: ""}, read=read)

    assert kinds(seal, [path]) == {path: kind}


def test_new_data_beside_what_is_expected_is_sealed() -> None:
    seal = seal_of({**DATA, "golden/a.txt": ""})

    assert kinds(seal, ["golden/b.txt"]) == {"golden/b.txt": "sealed"}


def test_what_the_checks_read_on_the_change_counts() -> None:
    seal = seal_of(DATA)
    after = [CheckResult(name="pytest", command="pytest", passed=True, read=("new.csv",))]

    assert seal.doubt("new.csv") == ""
    assert seal.doubt("new.csv", after)


@pytest.mark.parametrize(
    ("checks", "kind"),
    [
        (["grep -q done notes.txt"], "free"),
        (["sh check.sh"], "free"),
        (["prettier --check ."], "free"),
        (["python3 look.py"], "unsure"),
        (["prettier --check .", "python3 look.py"], "unsure"),
    ],
)
def test_what_a_check_is_about_may_be_changed(checks: list[str], kind: str) -> None:
    files = {"notes.txt": "", "look.py": "", "check.sh": "test -s notes.txt\n"}

    assert kinds(seal_of(files, checks, read=("notes.txt",)), ["notes.txt"]) == {"notes.txt": kind}
