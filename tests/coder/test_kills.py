"""kill -9 in every state of a coding session, for real: it goes on as if nothing had happened."""

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

from placet import SqlEvents, SqlJournal, open_database
from placet.coder.store_sql import SqlSessions
from placet.runtime.journal import Replay
from placet.turns.told import Answered, read
from tests.coder.coding_child import INTENT
from tests.coder.nursery import PATIENCE_S, Nursery, read_trace, until_nothing_runs
from tests.coder.repositories import fingerprint
from tests.coder.workbench import _known, git, make_repository
from tests.properties.effort import SOAK

KILLS = 250 if SOAK else 10
FILES = {"a.txt": "c\nb\na\n"}

MAKING, BASELINE, DRAFT, ASKING = "making the workshop", "in the baseline", "in the draft", "while asking"
INSIDE, BETWEEN_TURNS, CHECK = "inside a call", "between turns", "in a check"
BETWEEN, PUBLISHING, ENDING = "between iterations", "in publishing", "at the very end"
PHASES = (MAKING, DRAFT, BASELINE, ASKING, INSIDE, BETWEEN_TURNS, CHECK, BETWEEN, PUBLISHING, ENDING)
LONGEST_S = {MAKING: 0.15, BASELINE: 0.06, CHECK: 0.06, INSIDE: 0.05, PUBLISHING: 0.1}
SHORT_S = 0.02


def phase_of(line: list[Any]) -> str:
    """What was under way when this was the last that had happened."""
    match line:
        case ["ask" | "answer", 0, *_]:
            return DRAFT
        case ["ask", *_]:
            return ASKING
        case ["check_started", attempt, *_]:
            return CHECK if attempt else BASELINE
        case ["baseline", *_]:
            return BASELINE
        case ["answer" | "call", *_]:
            return INSIDE
        case ["result" | "text", *_]:
            return BETWEEN_TURNS
        case ["state", _, "needs_approval"]:
            return PUBLISHING
        case ["state", _, "merged"]:
            return ENDING
        case ["begin", *_] | ["state", _, "contract_confirmed" | "contract_proposed"]:
            return MAKING
    return BETWEEN


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    with tempfile.TemporaryDirectory(prefix="k") as temporary:
        made = Nursery(Path(temporary))
        yield made
        made.close()


class KillRun:
    """One session, killed again and again until it is through."""

    def __init__(
        self, folder: Path, nursery: Nursery, chance: random.Random, phases: Counter[str], **job: Any
    ) -> None:
        self.kills = 0
        self.folder = folder
        self.repository = make_repository(folder / "repository", FILES)
        self._nursery = nursery
        self._chance = chance
        self._phases = phases
        self._trace = folder / "trace"
        self._out = folder / "out"
        self._before = fingerprint(self.repository)
        self._must_not_ask: list[tuple[int, list[Any]]] = []
        """From which line of the trace on, what may not be asked again."""
        self.job = {
            "folder": str(folder),
            "trace": str(self._trace),
            "out": str(self._out),
            "known": _known(),
            "id": "s",
            "candidates": 1,
            "drafts": False,
            **job,
        }

    def trace(self) -> list[list[Any]]:
        """All that has happened."""
        return read_trace(self._trace)

    def through(self, max_kills: int) -> dict[str, Any]:
        """Kill and go on until it is through; the session then."""
        while True:
            pid = self._nursery.start(self.job)
            if self.kills < max_kills:
                self._meddle(pid)
            code = self._nursery.code()
            if code == -signal.SIGKILL:
                self.kills += 1
                self._look()
                continue
            assert code == 0, self._out.read_text()
            found: dict[str, Any] = json.loads(self._out.read_text())
            return found

    def _meddle(self, pid: int) -> None:
        """Kill it at a random instant of the phase that was met least, as far as it comes to that phase."""
        able = [phase for phase in PHASES if phase != DRAFT or self.job["drafts"]]
        # Every day in the order in which a session comes by, so that few sessions are needed.
        phase = min(able, key=lambda p: (self._phases[p], self._chance.random() if SOAK else PHASES.index(p)))
        known = len(self.trace())
        count = self._chance.randint(1, 2) if phase in (ASKING, INSIDE, BETWEEN_TURNS, CHECK) else 1
        deadline = time.monotonic() + PATIENCE_S
        while not self._nursery.has_ended and time.monotonic() < deadline:
            met = [line for line in self.trace()[known:] if phase_of(line) == phase]
            if len(met) >= count:
                # Where it was too late before, sooner: how long a phase takes depends on the machine.
                late = self._phases[f"missed {phase}"]
                time.sleep(self._chance.random() * LONGEST_S.get(phase, SHORT_S) / (1 + late) ** 2)
                self._phases[f"missed {phase}"] += 1
                with suppress(ProcessLookupError):  # It may have ended just now.
                    os.kill(pid, signal.SIGKILL)
                return
            time.sleep(0.001)

    def _look(self) -> None:
        """After a kill: in which phase was it, and what must never happen again?"""
        trace = self.trace()
        phase = phase_of(trace[-1])
        self._phases[phase] += 1
        self._phases[f"missed {phase}"] = 0
        with open_database(f"sqlite://{self.folder}/placet.db") as database:
            journal = SqlJournal(database)
            for row in journal.runs(limit=1_000):
                self._keep_in_mind(len(trace), row.run_id, row.status, journal)
            journal.close()
            kept = SqlSessions(database).listed()
        if not any(each.commit for each in kept):
            assert fingerprint(self.repository) == self._before, phase
        if self.job["candidates"] > 1:
            assert all(len(each.attempts) in (0, 2) for each in kept)

    def _keep_in_mind(self, at: int, run_id: str, status: str, journal: SqlJournal) -> None:
        """The answers of a run that are kept are not asked for again."""
        _, _, inner = run_id.partition(".")
        place = [0, 1] if inner == "contract" else [int(part) for part in inner.split(".") if part]
        if not place:
            return
        answers = 99
        if status in ("running", "interrupted", "waiting", "canceled"):
            answers = sum(isinstance(note, Answered) for note in read(Replay(journal.notes(run_id)).told))
        self._must_not_ask += [(at, ["ask", *place, turn]) for turn in range(1, min(answers, 12) + 1)]

    def check(self, session: dict[str, Any], tree: str) -> None:
        """It ended as one that was never killed, and nothing is left of the kills."""
        trace = self.trace()
        assert session["state"] == "merged"
        for start, asked in self._must_not_ask:
            assert asked not in trace[start:], f"{asked} was asked again after it was answered"
        branches = git(self.repository, "branch", "--list", "--format=%(refname:short)", "placet/*").split()
        assert branches == [f"placet/{session['id']}"]
        assert git(self.repository, "rev-parse", f"{branches[0]}^{{tree}}").strip() == tree
        assert git(self.repository, "rev-parse", f"{branches[0]}^") == git(
            self.repository, "rev-parse", "main"
        )
        assert git(self.repository, "log", "-1", "--format=%s", branches[0]).strip() == INTENT
        after = fingerprint(self.repository)
        changed = {name for name in self._before.keys() | after if self._before.get(name) != after.get(name)}
        assert {name.partition("refs/heads/")[2] for name in changed} == {"placet", branches[0]}
        home = self.folder / "home" / session["id"]
        assert sorted(path.name for path in home.iterdir()) == ["exports", "repository"]
        assert list((home / "exports").iterdir()) == []
        winner = next(each for each in session["attempts"] if each["number"] == session["winner"])
        assert [each["status"] for each in winner["iterations"]] == ["success", "success"]
        with open_database(f"sqlite://{self.folder}/placet.db") as database:
            assert SqlEvents(database).verify().valid
            journal = SqlJournal(database)
            (row,) = [row for row in journal.runs(limit=1_000) if row.run_id == session["id"]]
            journal.close()
        assert row.status == "succeeded"


@pytest.mark.timeout(3600 if SOAK else 200)
def test_killed_in_any_state_it_ends_as_if_it_had_not_been(
    tmp_path: Path, nursery: Nursery, record_property: Callable[[str, object], None]
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    chance = random.Random(seed)
    phases: Counter[str] = Counter()
    # One alone first: of two at once, one is nearly always asking, so that other phases are seldom met.
    kinds: list[dict[str, Any]] = [{"drafts": True}, {"drafts": True, "candidates": 2}, {}, {"candidates": 2}]
    kills = runs = 0

    calm = KillRun(tmp_path / "calm", nursery, chance, phases, drafts=True)
    ending = calm.through(max_kills=0)
    tree = git(calm.repository, "rev-parse", f"placet/{ending['id']}^{{tree}}").strip()
    calm.check(ending, tree)

    # More than asked for, if by chance one of the phases was not met.
    while kills < KILLS or (any(not phases[p] for p in PHASES) and kills < KILLS * 6):
        folder = tmp_path / f"run-{runs}"
        run = KillRun(folder, nursery, chance, phases, **kinds[runs % len(kinds)])
        missing = sum(not phases[p] for p in PHASES)
        run.check(run.through(max_kills=6 if SOAK else max(KILLS - kills, missing)), tree)
        until_nothing_runs(str(folder))
        kills += run.kills
        runs += 1

    met = ", ".join(f"{p} {phases[p]}" for p in PHASES)
    record_property("figure", f"{kills} kills in {runs} sessions; met {met} (seed {seed})")
    assert all(phases[p] for p in PHASES), met
    assert list(nursery.temporary.iterdir()) == []
