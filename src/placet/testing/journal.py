"""What every journal promises, as checks that any of them can be put through.

A check takes a place where runs are kept, and raises AssertionError where a promise is broken:

    @pytest.mark.parametrize("check", journal_suite, ids=lambda check: check.__name__)
    async def test_my_journal(check):
        await check(MyPlace())

Keep true:
1. A check uses the protocol alone, never what one implementation adds.
2. Each check stands alone, in a place of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from placet.errors import RunExists, RunHeld, UnknownRun
from placet.ir.action import Action
from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal
from placet.ir.result import (
    ActionResult,
    CompensationResult,
    CostSummary,
    Outcome,
    ProposalResult,
    Waiting,
)
from placet.ir.stop_cause import StopCause
from placet.policy.budget import CostBudget
from placet.runtime.journal import (
    Aborted,
    Beginning,
    Decided,
    Decision,
    Ended,
    Journal,
    Note,
    Replaced,
    RunJournal,
    RunRecord,
    Started,
    Taken,
    Tally,
    Tried,
)
from placet.runtime.scope import Scope
from placet.storage.lease import StopRequest
from placet.testing.event_store import AWKWARD


class JournalPlace(Protocol):
    """A place for runs, empty at first, that journals of several processes can open. Implement it to test a
    journal.
    """

    def open(self) -> Journal:
        """Open the journal, as one more process would."""
        ...

    async def lose_holders(self) -> None:
        """Simulate that every process that holds a run has died."""
        ...


Check = Callable[[JournalPlace], Awaitable[None]]

_PATIENCE = 1000
"""How often a hundredth of a second is waited for a run to be let go of."""
_MOMENT = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
_PLAN = Proposal(
    id="p",
    source="planner",
    context={"awkward": AWKWARD},
    actions=[Action(id="a\0", tool="t", parameters={"n": AWKWARD}), Action(id="b", tool="t")],
)
_RECORD = RunRecord(
    run_id="r",
    trace_id="0" * 32,
    proposal=_PLAN,
    scope=Scope(tenant="acme", caller_id="ada", claims={"awkward": AWKWARD}),
    budget=CostBudget(max_tool_calls=3, max_cost=0.5),
    must_succeed=True,
    beginning=Beginning(values={"": AWKWARD}, version=2**40, versions={"k": 7}),
)
_RESULT = ActionResult(
    action_id="a\0", status="succeeded", output=AWKWARD, state_changes={"k": AWKWARD}, timestamp=_MOMENT
)
_NOTES: Sequence[Note] = (
    Started("0-0", 1),
    Tried("0-0", 1),
    Started("0-0", 2),
    Ended("0-0", _RESULT, Tally(1, 1, 12.5, 2**60, 0.1), True),
    Replaced(1, 1, _PLAN, Beginning(values={"k": None})),
    Started("1-0-undo", 1),
    Decided("1-0-undo", Decision(choice="done", output=AWKWARD)),
    Decided("1-1", Decision(choice="retry")),
    Aborted(1, "é\0"),
)


def _same(actual: object, expected: object, what: str) -> None:
    # repr tells 1 from True and 1.0, and -0.0 from 0.0, which == does not.
    if actual != expected or repr(actual) != repr(expected):
        raise AssertionError(f"{what}: got {actual!r:.500}, expected {expected!r:.500}")


async def _refuses(call: Awaitable[object], error: type[Exception], words: str, what: str) -> None:
    try:
        await call
    except error as raised:
        if words not in str(raised):
            raise AssertionError(f"{what}: {raised} does not name {words!r}") from None
        return
    raise AssertionError(f"{what} was accepted")


async def _take(place: JournalPlace, run_id: str = "r") -> Taken:
    """Take a run that was let go of, which may take a moment to arrive."""
    journal = place.open()
    for last in (*(False,) * _PATIENCE, True):
        try:
            taken = await journal.take(run_id)
            break
        except RunHeld:
            if last:
                raise
            await asyncio.sleep(0.01)
    if not isinstance(taken, Taken):
        raise AssertionError(f"take gave {taken!r:.200}, expected a run to go on with")
    return taken


async def _noted(place: JournalPlace, *notes: Note) -> RunJournal:
    """A run with these notes on disk."""
    held = await place.open().begin(_RECORD)
    for note in notes:
        held.note(note)
    await held.settle()
    return held


def _ending(outcome: Outcome) -> ProposalResult:
    return ProposalResult(
        proposal_id="p",
        run_id="r",
        trace_id="0" * 32,
        outcome=outcome,
        error="é\0",
        results=[_RESULT],
        cost=CostSummary(tool_calls=2**40, total_duration_ms=0.1),
        waiting=[Waiting(kind="unknown_outcome", action_id="a\0", reason="é")],
        irreversible=["a\0"],
        compensations=[CompensationResult(action_id="b", status="failed", error="no")],
        replans=2,
    )


async def what_a_run_was_asked_comes_back(place: JournalPlace) -> None:
    held = await _noted(place)
    held.release()

    _same((await _take(place)).record, _RECORD, "the record")


async def notes_come_back_equal_and_in_order(place: JournalPlace) -> None:
    held = await _noted(place, *_NOTES)
    held.release()

    _same(list((await _take(place)).notes), list(_NOTES), "the notes")


async def notes_of_several_holders_stand_behind_each_other(place: JournalPlace) -> None:
    held = await _noted(place, *_NOTES[:3])
    for note in _NOTES[3:6]:
        held.note(note)
    held.release()
    second = (await _take(place)).journal
    for note in _NOTES[6:]:
        second.note(note)
    await second.settle()
    second.release()

    _same(list((await _take(place)).notes), list(_NOTES), "the notes of three holders")


async def an_id_is_taken_once(place: JournalPlace) -> None:
    held = await _noted(place, *_NOTES[:2])

    await _refuses(place.open().begin(_RECORD), RunExists, "'r'", "a second run of the same id")
    await held.end(_ending("succeeded"))
    await _refuses(place.open().begin(_RECORD), RunExists, "'r'", "the id of a run that has ended")


async def an_unknown_run_is_named(place: JournalPlace) -> None:
    await _noted(place)

    for run_id in ("nope", "", "R", "r ", "r%", "%", "'"):
        await _refuses(place.open().take(run_id), UnknownRun, f"'{run_id}'", f"take({run_id!r})")


async def a_run_has_one_holder(place: JournalPlace) -> None:
    held = await _noted(place, _NOTES[0])

    await _refuses(place.open().take("r"), RunHeld, "'r'", "a run that is held")
    held.release()
    await _take(place)
    await _refuses(place.open().take("r"), RunHeld, "'r'", "a run that was taken up again")


async def whoever_lost_a_run_can_note_nothing_more(place: JournalPlace) -> None:
    first = await _noted(place, *_NOTES[:2])
    await place.lose_holders()
    second = (await _take(place)).journal

    first.note(_NOTES[2])
    await _refuses(first.settle(), RunHeld, "'r'", "a note of somebody who lost the run")
    first.note(_NOTES[3])
    await _refuses(first.settle(), RunHeld, "'r'", "a second note of somebody who lost the run")
    await _refuses(first.end(_ending("aborted")), RunHeld, "'r'", "an end by somebody who lost the run")
    first.release()
    await _refuses(first.settle(), RunHeld, "'r'", "going on by somebody who lost the run")

    await _refuses(place.open().take("r"), RunHeld, "'r'", "a run that its old holder let go of")
    second.note(_NOTES[4])
    await second.settle()
    second.release()
    _same(list((await _take(place)).notes), [*_NOTES[:2], _NOTES[4]], "the notes after a change of hands")


async def that_a_run_is_lost_is_told_also_to_whoever_has_nothing_to_note(place: JournalPlace) -> None:
    """Before something is taken back, say, which needs no note of its own."""
    first = await _noted(place, *_NOTES[:2])
    await place.lose_holders()
    await _take(place)

    await _refuses(first.settle(), RunHeld, "'r'", "going on by somebody who lost the run")


async def a_request_to_stop_reaches_whoever_works_on_the_run(place: JournalPlace) -> None:
    """From another process, whoever claims the run next included; the first one stands, other runs hear
    nothing."""
    held = await place.open().begin(_RECORD)
    other = await place.open().begin(msgspec.structs.replace(_RECORD, run_id="r2"))
    _same(held.stop_requested(), None, "the request to stop before there was one")
    first = StopRequest(reason="é 😀 '; --", cause=StopCause.KILL_SWITCH)
    elsewhere = place.open()
    elsewhere.request_stop("r", first)
    elsewhere.request_stop("r", StopRequest(reason="really"))
    _same(held.stop_requested(), first, "the request to stop")
    _same(other.stop_requested(), None, "the request to stop of another run")
    held.release()
    taken = await _take(place)
    _same(taken.journal.stop_requested(), first, "the request to stop after another claim")
    try:
        elsewhere.request_stop("nobody", first)
    except UnknownRun:
        pass
    else:
        raise AssertionError("a request to stop a run that is not there was accepted")


async def a_request_to_stop_that_was_followed_is_done_with(place: JournalPlace) -> None:
    """A run that is resumed later goes on. One that did not stop because of the request still has to."""
    request = StopRequest(reason="enough")
    for is_stopped, left in ((False, request), (True, None)):
        run_id = f"r{is_stopped}"
        held = await place.open().begin(_renamed(run_id))
        place.open().request_stop(run_id, request)
        await held.end(_ending("canceled"), is_stopped=is_stopped)
        taken = await _take(place, run_id)
        _same(taken.journal.stop_requested(), left, "the request to stop once it was resumed")


async def that_a_run_is_lost_stops_whoever_had_it(place: JournalPlace) -> None:
    """Without a note, and so also while nothing is recorded."""
    lost = await place.open().begin(_RECORD)
    await place.lose_holders()
    taken = await _take(place)
    found = lost.stop_requested()
    _same(found.cause if found is not None else None, StopCause.LEASE_LOST, "why the first holder stops")
    _same(taken.journal.stop_requested(), None, "the request to stop of the new holder")


async def a_run_that_has_ended_says_how(place: JournalPlace) -> None:
    outcomes: tuple[Outcome, ...] = ("succeeded", "partial", "aborted", "refused", "budget")
    for outcome in outcomes:
        held = await place.open().begin(_renamed(outcome))
        held.note(_NOTES[0])
        result = _ending(outcome)

        await held.end(result)

        _same(await place.open().take(outcome), result, f"a run that ended as {outcome}")
        _same(await place.open().take(outcome), result, "the same, asked again")


async def what_waits_or_was_canceled_can_be_taken_up_again(place: JournalPlace) -> None:
    outcomes: tuple[Outcome, ...] = ("waiting", "canceled")
    for outcome in outcomes:
        held = await place.open().begin(_renamed(outcome))
        for note in _NOTES:
            held.note(note)

        await held.end(_ending(outcome))

        taken = await _take(place, outcome)
        _same(list(taken.notes), list(_NOTES), f"the notes of a run that is {outcome}")
        await _refuses(place.open().take(outcome), RunHeld, outcome, "a run that was taken up again")
        taken.journal.note(_NOTES[0])
        await taken.journal.end(_ending("succeeded"))
        _same(await place.open().take(outcome), _ending("succeeded"), "its end")


async def runs_do_not_mix(place: JournalPlace) -> None:
    journal = place.open()
    ids = ["r", "R", "r'", "é", "e\u0301", "r%", "r_"]
    held = [await journal.begin(_renamed(run_id)) for run_id in ids]
    for number, each in enumerate(held):
        each.note(Started(f"0-{number}", number))
        await each.settle()
        each.release()

    for number, run_id in enumerate(ids):
        taken = await _take(place, run_id)
        _same(list(taken.notes), [Started(f"0-{number}", number)], f"the notes of {run_id!r}")
        _same(taken.record.run_id, run_id, "the id")


async def a_result_that_changes_later_is_kept_as_it_was(place: JournalPlace) -> None:
    held = await place.open().begin(_RECORD)
    changing: dict[str, JsonValue] = {"k": [1]}
    result = ActionResult(
        action_id="a", status="succeeded", output=changing, state_changes={}, timestamp=_MOMENT
    )
    held.note(Ended("0-0", result, Tally()))
    changing["k"] = "spoilt"
    await held.settle()
    held.release()

    (note,) = (await _take(place)).notes
    assert isinstance(note, Ended)
    _same(note.result.output, {"k": [1]}, "an output that was changed after it was noted")


def _renamed(run_id: str) -> RunRecord:
    return RunRecord(run_id=run_id, trace_id="0" * 32, proposal=_PLAN)


journal_suite: Sequence[Check] = (
    what_a_run_was_asked_comes_back,
    notes_come_back_equal_and_in_order,
    notes_of_several_holders_stand_behind_each_other,
    an_id_is_taken_once,
    an_unknown_run_is_named,
    a_run_has_one_holder,
    whoever_lost_a_run_can_note_nothing_more,
    that_a_run_is_lost_is_told_also_to_whoever_has_nothing_to_note,
    a_request_to_stop_reaches_whoever_works_on_the_run,
    a_request_to_stop_that_was_followed_is_done_with,
    that_a_run_is_lost_stops_whoever_had_it,
    a_run_that_has_ended_says_how,
    what_waits_or_was_canceled_can_be_taken_up_again,
    runs_do_not_mix,
    a_result_that_changes_later_is_kept_as_it_was,
)
"""One check for each promise of `Journal`. A check is an async function that takes a `JournalPlace`, and
raises `AssertionError` if the promise is broken."""
