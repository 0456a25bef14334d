"""What would run, and is probably not meant.

Keep true:
1. Nothing here makes a plan invalid.
2. Linear: each action is looked at once, each key and each repeated call is warned of once.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from placet.ir.action import Action
from placet.ir.graph import Graph
from placet.ir.json_value import canonical_bytes
from placet.ir.tool_spec import STRICTNESS
from placet.validator import undo_of
from placet.verify.known_tools import ToolCard, ToolCards
from placet.verify.reachability import Pair, implied
from placet.verify.rehearsal import OPEN
from placet.verify.report import Issue, name_few, warning

MANY = 3
"""So many equal calls look like a mistake."""


def find_cautions(graph: Graph, cards: ToolCards, status: Mapping[int, str]) -> list[Issue]:
    """Claims the tool does not back, effects that cannot be undone in time, equal calls, write conflicts."""
    found: list[Issue] = []
    actions = graph.actions
    final: list[Action] = []
    repeats = False
    for i in graph.order:
        action = actions[i]
        kind = action.type
        runs = not status or status.get(i, OPEN) == OPEN
        if kind == "tool_call":
            card = cards[action.tool]
            given = canonical_bytes(action.parameters)
            card.calls[given] = times = card.calls.get(given, 0) + 1
            repeats = repeats or times >= MANY
            may_abort = action.failure_behavior == "abort"
            is_final = card.undo == "irreversible" or action.reversibility == "irreversible"
        else:
            card = None
            may_abort = action.failure_behavior == "abort" and (
                kind == "assertion" or not runs or bool(action.preconditions or action.assumptions)
            )
            is_final = action.reversibility == "irreversible"
        if may_abort and final:
            found += [_too_early(earlier, action) for earlier in final]
            final.clear()
        if is_final and runs:
            final.append(action)
        if action.compensation is not None or action.reversibility is not None or action.idempotent:
            found += _claims(action, card)
    if repeats:
        found += _repeated_calls(graph, cards)
    return found


def _too_early(action: Action, later: Action) -> Issue:
    return warning(action.id, f"'{later.id}' after it can still fail, and an abort would not undo it")


def _claims(action: Action, card: ToolCard | None) -> list[Issue]:
    """Where the plan says something else about an action than its tool does."""
    if card is not None and (card.tool is None or card.undo is None):
        return []
    tool = card.tool if card is not None else None
    declared = card.undo if card is not None and card.undo is not None else "reversible"
    found: list[str] = []
    if card is not None and action.idempotent and not card.deduplicates:
        found.append(
            f"it claims to be idempotent, which tool '{action.tool}' does not declare: it always runs"
        )
    claimed = action.reversibility
    if claimed is not None and STRICTNESS[claimed] < STRICTNESS[declared]:
        found.append(f"it claims to be {claimed}, but tool '{action.tool}' declares itself {declared}")
    undo = undo_of(action, tool)
    if action.compensation is not None and undo != "compensable":
        if card is None or undo != declared:
            why = f"it is {undo}"
        else:
            why = f"tool '{action.tool}' declares itself {declared}"
        found.append(f"its compensation will not run, because {why}")
    return [warning(action.id, message) for message in found]


def _repeated_calls(graph: Graph, cards: ToolCards) -> list[Issue]:
    groups: dict[tuple[str, bytes], list[str]] = {}
    for i in graph.order:
        action = graph.actions[i]
        if action.type == "tool_call" and action.tool:
            given = canonical_bytes(action.parameters)
            if cards[action.tool].calls[given] >= MANY:
                groups.setdefault((action.tool, given), []).append(action.id)
    return [
        warning(
            ids[0],
            f"tool '{tool}' is called {len(ids):,} times with the same parameters: {name_few(ids)}",
            "heuristic",
        )
        for (tool, _), ids in groups.items()
    ]


def find_write_conflicts(graph: Graph) -> list[Issue]:
    """Keys that several actions write without waiting for each other."""
    unordered, in_question = _unordered_writers(graph)
    open_pairs = [pair for key, pairs in in_question.items() if key not in unordered for pair in pairs]
    if open_pairs:
        ordered = implied(graph.order, graph.explicit, open_pairs)
        for key, pairs in in_question.items():
            if key not in unordered and not ordered.issuperset(pairs):
                unordered[key] = next(pair for pair in pairs if pair not in ordered)
    return [
        warning(
            graph.actions[b].id,
            f"state key '{key}' is written by '{graph.actions[a].id}' and '{graph.actions[b].id}', "
            "which do not wait for each other; they run in the listed order",
        )
        for key, (a, b) in unordered.items()
    ]


def _unordered_writers(graph: Graph) -> tuple[dict[str, Pair], dict[str, list[Pair]]]:
    """By key, two successive writers that surely do not wait for each other, and those that may."""
    unordered: dict[str, Pair] = {}
    in_question: dict[str, list[Pair]] = {}
    latest: dict[str, int] = {}
    direct: dict[int, Container[int]] = {}
    for first, then, key, kind in graph.conflicts:
        # One warning per key is enough; the graph's own keys are not anybody's to order.
        if key in unordered or key[:1] == "\0":
            continue
        if kind == "write_read":
            latest[key] = first
            continue
        a = first if kind == "write_write" else latest.get(key, then)
        latest[key] = then
        if a == then:
            continue
        before = graph.explicit[then]
        if not before:
            unordered[key] = (a, then)
            continue
        if then not in direct:
            direct[then] = before if len(before) < 8 else set(before)
        if a not in direct[then]:
            in_question.setdefault(key, []).append((a, then))
    return unordered, in_question
