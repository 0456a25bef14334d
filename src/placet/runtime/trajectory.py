"""What a proposal went through, for learning from it later."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

import msgspec

from placet.events.jsonl import LineFile
from placet.ir.json_value import JsonValue
from placet.ir.result import Status

TrajectoryOutcome = Literal["success", "replan_success", "replan_exhausted", "failed"]

_REWARD: dict[Status, float] = {"succeeded": 1.0, "failed": 0.0, "rejected": 0.0}


class TrajectoryStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One action as it went."""

    kind: str
    action_id: str
    tool: str | None = None
    error: str | None = None
    duration_ms: float | None = None
    state_before: dict[str, JsonValue] = {}
    """Only the keys the action touches."""
    state_after: dict[str, JsonValue] = {}
    reward: float | None = None
    """1 for succeeded, 0 for failed or rejected, none otherwise."""


class Trajectory(msgspec.Struct, frozen=True, kw_only=True):
    """One proposal as it went."""

    proposal_id: str
    run_id: str
    source: str
    outcome: TrajectoryOutcome
    timestamp: datetime
    duration_ms: float
    attempts: int
    """How many proposals were executed in this run, replans included."""
    steps: Sequence[TrajectoryStep]


def reward_of(status: Status) -> float | None:
    """What an ending is worth to a learner."""
    return _REWARD.get(status)


class TrajectoryStore(Protocol):
    """Where trajectories go. `append` may raise; the run reports it and goes on."""

    def append(self, trajectory: Trajectory) -> None: ...


class JsonlTrajectories:
    """Trajectories as JSON lines in a file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = LineFile(path)
        self.path = self._file.path

    def append(self, trajectory: Trajectory) -> None:
        """Add one line."""
        self._file.append((trajectory,))

    def read(self) -> list[Trajectory]:
        """All complete lines; one that a crash cut short is left out."""
        decode = msgspec.json.Decoder(Trajectory).decode
        found = []
        for line in self.path.read_bytes().splitlines():
            try:
                found.append(decode(line))
            except msgspec.DecodeError:
                continue
        return found
