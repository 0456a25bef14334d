"""How a turn loop uses a memory: what the model should know for a message, and what was said.

What memory adds to a message is a part of its own. It is stored with the message, so a run that is resumed
reads the same. The provenance of the message says that a program wrote it, and which labels it carries, so it
does not count as the person's own words.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Protocol

from placet.errors import UsageError
from placet.inference.messages import Message, Text, User
from placet.ir.provenance import Labels, Provenance, SourcedText
from placet.turns.told import plain_text

if TYPE_CHECKING:
    from placet.runtime.open_run import OpenRun
    from placet.runtime.runtime import Runtime

LOAD_SKILL = "load_skill"
ONLY_WITH_MEMORY = frozenset({"conversation.search", LOAD_SKILL, "run_skill_script"})
"""Tools that find messages which were left out, and use skills: offered where the loop uses a memory."""


class TurnMemory(Protocol):
    """Protocol of what a turn loop asks of a memory."""

    async def recall(self, run: OpenRun, asked: str, tools: Container[str]) -> SourcedText | None:
        """Return what the model should know for a message with this text, with the labels of the facts.
        `tools` are those that the model is offered."""
        ...

    async def judged(self, run: OpenRun, passed: bool) -> None:
        """A check has said whether a run did what it was for."""
        ...

    def note_message(self, run: OpenRun, message: Message, labels: Labels) -> None:
        """A message was added to the conversation of a run. `labels` are those of what the model has read."""
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


def with_recalled(
    message: User, provenance: Provenance, recalled: SourcedText | None
) -> tuple[User, Provenance]:
    """A message with what memory adds to it as its last part, and the provenance of all of it."""
    if recalled is None or not recalled.text:
        return message, provenance
    own = plain_text(message)
    longer = User((*message.parts, Text(recalled.text)))
    added = SourcedText(plain_text(longer).removeprefix(own), recalled.origin, recalled.labels)
    return longer, Provenance.of((*provenance.parts(own), added), provenance.typed)
