"""A model behind HTTP: sends what a wire format says, and reads what comes back.

Keep true:
1. The key goes to the provider's URL alone: no redirect is followed.
2. Leaving, by an error, by cancelling or by closing the stream, closes the connection at once.
3. What is kept of an answer is bounded, counted after unpacking.
4. A parameter that a server does not take is left out from then on, instead of failing every request.
5. One model may be asked from several event loops and threads.
6. An answer that is complete is not lost by what follows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar, runtime_checkable

import msgspec

from placet.errors import (
    AnswerUnreadable,
    DecodeError,
    ModelMissing,
    ModelTimeout,
    ModelUnavailable,
    RequestRefused,
    UnknownModel,
)
from placet.inference.connections import Connections
from placet.inference.failures import failure, own_words
from placet.inference.http_headers import retry_after, unpacker, wants_retry
from placet.inference.model import Piece, Request, Result, StreamingModel, Thought, Vectors, Words
from placet.inference.providers import Endpoint, is_loopback
from placet.inference.sse import Event, EventDecoder, TooLong
from placet.inference.tool_names import sent_names, with_own_names, with_sent_names
from placet.inference.usage import Price, Usage
from placet.inference.wire.dialect import dialect_without
from placet.inference.wire.envelopes import WholeCharacters, mended, read_envelope
from placet.inference.wire.format import (
    Dialect,
    HttpCall,
    Refusal,
    Refused,
    StreamReader,
    Unreadable,
    WireFormat,
)
from placet.ir.codec import encode
from placet.ir.json_value import JsonValue

if TYPE_CHECKING:
    import httpx2

CONNECT_S = 10.0
BETWEEN_S = 60.0
AFTER_S = 1.0
"""For all that follows the last event of a stream."""
TOTAL_S = 600.0
MOST_BYTES = 64 * 1024 * 1024
"""Of a stream, or of vectors."""
MOST_WHOLE = 16 * 1024 * 1024
"""Of an answer in one piece."""
LARGE = 1024 * 1024
"""A longer body is decoded in a thread: it takes long enough for others to notice."""
MOST_TEXTS = 256
"""Texts in one request for vectors; more are asked for in turn."""

_T = TypeVar("_T")


@runtime_checkable
class EmbeddingFormat(Protocol):
    """A wire format that also knows vectors."""

    def embedding_call(self, texts: Sequence[str], model: str, key: str | None) -> HttpCall: ...

    def vectors(self, body: JsonValue, wanted: int) -> Vectors: ...


class HttpModel(StreamingModel):
    """One model at one provider."""

    def __init__(
        self,
        endpoint: Endpoint,
        wire: WireFormat,
        *,
        price: Price | None = None,
        between_s: float = BETWEEN_S,
        total_s: float = TOTAL_S,
    ) -> None:
        """`total_s` is waited for the beginning of an answer, `between_s` for each piece that follows."""
        self.endpoint = endpoint
        self.name = endpoint.name
        self._wire = wire
        self._price = price
        self._between_s = between_s
        self._total_s = total_s
        self._dialect: Dialect = endpoint.provider.dialect
        self._connections = Connections(endpoint)

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer as it comes."""
        self._check_asked(request)
        began = perf_counter()
        names = sent_names(request)
        async with self._answer(with_sent_names(request, names)) as response:
            kind = response.headers.get("content-type", "")
            if not request.stream or "json" in kind or "html" in kind:
                # Some servers answer in one piece although they were asked for a stream.
                with self._reading():
                    result = await self._whole(response)
                if request.stream and result.reasoning:
                    yield Thought(result.reasoning)
                if request.stream and result.text:
                    yield Words(result.text)
            else:
                reader, decoder, characters = self._wire.reader(), EventDecoder(), WholeCharacters()
                with self._reading():
                    async with aclosing(
                        self._chunks(response, self._between_s, decoder.feed, reader=reader)
                    ) as chunks:
                        async for some in chunks:
                            for piece in _pieces(some, reader):
                                for whole in characters.take(piece):
                                    yield whole
                    for piece in _pieces(decoder.finish(), reader):
                        for whole in characters.take(piece):
                            yield whole
                    for whole in characters.finish():
                        yield whole
                    result = reader.result()
        yield self._told(result, names, began)

    @property
    def makes_vectors(self) -> bool:
        """Whether its format knows vectors."""
        return isinstance(self._wire, EmbeddingFormat)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """One vector per text, in order, each of length 1, and what they took.

        Raises:
            ModelMissing: the provider's format has none.
        """
        wire = self._wire
        if not isinstance(wire, EmbeddingFormat):
            raise ModelMissing(
                f"{self.name} makes no vectors: they are not asked for in the format '{wire.name}'. Choose a "
                "model of a provider that speaks OpenAI's format, or 'embed', which runs on this machine."
            )
        found: list[list[float]] = []
        read: int | None = 0
        for start in range(0, len(texts), MOST_TEXTS):
            some = texts[start : start + MOST_TEXTS]
            call = wire.embedding_call(some, self.endpoint.model, self.endpoint.key)
            async with self._sent(call, stream=False) as response:
                if response.status_code >= 300:
                    self._fail(await self._refusal(response), response)
                with self._reading():
                    part = await self._vectors(wire, response, len(some))
            found += part
            known = part.usage.input if part.usage is not None else None
            read = None if read is None or known is None else read + known
        if len({len(each) for each in found}) > 1:
            raise self._unreadable("its vectors are not of one length")
        usage = Usage(input=read, output=0) if read is not None else None
        return Vectors(found, usage=usage, cost=self._price.cost(usage) if self._price is not None else None)

    async def asked(self, call: HttpCall, shape: type[_T]) -> _T:
        """What the server says to a call that no format makes.

        Raises:
            ModelError: it refuses, or answers in another shape.
        """
        async with self._sent(call, stream=False) as response:
            if response.status_code >= 300:
                self._fail(await self._refusal(response), response)
            with self._reading():
                body = await self._body(response)
                return await _off_loop(body, lambda: _shaped(mended(_decoded(body)), shape))

    async def close(self) -> None:
        """Let go of the connections. Asked again, it makes new ones."""
        await self._connections.close()

    def check_named(self, request: Request) -> None:
        """Raise where another model is asked for: a named one is a hard choice, also for one that nobody
        stands before.

        Raises:
            UnknownModel: it is another one.
        """
        if request.model not in (None, self.name, self.endpoint.provider.name):
            raise UnknownModel(
                f"The request is for '{request.model}', and this is {self.name}. Ask the other one."
            )

    def _check_asked(self, request: Request) -> None:
        self.check_named(request)
        if request.passage is not None:
            raise RequestRefused(f"{self.name} reads no passages. Ask 'local', or put it into a message.")

    def _told(self, result: Result, names: Mapping[str, str], began: float) -> Result:
        cost = result.cost if self._dialect.tells_cost else None
        if cost is None and self._price is not None:
            cost = self._price.cost(result.usage)
        return msgspec.structs.replace(
            with_own_names(result, names),
            cost=cost,
            model=result.model or self.endpoint.model,
            latency_ms=(perf_counter() - began) * 1000,
        )

    @asynccontextmanager
    async def _answer(self, request: Request) -> AsyncIterator[httpx2.Response]:
        """An answer that is none of an error, its body still to be read."""
        while True:
            dialect = self._dialect
            call = self._wire.call(
                request, self.endpoint.model, self.endpoint.key, dialect, stream=request.stream
            )
            async with self._sent(call, stream=request.stream) as response:
                if response.status_code < 300:
                    yield response
                    return
                refusal = await self._refusal(response)
                other = dialect_without(refusal, dialect)
                if other is None:
                    self._fail(refusal, response)
                self._dialect = other

    @asynccontextmanager
    async def _sent(self, call: HttpCall, *, stream: bool) -> AsyncIterator[httpx2.Response]:
        import httpx2

        # An answer may well begin only after minutes: a model thinks, or reads a long conversation.
        within = httpx2.Timeout(self._total_s, connect=CONNECT_S)
        where = f"{self.endpoint.provider.name} ({self.endpoint.place})"
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream" if stream else "application/json",
            # What is packed comes late, and what comes late is no stream.
            "accept-encoding": "identity" if stream else "gzip",
            "user-agent": "placet",
        }
        try:
            async with (await self._connections.here()).stream(
                "POST",
                f"{self.endpoint.url}{call.path}",
                params=call.query or None,
                headers={**headers, **self._dialect.headers, **call.headers},
                content=self._encoded(call.body),
                timeout=within,
                follow_redirects=False,
            ) as response:
                yield response
        except httpx2.ConnectTimeout:
            raise ModelUnavailable(
                f"{where} did not take a connection within {CONNECT_S:g} s. Check the URL and the network."
            ) from None
        except httpx2.TimeoutException:
            raise self._late(self._total_s) from None
        except httpx2.ConnectError as error:
            raise ModelUnavailable(
                f"{where} cannot be reached: {self._own_words(error)}. {self._remedy()}"
            ) from None
        except (httpx2.RequestError, httpx2.InvalidURL) as error:
            raise ModelUnavailable(f"{where} hung up: {self._own_words(error)}. Try again.") from None

    def _encoded(self, body: dict[str, JsonValue]) -> bytes:
        try:
            return encode(body)
        except (UnicodeEncodeError, TypeError, ValueError, RecursionError, OverflowError) as error:
            raise RequestRefused(
                f"The request to {self.name} cannot be written as JSON: {own_words(str(error), None)}. Take "
                "out of its messages, tools and schema what JSON does not have."
            ) from None

    async def _refusal(self, response: httpx2.Response) -> Refusal:
        status = response.status_code
        if status < 400:
            place = response.headers.get("location", "nowhere")
            return Refusal(kind="request", message=f"it redirects to {place}; set its URL to that")
        with self._reading():
            body = await self._body(response)
        try:
            told = await _off_loop(body, lambda: mended(_decoded(body)))
            return self._wire.refusal(status, told)
        except Unreadable:
            return self._wire.refusal(status, body.decode(errors="replace"))

    def _fail(self, refusal: Refusal, response: httpx2.Response) -> NoReturn:
        headers = response.headers
        error = failure(
            refusal,
            self.endpoint,
            status=response.status_code,
            retry_after_s=refusal.retry_after_s if (told := retry_after(headers)) is None else told,
        )
        asked = wants_retry(headers)
        if asked is not None:
            error.may_pass = asked
        raise error

    async def _whole(self, response: httpx2.Response) -> Result:
        """What an answer in one piece says. Apart, like all that reads one: what is wrong is raised once more
        where no variable holds the server's words, which may repeat the key."""
        body = await self._body(response)
        return await _off_loop(body, lambda: self._wire.result(_decoded(body)))

    async def _vectors(self, wire: EmbeddingFormat, response: httpx2.Response, wanted: int) -> Vectors:
        body = await self._body(response, MOST_BYTES)
        return await _off_loop(body, lambda: wire.vectors(_decoded(body), wanted))

    async def _body(self, response: httpx2.Response, most: int | None = None) -> bytes:
        body = bytearray()
        async with aclosing(self._chunks(response, self._total_s, bytes, most=most or MOST_WHOLE)) as chunks:
            async for data in chunks:
                body += data
        return bytes(body)

    async def _chunks(
        self,
        response: httpx2.Response,
        between_s: float,
        made: Callable[[bytes], _T],
        *,
        reader: StreamReader | None = None,
        most: int | None = None,
    ) -> AsyncGenerator[_T, None]:
        """The body, unpacked, as it comes, and what is made of each piece. Once the reader has all it needs
        nobody is waited for long, and nothing that goes wrong is an error."""
        import httpx2

        most = most or MOST_BYTES
        unpack = unpacker(response.headers.get("content-encoding", ""))
        raw = aiter(response.aiter_raw())
        clock = asyncio.get_running_loop().time
        within, total = self._total_s, 0
        until: float | None = None
        while True:
            try:
                async with asyncio.timeout(within):
                    packed = await anext(raw, None)
                data = unpack(packed, most - total)
                total += len(data)
                if total > most:
                    raise Unreadable(f"it is longer than {most} bytes")
            except (TimeoutError, httpx2.RequestError, Unreadable) as error:
                if until is not None:
                    return
                if isinstance(error, TimeoutError):
                    raise self._late(within) from None
                raise
            if data:
                yield made(data)
            if packed is None:
                return
            within = between_s
            if reader is not None and reader.is_done:
                # A server that goes on behind the last event, or only stays, would cost us the whole wait.
                until = until or clock() + AFTER_S
                within = max(until - clock(), 0.0)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """What a format finds wrong, as errors."""
        try:
            yield
        except Refused as error:
            raise failure(error.refusal, self.endpoint) from None
        except Unreadable as error:
            raise self._unreadable(str(error)) from None
        except TooLong:
            raise self._unreadable("one event of the stream is too long") from None

    def _unreadable(self, problem: str) -> AnswerUnreadable:
        return AnswerUnreadable(
            f"The answer of {self.name} cannot be read: {own_words(problem, self.endpoint.key)}. Try again; "
            f"if it stays so, check that {self.endpoint.place} speaks the format '{self._wire.name}'."
        )

    def _late(self, waited_s: float) -> ModelTimeout:
        return ModelTimeout(
            f"{self.endpoint.provider.name} ({self.endpoint.place}) sent nothing for {waited_s:g} s. Try "
            "again, or ask for less."
        )

    def _own_words(self, error: Exception) -> str:
        """What the HTTP client says; a header that it does not take would hold the key."""
        return own_words(str(error) or type(error).__name__, self.endpoint.key)

    def _remedy(self) -> str:
        if is_loopback(self.endpoint.url):
            return f"Start it, or set {self.endpoint.provider.url_variable or 'its URL'} to where it listens."
        return "Check the network."


async def _off_loop(body: bytes, work: Callable[[], _T]) -> _T:
    """What the work makes of a body; a large one does not stop everybody else."""
    return await asyncio.to_thread(work) if len(body) > LARGE else work()


def _pieces(events: Iterator[Event], reader: StreamReader) -> Iterator[Words | Thought]:
    """What the events bring. Behind the last one nothing is an error."""
    was_done = reader.is_done
    try:
        for event in events:
            was_done = reader.is_done
            yield from reader.feed(event)
    except (Refused, Unreadable, TooLong):
        if not was_done:
            raise


def _shaped(value: JsonValue, shape: type[_T]) -> _T:
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise Unreadable(str(error)) from None


def _decoded(body: bytes) -> JsonValue:
    try:
        return read_envelope(body, "the answer")
    except DecodeError as error:
        raise Unreadable(f"{error.problem}, at {error.place}") from None
