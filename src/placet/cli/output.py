"""Where words go: results to stdout, talk to stderr.

Tools may print, and what they print must not end up in a result. So a command that runs or loads tools takes
stdout for itself and leaves them stderr in its place.

Keep true:
1. A closed pipe ends the talking, quietly, never the work: the exit code still says how that went.
2. Text that cannot be encoded is escaped, never an exception.
3. A result that cannot be written, as on a full disk, is an OutputLost: whoever waits for it must know.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from placet.redaction import Redactor

_PLAIN_WIDTH = 120
"""Columns where nobody says how many there are."""


def open_standard_streams() -> None:
    """Fill in a standard stream that the caller closed, so that no file we open takes its number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


class OutputLost(Exception):
    """The result could not be written; what was done is done."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(
            f"Cannot write the result: {cause.strerror or cause}. If a plan ran, it has run all the same; "
            "look at what it did before you run it again."
        )


class Output:
    """The two streams of one command."""

    def __init__(self) -> None:
        self._out: TextIO = sys.stdout
        self._claimed = False
        self._redactor: Redactor | None = None

    @property
    def redactor(self) -> Redactor:
        """What keeps secrets out of everything that is shown."""
        if self._redactor is None:
            from placet.app.app import known_secrets
            from placet.redaction import Redactor

            self._redactor = Redactor(known_secrets(os.environ))
        return self._redactor

    @redactor.setter
    def redactor(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def claim(self) -> None:
        """Take stdout for results alone: whatever else prints, prints to stderr from now on."""
        if self._claimed:
            return
        self._claimed = True
        sys.stdout.flush()
        encoding = sys.stdout.encoding or "utf-8"
        own = os.dup(1)
        os.dup2(2, 1)
        self._out = open(own, "w", encoding=encoding, errors="backslashreplace")  # noqa: SIM115

    def result_console(self) -> Console:
        """For results; coloured only on a terminal."""
        return _console(self._out)

    def width(self) -> int | None:
        """Columns of the terminal that results go to; None where nothing has to fit, as in a pipe."""
        return self.result_console().width if self._out.isatty() else None

    def talk_console(self) -> Console:
        """For everything else."""
        return _console(sys.stderr)

    def show(self, *items: RenderableType) -> None:
        """Print results for people."""
        from rich.text import Text

        console = self.result_console()
        try:
            for item in items:
                if isinstance(item, Text) and (text := self.redactor.text(item.plain)) != item.plain:
                    item = Text(text)
                console.print(item, soft_wrap=True)
            self._out.flush()
        except OSError as error:
            self._lose(error)

    def show_json(self, value: Any, *, is_declaration: bool = False) -> None:
        """Print one JSON object: over several lines for a person, on one line for a program.

        A declaration says what a `password` looks like, and holds none: it is shown as it is.
        """
        import msgspec

        shown = value if is_declaration else self.redactor.value(msgspec.to_builtins(value))
        self.write(to_json(shown, indent=self._out.isatty()) + "\n")

    def write(self, text: str) -> None:
        """Print a text as it is."""
        try:
            self._out.write(text)
            self._out.flush()
        except OSError as error:
            self._lose(error)

    def talk(self, text: str) -> None:
        """Say something beside the result; `text` may come from anywhere."""
        from placet.safe_text import clean

        with suppress(OSError):
            print(clean(self.redactor.text(text), lines=True), file=sys.stderr, flush=True)

    def _lose(self, error: OSError) -> None:
        self._hang_up()
        if not isinstance(error, BrokenPipeError):
            raise OutputLost(error) from None

    def _hang_up(self) -> None:
        """Nobody listens any more: send the rest, and what is left in buffers, nowhere."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._out.fileno())
        os.close(nowhere)

    def close(self) -> None:
        """Flush what is left."""
        for stream in {id(s): s for s in (self._out, sys.stdout, sys.stderr)}.values():
            try:
                stream.flush()
            except (OSError, ValueError):
                if stream is self._out:
                    self._hang_up()


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    class OwnConsole(Console):
        def on_broken_pipe(self) -> None:
            # rich would exit with 1; whether that is right only the command knows.
            raise BrokenPipeError

    width = None if stream.isatty() or os.environ.get("COLUMNS", "").isdigit() else _PLAIN_WIDTH
    # Everything shown here is data: no markup, emoji codes or guessed highlighting in it means anything.
    return OwnConsole(file=stream, width=width, highlight=False, markup=False, emoji=False)


def to_json(value: Any, *, indent: bool = False) -> str:
    """Any of our structures as JSON text, without anything in it that a terminal would obey."""
    import msgspec

    from placet.safe_text import clean_json

    try:
        encoded = msgspec.json.encode(value)
        return clean_json((msgspec.json.format(encoded, indent=2) if indent else encoded).decode())
    except UnicodeEncodeError:
        # A tool answered with half a character: JSON can carry it, as an escape.
        import json

        return json.dumps(msgspec.to_builtins(value), indent=2 if indent else None)
