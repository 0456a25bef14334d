"""A server that gives everybody the same answer, as fast as it can: `python -m benchmarks.canned_server`.

It says its port on standard output, speaks OpenAI's format, and ends when its standard input does. A process
of its own, so that what it takes is not the client's time.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping

CHUNKS = 200
WORD = "word "


def whole() -> bytes:
    """One answer in one piece."""
    message = {"role": "assistant", "content": WORD * CHUNKS}
    body = _envelope("chat.completion", {"message": message, "finish_reason": "stop"}, is_last=True)
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def streamed() -> bytes:
    """The same answer in many pieces."""
    choices: list[Mapping[str, object]] = [
        {"delta": {"role": "assistant", "content": ""}, "finish_reason": None}
    ]
    choices += [{"delta": {"content": WORD}, "finish_reason": None}] * CHUNKS
    events = [_envelope("chat.completion.chunk", each) for each in choices]
    last = {"delta": {}, "finish_reason": "stop"}
    events.append(_envelope("chat.completion.chunk", last, is_last=True))
    pieces = [b"data: " + event + b"\n\n" for event in (*events, b"[DONE]")]
    body = b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in (*pieces, b""))
    head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head.encode() + body


def _envelope(kind: str, choice: Mapping[str, object], *, is_last: bool = False) -> bytes:
    usage = {"prompt_tokens": 40, "completion_tokens": CHUNKS, "total_tokens": 40 + CHUNKS}
    answer = {
        "id": "chatcmpl-1",
        "object": kind,
        "created": 1_790_000_000,
        "model": "canned",
        "choices": [{"index": 0, **choice}],
        "usage": usage if is_last else None,
    }
    return json.dumps(answer).encode()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    in_one, in_pieces = whole(), streamed()
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length:")
            )
            body = await reader.readexactly(length)
            writer.write(in_pieces if json.loads(body).get("stream") else in_one)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
