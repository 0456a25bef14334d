"""Scenarios: fresh folders, k runs at once, several messages, what passes and what does not."""

from __future__ import annotations

import asyncio
import os
from xml.etree import ElementTree

import pytest

from placet import Runtime, tool
from placet.agents.report import Report, ScenarioReport, Trial, junit
from placet.agents.scenarios import NOBODY, Trying
from placet.agents.spec import AgentLimits, Exchange, Goal, Scenario
from placet.approvals.memory import MemoryApprovals
from placet.errors import UsageError
from placet.inference import Scripted
from placet.inference.messages import ToolResult, User
from placet.inference.model import Request
from placet.ir.proposal import Proposal
from placet.ir.tool_spec import Risk
from placet.policy.budget import CostBudget
from placet.sandbox.confinement import Isolation
from placet.tools.context import Cancel
from tests.agents.trying import NOT_KEPT_IN, call, last_said, spec, told, trying

HELLO = Scenario(name="greets", input="hi", expect="hello")


async def test_a_scenario_passes_when_the_answer_contains_what_is_expected_in_any_case() -> None:
    report = await trying(["HELLO there, friend!"]).try_all(spec(HELLO))

    assert report.all_passed
    assert report.scenarios[0].trials[0].output == "HELLO there, friend!"


async def test_a_scenario_fails_with_what_was_expected_and_what_came_cut() -> None:
    report = await trying(["no " * 500]).try_all(spec(HELLO))

    assert not report.all_passed
    (failure,) = report.failures
    assert failure.startswith("scenario 'greets': expected an answer containing 'hello', got 'no no")
    assert len(failure) < 400


async def test_an_answer_that_fits_is_not_enough_if_the_run_did_not_end_in_success() -> None:
    model = Scripted(lambda _: call("read_file", path="hello"))

    report = await trying(model).try_all(spec(Scenario(input="hi", expect="turn"), tools=["read_file"]))

    trial = report.scenarios[0].trials[0]
    assert not trial.passed
    assert trial.status in ("max_turns", "stuck")
    assert "expected that it ends in success" in trial.failures[0]


async def test_a_model_that_fails_fails_the_scenario_and_not_the_report() -> None:
    report = await trying([]).try_all(spec(HELLO))

    assert report.passed == 0
    assert report.scenarios[0].trials[0].status == "error"


async def test_each_run_has_a_fresh_folder_with_the_files_of_the_scenario() -> None:
    """A file that one run leaves is not seen by another, and nothing is left when all is over."""
    folders: list[str] = []

    def answer(request: Request) -> object:
        results = [each for each in request.messages if isinstance(each, ToolResult)]
        if not results:
            return call("list_dir", path=".")
        if len(results) == 1:
            return call("write_file", path="left.txt", text="left")
        return results[0].text

    def tools(workspace, isolation):  # type: ignore[no-untyped-def]
        from placet.tools.builtin import basic_tools

        folders.append(str(workspace.folder))
        return basic_tools(workspace, isolation=isolation)

    asked = Scenario(
        input="look",
        expect="a.txt",
        files={"a.txt": "a", "sub/b.txt": "b"},
        check="test -f left.txt && test $(ls | wc -l) = 3",
    )
    report = await trying(answer, make_tools=tools, at_once=1).try_all(
        spec(asked, tools=["list_dir", "write_file"]), k=3
    )

    assert report.all_passed, report.failures
    assert all("left" not in trial.output for trial in report.scenarios[0].trials)
    assert len(set(folders)) == 3
    assert not any(os.path.exists(folder) for folder in folders)  # noqa: ASYNC240


async def test_runs_really_overlap_as_far_as_they_may() -> None:
    barrier = asyncio.Barrier(3)

    @tool(risk="read_only")
    async def meet() -> str:
        """Wait until three are here."""
        await asyncio.wait_for(barrier.wait(), 20)
        return "met"

    def answer(request: Request) -> object:
        results = [each.text for each in request.messages if isinstance(each, ToolResult)]
        return f"they {results[0]}" if results else call("meet")

    report = await trying(answer, runtime=Runtime(tools=[meet]), at_once=3).try_all(
        spec(Scenario(input="meet", expect="they met"), tools=["meet"]), k=3
    )

    assert report.all_passed, report.failures
    assert report.scenarios[0].trials[0].called == ("meet",)


async def test_no_more_run_at_once_than_may() -> None:
    running = most = 0

    async def answer(_: Request) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        return "hello"

    await trying(answer, at_once=2).try_all(spec(HELLO), k=6)

    assert most == 2


async def test_pass_k_is_that_all_k_runs_passed() -> None:
    report = await trying(["hello", "bye", "hello"], at_once=1).try_all(spec(HELLO), k=3)

    (scenario,) = report.scenarios
    assert (scenario.times, scenario.passed, report.passed) == (2, False, 0)


async def test_several_messages_are_one_conversation_and_each_is_judged() -> None:
    def answer(request: Request) -> str:
        said = [str(each.content) for each in request.messages if isinstance(each, User)]
        return f"you said {' / '.join(said)}"

    both = Scenario(
        turns=(Exchange(input="one", expect="one"), Exchange(input="two", expect="one")), expect="two"
    )
    assert (await trying(answer).try_all(spec(both))).all_passed

    wrong = Scenario(turns=(Exchange(input="one", expect="one"), Exchange(input="two", expect="three")))
    report = await trying(answer).try_all(spec(wrong))
    assert "message 2: expected an answer containing 'three'" in report.failures[0]


async def test_tools_expected_beside_turns_are_those_of_all_turns() -> None:
    def answer(request: Request) -> object:
        is_back = any(isinstance(each, ToolResult) for each in request.messages)
        return "done" if is_back else call("calculate", expression="1+1")

    both = Scenario(
        turns=(Exchange(input="one"), Exchange(input="two")), called=("calculate",), not_called=("shell",)
    )
    report = await trying(answer).try_all(spec(both, tools=["calculate"]))

    assert report.all_passed, report.failures


async def test_a_check_command_looks_at_what_the_agent_left_in_the_real_sandbox() -> None:
    def answer(request: Request) -> object:
        is_back = any(isinstance(each, ToolResult) for each in request.messages)
        return "done" if is_back else call("write_file", path="out.txt", text=last_said(request))

    checked = [
        Scenario(name="right", input="right", check="grep -q right out.txt"),
        Scenario(name="wrong", input="left", check="cat out.txt; grep -q right out.txt"),
    ]
    report = await trying(answer, isolation=None).try_all(spec(*checked, tools=["write_file"]))

    assert [each.passed for each in report.scenarios] == [True, False]
    assert "exit code 1; it wrote 'left'" in report.failures[0]


async def test_a_goal_drives_the_agent_in_a_scenario_too() -> None:
    def answer(request: Request) -> object:
        results = sum(isinstance(each, ToolResult) for each in request.messages)
        if "not done" in last_said(request) and not results:
            return call("write_file", path="made.txt", text="x")
        return "finished"

    driven = spec(
        Scenario(input="go", expect="finished"),
        tools=["write_file"],
        goal=Goal(check="test -f made.txt", max_iterations=2),
    )

    assert (await trying(answer).try_all(driven)).all_passed


async def test_scenarios_share_the_budget_of_a_run() -> None:
    runtime = Runtime()
    model = Scripted(lambda _: told("hello", 100))

    async with runtime.open_run(Proposal(), budget=CostBudget(max_tokens=250)) as run:
        report = await Trying(runtime, model, isolation=NOT_KEPT_IN, at_once=1).try_all(
            spec(HELLO), k=5, budget=run
        )

    assert [trial.passed for trial in report.scenarios[0].trials] == [True, True, True, False, False]
    assert len(model.requests) == 3
    assert "tokens" in report.failures[0]


@pytest.mark.parametrize(
    ("agent", "options", "says"),
    [
        (spec(), {}, "has no scenarios"),
        (spec(HELLO), {"k": 0}, "k is 0"),
        (spec(HELLO), {"only": ["none"]}, "no scenario 'none'"),
        (spec(Scenario(input="x")), {}, "nothing is expected"),
    ],
)
async def test_what_cannot_be_tried_is_refused_before_anything_is_asked(agent, options, says) -> None:  # type: ignore[no-untyped-def]
    model = Scripted(["hello"])

    with pytest.raises(UsageError, match=says):
        await trying(model).try_all(agent, **options)

    assert model.requests == []


async def test_only_those_that_are_named_run() -> None:
    report = await trying(["hello"]).try_all(spec(HELLO, Scenario(input="x", expect="y")), only=["greets"])

    assert [each.name for each in report.scenarios] == ["greets"]


async def test_no_scenario_can_take_the_number_of_another_and_each_keeps_its_own_runs() -> None:
    taken = spec(Scenario(input="a", expect="never"), Scenario(name="#1", input="b", expect="hello"))

    with pytest.raises(UsageError, match=r"scenarios\[1\].name: '#1' is what a scenario without a name"):
        await trying(["hello", "hello"]).try_all(taken)
    report = await trying(["hello", "hello"]).try_all(
        spec(Scenario(input="a", expect="never"), Scenario(name="#one", input="b", expect="hello"))
    )
    assert [(each.name, each.passed) for each in report.scenarios] == [("#1", False), ("#one", True)]


@pytest.mark.parametrize("risk", ["idempotent", "network", "destructive"])
@pytest.mark.parametrize("place", [None, "/elsewhere"])
async def test_a_tool_that_is_not_kept_in_to_the_folder_is_refused_and_the_run_no_success(
    risk: Risk, place: str | None
) -> None:
    """Also where commands are certainly kept in, and whatever the model says of it afterwards."""
    ran: list[str] = []

    @tool(risk=risk)
    def put(path: str) -> str:
        """Write somewhere."""
        ran.append(path)
        return "done"

    put.confined_to = place
    put.trusted = True

    def answer(request: Request) -> object:
        is_back = any(isinstance(each, ToolResult) for each in request.messages)
        return "all done" if is_back else call("put", path="a.txt")

    report = await trying(answer, runtime=Runtime(tools=[put]), isolation=None).try_all(
        spec(Scenario(input="go", expect="done"), tools=["put"])
    )

    assert ran == []
    assert report.failures == [f"scenario '#1': it called 'put': {NOBODY}"]


async def test_nobody_is_asked_in_a_scenario_even_where_there_are_people() -> None:
    @tool(risk="destructive")
    def put() -> str:
        """Write somewhere."""
        return "done"

    def person(*_: object) -> object:
        raise AssertionError("asked")

    def answer(request: Request) -> object:
        is_back = any(isinstance(each, ToolResult) for each in request.messages)
        return "done" if is_back else call("put")

    runtime = Runtime(tools=[put], approvals=MemoryApprovals(), person=person)
    report = await trying(answer, runtime=runtime).try_all(
        spec(Scenario(input="go", expect="done"), tools=["put"])
    )

    assert NOBODY in report.failures[0]


SLOW = (
    Scenario(input="go", regex="(a+)+$"),
    Scenario(input="go", check="exec sleep 600"),
    Scenario(turns=(Exchange(input="go", check="exec sleep 600"),)),
)


@pytest.mark.parametrize("scenario", SLOW)
async def test_the_time_of_all_ends_what_is_looked_at(scenario: Scenario) -> None:
    runtime, folders = Runtime(), []

    async with runtime.open_run(Proposal(), budget=CostBudget(max_duration_ms=1000)) as run:
        report = await trying(
            ["a" * 60 + "b"],
            runtime=runtime,
            make_tools=lambda workspace, _: folders.append(str(workspace.folder)) or (),
        ).try_all(spec(scenario), budget=run)

    assert "not looked at to the end: the limit on time was reached (1 s)" in report.failures[0]
    assert len(folders) == 1
    assert not os.path.exists(folders[0])  # noqa: ASYNC240


@pytest.mark.parametrize("scenario", SLOW)
async def test_whoever_stops_it_ends_what_is_looked_at(scenario: Scenario) -> None:
    cancel = Cancel()

    def answer(_: Request) -> str:
        asyncio.get_running_loop().call_later(0.2, cancel.cancel, "enough")
        return "a" * 60 + "b"

    report = await trying(answer).try_all(spec(scenario), cancel=cancel)

    assert not report.all_passed
    assert "enough" in report.failures[0]


async def test_no_check_takes_longer_than_the_agent_may() -> None:
    report = await trying(["done"]).try_all(spec(SLOW[1], limits=AgentLimits(time_s=1.0)))

    assert "expected that 'exec sleep 600' passes" in report.failures[0]


async def test_the_time_of_all_ends_the_check_of_a_goal() -> None:
    runtime = Runtime()
    agent = spec(Scenario(input="go", expect="done"), goal=Goal(check="exec sleep 600", timeout_s=600))

    async with runtime.open_run(Proposal(), budget=CostBudget(max_duration_ms=1000)) as run:
        report = await trying(["done"], runtime=runtime).try_all(agent, budget=run)

    assert report.scenarios[0].trials[0].status == "budget"
    assert "the limit on time was reached (1 s)" in report.failures[0]


# Reports


def test_junit_parses_back_whatever_a_model_wrote() -> None:
    wild = "a < b & \x00\x1b[31m ]]> \ud800 \uffff \u202e 'q' \"p\""
    trials = (
        Trial(number=1, passed=True, status="success", output=wild, seconds=1.5),
        Trial(number=2, passed=False, failures=(wild, "again"), status="success", output=wild),
    )
    report = Report(
        agent="t", k=2, scenarios=(ScenarioReport(name=wild, input="x", trials=trials),), seconds=2.0
    )

    top = ElementTree.fromstring(junit([report]).encode())

    assert (top.get("tests"), top.get("failures")) == ("2", "1")
    suite = top.find("testsuite")
    assert suite is not None
    assert suite.get("name") == "t"
    cases = suite.findall("testcase")
    assert [case.find("failure") is not None for case in cases] == [False, True]
    assert (cases[0].get("name") or "").endswith("[1 of 2]")
    assert cases[0].get("time") == "1.500"
    text = cases[1].findtext("failure") or ""
    assert "a < b & \\x00" in text
    assert "again" in text


async def test_a_report_is_json_with_what_follows_from_it() -> None:
    report = await trying([told("hello", 10)]).try_all(spec(HELLO))

    data = report.as_json()

    assert (data["passed"], data["of"], data["all_passed"], data["tokens"]) == (1, 1, True, 10)
    assert data["scenarios"][0]["passed"] is True


def test_isolation_is_required_unless_somebody_says_otherwise() -> None:
    assert Trying(Runtime(), Scripted([])).isolation.required == "process"
    assert Trying(Runtime(), Scripted([]), isolation=Isolation("none")).isolation.required == "none"
