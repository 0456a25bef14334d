"""Any script, cut at any step as a killed process is, and taken up again: it ends as if it had not been.

The process dies by no longer being driven: what it would have done afterwards is done in a world that takes
no notice, and what it would have noted is forgotten.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from placet import Assistant, Decision, ProposalResult, Runtime, ToolError, tool
from placet.durable.memory import MemoryJournal
from placet.errors import ModelUnavailable
from placet.inference.messages import Assistant as Said
from placet.inference.messages import Message, ToolCall, User
from placet.inference.model import Request, Result
from placet.tools import Tool
from placet.turns.ending import Ending
from placet.turns.limits import TurnLimits
from tests.properties.effort import UNHURRIED, Tally, examples
from tests.properties.virtual_time import VirtualLoop
from tests.turns.steps import factory
from tests.turns.workroom import orphans

KINDS = ("pay", "look", "put", "pay", "flaky", "broken_pay", "late_pay", "nowhere", "garbled")
Script = Sequence[Sequence[str]]


class World:
    """A folder, a model and tools. It outlives every process, and can be frozen."""

    def __init__(self, folder: Path, script: Script, down: frozenset[int]) -> None:
        """A turn of the script without calls is an answer in words."""
        self.folder = folder
        self.is_frozen = False
        self.last: list[Message] = []
        self._down = down
        self._said_down: set[int] = set()
        numbers = iter(range(1, 10_000))
        self.calls = [[(kind, next(numbers)) for kind in turn] for turn in script]
        self.journal = MemoryJournal()

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in sorted(self.folder.iterdir())}

    def has_paid(self, n: int) -> bool:
        return f"{n}\n" in self.files().get("paid", "").splitlines(keepends=True)

    def pay(self, n: int) -> None:
        with open(self.folder / "paid", "a") as file:
            file.write(f"{n}\n")

    def tools(self) -> list[Tool]:
        @tool(risk="read_only")
        async def look(n: int) -> str:
            """Change nothing."""
            await asyncio.sleep(n % 3 * 0.001)
            return f"saw {n}"

        @tool(risk="idempotent", idempotent=True)
        async def put(n: int) -> str:
            """May happen twice."""
            await asyncio.sleep(0)
            if not self.is_frozen:
                (self.folder / f"{n}.txt").write_text(str(n))
            await asyncio.sleep(0)
            return f"put {n}"

        @tool(risk="idempotent", idempotent=True)
        async def flaky(n: int) -> str:
            """Fails for good."""
            await asyncio.sleep(0)
            raise ToolError(f"{n} does not work", retry=False)

        async def pay(n: int) -> str:
            await asyncio.sleep(0)
            if not self.is_frozen:
                self.pay(n)
            await asyncio.sleep(0)
            return f"paid {n}"

        async def broken_pay(n: int) -> str:
            await asyncio.sleep(0)
            raise ToolError(f"{n} cannot be paid", retry=False)

        async def late_pay(n: int) -> str:
            await asyncio.sleep(3600)
            return f"paid {n}"

        return [
            look,
            put,
            flaky,
            tool(pay, name="pay", description="Must not happen twice."),
            tool(late_pay, name="late_pay", description="Takes longer than a call may take."),
            tool(broken_pay, name="broken_pay", description="Would not be to happen twice, but fails."),
        ]

    async def generate(self, request: Request) -> Result:
        """The model: what it says follows from how many answers came before."""
        turn = sum(isinstance(message, Said) for message in request.messages)
        await asyncio.sleep(0.001)
        if self.is_frozen:
            raise asyncio.CancelledError
        self.last = list(request.messages)
        if turn in self._down and turn not in self._said_down:
            self._said_down.add(turn)
            raise ModelUnavailable("down")
        if turn >= len(self.calls) or not self.calls[turn]:
            return Result(text=f"Done with {turn}.")
        return Result(text=f"Turn {turn}.", calls=[_call(kind, n) for kind, n in self.calls[turn]])

    def assistant(self) -> Assistant:
        """As a new process would set one up."""
        runtime = Runtime(tools=self.tools(), journal=self.journal)
        return Assistant(
            runtime, self, posture="full_access", failures=2, limits=TurnLimits(turns=100, call_s=5)
        )

    def decision(self, action_id: str) -> Decision:
        """What somebody decides who can look outside."""
        turn, _, index = action_id.removeprefix("t").partition("c")
        kind, n = self._at(int(turn))[int(index) - 1]
        if not self.has_paid(n):
            return Decision(choice="retry")
        assert kind == "pay"
        return Decision(choice="done", output=f"paid {n}")

    def _at(self, turn: int) -> list[tuple[str, int]]:
        asked = 0
        for number, calls in enumerate(self.calls):
            # A turn in which the model was down has a number, too.
            asked += 1 + (number in self._said_down)
            if asked == turn:
                return calls
        raise AssertionError(f"there is no turn {turn}")


def _call(kind: str, n: int) -> ToolCall:
    if kind == "garbled":
        return ToolCall(id=f"c{n}", name="put", problem="it breaks off", raw='{"n')
    return ToolCall(id=f"c{n}" if n % 3 else "", name=kind, arguments={"n": n})


def _drive(world: World, work: Any, cut: int) -> tuple[Any, int]:
    """Run in a loop of its own to the end, or until so many steps were made and the process dies."""
    loop, steps = VirtualLoop(), [0]
    world.is_frozen = False
    asyncio.set_event_loop(loop)
    loop.set_task_factory(factory(cut, loop.stop, steps))
    try:
        running = loop.create_task(work)
        running.add_done_callback(lambda _: loop.stop())
        loop.run_forever()
        if running.done():
            return running.result(), steps[0]
        notes = {run_id: list(kept.notes) for run_id, kept in world.journal._runs.items()}
        # Of a run that is held, how it waited before is no longer so.
        results = {
            run_id: None if kept.is_held else kept.result for run_id, kept in world.journal._runs.items()
        }
        world.is_frozen = True
        running.cancel()
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(running)
        for run_id, kept in list(world.journal._runs.items()):
            if run_id not in notes:
                del world.journal._runs[run_id]
                continue
            kept.notes[:] = notes[run_id]
            kept.result = results[run_id]
        world.journal.lose_holders()
        return None, steps[0]
    finally:
        loop.close()
        asyncio.set_event_loop(None)


def _through(world: World, cuts: Sequence[int]) -> tuple[Ending, Counter[str], int]:
    """Begin, die at each cut, and go on until it is done."""
    seen: Counter[str] = Counter()
    pending, decide = list(cuts), {}
    total = 0
    while True:
        is_begun = "r" in world.journal._runs
        assistant = world.assistant()
        work = assistant.resume("r", decide=decide) if is_begun else assistant.run("Do it.", run_id="r")
        ending, steps = _drive(world, work, pending.pop(0) if pending else 0)
        total += steps
        decide = {}
        if ending is None:
            seen["cut"] += 1
        elif ending.status == "waiting":
            decide = {waiting.action_id: world.decision(waiting.action_id) for waiting in ending.waiting}
            seen["decided"] += len(decide)
        else:
            return ending, seen, total


SCRIPTS = st.lists(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4), min_size=1, max_size=4)
DOWN = st.frozensets(st.integers(0, 4), max_size=2)
CUTS = st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=3)


@UNHURRIED
def test_cut_anywhere_it_ends_the_same() -> None:
    tally = Tally()

    @examples(110)
    @given(script=SCRIPTS, down=DOWN, cuts=CUTS)
    def check(script: Script, down: frozenset[int], cuts: list[float]) -> None:
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            whole = World(Path(first), script, down)
            expected, _, steps = _through(whole, [])
            world = World(Path(second), script, down)

            ending, seen, _ = _through(world, [1 + int(cut * steps) for cut in cuts])

            tally.add(
                cut=bool(seen["cut"]),
                decided=bool(seen["decided"]),
                down=bool(down & set(range(len(script) + 1))),
                paid=bool(world.files().get("paid")),
            )
            assert world.files() == whole.files()
            assert orphans(world.last) == []
            assert msgspec.json.encode(world.last) == msgspec.json.encode(whole.last)
            assert ending == expected
            assert ending.status == "success"

    check()
    tally.require({"cut": 0.9, "decided": 0.05, "down": 0.2, "paid": 0.4})


async def _talk(
    world: World, messages: int, decide: Mapping[str, Decision]
) -> Ending | ProposalResult | None:
    """Say what was not said before; what came of the last message, or what has to be decided first."""
    resume = "r" in world.journal._runs
    async with world.assistant().chat("r", resume=resume, decide=decide if resume else None) as chat:
        if chat.waits is not None:
            return chat.waits
        said = sum(isinstance(message, User) for message in chat.messages)
        for number in range(said, messages):
            await chat.say(f"Message {number}.")
        world.last = list(chat.messages)
        return chat.last


def _talked(world: World, messages: int, cuts: Sequence[int]) -> tuple[Ending, int, int]:
    """A whole conversation, with a process that dies at each cut; how often it did."""
    pending, decide, total, deaths = list(cuts), {}, 0, 0
    while True:
        ending, steps = _drive(world, _talk(world, messages, decide), pending.pop(0) if pending else 0)
        total += steps
        decide = {}
        if ending is None:
            deaths += 1
        elif isinstance(ending, ProposalResult):
            decide = {waiting.action_id: world.decision(waiting.action_id) for waiting in ending.waiting}
        else:
            return ending, total, deaths


@UNHURRIED
def test_a_conversation_cut_anywhere_goes_on_the_same() -> None:
    tally = Tally()

    @examples(75)
    @given(scripts=st.lists(SCRIPTS, min_size=1, max_size=3), cuts=CUTS)
    def check(scripts: list[list[list[str]]], cuts: list[float]) -> None:
        # Each message comes to turns with calls, and then to one without.
        script = [turn for turns in scripts for turn in (*turns, [])]
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            whole = World(Path(first), script, frozenset())
            expected, steps, _ = _talked(whole, len(scripts), [])
            world = World(Path(second), script, frozenset())

            ending, _, deaths = _talked(world, len(scripts), [1 + int(cut * steps) for cut in cuts])

            tally.add(cut=bool(deaths), several=len(scripts) > 1, paid=bool(world.files().get("paid")))
            assert world.files() == whole.files()
            assert orphans(world.last) == []
            assert msgspec.json.encode(world.last) == msgspec.json.encode(whole.last)
            assert ending == expected
            assert ending.status == "success"

    check()
    tally.require({"cut": 0.8, "several": 0.3, "paid": 0.4})
