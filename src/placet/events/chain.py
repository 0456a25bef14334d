"""The hash chain: how one record vouches for the one before, and what is wrong where it does not.

A record's digest covers the digest before it and every column of its own but the position: the links give the
order, and positions only have to count without a gap. The first record names the log's id as the one before,
or the digest of the segment that was closed and dropped there.

Whoever may write the table can compute digests too. The chain therefore finds what was changed by hand; that
everything from somewhere on was written anew, or cut off, is found by the head that is anchored elsewhere.

Keep true:
1. What is hashed is what is stored. A released form of hashing never changes.
2. Pure, and one pass: records stream by, and only breaks are remembered, up to a bound.
3. Any change of one field of one record is found, and its position named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from math import isfinite
from typing import NamedTuple, TypeAlias

import msgspec

from placet.events.breaks import Finding, Walk
from placet.ir.to_dict import ToDict
from placet.truncation import truncate_repr

__all__ = [
    "Anchored",
    "ChainReport",
    "Finding",
    "Head",
    "Row",
    "Segment",
    "Stored",
    "columns_of",
    "digest_of",
    "genesis",
    "is_log_id",
    "link",
    "seal",
    "verify_chain",
]

MAX_FINDINGS = 20

_encode = msgspec.json.Encoder().encode
_LOG_ID = re.compile(r"[0-9a-f]{32}")


class Row(NamedTuple):
    """A record's own columns, as they are stored; the order is that in which they are hashed."""

    kind: str
    time: float
    run_id: str | None
    proposal_id: str | None
    action_id: str | None
    trace_id: str | None
    span_id: str | None
    tenant: str | None
    tool: str | None
    """Copied from the data, for queries."""
    data: str
    """JSON."""


Stored: TypeAlias = tuple[int, Row, str, str]
"""Position, columns, digest of the record before, digest."""


class Head(NamedTuple):
    """Where the log ends, as its own table says."""

    position: int
    digest: str
    log_id: str
    anchored: bool
    """Whether the head was ever kept outside the log."""


class Segment(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """A part of the log that was deleted on purpose."""

    first: int
    """Position of its first event."""
    last: int
    """Position of its last event."""
    count: int
    """Number of events."""
    digest: str
    """Digest of its last event; the next event refers to it."""
    first_time: float
    """Time of its first event, in seconds since the epoch."""
    last_time: float
    """Time of its last event, in seconds since the epoch."""
    closed_at: float
    """When it was deleted, in seconds since the epoch."""
    seal: str = ""
    """Digest over all other fields and the id of the log; also stored in the anchor."""


class Anchored(NamedTuple):
    """The facts about a log that an anchor holds."""

    place: str
    """The file."""
    position: int | None
    """Position that the log has reached; `None` if nothing is known."""
    digest: str
    """Digest of the event there."""
    seals: frozenset[str]
    """Seals of the closed segments."""
    announced: tuple[int, str] | None = None
    """Position and digest that the log reaches with the commit that was begun last; `None` if the anchor was
    written by a version that announced nothing, or is a copy of the head alone."""
    foreign: Sequence[tuple[int, int]] = ()
    """Stretches of records, first to last, that no writer with this anchor has written."""
    is_shared: bool = False
    """Whether others write to this log, with anchors of their own or none: it had records before it was
    anchored first, or a person has said so."""
    database_log: str | None = None
    """Id of the log that the anchor knows in this database; `None` if it does not know the database. If it
    knows the database by several paths, another id than that of this log comes first."""
    is_named: bool = False
    """Whether the anchor knows this log to be in a database. Then the log was anchored, whatever the database
    says, and every file of its anchor must be there."""

    @property
    def missing(self) -> str | None:
        """The file that must be there and is not, or cannot be read; `None` if none is missing."""
        if not self.is_named:
            return None
        if self.position is None:
            return self.place
        return f"{self.place.removesuffix('.head')}.next" if self.announced is None else None

    @property
    def reached(self) -> int | None:
        """Position of the last record that a writer with this anchor can have written."""
        if self.position is None or self.announced is None:
            return None
        return max(self.position, self.announced[0])


class ChainReport(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """The result of `SqlEvents.verify`."""

    valid: bool
    """Whether there are no findings."""
    checked: int
    """Number of events that were checked."""
    first: int | None
    """Position of the first event."""
    last: int | None
    """Position of the last event."""
    dropped: int
    """Number of events in closed segments."""
    anchored: bool
    """Whether there was an anchor to compare with; without one, a truncated log is not noticed."""
    findings: list[Finding]
    """The findings."""
    more: int = 0
    """Number of further findings that are not listed."""


def link(prev: str, row: Row) -> str:
    """The digest of a record that follows the one with the digest `prev`."""
    return digest_of(prev, columns_of(row), row.data.encode())


def digest_of(prev: str, columns: bytes, data: bytes) -> str:
    """The same, of parts that were encoded before."""
    # Neither the digest nor the array can hold a line break, so the parts cannot be shifted into each other.
    return sha256(b"%b\n%b\n%b" % (prev.encode(), columns, data)).hexdigest()


def columns_of(row: Row) -> bytes:
    """All columns but the data, as they are hashed: a JSON array."""
    return _encode(row[:-1])


def genesis(log_id: str) -> str:
    """What the first record names as the one before; no log can take over the records of another."""
    return sha256(b"placet events\n%b" % log_id.encode()).hexdigest()


def is_log_id(text: str) -> bool:
    """Whether a log can have this id."""
    return _LOG_ID.fullmatch(text) is not None


def seal(log_id: str, segment: Segment) -> str:
    """What a segment's row must carry to belong to this log and to be as it was written."""
    fields = msgspec.structs.astuple(segment)[:-1]
    return sha256(b"placet segment\n%b" % _encode((log_id, *fields))).hexdigest()


def is_whole(row: Row, prev: object, digest: object) -> bool:
    """Whether every column is of its type. SQLite stores anything anywhere, and a blob is encoded like some
    text: without this one could stand for the other."""
    if type(row.time) is not float or not isfinite(row.time) or type(row.kind) is not str:
        return False
    return (
        type(row.data) is str
        and type(prev) is str
        and type(digest) is str
        and all(value is None or type(value) is str for value in row[2:-1])
    )


def link_if_whole(prev: str, row: Row, digest: str) -> str | None:
    """The digest that a stored record should have; None if no record could be like this."""
    if not is_whole(row, prev, digest):
        return None
    try:
        return link(prev, row)
    except UnicodeEncodeError:  # Half a surrogate pair, which cannot have been stored by us.
        return None


def verify_chain(
    records: Iterable[Stored],
    *,
    head: Head | None,
    segments: Sequence[Segment] = (),
    anchor: Anchored | None = None,
    later: Anchored | None = None,
) -> ChainReport:
    """Check a log from its first record to its last, and name whatever is wrong.

    `records` are all there are, by position; `segments` likewise. No `head`: its row is missing. `later` is
    the anchor as it was read after the last position was known: what others wrote meanwhile counts in it.
    """
    found: list[Finding] = []
    start, digest = 0, genesis(head.log_id) if head is not None else None
    if segments:
        start, digest = segments[-1].last, segments[-1].digest
    walk = Walk(start, digest, _Fit())
    walk.watch(head.digest if head is not None else None, anchor.digest if anchor is not None else None)
    for position, row, prev, own in records:
        walk.step(position, row, prev, own)
    found += _of_segments(segments, head, anchor)
    if head is None:
        found.append(
            Finding(
                "removed",
                None,
                "the log's head row is gone: how far it reached, and which anchor is its own, is unknown",
            )
        )
    shift = _shift(walk, head, anchor)
    found += walk.findings(shift)
    if head is not None:
        found += _of_head(walk, head, tuple(found))
        found += _of_anchor(walk, head, anchor, found)
        found += _of_count(walk, head, later if later is not None else anchor, found)
        if not found and not is_log_id(head.log_id):
            # Chained anew from an id that leads to no anchor.
            found.append(
                Finding(
                    "edited",
                    None,
                    f"the log's head row holds the id {truncate_repr(head.log_id, 40)}, which no log can "
                    "have: it was changed so that no anchor is found",
                )
            )
    return ChainReport(
        valid=not found and not walk.uncounted,
        checked=walk.checked,
        first=walk.first,
        last=walk.last if walk.checked else None,
        dropped=sum(segment.count for segment in segments if type(segment.count) is int),
        anchored=anchor is not None and anchor.position is not None,
        findings=found[:MAX_FINDINGS],
        more=max(len(found) - MAX_FINDINGS, 0) + walk.uncounted,
    )


class _Fit:
    """How the walk asks for digests, so that it need not know what a record is made of."""

    def digest(self, prev: str, row: object, own: str) -> str | None:
        assert isinstance(row, Row)
        return link_if_whole(prev, row, own)


def _of_segments(
    segments: Sequence[Segment], head: Head | None, anchor: Anchored | None
) -> Iterable[Finding]:
    next_first = 1
    for segment in segments:
        where = f"the closed segment of records {segment.first} to {segment.last}"
        if head is not None and seal(head.log_id, segment) != segment.seal:
            yield Finding("edited", segment.last, f"{where} is not as it was written")
        elif segment.first != next_first:
            yield Finding(
                "removed", next_first, f"{where} should begin at {next_first}: a segment before it is missing"
            )
        elif anchor is not None and anchor.position is not None and segment.seal not in anchor.seals:
            yield Finding(
                "removed",
                segment.first,
                f"{where} is not in the anchor ({anchor.place}): those records were not dropped by "
                "this program, and the segment was made up to hide that",
            )
        next_first = segment.last + 1


def _shift(walk: Walk, head: Head | None, anchor: Anchored | None) -> int:
    """How many records fewer than there should be stand before one that is known by its digest."""
    for known in (anchor, head):
        if known is None or known.position is None:
            continue
        at = walk.seen(known.digest)
        if at is not None and at != known.position:
            return known.position - at
    return 0


def _of_head(walk: Walk, head: Head, found: Sequence[Finding]) -> Iterable[Finding]:
    if head.position == walk.last and head.digest in walk.tail:
        return
    at = walk.seen(head.digest)
    if at is not None and any(finding.kind == "reordered" or at != head.position for finding in found):
        return  # Moved about, and that has been told.
    if head.position > walk.last and at is None:
        yield _cut(walk.last, head.position, "the log's head row names")
    elif at == head.position:
        yield Finding(
            "inserted",
            head.position + 1,
            f"the log ends with record {head.position}, but goes on from {head.position + 1} to {walk.last}: "
            "that was added by hand, or the head row was set back",
        )
    elif at is not None:
        yield Finding(
            "edited",
            at,
            f"the record that ends the log has the position {at}, but the head row says {head.position}: one "
            "of the two was changed",
        )
    elif head.position == walk.last:
        yield Finding(
            "edited",
            walk.last,
            f"record {walk.last} is not the one that the log's head row names: the record was edited and its "
            "digest computed anew, or the head row was changed",
        )
    else:
        yield Finding(
            "edited",
            head.position,
            f"the log's head row names record {head.position} with a digest that no record has, and the "
            f"log ends at {walk.last}: the head row was changed, or the records were written anew",
        )


def _of_anchor(
    walk: Walk, head: Head, anchor: Anchored | None, found: Sequence[Finding]
) -> Iterable[Finding]:
    if anchor is not None and anchor.database_log not in (None, head.log_id):
        yield Finding(
            "replaced",
            None,
            f"the anchor ({anchor.place}) knows this database by the log {anchor.database_log}, but it now "
            f"holds the log {head.log_id}: the log was replaced as a whole. If you replaced it yourself, "
            "accept it with `placet log accept`",
        )
        return
    if anchor is None or anchor.position is None:
        if head.anchored or (anchor is not None and anchor.missing is not None):
            expected = anchor.place if anchor is not None else f"{head.log_id}.head, in no folder named"
            yield Finding(
                "unanchored",
                None,
                f"this log was anchored, but its anchor is not there or cannot be read: {expected}. Without "
                "it nobody can notice records cut off the end, or written anew from some point on. Name the "
                "folder that holds it with --anchor FOLDER. If it is lost, accept the log as it is with "
                "`placet log accept`",
            )
        return
    position = anchor.position
    if position < walk.start or (position == walk.start and anchor.digest == walk.start_digest):
        return
    at = walk.seen(anchor.digest)
    if at == position or (at is not None and found):
        return
    if at is not None:
        yield Finding("edited", at, f"record {at} was anchored as record {position}: positions were changed")
    elif position > walk.last:
        if not any(finding.kind == "truncated" for finding in found):
            yield _cut(walk.last, position, f"the anchor ({anchor.place}) names")
    elif not any(finding.kind == "edited" and finding.position == position for finding in found):
        yield Finding(
            "rewritten",
            position,
            f"record {position} is not the one that was anchored ({anchor.place}): it, or one before it, "
            "was changed and all digests from there on computed anew",
        )


def _of_count(walk: Walk, head: Head, anchor: Anchored | None, found: Sequence[Finding]) -> Iterable[Finding]:
    """Records that are rightly chained, and that no writer with this anchor has counted."""
    if anchor is None or any(finding.kind == "replaced" for finding in found):
        return
    if anchor.position is not None and anchor.missing is not None:
        yield Finding(
            "unanchored",
            None,
            f"a part of the anchor is not there or cannot be read: {anchor.missing}. Without it nobody can "
            "notice records that somebody else appended. Restore it; if it is lost, accept the log as it is "
            "with `placet log accept`",
        )
    if anchor.is_shared:
        return
    for first, last in anchor.foreign:
        if last > walk.start:
            yield _foreign(max(first, walk.start + 1), last, anchor)
    reached = anchor.reached
    if reached is None or found:
        return
    assert anchor.announced is not None
    if walk.last > reached:
        yield _foreign(reached + 1, walk.last, anchor)
    elif walk.last == anchor.announced[0] != anchor.position and anchor.announced[1] not in walk.tail:
        # A commit was announced and did not come about; somebody else has put a record in its place.
        yield _foreign((anchor.position or 0) + 1, walk.last, anchor)


def _foreign(first: int, last: int, anchor: Anchored) -> Finding:
    what = f"record {first} was" if first == last else f"records {first} to {last} were"
    return Finding(
        "inserted",
        first,
        f"{what} appended by somebody who does not keep this anchor ({anchor.place}): the digests are right, "
        "but no writer counted them. If it was a program of yours, accept them with `placet log accept`, or "
        "let all programs write with `placet log accept --shared`",
    )


def _cut(last: int, known: int, who: str) -> Finding:
    gone = f"record {known} is" if known == last + 1 else f"records {last + 1} to {known} are"
    return Finding(
        "truncated",
        last + 1,
        f"{gone} missing at the end: {who} record {known}, the log ends at {last}. They were cut off; or, "
        "where the log is not written durably, lost with the machine's power",
    )
