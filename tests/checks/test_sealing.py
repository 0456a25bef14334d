"""What decides is not part of the change: files are sealed by name, by what checks run, and if in the way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.checks.contract import Check, CheckResult, Contract, contract_of
from placet.checks.sealing import Seal
from placet.errors import UsageError
from tests.properties.effort import UNHURRIED, examples

BASE = [
    "README.md",
    "app.py",
    "check.sh",
    "html/index.html",
    "pkg/__init__.py",
    "pkg/core.py",
    "pkg/test_core.py",
    "scripts/verify.py",
    "statistics.py",
    "tests/data/one.json",
    "tests/test_app.py",
]

SETTINGS = """
pytest.ini .pytest.ini tox.ini setup.cfg pyproject.toml sub/pyproject.toml noxfile.py .coveragerc
mypy.ini ruff.toml .ruff.toml .flake8 .pylintrc Makefile makefile GNUmakefile ci/rules.mk justfile
Taskfile.yml package.json jest.config.mjs vitest.config.ts .mocharc.json .eslintrc.cjs
eslint.config.js tsconfig.json tsconfig.build.json CMakeLists.txt Cargo.toml
.github/workflows/ci.yml .cargo/config.toml .npmrc
"""
LOADED_FIRST = """
conftest.py pkg/conftest.py Conftest.py sitecustomize.py src/usercustomize.py evil.pth
x.egg-info/entry_points.txt sub/x-1.dist-info/METADATA x.egg-info
conftest/__init__.py conftest.cpython-311-x86_64-linux-gnu.so sitecustomize.pyc
"""
WORK = """
app.py pkg/core.py pkg/types.py pkg/json.py pkg/__init__.py new.py README.md contest.py latest.py
src/attest.py Contest.java pkg/testing.py requirements.txt html/index.html html/about.html
statistics.py docs/site.py docs/tester.md pkg/protest.js setup.py Dockerfile .gitignore
data/tests.csv
"""
NAMES = """
a b.py pkg src tests test_a.py conftest.py json json.py __init__.py x.toml Makefile .placet check.sh pytest
x.test.js
"""


def seal(*checks: str, may_touch: tuple[str, ...] = (), base: list[str] = BASE) -> Seal:
    return Seal.of(contract_of(checks or ["pytest -q"], may_touch=may_touch), base)


@pytest.mark.parametrize(
    "path",
    [
        "test_new.py",
        "deep/in/it/test_x.py",
        "pkg/core_test.py",
        "tests/helper.txt",
        "tests",
        "a/b/tests/x",
        "src/test/java/Any.java",
        "src/main/OrderTest.java",
        "web/button.test.tsx",
        "web/button.spec.mjs",
        "web/__tests__/button.js",
        "web/__snapshots__/button.js.snap",
        "main_test.go",
        "spec/a.rb",
        "lib/order_spec.rb",
        "check.bats",
        "Test_Thing.PY",
    ],
)
def test_tests_are_sealed_whether_they_are_there_or_not(path: str) -> None:
    assert seal().why(path) == "is a test"


@pytest.mark.parametrize("path", SETTINGS.split())
def test_settings_of_checks_are_sealed(path: str) -> None:
    assert seal().why(path) == "configures checks"


@pytest.mark.parametrize("path", LOADED_FIRST.split())
def test_what_is_loaded_first_is_sealed(path: str) -> None:
    assert seal().why(path) == "would be loaded before the checks"


@pytest.mark.parametrize("path", WORK.split())
def test_the_work_itself_is_not_sealed(path: str) -> None:
    assert seal().why(path) == ""


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("pytest.py", "pytest"),
        ("pytest/__init__.py", "pytest"),
        ("_pytest/__init__.py", "_pytest"),
        ("unittest/__init__.py", "unittest"),
        ("pytest", "pytest"),
        ("json.py", "json"),
        ("src/types.py", "types"),
        ("lib/coverage.pyc", "coverage"),
        ("html/__init__.py", "html"),
        ("random.cpython-311-x86_64-linux-gnu.so", "random"),
        ("scripts/ast.py", "ast"),
    ],
)
def test_a_new_module_in_the_place_of_one_that_checks_load_is_sealed(path: str, module: str) -> None:
    words = seal("python scripts/verify.py").why(path)

    assert words == f"would shadow the module '{module}' that checks load"


def test_a_folder_with_tests_is_where_python_looks_unless_it_is_a_package() -> None:
    assert seal().why("pkg/ast.py") == ""
    assert "shadow" in seal(base=["loose/test_a.py"]).why("loose/ast.py")


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("cd backend && pytest -q", "backend/argparse.py"),
        ("PYTHONPATH=one:$PWD/two pytest", "one/ast.py"),
        ("export PYTHONPATH=one:$PWD/two; pytest", "two/ast.py"),
        ("pytest", "three/ast.py"),
        ("pytest", "four/ast.py"),
        ("pytest", "five/ast.py"),
    ],
)
def test_where_python_is_told_to_look_nothing_is_shadowed(command: str, path: str) -> None:
    texts = {
        "pytest.ini": "[pytest]\npythonpath = . three\n    four\nother = x\n",
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src", "five"]\n',
    }
    sealed = Seal.of(contract_of([command]), BASE, texts=texts)

    assert "would shadow the module" in sealed.why(path)
    assert sealed.why(f"else/{path}") == ""


def test_what_is_installed_is_not_shadowed() -> None:
    sealed = Seal.of(contract_of(["pytest"]), BASE, modules={"pygments", "app"})

    assert "would shadow the module 'pygments'" in sealed.why("pygments.py")
    assert "would shadow" in sealed.why("pygments/__init__.py")
    assert sealed.why("pkg/pygments.py") == ""
    assert sealed.why("app.py") == "", "it was there before"


def test_what_reported_tests_is_a_test_whatever_its_name() -> None:
    base = ["shop.py", "suite/shopping.py", "sub/checks/check_a.py", "testshop.py", "sub/testing.py"]
    sealed = Seal.of(
        contract_of(["cd sub && pytest", "python -m unittest"]),
        base,
        tests={"suite.shopping.TestIt", "checks.check_a", "gone"},
    )

    assert sealed.why("suite/shopping.py") == sealed.why("sub/checks/check_a.py") == "is a test"
    assert sealed.why("testshop.py") == sealed.why("sub/testing.py") == "is a test"
    assert sealed.why("shop.py") == sealed.why("suite/more.py") == ""
    assert Seal.of(contract_of(["pytest"]), base).why("sub/testing.py") == ""


MAKEFILE = """
-include local.env
include ci/more.mk
PY ?= python3
.PHONY: check
check: lint unit  ## all
\t@$(PY) verify.py \\
\t    --fast
unit: ; ./unit.sh
lint:
\t-$(MAKE) -C sub deep
run:
\tpython3 app.py
"""


@pytest.mark.parametrize(
    ("command", "path", "by"),
    [
        ("make check", "verify.py", "Makefile"),
        ("make", "verify.py", "Makefile"),
        ("make -j 2 check", "unit.sh", "Makefile"),
        ("make check", "lib/common.sh", "unit.sh"),
        ("make check", "sub/deep.py", "sub/Makefile"),
        ("npm test", "run.js", "package.json"),
        ("npm run-script test", "prepare.js", "package.json"),
        ("tox -e py", "toxed.py", "tox.ini"),
        ("just check", "verify.py", "justfile"),
    ],
)
def test_what_is_run_at_one_remove_is_sealed(command: str, path: str, by: str) -> None:
    texts = {
        "Makefile": MAKEFILE,
        "sub/Makefile": "deep:\n\tpython deep.py\n",
        "unit.sh": "#!/bin/sh\nset -e\n. lib/common.sh\nrun\n",
        "package.json": '{"scripts": {"pretest": "node prepare.js", "test": "node run.js", "x": "a.js"}}',
        "tox.ini": "[testenv]\ncommands =\n    python toxed.py {posargs}\n    pytest\ndeps = x\n",
        "justfile": "check *ARGS: one\n    python3 verify.py\none:\n    true\n",
    }
    base = [*texts, "verify.py", "lib/common.sh", "sub/deep.py", "run.js", "prepare.js", "toxed.py", "app.py"]
    sealed = Seal.of(contract_of([command]), [*base, "a.js"], texts=texts)

    assert sealed.why(path).startswith(f"is run by {by} for the check")
    assert sealed.why("app.py") == sealed.why("a.js") == "", "another recipe runs them"


def test_what_a_makefile_takes_in_is_sealed_also_if_it_is_not_there() -> None:
    sealed = Seal.of(contract_of(["make check"]), ["Makefile"], texts={"Makefile": MAKEFILE})

    assert sealed.why("local.env") == "is taken in by Makefile, which a check runs"
    assert sealed.why("ci/more.mk") != ""
    assert Seal.of(contract_of(["true"]), ["Makefile"], texts={"Makefile": MAKEFILE}).why("local.env") == ""


@UNHURRIED
@examples(150)
@given(
    st.text(alphabet="ab:=$(){}\\\n\t .;-#include\"'", max_size=200),
    st.sampled_from(["make", "just", "tox", "npm t"]),
)
def test_any_recipe_is_taken(text: str, command: str) -> None:
    names = ("Makefile", "justfile", "tox.ini", "package.json", "a.sh")

    Seal.of(contract_of([command, "sh a.sh"]), names, texts=dict.fromkeys(names, text)).why("a")


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("./check.sh", "check.sh"),
        ("timeout 5 sh -e check.sh", "check.sh"),
        ("true && cd scripts && python verify.py", "scripts/verify.py"),
        ("python -m app", "app.py"),
        ("poetry run python ./app.py --self-test", "app.py"),
    ],
)
def test_what_a_check_runs_is_sealed(command: str, path: str) -> None:
    sealed = seal(command)

    assert sealed.why(path).startswith("is run by the check '")
    assert seal("pytest -q").why(path) == ""


def test_what_is_only_an_argument_is_not_sealed() -> None:
    sealed = seal("grep -q right README.md", "test -f new.txt", "cat app.py | wc -l", "./check.sh app.py")

    assert [sealed.why(path) for path in ("README.md", "new.txt", "app.py")] == ["", "", ""]


def test_tests_that_a_check_names_are_sealed_under_any_name() -> None:
    sealed = seal("pytest scripts/verify.py::case qa_checks pkg .", "python -m unittest app.Case")

    assert sealed.why("scripts/verify.py") == "is a test"
    assert sealed.why("app.py") == "is a test"
    assert sealed.why("qa_checks/helper.py") == "is a test"
    assert sealed.why("pkg/core.py") == ""
    assert sealed.why("README.md") == ""


def test_nothing_gets_in_the_way_of_a_sealed_file() -> None:
    sealed = seal("python scripts/verify.py")

    assert "in the place of the folder of scripts/verify.py" in sealed.why("scripts")
    assert "in the place of the folder of pkg/test_core.py" in sealed.why("pkg")
    assert "in the place of scripts/verify.py" in sealed.why("scripts/verify.py/now")
    assert "in the place of scripts/verify.py" in sealed.why("scripts/verify/__init__.py")
    assert sealed.why("pkg/test_core/__init__.py") == "is a test"
    assert sealed.why("pkg/core/__init__.py") == ""


@pytest.mark.parametrize("path", ["./check.sh", "pkg/../check.sh", ".//check.sh", "/check.sh", "check.sh/"])
def test_the_spelling_of_a_path_does_not_matter(path: str) -> None:
    assert seal("sh check.sh").why(path) == "is run by the check 'check'"


def test_what_python_compiled_is_no_change_of_a_test() -> None:
    sealed = seal("python scripts/verify.py")

    for folder in ("", "tests/", "pkg/", "scripts/"):
        assert sealed.why(f"{folder}__pycache__/test_core.cpython-311-pytest-9.2.0.pyc") == ""
    assert sealed.why("tests/test_app.pyc") == "is a test"


def test_what_a_check_did_not_find_as_it_was_needs_a_person() -> None:
    sources = {
        "shop.py": "def total(): ...\nif __name__ == '__main__':\n    total()\n",
        "money.py": "def near(): ...\n",
        "tests/test_shop.py": "from money import near\nfrom shop import total\n",
    }
    seal = Seal.of(contract_of(["pytest"]), list(sources), sources=sources)
    result = CheckResult(name="pytest", command="pytest", passed=True, rewritten=("money.py", "shop.py"))

    assert list(seal.doubts(["shop.py"], [result])) == ["money.py"]
    assert seal.doubts([], [result]) == {}


def test_a_contract_that_cannot_be_used_makes_no_seal() -> None:
    with pytest.raises(UsageError, match="may not lead outside"):
        Seal.of(Contract(description="", checks=(Check(name="a", command="b"),), may_touch=("../x",)), [])


def test_the_contract_lets_files_go_but_never_its_own() -> None:
    sealed = seal(
        "./check.sh",
        may_touch=("tests/data", "Makefile", "*.toml", "check.sh", ".placet/**", "**", "json.py"),
    )
    few = seal("./check.sh", may_touch=("tests/data/", "*.toml", "json.py"))

    assert few.why("tests/data/one.json") == few.why("tests/data/deep/x") == few.why("a/b.toml") == ""
    assert few.why("json.py") == ""
    assert few.why("tests/test_app.py") == "is a test"
    assert "folder of tests/test_app.py" in few.why("tests") or few.why("tests") == "is a test"
    assert few.why("check.sh") == "is run by the check 'check'"
    for path in (".placet/contract.toml", ".placet", ".Placet/agents/a.md", "sub/.placet/x"):
        assert "Placet's own settings" in sealed.why(path)
    assert sealed.why("check.sh") == sealed.why("tests/test_app.py") == ""


def test_notes_tell_what_may_well_be_the_work_itself() -> None:
    sealed = seal("python app.py", "pytest tests/test_new.py tests/test_app.py", "make x")

    assert sealed.notes(BASE) == [
        "check 'app' runs app.py, so the change may not touch it; if that is what is to be changed: "
        "--allow app.py",
        "check 'pytest' names tests/test_new.py, which is not there, and the change may not make it; write "
        "it first, or: --allow tests/test_new.py",
    ]
    assert seal("python app.py", may_touch=("app.py",)).notes(BASE) == []
    assert seal("python -m unittest tests.test_app.Case").notes(BASE) == []
    assert seal("python -m tests.runner && python3 tests/test_app.py && sh new.sh").notes(BASE) == []
    [absent] = seal("cd tests; python3 -B test_new.py").notes(BASE)
    assert "names tests/test_new.py, which is not there" in absent


PATHS = st.lists(st.sampled_from(NAMES.split()), min_size=1, max_size=4).map("/".join)


@UNHURRIED
@examples(250)
@given(st.lists(PATHS, max_size=12), PATHS, PATHS)
def test_a_seal_holds_together(base: list[str], path: str, pattern: str) -> None:
    """Allowing never seals; what is allowed is free; what is sealed in the base holds its folders too."""
    strict = seal("./check.sh", base=base)
    loose = seal("./check.sh", may_touch=(pattern,), base=base)

    if loose.why(path):
        assert strict.why(path)
    if ".placet" in path.split("/"):
        assert loose.why(path)
    elif path == pattern or path.startswith(f"{pattern}/"):
        assert loose.why(path) == ""
    for each in base:
        if strict.why(each) and not strict.why(each).startswith("would"):
            for position, character in enumerate(each):
                if character == "/":
                    assert strict.why(each[:position])
