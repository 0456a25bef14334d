"""`ask_user`: a model asks a person something, and goes on without an answer after a while.

Keep true:
1. The same call asks the same question: taken up again after a restart it finds the answer that was given.
2. Whoever answers first is heard, here or from elsewhere.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Annotated

import msgspec

from placet.coder.session import Question
from placet.errors import ToolError, UsageError
from placet.tools.context import ToolContext
from placet.tools.tool import Tool, tool

if TYPE_CHECKING:
    from placet.coder.store import Sessions

AskPerson = Callable[[Question], Awaitable[str | None]]
"""Async function that puts a `Question` to somebody directly and returns the answer, or `None` to leave it to
others."""

TOOL = "ask_user"
_Question = Annotated[
    str, msgspec.Meta(min_length=1, max_length=2_000, description="What to ask, in one sentence.")
]
_HERE = "the person at the terminal"
_LOOKS_S = 0.25
_A_MOMENT_S = 0.001
_NOBODY = ToolContext(action_id="", run_id="")
_GO_ON = "nobody answered within {seconds:g} s. Decide yourself what is most likely meant, and go on."


def ask_tool(
    sessions: Sessions,
    session: str,
    *,
    seconds: float,
    here: AskPerson | None = None,
    asked: Callable[[Question, bool], None] | None = None,
    closed: Callable[[Question], None] | None = None,
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Tool:
    """The tool, for one session. A question waits so many `seconds`; `asked` hears of each, and whether it
    is new: one that was put before the process died is put to whoever watches now. `closed` hears of each
    that nobody waits for any more, with its answer if there is one. `waiting` is entered for as long as a
    person is waited for."""

    @tool(
        name=TOOL,
        risk="read_only",
        description=(
            "Ask the person who wants this work something that only they can know: what is meant, or which "
            "of two ways they want. Not for what files or commands can tell. Waits for the answer; if none "
            "comes in time, go on with what is most likely."
        ),
    )
    async def ask_user(question: _Question, context: ToolContext = _NOBODY) -> str:
        now = time.time()
        put = await asyncio.to_thread(
            sessions.ask,
            Question(
                id=f"{context.run_id}.{context.action_id}",
                session=session,
                text=question,
                asked_at=now,
                until=now + seconds,
            ),
        )
        if put.answer is None and asked is not None:
            asked(put, put.asked_at == now)
        with waiting():
            ended = await _ended(sessions, put, here)
        if put.answer is None and closed is not None:
            closed(ended)
        if ended.answer is None:
            raise ToolError(_GO_ON.format(seconds=seconds), retry=False)
        return ended.answer

    ask_user.confined_to = "nothing"
    return ask_user


async def _ended(sessions: Sessions, put: Question, here: AskPerson | None) -> Question:
    """The question with its answer; without one if nobody gave it in time."""
    if put.answer is not None:
        return put
    asking = asyncio.ensure_future(here(put)) if here is not None else None
    try:
        while True:
            # Asked first: whoever answers after that is told that nobody waits any longer.
            is_over = time.time() > put.until
            if asking is not None and asking.done():
                said = asking.result()
                asking = None
                if said is not None and said.strip():
                    with suppress(UsageError):  # Somebody else was first, or it was too late.
                        return await asyncio.to_thread(sessions.answer, put.id, said, _HERE)
            found = await asyncio.to_thread(sessions.question, put.id)
            if is_over or (found is not None and found.answer is not None):
                return found if found is not None else put
            left = min(_LOOKS_S, max(put.until - time.time(), 0.0) + _A_MOMENT_S)
            if asking is not None:
                await asyncio.wait({asking}, timeout=left)
            else:
                await asyncio.sleep(left)
    finally:
        if asking is not None:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
