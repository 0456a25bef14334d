"""Seal the files of one tree that checks depend on.

Keep true:
1. Coder and loops seal by this function alone, so that neither knows less of checks than the other.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from placet.checks.contract import CheckResult, Contract
    from placet.checks.sealing import Seal


_MOST_SOURCES = 5_000
"""Source files that are searched for imports and names."""
_MOST_READABLE = 500
"""Files that may say what checks run."""


class TreeReader(Protocol):
    """Reads the files of a tree, named by its hash."""

    async def paths(self, tree: str) -> list[str]:
        """List the files of a tree."""
        ...

    async def texts(self, tree: str, paths: Collection[str], *, most: int = ...) -> dict[str, str]:
        """Read some files of a tree, at most `most`; long ones may be left out."""
        ...


async def seal_of(
    contract: Contract,
    trees: TreeReader,
    base: str,
    baseline: Sequence[CheckResult],
    roots: Collection[str],
) -> Seal:
    """The seal of a contract over the tree `base`.

    `baseline` is what came of the checks before any work: what reported tests there is a test. `roots` are
    folders of the repository from which the person's Python imports.

    Raises:
        UsageError: the contract cannot be used.
    """
    from placet.checks.command_line import named_files
    from placet.checks.conventions import is_code
    from placet.checks.import_roots import installed_modules
    from placet.checks.recipes import is_readable
    from placet.checks.sealing import Seal

    commands = [check.command for check in contract.checks]
    paths = await trees.paths(base)
    named = {file.path for command in commands for file in named_files(command)}
    readable = [path for path in paths if is_readable(path) or path in named][:_MOST_READABLE]
    code = [path for path in paths if is_code(path)][:_MOST_SOURCES]
    # Together: asking takes longer than reading.
    held = await trees.texts(base, list(dict.fromkeys([*readable, *code])), most=len(readable) + len(code))
    texts = {path: held[path] for path in readable if path in held}
    sources = {path: held[path] for path in code if path in held}
    reported = [result.tests.modules for result in baseline if result.tests is not None]
    modules = await asyncio.to_thread(installed_modules, commands, os.environ)

    def make() -> Seal:
        return Seal.of(
            contract,
            paths,
            texts=texts,
            tests={module for each in reported for module in each},
            modules=modules,
            roots=roots,
            sources=sources,
            baseline=baseline,
        )

    # Reading all sources takes a while.
    return await asyncio.to_thread(make)
