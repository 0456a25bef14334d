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

WIDTH, HEIGHT = 168, 44
"""Of a box."""
GAP_X, GAP_Y = 56, 14
MOST_ROWS = 60
"""Boxes above each other; a layer of more takes several columns."""


class PlanLayout(msgspec.Struct, frozen=True):
    """Where everything is drawn, in units of which a box is `node_width` by `node_height`. Lists instead of
    objects: there may be thousands of actions."""

    keys: list[str]
    """Keys of the actions."""
    x: list[int]
    """Left edge of each action's box."""
    y: list[int]
    """Upper edge of each action's box."""
    edges: list[tuple[int, int]]
    """From what is needed to what needs it, as positions in `keys`."""
    layers: int
    width: int
    height: int
    node_width: int = WIDTH
    node_height: int = HEIGHT


def lay_out(view: RunView) -> PlanLayout:
    """Lay the actions of a run out, its proposals one after the other."""
    by_proposal: dict[str, list[ActionView]] = {}
    for action in view.actions.values():
        by_proposal.setdefault(action.proposal, []).append(action)
    order = [each.id for each in view.proposals if each.id in by_proposal]
    order += [each for each in by_proposal if each not in set(order)]
    layers = [layer for proposal in order for layer in _layers(by_proposal[proposal])]
    shapes = [_shape(len(layer)) for layer in layers]
    most = max((rows for _, rows in shapes), default=0)
    keys: list[str] = []
    x: list[int] = []
    y: list[int] = []
    left = 0
    for layer, (columns, rows) in zip(layers, shapes, strict=True):
        # Short layers stand beside the middle of the longest.
        top = (most - rows) * (HEIGHT + GAP_Y) // 2
        for place, key in enumerate(layer):
            keys.append(key)
            x.append(left + place // rows * (WIDTH + GAP_Y))
            y.append(top + place % rows * (HEIGHT + GAP_Y))
        left += columns * (WIDTH + GAP_Y) - GAP_Y + GAP_X
    places = {key: place for place, key in enumerate(keys)}
    return PlanLayout(
        keys=keys,
        x=x,
        y=y,
        edges=[
            (places[dep], place)
            for place, key in enumerate(keys)
            for dep in view.actions[key].deps
            if dep in places
        ],
        layers=len(layers),
        width=max(x, default=0) + WIDTH,
        height=max(y, default=0) + HEIGHT,
    )


def _shape(size: int) -> tuple[int, int]:
    """Columns and rows of a layer."""
    columns = -(-size // MOST_ROWS)
    return columns, -(-size // columns)


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
