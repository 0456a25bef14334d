"""infer, classify and embed as actions: what the model was asked, what the plan got, what it cost."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from typing import Any

import pytest

from placet import CostBudget, Isolation, Runtime
from placet.errors import ModelUnavailable, UsageError
from placet.inference import Models, Request, Result, Scripted, System, Usage, User
from placet.inference.model import Model, Vectors
from placet.inference.speech import Speech, Transcript
from placet.testing import action, proposal


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
    model = Scripted(["{}"])

    done = await ask(model, prompt="?", schema={"type": "nonsense"})

    assert done.status == "failed"
    assert "The schema cannot be used" in done.error
    assert model.requests == []


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

    assert done.status == "rejected"
    assert "non-unique" in done.error


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


@pytest.mark.parametrize("name", ["other:model", "scripted:/etc/passwd", "replay:/etc/passwd", ""])
async def test_a_plan_names_only_models_that_are_set_up(name: str) -> None:
    one = Runtime(model=Scripted(["wrong"], name="openai:a"))
    several = Runtime(model=Models({"default": ["openai:a"], "fast": ["b"]}, lambda _: Scripted(["wrong"])))
    plan = proposal(action("a", "infer", parameters={"prompt": "?", "model": name}))

    for rt in (one, several):
        assert not rt.verify(plan).valid
        assert (await rt.execute(plan))["a"].status == "rejected"


async def test_a_model_that_is_set_up_can_be_named() -> None:
    plan = proposal(action("a", "infer", parameters={"prompt": "?", "model": "b"}))
    rt = Runtime(model=Models({"default": ["a"], "fast": ["b"]}, lambda name: Scripted([name])))

    assert (await rt.execute(plan))["a"].output["text"] == "b"


@pytest.mark.parametrize("budget", [CostBudget(max_tokens=10), CostBudget(max_cost=0.01)])
async def test_a_limit_on_what_a_model_does_not_tell_is_used_up_at_once(budget: CostBudget) -> None:
    model = Scripted(["1", "2", "3"])
    plan = proposal(
        action("a", "infer", parameters={"prompt": "1"}),
        action("b", "infer", parameters={"prompt": "2"}, dependencies=["a"]),
    )

    result = await Runtime(model=model, budget=budget).execute(plan)

    assert result.outcome == "budget"
    assert len(model.requests) == 1


async def test_vectors_feed_the_budget_too() -> None:
    class Counts(Maker):
        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            return Vectors([[1.0]], usage=Usage(input=20, output=0), cost=0.0)

    plan = proposal(
        action("a", "embed", parameters={"texts": ["x"]}),
        action("b", "embed", parameters={"texts": ["y"]}, dependencies=["a"]),
    )

    async def outcome(model: Model, limit: int) -> str:
        return (await Runtime(model=model, budget=CostBudget(max_tokens=limit)).execute(plan)).outcome

    assert await outcome(Counts(), 100) == "succeeded"
    assert await outcome(Counts(), 10) == "budget"
    assert await outcome(Maker(), 100) == "budget"


async def test_questions_are_asked_at_the_same_time() -> None:
    together = asyncio.Barrier(3)

    async def meet(request: Request) -> str:
        await asyncio.wait_for(together.wait(), 30)
        return "met"

    plan = proposal(*(action(f"a{n}", "infer", parameters={"prompt": str(n)}) for n in range(3)))

    result = await Runtime(model=Scripted(meet)).execute(plan)

    assert result.outcome == "succeeded"


async def test_where_a_model_only_makes_vectors_nothing_else_is_offered() -> None:
    rt = Runtime(model=Models({"embed": ["e"]}, lambda name: Maker()))

    assert "embed" in rt.tools
    assert "infer" not in rt.tools


@pytest.mark.parametrize("model", [7, object(), Scripted])
def test_what_is_no_model_is_refused_when_it_is_attached(model: Any) -> None:
    with pytest.raises(UsageError, match="open_model"):
        Runtime(model=model)


async def test_a_model_that_returns_something_else_is_told() -> None:
    class Wrong:
        async def generate(self, request: Request) -> str:
            return "just words"

    done = await ask(Wrong(), prompt="?")  # type: ignore[arg-type]

    assert done.status == "failed"
    assert "has to return a Result" in done.error


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


async def test_what_should_be_known_comes_before_what_is_asked() -> None:
    model = Scripted(["x", '{"label": "spam"}', "y"])

    await ask(model, prompt="How many?", context="There are 7 boxes.")
    await ask(model, "classify", text="win money", labels=["spam", "ham"], context="The sender is unknown.")
    await ask(model, prompt="How many?")

    asked = [str(each.messages[-1].content) for each in model.requests if isinstance(each.messages[-1], User)]
    assert asked[0].index("7 boxes") < asked[0].index("How many?")
    assert asked[1].index("sender") < asked[1].index("win money")
    assert asked[2] == "How many?"


class Voice(Maker):
    """A model that also hears and speaks."""

    def __init__(self) -> None:
        self.heard: list[tuple[bytes, str, str | None]] = []

    async def transcribe(self, audio: bytes, *, media_type: str, language: str | None) -> Transcript:
        self.heard.append((audio, media_type, language))
        return Transcript(text="hello", model="ear", usage=Usage(input=600, output=500))

    async def synthesize(self, text: str, *, voice: str | None) -> Speech:
        if voice == "none":
            raise ModelUnavailable("there is no such voice")
        return Speech(audio=text.encode(), model="mouth")


async def test_speech_is_there_where_the_model_has_it() -> None:
    model = Voice()

    heard = await ask(model, "transcribe", audio=base64.b64encode(b"\x00\xff").decode(), language="en")
    spoken = await ask(model, "synthesize", text="hello")

    assert model.heard == [(b"\x00\xff", "audio/wav", "en")]
    assert heard.output == {"text": "hello", "model": "ear"}
    assert spoken.output == {"audio": "aGVsbG8=", "media_type": "audio/wav", "model": "mouth"}
    assert not {"transcribe", "synthesize"} & set(Runtime(model=Maker()).tools.names())


@pytest.mark.parametrize(
    ("tool", "parameters", "status"),
    [
        ("transcribe", {"audio": "no base64!"}, "failed"),
        ("transcribe", {"audio": ""}, "rejected"),
        ("synthesize", {"text": "hello", "voice": "none"}, "failed"),
    ],
)
async def test_speech_that_cannot_be(tool: str, parameters: dict[str, Any], status: str) -> None:
    model = Voice()

    done = await ask(model, tool, **parameters)

    assert done.status == status
    assert done.error
    assert model.heard == []


async def test_what_speech_takes_feeds_the_budget() -> None:
    rt = Runtime(model=Voice(), budget=CostBudget(max_tokens=1000))

    result = await rt.execute(
        proposal(
            action("a", "transcribe", parameters={"audio": "aGVsbG8="}),
            action("b", "transcribe", parameters={"audio": "aGVsbG8="}, dependencies=["a"]),
        )
    )

    assert [each.status for each in result.results] == ["succeeded", "skipped"]
