"""Imports point downwards, and what decides touches nothing outside.

The ranks below are the drawing of the house in CONTRIBUTING.md as data. A package may import packages of a
strictly lower rank and itself; the few arrows between equals are listed one by one. Imports inside functions
and under TYPE_CHECKING count like any other: an arrow is an arrow.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "placet"

RANKS: dict[str, int] = {
    "errors": 0,
    "extras": 0,
    "ir": 0,
    "thread_work": 0,
    "trace_context": 0,
    "truncation": 0,
    "storage": 1,
    "redaction": 1,
    "safe_text": 1,
    "model_text": 2,
    "state": 2,
    "events": 2,
    "approvals": 2,
    "sandbox": 2,
    "worktree": 2,
    "tools": 2,
    "inference": 2,
    "validator": 2,
    "policy": 2,
    "verify": 3,
    "checks": 3,
    "planner": 4,
    "runtime": 5,
    "memory": 6,
    "durable": 6,
    "turns": 7,
    "coder": 8,
    "assistant": 8,
    "agents": 8,
    "loops": 9,
    "render": 10,
    "app": 10,
    "engine": 11,
    "cli": 12,
    "server": 12,
}

BESIDE = {
    ("ir", "errors"),
    ("ir", "truncation"),
    ("errors", "truncation"),
    ("policy", "validator"),
    ("tools", "sandbox"),
    ("tools", "worktree"),
    ("worktree", "sandbox"),
    ("inference", "tools"),
    ("app", "render"),
    ("cli", "server"),
}
"""Arrows between packages of one rank."""

ONLY = {"render": {"ir", "events", "safe_text", "truncation", "verify"}}
"""Packages that may import less than their rank would allow."""

TESTING_BELOW = RANKS["app"]
"""`testing` stands beside the house: it may use what lies below `app`, and nothing in the house uses it."""

PURE = {"ir", "validator", "policy", "verify", "planner"}

OUTSIDE = {
    "asyncio",
    "concurrent",
    "http",
    "httpx2",
    "multiprocessing",
    "os",
    "pathlib",
    "random",
    "secrets",
    "shutil",
    "socket",
    "sqlite3",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "tomllib",
    "urllib",
    "uuid",
}
"""Clock, disk, network, randomness, threads: what a pure package must be handed, never fetch."""

PURE_BUT = {
    "policy/loader.py": {"pathlib", "tomllib"},  # reads policy files
    "ir/proposal.py": {"os", "secrets", "the clock"},  # makes ids and stamps for plans that bring none
}

CLOCK = {"datetime": {"now", "utcnow", "today"}, "date": {"today"}}
"""A date is a value like any other; asking for today's is reading the clock."""

ROOT_NAMES = {"__version__"}
"""What any module may take from the package itself; everything else is imported from where it is defined."""


def imports(tree: ast.AST, module: str, *, is_package: bool) -> Iterator[tuple[int, str]]:
    """Every module that a piece of code imports, as an absolute dotted name, with its line.

    `from a import b` yields `a.b`: whether `b` is a module or a name in one is for the caller to find out.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield node.lineno, alias.name
            case ast.ImportFrom(module=base, names=names, level=level):
                if level:
                    parents = module.split(".")
                    here = parents[: len(parents) - level + is_package]
                    base = ".".join([*here, base] if base else here)
                for alias in names:
                    yield node.lineno, f"{base}.{alias.name}"
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, name


def clock_reads(tree: ast.AST) -> Iterator[int]:
    """The lines that ask `datetime` or `date` for the present."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=attr) if (
                attr in CLOCK.get(owner, ())
            ):
                yield node.lineno


def violations(root: Path) -> list[str]:
    """Each arrow under `root`, the folder of a package, that points the wrong way: `file:line: reason`."""
    parts = {path.name.removesuffix(".py") for path in root.iterdir()} - {"__init__", "__main__"}
    found: list[str] = []
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        module = ".".join([root.name, *relative.with_suffix("").parts]).removesuffix(".__init__")
        here = relative.parts[0].removesuffix(".py")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for line, target in imports(tree, module, is_package=path.name == "__init__.py"):
            reason = _wrong(here, relative.as_posix(), target, root.name, parts)
            if reason:
                found.append(f"{relative.as_posix()}:{line}: {reason}")
        if here in PURE and "the clock" not in PURE_BUT.get(relative.as_posix(), ()):
            found += [
                f"{relative.as_posix()}:{n}: {here} decides, so it must not read the clock"
                for n in clock_reads(tree)
            ]
    return found


def _wrong(here: str, file: str, target: str, root: str, parts: set[str]) -> str | None:
    first, *rest = target.split(".")
    if first != root:
        impure = here in PURE and first in OUTSIDE and first not in PURE_BUT.get(file, ())
        return f"{here} decides, so it must not import {first}" if impure else None
    if here in {"__init__", "__main__"}:
        return None
    if not rest or rest[0] not in parts:
        if rest and rest[0] in ROOT_NAMES:
            return None
        return (
            f"{here} imports {target} from the top of the package; import it from the module that defines it"
        )
    there = rest[0]
    return None if here == there else _arrow(here, there)


def _arrow(here: str, there: str) -> str | None:
    for name in (here, there):
        if name not in RANKS and name != "testing":
            return f"{name} has no rank yet; give it one in {Path(__file__).name}"
    if there == "testing":
        return f"{here} imports testing, which is for tests only"
    if here == "testing":
        return None if RANKS[there] < TESTING_BELOW else f"testing must not import {there}"
    if here in ONLY:
        return (
            None
            if there in ONLY[here]
            else f"{here} may import only {', '.join(sorted(ONLY[here]))}, not {there}"
        )
    if RANKS[there] < RANKS[here] or (here, there) in BESIDE:
        return None
    return f"{here} must not import {there}, which is not below it"


def test_every_import_points_downwards() -> None:
    found = violations(SOURCE)

    assert not found, "\n" + "\n".join(found)


def _tree(tmp_path: Path, files: dict[str, str]) -> Path:
    root = tmp_path / "placet"
    for name, text in {"__init__.py": "", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


EVERY_PART = {f"{name}/__init__.py": "" for name in [*RANKS, "testing"]}


@pytest.mark.parametrize(
    ("file", "code", "says"),
    [
        ("ir/dag.py", "from placet.runtime import Runtime", "ir must not import runtime"),
        ("ir/dag.py", "from ..runtime.executor import run", "ir must not import runtime"),
        ("ir/__init__.py", "from .. import verify", "ir must not import verify"),
        ("ir/__init__.py", "from ..verify import verify", "ir must not import verify"),
        ("state/a/b.py", "from ...runtime import x", "state must not import runtime"),
        ("policy/engine.py", "def f():\n    import placet.verify.simulate", "policy must not import verify"),
        (
            "verify/verify.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from placet.planner import Score",
            "verify must not import planner",
        ),
        (
            "tools/registry.py",
            "import importlib\nimportlib.import_module('placet.cli')",
            "tools must not import cli",
        ),
        ("state/memory.py", "from placet.events import log", "state must not import events"),
        ("validator/__init__.py", "from placet.policy import Rule", "validator must not import policy"),
        ("coder/loop.py", "from placet.agents import spec", "coder must not import agents"),
        ("server/http.py", "from placet.cli import main", "server must not import cli"),
        (
            "render/tree.py",
            "from placet.runtime import Runtime",
            "render may import only events, ir, safe_text, truncation, verify",
        ),
        ("app/__init__.py", "from placet.server import http", "app must not import server"),
        ("runtime/executor.py", "from placet.testing import FakeClock", "runtime imports testing"),
        ("testing/fakes.py", "from placet.app import App", "testing must not import app"),
        ("gadgets/a.py", "from placet.ir import Action", "gadgets has no rank yet"),
        ("cli/main.py", "from placet import Runtime", "import it from the module that defines it"),
        ("cli/main.py", "import placet", "import it from the module that defines it"),
        ("verify/verify.py", "import time", "verify decides, so it must not import time"),
        ("planner/score.py", "from os import path", "planner decides, so it must not import os"),
        (
            "ir/codec.py",
            "import datetime as d\nd.datetime.now()",
            "ir decides, so it must not read the clock",
        ),
        (
            "verify/verify.py",
            "def f(now=datetime.utcnow): ...",
            "verify decides, so it must not read the clock",
        ),
        ("policy/engine.py", "import concurrent.futures", "policy decides, so it must not import concurrent"),
        ("policy/loader.py", "import os", "policy decides, so it must not import os"),
    ],
)
def test_a_wrong_arrow_is_caught(tmp_path: Path, file: str, code: str, says: str) -> None:
    root = _tree(tmp_path, {**EVERY_PART, file: code})

    found = violations(root)

    assert len(found) == 1, found
    assert found[0].startswith(f"{file}:")
    assert says in found[0]


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("ir/codec.py", "from placet.errors import DecodeError\nfrom .action import Action\nimport json"),
        ("policy/engine.py", "from placet.validator import check"),
        ("policy/loader.py", "import pathlib, tomllib"),
        ("ir/proposal.py", "import secrets\nfrom datetime import datetime\ndatetime.now()"),
        ("ir/result.py", "from datetime import datetime\nstamp: datetime\ndatetime.fromisoformat('')"),
        ("runtime/executor.py", "import asyncio, time\nfrom ..verify import verify"),
        ("app/__init__.py", "from placet.render import tree\nfrom placet.loops import engine"),
        ("cli/main.py", "from placet import __version__\nfrom placet.app import App"),
        ("testing/fakes.py", "from placet.loops import engine"),
        ("__init__.py", "from placet.cli import main\nfrom .runtime import Runtime"),
    ],
)
def test_a_right_arrow_is_let_through(tmp_path: Path, file: str, code: str) -> None:
    assert violations(_tree(tmp_path, {**EVERY_PART, file: code})) == []


def test_the_checker_reads_the_real_source() -> None:
    """Guards against a moved folder, over which every other test here would pass."""
    assert (SOURCE / "__init__.py").is_file()
    assert len(list(SOURCE.rglob("*.py"))) > 10
