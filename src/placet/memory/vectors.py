"""Vectors of one tenant's facts, searched exactly: all of them, with the filter first.

Up to 100,000 vectors numpy compares every one. Beyond that the package `turbovec`, if it is installed, finds
the nearest ones, which are compared exactly then.

Keep true:
1. A fact that the filter excludes is never compared.
2. The index only repeats what the store holds: it may be thrown away at any time.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from placet.extras import has_module
from placet.memory.store import FactFilter, FactStore, VectorChanges, VectorRow

if TYPE_CHECKING:
    import numpy

EXACT_UP_TO = 100_000
"""Vectors that numpy compares one by one."""
_RERANKED = 200
_FIRST = 1_024
_BITS = 4


class VectorsUnusable(Exception):
    """Vectors cannot be compared; full text alone is used."""


class VectorIndex:
    """The vectors of one tenant and one model. Safe to use from any thread."""

    def __init__(
        self,
        store: FactStore,
        tenant: str | None,
        model: str,
        *,
        with_past: bool = False,
        exact_up_to: int = EXACT_UP_TO,
    ) -> None:
        """`with_past`: also the facts that consolidation has pruned, for questions about the past."""
        self._with_past = with_past
        self._exact_up_to = exact_up_to
        self._store = store
        self._tenant = tenant
        self._model = model
        self._lock = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self._revision = 0
        self._forgotten = 0
        self._places: dict[str, int] = {}
        self._ids: list[str] = []
        self._groups: list[tuple[Any, ...]] = []
        """Scope, kind, tags and secrecy: facts that a filter treats alike."""
        self._group_of: dict[tuple[Any, ...], int] = {}
        self._matrix: numpy.ndarray[Any, Any] | None = None
        self._times: numpy.ndarray[Any, Any] | None = None
        self._codes: numpy.ndarray[Any, Any] | None = None
        self._approximate: Any = None
        self._approximated = 0
        """Vectors that it holds."""

    def __len__(self) -> int:
        return len(self._ids)

    def search(
        self, query: numpy.ndarray[Any, Any], where: FactFilter, limit: int
    ) -> list[tuple[str, float]]:
        """The ids of the nearest facts that pass the filter, with their cosines.

        Raises:
            VectorsUnusable: the vectors that are stored have another size.
        """
        import numpy

        with self._lock:
            self._refresh()
            if self._matrix is None or self._times is None or self._codes is None:
                return []
            if query.shape[0] != self._matrix.shape[1]:
                raise VectorsUnusable(
                    f"the stored vectors have {self._matrix.shape[1]} numbers and those of the embedder "
                    f"{query.shape[0]}. Embed them again: placet memory consolidate"
                )
            count = len(self._ids)
            times, at = self._times[:, :count], where.at
            admitted = numpy.array([where.admits_kind(*group) for group in self._groups], dtype=bool)
            mask = admitted[self._codes[:count]]
            mask &= (times[0] <= at) & (times[1] > at) & (times[2] <= at) & (times[3] > at)
            places = numpy.flatnonzero(mask)
            if not len(places):
                return []
            if count > self._exact_up_to and len(places) > _RERANKED and has_module("turbovec"):
                places = self._nearest(query, mask)
            few = len(places) < count // 2
            compared = self._matrix[places] if few else self._matrix[:count]
            # Not `@`: its threads wait for each other in a loop, which costs more than they save here.
            cosines = numpy.einsum("ij,j->i", compared, query)
            if not few:
                cosines = cosines[places]
            best = (
                numpy.argsort(-cosines, kind="stable")[:limit]
                if len(cosines) <= limit
                else _top(cosines, limit)
            )
            return [(self._ids[int(places[i])], float(cosines[i])) for i in best]

    def _nearest(
        self, query: numpy.ndarray[Any, Any], mask: numpy.ndarray[Any, Any]
    ) -> numpy.ndarray[Any, Any]:
        """Places of facts that are probably the nearest."""
        import numpy
        import turbovec  # type: ignore[import-not-found,import-untyped,unused-ignore]

        assert self._matrix is not None
        count = len(self._ids)
        if self._approximate is None:
            made = turbovec.TurboQuantIndex(dim=self._matrix.shape[1], bit_width=_BITS)
            step = max(1, count // _FIRST)
            made.calibrate(numpy.ascontiguousarray(self._matrix[:count:step]))
            made.add(numpy.ascontiguousarray(self._matrix[:count]))
            made.prepare()
            self._approximate = made
        elif self._approximated < count:
            self._approximate.add(numpy.ascontiguousarray(self._matrix[self._approximated : count]))
        self._approximated = count
        _, found = self._approximate.search(query[None, :].astype(numpy.float32), k=_RERANKED, mask=mask)
        places: numpy.ndarray[Any, Any] = numpy.sort(found[0].astype(numpy.int64))
        return places

    def _refresh(self) -> None:
        changes = self._store.vector_changes(self._tenant, self._model, self._revision)
        if changes.forgotten != self._forgotten and self._revision:
            self._reset()
            changes = self._store.vector_changes(self._tenant, self._model, 0)
        self._take(changes)

    def _take(self, changes: VectorChanges) -> None:
        self._revision, self._forgotten = changes.revision, changes.forgotten
        rows = [
            row if self._with_past or not row.is_pruned else row._replace(vector=None) for row in changes.rows
        ]
        if self._matrix is None:
            sizes = [len(row.vector) // 4 for row in rows if row.vector is not None]
            if sizes:
                self._make_room(len(sizes), sizes[0])
        for row in rows:
            if row.vector is None and row.id not in self._places:
                continue
            self._put(row)

    def _put(self, row: VectorRow) -> None:
        import numpy

        vector = numpy.frombuffer(row.vector, dtype="<f4") if row.vector is not None else None
        place = self._places.get(row.id)
        if place is None:
            assert vector is not None
            if self._matrix is not None and vector.shape[0] != self._matrix.shape[1]:
                return  # Of another size: made by another version of the model, and to be made again.
            place = self._places[row.id] = len(self._ids)
            self._ids.append(row.id)
            self._grow(place, vector.shape[0])
        assert self._matrix is not None
        assert self._times is not None
        assert self._codes is not None
        if vector is not None and vector.shape[0] == self._matrix.shape[1]:
            if not numpy.array_equal(self._matrix[place], vector):
                self._matrix[place] = vector
                if place < self._approximated:
                    self._approximate = None
        until = row.valid_until if vector is not None else -1e301  # Without a vector it is not compared.
        self._times[:, place] = (row.learned, row.invalidated, row.valid_from, until)
        group = (row.scope, row.kind, row.tags, row.is_secret)
        code = self._group_of.setdefault(group, len(self._groups))
        if code == len(self._groups):
            self._groups.append(group)
        self._codes[place] = code

    def _make_room(self, count: int, size: int) -> None:
        import numpy

        room = max(_FIRST, count + count // 8)
        self._matrix = numpy.zeros((room, size), dtype=numpy.float32)
        self._times = numpy.zeros((4, room))
        self._codes = numpy.zeros(room, dtype=numpy.int32)

    def _grow(self, place: int, size: int) -> None:
        import numpy

        assert self._matrix is not None
        assert self._times is not None
        assert self._codes is not None
        if place == len(self._codes):
            room = len(self._codes)
            self._matrix = numpy.concatenate([self._matrix, numpy.zeros((room, size), dtype=numpy.float32)])
            self._times = numpy.concatenate([self._times, numpy.zeros((4, room))], axis=1)
            self._codes = numpy.concatenate([self._codes, numpy.zeros(room, dtype=numpy.int32)])


def _top(cosines: numpy.ndarray[Any, Any], limit: int) -> numpy.ndarray[Any, Any]:
    import numpy

    chosen = numpy.argpartition(-cosines, limit)[:limit]
    best: numpy.ndarray[Any, Any] = chosen[numpy.argsort(-cosines[chosen], kind="stable")]
    return best
