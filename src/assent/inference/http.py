"""A model behind HTTP: sends what a wire format says, and reads what comes back.

Keep true:
1. The key goes to the provider's URL alone: no redirect is followed.
2. Leaving, by an error, by cancelling or by closing the stream, closes the connection at once.
3. What is kept of an answer is bounded, counted after unpacking.
4. A parameter that a server does not take is left out from then on, instead of failing every request.
5. Each event loop has connections of its own: one model may be asked from several threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, NoReturn, Protocol, runtime_checkable

import msgspec

from assent.errors import (
    AnswerUnreadable,
    DecodeError,
    ModelMissing,
    ModelTimeout,
    ModelUnavailable,
    RequestRefused,
)
from assent.inference.failures import failure, own_words
from assent.inference.http_headers import retry_after, unpacker, wants_retry
from assent.inference.model import Piece, Request, Result, Thought, Words
from assent.inference.providers import Endpoint, is_loopback
from assent.inference.sse import EventDecoder, TooLong
from assent.inference.tool_names import sent_names, with_own_names, with_sent_names
from assent.inference.usage import Price
from assent.inference.wire.format import (
    Dialect,
    HttpCall,
    Refusal,
    Refused,
    StreamReader,
    Unreadable,
    WireFormat,
)
from assent.ir.codec import decode_json, encode
from assent.ir.json_value import JsonValue

if TYPE_CHECKING:
    import httpx2

CONNECT_S = 10.0
BETWEEN_S = 60.0
AFTER_S = 1.0
"""For the end of a stream whose last event has come."""
TOTAL_S = 600.0
MOST_BYTES = 64 * 1024 * 1024
MOST_TEXTS = 256
"""Texts in one request for vectors; more are asked for in turn."""

_DROPPABLE = frozenset(
    {
        "temperature",
        "thinking",
        "stop",
        "seed",
        "stream_options",
        "reasoning_effort",
        "reasoning_content",
        "reasoning_details",
    }
)
_MAX_TOKENS = frozenset({"max_tokens", "max_completion_tokens"})


@runtime_checkable
class EmbeddingFormat(Protocol):
    """A wire format that also knows vectors."""

    def embedding_call(self, texts: Sequence[str], model: str, key: str | None) -> HttpCall: ...

    def vectors(self, body: JsonValue, wanted: int) -> list[list[float]]: ...


class HttpModel:
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
        self._clients: dict[asyncio.AbstractEventLoop, httpx2.AsyncClient] = {}
        self._lock = Lock()

    async def generate(self, request: Request) -> Result:
        """The whole answer, in one piece."""
        began = perf_counter()
        names = sent_names(request)
        async with self._answer(with_sent_names(request, names), stream=False) as response:
            body = await self._body(response)
        with self._reading():
            result = self._wire.result(_decoded(body))
        return self._told(result, names, began)

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer as it comes."""
        began = perf_counter()
        names = sent_names(request)
        async with self._answer(with_sent_names(request, names), stream=True) as response:
            kind = response.headers.get("content-type", "")
            if "json" in kind or "html" in kind:
                # Some servers answer in one piece although they were asked for a stream.
                body = await self._body(response)
                with self._reading():
                    result = self._wire.result(_decoded(body))
                if result.reasoning:
                    yield Thought(result.reasoning)
                if result.text:
                    yield Words(result.text)
            else:
                reader = self._wire.reader()
                decoder = EventDecoder()
                with self._reading():
                    async with aclosing(self._chunks(response, self._between_s, reader)) as chunks:
                        async for data in chunks:
                            for event in decoder.feed(data):
                                for piece in reader.feed(event):
                                    yield piece
                    for event in decoder.finish():
                        for piece in reader.feed(event):
                            yield piece
                    result = reader.result()
        yield self._told(result, names, began)

    @property
    def makes_vectors(self) -> bool:
        """Whether its format knows vectors."""
        return isinstance(self._wire, EmbeddingFormat)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, in order, each of length 1.

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
        for start in range(0, len(texts), MOST_TEXTS):
            some = texts[start : start + MOST_TEXTS]
            call = wire.embedding_call(some, self.endpoint.model, self.endpoint.key)
            async with self._sent(call, stream=False) as response:
                if response.status_code >= 300:
                    self._fail(await self._refusal(response), response)
                body = await self._body(response)
            with self._reading():
                found += wire.vectors(_decoded(body), len(some))
        if len({len(each) for each in found}) > 1:
            raise self._unreadable("its vectors are not of one length")
        return found

    async def close(self) -> None:
        """Let go of the connections. Asked again, it makes new ones."""
        with self._lock:
            clients, self._clients = self._clients, {}
        here = asyncio.get_running_loop()
        for loop, client in clients.items():
            if loop is here:
                await client.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(client.aclose(), loop)

    def _told(self, result: Result, names: Mapping[str, str], began: float) -> Result:
        cost = result.cost
        if cost is None and self._price is not None:
            cost = self._price.cost(result.usage)
        return msgspec.structs.replace(
            with_own_names(result, names),
            cost=cost,
            model=result.model or self.endpoint.model,
            latency_ms=(perf_counter() - began) * 1000,
        )

    @asynccontextmanager
    async def _answer(self, request: Request, *, stream: bool) -> AsyncIterator[httpx2.Response]:
        """An answer that is none of an error, its body still to be read."""
        while True:
            dialect = self._dialect
            call = self._wire.call(request, self.endpoint.model, self.endpoint.key, dialect, stream=stream)
            async with self._sent(call, stream=stream) as response:
                if response.status_code < 300:
                    yield response
                    return
                refusal = await self._refusal(response)
                other = _without(refusal, dialect)
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
            "user-agent": "assent",
        }
        try:
            async with self._http().stream(
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

    def _http(self) -> httpx2.AsyncClient:
        """The client of this event loop, with its open connections."""
        loop = asyncio.get_running_loop()
        with self._lock:
            found = self._clients.get(loop)
            if found is None:
                # Connections of a loop that has ended can be used by nobody, nor closed.
                self._clients = {each: kept for each, kept in self._clients.items() if not each.is_closed()}
                found = self._clients[loop] = self._new_client()
        return found

    def _new_client(self) -> httpx2.AsyncClient:
        import httpx2

        # No end of the pool: how much is asked at once is for others to limit, and waiting is not failing.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        if is_loopback(self.endpoint.url):
            # What listens on this machine is not asked through a proxy; without TLS no certificates are read.
            is_plain = self.endpoint.url.startswith("http://")
            return httpx2.AsyncClient(trust_env=False, verify=not is_plain, limits=limits)
        try:
            return httpx2.AsyncClient(limits=limits)
        except (ImportError, ValueError, httpx2.InvalidURL, OSError) as error:
            raise ModelUnavailable(
                f"{self.name} cannot be asked with the proxy or the certificates that the environment names "
                f"({type(error).__name__}). Check HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE."
            ) from None

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
        body = await self._body(response)
        try:
            return self._wire.refusal(status, _decoded(body))
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

    async def _body(self, response: httpx2.Response) -> bytes:
        body = bytearray()
        with self._reading():
            async with aclosing(self._chunks(response, self._total_s)) as chunks:
                async for data in chunks:
                    body += data
        return bytes(body)

    async def _chunks(
        self, response: httpx2.Response, between_s: float, reader: StreamReader | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The body, unpacked, as it comes. Once the reader has all it needs nobody is waited for long."""
        unpack = unpacker(response.headers.get("content-encoding", ""))
        raw = aiter(response.aiter_raw())
        within, total = self._total_s, 0
        while True:
            try:
                async with asyncio.timeout(within):
                    packed = await anext(raw, None)
            except TimeoutError:
                if reader is not None and reader.is_done:
                    return
                raise self._late(within) from None
            data = unpack(packed, MOST_BYTES - total)
            total += len(data)
            if total > MOST_BYTES:
                raise Unreadable(f"it is longer than {MOST_BYTES} bytes")
            if data:
                yield data
            if packed is None:
                return
            # A server that keeps the connection open behind the last event would cost us the whole wait.
            within = min(between_s, AFTER_S) if reader is not None and reader.is_done else between_s

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


def _without(refusal: Refusal, dialect: Dialect) -> Dialect | None:
    """The dialect to ask once more in, where a parameter is not taken; None where that is no help."""
    name = refusal.parameter
    if refusal.kind != "parameter" or name in dialect.without:
        return None
    if name in _MAX_TOKENS and name == dialect.max_tokens_key:
        # It has two names. Remembered as left out, so that neither is tried twice.
        [other] = _MAX_TOKENS - {name}
        if other in dialect.without:
            return None
        return msgspec.structs.replace(dialect, max_tokens_key=other, without=dialect.without | {name})
    if name not in _DROPPABLE:
        return None
    return msgspec.structs.replace(dialect, without=dialect.without | {name})


def _decoded(body: bytes) -> JsonValue:
    try:
        return decode_json(body, source="the answer")
    except DecodeError as error:
        raise Unreadable(f"{error.problem}, at {error.place}") from None
