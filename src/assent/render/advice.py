"""What a person can do after a run: a sentence, and a command where there is one.

Keep true:
1. Every outcome has advice; trouble that needs a person comes first.
2. A command is complete but for names in capitals. It names every option that decides what happens: who has
   policies and repeats a run without them gets another run.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from assent.render.history import History, Part, Step
from assent.render.text import clean, count, listing

_OPTIONS = "--tools TOOLS.py --policies POLICIES --state STATE.json"


class Advice(NamedTuple):
    """One thing to do next."""

    sentence: str
    command: str = ""
    is_urgent: bool = False
    """Something outside may be wrong, and only a person can look."""


def advise(history: History, log: str = "", db: str | None = None) -> list[Advice]:
    """What to do next, the urgent first.

    Args:
        log: The file that the events come from.
        db: The database as the person named it; None if nobody did, because then it is found again.
    """
    part = history.last
    place = db_words(db)
    if part is None:
        return [
            Advice(
                "There is nothing to go on from; run a plan with a log.",
                f"assent run PLAN.json {_OPTIONS} --log run.jsonl{place}",
            )
        ]
    resume = f"assent resume {name_words(history.run_id or 'RUN')}{place}"
    return [*_by_hand(part), *_decide(part, resume), *_mend(part), *_go_on(part, log, place, resume)]


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


def _decide(part: Part, resume: str) -> Iterator[Advice]:
    """What a run that waits has to be told."""
    if part.outcome != "waiting":
        return
    unknown = [action_id for kind, action_id, _ in part.waiting if kind == "unknown_outcome"]
    if unknown:
        given = " ".join(f"--decide {shlex.quote(f'{clean(name)}=CHOICE')}" for name in unknown[:20])
        yield Advice(
            f"Then say of {'each' if len(unknown) > 1 else 'it'} what became of it: done (it took effect), "
            "retry (do it again) or fail (it did not, and shall not):",
            f"{resume} {given}",
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
    if part.staying:
        many = len(part.staying) > 1
        yield Advice(
            f"{listing(part.staying)} {'stay' if many else 'stays'} done and cannot be undone; "
            f"see what {'they' if many else 'it'} left, and mind it in the next plan.",
            is_urgent=True,
        )
    for kind, action_id, reason in part.waiting[:5]:
        if action_id in unknown:
            continue
        what = "Decide about" if kind == "approval" else "Settle"
        yield Advice(f"{what} '{clean(action_id, 60)}': {clean(reason, 200)}", is_urgent=True)


def _mend(part: Part) -> Iterator[Advice]:
    denied = [step for step in part.steps.values() if step.status == "rejected" and step.denied]
    if denied:
        yield Advice(
            f"A policy denied {_names(denied)}: change the plan, or the rule. To see all objections:",
            f"assent verify PLAN.json {_OPTIONS}",
        )
    malformed = [step for step in part.steps.values() if step.status == "rejected" and not step.denied]
    if malformed or part.outcome == "refused":
        what = f"Mend {_names(malformed)}" if malformed else "Mend the plan"
        yield Advice(f"{what} and check before you run:", f"assent verify PLAN.json {_OPTIONS}")
    broken = [step for step in part.steps.values() if step.status == "failed"]
    if broken:
        first = broken[0]
        more = f" and {count(len(broken) - 1, 'other')}" if len(broken) > 1 else ""
        yield Advice(
            f"Find out why '{clean(first.id, 60)}'{more} failed: {clean(first.error or 'no reason', 200)}"
        )


def _go_on(part: Part, log: str, place: str, resume: str) -> Iterator[Advice]:
    target = name_words(log) if log else "run.jsonl"
    again = f"assent run PLAN.json {_OPTIONS} --log {target}{place}"
    match part.outcome:
        case "succeeded":
            yield Advice(
                "Nothing is left to do. To see the plan as a picture:", "assent graph PLAN.json -o plan.svg"
            )
        case "aborted":
            sentence = "The state is as it was before, so the plan can be run again when that is mended:"
            if part.staying or any(step.is_stuck for step in part.steps.values()):
                sentence = (
                    "The state is as it was before, but what stays done would be done twice: "
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
            yield Advice("The run goes on when everything above is decided.")
        case "interrupted":
            yield Advice("Its process is gone. To go on where it stood:", resume)
        case None:
            running = [s.id for s in part.steps.values() if s.status in ("executing", "retrying")]
            if running:
                yield Advice(f"If it no longer runs: {listing(running)} may or may not have taken effect.")
            yield Advice("If its process is gone, go on where it stood:", resume)
            yield Advice(
                "If it still runs, ask again later.",
                f"assent explain {name_words(log)}" if log else "",
            )
        case _:
            yield Advice("To run the plan again:", again)


def _names(steps: list[Step]) -> str:
    return listing([step.id for step in steps])
