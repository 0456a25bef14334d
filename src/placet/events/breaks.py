"""Where a chain breaks, and what must have been done to it.

A stretch is a row of records each of which names the one before it. A whole chain is one stretch; each break
begins another. As every stretch says by digest what it follows, stretches that were moved about can be put in
order again, and what fits nowhere was put in, or follows something that is gone.

Keep true:
1. The walk holds a few digests and the breaks, never the records.
2. Every break leads to at least one finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

from placet.truncation import truncate_repr

FindingKind = Literal[
    "edited", "removed", "inserted", "reordered", "truncated", "rewritten", "replaced", "unanchored"
]
"""How a log was changed.

- `edited`: an event was changed.
- `removed`: events were removed.
- `inserted`: events were inserted.
- `reordered`: events were moved.
- `truncated`: the end was cut off.
- `rewritten`: the log was replaced from some point on.
- `replaced`: the whole log was replaced: the anchor knows the database by another log.
- `unanchored`: the anchor is missing.
"""

MAX_STRETCHES = 300
"""Breaks that are explained; those beyond are counted."""
_WINDOW = 1_000
"""Digests that are remembered, to find where records were put in between."""
_KEPT = 20
"""Edited records that are remembered, to find contents that changed places."""


class Finding(NamedTuple):
    """A sign that a log was tampered with."""

    kind: FindingKind
    """Kind of change."""
    position: int | None
    """Position in the log; `None` if it is about the whole log."""
    message: str
    """The finding in one sentence."""


class Digests(Protocol):
    """Computes what a record's digest should be."""

    def digest(self, prev: str, row: object, own: str) -> str | None: ...


class _Stretch:
    __slots__ = ("ends", "first", "fork", "last", "misses", "want")

    def __init__(self, first: int, want: str, misses: int, fork: int | None) -> None:
        self.first = first
        self.last = first
        self.want = want
        """The digest that its first record names as the one before."""
        self.misses = misses
        """How many positions are free before it."""
        self.fork = fork
        """Position of the first record between it and the one that it names, if that is no end."""
        self.ends: tuple[str | None, ...] = ()
        """What the next record may name: two, after a record whose digest or contents are false."""


class _Edited(NamedTuple):
    position: int
    row: object
    prev: str
    digest: str


class Walk:
    """One pass over the records, by position."""

    def __init__(self, start: int, digest: str | None, digests: Digests) -> None:
        """`digest` is what the record after position `start` must name; None if that is not known."""
        self.start = start
        self.start_digest = digest
        self.first: int | None = None
        self.last = start
        self.checked = 0
        self.uncounted = 0
        """Breaks that were too many to explain."""
        self._digests = digests
        beginning = _Stretch(start, "", 0, None)
        beginning.ends = (digest,)
        self._stretches = [beginning]
        self._tail: tuple[str | None, ...] = beginning.ends
        self._recent: dict[str, int] = {} if digest is None else {digest: start}
        self._edited: list[_Edited] = []
        self._odd: list[Finding] = []
        self._put_in: list[tuple[int, int]] = []
        self._seen: dict[str, int | None] = {}

    def watch(self, *digests: str | None) -> None:
        """Remember where these are met."""
        self._seen.update((digest, None) for digest in digests if digest is not None)
        if self.start_digest in self._seen:
            self._seen[self.start_digest] = self.start

    def seen(self, digest: str) -> int | None:
        """Where a digest that is watched was met."""
        return self._seen.get(digest)

    @property
    def tail(self) -> Sequence[str | None]:
        """What a record after the last one may name."""
        return self._tail

    def step(self, position: int, row: object, prev: str, own: str) -> None:
        """Look at the next record."""
        self.checked += 1
        if type(position) is not int:
            self._note(Finding("edited", None, f"a record has {truncate_repr(position, 40)} for a position"))
            return
        if self.first is None:
            self.first = position
            if self.start_digest is None and position == self.start + 1:
                self._tail = (prev,)  # Nobody knows better.
        true = self._digests.digest(prev, row, own)
        follows = prev in self._tail
        if true != own:
            self._note_edited(position, row, prev, own)
            if not follows and any(
                end is not None and self._digests.digest(end, row, own) == own for end in self._tail
            ):
                follows, true = True, own  # Only its link was changed: nothing is missing before it.
        if not follows:
            self._break(position, prev)
        elif position != self.last + 1:
            self._note(
                Finding(
                    "edited",
                    position,
                    f"record {position} follows record {self.last} by its digest: positions were changed",
                )
            )
        self._tail = (own,) if true is None or true == own else (own, true)
        self.last = position
        here = self._stretches[-1]
        here.last, here.ends = position, self._tail
        for end in self._tail:
            if end in self._seen:
                self._seen[end] = position
        self._recent.pop(own, None)  # Else a copy would keep the place of its original.
        self._recent[own] = position
        if len(self._recent) > _WINDOW:
            del self._recent[next(iter(self._recent))]

    def _note(self, finding: Finding) -> None:
        if len(self._odd) < MAX_STRETCHES:
            self._odd.append(finding)
        else:
            self.uncounted += 1

    def _note_edited(self, position: int, row: object, prev: str, own: str) -> None:
        if len(self._edited) < _KEPT:
            self._edited.append(_Edited(position, row, prev, own))
        else:
            self._note(_edited(position))

    def _break(self, position: int, prev: str) -> None:
        if len(self._stretches) >= MAX_STRETCHES:
            self.uncounted += 1
            return
        fork = None
        if prev in self._recent and prev not in {end for s in self._stretches for end in s.ends}:
            later = iter(self._recent)
            while next(later) != prev:
                pass
            fork = self._recent.get(next(later, ""))
        # By position, so that records moved to where none should be do not count as missing ones.
        self._stretches.append(_Stretch(position, prev, max(position - self.last - 1, 0), fork))

    # What it means

    def findings(self, shift: int) -> list[Finding]:
        """What was done, as far as breaks tell. `shift` records are known to be missing (or, below zero, too
        many) before some record whose position is known."""
        broken = list(self._of_breaks(shift))
        found = [*self._odd, *self._of_edited(), *broken]
        return sorted(found, key=lambda finding: finding.position or 0)

    def _of_edited(self) -> Iterator[Finding]:
        for one in self._edited:
            if any(first <= one.position <= last for first, last in self._put_in):
                continue  # That it was put in says enough.
            twin = next(
                (
                    other.position
                    for other in self._edited
                    if other is not one
                    and self._digests.digest(one.prev, other.row, one.digest) == one.digest
                ),
                None,
            )
            if twin is None:
                yield _edited(one.position)
            else:
                yield Finding(
                    "reordered",
                    one.position,
                    f"record {one.position} holds something else than was written; what belongs there is in "
                    f"record {twin}: contents changed places",
                )

    def _of_breaks(self, shift: int) -> Iterator[Finding]:
        stretches = self._stretches
        by_end = {end: i for i, s in enumerate(stretches) for end in s.ends if end is not None}
        follows = [by_end.get(s.want) if i else None for i, s in enumerate(stretches)]
        skipped = {
            between
            for i, before in enumerate(follows)
            if before is not None and before < i
            for between in range(before + 1, i)
            if follows[between] is None
        }
        moved = self._moved(follows, skipped)
        for i, stretch in enumerate(stretches):
            if i == 0:
                continue
            before = follows[i]
            if i in skipped:
                yield self._inserted(stretch.first, stretch.last)
            elif before is not None:
                if i in moved:
                    yield _reordered(stretch, stretches[before])
            elif stretch.fork is not None:
                yield self._inserted(stretch.fork, stretches[i - 1].last)
            elif stretch.misses:
                yield _removed(stretch.first - stretch.misses, stretch.first - 1)
            else:
                yield self._unclear(stretch, stretches[i - 1].last, shift)

    def _moved(self, follows: Sequence[int | None], skipped: set[int]) -> set[int]:
        """The stretches that were moved, if as many records as possible stayed where they were."""
        after: dict[int, int] = {}
        for i, before in enumerate(follows):
            if before is not None:
                after.setdefault(before, i)
        order: list[int] = []
        for i, before in enumerate(follows):
            at: int | None = i if before is None and i not in skipped else None
            while at is not None and at not in order:
                order.append(at)
                at = after.get(at)
        # The heaviest subsequence of the true order that also stands in this order in the table.
        best: list[tuple[int, list[int]]] = []
        for n, i in enumerate(order):
            size = self._stretches[i].last - self._stretches[i].first + 1
            weight, path = max(
                (best[m] for m in range(n) if order[m] < i), key=lambda known: known[0], default=(0, [])
            )
            best.append((weight + size, [*path, i]))
        stayed = max(best, key=lambda known: known[0], default=(0, []))[1]
        # A second record that names the same one before it is in no order at all.
        return set(range(len(follows))) - set(stayed)

    def _inserted(self, first: int, last: int) -> Finding:
        self._put_in.append((first, last))
        what, it = (
            (f"record {first} was", "it") if first == last else (f"records {first} to {last} were", "them")
        )
        return Finding("inserted", first, f"{what} put in: the record after {it} follows the one before {it}")

    def _unclear(self, stretch: _Stretch, before: int, shift: int) -> Finding:
        first = stretch.first
        if shift > 0:
            gone = "a record" if shift == 1 else f"{shift} records in all"
            return Finding(
                "removed",
                first,
                f"what stood before the present record {first} was removed ({gone}), and the later ones were "
                "given new positions",
            )
        if before == self.start:
            return Finding(
                "edited",
                first,
                f"record {first} does not follow the beginning of the log: the log's id or its last "
                "closed segment was changed, or records before it were removed and the later ones given new "
                "positions",
            )
        return Finding(
            "edited",
            before,
            f"record {before} is not the one that record {first} follows: it was edited and its digest "
            "computed anew; or records between the two were removed and the later ones given new positions",
        )


def _edited(position: int) -> Finding:
    return Finding(
        "edited", position, f"record {position} was edited: its contents and its digest do not agree"
    )


def _removed(first: int, last: int) -> Finding:
    gone = f"record {first} is" if first == last else f"records {first} to {last} are"
    return Finding("removed", first, f"{gone} missing")


def _reordered(stretch: _Stretch, before: _Stretch) -> Finding:
    what = (
        f"record {stretch.first} does"
        if stretch.first == stretch.last
        else f"records {stretch.first} to {stretch.last} do"
    )
    return Finding(
        "reordered",
        stretch.first,
        f"{what} not stand where written: that is right after the record that is now at {before.last}",
    )
