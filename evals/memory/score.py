"""`make eval-memory`: how well facts are found again, with and without embeddings.

The facts stand in conversations, among distractors, chatter and facts that are stale: superseded or expired.
Each question is a paraphrase of one fact. Measured are the ranking (any@1, any@5, any@10), the cut answer
(precision and recall) and how many stale facts were ever returned.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from placet.inference.embedding.minilm import MiniLm
from placet.memory.fact import Fact
from placet.memory.memory import Memory
from tests.servers.local_model import model_files

HERE = Path(__file__).parent
PARTS = ("people", "work", "home", "travel")
NOW = 1_000_000.0
TURNS = 8
"""Of one conversation."""
AIMS = {"any@10": 0.85, "precision": 0.6, "stale": 0.0}
"""With embeddings; stale facts also without."""


class Question(NamedTuple):
    """A question, and the fact that answers it."""

    text: str
    id: str


class Corpus(NamedTuple):
    """Facts and questions."""

    facts: list[Fact]
    questions: list[Question]
    stale: set[str]


def _lines(name: str) -> Iterator[str]:
    for line in (HERE / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            yield line.strip()


def corpus() -> Corpus:
    """The set, always the same."""
    chance = random.Random(23)
    turns: list[tuple[str, dict[str, Any]]] = []
    questions: list[Question] = []
    stale: set[str] = set()
    earlier: list[Fact] = []
    for part in PARTS:
        for number, line in enumerate(_lines(part)):
            asked, answer, before, others = (each.strip() for each in line.split("|"))
            id = f"{part}-{number}"
            questions.append(Question(asked, id))
            gold: dict[str, Any] = {"id": id}
            if before != "-":
                gold |= {"key": id, "supersedes_key": True}
                earlier.append(_fact(f"{id}-old", before, key=id, learned=NOW - 9_000))
                stale.add(f"{id}-old")
            turns.append((answer, gold))
            turns += ((each.strip(), {"id": f"{id}-other{n}"}) for n, each in enumerate(others.split(";")))
    for number, line in enumerate(_lines("expired")):
        turns.append((line, {"id": f"expired-{number}", "valid_until": NOW - 100}))
        stale.add(f"expired-{number}")
    said = list(_lines("chatter"))
    turns += ((said[n % len(said)], {"id": f"chatter-{n}"}) for n in range(90))
    chance.shuffle(turns)
    facts = list(earlier)
    for place, (body, more) in enumerate(turns):
        given = {"conversation": f"talk-{place // TURNS}", "position": place % TURNS, **more}
        facts.append(_fact(given.pop("id"), body, learned=NOW - 5_000 + place, **given))
    return Corpus(facts, questions, stale)


def _fact(id: str, body: str, **more: Any) -> Fact:
    return Fact(id=id, subject="notes", body=body, source="eval", **more)


class Figures(NamedTuple):
    """What was measured."""

    questions: int
    facts: int
    any_1: float
    any_5: float
    any_10: float
    precision: float
    recall: float
    returned: float
    stale: int

    def as_dict(self) -> dict[str, float]:
        names = ("questions", "facts", "any@1", "any@5", "any@10", "precision", "recall", "returned", "stale")
        return dict(zip(names, self, strict=True))


async def measure(embedder: MiniLm | None, *, say: bool = False) -> Figures:
    """Ask all questions."""
    made = corpus()
    memory = Memory(embedder=embedder, clock=lambda: NOW)
    memory.store.add(made.facts)
    await memory.consolidate()
    at = {1: 0, 5: 0, 10: 0}
    precision, answered, returned, stale = 0.0, 0, 0, 0
    for question in made.questions:
        ranking = [hit.fact.id for hit in (await memory.query(question.text, limit=10, cut=False)).hits]
        answer = [hit.fact.id for hit in (await memory.query(question.text)).hits]
        for k in at:
            at[k] += question.id in ranking[:k]
        stale += len(made.stale.intersection(ranking + answer))
        precision += (question.id in answer) / len(answer) if answer else 0.0
        answered += question.id in answer
        returned += len(answer)
        if say and question.id not in ranking[:1]:
            print(f"  {question.text} -> {ranking[:3]}, expected {question.id}", file=sys.stderr)
    count = len(made.questions)
    return Figures(
        count,
        len(made.facts),
        *(round(at[k] / count, 3) for k in (1, 5, 10)),
        round(precision / count, 3),
        round(answered / count, 3),
        round(returned / count, 2),
        stale,
    )


def main(arguments: list[str]) -> int:
    """The exit code: 0 the aims are met, 1 they are not."""
    parser = argparse.ArgumentParser(prog="python -m evals memory", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--verbose", action="store_true", help="show what was not found first")
    options = parser.parse_args(arguments)
    figures = {
        "full text": asyncio.run(measure(None, say=options.verbose)).as_dict(),
        "with embeddings": asyncio.run(measure(MiniLm(model_files("embed")), say=options.verbose)).as_dict(),
    }
    best = figures["with embeddings"]
    met = (
        best["any@10"] >= AIMS["any@10"]
        and best["precision"] >= AIMS["precision"]
        and all(each["stale"] == 0 for each in figures.values())
    )
    if options.json:
        print(json.dumps({**figures, "aims_met": met}, indent=2))
    else:
        names = list(best)
        print(f"{'':16}" + "".join(f"{name:>11}" for name in names))
        for how, row in figures.items():
            print(f"{how:16}" + "".join(f"{row[name]:>11g}" for name in names))
        print("aims met" if met else f"aims not met: {AIMS}")
    return 0 if met else 1
