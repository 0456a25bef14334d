"""A run of turns told in sentences: what was asked of the model, what it asked for, what it was let do.

Keep true:
1. Every call is told or counted, and of each that is told who decided: a rule, a permission, a person.
2. However many turns there are, the story can be read: those in the middle in which nothing happened that a
   person wants to know of are summed up, and the command that shows all of them is named.
3. What models, tools and people wrote is cleaned before it is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from placet.render.advice import advise, every_event
from placet.render.calls import came_words, given_words
from placet.render.history import History
from placet.render.marks import MARKS, mark, outcome_mark
from placet.render.questions import posture_words
from placet.render.skill_story import tell_skills
from placet.render.step_story import resumed_words, section, status_of, tell_restored, tell_step, waited_ms
from placet.render.steps import INTERRUPTED, Part, Step
from placet.render.text import basis_text, count, duration, listing, moment, value
from placet.render.turns import (
    Gap,
    Led,
    Made,
    Message,
    Turn,
    is_notable,
    outcome_of,
    spent_words,
    worth_telling,
)
from placet.safe_text import clean

_LONG = 300
_SHORT = 160
_CALLS_SHOWN = 20
"""Of more calls in one turn, the rest are counted."""
_CHANGES_SHOWN = 40
_RESUMED_SHOWN = 5
_ENDS = {
    "success": "The model was done",
    "max_turns": "Its turns ran out",
    "cancelled": "It was cancelled",
    "error": "It broke off",
    "stuck": "It went in circles",
    "budget": "It ran into a limit",
    "waiting": "It waits for a person",
    "unmet": "Its goal is not met",
    "unsupported": "It answered without support",
}
_LIMITS = {
    "turns": "{:,} turns",
    "tokens": "{:,} tokens",
    "cost_usd": "${:g}",
    "time_s": "{:g} s",
    "tool_calls": "{:,} calls",
}
_UNREADABLE = Led()


def tell_turns(history: History, *, log: str, db: str | None, now: float) -> list[Text]:
    """A run that a loop led, as a story; see `story.tell_history`."""
    led = history.led or _UNREADABLE
    whole = history.whole()
    lines = list(_opening(history, led, whole, now))
    lines += section("What happened", _happened(history, led, whole, log, db, now))
    lines += section("What it changed", _changed(whole))
    lines += section("What is not known", _unknown(led, whole))
    lines += section("Skills", tell_skills(history.skills))
    lines += section("What to do next", tell_next(history, log, db, now))
    return lines


# The beginning and the end, first


def _opening(history: History, led: Led, whole: Part, now: float) -> Iterator[Text]:
    line = Text("Chat " if led.is_chat else "Run ")
    line.append(clean(history.run_id or "without an id", 60), style="bold")
    line.append(f", led by '{clean(led.source or whole.source or 'unknown', 60)}'")
    line.append(f" with the model '{clean(led.model, 80)}'" if led.model else "")
    if history.caller or history.tenant:
        who = [f"for caller '{clean(history.caller, 60)}'"] if history.caller else []
        who += [f"in tenant '{clean(history.tenant, 60)}'"] if history.tenant else []
        line.append(", " + " ".join(who))
    yield line
    task = led.task or (led.messages[0].text if led.messages and not led.is_chat else "")
    if task:
        yield Text(f"Task: {clean(task, _LONG)}")
    yield Text(", ".join(_facts(history, led, whole)) + ".")
    if led.tools:
        limits = [
            words.format(amount)
            for name, words in _LIMITS.items()
            if isinstance(amount := led.limits.get(name), int | float) and not isinstance(amount, bool)
        ]
        at_most = (
            f"; at most {', '.join(limits)}{' for each message' if led.is_chat else ''}" if limits else ""
        )
        yield Text(f"It was offered {listing(led.tools)}{at_most}.")
    left_out = len(history.resumptions) - _RESUMED_SHOWN
    if left_out > 0:
        yield Text(f"It was taken up again {count(left_out, 'time')} before those that follow.")
    for resumption in history.resumptions[-_RESUMED_SHOWN:]:
        yield Text(resumed_words(resumption))
    for at, posture in history.postures[-_RESUMED_SHOWN:]:
        yield Text(f"On {moment(at)} the person changed what needs asking: {posture_words(posture)}.")
    yield from _outcome(led, whole)
    for failure in history.sink_failures[:3]:
        yield Text(
            f"Some events may be missing elsewhere: a sink failed ({clean(failure, _LONG)}).", style="yellow"
        )


def _facts(history: History, led: Led, whole: Part) -> Iterator[str]:
    turns = led.turns()
    if led.started is not None:
        yield f"Began {moment(led.started)}"
        ended = led.end.at if led.end is not None else None
        if ended is not None and ended >= led.started:
            took = f"took {duration((ended - led.started) * 1000)}"
            waited = duration(waited_ms(history, ended))
            yield f"{took} ({waited} of it waiting for people)" if waited else took
    if led.is_chat:
        yield count(len(led.messages), "message")
    yield count(led.count_turns(), "turn")
    yield _calls_words(turns, whole)
    if led.spent:
        yield spent_words(led.spent)


def _calls_words(turns: Sequence[Turn], whole: Part) -> str:
    """How many calls there were, and what became of them."""
    found = Counter(_statuses(turns, whole.steps))
    if not found:
        return "no calls"
    if list(found) == ["succeeded"]:
        return f"{count(found.total(), 'call')}, all succeeded" if found.total() > 1 else "1 call, succeeded"
    words = ", ".join(f"{n:,} {clean(mark(status).word, 30)}" for status, n in found.most_common())
    return f"{count(found.total(), 'call')} ({words})"


def _statuses(turns: Sequence[Turn], steps: Mapping[str, Step]) -> Iterator[str]:
    for turn in turns:
        for name in turn.all_ids():
            if name in turn.refusals:
                yield "rejected"
            else:
                yield status_of(steps[name]) if name in steps else "skipped"


def _outcome(led: Led, whole: Part) -> Iterator[Text]:
    state = led.state(bool(whole.waiting))
    if state is None:
        look = MARKS["unknown"]
        yield Text(
            f"{look.sign} The log ends before the run does: it still goes on, or its process was stopped.",
            style=look.style,
        )
        return
    look = outcome_mark(state)
    if state == INTERRUPTED:
        yield Text(f"{look.sign} It was broken off: its process is gone.", style=look.style)
        return
    if led.end is None:
        reason = "; ".join(clean(wait.reason, 120) for wait in whole.waiting[:3])
        yield Text(f"{look.sign} It waits for a person: {reason}", style=look.style)
        return
    if led.is_left:
        look = outcome_mark("left")
        yield Text(f"{look.sign} The conversation waits for the next message.", style=look.style)
        return
    yield from _end(led.end.status, led.end.error, led.end.summary, look.sign, look.style)
    if led.end.is_basis_known and led.end.status in ("success", "unsupported"):
        yield Text(f"  It rests on {basis_text(led.end.looked, led.end.changed, led.end.ran)}.")


def _end(status: str, error: str | None, summary: str, sign: str, style: str) -> Iterator[Text]:
    line = Text(f"{sign} {_ENDS.get(status) or 'It ended as ' + clean(status, 40)}", style=style)
    line.append(f": {clean(error, _LONG)}" if error else ".", style="")
    yield line
    if summary and summary != error:
        yield Text(f"  It said last: {clean(summary.strip(), _LONG)}")


# Turn by turn


def _happened(
    history: History, led: Led, whole: Part, log: str, db: str | None, now: float
) -> Iterator[Text]:
    owner = {id(turn): message for message in led.messages for turn in message.turns}
    parts = {name: part for part in history.parts.values() for name in part.steps}
    told: Message | None = None
    is_chat = led.is_chat or len(led.messages) > 1
    model = led.model
    for item in worth_telling(led.turns(), lambda turn: is_notable(turn, whole.steps)):
        if isinstance(item, Gap):
            yield from _summed_up(item, owner, whole, is_chat, every_event(history, log, db))
            continue
        message = owner[id(item)]
        if message is not told:
            if is_chat:
                yield from _ended_message(told)
                yield _said(message)
            told = message
        if item.model and item.is_of_model and item.model != model:
            if model:
                yield Text(f"  From here on '{clean(item.model, 80)}' answered.", style="dim")
            model = item.model
        yield from _turn(item, led.started)
        yield from _calls(item, whole.steps, parts, led, now)
    if is_chat:
        yield from _ended_message(told)
        for message in led.messages:
            if not message.turns and message is led.messages[-1]:
                yield _said(message)
                yield from _ended_message(message)
    known = {name for turn in led.turns() for name in turn.all_ids()}
    lost = [step for name, step in whole.steps.items() if name not in known]
    if lost:
        yield Text("  Of turns that are not in the log:", style="dim")
        for step in lost[:_CALLS_SHOWN]:
            yield from tell_step(step, "    ", led.started, now)
            yield from _made(led.made.get(step.id))
        if len(lost) > _CALLS_SHOWN:
            yield Text(f"    … and {len(lost) - _CALLS_SHOWN:,} more calls", style="dim")


def _said(message: Message) -> Text:
    line = Text("  > ", style="bold")
    line.append(clean(message.text.strip(), _LONG) or "(no words)", style="bold")
    if message.at is not None:
        line.append(f"  {moment(message.at)}", style="dim")
    return line


def _ended_message(message: Message | None) -> Iterator[Text]:
    """How a message ended, unless the model was simply done."""
    if message is None or message.ended is None or message.ended.status == "success":
        return
    ended = message.ended
    look = outcome_mark(outcome_of(ended.status))
    words = _ENDS.get(ended.status) or f"It ended as {clean(ended.status, 40)}"
    error = f": {clean(ended.error, _LONG)}" if ended.error else "."
    yield Text(f"  {look.sign} {words}{error}", style=look.style)


def _turn(turn: Turn, origin: float | None) -> Iterator[Text]:
    for results, turns in turn.made_room:
        words = f"{count(results, 'result')} shortened, {count(turns, 'turn')} left out"
        yield Text(f"  ~ Room was made in the conversation: {words}.", style="dim")
    for failure in turn.failures:
        yield Text(f"  ✗ Turn {turn.number:,} got no answer: {clean(failure, _LONG)}", style="bold red")
    if turn.is_answered:
        line = Text("  ")
        line.append(f"Turn {turn.number:,}", style="bold")
        said = clean(turn.text.strip(), _SHORT)
        if not turn.is_of_model:
            line.append(f": the runtime itself asked for {_names(turn.calls)}, for a small model")
        elif turn.calls:
            line.append(f" asked for {_names(turn.calls)}")
            line.append(f", and said: {said}" if said else "")
        else:
            line.append(f" answered: {said}" if said else " answered nothing")
        if turn.stop == "length":
            line.append(" (cut off: it ran into the limit on its length)", style="yellow")
        elif turn.stop == "refused":
            line.append(" (it would not answer)", style="yellow")
        if origin is not None and turn.at is not None and 0 <= turn.at - origin < 1e9:
            line.append(f"  +{turn.at - origin:.3f} s", style="dim")
        yield line
    elif turn.refusals:
        yield Text(f"  Turn {turn.number:,}", style="bold")


def _names(calls: Sequence[str]) -> str:
    """The tools that were asked for, each once.

    >>> _names(["look", "look", "write"])
    'look (2 times), write'
    """
    found = Counter(calls)
    words = [f"{clean(name, 40)}{f' ({n:,} times)' if n > 1 else ''}" for name, n in found.items()]
    return ", ".join(words[:8]) + (f" and {len(words) - 8:,} more" if len(words) > 8 else "")


def _calls(
    turn: Turn, steps: Mapping[str, Step], parts: Mapping[str, Part], led: Led, now: float
) -> Iterator[Text]:
    names = turn.all_ids()
    for n, name in enumerate(names[:_CALLS_SHOWN]):
        tool = turn.calls[n] if n < len(turn.calls) else ""
        refusal = turn.refusals.get(name)
        if refusal is not None:
            look = MARKS["rejected"]
            line = Text(f"    {look.sign} ", style=look.style)
            line.append(clean(name, 60), style="bold")
            line.append(f" ({clean(refusal.tool or tool, 60)})")
            line.append(" was refused before it became a plan", style=look.style)
            line.append(f": {clean(refusal.error, _LONG)}")
            yield line
        elif name in steps:
            yield from tell_step(steps[name], "    ", led.started, now)
            yield from _made(led.made.get(name))
            yield from (line for line in tell_restored(parts[name]))
        else:
            look = MARKS["skipped"]
            yield Text(f"    {look.sign} {name} ({clean(tool, 60)}) was not run", style=look.style)
    if len(names) > _CALLS_SHOWN:
        rest = [status_of(steps[name]) if name in steps else "skipped" for name in names[_CALLS_SHOWN:]]
        words = ", ".join(f"{n:,} {clean(mark(s).word, 30)}" for s, n in Counter(rest).most_common())
        yield Text(f"    … and {len(rest):,} more calls: {words}", style="dim")
    if turn.is_warned:
        yield Text("    ! The model was warned that it repeats itself.", style="yellow")


def _made(made: Made | None) -> Iterator[Text]:
    """What a call was given, and how its result begins."""
    if made is None:
        return
    words = [clean(given_words(made.parameters), _SHORT // 2)]
    # Why it failed stands above.
    words += [clean(came_words(made.text, made.parameters), _SHORT // 2)] * (made.status == "succeeded")
    if any(words):
        yield Text(f"      {' → '.join(filter(None, words))}", style="dim")


def _summed_up(
    gap: Gap, owner: Mapping[int, Message], whole: Part, is_chat: bool, command: str
) -> Iterator[Text]:
    words = f"{count(len(gap.turns), 'turn')}, {_calls_words(gap.turns, whole)}"
    if is_chat:
        words += f", in {count(len({id(owner[id(turn)]) for turn in gap.turns}), 'message')}"
    yield Text(f"  … {gap.words}: {words}. To see all of it: {command}", style="dim")


# What came of it


def _changed(whole: Part) -> Iterator[Text]:
    changes = [(key, new, step.id) for step in whole.steps.values() for key, new in step.changes.items()]
    for key, new, by in changes[:_CHANGES_SHOWN]:
        yield Text(f"  {clean(key, 60)} = {value(new)}  (by '{clean(by, 60)}')")
    if len(changes) > _CHANGES_SHOWN:
        yield Text(f"  … and {len(changes) - _CHANGES_SHOWN:,} more", style="dim")


def _unknown(led: Led, whole: Part) -> Iterator[Text]:
    for step in whole.steps.values():
        if step.status in ("unknown", "in_flight"):
            what = f" ({clean(step.does, 60)})" if step.does else ""
            words = f"{clean(step.id, 60)}{what}: it is not known whether it took effect"
            yield Text(f"  ? {words}", style="bold yellow")
            made = led.made.get(step.id)
            if made is not None and made.parameters:
                yield Text(f"    It was called with {clean(given_words(made.parameters), _LONG)}")


def tell_next(history: History, log: str, db: str | None, now: float) -> Iterator[Text]:
    """Next steps, a line each."""
    for advice in advise(history, log, db, now=now):
        yield Text(f"  - {advice.sentence}", style="bold yellow" if advice.is_urgent else "")
        if advice.command:
            yield Text(f"      {advice.command}", style="bold")
