"""Which dependencies follow from others: questions about paths in a graph, many at once.

Keep true:
1. Exact, and about linear: each pass over the graph answers for `_WIDTH` earlier actions together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_WIDTH = 4096
"""Earlier actions per pass, each a bit of a number: wide enough for few passes, small enough to keep."""

Pair = tuple[int, int]


def implied(order: Sequence[int], before: Sequence[Sequence[int]], pairs: Iterable[Pair]) -> set[Pair]:
    """Those of `pairs` (a, b) where something that b waits for waits itself, however indirectly, for a.

    `order` is a topological order of `before`; what is not in it leads nowhere.

    >>> chain = [[], [0], [1, 0]]
    >>> implied([0, 1, 2], chain, [(0, 2), (1, 2), (0, 1)])
    {(0, 2)}
    """
    asked: dict[int, list[int]] = {}
    for a, b in pairs:
        asked.setdefault(a, []).append(b)
    rank = {i: at for at, i in enumerate(order)}
    # In serial order, so that one pass serves neighbours and can stop early.
    sources = sorted((a for a in asked if a in rank), key=rank.__getitem__)
    found: set[Pair] = set()
    for start in range(0, len(sources), _WIDTH):
        block = sources[start : start + _WIDTH]
        bits = {a: 1 << at for at, a in enumerate(block)}
        goals: dict[int, list[int]] = {}
        for a in block:
            for b in asked[a]:
                goals.setdefault(b, []).append(a)
        last = max((rank[b] for b in goals if b in rank), default=-1)
        found |= _walk(order[rank[block[0]] : last + 1], before, bits, goals)
    return found


def _walk(
    order: Sequence[int],
    before: Sequence[Sequence[int]],
    bits: dict[int, int],
    goals: dict[int, list[int]],
) -> set[Pair]:
    """One pass: carry along, per action, which of the block it waits for."""
    found: set[Pair] = set()
    waits_for = [0] * len(before)
    with_itself = [0] * len(before)
    for i in order:
        direct = 0
        through = 0
        for p in before[i]:
            direct |= with_itself[p]
            through |= waits_for[p]
        waits_for[i] = direct
        with_itself[i] = direct | bits.get(i, 0)
        if i in goals and through:
            found.update((a, i) for a in goals[i] if through & bits[a])
    return found
