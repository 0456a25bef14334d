"""kill -9 around a pending approval, decisions from other processes, and a hundred runs that wait at once."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from placet import SqlEvents, SqlJournal, open_database
from placet.approvals.approval import Approval
from placet.approvals.sql import SqlApprovals
from placet.runtime.journal import Replay
from placet.storage.database import Database
from tests.durable.approval_child import runtime, told
from tests.durable.runs import Runs, act, until
from tests.properties.effort import SOAK
from tests.storage.children import PATIENCE_S, hear, start, tell
from tests.warm import Warm

CHILD = Path(__file__).with_name("approval_child.py")
KILLS = 120 if SOAK else 4
PHASES = ("before it was asked", "while it waited", "after the decision")

PLAN = [
    # (id, gated, needs)
    ("a0", False, []),
    ("a1", False, []),
    ("g2", True, ["a0"]),
    ("g3", True, ["a1"]),
    ("a4", False, ["g2"]),
    ("a5", False, ["a1"]),
    ("g6", True, ["a4", "a5"]),
    ("a7", False, ["g6"]),
]

DECIDER = """
import json, sys
from placet import open_database
from placet.approvals.sql import SqlApprovals
from placet.errors import ApprovalDecided
with open_database(sys.argv[1]) as database:
    ledger = SqlApprovals(database)
    print("ready", flush=True)
    for id, decision, reason in map(json.loads, sys.stdin):
        try:
            print(ledger.decide(id, decision, by="ann", reason=reason).decision, flush=True)
        except ApprovalDecided as refused:
            print("refused:", refused, flush=True)
"""


class Person:
    """A process that does nothing but decide."""

    def __init__(self, url: str) -> None:
        self._child = start(DECIDER, url)
        assert hear(self._child) == "ready"

    def decide(self, id: str, decision: str, reason: str | None = None) -> str:
        """What came of it."""
        tell(self._child, json.dumps([id, decision, reason]))
        return hear(self._child)

    def close(self) -> None:
        self._child.communicate(timeout=PATIENCE_S)


@pytest.fixture
def person(database_url: str, warm: Warm) -> Iterator[Person]:
    made = Person(database_url)
    yield made
    made.close()


@pytest.fixture
def runs(tmp_path: Path, database_url: str, warm: Warm) -> Iterator[Runs]:
    made = Runs(tmp_path, database_url, warm)
    yield made
    made.close()


def effects_in(path: Path) -> list[tuple[float, str, str, int]]:
    """What has happened: when, in which run, which action, which number."""
    text = path.read_text() if path.exists() else ""
    return [tuple(json.loads(line)) for line in text.splitlines()]


class KillRun:
    """One run, killed again and again around its questions, until it is through.

    `phases` counts the instants that were met; what was met least is tried for next. `python` is how programs
    are started.
    """

    def __init__(
        self,
        folder: Path,
        url: str,
        run_id: str,
        person: Person,
        chance: random.Random,
        phases: Counter[str],
        python: Sequence[str],
    ) -> None:
        self._python = python
        self.run_id = run_id
        self.kills = 0
        self.unknown_seen = 0
        self._url = url
        self._effects_file = folder / f"{run_id}.effects"
        self._at_work = folder / f"{run_id}.effects.at-work"
        self._person = person
        self._chance = chance
        self._phases = phases
        # Some are denied, the rest goes on without them.
        self.denied = {id for id, gated, _ in PLAN if gated and chance.random() < 0.25}
        self._plan = {
            "actions": [
                {
                    "id": id,
                    "tool": "gated" if gated else "act",
                    "parameters": {"n": n},
                    "dependencies": needs,
                    "failure_behavior": "skip",
                }
                for n, (id, gated, needs) in enumerate(PLAN)
            ]
        }

    def through(self, max_kills: int) -> dict[str, Any]:
        """Kill, decide and go on until the run is through; returns its result."""
        decide: dict[str, str] = {}
        with open_database(self._url) as database:
            self._database = database
            self._ledger = SqlApprovals(database)
            while True:
                process = self._start(decide)
                decide = {}
                if self.kills < max_kills:
                    self._meddle(process)
                else:
                    self._serve(process)
                out, err = process.communicate(timeout=PATIENCE_S)
                if process.returncode == -signal.SIGKILL:
                    self.kills += 1
                    self._look()
                    continue
                assert not err, err.decode()
                found: dict[str, Any] = json.loads(out)
                if process.returncode == 0:
                    return found
                assert process.returncode == 4
                decide = self._look_outside(found)

    def _start(self, decide: dict[str, str]) -> subprocess.Popen[bytes]:
        document = json.dumps({"plan": self._plan, "decide": decide})
        self._at_work.unlink(missing_ok=True)
        patience = self._chance.choice(["live", "live", "0"]) if not self.kills else "live"
        return subprocess.Popen(
            [*self._python, CHILD, self._url, self._effects_file, patience, f"{self.run_id}={document}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def _pending(self) -> list[Approval]:
        return self._ledger.pending(run=self.run_id)

    def _meddle(self, process: subprocess.Popen[bytes]) -> None:
        """Kill it at a random instant of a phase, as far as it comes to that phase."""
        # What it asked before it was killed may still wait: few kills are to meet an interpreter starting up.
        self._until(process, self._at_work.exists)
        phase = min(PHASES, key=lambda p: (self._phases[p], self._chance.random()))
        if phase == PHASES[0]:
            size = self._size()
            self._until(process, lambda: self._size() > size or bool(self._pending()))
            time.sleep(self._chance.random() * 0.015)
        else:
            self._until(process, lambda: bool(self._pending()))
            time.sleep(self._chance.random() * 0.1)
            if phase == PHASES[2]:
                for asked in self._pending()[: self._chance.randint(1, 2)]:
                    self._answer(asked)
                # A live run looks about five times a second.
                time.sleep(self._chance.random() * 0.4)
        process.kill()

    def _serve(self, process: subprocess.Popen[bytes]) -> None:
        """Answer whatever is asked until the process ends."""
        while process.poll() is None:
            for asked in self._pending():
                self._answer(asked)
            time.sleep(0.01)

    def _until(self, process: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
        until(lambda: process.poll() is not None or condition())

    def _answer(self, asked: Approval) -> None:
        decision = "deny" if asked.action_id in self.denied else "once"
        said = self._person.decide(asked.id, decision, f"about {asked.action_id}")
        assert said == decision or "withdrawn" in said
        # Deciding twice is refused, whoever does it and whatever they say.
        assert self._person.decide(asked.id, "once").startswith("refused: ")

    def _size(self) -> int:
        return self._effects_file.stat().st_size if self._effects_file.exists() else 0

    def _asked(self) -> dict[str, Approval]:
        found = self._ledger.recent(100, run=self.run_id)
        by_action = {one.action_id: one for one in found}
        assert len(by_action) == len(found), "something was asked twice"
        return by_action

    def _look(self) -> None:
        """After a kill: which phases was it in, and has anything happened that nobody allowed?"""
        effects = Counter(action for _, _, action, _ in effects_in(self._effects_file))
        asked = self._asked()
        for id, gated, needs in PLAN:
            if not gated or not all(effects[need] for need in needs):
                continue
            if id not in asked:
                assert not effects[id]
                self._phases[PHASES[0]] += 1
            elif asked[id].decision is None:
                assert not effects[id]
                self._phases[PHASES[1]] += 1
            elif not effects[id]:
                self._phases[PHASES[2]] += 1

    def _look_outside(self, result: dict[str, Any]) -> dict[str, str]:
        """What somebody who can look outside decides about what is unknown; approvals are answered, too."""
        for asked in self._pending():
            self._answer(asked)
        unknown = [action for kind, action, _ in result["waiting"] if kind == "unknown_outcome"]
        journal = SqlJournal(self._database)
        in_flight = Replay(journal.notes(self.run_id)).in_flight
        journal.close()
        assert len(in_flight) == len(unknown)
        self.unknown_seen += len(unknown)
        happened = {action for _, _, action, _ in effects_in(self._effects_file)}
        return {action: "done" if action in happened else "retry" for action in unknown}

    def check(self, result: dict[str, Any]) -> None:
        """What was allowed happened once, and after it was allowed; what was denied did not."""
        effects = effects_in(self._effects_file)
        times = Counter(action for _, _, action, _ in effects)
        with open_database(self._url) as database:
            self._ledger = SqlApprovals(database)
            asked = self._asked()
            report = SqlEvents(database).verify()
        expected: set[str] = set()
        for id, gated, needs in PLAN:
            if id not in self.denied and expected.issuperset(needs):
                expected.add(id)
            status, _, error = result["results"][id]
            if id in expected:
                assert (times[id], status) == (1, "succeeded"), id
            else:
                assert times[id] == 0
                assert status in ("rejected", "skipped")
            if gated and status == "rejected":
                assert error == f"approval '{asked[id].id}' was denied by ann: about {id}"
        for at, run, action, n in effects:
            assert run == self.run_id
            assert PLAN[n][0] == action
            if PLAN[n][1]:
                decided_at = asked[action].decided_at
                assert asked[action].decision == "once"
                assert decided_at is not None
                assert at >= decided_at, f"{action} happened before it was approved"
        assert all(one.decision is not None for one in asked.values())
        assert report.valid, report


@pytest.mark.timeout(3600 if SOAK else 200)
def test_killed_around_an_approval_nothing_is_lost_repeated_or_done_without_one(
    tmp_path: Path,
    database_url: str,
    person: Person,
    warm: Warm,
    record_property: Callable[[str, object], None],
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    chance = random.Random(seed)
    # Every day without the loading, in which nothing is asked.
    python = [sys.executable] if SOAK else warm.python
    phases: Counter[str] = Counter()
    kills = unknown = runs = 0

    # More than asked for, if by chance one of the phases was not met.
    while kills < KILLS or (any(not phases[p] for p in PHASES) and kills < KILLS * 10):
        run = KillRun(tmp_path, database_url, f"kill-{runs}", person, chance, phases, python)
        run.check(run.through(max_kills=3))
        kills += run.kills
        unknown += run.unknown_seen
        runs += 1

    met = ", ".join(f"{p} {phases[p]}" for p in PHASES)
    record_property(
        "figure", f"{kills} kills in {runs} runs; met {met}; {unknown} unknown outcomes decided (seed {seed})"
    )
    assert all(phases[p] for p in PHASES), met


RULES = """
[[rule]]
name = "careful"
kind = "deny_tool"
tool = "act"
unless_approved = true
"""


def test_a_run_that_waits_is_decided_and_resumed_by_commands(runs: Runs) -> None:
    """Processes of which none knows the others: one asks and ends, one decides, one goes on."""
    (runs.folder / "rules.toml").write_text(RULES)
    (runs.folder / "plan.json").write_text(json.dumps({"actions": [act("g"), safe("s", "g")]}))

    code, out, _ = runs.placet(
        *("run", "plan.json", "--tools", runs.tools, "--policies", "rules.toml", "--run-id", "r", "--json")
    )
    waits = json.loads(out)
    (waiting,) = waits["waiting"]
    assert (code, waits["outcome"], waiting["kind"], waiting["action_id"]) == (4, "waiting", "approval", "g")
    assert runs.effects() == []
    approved = runs.placet("approvals", "approve", waiting["approval"])
    denied = runs.placet("approvals", "deny", waiting["approval"], "--reason", "too late")
    resumed = runs.placet("resume", "r")

    assert approved[0] == 0, approved
    assert denied[0] == 2
    assert "approved for this one time" in denied[2]
    assert resumed[0] == 0, resumed
    assert runs.effects() == ["g", "s"]


def safe(name: str, *after: str) -> dict[str, Any]:
    """An action that may happen twice, and that nobody is asked about."""
    return {"id": name, "tool": "safe", "parameters": {"name": name}, "dependencies": list(after)}


HERE, PER_CHILD, CHILDREN = 100, 5, 2


@contextmanager
def others(url: str, effects: Path, warm: Warm) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A few processes with a few runs each, all of which wait."""
    processes = [
        subprocess.Popen(
            [
                *(*warm.python, str(CHILD), url, str(effects), "live"),
                *(
                    f"r{n}={json.dumps({'plan': numbered(n)})}"
                    for n in range(HERE + k * PER_CHILD, HERE + (k + 1) * PER_CHILD)
                ),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for k in range(CHILDREN)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


def numbered(n: int) -> dict[str, Any]:
    """A plan in which everything carries a number. All have the same ids."""
    return {"id": "p", "actions": [{"id": "g", "tool": "gated", "parameters": {"n": n}}]}


def answer_to(n: int) -> tuple[str, str]:
    """What is said to a run."""
    return ("deny" if n % 3 == 0 else "once", f"about {n}")


async def all_of_them(
    database: Database, person: Person, effects: Path, processes: list[subprocess.Popen[bytes]]
) -> dict[int, dict[str, Any]]:
    """Let a hundred runs wait here and some elsewhere, answer in any order, and return what came of each."""
    ledger = SqlApprovals(database)
    journal = SqlJournal(database)
    rt = runtime(database, journal, str(effects), None)
    total = HERE + PER_CHILD * CHILDREN
    try:
        runs = [asyncio.create_task(rt.execute(numbered(n), run_id=f"r{n}")) for n in range(HERE)]
        async with asyncio.timeout(PATIENCE_S):
            while len(asked := await asyncio.to_thread(ledger.pending)) < total:  # noqa: ASYNC110 - others ask
                await asyncio.sleep(0.05)
        assert effects_in(effects) == []
        assert {one.run_id: one.parameters for one in asked} == {f"r{n}": {"n": n} for n in range(total)}
        random.shuffle(asked)
        for one in asked:
            decision, reason = answer_to(int(one.run_id[1:]))
            assert await asyncio.to_thread(person.decide, one.id, decision, reason) == decision
        results = [told(result) for result in await asyncio.gather(*runs)]
    finally:
        journal.close()
    for process in processes:
        out, err = await asyncio.to_thread(process.communicate, timeout=PATIENCE_S)
        assert not err, err.decode()
        results += map(json.loads, out.splitlines())
    return {int(result["run"][1:]): result for result in results}


def test_of_a_hundred_runs_that_wait_each_gets_its_own_answer(
    tmp_path: Path, database_url: str, person: Person, warm: Warm
) -> None:
    effects = tmp_path / "effects"
    total = HERE + PER_CHILD * CHILDREN

    with open_database(database_url) as database, others(database_url, effects, warm) as processes:
        results = asyncio.run(all_of_them(database, person, effects, processes))
        asked = {one.run_id: one for one in SqlApprovals(database).recent(1000)}
        report = SqlEvents(database).verify()

    assert set(results) == set(range(total))
    assert len(asked) == total
    allowed = {n for n in range(total) if answer_to(n)[0] == "once"}
    happened = Counter((run, n) for _, run, _, n in effects_in(effects))
    assert happened == {(f"r{n}", n): 1 for n in allowed}
    for n, result in results.items():
        status, output, error = result["results"]["g"]
        if n in allowed:
            assert (status, output) == ("succeeded", n)
        else:
            id = asked[f"r{n}"].id
            assert (status, error) == ("rejected", f"approval '{id}' was denied by ann: about {n}")
    for at, run, _, _ in effects_in(effects):
        assert at >= (asked[run].decided_at or float("inf"))
    assert report.valid, report
