"""A memory in the turn loop: what the model should know for each message of a person.

Keep true:
1. What memory adds stands at the end of the message, in a part of its own.
2. A memory that cannot be read ends no run: the message goes without it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from placet.errors import PlacetError
from placet.inference.messages import Message, Text, User

if TYPE_CHECKING:
    from placet.memory.memory import Memory
    from placet.runtime.open_run import OpenRun

_log = logging.getLogger(__name__)


class ConversationMemory:
    """What a turn loop asks of a memory."""

    def __init__(self, memory: Memory, budget_tokens: int) -> None:
        self._memory = memory
        self._budget_tokens = budget_tokens

    async def with_context(self, run: OpenRun, message: User) -> User:
        """The message with what the model should know for it."""
        memory = self._memory
        asked = "\n".join(part.text for part in message.parts if isinstance(part, Text))
        try:
            context = await memory.build_context(
                asked,
                self._budget_tokens,
                tenant=run.tenant,
                scope=replace(memory.scope, agent=run.caller or memory.scope.agent),
            )
            await memory.note_recalled(run.run_id, context.ids, tenant=run.tenant)
        except PlacetError as error:
            _log.warning("Memory cannot be read, and the message goes without it: %s", error)
            return message
        if not context.text:
            return message
        memory.conversations.note_labels(run.run_id, frozenset(context.labels))
        return User((*message.parts, Text(context.text, recalled=context.labels)))

    def note_message(self, run: OpenRun, message: Message) -> None:
        """A message was added to the conversation of a run."""
        self._memory.conversations.add(run.run_id, message)
