"""What it takes to hold our adapters against the official clients.

Both ask the same loopback server. What they sent is laid out flat, place by place, and every place where the
two differ has to stand in the table of that format, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from placet.inference.http import HttpModel
from placet.inference.model import Piece, Request, Result, Thought, Words
from placet.inference.opening import wire_of
from placet.inference.providers import PROVIDERS, Endpoint, Format
from tests.inference.oracles.recorded import Told
from tests.inference.wire_server import Seen, WireServer

KEY = "test-key-7"
NOWHERE = "http://127.0.0.1:9"
"""Where a client points before a test gives it a server."""
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)
HEADERS = (
    "content-type",
    "authorization",
    "x-api-key",
    "x-goog-api-key",
    "anthropic-version",
    "anthropic-beta",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One question, in our words and in the official client's."""

    name: str
    request: Request
    theirs: Mapping[str, Any]
    model: str = ""
    differs: frozenset[str] = frozenset()
    """Places where the two requests differ, besides those where they always do."""


def ours(server: WireServer, format: Format, model: str, path: str = "") -> HttpModel:
    """Our model, at the server instead of at the provider."""
    provider = PROVIDERS[format]
    return HttpModel(
        Endpoint(provider=provider, model=model, url=f"{server.url}{path}", key=KEY), wire_of(format)
    )


async def generated(model: HttpModel, request: Request) -> Result:
    """The answer in one piece; nothing stays open."""
    try:
        return await model.generate(request)
    finally:
        await model.close()


async def streamed(model: HttpModel, request: Request) -> list[Piece]:
    """The answer in pieces, the result last; nothing stays open."""
    try:
        return [piece async for piece in model.stream(request)]
    finally:
        await model.close()


def differences(one: Seen, other: Seen, *, spelled: Callable[[str], str] = str) -> set[str]:
    """The places where two requests do not mean the same; `spelled` is how a place is written."""
    a, b = ({spelled(place): value for place, value in laid_out(each).items()} for each in (one, other))
    return {
        place for place in a.keys() | b.keys() if place not in a or place not in b or a[place] != b[place]
    }


def laid_out(seen: Seen) -> dict[str, Any]:
    """A request as places and values: what matters of the headers, and every value of the body."""
    places: dict[str, Any] = {"method": seen.method, "path": seen.path}
    places |= {f"query.{name}": value for name, value in seen.query.items()}
    places |= {f"header.{name}": seen.headers[name] for name in HEADERS if name in seen.headers}
    _lay_out("body", seen.json, places)
    return places


def _lay_out(place: str, value: Any, places: dict[str, Any]) -> None:
    if isinstance(value, dict) and value:
        for name, item in value.items():
            _lay_out(f"{place}.{name}", item, places)
    elif isinstance(value, list) and value:
        for at, item in enumerate(value):
            _lay_out(f"{place}[{at}]", item, places)
    else:
        # True is not 1, though Python says so.
        places[place] = (type(value) is bool, value)


def told(result: Result) -> Told:
    """What we read."""
    assert not any(call.problem for call in result.calls)
    usage = result.usage
    return Told(
        text=result.text,
        calls=[(call.id, call.name, call.arguments) for call in result.calls],
        reasoning=result.reasoning,
        input=usage.input if usage else None,
        output=usage.output if usage else None,
        cached=usage.cached if usage else None,
        stop=result.stop,
    )


def assert_pieces(pieces: list[Piece], meant: Told) -> None:
    """The pieces make up the answer, and the last one is all of it."""
    *before, last = pieces
    assert isinstance(last, Result)
    assert told(last) == meant
    assert "".join(each.text for each in before if isinstance(each, Words)) == meant.text
    assert "".join(each.text for each in before if isinstance(each, Thought)) == meant.reasoning
