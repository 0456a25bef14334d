"""Repairs: approaches that made a failing check pass, found by its signature, ranked by what came of them,
shared as a file.

A repair is a fact of the memory, of the kind `repair`: its repository is the scope, its failure the tags, and
how often it helped the tally. It is a lead for a model to verify, in the words of another one. It wins when
its failure went away and loses when it was shown and the failure came back, and one that loses too often is
not shown any more.

Keep true:
1. Per tenant and repository; each of so many characters.
2. No secret is stored, as far as secrets can be told; a shared file holds none either.
3. Bringing in a file twice changes nothing: of counts the larger one stands, and nothing is added up.
4. An exact match comes before a coarse one, whatever their ranks.
5. A repair is untrusted, whoever wrote it, and keeps every label of the run that it comes from.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, get_args

import msgspec
from msgspec.structs import replace

from placet.checks.failure import ErrorClass
from placet.checks.signature import MOST_COMMAND, MOST_MESSAGE, Signature, digest
from placet.errors import DecodeError
from placet.ir.codec import decode_json
from placet.ir.tool_spec import Mark
from placet.memory import tables as memory
from placet.memory.adding import add_facts, add_tallies
from placet.memory.fact import MOST_NAME, Fact, FactScope, problems
from placet.memory.store import FactFilter, FactStore, Tally
from placet.redaction import Redactor
from placet.safe_text import clean
from placet.storage.migrate import Conversion, Migrations, migrate, take_steps
from placet.truncation import truncate

if TYPE_CHECKING:
    from placet.storage.database import Database
    from placet.storage.transaction import Transaction

KIND = "repair"
MOST_APPROACH = 1_024
"""Characters of an approach."""
MOST_REPAIRS = 1_000
"""Repairs of one repository that are listed and shared: those that were used last."""
MOST_BYTES = 16 * 1024 * 1024
"""Of a file that is brought in: more than so many repairs can take."""
VERSION = 1
TOO_MANY = 2
"""One that has lost so many times more than it won is not shown."""
_SOURCE = "the repairs"
_EMPTY, _TAGS, _ALIASES = "-", 3, 2
"""How a failure without a command or a message is written, and how many names a fact has."""

Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Moment = Annotated[float, msgspec.Meta(ge=0, le=1e11)]


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """An approach that made a failing check pass, and how often it helped since."""

    id: str
    """Id of the repair."""
    repository: str
    """Key of the repository; `Session.repository_key`."""
    command: str
    """The check that failed."""
    error_class: ErrorClass
    """Kind of failure."""
    message: str
    """The failure, without what changes from run to run."""
    approach: str
    """What helped, in a model's words."""
    wins: int = 1
    """How often the failure went away."""
    losses: int = 0
    """How often it was shown and the failure returned."""
    made: float
    """When it was learned, in seconds since the epoch."""
    used: float
    """When a win or a loss was last counted, in seconds since the epoch."""
    labels: tuple[Mark, ...] = ("untrusted",)
    """Labels on the approach."""
    source: str = "coding"
    """Where it comes from."""

    @property
    def signature(self) -> Signature:
        """The failure it helps against."""
        return Signature(command=self.command, error_class=self.error_class, message=self.message)

    @property
    def rank(self) -> int:
        """Wins minus losses."""
        return self.wins - self.losses


class Hint(msgspec.Struct, frozen=True, kw_only=True):
    """A repair to show to a model."""

    id: str
    """Id of the repair."""
    approach: str
    """What helped, in a model's words."""
    is_coarse: bool
    """Whether it helped against another failure of the same command and kind."""
    labels: tuple[Mark, ...] = ("untrusted",)
    """Labels on the approach."""


def repository_key(common_dir: str, first_commit: str | None) -> str:
    """What a repository is known by: its first commit, which every clone has; else where it is.

    >>> repository_key("/home/ann/x/.git", "4b825dc642cb6eb9a060e54bf8d69288fbee4904")
    'commit:4b825dc642cb6eb9a060e54bf8d69288fbee4904'
    """
    return f"commit:{first_commit}" if first_commit else f"folder:{digest(common_dir)}"


def approach_words(signature: Signature, closing_text: str) -> str:
    """What to keep as the approach: a model's closing words, or a sentence if it had none.

    >>> approach_words(Signature(command="make", error_class="lint", message=""), " ")
    "Edited the code again; the failure of 'make' (lint) was gone after that."
    """
    words = cut(closing_text)
    if words:
        return words
    failure = f"the failure of '{signature.command}' ({signature.error_class})"
    return f"Edited the code again; {failure} was gone after that."


def cut(text: str) -> str:
    """A text as an approach can be kept: nothing in it steers, and it ends at a word."""
    # Cleaning makes a text longer, never shorter than half: so much is surely enough.
    plain = clean(truncate(text, MOST_APPROACH * 4).strip(), lines=True, tabs=True)
    if len(plain) <= MOST_APPROACH:
        return plain
    start = truncate(plain, MOST_APPROACH)
    at_word = re.sub(r"\s+\S*\Z", "", start) if not plain[MOST_APPROACH].isspace() else start
    # A single long word is cut where it is.
    return (at_word or start).rstrip()


def repair_of(
    repository: str,
    signature: Signature,
    approach: str,
    now: float,
    redactor: Redactor,
    *,
    labels: Iterable[Mark] = (),
    source: str = "coding",
) -> Repair | None:
    """A new repair; None if there is nothing to keep. The same failure and words give the same id."""
    shown = redacted(signature, redactor)
    words = cut(redactor.text(approach))
    if not words:
        return None
    repository = clean(repository, MOST_NAME)
    return Repair(
        id=digest(repository, shown.key, words),
        repository=repository,
        command=shown.command,
        error_class=shown.error_class,
        message=shown.message,
        approach=words,
        made=now,
        used=now,
        labels=tuple(dict.fromkeys(("untrusted", *labels))),
        source=source,
    )


def redacted(signature: Signature, redactor: Redactor) -> Signature:
    """The signature as it is kept, and so as it is looked for."""
    return replace(
        signature,
        command=truncate(clean(redactor.text(signature.command)), MOST_COMMAND).strip(),
        message=truncate(clean(redactor.text(signature.message)), MOST_MESSAGE).strip(),
    )


def best(repairs: Iterable[Repair], signature: Signature) -> Hint | None:
    """The repair to show for a failure, of those of one repository."""
    shown = [one for one in repairs if one.losses - one.wins < TOO_MANY]
    exact = [one for one in shown if one.signature.key == signature.key]
    found = exact or [one for one in shown if one.signature.coarse == signature.coarse]
    if not found:
        return None
    # By when they were made, not used: a loss is a use too.
    first = max(found, key=lambda one: (one.rank, one.made, one.id))
    return Hint(id=first.id, approach=first.approach, is_coarse=not exact, labels=first.labels)


class _Shared(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A repair in a file: what names a repository or a row stays here."""

    command: Annotated[str, msgspec.Meta(max_length=MOST_COMMAND)]
    error_class: ErrorClass
    message: Annotated[str, msgspec.Meta(max_length=MOST_MESSAGE)]
    approach: Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_APPROACH)]
    wins: Count
    losses: Count
    made: Moment
    used: Moment


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int
    repairs: Annotated[list[_Shared], msgspec.Meta(max_length=MOST_REPAIRS)]


def file_of(repairs: Sequence[Repair]) -> bytes:
    """Repairs as a file to share: one to a line, so that changes of it can be read."""
    lines = [
        msgspec.json.encode({name: getattr(one, name) for name in _Shared.__struct_fields__})
        for one in repairs
    ]
    body = b",\n".join(lines)
    return b'{"version":%d,"repairs":[\n%s\n]}\n' % (VERSION, body)


def read_file(repository: str, data: bytes, now: float, redactor: Redactor) -> list[Repair]:
    """The repairs in a file, as they are kept here; a file's times never lie ahead.

    Raises:
        DecodeError: it is no such file, or holds too much.
    """
    if len(data) > MOST_BYTES:
        raise DecodeError(f"it is larger than {MOST_BYTES // 1024**2} MiB", source=_SOURCE)
    plain: Any = decode_json(data, _SOURCE)
    if isinstance(plain, dict) and plain.get("version") != VERSION:
        version = clean(plain.get("version"), 40)
        raise DecodeError(
            f"its version is {version}, and only {VERSION} is known", place="$.version", source=_SOURCE
        )
    try:
        file = msgspec.convert(plain, _File)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at ")
        raise DecodeError(clean(problem), place=clean(place.strip("`")) or "$", source=_SOURCE) from None
    found: dict[str, Repair] = {}
    for one in file.repairs:
        signature = Signature(command=one.command, error_class=one.error_class, message=one.message)
        repair = repair_of(repository, signature, one.approach, now, redactor, source="shared file")
        if repair is not None:
            brought = replace(
                repair, wins=one.wins, losses=one.losses, made=min(one.made, now), used=min(one.used, now)
            )
            known = found.get(brought.id, brought)
            wins, losses = max(known.wins, brought.wins), max(known.losses, brought.losses)
            found[brought.id] = replace(known, wins=wins, losses=losses)
    return list(found.values())


class Repairs:
    """Repairs as facts of a memory. Safe to use from any thread; a call may wait for the disk."""

    def __init__(
        self,
        store: FactStore | Database | None = None,
        *,
        tenant: str | None = None,
        redactor: Redactor | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create the tables if they are missing.

        Args:
            store: The store of a memory, or a database from `open_database`. `None`: in this process alone.
            tenant: Tenant whose repairs these are.
            redactor: Removes secrets before anything is stored.
            clock: Returns seconds since the epoch.

        Raises:
            StorageError: the tables cannot be created.
        """
        from placet.memory.in_memory import MemoryFacts
        from placet.memory.sql import SqlFacts
        from placet.storage.database import Database

        if isinstance(store, Database):
            database, store = store, SqlFacts(store)
            migrate(database, MIGRATIONS)
        self._store: FactStore = MemoryFacts() if store is None else store
        self._tenant = tenant
        self._redactor = redactor if redactor is not None else Redactor()
        self._clock = clock

    def recall(self, repository: str, signature: Signature) -> Hint | None:
        """Return the best repair for a failure, otherwise for one of the same command and kind, or `None`.

        Args:
            repository: Key of the repository; `Session.repository_key`.
            signature: The failure.
        """
        known = redacted(signature, self._redactor)
        return best(self._found(repository, known.coarse), known)

    def learned(
        self,
        repository: str,
        signature: Signature,
        approach: str,
        *,
        hint: str | None,
        labels: Iterable[Mark] = (),
        source: str = "coding",
    ) -> None:
        """Store an approach that made a check pass, or count a win if it is known.

        Takes the arguments of `recall`.

        Args:
            approach: What helped, in a model's words.
            hint: Id of the repair that was shown; it wins, too.
            labels: Labels on these words. They are untrusted in any case: a model wrote them.
            source: Where they come from, such as a run.
        """
        now = self._clock()
        new = repair_of(repository, signature, approach, now, self._redactor, labels=labels, source=source)
        winners = {hint} if hint is not None else set[str]()
        if new is not None:
            self._store.add([fact_of(new, self._tenant)])
            winners.add(new.id)
        self._store.tally(self._tenant, {id: Tally(wins=1, at=now) for id in winners})

    def failed(self, hint_id: str) -> None:
        """Count a loss: the repair was shown, and the failure returned.

        Args:
            hint_id: Id of the repair; an unknown one is ignored.
        """
        self._store.tally(self._tenant, {hint_id: Tally(losses=1, at=self._clock())})

    def export(self, repository: str) -> bytes:
        """Return the repairs of a repository as JSON, to share them.

        Takes the arguments of `recall`.
        """
        return file_of(self.entries(repository))

    def bring_in(self, repository: str, data: bytes) -> int:
        """Import shared repairs and return how many were new or changed. Importing twice changes nothing.

        Takes the arguments of `recall`.

        Args:
            data: JSON from `export`.

        Raises:
            DecodeError: the data is not valid or too large; nothing was imported.
        """
        brought = read_file(repository, data, self._clock(), self._redactor)
        before = {each.id: each for each in self._found(repository)}
        self._store.add([fact_of(each, self._tenant) for each in brought])
        counts = {each.id: Tally(each.wins, each.losses, each.used) for each in brought}
        self._store.tally(self._tenant, counts, is_total=True)
        return sum(before.get(each.id) != each for each in self._found(repository))

    def entries(self, repository: str) -> list[Repair]:
        """Return the repairs of a repository that were used last, up to 1,000.

        Takes the arguments of `recall`.
        """
        found = self._found(repository)
        return sorted(found, key=lambda each: (each.used, each.id), reverse=True)[:MOST_REPAIRS]

    def forget(self, repository: str, id: str) -> bool:
        """Delete a repair and return whether there was one. A person's decision.

        Takes the arguments of `recall`.

        Args:
            id: Id of the repair.
        """
        if all(each.id != id for each in self._found(repository)):
            return False
        return bool(self._store.forget(self._tenant, [id]))

    def _found(self, repository: str, coarse: str | None = None) -> list[Repair]:
        where = FactFilter(
            tenant=self._tenant,
            at=self._clock(),
            scope=FactScope(project=clean(repository, MOST_NAME)),
            kinds=(KIND,),
            tags=() if coarse is None else (coarse,),
        )
        facts = self._store.listed(where)
        tallies = self._store.tallies(self._tenant, [fact.id for fact in facts])
        return [
            repair
            for fact in facts
            if (repair := repair_from(fact, tallies.get(fact.id, Tally()))) is not None
        ]


def fact_of(repair: Repair, tenant: str | None) -> Fact:
    """A repair as a fact. Its failure is in the tags, by which it is found, and in the aliases."""
    signature = repair.signature
    return Fact(
        id=repair.id,
        subject=repair.command or _EMPTY,
        body=repair.approach,
        kind=KIND,
        tags=(signature.coarse, signature.key, repair.error_class),
        aliases=(repair.command or _EMPTY, repair.message or _EMPTY),
        source=repair.source,
        labels=tuple(dict.fromkeys(("untrusted", *repair.labels))),
        tenant=tenant,
        scope=FactScope(project=repair.repository),
        learned=repair.made,
    )


def repair_from(fact: Fact, tally: Tally) -> Repair | None:
    """The repair in a fact; None if it is no such fact."""
    if len(fact.tags) != _TAGS or len(fact.aliases) != _ALIASES or fact.tags[-1] not in get_args(ErrorClass):
        return None
    command, message = (each if each != _EMPTY else "" for each in fact.aliases)
    return Repair(
        id=fact.id,
        repository=fact.scope.project or "",
        command=command,
        error_class=msgspec.convert(fact.tags[-1], ErrorClass),
        message=message,
        approach=fact.body,
        wins=tally.wins,
        losses=tally.losses,
        made=fact.learned,
        used=max(fact.learned, tally.at),
        labels=fact.labels,
        source=fact.source,
    )


def _move_repairs(t: Transaction) -> None:
    """Make facts of the rows of the table `repairs`."""
    columns = "id, repository, command, error_class, message, approach, wins, losses, made, used"
    rows = t.execute(f"SELECT {columns} FROM repairs ORDER BY made, id")
    if not rows:
        return
    take_steps(t, memory.MIGRATIONS)
    repairs = [msgspec.convert(dict(zip(columns.split(", "), row, strict=True)), Repair) for row in rows]
    facts = [fact_of(each, None) for each in repairs]
    add_facts(t, [fact for fact in facts if not problems(fact)])
    add_tallies(t, None, {each.id: Tally(each.wins, each.losses, each.used) for each in repairs})


MIGRATIONS = Migrations(
    "repairs",
    [
        [
            "CREATE TABLE repairs (id TEXT NOT NULL PRIMARY KEY, repository TEXT NOT NULL,"
            " coarse TEXT NOT NULL, command TEXT NOT NULL, error_class TEXT NOT NULL, message TEXT NOT NULL,"
            " approach TEXT NOT NULL, wins BIGINT NOT NULL, losses BIGINT NOT NULL,"
            " made DOUBLE PRECISION NOT NULL, used DOUBLE PRECISION NOT NULL)",
            "CREATE INDEX repairs_coarse ON repairs (repository, coarse)",
            "CREATE INDEX repairs_used ON repairs (repository, used)",
        ],
        # They are facts of the memory.
        [Conversion("repairs become facts", _move_repairs), "DROP TABLE repairs"],
    ],
)
