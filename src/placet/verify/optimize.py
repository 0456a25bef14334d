"""Simplify a plan without changing what it does.

Keep true:
1. The serial order, the layers and the final state stay as they were.
2. Only entries of `dependencies` go; a reference is an edge of its own and stays.
"""

from __future__ import annotations

import msgspec

from placet.ir.codec import decode_proposal
from placet.ir.graph import Graph
from placet.ir.proposal import Proposal
from placet.ir.references import find_references
from placet.verify.reachability import Pair, implied
from placet.verify.verify import ProposalGiven


def optimize(proposal: ProposalGiven) -> Proposal:
    """Return the same plan without dependencies that others already imply.

    A plan that would be refused is returned unchanged.

    >>> plan = {"actions": [
    ...     {"id": "a", "tool": "t"},
    ...     {"id": "b", "tool": "t", "dependencies": ["a"]},
    ...     {"id": "c", "tool": "t", "dependencies": ["a", "b", "b"]},
    ... ]}
    >>> [list(action.dependencies) for action in optimize(plan).actions]
    [[], ['a'], ['b']]

    Args:
        proposal: JSON text, a dict, or a `Proposal`.

    Raises:
        DecodeError: the proposal cannot be decoded.
    """
    decoded = decode_proposal(proposal)
    graph = Graph(decoded.actions)
    if graph.faults:
        return decoded
    needless = _needless(graph)
    actions = list(decoded.actions)
    changed = False
    for i, action in enumerate(actions):
        names = action.dependencies
        if not names:
            continue
        referred = _referred(graph, i)
        kept = [
            name
            for name in dict.fromkeys(names)
            if graph.index[name] not in referred and (graph.index[name], i) not in needless
        ]
        if len(kept) != len(names):
            actions[i] = msgspec.structs.replace(action, dependencies=kept)
            changed = True
    if not changed:
        return decoded
    result = msgspec.structs.replace(decoded, actions=actions)
    # Notes of the decoder: that the plan was checked, and which of its fields mean nothing.
    result.__dict__.update(decoded.__dict__)
    return result


def _needless(graph: Graph) -> set[Pair]:
    """Edges that lead where another path leads too. Compensations are on no path: they run for themselves."""
    rank = {i: at for at, i in enumerate(graph.order)}
    pairs: list[Pair] = []
    for i in graph.order:
        before = [p for p in graph.explicit[i] if p in rank]
        if len(before) > 1:
            # Nothing can lie between the action and the last of those it waits for.
            last = max(before, key=rank.__getitem__)
            pairs += [(p, i) for p in before if p != last]
    return implied(graph.order, graph.explicit, pairs) if pairs else set()


def _referred(graph: Graph, i: int) -> set[int]:
    if i not in graph.references:
        return set()
    return {graph.index[reference.action_id] for reference in find_references(graph.actions[i].parameters)}
