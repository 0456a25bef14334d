"""A scratch folder leaves nothing: no folder, no lock, no descriptor, whenever its user is cancelled."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from placet.worktree.scratch import Scratch
from tests.sandbox.programs import own_descriptors


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_nothing_is_left_of_a_folder_whose_user_is_cancelled(tmp_path: Path, times: int) -> None:
    entered, before = asyncio.Event(), own_descriptors()

    async def use() -> None:
        async with Scratch(tmp_path / "scratch").folder() as folder:
            (folder / "file").write_text("x")
            entered.set()
            await asyncio.Event().wait()

    using = asyncio.ensure_future(use())
    await entered.wait()
    await asyncio.to_thread(lambda: None)  # The thread that removes is there already.
    for _ in range(times):
        using.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await using
    await asyncio.get_running_loop().shutdown_default_executor()

    assert os.listdir(tmp_path / "scratch") == []
    assert own_descriptors() == before
