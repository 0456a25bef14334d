"""A conversation with an assistant: one run, however many messages, kept when it is left.

Keep true:
1. What was said and done is read back, never done again, when the conversation goes on.
2. A message that came to nothing is over: the next one does not take it up again.
3. One message at a time: the next is refused until all has come of the one before.
4. The time in which the person thinks is nobody's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from placet.errors import UsageError
from placet.inference.messages import Image, Text, User
from placet.inference.named import model_given
from placet.ir.provenance import MessageText, Provenance, parts_of, text_of
from placet.ir.result import ProposalResult, Waiting
from placet.policy.permission import Posture
from placet.runtime.stop_requests import linked
from placet.turns.ending import Ending
from placet.turns.loop import TurnLoop

if TYPE_CHECKING:
    from placet.inference.messages import Message
    from placet.inference.model import Model
    from placet.inference.named import ModelLike
    from placet.runtime.open_run import OpenRun
    from placet.tools.context import Cancel


class Chat:
    """An open conversation. Made by `Assistant.chat`."""

    def __init__(self, run: OpenRun, loop: TurnLoop, lead: Callable[[Model], Model] | None = None) -> None:
        self._run = run
        self._loop = loop
        self._lead = lead
        """Puts the guidance around a model that it needs."""
        self._is_waiting = False
        self._is_at_work = False
        self._was_left = False
        if run.ended is None:
            run.wait_begins()
        self.last: Ending | None = None
        """How the newest message ended; `None` before the first."""

    @property
    def run_id(self) -> str:
        """Id of the run, to resume the conversation later."""
        return self._run.run_id

    @property
    def waits(self) -> ProposalResult | None:
        """The decision that the conversation waits for, or `None`."""
        return self._run.ended

    @property
    def messages(self) -> Sequence[Message]:
        """All messages, as the model sees them."""
        return self._loop.conversation.messages

    @property
    def tokens(self) -> int:
        """Tokens read and written so far."""
        return self._run.tokens

    def use(self, model: ModelLike) -> None:
        """Let another model answer from now on.

        Args:
            model: The model, or its name.
        """
        found = model_given(model, "Chat.use")
        self._loop.use(found if self._lead is None else self._lead(found))

    @property
    def posture(self) -> Posture | None:
        """What is answered to calls by tier, where nothing else decides about them."""
        return self._run.posture

    async def set_posture(self, posture: Posture | str) -> None:
        """Set what needs no approval from now on; it is stored with the conversation. Rules that deny or ask,
        and tools that always need approval, hold as before.

        Args:
            posture: The posture, or its name, such as "sandbox_edit".

        Raises:
            UsageError: there is no such posture, or a message is being answered.
            StorageError: it cannot be kept; nothing has changed then.
        """
        found = Posture.named(posture) if isinstance(posture, str) else posture
        self._check_open()
        if self._is_at_work:
            raise UsageError("A message is being answered. Wait until it has come to its end.")
        await self._run.set_posture(found)

    def note(self, kind: str, data: dict[str, Any]) -> None:
        """Record an event of this conversation."""
        self._run.emit(kind, self._run.about.id, data)

    async def say(
        self, text: MessageText, *, images: Sequence[Image] = (), cancel: Cancel | None = None
    ) -> Ending:
        """Send a message and return how it ended.

        If it then waits for a decision, leave the conversation and resume it when the decision is made.

        Args:
            text: The message. A `str` counts as typed by the person; of a list of `SourcedText`, only the
                parts that the person typed do.
            images: Images that belong to it.
            cancel: Request to stop this message only; another one can follow.

        Raises:
            UsageError: the message is empty, a decision is pending, the previous message is still being
                answered, or the conversation was left.
        """
        parts = parts_of(text)
        said, provenance = text_of(parts), Provenance.of(parts)
        if not said.strip():
            raise UsageError("There is nothing to say.")
        self._check_open()
        message = User((Text(said), *images)) if images else User(said)
        with self._at_work():
            if cancel is None:
                return self._came(await self._said(message, provenance))
            whole = self._loop.cancel
            with linked(whole, cancel) as inner:
                self._loop.stop_by(inner)
                try:
                    return self._came(await self._said(message, provenance))
                finally:
                    self._loop.stop_by(whole)

    def _check_open(self) -> None:
        if self._was_left and not self._is_waiting:
            raise UsageError(
                f"This conversation was left. Go on with it: chat({self.run_id!r}, resume=True)."
            )
        if self._is_waiting or self._run.ended is not None:
            raise UsageError(f"Something has to be decided first: placet resume {self.run_id}")

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        if self._is_at_work:
            raise UsageError("One message at a time: wait until the one before has come to its end.")
        self._is_at_work = True
        self._run.wait_ends()
        try:
            yield
        finally:
            self._run.wait_begins()
            self._is_at_work = False

    async def _said(self, message: User, provenance: Provenance) -> Ending:
        try:
            return await self._loop.say(message, provenance)
        except asyncio.CancelledError:
            self._loop.leave()
            raise

    async def go_on(self) -> Ending | None:
        """Take up what was left, from before this process."""
        with self._at_work():
            ending = await self._loop.go_on()
            return self._came(ending) if ending is not None else None

    def _came(self, ending: Ending) -> Ending:
        self.last = ending
        self._is_waiting = ending.status == "waiting"
        if ending.status in ("cancelled", "error"):
            self._loop.leave(ending)
        return ending

    async def leave(self) -> None:
        """Keep it as it is."""
        if self._run.ended is not None:
            return
        self._was_left = True
        waiting: Sequence[Waiting] = (
            Waiting(kind="message", action_id="", reason="waits for the next message"),
        )
        error = "waits for the next message"
        if self._is_waiting and self.last is not None:
            waiting, error = self.last.waiting, self.last.error or error
        loop = self.last.as_json() if self.last is not None else None
        await self._run.end("waiting", error, loop=loop, waiting=waiting)
