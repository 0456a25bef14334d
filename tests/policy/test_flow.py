"""Where data comes from: marks follow it everywhere, and a rule stops it where it would choose or leave.

Whatever execute says here, verify has said before; what depends on a tool's answer it has left undecided.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from placet import (
    Cancel,
    Decision,
    ReplanConfig,
    Runtime,
    Scope,
    SqlJournal,
    ToolContext,
    ToolError,
    open_database,
    tool,
)
from placet.ir.codec import encode
from placet.policy.flow import FlowRule, MarkOutput
from placet.tools import Tool
from tests.policy.test_trace_rules import Gate, killed, resumed
from tests.runtime.conftest import schedule
from tests.runtime.plans import Fields, Recorder, call, claim, kinds, plan, read, statuses, undone_by, write

__all__ = ["schedule"]

EVIL = "evil-address-from-a-file@example.org"
PERSON = "ann@example.org"
FILE = {"name": EVIL, "items": [{"name": EVIL}], "list": [EVIL]}

UNTRUSTED = FlowRule(mark="untrusted", tool="send", param="to")
SECRET = FlowRule(mark="secret", tool="send")


def tools(recorder: Recorder) -> list[Tool]:
    return [
        recorder.tool("fetch", EVIL, risk="read_only", marks=["untrusted"], labels=["web"]),
        recorder.tool("parse", FILE, risk="read_only", marks=["untrusted"]),
        recorder.tool("vault", "the key itself", risk="read_only", marks=["secret"]),
        recorder.tool("clean", "clean", risk="read_only", labels=["desk"]),
        recorder.tool("echo", lambda p: p, risk="read_only"),
        recorder.tool("send", "sent", risk="network"),
        recorder.tool("boom", raises=ToolError("broken", retry=False), risk="read_only"),
        recorder.tool("book", lambda p: p, reversibility="compensable"),
    ]


def runtime(recorder: Recorder, *rules: Any, **options: Any) -> Runtime:
    named = [(f"r{i}" if i else "r", rule) for i, rule in enumerate(rules or (UNTRUSTED,))]
    return Runtime(tools=tools(recorder), policies=named, **options)


def send(to: Any, id: str = "s", **more: Any) -> Fields:
    return call(id, "send", {"to": to}, **more)


FETCH = call("f", "fetch")


class Verdict(NamedTuple):
    status: str
    error: str | None
    sent: list[Any]
    """What the tool that sends was called with."""


async def judged(rt: Runtime, recorder: Recorder, proposal: Fields, id: str = "s", **options: Any) -> Verdict:
    """What becomes of one action. Verify must have said the same, and nothing says the value."""
    proposal = {
        **proposal,
        "actions": [{"failure_behavior": "skip", **action} for action in proposal["actions"]],
    }
    before = len(recorder.calls)
    report = rt.verify(proposal, **options)
    assert len(recorder.calls) == before
    result = await rt.execute(proposal, **options)

    ended = result[id]
    about = [i.message for i in report.errors if i.action_id == id]
    if any(a.get("tool") == "parse" for a in proposal["actions"]):
        # Whether what a tool answers has such a part is not known before: verify may leave that open.
        assert ended.error is None or about == [ended.error] or report.undecided
    else:
        assert report.undecided == []
        assert about == ([ended.error] if ended.error is not None else [])
    words = encode(report.issues).decode() + str(ended.error)
    assert EVIL not in words
    assert "the key itself" not in words
    return Verdict(
        ended.status, ended.error, [p["to"] for name, p in recorder.calls[before:] if name == "send"]
    )


def stopped(trail: str, where: str = "parameter 'to'") -> Verdict:
    words = f"untrusted data would choose {where}"
    return Verdict("rejected", f"policy 'r': {words} ({trail})", [])


def ran(*sent: Any) -> Verdict:
    return Verdict("succeeded", None, list(sent))


# The plan that must not run, and the one that may


async def test_an_address_from_a_file_is_stopped_and_one_from_the_person_is_not(
    recorder: Recorder, schedule: Any
) -> None:
    rule = FlowRule(mark="untrusted", risk=["network", "destructive"], param="to")
    rt = runtime(recorder, rule, schedule=schedule)

    from_file = await judged(rt, recorder, plan(FETCH, send("$f.output")))
    from_person = await judged(rt, recorder, plan(FETCH, send(PERSON)))

    assert from_file == stopped("f (fetch)")
    assert from_person == ran(PERSON)


async def test_with_abort_the_plan_is_taken_back(recorder: Recorder, schedule: Any) -> None:
    rt = runtime(recorder, schedule=schedule)
    proposal = plan(FETCH, write("w", "k", "$f.output"), send("$f.output", dependencies=["w"]))

    result = await rt.execute(proposal)

    assert result.outcome == "aborted"
    assert "send" not in recorder.names
    assert rt.state.snapshot() == {}
    assert not rt.verify(proposal).valid


async def test_what_stands_in_another_parameter_may_be_anything(recorder: Recorder) -> None:
    rt = runtime(recorder)
    action = call("s", "send", {"to": PERSON, "text": "$f.output", "more": ["$f.output"]})

    assert await judged(rt, recorder, plan(FETCH, action)) == ran(PERSON)


# Ways in


PARSE = call("f", "parse")
SHAPES: dict[str, tuple[Fields, Any]] = {
    "alone": (FETCH, "$f.output"),
    "in a text": (FETCH, "mailto:$f.output?x=1"),
    "twice in a text": (FETCH, "$f.output,$f.output"),
    "in a list": (FETCH, [PERSON, "$f.output"]),
    "in an object": (FETCH, {"name": "Ann", "address": "$f.output"}),
    "deep": (FETCH, [{"a": [{"b": ["x", {"c": "to $f.output!"}]}]}]),
    "a part": (PARSE, "$f.output.name"),
    "a part of a part": (PARSE, "$f.output.items[0].name"),
    "an item": (PARSE, "$f.output.list[0]"),
    "a list of a part": (PARSE, "$f.output.list"),
    "beside an escaped one": (FETCH, "$$f.output is $f.output"),
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_mark_follows_a_reference(recorder: Recorder, schedule: Any, shape: str) -> None:
    source, value = SHAPES[shape]
    rt = runtime(recorder, schedule=schedule)

    assert await judged(rt, recorder, plan(source, send(value))) == stopped(f"f ({source['tool']})")


@pytest.mark.parametrize(
    ("value", "sent", "more"),
    [
        ("$$f.output", "$f.output", {}),
        (["a $$f.output"], ["a $f.output"], {}),
        ("$f.output", "$f.output", {"references": False}),
        ("$f.outputs", "$f.outputs", {}),
        ("f.output", "f.output", {}),
    ],
)
async def test_what_only_looks_like_a_reference_carries_nothing(
    recorder: Recorder, value: Any, sent: Any, more: Fields
) -> None:
    rt = runtime(recorder)

    assert await judged(rt, recorder, plan(FETCH, send(value, **more, dependencies=["f"]))) == ran(sent)


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_mark_follows_through_a_tool(recorder: Recorder, shape: str) -> None:
    """What a tool makes of it is marked, whatever the tool answers."""
    source, value = SHAPES[shape]
    rt = runtime(recorder)
    proposal = plan(source, call("c", "clean", {"x": value}), send("$c.output"))

    assert await judged(rt, recorder, proposal) == stopped(f"f ({source['tool']}) -> c (clean)")


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_mark_follows_through_the_state(recorder: Recorder, schedule: Any, shape: str) -> None:
    source, value = SHAPES[shape]
    rt = runtime(recorder, schedule=schedule)
    proposal = plan(source, write("w", "k", value), read("q", "k", dependencies=["w"]), send("$q.output"))

    assert await judged(rt, recorder, proposal) == stopped(f"f ({source['tool']}) -> state 'k' -> q")


async def test_a_mark_follows_through_what_an_assertion_answers(recorder: Recorder) -> None:
    rt = runtime(recorder)
    actions = [FETCH, write("w", "k", "$f.output"), claim("q", "k", "$f.output", dependencies=["w"])]

    result = await rt.execute(plan(*actions, send("$q.output.value", failure_behavior="skip")))
    result_of_key = await rt.execute(plan(claim("q", "k", EVIL), send("$q.output", failure_behavior="skip")))

    assert result["s"].error == "policy 'r': untrusted data would choose parameter 'to' (f (fetch) -> q)"
    trail = "f (fetch) -> state 'k' -> q"
    assert result_of_key["s"].error == f"policy 'r': untrusted data would choose parameter 'to' ({trail})"
    assert "send" not in recorder.names


async def test_the_answer_of_a_write_names_the_key_and_nothing_else(recorder: Recorder) -> None:
    rt = runtime(recorder)

    plain = await judged(rt, recorder, plan(FETCH, write("w", "k", "$f.output"), send("$w.output")))
    key = await rt.execute(
        plan(FETCH, write("w", "$f.output", 1), send("$w.output", failure_behavior="skip"))
    )

    assert plain == ran("written: k")
    assert key["s"].error == "policy 'r': untrusted data would choose parameter 'to' (f (fetch) -> w)"


async def test_the_answer_of_a_write_under_a_name_that_a_tool_chose_holds_no_value(
    recorder: Recorder,
) -> None:
    rt = runtime(recorder)
    rt.tools.add(recorder.tool("where", "k", risk="read_only"))
    proposal = plan(FETCH, call("n", "where"), write("w", "$n.output", "$f.output"), send("$w.output"))

    report = rt.verify(proposal)
    result = await rt.execute(proposal)

    assert result.succeeded
    assert report.errors == []


async def test_a_key_that_untrusted_data_chose_leads_to_what_is_there(recorder: Recorder) -> None:
    """Verify cannot know which key is read, and says so; the run does."""
    rt = runtime(recorder, FlowRule(mark="secret", tool="send", param="to"), state={"open": "x"})
    await rt.execute(plan(call("v", "vault"), write("w", "locked", "$v.output")))
    where = recorder.tool("where", "locked", risk="read_only")
    rt.tools.add(where)
    proposal = plan(call("k", "where"), read("q", "$k.output"), send("$q.output", failure_behavior="skip"))

    report = rt.verify(proposal)
    result = await rt.execute(proposal)

    assert statuses(result)["s"] == "rejected"
    assert not report.valid or report.undecided, "what was not foreseen must at least be left open"


async def test_a_key_written_under_a_name_that_a_tool_chose_is_marked(recorder: Recorder) -> None:
    rt = runtime(recorder)
    rt.tools.add(recorder.tool("where", "k", risk="read_only"))
    proposal = plan(
        FETCH,
        call("n", "where"),
        write("w", "$n.output", "$f.output"),
        read("q", "k", dependencies=["w"]),
        send("$q.output", failure_behavior="skip"),
    )

    report = rt.verify(proposal)
    result = await rt.execute(proposal)

    assert statuses(result)["s"] == "rejected"
    assert [i.action_id for i in report.undecided if "untrusted" in i.message] == ["s"]


# State, later


async def test_the_mark_is_still_there_for_another_proposal(recorder: Recorder, schedule: Any) -> None:
    rt = runtime(recorder, schedule=schedule)
    await rt.execute(plan(FETCH, write("w", "k", {"deep": ["$f.output"]})))

    found = await judged(rt, recorder, plan(read("q", "k"), send("$q.output.deep[0]")))

    assert found == stopped("f (fetch) -> state 'k' -> q")


@pytest.mark.parametrize("key", ["k", "", "a.b", "$k", "'", "k" * 5_000])
async def test_a_key_may_be_called_anything(recorder: Recorder, key: str) -> None:
    rt = runtime(recorder)
    await rt.execute(plan(FETCH, write("w", key, "$f.output")))

    found = await judged(rt, recorder, plan(read("q", key), send("$q.output")))

    assert found.status == "rejected"
    assert found.sent == []


async def test_a_runtime_that_shares_the_state_sees_the_marks(recorder: Recorder) -> None:
    first = runtime(recorder)
    await first.execute(plan(FETCH, write("w", "k", "$f.output")))
    second = runtime(recorder, state=first.state)

    found = await judged(second, recorder, plan(read("q", "k"), send("$q.output")))

    assert found == stopped("f (fetch) -> state 'k' -> q")


async def test_a_tenant_does_not_see_the_marks_of_another(recorder: Recorder) -> None:
    rt = runtime(recorder)
    mine, theirs = Scope(tenant="mine"), Scope(tenant="theirs")
    await rt.execute(plan(FETCH, write("w", "k", "$f.output")), scope=mine)
    for scope in (theirs, None):
        await rt.execute(plan(write("w", "k", PERSON)), scope=scope)
    proposal = plan(read("q", "k"), send("$q.output"))

    found = [await judged(rt, recorder, proposal, scope=scope) for scope in (mine, theirs, None)]

    assert found == [stopped("f (fetch) -> state 'k' -> q"), ran(PERSON), ran(PERSON)]


async def test_an_unmarked_write_clears_the_key(recorder: Recorder, schedule: Any) -> None:
    rt = runtime(recorder, schedule=schedule)
    await rt.execute(plan(FETCH, write("w", "k", "$f.output")))

    found = await judged(
        rt, recorder, plan(write("w", "k", PERSON), read("q", "k", dependencies=["w"]), send("$q.output"))
    )
    later = await judged(rt, recorder, plan(read("q", "k"), send("$q.output")))

    assert [found, later] == [ran(PERSON), ran(PERSON)]


async def test_an_expected_effect_is_the_plans_own_word(recorder: Recorder) -> None:
    rt = runtime(recorder)
    await rt.execute(plan(FETCH, write("w", "k", "$f.output")))

    found = await judged(
        rt,
        recorder,
        plan(
            call("f", "fetch", expected_effects={"k": PERSON}),
            read("q", "k", dependencies=["f"]),
            send("$q.output"),
        ),
    )

    assert found == ran(PERSON)


async def test_what_an_abort_takes_back_takes_its_mark_along(recorder: Recorder, schedule: Any) -> None:
    rt = runtime(recorder, schedule=schedule, state={"k": PERSON})
    fails = plan(FETCH, write("w", "k", "$f.output"), call("b", "boom", dependencies=["w"]))
    proposal = plan(read("q", "k"), send("$q.output"))

    assert (await rt.execute(fails)).outcome == "aborted"

    assert await judged(rt, recorder, proposal) == ran(PERSON)


async def test_what_an_abort_brings_back_brings_its_mark_along(recorder: Recorder, schedule: Any) -> None:
    rt = runtime(recorder, schedule=schedule)
    await rt.execute(plan(FETCH, write("w", "k", "$f.output")))

    aborted = await rt.execute(plan(write("w", "k", PERSON), call("b", "boom", dependencies=["w"])))
    found = await judged(rt, recorder, plan(read("q", "k"), send("$q.output")))

    assert aborted.outcome == "aborted"
    assert rt.state.get("k") == EVIL
    assert found == stopped("f (fetch) -> state 'k' -> q")


async def test_a_replan_finds_the_marks_that_stayed(recorder: Recorder) -> None:
    answers = [plan(read("q", "k"), send("$q.output", failure_behavior="skip"), id="second")]
    rt = runtime(
        recorder,
        replan=lambda context: answers.pop(0),
        replan_config=ReplanConfig(max_replans=1, verify_before_execute=False),
    )

    result = await rt.execute(
        plan(FETCH, write("w", "k", "$f.output"), call("b", "boom", failure_behavior="retry"))
    )

    assert result.proposal_id == "second"
    assert result["s"].error == (
        "policy 'r': untrusted data would choose parameter 'to' (f (fetch) -> state 'k' -> q)"
    )


@pytest.mark.parametrize("how", ["output", "state", "before"])
async def test_marks_are_there_when_a_dead_run_goes_on(recorder: Recorder, tmp_path: Path, how: str) -> None:
    """In a fresh process: on outputs that are read back, on keys the run wrote, on keys it found."""
    gate = Gate()

    def make(journal: SqlJournal) -> Runtime:
        rt = runtime(recorder, journal=journal)
        rt.tools.add(gate.tool(recorder))
        return rt

    async def before(rt: Runtime) -> None:
        if how == "before":
            await rt.execute(plan(FETCH, write("w", "k", "$f.output")), run_id="earlier")

    hang = call("g", "gate")
    after = {"failure_behavior": "skip"}
    begin, trail = {
        "output": ([FETCH], "f (fetch)"),
        "state": ([FETCH, write("w", "k", "$f.output")], "f (fetch) -> state 'k' -> q"),
        "before": ([call("f", "clean")], "f (fetch) -> state 'k' -> q"),
    }[how]
    end = (
        [send("$f.output", **after, dependencies=["g"])]
        if how == "output"
        else [read("q", "k", dependencies=["g"]), send("$q.output", **after)]
    )
    hang = {**hang, "dependencies": [begin[-1]["id"]]}
    image = await killed(
        tmp_path,
        make,
        plan(*begin, hang, *end),
        gate.hangs,
        *(f"0-{i}" for i in range(len(begin))),
        prepare=before,
    )
    recorder.calls.clear()

    result = await resumed(image, make)

    assert result["s"].error == f"policy 'r': untrusted data would choose parameter 'to' ({trail})"
    assert recorder.names == ["gate"]


async def test_after_a_restart_a_labelled_answer_is_not_shared_with_equal_calls(
    recorder: Recorder, tmp_path: Path
) -> None:
    gate = Gate()

    @tool(risk="idempotent")
    async def recall(context: ToolContext) -> str:
        """What was stored."""
        context.label_output({"untrusted": ("inbox",)})
        return EVIL

    def make(journal: SqlJournal) -> Runtime:
        rt = runtime(recorder, journal=journal)
        rt.tools.add(gate.tool(recorder))
        rt.tools.add(recall)
        return rt

    proposal = plan(
        call("f", "recall", idempotent=True),
        call("g", "gate", dependencies=["f"]),
        call("again", "recall", idempotent=True, dependencies=["g"]),
        send("$again.output", failure_behavior="skip"),
    )
    image = await killed(tmp_path, make, proposal, gate.hangs, "0-0")

    result = await resumed(image, make)

    assert result["s"].status == "rejected"
    assert "send" not in recorder.names


async def test_what_a_person_says_a_tool_answered_is_marked(recorder: Recorder, tmp_path: Path) -> None:
    """It was in flight when the process died; the person looked, and tells what came of it."""
    gate = Gate()

    def make(journal: SqlJournal) -> Runtime:
        rt = runtime(recorder, journal=journal)
        rt.tools.add(gate.tool(recorder, "act", risk="destructive", marks=["untrusted"]))
        return rt

    proposal = plan(call("f", "act"), send("$f.output", failure_behavior="skip"))
    image = await killed(tmp_path, make, proposal, gate.hangs)

    result = await resumed(image, make, decide={"f": Decision(choice="done", output=EVIL)})

    assert result["s"].error == "policy 'r': untrusted data would choose parameter 'to' (f (act))"
    assert "send" not in recorder.names


async def test_what_others_wrote_while_a_run_lay_still_keeps_its_marks(
    recorder: Recorder, tmp_path: Path
) -> None:
    """The run had written the key; what is there now is another's, and stays, and so does its mark."""
    gate, cancel = Gate(), Cancel()
    with open_database(str(tmp_path / "runs.db")) as database:
        journal = SqlJournal(database)
        rt = runtime(recorder, journal=journal)
        rt.tools.add(gate.tool(recorder))
        proposal = plan(write("w", "k", PERSON), call("g", "gate", dependencies=["w"]))
        task = asyncio.create_task(rt.execute(proposal, cancel=cancel, run_id="k"))
        await gate.hangs.wait()
        cancel.cancel("later", hard=True)
        assert (await task).outcome == "canceled"
        await rt.execute(plan(FETCH, write("w", "k", "$f.output")))

        assert (await rt.resume("k")).outcome == "succeeded"
        assert rt.state.get("k") == EVIL
        found = await judged(rt, recorder, plan(read("q", "k"), send("$q.output")))
        journal.close()

    assert found == stopped("f (fetch) -> state 'k' -> q")


async def test_a_checkpoint_keeps_the_marks_of_every_tenant(recorder: Recorder, tmp_path: Path) -> None:
    first = runtime(recorder)
    tenant = Scope(tenant="t")
    await first.execute(plan(FETCH, write("w", "k", "$f.output"), write("p", "plain", PERSON)))
    await first.execute(plan(FETCH, write("w", "tk", "$f.output")), scope=tenant)
    first.checkpoint(tmp_path / "c")
    second = runtime(recorder)
    await second.execute(plan(FETCH, write("w", "plain", "$f.output")))

    second.restore(tmp_path / "c")

    found = [
        await judged(second, recorder, plan(read("q", key), send("$q.output")), scope=scope)
        for key, scope in (("k", None), ("plain", None), ("tk", tenant))
    ]
    assert found == [
        stopped("f (fetch) -> state 'k' -> q"),
        ran(PERSON),
        stopped("f (fetch) -> state 'tk' -> q"),
    ]


# Answers from memory


@pytest.mark.parametrize("memory", ["cached", "deduplicated"])
@pytest.mark.parametrize("source", ["declared", "handed on"])
async def test_an_answer_from_memory_is_marked_like_the_first(
    recorder: Recorder, memory: str, source: str
) -> None:
    options: dict[str, Any] = {"cache_ttl_secs": 3600.0} if memory == "cached" else {"idempotent": True}
    marks = ["untrusted"] if source == "declared" else []
    rt = runtime(recorder)
    rt.tools.add(recorder.tool("ask", EVIL, risk="read_only", marks=marks, **options))
    asks = call("a", "ask", {"x": "$f.output"}, idempotent=memory == "deduplicated")
    if source == "declared":
        asks = {**asks, "parameters": {"x": 1}, "dependencies": ["f"]}
    actions = [FETCH, asks, {**asks, "id": "again", "dependencies": ["a"]}, send("$again.output")]

    found = await judged(rt, recorder, plan(*actions))
    later = await judged(rt, recorder, plan(FETCH, asks, send("$a.output")))

    trail = "{0} (ask)" if source == "declared" else "f (fetch) -> {0} (ask)"
    assert [found, later] == [stopped(trail.format("again")), stopped(trail.format("a"))]
    assert recorder.names.count("ask") == 1


async def test_a_remembered_answer_has_the_marks_of_who_asked_now(recorder: Recorder) -> None:
    """The same parameters typed by the person: nothing of the earlier file is in the call."""
    rt = runtime(recorder)
    rt.tools.add(recorder.tool("ask", "answer", risk="read_only", cache_ttl_secs=3600.0))
    await rt.execute(plan(FETCH, call("a", "ask", {"x": "$f.output"})))

    assert await judged(rt, recorder, plan(call("a", "ask", {"x": EVIL}), send("$a.output"))) == ran("answer")


# Which parameter


PARAMS: list[tuple[str, Any, Fields, bool]] = [
    ("top", "to", {"to": "$f.output"}, True),
    ("top, another", "to", {"cc": "$f.output"}, False),
    ("top, inside", "message", {"message": {"to": ["$f.output"]}}, True),
    ("dotted", "message.to", {"message": {"to": "$f.output"}}, True),
    ("dotted, another", "message.to", {"message": {"to": PERSON, "text": "$f.output"}}, False),
    ("dotted, not there", "message.to", {"message": {"text": "$f.output"}}, False),
    ("dotted, deep", "a.b.c", {"a": {"b": {"c": [{"d": "$f.output"}]}}}, True),
    ("dotted, the whole", "message.to", {"message": "$p.output"}, True),
    ("dotted, a list", "message.to", {"message": [{"to": "$f.output"}]}, True),
    ("a name with a dot", "message.to", {"message.to": "$f.output"}, True),
    ("a decoy beside it", "message.to", {"message.to": "x", "message": {"to": "$f.output"}}, True),
    ("a decoy inside", "a.b.c", {"a": {"a.b.c": "x", "b": {"c": "$f.output"}}}, True),
    ("several", ["cc", "to"], {"to": "$f.output"}, True),
    ("several, none", ["cc", "bcc"], {"to": "$f.output"}, False),
    ("any", None, {"x": {"y": ["$f.output"]}}, True),
    ("any, none", None, {"x": PERSON}, False),
]


@pytest.mark.parametrize(
    ("param", "parameters", "denied"), [row[1:] for row in PARAMS], ids=[row[0] for row in PARAMS]
)
async def test_a_rule_looks_at_the_parameters_it_names(
    recorder: Recorder, param: Any, parameters: Fields, denied: bool
) -> None:
    rt = runtime(recorder, FlowRule(mark="untrusted", tool="echo", param=param))
    proposal = plan(FETCH, call("p", "parse"), call("s", "echo", parameters, dependencies=["f", "p"]))

    found = await judged(rt, recorder, proposal)

    assert found.status == ("rejected" if denied else "succeeded")
    assert ("echo" in recorder.names) is not denied


async def test_a_name_with_a_star_in_it_is_no_pattern(recorder: Recorder) -> None:
    rt = runtime(recorder, FlowRule(mark="untrusted", tool="send", param="t*"))

    assert await judged(rt, recorder, plan(FETCH, send("$f.output"))) == ran(EVIL)


# Which mark


async def test_a_secret_does_not_leave(recorder: Recorder) -> None:
    rt = runtime(recorder, FlowRule(mark="secret", risk="network"))
    sends = call("s", "send", {"to": PERSON, "text": {"body": "key: $v.output"}})

    found = await judged(rt, recorder, plan(call("v", "vault"), sends))

    words = "policy 'r': secret data would leave through its parameters (v (vault))"
    assert found == Verdict("rejected", words, [])


async def test_the_marks_do_not_stand_for_each_other(recorder: Recorder) -> None:
    rt = runtime(recorder, UNTRUSTED, SECRET)
    both = [FETCH, call("v", "vault"), call("m", "echo", {"a": "$f.output", "b": "$v.output"})]
    words = {
        "u": "policy 'r': untrusted data would choose parameter 'to' ({})",
        "s": "policy 'r1': secret data would leave through its parameters ({})",
    }

    untrusted = await judged(rt, recorder, plan(FETCH, send("$f.output")))
    secret = await judged(rt, recorder, plan(call("v", "vault"), send("$v.output")))
    mixed = await rt.execute(plan(*both, send("$m.output", failure_behavior="skip")))
    apart = await judged(rt, recorder, plan(*both, send(PERSON)))

    assert untrusted.error == words["u"].format("f (fetch)")
    assert secret.error == words["s"].format("v (vault)")
    assert mixed["s"].error == "; ".join(
        [words["u"].format("f (fetch) -> m (echo)"), words["s"].format("v (vault) -> m (echo)")]
    )
    assert apart == ran(PERSON)


async def test_one_tool_may_have_both(recorder: Recorder) -> None:
    rt = runtime(recorder, UNTRUSTED, SECRET)
    rt.tools.add(recorder.tool("inbox", "x", risk="read_only", marks=["secret", "untrusted"]))

    result = await rt.execute(plan(call("i", "inbox"), send("$i.output", failure_behavior="skip")))

    assert result["s"].error == (
        "policy 'r': untrusted data would choose parameter 'to' (i (inbox)); "
        "policy 'r1': secret data would leave through its parameters (i (inbox))"
    )


async def test_a_decorated_tool_declares_its_marks(recorder: Recorder) -> None:
    @tool(risk="read_only", marks=["untrusted"])
    async def page(url: str) -> str:
        """Read a page."""
        return EVIL

    rt = runtime(recorder)
    rt.tools.add(page)

    found = await judged(rt, recorder, plan(call("f", "page", {"url": "x"}), send("$f.output")))

    assert found == stopped("f (page)")


# Marks that a rule gives


@pytest.mark.parametrize(
    ("choice", "fits"),
    [
        ({"tool": "clean"}, True),
        ({"tool": "cl*"}, True),
        ({"tool": "other"}, False),
        ({"risk": "read_only"}, True),
        ({"risk": ["network", "destructive"]}, False),
        ({"label": "desk"}, True),
        ({"label": "web"}, False),
        ({"path": "inbox/*"}, True),
        ({"path": "outbox/*"}, False),
        ({"tool": "clean", "label": "desk", "risk": "read_only", "path": "inbox/*"}, True),
    ],
)
async def test_a_rule_marks_the_outputs_it_chooses(recorder: Recorder, choice: Fields, fits: bool) -> None:
    rt = runtime(recorder, UNTRUSTED, MarkOutput(marks=["untrusted"], **choice))

    found = await judged(
        rt, recorder, plan(call("f", "clean", {"file": "./x/../inbox/a"}), send("$f.output"))
    )

    assert found == (stopped("f (clean)") if fits else ran("clean"))


async def test_a_rule_marks_what_lies_on_a_path_that_was_filled_in(recorder: Recorder) -> None:
    rt = runtime(recorder, UNTRUSTED, MarkOutput(marks=["untrusted"], path="inbox/*"))
    rt.tools.add(recorder.tool("where", "inbox/a", risk="read_only"))
    proposal = plan(
        call("w", "where"),
        call("f", "clean", {"file": "$w.output"}),
        send("$f.output", failure_behavior="skip"),
    )

    report = rt.verify(proposal)
    result = await rt.execute(proposal)

    assert result["s"].status == "rejected"
    assert "send" not in recorder.names
    assert not report.valid or report.undecided


async def test_a_rule_of_a_session_marks_there_alone(recorder: Recorder) -> None:
    rt = runtime(recorder)
    session = rt.open_session()
    rt.add_policy("m", MarkOutput(tool="clean", marks=["untrusted"]), session=session)
    proposal = plan(call("f", "clean"), send("$f.output"))

    assert await judged(rt, recorder, proposal) == ran("clean")
    assert await judged(rt, recorder, proposal, session=session) == stopped("f (clean)")


# Compensations


async def test_a_compensation_is_looked_at_like_any_call(recorder: Recorder) -> None:
    rt = runtime(recorder)
    books = call("b", "book", {"at": "$f.output"}, **undone_by("send", to="$b.output.at"))

    result = await rt.execute(plan(FETCH, books, call("z", "boom", dependencies=["b"])))

    (compensation,) = result.compensations
    assert compensation.status == "rejected"
    assert compensation.error is not None
    assert "untrusted data would choose parameter 'to' (f (fetch) -> b (book))" in compensation.error
    assert "send" not in recorder.names
    assert EVIL not in compensation.error


# Words


async def test_a_trail_stays_short_however_long_the_chain(recorder: Recorder) -> None:
    rt = runtime(recorder)
    chain = [call(f"c{i}", "clean", {"x": f"$c{i - 1}.output" if i else "$f.output"}) for i in range(1000)]

    found = await judged(rt, recorder, plan(FETCH, *chain, send("$c999.output")))

    assert found.error is not None
    begin = "policy 'r': untrusted data would choose parameter 'to' (f (fetch) -> ... -> "
    assert found.error.startswith(begin)
    assert found.error.endswith("c998 (clean) -> c999 (clean))")
    assert found.error.count("->") < 15
    assert len(found.error) < 300


async def test_a_trail_through_the_state_stays_short_too(recorder: Recorder) -> None:
    """Also where each proposal takes up what the one before has left."""
    rt = runtime(recorder)
    await rt.execute(plan(FETCH, write("w", "k", "$f.output")))
    for _ in range(30):
        await rt.execute(plan(read("q", "k"), write("w", "k", "$q.output")))

    found = await judged(rt, recorder, plan(read("q", "k"), send("$q.output")))

    assert found.error is not None
    assert found.error.startswith("policy 'r': untrusted data would choose parameter 'to' (f (fetch) -> ...")
    assert found.error.count("->") < 15


async def test_no_event_of_a_denial_holds_the_value(recorder: Recorder) -> None:
    rt = runtime(recorder)

    await rt.execute(plan(FETCH, send("$f.output", failure_behavior="skip")))

    told = list(rt.events.query(action="s"))
    assert "policy_violation" in kinds(rt, "s")
    assert EVIL not in encode(told).decode()


async def test_without_a_rule_marks_are_only_carried(recorder: Recorder) -> None:
    rt = Runtime(tools=tools(recorder))

    assert await judged(rt, recorder, plan(FETCH, send("$f.output"))) == ran(EVIL)
