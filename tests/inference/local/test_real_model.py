"""The real local model: one job with a tool call, and one line that is read.

One server for the whole module, for loading takes longer than answering; shared with whatever else on this
machine tests with it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
import pytest_asyncio

from placet.inference.local.model import LocalModel
from placet.inference.messages import System, ToolResult, User
from placet.inference.model import Request, Result, Words
from placet.inference.passage import Beside, Passage, doubts_in
from placet.ir.codec import decode_json
from placet.ir.tool_spec import ToolSchema
from tests.servers.local_model import model_files

# On a busy machine loading takes half a minute, and so does each answer. Fetching the files takes minutes.
pytestmark = [pytest.mark.timeout(900), pytest.mark.asyncio(loop_scope="module")]

STOCK = ToolSchema(
    name="count_stock",
    description="How many pieces of an article are in the store.",
    parameters={
        "type": "object",
        "properties": {"article": {"type": "string"}},
        "required": ["article"],
        "additionalProperties": False,
    },
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model() -> AsyncIterator[LocalModel]:
    model = LocalModel(model_files("local"))
    yield model
    await model.close()


async def test_a_job_with_a_tool_call_is_done(model: LocalModel) -> None:
    """It asks for the tool, reads what came of it, and says so; then it keeps to a schema."""
    messages = [System("Look it up, then answer in one sentence."), User("How many hammers are there?")]

    asked = await model.generate(
        Request(messages=messages, tools=[STOCK], tool_choice="required", max_tokens=100)
    )

    (call,) = asked.calls
    assert (call.name, call.problem) == ("count_stock", "")
    assert "hammer" in str(call.arguments["article"]).lower()
    assert asked.stop == "calls"
    assert asked.cost == 0.0

    result = ToolResult(call_id=call.id, name=call.name, text="37")
    talk = [*messages, asked.message, result]
    request = Request(messages=talk, tools=[STOCK], tool_choice="none", max_tokens=60)
    words = ""
    told: Result | None = None
    async with aclosing(model.stream(request)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Words):
                words += piece.text
            elif isinstance(piece, Result):
                told = piece

    assert told is not None
    assert "37" in told.text
    assert words == told.text

    schema = {
        "type": "object",
        "properties": {"mood": {"enum": ["glad", "angry"]}},
        "required": ["mood"],
        "additionalProperties": False,
    }
    question = User("Is this customer glad or angry? 'Thank you so much, it works!'")
    judged = await model.generate(Request(messages=[question], schema=schema, max_tokens=30))

    assert decode_json(judged.text) == {"mood": "glad"}
    assert judged.usage is not None
    assert judged.usage.output


async def test_it_doubts_the_word_that_is_wrong(model: LocalModel) -> None:
    """What it would have written, at the word where it goes another way."""
    passage = Passage(
        path="prices.py",
        before="def total(prices):\n    whole = 0\n    for price in prices:\n",
        line="        whole -= price",
        after="\n    return whole\n",
        beside=[Beside(path="test_prices.py", text="assert total([1, 2]) == 3")],
    )

    result = await model.generate(Request(messages=(), passage=passage))

    first = doubts_in(result.text)[0]
    assert (first.at, first.instead) == (13, "        whole += price")
    assert first.surprise > 1.0
    assert result.usage is not None
    assert result.usage.input
