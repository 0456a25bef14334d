"""The beginning and the end of a run that a loop leads, as the log and the journal know them.

Keep true: how a run ended is kept with it, so that whoever asks later gets the same ending.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from placet.errors import UsageError
from placet.ir.result import ProposalResult
from placet.truncation import truncate
from placet.turns.asking import LOGGED, NAMED
from placet.turns.ending import FINISHED, MADE, OUTCOMES, Ending
from placet.turns.limits import TurnLimits
from placet.turns.output import OutputUnfit
from placet.turns.told import Answered, Failed, read

if TYPE_CHECKING:
    from placet.runtime.open_run import OpenRun
    from placet.turns.output import OutputType


def say_started(run: OpenRun, *, task: str, model: str, tools: Sequence[str], limits: TurnLimits) -> None:
    """Record that a loop begins."""
    about = run.about
    run.emit(
        "turn_loop_started",
        about.id,
        {
            "source": about.source,
            "task": run.brief(task, LOGGED),
            "model": model,
            "tools": list(tools),
            "limits": msgspec.to_builtins(limits),
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


def turns_so_far(run: OpenRun, offered: Container[str]) -> list[Ending]:
    """Each turn of a loop that waits, as it stood when it was broken off: its ending is not kept yet. `ended`
    of the run says what it waits for, and `offered` are the tools that the model could call."""
    assert run.ended is not None
    waits = ending_of(run.ended)
    found: list[Ending] = []
    number = 0
    for note in read(run.told):
        if not isinstance(note, Answered | Failed):
            continue
        turn = msgspec.structs.replace(waits, turns=1)
        if isinstance(note, Answered):
            called, refused = [], []
            for call in note.result.calls:
                number += 1
                status = run.came_of(number)
                if call.name not in offered or status == "rejected":
                    refused.append(truncate(call.name, NAMED))
                elif status in MADE:
                    called.append(call.name)
            turn = msgspec.structs.replace(
                turn,
                called=tuple(called),
                refused=tuple(refused),
                usage=note.result.usage,
                cost_usd=note.result.cost,
            )
        found.append(turn)
    return found or [waits]


def ending_of(result: ProposalResult, output: OutputType[Any] | None = None) -> Ending:
    """How a run of a loop ended, as it was kept. With an `output` type its answer is read once more.

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
    if output is None or ending.status not in FINISHED:
        return ending
    try:
        return msgspec.structs.replace(ending, output=output.read(ending.summary))
    except OutputUnfit as unfit:
        raise UsageError(
            f"Run '{result.run_id}' has ended, and its answer does not fit output_type: {unfit}. Leave "
            "output_type out to get it as text."
        ) from None
