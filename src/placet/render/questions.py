"""A question that was put to a person about an action, and the answer, in words.

Keep true:
1. What is not known is left out of the words: no name, moment or span is made up.
2. What comes from events is cleaned here: the words can be shown as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from placet.ir.json_value import JsonValue
from placet.render.text import duration, moment
from placet.safe_text import clean

GIVEN = frozenset({"once", "always", "edits"})
"""Decisions that let an action run."""
_LONG = 300
_MOST_REASONS = 10
_MOST_STEPS = 20
_ANSWERS = {
    "once": "approved for this one time",
    "always": "approved for all such calls",
    "edits": "approved with all further edits of files in this run",
    "deny": "denied",
    "withdrawn": "withdrawn",
    "expired": "not answered in time",
}


@dataclass(slots=True)
class Question:
    """One question, as far as events tell it. Times are seconds since the epoch."""

    id: str
    reasons: list[str] = field(default_factory=list)
    asked: float | None = None
    """None where an earlier run has asked, and its answer holds for this one too."""
    expires: float | None = None
    decision: str | None = None
    """once, always, deny, withdrawn or expired. None as long as nobody has answered."""
    by: str | None = None
    reason: str | None = None
    decided: float | None = None
    noted: float | None = None
    """When the run got to know the answer."""

    @property
    def is_given(self) -> bool:
        """Whether a person has said yes."""
        return self.decision in GIVEN

    def is_late(self, now: float) -> bool:
        """Whether nobody has answered, and nobody can any more."""
        return self.decision is None and self.expires is not None and self.expires <= now

    @property
    def took_ms(self) -> float | None:
        """How long the answer took. Two clocks may disagree by a little: that is no time."""
        end = self.decided if self.decided is not None else self.noted
        if self.asked is None or end is None:
            return None
        took = (end - self.asked) * 1000
        return 0.0 if -1000 < took < 0 else took


def answer_words(question: Question, *, but: str = "", is_dated: bool = False) -> str:
    """What was answered, by whom, when and why, in words that go on after "it was".

    When is told from the question on; with `is_dated` as a moment. A reason that `but` says already is not
    repeated.

    >>> answer_words(Question("q", asked=0.0, decision="deny", by="ann", decided=60.0, reason="not now"))
    "denied by 'ann' 1 min 0 s later: not now"
    """
    words = _ANSWERS.get(question.decision or "") or f"answered '{clean(question.decision, 40)}'"
    if question.by:
        words += f" by '{clean(question.by, 60)}'"
    took = "" if is_dated else duration(question.took_ms)
    if took:
        words += f" {took} later"
    elif question.decided is not None:
        words += f" on {moment(question.decided)}"
    if question.reason and question.reason not in but:
        words += f": {clean(question.reason, _LONG)}"
    return words


def reason_words(reasons: Sequence[str], tier: str | None = None) -> str:
    """Why a person is asked, in one line; `tier` is what was found to be needed and must be asked for."""
    told = [
        f"it needs {clean(tier, 40)}, which has to be asked for"
        if tier is not None and reason.startswith("permission: ")
        else clean(reason, _LONG)
        for reason in reasons[:_MOST_REASONS]
    ]
    left_out = len(reasons) - _MOST_REASONS
    return "; ".join(told) + (f"; and {left_out:,} more" if left_out > 0 else "")


def posture_words(posture: Mapping[str, JsonValue]) -> str:
    """What is answered to calls, tier by tier.

    >>> posture_words({"read_only": "allow", "sandbox_edit": "allow", "full_access": "ask"})
    'allow read_only, allow sandbox_edit, ask about full_access'
    """
    verbs = {"ask": "ask about"}
    return ", ".join(
        f"{verbs.get(str(answer), clean(answer, 20))} {clean(tier, 40)}" for tier, answer in posture.items()
    )


def without_trail(text: str, trail: Sequence[str]) -> str:
    """A rule's words without the way that marked data took, for where that is told beside them."""
    # The rule's own words end before the action that it denies.
    for steps in (trail, trail[:-1]):
        if steps:
            text = text.replace(f" ({' -> '.join(steps)})", "")
    return text


def trail_words(trail: Sequence[str], marked: str | None) -> str:
    """The way that marked data took, from its source on.

    >>> trail_words(["read (read_file)", "state 'address'", "note"], "untrusted")
    "untrusted data came this way: read (read_file) -> state 'address' -> note"
    """
    steps = [clean(step, 60) for step in trail]
    if len(steps) > _MOST_STEPS:
        half = _MOST_STEPS // 2
        steps[half:-half] = ["..."]
    return f"{clean(marked or 'marked', 40)} data came this way: {' -> '.join(steps)}"
