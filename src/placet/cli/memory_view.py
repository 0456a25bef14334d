"""Facts and hits as lines for people."""

from __future__ import annotations

from typing import Any

from placet.memory.context import day_of, times_of
from placet.memory.fact import Fact, is_believed
from placet.memory.retrieval import Hit, QueryResult
from placet.safe_text import clean, shorten

_WIDTH = 100


def fact_row(fact: Fact) -> str:
    """A fact in one line."""
    marks = "".join(f" [{label}]" for label in fact.labels)
    return (
        f"{clean(fact.id)}  {day_of(fact.learned)}  {shorten(clean(fact.text), _WIDTH)}{marks}{_state(fact)}"
    )


def _state(fact: Fact) -> str:
    if fact.superseded_by is not None:
        return f" (superseded by {clean(fact.superseded_by)})"
    return "" if fact.invalidated is None else f" (invalidated {day_of(fact.invalidated)})"


def fact_lines(fact: Fact) -> list[str]:
    """A fact with all that is known about it."""
    import time

    lines = [clean(fact.text, lines=True), f"  id: {clean(fact.id)}", f"  source: {clean(fact.source)}"]
    given = {
        "kind": fact.kind,
        "tags": ", ".join(fact.tags),
        "aliases": ", ".join(fact.aliases),
        "labels": ", ".join(fact.labels),
        "confidence": "" if fact.confidence == 1 else f"{fact.confidence:g}",
        "tenant": fact.tenant or "",
        "scope": ", ".join(f"{name} {value}" for name, value in fact.scope.to_dict().items()),
        "links": ", ".join(fact.links),
        "conversation": f"{fact.conversation}, {fact.position}" if fact.conversation is not None else "",
        "supersedes": ", ".join(fact.supersedes),
        "superseded by": fact.superseded_by or "",
    }
    times = {
        "learned": fact.learned,
        "valid from": fact.valid_from,
        "valid until": fact.valid_until,
        "invalidated": fact.invalidated,
    }
    given |= {name: day_of(moment) for name, moment in times.items() if moment is not None}
    lines += [f"  {name}: {clean(value)}" for name, value in given.items() if value]
    lines.append(f"  believed now: {'yes' if is_believed(fact, time.time()) else 'no'}")
    return lines


def hit_lines(number: int, hit: Hit, *, explain: bool) -> list[str]:
    """A hit, with why it is one if that is asked for."""
    head = f"{number}. " if number else "- "
    marks = "".join(f" [{label}]" for label in hit.fact.labels)
    lines = [f"{head}{clean(hit.fact.text, lines=True)}{marks}"]
    for other in hit.conflicts:
        theirs, own = times_of(other.learned, hit.fact.learned)
        dates = f"learned {theirs}, this one {own}"
        lines.append(f"   contradicted by {clean(other.id)}: {clean(other.body)} ({dates})")
    if explain:
        words = f", words: {', '.join(map(clean, hit.matched))}" if hit.matched else ""
        link = f", linked from {clean(hit.linked_from)}" if hit.linked_from is not None else ""
        lines.append(
            f"   score {hit.score:.2f} (text {hit.text:.2f}, meaning {hit.vector:.2f}, link {hit.link:.2f})"
            f"{words}{link}; {clean(hit.fact.id)}, from {clean(hit.fact.source)},"
            f" learned {day_of(hit.fact.learned)}"
        )
    return lines


def result_data(found: QueryResult, *, explain: bool) -> dict[str, Any]:
    """The answer to a query as JSON; what came after the gap only if that is asked for."""
    data = found.to_dict()
    if not explain:
        data.pop("left_out", None)
    return data
