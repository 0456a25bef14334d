"""Answers in all three formats, whole and as streams, and what each of them says.

They are written by hand after the shapes that the providers document. The official clients read them too, so
what stands here as the meaning is theirs and ours at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from placet.inference.model import Stop


@dataclass(frozen=True, slots=True)
class Told:
    """What an answer says, in nobody's format."""

    text: str = ""
    calls: list[tuple[str, str, Mapping[str, Any]]] = field(default_factory=list)
    """Id, name, arguments."""
    reasoning: str = ""
    input: int | None = None
    output: int | None = None
    cached: int | None = None
    stop: Stop = "end"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One answer, in one piece and as a stream."""

    name: str
    told: Told
    body: Any
    events: Sequence[Any] = field(default_factory=list)
    """The stream, event by event."""
    named: bool = False
    """Whether the kind of an event stands in front of its data as well."""
    end: bytes = b""

    @property
    def stream(self) -> bytes:
        return b"".join(self.lines) + self.end

    @property
    def lines(self) -> list[bytes]:
        """One text per event."""
        lines = []
        for event in self.events:
            name = f"event: {event['type']}\n" if self.named else ""
            lines.append(f"{name}data: {json.dumps(event, ensure_ascii=False)}\n\n".encode())
        return lines


def _message(
    content: list[Any], stop: str, usage: dict[str, int], sequence: str | None = None
) -> dict[str, Any]:
    return {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5-20251001",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": sequence,
        "usage": usage,
    }


def _anthropic(
    name: str,
    told: Told,
    content: list[Any],
    stop: str,
    usage: dict[str, int],
    deltas: list[list[dict[str, Any]]],
) -> Recorded:
    """The same message twice; `deltas` are the pieces of each block."""
    empty = {"text": "", "thinking": "", "input": {}, "signature": ""}
    start = _message([], stop, {**usage, "output_tokens": 1}) | {"stop_reason": None}
    events: list[Any] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, (block, pieces) in enumerate(zip(content, deltas, strict=True)):
        begin = {key: empty.get(key, value) if pieces else value for key, value in block.items()}
        events.append({"type": "content_block_start", "index": index, "content_block": begin})
        events += [{"type": "content_block_delta", "index": index, "delta": piece} for piece in pieces]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": stop, "stop_sequence": None}
    told_at_end = {"output_tokens": usage["output_tokens"]}
    events += [{"type": "message_delta", "delta": delta, "usage": told_at_end}, {"type": "message_stop"}]
    return Recorded(name=name, told=told, body=_message(content, stop, usage), events=events, named=True)


def _text(*pieces: str) -> list[dict[str, Any]]:
    return [{"type": "text_delta", "text": each} for each in pieces]


def _json(*pieces: str) -> list[dict[str, Any]]:
    return [{"type": "input_json_delta", "partial_json": each} for each in pieces]


ANTHROPIC = [
    _anthropic(
        "text",
        Told(text="Grüß Gott, 世界.", input=12, output=7),
        [{"type": "text", "text": "Grüß Gott, 世界."}],
        "end_turn",
        {"input_tokens": 12, "output_tokens": 7},
        [_text("Grüß ", "Gott, ", "世界.")],
    ),
    _anthropic(
        "tool",
        Told(
            text="Let me look.",
            calls=[("toolu_1", "read_file", {"path": "a b.txt", "lines": [1, 2]})],
            input=80,
            output=31,
            stop="calls",
        ),
        [
            {"type": "text", "text": "Let me look."},
            {
                "type": "tool_use",
                "id": "toolu_1",
                "name": "read_file",
                "input": {"path": "a b.txt", "lines": [1, 2]},
            },
        ],
        "tool_use",
        {"input_tokens": 80, "output_tokens": 31},
        [_text("Let me ", "look."), _json("", '{"path": "a ', 'b.txt", "li', 'nes": [1, 2]}')],
    ),
    _anthropic(
        "tools at once",
        Told(
            calls=[("toolu_1", "now", {}), ("toolu_2", "add", {"a": 1, "b": -2.5})],
            input=80,
            output=40,
            stop="calls",
        ),
        [
            {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}},
            {"type": "tool_use", "id": "toolu_2", "name": "add", "input": {"a": 1, "b": -2.5}},
        ],
        "tool_use",
        {"input_tokens": 80, "output_tokens": 40},
        [_json(""), _json('{"a": 1,', ' "b": -2.5}')],
    ),
    _anthropic(
        "reasoning",
        Told(text="42", reasoning="Six times seven.", input=20, output=30),
        [
            {"type": "thinking", "thinking": "Six times seven.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "aGlkZGVu"},
            {"type": "text", "text": "42"},
        ],
        "end_turn",
        {"input_tokens": 20, "output_tokens": 30},
        [
            [
                {"type": "thinking_delta", "thinking": "Six times "},
                {"type": "thinking_delta", "thinking": "seven."},
                {"type": "signature_delta", "signature": "c2ln"},
            ],
            [],
            _text("4", "2"),
        ],
    ),
    _anthropic(
        "cache",
        Told(text="Yes.", input=2_150, output=3, cached=2_000),
        [{"type": "text", "text": "Yes."}],
        "end_turn",
        {
            "input_tokens": 50,
            "cache_read_input_tokens": 2_000,
            "cache_creation_input_tokens": 100,
            "output_tokens": 3,
        },
        [_text("Yes.")],
    ),
    _anthropic(
        "length",
        Told(text="One, two, thr", input=5, output=4, stop="length"),
        [{"type": "text", "text": "One, two, thr"}],
        "max_tokens",
        {"input_tokens": 5, "output_tokens": 4},
        [_text("One, two, thr")],
    ),
    _anthropic(
        "stop sequence",
        Told(text="One, two, ", input=5, output=4, stop="stop"),
        [{"type": "text", "text": "One, two, "}],
        "stop_sequence",
        {"input_tokens": 5, "output_tokens": 4},
        [_text("One, two, ")],
    ),
    _anthropic(
        "refusal",
        Told(input=9, output=1, stop="refused"),
        [],
        "refusal",
        {"input_tokens": 9, "output_tokens": 1},
        [],
    ),
]


def _gemini(name: str, told: Told, pieces: list[list[Any]], stop: str, usage: dict[str, int]) -> Recorded:
    """One answer from the parts of each event of its stream."""

    def candidate(parts: list[Any], reason: str | None) -> dict[str, Any]:
        ended = {"finishReason": reason} if reason else {}
        content = {"content": {"parts": parts, "role": "model"}} if parts else {}
        return {**content, **ended, "index": 0}

    def piece(parts: list[Any], reason: str | None) -> dict[str, Any]:
        return {
            "candidates": [candidate(parts, reason)],
            "usageMetadata": usage if reason else {"promptTokenCount": usage["promptTokenCount"]},
            "modelVersion": "gemini-2.5-flash",
            "responseId": "r1",
        }

    last = len(pieces) - 1
    events = [piece(parts, stop if at == last else None) for at, parts in enumerate(pieces)]
    return Recorded(name=name, told=told, body=piece(_joined(pieces), stop), events=events)


def _joined(pieces: list[list[Any]]) -> list[Any]:
    """All parts, texts of one kind in one."""
    joined: list[Any] = []
    for part in (each for parts in pieces for each in parts):
        if (
            joined
            and "text" in part
            and "text" in joined[-1]
            and part.get("thought") == joined[-1].get("thought")
        ):
            joined[-1] = {**joined[-1], **part, "text": joined[-1]["text"] + part["text"]}
        else:
            joined.append(dict(part))
    return joined


GEMINI = [
    _gemini(
        "text",
        Told(text="Grüß Gott, 世界.", input=12, output=7),
        [[{"text": "Grüß "}], [{"text": "Gott, "}], [{"text": "世界."}]],
        "STOP",
        {"promptTokenCount": 12, "candidatesTokenCount": 7, "totalTokenCount": 19},
    ),
    _gemini(
        "tool",
        Told(
            text="Let me look.",
            calls=[("", "read_file", {"path": "a b.txt", "lines": [1, 2]})],
            input=80,
            output=31,
            stop="calls",
        ),
        [
            [{"text": "Let me look."}],
            [
                {
                    "functionCall": {"name": "read_file", "args": {"path": "a b.txt", "lines": [1, 2]}},
                    "thoughtSignature": "c2ln",
                }
            ],
        ],
        "STOP",
        {"promptTokenCount": 80, "candidatesTokenCount": 31, "totalTokenCount": 111},
    ),
    _gemini(
        "tools at once",
        Told(
            calls=[("c1", "now", {}), ("c2", "add", {"a": 1, "b": -2.5})], input=80, output=40, stop="calls"
        ),
        [
            [
                {"functionCall": {"id": "c1", "name": "now", "args": {}}, "thoughtSignature": "c2ln"},
                {"functionCall": {"id": "c2", "name": "add", "args": {"a": 1, "b": -2.5}}},
            ]
        ],
        "STOP",
        {"promptTokenCount": 80, "candidatesTokenCount": 40, "totalTokenCount": 120},
    ),
    _gemini(
        "reasoning",
        Told(text="42", reasoning="Six times seven.", input=20, output=30),
        [[{"text": "Six times ", "thought": True}], [{"text": "seven.", "thought": True}], [{"text": "42"}]],
        "STOP",
        {"promptTokenCount": 20, "candidatesTokenCount": 5, "thoughtsTokenCount": 25, "totalTokenCount": 50},
    ),
    _gemini(
        "cache",
        Told(text="Yes.", input=2_150, output=3, cached=2_000),
        [[{"text": "Yes."}]],
        "STOP",
        {
            "promptTokenCount": 2_150,
            "candidatesTokenCount": 3,
            "cachedContentTokenCount": 2_000,
            "totalTokenCount": 2_153,
        },
    ),
    _gemini(
        "length",
        Told(text="One, two, thr", input=5, output=4, stop="length"),
        [[{"text": "One, two, thr"}]],
        "MAX_TOKENS",
        {"promptTokenCount": 5, "candidatesTokenCount": 4, "totalTokenCount": 9},
    ),
    _gemini(
        "refusal",
        Told(input=9, stop="refused"),
        [[]],
        "SAFETY",
        {"promptTokenCount": 9},
    ),
]


def _openai(
    name: str,
    told: Told,
    message: dict[str, Any],
    stop: str,
    usage: dict[str, Any],
    deltas: list[dict[str, Any]],
) -> Recorded:
    about = {"id": "chatcmpl-1", "created": 1_700_000_000, "model": "gpt-5-mini-2025-08-07"}
    body = {
        **about,
        "object": "chat.completion",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": stop}
        ],
        "usage": usage,
    }
    chunk = {**about, "object": "chat.completion.chunk"}
    pieces: list[tuple[dict[str, Any], str | None]] = [
        ({"role": "assistant", "content": None}, None),
        *((each, None) for each in deltas),
        ({}, stop),
    ]
    events: list[Any] = [
        {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], "usage": None}
        for delta, reason in pieces
    ]
    events.append({**chunk, "choices": [], "usage": usage})
    return Recorded(name=name, told=told, body=body, events=events, end=b"data: [DONE]\n\n")


def _used(read: int, written: int, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written, **more}


def _call(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _piece(index: int, arguments: str, id: str | None = None, name: str | None = None) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    begun = {"id": id, "type": "function"} if id else {}
    return {"tool_calls": [{"index": index, **begun, "function": function}]}


OPENAI = [
    _openai(
        "text",
        Told(text="Grüß Gott, 世界.", input=12, output=7),
        {"content": "Grüß Gott, 世界."},
        "stop",
        _used(12, 7),
        [{"content": "Grüß "}, {"content": "Gott, "}, {"content": "世界."}],
    ),
    _openai(
        "tool",
        Told(
            text="Let me look.",
            calls=[("call_1", "read_file", {"path": "a b.txt", "lines": [1, 2]})],
            input=80,
            output=31,
            stop="calls",
        ),
        {
            "content": "Let me look.",
            "tool_calls": [_call("call_1", "read_file", '{"path": "a b.txt", "lines": [1, 2]}')],
        },
        "tool_calls",
        _used(80, 31),
        [
            {"content": "Let me look."},
            _piece(0, "", "call_1", "read_file"),
            _piece(0, '{"path": "a '),
            _piece(0, 'b.txt", "lines": [1, 2]}'),
        ],
    ),
    _openai(
        "tools at once",
        Told(
            calls=[("call_1", "now", {}), ("call_2", "add", {"a": 1, "b": -2.5})],
            input=80,
            output=40,
            stop="calls",
        ),
        {"tool_calls": [_call("call_1", "now", "{}"), _call("call_2", "add", '{"a": 1, "b": -2.5}')]},
        "tool_calls",
        _used(80, 40),
        [
            _piece(0, "", "call_1", "now"),
            _piece(0, "{}"),
            _piece(1, "", "call_2", "add"),
            _piece(1, '{"a": 1,'),
            _piece(1, ' "b": -2.5}'),
        ],
    ),
    _openai(
        "reasoning",
        Told(text="42", reasoning="Six times seven.", input=20, output=30),
        {"content": "42", "reasoning_content": "Six times seven."},
        "stop",
        _used(20, 30, completion_tokens_details={"reasoning_tokens": 25}),
        [{"reasoning_content": "Six times "}, {"reasoning_content": "seven."}, {"content": "42"}],
    ),
    _openai(
        "cache",
        Told(text="Yes.", input=2_150, output=3, cached=2_000),
        {"content": "Yes."},
        "stop",
        _used(2_150, 3, prompt_tokens_details={"cached_tokens": 2_000}),
        [{"content": "Yes."}],
    ),
    _openai(
        "length",
        Told(text="One, two, thr", input=5, output=4, stop="length"),
        {"content": "One, two, thr"},
        "length",
        _used(5, 4),
        [{"content": "One, two, thr"}],
    ),
    _openai(
        "refusal",
        Told(input=9, output=0, stop="refused"),
        {"content": ""},
        "content_filter",
        _used(9, 0),
        [],
    ),
]
