"""The state of a run, folded from its events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from placet import Assistant, Runtime, tool
from placet.events.event import KINDS, Event
from placet.events.run_view import RunDelta, RunFold, RunView
from placet.events.schema import RECORDS, Unknown, typed
from placet.inference import Scripted, ToolCall
from placet.ir.codec import decode_proposal
from placet.testing import proposal

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(0, 9, allow_nan=False)
    | st.sampled_from("abc"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=4,
)


def values(info: inspect.Type) -> st.SearchStrategy[Any]:
    """JSON that fits a type."""
    match info:
        case inspect.StructType(fields=fields):
            return st.fixed_dictionaries(
                {each.encode_name: values(each.type) for each in fields if each.required},
                optional={each.encode_name: values(each.type) for each in fields if not each.required},
            )
        case inspect.UnionType(types=types):
            return st.one_of([values(each) for each in types])
        case inspect.VarTupleType(item_type=item):
            return st.lists(values(item), max_size=3)
        case inspect.DictType():
            return st.dictionaries(st.sampled_from("abcd"), JSON, max_size=3)
        case inspect.LiteralType(values=words):
            return st.sampled_from(words)
        case inspect.StrType():
            return st.sampled_from(
                ["a", "b", "succeeded", "waiting", "once", "deny", "aborted", "needs_approval"]
            )
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType():
            return st.integers(0, 3)
        case inspect.FloatType():
            return st.floats(0, 9, allow_nan=False)
        case inspect.NoneType():
            return st.none()
        case _:
            return JSON


FITTING = {kind: values(inspect.type_info(record)) for kind, record in RECORDS.items()}


@st.composite
def records(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A kind with data that fits it, nearly fits it, or is anything."""
    kind = draw(st.sampled_from([*sorted(RECORDS), "nobody_knows"]))
    if kind not in FITTING or draw(st.integers(0, 9)) == 0:
        return kind, draw(st.dictionaries(st.sampled_from(["turn", "error", "actions", "cost", "x"]), JSON))
    return kind, draw(FITTING[kind])


@st.composite
def logs(draw: st.DrawFn) -> list[Event]:
    """The events of a run, with few ids, so that they meet."""
    found = draw(st.lists(records(), min_size=1, max_size=12))
    ids = st.sampled_from(["p", "q", None]), st.sampled_from(["a", "b", None])
    return [
        Event(n, kind, float(n), "r", draw(ids[0]), draw(ids[1]), data=data)
        for n, (kind, data) in enumerate(found, start=1)
    ]


def plain(view: RunView) -> Any:
    return msgspec.json.decode(msgspec.json.encode(view))


def merged(view: dict[str, Any], delta: RunDelta) -> dict[str, Any]:
    """What the page does with a change."""
    view = dict(view)
    for name, value in msgspec.json.decode(msgspec.json.encode(delta)).items():
        if name in ("actions", "approvals"):
            view[name] = view[name] | value
        elif name in ("proposals", "asked", "turns", "checks", "notes"):
            items = dict(enumerate(view[name])) | {int(place): item for place, item in value.items()}
            view[name] = [items[place] for place in range(len(items))]
        else:
            view[name] = value
    return view


@given(logs(), st.lists(st.integers(1, 8), max_size=10))
def test_changes_in_any_batching_make_the_view_of_all_events(log: list[Event], sizes: Sequence[int]) -> None:
    whole = plain(RunFold.of("r", log).view)
    fold = RunFold("r")
    seen = plain(fold.view)

    rest = list(log)
    for size in [*sizes, len(log)]:
        batch, rest = rest[:size], rest[size:]
        for event in batch:
            fold.take(event)
        delta = fold.changes()
        seen = merged(seen, delta) if delta is not None else seen

    assert plain(fold.view) == whole
    assert seen == whole
    assert fold.changes() is None


@given(logs())
def test_event_that_comes_twice_changes_nothing(log: list[Event]) -> None:
    once, twice = RunFold.of("r", log), RunFold("r")
    for at, event in enumerate(log):
        twice.take(event)
        for again in log[: at + 1]:
            twice.take(again)

    assert plain(twice.view) == plain(once.view)


@given(logs())
def test_counts_are_those_of_the_actions(log: list[Event]) -> None:
    view = RunFold.of("r", log).view

    counted: dict[str, int] = {}
    for action in view.actions.values():
        counted[action.status] = counted.get(action.status, 0) + 1

    assert view.counts == counted


def test_every_kind_of_the_runtime_has_a_record() -> None:
    assert set(KINDS) <= set(RECORDS)


@pytest.mark.parametrize("data", [{"outcome": 5}, {}, {"outcome": "succeeded", "cost": "much"}])
def test_data_that_is_not_of_its_kind_is_unknown(data: dict[str, Any]) -> None:
    found = typed(Event(1, "proposal_ended", 0.0, data=data))

    assert found == Unknown(kind="proposal_ended", data=data)


async def test_plan_lights_up_as_it_runs() -> None:
    @tool(risk="read_only")
    def look(n: int) -> int:
        """Looks."""
        if n == 3:
            raise ValueError("no third")
        return n

    rt = Runtime(tools=[look])
    actions = [
        {
            "id": f"a{n}",
            "tool": "look",
            "parameters": {"n": n},
            "dependencies": [f"a{n - 1}"] if n > 1 else [],
        }
        for n in (1, 2, 3, 4)
    ]
    await rt.execute(proposal(*actions, id="p"), run_id="r")

    fold = RunFold("r")
    fold.plan(decode_proposal({"id": "p", "actions": actions}))
    stages = [dict(fold.view.counts)]
    for event in rt.events:
        fold.take(event)
        if event.kind in ("action_succeeded", "proposal_ended"):
            stages.append(dict(fold.view.counts))

    view = fold.view
    assert stages[0] == {"proposed": 4}
    assert stages[1]["succeeded"] == 1
    assert stages[1]["proposed"] == 3
    assert {key: each.status for key, each in view.actions.items()} == {
        "p/a1": "succeeded",
        "p/a2": "succeeded",
        "p/a3": "failed",
        "p/a4": "skipped",
    }
    assert view.actions["p/a2"].deps == ["p/a1"]
    assert view.actions["p/a3"].error is not None
    assert view.actions["p/a1"].rolled_back
    assert (view.kind, view.status, view.outcome) == ("plan", "ended", "aborted")
    assert view.cost.tool_calls == 3
    assert None not in (view.begun, view.ended, view.actions["p/a1"].begun, view.actions["p/a1"].duration_ms)


async def test_call_of_a_model_is_one_action_that_its_turn_names() -> None:
    def write(text: str) -> str:
        return text

    rt = Runtime()
    rt.register(tool(risk="read_only")(write))
    calls = [ToolCall(id="1", name="write", arguments={"text": "x"}), ToolCall(id="2", name="gone")]
    await Assistant(rt, Scripted([calls, "Done."])).run("Write.", run_id="r")

    view = RunFold.of("r", rt.events.query(run="r")).view

    [first, _] = view.turns
    made, refused = (view.actions[key] for key in first.actions if key is not None)
    assert (made.status, made.parameters, made.turn, made.tool) == ("succeeded", {"text": "x"}, 1, "write")
    assert made.text is not None
    assert (refused.status, refused.tool) == ("rejected", "gone")
    assert refused.error is not None
    assert view.counts == {"succeeded": 1, "rejected": 1}


def test_every_part_that_changes_after_it_was_told_is_told_again() -> None:
    """What came in one batch and is changed by the next: rare among random logs."""
    began = [
        Event(1, "proposal_received", 1.0, "r", "p", data={"source": "me", "action_count": 1}),
        Event(2, "check_started", 2.0, "r", data={"name": "tests", "attempt": 1}),
        Event(3, "approval_requested", 3.0, "r", "p", "a", data={"approval": "q", "tool": "t"}),
    ]
    ended = [
        Event(4, "check_completed", 4.0, "r", data={"name": "tests", "attempt": 1, "passed": True}),
        Event(
            5,
            "approval_recorded",
            5.0,
            "r",
            "p",
            "a",
            data={"approval": "q", "decision": "once", "by": "ann"},
        ),
        Event(6, "proposal_ended", 6.0, "r", "p", data={"outcome": "succeeded"}),
    ]
    fold = RunFold.of("r", began)
    seen = merged(plain(RunFold("r").view), fold.changes())

    for event in ended:
        fold.take(event)
    seen = merged(seen, fold.changes())

    assert seen == plain(RunFold.of("r", [*began, *ended]).view)
    assert [each["status"] for each in seen["checks"]] == ["passed"]
    assert seen["approvals"]["q"]["by"] == "ann"
    assert seen["actions"]["p/a"]["status"] == "validated"
    assert seen["proposals"][0]["outcome"] == "succeeded"
