"""What a sandbox costs: a command in each kind against a bare one, with and without a repository, and the
self-test itself. By the clock, in turns, as for the tools.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from benchmarks.report import Floor, Section
from benchmarks.tools import FEW, MOST_COMMAND_MS, MOST_CONFINED_MS, Call, Pair, in_turns, times
from placet.sandbox.command import run_command
from placet.sandbox.isolation import By, Facts
from placet.sandbox.sandbox import Sandbox
from placet.sandbox.self_test import self_test
from placet.sandbox.workspace import Workspace

MOST_SELF_TEST_MS = 500.0
_FILES = 300


async def run(say: Callable[[str], None], *, quick: bool) -> Section:
    section = Section(
        "Isolation: one command against a bare process, by the clock (median of turns)",
        ("command", "bare us", "ours us", "ratio", "added ms"),
    )
    turns = 3 if quick else 10
    with tempfile.TemporaryDirectory() as folder:
        plain, repository = Path(folder) / "plain", Path(folder) / "repository"
        plain.mkdir()
        _make_repository(repository)
        for name, work, by in (
            ("kept only", plain, None),
            ("bubblewrap", plain, "bubblewrap"),
            ("bubblewrap, in a repository of 300 files", repository, "bubblewrap"),
            ("landlock", plain, "landlock"),
        ):
            say(f"isolation: {name}")
            pair = Pair(name, FEW, turns, times(FEW, _bare(work)), times(FEW, _ours(work, by)))
            bare_s, ours_s = await in_turns(pair, turns)
            added_ms = (ours_s - bare_s) * 1000
            section.rows.append([name, bare_s * 1e6, ours_s * 1e6, ours_s / bare_s, added_ms])
            most_ms = MOST_COMMAND_MS if by is None else MOST_CONFINED_MS
            section.floors.append(Floor(f"isolation: {name}, added", added_ms, most_ms, "ms"))
    say("isolation: self-test")
    spent: list[float] = []
    for _ in range(3):
        began = perf_counter()
        await self_test("bubblewrap")
        spent.append((perf_counter() - began) * 1000)
    section.rows.append(["self-test", 0, min(spent) * 1000, 0, min(spent)])
    section.floors.append(Floor("isolation: self-test", min(spent), MOST_SELF_TEST_MS, "ms"))
    return section


def _bare(folder: Path) -> Call:
    async def command() -> None:
        process = await asyncio.create_subprocess_exec(
            "/bin/echo", "1", stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL, cwd=folder
        )
        await process.communicate()

    return command


def _ours(folder: Path, by: By | None) -> Call:
    workspace = Workspace(folder)
    sandbox = None if by is None else Sandbox(workspace, by, Facts())

    async def command() -> None:
        finished = await run_command(["/bin/echo", "1"], folder=workspace.fd, sandbox=sandbox)
        if finished.stdout != b"1\n":
            raise SystemExit(f"{by}: {finished.stderr.decode(errors='replace')}")

    return command


def _make_repository(folder: Path) -> None:
    folder.mkdir()
    for n in range(_FILES):
        (folder / f"file{n}.txt").write_text(f"text {n}\n")
    for arguments in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "all"],
    ):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
