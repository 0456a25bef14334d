"""Compiled modules are kept, also where Python may not keep them (PYTHONDONTWRITEBYTECODE).

Imported before anything else: pytest rewrites the assertions of tests and of its plugins, Hypothesis among
them, and compiling those again takes longer than loading all the rest.
"""

from __future__ import annotations

import compileall
import multiprocessing
import os
import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

sys.dont_write_bytecode = False


def compile_for_workers(config: pytest.Config, root: Path) -> None:
    """Compile, with all cores, what workers load and what the processes load that tests start.

    Each of them would do it again: from a fresh clone, or where Python may not keep what it compiled.
    """
    for folder in ("src", "tests"):
        compileall.compile_dir(root / folder, quiet=2)
    asked = [root / argument.partition("::")[0] for argument in config.args]
    tests = {path for each in asked for path in ([each] if each.is_file() else each.rglob("test_*.py"))}
    # The plugins that this process has loaded were rewritten before anything could be kept.
    plugins = set(config.stash[rewrite.assertstate_key].hook._rewritten_names.values())
    cores = os.cpu_count() or 1
    forked = multiprocessing.get_context("fork")
    started = [
        forked.Process(target=_rewrite, args=(config, sorted(tests | plugins)[number::cores]))
        for number in range(cores)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join()


def _rewrite(config: pytest.Config, paths: list[Path]) -> None:
    """Keep the rewritten modules where pytest looks for them."""
    state = config.stash[rewrite.assertstate_key]
    for path in paths:
        kept = rewrite.get_cache_dir(path) / (path.stem + rewrite.PYC_TAIL)
        if rewrite._read_pyc(path, kept) is None and rewrite.try_makedirs(kept.parent):
            source_hash, code = rewrite._rewrite_test(path, config)
            rewrite._write_pyc(state, code, source_hash, kept)
