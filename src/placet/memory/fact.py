"""A fact: one statement with its subject, its source and the times in which it holds.

Keep true:
1. A fact never changes its content. Learning another one invalidates it or ends its validity.
2. What is believed at a time is decided by `is_believed` alone; every store agrees with it.
3. A fact says where it comes from: there is none without a source.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, get_args

import msgspec
from msgspec.structs import replace

from placet.errors import UsageError
from placet.ir.to_dict import ToDict
from placet.ir.tool_spec import Mark
from placet.safe_text import clean

MOST_BODY = 8_000
"""Characters of a body."""
MOST_NAME = 300
"""Characters of a subject, a key, a kind, a tag, an alias, a source or an id."""
MOST_ITEMS = 50
"""Tags, aliases, links or superseded ids of one fact."""
EARLIEST, LATEST = -6e10, 1e11
"""Limits of the times of a new fact, in seconds since the epoch: the years 68 and 5138."""
_PAIRS = re.compile("[\ud800-\udfff]")

Seconds = Annotated[float, msgspec.Meta(ge=-1e11, le=1e11)]
"""A time in seconds since the epoch."""


class FactScope(
    ToDict, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Who a fact is for. A field that is set must be the same in the query; `None` is for everyone."""

    person: str | None = None
    """The person."""
    project: str | None = None
    """The project, such as its folder."""
    agent: str | None = None
    """The agent."""

    def covers(self, other: FactScope) -> bool:
        """Return whether a query in the scope `other` may see a fact with this scope.

        Args:
            other: Scope of the query.
        """
        return all(
            mine is None or mine == theirs
            for mine, theirs in (
                (self.person, other.person),
                (self.project, other.project),
                (self.agent, other.agent),
            )
        )


class Fact(ToDict, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A statement with its source and the times in which it holds. Building one stores nothing."""

    id: str
    """Id, unique within the tenant."""
    subject: str
    """What the fact is about, such as a person, a project or a service."""
    key: str | None = None
    """Which property of the subject it states, such as `"birthday"`. Facts with the same subject and key and
    different bodies contradict each other."""
    body: str
    """The statement."""
    kind: str = "fact"
    """Kind of statement. `"identity"` and `"constraint"` come first in a context; `"turn"` is a message of a
    conversation. Other kinds are yours."""
    tags: tuple[str, ...] = ()
    """Tags of your own, to filter by."""
    aliases: tuple[str, ...] = ()
    """Other words for the subject or the statement; a query that uses them finds the fact."""
    source: str
    """Where the fact comes from, such as `"person:ann"`, `"run:7f3a"` or a URL."""
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    """How sure the source is, from 0 to 1."""
    labels: tuple[Mark, ...] = ()
    """Labels on the body: `"untrusted"`, `"secret"`."""
    tenant: str | None = None
    """Tenant whose fact it is. `None`: the shared namespace."""
    scope: FactScope = FactScope()
    """Who it is for."""
    links: tuple[str, ...] = ()
    """Ids of facts that belong to it."""
    conversation: str | None = None
    """Id of the conversation that it was said in; its neighbours there help to find it."""
    position: int = 0
    """Position in the conversation."""
    valid_from: Seconds | None = None
    """When it begins to hold, in seconds since the epoch. `None`: it always has."""
    valid_until: Seconds | None = None
    """When it ceases to hold. `None`: it does not."""
    learned: Seconds
    """When it was learned."""
    invalidated: Seconds | None = None
    """When it was learned that it is not true any more. `None`: it is believed."""
    supersedes: tuple[str, ...] = ()
    """Ids of facts that it replaces."""
    supersedes_key: bool = False
    """Whether it replaces all facts of the same scope with its subject and key."""
    superseded_by: str | None = None
    """Id of the fact that replaced it."""

    @property
    def text(self) -> str:
        """Subject, key and body in one line."""
        head = f"{self.subject} ({self.key})" if self.key is not None else self.subject
        return f"{head}: {self.body}"


def new_fact_id() -> str:
    """A new id."""
    return f"f-{secrets.token_hex(8)}"


def is_believed(fact: Fact, at: float) -> bool:
    """Whether a fact was believed at a time: learned by then, not invalidated, and valid.

    >>> fact = Fact(id="f", subject="ann", body="lives in Rome", source="x", learned=10, valid_until=20)
    >>> is_believed(fact, 9), is_believed(fact, 10), is_believed(fact, 20)
    (False, True, False)
    """
    return (
        fact.learned <= at
        and (fact.invalidated is None or at < fact.invalidated)
        and (fact.valid_from is None or fact.valid_from <= at)
        and (fact.valid_until is None or at < fact.valid_until)
    )


def replaces(new: Fact, old: Fact) -> bool:
    """Whether a new fact supersedes an older one of the same tenant.

    Only within one scope, and an untrusted fact supersedes untrusted ones alone: otherwise both are believed,
    and contradict each other if they state the same key.
    """
    if new.id == old.id or old.invalidated is not None or new.scope != old.scope:
        return False
    if "untrusted" in new.labels and "untrusted" not in old.labels:
        return False
    if old.superseded_by is not None and old.valid_until is not None and old.valid_until <= _start(new):
        return False  # It ends no later because of the fact that superseded it first.
    by_key = new.supersedes_key and new.key is not None and (old.subject, old.key) == (new.subject, new.key)
    return by_key or old.id in new.supersedes


def _start(fact: Fact) -> float:
    return fact.learned if fact.valid_from is None else max(fact.learned, fact.valid_from)


def superseded(old: Fact, new: Fact) -> Fact:
    """The older fact once the new one is known: not believed any more, or valid until the new one is."""
    if new.valid_from is not None and new.valid_from > new.learned:
        until = new.valid_from if old.valid_until is None else min(old.valid_until, new.valid_from)
        return replace(old, valid_until=until, superseded_by=new.id)
    return replace(old, invalidated=max(new.learned, old.learned), superseded_by=new.id)


def contradicts(one: Fact, other: Fact) -> bool:
    """Whether two facts that are believed at one time cannot both be true."""
    return (
        one.id != other.id
        and one.key is not None
        and (one.subject, one.key, one.scope) == (other.subject, other.key, other.scope)
        and plain_words(one.body) != plain_words(other.body)
    )


def plain_words(text: str) -> str:
    """A text without case, punctuation and spacing, to compare what two texts say.

    >>> plain_words("  It's  Friday -- at NOON.")
    'it s friday at noon'
    """
    return " ".join(re.findall(r"\w+", text.casefold()))


def repeats(body: str, recalled: str) -> bool:
    """Whether a body says no more than a text that was recalled: it equals it, or is contained in it."""
    said = plain_words(body)
    return bool(said) and f" {said} " in f" {plain_words(recalled)} "


class FactProblem(msgspec.Struct, frozen=True):
    """Something that is wrong with a fact."""

    field: str
    """Name of the field."""
    problem: str
    """What is wrong with it."""


def problems(fact: Fact) -> list[FactProblem]:
    """Everything that is wrong with a fact. If a field has the wrong type, nothing else is checked."""
    return list(_range_problems(fact)) or _type_problems(fact) or list(_problems(fact))


def _range_problems(fact: Fact) -> Iterator[FactProblem]:
    for field in ("valid_from", "valid_until", "learned", "invalidated"):
        moment = getattr(fact, field)
        if isinstance(moment, int | float) and math.isfinite(moment) and not EARLIEST <= moment <= LATEST:
            problem = f"{moment:g} is out of range: times are seconds since the epoch, not milliseconds"
            yield FactProblem(field, problem)


def _type_problems(fact: Fact) -> list[FactProblem]:
    """What the declared types refuse. Building a fact checks no types; reading one back does."""
    try:
        msgspec.convert(msgspec.to_builtins(fact), Fact)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at ")
        return [FactProblem(place.strip("`").removeprefix("$.") or "fact", clean(problem))]
    except (TypeError, OverflowError) as error:
        return [FactProblem("fact", clean(str(error)))]
    return []


def salvaged(data: bytes | str) -> Fact:
    """A stored fact whose times, confidence or labels are out of range, with the nearest values in range.

    Raises:
        msgspec.MsgspecError: it cannot be read in this way either.
    """
    plain = msgspec.json.decode(data, type=dict[str, Any])
    for field, least, most in (
        ("valid_from", -1e11, LATEST),
        ("valid_until", -1e11, LATEST),
        ("learned", -1e11, LATEST),
        ("invalidated", -1e11, LATEST),
        ("confidence", 0.0, 1.0),
    ):
        if isinstance(number := plain.get(field), int | float):
            plain[field] = min(max(number, least), most)
    if isinstance(labels := plain.get("labels"), list):
        plain["labels"] = [label for label in labels if label in get_args(Mark)]
    return msgspec.convert(plain, Fact)


def _problems(fact: Fact) -> Iterator[FactProblem]:
    for field, text in (
        ("id", fact.id),
        ("subject", fact.subject),
        ("source", fact.source),
        ("kind", fact.kind),
    ):
        yield from _name_problems(field, text)
    for field, optional in (("key", fact.key), ("tenant", fact.tenant), ("conversation", fact.conversation)):
        if optional is not None:
            yield from _name_problems(field, optional)
    for part in ("person", "project", "agent"):
        if (value := getattr(fact.scope, part)) is not None:
            yield from _name_problems(f"scope.{part}", value)
    for field in ("tags", "aliases", "links", "supersedes"):
        items: Sequence[str] = getattr(fact, field)
        if len(items) > MOST_ITEMS:
            yield FactProblem(field, f"it has {len(items)} items; {MOST_ITEMS} is the most")
        for place, item in enumerate(items[:MOST_ITEMS]):
            yield from _name_problems(f"{field}[{place}]", item)
    if not fact.body.strip():
        yield FactProblem("body", "it is empty")
    elif len(fact.body) > MOST_BODY:
        yield FactProblem("body", f"it is longer than {MOST_BODY:,} characters")
    elif "\0" in fact.body or _PAIRS.search(fact.body):
        yield FactProblem("body", "it holds a null character or half of a surrogate pair")
    for field in ("valid_from", "valid_until", "learned", "invalidated", "confidence"):
        number = getattr(fact, field)
        if number is not None and not math.isfinite(number):
            yield FactProblem(field, "it is not a finite number")
    if fact.valid_from is not None and fact.valid_until is not None and fact.valid_from >= fact.valid_until:
        yield FactProblem("valid_until", "it is not after valid_from")
    if fact.supersedes_key and fact.key is None:
        yield FactProblem("supersedes_key", "it needs a key")
    if fact.id in fact.supersedes:
        yield FactProblem("supersedes", "a fact cannot supersede itself")
    if not -(2**53) < fact.position < 2**53:
        yield FactProblem("position", "it is out of range")


def _name_problems(field: str, text: str) -> Iterator[FactProblem]:
    if not text.strip():
        yield FactProblem(field, "it is empty")
    elif len(text) > MOST_NAME:
        yield FactProblem(field, f"it is longer than {MOST_NAME} characters")
    elif "\0" in text or _PAIRS.search(text):
        yield FactProblem(field, "it holds a null character or half of a surrogate pair")


def check_fact(fact: Fact) -> None:
    """Make sure that a fact can be stored.

    Raises:
        UsageError: it cannot; names the field.
    """
    for found in problems(fact):
        raise UsageError(f"The fact cannot be stored: {found.field}: {found.problem}.")
