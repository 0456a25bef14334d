"""What became of one action, told in sentences; and what every story needs besides.

Keep true:
1. Only what the events say is told.
2. Whoever decided is named: a rule, a permission, a person and when.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text

from placet.render.calls import given_words
from placet.render.history import History, Resumption
from placet.render.marks import AWAITING, MARKS, NONZERO, mark
from placet.render.questions import Question, answer_words, reason_words, trail_words, without_trail
from placet.render.steps import TERMINAL, Part, Step
from placet.render.text import count, duration, exit_words, listing, moment, restored_words
from placet.safe_text import clean

_QUESTIONS_SHOWN = 5
_PROBLEMS_SHOWN = 40
_LONG = 300
"""Longest text that is quoted."""


def waited_ms(history: History, ended: float) -> float | None:
    """How long answers to what was asked took, several at once counted once; None if none came by then."""
    spans = sorted(
        (question.asked, question.asked + took / 1000)
        for part in history.parts.values()
        for step in part.steps.values()
        for question in step.approvals.values()
        if question.asked is not None
        and (took := question.took_ms) is not None
        and 0 <= took <= (ended - question.asked) * 1000
    )
    waited, reached = 0.0, float("-inf")
    for begin, end in spans:
        waited += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return waited * 1000 if spans else None


def resumed_words(resumption: Resumption) -> str:
    """One sentence about a run that was taken up again."""
    data = resumption.data
    completed = data.get("completed")
    done = f"{count(completed, 'action')} had ended" if isinstance(completed, int) else "some had ended"
    words = f"It was broken off and taken up again when {done}"
    paused = duration(resumption.paused_ms)
    after = f" {paused} later" if paused else ""
    if resumption.was_left:
        words = f"It was left, and taken up again{after}"
    elif resumption.has_waited:
        words = f"It let go to wait for a person, and was taken up again{after} when {done}"
    decided = data.get("decided")
    if isinstance(decided, dict) and decided:
        said = ", ".join(f"'{clean(name, 60)}' {clean(str(what), 20)}" for name, what in decided.items())
        words += f"; it was decided: {said}"
    unknown = data.get("unknown")
    if isinstance(unknown, list) and unknown:
        words += f"; nobody knew what became of {listing([str(name) for name in unknown])}"
    return words + "."


def status_of(step: Step) -> str:
    """The status to tell: whether it waits for a person, or how it stands, or its command's exit code."""
    return AWAITING if step.is_awaiting else NONZERO if step.is_nonzero else step.status


def tell_step(
    step: Step, indent: str, origin: float | None, now: float, *, with_parameters: bool = False
) -> Iterator[Text]:
    """What became of an action: who decided, what it took, why it ended so."""
    look = mark(status_of(step))
    line = Text(indent)
    line.append(f"{look.sign} ", style=look.style)
    line.append(clean(step.id, 60), style="bold")
    if step.does:
        line.append(f" ({clean(step.does, 60)})")
    line.append(f" {_verb(step, now)}", style=look.style)
    took = duration(step.duration_ms)
    is_timed = not step.is_cached and step.settled is None
    if took and step.status in ("succeeded", "failed", "unknown") and is_timed:
        line.append(f" {'in' if status_of(step) == 'succeeded' else 'after'} {took}")
    if step.same_as is not None:
        line.append(f", with the answer of '{clean(step.same_as, 60)}'; no second call was made")
    elif step.is_cached:
        line.append(", answered from the cache")
    if step.attempts > 1:
        line.append(f", at attempt {step.attempts}")
    if step.error and step.status in TERMINAL:
        line.append(f": {clean(_error(step), _LONG)}")
    if step.permission == "allow" and step.tier is not None:
        line.append(f", with {clean(step.tier, 40)}, which is granted")
    if step.look == "stays_done":
        line.append("; it ")
        line.append(MARKS["stays_done"].word, style=MARKS["stays_done"].style)
    elif step.look == "restored":
        line.append("; what it did in the folder was taken back", style=MARKS["restored"].style)
    began = step.started if step.started is not None else step.ended
    if origin is not None and began is not None and 0 <= began - origin < 1e9:
        line.append(f"  +{began - origin:.3f} s", style="dim")
    yield line
    if with_parameters and step.given:
        yield Text(f"{indent}  {clean(given_words(step.given), _LONG)}", style="dim")
    yield from _asked(step, indent, now)
    for retry in step.retries[:20]:
        wait = duration(retry.delay_ms)
        line = Text(f"{indent}  {MARKS['retrying'].sign} ", style="yellow")
        line.append(f"attempt {retry.attempt - 1} failed ({clean(retry.error, _LONG)})")
        line.append(f"; tried again after {wait}" if wait else "; tried again")
        yield line
    if step.left_behind:
        yield Text(f"{indent}  ! {clean(step.left_behind, _LONG)}", style="yellow")


def _error(step: Step) -> str:
    """Why it ended so; the way that marked data came is told on a line of its own."""
    return without_trail(step.error or "", step.trail)


def _asked(step: Step, indent: str, now: float) -> Iterator[Text]:
    """What a person was asked about a step, and answered; and which way marked data came to it."""
    for question in list(step.approvals.values())[-_QUESTIONS_SHOWN:]:
        yield from _question(step, question, indent, now)
    if step.trail:
        yield Text(f"{indent}  ! {trail_words(step.trail, step.marked)}", style="yellow")


def _question(step: Step, question: Question, indent: str, now: float) -> Iterator[Text]:
    look = MARKS[AWAITING]
    name = f"approval {clean(question.id, 40)}" if question.id else "an approval"
    if question.asked is not None or question.reasons:
        words = f"{name} was asked for"
        words += f" on {moment(question.asked)}" if question.asked is not None else ""
        tier = step.tier if step.permission == "ask" else None
        why = reason_words([without_trail(reason, step.trail) for reason in question.reasons], tier)
        yield Text(f"{indent}  {look.sign} {words}{': ' + why if why else ''}", style=look.style)
        name = "it"
    if question.decision is not None:
        given = MARKS["succeeded"] if question.is_given else MARKS["rejected"]
        said = (step.error or "") if (step.error or "").startswith(f"approval '{question.id}'") else ""
        words = answer_words(question, but=said)
        yield Text(f"{indent}  {given.sign} {name} was {words}", style=given.style)
    elif question.is_late(now) and question.expires is not None:
        words = f"no answer is in the log, and since {moment(question.expires)} none can be given"
        yield Text(f"{indent}  – {words}", style="dim")
    elif step.question is question and step.is_awaiting:
        until = f"; it can be given until {moment(question.expires)}" if question.expires is not None else ""
        yield Text(f"{indent}  {look.sign} no answer so far{until}", style=look.style)
    else:
        yield Text(f"{indent}  – no answer to it is in the log", style="dim")


def _verb(step: Step, now: float) -> str:
    if step.is_awaiting and step.question is not None:
        if step.question.is_late(now):
            return f"was not approved in time ({clean(step.question.id, 40)})"
        return f"waits for approval {clean(step.question.id, 40)}"
    if step.answer is not None and step.status in ("proposed", "validated"):
        return "has its answer, and had not begun"
    if step.status == "rejected":
        return "was rejected" if step.denied else "was rejected as it stands"
    if step.status in ("skipped", "canceled"):
        return f"was {step.status}"
    if step.settled == "done" and step.status == "succeeded":
        who = f"'{clean(step.settled_by, 60)}'" if step.settled_by else "a person"
        return f"counts as succeeded: {who} decided that it was done, as its outcome was unknown"
    if step.is_nonzero:
        return f"ended with {exit_words(step.exit_code)}"
    return {
        "unknown": "ended with an unknown outcome",
        "executing": "was running",
        "retrying": "was about to be tried again",
        "validated": "was about to start",
        "proposed": "was mentioned",
    }.get(step.status, clean(step.status, 30))


def tell_restored(part: Part) -> Iterator[Text]:
    """What came of restoring the folder, if that was tried."""
    if part.restored is None:
        return
    folder = clean(part.restored.get("folder"), 200)
    did = restored_words(part.restored)
    yield Text(f"  {MARKS['rolled_back'].sign} the folder {folder} was restored: {did}", style="blue")
    problems = part.restored.get("problems")
    for problem in problems[:_PROBLEMS_SHOWN] if isinstance(problems, list) else ():
        yield Text(f"  ✗ {clean(problem, _LONG)}", style="bold red")


def section(title: str, body: Iterable[Text]) -> list[Text]:
    """A part of a story under its title; nothing if there is nothing to tell."""
    found = list(body)
    return [Text(), Text(title, style="bold"), *found] if found else []
