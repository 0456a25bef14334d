"""kill -9 while a bound workspace is being restored, for real: the resumed run finishes it. And with others
at work in the same folder, at the same time or after the kill: nobody's work is lost.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet.worktree.snapshot.store import Snapshots
from tests.warm import Warm, WarmProcess
from tests.worktree.snapshot.trees import git, make_repository, told, views

KILLS = 60 if os.environ.get("PLACET_SOAK") else 4
FILES = 900
CHILD = Path(__file__).with_name("workspace_child.py")
LONGEST_S = 0.6
"""How long after the restore has begun a kill may come; most come early, as an idle machine is quick."""


class Killed:
    """One run in a folder of its own, killed again and again while it is taken back."""

    def __init__(self, folder: Path, chance: random.Random, warm: Warm, *, is_repository: bool) -> None:
        self.folder = folder
        self.top = folder / "work"
        make_repository(self.top, FILES)
        if not is_repository:
            shutil.rmtree(self.top / ".git")
        self.was = told(self.top, besides=(b".git/",))
        self.said = self.looks()
        self.met: Counter[str] = Counter()
        self._chance = chance
        self._warm = warm

    def looks(self) -> dict[str, str]:
        """What git says of it; nothing where it is no repository."""
        if not (self.top / ".git").exists():
            return {}
        checked = {"fsck": git(self.top, "fsck", "--no-dangling")}
        return checked | views(self.top) | {"index": git(self.top, "ls-files", "--stage")}

    def through(self, kills: int) -> dict[str, Any]:
        """Kill it so often, and then let it end; returns what it said of its end."""
        is_begun = False
        while True:
            process: WarmProcess[str] = WarmProcess(
                [*self._warm.python, str(CHILD), str(self.folder), str(is_begun)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert process.stdout is not None
            line = process.stdout.readline()
            is_begun = True
            if line and kills:
                if kills % 2 == 0:
                    self._wait_for_the_middle()
                else:
                    time.sleep(self._chance.random() ** 2 * LONGEST_S)
                process.kill()
            out, err = process.communicate(timeout=100)
            if process.returncode == 0:
                assert out.strip(), err
                found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
                return found
            assert process.returncode == -9, err
            kills -= 1
            self.met[self._where()] += 1

    def _wait_for_the_middle(self) -> None:
        """Until a fifth of the files is back, or it takes too long."""
        until = time.monotonic() + 20
        while time.monotonic() < until:
            back = sum(1 for number in range(2, 12) for _ in (self.top / f"pkg{number}").glob("*"))
            if back > FILES // 5:
                break

    def _where(self) -> str:
        """How far the restore had come."""
        now = told(self.top, besides=(b".git/",))
        if now == self.was:
            return "after"
        packages = sum(1 for path in self.was if path.startswith(b"pkg") and path in now)
        wanted = sum(1 for path in self.was if path.startswith(b"pkg"))
        return "before" if packages < wanted // 10 else "in the middle"


@pytest.mark.timeout(3600 if os.environ.get("PLACET_SOAK") else 400)
def test_killed_while_it_restores_it_finishes_on_resume(
    tmp_path: Path, warm: Warm, record_property: Callable[[str, object], None]
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    chance = random.Random(seed)
    met: Counter[str] = Counter()
    runs = 0

    # More than asked for, if by chance none came in the middle.
    while sum(met.values()) < KILLS or (not met["in the middle"] and runs < 8):
        # Every second folder is no repository.
        run = Killed(tmp_path / f"run{runs}", chance, warm, is_repository=runs % 2 == 0)
        result = run.through(kills=2)

        assert result["outcome"] == "aborted", seed
        assert all(not each["problems"] for each in result["restored"]), seed
        assert all(not each.get("not_restored") for each in result["restored"]), seed
        assert told(run.top, besides=(b".git/",)) == run.was, seed
        assert run.looks() == run.said, seed
        # Killed between the end of the run and that of its snapshot, it stays until somebody tidies up.
        Snapshots(run.folder / "kept").prune()
        assert os.listdir(run.folder / "kept") == ["lock"], seed
        met += run.met
        runs += 1

    where = ", ".join(f"{name} {met[name]}" for name in ("before", "in the middle", "after"))
    record_property("figure", f"{sum(met.values())} kills in {runs} runs; {where} (seed {seed})")
    assert met["in the middle"], where


class Cli:
    """The command line, in a project of its own."""

    def __init__(self, folder: Path, warm: Warm) -> None:
        self._folder = folder
        self._warm = warm
        self._env = os.environ | {
            "HOME": str(folder / "home"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_DATA_HOME": str(folder / "share"),
        }

    def start(self, *arguments: str) -> WarmProcess[str]:
        return WarmProcess(
            [*self._warm.command, *arguments, "--json"],
            cwd=self._folder,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=100)
        assert out.strip(), err
        return process.returncode, json.loads(out)


def write_plan(path: Path, *steps: tuple[str, dict[str, Any]]) -> None:
    """Steps that follow each other."""
    actions = [
        {"id": f"a{n}", "tool": tool, "parameters": given, "dependencies": [f"a{n - 1}"] if n else []}
        for n, (tool, given) in enumerate(steps)
    ]
    path.write_text(json.dumps({"actions": actions}))


@pytest.mark.timeout(300)
def test_two_processes_in_one_folder_do_not_take_back_each_others_work(tmp_path: Path, warm: Warm) -> None:
    site = tmp_path / "site"
    site.mkdir()
    write_plan(
        tmp_path / "slow.json",
        ("write_file", {"path": "first.txt", "text": "by the first"}),
        ("shell", {"command": "touch started; sleep 100"}),
        ("read_file", {"path": "missing"}),
    )
    write_plan(tmp_path / "quick.json", ("write_file", {"path": "second.txt", "text": "by the second"}))
    cli = Cli(tmp_path, warm)
    quick = ("run", "quick.json", "--workspace", "site", "--run-id")
    slow = cli.start("run", "slow.json", "--workspace", "site", "--run-id", "first")
    try:
        for _ in range(6000):
            if (site / "started").exists() or slow.poll() is not None:
                break
            time.sleep(0.01)
        assert (site / "started").exists()

        code, refused = cli.run(*quick, "too-early")
        assert (code, refused["outcome"]) == (3, "refused")
        holder = f"run 'first' (process {slow.command_pid})"
        assert f"{site} is taken: {holder} is at work in it" in refused["error"]
        assert not (site / "second.txt").exists()
    finally:
        slow.kill()
        slow.communicate()

    code, done = cli.run(*quick, "second")
    assert (code, done["outcome"]) == (0, "succeeded")
    code, result = cli.run("resume", "first", "--decide", "a1=fail")

    assert (code, result["outcome"]) == (1, "aborted")
    assert "run 'second' has worked there since" in result["error"]
    assert result["irreversible"] == ["a0"]
    assert sorted(os.listdir(site)) == ["first.txt", "second.txt", "started"]
    assert (site / "second.txt").read_text() == "by the second"
