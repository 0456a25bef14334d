"""Ids for calls that came without one, for formats that cannot do without.

Keep true:
1. The same conversation always gets the same ids, so that a provider's cache still knows it.
2. Ids that were given stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from assent.inference.messages import Assistant, Message, ToolCall, ToolResult


def with_ids(messages: Sequence[Message]) -> Iterator[Message]:
    """The conversation, with an id on each call and its result. A result belongs to the first open call of
    its name, or else to the first open call."""
    unnamed: list[ToolCall] = []
    for place, message in enumerate(messages):
        match message:
            case Assistant() if not all(call.id for call in message.calls):
                calls = [
                    call if call.id else msgspec.structs.replace(call, id=f"call_{place}_{at}")
                    for at, call in enumerate(message.calls)
                ]
                unnamed = [now for now, was in zip(calls, message.calls, strict=True) if not was.id]
                yield msgspec.structs.replace(message, calls=calls)
            case ToolResult(call_id="") if unnamed:
                mine = next((call for call in unnamed if call.name == message.name), unnamed[0])
                unnamed.remove(mine)
                yield msgspec.structs.replace(message, call_id=mine.id)
            case _:
                yield message
