"""How far an agent may go without asking: the tier of a call, what each posture answers, and what is told."""

from __future__ import annotations

from typing import Any

import pytest

from placet import DenyTool, Runtime, Scope
from placet.approvals.approval import Approval
from placet.approvals.memory import MemoryApprovals
from placet.errors import UsageError
from placet.ir.tool_spec import ToolSchema
from placet.policy.calls import Calls
from placet.policy.gate import NOBODY
from placet.policy.permission import (
    ANSWERS,
    POSTURES,
    TIERS,
    Permissions,
    Posture,
    Tier,
    permissions_of,
    tier_of,
)
from placet.policy.rule import RequireState
from placet.policy.trace import TraceRule
from placet.tools import Tool
from tests.runtime.plans import Fields, Recorder, call, data_of, kinds, plan, read, undone_by, write

HOME = "/work/project"

# Tiers

DECLARED: list[tuple[Fields, Tier]] = [
    ({"risk": "read_only"}, "read_only"),
    ({"risk": "read_only", "reversibility": "irreversible"}, "read_only"),
    ({"risk": "idempotent"}, "sandbox_edit"),
    ({"risk": "idempotent", "reversibility": "irreversible"}, "sandbox_edit"),
    ({"risk": "network"}, "full_access"),
    ({"risk": "network", "reversibility": "reversible"}, "full_access"),
    ({"risk": "destructive"}, "full_access"),
    ({"risk": "destructive", "reversibility": "irreversible"}, "full_access"),
    ({"risk": "destructive", "reversibility": "compensable"}, "full_access"),
    ({"risk": "destructive", "reversibility": "reversible"}, "sandbox_edit"),
    ({}, "full_access"),
    ({"labels": ["confined"]}, "sandbox_edit"),
    ({"labels": ["confined"], "risk": "network"}, "full_access"),
]


@pytest.mark.parametrize(("declared", "tier"), DECLARED)
def test_the_tier_is_what_the_tool_declares(declared: Fields, tier: Tier) -> None:
    assert tier_of(ToolSchema(name="t", **declared), {}, HOME) == tier


@pytest.mark.parametrize(
    ("name", "raised"),
    [
        ("delete", True),
        ("file_delete", True),
        ("fs.delete.all", True),
        ("Mail-Send", True),
        ("db.DROP", True),
        ("git_push", True),
        ("shell", True),
        ("exec", True),
        ("pay_bill", True),
        ("undelete", False),
        ("deleted", False),
        ("sender", False),
        ("display", False),
        ("executor", False),
        ("save", False),
    ],
)
def test_a_name_can_raise_the_tier(name: str, raised: bool) -> None:
    assert tier_of(ToolSchema(name=name, risk="idempotent"), {}, HOME) == (
        "full_access" if raised else "sandbox_edit"
    )


COMMANDS: list[tuple[Any, bool]] = [
    ("ls -l", False),
    ("rm -rf x", True),
    ("/usr/bin/rm x", True),
    ("true; rm x", True),
    ("true&&rm x", True),
    ("cat x|ssh host", True),
    ("(curl example.org)", True),
    ("echo `wget x`", True),
    ("echo $(sudo ls)", True),
    ("env A=1 sudo ls", True),
    ("echo farm", False),
    ("python rm.py", False),
    (["git", "status"], False),
    (["rm", "x"], True),
    (["bash", "-c", "true; curl x"], True),
    ([], False),
    (7, False),
    (None, False),
]


@pytest.mark.parametrize("name", ["command", "cmd", "argv", "command_line", "script", "COMMAND"])
def test_a_command_line_can_raise_the_tier(name: str) -> None:
    for command, raised in COMMANDS:
        found = tier_of(ToolSchema(name="run", risk="idempotent"), {name: command}, HOME)
        assert found == ("full_access" if raised else "sandbox_edit"), command


PATHS: list[tuple[Any, bool]] = [
    ("a.txt", False),
    ("./a/../b.txt", False),
    ("a/b/../../c", False),
    ("", False),
    (".", False),
    (HOME, False),
    (f"{HOME}/", False),
    (f"{HOME}/a/b", False),
    ("..", True),
    ("../x", True),
    ("a/../../x", True),
    ("../project/x", False),
    (f"{HOME}/../other", True),
    (f"{HOME}-not/x", True),
    ("/etc/passwd", True),
    ("/", True),
    ("~", True),
    ("~/x", True),
    ("~root/x", True),
    ("a/~", False),
    (["a", "b/c"], False),
    (["a", "../x"], True),
    (["a", "~/x"], True),
    ([], False),
    (3, False),
    (None, False),
]


@pytest.mark.parametrize(
    "name", ["path", "file", "dest", "folder", "target", "input_path", "out_files", "Path"]
)
def test_a_path_outside_the_folder_raises_the_tier(name: str) -> None:
    for path, raised in PATHS:
        found = tier_of(ToolSchema(name="put", risk="idempotent"), {name: path}, HOME)
        assert found == ("full_access" if raised else "sandbox_edit"), path


@pytest.mark.parametrize(
    ("path", "raised"), [("a", False), ("a/../b", False), ("../a", True), ("/a", True), ("~/a", True)]
)
def test_without_a_folder_only_what_stays_below_is_inside(path: str, raised: bool) -> None:
    found = tier_of(ToolSchema(name="put", risk="idempotent"), {"path": path}, None)

    assert found == ("full_access" if raised else "sandbox_edit")


@pytest.mark.parametrize("value", ["rm -rf /", "/etc/passwd", "~/.ssh", "sudo reboot", ["../x", "curl x"]])
def test_free_text_never_decides(value: Any) -> None:
    for name in ("text", "body", "message", "comment", "query", "profile", "pathology", "n"):
        assert tier_of(ToolSchema(name="put", risk="idempotent"), {name: value}, HOME) == "sandbox_edit", name


@pytest.mark.parametrize("parameters", [{"command": "rm -rf /"}, {"path": "/etc/passwd"}])
def test_nothing_raises_what_only_reads(parameters: Fields) -> None:
    assert tier_of(ToolSchema(name="shell", risk="read_only"), parameters, HOME) == "read_only"


# Postures


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("cautious", ("allow", "ask", "deny")),
        ("balanced", ("allow", "allow", "ask")),
        ("trusting", ("allow", "allow", "allow")),
        ("read_only", ("allow", "ask", "ask")),
        ("sandbox_edit", ("allow", "allow", "ask")),
        ("full_access", ("allow", "allow", "allow")),
    ],
)
def test_presets_and_standing_tiers(name: str, answers: tuple[str, ...]) -> None:
    posture = Posture.named(name)

    assert tuple(posture.to(tier) for tier in TIERS) == answers


def test_there_is_a_row_for_every_preset() -> None:
    assert set(POSTURES) == {"cautious", "balanced", "trusting", *TIERS}


def test_a_posture_that_does_not_exist_is_named() -> None:
    with pytest.raises(UsageError, match="'bold' is no posture and no tier"):
        Runtime(permissions="bold")


@pytest.mark.parametrize("one", ANSWERS)
@pytest.mark.parametrize("other", ANSWERS)
def test_the_stricter_answer_wins(one: Any, other: Any) -> None:
    found = Posture(full_access=one).tightened(Posture(full_access=other))

    assert found.full_access == max(one, other, key=ANSWERS.index)


def test_permissions_may_be_written_short() -> None:
    assert permissions_of(None) is None
    assert permissions_of("cautious") == Permissions(standing=POSTURES["cautious"])
    assert permissions_of(Posture(full_access="deny")) == Permissions(standing=Posture(full_access="deny"))


# In front of every call


class Answering(MemoryApprovals):
    """A person who answers at once."""

    def __init__(self, answer: Any = "once") -> None:
        super().__init__()
        self.answer = answer
        self.asked: list[Approval] = []

    def request(self, approval: Approval) -> Approval:
        self.asked.append(super().request(approval))
        return self.decide(approval.id, self.answer, by="ann")


TOOL_OF: dict[Tier, str] = {"read_only": "look", "sandbox_edit": "put", "full_access": "send"}


def tools(recorder: Recorder) -> list[Tool]:
    return [
        recorder.tool("look", "seen", risk="read_only"),
        recorder.tool("put", "ok", risk="idempotent", reversibility="reversible"),
        recorder.tool("send", "sent", risk="network"),
        recorder.tool("book", "booked", risk="destructive", reversibility="compensable"),
        recorder.tool("boom", raises=ValueError("broken"), risk="read_only"),
        recorder.tool("where", "../elsewhere", risk="read_only"),
    ]


def runtime(recorder: Recorder, permissions: Any, **options: Any) -> Runtime:
    return Runtime(tools=tools(recorder), permissions=permissions, folder=HOME, **options)


ASKS = "permission: tool '{0}' needs {1}, which is not granted without asking"
DENIES = "permission: tool '{0}' needs {1}, which is denied here"


@pytest.mark.parametrize("posture", POSTURES)
@pytest.mark.parametrize("tier", TIERS)
async def test_each_posture_answers_each_tier(recorder: Recorder, posture: str, tier: Tier) -> None:
    """Without anybody to ask, what needs asking is denied. Verify says the same beforehand."""
    rt = runtime(recorder, posture)
    name = TOOL_OF[tier]
    proposal = plan(call("a", name))

    report = rt.verify(proposal)
    result = await rt.execute(proposal)

    answer = POSTURES[posture].to(tier)
    words = {
        "allow": None,
        "ask": f"{ASKS.format(name, tier)}; {NOBODY}",
        "deny": DENIES.format(name, tier),
    }[answer]
    assert result["a"].error == words
    assert [i.message for i in report.errors if i.action_id == "a"] == ([] if words is None else [words])
    assert report.undecided == []
    assert recorder.names == ([name] if words is None else [])
    said = [] if tier == "read_only" else [{"tier": tier, "decision": answer, "tool": name}]
    assert data_of(rt, "permission_decision", "a") == said


@pytest.mark.parametrize("tier", TIERS)
async def test_with_somebody_to_ask_an_answer_decides(recorder: Recorder, tier: Tier) -> None:
    for answer, status in (("once", "succeeded"), ("deny", "rejected")):
        person = Answering(answer)
        rt = runtime(
            recorder, Posture(read_only="ask", sandbox_edit="ask", full_access="ask"), approvals=person
        )
        proposal = plan(call("a", TOOL_OF[tier], {"n": answer}))

        report = rt.verify(proposal)
        result = await rt.execute(proposal)

        words = ASKS.format(TOOL_OF[tier], tier)
        assert report.valid
        assert [i.message for i in report.undecided] == [f"undecided: it needs an approval: {words}"]
        assert result["a"].status == status
        (asked,) = person.asked
        assert (asked.tier, list(asked.reasons), asked.folder) == (tier, [words], HOME)
    assert recorder.calls == [(TOOL_OF[tier], {"n": "once"})]


async def test_a_deny_posture_asks_nobody(recorder: Recorder) -> None:
    person = Answering()
    rt = runtime(recorder, Posture(full_access="deny"), approvals=person)
    proposal = plan(call("a", "send"))

    assert not rt.verify(proposal).valid
    assert (await rt.execute(proposal))["a"].error == DENIES.format("send", "full_access")
    assert person.asked == []
    assert recorder.calls == []


async def test_without_permissions_nothing_is_asked_and_nothing_told(recorder: Recorder) -> None:
    rt = Runtime(tools=tools(recorder))

    assert (await rt.execute(plan(call("a", "send")))).succeeded
    assert "permission_decision" not in kinds(rt)


async def test_actions_on_the_state_need_no_tier(recorder: Recorder) -> None:
    rt = runtime(recorder, Posture(read_only="deny", sandbox_edit="deny", full_access="deny"))

    result = await rt.execute(plan(write("w", "path", "/etc/passwd"), read("r", "path")))

    assert result.succeeded
    assert "permission_decision" not in kinds(rt)


@pytest.mark.parametrize(
    ("caller", "answer"),
    [
        ("bold", "succeeded"),
        ("shy", "rejected"),
        ("new", "rejected"),
        (None, "rejected"),
        ("BOLD", "rejected"),
    ],
)
async def test_an_agent_may_have_its_own_posture(recorder: Recorder, caller: str | None, answer: str) -> None:
    permissions = Permissions(
        standing=POSTURES["balanced"],
        agents={"bold": POSTURES["trusting"], "shy": Posture(sandbox_edit="deny", full_access="deny")},
    )
    rt = runtime(recorder, permissions)
    scope = Scope(caller_id=caller) if caller is not None else None
    proposal = plan(call("a", "send"))

    report = rt.verify(proposal, scope=scope)
    result = await rt.execute(proposal, scope=scope)

    assert result["a"].status == answer
    assert report.valid is (answer == "succeeded")
    if caller == "shy":
        assert result["a"].error == DENIES.format("send", "full_access")


async def test_the_question_names_the_agent(recorder: Recorder) -> None:
    person = Answering()
    rt = runtime(recorder, Permissions(agents={"shy": POSTURES["read_only"]}), approvals=person)

    await rt.execute(plan(call("a", "put")), scope=Scope(caller_id="shy"))
    await rt.execute(plan(call("a", "put")), scope=Scope(caller_id="other"))

    assert [a.agent for a in person.asked] == ["shy"]


# Beside policies


@pytest.mark.parametrize("posture", [*POSTURES, None])
async def test_a_policys_denial_beats_any_posture(recorder: Recorder, posture: str | None) -> None:
    person = Answering()
    rt = runtime(recorder, posture, policies=[("no", DenyTool(tool="send"))], approvals=person)

    result = await rt.execute(plan(call("a", "send")))

    assert result["a"].error == "policy 'no': tool 'send' is denied"
    assert person.asked == []
    assert recorder.calls == []


async def test_a_posture_gives_no_leave_that_a_policy_asks_for(recorder: Recorder) -> None:
    person = Answering("deny")
    rule = RequireState(tool="send", key="ok", unless_approved=True)
    rt = runtime(recorder, "trusting", policies=[("r", rule)], approvals=person)

    result = await rt.execute(plan(call("a", "send")))

    assert result["a"].status == "rejected"
    (asked,) = person.asked
    assert list(asked.reasons) == ["policy 'r': state key 'ok' does not have the required value"]


async def test_a_policy_and_a_posture_are_asked_about_in_one_question(recorder: Recorder) -> None:
    person = Answering()
    rule = DenyTool(tool="send", unless_approved=True)
    rt = runtime(recorder, "balanced", policies=[("r", rule)], approvals=person)

    result = await rt.execute(plan(call("a", "send")))

    (asked,) = person.asked
    assert result.succeeded
    assert list(asked.reasons) == ["policy 'r': tool 'send' is denied", ASKS.format("send", "full_access")]


async def test_a_call_that_a_posture_denies_has_not_run(recorder: Recorder) -> None:
    rt = runtime(
        recorder,
        Posture(sandbox_edit="allow", full_access="deny"),
        policies=[("r", TraceRule(tool="put", never_with=Calls(tool="send")))],
    )

    result = await rt.execute(plan(call("a", "send", failure_behavior="skip"), call("b", "put")))

    assert [r.status for r in result.results] == ["rejected", "succeeded"]


# What a plan says


@pytest.mark.parametrize(
    "claims",
    [{"reversibility": "reversible"}, {"idempotent": True}, {"expected_effects": {"tier": "read_only"}}],
)
async def test_nothing_a_plan_says_lowers_a_tier(recorder: Recorder, claims: Fields) -> None:
    rt = runtime(recorder, "balanced")

    result = await rt.execute(plan(call("a", "send", {"text": "this only reads"}, **claims)))

    assert result["a"].status == "rejected"
    assert recorder.calls == []


async def test_a_path_that_a_tool_chooses_is_looked_at_when_it_is_known(recorder: Recorder) -> None:
    """Verify leaves it open; a path in free text is still none."""
    rt = runtime(recorder, "balanced")
    proposal = plan(call("w", "where"), call("a", "put", {"path": "$w.output"}, failure_behavior="skip"))
    text = plan(call("w", "where"), call("a", "put", {"text": "$w.output"}))

    report, result = rt.verify(proposal), await rt.execute(proposal)
    text_report, text_result = rt.verify(text), await rt.execute(text)

    assert report.valid
    assert [i.message for i in report.undecided] == [
        "undecided: which tier it needs depends on what is filled in"
    ]
    assert result["a"].error == f"{ASKS.format('put', 'full_access')}; {NOBODY}"
    assert (text_report.valid, text_report.undecided) == (True, [])
    assert text_result.succeeded


@pytest.mark.parametrize("posture", ["trusting", "read_only"])
async def test_where_both_tiers_get_one_answer_nothing_is_left_open(recorder: Recorder, posture: str) -> None:
    rt = runtime(recorder, posture)
    proposal = plan(call("w", "where"), call("a", "put", {"path": "$w.output"}))

    report = rt.verify(proposal)

    assert report.undecided == []
    assert report.valid is (await rt.execute(proposal)).succeeded


# Taking back


async def test_a_compensation_that_needs_asking_is_asked_about_with_its_owner(recorder: Recorder) -> None:
    """One question for both; and then it runs without another."""
    person = Answering()
    posture = Posture(sandbox_edit="allow", full_access="ask")
    rt = runtime(recorder, posture, approvals=person)
    books = call("a", "book", **undone_by("send", to="them"))

    result = await rt.execute(plan(books, call("z", "boom", dependencies=["a"])))

    (asked,) = person.asked
    assert [c.status for c in result.compensations] == ["succeeded"]
    assert recorder.names == ["book", "boom", "send"]
    assert list(asked.reasons) == [
        ASKS.format("book", "full_access"),
        f"its compensation: {ASKS.format('send', 'full_access')}",
    ]


async def test_a_compensation_that_is_denied_does_not_run(recorder: Recorder) -> None:
    rt = runtime(recorder, Posture(sandbox_edit="allow", full_access="deny"))
    puts = call("a", "put", **undone_by("send", to="them"))

    result = await rt.execute(plan(puts, call("z", "boom", dependencies=["a"])))

    assert [(c.status, c.error) for c in result.compensations] == [
        ("rejected", DENIES.format("send", "full_access"))
    ]
    assert recorder.names == ["put", "boom"]
