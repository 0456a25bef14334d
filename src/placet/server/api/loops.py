"""Loops and their rounds; pause, stop, and the switch over all of them."""

from __future__ import annotations

import time
from typing import Any, Literal

import msgspec

from placet.app.escalations import diff_of
from placet.loops.delivery import round_data
from placet.loops.round import Round
from placet.loops.scheduler import pause, resume, stop
from placet.loops.timetable import Mark, Slot, is_held
from placet.server.answers import NotFound
from placet.server.api.coding import Diff
from placet.server.api.decisions import Reason
from placet.server.api.runs import Limit
from placet.server.endpoint import ApiCall, Endpoint


class LoopRow(msgspec.Struct, frozen=True, kw_only=True):
    """How a loop stands."""

    key: str
    name: str
    repository: str
    cadence: str
    due: float | None
    running: bool
    round: str | None
    """The round that runs, or was broken off."""
    last_round: str | None
    last: str | None
    last_ended_at: float | None
    failures: int
    paused: Mark | None
    stopped: Mark | None


class Loops(msgspec.Struct, frozen=True):
    """All loops, and the switch over them."""

    loops: list[LoopRow]
    switch: Mark | None
    """Who has stopped everything, and why."""


class RoundsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which rounds."""

    loop: str | None = None
    """The key of a loop."""
    limit: Limit = 50


class RoundPage(msgspec.Struct, frozen=True):
    """Rounds, newest first."""

    rounds: list[dict[str, Any]]


class LoopState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a loop is to do."""

    state: Literal["paused", "stopped", "running"]
    reason: Reason = ""


class Switch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether all loops are to be stopped."""

    on: bool
    reason: Reason = ""


def list_loops(call: ApiCall) -> Loops:
    """How all loops stand."""
    if call.token.tenant is not None:
        return Loops([], None)
    timetable = call.site.records.timetable
    return Loops([_row(slot) for slot in timetable.slots()], timetable.switch())


def _row(slot: Slot) -> LoopRow:
    return LoopRow(
        key=slot.key,
        name=slot.name,
        repository=slot.repository,
        cadence=slot.cadence,
        due=slot.due,
        running=is_held(slot, time.time()),
        round=slot.round or None,
        last_round=slot.last_round or None,
        last=slot.last,
        last_ended_at=slot.last_ended_at,
        failures=slot.failures,
        paused=slot.pause,
        stopped=slot.stop,
    )


def list_rounds(call: ApiCall) -> RoundPage:
    """The newest rounds."""
    if call.token.tenant is not None:
        return RoundPage([])
    found = call.site.records.rounds.listed(call.query.loop, limit=call.query.limit)
    return RoundPage([_shown(call, each) for each in found])


def _round(call: ApiCall) -> Round:
    found = call.site.records.rounds.get(call.path["round"]) if call.token.tenant is None else None
    if found is None:
        raise NotFound(f"There is no round '{call.path['round']}'.")
    return found


def _shown(call: ApiCall, round: Round) -> dict[str, Any]:
    shown = call.site.redactor.value(round_data(round))
    assert isinstance(shown, dict)
    return shown


def show_round(call: ApiCall) -> dict[str, Any]:
    """One round."""
    return _shown(call, _round(call))


def show_diff(call: ApiCall) -> Diff:
    """The change of a round, as its executor would bring it."""
    diff, missing = diff_of(_round(call))
    return Diff(call.site.redactor.text(diff), call.site.redactor.text(missing) or None)


def set_state(call: ApiCall) -> LoopRow:
    """Pause or stop a loop, or let it go on."""
    said: LoopState = call.body
    records = call.site.records
    key = call.path["loop"]
    if call.token.tenant is not None:
        raise NotFound(f"There is no loop '{key}'.")
    mark = Mark(at=time.time(), by=call.token.name, reason=said.reason)

    match said.state:
        case "paused":
            changed = pause(records.timetable, key, mark)
        case "stopped":
            changed = stop(records.timetable, key, mark)
        case "running":
            changed = resume(records.timetable, key, mark.at)
    if changed is None:
        raise NotFound(f"There is no loop '{key}'.")
    kind = {"paused": "loop_paused", "stopped": "loop_stopped", "running": "loop_resumed"}[said.state]
    records.note(kind, data={"loop": changed.name, "by": mark.by, "reason": mark.reason})
    return _row(changed)


def set_switch(call: ApiCall) -> Loops:
    """Stop all loops, or let them go on."""
    said: Switch = call.body
    if call.token.tenant is not None:
        raise NotFound("A tenant has no loops.")
    records = call.site.records
    mark = Mark(at=time.time(), by=call.token.name, reason=said.reason)
    records.timetable.set_switch(mark if said.on else None)
    records.note("loops_stopped" if said.on else "loops_resumed", data={"by": mark.by, "reason": mark.reason})
    return list_loops(call)


ENDPOINTS = (
    Endpoint("GET", "/loops", list_loops, "see", Loops, "List loops."),
    Endpoint("GET", "/rounds", list_rounds, "see", RoundPage, "List rounds.", query=RoundsQuery),
    Endpoint("GET", "/rounds/{round}", show_round, "see", dict[str, Any], "Show a round."),
    Endpoint("GET", "/rounds/{round}/diff", show_diff, "see", Diff, "Show the change of a round."),
    Endpoint(
        "POST",
        "/loops/{loop}/state",
        set_state,
        "start",
        LoopRow,
        "Pause or stop a loop, or let it go on.",
        body=LoopState,
    ),
    Endpoint(
        "POST", "/loops-switch", set_switch, "start", Loops, "Stop all loops, or let them go on.", body=Switch
    ),
)
