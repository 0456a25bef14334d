"""A memory in the turn loop: what the model should know for each message of a person.

Keep true:
1. What memory adds stands at the end of the message, in a part of its own.
2. A memory that cannot be read ends no run: the message goes without it.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from typing import TYPE_CHECKING

from msgspec.structs import replace

from placet.errors import PlacetError
from placet.inference.messages import Message
from placet.ir.provenance import Labels, SourcedText
from placet.memory.context import labels_from_memory
from placet.memory.skills.shelf import NOTHING, Offer
from placet.memory.skills.tools import LOAD

if TYPE_CHECKING:
    from placet.memory.memory import Memory
    from placet.runtime.open_run import OpenRun

_log = logging.getLogger(__name__)


class ConversationMemory:
    """What a turn loop asks of a memory."""

    def __init__(self, memory: Memory, budget_tokens: int) -> None:
        self._memory = memory
        self._budget_tokens = budget_tokens

    async def recall(self, run: OpenRun, asked: str, tools: Container[str]) -> SourcedText | None:
        """What the model should know for a message with this text; None if there is nothing."""
        memory = self._memory
        try:
            offer = NOTHING
            if LOAD in tools:
                offer = await memory.skills.match(run.run_id, asked, persona=run.caller, tenant=run.tenant)
            context = await memory.build_context(
                asked,
                self._budget_tokens,
                tenant=run.tenant,
                scope=replace(memory.scope, agent=run.caller or memory.scope.agent),
                skills={each.name: each.description for each in offer.offered},
            )
            if offer != NOTHING:
                # What did not fit was neither offered nor withheld.
                fitting = [each for each in offer.offered if each.name in context.skills]
                await self._note(run, Offer(fitting, offer.withheld))
            await memory.note_recalled(run.run_id, context.quoted, tenant=run.tenant)
        except PlacetError as error:
            _log.warning("Memory cannot be read, and the message goes without it: %s", error)
            return None
        return SourcedText(context.text, "program", labels_from_memory(context.labels))

    async def _note(self, run: OpenRun, offer: Offer) -> None:
        await self._memory.skills.note_offer(run.run_id, offer, tenant=run.tenant)
        offered, withheld = ([each.title for each in part] for part in offer)
        run.say("skill_offered", {"offered": list(offered), "withheld": list(withheld)})

    async def judged(self, run: OpenRun, passed: bool) -> None:
        """A check has said whether a run did what it was for."""
        try:
            await self._memory.record_outcome(run.run_id, passed, by="check", tenant=run.tenant)
        except PlacetError as error:
            _log.warning("The outcome of a run could not be recorded: %s", error)

    def note_message(self, run: OpenRun, message: Message, labels: Labels) -> None:
        """A message was added to the conversation of a run."""
        self._memory.conversations.add(run.run_id, message, labels)
