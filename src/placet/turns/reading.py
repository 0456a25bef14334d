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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from unicodedata import category

from placet.ir.json_value import JsonValue, show_json
from placet.ir.provenance import Labels, SourcedText
from placet.policy.marks import NO_MARKS, UNMARKED, Inflow, Marks, labels_from, marks_from, union

STEP = "model"
"""What a trail calls the way through the model."""

_JOINERS = frozenset("-./\\@:+~'\u2019?=&#*|")
"""These join words into one name, number, address or query, where a word stands on their other side too."""
_OPENERS = frozenset("-./\\+~")
"""These belong to what follows them in any case: `-5`, `.env`, `../a`."""


class Reading:
    """What came into one conversation, from people and from tools."""

    __slots__ = ("_heard", "_marks", "_written")

    def __init__(self) -> None:
        self._heard: tuple[str, ...] = ()
        self._marks = NO_MARKS
        self._written = NO_MARKS
        """The same marks, one step further."""

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
        return Written(parameters, self._written, self._heard) if self._marks else UNMARKED


class Written(Inflow):
    """The marks on what a model wrote after it had read something marked.

    The names of the parameters are the tool's. Any other key is the model's own word, and counts.
    """

    __slots__ = ("_heard", "_known", "_marks")

    def __init__(self, parameters: Mapping[str, JsonValue], marks: Marks, heard: tuple[str, ...]) -> None:
        self._template = parameters if isinstance(parameters, dict) else dict(parameters)
        self._marks = marks
        self._heard = heard
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

    def _in(self, value: JsonValue) -> Marks:
        is_own = all(any(map(self._is_heard, spellings)) for spellings in _words_in(value))
        return NO_MARKS if is_own else self._marks

    def _is_heard(self, text: str) -> bool:
        return any(says(message, text) for message in self._heard)


def says(message: str, value: str) -> bool:
    """Whether a message holds the value as a whole, not as a part of a longer word, number or address.

    >>> says("see a.txt.", "a.txt"), says("mail a@b.com", "b.com"), says("at most 10", "1")
    (True, False, False)
    """
    start = message.find(value)
    while start >= 0:
        end = start + len(value)
        if not _goes_on(message, start - 1, -1) and not _goes_on(message, end, 1):
            return True
        start = message.find(value, start + 1)
    return False


def _goes_on(message: str, at: int, step: int) -> bool:
    """Whether what ends beside `at` is part of something that goes on there, to the left or to the right."""
    if not 0 <= at < len(message):
        return False
    edge, beside = message[at - step], message[at]
    if beside == ",":
        # `1,000` is one number.
        return edge.isdigit() and 0 <= at + step < len(message) and message[at + step].isdigit()
    if beside not in _JOINERS:
        return _is_word(beside)
    if edge in _JOINERS:
        return True  # And a long line of them is not walked along once for each.
    first = at
    while 0 <= at < len(message) and message[at] in _JOINERS:
        at += step
    if 0 <= at < len(message) and _is_word(message[at]):
        return True
    return step < 0 and not _OPENERS.isdisjoint(message[at + 1 : first + 1])


def _is_word(character: str) -> bool:
    # Accents that stand by themselves, and joiners that nobody sees, are part of the word around them.
    kind = category(character)
    return kind[0] in "LNM" or kind in ("Pc", "Cf")


def _words_in(value: JsonValue) -> Iterator[Sequence[str]]:
    """For each thing that a value says, the ways to write it. There is none for a yes or no: anybody says
    those."""
    pending = [value]
    while pending:
        match pending.pop():
            case None | "":
                continue
            case str(text):
                yield (text,)
            case bool():
                yield ()
            case float(number) if number.is_integer():
                yield show_json(number), str(int(number))
            case int() | float() as number:
                yield (show_json(number),)
            case dict() as inner:
                yield from ((key,) for key in inner if key)
                pending += inner.values()
            case list() | tuple() as inner:
                pending += inner
            case _:
                yield ()  # No JSON, and so nothing that a message could hold.
