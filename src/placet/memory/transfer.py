"""Facts as lines of JSON, one to a line: written out, and read back strictly.

Keep true: a file is read to its end before anything of it is stored; one bad line, and nothing is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from placet.errors import DecodeError
from placet.ir.codec import decode_json
from placet.ir.references import literal
from placet.memory.fact import Fact, problems
from placet.safe_text import clean

MOST_BYTES = 1024**3
_encode = msgspec.json.Encoder().encode


def to_lines(facts: Iterable[Fact]) -> Iterable[str]:
    """Facts as lines, in their order."""
    return (f"{_encode(fact).decode()}\n" for fact in facts)


def from_lines(data: bytes, source: str, *, tenant: str | None = None) -> Sequence[Fact]:
    """The facts in a file, as facts of `tenant`. A line may name that tenant or none.

    Raises:
        DecodeError: a line cannot be used; names the file, the line and the field.
    """
    if len(data) > MOST_BYTES:
        raise DecodeError(f"it is larger than {MOST_BYTES // 1024**3} GiB", source=source)
    found: list[Fact] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            fact = _fact(line, f"{source}, line {number}")
            if fact.tenant not in (None, tenant):
                raise DecodeError(
                    "the fact belongs to another tenant than the one it is imported for",
                    place="$.tenant",
                    source=f"{source}, line {number}",
                )
            found.append(replace(fact, tenant=tenant))
    return found


def as_plan(facts: Iterable[Fact]) -> dict[str, Any]:
    """A plan that remembers these facts, for rules to judge. It is not for execution: it leaves out times."""
    return {
        "source": "placet memory import",
        "actions": [
            {
                "id": f"fact-{number}",
                "tool": "remember",
                "parameters": {
                    "subject": literal(fact.subject),
                    "body": literal(fact.body),
                    "kind": literal(fact.kind),
                    "source": literal(fact.source),
                    "labels": list(fact.labels),
                }
                | ({"key": literal(fact.key)} if fact.key is not None else {}),
            }
            for number, fact in enumerate(facts, start=1)
        ],
    }


def _fact(line: bytes, source: str) -> Fact:
    plain = decode_json(line, source)
    try:
        fact = msgspec.convert(plain, Fact)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at ")
        raise DecodeError(clean(problem), place=clean(place.strip("`")) or "$", source=source) from None
    for wrong in problems(fact):
        raise DecodeError(wrong.problem, place=f"$.{wrong.field}", source=source)
    return fact
