"""What gets in goes through the runtime: gated, labelled, never twice, and out of the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placet import MemoryJournal, Reply, Runtime, tool
from placet.inference import Scripted
from placet.ir.result import ActionResult
from placet.memory.memory import Memory
from placet.memory.sql import SqlFacts
from placet.policy.flow import FlowRule
from placet.policy.rule import DenyTool
from placet.runtime.scope import Scope
from placet.storage.location import open_database

BODY = "The deploy runs on Fridays"


@tool(risk="network", marks=["untrusted"])
def fetch(text: str) -> str:
    "A page."
    return text


@tool(risk="read_only", marks=["secret"])
def vault() -> str:
    "A password."
    return "correct horse battery"


def plan(*steps: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Actions one after the other."""
    actions = [
        {"id": f"a{n}", "tool": name, "parameters": parameters}
        | ({"depends_on": [f"a{n - 1}"]} if n > 1 else {})
        for n, (name, parameters) in enumerate(steps, start=1)
    ]
    return {"actions": actions}


def remember(body: str = BODY, **more: Any) -> tuple[str, dict[str, Any]]:
    return "remember", {"subject": "deploy", "body": body, **more}


async def last(runtime: Runtime, *steps: tuple[str, dict[str, Any]], **more: Any) -> ActionResult:
    result = await runtime.execute(plan(*steps), **more)
    return result.results[-1]


async def test_a_plan_remembers_and_recalls() -> None:
    memory = Memory()
    runtime = Runtime(memory=memory)

    stored = await last(runtime, remember(key="day"))
    found = await last(runtime, ("recall", {"query": "when does the deploy run?"}))

    assert found.output["facts"][0]["id"] == stored.output["id"]  # type: ignore[index,call-overload]
    fact = await memory.get(stored.output["id"])  # type: ignore[index,call-overload,arg-type]
    assert fact is not None
    assert (fact.source.startswith("run:"), fact.labels, fact.key) == (True, (), "day")


async def test_a_policy_that_denies_keeps_a_fact_out() -> None:
    memory = Memory()
    runtime = Runtime(memory=memory, policies=[DenyTool(tool="remember", reason="not here")])

    result = await last(runtime, remember())

    assert result.status == "rejected"
    assert memory.store.listed(None) == []


async def test_a_cautious_posture_asks_before_a_fact_is_stored() -> None:
    asked: list[str] = []

    def person(approval: Any) -> Reply:
        asked.append(approval.tool)
        return Reply("deny")

    runtime = Runtime(memory=Memory(), permissions="read_only", person=person)

    assert (await last(runtime, remember())).status == "rejected"
    assert asked == ["remember"]
    assert (await last(runtime, ("recall", {"query": "x"}))).status == "succeeded"


async def test_untrusted_text_becomes_a_fact_that_keeps_its_label_and_labels_what_recalls_it() -> None:
    memory = Memory()
    runtime = Runtime(
        [fetch],
        memory=memory,
        policies=[FlowRule(mark="untrusted", tool="remember", param="subject", reason="no")],
    )

    by_reference = await runtime.execute(
        {
            "actions": [
                {"id": "page", "tool": "fetch", "parameters": {"text": "The zebra is striped"}},
                {
                    "id": "keep",
                    "tool": "remember",
                    "parameters": {"subject": "zebra", "body": "$page.output"},
                    "depends_on": ["page"],
                },
            ]
        }
    )

    assert by_reference["keep"].output["labels"] == ["untrusted"]  # type: ignore[index,call-overload]
    used = await runtime.execute(
        {
            "actions": [
                {"id": "found", "tool": "recall", "parameters": {"query": "zebra"}},
                {
                    "id": "again",
                    "tool": "remember",
                    "parameters": {"subject": "$found.output.facts[0].subject", "body": "it is nice"},
                    "depends_on": ["found"],
                },
            ]
        }
    )
    assert used["again"].status == "rejected"


@tool(risk="destructive")
def send(text: str) -> str:
    "Send it to somebody."
    return "sent"


@pytest.mark.parametrize(("labels", "status"), [([], "succeeded"), (["untrusted"], "rejected")])
async def test_a_recalled_fact_labels_what_it_flows_into_where_no_tool_declares_labels(
    labels: list[Any], status: str
) -> None:
    memory = Memory()
    await memory.add("zebra", "write to eve", source="web", labels=labels)
    runtime = Runtime([send], memory=memory, policies=[FlowRule(mark="untrusted", tool="send")])

    used = await last(runtime, ("recall", {"query": "zebra"}), ("send", {"text": "$a1.output.facts[0].body"}))

    assert used.status == status


async def test_the_answer_to_a_grounded_question_is_labelled_as_the_facts_are() -> None:
    memory = Memory()
    await memory.add("zebra", "write to eve", source="web", labels=["untrusted"])
    runtime = Runtime(
        [send], memory=memory, model=Scripted(["eve"]), policies=[FlowRule(mark="untrusted", tool="send")]
    )

    used = await last(
        runtime, ("infer.grounded", {"prompt": "zebra?"}), ("send", {"text": "$a1.output.text"})
    )

    assert used.status == "rejected"


async def test_an_untrusted_contradiction_labels_the_answer_and_stays_in_its_part() -> None:
    now = [100.0]
    memory = Memory(clock=lambda: now[0])
    await memory.add("zebra", "It is striped", key="coat", source="ann", aliases=["savanna"])
    now[0] = 200.0
    await memory.add("zebra", "PLAIN GREY", key="coat", source="web", labels=["untrusted"])
    runtime = Runtime([send], memory=memory, policies=[FlowRule(mark="untrusted", tool="send")])

    found = await memory.query("savanna", limit=1)
    used = await last(
        runtime,
        ("recall", {"query": "savanna", "limit": 1}),
        ("send", {"text": "$a1.output.facts[0].contradicted_by[0].body"}),
    )
    context = await memory.build_context("savanna")

    assert [hit.fact.labels for hit in found.hits] == [()]
    assert used.status == "rejected"
    assert "untrusted" in context.labels
    (trusted,) = [line for line in context.text.splitlines() if "striped" in line]
    assert "GREY" not in trusted


async def test_a_secret_keeps_its_label() -> None:
    memory = Memory()
    runtime = Runtime([vault], memory=memory)

    result = await runtime.execute(
        {
            "actions": [
                {"id": "v", "tool": "vault", "parameters": {}},
                {"id": "r", "tool": "remember", "parameters": {"subject": "s", "body": "$v.output"}},
            ]
        }
    )

    assert result["r"].output["labels"] == ["secret"]  # type: ignore[index,call-overload]
    assert (await memory.build_context("correct horse")).text == ""


async def test_an_untrusted_fact_is_trusted_only_after_a_person_approved() -> None:
    memory = Memory()
    fact = await memory.add("zebra", "it is striped", source="web", labels=["untrusted"])
    alone = Runtime(memory=memory, permissions="full_access")
    asked: list[Any] = []

    def person(approval: Any) -> Reply:
        asked.append(approval)
        return Reply("once")

    with_person = Runtime(memory=memory, permissions="full_access", person=person)

    assert (await last(alone, ("memory.trust", {"id": fact.id}))).status == "rejected"
    kept = await memory.get(fact.id)
    assert kept is not None
    assert kept.labels == ("untrusted",)
    assert (await last(with_person, ("memory.trust", {"id": fact.id}))).status == "succeeded"
    trusted = await memory.get(fact.id)
    assert trusted is not None
    assert (trusted.labels, len(asked)) == ((), 1)


async def test_whoever_approves_trust_sees_the_fact() -> None:
    memory = Memory()
    asked: list[Any] = []

    def person(approval: Any) -> Reply:
        asked.append(approval)
        return Reply("deny")

    runtime = Runtime(memory=memory, permissions="full_access", person=person)
    fact = await memory.add("zebra", "it is striped", source="web", labels=["untrusted"], tenant="acme")
    hidden = await memory.add("door", "it is 1234", source="ann", labels=["untrusted", "secret"])

    await last(runtime, ("memory.trust", {"id": fact.id}), scope=Scope(tenant="acme"))
    await last(runtime, ("memory.trust", {"id": hidden.id}))
    await last(runtime, ("memory.trust", {"id": "nobody"}))

    shown, secret, unknown = (approval.preview for approval in asked)
    assert all(part in shown for part in ("zebra", "it is striped", "web"))
    assert "1234" not in secret
    assert "nobody" in unknown


@pytest.mark.parametrize("body", [BODY, "  the DEPLOY runs, on fridays! ", "deploy runs"])
async def test_what_a_run_recalled_is_not_stored_again(body: str) -> None:
    memory = Memory()
    await memory.add("deploy", BODY, source="test")
    runtime = Runtime(memory=memory)

    again = await last(runtime, ("recall", {"query": "deploy"}), remember(body))
    other_run = await last(runtime, remember(body))
    more = await last(
        runtime, ("recall", {"query": "deploy"}), remember("The deploy runs on Fridays at noon")
    )

    assert (again.status, other_run.status, more.status) == ("failed", "succeeded", "succeeded")


@pytest.mark.parametrize("how", ["recall", "infer.grounded"])
@pytest.mark.parametrize("body", ["deploy (day): The deploy runs on Fridays", "Every Tuesday, at noon"])
async def test_lines_of_a_context_and_contradictions_are_not_stored_again(how: str, body: str) -> None:
    memory = Memory()
    await memory.add("deploy", BODY, key="day", source="test", aliases=["shipping"])
    await memory.add("deploy", "Every Tuesday, at noon", key="day", source="test")
    runtime = Runtime(memory=memory, model=Scripted(["ok"]))
    asked = {"query": "shipping"} if how == "recall" else {"prompt": "shipping"}

    again = await last(runtime, (how, asked), remember(body))

    assert again.status == "failed"
    assert len(memory.store.listed(None)) == 2


async def test_what_a_killed_run_recalled_is_known_when_it_goes_on(tmp_path: Path) -> None:
    with open_database(str(tmp_path / "placet.db")) as database:
        first = Memory(database)
        await first.add("deploy", BODY, source="test")
        found = await first.query("deploy")
        await first.note_recalled("run-1", [hit.fact.id for hit in found.hits])

        later = Memory(SqlFacts(database))

        assert await later.was_recalled("run-1", "deploy runs")
        assert not await later.was_recalled("run-2", "deploy runs")


async def test_the_log_and_the_trajectory_hold_ids_and_no_bodies() -> None:
    memory = Memory()
    kept: list[Any] = []

    class Trajectories:
        def append(self, trajectory: Any) -> None:
            kept.append(trajectory)

    runtime = Runtime(memory=memory, trajectories=Trajectories(), journal=MemoryJournal())

    result = await last(
        runtime, remember("The zyzzyva sleeps", tags=["zyzzyva"]), ("recall", {"query": "zyzzyva"})
    )

    assert result.output["facts"]  # type: ignore[index,call-overload]
    said = [str(event) for event in runtime.events]
    assert len(said) > 5
    assert not [line for line in said + list(map(str, kept)) if "zyzzyva" in line.lower()]


async def test_tenants_and_agents_have_facts_of_their_own() -> None:
    memory = Memory()
    runtime = Runtime(memory=memory)
    acme, nightly = Scope(tenant="acme"), Scope(tenant="acme", caller_id="nightly")

    await last(runtime, remember(scope="agent"), scope=nightly)

    async def found(scope: Scope | None) -> int:
        result = await last(runtime, ("recall", {"query": "deploy"}), scope=scope)
        return len(result.output["facts"])  # type: ignore[index,call-overload,arg-type]

    assert [await found(each) for each in (nightly, acme, None)] == [1, 0, 0]


async def test_consolidation_is_a_tool_and_an_event() -> None:
    now = [100.0]
    memory = Memory(clock=lambda: now[0])
    await memory.add("a", "old news", source="test", valid_until=150.0)
    runtime = Runtime(memory=memory)
    now[0] = 200.0

    result = await last(runtime, ("memory.consolidate", {}))

    assert result.output["expired"] == 1  # type: ignore[index,call-overload]
    (event,) = [each for each in runtime.events if each.kind == "consolidated"]
    assert event.data["expired"] == 1


async def test_only_a_grounded_question_is_grounded() -> None:
    memory = Memory()
    await memory.add("deploy", BODY, source="web", labels=["untrusted"])
    model = Scripted(["ok", "ok"])
    runtime = Runtime(memory=memory, model=model)
    question = "When does the deploy run?"

    await last(runtime, ("infer", {"prompt": question}))
    grounded = await runtime.execute(plan(("infer.grounded", {"prompt": question})))

    assert grounded.outcome == "succeeded"
    asked = [str(request.messages[-1].content) for request in model.requests]  # type: ignore[union-attr]
    assert asked[0] == question
    assert asked[1].endswith(question)
    assert BODY in asked[1]


async def test_what_memory_holds_follows_the_context_of_the_caller() -> None:
    memory = Memory()
    await memory.add("deploy", BODY, source="test")
    model = Scripted(["ok"])
    runtime = Runtime(memory=memory, model=model)

    await last(runtime, ("infer.grounded", {"prompt": "the deploy?", "context": "It is May."}))

    (request,) = model.requests
    asked = str(request.messages[-1].content)  # type: ignore[union-attr]
    assert asked.index("It is May.") < asked.index(BODY) < asked.index("the deploy?")


async def test_without_a_memory_the_tools_say_why_they_are_not_there() -> None:
    runtime = Runtime()

    result = await last(runtime, remember())

    assert result.status == "rejected"
    assert "Runtime(memory=" in (result.error or "")


async def test_a_secret_fact_is_not_recalled() -> None:
    memory = Memory()
    await memory.add("door", "The code of the door is 1234", source="ann", labels=["secret"])

    found = await last(Runtime(memory=memory), ("recall", {"query": "the code of the door"}))

    assert found.output == {"facts": []}


@pytest.mark.parametrize("claim", ["person:ann", "run:other", "x" * 290, "two\nlines"])
async def test_a_source_that_a_call_names_is_a_claim_beside_its_run(claim: str) -> None:
    memory = Memory()

    result = await Runtime(memory=memory).execute(plan(remember(source=claim)))

    (fact,) = memory.store.listed(None)
    assert result.outcome == "succeeded"
    assert fact.source.startswith(f"run:{result.run_id}, ")
    assert len(fact.source) <= 300


async def test_a_time_in_milliseconds_is_refused_and_memory_stays_readable() -> None:
    memory = Memory()

    result = await last(Runtime(memory=memory), remember(valid_until=1_796_083_200_000))

    assert result.status == "failed"
    assert "valid_until" in (result.error or "")
    assert memory.store.listed(None) == []
