"""Names of tools as providers take them, and back again."""

from __future__ import annotations

import re
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from placet.inference.messages import ToolCall
from placet.inference.model import Request, Result
from placet.inference.tool_names import sent_names, with_own_names, with_sent_names
from placet.ir.tool_spec import ToolSchema
from tests.properties.effort import UNHURRIED, examples

FINE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def made_of(plain: str, name: str, attempt: int = 0) -> str:
    """The name that a tool gets where its plain one is taken; somebody may use it on purpose."""
    text = f"{name}\0{attempt}" if attempt else name
    return f"{plain[:51]}_{sha256(text.encode()).hexdigest()[:12]}"


EVIL = [made_of("a_b", name, attempt) for name in ("a.b", "a/b") for attempt in range(3)]
NAMES = st.sampled_from(["a.b", "a/b", "a b", "a_b", "a-b", "9", "_9", "", "_", "x" * 70, "x" * 71, *EVIL])


def both_ways(names: list[str]) -> list[str]:
    """What is sent for these tools; what comes back for it has to be the same."""
    request = Request(messages=[], tools=[ToolSchema(name=each) for each in names])
    table = sent_names(request)
    sent = [each.name for each in with_sent_names(request, table).tools]
    back = with_own_names(Result(calls=[ToolCall(name=each) for each in sent]), table)
    assert [each.name for each in back.calls] == names
    return sent


def test_a_tool_that_is_called_like_the_way_out_of_another_stays_apart() -> None:
    sent = both_ways(["a.b", "a_b", *EVIL])

    assert len(set(sent)) == 2 + len(EVIL)
    assert sent[1:] == ["a_b", *EVIL]


@UNHURRIED
@examples(300)
@given(st.lists(NAMES | st.text(max_size=4), unique=True, max_size=12))
def test_two_tools_never_get_one_name(names: list[str]) -> None:
    sent = both_ways(names)

    assert len(set(sent)) == len(names)
    assert all(FINE.fullmatch(each) for each in sent)
    assert all(now == was for was, now in zip(names, sent, strict=True) if FINE.fullmatch(was))
