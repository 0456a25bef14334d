"""Another process swaps a folder and a file for links to the outside: no tool shows anything from there."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from placet import ToolError
from placet.sandbox.workspace import Workspace
from placet.tools.builtin.search import search_tools

SECONDS = 40.0 if os.environ.get("PLACET_SOAK") == "1" else 0.6

SWAPPER = """
import itertools, os, sys, time
outside = sys.argv[1]
print("ready", flush=True)
for n in itertools.count():
    for name, target in (("swapped", outside), ("swapped.txt", outside + "/OUTSIDE.txt")):
        os.rename(name, "away")
        os.symlink(target, name)
        if n % 3 == 0:
            time.sleep(0.0002)
        os.unlink(name)
        os.rename("away", name)
        if n % 3 == 1:
            time.sleep(0.0002)
"""
"""With and without a pause, so that each state is met whole, and each change in the middle of a look."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A workspace in which a folder and a file come and go, and a tree outside of it that says OUTSIDE."""
    outside = tmp_path / "elsewhere"
    (outside / "sub").mkdir(parents=True)
    for name in ("OUTSIDE.txt", "inside.txt", "sub/OUTSIDE.txt", "sub/deep.txt"):
        (outside / name).write_text("marker OUTSIDE\n")
    work = tmp_path / "work"
    (work / "swapped" / "sub").mkdir(parents=True)
    for name in ("swapped/inside.txt", "swapped/sub/deep.txt", "swapped.txt", "still.txt"):
        (work / name).write_text("marker inside\n")
    with subprocess.Popen(
        [sys.executable, "-I", "-c", SWAPPER, str(outside)], cwd=work, stdout=subprocess.PIPE
    ) as swapper:
        assert swapper.stdout is not None
        assert swapper.stdout.readline() == b"ready\n"
        yield work
        assert swapper.poll() is None, "the swapping ended early, so nothing was proved"
        swapper.kill()


async def test_nothing_from_outside_is_shown_while_links_are_swapped_in(folder: Path) -> None:
    workspace = Workspace(folder)
    list_dir, find_files, grep = search_tools(workspace)
    with_ripgrep = search_tools(workspace, ripgrep_after=0)[2]
    seen: Counter[str] = Counter()

    async def look(name: str, path: str) -> dict[str, Any] | None:
        try:
            match name:
                case "list_dir":
                    answer = list_dir(path)
                case "find_files":
                    answer = find_files("**", path)
                case "grep":
                    answer = await grep("marker .*", path)
                case _:
                    answer = await with_ripgrep("marker .*", path)
        except ToolError:
            seen[f"{name} refused"] += 1  # It leads outside, or the name was away just then.
            return None
        assert "OUTSIDE" not in json.dumps(answer)
        return answer

    wanted = ["list_dir inside", "find_files inside", "find_files link", "grep inside", "ripgrep inside"]
    wanted.append("list_dir refused")

    def met() -> bool:
        return all(seen[name] for name in wanted)

    began = time.monotonic()
    # On a busy machine a state may be met late: go on until each was met, or long enough to say never.
    while (spent := time.monotonic() - began) < SECONDS or (spent < 60 and not met()):
        for path in (".", "swapped", "swapped/sub"):
            for _ in range(20):
                listed = await look("list_dir", path)
                found = await look("find_files", path)
                seen["list_dir inside"] += listed is not None and "inside" in json.dumps(listed)
                seen["find_files inside"] += found is not None and "inside.txt" in json.dumps(found)
                seen["find_files link"] += found is not None and "swapped" in found["links"]
            both = await asyncio.gather(look("grep", path), look("ripgrep", path))
            for name, answer in zip(("grep", "ripgrep"), both, strict=True):
                seen[f"{name} inside"] += answer is not None and "marker inside" in json.dumps(answer)

    assert [name for name in wanted if not seen[name]] == [], seen
