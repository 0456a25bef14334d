"""The profile of a model: how strong it is, and so how it is guided.

A large model chooses among all tools by itself. A small one answers better the less it has to choose from, so
the harness chooses for it: few tools, the named files read beforehand, a reminder after each result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import msgspec

from placet.errors import UsageError
from placet.truncation import truncate_repr

Strength = Literal["small", "large"]
"""How a model is guided."""
GuidePart = Literal["routing", "reading", "requiring", "compound", "reminders", "repairs", "checking"]
"""A part of the guidance for small models.

- `routing`: few tools are offered, chosen by the task; the others through `more_tools`.
- `reading`: what the task names is read before the model is asked.
- `requiring`: the model must call a tool as long as the task needs one.
- `compound`: tools with few parameters, such as `replace_in_file`, stand for the built-in ones.
- `reminders`: after each result the model is told the task again, and what is missing.
- `repairs`: a call that failed because of a wrong path is repaired.
- `checking`: an answer with a number, name or quoted line that stands in no result is asked for once more.
"""

STRENGTHS: tuple[Strength, ...] = get_args(Strength)
PARTS: tuple[GuidePart, ...] = get_args(GuidePart)


class ModelProfile(msgspec.Struct, frozen=True, kw_only=True):
    """How strong a model is and how it is guided.

    >>> ModelProfile(strength="small").guides("routing")
    True
    """

    strength: Strength = "large"
    """`"small"` or `"large"`."""
    context_tokens: int | None = None
    """Size of the context window. `None`: what is known of the model."""
    without: Sequence[GuidePart] = ()
    """Parts of the guidance that are off."""

    def __post_init__(self) -> None:
        """Refuse what means nothing.

        Raises:
            UsageError: a field has another value.
        """
        strength: object = self.strength
        if strength not in STRENGTHS:
            raise UsageError(
                f"ModelProfile(strength={truncate_repr(strength, 40)}): it is 'small' or 'large'."
            )
        if any(part not in PARTS for part in self.without):
            raise UsageError(
                f"ModelProfile(without={truncate_repr(self.without, 80)}): it is a list of "
                f"{', '.join(PARTS)}."
            )
        tokens: object = self.context_tokens
        if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1):
            raise UsageError(
                f"ModelProfile(context_tokens={truncate_repr(tokens, 40)}): it is a whole number above 0."
            )

    def guides(self, part: GuidePart) -> bool:
        """Return whether a part of the guidance is on.

        Args:
            part: The part.
        """
        return self.strength == "small" and part not in self.without


ProfileLike: TypeAlias = ModelProfile | Strength
"""A profile, or its strength alone."""

LARGE = ModelProfile()
SMALL = ModelProfile(strength="small", context_tokens=8_192)
"""The profile of the local model."""
SMALL_MODEL = "local"
"""The name of the model that is small, whatever nobody says."""


def profile_of(model: object) -> ModelProfile:
    """The profile that a model has as its attribute `profile`; without one it is large."""
    found = getattr(model, "profile", None)
    return found if isinstance(found, ModelProfile) else LARGE


def profile_given(given: object) -> ModelProfile | None:
    """The profile that a caller has given, by name or as a whole; None if none was.

    Raises:
        UsageError: it is neither.
    """
    if given is None or isinstance(given, ModelProfile):
        return given
    if isinstance(given, str) and given in STRENGTHS:
        return ModelProfile(strength=given)
    raise UsageError(f"profile={truncate_repr(given, 80)}: it is 'small', 'large' or a ModelProfile.")
