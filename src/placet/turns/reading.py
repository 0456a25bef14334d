"""What a model has read, and what of its writing is marked because of it.

A model that has read untrusted text may write what that text wants, wherever it likes. So from then on all
that it writes is marked, except what the person wrote as well: a value that stands in a person's own message,
as a whole, was not chosen by anybody else. Of a message with parts from others, only the person's own parts
count as theirs.

Keep true:
1. What may have been read is marked. In doubt it is: a mark too many asks a person once more.
2. A value counts as the person's only as a whole: `b.com` is no part of what `a@b.com` says.
3. A run that has read nothing marked pays nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from placet.ir.json_value import JsonValue
from placet.ir.provenance import Labels, SourcedText
from placet.ir.tool_spec import Mark
from placet.policy.marks import (
    NO_MARKS,
    UNMARKED,
    Inflow,
    Marks,
    Trail,
    labels_from,
    marks_from,
    union,
)
from placet.policy.sources import ToolAnswers, ValueSource
from placet.policy.verbatim import says, spellings_in

STEP = "model"
"""What a trail calls the way through the model."""


class Reading:
    """What came into one conversation, from people and from tools."""

    __slots__ = ("_heard", "_marks", "_written", "answers")

    def __init__(self) -> None:
        self._heard: tuple[str, ...] = ()
        self._marks = NO_MARKS
        self._written = NO_MARKS
        """The same marks, one step further."""
        self.answers = ToolAnswers()
        """The answers of calls, for rules that accept values from them."""

    @property
    def marks(self) -> Marks:
        """Every mark of anything that the model has read."""
        return self._marks

    @property
    def typed(self) -> Sequence[str]:
        """The texts that the person has typed."""
        return self._heard

    def heard(self, text: str) -> None:
        """A person's own message. What it says, the model may write unmarked."""
        if text and text not in self._heard:
            self._heard = (*self._heard, text)

    def took(self, parts: Iterable[SourcedText]) -> None:
        """A message with these parts went into the conversation."""
        for part in parts:
            if part.is_typed:
                self.heard(part.text)
            else:
                self.read(marks_from(part.labels))

    def labels(self, unread: Iterable[Marks] = ()) -> Labels:
        """The labels on what the model writes; with those of results that it has `unread`."""
        fresh = [{mark: trail.to(STEP) for mark, trail in marks.items()} for marks in unread]
        return labels_from(union(self._written, *fresh))

    def read(self, marks: Marks) -> None:
        """A result with these marks went into the conversation."""
        if marks:
            self._marks = union(self._marks, marks)
            self._written = {mark: trail.to(STEP) for mark, trail in self._marks.items()}

    def inflow(self, parameters: Mapping[str, JsonValue]) -> Inflow:
        """What comes with the parameters that the model has just written for one call."""
        if not self._marks:
            return UNMARKED
        return Written(parameters, self._written, self._heard, self.answers)


class Written(Inflow):
    """The marks on what a model wrote after it had read something marked.

    The names of the parameters are the tool's. Any other key is the model's own word, and counts.
    """

    __slots__ = ("_answers", "_heard", "_known", "_marks")

    def __init__(
        self,
        parameters: Mapping[str, JsonValue],
        marks: Marks,
        heard: tuple[str, ...],
        answers: ToolAnswers | None = None,
    ) -> None:
        self._template = parameters if isinstance(parameters, dict) else dict(parameters)
        self._marks = marks
        self._heard = heard
        self._answers = answers
        self._known: dict[str | None, Marks] = {}
        """By parameter: several rules ask for the same one."""

    def at(self, param: str | None) -> Marks:
        """The marks on a parameter (`to`, or `message.to` inside an object), or on any of them."""
        found = self._known.get(param)
        if found is None:
            if param is None:
                found = union(*map(self._in, self._template.values()))
            else:
                found = super().at(param)
            self._known[param] = found
        return found

    def unless_from(self, param: str | None, mark: Mark, sources: Sequence[ValueSource]) -> Trail | None:
        """How a mark comes to a parameter, unless each value in it is the person's, or stands in an answer
        that one of the sources accepts."""
        trail = self.at(param).get(mark)
        answers = self._answers
        if trail is None or answers is None:
            return trail
        parts = list(self._template.values()) if param is None else [self._inside(param.split("."))]
        if param is not None and "." in param:
            parts.append(self._template.get(param))
        counts = all(
            any(map(self._is_heard, spellings)) or answers.vouch(spellings, sources, mark, self._heard)
            for part in parts
            for spellings in spellings_in(part)
        )
        return None if counts else trail

    def _in(self, value: JsonValue) -> Marks:
        is_own = all(any(map(self._is_heard, spellings)) for spellings in spellings_in(value))
        return NO_MARKS if is_own else self._marks

    def _is_heard(self, text: str) -> bool:
        return any(says(message, text) for message in self._heard)
