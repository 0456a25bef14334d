"""What a proposal went through, for learning from it later."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import msgspec

from placet.events.jsonl import LineFile
from placet.ir.json_value import JsonValue
from placet.ir.result import Status
from placet.ir.to_dict import ToDict
from placet.ir.tool_spec import Mark

TrajectoryOutcome = Literal["success", "replan_success", "replan_exhausted", "failed"]
"""Outcome of a trajectory.

- `success`: the proposal succeeded.
- `replan_success`: a replan succeeded.
- `replan_exhausted`: all replans failed.
- `failed`: it failed.
"""

_REWARD: dict[Status, float] = {"succeeded": 1.0, "failed": 0.0, "rejected": 0.0}


class TrajectoryStep(ToDict, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One action of a trajectory."""

    kind: str
    """`action_` and the status of the action."""
    action_id: str
    """Id of the action."""
    tool: str | None = None
    """The tool that it calls."""
    error: str | None = None
    """Why it did not succeed."""
    duration_ms: float | None = None
    """Time that it took, in milliseconds."""
    state_before: dict[str, JsonValue] = {}
    """State before the action; only keys that it uses."""
    state_after: dict[str, JsonValue] = {}
    """State keys that the action wrote, with their values."""
    reward: float | None = None
    """1 if it succeeded, 0 if it failed or was rejected, otherwise `None`."""


class Trajectory(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """The course of one proposal, for learning from it later."""

    proposal_id: str
    """Id of the proposal."""
    run_id: str
    """Id of the run."""
    source: str
    """Who proposed it."""
    outcome: TrajectoryOutcome
    """How it ended."""
    timestamp: datetime
    """When it ended, in UTC."""
    duration_ms: float
    """Time that it took, in milliseconds."""
    attempts: int
    """How many proposals were executed in this run, replans included."""
    steps: Sequence[TrajectoryStep]
    """The actions, in order."""
    task: str = ""
    """What a model was asked that led the run; empty for a plan."""
    labels: tuple[Mark, ...] = ()
    """Labels of what the run has read."""
    tenant: str | None = None
    """Tenant of the run."""
    is_led: bool = False
    """Whether a model led the run: then `outcome` is only how it ended, and whether it did what it was for is
    said by others."""


def reward_of(status: Status) -> float | None:
    """What an ending is worth to a learner."""
    return _REWARD.get(status)


class TrajectoryStore(Protocol):
    """Protocol of stores of trajectories."""

    def append(self, trajectory: Trajectory) -> None:
        """Store a trajectory. It may raise; the run records the failure and continues.

        Args:
            trajectory: The trajectory.
        """
        ...


@runtime_checkable
class TrajectoryReader(TrajectoryStore, Protocol):
    """Protocol of stores whose trajectories can be read again."""

    def read(self, run: str | None = None, limit: int | None = None) -> list[Trajectory]:
        """Return trajectories, oldest first.

        Args:
            run: Only those of this run.
            limit: Only the newest ones, up to this number.
        """
        ...


class JsonlTrajectories:
    """Trajectories in a file, as JSON lines."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file for appending.

        Args:
            path: The file; it is created if it is missing.
        """
        self._file = LineFile(path)
        self.path: Path = self._file.path
        """The file."""

    def append(self, trajectory: Trajectory) -> None:
        """Add one line."""
        self._file.append((trajectory,))

    def read(self, run: str | None = None, limit: int | None = None) -> list[Trajectory]:
        """Return trajectories, oldest first; an incomplete line is left out.

        Args:
            run: Only those of this run.
            limit: Only the newest ones, up to this number.
        """
        decode = msgspec.json.Decoder(Trajectory).decode
        found = []
        for line in self.path.read_bytes().splitlines():
            try:
                found.append(decode(line))
            except msgspec.DecodeError:
                continue
        found = [each for each in found if run in (None, each.run_id)]
        return found if limit is None else found[max(len(found) - limit, 0) :]
