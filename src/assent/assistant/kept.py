"""What is kept of a run that an assistant leads: what it was begun with, and how it ended.

Keep true: what a run needs to go on as it began is here, except what no file can hold, such as a function or
a type; of that it is kept that there was one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from assent.errors import UsageError
from assent.inference.messages import User
from assent.ir.json_value import JsonValue
from assent.ir.proposal import Proposal
from assent.ir.result import ProposalResult
from assent.policy.permission import Posture
from assent.runtime.journal import LED_BY
from assent.turns.ending import OUTCOMES, Ending
from assent.turns.limits import TurnLimits
from assent.turns.output import OutputUnfit

if TYPE_CHECKING:
    from assent.runtime.open_run import OpenRun
    from assent.turns.output import OutputType

LEADER = "assistant"


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What a run needs to go on as it began."""

    led_by: str = LEADER
    is_chat: bool = False
    system: str
    tools: Sequence[str]
    limits: TurnLimits
    model: str = ""
    task: User | None = None
    """Kept with the run itself: also one that breaks off right after its beginning knows what it is for."""
    output: Mapping[str, JsonValue] | None = None
    """JSON Schema of the type that the answer is to have, if there was one."""
    posture: Posture | None = None
    """None where the permissions of the runtime held."""
    gated: Sequence[str] = ()
    has_policy: bool = False
    """An approval policy was asked first."""

    def about(self, run_id: str, source: str) -> Proposal:
        """The same as a run is begun with it: a plan without actions."""
        context: dict[str, JsonValue] = msgspec.to_builtins(self)
        assert LED_BY in context
        return Proposal(id=run_id, source=source, actions=(), context=context)


def say_started(run: OpenRun, kept: Kept, task: str) -> None:
    """Record that a loop begins."""
    about = run.about
    run.emit(
        "turn_loop_started",
        about.id,
        {
            "source": about.source,
            "task": task[:2_000],
            "model": kept.model,
            "tools": list(kept.tools),
            "limits": msgspec.to_builtins(kept.limits),
        },
    )


async def end(run: OpenRun, ending: Ending) -> Ending:
    """End a run as its loop has ended."""
    await run.end(
        OUTCOMES[ending.status],
        None if ending.succeeded else ending.error,
        loop=ending.as_json(),
        waiting=ending.waiting or None,
    )
    return ending


def kept_of(about: Proposal) -> Kept:
    """What a run was begun with.

    Raises:
        UsageError: it is no run of an assistant.
    """
    try:
        kept = msgspec.convert(about.context, Kept)
    except msgspec.ValidationError:
        kept = None
    if kept is None or kept.led_by != LEADER:
        raise UsageError(f"Run '{about.id}' is not one of an assistant.")
    return kept


def ending_of(result: ProposalResult, output: OutputType[Any] | None = None) -> Ending:
    """How a run of an assistant ended, as it was kept. With an `output` type its answer is read once more.

    Raises:
        UsageError: it is no run of a loop, or its answer is nothing of that type.
    """
    if result.loop is msgspec.UNSET:
        if result.outcome == "waiting":
            return Ending(
                status="waiting",
                summary=result.error or "it waits for a person",
                run_id=result.run_id,
                error=result.error,
                waiting=tuple(result.waiting),
            )
        raise UsageError(f"Run '{result.run_id}' is not one of an assistant.")
    ending = msgspec.convert(result.loop, Ending)
    if output is None or not ending.succeeded:
        return ending
    try:
        return msgspec.structs.replace(ending, output=output.read(ending.summary))
    except OutputUnfit as unfit:
        raise UsageError(
            f"Run '{result.run_id}' has ended, and its answer does not fit output_type: {unfit}. Leave "
            "output_type out to get it as text."
        ) from None
