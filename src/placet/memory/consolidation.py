"""Housekeeping: what is not believed any more leaves the indexes, and what has no vector gets one.

Keep true: no fact is deleted, questions about the past find what they found before, and a process that dies
in between leaves everything findable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from placet.ir.to_dict import ToDict

if TYPE_CHECKING:
    from placet.memory.memory import Memory

_BATCH = 256


class Consolidation(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """What consolidation did."""

    expired: int
    """Facts taken out of the indexes because their time was over."""
    superseded: int
    """Facts taken out because another one replaced them."""
    vectors_removed: int
    """Vectors removed: of other models, and of another size."""
    embedded: int
    """Facts that got a vector."""
    total: int
    """Facts of the tenant, also those that are not believed any more."""
    domains_evolved: tuple[str, ...] = ()
    """Domains of skills that got new ones, because runs with the others mostly failed."""
    note: str | None = None
    """Why facts were not embedded, if there is an embedder."""


async def consolidate(
    memory: Memory, tenant: str | None, on_progress: Callable[[int], None] | None = None
) -> Consolidation:
    """Consolidate the facts of a tenant."""
    store, now = memory.store, memory.clock()
    model = memory.embedding.model if memory.embedding.is_there else None
    # A model may make vectors of another size under the same name; one shows which.
    sample = await memory.embedding.query("size") if model is not None else None
    size = None if sample is None else sample.nbytes
    pruned = await asyncio.to_thread(store.prune, tenant, now, model, size)
    memory.drop_index(tenant)
    embedded = 0
    while model is not None:
        missing = await asyncio.to_thread(store.without_vectors, tenant, model, _BATCH)
        if not missing or not (made := await memory.embed(missing)):
            break
        embedded += made
        if on_progress is not None:
            on_progress(embedded)
    counted = await asyncio.to_thread(store.frequencies, tenant, ())
    return Consolidation(
        expired=pruned.expired,
        superseded=pruned.superseded,
        vectors_removed=pruned.vectors,
        embedded=embedded,
        total=counted.total,
        note=memory.embedding.problem,
    )
