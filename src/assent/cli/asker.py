"""A person in front of the terminal, asked about what an assistant wants to do.

Keep true:
1. Nothing that was typed before the question was there answers it.
2. The person sees what will run: what is cut or hidden is said to be.
3. A wait for an answer can be given up at any time, and takes no key that comes later.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from itertools import dropwhile
from typing import TYPE_CHECKING

from assent.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from rich.text import Text

    from assent.approvals.approval import Approval, Decision
    from assent.runtime.asking import Reply

_LONGEST = 4_000
"""Of a line that is typed."""
_YES, _ALWAYS, _NO, _LATER = ("y", "yes"), ("a", "always"), ("n", "no"), ("l", "later")


def is_terminal() -> bool:
    """Whether somebody is there who can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


class Asker:
    """Asks about one call at a time; what a runtime takes as a person."""

    def __init__(
        self,
        output: Output,
        silence: Callable[[], AbstractContextManager[None]],
        *,
        db: str | None,
        is_kept: bool,
    ) -> None:
        """In `silence` nothing else is said. Where nothing `is_kept`, in `db`, nobody can answer later."""
        self._output = output
        self._silence = silence
        self._db = db
        self._is_kept = is_kept

    async def __call__(self, asked: Approval) -> Reply | None:
        """What the person says; None leaves it for later."""
        from assent.cli.approvals import login_name
        from assent.runtime.asking import Reply

        with self._silence():
            lines = question_lines(asked, self._output, self._db)
            self._output.talk_console().print(*lines, sep="\n", soft_wrap=True)
            forget_typed()
            try:
                decision = await self._decision()
                if decision is None:
                    return None
                reason = None
                if decision == "deny":
                    reason = await read_line("Why not? (the model is told; Enter for no reason) ")
                return Reply(decision, reason or None, by=login_name())
            except asyncio.CancelledError:
                # Somebody else has answered, or everything stops: what comes next begins a line.
                _write("\n")
                raise

    async def _decision(self) -> Decision | None:
        later = "" if not self._is_kept else ", l = later"
        prompt = f"Allow it? y = this once, a = always exactly this, n = no{later}: "
        while True:
            typed = await read_line(prompt)
            if typed is None:
                return None if self._is_kept else "deny"
            word = typed.strip().lower()
            if word in _YES:
                return "once"
            if word in _ALWAYS:
                return "always"
            if word in _NO:
                return "deny"
            if word in _LATER and self._is_kept:
                return None
            prompt = "Write y, a, n or l: " if self._is_kept else "Write y, a or n: "


def question_lines(asked: Approval, output: Output, db: str | None) -> Iterator[Text]:
    """What is asked, and what exactly would run."""
    import time

    from rich.text import Text

    from assent.cli.approvals import for_people, hidden_places, reveal_words, without_secrets
    from assent.render.approvals import approval_lines
    from assent.render.questions import reason_words
    from assent.render.text import count
    from assent.safe_text import clean

    now = time.time()
    (shown,) = without_secrets([asked], output.redactor)
    why = reason_words(shown.reasons, shown.tier) or f"it is {shown.risk}"
    yield Text.assemble(("? ", "bold yellow"), (clean(shown.tool, 80), "bold"), f" wants to run: {why}")
    yield Text(f"  risk: {clean(shown.risk, 40)}, undoing: {clean(shown.reversibility, 40)}", style="dim")
    width = output.talk_console().width
    lines = approval_lines(for_people(shown, now), now, width)
    next(lines)
    # Facts are indented; from the first heading on stands what would run and change.
    yield from dropwhile(lambda line: line.plain.startswith(" "), lines)
    hidden = hidden_places(asked, shown)
    if hidden:
        places = count(hidden, "place is", "places are")
        yield Text(f"{places} not shown: secret, or made to look so. To see it: {reveal_words(asked, db)}")


def forget_typed() -> None:
    """Throw away what was typed and not read yet."""
    import termios

    with suppress(OSError, termios.error):
        termios.tcflush(0, termios.TCIFLUSH)


async def read_line(prompt: str) -> str | None:
    """A line that is typed on the terminal, without its end; None at the end of the input."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        if typed.done():
            return
        try:
            typed.set_result(os.read(0, _LONGEST))
        except OSError:
            typed.set_result(b"")  # The terminal is gone.

    _write(prompt)
    loop.add_reader(0, read)
    try:
        data = await typed
    finally:
        loop.remove_reader(0)
    if not data:
        _write("\n")
        return None
    return data.decode(errors="replace").rstrip("\r\n")


def _write(text: str) -> None:
    with suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()
