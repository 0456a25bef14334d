"""infer, classify and embed as actions: what the model was asked, what the plan got, what it cost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from assent import CostBudget, Isolation, Runtime
from assent.errors import ModelUnavailable
from assent.inference import Models, Request, Result, Scripted, System, Usage, User
from assent.inference.model import Model
from assent.testing import action, proposal


class Maker:
    """A model that also makes vectors."""

    async def generate(self, request: Request) -> Result:
        return Result(text="words")

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, 0.0, 0.0] for _ in texts]


async def ask(model: Model, tool: str = "infer", **parameters: Any) -> Any:
    result = await Runtime(model=model).execute(proposal(action("a", tool, parameters=parameters)))
    return result["a"]


async def test_infer_asks_the_model_and_gives_its_answer() -> None:
    model = Scripted(["Paris."])

    done = await ask(model, prompt="Capital of France?", system="One word.", max_tokens=5)

    assert done.output == {"text": "Paris.", "stop": "end", "model": "scripted"}
    [request] = model.requests
    assert list(request.messages) == [System("One word."), User("Capital of France?")]
    assert (request.max_tokens, request.temperature) == (5, 0.0)


async def test_an_answer_that_fits_the_schema_stands_in_data() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    done = await ask(Scripted(['{"n": 4}']), prompt="How many?", schema=schema)

    assert done.output["data"] == {"n": 4}


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ('{"n": "four"}', "does not fit the schema"),
        ("four", "it is no JSON"),
        (Result(text='{"n": 4', stop="length", model="m"), "was cut off"),
    ],
)
async def test_an_answer_that_does_not_fit_fails_the_action(answer: Any, says: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    done = await ask(Scripted([answer]), prompt="How many?", schema=schema)

    assert done.status == "failed"
    assert says in done.error


async def test_a_schema_that_means_nothing_is_said_to_be_that() -> None:
    done = await ask(Scripted(["{}"]), prompt="?", schema={"type": "nonsense"})

    assert done.status == "failed"
    assert "The schema cannot be used" in done.error


async def test_classify_gives_one_of_the_labels_and_takes_the_text_for_no_instruction() -> None:
    model = Scripted(['{"label": "spam"}'])

    done = await ask(model, "classify", text="Win now!", labels=["spam", "ham"], instructions="spam: adverts")

    assert done.output == {"label": "spam", "model": "scripted"}
    [request] = model.requests
    assert request.schema is not None
    assert request.schema["properties"]["label"]["enum"] == ["spam", "ham"]
    assert isinstance(request.messages[0], System)
    assert "spam: adverts" in request.messages[0].text
    assert request.messages[1] == User("Win now!")


async def test_a_label_that_was_not_asked_for_is_no_answer() -> None:
    done = await ask(Scripted(['{"label": "eggs"}']), "classify", text="x", labels=["spam", "ham"])

    assert done.status == "failed"


async def test_labels_must_differ() -> None:
    done = await ask(Scripted([]), "classify", text="x", labels=["spam", "spam"])

    assert "Two labels are the same" in done.error


async def test_embed_is_there_only_where_the_model_makes_vectors() -> None:
    done = await ask(Maker(), "embed", texts=["a", "b"])

    assert done.output == {"vectors": [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], "dimensions": 3}
    assert "embed" not in Runtime(model=Scripted([])).tools


async def test_without_a_model_there_are_no_such_tools() -> None:
    assert not {"infer", "classify", "embed"} & set(Runtime().tools.names())


async def test_what_no_model_offers_is_said() -> None:
    report = Runtime(model=Scripted([])).verify(proposal(action("a", "transcribe")))

    assert "no model that is attached can turn speech into text" in str(report.issues)


async def test_usage_and_price_feed_the_budget() -> None:
    answer = Result(text="x", usage=Usage(input=600, output=500), cost=0.25)
    rt = Runtime(model=Scripted([answer, answer]), budget=CostBudget(max_tokens=1000))
    plan = proposal(
        action("a", "infer", parameters={"prompt": "1"}),
        action("b", "infer", parameters={"prompt": "2"}, dependencies=["a"]),
    )

    result = await rt.execute(plan)

    assert result["a"].status == "succeeded"
    assert result["b"].status != "succeeded"
    assert result.outcome == "budget"

    dear = Runtime(model=Scripted([answer, answer]), budget=CostBudget(max_cost=0.2))
    assert (await dear.execute(plan)).outcome == "budget"


async def test_the_log_says_who_answered_why_and_what_it_took() -> None:
    answer = Result(text="secret words", model="m-1", usage=Usage(input=3, output=2), cost=0.5)
    rt = Runtime(model=Models({"default": ["p:m"]}, lambda name: Scripted([answer])))

    await rt.execute(proposal(action("a", "infer", parameters={"prompt": "?"})))

    [event] = [event for event in rt.events if event.kind == "model_answered"]
    assert event.action_id == "a"
    told = dict(event.data)
    told.pop("latency_ms")
    assert told == {
        "model": "m-1",
        "chosen": "p:m",
        "role": "default",
        "because": "role default",
        "stop": "end",
        "input_tokens": 3,
        "output_tokens": 2,
        "cached_tokens": None,
        "cost": 0.5,
    }


async def test_an_error_of_the_model_fails_the_action_in_its_own_words() -> None:
    done = await ask(Scripted([ModelUnavailable("It is down. Try again later.")]), prompt="?")

    assert done.status == "failed"
    assert "It is down. Try again later." in done.error


async def test_cancelling_the_run_stops_the_model() -> None:
    gone = asyncio.Event()
    asked = asyncio.Event()

    class Slow:
        async def generate(self, request: Request) -> Result:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                gone.set()
            raise AssertionError

    run = asyncio.create_task(
        Runtime(model=Slow()).execute(proposal(action("a", "infer", parameters={"prompt": "?"})))
    )
    await asked.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert gone.is_set()


async def test_a_plan_of_a_killed_run_asks_again() -> None:
    """Nothing is changed by asking: an attempt of unknown outcome may be made again."""
    schema = Runtime(model=Scripted([])).tools.require("infer").schema

    assert schema.repeatable
    assert schema.undo == "reversible"


async def test_they_are_offered_where_commands_must_be_confined() -> None:
    rt = Runtime(model=Scripted(["x"]), isolation=Isolation("process"))

    assert "infer" in rt.tools


async def test_a_users_tool_hides_ours() -> None:
    def infer(prompt: str) -> str:
        return "mine"

    rt = Runtime(tools=[infer], model=Scripted([]))

    assert (await rt.execute(proposal(action("a", "infer", parameters={"prompt": "?"}))))[
        "a"
    ].output == "mine"
