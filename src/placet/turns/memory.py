"""How a turn loop uses a memory: what the model should know for a message, and what was said.

What memory adds to a message is a part of its own. It is stored with the message, so a run that is resumed
reads the same; and it does not count as the person's own words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from placet.errors import UsageError
from placet.inference.messages import Message, Text, User
from placet.policy.marks import NO_MARKS, Marks, Trail

if TYPE_CHECKING:
    from placet.runtime.open_run import OpenRun
    from placet.runtime.runtime import Runtime

SEARCH = "conversation.search"
"""The tool that finds messages which were left out; offered where the loop uses a memory."""
STEP = "memory"
"""What a trail calls the way through memory."""


class TurnMemory(Protocol):
    """Protocol of what a turn loop asks of a memory."""

    async def with_context(self, run: OpenRun, message: User) -> User:
        """Return the message with what the model should know for it, as a part at its end."""
        ...

    def note_message(self, run: OpenRun, message: Message) -> None:
        """A message was added to the conversation of a run."""
        ...


def turn_memory(runtime: Runtime, taker: str) -> TurnMemory:
    """What a turn loop asks of the memory of a runtime. `taker` is the class that wants it.

    Raises:
        UsageError: the runtime has none.
    """
    from placet.memory.memory import Memory

    if not isinstance(runtime.memory, Memory):
        raise UsageError(
            f"{taker} uses a memory, and its runtime has none. Give it one: Runtime(memory=Memory(...))."
        )
    return runtime.memory.turn_memory()


def recalled_marks(message: User) -> Marks:
    """The labels of what memory has added to a message."""
    found = [part.recalled for part in message.parts if isinstance(part, Text) and part.recalled]
    return {mark: Trail((STEP,)) for marks in found for mark in marks} or NO_MARKS
