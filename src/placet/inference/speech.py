"""Speech: what a model has to do to turn it into text, or text into it.

No provider that comes with Placet does: `transcribe` and `synthesize` are offered where the model that is
attached has the method.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec

from placet.inference.usage import Usage


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """Speech as text."""

    text: str
    """The text."""
    model: str = ""
    """The model that heard it."""
    usage: Usage | None = None
    """Tokens, if they are known."""
    cost: float | None = None
    """Cost in US dollars, if it is known."""


class Speech(msgspec.Struct, frozen=True, kw_only=True):
    """Text as speech."""

    audio: bytes
    """The sound, encoded as `media_type` says."""
    media_type: str = "audio/wav"
    """How it is encoded."""
    model: str = ""
    """The model that spoke it."""
    usage: Usage | None = None
    """Tokens, if they are known."""
    cost: float | None = None
    """Cost in US dollars, if it is known."""


@runtime_checkable
class Transcriber(Protocol):
    """Protocol of models that turn speech into text."""

    async def transcribe(self, audio: bytes, *, media_type: str, language: str | None) -> Transcript:
        """Return what was said.

        Args:
            audio: The sound.
            media_type: How it is encoded, such as `"audio/wav"`.
            language: Language, as in `"en"`. `None`: the model finds out.

        Raises:
            ModelError: there is no transcript; says why and what to do.
        """
        ...


@runtime_checkable
class Synthesizer(Protocol):
    """Protocol of models that turn text into speech."""

    async def synthesize(self, text: str, *, voice: str | None) -> Speech:
        """Return the text as speech.

        Args:
            text: What to say.
            voice: Name of a voice. `None`: the model's own.

        Raises:
            ModelError: there is no speech; says why and what to do.
        """
        ...
