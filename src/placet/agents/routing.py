"""Which agent a question is for: what it means, else its words, then who has done well.

Keep true:
1. The same agents, question and records give the same order; the last that decides is the id.
2. Only enabled agents are chosen, and none that fits nothing of the question.
3. What decided is said.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Literal

import msgspec

from placet.agents.versions import SuccessRecord
from placet.errors import ModelError, UsageError
from placet.inference.model import Embedder
from placet.ir.json_value import JsonValue
from placet.safe_text import clean

if TYPE_CHECKING:
    from placet.agents.spec import AgentSpec

How = Literal["name", "meaning", "words"]
"""It is named in the question; what it does means the same; it shares words with it."""

LEAST_MEANING = 0.15
"""The cosine below which a description has nothing to do with a question."""
NEAR_MEANING = 0.03
NEAR_WORDS = 0.1
"""How close, in parts of the better one, two that share words are for the record to decide."""
_MOST_WORDS = 64
_WORD = re.compile(r"\w+")
_STOP = frozenset(
    _WORD.findall(
        "a about an and any are as at be but by can do does for from give have how i in into is it its me my "
        "of on or our please so some tell that the their them this to us was we what when where which who "
        "why will with would you your"
    )
)
"""Words that say nothing of what a question is about."""


class Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """One agent, and how well it fits."""

    id: str
    how: How
    score: float
    """A cosine for meaning; for words it can only be compared with the others of the same question."""
    shared: tuple[str, ...] = ()
    """The words of the question that it shares."""
    record: SuccessRecord = SuccessRecord()
    because: str = ""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """Who is to answer, and who else could."""

    ranked: tuple[Ranked, ...]
    """The best first."""
    note: str = ""
    """Why meaning did not decide, where it should have."""

    @property
    def chosen(self) -> Ranked:
        """The one to ask."""
        return self.ranked[0]

    @property
    def is_clear(self) -> bool:
        """Whether nothing would be gained by comparing what descriptions mean: that was done, the question
        names an agent, or one shares clearly more words with it than all others."""
        if self.chosen.how != "words" or len(self.ranked) == 1:
            return True
        best, other = sorted((each.score for each in self.ranked[:2]), reverse=True)
        return not _near_words(best, other)

    def as_json(self) -> dict[str, JsonValue]:
        """The same as JSON."""
        data: dict[str, JsonValue] = msgspec.to_builtins(self)
        return {"chosen": self.chosen.id, **data}


async def route(
    question: str,
    agents: Iterable[AgentSpec],
    *,
    embedder: Embedder | None = None,
    records: Mapping[str, SuccessRecord] | None = None,
) -> Route:
    """The agents that fit a question, the best first.

    One whose id stands in the question goes first. Then, with an `embedder`, what descriptions mean decides;
    without one, the words they share with the question. Among those that fit about as well, `records` decide:
    who succeeded more often.

    Raises:
        UsageError: no agent is enabled, or none fits.
    """
    known = {each.id: each for each in agents if each.enabled}
    if not known:
        raise UsageError("No agent is enabled here. See them with: placet agent list")
    words = [word for word in dict.fromkeys(_words(question)) if word not in _STOP]
    matches = _full_text(words, list(known.values()))
    named = [name for name in known if _is_named(name, question)]
    note, vectors = "", None
    if embedder is not None and question.strip():
        try:
            texts = [about(each) for each in known.values()]
            vectors = await embedder.embed([question, *texts])
        except ModelError as error:
            note = f"what they mean could not be compared: {error}"
    if vectors is not None:
        meant = {name: _cosine(vectors[0], vectors[n]) for n, name in enumerate(known, start=1)}
        scores = {name: score for name, score in meant.items() if score >= LEAST_MEANING}
        how: How = "meaning"
    else:
        scores, how = {name: score for name, (score, _, _) in matches.items()}, "words"
    kept = records or {}

    def made(name: str, how: How, score: float) -> Ranked:
        shared = matches[name][1] if name in matches else ()
        what = matches[name][2] if name in matches else ""
        one = Ranked(
            id=name, how=how, score=round(score, 4), shared=shared, record=kept.get(name, SuccessRecord())
        )
        return msgspec.structs.replace(one, because=_because(one, what))

    first = [made(name, "name", 1.0) for name in named]
    rest = [made(name, how, score) for name, score in scores.items() if name not in named]
    near = _near_meaning if how == "meaning" else _near_words
    ranked = (*_ordered(first, lambda best, other: True), *_ordered(rest, near))
    if not ranked:
        some = ", ".join(sorted(known)[:10])
        raise UsageError(
            f"None of the {len(known)} agents fits {clean(question, 60)!r}. Name one with --agent: {some}."
        )
    return Route(ranked=ranked, note=note)


def about(agent: AgentSpec) -> str:
    """What an agent is for, as questions are compared with it."""
    return ". ".join(filter(None, (agent.name, agent.description or agent.identity, agent.standing_goal)))


def _ordered(ranked: Sequence[Ranked], near: Callable[[float, float], bool]) -> list[Ranked]:
    """The best first; of those near the best of the rest, whoever has done better."""
    left = sorted(ranked, key=lambda each: (-each.score, each.id))
    found: list[Ranked] = []
    while left:
        together = [each for each in left if near(left[0].score, each.score)]
        together.sort(key=lambda each: (-_rate(each.record), -each.score, each.id))
        found += together
        left = left[len(together) :]
    return found


def _rate(record: SuccessRecord) -> float:
    """How well an agent does, where few runs count little: one half for who has none."""
    return (record.succeeded + 1) / (record.runs + 2)


def _near_meaning(best: float, other: float) -> bool:
    return best - other <= NEAR_MEANING


def _near_words(best: float, other: float) -> bool:
    return best - other <= NEAR_WORDS * best


def _because(one: Ranked, what: str) -> str:
    match one.how:
        case "name":
            said = "the question names it"
        case "meaning":
            said = f"what it does is near to the question ({one.score:.2f})"
            if one.shared:
                said += f", and it shares {_listed(one.shared)}"
        case "words":
            verb = "share" if " and " in what else "shares"
            said = f"its {what} {verb} {_listed(one.shared)} with the question"
    if one.record.runs:
        said += f"; {one.record.succeeded} of its {one.record.runs} runs succeeded"
    return said


def _listed(words: Sequence[str]) -> str:
    return ", ".join(f"'{clean(word, 40)}'" for word in words[:5])


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)][:_MOST_WORDS]


def _is_named(name: str, question: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", question, re.IGNORECASE) is not None


def _full_text(
    words: Sequence[str], agents: Sequence[AgentSpec]
) -> dict[str, tuple[float, tuple[str, ...], str]]:
    """The score of each agent that shares a word, which words, and what of it has them: by the full text
    index of SQLite."""
    if not words:
        return {}
    with closing(sqlite3.connect(":memory:")) as index:
        index.execute("CREATE VIRTUAL TABLE agent USING fts5(name, about, tokenize='porter unicode61')")
        rows = [(number, f"{each.id} {each.name}", about(each)) for number, each in enumerate(agents)]
        index.executemany("INSERT INTO agent (rowid, name, about) VALUES (?, ?, ?)", rows)
        shared: dict[int, list[str]] = {}
        for word in words:
            for (number,) in index.execute("SELECT rowid FROM agent WHERE agent MATCH ?", (f'"{word}"',)):
                shared.setdefault(number, []).append(word)
        query = " OR ".join(f'"{word}"' for word in words)
        scored = index.execute("SELECT rowid, bm25(agent, 2.0, 1.0) FROM agent WHERE agent MATCH ?", (query,))
        # The less, the better: SQLite's is negative. A word that all have is worth next to nothing, but more
        # words are still more than fewer.
        return {
            agents[number].id: (
                len(shared[number]) / len(words) - score,
                tuple(shared[number]),
                _where(index, agents[number], shared[number]),
            )
            for number, score in scored.fetchall()
        }


def _where(index: sqlite3.Connection, agent: AgentSpec, words: Sequence[str]) -> str:
    """What of an agent has these words: one thing, if that has all of them."""
    parts = {
        "description": agent.description,
        "identity": agent.identity if not agent.description else "",
        "name": f"{agent.id} {agent.name}",
        "standing goal": agent.standing_goal,
    }
    index.execute("CREATE VIRTUAL TABLE IF NOT EXISTS part USING fts5(said, tokenize='porter unicode61')")
    index.execute("DELETE FROM part")
    index.executemany("INSERT INTO part (rowid, said) VALUES (?, ?)", enumerate(parts.values()))
    counts = [0] * len(parts)
    for word in words:
        for (number,) in index.execute("SELECT rowid FROM part WHERE part MATCH ?", (f'"{word}"',)):
            counts[number] += 1
    whole = [name for name, count in zip(parts, counts, strict=True) if count == len(words)]
    some = [name for name, count in zip(parts, counts, strict=True) if count]
    return whole[0] if whole else " and ".join(some)


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Of two vectors of length 1."""
    return sum(a * b for a, b in zip(one, other, strict=True))
