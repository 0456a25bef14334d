"""The one turn loop: ask the model, carry out what it asks for, tell it what came of that, ask again.

The assistant, the coder, agents and governed loops all use it; they differ in what they say, offer and allow.

Keep true:
1. A turn costs the same, however many came before it.
2. Gone through again after a restart it takes the same steps: what it does depends on what was told alone.
3. Every ending says how far it came.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from placet.errors import (
    BudgetSpent,
    ContextTooLong,
    ModelCancelled,
    ModelError,
    PlacetError,
    RunError,
    StorageError,
)
from placet.events.schema import HARNESS
from placet.inference.messages import Message, Text, User
from placet.inference.model import Intent, Model, Result
from placet.ir.ending import CallKind
from placet.ir.provenance import UNRECORDED, Provenance, typed_in
from placet.ir.stop_cause import StopCause
from placet.ir.tool_spec import ToolSchema
from placet.policy.marks import labels_from
from placet.runtime.calls import words_of
from placet.safe_text import clean
from placet.turns.acting import Acting
from placet.turns.asking import LOGGED, Halt, Stopped, Terms
from placet.turns.basis import Basis, Router, lacks_words
from placet.turns.calls import Offer
from placet.turns.conversation import Conversation
from placet.turns.ending import FINISHED, OUTCOMES, Done, Ending, Watch
from placet.turns.limits import TurnLimits
from placet.turns.memory import TurnMemory, with_recalled
from placet.turns.output import OutputType, OutputUnfit
from placet.turns.repetition import Repetition
from placet.turns.told import Ended, Failed, Said, plain_text

if TYPE_CHECKING:
    from placet.runtime.open_run import OpenRun
    from placet.runtime.spill import Spill
    from placet.tools.context import Cancel

_GOES_ON = ("waiting", "canceled")
"""Of a run that ends so, more may come of the same message."""
EMPTY = "Your answer was empty. Call a tool, or give your final answer in words."


class TurnLoop(Acting):
    """A conversation between one model and one run, with a person who says something now and then."""

    def __init__(
        self,
        run: OpenRun,
        model: Model,
        offer: Offer,
        *,
        system: str = "",
        schemas: Sequence[ToolSchema] = (),
        limits: TurnLimits | None = None,
        failures: int = 1,
        failed: int = 0,
        output: OutputType[Any] | None = None,
        intent: Intent | None = None,
        cancel: Cancel | None = None,
        spill: Spill | None = None,
        watch: Watch | None = None,
        before_effect: Callable[[], Awaitable[None]] | None = None,
        memory: TurnMemory | None = None,
        unrecorded: Callable[[str], Provenance] | None = None,
        router: Router | None = None,
    ) -> None:
        """`memory` is asked what the model should know for each message, and gets to know what was said.
        `cancel` is that of the run. `failures` is how often in a row the model may give no answer, and
        `failed` how often it just did, asked by somebody else. Of a run that was taken up again,
        `go_on` brings the loop to where it stood. `before_effect` is awaited before each call that may change
        something. `unrecorded` says who wrote a message of which the journal does not say it, from before
        that was recorded; without it such a message is untrusted. `router` says what a task needs calls for;
        an answer without such calls ends as unsupported."""
        terms = Terms(
            offer=offer,
            system=system,
            schemas=schemas,
            limits=limits or TurnLimits(),
            failures=failures,
            failed=failed,
            output=output,
            intent=intent,
            cancel=cancel,
            spill=spill,
            watch=watch,
            before_effect=before_effect,
        )
        super().__init__(run, model, terms)
        self._unrecorded = unrecorded
        self._memory = memory
        self._offered = frozenset(offer.tools.names()) if offer.offered is None else offer.offered
        if memory is not None:
            self._conversation.on_message = partial(self._note_message, memory)
        self._router = router
        self.endings: list[Ending] = []
        """What came of each message so far, also of those from before the run was taken up again."""
        self._begin()

    def _begin(self) -> None:
        """Forget what belongs to one message."""
        self._repetition = Repetition()
        self._turns = 0
        self._failed_in_a_row = self._failed_before
        self._is_too_long = False
        self._was_empty = False
        self._repairs_left = 1
        self._is_repairing = False
        self._last_text = ""
        self._value: Any = None
        self._is_cut_off = False
        self._cut_off = 0
        self._succeeded = []
        self._called = []
        self._refused = []
        self._unasked = {}
        self._withheld = []
        self._basis = Basis()
        self._needs: tuple[CallKind, ...] = ()
        self._usage = None
        self._cost = 0.0

    @property
    def conversation(self) -> Conversation:
        """All that was said."""
        return self._conversation

    @property
    def failed(self) -> int:
        """How often in a row the model has just given no answer."""
        return self._failed_in_a_row

    def use(self, model: Model) -> None:
        """Ask another model from now on."""
        self._model = model

    @property
    def cancel(self) -> Cancel | None:
        """What can stop it."""
        return self._cancel

    def stop_by(self, cancel: Cancel | None) -> None:
        """Let this stop what comes next, instead of what could before."""
        self._cancel = cancel
        self._run.stop_by(cancel)

    # One message, and all that comes of it

    async def say(self, message: User, provenance: Provenance) -> Ending:
        """Say something to the model, and let it work until it is done or may go no further. `provenance`
        says who wrote which part of the message.

        Raises:
            RunHeld: the run is another's by now.
        """
        self._hear_task(message, provenance)
        needs = self._router.route.needs if self._router is not None else ()
        asked = plain_text(message)
        if self._memory is not None:
            # At the end of the conversation: its beginning stays as providers have it.
            recalled = await self._memory.recall(self._run, asked, self._offered)
            message, provenance = with_recalled(message, provenance, recalled)
        return await self._say(message, provenance, asked, needs)

    async def _say(
        self, message: User, provenance: Provenance, asked: str, needs: tuple[CallKind, ...]
    ) -> Ending:
        """`asked` is the text of the message without what memory has added; `needs` is what it needs."""
        self._tell(Said(message, provenance, needs))
        self._emit("turn_asked", {"text": self._run.brief(asked, LOGGED)})
        self.endings.append(await self._exchange(message, provenance, needs))
        return self.endings[-1]

    def _hear_task(self, message: User, provenance: Provenance) -> None:
        """Tell the router what the person typed: what nobody typed is no task of theirs."""
        if self._router is not None:
            self._router.hear("\n".join(typed_in(provenance.parts(plain_text(message)))))

    async def go_on(self) -> Ending | None:
        """Bring the loop to where it stood, and go on from there; None if nothing had been said."""
        ending = None
        while self._recalled:
            note = self._recalled.popleft()
            if isinstance(note, Said):
                provenance = self._provenance_of(note)
                self._hear_task(note.message, provenance)
                ending = await self._exchange(note.message, provenance, note.needs)
                self.endings.append(ending)
        return ending

    async def judged(self, passed: bool) -> None:
        """A check has said whether the run did what it was for."""
        if self._memory is not None:
            await self._memory.judged(self._run, passed)

    def _note_message(self, memory: TurnMemory, message: Message) -> None:
        memory.note_message(self._run, message, labels_from(self._reading.marks))

    def _provenance_of(self, note: Said) -> Provenance:
        if note.provenance is not None:
            return note.provenance
        return self._unrecorded(plain_text(note.message)) if self._unrecorded is not None else UNRECORDED

    async def _exchange(
        self, message: User, provenance: Provenance, needs: tuple[CallKind, ...] = ()
    ) -> Ending:
        self._begin()
        self._needs = needs
        self._conversation.hear(message)
        for typed in provenance.typed:
            self._reading.heard(typed)
        self._reading.took(provenance.parts(plain_text(message)))
        first = next((part.text for part in message.parts if isinstance(part, Text)), "")
        self._run.reads(first, self._reading.marks)
        self._run.hear(self._calls + 1)
        with self._in_time():
            while True:
                if self._recalled and isinstance(known := self._recalled[0], Ended):
                    self._recalled.popleft()
                    self._take_back(message)
                    return known.ending
                if self._recalled and isinstance(self._recalled[0], Said):
                    self._take_back(message)
                    return self._ending(
                        Halt("cancelled", "it was left for another message", cause=StopCause.SUPERSEDED)
                    )
                halt = None if self._recalled else self._halt()
                if halt is None and self._turns >= self._limits.turns:
                    halt = Halt("max_turns", f"stopped after {self._turns} turns without finishing")
                if halt is None:
                    halt = await self._turn_once()
                if halt is not None:
                    self._take_back(message)
                    return self._end(halt)

    def _take_back(self, message: User) -> None:
        """A message that no model could read is over; with the next one, there may be room again."""
        if self._is_too_long:
            self._conversation.take_back(message)

    async def _turn_once(self) -> Halt | None:
        """One turn; why it was the last, if it was."""
        self._make_room()
        self._turns += 1
        self._turn += 1
        try:
            result = await self._answer()
        except ContextTooLong as error:
            return self._overflowed(error)
        except BudgetSpent as error:
            return Halt("budget", str(error))
        except (Stopped, ModelCancelled):
            return self._halt() or self._failed(
                ModelError("the model stopped, and nobody had asked for that")
            )
        except RunError:
            raise
        except StorageError as error:
            # The answer is not kept, so nothing may follow from it, and asking again would help nobody.
            return Halt("error", f"the run cannot be kept: {error}")
        except PlacetError as error:
            return self._failed(error)
        except Exception as error:
            return self._failed(ModelError(f"the model failed: {type(error).__name__}: {words_of(error)}"))
        self._failed_in_a_row = 0
        self._is_too_long = False
        if result.model == HARNESS:
            self._turns -= 1  # The model was not asked.
        if result.stop == "length":
            self._cut_off += 1
        if result.text.strip():
            self._last_text = result.text
        if result.calls:
            self._was_empty = False
            return await self._act(result)
        return self._conclude(result)

    # The end of it

    def _conclude(self, result: Result) -> Halt | None:
        """The model asks for nothing more: whether it is done."""
        text = result.text.strip()
        if result.stop == "refused":
            return self._reject(f"the model would not answer{': ' + text if text else ''}")
        if not text:
            if self._was_empty:
                return self._reject("the model answered nothing, twice in a row")
            self._was_empty = True
            self._conversation.add(User(EMPTY))
            return None
        self._was_empty = False
        value = None
        if self._output is not None:
            try:
                value = self._output.read(text)
            except OutputUnfit as unfit:
                if not self._repairs_left:
                    return self._reject(f"the answer does not fit the output type: {unfit}")
                self._repairs_left -= 1
                self._is_repairing = True
                self._conversation.add(result.message)
                self._conversation.add(User(self._output.repair(str(unfit))))
                return None
        self._conversation.add(result.message)
        self._value = value
        self._is_cut_off = result.stop == "length"
        lacks = self._lacks()
        return Halt("unsupported", lacks_words(lacks)) if lacks else Halt("success", "")

    def _lacks(self) -> tuple[CallKind, ...]:
        """What the task needs and no successful call did."""
        return self._basis.lacks(self._needs)

    def _reject(self, why: str) -> Halt | None:
        """An answer came to nothing, and the message ends with it. Taken up again, the model is asked anew,
        as if it had not answered."""
        self._was_empty = False
        self._repairs_left = 1
        if self._recalled and isinstance(self._recalled[0], Failed):
            self._recalled.popleft()
            return None
        if not self._recalled:
            self._tell(Failed(clean(why, LOGGED)))
        return Halt("error", why)

    def _end(self, halt: Halt) -> Ending:
        ending = self._ending(halt)
        if self._recalled:
            # It ended so before, and what was told then is still to come.
            if isinstance(self._recalled[0], Ended):
                self._recalled.popleft()
            return ending
        if OUTCOMES[halt.status] not in _GOES_ON:
            self.leave(ending)
        self._emit(
            "turn_loop_ended",
            {
                "status": ending.status,
                "turns": ending.turns,
                "tools": len(ending.tools),
                "looked": list(ending.looked),
                "changed": list(ending.changed),
                "ran": list(ending.ran),
                "lacks": list(ending.lacks),
                "summary": self._run.brief(ending.summary, LOGGED),
                "error": ending.error,
                "input_tokens": ending.usage.input if ending.usage is not None else None,
                "output_tokens": ending.usage.output if ending.usage is not None else None,
                "cost": ending.cost_usd,
            },
        )
        self._tell_watch(Done(ending=ending))
        return ending

    def leave(self, ending: Ending | None = None) -> None:
        """No more is to come of the message before, also after a restart. Without an ending it was
        interrupted."""
        if ending is None:
            ending = self._ending(Halt("cancelled", "it was interrupted", cause=StopCause.TASK))
        self._tell(Ended(msgspec.structs.replace(ending, output=None)))

    def _ending(self, halt: Halt) -> Ending:
        return Ending(
            status=halt.status,
            summary=self._last_text or halt.error or "done",
            turns=self._turns,
            tools=tuple(self._succeeded),
            called=tuple(self._called),
            refused=tuple(self._refused),
            unasked=dict(self._unasked),
            withheld=tuple(dict.fromkeys(self._withheld)),
            looked=tuple(self._basis.looked),
            changed=tuple(self._basis.changed),
            ran=tuple(self._basis.ran),
            lacks=self._lacks() if halt.status == "unsupported" else (),
            usage=self._usage,
            cost_usd=self._cost if self._usage is not None else None,
            run_id=self._run.run_id,
            error=halt.error or None,
            stop_cause=halt.cause,
            waiting=tuple(halt.waiting),
            is_cut_off=halt.status in FINISHED and self._is_cut_off,
            cut_off=self._cut_off,
            output=self._value if halt.status in FINISHED else None,
            labels=self._reading.labels(self._fresh),
        )
