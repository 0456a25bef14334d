"""Benchmarks are started by hand: without this, it would be noticed late that what they call has moved."""

from __future__ import annotations

from pathlib import Path

from benchmarks import __main__ as benchmarks
from benchmarks import isolation, tools


async def test_every_call_that_is_measured_works(tmp_path: Path) -> None:
    assert benchmarks.SECTIONS
    for pair in tools._pairs(tmp_path):
        await pair.ours()

    await isolation._ours(tmp_path, "bubblewrap")()
