"""What agents came to is added up from events: runs, calls, and what the models took that they asked."""

from __future__ import annotations

from placet import Assistant, EventLog, MemoryApprovals, Runtime, tool
from placet.durable.memory import MemoryJournal
from placet.errors import ModelError
from placet.events.event import Event
from placet.events.totals import cost_by_agent
from placet.inference import Result, Scripted, ToolCall, Usage
from placet.render.turns import spent_words


@tool
def change(name: str) -> str:
    """Change something."""
    return name


def _result(text: str = "", *calls: ToolCall, tokens: int | None = 100, cost: float | None = 0.5) -> Result:
    usage = Usage(input=tokens, output=10, cached=tokens // 2) if tokens is not None else None
    return Result(text=text, calls=calls, usage=usage, cost=cost, stop="calls" if calls else "end")


async def test_tokens_and_money_of_turns_are_counted_once_also_after_a_resume() -> None:
    log, ledger = EventLog(), MemoryApprovals()
    runtime = Runtime(tools=[change], events=log, journal=MemoryJournal(), approvals=ledger, patience_s=0)
    call = ToolCall(id="c", name="change", arguments={"name": "x"})
    assistant = Assistant(runtime, Scripted([_result("", call), _result("Done.")]), name="clerk")
    await assistant.run("Change x.", run_id="r")
    ledger.decide(ledger.pending()[0].id, "once", by="ann")
    await assistant.resume("r")

    [(name, total)] = log.cost_by_agent().items()

    assert name == "clerk"
    wanted = {"runs": 1, "tool_calls": 1, "model_answers": 2, "input_tokens": 200, "output_tokens": 20}
    wanted |= {"cached_tokens": 100, "cost_usd": 1.0, "uncounted_answers": 0, "unpriced_answers": 0}
    assert {key: total[key] for key in wanted} == wanted


async def test_a_run_without_calls_is_counted_and_what_is_not_told_is_not_nothing() -> None:
    log = EventLog()
    runtime = Runtime(events=log)
    await Assistant(runtime, Scripted([_result("One.")])).run("Say.")
    await Assistant(runtime, Scripted([_result("Two.", tokens=None, cost=None)])).run("Say.")

    total = log.cost_by_agent()["assistant"]

    assert (total["runs"], total["model_answers"]) == (2, 2)
    assert (total["uncounted_answers"], total["unpriced_answers"]) == (1, 1)
    assert spent_words(total) == (
        "100 tokens in (50 of them cached), 10 out, and more in 1 answer that did not tell, "
        "$0.5000 and more, for 1 answer of unknown price"
    )


async def test_a_run_whose_model_never_answered_is_counted() -> None:
    log = EventLog()

    await Assistant(Runtime(events=log), Scripted([ModelError("overloaded")])).run("Say.")

    assert log.cost_by_agent() == {"assistant": {"runs": 1}}


async def test_what_plans_ask_of_models_is_counted_for_who_proposed_them() -> None:
    log = EventLog()
    runtime = Runtime(events=log, model=Scripted([_result("One."), _result("Two.")]))
    actions = [{"id": name, "tool": "infer", "parameters": {"prompt": name}} for name in ("a", "b")]

    await runtime.execute({"source": "planner", "actions": actions})

    total = log.cost_by_agent()["planner"]
    assert (total["tool_calls"], total["model_answers"], total["cost_usd"]) == (2, 2, 1.0)


def test_a_run_that_was_killed_while_it_was_read_back_keeps_what_it_had_come_to() -> None:
    """Taken up again, a run counts from nothing; killed right then, its last ending tells too little."""

    def ended(calls: int) -> Event:
        data = {"source": "s", "outcome": "succeeded", "cost": {"tool_calls": calls}}
        return Event(1, "proposal_ended", 1.0, "r", f"r.{calls}", data=data)

    assert cost_by_agent([ended(1), ended(2), ended(3), ended(1)]) == {"s": {"runs": 1, "tool_calls": 3}}


def test_nonsense_in_a_log_is_not_added_up() -> None:
    data = {"source": "s", "input_tokens": "many", "output_tokens": -1, "cost": float("nan")}
    events = [
        Event(1, "turn_answered", 1.0, "r", data=data),
        Event(2, "proposal_ended", 1.0, "r", data={"cost": {"tool_calls": True, "retries": 2}}),
        Event(3, "proposal_ended", 1.0, "r", data={"cost": "high"}),
        Event(4, "proposal_received", 1.0, "only begun", data={"source": "t"}),
    ]

    assert cost_by_agent(events) == {
        "s": {
            "runs": 1,
            "retries": 2,
            "model_answers": 1,
            "input_tokens": 0,
            "output_tokens": 0,
            "cached_tokens": 0,
            "cost_usd": 0,
            "uncounted_answers": 1,
            "unpriced_answers": 1,
        }
    }
