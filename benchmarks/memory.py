"""What a memory costs: storing, finding and building a context, at 10,000 and 100,000 facts in SQLite.

Vectors are precomputed: what an embedder takes is its own matter. Words follow the frequencies of a language:
few are in many facts.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import tempfile
import time
from array import array
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median

from benchmarks.report import Floor, Section
from placet.memory.fact import Fact
from placet.memory.memory import Memory
from placet.storage.location import open_database

SIZES = (10_000, 100_000)
FLOORS_MS = {10_000: 10.0, 100_000: 40.0}
WIDTH = 384
_WORDS = 20_000
_PER_FACT = 14


class Precomputed:
    """An embedder whose vectors are there already."""

    name = "precomputed"

    def __init__(self, chance: random.Random) -> None:
        import numpy

        self._numbers = numpy.random.default_rng(chance.randrange(2**32))

    def many(self, count: int) -> list[bytes]:
        import numpy

        made = self._numbers.standard_normal((count, WIDTH), dtype=numpy.float32)
        made /= numpy.linalg.norm(made, axis=1, keepdims=True)
        return [row.tobytes() for row in made]

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [array("f", each).tolist() for each in self.many(len(texts))]


def _vocabulary() -> tuple[list[str], list[float]]:
    letters = "bcdfghjklmnprstvwz"
    words = [
        f"{letters[n % 18]}o{letters[n // 18 % 18]}a{letters[n // 324 % 18]}i{n % 7}" for n in range(_WORDS)
    ]
    return words, [1 / (n + 10) for n in range(_WORDS)]


def _facts(count: int, chance: random.Random) -> list[Fact]:
    words, weights = _vocabulary()
    drawn = chance.choices(words, weights, k=count * _PER_FACT)
    return [
        Fact(
            id=f"f{n}",
            subject=drawn[n * _PER_FACT],
            body=" ".join(drawn[n * _PER_FACT + 1 : (n + 1) * _PER_FACT]),
            source="benchmark",
            learned=float(n),
            conversation=f"c{n // 20}" if n % 2 else None,
            position=n % 20,
            valid_until=1.0 if n % 10 == 0 else None,
        )
        for n in range(count)
    ]


async def _median_ms(times: int, do: Callable[[int], Awaitable[object]]) -> float:
    taken = []
    for n in range(times):
        began = time.process_time()
        await do(n)
        taken.append((time.process_time() - began) * 1000)
    return median(taken)


async def run(say: Callable[[str], None], *, quick: bool) -> Section:
    """The section."""
    section = Section(
        "Memory (SQLite; median of calls, in ms of CPU)",
        ("facts", "import/s", "add", "query, text", "query, vectors", "context", "MB file", "MB peak"),
    )
    times = 30 if quick else 100
    for size in SIZES:
        say(f"memory: {size:,} facts")
        row = await asyncio.to_thread(lambda size=size: asyncio.run(_measured(size, times)))
        section.rows.append([size, *row])
        for name, value in (("text", row[2]), ("vectors", row[3])):
            busy = os.getloadavg()[0] > (os.cpu_count() or 1)
            what = f"a query of {size:,} facts, {name}"
            section.floors.append(Floor(what, value, FLOORS_MS[size], unit="ms CPU", busy=busy))
    first, last = section.rows
    assert isinstance(first[3], float)
    assert isinstance(last[3], float)
    section.notes.append(f"A text query takes {last[3] / first[3]:.1f} times as long at ten times the facts.")
    return section


async def _measured(size: int, times: int) -> list[float]:
    chance = random.Random(size)
    facts = _facts(size, chance)
    embedder = Precomputed(chance)
    questions = [" ".join(chance.choices(each.body.split(), k=5)) for each in chance.sample(facts, times)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        with open_database(str(path)) as database:
            text = Memory(database, clock=lambda: 1e9)
            began = time.perf_counter()
            text.store.add(facts)
            rate = size / (time.perf_counter() - began)
            add = await _median_ms(times, lambda n: text.add("new", f"fact {n} of the benchmark", source="b"))
            await text.query(questions[0])
            by_text = await _median_ms(times, lambda n: text.query(questions[n]))
            text.store.put_vectors(
                None, embedder.name, dict(zip((fact.id for fact in facts), embedder.many(size), strict=True))
            )
            both = Memory(database, embedder=embedder, clock=lambda: 1e9)
            await both.query(questions[0])
            by_vector = await _median_ms(times, lambda n: both.query(questions[n]))
            context = await _median_ms(times, lambda n: both.build_context(questions[n]))
        megabytes = path.stat().st_size / 1e6
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return [rate, add, by_text, by_vector, context, megabytes, memory]
