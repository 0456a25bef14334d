"""Which files checks depend on by convention, whatever the language: tests, settings, what is loaded first.

Tables, and one function that reads them.

Keep true: a name is judged without case where any disk might do the same; in names that are put together
from words, such as `OrderTest.java`, the case is what tells them from `Contest.java`.
"""

from __future__ import annotations

import re
import sys
from fnmatch import translate

OWN = ".placet"
"""The folder that nothing lets a change touch."""

CACHE = "__pycache__"
"""Where Python keeps what it has compiled. Checks run without it."""

_TEST_FOLDERS = {
    "test",
    "tests",
    "__tests__",
    "__mocks__",
    "__snapshots__",
    "spec",
    "specs",
    "testdata",
    "e2e",
}
_CODE = r"\.(py|pyi|[cm]?[jt]sx?|rb|go|rs|sh|bash|php|exs?|dart|c|cc|cpp|cxx|lua|pl|jl|clj|erl|ml|hs|r)"
_SOURCE = re.compile(
    _CODE.removesuffix(")")
    + r"|pyw|pyx|pxd|h|hh|hpp|java|kts?|scala|groovy|cs|fs|vb|swift|mm?|zig|nim|cr|vue|svelte|astro|ps1"
    r"|fish|zsh|ksh|awk|tcl|el|lisp|scm|rkt|mli|hrl|cljs|cljc|pas|f90|sol|wat|asm|s)$"
)
_TESTS = re.compile(
    rf"(tests?|test[_-].+|.+[._-]tests?|.+[._-]spec){_CODE}|.+\.(bats|snap|feature)|.+\.test-d\.ts"
)
_TESTS_IN_WORDS = re.compile(
    r".+(Test|Tests|TestCase|IT|Spec)\.(java|kt|kts|scala|groovy|cs|fs|vb|php|swift|m)"
)
_NAMED_TESTS = re.compile(
    r"(^|[_-])(tests?|specs?|checks?|qa|e2e|integration|acceptance|functional|regression)($|[_-])"
)

_SETTINGS = """
pytest.ini .pytest.ini pytest.toml .pytest.toml tox.ini tox.toml setup.cfg pyproject.toml noxfile.py
hatch.toml uv.toml .coveragerc mypy.ini .mypy.ini ruff.toml .ruff.toml .flake8 .pylintrc pylintrc .isort.cfg
.bandit pyrightconfig.json .python-version .tool-versions mise.toml .mise.toml .pre-commit-config.yaml
makefile gnumakefile bsdmakefile makefile.* *.mk justfile .justfile *.just taskfile.y*ml rakefile
cmakelists.txt *.cmake meson.build meson.options pom.xml build.gradle* settings.gradle* gradle.properties
cargo.toml rust-toolchain* clippy.toml .clippy.toml rustfmt.toml .rustfmt.toml .golangci.* .clang-tidy
package.json .npmrc .yarnrc* .pnp.* pnpm-workspace.yaml lerna.json nx.json turbo.json deno.json* bunfig.toml
jest.config.* jest.setup.* vitest.* vite.config.* .mocharc* karma.conf.* ava.config.* .nycrc* .c8rc*
playwright.config.* cypress.config.* babel.config.* .babelrc* .swcrc .eslintrc* eslint.config.*
.eslintignore .prettierrc* prettier.config.* .prettierignore biome.json* tsconfig*.json jsconfig*.json
.stylelintrc* .rspec .rubocop*.yml phpunit.xml* composer.json phpstan.neon* mix.exs .formatter.exs
.credo.exs .gitlab-ci.yml .travis.yml azure-pipelines.yml jenkinsfile
"""
"""Files that configure checks, in small letters."""
_SETTINGS_NAMES = {name for name in _SETTINGS.split() if "*" not in name}
_SETTINGS_FIT = re.compile("|".join(translate(name) for name in _SETTINGS.split() if "*" in name))
_SETTINGS_FOLDERS = {".circleci", ".cargo", ".husky"}
_LOADED_FIRST = {"conftest.py", "sitecustomize.py", "usercustomize.py"}
_PACKAGE_DATA = re.compile(r".+\.(egg-info|dist-info)|egg-info|dist-info")
"""By which Python finds plugins: pytest loads what they name before any test."""
_TOOL_FOLDERS = {"node_modules", "site-packages", "__pypackages__", ".venv", "venv"}

_TOOLS = """
pytest _pytest pluggy iniconfig xdist pytest_asyncio pytest_cov pytest_mock pytest_timeout anyio unittest
doctest coverage hypothesis mypy mypyc ruff nox tox nose nose2 pylint flake8 pyflakes pycodestyle isort
bandit pyright setuptools pkg_resources hatchling
"""
"""What checks of Python programs load besides the standard library, as far as nothing else is called so."""

MODULES = frozenset(sys.stdlib_module_names) | frozenset(_TOOLS.split())


def convention(path: str) -> str:
    """What a file is for checks, by its path alone, as words that follow its name; empty if it is nothing.

    >>> convention("pkg/tests/data.json"), convention("Makefile"), convention("src/contest.py")
    ('is a test', 'configures checks', '')
    """
    *folders, name = path.split("/")
    low = name.casefold()
    around = {folder.casefold() for folder in folders}
    if OWN in around or low == OWN:
        return "holds Placet's own settings, such as the contract"
    if (
        around & _TEST_FOLDERS
        or low in _TEST_FOLDERS
        or _TESTS.fullmatch(low)
        or _TESTS_IN_WORDS.fullmatch(name)
    ):
        return "is a test"
    is_package_data = any(_PACKAGE_DATA.fullmatch(each) for each in (*around, low))
    if is_package_data or low in _LOADED_FIRST or low.endswith(".pth"):
        return "would be loaded before the checks"
    if (
        low in _SETTINGS_NAMES
        or _SETTINGS_FIT.fullmatch(low)
        or around & _SETTINGS_FOLDERS
        or low in _SETTINGS_FOLDERS
    ):
        return "configures checks"
    if low == "workflows" or "workflows" in around:
        if ".github" in around:
            return "configures checks"
    if around & _TOOL_FOLDERS or low in _TOOL_FOLDERS:
        return "is in a folder that checks load their programs from"
    if low == ".gitattributes":
        return "decides what the files of the checks look like when they are checked out"
    return ""


def is_code(path: str) -> bool:
    """Whether a file is source code, by its name.

    >>> is_code("shop/cart.py"), is_code("data/rates.json")
    (True, False)
    """
    return _SOURCE.search(path.casefold()) is not None


def is_test_code(path: str) -> bool:
    """Whether a file in the place of tests would be loaded or run, and is not only data."""
    return is_code(path) or path.endswith((".pyc", ".so", ".pyd", ".snap", ".bats"))


def is_named_like_tests(folder: str) -> bool:
    """Whether a folder that a test program is told to run holds tests and what they need, by its name.

    >>> is_named_like_tests("unit_tests"), is_named_like_tests("src")
    (True, False)
    """
    return _NAMED_TESTS.search(folder.rpartition("/")[2].casefold()) is not None
