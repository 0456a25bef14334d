"""What a conversation with a model is made of, in no provider's words.

Keep true:
1. A message is data: it can be written to a file and read back equal.
2. What a provider wants to have back as it was (`Carried`) is kept apart, and handed to nobody else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from placet.ir.json_value import JsonValue

ImageType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
"""What all three wire formats take."""


class Carried(msgspec.Struct, frozen=True, kw_only=True):
    """Something of a provider's that must come back to it unchanged, such as the signature of a thought."""

    format: str
    """The wire format that it is for; any other leaves it out."""
    data: JsonValue


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A model asks for a tool. Nothing has happened yet."""

    id: str = ""
    """The model's own name for the call, to be echoed with the result; empty where it gave none."""
    name: str
    arguments: Mapping[str, JsonValue] = {}
    problem: str = ""
    """Why the arguments cannot be read; they are empty then, and `raw` is what the model wrote."""
    raw: str = ""
    carried: Carried | None = None


class Text(msgspec.Struct, frozen=True, tag="text", tag_field="kind"):
    """Words."""

    text: str


class Image(msgspec.Struct, frozen=True, kw_only=True, tag="image", tag_field="kind"):
    """A picture, by value: what a model sees must not change on the way."""

    data: bytes
    type: ImageType = "image/png"


Part: TypeAlias = Text | Image


class System(msgspec.Struct, frozen=True, tag="system", tag_field="role"):
    """What holds for the whole conversation."""

    text: str


class User(msgspec.Struct, frozen=True, tag="user", tag_field="role"):
    """What a person, or whoever asks, says."""

    content: str | Sequence[Part]

    @property
    def parts(self) -> Sequence[Part]:
        """The same as a list of parts."""
        return (Text(self.content),) if isinstance(self.content, str) else self.content


class Assistant(msgspec.Struct, frozen=True, kw_only=True, tag="assistant", tag_field="role"):
    """What the model said, and which tools it asked for."""

    text: str = ""
    calls: Sequence[ToolCall] = ()
    carried: Carried | None = None


class ToolResult(msgspec.Struct, frozen=True, kw_only=True, tag="tool", tag_field="role"):
    """What came of one call."""

    call_id: str
    name: str
    text: str
    is_error: bool = False


Message: TypeAlias = System | User | Assistant | ToolResult
