"""The bodies of HTTP/1 messages: carried from one side to the other, to where the head said that they end."""

from __future__ import annotations

from placet.sandbox.proxy.head import Body, chunk_size
from placet.sandbox.proxy.stream import CHUNK, Ended, Stream

_LINE_BYTES = 1024
_TRAILER_BYTES = 32 * 1024


class Malformed(Exception):
    """A body that is not made as its head says."""


async def forward(source: Stream, body: Body, target: Stream) -> None:
    """Carry a whole body over. Chunks are written anew; what may follow the last one is dropped.

    Raises:
        Malformed, TooLong: the chunks cannot be read.
        Ended: the body ended too early.
        NotTaken: the target takes no more of it.
    """
    match body:
        case "rest":
            while data := await source.some():
                await target.send(data)
        case "chunks":
            await _forward_chunks(source, target)
        case count:
            await _forward_bytes(source, count, target)


async def _forward_bytes(source: Stream, count: int, target: Stream) -> None:
    while count:
        data = await source.some(min(count, CHUNK))
        if not data:
            raise Ended
        await target.send(data)
        count -= len(data)


async def _forward_chunks(source: Stream, target: Stream) -> None:
    while size := await _size(source):
        await target.send(b"%x\r\n" % size)
        await _forward_bytes(source, size, target)
        await source.until(b"\r\n", 2)
        await target.send(b"\r\n")
    left = _TRAILER_BYTES
    while line := await source.until(b"\r\n", left):
        left -= len(line)
    await target.send(b"0\r\n\r\n")


async def _size(source: Stream) -> int:
    size = chunk_size(await source.until(b"\r\n", _LINE_BYTES))
    if size is None:
        raise Malformed
    return size
