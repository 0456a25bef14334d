"""An assistant at work, as `do`, `chat` and `resume` show it: its words as they come, its calls beside them.

Keep true:
1. The words go to stdout, everything else to stderr; nothing that a model or a tool wrote steers a terminal.
2. Watching changes nothing: a view only hears.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from placet.cli.output import OPENING, Output, OutputLost, terminal_width
from placet.cli.pulse import has_colour, pulse_of_stderr
from placet.render.speech import Speech
from placet.render.wrapping import StreamWrap, wrap_text

if TYPE_CHECKING:
    from placet.app.app import App
    from placet.app.options import RunOptions
    from placet.events.event import Event
    from placet.redaction import Redactor
    from placet.tools.context import Cancel
    from placet.turns.ending import Call, CallResult, Ending, Watch
    from placet.turns.ending import Event as Seen
    from placet.verify.names import NameWarning

    Start = Callable[[Cancel, Watch], Awaitable[Ending]]

_SHORT, _LONG = 160, 600
"""Columns of what is said about a call or a result, and of what a person has to know."""
_OVER = ("succeeded", "failed", "rejected", "skipped", "canceled", "unknown")
"""What has another status waits for somebody, who is told so."""
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


class Told(NamedTuple):
    """What is shown beside the words."""

    as_json: bool
    db: str | None
    """As the person named it."""
    is_kept: bool
    goes_on: str = "placet resume"
    data: Callable[[], dict[str, Any]] | None = None
    """What is printed as JSON, where that is more than the ending."""
    warnings: Sequence[NameWarning] | None = None
    """Names that mean nothing, for the JSON; None where it does not list them."""


class View:
    """Shows what an assistant does; a watch of its loop, and a sink for what else happens in its run."""

    def __init__(self, output: Output, *, with_words: bool, is_asked_here: bool = False) -> None:
        """Where the person is asked right here, the question says it all."""
        self._output = output
        self._with_words = with_words
        self._is_asked_here = is_asked_here
        self._speech = _speech(output, self._put)
        self.lost: OutputLost | None = None
        """Why words could not be written, and are not any more: the work goes on without."""
        self._is_dim = has_colour()
        self.pulse = pulse_of_stderr()
        self._isolation: str | None = None
        """The least that a command had."""
        self.has_spoken = False
        self._given: dict[str, Any] = {}
        """What calls were given of which the result is still to come, by their ids."""
        self._held: list[str] | None = None
        """What is said once a question is answered."""
        self.warnings: Sequence[NameWarning] = ()
        """Names that mean nothing in the rules; they were told before the run."""

    def __call__(self, event: Seen) -> None:
        """One thing that happened."""
        from placet.turns import ending

        match event:
            case ending.Text():
                self.pulse.stop()
                self.has_spoken = True
                if self._with_words:
                    self._speech.say(event.text)
            case ending.Thinking():
                self.pulse.think()
            case ending.Call():
                self.pulse.stop()
                self._given[event.action_id] = event.parameters
                width = terminal_width(sys.stderr)
                self.say(_call_words(event, self._output.redactor), min(_SHORT, width or _SHORT))
                self.pulse.wait(f"running {event.tool}")
            case ending.CallResult():
                given = self._given.pop(event.action_id, {})
                if event.status in _OVER:
                    self.say(_result_words(event, given), _SHORT if event.ok else _LONG)
                if not self._given:
                    self.pulse.ask()  # With the last of a turn's results the model is asked again.
            case ending.Note():
                self.say(f"· {event.text}")
            case _:
                pass  # Trouble ends it here, and is told with how it ended.

    def write(self, events: Sequence[Event]) -> None:
        """What the log is told and the loop does not tell."""
        from placet.render.history import weaker

        for event in events:
            name, data = event.action_id, event.data
            if event.kind in ("turn_loop_started", "turn_asked", "run_resumed"):
                self.pulse.ask()
            elif event.kind in ("turn_answered", "turn_loop_ended"):
                self.pulse.stop()
            elif event.kind == "action_retrying":
                self.say(f"↻ {name}: attempt {data.get('attempt')} follows: {data.get('error')}")
            elif event.kind == "approval_requested" and not self._is_asked_here:
                self.say(f"? {data.get('tool')} waits for approval {data.get('approval')}")
                self.pulse.wait(f"waiting for approval {data.get('approval')}")
            elif event.kind == "approval_recorded" and not self._is_asked_here:
                self.pulse.wait("carrying out what was approved")
            elif event.kind == "command_ran":
                self._isolation = weaker(self._isolation, str(data.get("isolation")))
            elif event.kind == "sink_failed":
                self.say(f"! not everything could be recorded: {data.get('error')}")

    @property
    def isolation_words(self) -> str:
        """What is to be said of commands that the kernel did not keep in; empty where there is nothing."""
        from placet.cli.execution import LESS

        if self._isolation not in LESS:
            return ""
        return f"  isolation: {self._isolation} for commands: {LESS[self._isolation]}"

    def _put(self, words: str) -> None:
        try:
            self._output.write(words)
        except OutputLost as lost:
            self.lost = lost

    def rest(self) -> None:
        """End what is being said, so that something else can be."""
        self.pulse.clear()
        self._speech.end()

    def say(self, text: str, most: int = _LONG) -> None:
        """One line beside the words, cut short; `text` may come from anywhere."""
        from placet.safe_text import clean

        line = clean(self._output.redactor.cut(text, most * 8), most)
        if self._held is not None:
            self._held.append(line)
            return
        self.rest()
        self._print(line)

    def tell_model(self, app: App, model: object) -> None:
        """Say who answers, and why it is that one."""
        name = str(getattr(model, "name", "") or "a model")
        chosen = app.chosen
        self.pulse.model = name
        self.pulse.is_to_load = is_to_load(name)
        because = f" ({chosen.because})" if chosen is not None and chosen.name == name else ""
        self.say(f"model: {name}{because}")

    def _print(self, line: str) -> None:
        self.pulse.clear()
        line = wrap_text(line, terminal_width(sys.stderr))
        with suppress(OSError):
            print(f"{_DIM}{line}{_PLAIN}" if self._is_dim else line, file=sys.stderr, flush=True)

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Let a question stand alone: what happens meanwhile is said afterwards."""
        self.rest()
        self._held = []
        try:
            with self.pulse.pause():
                yield
        finally:
            held, self._held = self._held, None
            for line in held:
                self._print(line)


@contextmanager
def open_for(
    output: Output,
    options: RunOptions,
    *,
    db: str | None,
    wait: float | None,
    log: str | None = None,
    as_json: bool = False,
    create: bool = True,
    memory: bool = False,
) -> Iterator[tuple[App, View]]:
    """An app for an assistant, with whoever sits at the terminal as the person who is asked; and its view.

    Raises: what `open_app` raises.
    """
    from placet.app.app import NOWHERE, database_files, database_url, open_app
    from placet.app.files import check_log, check_target
    from placet.cli.asker import Asker, is_terminal
    from placet.cli.execution import patience
    from placet.cli.isolation import tell_lowering, tell_unknown_trusted
    from placet.cli.name_warnings import warn_of_names
    from placet.cli.trust import terminal_question

    if options.yes_to is not None and options.permissions is not None:
        raise click.UsageError("--yes-to and --permissions both say what needs asking. Give one of them.")
    record = options.record
    inputs = {"the tools": options.tools, "the policies": options.policies, **database_files(db)}
    if log is not None:
        check_target(log, "--log", {**inputs, "the recording": record}, instead="run.jsonl")
        check_log(log)
    if record is not None:
        check_target(record, "--record", inputs, instead="answers.jsonl")
    view = View(output, with_words=not as_json, is_asked_here=is_terminal())
    asker = None
    if is_terminal():
        asker = Asker(output, view.silence, db=db, is_kept=database_url(db) != NOWHERE)
    opening = open_app(
        options,
        db=db,
        create=create,
        log=log,
        wait_s=patience(wait),
        binds=False,
        memory=memory,
        person=asker,
        confirm=terminal_question(output),
    )
    with output.opened(opening, OPENING) as app:
        output.redactor = app.redactor
        tell_lowering(output, app)
        tell_unknown_trusted(output, app)
        view.warnings = warn_of_names(output, app)
        yield app, view


def lead(output: Output, app: App, start: Start, told: Told, view: View, close: Any) -> int:
    """Let an assistant work, show how it goes and how it ended; returns the exit code."""
    from placet.cli.ending import exit_code
    from placet.runtime.sync import run_sync

    ending, signal = run_sync(_watched(output, app, start, view, close))
    show_ending(output, ending, told, app)
    if view.isolation_words:
        output.talk(view.isolation_words)
    if view.lost is not None:
        raise view.lost
    return exit_code(ending, signal)


async def _watched(output: Output, app: App, start: Start, view: View, close: Any) -> tuple[Ending, int]:
    """The second value is the signal that stopped it, or 0."""
    from placet.cli.signals import Stopping
    from placet.tools.context import Cancel

    cancel = Cancel()

    def stop(name: str) -> None:
        view.rest()
        output.talk("Stopping. (Once more to leave at once.)")

    app.runtime.events.add_sink(view)
    try:
        async with view.pulse.beating():
            # Before anything else; another process may hold the database.
            view.pulse.wait("recording the run")
            with Stopping(cancel, stop) as stopping:
                ending = await start(cancel, view)
        return ending, stopping.by
    finally:
        view.rest()
        app.runtime.events.remove_sink(view)
        if close is not None:
            await close()


def show_ending(
    output: Output, ending: Ending, told: Told, app: App | None = None, *, with_summary: bool = False
) -> None:
    """How it ended: as one JSON object, or in words beside what was said."""
    from placet.cli.ending import ending_lines, unasked_lines

    if told.as_json:
        for line in unasked_lines(ending):
            output.talk(line)
        shown: dict[str, Any] = ending.as_json() if told.data is None else told.data()
        if told.warnings is not None:
            import msgspec

            shown = {**shown, "warnings": msgspec.to_builtins(told.warnings)}
        output.show_json(shown)
        return
    if with_summary and ending.summary != ending.error:
        speech = _speech(output, output.write)
        speech.say(ending.summary)
        speech.end()
    found = in_flight(output, ending, app) if app is not None else {}
    for line in ending_lines(ending, db=told.db, is_kept=told.is_kept, goes_on=told.goes_on, in_flight=found):
        output.talk(line)


def in_flight(output: Output, ending: Ending, app: App) -> Mapping[str, Any]:
    """What the calls were of which a person has to say what became of them."""
    from placet.app.stories import calls_in_flight

    if app.records is None or all(each.kind != "unknown_outcome" for each in ending.waiting):
        return {}
    return calls_in_flight(app.records, ending.run_id, output.redactor)


def _speech(output: Output, write: Callable[[str], None]) -> Speech:
    # The redactor of an output may become another one.
    wrapped = StreamWrap(write, lambda: output.width)
    return Speech(
        wrapped.feed, lambda text: output.redactor.text(text), lambda text: output.redactor.open_tail(text)
    )


def is_to_load(name: str) -> bool:
    """Whether a model is one of this machine that no process has loaded yet."""
    if name != "local":
        return False
    from placet.errors import PlacetError
    from placet.inference.local.model import served_local
    from placet.inference.local.shared import is_serving

    try:
        return not is_serving(served_local(os.environ), os.environ)
    except (PlacetError, OSError):
        return False  # Whoever asks it is told what is wrong.


def closing(model: object) -> Callable[[], Awaitable[None]] | None:
    """What lets go of a model's connections and files."""
    return getattr(model, "close", None)


def _call_words(event: Call, redactor: Redactor) -> str:
    from placet.render.calls import given_words

    # Before anything is cut: half a secret is not known as one.
    shown = redactor.value(dict(event.parameters))
    assert isinstance(shown, dict)
    return f"→ {event.tool} {given_words(shown)}"


def _result_words(event: CallResult, given: Mapping[str, Any]) -> str:
    from placet.ir.result import is_nonzero
    from placet.render.calls import came_words
    from placet.render.marks import NONZERO, mark

    if event.ok:
        look = mark(NONZERO if is_nonzero(event.exit_code) else event.status)
        came = came_words(event.text, given)
        return f"  {look.sign} {event.tool}: {came}" if came else f"  {look.sign} {event.tool}"
    first = event.text.strip().partition("\n")[0]
    look = mark(event.status)
    word = {"rejected": "refused"}.get(event.status, look.word)
    return f"  {look.sign} {event.tool} {word}: {first.removeprefix(f'{event.status}: ')}"
