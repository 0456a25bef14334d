"""A line of a text, read by a model as if it wrote it: where would it have gone on in another way?

A model that was trained to fill in the middle of a text knows more about a line than it can say when it is
asked. What it would have written instead, and how much more likely that is to it, tells where to look.

Keep true: not every model reads in this way. `reads_passages` says which one does, whatever stands around it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """Another file that tells what the text is for."""

    path: str
    text: str


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """One line, and what stands around it."""

    path: str
    before: str
    """All up to the beginning of the line, the line feed included."""
    line: str
    after: str
    """From the line feed on that ends the line."""
    beside: Sequence[Beside] = ()


class Doubt(msgspec.Struct, frozen=True, kw_only=True):
    """Where a model would have written something else."""

    at: int
    """As many characters of the line would be as they are."""
    instead: str
    """The whole line as the model would have it; where it begins something that goes on below, the lines that
    belong to it as well."""
    surprise: float
    """How much more likely that is to the model than what stands there, as a natural logarithm. Below 0 it is
    a word that it would also have taken; the rest of the line is then as it stands there."""


def reads_passages(model: object) -> bool:
    """Whether a request with a passage is answered: its text is then what `doubts_in` reads."""
    return bool(getattr(model, "reads_passages", False))


def doubts_in(text: str) -> list[Doubt]:
    """The doubts of an answer.

    Raises:
        msgspec.DecodeError: these are none.
    """
    return msgspec.json.decode(text, type=list[Doubt])
