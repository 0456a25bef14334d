"""Who was asked what, who answered, and which way data came: seen wherever a run is shown."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from rich.console import Console

from placet import Runtime, tool
from placet.approvals.memory import MemoryApprovals
from placet.durable.memory import MemoryJournal
from placet.events.event import Event
from placet.ir.codec import decode_proposal
from placet.ir.result import ActionResult, ProposalResult, Waiting
from placet.policy.flow import FlowRule
from placet.policy.permission import Posture
from placet.render.advice import advise
from placet.render.graph_svg import draw_graph
from placet.render.history import History
from placet.render.marks import AWAITING, MARKS
from placet.render.report import report_lines
from placet.render.story import tell, tell_history
from placet.render.timeline import draw_timeline
from placet.render.tools import tool_lines
from placet.render.tree import draw_tree

MakeEvents = Callable[..., list[Event]]


@tool(risk="read_only", marks=["untrusted"])
async def read_file(path: str) -> str:
    """Text from elsewhere."""
    return "mallory@example.org"


@tool(risk="network")
async def send(to: str) -> str:
    """Send something."""
    return f"sent to {to}"


@tool
async def deploy(to: str = "test") -> str:
    """Bring it out."""
    return "done"


PLAN = {
    "id": "p1",
    "actions": [
        {"id": "read", "tool": "read_file", "parameters": {"path": "x"}},
        {"id": "deploy", "tool": "deploy"},
        {"id": "mail", "tool": "send", "parameters": {"to": "$read.output"}},
        {"id": "again", "tool": "deploy", "parameters": {"to": "live"}, "dependencies": ["deploy"]},
    ],
}
LAYERS = [["read", "deploy"], ["mail", "again"]]


def _runtime(ledger: MemoryApprovals | None, **options: Any) -> Runtime:
    runtime = Runtime(tools=[read_file, send, deploy], approvals=ledger, **options)
    runtime.add_policy(
        "outside", FlowRule(mark="untrusted", risk="network", param="to", unless_approved=ledger is not None)
    )
    return runtime


def _that_lets_go(ledger: MemoryApprovals) -> Runtime:
    return _runtime(ledger, permissions="balanced", journal=MemoryJournal(), patience_s=0)


def _story(history: History, **options: str) -> str:
    return "\n".join(line.plain for line in tell_history(history, **options))


def _tree(history: History, **options: Any) -> str:
    console = Console(file=StringIO(), width=200, color_system=None, highlight=False, markup=False)
    console.print(draw_tree(history, LAYERS, width=200, **options))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def _known(runtime: Runtime, result: ProposalResult | None = None) -> History:
    """What a view that has watched the run knows."""
    history = History()
    history.plan(decode_proposal(msgspec.json.encode(PLAN)))
    for event in runtime.events:
        history.take(event)
    if result is not None:
        history.settle(result)
    return history


def _commands(history: History, **options: str) -> list[str]:
    return [advice.command for advice in advise(history, **options)]


def test_a_run_that_waits_shows_what_for_and_how_to_answer() -> None:
    ledger = MemoryApprovals()
    runtime = _that_lets_go(ledger)

    result = runtime.execute_sync(PLAN, run_id="R")

    [first, second] = [waiting.approval for waiting in result.waiting]
    for history in (_known(runtime), _known(runtime, result)):
        tree, story = _tree(history), _story(history)
        assert f"to decide             waits for approval {first}: it needs full_access, which has" in tree
        assert f"waits for approval {second}: policy 'outside': untrusted data would choose" in tree
        assert "· again   deploy     waiting" in tree
        assert tree.count("waits for approval") == 2
        assert "? It waits for 2 approvals: 'deploy', 'mail'" in story
        assert f"… deploy (deploy) waits for approval {first}" in story
        assert "it needs full_access, which has to be asked for\n    … no answer so far" in story
        assert "1 action had not begun: 'again'" in story
        assert _commands(history, db="my runs.db") == [
            f"placet approvals show {first} --db 'my runs.db'",
            f"placet approvals approve {first} --db 'my runs.db'",
            f"placet approvals deny {first} --db 'my runs.db' --reason TEXT",
            f"placet approvals show {second} --db 'my runs.db'",
            f"placet approvals approve {second} --db 'my runs.db'",
            f"placet approvals deny {second} --db 'my runs.db' --reason TEXT",
            "placet resume R --db 'my runs.db'",
        ]


def test_what_was_answered_is_told_with_who_when_and_why() -> None:
    ledger = MemoryApprovals()
    runtime = _that_lets_go(ledger)
    result = runtime.execute_sync(PLAN, run_id="R")
    [first, second] = [waiting.approval or "" for waiting in result.waiting]
    still = runtime.resume_sync("R")
    ledger.decide(first, "once", by="ann", reason="tested")
    ledger.decide(second, "deny", by="bob", reason="who is mallory?")

    ended = runtime.resume_sync("R")

    history = _known(runtime, ended)
    story, tree = _story(history), _tree(history)
    assert still.outcome == "waiting"
    assert ended.outcome == "aborted"
    assert story.count("It let go to wait for a person, and was taken up again") == 2
    assert "of it waiting for people)" in story
    assert "✓ it was approved for this one time by 'ann' " in story
    assert " later: tested" in story
    assert f"⊘ mail (send) was rejected: approval '{second}' was denied by bob: who is mallory?" in story
    assert "⊘ it was denied by 'bob' " in story
    assert "to decide" not in tree
    advice = " ".join(advice.sentence for advice in advise(history))
    assert "'mail' was denied by 'bob' on " in advice
    assert "A policy denied" not in advice, "it was a person"


def test_what_was_approved_says_so_where_it_succeeded() -> None:
    ledger = MemoryApprovals()
    runtime = _that_lets_go(ledger)
    waiting = runtime.execute_sync({"id": "p1", "actions": [PLAN["actions"][1]]}, run_id="R").waiting
    ledger.decide(waiting[0].approval or "", "always", by="ann")
    runtime.resume_sync("R")

    later = runtime.execute_sync({"id": "p2", "actions": [PLAN["actions"][1]]}, run_id="later")

    history = History.of([event for event in runtime.events if event.run_id == "later"])
    history.settle(later)
    assert "✓ deploy  deploy  succeeded" in _tree(history)
    assert "→ \"done\", approved by 'ann'" in _tree(history)
    told = _story(history)
    assert f"✓ approval {waiting[0].approval} was approved for all such calls by 'ann' on 20" in told
    assert "was asked for" not in told, "another run asked"


async def test_a_run_that_waits_right_now_shows_it_until_the_answer_is_there() -> None:
    ledger = MemoryApprovals()
    runtime = _runtime(ledger, permissions="balanced")
    history, seen, asked_once = History(), [], asyncio.Event()
    history.plan(decode_proposal(msgspec.json.encode(PLAN)))

    class Watch:
        def write(self, events: list[Event]) -> None:
            for event in events:
                history.take(event)
                if event.kind in ("approval_requested", "approval_recorded"):
                    seen.append((event.kind, _tree(history, now=event.time + 90), _commands(history)))
                    asked_once.set()

    runtime.events.add_sink(Watch())
    run = asyncio.create_task(runtime.execute(PLAN, run_id="R"))
    await asked_once.wait()
    asked = ledger.pending()[0].id
    ledger.decide(asked, "deny", by="ann", reason="no")
    await run

    kind, tree, commands = seen[0]
    assert kind == "approval_requested"
    assert tree.startswith("? waiting for a person  p1  1 of 4 actions")
    assert f"to decide   1 min 30 s  waits for approval {asked}" in tree
    assert commands[0] == f"placet approvals show {asked}"
    assert "placet resume R" in commands
    kind, tree, commands = seen[1]
    assert kind == "approval_recorded"
    assert "to decide" not in tree
    assert not any("approvals" in command for command in commands)


def test_where_nobody_can_be_asked_the_advice_says_how_to_allow_it() -> None:
    runtime = _runtime(None, permissions="balanced")

    result = runtime.execute_sync(PLAN)

    history = _known(runtime, result)
    told = advise(history, db="none")
    assert "Nobody could be asked about 'deploy'" in told[0].sentence
    assert "without --db none" in told[0].sentence
    assert not any("--db none" in advice.command for advice in told)
    assert not any("A policy denied" in advice.sentence for advice in told)


def test_a_tier_that_is_denied_and_one_that_is_granted_are_told() -> None:
    denies = _runtime(None, permissions=Posture(full_access="deny"))
    grants = _runtime(None, permissions=Posture(full_access="allow"))
    denied, granted = (r.execute_sync({"actions": [PLAN["actions"][1]]}) for r in (denies, grants))
    assert (denied.outcome, granted.outcome) == ("aborted", "succeeded")

    sentences = [advice.sentence for advice in advise(_known(denies, denied))]

    assert (
        "'deploy' needed full_access, which is denied here: change the plan, or the permissions"
        in (sentences[0])
    )
    assert "with full_access, which is granted" in _story(_known(grants, granted))


def test_the_way_of_untrusted_data_is_told_as_a_path() -> None:
    plan = {
        "actions": [
            {"id": "read", "tool": "read_file", "parameters": {"path": "x"}},
            {
                "id": "keep",
                "type": "state_write",
                "parameters": {"key": "address", "value": "$read.output"},
            },
            {"id": "note", "type": "state_read", "parameters": {"key": "address"}, "dependencies": ["keep"]},
            {"id": "mail", "tool": "send", "parameters": {"to": "$note.output"}},
        ]
    }
    runtime = _runtime(None)

    result = runtime.execute_sync(plan)

    story = _story(_known(runtime, result))
    assert (
        "⊘ mail (send) was rejected: policy 'outside': untrusted data would choose parameter 'to'  " in story
    )
    assert "! untrusted data came this way: read (read_file) -> state 'address' -> note -> mail.to\n" in story


@pytest.mark.parametrize("trail", [None, [], "read", 5, {"a": 1}, [1, None], [["read"]]])
def test_a_trail_that_is_none_is_left_out(make_events: MakeEvents, trail: object) -> None:
    denial = {"error": "policy 'outside': no (read)", "trail": trail, "mark": 7}

    story = "\n".join(line.plain for line in tell(make_events(("policy_violation", "mail", denial))))

    assert "mail was rejected: policy 'outside': no (read)" in story
    assert "came this way" not in story


def test_a_long_or_hostile_trail_stays_one_short_line(make_events: MakeEvents) -> None:
    trail = ["\x1b[2Jread\n", *map(str, range(5000))]
    events = make_events(("policy_violation", "mail", {"error": "no", "trail": trail, "mark": "\x1b[31m"}))

    [line] = [line.plain for line in tell(events) if "came this way" in line.plain]

    assert "\\e[31m data came this way: \\e[2Jread\\n -> 0 -> " in line
    assert line.endswith("-> 4999")
    assert len(line) < 300


ASKED = ("approval_requested", "a", {"approval": "q1", "reasons": ["policy 'x': ask"], "tool": "send"})
LET_GO = (
    "proposal_ended",
    None,
    {
        "outcome": "waiting",
        "waiting": [{"kind": "approval", "action_id": "a", "reason": "policy 'x'", "approval": "q1"}],
    },
)


def test_a_question_whose_event_is_lost_is_known_from_how_the_run_ended(make_events: MakeEvents) -> None:
    history = History.of(make_events(LET_GO))

    assert history.last is not None
    assert history.last.steps["a"].look == AWAITING
    assert _commands(history)[0] == "placet approvals show q1"
    assert "approval q1 was asked for: policy 'x'" in _story(history)


def test_what_no_answer_is_known_of_is_not_told_as_answered(make_events: MakeEvents) -> None:
    history = History.of(
        make_events(
            ASKED,
            ("action_skipped", "a", {"error": "the plan was aborted"}),
            ("proposal_ended", None, {"outcome": "aborted"}),
        )
    )

    assert "– no answer to it is in the log" in _story(history)
    assert not any("approvals" in command for command in _commands(history))


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        ("expired", "it was not answered in time"),
        ("withdrawn", "it was withdrawn"),
        ("maybe\x1b", "it was answered 'maybe\\x1b'"),
        (None, "it was answered ''"),
        (["once"], "it was answered ''"),
    ],
)
def test_other_answers_than_yes_and_no_have_words(
    make_events: MakeEvents, decision: object, words: str
) -> None:
    error = {"error": "approval 'q1' was not given in time"}
    events = make_events(
        ASKED,
        ("approval_recorded", "a", {"approval": "q1", "decision": decision, "by": 5, "decided_at": "soon"}),
        ("policy_violation", "a", error),
    )

    story = "\n".join(line.plain for line in tell(events))

    assert words.replace("\\x1b", "\\e") in story
    assert f"'a' was {words[7:]}".replace("\\x1b", "\\e") in story


def test_a_question_that_took_the_place_of_another_is_the_one_to_answer(make_events: MakeEvents) -> None:
    second = ("approval_requested", "a", {"approval": "q2", "reasons": []})

    history = History.of(make_events(ASKED, second, ASKED, second))

    assert _commands(history)[0] == "placet approvals show q2"
    assert "no answer to it is in the log" in _story(history)


ANSWERED = (
    "approval_recorded",
    "a",
    {"approval": "q1", "decision": "once", "by": "ann", "decided_at": 1060.0, "reason": "tested"},
)


@pytest.mark.parametrize("proposal", ["p1", None])
def test_what_is_answered_before_the_run_goes_on_is_not_to_be_decided_again(
    make_events: MakeEvents, proposal: str | None
) -> None:
    """Also where whoever answered did not know which plan had asked."""
    events = make_events(("proposal_received", None, {}), ASKED, LET_GO)
    answer = msgspec.structs.replace(make_events(ANSWERED)[0], seq=9, time=1060.0, proposal_id=proposal)
    result = ProposalResult(
        proposal_id="p1",
        run_id="run1",
        trace_id="t",
        outcome="waiting",
        results=[
            ActionResult(
                action_id="a",
                status="validated",
                timestamp=datetime(2026, 1, 1, tzinfo=UTC),
                error="waits for approval 'q1'",
            )
        ],
        waiting=[Waiting(kind="approval", action_id="a", reason="policy 'x'", approval="q1")],
    )
    from_log, settled = (History.of([*events, answer]) for _ in range(2))
    settled.settle(result)

    for history in (from_log, settled):
        told, story = advise(history, db="my.db"), _story(history)
        assert [advice.command for advice in told] == ["", "placet resume run1 --db my.db"]
        assert told[0].sentence.startswith(
            "'a' was approved for this one time by 'ann' on 1970-01-01 00:17:40"
        )
        assert told[0].sentence.endswith(": tested.")
        assert list(history.parts) == ["p1"]
        assert "Nothing is left to decide: it goes on when it is resumed." in story
        assert "✓ it was approved for this one time by 'ann' " in story
        assert "waits for" not in story
        assert history.last is not None
        assert history.last.steps["a"].error is None
        assert "of it waiting for people" not in story, "since it let go nobody was at work"


def test_while_one_of_two_is_open_only_that_is_to_be_decided(make_events: MakeEvents) -> None:
    second = ("approval_requested", "b", {"approval": "q2", "reasons": ["policy 'x': ask"]})
    waiting = [
        {"kind": "approval", "action_id": name, "approval": f"q{n}"} for n, name in enumerate("ab", start=1)
    ]
    let_go = ("proposal_ended", None, {"outcome": "waiting", "waiting": waiting})

    one, both = (
        History.of(make_events(ASKED, second, let_go, ANSWERED, *more))
        for more in ([], [("approval_recorded", "b", {"approval": "q2", "decision": "deny", "by": "bob"})])
    )

    assert _commands(one) == [
        "placet approvals show q2",
        "placet approvals approve q2",
        "placet approvals deny q2 --reason TEXT",
        "placet resume run1",
    ]
    assert [command for command in _commands(both) if command] == ["placet resume run1"]
    assert any(advice.sentence == "'b' was denied by 'bob'." for advice in advise(both))


@pytest.mark.parametrize("end", [LET_GO, ("proposal_ended", None, {"outcome": "canceled"}), None])
def test_what_can_no_longer_be_decided_is_not_to_be_approved(
    make_events: MakeEvents, end: tuple[str, str | None, dict[str, Any]] | None
) -> None:
    asked = (*ASKED[:2], {**ASKED[2], "expires_at": 4600.0})
    history = History.of(make_events(asked, *([end] if end else [])))

    def told(now: float) -> str:
        return "\n".join(line.plain for line in tell_history(history, now=now))

    early, late = told(4599.0), told(4600.0)
    assert "placet approvals approve q1" in early
    assert "placet approvals" not in late
    assert "placet resume run1" in late
    assert "a (send) was not approved in time (q1)" in late
    assert "since 1970-01-01 01:16:40 UTC none can be given" in late
    if end is LET_GO:
        assert (
            "'a' was not decided in time, which was until 1970-01-01 01:16:40 UTC: it will be rejected"
            in late
        )
        assert "Nothing is left to decide" in late


def test_many_answers_are_counted(make_events: MakeEvents) -> None:
    waiting = [{"kind": "approval", "action_id": f"a{n}", "approval": f"q{n}"} for n in range(30)]
    let_go = ("proposal_ended", None, {"outcome": "waiting", "waiting": waiting})
    answers = [("approval_recorded", f"a{n}", {"approval": f"q{n}", "decision": "once"}) for n in range(30)]

    told = advise(History.of(make_events(let_go, *answers)))

    assert len(told) == 22
    assert told[-2].sentence == "10 more have been decided, or can no longer be."
    assert told[-1].command == "placet resume run1"


def test_what_else_is_waited_for_is_still_to_be_said(make_events: MakeEvents) -> None:
    waiting = [
        {"kind": "approval", "action_id": "a", "approval": "q1"},
        {"kind": "unknown_outcome", "action_id": "b"},
    ]
    let_go = ("proposal_ended", None, {"outcome": "waiting", "waiting": waiting})

    history = History.of(make_events(ASKED, let_go, ANSWERED))

    told = advise(history)
    assert "placet resume run1 --decide b=CHOICE" in [advice.command for advice in told]
    assert told[-1].sentence == "The run goes on when everything above is decided."
    assert "Nothing is left to decide" not in _story(history)


def test_a_canceled_run_still_needs_its_answers_and_waits_again_when_it_goes_on(
    make_events: MakeEvents,
) -> None:
    events = make_events(
        ASKED,
        ("action_canceled", "a", {"error": "canceled: stopped"}),
        ("proposal_ended", None, {"outcome": "canceled"}),
        ("run_resumed", None, {"completed": 0}),
        LET_GO,
    )

    canceled, again = History.of(events[:3]), History.of(events)

    assert canceled.last is not None
    assert again.last is not None
    assert canceled.last.steps["a"].look == "canceled"
    assert _commands(canceled)[:1] == ["placet approvals show q1"]
    assert _commands(canceled)[-1] == "placet resume run1"
    assert again.last.steps["a"].look == AWAITING


def test_story_of_an_outcome_that_was_decided_names_who_decided(make_events: MakeEvents) -> None:
    """Settled as done, it did not run, so it took no time; run again, it is told as it ran."""
    succeeded = ("action_succeeded", "a", {"tool": "pay", "duration_ms": 0.1})
    begun = (("action_executing", "a", {"tool": "pay"}), ("action_unknown", "a", {"tool": "pay"}))

    def resumed(**data: Any) -> tuple[str, None, dict[str, Any]]:
        return ("run_resumed", None, {"decided": {"a": "done"}, **data})

    by_ann = _story(History.of(make_events(*begun, resumed(decided_by={"a": "ann"}), succeeded)))
    by_somebody = _story(History.of(make_events(*begun, resumed(), succeeded)))
    again = History.of(make_events(*begun, resumed(decided={"a": "retry"}), begun[0], succeeded))

    assert "'ann' decided that it was done" in by_ann
    assert "a person decided that it was done" in by_somebody
    assert "succeeded in" not in by_ann + by_somebody
    assert "succeeded in" in _story(again)


def test_many_questions_are_counted(make_events: MakeEvents) -> None:
    asked = [("approval_requested", f"a{n}", {"approval": f"q{n}", "reasons": ["r"]}) for n in range(30)]
    waiting = [{"kind": "approval", "action_id": f"a{n}", "approval": f"q{n}"} for n in range(30)]

    told = advise(
        History.of(make_events(*asked, ("proposal_ended", None, {"outcome": "waiting", "waiting": waiting})))
    )

    assert sum("approvals show" in advice.command for advice in told) == 20
    assert told[-2].sentence == "10 more questions wait for an answer:"
    assert told[-2].command == "placet approvals list --run run1"
    assert told[-1].command == "placet resume run1"


def test_a_timeline_tells_waiting_from_working(make_events: MakeEvents) -> None:
    events = make_events(
        ("permission_decision", "a", {"tier": "full_access", "decision": "ask", "tool": "send"}),
        ("approval_requested", "a", {**ASKED[2], "expires_at": 4600.0}),
        LET_GO,
        ("run_resumed", None, {"completed": 0}),
        (
            "approval_recorded",
            "a",
            {"approval": "q1", "decision": "deny", "by": "ann", "reason": "no", "decided_at": 1060.2},
        ),
    )
    late = [msgspec.structs.replace(e, time=e.time + 3600 * (e.seq > 3)) for e in events]

    _, decision, asked, _, resumed, answered = [line.plain for line in draw_timeline(late)]

    assert "send; needs full_access, which has to be asked for" in decision
    assert " … approval requested" in asked
    assert "waits for approval q1; policy 'x': ask; until 1970-01-01 01:16:40 UTC" in asked
    assert "after 1 h 0 min of waiting for a person" in resumed
    assert " ⊘ approval recorded" in answered
    assert answered.endswith("approval q1 was denied by 'ann' 1 min 0 s later: no")


def test_a_box_that_waits_for_a_person_looks_like_it() -> None:
    ledger = MemoryApprovals()
    result = _that_lets_go(ledger).execute_sync(PLAN, run_id="R")

    drawing = draw_graph(decode_proposal(msgspec.json.encode(PLAN)), result)

    texts = [element.text or "" for element in ElementTree.fromstring(drawing).iter()]
    assert texts.count("… to decide") == 3, "two boxes and the legend"
    assert texts.count("· waiting") == 2
    assert any(text.startswith(f"… mail waits for approval {result.waiting[1].approval}: ") for text in texts)
    assert drawing.count(f'stroke="{MARKS[AWAITING].ink}"') >= 2


def test_a_report_says_what_a_person_will_be_asked() -> None:
    lines = [line.plain for line in report_lines(_that_lets_go(MemoryApprovals()).verify(PLAN))]

    assert "3 actions need an approval" in lines[0]
    assert any(
        line.startswith("  … asks    deploy: it needs an approval: permission: tool") for line in lines
    )


def test_a_tool_says_that_what_it_answers_is_untrusted() -> None:
    two = defaultdict[str, str](str), defaultdict[str, str](str)
    told = "\n".join(line.plain for line in tool_lines([read_file.schema, send.schema], *two))

    assert told.count("what it answers is untrusted") == 1
