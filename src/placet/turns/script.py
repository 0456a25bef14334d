"""What is next in a recorded run, for a loop that is led through it.

Keep true:
1. Events are taken in order, each once. One that is not the next ends the replay.
2. What comes of calls is found with the event that follows them: a call that was stopped, and made when the
   run was taken up again, has two results.
3. What an event tells is used, all of it, by the time that the next one comes: what never comes is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from placet.errors import ModelCancelled, RunError
from placet.inference.messages import Message, ToolResult, User
from placet.inference.model import Request, Result
from placet.inference.wrappers.digests import Digests
from placet.ir.ending import CallKind
from placet.safe_text import clean
from placet.turns import told
from placet.turns.calls import Asked
from placet.turns.divergence import Diverged, Divergence, Kind, other_ending, other_request
from placet.turns.ending import Ending
from placet.turns.recorded_run import Asks, Begins, Ends, Event, Key, Lost, RecordedRun, Says
from placet.turns.run_lines import Came, Stop


class Left(RunError):
    """The recorded run broke off here."""


class Interrupted(RunError):
    """Here, nobody waited any longer for what came of the message."""


class Script:
    """A recorded run, and how far it was followed. Stands where a loop wants its model."""

    def __init__(self, run: RecordedRun) -> None:
        self.requests = 0
        self.results = 0
        self.taken_up = 0
        self.ending: Ending | None = None
        self._run = run
        self._at = 0
        self._last: dict[Key, int] = {
            event.key: at for at, event in enumerate(run.events) if isinstance(event, Asks) and event.key
        }
        """Of each request, when it was asked the last time."""
        self._digests = Digests(keeps_data=False)
        self._said: list[User] = []
        self._answers: list[Result] = []
        self._known: dict[int, Came] = {}
        """What came of calls before this event."""
        self._spent_at = -1
        self._unfit_at = self._stop_at = -1
        """The event whose problem with the output, or whose stop, has come."""
        self._checked: set[int] = set()
        """The calls whose results have come since the event before."""
        self._past_calls = 0
        """How many calls there were before the run was taken up again."""
        self._is_over = False

    @property
    def _next(self) -> Event | None:
        return self._run.events[self._at] if self._at < len(self._run.events) else None

    async def generate(self, request: Request) -> Result:
        """Nobody asks: the loop takes its answers with `answer`."""
        raise NotImplementedError

    # The beginning, and what people say

    def begin(self) -> Begins | None:
        """The run begins, or is taken up again; None at the end of the recording."""
        event = self._next
        if event is None:
            return None
        if not isinstance(event, Begins):
            self._diverge(_unexpected(event), 0, f"line {event.line}", "it is not the turn of what it tells")
        self._at += 1
        self.taken_up += event.begun.recalled is not None
        self._is_over = False
        return event

    def recalled(self, begins: Begins) -> Sequence[told.Told]:
        """What the run knew from before when it was taken up again."""
        self._known.update(begins.results)
        letters = begins.begun.recalled or ""
        words = iter(begins.begun.failures_recalled)
        said, answers = iter(self._said), iter(self._answers)
        notes: list[told.Told] = []
        try:
            for letter in letters:
                match letter:
                    case "s":
                        notes.append(told.Said(next(said)))
                    case "a":
                        notes.append(told.Answered(next(answers)))
                    case "f" | "t":
                        notes.append(told.Failed(next(words), is_too_long=letter == "t"))
                    case "o":
                        notes.append(told.Overflowed())
                    case _:
                        notes.append(told.Ended(Ending(status="success", summary="")))
        except StopIteration:
            self._diverge(
                "missing", 0, f"line {begins.line}", "the run knew more than was recorded before it"
            )
        # More may have been recorded: an answer that the journal did not get is asked for again.
        self._said, self._answers = self._said[: letters.count("s")], self._answers[: letters.count("a")]
        self._past_calls = sum(len(answer.calls) for answer in self._answers)
        return notes

    def say(self) -> User | None:
        """A person's next message; None if there is none before the run breaks off."""
        match self._next:
            case Says() as event:
                self._at += 1
                self._said.append(event.message)
                return event.message
            case None | Begins():
                return None
            case event:
                self._diverge(
                    _unexpected(event), 0, f"line {event.line}", "nothing was said that it could come from"
                )

    # The model

    def answer(self, request: Request, turn: int, results: int) -> Result:
        """The recorded answer to a request.

        Raises:
            Diverged: another request was recorded, or none.
            ModelError: there was none.
        """
        match self._next:
            case Asks() as event:
                self._compare(event, request, turn)
                self._pass(event, turn)
                self.requests += 1
                if isinstance(event.answer, Result):
                    self._answers.append(event.answer)
                    return event.answer
                raise event.answer.error()
            case Ends(stop=stop) as event:
                if stop is not None and (stop.turn, stop.results, stop.is_asking) == (turn, results, True):
                    self._stop_at = self._at
                    if stop.stop is None:
                        raise Interrupted
                    raise ModelCancelled("the model was stopped")
                self._diverge(
                    "extra", turn, "the request", f"no more was asked: it ended there ({event.ending.status})"
                )
            case event:
                self._must_go_on(event, turn, "the request", "extra")

    def _compare(self, event: Asks, request: Request, turn: int) -> None:
        if event.key is None:
            if event.problem:
                self._diverge("missing", turn, f"line {event.line}", event.problem)
            self._compare_digest(event, request.messages, turn, "the request")
            return
        place = self._digests.place(request.messages).digest
        key = place, self._digests.tools(request.tools)[0], self._digests.settings(request)[0]
        if key != event.key:
            is_elsewhere = self._last.get(key, -1) > self._at
            self.leave_at(other_request(self._run, event, request, turn, is_elsewhere=is_elsewhere))
        if event.problem:
            self._diverge("request", turn, f"line {event.line}", event.problem)

    def _compare_digest(self, event: Asks | Ends, messages: Sequence[Message], turn: int, where: str) -> None:
        """Compare a conversation of which only the digest is recorded."""
        if event.at and self._run.is_as_today and self._digests.place(messages).digest != event.at:
            self._diverge("request", turn, where, f"the conversation is not that of line {event.line}")

    def spent(self) -> tuple[int, float]:
        """What tools used before the next request, in tokens and dollars; told once."""
        event = self._next
        if not isinstance(event, Asks | Ends) or self._spent_at == self._at:
            return 0, 0.0
        self._spent_at = self._at
        return event.between.tokens, event.between.cost

    def unfit(self) -> str | None:
        """Why the newest answer did not fit the output type."""
        event = self._next
        self._unfit_at = self._at
        return event.between.unfit if isinstance(event, Asks | Ends) else None

    # Calls

    def came(self, asked: Asked, turn: int, results: int, *, is_past: bool, was_past: bool) -> Came:
        """What came of a call. `is_past` says that more is known of the run from before, `was_past` that the
        call itself is from before.

        Raises:
            Diverged: nothing is recorded of it.
        """
        event, found = self._next, None
        if is_past:
            found = self._known.get(asked.number)
        elif isinstance(event, Asks | Ends):
            stop = event.stop if isinstance(event, Ends) else None
            here = (turn, results, False)
            if stop is not None and stop.stop is None and (stop.turn, stop.results, stop.is_asking) == here:
                self._stop_at = self._at
                raise Interrupted
            found = event.results.get(asked.number)
            if found is None and was_past:
                found = self._known.get(asked.number)
        else:
            self._must_go_on(event, turn, _call(asked), "missing")
        if found is None:
            self._miss(asked, turn)
        return found

    def check(self, asked: Asked, now: ToolResult, turn: int, *, was_past: bool) -> None:
        """A call has its result, and it goes into the conversation.

        Raises:
            Diverged: another was recorded, or none.
        """
        event = self._next
        if self._is_over:
            return  # The loop only puts in order what it leaves.
        if not isinstance(event, Asks | Ends):
            self._must_go_on(event, turn, _call(asked), "missing")
        found = event.results.get(asked.number)
        if found is None and was_past:
            found = self._known.get(asked.number)
        if found is None:
            if isinstance(event, Asks) and event.problem:
                return  # Whoever comes to that line says why.
            self._miss(asked, turn, now.text)
        was = found.message
        if (was.call_id, was.name) != (now.call_id, now.name):
            others = [each.message.call_id for each in event.results.values()]
            self._diverge(
                "order" if now.call_id in others else "tool result",
                turn,
                _call(asked),
                f"in its place is the result of {clean(was.call_id, 40)} ({clean(was.name, 60)})",
                was.text,
                now.text,
            )
        if was != now:
            self._diverge("tool result", turn, _call(asked), "it comes to another result", was.text, now.text)
        self.results += 1
        self._checked.add(asked.number)

    def _miss(self, asked: Asked, turn: int, now: str = "") -> NoReturn:
        if self._run.holds_result(asked.call.id):
            self._diverge("order", turn, _call(asked), "its result is recorded, but is not the next", now=now)
        self._diverge("missing", turn, _call(asked), "no result of it is recorded", now=now)

    # What stops it, and the end

    def stop_at(self, turn: int, results: int, *, is_asking: bool) -> Stop | None:
        """What stopped the run at this place, if something did."""
        event = self._next
        if not isinstance(event, Ends) or event.stop is None:
            return None
        at = event.stop
        if (at.turn, at.results, at.is_asking) != (turn, results, is_asking):
            return None
        self._stop_at = self._at
        return at.stop

    def end(self, ending: Ending, messages: Sequence[Message], turn: int) -> None:
        """The loop has ended.

        Raises:
            Diverged: the recorded one had not, or otherwise.
        """
        match self._next:
            case Ends() as event:
                other = other_ending(event.ending, ending, turn)
                if other is not None:
                    self.leave_at(other)
                self._compare_digest(event, messages, turn, "the ending")
                self.ending = event.ending
                self._pass(event, turn)
            case Asks() as event:
                self._diverge(
                    "missing",
                    turn,
                    f"line {event.line}",
                    f"it ended ({ending.status}), and was asked on then",
                )
            case event:
                self._must_go_on(event, turn, "the ending", "missing")

    def lacks(self) -> tuple[CallKind, ...]:
        """What the recorded ending, if it comes now, says that no call did."""
        return self._next.ending.lacks if isinstance(self._next, Ends) else ()

    def interrupted(self) -> None:
        """What came of the message was not waited for."""
        event = self._next
        assert isinstance(event, Ends)
        self.ending = event.ending
        self._pass(event, 0)

    def _pass(self, event: Asks | Ends, turn: int) -> None:
        never = self._never_came(event)
        if never:
            self._diverge("missing", turn, f"line {event.line}", f"{never} is recorded, and never comes")
        self._checked.clear()
        self._known.update(event.results)
        self._at += 1

    def _never_came(self, event: Asks | Ends) -> str:
        """What an event tells and nothing has asked for, in words; empty where there is nothing."""
        for number, came in event.results.items():
            if number not in self._checked and number > self._past_calls:
                return f"a result of {clean(came.message.call_id, 40)} ({clean(came.message.name, 60)})"
        if event.between.unfit is not None and self._unfit_at != self._at:
            return "what is wrong with the output"
        if isinstance(event, Ends) and event.stop is not None and self._stop_at != self._at:
            return f"a stop in turn {event.stop.turn}"
        return ""

    def _must_go_on(self, event: Event | None, turn: int, where: str, kind: Kind) -> NoReturn:
        """
        Raises:
            Left: the recording breaks off here.
            Diverged: it does not.
        """
        if event is None or isinstance(event, Begins):
            self._is_over = True
            raise Left
        if isinstance(event, Lost):
            self._diverge("missing", turn, f"line {event.line}", event.problem)
        self._diverge(kind, turn, where, f"line {event.line} tells something else")

    def _diverge(
        self, kind: Kind, turn: int, where: str, problem: str, recorded: str = "", now: str = ""
    ) -> NoReturn:
        self.leave_at(
            Divergence(kind=kind, turn=turn, where=where, problem=problem, recorded=recorded, now=now)
        )

    def leave_at(self, divergence: Divergence) -> NoReturn:
        """
        Raises:
            Diverged: always.
        """
        self._is_over = True
        raise Diverged(divergence)


def _unexpected(event: Event) -> Kind:
    return "missing" if isinstance(event, Lost) else "order"


def _call(asked: Asked) -> str:
    return f"call {asked.action_id} ({clean(asked.call.name, 60)})"
