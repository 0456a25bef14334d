"""A person in front of the terminal, asked about what an assistant wants to do.

Keep true:
1. Nothing that was typed before the question was there answers it.
2. The person sees what will run: what is cut is said to be, and shown at a key; what is hidden is counted.
3. A wait for an answer can be given up at any time, and takes no key that comes later.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from itertools import dropwhile
from typing import TYPE_CHECKING

from placet.cli.output import Output, terminal_width
from placet.render.wrapping import wrap_text
from placet.truncation import margin, truncate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from rich.text import Text

    from placet.approvals.approval import Approval, Decision
    from placet.ir.call_facts import Preview
    from placet.runtime.asking import Reply

_LONGEST = 4_000
"""Of a line that is typed."""
_YES, _ALWAYS, _NO, _LATER = ("y", "yes"), ("a", "always"), ("n", "no"), ("l", "later")
_EDITS = ("e", "edits")
_STAYS = "\0"
"""A space at which no line is broken."""
_SHOW = ("s", "show")
_MOST_SHOWN = 256 * 1024
"""Characters of one question, however it is shown."""
_MOST_LINES = 20_000
_LEAST_ROOM = 16
"""Lines of a question on a small screen."""
_BESIDE = 6
"""Lines of a screen that are left for what stands around it."""
_TIERS = {
    "read_only": "looks at something",
    "sandbox_edit": "may change files in this folder",
    "full_access": "may do more than change files in this folder",
}


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
        self._explained: set[str] = set()
        """Tiers of which the person has been told what they are."""

    async def __call__(self, asked: Approval) -> Reply | None:
        """What the person says; None leaves it for later."""
        from placet.cli.approvals import login_name
        from placet.cli.changes import preview_now
        from placet.runtime.asking import Reply

        with self._silence():
            seen = await asyncio.to_thread(preview_now, asked, self._output.redactor.text)
            is_new = asked.tier in _TIERS and asked.tier not in self._explained
            head, lines = question_lines(asked, self._output, self._db, seen, explains_tier=is_new)
            self._explained.add(asked.tier or "")
            # Two lines of it are among those that are left free.
            screen = fit(lines, self._output.talk_console().height - len(head) + 2)
            self._show(head + screen)
            forget_typed()
            try:
                more = lines if len(screen) < len(lines) else None
                decision = await self._decision(more, offers_edits=asked.offers_edits)
                if decision is None:
                    # Where nothing is kept, nobody can be asked later.
                    return None if self._is_kept else Reply("deny", by=login_name())
                reason = None
                if decision == "deny":
                    reason = await read_line("Why not? (the model is told; Enter for no reason) ")
                if decision == "edits" and self._is_kept:
                    self._show(_how_to_end(asked, self._db, self._output.talk_console().width))
                return Reply(decision, reason or None, by=login_name())
            except asyncio.CancelledError:
                # Somebody else has answered, or everything stops: what comes next begins a line.
                _write("\n")
                raise

    def _show(self, lines: Sequence[Text]) -> None:
        # As one: what is printed is all there before the question is.
        self._output.show_talk(lines)

    async def _decision(self, more: Sequence[Text] | None, *, offers_edits: bool = False) -> Decision | None:
        """`more` is all of the question, where the screen shows only a part."""
        keys = {"y": "this once"}
        if offers_edits:
            keys["e"] = "all edits in this run"
        keys |= {"a": "always exactly this", "n": "no"}
        if more is not None:
            keys["s"] = "show all"
        if self._is_kept:
            keys["l"] = "later"
        # What is typed follows the last line, which is left room for it.
        width = self._output.talk_console().width - 4
        question = allow_words(keys, width)
        names = list(keys)
        prompt = question
        while True:
            typed = await read_line(prompt)
            if typed is None:
                return None
            word = typed.strip().lower()
            if word in _YES:
                return "once"
            if word in _EDITS and offers_edits:
                return "edits"
            if word in _ALWAYS:
                return "always"
            if word in _NO:
                return "deny"
            if word in _LATER and self._is_kept:
                return None
            if word in _SHOW and more is not None:
                self._show(more)
                forget_typed()
                prompt = question
                continue
            forget_typed()
            prompt = f"Write {', '.join(names[:-1])} or {names[-1]}: "


def allow_words(keys: Mapping[str, str], width: int) -> str:
    """What can be answered, broken between answers, or between words where an answer is wider than that.

    >>> allow_words({"y": "this once", "n": "no"}, 16).splitlines()
    ['Allow it?', 'y = this once,', 'n = no: ']
    """
    from placet.render.wrapping import wrap_words

    answers = [f"{key} = {means}" for key, means in keys.items()]
    if max(map(len, answers)) < width:
        answers = [answer.replace(" ", _STAYS) for answer in answers]
    words = f"Allow it? {', '.join(answers)}:"
    return "\n".join(wrap_words(words, width, cuts=True)).replace(_STAYS, " ") + " "


def question_lines(
    asked: Approval,
    output: Output,
    db: str | None,
    seen: Preview | None = None,
    *,
    explains_tier: bool = False,
) -> tuple[list[Text], list[Text]]:
    """What is asked; and what exactly would run and change. `seen` is what it would change in files now."""
    import time

    from rich.text import Text

    from placet.app.approvals import hidden_places, without_secrets
    from placet.cli.approvals import for_people, reveal_words
    from placet.cli.changes import change_of
    from placet.render.approvals import approval_lines
    from placet.render.call_facts import format_confinement, format_recovery, is_safe
    from placet.render.questions import reason_words
    from placet.render.text import count
    from placet.render.wrapping import wrap_words
    from placet.safe_text import clean

    now = time.time()
    (shown,) = without_secrets([asked], output.redactor)
    why = reason_words(shown.reasons, shown.tier) or f"it is {shown.risk}"
    width = output.talk_console().width
    head = _head(clean(shown.tool, 80), why, width)
    data = for_people(shown, now, change_of(shown, seen))
    facts = [(f"risk: {clean(shown.risk, 40)}", "dim")]
    if explains_tier and shown.tier in _TIERS:
        facts.insert(0, (f"{shown.tier}: {_TIERS[shown.tier]}", "dim"))
    is_confined, is_undone = is_safe(shown.confinement, shown.recovery)
    if shown.confinement is not None:
        facts.append((format_confinement(shown.confinement), "dim" if is_confined else "yellow"))
    if shown.recovery is not None:
        facts.append((f"undo: {format_recovery(shown.recovery)}", "dim" if is_undone else "yellow"))
    else:
        facts.append((f"undoing: {clean(shown.reversibility, 40)}", "dim"))
    head += [
        Text(f"  {line}", style=style)
        for words, style in facts
        for line in wrap_words(words, max(width - 3, 20), cuts=True)
    ]
    lines = approval_lines(data, now, width, is_whole=True)
    next(lines)
    # Facts are indented; from the first heading on stands what would run and change.
    found = bounded(dropwhile(lambda line: line.plain.startswith(" "), lines), asked, db)
    hidden = hidden_places(asked, shown)
    if hidden:
        places = count(hidden, "place is", "places are")
        found.append(Text(f"{places} not shown: secret, or made to look so. To see it:"))
        found.append(Text(f"  {reveal_words(asked, db)}"))
    return head, found


def _how_to_end(asked: Approval, db: str | None, width: int) -> list[Text]:
    """What was allowed with all edits, and the command that ends it."""
    from rich.text import Text

    from placet.render.advice import db_words, name_words
    from placet.render.wrapping import wrap_words

    told = "Further edits of files in this run are not asked about. To be asked again:"
    command = f"  placet approvals revoke {name_words(asked.id)}{db_words(db)}"
    return [Text(line, style="dim") for line in (*wrap_words(told, max(width - 1, 20)), command)]


def _head(tool: str, why: str, width: int) -> list[Text]:
    """Who wants to run, and why that is asked."""
    from rich.text import Text

    from placet.render.wrapping import wrap_words

    first, *rest = wrap_words(f"{tool} wants to run: {why}", max(width - 3, 20), cuts=True)
    line = Text.assemble(("? ", "bold yellow"), first)
    line.stylize("bold", 2, 2 + min(len(tool), len(first)))
    return [line, *(Text(f"  {more}") for more in rest)]


def bounded(lines: Iterable[Text], asked: Approval, db: str | None) -> list[Text]:
    """At most so many of the lines as somebody can look through, and a word where there are more."""
    from rich.text import Text

    from placet.render.advice import db_words, name_words

    found: list[Text] = []
    letters = 0
    for line in lines:
        letters += len(line.plain)
        if letters > _MOST_SHOWN or len(found) >= _MOST_LINES:
            command = f"placet approvals show {name_words(asked.id)} --json{db_words(db)}"
            found.append(Text(f"There is more than can be shown here. All of it: {command}", "bold yellow"))
            break
        found.append(line)
    return found


def fit(lines: Sequence[Text], height: int) -> list[Text]:
    """The lines, without those in the middle where there are more than a screen takes."""
    from rich.text import Text

    room = max(height - _BESIDE, _LEAST_ROOM)
    if len(lines) <= room:
        return list(lines)
    last = room // 3
    first = room - last - 1
    left_out = len(lines) - first - last
    told = Text(f"  … {left_out:,} of {len(lines):,} lines are left out here: s shows all …", "bold yellow")
    return [*lines[:first], told, *lines[-last:]]


def forget_typed() -> None:
    """Throw away what was typed and not read yet."""
    import termios

    with suppress(OSError, termios.error):
        termios.tcflush(0, termios.TCIFLUSH)


async def read_line(prompt: str) -> str | None:
    """A line that is typed on the terminal, without its end, and with a mark if it is cut; None at the end of
    the input, also in the middle of a line."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()
    line = bytearray()

    def read() -> None:
        if typed.done():
            return
        try:
            piece = os.read(0, _LONGEST)
        except OSError:
            piece = b""  # The terminal is gone.
        # Only a line end ends an answer: the rest of a long line would answer for it.
        words, end, _ = piece.partition(b"\n")
        line.extend(words[: _LONGEST + 1 + margin() - len(line)])
        if end or not piece:
            typed.set_result(bytes(line) + b"\n" if piece else b"")

    _write(wrap_text(prompt.rstrip(" "), terminal_width(sys.stderr)) + " " * prompt.endswith(" "))
    loop.add_reader(0, read)
    try:
        data = await typed
    finally:
        loop.remove_reader(0)
    if not data:
        _write("\n")
        return None
    text = data.decode(errors="replace").rstrip("\r\n")
    return f"{truncate(text, _LONGEST)}…" if len(data) > _LONGEST + 1 else text


def _write(text: str) -> None:
    with suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()
