"""The table of the runtime's behaviours names tests that exist, and no row is left without an answer."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "reference" / "runtime-behaviours.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def rows() -> list[list[str]]:
    lines = [line for line in TABLE.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[1:]]


def names_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return {f.name for f in functions}


def test_every_test_in_the_table_exists() -> None:
    named: dict[str, set[str]] = {}
    for path, name in TEST.findall(TABLE.read_text()):
        named.setdefault(path, set()).add(name)

    missing = {path: names - names_in(path) for path, names in named.items()}

    assert sum(map(len, named.values())) > 200
    assert {path: names for path, names in missing.items() if names} == {}


def test_every_behaviour_is_kept_mended_or_comes_later_and_what_is_here_is_tested() -> None:
    found = rows()

    assert len(found) > 100
    for behaviour, what, differs, tests in found:
        assert behaviour
        assert what
        assert differs == "as it is" or differs.startswith(("mended: ", "comes later: ")), behaviour
        assert bool(TEST.search(tests)) is not differs.startswith("comes later: "), behaviour
