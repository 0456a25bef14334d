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
"""Types of image that all wire formats accept."""


class Carried(msgspec.Struct, frozen=True, kw_only=True):
    """Data of a provider that must be sent back unchanged, such as the signature of a thought."""

    format: str
    """The wire format that it belongs to; other formats leave it out."""
    data: JsonValue
    """The data."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that a model asks for. Nothing has run yet."""

    id: str = ""
    """The model's id of the call, to send back with the result; empty if there is none."""
    name: str
    """Name of the tool."""
    arguments: Mapping[str, JsonValue] = {}
    """Arguments; empty if they cannot be read."""
    problem: str = ""
    """Why the arguments cannot be read; empty if they can."""
    raw: str = ""
    """The arguments as the model wrote them, if they cannot be read."""
    carried: Carried | None = None
    """Data that must be sent back to the provider."""


class Text(msgspec.Struct, frozen=True, tag="text", tag_field="kind"):
    """A text as a part of a message."""

    text: str
    """The text."""


class Image(msgspec.Struct, frozen=True, kw_only=True, tag="image", tag_field="kind"):
    """An image as a part of a message, by value."""

    data: bytes
    """The bytes of the file."""
    type: ImageType = "image/png"
    """Its media type."""


Part: TypeAlias = Text | Image
"""Part of a `User` message."""


class System(msgspec.Struct, frozen=True, tag="system", tag_field="role"):
    """System prompt."""

    text: str
    """The text."""


class User(msgspec.Struct, frozen=True, tag="user", tag_field="role"):
    """Message of a person or a program."""

    content: str | Sequence[Part]
    """A text, or a list of texts and images."""

    @property
    def parts(self) -> Sequence[Part]:
        """The content as a list of parts."""
        return (Text(self.content),) if isinstance(self.content, str) else self.content


class Assistant(msgspec.Struct, frozen=True, kw_only=True, tag="assistant", tag_field="role"):
    """Answer of the model. (`placet.Assistant` is another class.)"""

    text: str = ""
    """The text."""
    calls: Sequence[ToolCall] = ()
    """The tools that it asks for."""
    carried: Carried | None = None
    """Data that must be sent back to the provider."""


class ToolResult(msgspec.Struct, frozen=True, kw_only=True, tag="tool", tag_field="role"):
    """Result of a tool call."""

    call_id: str
    """Id of the call; `ToolCall.id`."""
    name: str
    """Name of the tool."""
    text: str
    """The result as text."""
    is_error: bool = False
    """Whether it is an error."""


Message: TypeAlias = System | User | Assistant | ToolResult
"""A message of a conversation."""
