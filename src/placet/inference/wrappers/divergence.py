"""In what a request differs from all that were recorded, in words.

Keep true:
1. It names the first difference from the recorded request that goes along with it furthest.
2. What is shown of either is short, and safe to print.
3. What is kept of the messages for that is bounded. To find a request, their digests are enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from placet.inference.model import Request
from placet.inference.wrappers.digests import Digests, digest_of, message_today
from placet.inference.wrappers.record_file import Answer
from placet.ir.json_value import JsonValue, show_json
from placet.safe_text import clean
from placet.truncation import excerpt, truncate_bytes

_SHOWN = 80
_BEFORE = 20
"""Of what is shown, how much stands before the first difference."""
_MOST_BYTES = 32 * 2**20
"""Of messages that are kept whole."""
_HEAD = 200
"""Bytes that are kept of every one after that."""


class Step(msgspec.Struct, frozen=True):
    """One more message of a recorded conversation."""

    message: bytes
    """As JSON, or the beginning of it."""
    digest: str
    """Of the conversation up to here."""
    request: int
    """The number of the first request that had it."""
    cut_role: str = ""
    """Whose message it is, where only the beginning is kept."""

    @property
    def role(self) -> str:
        return self.cut_role or _role(self.message)


class Asked(msgspec.Struct, frozen=True):
    """With what a conversation was once handed to the model."""

    tools: bytes
    settings: bytes
    request: int


class Recorded:
    """The requests of a recording."""

    def __init__(self) -> None:
        self.requests = 0
        self.conversations: dict[str, list[Step]] = {"": []}
        """By digest, what follows."""
        self.written: dict[str, str] = {"": ""}
        """By the digest that the file refers to it with, the digest of a conversation as it is told today: a
        message may have one field more than when it was written."""
        self.ends: dict[str, list[Asked]] = {}
        """By digest, how often a request ended there, and with what."""
        self._bytes = 0

    def add(self, answer: Answer, tools: bytes, settings: bytes) -> str:
        """Remember a request; returns the digest of its conversation."""
        self.requests += 1
        written, here = answer.after, self.written[answer.after]
        for message in answer.messages:
            raw = bytes(message)
            data = message_today(raw)
            written = digest_of(written, raw)
            before, here = here, digest_of(here, data)
            self.written[written] = here
            if here not in self.conversations:
                self.conversations[here] = []
                self.conversations[before].append(self._step(data, here))
        self.ends.setdefault(here, []).append(Asked(tools, settings, self.requests))
        return here

    def _step(self, data: bytes, digest: str) -> Step:
        if len(data) <= _HEAD or self._bytes + len(data) <= _MOST_BYTES:
            self._bytes += len(data)
            return Step(data, digest, self.requests)
        return Step(truncate_bytes(data, _HEAD), digest, self.requests, _role(data))


def divergence(recorded: Recorded, request: Request, tools: bytes, settings: bytes) -> str:
    """What is asked otherwise than in any recorded request. `tools` and `settings` are those of `request`."""
    if not recorded.requests:
        return "it holds no answers"
    here = ""
    for index, (digest, data) in enumerate(_steps(request)):
        if digest not in recorded.conversations:
            return _other_message(index, data, recorded, here)
        here = digest
    ends = recorded.ends.get(here)
    if ends is None:
        step = recorded.conversations[here][0]
        count = len(request.messages)
        return (
            f"it ends after {count} message{'' if count == 1 else 's'}, and recorded request {step.request} "
            f"goes on with {step.role} {_excerpt(step.message, b'')}"
        )
    return _other_settings(ends, tools, settings)


def _steps(request: Request) -> list[tuple[str, bytes]]:
    """Each message as JSON, with the digest of the conversation up to it."""
    place = Digests().place(request.messages)
    found: list[tuple[str, bytes]] = []
    while place.parent is not None:
        found.append((place.digest, place.data or b""))
        place = place.parent
    found.reverse()
    return found


def _other_message(index: int, asked: bytes, recorded: Recorded, here: str) -> str:
    followers = recorded.conversations[here]
    if not followers:
        last = recorded.ends[here][0].request
        return (
            f"message {index + 1} ({_role(asked)}) comes after all that was recorded of this conversation, "
            f"in request {last}. Asked: {_excerpt(asked, b'')}"
        )
    # Of several that follow, the one that is most like what is asked.
    step = max(followers, key=lambda each: _common(each.message, asked))
    was, now = step.role, _role(asked)
    role = now if was == now else f"recorded {was}, asked {now}"
    is_further_on = step.cut_role and asked.startswith(step.message)
    excerpt = "it begins the same, and goes on otherwise" if is_further_on else _excerpt(step.message, asked)
    return (
        f"message {index + 1} ({role}) differs from that of recorded request {step.request}. "
        f"Recorded: {excerpt}. Asked: {_excerpt(asked, step.message)}"
    )


def _other_settings(ends: Sequence[Asked], tools: bytes, settings: bytes) -> str:
    same = [each for each in ends if each.tools == tools and each.settings == settings]
    if same:
        times = "once" if len(same) == 1 else f"{len(same)} times"
        return f"it was recorded {times}, last as request {same[-1].request}, and is asked once more"
    # One of which only the tools or only the settings differ comes first.
    end = max(ends, key=lambda each: (each.tools == tools) + (each.settings == settings))
    where = f"recorded request {end.request}"
    if end.settings != settings:
        was, now = _object(end.settings), _object(settings)
        name = next((each for each in {**now, **was} if was.get(each) != now.get(each)), "a setting")
        a, b = _json(was.get(name)), _json(now.get(name))
        return f"{clean(name)} differs from {where}. Recorded: {_excerpt(a, b)}. Asked: {_excerpt(b, a)}"
    was, now = _by_name(end.tools), _by_name(tools)
    if was.keys() != now.keys():
        return (
            f"the tools differ from {where}. Recorded only: {_names(was, now)}. "
            f"Asked only: {_names(now, was)}"
        )
    for name in was:
        a, b = _json(was[name]), _json(now[name])
        if a != b:
            return (
                f"the tool '{clean(name)}' differs from {where}. Recorded: {_excerpt(a, b)}. "
                f"Asked: {_excerpt(b, a)}"
            )
    return f"the tools stand in another order than in {where}"


def _excerpt(data: bytes, other: bytes) -> str:
    """A part of a JSON text, from a little before where it differs from another."""
    text, against = data.decode(errors="replace"), other.decode(errors="replace")
    start = max(_common(text, against) - _BEFORE, 0)
    return clean(("…" if start else "") + excerpt(text, start, start + _SHOWN * 2), _SHOWN)


def _common(a: str | bytes, b: str | bytes) -> int:
    """How many characters two texts begin with in common; by halves, because an image is a long text."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _role(data: bytes) -> str:
    return clean(_object(data).get("role", "message"), 20)


def _object(data: bytes) -> dict[str, JsonValue]:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _by_name(data: bytes) -> dict[str, Any]:
    try:
        return {
            str(each.get("name", "")): each for each in msgspec.json.decode(data, type=list[dict[str, Any]])
        }
    except (msgspec.DecodeError, RecursionError):
        return {}


def _names(some: Mapping[str, Any], others: Mapping[str, Any]) -> str:
    return clean(", ".join(sorted(map(str, some.keys() - others.keys()))) or "none", _SHOWN)


def _json(value: JsonValue) -> bytes:
    return show_json(value).encode()
