"""Ids of calls that a format takes, and that tell each call from every other.

Some models give a call no id, some give the same one to two calls or in every turn, and some use characters
that another provider refuses. A conversation may go from one model to the next.

Keep true:
1. The same conversation always gets the same ids, and so does its beginning, so that a provider's cache still
   knows it.
2. An id that is fine stays as it is; a result has the id of its call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count

import msgspec

from placet.inference.messages import Assistant, Message, ToolCall, ToolResult

ANY = re.compile(r".+", re.DOTALL)
"""Whatever a server called it: some find their own meaning in it again."""
PLAIN = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def with_ids(
    messages: Sequence[Message], fine: re.Pattern[str] = ANY, *, fills: bool = True
) -> Iterator[Message]:
    """The conversation, with an id that is `fine` and used once on each call, and on its result.

    A result belongs to the first open call of its id and name, or else of its id; the latest turn goes first.
    `fills` says whether calls without an id get one.
    """
    taken: set[str] = set()
    sent: dict[str, str] = {}
    waiting: list[tuple[ToolCall, str]] = []
    for place, message in enumerate(messages):
        match message:
            case Assistant() if message.calls:
                ids = [
                    _free(each.id, f"call_{place}_{at}", fine, taken) if each.id or fills else ""
                    for at, each in enumerate(message.calls)
                ]
                waiting = [*zip(message.calls, ids, strict=True), *waiting]
                sent.update((call.id, id) for call, id in zip(message.calls, ids, strict=True))
                calls = [
                    call if call.id == id else msgspec.structs.replace(call, id=id)
                    for call, id in zip(message.calls, ids, strict=True)
                ]
                yield msgspec.structs.replace(message, calls=calls)
            case ToolResult():
                id = _of(message, waiting, sent)
                yield message if id == message.call_id else msgspec.structs.replace(message, call_id=id)
            case _:
                yield message


def _free(given: str, other: str, fine: re.Pattern[str], taken: set[str]) -> str:
    id = given if fine.fullmatch(given) else other
    for attempt in count():
        if id not in taken:
            break
        # Somebody may have used just this one.
        id = f"{other}_{attempt}" if attempt else other
    taken.add(id)
    return id


def _of(result: ToolResult, waiting: list[tuple[ToolCall, str]], sent: dict[str, str]) -> str:
    """The id that the call of a result was sent with."""
    same = [each for each in waiting if each[0].id == result.call_id]
    if not same:
        # A second result of one call, or one of none: what is wrong with that is for the server to say.
        return sent.get(result.call_id, result.call_id)
    mine = next((each for each in same if each[0].name == result.name), same[0])
    waiting.remove(mine)
    return mine[1]
