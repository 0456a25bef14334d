"""Where a replayed run goes another way than it was recorded, and how.

Keep true: what a sentence shows of a model's or a tool's text is short and safe to print. `recorded` and
`now` are those texts as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff
from typing import Literal

import msgspec

from placet.errors import RunError
from placet.inference.model import Request
from placet.inference.wrappers.digests import Digests
from placet.ir.json_value import JsonValue, show_json
from placet.safe_text import clean
from placet.truncation import excerpt, truncate
from placet.turns.ending import Ending
from placet.turns.recorded_run import Asks, RecordedRun

Kind = Literal["request", "tool result", "order", "missing", "extra", "ending"]
"""The model is asked something else; a call comes to something else; the same comes in another order; what
was recorded does not come, or cannot be read; more comes than was recorded; it ends otherwise."""

_SHOWN = 80
_BEFORE = 20
"""Of what is shown, how much stands before the first difference."""
_COMPARED = ("status", "turns", "tools", "error", "summary", "usage", "cost_usd", "is_cut_off")
"""What of two endings is the same in the same run, what tells most first."""
_DIFFED = 100_000
"""Characters of either text that a diff looks at."""


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The first difference."""

    kind: Kind
    turn: int
    """Of the run, counted from 1; 0 before the first."""
    where: str
    """Which message, call or line."""
    problem: str
    """What is the matter, in words that are safe to print."""
    recorded: str = ""
    now: str = ""

    @property
    def words(self) -> str:
        """All of it in a sentence or two."""
        at = f"Turn {self.turn}, {self.where}" if self.turn else self.where[:1].upper() + self.where[1:]
        if not self.recorded and not self.now:
            return f"{at}: {self.problem}."
        shown = [
            f"{name}: {_excerpt(text, other)}"
            for name, text, other in (
                ("Recorded", self.recorded, self.now),
                ("Now", self.now, self.recorded),
            )
            if text
        ]
        return f"{at}: {self.problem}. {'. '.join(shown)}."

    def diff(self) -> list[str]:
        """The two texts as a unified diff, each line safe to print."""
        was, now = (_lines(text) for text in (self.recorded, self.now))
        found = unified_diff(was, now, "recorded", "now", lineterm="")
        return [clean(line, tabs=True) for line in found]


class Diverged(RunError):
    """Leaves a loop that is replayed at the first difference."""

    def __init__(self, divergence: Divergence) -> None:
        super().__init__(divergence.words)
        self.divergence = divergence


def other_request(
    run: RecordedRun, recorded: Asks, request: Request, turn: int, *, is_elsewhere: bool
) -> Divergence:
    """In what a request differs from the one that was recorded. `is_elsewhere` says that the same was asked,
    at another time."""
    assert recorded.key is not None
    place, tools, settings = recorded.key
    was, now = run.messages(place), _messages(request)
    kind: Kind = "order" if is_elsewhere else "request"
    then = "it was recorded, but not as the next one" if is_elsewhere else "it is not what was recorded"
    if was != now:
        index = next((at for at, pair in enumerate(zip(was, now, strict=False)) if pair[0] != pair[1]), None)
        at = min(len(was), len(now)) if index is None else index
        a, b = was[at] if at < len(was) else b"", now[at] if at < len(now) else b""
        role = _role(b or a)
        return Divergence(
            kind="tool result" if role == "tool" and a and b and not is_elsewhere else kind,
            turn=turn,
            where=f"the request, message {at + 1} ({role})",
            problem=then if a and b else f"{then}: it has {len(now)} messages, and had {len(was)}",
            recorded=_readable(a),
            now=_readable(b),
        )
    digests = Digests(keeps_data=False)
    for name, known, (digest, data) in (
        ("the tools that are offered", run.tools[tools], digests.tools(request.tools)),
        ("its settings", run.settings[settings], digests.settings(request)),
    ):
        if digest not in (tools, settings):
            return Divergence(
                kind=kind,
                turn=turn,
                where=f"the request, {name}",
                problem=then,
                recorded=_spread(known),
                now=_spread(data),
            )
    return Divergence(kind=kind, turn=turn, where="the request", problem=then)


def other_ending(recorded: Ending, now: Ending, turn: int) -> Divergence | None:
    """In what a run ends otherwise; None if it does not."""
    for name in _COMPARED:
        was, found = (msgspec.to_builtins(getattr(each, name)) for each in (recorded, now))
        if was != found:
            return Divergence(
                kind="ending",
                turn=turn,
                where="the ending",
                problem=f"its {name.replace('_', ' ')} is another",
                recorded=_text(was),
                now=_text(found),
            )
    return None


def _messages(request: Request) -> list[bytes]:
    place = Digests().place(request.messages)
    found: list[bytes] = []
    while place.parent is not None:
        found.append(place.data or b"")
        place = place.parent
    found.reverse()
    return found


def _role(data: bytes) -> str:
    value = _value(data)
    return clean(value.get("role", "message"), 20) if isinstance(value, dict) else "message"


def _value(data: bytes) -> JsonValue:
    try:
        found: JsonValue = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found


def _readable(data: bytes) -> str:
    """A message for people: its fields, then its text."""
    value = _value(data)
    if not isinstance(value, dict):
        return data.decode(errors="replace")
    text = value.get("text", value.get("content"))
    fields = [
        f"{name}: {_text(inner)}"
        for name, inner in value.items()
        if name not in ("text", "content") and inner
    ]
    return "\n".join([*fields, _text(text)])


def _spread(data: bytes) -> str:
    try:
        return msgspec.json.format(data, indent=1).decode(errors="replace")
    except msgspec.DecodeError:
        return data.decode(errors="replace")


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else show_json(value)


def _lines(text: str) -> Sequence[str]:
    lines = truncate(text, _DIFFED).split("\n")
    return [*lines, "[the rest is not compared]"] if len(text) > _DIFFED else lines


def _excerpt(text: str, other: str) -> str:
    """A part of a text, from a little before where it differs from another."""
    same = next((at for at, pair in enumerate(zip(text, other, strict=False)) if pair[0] != pair[1]), None)
    start = max((min(len(text), len(other)) if same is None else same) - _BEFORE, 0) if other else 0
    return clean(("…" if start else "") + excerpt(text, start, start + _SHOWN * 2), _SHOWN)
