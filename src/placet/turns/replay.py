"""A recorded run once more, from its file alone: nothing is asked of a model, and no tool has an effect.

The loop of today is led through what was recorded: people's messages, the model's answers, what came of
calls, what stopped it. What it makes of them (each request, each refusal, the ending) is compared on the way.

Keep true:
1. The first difference ends it; nothing is reported that follows from an earlier one.
2. A file that breaks off is followed as far as it goes, and a run that was taken up again all the way.
3. Whatever a file holds, the outcome is a `Replayed` or an `InputError`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import AsyncExitStack
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from placet.errors import InputError, PlacetError
from placet.inference.messages import ToolResult
from placet.inference.model import Request, Result
from placet.ir.ending import CallKind
from placet.ir.proposal import Proposal
from placet.ir.provenance import UNRECORDED
from placet.ir.tool_spec import ToolSchema
from placet.safe_text import clean
from placet.tools.json_schema import compile_check
from placet.tools.registry import Registry
from placet.tools.tool import Tool
from placet.turns.acting import CallCame
from placet.turns.asking import Halt
from placet.turns.calls import Asked, Offer, not_available
from placet.turns.divergence import Diverged, Divergence
from placet.turns.ending import Ending
from placet.turns.loop import TurnLoop
from placet.turns.output import ROOT, OutputType, OutputUnfit
from placet.turns.recorded_run import Begins, read_run
from placet.turns.run_lines import Begun
from placet.turns.script import Interrupted, Left, Script

if TYPE_CHECKING:
    from placet.runtime.open_run import OpenRun
    from placet.runtime.runtime import Runtime
    from placet.turns.read_only_tools import ReadOnlyTools

_SOURCE = "replay"


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a replay."""

    run_id: str
    divergence: Divergence | None = None
    """The first difference; None if there is none."""
    requests: int = 0
    """How many were compared, and found to be the same."""
    results: int = 0
    """The same for results of calls."""
    tools_run: int = 0
    """How many calls were really made, to compare what comes of them now."""
    taken_up: int = 0
    """How often the run was taken up again."""
    is_cut_short: bool = False
    """The recording breaks off in the middle of something."""
    ending: Ending | None = None
    """How the recorded run ended, as far as the recording goes."""

    @property
    def same(self) -> bool:
        """Whether all went as it was recorded."""
        return self.divergence is None


async def replay(path: str | PathLike[str], *, run_tools: Runtime | None = None) -> Replayed:
    """Go through a recorded run again, and say whether all is as it was, else what is the first difference.

    With a runtime in `run_tools`, calls of its tools that only read are really made, and what comes of them
    is compared as well.

    Raises:
        InputError: there is no such file, or it holds no run, or one that no loop could have led.
    """
    recorded = read_run(path)
    script = Script(recorded)
    divergence: Divergence | None = None
    async with AsyncExitStack() as stack:
        try:
            real = await _real_tools(run_tools, recorded.run_id, stack) if run_tools is not None else None
            while (begins := script.begin()) is not None:
                await _segment(begins, script, real)
        except Diverged as diverged:
            divergence = diverged.divergence
        except InputError:
            raise
        except PlacetError as error:
            raise InputError(f"The run in {clean(Path(path))} cannot be replayed: {clean(error)}") from None
    return Replayed(
        run_id=recorded.run_id,
        divergence=divergence,
        requests=script.requests,
        results=script.results,
        tools_run=real.calls if real is not None else 0,
        taken_up=script.taken_up,
        is_cut_short=divergence is None and recorded.is_cut_short,
        ending=script.ending,
    )


async def _real_tools(runtime: Runtime, run_id: str, stack: AsyncExitStack) -> ReadOnlyTools:
    from placet.turns.read_only_tools import ReadOnlyTools

    about = Proposal(source=_SOURCE, actions=(), context={"replay_of": run_id})
    return ReadOnlyTools(runtime, await stack.enter_async_context(runtime.open_run(about)))


async def _segment(begins: Begins, script: Script, real: ReadOnlyTools | None) -> None:
    """From where the run begins, or is taken up again, until it breaks off."""
    from placet.runtime.runtime import Runtime

    begun = begins.begun
    budget = begun.budget
    if budget is not None:
        # The clock is not replayed, nor is anything called: what these limits did is in the recording.
        budget = msgspec.structs.replace(budget, max_duration_ms=None, max_tool_calls=None, max_actions=None)
    about = Proposal(id=begun.run_id, source=_SOURCE, actions=())
    async with Runtime().open_run(about, run_id=begun.run_id, budget=budget) as run:
        loop = _ReplayedLoop(run, script, begins, real)
        try:
            if begun.recalled is not None:
                await _until_interrupted(loop.go_on(), script)
            while (message := script.say()) is not None:
                await _until_interrupted(loop.say(message, UNRECORDED), script)
        except Left:
            pass


async def _until_interrupted(working: Any, script: Script) -> None:
    try:
        await working
    except Interrupted:
        script.interrupted()


class _ReplayedLoop(TurnLoop):
    """A loop to which everything from outside comes out of a recording."""

    def __init__(self, run: OpenRun, script: Script, begins: Begins, real: ReadOnlyTools | None) -> None:
        begun = begins.begun
        super().__init__(
            run,
            script,
            _offer(begun),
            system=begun.system,
            schemas=begins.schemas,
            limits=begun.limits,
            failures=begun.failures,
            output=_ReplayedOutput(begun, script) if begun.output is not None else None,
        )
        self._script = script
        self._real = real
        self._results = 0
        self._asking = 0
        self._recalled = deque(script.recalled(begins))

    async def _ask(self) -> Result:
        tokens, cost = self._script.spent()
        if tokens or cost:
            self._run.spend(tokens, cost)
        self._asking = self._turn
        answer = await super()._ask()
        self._asking = 0
        return answer

    async def _generate(self, request: Request) -> Result:
        return self._script.answer(request, self._turn, self._results)

    def _halt(self) -> Halt | None:
        stop = self._script.stop_at(self._turn, self._results, is_asking=self._asking == self._turn)
        return super()._halt() if stop is None else Halt(stop.status, stop.error, cause=stop.cause)

    async def _one(self, asked: Asked) -> CallCame:
        if asked.proposal is None:
            return await super()._one(asked)
        came = self._script.came(
            asked, self._turn, self._results, is_past=bool(self._recalled), was_past=self._is_recalled
        )
        if self._real is not None and not self._recalled:
            other = await self._real.compare(asked, came.message, self._turn)
            if other is not None:
                self._script.leave_at(other)
        halt = None if came.stop is None else Halt(came.stop.status, came.stop.error, cause=came.stop.cause)
        return CallCame(
            asked, came.message.text, "failed" if came.message.is_error else "succeeded", halt=halt
        )

    def _add_result(self, came: CallCame) -> None:
        super()._add_result(came)
        message = self._conversation.newest[0]
        assert isinstance(message, ToolResult)
        if not self._recalled:
            self._script.check(came.asked, message, self._turn, was_past=self._is_recalled)
        self._results += 1

    def _lacks(self) -> tuple[CallKind, ...]:
        # The workspace as it was then is not replayed, and with it what the task needed.
        return self._script.lacks()

    def _end(self, halt: Halt) -> Ending:
        is_new = not self._recalled
        ending = super()._end(halt)
        if is_new:
            self._script.end(ending, self._conversation.messages, self._turn)
        return ending


class _ReplayedOutput(OutputType[Any]):
    """An output type of which only the schema is known."""

    def __init__(self, begun: Begun, script: Script) -> None:
        schema = dict(begun.output or {})
        super().__init__(schema, compile_check(schema, owner="the recorded output type", root=ROOT), None)
        self._script = script

    def read(self, text: str) -> Any:
        problem = self._script.unfit()
        value = super().read(text)
        if problem is not None:
            # A rule that no schema tells.
            raise OutputUnfit(problem)
        return value


def _offer(begun: Begun) -> Offer:
    """What was offered, with stand-ins for the tools.

    Raises:
        PlacetError: no runtime could have had such tools.
    """
    if "{" in begun.not_offered.replace("{tool}", ""):
        raise InputError("What was answered to calls of other tools cannot be read.")
    call_s = begun.limits.call_s
    return Offer(
        tools=_stand_ins(begun),
        offered=None if begun.offered is None else frozenset(begun.offered),
        not_offered=begun.not_offered,
        source=_SOURCE,
        timeout_ms=max(1, int(call_s * 1000)) if call_s is not None else None,
    )


def _stand_ins(begun: Begun) -> Registry:
    registry = Registry()
    registry.hints = dict(begun.absent)
    registry.withheld = {name: why for name, why in begun.absent.items() if why == not_available(name)}
    for known in begun.tools:
        registry.add(Tool(schema=ToolSchema(name=known.name, risk=known.risk), fn=None, cheap=True))
    return registry


__all__: Sequence[str] = ["Divergence", "Replayed", "replay"]
