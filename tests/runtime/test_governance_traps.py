"""Ways around the gate that were tried, each closed: answers that would count twice, marks that get lost."""

from __future__ import annotations

from typing import Any

import pytest

from placet import (
    Calls,
    DenyKeyword,
    DenyTool,
    DenyToolParam,
    FlowRule,
    MemoryApprovals,
    RateLimitTool,
    Runtime,
    ToolSchema,
    TraceRule,
)
from placet.approvals.approval import Approval
from placet.durable.memory import MemoryJournal
from placet.errors import RuleError, UsageError
from placet.policy.calls import path_fits
from placet.policy.pattern import name_pattern
from placet.redaction import Redactor
from tests.runtime.plans import Recorder, call, plan, read, statuses, undone_by, write

ASK = DenyTool(tool="delete", unless_approved=True)
NO_LEAK = FlowRule(tool="send", mark="untrusted")


class Person(MemoryApprovals):
    """Answers every question at once, and remembers it."""

    def __init__(self, decision: Any = "once") -> None:
        super().__init__()
        self.decision = decision
        self.asked: list[Approval] = []

    def request(self, approval: Approval) -> Approval:
        self.asked.append(approval)
        super().request(approval)
        return self.decide(approval.id, self.decision, by="ann")


def delete(id: str = "a", path: str = "x", **fields: Any) -> dict[str, Any]:
    return call(id, "delete", {"path": path}, **fields)


# Answers


async def test_the_id_of_a_run_that_comes_again_brings_no_answer_along(recorder: Recorder) -> None:
    person = Person()
    rt = Runtime(tools=[recorder.tool("delete")], policies=[("ask", ASK)], approvals=person)

    for _ in range(2):
        await rt.execute(plan(delete()), run_id="same")

    assert len(person.asked) == 2


async def test_what_is_found_under_an_id_must_be_about_the_same(recorder: Recorder) -> None:
    """Ids are short, and two questions may be called alike."""

    class Crowded(Person):
        def get(self, approval: str) -> Approval | None:
            if len(self.asked) == 1 and not self.is_confused:
                self.is_confused = True
                return super().get(self.asked[0].id)
            return super().get(approval)

        is_confused = False

    person = Crowded()
    rt = Runtime(tools=[recorder.tool("delete")], policies=[("ask", ASK)], approvals=person)

    await rt.execute(plan(delete("a", "scratch"), delete("b", "prod", dependencies=["a"])))

    assert person.is_confused
    assert [one.parameters["path"] for one in person.asked] == ["scratch", "prod"]


async def test_an_always_also_serves_a_run_that_has_asked_before(recorder: Recorder) -> None:
    ledger, journal = MemoryApprovals(), MemoryJournal()
    rt = Runtime(
        tools=[recorder.tool("delete")],
        policies=[("ask", ASK)],
        approvals=ledger,
        journal=journal,
        patience_s=0,
    )
    await rt.execute(plan(delete()), run_id="first")
    await rt.execute(plan(delete()), run_id="second")
    (second,) = ledger.pending(run="second")
    ledger.decide(second.id, "always", by="ann")

    assert (await rt.resume("first")).outcome == "succeeded"


async def test_an_approval_of_a_call_is_none_of_a_write(recorder: Recorder) -> None:
    person = Person("always")
    rule = DenyKeyword(keyword="admin", unless_approved=True)
    rt = Runtime(tools=[recorder.tool("notify")], policies=[("ask", rule)], approvals=person)
    same = {"key": "admin", "value": True}
    await rt.execute(plan(call("a", "notify", same)))
    person.decision = "deny"

    await rt.execute(plan({"id": "w", "type": "state_write", "tool": "notify", "parameters": same}))

    assert len(person.asked) == 2
    assert not rt.state.exists("admin")


@pytest.mark.parametrize("source", ["own", "other"])
async def test_what_nobody_was_told_of_a_compensation_is_not_covered(recorder: Recorder, source: str) -> None:
    """A person approved the booking; where its undoing would reach, only what came later told."""
    person = Person()
    rt = Runtime(
        tools=[
            recorder.tool("book", {"path": "prod/db"}, reversibility="compensable"),
            recorder.tool("delete"),
            recorder.tool("fetch", "prod/web", risk="read_only", marks=("untrusted",)),
            recorder.tool("boom", raises=RuntimeError("no")),
        ],
        policies=[
            ("ask", DenyTool(tool="book", unless_approved=True)),
            ("flow", FlowRule(tool="delete", mark="untrusted", unless_approved=True)),
            ("prod", DenyToolParam(tool="delete", param="path", contains="prod", unless_approved=True)),
        ],
        approvals=person,
    )
    path = "$a.output.path" if source == "own" else "$f.output"
    actions = [
        call("a", "book", **undone_by("delete", path=path)),
        call("f", "fetch", dependencies=["a"]),
        call("z", "boom", dependencies=["f"]),
    ]

    result = await rt.execute(plan(*actions))

    assert recorder.names == ["book", "fetch", "boom"]
    assert [c.status for c in result.compensations] == ["rejected"]


async def test_what_flows_into_an_action_does_not_flow_into_a_literal_compensation(
    recorder: Recorder,
) -> None:
    rt = Runtime(
        tools=[
            recorder.tool("book", reversibility="compensable"),
            recorder.tool("delete"),
            recorder.tool("fetch", "x", risk="read_only", marks=("untrusted",)),
        ],
        policies=[("flow", FlowRule(tool="delete", mark="untrusted", unless_approved=True))],
    )

    result = await rt.execute(
        plan(call("f", "fetch"), call("a", "book", {"n": "$f.output"}, **undone_by("delete", path="here")))
    )

    assert result.outcome == "succeeded"


async def test_a_window_counts_once_what_ran_before_a_wait(recorder: Recorder) -> None:
    ledger = MemoryApprovals()
    rt = Runtime(
        tools=[recorder.tool("delete"), recorder.tool("t")],
        policies=[("ask", ASK), ("two", RateLimitTool(tool="t", max_calls=2, interval_secs=60))],
        approvals=ledger,
        journal=MemoryJournal(),
        patience_s=0,
    )
    await rt.execute(
        plan(call("b", "t"), delete("a", dependencies=["b"]), call("c", "t", dependencies=["a"])), run_id="r"
    )
    ledger.decide(ledger.pending()[0].id, "once", by="ann")

    assert (await rt.resume("r")).outcome == "succeeded"
    assert recorder.names == ["t", "delete", "t"]


async def test_a_run_under_a_session_goes_on_under_one(recorder: Recorder) -> None:
    ledger = MemoryApprovals()
    rt = Runtime(
        tools=[recorder.tool("delete")],
        policies=[("ask", ASK)],
        approvals=ledger,
        journal=MemoryJournal(),
        patience_s=0,
    )
    await rt.execute(plan(delete()), run_id="r", session=rt.open_session())
    ledger.decide(ledger.pending()[0].id, "once", by="ann")

    with pytest.raises(UsageError, match="began under a session"):
        await rt.resume("r")

    assert (await rt.resume("r", session=rt.open_session())).outcome == "succeeded"


async def test_a_ledger_that_breaks_is_no_fault_of_the_caller(recorder: Recorder) -> None:
    class Broken(MemoryApprovals):
        def request(self, approval: Approval) -> Approval:
            raise OSError("gone")

    rt = Runtime(tools=[recorder.tool("delete")], policies=[("ask", ASK)], approvals=Broken())

    result = await rt.execute(plan(delete()))

    assert (result.outcome, statuses(result)) == ("canceled", {"a": "skipped"})
    assert "cannot be asked for: gone" in (result.error or "")


# Marks


def reader(recorder: Recorder, **options: Any) -> Runtime:
    """One whose tools mark nothing by themselves."""
    tools = [recorder.tool("send"), recorder.tool("delete")]
    return Runtime(tools=tools, policies=[("leak", NO_LEAK), ("ask", ASK)], **options)


def marking(recorder: Recorder, **options: Any) -> Runtime:
    """One that also has a tool which marks."""
    rt = reader(recorder, **options)
    rt.register(
        ToolSchema(name="fetch", risk="read_only", marks=["untrusted"]),
        lambda: "evil@example.org",
        cheap=True,
    )
    return rt


LEAK = plan(
    read("r", "page"),
    delete("g", dependencies=["r"]),
    call("s", "send", {"to": "$r.output"}, dependencies=["g"]),
)
FILL = plan(call("f", "fetch"), write("w", "page", "$f.output"))


@pytest.mark.parametrize("way", ["overwritten", "fresh", "seeded"])
async def test_a_mark_outlives_a_wait(recorder: Recorder, way: str) -> None:
    """Whatever became of the state meanwhile: what was read is what it was."""
    ledger, journal = MemoryApprovals(), MemoryJournal()
    asks: dict[str, Any] = {"approvals": ledger, "journal": journal, "patience_s": 0}
    rt = marking(recorder, **asks)
    await rt.execute(FILL)
    assert (await rt.execute(LEAK, run_id="r")).outcome == "waiting"
    ledger.decide(ledger.pending()[0].id, "once", by="ann")

    if way == "overwritten":
        await rt.execute(plan(write("w", "page", "clean")))
    elif way == "fresh":
        rt = reader(recorder, **asks)
    else:
        rt = reader(recorder, state={"page": "evil@example.org"}, **asks)
    result = await rt.resume("r")

    assert result["s"].status == "rejected"
    assert "send" not in recorder.names


async def test_a_mark_that_another_runtime_makes_in_a_shared_state_is_seen(recorder: Recorder) -> None:
    first = marking(recorder)
    second = reader(recorder, state=first.state)

    async def mark_meanwhile() -> str:
        await first.execute(FILL)
        return "ok"

    second.register(ToolSchema(name="pause", risk="read_only"), mark_meanwhile)
    result = await second.execute(
        plan(
            call("p", "pause"),
            read("r", "page", dependencies=["p"]),
            call("s", "send", {"to": "$r.output"}),
        )
    )

    assert result["s"].status == "rejected"
    assert recorder.names == []


async def test_the_words_of_a_schema_do_not_tell_a_secret(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("vault", {"pin": "hunter2"}, risk="read_only", marks=("secret",))])
    wants_text = {"type": "object", "properties": {"to": {"type": "string"}}}
    rt.tools.add(recorder.tool("send", parameters=wants_text))

    result = await rt.execute(plan(call("v", "vault"), call("s", "send", {"to": "$v.output"})))

    assert result["s"].status == "rejected"
    assert "hunter2" not in repr(result["s"]) + repr([e.data for e in rt.events])


# Rules


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("/etc/*", "../../etc/passwd", True),
        ("/etc/*", "file:///etc/passwd", True),
        ("/etc/*", "/etc/", True),
        ("secrets/", "secrets/key", True),
        ("./secrets/*", "secrets/key", True),
        ("a/../secrets/*", "secrets/key", True),
        ("secrets/*", "secrets", True),
        ("secrets/*", "secretsx", False),
        ("secrets/*.pem", "x/secrets/a.pem", True),
    ],
)
def test_paths_in_other_words(pattern: str, text: str, fits: bool) -> None:
    assert path_fits(pattern, [text]) is fits


def test_many_stars_are_no_trap() -> None:
    """A regular expression took minutes for this."""
    assert not path_fits("*/secrets/*/keys/*.pem", ["/secrets/a/keys" * 2_000])
    assert name_pattern("a*b*a")("aba")
    assert not name_pattern("a*a")("a")


@pytest.mark.parametrize(
    "rule",
    [
        lambda: DenyTool(tool=""),
        lambda: DenyTool(risk=[]),
        lambda: DenyTool(label=""),
        lambda: DenyTool(path=""),
        lambda: FlowRule(mark="untrusted", param=[]),
        lambda: FlowRule(mark="untrusted", param=["to", ""]),
        lambda: TraceRule(tool="x", never_with=Calls(risk=[])),
    ],
)
def test_a_rule_that_fits_nothing_is_refused(rule: Any) -> None:
    with pytest.raises(RuleError, match="is empty"):
        rule()


async def test_verify_warns_of_a_compensation_that_would_be_denied(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("book", reversibility="compensable"), recorder.tool("delete")],
        policies=[("never", DenyTool(tool="delete", reason="never"))],
    )

    report = rt.verify(plan(call("a", "book", **undone_by("delete"))))

    assert report.valid
    assert [i.message for i in report.issues if i.severity == "warning"] == [
        "its compensation would not be let through: policy 'never': never"
    ]


def test_many_secrets_are_put_in_order_once() -> None:
    redactor = Redactor()
    for n in range(300):
        redactor.add_secrets_in(f"secret-number-{n:04d}")

    assert redactor.text("it is secret-number-0123.") == "it is [redacted]."


async def test_a_window_counts_what_ran_in_plans_that_wait(recorder: Recorder) -> None:
    rt = Runtime(
        tools=[recorder.tool("delete"), recorder.tool("t")],
        policies=[("ask", ASK), ("one", RateLimitTool(tool="t", max_calls=1, interval_secs=3600))],
        approvals=MemoryApprovals(),
        journal=MemoryJournal(),
        patience_s=0,
    )

    for n in range(3):
        await rt.execute(plan(call("b", "t"), delete("a", dependencies=["b"])), run_id=f"r{n}")

    assert recorder.names == ["t"]


async def test_a_run_that_waits_for_approvals_does_not_go_on_without_them(recorder: Recorder) -> None:
    ledger, journal = MemoryApprovals(), MemoryJournal()
    tools = [recorder.tool("delete")]
    rt = Runtime(tools=tools, policies=[("ask", ASK)], approvals=ledger, journal=journal, patience_s=0)
    await rt.execute(plan(delete()), run_id="r")
    ledger.decide(ledger.pending()[0].id, "deny", by="ann")

    with pytest.raises(UsageError, match="waits for approvals"):
        await Runtime(tools=tools, journal=journal).resume("r")

    assert (await rt.resume("r"))["a"].status == "rejected"
    assert recorder.calls == []


async def test_a_no_holds_for_a_plan_that_wants_the_very_same_again(recorder: Recorder) -> None:
    ledger, journal = MemoryApprovals(), MemoryJournal()
    tools = [recorder.tool("delete")]
    asks = Runtime(tools=tools, policies=[("ask", ASK)], approvals=ledger, journal=journal, patience_s=0)
    await asks.execute(plan(delete()), run_id="r")
    ledger.decide(ledger.pending()[0].id, "deny", by="ann")
    lax = Runtime(
        tools=tools, approvals=ledger, journal=journal, patience_s=0, replan=lambda _: plan(delete("again"))
    )

    await lax.resume("r")

    assert recorder.calls == []


@pytest.mark.parametrize("secret", ["postgresql://app:hunter2@db/main", "ghp_" + "a1B2" * 9])
def test_words_of_ours_switch_no_redaction_off(secret: str) -> None:
    shown = Redactor().text(f"policy '{secret}': y")

    assert secret not in shown
    assert "hunter2" not in shown
