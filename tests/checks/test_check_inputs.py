"""Which files checks load or read beside the program: sealed, to be looked at by a person, or free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from placet.checks.contract import CheckResult, contract_of
from placet.checks.conventions import is_code
from placet.checks.sealing import Seal


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


IMPORTS = "from pathlib import Path\nimport runpy, subprocess, sys\nfrom shop import total\n"
BY_PATH = {
    "golden files with the ending of source code": (
        {
            "shop.py": "",
            "golden/out.js": "",
            "golden/deep/more.js": "",
            "expected/out.py": "",
            "fixtures/out.sh": "",
            "snapshots/a.tsx": "",
            "expected.r": "",
            "other.js": "",
            "tests/test_all.py": IMPORTS
            + "[Path('golden'), 'expected/out.py', 'fixtures/out.sh', 'snapshots/a.tsx', 'expected.r']",
        },
        {
            "shop.py": "free",
            "golden/out.js": "sealed",
            "golden/new.js": "sealed",
            "golden/deep/more.js": "sealed",
            "expected/out.py": "sealed",
            "fixtures/out.sh": "sealed",
            "snapshots/a.tsx": "sealed",
            "expected.r": "sealed",
            "other.js": "free",
        },
    ),
    "golden files that the program may use": (
        {
            "shop.py": "open('golden/out.js')",
            "golden/out.js": "",
            "reference/main.py": "if __name__ == '__main__': ...",
            "tests/test_all.py": IMPORTS + "['golden/out.js', 'reference/main.py']",
        },
        {"golden/out.js": "unsure", "reference/main.py": "unsure"},
    ),
    "a golden name that the program imports": (
        {"app.py": "import reference.engine", "reference/engine.py": "", "tests/test_all.py": "'reference'"},
        {"reference/engine.py": "free"},
    ),
    "helpers that are loaded or run by their path": (
        {
            "shop.py": "",
            "compare.py": "import comparing",
            "comparing.py": "",
            "tools/near.py": "",
            "made.py": "",
            "other.py": "",
            "tests/test_shop.py": IMPORTS
            + "runpy.run_path('compare.py')\nsubprocess.run([sys.executable, f'{TOP}/tools/near.py'])\n"
            "for name in ['made']: runpy.run_path(f'{name}.py')",
        },
        {
            "shop.py": "free",
            "compare.py": "unsure",
            "comparing.py": "unsure",
            "tools/near.py": "unsure",
            "made.py": "unsure",
            "other.py": "free",
        },
    ),
    "a helper in a folder that a test adds to the import path": (
        {
            "shop.py": "",
            "tools/near.py": "",
            "tests/test_shop.py": "import sys, shop\nsys.path.insert(0, 'tools')\nfrom near import near",
        },
        {"shop.py": "free", "tools/near.py": "unsure"},
    ),
    "the one program that there is, run as a script": (
        {
            "app.py": "import shop",
            "shop.py": "",
            "tests/test_all.py": "subprocess.run([sys.executable, 'app.py'])",
        },
        {"app.py": "free", "shop.py": "free"},
    ),
    "a script that a test is named after": (
        {
            "shop.py": "",
            "app.py": "",
            "tests/test_app.py": IMPORTS + "subprocess.run([sys.executable, 'app.py'])",
        },
        {"app.py": "free", "shop.py": "free"},
    ),
    "a module that is imported, and run as a script too": (
        {"shop.py": "", "tests/test_all.py": IMPORTS + "subprocess.run([sys.executable, 'shop.py'])"},
        {"shop.py": "free"},
    ),
    "languages whose imports are not followed": (
        {
            "cart.h": "",
            "cart.c": "",
            "expect.h": "",
            "want.h": "",
            "cart.cc": '#include "want.h"',
            "tests/cart_test.c": '#include "../cart.h"\n#include "../expect.h"\n#include "../want.h"\n',
        },
        {"cart.h": "free", "cart.c": "free", "expect.h": "sealed", "want.h": "unsure"},
    ),
}


@pytest.mark.parametrize(("files", "expected"), BY_PATH.values(), ids=BY_PATH.keys())
def test_source_that_no_import_reaches_is_judged_by_who_names_it(
    files: dict[str, str], expected: dict[str, str]
) -> None:
    assert kinds(seal_of(files), list(expected)) == expected


@pytest.mark.parametrize(
    ("check", "files"),
    [
        ("sh check.sh", {"check.sh": "D=./lib\nsh $D/cmp.sh 1 2\n"}),
        ("sh check.sh", {"check.sh": 'D=./lib\n. "$D/cmp.sh"\n'}),
        ("sh check.sh", {"check.sh": "D=./lib; F=cmp.sh\nsh $D/$F\n"}),
        ("D=lib; sh $D/cmp.sh 1 2", {}),
    ],
)
def test_a_script_behind_a_variable_needs_a_person(check: str, files: dict[str, str]) -> None:
    seal = seal_of({"shop.py": "", "lib/cmp.sh": "", "lib/other.sh": "", **files}, [check])

    assert kinds(seal, ["lib/cmp.sh", "lib/other.sh", "shop.py"]) == {
        "lib/cmp.sh": "unsure",
        "lib/other.sh": "free",
        "shop.py": "free",
    }


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
