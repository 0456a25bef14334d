"""The provenance of text: who wrote each part of it, and which labels it carries.

A message to a model is seldom one person's words alone. A pipeline hands on what an agent wrote, a loop adds
what a hook printed, a memory brings back what was stored weeks ago. Each such part says where it is from, so
that a value counts as the person's only if the person typed it.

Keep true:
1. A part that carries labels is never a person's, whatever its origin says.
2. A text whose provenance is not recorded is untrusted, unless it is known that a person typed it.
3. A path names actions, tools, agents, hooks and checks, never values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from placet.errors import UsageError
from placet.ir.tool_spec import Mark
from placet.truncation import truncate_repr

Origin = Literal["person", "program", "agent"]
"""Who wrote a text: a person who typed it, a program (a hook, a check, a template), or an agent."""

Labels: TypeAlias = Mapping[Mark, Sequence[str]]
"""By label, the path from its source on."""

LONGEST_PATH = 12

_NOT_RECORDED = "text of unrecorded origin"


class SourcedText(msgspec.Struct, frozen=True):
    """A text and where it is from. Pass it, or a list of them, where a plain `str` would count as typed by
    the person.

    >>> task = [SourcedText("Answer this mail:"), SourcedText("Hi!", "program", {"untrusted": ("inbox",)})]
    >>> [part.is_typed for part in task]
    [True, False]
    """

    text: str
    """The text."""
    origin: Origin = "person"
    """Who wrote it."""
    labels: Labels = {}
    """The labels it carries, each with the path by which it came: names of tools, agents or stores, the
    source first."""

    @property
    def is_typed(self) -> bool:
        """Whether its values count as the person's own."""
        return self.origin == "person" and not self.labels

    def via(self, step: str) -> SourcedText:
        """Return the same text with one more step on the path of each label.

        Args:
            step: Name of the step.
        """
        return SourcedText(self.text, self.origin, further(self.labels, step))


MessageText: TypeAlias = str | SourcedText | Sequence[SourcedText]
"""A message: a `str` counts as typed by the person."""


def parts_of(words: MessageText) -> tuple[SourcedText, ...]:
    """The parts of a message.

    Raises:
        UsageError: it is neither a text nor made of parts.
    """
    if isinstance(words, str):
        return (SourcedText(words),)
    given: object = words
    parts: tuple[object, ...] = tuple(given) if isinstance(given, Sequence) else (given,)
    for part in parts:
        if not isinstance(part, SourcedText) or not isinstance(part.text, str):
            raise UsageError(
                f"A task or message is {truncate_repr(part, 80)}, and no text. Say in a sentence what to do, "
                "or give SourcedText parts."
            )
    return parts  # type: ignore[return-value]


def text_of(parts: Iterable[SourcedText]) -> str:
    """The message as a model reads it."""
    return "".join(part.text for part in parts)


def typed_in(parts: Iterable[SourcedText]) -> tuple[str, ...]:
    """The texts that the person typed."""
    return tuple(part.text for part in parts if part.is_typed and part.text)


def separated(blocks: Iterable[Sequence[SourcedText]], by: str = "\n\n") -> tuple[SourcedText, ...]:
    """Blocks of parts as one message, with a separator between each two of them."""
    found: list[SourcedText] = []
    for block in blocks:
        if found:
            found.append(SourcedText(by, "program"))
        found += block
    return tuple(found)


def further(labels: Labels, step: str) -> Labels:
    """The same labels one step further; a long path keeps its source and its newest steps."""
    return {mark: _longer(tuple(path), step) for mark, path in labels.items()}


def _longer(path: tuple[str, ...], step: str) -> tuple[str, ...]:
    if path and path[-1] == step:
        return path
    steps = (*path, step)
    return (steps[0], "...", *steps[-(LONGEST_PATH - 2) :]) if len(steps) > LONGEST_PATH else steps


def joined(*all_labels: Labels | None) -> Labels:
    """Every label of any of them. `None` stands for labels that were not recorded."""
    found: dict[Mark, Sequence[str]] = {}
    for labels in all_labels:
        for mark, path in recorded(labels).items():
            found.setdefault(mark, tuple(path))
    return found


def recorded(labels: Labels | None) -> Labels:
    """Labels as they were recorded; of a record without any, the text is untrusted."""
    return {"untrusted": (_NOT_RECORDED,)} if labels is None else labels


def printed_by_check(name: str) -> Labels:
    """The labels on the output of a check: it runs code and prints data that anybody may have written.

    >>> printed_by_check("tests")
    {'untrusted': ('check (tests)',)}
    """
    return {"untrusted": (f"check ({name})",)}


class SourceSpan(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stretch of a message that is from one source."""

    chars: int
    """Number of characters."""
    origin: Origin = "person"
    """Who wrote them."""
    labels: dict[Mark, tuple[str, ...]] = {}
    """The labels they carry, each with its path."""


class Provenance(msgspec.Struct, frozen=True, omit_defaults=True):
    """The provenance of one message, as it is recorded beside the text."""

    spans: tuple[SourceSpan, ...]
    """One after the other, the parts of the text."""
    typed: tuple[str, ...] = ()
    """Texts that the person typed in the conversations that led to this message, besides those in it."""

    @classmethod
    def of(cls, parts: Iterable[SourcedText], typed: Iterable[str] = ()) -> Provenance:
        """The provenance of a message that is made of these parts."""
        parts = tuple(parts)
        own = set(typed_in(parts))
        return cls(
            spans=tuple(
                SourceSpan(len(part.text), part.origin, {m: tuple(path) for m, path in part.labels.items()})
                for part in parts
                if part.text
            ),
            typed=tuple(dict.fromkeys(text for text in typed if text and text not in own)),
        )

    def parts(self, text: str) -> tuple[SourcedText, ...]:
        """The parts of the message that has this text. A text of another length is not the one that was
        recorded, and nothing is known of it."""
        if sum(span.chars for span in self.spans) != len(text):
            return (SourcedText(text, "program", recorded(None)),)
        found: list[SourcedText] = []
        start = 0
        for span in self.spans:
            found.append(SourcedText(text[start : start + span.chars], span.origin, span.labels))
            start += span.chars
        return tuple(found)


UNRECORDED = Provenance(spans=())
"""Of a message from a record that does not say."""


def typed(text: str) -> Provenance:
    """The provenance of a message that a person typed."""
    return Provenance(spans=(SourceSpan(len(text)),))
