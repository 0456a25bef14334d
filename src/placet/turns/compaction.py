"""Make room in a conversation before it overflows.

Providers keep the beginning of a conversation and charge less for what they have read before. Every change to
the past throws that away. So compaction is rare: once it has to happen it aims at half of the room, and where
it can it frees a quarter at least.

What goes first is what is least missed: the results of old calls, then what those were given, then whole old
turns, and only if nothing else is left the middle of what the newest tools have answered, and what they were
given. At the very last, messages of people go.

Keep true:
1. No result without its call, and no call that had a result without one; the order stays.
2. What holds for the whole conversation stays as it is. So does what people said first, and what they said
   last; of the rest, one that is left is whole.
3. The same conversation and room always give the same; a second time there is nothing left to do.
4. What comes out is smaller than what went in.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from placet.errors import DecodeError
from placet.inference.messages import Assistant, Image, Message, System, ToolCall, ToolResult, User
from placet.ir.codec import decode_json
from placet.ir.json_value import JsonValue, canonical_bytes, show_json
from placet.model_text import shortened
from placet.safe_text import clean

KEPT_TURNS = 2
"""The newest turns, whose results the model is still at work on."""
IMAGE = 1_500
"""Tokens, however large the picture."""

_BYTES_PER_TOKEN = 4
_PER_MESSAGE = 4
_PER_CALL = 8
_LIMITS = (8192, 4096, 2048, 1024, 512, 256)
"""Bytes of one of the newest results, if need be: as many as there is room for."""
_LONG_ARGUMENT = 200
"""Characters of what a call was given, from which on only a line is left of it."""
_MOST_NAMES = 20
_LONGEST_NAME = 64
_OTHERS = "(others)"

_STUB = re.compile(
    r"\[The result of .{0,80}, [0-9,]+ characters, was left out to make room(?:; .{1,1000})?\.\]"
)
_NOTE = re.compile(
    r"\[To make room, (?:(?P<turns>[0-9]{1,12}) earlier turns?)?(?: and )?"
    r"(?:(?P<messages>[0-9]{1,12}) (?:earlier )?messages?)? (?:was|were) left out here\."
    r"(?: Tools called in (?:it|them): (?P<tools>\{.{0,4000}\})\.)?\]"
)
_WHERE = re.compile(r"^\[… [0-9,]+ bytes in all, the middle is left out; (.{1,1000}) …\]$", re.MULTILINE)
"""What `shortened` has put where it cut: it says where the rest is."""
_NO_ROOM = "there was no room for it"


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation that takes less room."""

    messages: list[Message]
    sizes: list[int]
    """Of each message, in estimated tokens."""
    left_out: int
    """Results that were shortened, or of which only a line is left."""
    dropped: int
    """Turns that are gone."""
    cut_calls: int = 0
    """Calls of which a part of what they were given is gone."""
    unsaid: int = 0
    """Messages of people that are gone."""


def size_of(message: Message) -> int:
    """How many tokens a message takes, roughly.

    A token is about four bytes: four letters of English, one and a third of a Chinese sign.
    """
    match message:
        case System(text=text):
            return _PER_MESSAGE + _tokens(_bytes(text))
        case User(content=str(text)):
            return _PER_MESSAGE + _tokens(_bytes(text))
        case User(parts=parts):
            return _PER_MESSAGE + sum(
                IMAGE if isinstance(part, Image) else _tokens(_bytes(part.text)) for part in parts
            )
        case Assistant(text=text, calls=calls, carried=carried):
            count = _bytes(text)
            for call in calls:
                count += _bytes(call.name) + _bytes(call.raw) + _bytes_of_json(call.arguments)
                if call.carried is not None:
                    count += _bytes_of_json(call.carried.data)
            if carried is not None:
                count += _bytes_of_json(carried.data)
            return _PER_MESSAGE + _PER_CALL * len(calls) + _tokens(count)
        case ToolResult(text=text, name=name):
            return _PER_MESSAGE + _tokens(_bytes(text) + _bytes(name))


def compacted(
    messages: Sequence[Message], sizes: Sequence[int], room: int, *, stays: Message | None = None
) -> Compacted | None:
    """The conversation in at most `room` tokens, or in as few as can be had; None if nothing has to be freed,
    or nothing can be.

    `sizes` are those of `size_of`, one for each message. `stays` is one that must not go.
    """
    if sum(sizes) <= room:
        return None
    # With a quarter of the room free it will be a while until the next time, and more is remembered.
    enough = room - room // 4
    work = _Work(messages, sizes, room // 2)
    work.leave_out_results()
    if work.total > enough:
        work.shorten_old_calls()
    if work.total > enough:
        work.drop_turns()
    # What the model has not even read yet is cut only if there is no other way.
    if work.total > room:
        work.shorten_newest()
    if work.total > room:
        work.shorten_newest_calls(enough)
    if work.total > room:
        work.drop_messages(enough, stays)
    return work.done()


class _Note(NamedTuple):
    at: int | None
    size: int
    turns: int
    messages: int
    tools: Counter[str]


class _Work:
    """One compaction under way."""

    def __init__(self, messages: Sequence[Message], sizes: Sequence[int], aim: int) -> None:
        self._before = sum(sizes)
        self._messages: list[Message | None] = list(messages)
        """None: dropped."""
        self._sizes = list(sizes)
        self._aim = aim
        self.total = self._before
        turns = list(_turns(messages))
        kept = KEPT_TURNS + (bool(turns) and not _is_answered(messages, turns[-1]))
        self._old, self._newest = turns[:-kept], turns[-kept:]
        self._changed: set[int] = set()
        self._cut: dict[int, int] = {}
        """By the message of the model, how many of its calls were shortened."""
        self._dropped = 0
        self._unsaid = 0

    def leave_out_results(self) -> None:
        """From the oldest on, put a line in the place of a result."""
        for at in (at for turn in self._old for at in turn[1:]):
            if self.total <= self._aim:
                return
            result = self._messages[at]
            assert isinstance(result, ToolResult)
            if _STUB.fullmatch(result.text) is None:
                self._shorten(at, result, _stub(result))

    def shorten_old_calls(self) -> None:
        """From the oldest on, put a line in the place of what calls were given."""
        self._shorten_calls(self._old, self._aim)

    def shorten_newest_calls(self, enough: int) -> None:
        """The same in the newest turns, as far as the calls have their results."""
        self._shorten_calls(self._newest, enough)

    def drop_turns(self) -> None:
        """From the oldest on, drop turns whole. One message tells how many they were."""
        told = self._told_so_far()
        tools = told.tools
        left, gone, note_size = self.total - told.size, 0, told.size
        note: User | None = None
        for turn in self._old:
            if left + note_size <= self._aim:
                break
            asked = self._messages[turn[0]]
            assert isinstance(asked, Assistant)
            tools.update(_name(call.name) for call in asked.calls)
            tools = _most_called(tools)
            left -= sum(self._sizes[at] for at in turn)
            gone += 1
            note = _note(told.turns + gone, told.messages, tools)
            note_size = size_of(note)
        going = [at for turn in self._old[:gone] for at in turn]
        if note is not None and self._exchange(going, note, told.at, left + note_size):
            self._dropped += gone
            self._old = self._old[gone:]

    def drop_messages(self, enough: int, stays: Message | None) -> None:
        """From the oldest on, drop what people said, but what they said first and last, and what `stays`."""
        told = self._told_so_far()
        said = [at for at, each in enumerate(self._messages) if isinstance(each, User) and at != told.at]
        left, going, note_size = self.total - told.size, list[int](), told.size
        note: User | None = None
        for at in said[1:-1]:
            if left + note_size <= enough:
                break
            if self._messages[at] is stays:
                continue
            left -= self._sizes[at]
            going.append(at)
            note = _note(told.turns, told.messages + len(going), told.tools)
            note_size = size_of(note)
        if note is not None and self._exchange(going, note, told.at, left + note_size):
            self._unsaid = len(going)
            # There is a note now: with it, turns may be worth dropping that were not.
            self.drop_turns()

    def shorten_newest(self) -> None:
        """Cut the results of the newest turns in their middle: the longest first, of those the oldest."""
        whole = [(at, result) for turn in self._newest for at in turn[1:] if (result := self._result(at))]
        for limit in _LIMITS:
            for at, result in whole:
                if self.total <= self._aim:
                    return
                # Always from the whole, so that what was cut is told once and rightly.
                self._shorten(at, result, _cut(result.text, limit))

    def done(self) -> Compacted | None:
        """What has come of it."""
        if self.total >= self._before:
            return None
        left = [at for at, message in enumerate(self._messages) if message is not None]
        return Compacted(
            messages=[message for message in self._messages if message is not None],
            sizes=[self._sizes[at] for at in left],
            left_out=len(self._changed.intersection(left)),
            dropped=self._dropped,
            cut_calls=sum(self._cut.get(at, 0) for at in left),
            unsaid=self._unsaid,
        )

    def _result(self, at: int) -> ToolResult | None:
        message = self._messages[at]
        return message if isinstance(message, ToolResult) else None

    def _shorten(self, at: int, result: ToolResult, text: str) -> None:
        shorter = msgspec.structs.replace(result, text=text)
        size = size_of(shorter)
        if size < self._sizes[at]:
            self.total += size - self._sizes[at]
            self._messages[at], self._sizes[at] = shorter, size
            self._changed.add(at)

    def _shorten_calls(self, turns: Sequence[Sequence[int]], enough: int) -> None:
        for asked_at, *results in turns:
            if self.total <= enough:
                return
            asked = self._messages[asked_at]
            assert isinstance(asked, Assistant)
            # A call that has no result yet is still to be made.
            calls = [*map(_short_call, asked.calls[: len(results)]), *asked.calls[len(results) :]]
            cut = sum(new is not old for new, old in zip(calls, asked.calls, strict=True))
            shorter = msgspec.structs.replace(asked, calls=tuple(calls))
            size = size_of(shorter)
            if size < self._sizes[asked_at]:
                self.total += size - self._sizes[asked_at]
                self._messages[asked_at], self._sizes[asked_at] = shorter, size
                self._cut[asked_at] = cut

    def _exchange(self, going: Sequence[int], note: User, note_at: int | None, total: int) -> bool:
        """Drop messages for a note, with which there are `total` tokens, if that frees anything."""
        if total >= self.total:
            return False
        for at in going:
            self._messages[at] = None
        at = going[0] if note_at is None else note_at
        self._messages[at], self._sizes[at] = note, size_of(note)
        self.total = total
        return True

    def _told_so_far(self) -> _Note:
        """What an earlier compaction has told of what it dropped."""
        for at, message in enumerate(self._messages):
            if isinstance(message, User) and isinstance(message.content, str):
                told = _NOTE.fullmatch(message.content)
                if told is not None and (tools := _counts(told["tools"] or "{}")) is not None:
                    turns, messages = int(told["turns"] or 0), int(told["messages"] or 0)
                    return _Note(at, self._sizes[at], turns, messages, tools)
        return _Note(None, 0, 0, 0, Counter())


def _turns(messages: Sequence[Message]) -> Iterator[list[int]]:
    """For each turn, where the model's message is, and then where its results are."""
    turn: list[int] = []
    for at, message in enumerate(messages):
        if isinstance(message, Assistant):
            if turn:
                yield turn
            turn = [at]
        elif isinstance(message, ToolResult) and turn:
            turn.append(at)
    if turn:
        yield turn


def _is_answered(messages: Sequence[Message], turn: Sequence[int]) -> bool:
    asked = messages[turn[0]]
    return isinstance(asked, Assistant) and len(turn) > len(asked.calls)


def _stub(result: ToolResult) -> str:
    where = _where(result.text)
    rest = "" if where == _NO_ROOM else f"; {where}"
    return (
        f"[The result of {_name(result.name)}, {len(result.text):,} characters, "
        f"was left out to make room{rest}.]"
    )


def _cut(text: str, limit: int) -> str:
    # The words about the rest come in addition: with less they would be all that is left, or be cut again.
    where = _where(text)
    return shortened(text, limit + _bytes(where), lambda _: where)


def _where(text: str) -> str:
    """Where the rest of a result is that was cut before."""
    before = _WHERE.search(text)
    return before[1] if before is not None else _NO_ROOM


def _most_called(tools: Counter[str]) -> Counter[str]:
    """The tools that were called most, in a fixed order, and the others together: a note stays short."""
    ranked = sorted(tools.items(), key=lambda item: (item[0] == _OTHERS, -item[1], item[0]))
    most = Counter(dict(ranked[:_MOST_NAMES]))
    if others := sum(count for _, count in ranked[_MOST_NAMES:]):
        most[_OTHERS] += others
    return most


def _short_call(call: ToolCall) -> ToolCall:
    if call.problem:
        if len(call.raw) <= _LONG_ARGUMENT:
            return call
        # Some providers read it.
        return msgspec.structs.replace(call, raw=show_json({"note": _left_out(len(call.raw))}))
    short: dict[str, JsonValue] = {}
    for name, value in call.arguments.items():
        length = len(value) if isinstance(value, str) else _bytes_of_json(value)
        short[name] = _left_out(length) if length > _LONG_ARGUMENT else value
    is_same = all(short[name] is value for name, value in call.arguments.items())
    return call if is_same else msgspec.structs.replace(call, arguments=short)


def _left_out(length: int) -> str:
    return f"[{length:,} characters were left out to make room]"


def _note(turns: int, messages: int, tools: Counter[str]) -> User:
    parts = []
    if turns:
        parts.append("1 earlier turn" if turns == 1 else f"{turns} earlier turns")
    if messages:
        earlier = "" if turns else "earlier "
        parts.append(f"1 {earlier}message" if messages == 1 else f"{messages} {earlier}messages")
    was, it = "was" if turns + messages == 1 else "were", "it" if turns == 1 else "them"
    calls = f" Tools called in {it}: {show_json(tools)}." if turns else ""
    return User(f"[To make room, {' and '.join(parts)} {was} left out here.{calls}]")


def _counts(text: str) -> Counter[str] | None:
    """What a note says about tools; None if it is no note of ours."""
    try:
        told = decode_json(text)
    except DecodeError:
        return None
    is_ours = isinstance(told, dict) and all(type(count) is int and count > 0 for count in told.values())
    return Counter(told) if is_ours else None


def _name(name: str) -> str:
    # A model may call tools that there are not, by any name.
    return clean(name, _LONGEST_NAME)


def _tokens(count: int) -> int:
    return -(-count // _BYTES_PER_TOKEN)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _bytes_of_json(value: JsonValue) -> int:
    try:
        return len(canonical_bytes(value))
    except (TypeError, ValueError, RecursionError):
        return len(repr(value))
