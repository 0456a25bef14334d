"""Somebody swaps folders and files for links to outside, as fast as he can, while their paths are used.

Nothing outside is read or changed, ever. And enough ordinary calls succeed in between, so that refusing
everything does not pass.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from placet.errors import ToolError
from placet.sandbox.workspace import Workspace
from placet.tools import Tool
from placet.tools.builtin.files import file_tools
from placet.tools.builtin.matching.walk import Walk, open_file
from tests.properties.effort import SOAK
from tests.sandbox.canary import SECRET, Canary
from tests.sandbox.test_beneath import both_ways
from tests.warm import Warm

RACE_S = 50.0 if SOAK else 0.8
LONGEST_S = max(4 * RACE_S, 15.0)
LOOK_EVERY = 200
"""Calls between two looks at what lies outside."""

_SWAPPER = """
import ctypes, os, sys

exchange = ctypes.CDLL(None, use_errno=True).renameat2
os.chdir(sys.argv[1])
# By descriptors: we swap what is inside, also while the folder around it is swapped for a link.
folders = {name: os.open(name, os.O_RDONLY) for name in (".", "a", "deep")}
pairs = [
    (folders["."], b"a", b"../canary/a"),
    (folders["a"], b"b", b"../../canary/a/b"),
    (folders["."], b"folder", os.fsencode(os.path.abspath("../canary"))),
    (folders["."], b"file.txt", b"../canary/file.txt"),
    (folders["deep"], b"er", b"../../canary/a"),
]

def swap(folder, name, text):
    other, spare = name + b".other", name + b".spare"
    if exchange(folder, name, folder, other, 2) == 0:
        for each in (name, other):
            try:
                os.readlink(each, dir_fd=folder)
                return
            except OSError:
                pass
    # There is no link yet, or a write has put its file in the place of it.
    os.symlink(text, spare, dir_fd=folder)
    os.rename(spare, other, src_dir_fd=folder, dst_dir_fd=folder)

print("ready", flush=True)
while os.getppid() == int(sys.argv[2]):
    for pair in pairs:
        swap(*pair)
"""


@contextmanager
def swapping(inside: Path) -> Iterator[None]:
    """Another process at work on the folder, ended afterwards."""
    for folder in ("a/b", "folder", "deep/er"):
        (inside / folder).mkdir(parents=True)
    for name in (
        "a/file.txt",
        "a/b/file.txt",
        "folder/file.txt",
        "file.txt",
        "deep/er/file.txt",
        "steady.txt",
    ):
        (inside / name).write_text("mine\nold\n")
    command = [sys.executable, "-c", _SWAPPER, str(inside), str(os.getpid())]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        try:
            yield
            assert other.poll() is None, "the race was run to its end"
        finally:
            other.kill()


def race(
    canary: Canary, calls: dict[str, Callable[[], Any]], least: int, *, steady: str
) -> tuple[Counter[str], Counter[str]]:
    """Make all calls over and over, until each was answered and refused often enough, or never will be.

    `steady` is a call that nobody disturbs. Returns how often each was answered and how often refused.
    """
    answered: Counter[str] = Counter()
    refused: Counter[str] = Counter()

    def is_enough() -> bool:
        disturbed = [name for name in calls if name != steady]
        return all(answered[name] >= least for name in calls) and all(
            refused[name] >= least for name in disturbed
        )

    with swapping(canary.inside):
        begin = time.monotonic()
        count = 0
        while (lasted := time.monotonic() - begin) < RACE_S or (lasted < LONGEST_S and not is_enough()):
            for name, call in calls.items():
                try:
                    answer = call()
                except (ToolError, OSError) as error:
                    answer = str(error)
                    refused[name] += 1
                else:
                    answered[name] += 1
                assert SECRET not in str(answer)
                assert "secret.txt" not in str(answer)
                count += 1
                if count % LOOK_EVERY == 0:
                    canary.assert_untouched()
    canary.assert_untouched()
    assert is_enough(), f"answered: {answered}, refused: {refused}"
    return answered, refused


@pytest.mark.timeout(60 + LONGEST_S)
@both_ways
def test_files_are_never_read_or_written_outside(
    tmp_path: Path, by_hand: bool, record_property: Callable[[str, object], None]
) -> None:
    canary = Canary(tmp_path.resolve())
    workspace = Workspace(canary.inside, by_hand=by_hand)
    tools: dict[str, Tool] = {tool.name: tool for tool in file_tools(workspace)}
    read, write, edit = tools["read_file"], tools["write_file"], tools["edit_file"]

    def turn(path: str) -> Any:
        try:
            return edit(path, "old", "new")
        except ToolError as error:
            if "is not in" not in str(error):
                raise
            return edit(path, "new", "old")

    calls: dict[str, Callable[[], Any]] = {
        "read folder": lambda: read("folder/file.txt"),
        "read file": lambda: read("file.txt"),
        "read nested": lambda: read("a/b/file.txt"),
        "read up": lambda: read("a/b/../file.txt"),
        "read up and down": lambda: read("deep/er/../../folder/../a/b/file.txt"),
        "write file": lambda: write("file.txt", "mine\nold\n"),
        "write folder": lambda: write("folder/file.txt", "mine\nold\n"),
        "write new": lambda: write("a/b/new.txt", "mine"),
        "make folders": lambda: write("deep/er/more/new.txt", "mine"),
        "edit file": lambda: turn("file.txt"),
        "edit nested": lambda: turn("a/b/file.txt"),
        "steady": lambda: turn("steady.txt"),
    }

    # A path through many swapped folders is seldom whole.
    answered, refused = race(canary, calls, 5, steady="steady")

    record_property("figure", f"{answered.total()} answered, {refused.total()} refused")
    left = [name for _, _, names in os.walk(canary.inside) for name in names]
    assert not [name for name in left if name.endswith(".tmp")]


@pytest.mark.timeout(60 + LONGEST_S)
@both_ways
def test_folders_are_never_listed_or_walked_outside(
    tmp_path: Path, by_hand: bool, record_property: Callable[[str, object], None]
) -> None:
    canary = Canary(tmp_path.resolve())
    workspace = Workspace(canary.inside, by_hand=by_hand)

    def walk(path: str) -> list[Any]:
        """All names below a folder, and what its files hold."""
        seen: list[Any] = []
        start = workspace.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for inside, kind, folder, name in Walk(start):
                seen.append(inside)
                if kind == "file":
                    try:
                        opened = open_file(folder, name)
                    except OSError:
                        continue
                    seen.append(os.read(opened, 1000))
                    os.close(opened)
        finally:
            os.close(start)
        return seen

    calls: dict[str, Callable[[], Any]] = {
        "list folder": lambda: workspace.list("folder"),
        "list nested": lambda: workspace.list("a/b"),
        "list up": lambda: workspace.list("a/b/.."),
        "walk folder": lambda: walk("folder"),
        "walk nested": lambda: walk("a/b"),
        "walk": lambda: walk("."),
    }

    answered, refused = race(canary, calls, 20, steady="walk")

    record_property("figure", f"{answered.total()} answered, {refused.total()} refused")


# Edits by several at once

_EDITOR = """
import sys
from placet.errors import ToolError
from placet.sandbox.workspace import Workspace
from placet.tools.builtin.files import file_tools

folder, path, mark, count, patient = sys.argv[1:]
edit = next(tool for tool in file_tools(Workspace(folder)) if tool.name == "edit_file")
print("ready", flush=True)
sys.stdin.read(1)
for n in range(int(count)):
    while True:
        try:
            edit(path, f"line {mark}{n} old\\n", f"line {mark}{n} new, and longer\\n")
        except ToolError as error:
            if patient == "yes" and error.retry:
                continue
            raise
        break
"""


def edit_together(file: Path, editors: Sequence[tuple[Path, str]], *, patient: str) -> list[str]:
    """Processes that begin at once, each editing lines of its own; returns the lines that are left."""
    count = 100 * (10 if SOAK else 1)
    marks = "abcdef"[: len(editors)]
    file.write_text("".join(f"line {mark}{n} old\n" for n in range(count) for mark in marks))
    others = [
        subprocess.Popen(
            [*Warm.last.python, "-c", _EDITOR, str(folder), path, mark, str(count), patient],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for (folder, path), mark in zip(editors, marks, strict=True)
    ]
    try:
        for other in others:
            assert other.stdout is not None
            assert other.stdout.readline() == b"ready\n"
        for other in others:
            assert other.stdin is not None
            other.stdin.write(b"g")
            other.stdin.flush()
        codes = [other.wait() for other in others]
    finally:
        for other in others:
            other.kill()
            other.communicate()
    assert codes == [0] * len(others), "every edit was made, or so it was said"
    lines = file.read_text().splitlines()
    assert len(lines) == count * len(others)
    return [line for line in lines if not line.endswith(" new, and longer")]


@pytest.mark.usefixtures("warm")
def test_two_processes_that_edit_one_file_lose_nothing_and_refuse_nothing(tmp_path: Path) -> None:
    left = edit_together(tmp_path / "file", [(tmp_path, "file"), (tmp_path, "./file")], patient="no")

    assert left == []
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.usefixtures("warm")
def test_workspaces_within_one_another_lose_no_edits(tmp_path: Path) -> None:
    """They have no turn in common. Whoever was overtaken is told, and tries again."""
    (tmp_path / "sub").mkdir()
    editors = [(tmp_path, "sub/file"), (tmp_path / "sub", "file")]

    assert edit_together(tmp_path / "sub/file", editors, patient="yes") == []


def test_two_workspaces_in_one_process_lose_no_edits(tmp_path: Path) -> None:
    count = 200
    file = tmp_path / "file"
    file.write_text("".join(f"line {n} old\n" for n in range(count)))
    tools = [file_tools(Workspace(tmp_path))[2] for _ in range(2)]

    def work(who: int) -> None:
        for n in range(who, count, 2):
            tools[who](path="file", old=f"line {n} old\n", new=f"line {n} new, and longer\n")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))

    assert [line for line in file.read_text().splitlines() if line.endswith("old")] == []
