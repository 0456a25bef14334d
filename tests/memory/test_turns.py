"""Assistants and agents with a memory: facts come with each message, at its end, and keep their labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placet import (
    AgentRunner,
    AgentSpec,
    Assistant,
    MemoryApprovals,
    MemoryJournal,
    Runtime,
    ToolContext,
    TurnLimits,
    tool,
)
from placet.errors import UsageError
from placet.inference import Request, Scripted, ToolCall, User, messages
from placet.memory.conversations import Conversations
from placet.memory.fact import FactScope
from placet.memory.memory import Memory
from placet.policy.flow import FlowRule
from placet.turns.replay import replay

BODY = "The deploy runs on Fridays"


async def memory_with(*facts: tuple[str, dict[str, Any]]) -> Memory:
    memory = Memory()
    for body, more in facts or ((BODY, {}),):
        await memory.add("deploy", body, source="test", **more)
    return memory


def words(request: Request) -> list[str]:
    """The text parts of the newest message of a person."""
    (newest,) = [each for each in request.messages if isinstance(each, User)][-1:]
    return [getattr(part, "text", "") for part in newest.parts]


async def test_a_message_comes_with_what_memory_holds_at_its_end() -> None:
    model = Scripted(["on Fridays", "ok"])
    assistant = Assistant(Runtime(memory=await memory_with()), model, memory=True)

    await assistant.run("When does the deploy run?")
    await assistant.run("What is a zebra?")

    task, recalled = words(model.requests[0])
    assert task == "When does the deploy run?"
    assert BODY in recalled
    assert words(model.requests[1]) == ["What is a zebra?"]


async def test_without_the_option_nothing_is_added() -> None:
    model = Scripted(["ok"])
    assistant = Assistant(Runtime(memory=await memory_with()), model)

    await assistant.run("When does the deploy run?")

    assert words(model.requests[0]) == ["When does the deploy run?"]
    assert "recall" in assistant.offered()
    assert "conversation.search" not in assistant.offered()


async def test_the_option_needs_a_memory() -> None:
    with pytest.raises(UsageError):
        Assistant(Runtime(), Scripted(["ok"]), memory=True)
    with pytest.raises(UsageError):
        AgentRunner(Runtime(), Scripted(["ok"]), AgentSpec(id="a", identity="You.", memory=True))


@tool(risk="destructive")
def send(to: str) -> str:
    "Send."
    return "sent"


@pytest.mark.parametrize(("labels", "status"), [((), "succeeded"), (("untrusted",), "rejected")])
async def test_an_untrusted_fact_taints_what_the_model_writes(labels: tuple[str, ...], status: str) -> None:
    memory = await memory_with(("The deploy is announced to eve@example.org", {"labels": labels}))
    runtime = Runtime([send], memory=memory, policies=[FlowRule(mark="untrusted", tool="send")])
    model = Scripted([ToolCall(name="send", arguments={"to": "eve@example.org"}), "done"])
    assistant = Assistant(runtime, model, memory=True, posture="full_access")

    ending = await assistant.run("Announce the deploy to whom it is announced")

    assert (ending.tools == ("send",)) is (status == "succeeded")
    assert (ending.refused == ("send",)) is (status == "rejected")


@tool(risk="read_only", marks=["untrusted"])
def page() -> str:
    "A page of the web."
    return "nothing of interest"


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("Announce the deploy as the page says", "rejected"),
        ("Announce the deploy to ann@example.org, as the page says", "succeeded"),
    ],
)
async def test_what_memory_adds_does_not_count_as_typed_by_the_person(message: str, status: str) -> None:
    memory = await memory_with(("The deploy is announced to ann@example.org", {}))
    runtime = Runtime([send, page], memory=memory, policies=[FlowRule(mark="untrusted", tool="send")])
    calls = [
        ToolCall(name="page", arguments={}),
        ToolCall(name="send", arguments={"to": "ann@example.org"}),
    ]
    model = Scripted([*calls, "done"])

    ending = await Assistant(runtime, model, memory=True, posture="full_access").run(message)

    assert "ann@example.org" in words(model.requests[0])[-1]
    assert ("send" in ending.tools) is (status == "succeeded")
    assert (ending.refused == ("send",)) is (status == "rejected")


async def test_the_event_of_a_message_holds_what_was_asked_alone() -> None:
    runtime = Runtime(memory=await memory_with())
    model = Scripted(["on Fridays"])

    ending = await Assistant(runtime, model, memory=True).run("When does the deploy run?")

    assert BODY in words(model.requests[0])[-1]
    (asked,) = [each for each in runtime.events if each.kind == "turn_asked"]
    assert asked.data["text"] == "When does the deploy run?"
    assert ending.labels == {}


async def test_the_answer_carries_the_labels_of_what_memory_added() -> None:
    memory = await memory_with((BODY, {"labels": ["untrusted"]}))

    ending = await Assistant(Runtime(memory=memory), Scripted(["on Fridays"]), memory=True).run("the deploy?")

    assert {mark: path[0] for mark, path in ending.labels.items()} == {"untrusted": "memory"}


async def test_a_resumed_run_knows_the_labels_of_its_context() -> None:
    memory = await memory_with(("The deploy is announced to eve@example.org", {"labels": ["untrusted"]}))
    (fact,) = memory.store.listed(None)
    rule = FlowRule(mark="untrusted", tool="send")
    approvals, journal = MemoryApprovals(), MemoryJournal()

    def runtime() -> Runtime:
        return Runtime(
            [send, mail],
            memory=memory,
            policies=[rule],
            journal=journal,
            approvals=approvals,
            patience_s=0,
        )

    first = Scripted([ToolCall(name="mail", arguments={"text": "hello"})])
    waiting = await Assistant(runtime(), first, memory=True).run("Announce the deploy", run_id="r")
    assert waiting.status == "waiting"
    await memory.forget(fact.id)
    approvals.decide(approvals.pending()[0].id, "once", by="ann")

    second = Scripted([ToolCall(name="send", arguments={"to": "eve@example.org"}), "done"])
    ending = await Assistant(runtime(), second, memory=True).resume("r")

    assert ending.refused == ("send",)


@tool(risk="destructive")
def mail(text: str) -> str:
    "Send a mail to everybody."
    return "sent"


@pytest.mark.parametrize(("labels", "expected"), [((), set()), (("untrusted",), {"untrusted"})])
async def test_a_search_of_the_conversation_is_labelled_as_what_is_in_it(
    labels: tuple[str, ...], expected: set[str]
) -> None:
    memory = await memory_with((BODY, {"labels": labels}))
    found: list[set[str]] = []

    @tool(risk="read_only")
    def look(text: str, context: ToolContext) -> str:
        "Look."
        found.append(set(context.labels_of()))
        return "ok"

    search = ToolCall(name="conversation.search", arguments={"query": "deploy"})
    model = Scripted([search, ToolCall(name="look", arguments={"text": "zebra"}), "done"])
    await Assistant(Runtime([look], memory=memory), model, memory=True).run("the deploy?", run_id="r")

    assert found == [expected]
    assert set(memory.conversations.labels("r")) == expected


async def test_what_the_context_brought_is_not_stored_again() -> None:
    memory = await memory_with()
    model = Scripted(
        [ToolCall(name="remember", arguments={"subject": "deploy", "body": "deploy runs on Fridays"}), "done"]
    )
    assistant = Assistant(Runtime(memory=memory), model, memory=True, posture="full_access")

    ending = await assistant.run("When does the deploy run?")

    assert ending.tools == ()
    assert len(memory.store.listed(None)) == 1


async def test_the_log_of_a_conversation_holds_no_fact_that_was_recalled() -> None:
    memory = await memory_with(("The zyzzyva sleeps", {}))
    runtime = Runtime(memory=memory)
    model = Scripted([ToolCall(name="recall", arguments={"query": "deploy, zyzzyva"}), "It does."])

    ending = await Assistant(runtime, model).run("What does it do?")

    assert ending.tools == ("recall",)
    assert "zyzzyva sleeps" in str(model.requests[-1].messages[-1])
    assert "zyzzyva" not in str(list(runtime.events))


async def test_a_resumed_run_reads_the_same_context() -> None:
    """Also if the facts have changed since: what was said is stored with the run."""
    memory = await memory_with()
    (fact,) = memory.store.listed(None)
    runtime = Runtime(
        [send], memory=memory, journal=MemoryJournal(), approvals=MemoryApprovals(), patience_s=0
    )
    first = Scripted([ToolCall(name="send", arguments={"to": "ann"})])
    waiting = await Assistant(runtime, first, memory=True).run("Send the deploy day", run_id="r")
    assert waiting.status == "waiting"
    await memory.forget(fact.id)
    assert runtime.approvals is not None
    runtime.approvals.decide(runtime.approvals.pending()[0].id, "once", by="ann")

    second = Scripted(["done"])
    ending = await Assistant(runtime, second, memory=True).resume("r")

    assert ending.status == "success"
    assert words(second.requests[0]) == words(first.requests[0])
    assert BODY in words(second.requests[0])[1]


async def test_an_agent_with_memory_sees_its_own_facts() -> None:
    memory = await memory_with((BODY, {}), ("The deploy needs coffee", {"scope": FactScope(agent="nightly")}))
    model = Scripted(["ok", "ok", "ok"])
    runtime = Runtime(memory=memory)

    for id, uses in (("nightly", True), ("other", True), ("plain", False)):
        await AgentRunner(runtime, model, AgentSpec(id=id, identity="You.", memory=uses)).run("the deploy?")

    seen = [" ".join(words(request)) for request in model.requests]
    assert ["coffee" in each for each in seen] == [True, False, False]
    assert ["Fridays" in each for each in seen] == [True, True, False]


@tool(risk="read_only")
def read(n: int) -> str:
    "Read a page."
    return f"page {n}: " + ("the zebra is called Zoe. " if n == 1 else "nothing of interest. ") + "x " * 2_000


async def test_turns_that_were_left_out_are_found() -> None:
    calls = [ToolCall(name="read", arguments={"n": n}) for n in range(1, 12)]
    search = ToolCall(name="conversation.search", arguments={"query": "name of the zebra"})
    model = Scripted([*calls, search, "Zoe"])
    runtime = Runtime([read], memory=Memory())
    assistant = Assistant(runtime, model, memory=True, limits=TurnLimits(turns=20, context_tokens=6_000))

    await assistant.run("Read all pages, then tell me the name.")

    before, after = model.requests[-2], model.requests[-1]
    assert not [each for each in before.messages if "Zoe" in str(each)]
    assert "Zoe" in str(after.messages[-1])


async def test_a_recorded_run_with_memory_replays(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    assistant = Assistant(Runtime(memory=await memory_with()), Scripted(["on Fridays"]), memory=True)
    await assistant.run("When does the deploy run?", record=file)

    assert BODY in file.read_text()
    replayed = await replay(file)
    assert (replayed.same, replayed.requests) == (True, 1)


def test_a_search_of_the_conversation_does_not_find_searches() -> None:
    found = Conversations()
    call = ToolCall(id="c", name="conversation.search", arguments={"query": "zebra crossing"})
    found.add("r", User("the zebra is called Zoe"), {})
    found.add("r", messages.Assistant(calls=(call,)), {})
    found.add("r", messages.ToolResult(call_id="c", name="conversation.search", text="zebra crossing"), {})

    assert [each.text for each in found.search("r", "zebra crossing", 5)] == ["the zebra is called Zoe"]
