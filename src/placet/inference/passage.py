"""A line of a text, read by a model as if it wrote it: where would it have gone on in another way?

A model that was trained to fill in the middle of a text knows more about a line than it can say when it is
asked. What it would have written instead, and how much more likely that is to it, tells where to look.

Keep true: not every model reads in this way. `reads_passages` says which one does, whatever stands around it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """Another file that shows what a passage is for."""

    path: str
    """Path of the file."""
    text: str
    """Its text."""


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a file with its context, for a model that was trained to fill in the middle."""

    path: str
    """Path of the file."""
    before: str
    """Text before the line, including the line feed."""
    line: str
    """The line, without its line feed."""
    after: str
    """Text after the line, from its line feed on."""
    beside: Sequence[Beside] = ()
    """Other files that show what the line is for."""


class Doubt(msgspec.Struct, frozen=True, kw_only=True):
    """A place where a model would have written something else."""

    at: int
    """Number of characters of the line that the model agrees with."""
    instead: str
    """The whole line as the model would write it, with the lines below that belong to it."""
    surprise: float
    """How much more likely that is than the present line, as a natural logarithm. Below 0, it is a word that
    the model also considered."""


def reads_passages(model: object) -> bool:
    """Return whether a model answers requests with a passage.

    Args:
        model: The model.
    """
    return bool(getattr(model, "reads_passages", False))


def doubts_in(text: str) -> list[Doubt]:
    """Read the doubts from the text of an answer.

    Args:
        text: Text of the answer to a request with a passage.

    Raises:
        msgspec.DecodeError: the text holds none.
    """
    return msgspec.json.decode(text, type=list[Doubt])
