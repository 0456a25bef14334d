"""What it costs to ask a model: CPU of the client per call, against the plainest call that works.

All sides ask the same server, which is another process and always answers the same: httpx2 alone, one model
of ours, the whole stack that a name opens (tools, reasoning, retries, time limit), and the package `openai`.
And what it costs to record a conversation, turn by turn, when it is short and when it is long.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import msgspec

from benchmarks.canned_server import CHUNKS, WORD
from benchmarks.measure import Contender, Measure, Prepared, Timing
from benchmarks.report import Floor, Section
from placet.inference import Model, Recording, Request, Result, System, User, Words, open_model, stream
from placet.inference.http import HttpModel
from placet.inference.messages import Message
from placet.inference.opening import wire_of
from placet.inference.providers import endpoint
from placet.inference.usage import Usage

CALLS, STREAMS = 10, 2
"""In one timing: few, so that some of many fall into a quiet moment of the machine."""
SHORT, LONG = 50, 500
"""Turns of a conversation."""
MOST_OF_OPENAI = 1.0
_NAME = "openai:canned"
_REQUEST = Request(messages=[System("Be brief."), User("Say what you know of words.")], temperature=0.0)
_SAID = WORD * CHUNKS
_LOOKS = 20

Ask = Callable[[], Awaitable[str]]


async def run(clock: Measure, say: Callable[[str], None], *, quick: bool) -> list[Section]:
    """Both tables."""
    with _server() as url:
        asking = await _asking(url, clock, say)
    return [asking, await _recording(say, turns=2 if quick else 5)]


async def _asking(url: str, clock: Measure, say: Callable[[str], None]) -> Section:
    section = Section(
        f"Asking a model: client CPU per call; a stream has {CHUNKS} pieces",
        ("call", "httpx2 us", "model us", "stack us", "openai us", "stack x httpx2", "stack x openai", ""),
    )
    async with _sides(url) as sides:

        def asked(shape: str, pieces: int) -> list[Contender]:
            if pieces == 1:
                return [_contender(whole, CALLS) for whole, _ in sides]
            return [_contender(streamed, STREAMS) for _, streamed in sides]

        timings = await clock.all_of([("pieces", 1), ("pieces", CHUNKS)], asked, say)
    for (_, pieces), timing in timings.items():
        name = "in one piece" if pieces == 1 else "as a stream"
        section.rows.append([name, *_figures(timing), timing.mark])
        *_, ours, openai = timing.seconds
        section.floors.append(
            Floor(f"inference: {name}, against openai", ours / openai, MOST_OF_OPENAI, busy=timing.busy)
        )
    return section


def _figures(timing: Timing) -> list[float]:
    bare, _, ours, openai = timing.seconds
    return [*(each * 1e6 for each in timing.seconds), ours / bare, ours / openai]


def _contender(ask: Ask, repeat: int) -> Contender:
    async def prepare() -> Prepared:
        if await ask() != _SAID:
            raise SystemExit("inference: one side does not read the answer as it is")
        return ask

    return Contender(prepare, repeat)


@asynccontextmanager
async def _sides(url: str) -> AsyncIterator[list[tuple[Ask, Ask]]]:
    """Each way to ask, in one piece and as a stream."""
    import httpx2
    import openai

    environment = {"OPENAI_API_KEY": "sk-benchmark", "OPENAI_BASE_URL": url}
    found = endpoint(_NAME, environment)
    one = HttpModel(found, wire_of("openai"))
    stack = open_model(_NAME, environment)
    client = httpx2.AsyncClient(trust_env=False, verify=False)
    peer = openai.AsyncOpenAI(
        api_key="sk-benchmark", base_url=url, http_client=httpx2.AsyncClient(trust_env=False, verify=False)
    )
    try:
        yield [_bare(client, url), _ours(one), _ours(stack), _peer(peer)]
    finally:
        await client.aclose()
        await one.close()
        await stack.close()  # type: ignore[attr-defined]
        await peer.close()


def _bare(client: Any, url: str) -> tuple[Ask, Ask]:
    """What nobody can do without: encode, send, read, decode."""
    headers = {"content-type": "application/json", "authorization": "Bearer sk-benchmark"}
    body: dict[str, Any] = {"model": "canned", "messages": _messages(), "temperature": 0.0}

    async def whole() -> str:
        response = await client.post(f"{url}/chat/completions", content=json.dumps(body), headers=headers)
        text: str = json.loads(response.content)["choices"][0]["message"]["content"]
        return text

    async def streamed() -> str:
        words: list[str] = []
        asked = {**body, "stream": True}
        async with client.stream(
            "POST", f"{url}/chat/completions", content=json.dumps(asked), headers=headers
        ) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    words.append(json.loads(line[6:])["choices"][0]["delta"].get("content", ""))
        return "".join(words)

    return whole, streamed


def _ours(model: Model) -> tuple[Ask, Ask]:
    async def whole() -> str:
        return (await model.generate(_REQUEST)).text

    async def streamed() -> str:
        words = [piece.text async for piece in stream(model, _REQUEST) if isinstance(piece, Words)]
        return "".join(words)

    return whole, streamed


def _peer(client: Any) -> tuple[Ask, Ask]:
    async def whole() -> str:
        answer = await client.chat.completions.create(model="canned", messages=_messages(), temperature=0.0)
        text: str = answer.choices[0].message.content
        return text

    async def streamed() -> str:
        words: list[str] = []
        pieces = await client.chat.completions.create(
            model="canned", messages=_messages(), temperature=0.0, stream=True
        )
        async for piece in pieces:
            words.append(piece.choices[0].delta.content or "")
        return "".join(words)

    return whole, streamed


def _messages() -> list[dict[str, str]]:
    return [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Say what you know of words."},
    ]


@contextmanager
def _server() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.canned_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.terminate()


class _Canned:
    """A model that takes no time, so that what is around it shows."""

    name = "canned"

    async def generate(self, request: Request) -> Result:
        return Result(text=_SAID, model="canned", usage=Usage(input=40, output=CHUNKS))


async def _recording(say: Callable[[str], None], *, turns: int) -> Section:
    section = Section(
        "Recording a conversation: CPU per turn, everything kept, one file",
        ("turns", "without us", "recorded us", "added us", "bytes a turn", "added x 50 turns"),
    )
    added: dict[int, float] = {}
    with TemporaryDirectory(prefix="placet-bench-") as folder:
        for length in (SHORT, LONG):
            say(f"inference: recording {length} turns")
            bare = recorded = float("inf")
            for turn in range(turns):
                path = Path(folder) / f"{length}-{turn}.jsonl"
                bare = min(bare, await _conversation(_Canned(), length))
                recorder = Recording(_Canned(), path)
                recorded = min(recorded, await _conversation(recorder, length))
                await recorder.close()
            added[length] = (recorded - bare) * 1e6
            size = path.stat().st_size / length
            growth = added[length] / added[SHORT]
            section.rows.append([length, bare * 1e6, recorded * 1e6, added[length], size, growth])
    section.notes.append(f"The last {_LOOKS} turns of each length count, where the conversation is longest.")
    return section


async def _conversation(model: Model, length: int) -> float:
    """CPU seconds of a turn at the end of a conversation."""
    messages: list[Message] = [System("Be brief.")]
    spent: list[float] = []
    gc.collect()
    for turn in range(length):
        messages.append(User(f"Question {turn}. " + "And more of it. " * 20))
        request = msgspec.structs.replace(_REQUEST, messages=tuple(messages))
        began = process_time()
        result = await model.generate(request)
        spent.append(process_time() - began)
        messages.append(result.message)
    return min(spent[-_LOOKS:])
