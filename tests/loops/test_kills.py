"""kill -9 in every phase of a round, for real: nothing is done twice, no round and no escalation is lost."""

from __future__ import annotations

import json
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from placet import SqlApprovals, SqlEvents, open_database
from placet.loops.round import PHASES as ALL
from placet.loops.sql import SqlRounds
from tests.coder.nursery import PATIENCE_S, Nursery, read_trace
from tests.coder.workbench import _known, git, make_repository
from tests.loops.bench import FILES
from tests.properties.effort import SOAK

KILLS = 120 if SOAK else 9
DECIDED = "carrying out what was approved"
PHASES = (*(phase for phase in ALL if phase != "ended"), DECIDED)
LONGEST_S = {"recalling": 0.1, "making": 0.15, "checking": 0.2, "executing": 0.15, DECIDED: 0.05}
KINDS: list[dict[str, Any]] = [
    {"level": "L3", "callback": False},
    {"level": "L2", "callback": False},
    {"level": "L3", "callback": True},
]


def phase_of(trace: list[list[Any]]) -> str:
    """In which phase the last thing happened."""
    phase = "recalling"
    for line in trace:
        if line[0] == "phase":
            phase = line[1]
        elif line[0] == "act" and phase == "recording":
            phase = DECIDED
    return phase


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    with tempfile.TemporaryDirectory(prefix="l") as temporary:
        made = Nursery(Path(temporary), "tests.loops.loop_child")
        yield made
        made.close()


class KillRun:
    """One round, killed again and again until it is through."""

    def __init__(
        self, folder: Path, nursery: Nursery, chance: random.Random, met: Counter[str], **job: Any
    ) -> None:
        self.kills = 0
        self.folder = folder
        self.repository = make_repository(folder / "repository", FILES)
        self._nursery = nursery
        self._chance = chance
        self._met = met
        self._trace = folder / "trace"
        self._out = folder / "out"
        self.job = {
            "folder": str(folder),
            "trace": str(self._trace),
            "out": str(self._out),
            "known": _known(),
            **job,
        }

    def through(self, max_kills: int) -> dict[str, Any]:
        """Kill and go on until it is through; the round then."""
        while True:
            pid = self._nursery.start(self.job)
            if self.kills < max_kills:
                self._meddle(pid)
            code = self._nursery.code()
            if code == -signal.SIGKILL:
                self.kills += 1
                self._met[phase_of(read_trace(self._trace))] += 1
                continue
            assert code == 0, self._out.read_text()
            found: dict[str, Any] = json.loads(self._out.read_text())
            return found

    def _meddle(self, pid: int) -> None:
        """Kill it at a random instant of the phase that was met least, as far as it comes to that phase."""
        able = [phase for phase in PHASES if phase != DECIDED or self.job["level"] == "L2"]
        phase = min(able, key=lambda p: (self._met[p], self._chance.random() if SOAK else PHASES.index(p)))
        known = len(read_trace(self._trace))
        deadline = time.monotonic() + PATIENCE_S
        while not self._nursery.has_ended and time.monotonic() < deadline:
            trace = read_trace(self._trace)
            if len(trace) > known and phase_of(trace) == phase:
                time.sleep(self._chance.random() * LONGEST_S.get(phase, 0.02))
                with suppress(ProcessLookupError):  # It may have ended just now.
                    os.kill(pid, signal.SIGKILL)
                return
            time.sleep(0.002)

    def check(self, round: dict[str, Any]) -> None:
        """It ended as one that was never killed, and nothing was done twice."""
        assert round["number"] == 1
        if self.job["level"] == "L2":
            assert round["outcome"] == "escalated", round
            assert [each["what"] for each in round["later"]] == ["approved"]
        else:
            assert round["outcome"] in ("proceeded", "escalated"), round
        assert round["receipt"] is not None, round
        assert round["spend"]["input_tokens"] == 40, round["spend"]
        branches = git(self.repository, "branch", "--list", "--format=%(refname:short)", "placet/*").split()
        if self.job["callback"]:
            assert (self.folder / "acted").read_bytes() == b"acted\n"
            assert branches == []
        else:
            assert branches == ["placet/tidy-1"], self._whole_story(round)
            assert git(self.repository, "rev-parse", "placet/tidy-1^{tree}").strip() == round["tree"]
            assert git(self.repository, "rev-parse", "placet/tidy-1^") == git(
                self.repository, "rev-parse", "main"
            )
        assert git(self.repository, "status", "--porcelain") == ""
        keys = {line[1] for line in read_trace(self._trace) if line[0] == "act"}
        assert len(keys) == 1, keys
        with open_database(f"sqlite://{self.folder}/placet.db") as database:
            assert SqlEvents(database).verify().valid
            assert [each.id for each in SqlRounds(database).listed()] == ["r1"]
            assert SqlRounds(database).unfinished() == []
            asked = SqlApprovals(database).recent(10)
        assert len(asked) == (1 if self.job["level"] == "L2" else 0)
        assert not (self.folder / "home" / "r1").exists()

    def _whole_story(self, round: dict[str, Any]) -> str:
        """What is there, for a failure that nobody has seen twice."""
        refs = [each for name in ("refs", "logs") for each in (self.repository / ".git" / name).rglob("*")]
        found = {str(each): each.read_text() for each in refs if each.is_file()}
        return json.dumps([round["receipt"], read_trace(self._trace), found], indent=1)


@pytest.mark.timeout(3600 if SOAK else 200)
def test_killed_in_any_phase_a_round_ends_as_if_it_had_not_been(
    tmp_path: Path, nursery: Nursery, record_property: Callable[[str, object], None]
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    chance = random.Random(seed)
    met: Counter[str] = Counter()
    kills = runs = 0

    # More than asked for, if by chance one of the phases was not met.
    while kills < KILLS or (any(not met[p] for p in PHASES) and kills < KILLS * 6):
        run = KillRun(tmp_path / f"run-{runs}", nursery, chance, met, **KINDS[(runs + 1) % len(KINDS)])
        run.check(run.through(max_kills=4))
        kills += run.kills
        runs += 1

    figure = ", ".join(f"{p} {met[p]}" for p in PHASES)
    record_property("figure", f"{kills} kills in {runs} rounds; met {figure} (seed {seed})")
    assert all(met[p] for p in PHASES), figure
