"""An agent's run: its words, the tools on its list and no other, its limits, its goal."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placet import AgentResult, AgentRunner, AgentSpec, Cancel, CostBudget, Runtime, basic_tools, tool
from placet.agents.kept import AgentKept
from placet.agents.spec import AgentLimits, Goal
from placet.durable.memory import MemoryJournal
from placet.errors import UsageError
from placet.inference import Scripted
from placet.inference.messages import System, ToolCall, ToolResult, User
from placet.inference.model import Request, Result
from placet.inference.usage import Usage
from placet.ir.proposal import Proposal
from placet.policy.permission import Permissions, Posture
from placet.sandbox.confinement import Isolation
from placet.sandbox.workspace import Workspace
from placet.testing import RecordingTool


def spec(**more: Any) -> AgentSpec:
    return AgentSpec(**{"id": "t", "identity": "You answer.", "standing_goal": "help", **more})


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name=name, arguments=arguments)


def results(model: Scripted) -> list[str]:
    """What the model was told of its calls, in its last request."""
    return [each.text for each in model.requests[-1].messages if isinstance(each, ToolResult)]


async def test_an_answer_without_tools_is_the_output() -> None:
    model = Scripted(["the answer is 42"])

    result = await AgentRunner(Runtime(), model, spec()).run("what is the answer?")

    assert (result.output, result.called, result.error) == ("the answer is 42", (), None)
    assert result.succeeded
    assert model.requests[0].tools == ()
    assert model.requests[0].temperature == 0.0
    assert model.requests[0].max_tokens == 2048


async def test_identity_and_standing_goal_come_first() -> None:
    model = Scripted(["yes"])

    await AgentRunner(Runtime(), model, spec(identity="  You sort.  ")).run("go")

    [first] = [each for each in model.requests[0].messages if isinstance(each, System)]
    assert first.text.startswith("You sort.\n\nYour standing goal: help")


async def test_an_allowed_tool_runs(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("secret content")
    model = Scripted([call("read_file", path="data.txt"), "the file says secret content"])
    runtime = Runtime(builtin=basic_tools(tmp_path), folder=str(tmp_path))

    result = await AgentRunner(runtime, model, spec(tools=("read_file",))).run("read data.txt")

    assert "secret content" in result.output
    assert result.called == ("read_file",)
    assert "secret content" in results(model)[0]
    assert [each.name for each in model.requests[0].tools] == ["read_file"]


async def test_an_agent_with_a_small_model_is_guided_and_says_what_it_rests_on(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("7 boxes")
    runtime = Runtime(builtin=basic_tools(tmp_path), folder=str(tmp_path))
    agent = spec(tools=("read_file", "grep"))

    small = await AgentRunner(runtime, Scripted(["7"]), agent, profile="small").run("What is in data.txt?")
    large = await AgentRunner(runtime, Scripted(["7"]), agent).run("What is in data.txt?")

    assert (small.status, small.called, small.looked) == ("success", ("read_file",), ("t1c1",))
    assert (large.status, large.called, large.lacks) == ("unsupported", (), ("reading",))


async def test_a_tool_that_failed_was_called() -> None:
    failing = RecordingTool("look", answers=[RuntimeError("no")], risk="read_only")
    model = Scripted([call("look"), "it failed"])

    result = await AgentRunner(Runtime([failing]), model, spec(tools=("look",))).run("look")

    assert result.called == ("look",)


async def test_a_tool_outside_the_list_is_answered_counted_and_never_run(tmp_path: Path) -> None:
    model = Scripted(
        [
            call("write_file", path="x", text="y"),
            [call("write_file"), call("nonsense")],
            "done",
        ]
    )
    runtime = Runtime(builtin=basic_tools(tmp_path), folder=str(tmp_path), permissions="trusting")

    result = await AgentRunner(runtime, model, spec(tools=("read_file",)), posture="full_access").run("write")

    assert not (tmp_path / "x").exists()
    assert results(model) == [
        "rejected: tool 'write_file' is not allowed for this agent",
        "rejected: tool 'write_file' is not allowed for this agent",
        "rejected: tool 'nonsense' is not allowed for this agent",
    ]
    assert result.refused == {"write_file": 2, "nonsense": 1}
    assert result.called == ()
    assert result.succeeded


@pytest.mark.parametrize(
    ("allowed", "denied", "offered"),
    [
        (("nonexistent",), (), []),
        ((), (), []),
        (("look",), (), ["look"]),
        (("look",), ("look",), []),
        (("look", "mark"), ("mark",), ["look"]),
    ],
)
async def test_the_list_is_strict_and_a_denial_wins(
    allowed: tuple[str, ...], denied: tuple[str, ...], offered: list[str]
) -> None:
    tools = [RecordingTool("look", risk="read_only"), RecordingTool("mark")]
    runner = AgentRunner(
        Runtime(tools),
        model := Scripted([call("look"), call("mark"), "done"]),
        spec(tools=allowed, denied_tools=denied),
        posture="full_access",
    )

    await runner.run("go")

    assert runner.offered() == offered
    assert [each.name for each in model.requests[0].tools] == offered
    assert [each.name for each in tools if each.calls] == offered


def test_missing_tools_are_named() -> None:
    assert AgentRunner(Runtime(), Scripted([]), spec(tools=("gone",))).missing == ("gone",)


ALLOWED = ("read_file", "café.look", "Straße")
FORMS = ("NFC", "NFD", "NFKC", "NFKD")
LOOKALIKES = str.maketrans({"e": "е", "a": "а", "o": "о", "i": "і", "_": "‿", "d": "ԁ", ".": "․", "c": "с"})


@st.composite
def near_names(draw: st.DrawFn) -> str:
    """A name that nearly is one on the list."""
    name = draw(st.sampled_from(ALLOWED))
    odd = draw(
        st.sampled_from(["\u200b", "\u00ad", "\u0301", " ", "\t", "\n", "\x00", "\ufeff", "*", "\u202e"])
    )
    at = draw(st.integers(0, len(name)))
    change = draw(st.integers(0, 9))
    match change:
        case 0:
            return name.upper()
        case 1:
            return name.swapcase()
        case 2:
            return name[:at] + odd + name[at:]
        case 3:
            return name[: max(at - 1, 0)] + name[at:]
        case 4:
            letters = [c.translate(LOOKALIKES) if draw(st.booleans()) else c for c in name]
            return "".join(letters)
        case 5:
            return unicodedata.normalize(draw(st.sampled_from(FORMS)), name)
        case 6:
            return name.casefold()
        case 7:
            return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in name)
        case 8:
            return draw(st.sampled_from(["write_file", "shell", "read*", "*", "", f"{name} {name}", "."]))
        case _:
            return draw(st.text(max_size=12))


SEEN: list[str] = []


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(near_names(), min_size=1, max_size=5), st.booleans())
async def test_nothing_outside_the_exact_list_ever_reaches_a_tool(names: list[str], denies: bool) -> None:
    others = ["write_file", "shell", "READ_FILE", "read_fil", "strasse", "STRASSE", "café.look", "read_file "]
    others = [name for name in others if name not in ALLOWED]
    tools = {name: RecordingTool(name, risk="read_only") for name in (*ALLOWED, *dict.fromkeys(others))}
    denied = ALLOWED[:1] if denies else ()
    allowed = set(ALLOWED) - set(denied)
    model = Scripted([[call(name) for name in names], "done"])
    runner = AgentRunner(
        Runtime(list(tools.values())),
        model,
        spec(tools=ALLOWED, denied_tools=denied),
        posture="full_access",
    )

    result = await runner.run("go")

    ran = [name for name, each in tools.items() for _ in each.calls]
    assert sorted(ran) == sorted(name for name in names if name in allowed)
    assert sorted(result.called) == sorted(ran)
    assert sum(result.refused.values()) == len([name for name in names if name not in allowed])
    answers = dict(zip(names, results(model), strict=True))
    for name, answer in answers.items():
        assert answer.endswith("is not allowed for this agent") == (name not in allowed)
    SEEN.extend(name for name in names if name not in ALLOWED)


def test_the_names_tried_were_near_ones() -> None:
    assert len({name for name in SEEN if name}) > 50
    assert any(unicodedata.normalize("NFKC", name) in ALLOWED for name in SEEN)
    assert any(name.casefold() in ALLOWED for name in SEEN)


async def test_the_runtime_of_an_agent_knows_no_other_tool() -> None:
    mark = RecordingTool("mark")
    runner = AgentRunner(Runtime([mark]), Scripted([]), spec(tools=("look",)))

    result = await runner.runtime.execute({"actions": [{"id": "a", "tool": "mark"}]})

    assert result.outcome != "succeeded"
    assert mark.calls == []


async def test_rules_of_the_runtime_hold_for_an_agent() -> None:
    look = RecordingTool("look", risk="read_only")
    runtime = Runtime([look])
    runtime.add_policy("quiet", lambda action, state: "no looking")
    model = Scripted([call("look"), "refused"])

    result = await AgentRunner(runtime, model, spec(tools=("look",))).run("look")

    assert look.calls == []
    assert (result.denied, result.refused) == (("look",), {})


async def test_more_than_reading_needs_an_approval_unless_it_is_allowed() -> None:
    def ran(runtime: Runtime, **more: Any) -> AgentRunner:
        return AgentRunner(runtime, Scripted([call("mark"), "done"]), spec(tools=("mark",)), **more)

    asked, allowed, named = RecordingTool("mark"), RecordingTool("mark"), RecordingTool("mark")
    own = Permissions(standing=Posture.named("read_only"), agents={"t": Posture.named("full_access")})

    first = await ran(Runtime([asked])).run("go")
    await ran(Runtime([allowed]), posture="full_access").run("go")
    await ran(Runtime([named], permissions=own)).run("go")

    assert (asked.calls, first.denied) == ([], ("mark",))
    assert len(allowed.calls) == len(named.calls) == 1


async def test_turns_run_out_after_twelve() -> None:
    look = RecordingTool("look", risk="read_only")
    model = Scripted(lambda request: call("look", n=len(request.messages)))
    runner = AgentRunner(Runtime([look]), model, spec(tools=("look",)))

    result = await runner.run("look")

    assert (result.status, result.turns, result.succeeded) == ("max_turns", 12, False)


async def test_limits_of_the_spec_hold() -> None:
    model = Scripted(["fine"])
    limits = AgentLimits(answer_tokens=77, turns=1)

    await AgentRunner(Runtime(), model, spec(limits=limits)).run("go")

    assert model.requests[0].max_tokens == 77


async def test_a_model_that_fails_ends_the_run_with_its_reason() -> None:
    result = await AgentRunner(Runtime(), Scripted([]), spec()).run("go")

    assert result.status == "error"
    assert result.error


async def test_what_an_agent_takes_counts_for_a_budget_of_others() -> None:
    runtime = Runtime()
    model = Scripted([Result(text="one", usage=Usage(input=60, output=50)), "two"])
    about = Proposal(id="team", source="team", actions=())
    async with runtime.open_run(about, run_id="team", budget=CostBudget(max_tokens=100)) as team:
        first = await AgentRunner(runtime, model, spec()).run("a", budget=team)
        second = await AgentRunner(runtime, model, spec()).run("b", budget=team)
        await team.end("succeeded")

    assert first.succeeded
    assert (second.status, len(model.requests)) == ("budget", 1)


async def test_the_time_of_others_is_a_limit_on_the_agent() -> None:
    async def never(request: Request) -> Any:
        await asyncio.Event().wait()

    runtime = Runtime()
    about = Proposal(id="team", source="team", actions=())
    async with runtime.open_run(about, run_id="team", budget=CostBudget(max_duration_ms=300)) as team:
        result = await AgentRunner(runtime, Scripted(never), spec()).run("a", budget=team)
        await team.end("partial")

    assert (result.status, result.error) == ("budget", "the limit on time was reached (0.3 s)")


async def test_several_messages_are_one_conversation() -> None:
    model = Scripted(["Ada, hello.", "You are Ada."])
    runner = AgentRunner(Runtime(), model, spec())

    async with runner.conversation() as conversation:
        first = await conversation.say("I am Ada.")
        second = await conversation.say("Who am I?")

    assert (first.output, second.output) == ("Ada, hello.", "You are Ada.")
    assert conversation.result.turns == 2
    assert "I am Ada." in str(model.requests[1].messages)


@pytest.mark.parametrize(("second", "together"), [(0.25, 0.75), (None, None)])
async def test_what_several_messages_cost_is_known_of_all_or_not_at_all(
    second: float | None, together: float | None
) -> None:
    usage = Usage(input=1, output=1)
    model = Scripted(
        [Result(text="one", usage=usage, cost=0.5), Result(text="two", usage=usage, cost=second)]
    )

    async with AgentRunner(Runtime(), model, spec()).conversation() as conversation:
        assert (await conversation.say("a")).cost_usd == 0.5
        assert (await conversation.say("b")).cost_usd == second

    assert conversation.result.cost_usd == together


# Goals


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    workspace = Workspace(tmp_path)
    yield workspace
    workspace.close()


def aiming(folder: Workspace, model: Scripted, check: str = "test -s out.txt", **more: Any) -> AgentRunner:
    runtime = more.pop("runtime", None) or Runtime(builtin=basic_tools(folder), folder=str(folder.folder))
    goal = Goal(check=check, **{"max_iterations": 3, **more})
    return AgentRunner(
        runtime,
        model,
        spec(tools=("write_file",), goal=goal),
        posture="sandbox_edit",
        workspace=folder,
        isolation=Isolation(),
    )


async def test_a_goal_drives_the_agent_until_its_check_passes(folder: Workspace) -> None:
    model = Scripted(["done", call("write_file", path="out.txt", text="x"), "now it is there"])

    result = await aiming(folder, model, "cat out.txt >&2").run("make out.txt")

    assert result.succeeded
    assert result.goal is not None
    assert (result.goal.met, result.goal.iterations, result.goal.reason) == (True, 2, "")
    assert result.turns == 3
    told = str([each for each in model.requests[1].messages if isinstance(each, User)][-1])
    assert "exit code 1" in told
    assert "No such file" in told


async def test_a_goal_is_given_up_after_its_iterations(folder: Workspace) -> None:
    model = Scripted(["done", "really", "truly"])

    result = await aiming(folder, model).run("make out.txt")

    assert (result.status, result.succeeded) == ("unmet", False)
    assert result.goal is not None
    assert (result.goal.met, result.goal.iterations) == (False, 3)
    assert result.goal.reason == "it ended with exit code 1"
    assert "after 3 iterations" in str(result.error)


async def test_a_check_that_takes_too_long_has_not_passed(folder: Workspace) -> None:
    result = await aiming(folder, Scripted(["done"]), "sleep 30", max_iterations=1, timeout_s=0.2).run("go")

    assert result.goal is not None
    assert not result.goal.met
    assert result.goal.reason


async def test_the_time_of_a_run_ends_the_check_of_its_goal(folder: Workspace) -> None:
    goal = Goal(check="exec sleep 600", timeout_s=600)
    runner = AgentRunner(
        Runtime(),
        Scripted(["done"]),
        spec(goal=goal, limits=AgentLimits(time_s=1.0)),
        workspace=folder,
        isolation=Isolation("none"),
    )

    result = await runner.run("go")

    assert (result.status, result.error) == ("budget", "the limit on time was reached (1 s)")
    assert result.goal is not None
    assert (result.goal.met, result.goal.reason) == (False, result.error)


async def test_run_sync_inside_a_loop_says_what_to_await() -> None:
    with pytest.raises(UsageError, match=r"await runner\.run"):
        AgentRunner(Runtime(), Scripted(["done"]), spec()).run_sync("go")


async def test_a_model_that_fails_leaves_the_goal_unmet(folder: Workspace) -> None:
    result = await aiming(folder, Scripted([])).run("go")

    assert result.status == "error"
    assert result.goal is not None
    assert (result.goal.met, result.goal.iterations) == (False, 1)


def test_a_goal_needs_a_folder() -> None:
    with pytest.raises(UsageError, match="workspace"):
        AgentRunner(Runtime(), Scripted([]), spec(goal=Goal(check="true")))


# Going on


async def test_a_run_that_was_stopped_goes_on_as_it_began(folder: Workspace) -> None:
    journal, cancel = MemoryJournal(), Cancel()

    @tool(risk="read_only")
    def look() -> str:
        cancel.cancel("enough")
        return "seen"

    runtime = Runtime([look], journal=journal)
    model = Scripted([call("look"), "finished"])
    agent = spec(tools=("look",))

    first = await AgentRunner(runtime, model, agent).run("go", run_id="r1", cancel=cancel)
    second = await AgentRunner(runtime, model, agent).resume("r1")
    again = await AgentRunner(runtime, Scripted([]), agent).resume("r1")

    assert first.status == "cancelled"
    assert (second.output, second.called, second.turns) == ("finished", ("look",), 2)
    assert (again.output, again.called, again.succeeded) == ("finished", ("look",), True)


async def test_a_goal_that_was_met_is_told_again(folder: Workspace) -> None:
    runtime = Runtime(builtin=basic_tools(folder), folder=str(folder.folder), journal=MemoryJournal())
    await aiming(folder, Scripted(["a", "b"]), "test -e x || ! touch x", runtime=runtime).run(
        "go", run_id="r"
    )

    again = await aiming(folder, Scripted([]), "test -e x || ! touch x", runtime=runtime).resume("r")

    assert again.goal is not None
    assert (again.goal.met, again.goal.iterations) == (True, 2)


async def test_another_agent_does_not_go_on_with_a_run() -> None:
    runtime = Runtime(journal=MemoryJournal())
    await AgentRunner(runtime, Scripted([]), spec()).run("go", run_id="r")

    with pytest.raises(UsageError, match="as it was then"):
        await AgentRunner(runtime, Scripted(["x"]), spec(identity="You are another.")).resume("r")


async def test_a_run_asks_no_less_when_it_goes_on() -> None:
    mark = RecordingTool("mark")
    runtime = Runtime([mark], journal=MemoryJournal())
    await AgentRunner(runtime, Scripted([]), spec(tools=("mark",)), posture="read_only").run("go", run_id="r")

    model = Scripted([call("mark"), "done"])
    result = await AgentRunner(runtime, model, spec(tools=("mark",)), posture="full_access").resume("r")

    assert mark.calls == []
    assert result.denied == ("mark",)


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_nothing_to_do_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="nothing to do"):
        await AgentRunner(Runtime(), Scripted(["x"]), spec()).run(text)


def test_a_result_is_json() -> None:
    data = AgentResult(output="x", status="unmet").to_dict()

    assert data["succeeded"] is False
    assert AgentKept(spec=spec(), task="x").about("r").context["agent"] == "t"
    assert re.fullmatch(r"agent t", str(AgentKept(spec=spec(), task="x").about("r").source))


async def test_a_tool_of_the_list_that_is_not_there_is_neither_refused_nor_denied() -> None:
    runtime = Runtime(journal=MemoryJournal())
    model = Scripted([call("gone"), call("other"), "done"])
    agent = AgentRunner(runtime, model, spec(tools=("gone",)))

    result = await agent.run("go", run_id="r")

    assert (result.missing, result.refused, result.denied) == ({"gone": 1}, {"other": 1}, ())
    assert "there is no tool 'gone' here" in results(model)[0]
    assert await agent.resume("r") == result


async def test_what_waits_for_an_unknown_outcome_says_how_far_it_came() -> None:
    runtime = Runtime(journal=MemoryJournal())
    cancel = Cancel()

    @tool(risk="read_only")
    def look() -> str:
        """Look."""
        return "seen"

    @tool(risk="network")
    async def send() -> str:
        """Somebody stops it while it is under way."""
        cancel.cancel("enough", hard=True)
        await asyncio.sleep(3600)
        return "sent"

    for each in (look, send):
        runtime.tools.add(each)
    model = Scripted([call("look"), call("other"), call("send"), "done"])
    agent = AgentRunner(runtime, model, spec(tools=("look", "send")), posture="full_access")
    await agent.run("go", run_id="r", cancel=cancel)

    for _ in range(2):
        waits = await agent.resume("r")
        assert (waits.status, waits.waiting[0].kind) == ("waiting", "unknown_outcome")
        assert (waits.turns, waits.called, waits.refused) == (3, ("look", "send"), {"other": 1})
    done = await agent.resume("r", decide={waits.waiting[0].action_id: "done"})
    assert (done.status, done.turns, done.called) == ("success", 4, ("look", "send"))
