"""What helped against a failure before: kept by its signature, ranked by what came of it, shared as a file.

A repair is a lead for a model to verify, in the words of another one. It wins when its failure went away and
loses when it was shown and the failure came back, and one that loses too often is not shown any more.

Keep true:
1. Per repository, and bounded: the newest so many, each of so many characters.
2. No secret is kept, as far as secrets can be told; a shared file holds none either.
3. Bringing in a file twice changes nothing: of counts the larger one stands, and nothing is added up.
4. An exact match comes before a coarse one, whatever their ranks.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Protocol

import msgspec
from msgspec.structs import replace

from placet.checks.failure import ErrorClass
from placet.checks.signature import MOST_COMMAND, MOST_MESSAGE, Signature, digest
from placet.errors import DecodeError
from placet.ir.codec import decode_json
from placet.redaction import Redactor
from placet.safe_text import clean
from placet.truncation import truncate

MOST_APPROACH = 1_024
"""Characters of an approach."""
MOST_REPAIRS = 1_000
"""Repairs of one repository that are kept: those that were learned or counted last."""
MOST_BYTES = 16 * 1024 * 1024
"""Of a file that is brought in: more than so many repairs can take."""
VERSION = 1
TOO_MANY = 2
"""One that has lost so many times more than it won is not shown."""
_SOURCE = "the repairs"

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


class RepairMemory(Protocol):
    """Protocol of stores of repairs. A call may wait for the disk."""

    def recall(self, repository: str, signature: Signature) -> Hint | None:
        """Return the best repair for a failure, otherwise for one of the same command and kind, or `None`.

        Args:
            repository: Key of the repository; `Session.repository_key`.
            signature: The failure.
        """
        ...

    def learned(self, repository: str, signature: Signature, approach: str, *, hint: str | None) -> None:
        """Store an approach that made a check pass, or count a win if it is known.

        Takes the arguments of `recall`.

        Args:
            approach: What helped, in a model's words.
            hint: Id of the repair that was shown; it wins, too.
        """
        ...

    def failed(self, hint_id: str) -> None:
        """Count a loss: the repair was shown, and the failure returned.

        Args:
            hint_id: Id of the repair; an unknown one is ignored.
        """
        ...

    def export(self, repository: str) -> bytes:
        """Return all repairs of a repository as JSON, to share them.

        Takes the arguments of `recall`.
        """
        ...

    def bring_in(self, repository: str, data: bytes) -> int:
        """Import shared repairs and return how many were new or changed. Importing twice changes nothing.

        Takes the arguments of `recall`.

        Args:
            data: JSON from `export`.

        Raises:
            DecodeError: the data is not valid or too large; nothing was imported.
        """
        ...

    def entries(self, repository: str) -> list[Repair]:
        """Return all repairs of a repository, last used first.

        Takes the arguments of `recall`.
        """
        ...

    def forget(self, repository: str, id: str) -> bool:
        """Delete a repair and return whether there was one.

        Takes the arguments of `recall`.

        Args:
            id: Id of the repair.
        """
        ...


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
    repository: str, signature: Signature, approach: str, now: float, redactor: Redactor
) -> Repair | None:
    """A new repair; None if there is nothing to keep. The same failure and words give the same id."""
    shown = redacted(signature, redactor)
    words = cut(redactor.text(approach))
    if not words:
        return None
    return Repair(
        id=digest(repository, shown.key, words),
        repository=repository,
        command=shown.command,
        error_class=shown.error_class,
        message=shown.message,
        approach=words,
        made=now,
        used=now,
    )


def redacted(signature: Signature, redactor: Redactor) -> Signature:
    """The signature as it is kept, and so as it is looked for."""
    return replace(
        signature,
        command=truncate(clean(redactor.text(signature.command)), MOST_COMMAND),
        message=truncate(clean(redactor.text(signature.message)), MOST_MESSAGE),
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
    return Hint(id=first.id, approach=first.approach, is_coarse=not exact)


def newest(repairs: Iterable[Repair]) -> list[Repair]:
    """As many as are kept, those used last first."""
    return sorted(repairs, key=lambda one: (one.used, one.id), reverse=True)[:MOST_REPAIRS]


def merged(known: Repair | None, brought: Repair) -> Repair:
    """A repair and the same one of somebody else: the larger counts, the times as they are here."""
    if known is None:
        return brought
    return replace(known, wins=max(known.wins, brought.wins), losses=max(known.losses, brought.losses))


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
        repair = repair_of(repository, signature, one.approach, now, redactor)
        if repair is not None:
            brought = replace(
                repair, wins=one.wins, losses=one.losses, made=min(one.made, now), used=min(one.used, now)
            )
            found[brought.id] = merged(found.get(brought.id), brought)
    return list(found.values())


class MemoryRepairs:
    """Repairs for one process. Safe to use from any thread."""

    def __init__(self, *, redactor: Redactor | None = None, clock: Callable[[], float] = time.time) -> None:
        self._redactor = redactor if redactor is not None else Redactor()
        self._clock = clock
        self._kept: dict[str, dict[str, Repair]] = {}
        self._lock = threading.Lock()

    def recall(self, repository: str, signature: Signature) -> Hint | None:
        """The best repair."""
        return best(self.entries(repository), redacted(signature, self._redactor))

    def learned(self, repository: str, signature: Signature, approach: str, *, hint: str | None) -> None:
        """Keep what turned a failure green."""
        now = self._clock()
        new = repair_of(repository, signature, approach, now, self._redactor)
        with self._lock:
            if hint is not None and (new is None or hint != new.id):
                self._count(hint, now, wins=1)
            if new is not None and not self._count(new.id, now, wins=1):
                self._keep(repository, [new])

    def failed(self, hint_id: str) -> None:
        """Count a loss."""
        with self._lock:
            self._count(hint_id, self._clock(), losses=1)

    def export(self, repository: str) -> bytes:
        """All of a repository's repairs, as JSON."""
        return file_of(self.entries(repository))

    def bring_in(self, repository: str, data: bytes) -> int:
        """Add what somebody shared."""
        brought = read_file(repository, data, self._clock(), self._redactor)
        with self._lock:
            before = self._kept.get(repository, {})
            self._keep(repository, [merged(before.get(one.id), one) for one in brought])
            after = self._kept.get(repository, {})
            return sum(before.get(id) != one for id, one in after.items())

    def entries(self, repository: str) -> list[Repair]:
        """All of a repository's repairs."""
        with self._lock:
            return newest(self._kept.get(repository, {}).values())

    def forget(self, repository: str, id: str) -> bool:
        """Drop a repair."""
        with self._lock:
            return self._kept.get(repository, {}).pop(id, None) is not None

    def _count(self, id: str, now: float, *, wins: int = 0, losses: int = 0) -> bool:
        for repairs in self._kept.values():
            if one := repairs.get(id):
                repairs[id] = replace(
                    one, wins=one.wins + wins, losses=one.losses + losses, used=max(one.used, now)
                )
                return True
        return False

    def _keep(self, repository: str, new: Sequence[Repair]) -> None:
        known = {**self._kept.get(repository, {}), **{one.id: one for one in new}}
        self._kept[repository] = {one.id: one for one in newest(known.values())}
