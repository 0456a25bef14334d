"""Whatever a log or a plan holds, drawing it neither fails nor lets anything through."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from typing import Any
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from placet.events.event import KINDS, Event
from placet.ir.action import Action, ActionCompensation, ToolCompensation
from placet.ir.graph import Graph
from placet.ir.proposal import Proposal
from placet.ir.result import ActionResult, CompensationResult, ProposalResult, Waiting
from placet.render.graph_svg import draw_graph
from placet.render.history import History
from placet.render.story import tell, tell_history
from placet.render.timeline import draw_timeline
from placet.render.tree import draw_tree, draw_turns
from tests.properties.effort import examples

FORBIDDEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
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
        *(
            "error",
            "tool",
            "attempt",
            "delay_ms",
            "duration_ms",
            "outcome",
            "source",
            "action_count",
            "actions",
        ),
        *(
            "changes",
            "keys",
            "restored",
            "cost",
            "irreversible",
            "waiting",
            "of",
            "cached",
            "order",
            "action",
        ),
        *("left_behind", "caller_id", "errors", "reason"),
        *("approval", "reasons", "expires_at", "decision", "by", "decided_at", "tier", "trail", "mark"),
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
        "message": TEXT,
        "done": st.floats(),
        "total": st.floats() | JSON,
    },
)
ASKING_DATA = st.fixed_dictionaries(
    {"approval": st.sampled_from(["q1", "q2"]) | TEXT},
    optional={
        "reasons": st.lists(TEXT, max_size=12) | JSON,
        "expires_at": st.floats() | JSON,
        "decision": st.sampled_from(["once", "always", "deny", "withdrawn", "expired"]) | JSON,
        "by": TEXT | JSON,
        "reason": TEXT | JSON,
        "decided_at": st.floats() | JSON,
        "tier": st.sampled_from(["full_access"]) | JSON,
        "trail": st.lists(TEXT, max_size=30) | JSON,
        "mark": TEXT | JSON,
    },
)
WAITS = st.fixed_dictionaries(
    {"kind": st.sampled_from(["approval", "unknown_outcome"]) | TEXT, "action_id": IDS},
    optional={"reason": TEXT | JSON, "approval": st.sampled_from(["q1", "q2"]) | JSON},
)
TURN_DATA = st.fixed_dictionaries(
    {"turn": st.integers(-1, 4) | JSON},
    optional={
        "calls": st.lists(TEXT, max_size=30) | JSON,
        "text": TEXT | JSON,
        "task": TEXT | JSON,
        "source": TEXT | JSON,
        "model": TEXT | JSON,
        "tools": st.lists(TEXT, max_size=3) | JSON,
        "limits": st.dictionaries(st.sampled_from(["turns", "cost_usd"]), st.integers() | JSON) | JSON,
        "tool": TEXT | JSON,
        "error": TEXT | JSON,
        "status": st.sampled_from(["success", "waiting", "error", "stuck"]) | JSON,
        "summary": TEXT | JSON,
        "input_tokens": st.integers() | JSON,
        "output_tokens": st.integers() | JSON,
        "cached_tokens": st.integers() | JSON,
        "cost": st.floats() | JSON,
        "stop": st.sampled_from(["length", "refused"]) | JSON,
        "results": st.integers() | JSON,
        "turns": st.integers() | JSON,
    },
)
TURNS = st.builds(
    Event,
    st.integers(0, 10),
    st.sampled_from(
        [
            *("turn_loop_started", "turn_asked", "turn_answered", "turn_answered", "turn_failed"),
            *("turn_warned", "turn_compacted", "turn_call_refused", "turn_loop_ended", "turn_odd"),
        ]
    ),
    st.floats(allow_nan=True) | st.floats(0, 2e9),
    st.just("r"),
    st.just("r"),
    st.none() | st.sampled_from(["t1c1", "t1c2", "t2c1"]) | IDS,
    data=TURN_DATA,
)
COMMON = [
    *("proposal_received", "action_executing", "action_succeeded", "action_failed", "policy_violation"),
    *("compensation_started", "compensation_failed", "state_rollback", "proposal_ended"),
    *("permission_decision", "approval_requested", "approval_recorded", "run_resumed"),
    *("approval_requested", "approval_recorded", "action_progress"),
]
EVENTS = st.lists(
    st.builds(
        Event,
        st.integers(0, 10),
        st.one_of(st.sampled_from(KINDS), st.sampled_from(COMMON), TEXT),
        st.floats(allow_nan=True) | st.floats(0, 2e9),
        st.sampled_from([None, "r"]) | TEXT,
        st.one_of(st.just("p"), st.just("p"), st.just("p"), st.sampled_from([None, "q"]), TEXT),
        st.none() | IDS,
        st.none() | TEXT,
        st.none() | TEXT,
        st.none() | TEXT,
        STEP_DATA | DATA | ASKING_DATA,
    ),
    max_size=25,
)


ASKED = st.builds(
    Event,
    st.integers(0, 10),
    st.sampled_from(["approval_requested", "approval_recorded"]),
    st.floats(0, 2e9),
    st.just("r"),
    st.just("p"),
    IDS,
    data=ASKING_DATA,
)
ENDS = st.builds(
    Event,
    st.just(99),
    st.just("proposal_ended"),
    st.floats(0, 2e9),
    st.just("r"),
    st.just("p"),
    data=st.fixed_dictionaries(
        {
            "outcome": st.sampled_from(
                ["succeeded", "partial", "aborted", "refused", "canceled", "budget", "waiting"]
            )
        },
        optional={
            "error": TEXT,
            "irreversible": st.lists(IDS, max_size=3),
            "waiting": st.lists(WAITS, max_size=3) | JSON,
        },
    ),
)
SETTINGS = examples(300)


def test_any_events_can_be_told_and_drawn() -> None:
    seen: Counter[str] = Counter()

    @SETTINGS
    @given(
        EVENTS,
        st.lists(ASKED, max_size=2),
        st.lists(TURNS, max_size=8),
        st.none() | ENDS,
        TEXT,
        st.booleans(),
    )
    def draws(
        events: list[Event],
        asked: list[Event],
        turns: list[Event],
        end: Event | None,
        log: str,
        is_broken_off: bool,
    ) -> None:
        # Half in the middle of the others.
        events = [*turns[::2], *events, *asked, *turns[1::2], *([end] if end is not None else [])]
        story = "\n".join(line.plain for line in tell(events, log=log, db=log))
        lines = [line.plain for line in draw_timeline(events, with_runs=True)]
        history = History.of(events)
        if is_broken_off:
            history.break_off()
            story += "\n".join(line.plain for line in tell_history(history))
        part = history.last
        layers = [list(part.steps)] if part is not None else []
        console = Console(file=StringIO(), width=100, color_system=None, markup=False, highlight=False)
        console.print(draw_tree(history, layers, title=log, now=1e9))
        console.print(draw_turns(history, title=log))
        assert isinstance(console.file, StringIO)

        seen.update(
            {
                "all": 1,
                "with steps": bool(layers and layers[0]),
                "ended": any(p.outcome for p in history.parts.values()),
                "led": history.led is not None,
                "with turns": history.led is not None and bool(history.led.turns()),
                "asked": any(s.approvals for p in history.parts.values() for s in p.steps.values()),
            }
        )
        assert story
        assert not FORBIDDEN.search(story), story
        assert len(lines) >= len(events)
        assert not any(FORBIDDEN.search(line) or "\n" in line for line in lines), lines
        assert not FORBIDDEN.search(console.file.getvalue())

    draws()
    assert seen["with steps"] >= seen["all"] / 5
    assert seen["ended"] >= seen["all"] / 5
    assert seen["asked"] >= seen["all"] / 10
    assert seen["all"] / 10 <= seen["led"] <= seen["all"] * 9 / 10
    assert seen["with turns"] >= seen["all"] / 10


TOOLS_ONLY = st.none() | st.builds(ToolCompensation, tool=TEXT)
COMPENSATIONS = st.one_of(
    st.none(),
    st.builds(ToolCompensation, tool=TEXT),
    st.builds(ActionCompensation, action_id=IDS),
)


@st.composite
def plans(draw: Any) -> Proposal:
    """Mostly sound plans with hostile names, some refused ones."""
    sound = draw(st.integers(0, 3)) > 0
    ids = draw(st.lists(IDS.filter(bool), max_size=8, unique=sound))
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
                dependencies=before if sound else draw(st.lists(IDS, max_size=1)),
                write_set=draw(st.lists(st.sampled_from(["k", "l"]), max_size=1)),
                compensation=draw(COMPENSATIONS if not sound else TOOLS_ONLY),
            )
        )
    return Proposal(id=draw(TEXT), actions=actions)


def _results(plan: Proposal, draw: Callable[..., Any]) -> ProposalResult:
    statuses = ["succeeded", "failed", "rejected", "skipped", "unknown", "executing", "validated", "proposed"]
    return ProposalResult(
        proposal_id="p",
        run_id="r",
        trace_id="t",
        outcome=draw(st.sampled_from(["succeeded", "aborted", "refused", "waiting"])),
        error=draw(st.none() | TEXT),
        results=[
            ActionResult(
                action_id=action.id,
                status=draw(st.sampled_from(statuses)),
                error=draw(st.none() | TEXT | st.just("canceled: x")),
                duration_ms=draw(st.none() | st.floats()),
                rolled_back=draw(st.booleans()),
                timestamp=datetime(2026, 1, 1, tzinfo=UTC),
            )
            for action in plan.actions
            if draw(st.booleans())
        ],
        waiting=draw(
            st.lists(
                st.builds(
                    Waiting,
                    kind=st.sampled_from(["approval", "unknown_outcome"]),
                    action_id=IDS,
                    reason=TEXT,
                    approval=st.none() | TEXT,
                ),
                max_size=3,
            )
        ),
        irreversible=draw(st.lists(IDS, max_size=2)),
        compensations=[CompensationResult(action_id=draw(IDS), status="failed", error=draw(TEXT))],
    )


def test_any_plan_with_any_result_can_be_drawn() -> None:
    seen: Counter[str] = Counter()

    @SETTINGS
    @given(plans(), st.data(), TEXT)
    def draws(plan: Proposal, data: st.DataObject, title: str) -> None:
        result = _results(plan, data.draw) if data.draw(st.booleans()) else None

        drawing = draw_graph(plan, result, title=title)

        graph = Graph(plan.actions)
        if result is not None:
            history = History()
            history.plan(plan)
            history.settle(result)
            assert not FORBIDDEN.search("\n".join(line.plain for line in tell_history(history, log=title)))
        seen.update({"all": 1, "refused": bool(graph.faults), "layered": len(graph.layers) > 1})
        ElementTree.fromstring(drawing)
        assert not FORBIDDEN.search(drawing)
        assert "<script" not in drawing
        assert drawing == draw_graph(plan, result, title=title)

    draws()
    assert seen["refused"] >= seen["all"] / 10
    assert seen["layered"] >= seen["all"] / 10
