"""What a round of a loop does. First the behaviours of the document that the design began from, a test each;
where ours differs, the docstring says how."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placet.checks.contract import Check
from placet.inference import Scripted
from placet.inference.messages import ToolCall
from placet.inference.model import Result
from placet.ir.stop_cause import StopCause
from placet.ir.tool_spec import ToolSchema
from placet.loops.budget import LoopBudget, Spend
from placet.loops.executors.callback import CallbackExecutor
from placet.loops.executors.executor import Act
from placet.loops.gates import Allowlist, Answer, CallbackGate, Proposed, ask_gate
from placet.loops.round import Round
from placet.loops.spec import ExecutorSpec, LoopSpec, Worker
from placet.loops.verdict import REPORT
from placet.policy.budget import Budget, Exceeded
from placet.runtime.open_run import OpenRun
from placet.tools.context import Cancel
from placet.tools.tool import Tool
from tests.coder.workbench import git, user_text
from tests.loops.bench import FILES, HONEST, Bench, request_stop, spec, used, verdict, write


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, str(tmp_path / "placet.db"))


async def run(bench: Bench, turns: Any, loop: LoopSpec, **options: Any) -> Round:
    """One round."""
    with bench.engine(turns, loop, **options) as engine:
        return await engine.run_round()


def branches(bench: Bench) -> list[str]:
    """What was published."""
    return git(bench.repository, "branch", "--list", "--format=%(refname:short)", "placet/*").split()


def risky(name: str, risk: str) -> Tool:
    """A tool of the person's, of some risk."""
    return Tool.from_schema(ToolSchema(name=name, risk=risk), lambda whole: "done", trusted=True)  # type: ignore[arg-type]


# What the design began from


async def test_l1_offers_no_tool_above_read_only_and_network(bench: Bench) -> None:
    """As there; besides, each is offered the tool by which it says how far it came."""
    model = Scripted(["maker report", verdict("done"), "checker report"])
    tools = {
        "maker_tools": [risky("read", "read_only"), risky("write", "destructive")],
        "checker_tools": [risky("web", "network"), risky("format", "idempotent")],
    }
    loop = spec("L1", maker=Worker(tools=("read", "write")), checker=Worker(tools=("web", "format")))

    ended = await run(bench, model, loop, **tools)

    assert ended.outcome == "reported"
    offered = [[tool.name for tool in request.tools] for request in model.requests]
    assert offered[0] == ["read", REPORT]
    assert offered[1] == ["web", "give_verdict"]
    assert "READ-ONLY" in user_text(model.requests[0])


async def test_l3_allowlisted_verified_round_proceeds_quietly(bench: Bench) -> None:
    """There the words "verified clean" were enough; here it takes a structured verdict and a green check."""
    turns = [used(write(), 5, 3), used("made it", 5, 2), used(verdict("done"), 4, 2), used("fine", 3, 1)]

    ended = await run(bench, turns, spec(executor=ExecutorSpec(use="record")))

    assert ended.outcome == "proceeded"
    assert ended.decision is not None
    assert ended.decision.proceed
    assert ended.receipt is not None
    assert ended.receipt.kind == "tidying"
    assert "nothing else was done" in ended.receipt.summary
    assert ended.is_quiet
    assert (ended.spend.input_tokens, ended.spend.output_tokens) == (17, 8)


async def test_words_alone_verify_nothing(bench: Bench) -> None:
    """There a checker that ended its work had verified it. Here words never count."""
    ended = await run(bench, [write(), "made it", "verified clean, verdict: done"], spec())

    assert ended.outcome == "escalated"
    assert ended.verdict is None
    assert "no verdict" in ended.reason
    assert branches(bench) == []


async def test_proceeding_calls_the_executor_once_with_the_change(bench: Bench) -> None:
    seen: list[tuple[Act, str]] = []

    def act(given: Act, folder: Path) -> str:
        seen.append((given, (folder / "a.txt").read_text()))
        return "created it"

    ended = await run(bench, HONEST, spec(), executor=CallbackExecutor(act))

    [(given, text)] = seen
    assert (given.loop, given.kind, text) == ("tidy", "tidying", "right\n")
    assert given.key
    assert given.tree == ended.tree
    assert ended.outcome == "proceeded"
    assert ended.receipt is not None
    assert ended.receipt.summary == "created it"


async def test_a_failing_executor_fails_the_round(bench: Bench) -> None:
    def act(given: Act, folder: Path) -> str:
        raise RuntimeError("boom")

    ended = await run(bench, HONEST, spec(), executor=CallbackExecutor(act))

    assert ended.outcome == "failed"
    assert "the executor 'callback' failed" in ended.reason
    assert "boom" in ended.reason
    assert ended.receipt is None
    assert not ended.is_quiet


async def test_budget_exhausted_by_the_maker_skips_the_checker(bench: Bench) -> None:
    model = Scripted([used("spent too much", 4, 3), "the checker should not run"])

    ended = await run(bench, model, spec("L2", budget=LoopBudget(total_tokens=5)))

    assert (ended.outcome, ended.limit) == ("budget_exhausted", "total_tokens")
    assert ended.maker is not None
    assert ended.checker is None
    assert len(model.requests) == 1


async def test_earlier_rounds_of_this_loop_are_told_to_the_maker(bench: Bench) -> None:
    """There what was remembered was not filtered; here only the last five rounds of this loop are told."""
    top = str(bench.repository)
    with bench.engine([], spec("L1")) as engine:
        for number, name in enumerate(("other", *("tidy",) * 6)):
            said = "a state of another loop" if name == "other" else f"state number {number - 1}"
            loop = spec("L1", name=name)
            earlier = Round(id=f"r{number}", loop=name, repository=top, spec=loop, started_at=float(number))
            earlier.outcome, earlier.summary = "reported", said
            engine.rounds.begin(earlier)
    model = Scripted(["maker", verdict("done"), "x"])

    ended = await run(bench, model, spec("L1"))

    told = user_text(model.requests[0])
    assert ended.number == 7
    assert "state number 0" not in told
    assert "another loop" not in told
    assert [n for n in range(1, 6) if f"round {n + 1}: reported: state number {n}" in told] == [1, 2, 3, 4, 5]


# Levels


async def test_l2_escalates_also_what_is_verified_and_let_through_by_a_gate(bench: Bench) -> None:
    gate = CallbackGate(lambda proposed: True)

    ended = await run(bench, HONEST, spec("L2"), gate=gate)

    assert ended.outcome == "escalated"
    assert ended.verified
    assert ended.approval
    assert branches(bench) == []


async def test_a_gate_can_only_be_stricter(bench: Bench) -> None:
    ended = await run(bench, HONEST, spec(), gate=CallbackGate(lambda proposed: Answer(False, "not today")))

    assert ended.outcome == "escalated"
    assert ended.verified
    assert "not today" in ended.reason
    assert branches(bench) == []


@pytest.mark.parametrize(
    "said", [lambda p: False, lambda p: "yes", lambda p: 1, lambda p: 1 / 0, lambda p: Answer(1, "yes")]
)
async def test_a_gate_that_fails_or_gives_no_answer_says_no(said: Any) -> None:
    proposed = Proposed(
        loop="tidy", round="r", level="L3", kind="k", executor="e", summary="", tree="t", base="b"
    )

    assert not (await ask_gate(CallbackGate(said), proposed)).proceed


async def test_an_allowlist_lets_through_what_is_of_its_kinds_and_verified() -> None:
    proposed = Proposed(
        loop="tidy", round="r", level="L3", kind="k", executor="e", summary="", tree="t", base="b"
    )
    verified = msgspec.structs.replace(proposed, verified=True)

    assert (await ask_gate(Allowlist(["k"]), verified)).proceed
    assert await ask_gate(Allowlist(["k"]), proposed) == Answer(False, "it is not verified")
    assert not (await ask_gate(Allowlist(["other"]), verified)).proceed


@pytest.mark.parametrize(
    ("word", "more"),
    [("done_with_concerns", {}), ("done", {"allow": ()})],
)
async def test_what_is_not_allowed_escalates_at_l3_whatever_a_gate_says(
    bench: Bench, word: str, more: dict[str, Any]
) -> None:
    turns = [write(), "made it", verdict(word), "x"]
    options = {} if more else {"gate": CallbackGate(lambda p: True)}

    ended = await run(bench, turns, spec(**more), **options)

    assert ended.outcome == "escalated"
    assert branches(bench) == []


async def test_a_blocked_maker_escalates_without_a_checker(bench: Bench) -> None:
    call = ToolCall(name=REPORT, arguments={"verdict": "blocked", "summary": "the file is locked"})

    ended = await run(bench, [call, "I could not"], spec())

    assert ended.outcome == "escalated"
    assert ended.checker is None
    assert "blocked: the file is locked" in ended.reason
    assert ended.summary == "the file is locked"


async def test_policies_of_the_runtime_hold_for_the_act_of_a_round(bench: Bench) -> None:
    def no_commits(action: Any, state: Any) -> Any:
        return "no commits here" if action.tool == "loop_commit" else None

    ended = await run(bench, HONEST, spec(), policies=[no_commits])

    assert ended.outcome == "failed"
    assert "no commits here" in ended.reason
    assert branches(bench) == []


@pytest.mark.parametrize("more", ["", "unless_approved = true\n"])
async def test_a_gate_of_rules_escalates_what_a_rule_objects_to(bench: Bench, more: str) -> None:
    """Also one that a person may overrule."""
    rules = bench.repository / "gate.toml"
    rules.write_text(
        f'[[rule]]\nname = "quiet"\nkind = "deny_tool"\ntool = "loop_tidying"\nreason = "quiet hours"\n{more}'
    )

    ended = await run(bench, HONEST, spec(gate="policy", policies="gate.toml"))

    assert ended.outcome == "escalated"
    assert "quiet hours" in ended.reason

    rules.write_text('[[rule]]\nname = "quiet"\nkind = "deny_tool"\ntool = "other"\nreason = "x"\n')
    ended = await run(bench, HONEST, spec(gate="policy", policies="gate.toml"))
    assert ended.outcome == "proceeded"


async def test_l1_leaves_nothing_behind(bench: Bench) -> None:
    before = git(bench.repository, "for-each-ref"), git(bench.repository, "status", "--porcelain")

    ended = await run(bench, [write(), "tried", verdict("done"), "x"], spec("L1"))

    assert ended.outcome == "reported"
    assert ended.tree == ended.base_tree
    assert (git(bench.repository, "for-each-ref"), git(bench.repository, "status", "--porcelain")) == before
    assert not (bench.home / ended.id).exists()


# Freezing


async def test_what_is_committed_is_the_tree_that_was_frozen(bench: Bench) -> None:
    """Somebody changes the maker's files as soon as they are frozen: neither check nor commit sees it."""

    def meddle(round: Round, phase: str) -> None:
        if phase == "checking":
            (bench.home / round.id / "attempt-1" / "a.txt").write_text("evil\n")

    ended = await run(bench, HONEST, spec(), watch=meddle)

    assert ended.outcome == "proceeded"
    assert git(bench.repository, "show", f"{branches(bench)[0]}:a.txt") == "right\n"


async def test_a_check_that_cannot_run_here_fails_the_round_before_any_maker(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    loop = spec(checks=(Check(name="right", command="looks-right a.txt"),), may_touch=("a.txt",))
    model = Scripted(HONEST)

    broken = await run(bench, model, loop)
    (tools / "looks-right").write_text('#!/bin/sh\ngrep -q right "$1"\n')
    (tools / "looks-right").chmod(0o755)
    asked = len(model.requests)
    mended = await run(bench, model, loop)

    assert broken.outcome == "failed"
    assert "'looks-right'" in broken.reason
    assert (broken.maker, asked) == (None, 0)
    assert mended.outcome == "proceeded", mended.reason


async def test_where_the_maker_says_nothing_a_commit_says_what_the_checker_says(bench: Bench) -> None:
    turns = [write(), "Done.", verdict("done", "The word one became right."), "all is right"]

    await run(bench, turns, spec())

    subject = git(bench.repository, "log", "-1", "--format=%s", branches(bench)[0]).strip()
    assert subject == "The word one became right"


async def test_a_commit_says_what_was_changed_and_by_which_round(bench: Bench) -> None:
    """The intent of a loop stands for all its rounds: as a subject it would tell none of them apart."""
    intent = (
        "keep a.txt right at all times, whatever anybody else may have written into it since the last round"
    )
    changed = "Write right into a.txt, where somebody had written one since the last round. It is green now."
    turns = [write(), changed, verdict("done", "The file is as it should be."), "all is right"]

    ended = await run(bench, turns, spec(intent=intent))

    assert ended.outcome == "proceeded"
    subject, _, body = git(bench.repository, "log", "-1", "--format=%B", branches(bench)[0]).partition("\n\n")
    assert len(subject) <= 72
    assert changed.startswith(subject.removesuffix("…") + " ")
    assert changed in body
    assert "The file is as it should be." in body
    assert f"round {ended.number} of the loop 'tidy'" in body
    assert f"Placet-Round: {ended.id}" in body.splitlines()


async def test_in_the_sandbox_what_the_maker_left_running_changes_nothing(bench: Bench) -> None:
    command = "echo right > a.txt; (sleep 2; echo evil > a.txt) > /dev/null 2>&1 &"
    turns = [ToolCall(name="shell", arguments={"command": command}), "made", verdict("done"), "fine"]

    ended = await run(bench, turns, spec(), isolated=True)

    assert ended.outcome == "proceeded", ended.reason
    assert ended.maker is not None
    assert ended.maker.tools == ("shell",)
    assert git(bench.repository, "show", f"{branches(bench)[0]}:a.txt") == "right\n"


async def test_the_checker_cannot_change_what_is_committed(bench: Bench) -> None:
    tools = Worker(prompt="check", tools=("read_file", "write_file"))
    turns: list[Any] = [write(), "made", write(text="evil right\n"), verdict("done"), "fine"]

    ended = await run(bench, turns, spec(checker=tools))

    assert ended.outcome == "proceeded"
    assert git(bench.repository, "show", f"{branches(bench)[0]}:a.txt") == "right\n"


async def test_a_maker_that_changes_what_checks_depend_on_is_not_verified(tmp_path: Path) -> None:
    bench = Bench(tmp_path, str(tmp_path / "placet.db"), {**FILES, "check.sh": "grep -q right a.txt\n"})
    loop = spec(checks=(Check(name="script", command="sh check.sh"),))
    call = ToolCall(name="sneak", arguments={})

    def sneak(whole: dict[str, Any]) -> str:
        [folder] = bench.home.glob("*/attempt-1")
        (folder / "check.sh").write_text("true\n")
        return "done"

    tool = Tool.from_schema(ToolSchema(name="sneak", risk="idempotent"), sneak, trusted=True)
    turns = [call, write(), "made it green", verdict("done"), "x"]
    ended = await run(bench, turns, loop, maker_tools=[tool])

    assert ended.outcome == "escalated"
    assert not ended.verified
    assert ended.sealed == ["check.sh"]
    assert ended.changed == ["a.txt"]


# Budgets


def exceeded(limits: LoopBudget, spend: Spend, per: str = "round") -> Exceeded | None:
    budget = Budget(limits, name=per)
    budget.take(spend.amounts())
    return budget.exceeded()


ORDER = [
    ({"input_tokens": 1, "output_tokens": 1, "total_tokens": 1, "cost_usd": 0.01}, "input_tokens"),
    ({"output_tokens": 1, "total_tokens": 1, "cost_usd": 0.01}, "output_tokens"),
    ({"total_tokens": 1, "cost_usd": 0.01}, "total_tokens"),
    ({"cost_usd": 0.01}, "cost_usd"),
]


@pytest.mark.parametrize(("limits", "named"), ORDER)
def test_the_first_exceeded_limit_is_named(limits: dict[str, Any], named: str) -> None:
    over = exceeded(LoopBudget(**limits), Spend(input_tokens=9, output_tokens=9, cost_usd=1.0))

    assert over is not None
    assert over.limit == named


async def test_exactly_the_limit_is_not_exceeded(bench: Bench) -> None:
    turns = [used("made", 5, 5), used(verdict("done"), 3, 2), used("x", 3, 2)]

    ended = await run(bench, turns, spec("L1", budget=LoopBudget(total_tokens=20)))

    assert ended.outcome == "reported"


async def test_a_budget_is_enforced_in_the_middle_of_a_sub_run(bench: Bench) -> None:
    model = Scripted(lambda request: used(write(), 10, 10))

    ended = await run(bench, model, spec("L2", budget=LoopBudget(total_tokens=50)))

    assert (ended.outcome, ended.limit) == ("budget_exhausted", "total_tokens")
    assert len(model.requests) == 3
    assert ended.spend.total_tokens == 60


async def test_iterations_are_those_of_one_sub_run(bench: Bench) -> None:
    model = Scripted(lambda request: write())

    ended = await run(bench, model, spec("L2", budget=LoopBudget(iterations=2)))

    assert (ended.outcome, ended.limit) == ("budget_exhausted", "iterations")
    assert len(model.requests) == 2


async def test_what_was_spent_is_kept_when_a_sub_run_fails(bench: Bench) -> None:
    turns = [used(write(), 7, 3, 0.5), RuntimeError("the model is gone")]

    ended = await run(bench, turns, spec("L2"))

    assert ended.outcome == "failed"
    assert "the maker failed" in ended.reason
    assert (ended.spend.total_tokens, ended.spend.cost_usd) == (10, 0.5)
    with bench.engine([], spec()) as engine:
        assert engine.rounds.find(ended.id).spend.total_tokens == 10


async def test_what_was_spent_before_a_round_was_broken_off_counts(bench: Bench) -> None:
    loop = spec("L2", budget=LoopBudget(total_tokens=30))
    cancel = Cancel()

    def watch(round: Round, phase: str) -> None:
        if phase == "checking":
            cancel.cancel("later", hard=True)

    with bench.engine([used(write(), 9, 1), used("made", 9, 1)], loop, watch=watch) as engine:
        assert (await engine.run_round(round_id="r1", cancel=cancel)).is_open
    with bench.engine([used(verdict("done"), 9, 2), "x"], loop) as engine:
        ended = await engine.run_round(round_id="r1")

    assert (ended.outcome, ended.limit) == ("budget_exhausted", "total_tokens")
    assert ended.spend.total_tokens == 31


async def test_the_day_is_counted_over_all_rounds_of_the_loop(bench: Bench) -> None:
    day = LoopBudget(total_tokens=15)
    turns = [used("made", 5, 2), used(verdict("done"), 2, 1), used("x", 2, 1)]
    first = await run(bench, turns, spec("L1", day=day))

    second = await run(bench, [used("made", 5, 2)], spec("L1", day=day))
    third = await run(bench, [], spec("L1", day=day))

    assert first.outcome == "reported"
    assert (second.outcome, second.limit) == ("budget_exhausted", "total_tokens")
    assert "per day" in second.reason
    assert third.outcome == "budget_exhausted"
    assert third.maker is None


async def test_the_weight_of_cached_tokens_is_a_field() -> None:
    spend = Spend(input_tokens=100, cached_tokens=90, output_tokens=1)

    assert exceeded(LoopBudget(input_tokens=50), spend) is not None
    assert exceeded(LoopBudget(input_tokens=50, cached_weight=0.1), spend) is None


async def test_a_model_that_does_not_tell_exceeds_a_limit(bench: Bench) -> None:
    ended = await run(bench, [Result(text="made")], spec("L1", budget=LoopBudget(total_tokens=1000)))

    assert ended.outcome == "budget_exhausted"
    assert "does not say" in ended.reason


async def test_time_runs_out_in_the_middle_of_an_answer(bench: Bench) -> None:
    import asyncio

    async def never(request: Any) -> str:
        await asyncio.sleep(600)
        return "too late"

    ended = await run(bench, Scripted(never), spec("L2", budget=LoopBudget(time_s=0.8)))

    assert (ended.outcome, ended.limit) == ("budget_exhausted", "time_s")


async def test_a_round_that_is_to_stop_stops(bench: Bench) -> None:
    import asyncio

    async def never(request: Any) -> str:
        request_stop(engine, "r1", "the kill switch")
        await asyncio.sleep(600)
        return "too late"

    with bench.engine(Scripted(never), spec("L2")) as engine:
        ended = await engine.run_round(round_id="r1")

    assert ended.outcome == "failed"
    assert ended.reason == "stopped: the kill switch"


@pytest.mark.parametrize("cause", [StopCause.CALLER, StopCause.SIGNAL, StopCause.SHUTDOWN])
async def test_the_words_of_a_cancel_end_no_round(bench: Bench, cause: StopCause) -> None:
    cancel = Cancel()
    cancel.cancel("stopped: the time of the round is over", hard=True, cause=cause)

    with bench.engine([], spec("L2")) as engine:
        left = await engine.run_round(round_id="r1", cancel=cancel)

    assert left.is_open


async def test_a_round_never_raises(bench: Bench, tmp_path: Path) -> None:
    ended = await run(bench, HONEST, spec(executor=ExecutorSpec(use="callback")))
    assert ended.outcome == "failed"
    assert "callback" in ended.reason

    bench.repository = tmp_path / "nowhere"
    with bench.engine(HONEST, spec()) as engine:
        ended = await engine.run_round()
    assert ended.outcome == "failed"
    assert "nowhere" in ended.reason


async def test_the_outcome_is_kept_before_the_run_ends(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    class Died(BaseException):
        pass

    async def dies(self: OpenRun, *what: Any, **more: Any) -> Any:
        if self.run_id == "r1":
            raise Died
        return await end(self, *what, **more)

    end = OpenRun.end
    monkeypatch.setattr(OpenRun, "end", dies)
    with bench.engine(HONEST, spec()) as engine:
        with pytest.raises(Died):
            await engine.run_round(round_id="r1")
        kept = engine.rounds.find("r1")

    assert (kept.outcome, kept.receipt is not None) == ("proceeded", True)


async def test_a_hook_is_given_to_the_maker_as_data(bench: Bench) -> None:
    from placet.loops.spec import Hooks

    model = Scripted(["made", verdict("done"), "x"])

    ended = await run(bench, model, spec("L1", hooks=Hooks(before="echo issue 17 is open")))

    assert ended.outcome == "reported"
    assert "issue 17 is open" in user_text(model.requests[0])


def test_a_limit_on_cost_says_that_the_price_is_not_known() -> None:
    found = exceeded(LoopBudget(cost_usd=1), Spend(input_tokens=5, unpriced=1), per="day")
    untold = exceeded(LoopBudget(cost_usd=1), Spend(untold=1, unpriced=1))

    assert found is not None
    assert (found.limit, found.per) == ("cost_usd", "day")
    assert "price of the model is not known" in found.words
    assert "models.prices" in found.words
    assert untold is not None
    assert "does not say what it used" in untold.words
