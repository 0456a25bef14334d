"""A conversation that a call ends: only one that succeeded, and as often as wanted. And one in which the call
has to be made before the turns run out."""

from __future__ import annotations

from typing import Any

import pytest

from placet.inference import Scripted
from placet.inference.messages import Assistant, Message, ToolCall, ToolResult, User
from placet.inference.model import Request
from placet.ir.tool_spec import ToolSchema
from placet.turns.closed_by import ClosedBy
from placet.turns.urged import Urged

REPORT = (
    Assistant(calls=[ToolCall(id="a", name="report")]),
    ToolResult(call_id="a", name="report", text="kept"),
)
REFUSED = (
    Assistant(calls=[ToolCall(id="b", name="report")]),
    ToolResult(call_id="b", name="report", text="no", is_error=True),
)
OTHER = (Assistant(calls=[ToolCall(id="c", name="look")]), ToolResult(call_id="c", name="look", text="x"))
BOTH = (
    Assistant(calls=[ToolCall(id="a", name="report"), ToolCall(id="c", name="look")]),
    ToolResult(call_id="a", name="report", text="kept"),
    ToolResult(call_id="c", name="look", text="x"),
)


@pytest.mark.parametrize(
    ("messages", "turns", "is_asked"),
    [
        ((), 1, True),
        (REPORT, 1, False),
        ((*OTHER, *REPORT), 1, False),
        ((*REPORT, *OTHER), 1, True),
        (REFUSED, 1, True),
        ((*REFUSED, *REPORT), 1, False),
        (BOTH, 1, True),
        ((*REPORT, User("go on")), 1, True),
        (REPORT, 2, True),
        ((*REPORT, *REPORT), 2, False),
        ((*REPORT, *OTHER, *REPORT), 2, False),
        ((*BOTH, *OTHER, *REPORT), 2, False),
        ((*REPORT, *REPORT, *OTHER), 2, True),
        ((*REFUSED, *OTHER, *REPORT), 2, True),
        ((*REPORT, User("go on"), *REPORT), 2, True),
        ((*REPORT, *REFUSED), 2, True),
    ],
)
async def test_what_closes_it(messages: tuple[Message, ...], turns: int, is_asked: bool) -> None:
    inner = Scripted(["asked"])
    model: Any = ClosedBy(inner, "report", lambda: "all is reported", turns=turns)

    result = await model.generate(Request(messages=[User("work"), *messages]))

    assert result.text == ("asked" if is_asked else "all is reported")
    assert len(inner.requests) == is_asked
    if not is_asked:
        assert (result.usage.total, result.cost) == (0, 0.0), "nobody answered, so nothing was used"


@pytest.mark.parametrize(
    ("messages", "after", "is_urged"),
    [
        ((), 0, True),
        ((), 1, False),
        (OTHER, 1, True),
        ((*OTHER, *OTHER), 3, False),
        ((*OTHER, *REFUSED), 2, True),
        ((*REPORT, *OTHER), 1, False),
    ],
)
async def test_what_urges_it(messages: tuple[Message, ...], after: int, is_urged: bool) -> None:
    inner = Scripted(["x"])
    tools = [ToolSchema(name="look"), ToolSchema(name="report")]

    await Urged(inner, "report", after=after).generate(
        Request(messages=[User("work"), *messages], tools=tools)
    )

    (asked,) = inner.requests
    assert [each.name for each in asked.tools] == (["report"] if is_urged else ["look", "report"])
    assert asked.tool_choice == ("required" if is_urged else "auto")
