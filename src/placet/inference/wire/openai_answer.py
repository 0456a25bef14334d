"""Answers in OpenAI's format, in one piece or as they come.

Keep true:
1. Both ways give the same result.
2. Of a stream nothing is a result before the server says why it stopped.
3. Servers differ in how they cut calls into pieces; each piece ends up in the call that it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from placet.inference.messages import Carried, ToolCall
from placet.inference.model import Result, Stop, Thought, Words
from placet.inference.sse import Event
from placet.inference.usage import Usage
from placet.inference.wire.envelopes import mended, whole_result
from placet.inference.wire.format import Refusal, Refused, Unreadable
from placet.inference.wire.openai_refusals import openai_refusal
from placet.inference.wire.shapes import (
    an_object,
    count,
    event_data,
    fields,
    objects,
    tool_call,
    tool_call_of_text,
    without_cut,
    words,
)
from placet.ir.json_value import JsonValue

FORMAT = "openai"
_STOPS: Mapping[str, Stop] = {
    "stop": "end",
    "length": "length",
    "tool_calls": "calls",
    "function_call": "calls",
    "content_filter": "refused",
}
_FAILED = ("error", "insufficient_system_resource")
"""Reasons to stop that mean: the server behind the server broke down."""


def openai_result(body: JsonValue) -> Result:
    """What a whole answer says.

    Raises:
        Refused: it is an error after all.
        Unreadable: it is of no shape that is known.
    """
    answer = _Answer()
    answer.take_whole(an_object(body, "the answer"))
    return answer.result()


class OpenAiStream:
    """One answer as it comes in."""

    def __init__(self) -> None:
        self._answer = _Answer()
        self.is_done = False

    def feed(self, event: Event) -> Iterator[Words | Thought]:
        """What one event brings for whoever watches."""
        if self.is_done or not event.data:
            return
        if event.data == "[DONE]":
            self.is_done = True
            return
        chunk = event_data(event.data)
        if event.name == "error" and not chunk.get("error"):
            raise Refused(openai_refusal(200, chunk))
        yield from self._answer.take_chunk(chunk)

    def result(self) -> Result:
        """All of it."""
        return self._answer.result()


class _Call:
    """A call in the making."""

    __slots__ = ("arguments", "id", "name", "whole")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.whole: JsonValue = None
        """The arguments, from a server that sends them as JSON instead of as a text of JSON."""

    def take(self, given: dict[str, Any]) -> None:
        function = fields(given.get("function"))
        id, name, arguments = words(given.get("id")), words(function.get("name")), function.get("arguments")
        # Some say the name again with every piece, a few cut it into pieces.
        if name != self.name:
            self.name += name
        self.id = self.id or id
        if isinstance(arguments, str):
            self.arguments.append(arguments)
        elif arguments is not None:
            self.whole = arguments

    @property
    def has_begun(self) -> bool:
        """Whether any of the arguments are there: the name is complete then."""
        return self.whole is not None or any(self.arguments)

    def goes_on_with(self, given: dict[str, Any], name: str) -> bool:
        """Whether a piece that has the same id and no index belongs to this call."""
        if not name or not self.name:
            return True
        more = fields(given.get("function")).get("arguments")
        if name != self.name:
            return False
        # The same tool: another call where this one came in one piece, and so does the other.
        return not more or not self._is_one_piece()

    def _is_one_piece(self) -> bool:
        if self.whole is not None:
            return True
        return (
            len(self.arguments) == 1 and not tool_call_of_text(self.name, self.arguments[0] or "[]").problem
        )

    def made(self) -> ToolCall:
        if not self.name:
            raise Unreadable("a call in it names no tool")
        if self.whole is not None:
            return tool_call(self.name, self.whole, id=self.id)
        return tool_call_of_text(self.name, "".join(self.arguments), id=self.id)


class _Answer:
    """An answer in the making, of one piece or of many."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}
        self._echoes_text = False
        self._details: list[dict[str, Any]] = []
        self._usage: Usage | None = None
        self._cost: float | None = None
        self._model = ""
        self._finish = ""
        self._is_refused = False

    def take_whole(self, body: dict[str, Any]) -> None:
        """All at once."""
        choices = self._begin(body)
        if not choices:
            raise Unreadable("it holds no choices")
        message = an_object(choices[0].get("message"), "the message")
        for _ in self._take(message, is_whole=True):
            pass
        # Without a reason the answer is still whole: the end of the body was its end.
        self._finish = words(choices[0].get("finish_reason")) or "stop"

    def take_chunk(self, body: dict[str, Any]) -> Iterator[Words | Thought]:
        """A piece."""
        for choice in self._begin(body)[:1]:
            yield from self._take(fields(choice.get("delta")))
            self._finish = words(choice.get("finish_reason")) or self._finish

    def _begin(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        raise_error(body)
        self._model = words(body.get("model")) or self._model
        if isinstance(body.get("usage"), dict):
            self._usage, self._cost = _usage(body["usage"])
        choices = [each for each in objects(body.get("choices")) if not each.get("index")]
        for each in choices:
            raise_error(each)
        return choices

    def _take(self, message: dict[str, Any], *, is_whole: bool = False) -> Iterator[Words | Thought]:
        reasoning = words(message.get("reasoning_content")) or words(message.get("reasoning"))
        for piece in (Thought(reasoning), *_contents(message.get("content"))):
            if piece.text:
                (self._reasoning if isinstance(piece, Thought) else self._text).append(piece.text)
                yield piece
        refusal = words(message.get("refusal"))
        if refusal:
            self._is_refused = True
            self._text.append(refusal)
            yield Words(refusal)
        for given in objects(message.get("tool_calls")):
            (self._new_call() if is_whole else self._call_for(given)).take(given)
        self._echoes_text = self._echoes_text or bool(words(message.get("reasoning_content")))
        for detail in objects(message.get("reasoning_details")):
            _add_detail(self._details, detail)

    def _call_for(self, given: dict[str, Any]) -> _Call:
        """The call that a piece belongs to, however little the server says about that."""
        id, name = words(given.get("id")), words(fields(given.get("function")).get("name"))
        index = count(given.get("index"))
        if index is not None:
            found = self._at.get(index)
            # Some number every call 0: with a name, another id is another call, and so is another name
            # behind arguments.
            is_other = found is not None and bool(
                name and found.name and ((id and id != found.id) or (name != found.name and found.has_begun))
            )
        elif id:
            found = next((each for each in reversed(self._calls) if each.id == id), None)
            is_other = found is not None and not found.goes_on_with(given, name)
        else:
            found = self._calls[-1] if self._calls else None
            is_other = bool(name)
        if found is None or is_other:
            found = self._new_call()
        if index is not None:
            self._at[index] = found
        return found

    def _new_call(self) -> _Call:
        self._calls.append(_Call())
        return self._calls[-1]

    def _carried(self) -> Carried | None:
        """What the server wants back with the results of the calls."""
        data: dict[str, JsonValue] = {}
        if self._echoes_text:
            data["reasoning_content"] = "".join(self._reasoning)
        if self._details:
            data["reasoning_details"] = mended(self._details)
        return Carried(format=FORMAT, data=data) if data and self._calls else None

    def result(self) -> Result:
        if self._finish in _FAILED:
            said = f"it stopped for the reason '{self._finish}'"
            raise Refused(Refusal(kind="unavailable", message=said))
        if not self._finish:
            raise Unreadable("it broke off before its end")
        stop = _STOPS.get(self._finish, "other")
        calls = without_cut([each.made() for each in self._calls], stop)
        if self._is_refused:
            stop = "refused"
        elif stop == "calls" and not calls:
            stop = "end"
        elif calls and stop in ("end", "other"):
            stop = "calls"
        return whole_result(
            Result(
                text="".join(self._text),
                calls=calls,
                reasoning="".join(self._reasoning),
                usage=self._usage,
                cost=self._cost,
                model=self._model,
                stop=stop,
                carried=self._carried(),
            )
        )


def raise_error(body: dict[str, Any]) -> None:
    """Raise `Refused` for the error in it: some servers answer 200, and then say that they failed."""
    if body.get("error"):
        raise Refused(openai_refusal(200, body))


def _contents(content: JsonValue) -> Iterator[Words | Thought]:
    """A text, or a list of parts, of which some are thoughts."""
    if isinstance(content, str):
        yield Words(content)
    for part in objects(content):
        yield Words(words(part.get("text")))
        thought = part.get("thinking")
        yield Thought(thought if isinstance(thought, str) else "".join(w.text for w in _contents(thought)))


def _add_detail(details: list[dict[str, Any]], given: dict[str, Any]) -> None:
    """Put a piece of reasoning to the one it continues, or behind all of them."""
    last = details[-1] if details else {}
    if given.get("index") is None or any(last.get(each) != given.get(each) for each in ("type", "index")):
        details.append(dict(given))
        return
    for name, value in given.items():
        if name in ("text", "summary", "data") and isinstance(value, str):
            last[name] = words(last.get(name)) + value
        elif value is not None:
            last[name] = value


def _usage(given: dict[str, Any]) -> tuple[Usage | None, float | None]:
    details = fields(given.get("prompt_tokens_details"))
    cached = count(details.get("cached_tokens"))
    usage = Usage(
        input=count(given.get("prompt_tokens")),
        output=count(given.get("completion_tokens")),
        cached=count(given.get("prompt_cache_hit_tokens")) if cached is None else cached,
        cache_written=count(details.get("cache_write_tokens")),
    )
    cost = given.get("cost")
    # No number is beyond JSON; what nobody has is no cost.
    is_cost = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9
    return (None if usage == Usage() else usage), (cost if is_cost else None)
