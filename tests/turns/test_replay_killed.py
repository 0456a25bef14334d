"""A run whose process was killed, again and again, and that was taken up each time, replays as one run."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from placet import Assistant, tool
from placet.inference import Result
from placet.inference.model import Request
from placet.turns.loop import TurnLoop
from placet.turns.replay import replay
from placet.turns.told import Answered
from tests.turns.workroom import Workroom, call, kept_in, write

PLAN = [
    [call("list_dir", path="."), call("note", n=1)],
    [write("a.txt", "alpha"), call("note", n=2), call("read_file", path="a.txt")],
    [call("no_such_tool")],
    [call("note", n=3), call("note", n=4)],
    [write("b.txt", "beta")],
]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Model:
    """Says what comes next in the plan, by what the conversation holds; or dies while it is asked."""

    name = "planned"

    def __init__(self, dies_in: str) -> None:
        self._dies_in = dies_in

    async def generate(self, request: Request) -> Result:
        turn = sum(type(message).__name__ == "Assistant" for message in request.messages)
        if self._dies_in == f"ask {turn}":
            die()
        return Result(calls=PLAN[turn]) if turn < len(PLAN) else Result(text="Done.")


def child(folder: Path, dies_in: str, is_new: bool) -> None:
    """One process: begins the run, or takes it up, and is killed somewhere."""
    room = Workroom(folder)

    @tool(risk="read_only")
    def note(n: int) -> str:
        if dies_in == f"call {n}":
            die()
        return f"noted {n}"

    tell = TurnLoop._tell

    def tell_or_die(self: TurnLoop, told: object) -> None:
        # The answer is in the recording by now, and not in the journal.
        if isinstance(told, Answered) and dies_in == f"tell {self._turn}":
            die()
        tell(self, told)  # type: ignore[arg-type]

    TurnLoop._tell = tell_or_die  # type: ignore[method-assign,assignment]
    with kept_in(folder) as kept:
        runtime = room.runtime([note], **kept.parts())
        assistant = Assistant(runtime, Model(dies_in), posture="full_access")
        path = folder / "run.jsonl"
        if is_new:
            ending = assistant.run_sync("Work.", run_id="r", record=path)
        else:
            ending = asyncio.run(assistant.resume("r", record=path))
            if ending.status == "waiting":
                # Killed before it was on disk that a file had been written.
                decide = {each.action_id: "retry" for each in ending.waiting}
                ending = asyncio.run(assistant.resume("r", decide=decide, record=path))
    print(ending.status)


def test_a_run_that_was_killed_and_taken_up_replays_as_one_run(tmp_path: Path) -> None:
    deaths = ["call 1", "ask 1", "tell 3", "call 4", ""]

    for number, dies_in in enumerate(deaths):
        code = (
            "from pathlib import Path; from tests.turns.test_replay_killed import child; "
            f"child(Path({str(tmp_path)!r}), {dies_in!r}, {number == 0})"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=120,
        )

        assert done.returncode == (-signal.SIGKILL if dies_in else 0), done.stderr
        found = asyncio.run(replay(tmp_path / "run.jsonl"))
        assert found.divergence is None, (dies_in, found.divergence.words)
        assert found.is_cut_short == bool(dies_in)
        # A process that was killed before anything was on disk has left nothing to take up.
        assert found.taken_up <= number

    assert found.taken_up >= 2, "before a file is written, what asked for it is on disk"
    assert done.stdout.strip() == "success"
    assert found.ending is not None
    assert list(found.ending.tools) == [
        *("list_dir", "note", "write_file", "note", "read_file", "note", "note", "write_file")
    ]
