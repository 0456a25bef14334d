"""What a person can do after a run: a sentence, and a command where there is one.

Keep true:
1. Every outcome has advice; trouble that needs a person comes first.
2. A command is complete but for names in capitals. It names every option that decides what happens: who has
   policies and repeats a run without them gets another run. Where it is known how the run was started, it
   names those that were given; else all that may have been.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from typing import NamedTuple

from placet.ir.result import CANCELED_PREFIX
from placet.render.history import History, Repeat
from placet.render.questions import Question, answer_words, reason_words
from placet.render.steps import INTERRUPTED, Part, Step
from placet.render.text import count, listing, moment
from placet.render.turns import Led
from placet.safe_text import clean

_UNKNOWN = Repeat("PLAN.json", "--tools TOOLS.py --policies POLICIES --state STATE.json")
_NOBODY = "there is nobody to ask"
"""What a run says of an action that needs an approval where none can be asked for."""
_IN_A_PROGRAM = "), in the program that began it"
_NOWHERE = "none"
"""In the place of a database: nothing is kept."""
_QUESTIONS = 20
"""Of more than this, the rest are counted."""


class Advice(NamedTuple):
    """One thing to do next."""

    sentence: str
    command: str = ""
    is_urgent: bool = False
    """Something outside may be wrong, and only a person can look."""


def advise(
    history: History, log: str = "", db: str | None = None, *, now: float | None = None
) -> list[Advice]:
    """What to do next, the urgent first.

    Args:
        log: The file that the events come from.
        db: The database as the person named it; None if nobody did, because then it is found again.
        now: The present in seconds since the epoch; without it, what the clock says.
    """
    now = time.time() if now is None else now
    part = history.last
    place = db_words(db)
    if part is not None and db == _NOWHERE and any(map(_is_unasked, part.steps.values())):
        place = ""  # The same again without a database would end the same.
    if part is None and history.led is None:
        return [
            Advice(
                "There is nothing to go on from; run a plan with a log.",
                f"placet run {_UNKNOWN.plan} {_UNKNOWN.options} --log run.jsonl{place}",
            )
        ]
    run = name_words(history.run_id or "RUN")
    resume = f"placet resume {run}{place}"
    if history.led is not None:
        return _of_turns(history, history.led, run, place, every_event(history, log, db), now)
    assert part is not None
    if history.is_a_programs:
        resume = f"runtime.resume({clean(history.run_id)!r}{_IN_A_PROGRAM}"
    again = f"{_again(history, part, log)}{place}"
    known = history.repeat or _UNKNOWN
    check = " ".join(filter(None, ["placet verify", known.plan, known.options]))
    return [
        *_by_hand(part),
        *_approve(part, run, place, resume, now),
        *_decide(part, resume),
        *_mend(part, again, check),
        *_go_on(part, log, again, resume, now, known.plan),
    ]


def _again(history: History, part: Part, log: str) -> str:
    """The command that does the same once more."""
    known = history.repeat
    words = ["placet run", *(known or _UNKNOWN)]
    if known is None:
        folder = part.restored.get("folder") if part.restored is not None else None
        words += [f"--workspace {name_words(folder)}"] if isinstance(folder, str) else []
    if log or known is None:
        # A run that is kept is told without a file.
        words.append(f"--log {name_words(log) if log else 'run.jsonl'}")
    return " ".join(filter(None, words))


def name_words(name: str) -> str:
    """The id of a run, or a file, as it can be typed."""
    return shlex.quote(clean(name))


def db_words(db: str | None) -> str:
    """The option that names the same database again; a password is not repeated."""
    if db is None:
        return ""
    who = db.partition("://")[2].rpartition("@")[0]
    is_secret = db.startswith("postgres") and (":" in who or "password" in db.lower())
    return f" --db {'URL' if is_secret else shlex.quote(clean(db))}"


def _approve(part: Part, run: str, place: str, resume: str, now: float) -> Iterator[Advice]:
    """How to answer what a run has asked: look first, then say yes or no, then go on."""
    if part.outcome not in (None, "waiting", "canceled", INTERRUPTED):
        return
    asked = part.open_questions(now)
    for step, question in asked[:_QUESTIONS]:
        name = name_words(question.id or "ID")
        yield Advice(_what_is_asked(step, question), f"placet approvals show {name}{place}", is_urgent=True)
        yield Advice("To let it run:", f"placet approvals approve {name}{place}", is_urgent=True)
        yield Advice(
            "To keep it from running:", f"placet approvals deny {name}{place} --reason TEXT", is_urgent=True
        )
    if len(asked) > _QUESTIONS:
        more = count(len(asked) - _QUESTIONS, "more question waits", "more questions wait")
        yield Advice(f"{more} for an answer:", f"placet approvals list --run {run}{place}", is_urgent=True)
    if part.outcome == "waiting" and _is_all_asked(part, now):
        them = "that is" if len(asked) == 1 else "all are"
        yield Advice(f"When {them} decided, go on with the run:", resume, is_urgent=True)


def _what_is_asked(step: Step, question: Question) -> str:
    what = f" ({clean(step.does, 60)})" if step.does else ""
    why = clean(reason_words(question.reasons, step.tier), 300)
    words = f"Decide about '{clean(step.id, 60)}'{what}"
    words += f": {why}" if why else ""
    words += f". It can be decided until {moment(question.expires)}" if question.expires is not None else ""
    return f"{words}. See first what it would do:"


def _is_all_asked(part: Part, now: float) -> bool:
    """Whether nothing is waited for but answers to questions that can be shown."""
    return bool(part.open_questions(now)) and all(w.kind == "approval" and w.approval for w in part.waiting)


def _decide(part: Part, resume: str) -> Iterator[Advice]:
    """What a run that waits has to be told."""
    if part.outcome != "waiting":
        return
    unknown = [wait.action_id for wait in part.waiting if wait.kind == "unknown_outcome"]
    if unknown:
        given = " " + " ".join(f"--decide {shlex.quote(f'{clean(name)}=CHOICE')}" for name in unknown[:20])
        if resume.endswith(_IN_A_PROGRAM):
            choices = ", ".join(f"{clean(name)!r}: CHOICE" for name in unknown[:20])
            resume = resume.removesuffix(_IN_A_PROGRAM)
            given = f", decide={{{choices}}}{_IN_A_PROGRAM}"
        yield Advice(
            f"Then say of {'each' if len(unknown) > 1 else 'it'} what became of it: done (it took effect), "
            "retry (do it again) or fail (it did not, and shall not):",
            f"{resume}{given}",
            is_urgent=True,
        )
    used = [name for name in unknown if name in part.needs_output]
    if used:
        such = shlex.quote(f'{clean(used[0], 60)}=done:{{"id": 5}}')
        yield Advice(
            f"Others use what {listing(used)} answered: say done:JSON, such as {such}.", is_urgent=True
        )


def _by_hand(part: Part) -> Iterator[Advice]:
    unknown = [step.id for step in part.steps.values() if step.status == "unknown"]
    if unknown:
        yield Advice(
            f"Look outside whether {listing(unknown)} took effect before you run it again.", is_urgent=True
        )
    failed = [step.id for step in part.steps.values() if step.is_stuck]
    if failed:
        yield Advice(f"Take {listing(failed)} back by hand: the compensation did not work.", is_urgent=True)
    undoable = [part.steps[n] for n in part.staying if n in part.steps and part.steps[n].undo_command]
    for commands, steps in _by_command(undoable).items():
        many = len(steps) > 1
        them = "them" if many else "it"
        stay = f"{_names(steps)} {'stay' if many else 'stays'} done. To undo {them}:"
        yield Advice(stay, clean(commands), is_urgent=True)
    if lasting := [name for name in part.staying if name not in {step.id for step in undoable}]:
        many = len(lasting) > 1
        yield Advice(
            f"{listing(lasting)} {'stay' if many else 'stays'} done, and the abort does not undo "
            f"{'them' if many else 'it'}; see what {'they' if many else 'it'} left, "
            "and mind it in the next plan.",
            is_urgent=True,
        )
    if elsewhere := part.restored_steps:
        they = "they" if len(elsewhere) > 1 else "it"
        yield Advice(
            f"What {_names(elsewhere)} did in the folder was taken back. What {they} may have done elsewhere "
            "was not: mind that in the next plan.",
            # A command that the kernel has kept in can only have spoken to hosts that were allowed.
            is_urgent=any(step.isolation != "process" for step in elsewhere),
        )
    others = [
        wait
        for wait in part.waiting
        if wait.action_id not in unknown and not (wait.kind == "approval" and wait.approval)
    ]
    for wait in others[:5]:
        what = "Decide about" if wait.kind == "approval" else "Settle"
        yield Advice(f"{what} '{clean(wait.action_id, 60)}': {clean(wait.reason, 200)}", is_urgent=True)


def _by_command(steps: list[Step]) -> dict[str, list[Step]]:
    """Steps by the command that undoes them."""
    found: dict[str, list[Step]] = {}
    for step in steps:
        found.setdefault(step.undo_command, []).append(step)
    return found


def _is_unasked(step: Step) -> bool:
    """Whether it was rejected because it had to be asked for, and nobody could be."""
    return step.status == "rejected" and step.denied and _NOBODY in (step.error or "")


def _is_unapproved(step: Step) -> bool:
    """Whether it was rejected because a person did not say yes."""
    answer = step.answer
    # After a yes a rule may still object: then the error is the rule's.
    return (
        step.status == "rejected"
        and answer is not None
        and (step.error or "").startswith(f"approval '{answer.id}'")
    )


def _is_stopped(part: Part, step: Step) -> bool:
    """Whether an action failed only because its run was canceled: then nothing is to be found out."""
    return part.outcome == "canceled" and (step.error or "").startswith(CANCELED_PREFIX)


def _mend(part: Part, again: str, check: str) -> Iterator[Advice]:
    denied = [step for step in part.steps.values() if step.status == "rejected" and step.denied]
    unasked = [step for step in denied if _is_unasked(step)]
    if unasked:
        yield Advice(
            f"Nobody could be asked about {_names(unasked)}, because approvals are kept in a database only. "
            "Run the plan with one, so without --db none (in code: Runtime(approvals=...)).",
            # Where the plan is to be run again anyway, that is said below.
            "" if part.outcome in ("aborted", "partial") else again,
        )
    unapproved = [step for step in denied if _is_unapproved(step)]
    for step in unapproved[:_QUESTIONS]:
        assert step.answer is not None
        yield Advice(
            f"'{clean(step.id, 60)}' was {answer_words(step.answer, is_dated=True)}. "
            "Change the plan, or settle it with whoever decides, before you run it again."
        )
    if len(unapproved) > _QUESTIONS:
        yield Advice(f"{len(unapproved) - _QUESTIONS:,} more were not approved.")
    denied = [step for step in denied if not _is_unasked(step) and not _is_unapproved(step)]
    beyond = [step for step in denied if step.permission == "deny"]
    if beyond:
        tiers = " and ".join(sorted({clean(step.tier or "a higher tier", 40) for step in beyond})[:5])
        yield Advice(
            f"{_names(beyond)} needed {tiers}, which is denied here: change the plan, or the permissions. "
            "To see all objections:",
            check,
        )
        denied = [step for step in denied if step.permission != "deny"]
    if denied:
        yield Advice(
            f"A policy denied {_names(denied)}: change the plan, or the rule. To see all objections:",
            check,
        )
    malformed = [step for step in part.steps.values() if step.status == "rejected" and not step.denied]
    if malformed or part.outcome == "refused":
        what = f"Mend {_names(malformed)}" if malformed else "Mend the plan"
        yield Advice(f"{what} and check before you run:", check)
    broken = [step for step in part.steps.values() if step.status == "failed" and not _is_stopped(part, step)]
    if broken:
        first = broken[0]
        more = f" and {count(len(broken) - 1, 'other')}" if len(broken) > 1 else ""
        yield Advice(
            f"Find out why '{clean(first.id, 60)}'{more} failed: {clean(first.error or 'no reason', 200)}"
        )


def _go_on(part: Part, log: str, again: str, resume: str, now: float, plan: str) -> Iterator[Advice]:
    match part.outcome:
        case "succeeded" if nonzero := [step for step in part.steps.values() if step.is_nonzero]:
            yield Advice(
                f"A command of {_names(nonzero)} did not succeed. Read its output; when the cause is fixed:",
                again,
            )
        case "succeeded" if plan == _UNKNOWN.plan:
            yield Advice("Nothing is left to do.")
        case "succeeded":
            yield Advice(
                "Nothing is left to do. To see the plan as a picture:", f"placet graph {plan} -o plan.svg"
            )
        case "aborted":
            is_restored = part.restored is not None and not part.restored.get("problems")
            what = "The state and the folder are as they were" if is_restored else "The state is as it was"
            sentence = f"{what} before, so the plan can be run again when that is mended:"
            if part.staying or any(step.is_stuck for step in part.steps.values()):
                sentence = (
                    f"{what} before, but what stays done would be done twice: "
                    "take it out of the plan before you run that again:"
                )
            yield Advice(sentence, again)
        case "partial":
            yield Advice("What succeeded stays. Make a plan of the rest, or run this one again:", again)
        case "canceled":
            yield Advice("What had been done stays. To go on where it stopped:", resume)
        case "budget":
            yield Advice(
                "The budget was spent; raise it, or make the plan smaller. What had been done stays."
            )
        case "refused":
            yield Advice("Nothing ran, so nothing has to be undone.")
        case "waiting":
            if _is_all_asked(part, now):
                return  # Said above, with the command.
            yield from _answers(part, now)
            if part.is_settled(now):
                yield Advice("Nothing is left to decide. To go on with the run:", resume)
            else:
                yield Advice("The run goes on when everything above is decided.")
        case "interrupted":
            yield Advice("Its process is gone. To go on where it stood:", resume)
        case None:
            running = [s.id for s in part.steps.values() if s.status in ("executing", "retrying")]
            if running:
                yield Advice(f"If it no longer runs: {listing(running)} may or may not have taken effect.")
            yield Advice("If its process is gone, go on where it stood:", resume)
            asked = part.open_questions(now)
            yield Advice(
                "If it still runs, it goes on by itself once it has its answers."
                if asked
                else "If it still runs, ask again later.",
                f"placet explain {name_words(log)}" if log else "",
            )
        case _:
            yield Advice("To run the plan again:", again)


def _answers(part: Part, now: float) -> Iterator[Advice]:
    """What has become of the questions of a run that waits, where nobody has to be asked any more."""
    closed = part.closed_questions(now)
    for step, question in closed[:_QUESTIONS]:
        name = clean(step.id, 60)
        if question.decision is not None:
            yield Advice(f"'{name}' was {answer_words(question, is_dated=True)}.")
        elif question.expires is not None:
            until = moment(question.expires)
            yield Advice(f"'{name}' was not decided in time, which was until {until}: it will be rejected.")
    if len(closed) > _QUESTIONS:
        yield Advice(f"{len(closed) - _QUESTIONS:,} more have been decided, or can no longer be.")


# A run of turns


def every_event(history: History, log: str = "", db: str | None = None) -> str:
    """The command that shows all that is recorded of a run."""
    if log:
        return f"placet explain {name_words(log)} --json"
    return f"placet log show {name_words(history.run_id or 'RUN')}{db_words(db)}"


def _of_turns(history: History, led: Led, run: str, place: str, everything: str, now: float) -> list[Advice]:
    whole = history.whole()
    whole.outcome = led.state(bool(whole.waiting))
    resume = f"placet resume {run}{place}"
    if history.is_a_programs:
        of = "chat" if led.is_chat else "resume"
        more = ", resume=True" if led.is_chat else ""
        resume = f"assistant.{of}({clean(history.run_id)!r}{more}{_IN_A_PROGRAM}"
    return [
        *_by_hand(whole),
        *_approve(whole, run, place, resume, now),
        *_decide(whole, resume),
        *_rejected(whole),
        *_after_turns(led, whole, resume, everything, now),
    ]


def _rejected(whole: Part) -> Iterator[Advice]:
    denied = [step for step in whole.steps.values() if step.status == "rejected" and step.denied]
    unasked = [step for step in denied if _is_unasked(step)]
    if unasked:
        yield Advice(
            f"Nobody could be asked about {_names(unasked)}, so the model went on without. Run it where a "
            "person can be asked, or allow such calls beforehand."
        )
    others = [step for step in denied if not _is_unasked(step) and not _is_unapproved(step)]
    if others:
        yield Advice(
            f"What {_names(others)} asked for was denied, and the model was told so. If it should have been "
            "allowed, change the rule or the permission that is named above."
        )


def _after_turns(led: Led, whole: Part, resume: str, everything: str, now: float) -> Iterator[Advice]:
    end = led.end
    if whole.outcome in (None, INTERRUPTED):
        running = [s.id for s in whole.steps.values() if s.status in ("executing", "retrying", "in_flight")]
        if running:
            first = "" if led.is_interrupted else "If it no longer runs: "
            yield Advice(f"{first}{listing(running)} may or may not have taken effect.")
        gone = "Its process is gone: go" if led.is_interrupted else "If its process is gone, go"
        yield Advice(f"{gone} on where it stood. No turn that was answered is asked again.", resume)
    elif whole.waiting or (end is not None and end.status == "waiting"):
        if not _is_all_asked(whole, now) and all(w.kind != "unknown_outcome" for w in whole.waiting):
            yield from _answers(whole, now)
            first = "Nothing is left to decide. To" if whole.is_settled(now) else "When that is decided,"
            yield Advice(f"{first} go on:", resume)
    elif led.is_chat:
        yield Advice("To go on with the conversation:", resume)
    else:
        match end.status if end is not None else "":
            case "success":
                yield Advice("Nothing is left to do.")
            case "cancelled" | "error":
                yield Advice("What was done stays. To go on where it stopped:", resume)
            case "max_turns" | "budget":
                yield Advice(
                    "What was done stays. Look whether it is of use, and give the rest as a new task: a "
                    "smaller one, or with higher limits."
                )
            case "unmet":
                yield Advice(
                    "What was done stays. The check of its goal says what is missing: give the rest as a new "
                    "task, allow more iterations, or take another model."
                )
            case "unsupported":
                yield Advice(
                    "Do not rely on the answer: no call did what the task needs. Give the task again, name "
                    "the file, or take another model."
                )
            case "stuck":
                yield Advice(
                    "What was done stays. It asked for the same again and again: say the task in other "
                    "words, offer other tools, or take another model."
                )
    yield Advice("To see every event of the run:", everything)


def _names(steps: list[Step]) -> str:
    return listing([step.id for step in steps])
