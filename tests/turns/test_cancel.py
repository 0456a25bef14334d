"""Stopped at every step in turn, and taken up again: it ends as if nobody had stopped it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet import Assistant, Cancel, tool
from placet.errors import RunHeld, UnknownRun
from placet.inference.messages import Assistant as Said
from placet.inference.messages import Message
from placet.inference.model import Request, Result
from placet.turns.ending import Ending
from tests.turns.steps import factory
from tests.turns.workroom import Kept, Workroom, call, kept_in, orphans, results, write

PATIENCE_S = 20.0

SCRIPT = [
    [call("look", n=1), call("look", n=2), write("a.txt", "alpha")],
    [call("pay", n=3), call("put", n=4)],
    [call("read_file", path="a.txt"), call("nowhere"), call("pay", n=5)],
]
KINDS = {1: "look", 2: "look", 3: "pay", 4: "put", 5: "pay"}


class Model:
    """Answers by how many answers were given before, with a moment between."""

    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()
        self.last: list[Message] = []

    async def generate(self, request: Request) -> Result:
        self.last = list(request.messages)
        turn = sum(isinstance(message, Said) for message in request.messages)
        self.asked[turn] += 1
        await asyncio.sleep(0)
        return Result(calls=SCRIPT[turn]) if turn < len(SCRIPT) else Result(text="Done.")


class Place:
    """A room with a database, and effects that can be counted."""

    def __init__(self, folder: Path, kept: Kept) -> None:
        self.room = Workroom(folder)
        self.model = Model()
        self.effects: Counter[int] = Counter()
        self._kept = kept

    def assistant(self) -> Assistant:
        """As a new process would set one up."""

        async def act(n: int) -> int:
            await asyncio.sleep(0)
            self.effects[n] += 1
            await asyncio.sleep(0)
            return n

        made = [
            tool(act, name="look", description="Changes nothing.", risk="read_only"),
            tool(act, name="put", description="May happen twice.", risk="idempotent", idempotent=True),
            tool(act, name="pay", description="Must not happen twice."),
        ]
        return self.room.assistant(self.model, runtime=self.room.runtime(made, **self._kept.parts()))

    async def go_on(self, run_id: str) -> tuple[Ending, Counter[str]]:
        """Take the run up until it is done, deciding as somebody does who looks outside; what was seen."""
        seen: Counter[str] = Counter()
        decide: dict[str, Any] = {}
        for _ in range(1_000):
            try:
                ending = await self.assistant().resume(run_id, decide=decide)
            except RunHeld:
                # Stopped while it began: it is let go of as soon as its beginning is on disk.
                seen["held"] += 1
                await asyncio.sleep(0.01)
                continue
            except UnknownRun:
                seen["not begun"] += 1
                ending = await self.assistant().run("x", run_id=run_id)
            if ending.status != "waiting":
                return ending, seen
            for waiting in ending.waiting:
                assert waiting.kind == "unknown_outcome"
                turn, _, index = waiting.action_id.removeprefix("t").partition("c")
                asked = SCRIPT[int(turn) - 1][int(index) - 1]
                if asked.name == "write_file":
                    happened = bool(self.room.files())
                else:
                    assert asked.name == "pay"
                    happened = bool(self.effects[asked.arguments["n"]])
                decide[waiting.action_id] = "done" if happened else "retry"
                seen["decided"] += 1
        raise AssertionError("it cannot be taken up")

    def check(self, ending: Ending) -> None:
        """It is all as it is without anybody who stops it; but for outputs that nobody has seen."""
        assert (ending.status, ending.summary) == ("success", "Done.")
        assert sorted(ending.tools) == sorted(
            ["look", "look", "write_file", "pay", "put", "read_file", "pay"]
        )
        assert self.room.files() == {"a.txt": "alpha"}
        assert set(self.effects) == set(KINDS)
        for n, kind in KINDS.items():
            assert self.effects[n] == 1 or kind != "pay", f"{n} happened {self.effects[n]} times"
        assert orphans(self.model.last) == []
        told = results(self.model.last)
        assert [each.name for each in told] == [made.name for calls in SCRIPT for made in calls]
        assert [each.is_error for each in told].count(True) == 1


async def _stopped(
    place: Place, run_id: str, at: int, how: str, *, again: bool = False
) -> tuple[Ending | None, int]:
    """Run until the step of any of its tasks, then stop it; how it ended if it did, and how many steps there
    were."""
    steps, cancel = [0], Cancel()

    def act() -> None:
        if how == "task":
            running.cancel()
        else:
            cancel.cancel("enough", hard=how == "hard")

    # Without a cancel the loop has fewer tasks of its own: both ways are gone.
    given = {} if how == "task" else {"cancel": cancel}
    loop = asyncio.get_running_loop()
    before = asyncio.all_tasks()
    loop.set_task_factory(factory(at, act, steps))
    try:
        assistant = place.assistant()
        work = assistant.resume(run_id, **given) if again else assistant.run("x", run_id=run_id, **given)
        running = asyncio.create_task(work)
        await asyncio.wait((running,), timeout=PATIENCE_S)
        assert running.done()
    finally:
        loop.set_task_factory(None)
    assert asyncio.all_tasks() == before, "nothing is left running"
    if running.cancelled():
        assert how == "task"
        return None, steps[0]
    return running.result(), steps[0]


@pytest.mark.parametrize("how", ["task", "soft", "hard"])
async def test_stopped_at_every_step_it_goes_on_as_if_it_had_not_been(
    tmp_path: Path, how: str, record_property: Callable[[str, object], None]
) -> None:
    seen: Counter[str] = Counter()
    at, total = 0, 1
    with kept_in(tmp_path) as kept:
        while at <= total:
            folder = tmp_path / str(at)
            folder.mkdir()
            place = Place(folder, kept)
            ending, steps = await _stopped(place, f"r{at}", at, how)
            if at == 0:
                assert ending is not None
                total = steps
            if ending is None or ending.status == "cancelled":
                seen["stopped"] += 1
                ending, more = await place.go_on(f"r{at}")
                seen += more
            place.check(ending)
            for turn, times in place.model.asked.items():
                assert times <= 2, f"turn {turn} was asked {times} times"
            at += 1
        assert kept.records.verify().valid
    record_property("figure", f"{total} steps, {dict(seen)}")
    assert seen["held"] <= 500, "nobody holds what was stopped"
    assert seen["stopped"] >= total // 2


@pytest.mark.parametrize("how", ["task", "hard"])
async def test_stopped_again_at_every_step_of_going_on(tmp_path: Path, how: str) -> None:
    at, total = 0, 1
    with kept_in(tmp_path) as kept:
        while at <= total:
            folder = tmp_path / str(at)
            folder.mkdir()
            place = Place(folder, kept)
            await _stopped(place, f"r{at}", 10, how)

            ending, steps = await _stopped(place, f"r{at}", at, how, again=True)

            if at == 0:
                total = steps
            if ending is None or ending.status in ("cancelled", "waiting"):
                ending, _ = await place.go_on(f"r{at}")
            place.check(ending)
            at += 1
        assert kept.records.verify().valid
