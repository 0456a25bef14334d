"""One conversation as a run of its own: begun, or gone on with where it was broken off.

Keep true:
1. Taken up again, no answer is asked for twice, and no call that ended is made twice; what the answers took
   counts before anything more is asked.
2. A call that was in flight when the process died counts as failed if it worked in a private folder, and the
   model is told to look; else a person is asked what became of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from placet.errors import UnknownRun
from placet.inference.messages import User
from placet.inference.model import Intent, Model
from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal
from placet.ir.provenance import UNRECORDED, Provenance, SourcedText, text_of
from placet.policy.budget import Budget
from placet.policy.permission import CallByCall
from placet.runtime.journal import LED_BY, Choice
from placet.turns.calls import Offer
from placet.turns.ending import Ending, Watch
from placet.turns.leading import end, ending_of, say_started
from placet.turns.limits import TurnLimits
from placet.turns.loop import TurnLoop

if TYPE_CHECKING:
    from placet.ir.result import ProposalResult
    from placet.runtime.open_run import OpenRun
    from placet.runtime.runtime import Runtime
    from placet.tools.context import Cancel
    from placet.turns.output import OutputType

NOT_OFFERED = "tool '{tool}' is not offered to you"


class Turning(NamedTuple):
    """One conversation that is to be had."""

    runtime: Runtime
    model: Model
    budget: Budget
    """All that it uses counts for this one."""
    run_id: str
    leader: str
    """Who leads it, as the log and `placet log costs` know it."""
    belongs_to: Mapping[str, JsonValue]
    """What is kept with the run, by which whoever leads it knows it again."""
    system: str
    message: Sequence[SourcedText]
    """The parts of the message, each with its provenance."""
    tools: Sequence[str]
    limits: TurnLimits
    by_call: CallByCall
    not_offered: str = NOT_OFFERED
    """What is answered to a call of another tool; `{tool}` stands for its name."""
    intent: Intent | None = None
    failures: int = 1
    """How often in a row the model may give no answer."""
    is_private: bool = True
    """What its calls change can be thrown away."""
    failed: int = 0
    """How often in a row the model has just given no answer."""
    output: OutputType[Any] | None = None
    cancel: Cancel | None = None
    watch: Watch | None = None
    parent: str | None = None
    """The run that it is a part of."""

    async def lead(self, *, has_begun: bool) -> tuple[Ending, int]:
        """How it ended, and how often in a row the model had then given no answer."""
        if has_begun:
            try:
                return await self._again()
            except UnknownRun:
                pass  # The process died before the run was kept.
        async with self.runtime.open_run(
            self._about(),
            cancel=self.cancel,
            run_id=self.run_id,
            by_call=self.by_call,
            parent=self.parent,
            counts_for=self.budget,
        ) as run:
            say_started(
                run,
                task=text_of(self.message),
                model=str(getattr(self.model, "name", "")),
                tools=self.tools,
                limits=self.limits,
            )
            loop = self._loop(run)
            return await end(run, await self._say(loop)), loop.failed

    async def _again(self) -> tuple[Ending, int]:
        decide: dict[str, Choice] = {}
        while True:
            async with self.runtime.reopen_run(
                self.run_id,
                decide=decide,
                cancel=self.cancel,
                by_call=self.by_call,
                counts_for=self.budget,
            ) as run:
                if run.ended is not None:
                    unknown = [w for w in run.ended.waiting if w.kind == "unknown_outcome"]
                    if run.ended.outcome == "waiting" and unknown and not decide and self.is_private:
                        decide = {each.action_id: "fail" for each in unknown}
                        continue
                    return self._known(run.ended)
                loop = self._loop(run)
                ending = await loop.go_on()
                if ending is None:
                    ending = await self._say(loop)
                return await end(run, ending), loop.failed

    async def _say(self, loop: TurnLoop) -> Ending:
        return await loop.say(User(text_of(self.message)), Provenance.of(self.message))

    def _unrecorded(self, text: str) -> Provenance:
        """Who wrote a message from before that was recorded: known of the one that is put here."""
        return Provenance.of(self.message) if text == text_of(self.message) else UNRECORDED

    def _known(self, result: ProposalResult) -> tuple[Ending, int]:
        """How it had ended, or what it still waits for."""
        ending = ending_of(result, self.output)
        failed = 0 if ending.succeeded else self.failed
        if ending.turns > failed:
            Budget(parent=self.budget, name=self.run_id).charge(ending.usage, ending.cost_usd)
        return ending, failed

    def _about(self) -> Proposal:
        context: dict[str, JsonValue] = {LED_BY: self.leader, **self.belongs_to}
        return Proposal(id=self.run_id, source=self.leader, actions=(), context=context)

    def _loop(self, run: OpenRun) -> TurnLoop:
        tools = self.runtime.tools
        call_s = self.limits.call_s
        offer = Offer(
            tools=tools,
            offered=frozenset(self.tools),
            not_offered=self.not_offered,
            source=self.leader,
            timeout_ms=max(1, int(call_s * 1000)) if call_s is not None else None,
        )
        found = (tools.get(name) for name in self.tools)
        return TurnLoop(
            run,
            self.model,
            offer,
            system=self.system,
            schemas=[each.schema for each in found if each is not None],
            limits=self.limits,
            failures=self.failures,
            failed=self.failed,
            output=self.output,
            intent=self.intent,
            cancel=self.cancel,
            watch=self.watch,
            unrecorded=self._unrecorded,
        )
