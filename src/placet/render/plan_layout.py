"""Where the actions of a run are drawn: layer after layer, as they can run, up to thousands of them.

Keep true:
1. Linear in actions and edges, give or take a sort of each layer.
2. An action stands right of everything that it depends on. What a model or a person put in its id moves
   nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from placet.events.run_view import ActionView, RunView

WIDTH, HEIGHT = 168.0, 44.0
"""Of a box."""
GAP_X, GAP_Y = 56.0, 14.0
MOST_ROWS = 60
"""Boxes above each other; a layer of more takes several columns."""


class PlacedNode(msgspec.Struct, frozen=True):
    """Where an action is drawn."""

    key: str
    x: float
    y: float
    layer: int


class PlanLayout(msgspec.Struct, frozen=True):
    """Where everything is drawn, in units of which a box is `node_width` by `node_height`."""

    nodes: list[PlacedNode]
    edges: list[tuple[str, str]]
    """From what is needed to what needs it."""
    layers: int
    width: float
    height: float
    node_width: float = WIDTH
    node_height: float = HEIGHT


def lay_out(view: RunView) -> PlanLayout:
    """Lay the actions of a run out, its proposals one after the other."""
    by_proposal: dict[str, list[ActionView]] = {}
    for action in view.actions.values():
        by_proposal.setdefault(action.proposal, []).append(action)
    order = [each.id for each in view.proposals if each.id in by_proposal]
    order += [each for each in by_proposal if each not in set(order)]
    nodes: list[PlacedNode] = []
    left, number = 0.0, 0
    for proposal in order:
        for layer in _layers(by_proposal[proposal]):
            columns = -(-len(layer) // MOST_ROWS)
            rows = -(-len(layer) // columns)
            for place, key in enumerate(layer):
                x = left + place // rows * (WIDTH + GAP_Y)
                nodes.append(PlacedNode(key, x, place % rows * (HEIGHT + GAP_Y), number))
            left += columns * (WIDTH + GAP_Y) - GAP_Y + GAP_X
            number += 1
    _centre(nodes)
    known = set(view.actions)
    return PlanLayout(
        nodes=nodes,
        edges=[(dep, key) for key, each in view.actions.items() for dep in each.deps if dep in known],
        layers=number,
        width=max((node.x for node in nodes), default=0.0) + WIDTH,
        height=max((node.y for node in nodes), default=0.0) + HEIGHT,
    )


def _layers(actions: Sequence[ActionView]) -> list[list[str]]:
    """The keys of the actions by how many must end before, each near what it depends on."""
    level = _levels({each.key: each.deps for each in actions})
    layers: list[list[str]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    deps = {each.key: each.deps for each in actions}
    for key in deps:
        layers[level[key]].append(key)
    place: dict[str, int] = {}
    for layer in layers:
        first = {key: n for n, key in enumerate(layer)}
        layer.sort(key=lambda key: (_mean(place[d] for d in deps[key] if d in place), first[key]))
        place.update((key, n) for n, key in enumerate(layer))
    return layers


def _levels(deps: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """How far each stands from what depends on nothing. Those on a circle stand where it was entered."""
    level: dict[str, int] = {}
    for start in deps:
        stack = [start]
        open_: set[str] = set()
        while stack:
            key = stack[-1]
            if key in level:
                stack.pop()
                continue
            left = [d for d in deps[key] if d in deps and d not in level and d not in open_]
            if left and key not in open_:
                open_.add(key)
                stack += left
                continue
            level[key] = 1 + max((level[d] for d in deps[key] if d in level), default=-1)
            stack.pop()
    return level


def _mean(values: Iterable[int]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0


def _centre(nodes: list[PlacedNode]) -> None:
    """Put short layers beside the middle of the longest."""
    tallest: dict[int, float] = {}
    for node in nodes:
        tallest[node.layer] = max(tallest.get(node.layer, 0.0), node.y)
    most = max(tallest.values(), default=0.0)
    nodes[:] = [
        PlacedNode(node.key, node.x, node.y + (most - tallest[node.layer]) / 2, node.layer) for node in nodes
    ]
