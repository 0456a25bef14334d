"""A run that a model led is told turn by turn: what it asked for, who decided, how it ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from placet import Assistant, Cancel, DenyToolParam, EventLog, MemoryApprovals, Runtime, TurnLimits, tool
from placet.durable.memory import MemoryJournal
from placet.errors import ModelError
from placet.events.event import Event
from placet.inference import Result, Scripted, ToolCall, Usage
from placet.render.advice import advise
from placet.render.history import History
from placet.render.story import tell, tell_history
from placet.render.timeline import draw_timeline
from placet.render.tree import draw_turns
from placet.render.turns import outcome_of
from placet.turns.ending import OUTCOMES, CallResult

ENDS = ("turn_loop_ended", "run_ended")


@tool(risk="read_only")
def look(name: str) -> str:
    """Look something up."""
    return f"it is {name}"


@tool
def change(name: str) -> str:
    """Change something."""
    return f"{name} is changed"


def asks(*calls: tuple[str, dict[str, Any]], text: str = "", **more: Any) -> Result:
    made = [ToolCall(id=f"c{n}", name=name, arguments=given) for n, (name, given) in enumerate(calls)]
    return Result(text=text, calls=made, stop="calls", **more)


class Scene:
    """A runtime with a log, a journal and a ledger, in which assistants work."""

    def __init__(self) -> None:
        self.log = EventLog()
        self.ledger = MemoryApprovals()
        self.runtime = Runtime(
            tools=[look, change],
            events=self.log,
            journal=MemoryJournal(),
            approvals=self.ledger,
            patience_s=0,
        )
        self.runtime.add_policy("keep-secrets", DenyToolParam(tool="look", param="name", contains="secret"))

    def assistant(self, *turns: Any, **more: Any) -> Assistant:
        return Assistant(self.runtime, Scripted(turns), **more)

    def events(self, run: str = "r") -> list[Event]:
        return self.log.query(run=run)

    def told(self, run: str = "r", **more: Any) -> str:
        return "\n".join(line.plain for line in tell(self.events(run), **more))

    def drawn(self, run: str = "r") -> str:
        return _drawn(History.of(self.events(run)))


def _drawn(history: History) -> str:
    file = StringIO()
    Console(file=file, width=120, color_system=None, markup=False, highlight=False).print(draw_turns(history))
    return file.getvalue()


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_each_call_is_told_with_who_decided_and_each_turn_with_what_it_said(scene: Scene) -> None:
    usage = Usage(input=1000, output=20, cached=800)
    assistant = scene.assistant(
        asks(
            ("look", {"name": "gold"}), ("look", {"name": "a secret"}), text="I look.", usage=usage, cost=0.5
        ),
        asks(("teleport", {}), usage=usage, cost=0.25),
        asks(("change", {"name": "gold"}), text="Now I change it.", usage=usage, cost=0.25),
        Result(text="All is done.", usage=usage, cost=0.0),
    )
    await assistant.run("Change the gold.", run_id="r")
    [asked] = scene.ledger.pending()
    scene.ledger.decide(asked.id, "once", by="ann")
    await assistant.resume("r")

    story = scene.told()

    for words in (
        "Run r, led by 'assistant' with the model 'scripted'\nTask: Change the gold.\n",
        "4 turns, 4 calls (2 succeeded, 2 rejected), ",
        "4,000 tokens in (3,200 of them cached), 80 out, $1.0000.",
        "It was offered 'look', 'change'; at most 50 turns.",
        "It let go to wait for a person, and was taken up again",
        "✓ The model was done.\n  It said last: All is done.\n",
        "Turn 1 asked for look (2 times), and said: I look.",
        "✓ t1c1 (look) succeeded in ",
        "⊘ t1c2 (look) was rejected: policy 'keep-secrets': parameter 'name' contains a denied text",
        "Turn 2 asked for teleport",
        "⊘ t2c1 (teleport) was refused before it became a plan: unknown tool 'teleport'",
        "✓ t3c1 (change) succeeded in ",
        f"… approval {asked.id} was asked for on ",
        "it was approved for this one time by 'ann'",
        "Turn 4 answered: All is done.",
        "  - What 't1c2' asked for was denied, and the model was told so.",
        "      placet log show r",
    ):
        assert words in story, words
    assert any("⊘ turn call refused          t2c1" in line.plain for line in draw_timeline(scene.events()))
    assert story.count("Turn 1 ") == 1
    assert story.index("Turn 3") < story.index("✓ t3c1") < story.index("Turn 4")
    drawn = scene.drawn()
    for words in ("✓ succeeded  r  4 turns", "turn 3  Now I change it.", "unknown tool 'teleport'"):
        assert words in drawn, words


async def test_a_run_that_waits_names_the_question_and_the_commands(scene: Scene) -> None:
    await scene.assistant(asks(("change", {"name": "x"}))).run("Change x.", run_id="r")
    [asked] = scene.ledger.pending()

    story = scene.told(db="my.db")

    assert "? It waits for a person: waits for a person to decide about t1c1" in story
    assert "… t1c1 (change) waits for approval" in story
    assert f"      placet approvals approve {asked.id} --db my.db" in story
    assert story.count("      placet resume r --db my.db") == 1
    scene.ledger.decide(asked.id, "deny", by="bob", reason="not today")
    await scene.assistant(asks(("change", {"name": "x"})), "Then not.").resume("r")
    assert "was denied by 'bob'" in scene.told()
    assert "✓ The model was done" in scene.told()


async def test_a_run_that_its_log_leaves_open_is_told_as_such(scene: Scene) -> None:
    await scene.assistant(asks(("look", {"name": "x"})), "Done.").run("Look.", run_id="r")
    cut_off = [event for event in scene.events() if event.kind not in ENDS][:-1]
    history = History.of(cut_off)

    story = "\n".join(line.plain for line in tell_history(history))
    history.break_off()
    broken = "\n".join(line.plain for line in tell_history(history))

    assert "? The log ends before the run does" in story
    assert "If its process is gone, go on where it stood." in story
    assert "      placet resume r" in story
    assert "? It was broken off: its process is gone." in broken
    assert "✓ t1c1 (look) succeeded" in broken


async def test_a_run_that_was_taken_up_again_no_longer_waits(scene: Scene) -> None:
    await scene.assistant(asks(("change", {"name": "x"}))).run("Change x.", run_id="r")
    scene.ledger.decide(scene.ledger.pending()[0].id, "once", by="ann")
    await scene.assistant(asks(("change", {"name": "x"})), "Done.").resume("r")
    cut_off = [event for event in scene.events() if event.kind not in ENDS][:-1]
    before = next(event for event in scene.events() if event.kind == "turn_loop_ended")

    story = "\n".join(line.plain for line in tell(sorted([*cut_off, before], key=lambda event: event.seq)))

    assert "and was taken up again" in story
    assert "? The log ends before the run does" in story
    assert "waits for a person to decide" not in story


async def test_warnings_failures_and_the_end_in_circles_are_told(scene: Scene) -> None:
    again = asks(("look", {"name": "x"}))
    assistant = scene.assistant(ModelError("overloaded"), *[again] * 40, failures=2)

    ending = await assistant.run("Look.", run_id="r")

    assert ending.status == "stuck"
    story = scene.told()
    assert "✗ Turn 1 got no answer: overloaded" in story
    assert "! The model was warned that it repeats itself." in story
    assert "◐ It went in circles: the model made the same calls again and again" in story
    assert "was not run" in story
    assert "say the task in other words" in story


async def test_room_that_was_made_is_told(scene: Scene) -> None:
    long = [asks(("look", {"name": f"{n} " + "x" * 3000})) for n in range(12)]
    limits = TurnLimits(context_tokens=4000)

    await scene.assistant(*long, "Done.", limits=limits).run("Look.", run_id="r")

    assert "~ Room was made in the conversation: " in scene.told()
    assert any("results shortened" in line.plain for line in draw_timeline(scene.events()))


@pytest.mark.parametrize(
    ("limits", "status", "words"),
    [
        (TurnLimits(turns=2), "max_turns", "◐ Its turns ran out: stopped after 2 turns without finishing"),
        (TurnLimits(tokens=150), "budget", "■ It ran into a limit: the limit on tokens was reached"),
    ],
)
async def test_a_limit_that_was_reached_is_told_with_what_to_do(
    scene: Scene, limits: TurnLimits, status: str, words: str
) -> None:
    turns = [asks(("look", {"name": str(n)}), usage=Usage(input=90, output=10), cost=0.0) for n in range(9)]

    ending = await scene.assistant(*turns, limits=limits).run("Look.", run_id="r")

    assert ending.status == status
    assert words in scene.told()
    assert "What was done stays." in scene.told()
    assert "resume" not in scene.told()


async def test_a_cancelled_run_can_be_resumed_and_says_so(scene: Scene) -> None:
    cancel = Cancel()

    def stop(event: object) -> None:
        if isinstance(event, CallResult):
            cancel.cancel("enough")

    assistant = scene.assistant(asks(("look", {"name": "x"})), "Done.")
    await assistant.run("Look.", run_id="r", cancel=cancel, watch=stop)

    story = scene.told()
    assert "■ It was cancelled: enough" in story
    assert "      placet resume r" in story
    history = History.of(scene.events())
    history.is_a_programs = True
    commands = [advice.command for advice in advise(history)]
    assert "assistant.resume('r'), in the program that began it" in commands


async def test_five_hundred_turns_stay_readable_and_hide_no_trouble(scene: Scene) -> None:
    turns: list[Result] = [asks(("look", {"name": str(n)})) for n in range(499)]
    turns[250] = asks(("look", {"name": "secret"}))
    turns[300] = asks(("teleport", {}))
    assistant = scene.assistant(*turns, "Done.", limits=TurnLimits(turns=600))
    await assistant.run("Look at all.", run_id="r")

    lines = scene.told().splitlines()

    assert len(lines) < 100
    assert "500 turns, 499 calls (497 succeeded, 2 rejected)" in lines[2]
    [first, second, third] = [line for line in lines if line.startswith("  … turns ")]
    assert (
        first
        == "  … turns 9 to 250: 242 turns, 242 calls, all succeeded. To see all of it: placet log show r"
    )
    assert second.startswith("  … turns 252 to 300: 49 turns")
    assert third.startswith("  … turns 302 to 484: 183 turns")
    assert any("t301c1 (teleport) was refused" in line for line in lines)
    assert any("t251c1 (look) was rejected: policy 'keep-secrets'" in line for line in lines)
    assert any(line.startswith("  Turn 500 answered: Done.") for line in lines)
    drawn = scene.drawn()
    assert "turns 9 to 250: 242 succeeded" in drawn
    assert len(drawn.splitlines()) < 100


async def test_a_hundred_calls_in_one_turn_are_counted(scene: Scene) -> None:
    many = asks(*[("look", {"name": str(n)}) for n in range(100)])

    await scene.assistant(many, "Done.").run("Look.", run_id="r")

    assert "    … and 80 more calls: 80 succeeded" in scene.told()
    assert "asked for look (100 times)" in scene.told()
    assert "+90 more: 90 succeeded" in scene.drawn()


async def test_a_chat_is_told_message_by_message(scene: Scene) -> None:
    async with scene.assistant("Hello to you.", asks(("look", {"name": "x"})), "It is x.").chat("r") as chat:
        await chat.say("Hello.")
        await chat.say("What is x?")
    async with scene.assistant("Bye.").chat("r", resume=True) as chat:
        await chat.say("Bye.")

    lines = scene.told().splitlines()

    assert lines[0] == "Chat r, led by 'assistant' with the model 'scripted'"
    assert "3 messages, 4 turns, 1 call, succeeded" in lines[1]
    assert "· The conversation waits for the next message." in lines
    assert any(line.startswith("It was left, and taken up again") for line in lines)
    starts = [line.split("  ")[1] for line in lines if line.startswith(("  > ", "  Turn "))]
    assert starts == [
        "> Hello.",
        "Turn 1 answered: Hello to you.",
        "> What is x?",
        "Turn 2 asked for look",
        "Turn 3 answered: It is x.",
        "> Bye.",
        "Turn 4 answered: Bye.",
    ]
    assert lines[-3].strip() == "placet resume r"


async def test_a_message_that_came_to_nothing_is_told_beside_the_others(scene: Scene) -> None:
    async with scene.assistant(ModelError("overloaded"), "Hello again.").chat("r") as chat:
        await chat.say("Hello.")
        await chat.say("Still there?")

    story = scene.told()

    assert story.index("■ It broke off: inference failed: overloaded") < story.index("> Still there?")


async def test_nothing_that_a_model_wrote_steers_a_terminal(scene: Scene) -> None:
    evil = "\x1b[31mred\u202e\nnew line"
    await scene.assistant(asks((evil, {}), text=evil), evil).run(f"Look {evil}", run_id="r")

    shown = scene.told() + scene.drawn() + "\n".join(line.plain for line in draw_timeline(scene.events()))

    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\\e[31mred" in shown
    assert not any(line.startswith("new line") for line in shown.splitlines())


async def test_the_timeline_tells_what_the_loop_says_of_itself(scene: Scene) -> None:
    usage = Usage(input=90, output=10)
    await scene.assistant(
        asks(("look", {"name": "x"}), usage=usage, cost=0.5), Result(text="Done.", usage=usage, cost=0.5)
    ).run("Look at x.", run_id="r")

    lines = [line.plain[14:] for line in draw_timeline(scene.events())]

    for words in (
        "· turn loop started           'assistant' with scripted; Look at x.",
        "· turn asked                  Look at x.",
        "· turn answered               turn 1; asks for look; scripted, 90 tokens in, 10 tokens out, $0.5000",
        "· turn answered               turn 2; Done.; scripted, 90 tokens in, 10 tokens out, $0.5000",
        "✓ turn loop ended             success after 2 turns; 180 tokens in, 20 tokens out, $1.0000; Done.",
    ):
        assert words in lines, words


async def test_a_result_tells_how_it_ended_where_no_event_is_left(scene: Scene) -> None:
    ending = await scene.assistant("Done.").run("Look.", run_id="r")
    history = History()
    record = scene.runtime._settings.journal._runs["r"].record  # type: ignore[union-attr]
    history.run_id = "r"

    history.lead(record.proposal)
    history.settle(await scene.runtime.resume("r"))

    assert ending.succeeded
    story = "\n".join(line.plain for line in tell_history(history))
    assert "Run r, led by 'assistant' with the model 'scripted'" in story
    assert "It said last: Done." in story


async def test_turns_side_by_side_in_two_runs_are_not_mixed_up(scene: Scene) -> None:
    both = [scene.assistant(f"I am {name}.").run("Who?", run_id=name) for name in ("one", "two")]

    await asyncio.gather(*both)

    assert "I am one." in scene.told("one")
    assert "I am two." not in scene.told("one")


MakeEvents = Callable[..., list[Event]]


def test_calls_of_turns_that_are_lost_are_told_all_the_same(make_events: MakeEvents) -> None:
    events = make_events(
        ("action_succeeded", "t3c1", {"tool": "look"}),
        ("turn_loop_ended", None, {"status": "odd\x1b", "turns": "many"}),
        ("turn_answered", None, {"turn": None, "calls": 7, "cost": "free"}),
    )

    story = "\n".join(line.plain for line in tell(events))

    assert "Of turns that are not in the log:\n    ✓ t3c1 (look) succeeded" in story
    assert "tokens not told, price not known" in story
    assert "It ended as odd\\x1b" in story or "It ended as odd\\e" in story


def test_a_loop_that_ended_is_shown_as_the_outcome_that_is_kept() -> None:
    assert {status: outcome_of(status) for status in OUTCOMES} == dict(OUTCOMES)


def test_the_story_can_be_had_as_data(make_events: MakeEvents) -> None:
    from dataclasses import asdict

    history = History.of(make_events(("turn_answered", None, {"turn": 1, "calls": ["look"]})))
    assert history.led is not None

    data = json.loads(json.dumps(asdict(history.led)))

    assert data["messages"][0]["turns"][0]["calls"] == ["look"]
