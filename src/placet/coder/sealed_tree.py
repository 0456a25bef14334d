"""What is sealed of one tree: all that has to be known of it for that, gathered once for every user.

Keep true:
1. Whoever lets a model change files seals them by this: what one user knows of checks, all know.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from placet.coder.contract import CheckResult, Contract
    from placet.coder.sealing import Seal
    from placet.coder.workshop import Workshop


_MOST_SOURCES = 5_000
"""Source files that are searched for imports and names."""


async def seal_of(
    contract: Contract,
    workshop: Workshop,
    base: str,
    baseline: Sequence[CheckResult],
    roots: Collection[str],
) -> Seal:
    """The seal of a contract over a tree of a workshop.

    `baseline` is what came of the checks before any work: what reported tests there is a test. `roots` are
    folders of the repository from which the person's Python imports.

    Raises:
        UsageError: the contract cannot be used.
    """
    from placet.coder.command_line import named_files
    from placet.coder.conventions import is_code
    from placet.coder.import_roots import installed_modules
    from placet.coder.recipes import is_readable
    from placet.coder.sealing import Seal

    commands = [check.command for check in contract.checks]
    paths = await workshop.paths(base)
    named = {file.path for command in commands for file in named_files(command)}
    texts = await workshop.texts(base, [path for path in paths if is_readable(path) or path in named])
    sources = await workshop.texts(base, [path for path in paths if is_code(path)], most=_MOST_SOURCES)
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
