"""A run told in sentences: what happened in which order, who decided, what was undone, what to do next.

Keep true:
1. Only what the events say is told; where the log ends before the run does, the story says so.
2. What went wrong is told before what went well is summed up; nothing is left out without being counted.
3. The last lines say what to do, with a command where there is one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from placet.events.event import Event
from placet.render.history import History
from placet.render.marks import MARKS, NONZERO, mark, outcome_mark
from placet.render.skill_story import tell_skills
from placet.render.step_story import resumed_words, section, status_of, tell_restored, tell_step, waited_ms
from placet.render.steps import INTERRUPTED, Part, Step, unundone_words
from placet.render.text import count, duration, listing, moment, value
from placet.render.turn_story import tell_next, tell_turns
from placet.safe_text import clean

_FINE_SHOWN = 40
"""Of more steps than this that went well or did not run, the rest are counted."""
_TROUBLE_SHOWN = 200
_ENDS = {
    "succeeded": "It succeeded",
    NONZERO: "Every action ran, but a command did not end with exit code 0",
    "partial": "It succeeded in part",
    "aborted": "It was aborted",
    "refused": "It was refused",
    "canceled": "It was canceled",
    "budget": "It ran out of budget",
    "waiting": "It waits for a person",
}
_LONG = 300
"""Longest text that is quoted."""


def tell(
    events: Iterable[Event], *, log: str = "", db: str | None = None, now: float | None = None
) -> list[Text]:
    """One run as a story, a line each; the events of other runs must have been left out.

    Args:
        log: The file the events come from, for the commands at the end.
        db: The database that the person named, for the same.
        now: The present in seconds since the epoch; without it, what the clock says.
    """
    return tell_history(History.of(events), log=log, db=db, now=now)


def tell_history(
    history: History, *, log: str = "", db: str | None = None, now: float | None = None
) -> list[Text]:
    """The same, from events that were put together before."""
    now = time.time() if now is None else now
    lines: list[Text] = []
    if history.coding:
        from placet.render.code_story import tell_coding

        return tell_coding(history, log=log, db=db)
    if not history.events and not history.parts and history.led is None:
        return [Text("Nothing happened: there are no events.")]
    if history.led is not None:
        return tell_turns(history, log=log, db=db, now=now)
    lines += _opening(history, now)
    several = len(history.parts) > 1
    for number, part in enumerate(history.parts.values(), start=1):
        if several:
            lines += [Text(), Text(f"Plan {number}: '{clean(part.proposal_id, 60)}'", style="bold")]
        lines += section("What happened", _happened(part, now))
        lines += section("What it changed", _changed(part))
        lines += section("What was undone", _undone(part))
        lines += section("What was not undone", _stuck(part))
    lines += section("Replanning", _replans(history))
    lines += section("Skills", tell_skills(history.skills))
    lines += section("What to do next", tell_next(history, log, db, now))
    return lines


def _opening(history: History, now: float) -> Iterator[Text]:
    part = history.last or Part("")
    first = next(iter(history.parts.values()), part)
    line = Text("Run ")
    line.append(clean(history.run_id or "without an id", 60), style="bold")
    line.append(f" of proposal '{clean(first.proposal_id, 60)}'")
    if first.source and first.source not in ("unknown", first.proposal_id):
        line.append(f", proposed by '{clean(first.source, 60)}'")
    if history.caller or history.tenant:
        who = [f"for caller '{clean(history.caller, 60)}'"] if history.caller else []
        who += [f"in tenant '{clean(history.tenant, 60)}'"] if history.tenant else []
        line.append(", " + " ".join(who))
    yield line
    facts = []
    if first.started is not None:
        facts.append(f"Began {moment(first.started)}")
    if first.started is not None and part.ended is not None:
        took = f"took {duration((part.ended - first.started) * 1000) or 'an unknown time'}"
        waited = duration(waited_ms(history, part.ended))
        facts.append(f"{took} ({waited} of it waiting for people)" if waited else took)
    if part.action_count is not None:
        facts.append(part.size)
    calls = part.cost.get("tool_calls")
    if calls is not None:
        facts.append(count(int(calls), "tool call"))
    retries = part.cost.get("retries")
    if retries:
        facts.append(count(int(retries), "retry", "retries"))
    if facts:
        yield Text(", ".join(facts) + ".")
    if part.serial_order:
        order = ", ".join(clean(name, 40) for name in part.serial_order[:_FINE_SHOWN])
        more = (
            f" and {len(part.serial_order) - _FINE_SHOWN:,} more"
            if len(part.serial_order) > _FINE_SHOWN
            else ""
        )
        yield Text(f"Whatever ran at once, it counts as run in this order: {order}{more}.")
    for resumption in history.resumptions:
        yield Text(resumed_words(resumption))
    yield _outcome(part, now)
    for failure in history.sink_failures[:3]:
        yield Text(
            f"Some events may be missing elsewhere: a sink failed ({clean(failure, _LONG)}).", style="yellow"
        )


def _outcome(part: Part, now: float) -> Text:
    if part.outcome is None:
        look = MARKS["unknown"]
        return Text(
            f"{look.sign} The log ends before the run does: it still goes on, or its process was stopped.",
            style=look.style,
        )
    outcome = part.outcome_look or part.outcome
    look = outcome_mark(outcome)
    words = _ENDS.get(outcome) or f"It ended as '{clean(part.outcome, 60)}'"
    if part.outcome == "waiting" and part.is_settled(now):
        words = "It let go to wait for a person. Nothing is left to decide: it goes on when it is resumed."
        return Text(f"{look.sign} {words}", style=look.style)
    if part.outcome == "waiting" and part.error is not None and part.error.startswith("waits "):
        return Text(f"{look.sign} It {clean(part.error, _LONG)}", style=look.style)
    line = Text(f"{look.sign} {words}", style=look.style)
    line.append(f": {clean(part.error, _LONG)}" if part.error else ".", style="")
    return line


def _happened(part: Part, now: float) -> Iterator[Text]:
    if part.outcome == "refused":
        yield Text("  Nothing ran: the plan was refused as a whole.")
        return
    steps = [part.steps[name] for name in part.order if part.steps[name].undoes is None]
    shown = _worth_telling(steps)
    for group in together(shown):
        if len(group) > 1:
            yield Text(f"  {len(group)} at once:", style="dim")
        for step in group:
            yield from tell_step(
                step, "    " if len(group) > 1 else "  ", part.started, now, with_parameters=True
            )
    if len(shown) < len(steps):
        rest = Counter(map(status_of, steps))
        rest.subtract(map(status_of, shown))
        words = ", ".join(f"{n:,} {mark(status).word}" for status, n in rest.items() if n)
        yield Text(f"  … and {len(steps) - len(shown):,} more: {clean(words, _LONG)}", style="dim")
    # What is only there to take others back does not wait to begin.
    planned = set(part.serial_order or part.steps)
    untouched = [name for name in part.steps if name not in part.order and name in planned]
    if part.outcome in (None, "waiting", INTERRUPTED) and untouched:
        yield Text(f"  {count(len(untouched), 'action')} had not begun: {listing(untouched)}", style="dim")


def _worth_telling(steps: list[Step]) -> list[Step]:
    """Of a long run, the first steps of each kind, and more of those that went wrong."""
    room = {"succeeded": _FINE_SHOWN, "skipped": _FINE_SHOWN, "canceled": _FINE_SHOWN}
    told: list[Step] = []
    for step in steps:
        status = status_of(step)
        left = room.get(status, _TROUBLE_SHOWN)
        if left > 0:
            told.append(step)
        room[status] = left - 1
    return told


def together(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Steps in the order in which they started, those that overlapped with one another in one group."""
    group: list[Step] = []
    first_end: float = 0
    for step in steps:
        began, ended = step.began_at, step.ended_at if step.ended_at is not None else float("inf")
        if group and began is not None and began < first_end:
            group.append(step)
            first_end = min(first_end, ended)
            continue
        if group:
            yield group
        group, first_end = [step], ended if began is not None else 0
    if group:
        yield group


def _changed(part: Part) -> Iterator[Text]:
    undone = part.outcome == "aborted"
    changes = [
        (key, new, part.steps[name].id)
        for name in part.order
        if name in part.steps
        for key, new in part.steps[name].changes.items()
    ]
    for key, new, by in changes[:_FINE_SHOWN]:
        note = ", later undone" if undone else ""
        yield Text(f"  {clean(key, 60)} = {value(new)}  (by '{clean(by, 60)}'{note})")
    if len(changes) > _FINE_SHOWN:
        yield Text(f"  … and {len(changes) - _FINE_SHOWN:,} more", style="dim")


def _undone(part: Part) -> Iterator[Text]:
    for name in part.compensated:
        step = part.steps[name]
        assert step.undoing is not None
        how = f" with {clean(step.undoing.by, 60)}" if step.undoing.by else ""
        if step.undoing.status == "succeeded":
            yield Text(f"  {MARKS['rolled_back'].sign} {clean(name, 60)} was taken back{how}", style="blue")
        elif step.undoing.status == "executing":
            yield Text(
                f"  ? {clean(name, 60)}: taking it back{how} began, and its end is not in the log",
                style="yellow",
            )
    yield from tell_restored(part)
    if part.rolled_back_keys:
        keys = listing(part.rolled_back_keys)
        yield Text(f"  {MARKS['rolled_back'].sign} the state was put back: {keys}", style="blue")
    elif part.rolled_back_keys is not None and part.restored is None:
        yield Text("  the state had not been changed, so nothing had to be put back", style="dim")


def _stuck(part: Part) -> Iterator[Text]:
    for name in part.compensated:
        step = part.steps[name]
        if step.undoing is not None and step.is_stuck:
            how = f" with {clean(step.undoing.by, 60)}" if step.undoing.by else ""
            why = clean(step.undoing.error or "no reason was logged", _LONG)
            yield Text(f"  ✗ {clean(name, 60)}: taking it back{how} failed: {why}", style="bold red")
    for name in part.staying[:_FINE_SHOWN]:
        found = part.steps.get(name)
        what = f" ({clean(found.does, 60)})" if found is not None and found.does else ""
        look = MARKS["stays_done"]
        how = unundone_words(found if found is not None else Step(name))
        yield Text(
            f"  {look.sign} {clean(name, 60)}{what} {look.word}: it took effect; {clean(how, _LONG)}",
            style=look.style,
        )
    if len(part.staying) > _FINE_SHOWN:
        yield Text(f"  … and {len(part.staying) - _FINE_SHOWN:,} more", style="dim")
    if elsewhere := part.restored_steps:
        names = listing(step.id for step in elsewhere)
        yield Text(f"  {names}: what {_it(elsewhere)} did outside of the folder, if anything, stays done")
    for step in part.steps.values():
        if step.status == "unknown":
            yield Text(
                f"  ? {clean(step.id, 60)}: it is not known whether it took effect", style="bold yellow"
            )


def _it(steps: Sequence[Step]) -> str:
    return "it" if len(steps) == 1 else "they"


def _replans(history: History) -> Iterator[Text]:
    words = {
        "replan_attempted": "a new plan was asked for",
        "replan_proposal_received": "a new plan came",
        "replan_rejected": "the new plan was not accepted",
        "replan_exhausted": "no attempt was left",
    }
    for kind, reason in history.replans[:_FINE_SHOWN]:
        why = f": {clean(reason, _LONG)}" if reason else ""
        yield Text(f"  {words.get(kind, clean(kind, 40))}{why}")
