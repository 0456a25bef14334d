"""Where the boxes and lines of a plan go: pure geometry, no colours and no words.

Layers become columns (or rows, where that fits better). Lines that span several layers get a lane of their
own through those in between, boxes are ordered so that few lines cross, and pulled towards their neighbours
so that lines run straight.

Keep true:
1. The same graph gives the same numbers.
2. The size of a drawing is bounded whatever the size of the plan: what is left out stands in one box of its
   layer, or of its stretch of layers, and can be counted there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from placet.ir.graph import Graph

MAX_LAYERS = 40
MAX_PER_LAYER = 12
MAX_LINES = 1500
_MAX_LANES = 3000
_SWEEPS = 6
_COUNTABLE = 400
"""Crossings are counted only below so many lines between two layers."""


@dataclass(slots=True)
class Node:
    """A box, or the place where a line passes a layer (`positions` is empty then)."""

    positions: list[int]
    """The actions it stands for: one, or all that were left out here."""
    layers: int = 1
    """Over how many layers of the plan it stretches; more than one only where layers were left out."""
    is_rest: bool = False
    cross: float = 0.0
    """Its middle along the layer."""

    @property
    def is_lane(self) -> bool:
        return not self.positions


@dataclass(slots=True)
class Line:
    """Something that waits for something."""

    path: list[Node]
    """From the first to the second, with a lane node in every layer between."""
    keys: list[str] = field(default_factory=list)
    """State keys in conflict; empty for an edge that the plan itself names."""


@dataclass(slots=True)
class Layout:
    """Nodes by layer, each with its place along the layer, and the lines between them."""

    layers: list[list[Node]]
    lines: list[Line]
    lines_left_out: int
    breadth: float
    """How far the layers reach, from 0."""


def arrange(
    graph: Graph, *, is_notable: Callable[[int], bool] = lambda _: False, size: float, gap: float, lane: float
) -> Layout:
    """Lay a plan out.

    Args:
        is_notable: Actions that must not be left out while there is room, such as failed ones.
        size: A box's extent along its layer.
        gap: What stays free between two boxes.
        lane: What a passing line needs.
    """
    layers, home = _select(graph.layers, is_notable)
    lines, left_out = _lines(graph, layers, home)
    lines = _open_lanes(layers, lines)
    _order(layers, lines)
    breadth = _place(layers, lines, size, gap, lane)
    if breadth > 1.25 * max((len(layer) for layer in layers), default=0) * (size + gap):
        # Straight lines have made a staircase of it: keep the layers more in the middle.
        breadth = _place(layers, lines, size, gap, lane, loyalty=0.35)
    return Layout(layers, lines, left_out, breadth)


def _select(
    layers: Sequence[Sequence[int]], is_notable: Callable[[int], bool]
) -> tuple[list[list[Node]], dict[int, Node]]:
    """The boxes to draw, by layer, and the box of every action."""
    kept = _kept_layers(layers, is_notable)
    drawn: list[list[Node]] = []
    home: dict[int, Node] = {}
    gap: Node | None = None
    for number, layer in enumerate(layers):
        if number not in kept:
            if gap is None:
                gap = Node([], layers=0, is_rest=True)
                drawn.append([gap])
            gap.positions += layer
            gap.layers += 1
            home.update((i, gap) for i in layer)
            continue
        gap = None
        nodes = [Node([i]) for i in _kept_in_layer(layer, is_notable)]
        home.update((node.positions[0], node) for node in nodes)
        rest = [i for i in layer if i not in home]
        if rest:
            nodes.append(Node(rest, is_rest=True))
            home.update((i, nodes[-1]) for i in rest)
        drawn.append(nodes)
    return drawn, home


def _kept_layers(layers: Sequence[Sequence[int]], is_notable: Callable[[int], bool]) -> set[int]:
    total = len(layers)
    if total <= MAX_LAYERS:
        return set(range(total))
    third = MAX_LAYERS // 3
    kept = set(range(third)) | set(range(total - third, total))
    for number, layer in enumerate(layers):
        # A notable layer in the middle also costs the box of the layers left out before it.
        if len(kept) >= MAX_LAYERS - third // 2:
            break
        if any(map(is_notable, layer)):
            kept.add(number)
    return kept


def _kept_in_layer(layer: Sequence[int], is_notable: Callable[[int], bool]) -> list[int]:
    if len(layer) <= MAX_PER_LAYER:
        return list(layer)
    ranked = sorted(range(len(layer)), key=lambda n: (not is_notable(layer[n]), n))
    return [layer[n] for n in sorted(ranked[: MAX_PER_LAYER - 1])]


def _lines(graph: Graph, layers: list[list[Node]], home: dict[int, Node]) -> tuple[list[Line], int]:
    """Lines between boxes, none twice; a conflict that an explicit edge already orders is not drawn."""
    found: dict[tuple[int, int], Line] = {}
    for i, before in enumerate(graph.explicit):
        there = home.get(i)
        for p in before:
            here = home.get(p)
            if here is not None and there is not None and here is not there:
                found.setdefault((id(here), id(there)), Line([here, there]))
    explicit = set(found)
    for first, then, key, _ in graph.conflicts:
        here, there = home.get(first), home.get(then)
        if here is None or there is None or here is there or (id(here), id(there)) in explicit:
            continue
        line = found.setdefault((id(here), id(there)), Line([here, there]))
        if key not in line.keys and len(line.keys) < 20:
            line.keys.append(key)
    lines = list(found.values())
    return lines[:MAX_LINES], max(0, len(lines) - MAX_LINES)


def _open_lanes(layers: list[list[Node]], lines: list[Line]) -> list[Line]:
    """Give every line that passes a layer a lane through it."""
    level = {id(node): n for n, layer in enumerate(layers) for node in layer}
    opened = 0
    for line in lines:
        start, end = line.path
        between = range(level[id(start)] + 1, level[id(end)])
        if opened + len(between) > _MAX_LANES:
            continue
        opened += len(between)
        lanes = [Node([]) for _ in between]
        for n, lane in zip(between, lanes, strict=True):
            layers[n].append(lane)
        line.path = [start, *lanes, end]
    return lines


def _steps(lines: Iterable[Line]) -> Iterable[tuple[Node, Node]]:
    for line in lines:
        yield from pairwise(line.path)


def _order(layers: list[list[Node]], lines: list[Line]) -> None:
    """Reorder each layer by the middle of its neighbours, to and fro, and keep the best order seen."""
    left: dict[int, list[Node]] = {}
    right: dict[int, list[Node]] = {}
    for here, there in _steps(lines):
        right.setdefault(id(here), []).append(there)
        left.setdefault(id(there), []).append(here)
    best = [list(layer) for layer in layers]
    fewest = _crossings(layers, right)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        neighbours = left if forward else right
        for n in range(1, len(layers)) if forward else range(len(layers) - 2, -1, -1):
            beside = {id(node): at for at, node in enumerate(layers[n - 1 if forward else n + 1])}
            keys: dict[int, float] = {}
            for at, node in enumerate(layers[n]):
                places = [beside[id(m)] for m in neighbours.get(id(node), ()) if id(m) in beside]
                keys[id(node)] = sum(places) / len(places) if places else float(at)
            layers[n].sort(key=lambda node: keys[id(node)])
        crossings = _crossings(layers, right)
        if crossings < fewest:
            fewest, best = crossings, [list(layer) for layer in layers]
    layers[:] = best


def _crossings(layers: list[list[Node]], right: dict[int, list[Node]]) -> int:
    total = 0
    for here, there in pairwise(layers):
        place = {id(node): at for at, node in enumerate(there)}
        ends = [sorted(place[id(m)] for m in right.get(id(node), ()) if id(m) in place) for node in here]
        if sum(map(len, ends)) > _COUNTABLE:
            continue
        seen: list[int] = []
        for group in ends:
            total += sum(1 for end in group for earlier in seen if earlier > end)
            seen += group
    return total


def _place(
    layers: list[list[Node]], lines: list[Line], size: float, gap: float, lane: float, loyalty: float = 0.0
) -> float:
    """Set `cross` of every node; returns how far they reach. `loyalty` is how much a node keeps to its place
    in a layer that is centred, against the pull of its neighbours."""
    near: dict[int, list[Node]] = {}
    for here, there in _steps(lines):
        near.setdefault(id(here), []).append(there)
        near.setdefault(id(there), []).append(here)

    def extent(node: Node) -> float:
        return lane if node.is_lane else size

    offsets: list[list[float]] = []
    for layer in layers:
        at = 0.0
        offset = []
        for n, node in enumerate(layer):
            if n:
                at += (extent(layer[n - 1]) + extent(node)) / 2 + gap
            offset.append(at)
        offsets.append(offset)
        for node, o in zip(layer, offset, strict=True):
            node.cross = o - at / 2
    # A small plan is smoothed until its lines run straight; a large one is not looked at so closely.
    sweeps = max(2 * _SWEEPS, min(120, 20_000 // (1 + sum(map(len, layers)))))
    for sweep in range(sweeps):
        indices = range(len(layers)) if sweep % 2 == 0 else range(len(layers) - 1, -1, -1)
        for n in indices:
            wanted = [
                (1 - loyalty) * sum(m.cross for m in near[id(node)]) / len(near[id(node)])
                + loyalty * (at - offsets[n][-1] / 2)
                if id(node) in near
                else node.cross
                for node, at in zip(layers[n], offsets[n], strict=True)
            ]
            for node, middle in zip(layers[n], _spread(wanted, offsets[n]), strict=True):
                node.cross = middle
    nodes = [node for layer in layers for node in layer]
    if not nodes:
        return 0.0
    low = min(node.cross - extent(node) / 2 for node in nodes)
    for node in nodes:
        node.cross -= low
    return max(node.cross + extent(node) / 2 for node in nodes)


def _spread(wanted: list[float], offset: list[float]) -> list[float]:
    """The places nearest to the wanted ones that keep order and distance (pooling adjacent violators)."""
    pools: list[tuple[float, int]] = []
    for want, at in zip(wanted, offset, strict=True):
        pools.append((want - at, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, n), (b, m) = pools[-2:]
            pools[-2:] = [((a * n + b * m) / (n + m), n + m)]
    flat = [base for base, number in pools for _ in range(number)]
    return [base + at for base, at in zip(flat, offset, strict=True)]
