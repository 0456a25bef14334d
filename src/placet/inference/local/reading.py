"""Read a line with a model of llama.cpp: what would it have written, word for word, given all the rest?

The line is left out, and the model writes it. Where it goes another way than the line does, that is a doubt;
then it is given the word that stands there, and goes on from behind it. The server keeps what it has read, so
that each of these questions costs only what is new in it.

Keep true:
1. A text in which a mark of the model stands is not read: it could pass for the end of what it is in.
2. Whatever the server answers, it ends in doubts or in a ModelError.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from itertools import takewhile
from math import isfinite
from time import perf_counter
from typing import Annotated, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from placet.inference.http import HttpModel
from placet.inference.model import Model, Piece, Request, Result
from placet.inference.passage import Doubt, Passage
from placet.inference.usage import Usage
from placet.inference.wire.format import HttpCall
from placet.inference.wire.openai import authorization
from placet.inference.wrappers.wrapped import Wrapped
from placet.ir.codec import encode
from placet.ir.json_value import JsonValue

MOST_QUESTIONS = 8
"""About one line."""
_LINE_TOKENS = 40
_BELOW_TOKENS = 48
_OTHERS = 10
"""Words besides the likeliest that the model tells of."""
_UNLISTED = 1.0
"""How much less likely than the last of them a word is taken to be that is not among them."""
_MISSING = 5.0
"""How surprising it is that a line goes on where the model would have ended it."""
_LEAST = -3.0
"""How much less likely than the word that stands there another one may be, to be worth telling."""
_MARK = "<|"


class Marks(NamedTuple):
    """How a model was taught to fill in the middle of a file."""

    before: str
    after: str
    middle: str
    repository: str
    file: str


QWEN = Marks("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>")


class _Word(msgspec.Struct):
    token: str
    logprob: float


class _Written(_Word):
    top_logprobs: list[_Word] = []


_Count: TypeAlias = Annotated[int, Meta(ge=0)]


class _Timings(msgspec.Struct):
    cache_n: _Count | None = None


class _Answer(msgspec.Struct):
    content: str
    completion_probabilities: list[_Written] = []
    tokens_evaluated: _Count | None = None
    tokens_predicted: _Count | None = None
    timings: _Timings = msgspec.field(default_factory=_Timings)


class _Piece(msgspec.Struct):
    piece: str | list[int]
    """Bytes, where a word ends within a character."""


class _Pieces(msgspec.Struct):
    tokens: list[_Piece]


class ReadingModel(Wrapped):
    """A model that also reads passages, on the server that answers for it."""

    def __init__(self, model: Model, server: HttpModel, marks: Marks) -> None:
        super().__init__(model)
        self._server = server
        self._marks = marks

    def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer as it comes; doubts come at once."""
        return super().stream(request) if request.passage is None else self._doubts(request, request.passage)

    async def _doubts(self, request: Request, passage: Passage) -> AsyncGenerator[Piece, None]:
        self._server.check_named(request)
        began = perf_counter()
        result = await _read(self._server, passage, self._marks)
        yield msgspec.structs.replace(result, latency_ms=(perf_counter() - began) * 1000)


async def _read(server: HttpModel, passage: Passage, marks: Marks) -> Result:
    """The doubts of the model behind `server`, as JSON, and what they took."""
    if any(_MARK in text for text in (passage.before, passage.line, passage.after, passage.path)):
        return Result(text="[]", usage=Usage(input=0, output=0), cost=0.0)
    reading = _Reading(server, _prompt(passage, marks), passage.line)
    doubts = await reading.doubts()
    return Result(text=encode(doubts).decode(), usage=reading.usage, cost=0.0, model=server.endpoint.model)


def _prompt(passage: Passage, marks: Marks) -> str:
    beside = (each for each in passage.beside if _MARK not in each.path + each.text)
    files = "".join(f"{marks.file}{each.path}\n{each.text}\n" for each in beside)
    head = f"{marks.repository}program\n{files}{marks.file}{passage.path}\n"
    return f"{head}{marks.before}{passage.before}{marks.after}{passage.after}{marks.middle}"


class _Reading:
    """One line that is read."""

    def __init__(self, server: HttpModel, prompt: str, line: str) -> None:
        self._server = server
        self._prompt = prompt
        self._line = line
        self._asked: list[_Answer] = []

    @property
    def usage(self) -> Usage:
        """The text counts once, however often it was asked about: it is read once."""
        if not self._asked:
            return Usage(input=0, output=0)
        first = self._asked[0]
        written = [each.tokens_predicted for each in self._asked]
        return Usage(
            input=first.tokens_evaluated,
            cached=first.timings.cache_n,
            output=None if None in written else sum(each or 0 for each in written),
        )

    async def doubts(self) -> list[Doubt]:
        words = await self._words()
        found: list[Doubt] = []
        others: list[Doubt] = []
        given = 0
        while words and given <= len(words) and len(self._asked) < MOST_QUESTIONS:
            begun = "".join(words[:given])
            answer = await self._ask(begun)
            whole = begun + answer.content
            same, other = given, None
            for written in answer.completion_probabilities:
                if same == len(words) or written.token != words[same]:
                    other = written
                    break
                others += _second_thoughts(words, same, written)
                same += 1
            if whole.rstrip() == self._line.rstrip():
                break
            at = len("".join(words[:same]))
            whole = await self._with_below(begun, whole)
            found.append(Doubt(at=at, instead=whole, surprise=round(_surprise(other, words[same:]), 3)))
            given = same + 1
        return found + others

    async def _words(self) -> list[str]:
        """The line as the model reads it; nothing if one of its words is no text."""
        call = self._call("/tokenize", {"content": self._line, "with_pieces": True})
        pieces = [each.piece for each in (await self._server.asked(call, _Pieces)).tokens]
        words = [piece for piece in pieces if isinstance(piece, str)]
        return words if len(words) == len(pieces) else []

    async def _with_below(self, begun: str, line: str) -> str:
        """A line, and what the model would have written below as a part of it."""
        if not line.rstrip().endswith(":"):
            return line
        # Asked from the same beginning: given the whole line, it often takes it for all there is.
        answer = await self._ask(begun, tokens=_BELOW_TOKENS, stop="\n\n")
        first, *rows = (begun + answer.content).split("\n")
        kept = takewhile(lambda row: row.strip() and _indent(row) > _indent(first), rows)
        return "\n".join([first, *kept])

    async def _ask(self, begun: str, *, tokens: int = _LINE_TOKENS, stop: str = "\n") -> _Answer:
        body: dict[str, JsonValue] = {
            "prompt": self._prompt + begun,
            "n_predict": tokens,
            "temperature": 0.0,
            "stop": [stop],
            "n_probs": _OTHERS,
            "cache_prompt": True,
        }
        answer = await self._server.asked(self._call("/completion", body), _Answer)
        self._asked.append(answer)
        return answer

    def _call(self, path: str, body: dict[str, JsonValue]) -> HttpCall:
        return HttpCall(path=path, headers=authorization(self._server.endpoint.key), body=body)


def _surprise(other: _Written | None, rest: list[str]) -> float:
    """By how much the model prefers its own word to the first of the rest, or to the end of the line."""
    if other is None:
        return _MISSING
    told = [
        each.logprob
        for each in other.top_logprobs
        if (each.token == rest[0] if rest else each.token.startswith("\n"))
    ]
    least = min((each.logprob for each in other.top_logprobs), default=other.logprob)
    surprise = other.logprob - (told[0] if told else least - _UNLISTED)
    return surprise if isfinite(surprise) else _MISSING


def _second_thoughts(words: list[str], at: int, written: _Written) -> list[Doubt]:
    """What the model would also have taken instead of one word, the rest of the line as it is."""
    before, after = "".join(words[:at]), "".join(words[at + 1 :])
    return [
        Doubt(at=len(before), instead=f"{before}{each.token}{after}", surprise=round(surprise, 3))
        for each in written.top_logprobs
        if _LEAST <= (surprise := each.logprob - written.logprob) < 0
        and "\n" not in each.token
        and each.token.strip() not in ("", words[at].strip())
    ]


def _indent(row: str) -> int:
    return len(row) - len(row.lstrip())
