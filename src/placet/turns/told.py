"""What a loop tells the journal, so that it can be gone through again after a restart.

Gone through again, the loop is given these answers instead of asking the model; what came of each call is
read back by the runtime. So a run goes on by the same code that it began with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from placet.errors import UsageError
from placet.inference.messages import Text, User
from placet.inference.model import Result
from placet.ir.ending import CallKind
from placet.ir.provenance import Provenance
from placet.turns.ending import Ending


class _Told(msgspec.Struct, frozen=True, tag_field="told"):
    pass


class Said(_Told, frozen=True, tag="said"):
    """A message to the model."""

    message: User
    provenance: Provenance | None = None
    """Who wrote which part of it; None in records from before that was recorded."""
    needs: tuple[CallKind, ...] = ()
    """What calls have to do before an answer to it counts as supported."""


class Answered(_Told, frozen=True, tag="answered"):
    """The model's answer to all that came before."""

    result: Result


class Failed(_Told, frozen=True, tag="failed"):
    """The model gave none; or the one before came to nothing, and is to be asked for again."""

    error: str
    is_too_long: bool = False
    """Whether the model cannot read so much, and nothing more can be left out."""


class Overflowed(_Told, frozen=True, tag="overflowed"):
    """It did not fit into what the model can read, and was made shorter."""


class Ended(_Told, frozen=True, tag="ended"):
    """No more comes of the message before."""

    ending: Ending


Told: TypeAlias = Said | Answered | Failed | Overflowed | Ended

encode = msgspec.json.Encoder(enc_hook=str).encode
_decode = msgspec.json.Decoder(Told).decode


def read(notes: Iterable[msgspec.Raw]) -> deque[Told]:
    """What was told, in order.

    Raises:
        UsageError: it was told by something else.
    """
    try:
        return deque(_decode(bytes(note)) for note in notes)
    except msgspec.DecodeError:
        raise UsageError(
            "What this run told its journal cannot be read here: it was led by something else, or by another "
            "version of Placet."
        ) from None


def plain_text(message: User) -> str:
    """The text of a message, without pictures."""
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))
