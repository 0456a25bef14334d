"""Whatever a log or a plan holds, drawing it neither fails nor lets anything through."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from io import StringIO
from typing import Any
from xml.etree import ElementTree

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from rich.console import Console

from assent.events.event import KINDS, Event
from assent.ir.action import Action, ActionCompensation, ToolCompensation
from assent.ir.graph import Graph
from assent.ir.proposal import Proposal
from assent.ir.result import ActionResult, CompensationResult, ProposalResult
from assent.render.graph_svg import draw_graph
from assent.render.history import History
from assent.render.story import tell
from assent.render.tree import draw_tree

FORBIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
HOSTILE = st.sampled_from(
    ["<script>", "]]>", "\x1b[31m", "\u202e", "\x9b1m", "[red]", "\ud800", "\r\n", "$a.output", "", "x" * 500]
)
TEXT = st.one_of(HOSTILE, st.text(st.characters(), max_size=12))
IDS = st.one_of(st.sampled_from(["a", "b", "c", "d"]), TEXT)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [
        *("error", "tool", "attempt", "delay_ms", "duration_ms", "outcome", "source", "action_count", "actions"),
        *("changes", "keys", "restored", "cost", "irreversible", "waiting", "of", "cached", "order", "action"),
        *("left_behind", "caller_id", "errors", "reason"),
    ]
)
DATA = st.dictionaries(KEYS, JSON, max_size=6)
STEP_DATA = st.fixed_dictionaries(
    {},
    optional={
        "error": TEXT,
        "attempt": st.integers(-1, 5),
        "tool": TEXT,
        "duration_ms": st.floats(),
        "changes": st.dictionaries(TEXT, JSON, max_size=2),
        "outcome": st.sampled_from(["succeeded", "aborted", "refused", "odd\x1b"]),
        "actions": st.lists(st.fixed_dictionaries({"id": IDS, "tool": TEXT}), max_size=3),
        "irreversible": st.lists(IDS, max_size=2),
        "cost": st.dictionaries(st.sampled_from(["tool_calls", "retries"]), st.integers(0, 9)),
    },
)
EVENTS = st.lists(
    st.builds(
        Event,
        st.integers(0, 10),
        st.one_of(st.sampled_from(KINDS), TEXT),
        st.floats(allow_nan=True) | st.floats(0, 2e9),
        st.sampled_from([None, "r"]) | TEXT,
        st.sampled_from([None, "p", "q"]) | TEXT,
        st.none() | IDS,
        st.none() | TEXT,
        st.none() | TEXT,
        st.none() | TEXT,
        STEP_DATA | DATA,
    ),
    max_size=25,
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(EVENTS, TEXT)
def test_any_events_can_be_told_and_drawn(events: list[Event], log: str) -> None:
    story = "\n".join(line.plain for line in tell(events, log=log))
    history = History.of(events)
    part = history.last
    layers = [list(part.steps)] if part is not None else []
    console = Console(file=StringIO(), width=100, color_system=None, markup=False, highlight=False)
    console.print(draw_tree(history, layers, title=log, now=1e9))
    assert isinstance(console.file, StringIO)
    tree = console.file.getvalue()

    event(f"steps: {min(3, len(layers[0]) if layers else 0)}")
    assert story
    assert not FORBIDDEN.search(story), story
    assert not FORBIDDEN.search(tree), tree


COMPENSATIONS = st.one_of(
    st.none(),
    st.builds(ToolCompensation, tool=TEXT),
    st.builds(ActionCompensation, action_id=IDS),
)


@st.composite
def plans(draw: Any) -> Proposal:
    """Mostly sound plans with hostile names, some refused ones."""
    ids = draw(st.lists(IDS.filter(bool), max_size=8, unique=draw(st.booleans()) or draw(st.booleans())))
    actions = []
    for n, name in enumerate(ids):
        kind = draw(st.sampled_from(["tool_call", "state_write", "state_read", "assertion"]))
        before = draw(st.lists(st.sampled_from(ids[:n]), max_size=2)) if n else []
        actions.append(
            Action(
                id=name,
                type=kind,
                tool=draw(st.none() | TEXT),
                parameters=draw(st.fixed_dictionaries({"key": st.sampled_from(["k", "l"]) | TEXT})),
                dependencies=before if draw(st.booleans()) else draw(st.lists(IDS, max_size=1)),
                write_set=draw(st.lists(st.sampled_from(["k", "l"]), max_size=1)),
                compensation=draw(COMPENSATIONS),
            )
        )
    return Proposal(id=draw(TEXT), actions=actions)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans(), st.data(), TEXT)
def test_any_plan_with_any_result_can_be_drawn(plan: Proposal, data: st.DataObject, title: str) -> None:
    result = None
    if data.draw(st.booleans()):
        statuses = ["succeeded", "failed", "rejected", "skipped", "unknown", "executing"]
        result = ProposalResult(
            proposal_id="p",
            run_id="r",
            trace_id="t",
            outcome=data.draw(st.sampled_from(["succeeded", "aborted", "refused", "waiting"])),
            error=data.draw(st.none() | TEXT),
            results=[
                ActionResult(
                    action_id=action.id,
                    status=data.draw(st.sampled_from(statuses)),
                    error=data.draw(st.none() | TEXT | st.just("canceled: x")),
                    duration_ms=data.draw(st.none() | st.floats()),
                    rolled_back=data.draw(st.booleans()),
                    timestamp=datetime(2026, 1, 1, tzinfo=UTC),
                )
                for action in plan.actions
                if data.draw(st.booleans())
            ],
            irreversible=data.draw(st.lists(IDS, max_size=2)),
            compensations=[CompensationResult(action_id=data.draw(IDS), status="failed", error=data.draw(TEXT))],
        )

    drawing = draw_graph(plan, result, title=title)

    graph = Graph(plan.actions)
    event("refused" if graph.faults else f"layers: {min(3, len(graph.layers))}")
    ElementTree.fromstring(drawing)
    assert not FORBIDDEN.search(drawing)
    assert "<script" not in drawing
    assert drawing == draw_graph(plan, result, title=title)
