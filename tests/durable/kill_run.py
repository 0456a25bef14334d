"""Kills a run of 200 actions at random instants, resumes it, and checks that nothing was lost or repeated.

The journal and the file of effects are looked at after every kill: they tell what had been promised and what
had happened. A person who looks outside and decides is played by this file.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from placet.durable.sql import SqlJournal
from placet.events.sql import SqlEvents
from placet.runtime.journal import Ended, Replay, Started, key_of
from placet.storage.location import open_database

ACTIONS = 200
WIDTH = 4
PHASES = ("before started", "before the effect", "before ended", "after")
TOOLS = Path(__file__).with_name("kill_tools.py")


def plan() -> dict[str, Any]:
    """A plan in which four things happen at once, most of which must not happen twice."""
    kinds = ["unsafe", "unsafe", "unsafe", "safe", "look"]
    return {
        "actions": [
            {
                "id": f"a{k}",
                "tool": kinds[k % len(kinds)],
                "dependencies": [f"a{k - WIDTH}"] if k >= WIDTH else [],
                "expected_effects": {f"k{k % 10}": k} if k % 7 == 0 else {},
            }
            for k in range(ACTIONS)
        ]
    }


class KillRun:
    """One run, killed again and again until it is through; `placet` is how the command line is started."""

    def __init__(
        self,
        folder: Path,
        url: str,
        run_id: str,
        chance: random.Random,
        *,
        schedule: str,
        placet: Sequence[str],
    ) -> None:
        self.url = url
        self._placet = placet
        self.run_id = run_id
        self.effects_file = folder / f"{run_id}.effects"
        self.plan_file = folder / f"{run_id}.json"
        self.plan = plan()
        self.plan_file.write_text(json.dumps(self.plan))
        self.phases: Counter[str] = Counter()
        self.kills = 0
        self.unknown_seen = 0
        self._chance = chance
        self._schedule = schedule
        self._environment = {
            **os.environ,
            "KILL_EFFECTS": str(self.effects_file),
            "XDG_DATA_HOME": str(folder / "share"),
            "PLACET_DB": url,
        }
        self._known_ended: set[str] = set()

    def effects(self) -> Counter[str]:
        """How often each effect has happened, by key."""
        text = self.effects_file.read_text() if self.effects_file.exists() else ""
        return Counter(line.removeprefix(f"{self.run_id}-") for line in text.splitlines())

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start the command line in a process of its own."""
        return subprocess.Popen(
            [*self._placet, *arguments, "--json"],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def through(self, max_kills: int) -> dict[str, Any]:
        """Kill and resume until the run is through or was killed often enough; returns its result."""
        first = ["run", str(self.plan_file), "--tools", str(TOOLS), "--run-id", self.run_id]
        process = self.start(*first, "--schedule", self._schedule)
        is_begun = False
        while True:
            may_kill = self.kills < max_kills
            code, out, err = self._end(process, may_kill)
            is_begun = is_begun or self._status() is not None
            if code == -signal.SIGKILL:
                self.kills += 1
                self._look()
                if not is_begun:
                    # Killed before the run was noted at all: nothing can have happened.
                    assert not self.effects()
                    process = self.start(*first, "--schedule", self._schedule)
                else:
                    process = self.start("resume", self.run_id)
            elif code == 4:
                process = self.start("resume", self.run_id, *self._decide(json.loads(out)))
            else:
                assert code == 0, f"exit code {code}:\n{out.decode()[-2000:]}\n{err.decode()[-2000:]}"
                found: dict[str, Any] = json.loads(out)
                return found

    def _end(self, process: subprocess.Popen[bytes], may_kill: bool) -> tuple[int, bytes, bytes]:
        """Wait for a process, or kill it at a random instant."""
        if may_kill and self._chance.random() < 0.9:
            # From the moment at which it begins to write, so that few kills meet an interpreter starting up.
            deadline = time.monotonic() + 20
            size = self._size()
            while process.poll() is None and self._size() == size and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(self._chance.random() * 0.25)
            process.kill()
        out, err = process.communicate(timeout=100)
        return process.returncode, out, err

    def _size(self) -> int:
        return self.effects_file.stat().st_size if self.effects_file.exists() else 0

    def _status(self) -> str | None:
        with open_database(self.url) as database:
            rows = SqlJournal(database).runs(limit=1000)
        return next((row.status for row in rows if row.run_id == self.run_id), None)

    def _look(self) -> None:
        """After a kill: which phases was it in, and is everything that was promised there?"""
        if self._status() == "succeeded":
            # Killed between the end of the run and that of the process: the notes are gone, on purpose.
            self.phases["after"] += 1
            return
        with open_database(self.url) as database:
            notes = SqlJournal(database).notes(self.run_id)
            executing = {
                e.action_id for e in SqlEvents(database).query(run=self.run_id, kind="action_executing")
            }
        replay = Replay(notes)
        effects = self.effects()
        started = {n.key for n in notes if isinstance(n, Started)}
        ended = {n.key for n in notes if isinstance(n, Ended)}
        hit = set()
        for k, action in enumerate(self.plan["actions"]):
            key = key_of(0, k)
            if action["tool"] != "unsafe":
                continue
            if effects[key]:
                assert key in started, f"{action['id']} took effect without a note"
                assert action["id"] in executing, f"{action['id']} took effect without a record"
            if key in ended:
                assert effects[key] == 1
                if key not in self._known_ended:
                    hit.add("after")
            elif key in replay.in_flight:
                hit.add("before ended" if effects[key] else "before the effect")
            elif all(key_of(0, int(d[1:])) in ended for d in action["dependencies"]):
                hit.add("before started")
        self._known_ended = ended
        self.phases.update(hit)

    def _decide(self, result: dict[str, Any]) -> list[str]:
        """Decide about what is unknown, as somebody does who can look outside."""
        with open_database(self.url) as database:
            in_flight = Replay(SqlJournal(database).notes(self.run_id)).in_flight
        effects = self.effects()
        waiting = [w["action_id"] for w in result["waiting"]]
        assert sorted(waiting) == sorted(f"a{key.split('-')[1]}" for key in in_flight)
        assert result["outcome"] == "waiting"
        assert waiting
        self.unknown_seen += len(waiting)
        for name in waiting:
            status = next(r["status"] for r in result["results"] if r["action_id"] == name)
            assert status == "unknown"
        return [
            part
            for name in waiting
            for part in ("--decide", f"{name}={'done' if effects[key_of(0, int(name[1:]))] else 'retry'}")
        ]

    def check(self, result: dict[str, Any]) -> None:
        """Everything happened, what must not happen twice happened once, and the log says so."""
        assert result["outcome"] == "succeeded"
        effects = self.effects()
        for k, action in enumerate(self.plan["actions"]):
            times = effects[key_of(0, k)]
            if action["tool"] == "unsafe":
                assert times == 1, f"{action['id']} happened {times} times"
            elif action["tool"] == "safe":
                assert times >= 1
        state: dict[str, int] = {}
        for action in self.plan["actions"]:
            state.update(action["expected_effects"])
        assert result["state"] == state
        with open_database(self.url) as database:
            events = SqlEvents(database)
            said = {
                e.action_id
                for e in events.query(run=self.run_id)
                if e.kind in ("action_succeeded", "action_replayed")
            }
            assert said == {a["id"] for a in self.plan["actions"]}
            assert events.query(run=self.run_id, kind="proposal_ended")
        verified = subprocess.run(
            [*self._placet, "log", "verify"],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert verified.returncode == 0, verified.stdout + verified.stderr
