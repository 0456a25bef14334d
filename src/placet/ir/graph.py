"""The graph of a proposal: who waits for whom, in which order it counts as run, and why it is refused.

Explicit edges come from `dependencies` and references. The *serial order* is their topological order,
ties by position. Every conflict on a state key then becomes an edge along that order, so conflicts never
form a cycle, and whatever runs in parallel leaves what the serial order would have left.

Keep true:
1. Building is linear in actions and edges (times a logarithm only where a plan lists a consumer before
   its producer), also when ten thousand actions touch one key.
2. Nothing here looks at a state, a tool or a clock.
3. An action that serves as a compensation is not in the schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from placet.ir.action import Action, ActionCompensation
from placet.ir.references import find_references, has_references

ANY_KEY = "\0any"
"""A key nobody can name: stands for "some key, not known beforehand"."""

Footprint = tuple[Sequence[str], Sequence[str]]
"""State keys read, and written."""

_NOTHING: Footprint = ((), ())
_ONE = range(1)


class Fault(NamedTuple):
    """Why a proposal cannot be scheduled at all."""

    message: str
    action_ids: tuple[str, ...]


class Conflict(NamedTuple):
    """Two actions that must not overlap, because of one key."""

    first: int
    then: int
    key: str
    kind: str
    """`write_read`, `read_write` or `write_write`, in the order of the two."""


def reads_and_writes(action: Action) -> Footprint:
    """The keys an action reads and writes by its own account; sets in the plan only add."""
    kind = action.type
    if not (
        action.expected_effects
        or action.preconditions
        or action.state_dependencies
        or action.read_set
        or action.write_set
        or action.assumptions
    ):
        if kind == "tool_call":
            return _NOTHING
        key = action.parameters.get("key")
        if type(key) is str and "$" not in key:
            return ((), (key,)) if kind == "state_write" else ((key,), ())
    reads: list[str] = [*action.state_dependencies, *action.read_set]
    reads += [p.key for p in action.preconditions]
    reads += [a.key for a in action.assumptions]
    writes: list[str] = [*action.write_set, *action.expected_effects]
    if kind != "tool_call":
        key = action.parameters.get("key")
        if isinstance(key, str):
            if action.references and "$" in key and has_references(key):
                key = ANY_KEY
            (writes if kind == "state_write" else reads).append(key)
    return reads, writes


def needs_order(layer: Sequence[Action], is_read_only: Callable[[str], bool]) -> bool:
    """Whether a layer must run one action at a time, under the levels schedule.

    One of its actions may abort the plan and one has effects: run at once, something could take effect
    after the failure.
    """
    return (
        len(layer) > 1
        and any(action.failure_behavior == "abort" for action in layer)
        and any(
            action.type == "state_write"
            or (action.type == "tool_call" and not is_read_only(action.tool or ""))
            for action in layer
        )
    )


def _stands_alone(action: Action) -> bool:
    """Whether an action has nothing to do with any other, nor with the state."""
    return (
        not action.references
        and not action.dependencies
        and action.compensation is None
        and action.type == "tool_call"
        and reads_and_writes(action) is _NOTHING
    )


class Graph:
    """A proposal's actions, by position in the list."""

    __slots__ = (
        "__dict__",
        "actions",
        "explicit",
        "faults",
        "index",
        "layers",
        "needs",
        "order",
        "references",
        "targets",
        "touched",
    )

    def __init__(
        self, actions: Sequence[Action], also_touches: Callable[[Action], Footprint] | None = None
    ) -> None:
        """`also_touches` adds what a policy reads or orders, as keys, to what the actions say."""
        self.actions = actions
        self.faults: list[Fault] = []
        if len(actions) == 1 and also_touches is None and _stands_alone(actions[0]):
            # A loop of turns makes one such graph for every call.
            self.index: dict[str, int] = {actions[0].id: 0}
            self.targets: dict[int, int] = {}
            self.references: set[int] = set()
            self.explicit: list[Sequence[int]] = [()]
            self.order: Sequence[int] = _ONE
            self.touched = [_NOTHING]
            self.needs: list[Sequence[int]] = self.explicit
            self.layers: list[list[int]] = [[0]]
            return
        self.index = {a.id: i for i, a in enumerate(actions)}
        if len(self.index) != len(actions):
            self.faults.append(_duplicates(actions))
        self.targets = {}
        """Actions that only run as compensations, each with the first action it takes back."""
        self.references = set()
        """Actions whose parameters hold references, escaped ones included."""
        self.explicit = []
        in_order = self._link()
        if self.targets:
            in_order = False
            self._check_compensations()
        self.order = range(len(actions)) if in_order else self._sort()
        """Positions in serial order."""
        self.touched = self._footprints(also_touches)
        self.needs = self.explicit
        """Per action, those that must succeed for it to run at all."""
        self.layers = []
        if not self.faults:
            self._layer()

    def _link(self) -> bool:
        """Collect explicit edges; true if every edge points backward in the list."""
        index = self.index
        explicit = self.explicit
        in_order = True
        for i, action in enumerate(self.actions):
            before: Sequence[int] = ()
            names = action.dependencies
            if names:
                # dict.fromkeys: an action may wait for thousands of others, and name one twice.
                found: Sequence[int] = (
                    (index.get(names[0], -1),)
                    if len(names) == 1
                    else [index.get(name, -1) for name in dict.fromkeys(names)]
                )
                if -1 in found:
                    for name in dict.fromkeys(names):
                        if name not in index:
                            self._unknown(action, f"depends on '{name}'", name)
                    found = [p for p in found if p >= 0]
                before = found
            if action.references:
                for value in action.parameters.values():
                    kind = type(value)
                    if kind is str:
                        if "$" not in value:
                            continue
                    elif kind is not dict and kind is not list:
                        continue
                    if has_references(value):
                        before = self._refer(i, action, before)
                        break
            if action.compensation is not None:
                self._compensate(i, action)
            if before and max(before) >= i:
                in_order = False
            explicit.append(before)
        return in_order

    def _refer(self, i: int, action: Action, before: Sequence[int]) -> list[int]:
        self.references.add(i)
        found = dict.fromkeys(before)
        for reference in find_references(action.parameters):
            p = self.index.get(reference.action_id)
            if p is None:
                what = f"refers to '{reference}' (write '${reference}' for the literal text)"
                self._unknown(action, what, reference.action_id)
            else:
                found[p] = None
        return list(found)

    def _compensate(self, i: int, action: Action) -> None:
        compensation = action.compensation
        if isinstance(compensation, ActionCompensation):
            target = self.index.get(compensation.action_id)
            if target is None:
                self._unknown(action, f"is compensated by '{compensation.action_id}'", compensation.action_id)
            elif target == i:
                self.faults.append(Fault(f"action '{action.id}' is its own compensation", (action.id,)))
            else:
                self.targets.setdefault(target, i)
        elif compensation is not None:
            for reference in find_references(compensation.parameters):
                if reference.action_id not in self.index:
                    self._unknown(
                        action, f"has a compensation that refers to '{reference}'", reference.action_id
                    )

    def _check_compensations(self) -> None:
        """Actions that only compensate each other would all leave the schedule, and none would ever run."""
        seen: set[int] = set()
        for start in self.targets:
            path: list[int] = []
            at: int | None = start
            while at is not None and at not in seen:
                seen.add(at)
                path.append(at)
                compensation = self.actions[at].compensation
                at = None
                if isinstance(compensation, ActionCompensation):
                    at = self.index.get(compensation.action_id)
            if at is not None and at in path:
                ids = tuple(self.actions[i].id for i in path[path.index(at) :])
                if len(ids) > 1:
                    shown = ", ".join(f"'{name}'" for name in ids[:20])
                    self.faults.append(Fault(f"actions compensate each other in a circle: {shown}", ids))

    def _unknown(self, action: Action, what: str, name: str) -> None:
        message = f"action '{action.id}' {what}, but the proposal has no action '{name}'"
        self.faults.append(Fault(message, (action.id, name)))

    def _sort(self) -> Sequence[int]:
        """Topological order of the explicit edges, ties by position."""
        scheduled = [i for i in range(len(self.actions)) if i not in self.targets]
        after: list[list[int]] = [[] for _ in self.actions]
        waiting = [0] * len(self.actions)
        for i in scheduled:
            for p in self.explicit[i]:
                # What waits for a compensation's target waits for nothing: it is skipped when its turn comes.
                if p not in self.targets:
                    after[p].append(i)
                    waiting[i] += 1
        ready = [i for i in scheduled if not waiting[i]]
        heapify(ready)
        order: list[int] = []
        while ready:
            i = heappop(ready)
            order.append(i)
            for j in after[i]:
                waiting[j] -= 1
                if not waiting[j]:
                    heappush(ready, j)
        if len(order) != len(scheduled):
            self.faults.append(self._cycle([i for i in scheduled if waiting[i]]))
        return order

    def _cycle(self, stuck: Sequence[int]) -> Fault:
        """Name one cycle among actions that all wait for each other or for such ones."""
        left = set(stuck)
        path: list[int] = []
        seen: dict[int, int] = {}
        at = stuck[0]
        while at not in seen:
            seen[at] = len(path)
            path.append(at)
            at = next(p for p in self.explicit[at] if p in left)
        ids = tuple(self.actions[i].id for i in reversed(path[seen[at] :]))
        shown = " -> ".join([*ids[:20], *(["..."] if len(ids) > 20 else []), ids[0]])
        return Fault(f"actions wait for each other in a cycle: {shown}", ids)

    def _footprints(self, also_touches: Callable[[Action], Footprint] | None) -> list[Footprint]:
        touched = list(map(reads_and_writes, self.actions))
        if also_touches is None and not self.references:
            return touched  # No key is left open: only references and policies do that.
        if also_touches is not None:
            for i, action in enumerate(self.actions):
                reads, writes = also_touches(action)
                if reads or writes:
                    touched[i] = ([*touched[i][0], *reads], [*touched[i][1], *writes])
        if any(ANY_KEY in r or ANY_KEY in w for r, w in touched if r or w):
            # One key that is not known beforehand may be any of them: the whole state counts as one key.
            touched = [((*r, ANY_KEY) if r else r, (*w, ANY_KEY) if w else w) for r, w in touched]
        return touched

    def _layer(self) -> None:
        """Give each action the first layer in which everything it waits for has ended."""
        level = [0] * len(self.actions)
        for target in self.targets:
            level[target] = -1  # In no layer, so nothing waits for one.
        writer: dict[str, int] = {}
        read_level: dict[str, int] = {}
        layers = self.layers
        explicit = self.explicit
        touched = self.touched
        for i in self.order:
            at = 0
            for p in explicit[i]:
                if level[p] >= at:
                    at = level[p] + 1
            reads, writes = footprint = touched[i]
            if footprint is not _NOTHING:
                for key in reads:
                    if key in writer and level[writer[key]] >= at:
                        at = level[writer[key]] + 1
                if self.actions[i].state_dependencies:
                    self._need_writers(i, writer)
                for key in writes:
                    if key in writer and level[writer[key]] >= at:
                        at = level[writer[key]] + 1
                    if key in read_level and read_level[key] >= at:
                        at = read_level[key] + 1
                for key in writes:
                    writer[key] = i
                    read_level.pop(key, None)
                for key in reads:
                    if read_level.get(key, -1) < at:
                        read_level[key] = at
            if at:
                level[i] = at
            if at == len(layers):
                layers.append([i])
            else:
                layers[at].append(i)

    def _need_writers(self, i: int, writer: dict[str, int]) -> None:
        if self.needs is self.explicit:
            self.needs = list(self.explicit)
        writers = [writer[key] for key in self.actions[i].state_dependencies if key in writer]
        self.needs[i] = list(dict.fromkeys((*self.needs[i], *writers)))

    @cached_property
    def conflicts(self) -> list[Conflict]:
        """Every edge that a key makes, in serial order."""
        found: list[Conflict] = []
        writer: dict[str, int] = {}
        readers: dict[str, list[int]] = {}
        touched = self.touched
        # Ten thousand writers of one key are ten thousand of these, and the class's own way is the slow one.
        new = tuple.__new__
        for i in self.order:
            reads, writes = footprint = touched[i]
            if footprint is _NOTHING:
                continue
            for key in dict.fromkeys(reads) if len(reads) > 1 else reads:
                if key in writer:
                    found.append(new(Conflict, (writer[key], i, key, "write_read")))
            for key in dict.fromkeys(writes) if len(writes) > 1 else writes:
                if key in readers:
                    found += [new(Conflict, (r, i, key, "read_write")) for r in readers.pop(key)]
                elif key in writer:
                    found.append(new(Conflict, (writer[key], i, key, "write_write")))
                writer[key] = i
            for key in dict.fromkeys(reads) if len(reads) > 1 else reads:
                if key in readers:
                    readers[key].append(i)
                else:
                    readers[key] = [i]
        return found

    @cached_property
    def before(self) -> list[list[int]]:
        """Per action, all it waits for: explicit edges and conflicts."""
        edges = [[p for p in ps if p not in self.targets] for ps in self.explicit]
        for first, then, _, _ in self.conflicts:
            if first != then:
                edges[then].append(first)
        return [list(dict.fromkeys(e)) if len(e) > 1 else e for e in edges]

    def ids(self, positions: Iterable[int]) -> list[str]:
        """Positions as action ids."""
        return [self.actions[i].id for i in positions]


def _duplicates(actions: Sequence[Action]) -> Fault:
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for action in actions:
        if action.id in seen:
            twice[action.id] = None
        seen.add(action.id)
    names = ", ".join(f"'{name}'" for name in list(twice)[:20])
    return Fault(f"several actions share an id: {names}", tuple(twice))
