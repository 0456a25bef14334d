"""A coding session while it goes on, line by line: iterations, what is read and edited, checks, what it took.

Keep true:
1. Everything goes to stderr; what a model, a tool or a check wrote is cleaned, cut, and steers nothing.
2. Where several candidates work side by side, each line says whose it is.
3. Watching changes nothing: a view only hears.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from placet.cli.conversing import View
from placet.cli.output import Output, terminal_width, to_json
from placet.render.wrapping import wrap_text
from placet.truncation import margin, truncate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from placet.checks.contract import CheckResult
    from placet.coder.events import Called, CallEnded, Event
    from placet.turns.ending import Event as TurnEvent

_SHORT, _LONG = 200, 600
_MOST_SAID = 20_000
"""Characters of what a model says that are kept until they are shown."""
_PATHS = 5
_STYLES = {"──": "\x1b[1m", "✓ ": "\x1b[32m", "✗ ": "\x1b[31m", "? ": "\x1b[33m"}
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


class CodeView(View):
    """Shows what a coder does: `hear` is a watch of its session, the view itself a sink for what else is."""

    def __init__(
        self,
        output: Output,
        *,
        candidates: int,
        db: str | None,
        is_asked_here: bool,
        as_events: bool = False,
    ) -> None:
        """`as_events` also writes each event to stdout, as a line of JSON. `db` is as the person named it."""
        super().__init__(output, with_words=False, is_asked_here=is_asked_here)
        self._has_several = candidates > 1
        self._as_events = as_events
        self._db = db
        self._began = time.monotonic()
        self._whose = ""
        """Goes before what is said of a call."""
        self._said: dict[int, str] = {}
        """What each candidate's model has said since the last call."""

    def hear(self, event: Event) -> None:
        """One thing that happened."""
        from placet.coder import events
        from placet.render import coding
        from placet.render.advice import db_words, name_words

        if self._as_events:
            self.write_line(event)
        match event:
            case events.StateChanged(state="running" | "contract_confirmed"):
                self.pulse.wait("preparing the work")
            case events.StateChanged():
                self.pulse.stop()  # What became of it is told when it ends.
            case events.BaselineStarted():
                self.pulse.stop()
                self.say("── the checks, before any work")
                self.pulse.wait("preparing the checks")
            case events.DraftingStarted():
                self.pulse.stop()
                self.say("── the model drafts checks")
                self.pulse.ask()
            case events.IterationStarted():
                words = coding.iteration_words(event.number, event.most, self.elapsed_ms)
                self.say(self._of(event.attempt, words))
                if event.hint is not None:
                    hint = f"· it is told what helped before: {' '.join(event.hint.split())}"
                    self.say(self._of(event.attempt, hint), _SHORT)
                self.pulse.ask()
            case events.Said():
                said = self._said.get(event.attempt, "")
                if len(said) < _MOST_SAID + margin():
                    self._said[event.attempt] = said + event.text
            case events.Called():
                self._tell_said(event.attempt)
                self._tell_turn(event.attempt, _turn_call(event))
            case events.CallEnded():
                self._tell_turn(event.attempt, _turn_result(event))
            case events.PlanTold():
                self._said.pop(event.attempt, None)
                self._tell_text(event.attempt, event.text)
            case events.CheckStarted():
                self.pulse.stop()
                self.say(self._of(event.attempt, f"▸ {event.name}: {event.command}"), _SHORT)
                self.pulse.wait(f"running the check {event.name}")
            case events.CheckCompleted():
                self.pulse.wait("reading what the checks say")
                self._tell_check(event.attempt, event.result)
            case events.SealBroken():
                paths = ", ".join(event.paths[:_PATHS])
                more = f" and {len(event.paths) - _PATHS:,} more" if len(event.paths) > _PATHS else ""
                words = f"✗ files were changed that checks depend on, and put back: {paths}{more}"
                self.say(self._of(event.attempt, words))
            case events.Spent():
                self.pulse.stop()
                self._tell_said(event.attempt)
                words = coding.spent_words(event.turns, event.tokens, event.cost_usd, self.elapsed_ms)
                self.say(self._of(event.attempt, words))
            case events.Asked() if not self._is_asked_here:
                self.say(self._of(event.attempt, f"? it asks: {event.question.text}"))
                name, place = name_words(event.question.id), db_words(self._db)
                self.say(f"  answer it: placet code answer {name} TEXT{place}")
            case events.Trouble():
                self.say(self._of(event.attempt, f"✗ the model: {event.text}"))
            case events.Noted():
                self.say(self._of(event.attempt, f"· {event.text}"))
            case _:
                pass

    def say(self, text: str, most: int = _LONG) -> None:
        """One line, cut short; `text` may come from anywhere."""
        super().say(f"{self._whose}{text}", most)

    def write_line(self, value: object) -> None:
        """One line of JSON on stdout, without secrets."""
        import msgspec

        self._put(to_json(self._output.redactor.value(msgspec.to_builtins(value))) + "\n")

    @property
    def elapsed_ms(self) -> float:
        """How long it goes on by now, without what a person took to decide."""
        return (time.monotonic() - self._began) * 1000

    @contextmanager
    def standstill(self) -> Iterator[None]:
        """While this lasts, all waits for a person."""
        since = time.monotonic()
        try:
            with self.pulse.pause():
                yield
        finally:
            self._began += time.monotonic() - since

    def _mark(self, attempt: int) -> str:
        return f"[{attempt}] " if self._has_several and attempt else ""

    def _of(self, attempt: int, words: str) -> str:
        return f"{self._mark(attempt)}{words}"

    def _tell_turn(self, attempt: int, event: TurnEvent) -> None:
        """As every loop of turns is shown."""
        self._whose = self._mark(attempt)
        try:
            self(event)
        finally:
            self._whose = ""

    def _tell_said(self, attempt: int) -> None:
        said = self._said.pop(attempt, "")
        if said.strip():
            self._tell_text(attempt, said)

    def _tell_text(self, attempt: int, text: str) -> None:
        from placet.render.coding import text_lines

        # As a whole: of a part it may not be seen that it is a secret.
        for line in text_lines(self._output.redactor.text(truncate(text, _MOST_SAID))):
            self.say(self._of(attempt, line))

    def _tell_check(self, attempt: int, result: CheckResult) -> None:
        import msgspec

        from placet.render.coding import check_words, tail_lines

        self.say(self._of(attempt, check_words(msgspec.to_builtins(result))))
        if not result.passed:
            for line in tail_lines(self._output.redactor.text(result.output)):
                self.say(self._of(attempt, line))

    def _print(self, line: str) -> None:
        self.pulse.clear()
        start = line.partition("] ")[2] if line.startswith("[") else line
        style = _STYLES.get(start[:2], _DIM)
        line = wrap_text(line, terminal_width(sys.stderr))
        with suppress(OSError):
            print(f"{style}{line}{_PLAIN}" if self._is_dim else line, file=sys.stderr, flush=True)


def _turn_call(event: Called) -> TurnEvent:
    from placet.turns.ending import Call

    name = f"{event.attempt}.{event.action_id}"  # Each candidate counts from one.
    return Call(turn=event.turn, action_id=name, tool=event.tool, parameters=event.parameters)


def _turn_result(event: CallEnded) -> TurnEvent:
    from placet.turns.ending import CallResult

    return CallResult(
        turn=event.turn,
        action_id=f"{event.attempt}.{event.action_id}",
        tool=event.tool,
        ok=event.ok,
        status=event.status,
        text=event.text,
        exit_code=event.exit_code,
    )


def shown_diff(output: Output, diff: str, session: str, db: str | None) -> list[Text]:
    """A change, line by line, without secrets; whoever decides is told that some are not shown."""
    from rich.text import Text

    from placet.render.advice import db_words, name_words
    from placet.render.diff import diff_lines

    # As a whole: half a secret is not known as one.
    shown = output.redactor.text(diff)
    lines = diff_lines(shown)
    if shown != diff:
        command = f"placet code diff {name_words(session)} --whole --raw{db_words(db)}"
        lines.append(Text(f"Something is not shown: secret, or made to look so. To see it: {command} | less"))
    return lines


def show_diff(output: Output, diff: str) -> None:
    """Print a change as the result: coloured on a terminal, as plain text elsewhere."""
    from placet.render.diff import diff_lines
    from placet.safe_text import clean

    shown = output.redactor.text(diff)
    if output.result_console().is_terminal:
        output.show(*diff_lines(shown))
    elif shown:
        output.write(clean(shown.removesuffix("\n"), lines=True, tabs=True) + "\n")
