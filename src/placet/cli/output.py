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
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeVar

from placet import truncation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

    from placet.cli.pulse import Pulse
    from placet.redaction import Redactor

T = TypeVar("T")
OPENING = "opening the database, and trying the sandbox"
"""What a command waits for before it begins."""
_PAGE = 120
"""Columns of a page where nobody says how many there are."""
_UNBOUNDED = 10_000
"""Columns where nothing ends a line: in a pipe or a file every row is one line."""


def terminal_width(stream: TextIO) -> int | None:
    """How many columns a stream has; None where it is no terminal, and lines may be as long as they are."""
    try:
        if not stream.isatty():
            return None
        given = os.environ.get("COLUMNS", "")
        return int(given) if given.isdigit() else os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return None


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
        self._pulse: Pulse | None = None
        """What says that a wait goes on, while one does."""
        # A text may be cut before the first one is shown, which is when the redactor is made.
        truncation.register(self)

    @contextmanager
    def waiting(self, what: str) -> Iterator[Pulse]:
        """Say what is waited for, as long as this lasts and nothing else is said; `what` may come from
        anywhere. Inside of another wait the words are that one's again afterwards."""
        from placet.cli.pulse import beating_aside, pulse_of_stderr

        outer = self._pulse
        pulse = self._pulse = pulse_of_stderr()
        pulse.wait(self.redactor.text(what) if self._redactor is not None else what)
        try:
            with outer.pause() if outer is not None else nullcontext(), beating_aside(pulse):
                yield pulse
        finally:
            self._pulse = outer

    @contextmanager
    def opened(self, manager: AbstractContextManager[T], what: str) -> Iterator[T]:
        """Enter `manager`, and say what is waited for until it is entered."""
        with ExitStack() as stack:
            with self.waiting(what):
                value = stack.enter_context(manager)
            yield value

    def wait_for(self, what: str) -> None:
        """Inside of `waiting`: from now on something else is waited for."""
        if self._pulse is not None:
            self._pulse.wait(self.redactor.text(what))

    def asking(self) -> AbstractContextManager[None]:
        """As long as this lasts a person is asked something, and no wait is shown."""
        return self._pulse.pause() if self._pulse is not None else nullcontext()

    def _make_room(self) -> None:
        if self._pulse is not None:
            self._pulse.clear()

    @property
    def redactor(self) -> Redactor:
        """What keeps secrets out of everything that is shown."""
        if self._redactor is None:
            from placet.app.app import known_secrets
            from placet.redaction import Redactor

            # A text may be cut while the secrets are read, and a cut asks for them.
            self._redactor = Redactor()
            self._redactor = Redactor(known_secrets(os.environ))
        return self._redactor

    @redactor.setter
    def redactor(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def longest_secret(self) -> int:
        """Characters of the longest secret of the environment."""
        return self.redactor.longest_secret()

    def without_registered(self, text: str) -> str:
        """A text without the secrets of the environment."""
        return self.redactor.without_registered(text)

    def open_tail(self, text: str) -> int:
        """How many characters at the end of a text may be the beginning of one of them."""
        return self.redactor.open_tail(text)

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

    @property
    def width(self) -> int | None:
        """Columns of the terminal that results go to; None where there is none."""
        return terminal_width(self._out)

    @property
    def page_width(self) -> int:
        """Columns of what must not run over the margin, whoever looks at it later: an approval."""
        return min(self.result_console().width, self.width or _PAGE)

    def result_console(self) -> Console:
        """For results; coloured only on a terminal."""
        return _console(self._out)

    def talk_console(self) -> Console:
        """For everything else."""
        return _console(sys.stderr)

    def show(self, *items: RenderableType) -> None:
        """Print results for people."""
        from rich.table import Table
        from rich.text import Text

        from placet.render.wrapping import wrap_rich

        # All but tables are laid out for their width by now; a word that is longer is left to the terminal.
        console, wide = self.result_console(), _console(self._out, _UNBOUNDED)
        self._make_room()
        try:
            for item in items:
                item = Text(item) if isinstance(item, str) else item
                if isinstance(item, Text):
                    if (text := self.redactor.text(item.plain)) != item.plain:
                        item = Text(text)
                    item = wrap_rich(item, self.width)
                elif isinstance(item, Table):
                    self._redact_cells(item)
                (console if isinstance(item, Table) else wide).print(item, soft_wrap=True)
            self._out.flush()
        except OSError as error:
            self._lose(error)

    def _redact_cells(self, table: Table) -> None:
        """Take secrets out of a table, whose cells are cut to their columns when it is printed."""
        from rich.text import Text

        for column in table.columns:
            for at, cell in enumerate(column._cells):
                plain = cell.plain if isinstance(cell, Text) else cell
                if isinstance(plain, str) and (shown := self.redactor.text(plain)) != plain:
                    column._cells[at] = Text(shown, style=cell.style) if isinstance(cell, Text) else shown

    def show_json(self, value: Any, *, is_declaration: bool = False) -> None:
        """Print one JSON object: over several lines for a person, on one line for a program.

        A declaration says what a `password` looks like, and holds none: it is shown as it is.
        """
        import msgspec

        shown = value if is_declaration else self.redactor.value(msgspec.to_builtins(value))
        self.write(to_json(shown, indent=self._out.isatty()) + "\n")

    def write(self, text: str) -> None:
        """Print a text as it is."""
        self._make_room()
        try:
            self._out.write(text)
            self._out.flush()
        except OSError as error:
            self._lose(error)

    def talk(self, text: str) -> None:
        """Say something beside the result; `text` may come from anywhere."""
        from placet.render.wrapping import wrap_text
        from placet.safe_text import clean

        self._make_room()
        shown = wrap_text(clean(self.redactor.text(text), lines=True), terminal_width(sys.stderr))
        with suppress(OSError):
            print(shown, file=sys.stderr, flush=True)

    def show_talk(self, lines: Sequence[Text]) -> None:
        """Print lines beside the result, coloured, all of them at once."""
        from placet.render.wrapping import wrap_rich

        width = terminal_width(sys.stderr)
        wrapped = [wrap_rich(line, width) for line in lines]
        self._make_room()
        with suppress(OSError):
            _console(sys.stderr, _UNBOUNDED).print(*wrapped, sep="\n", soft_wrap=True)

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


def _console(stream: TextIO, width: int | None = None) -> Console:
    from rich.console import Console

    class OwnConsole(Console):
        def on_broken_pipe(self) -> None:
            # rich would exit with 1; whether that is right only the command knows.
            raise BrokenPipeError

    # rich would ask the standard streams, and this one may be another by now.
    width = width or terminal_width(stream) or None
    if width is None:
        width = None if stream.isatty() or os.environ.get("COLUMNS", "").isdigit() else _UNBOUNDED
    # Everything shown here is data: no markup, emoji codes or guessed highlighting in it means anything.
    # NO_COLOR: rich would leave bold and dim, which are escapes as well.
    system: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return OwnConsole(
        file=stream, width=width, color_system=system, highlight=False, markup=False, emoji=False
    )


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
