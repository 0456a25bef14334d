"""Whoever sits at the terminal while a coding session goes on: asked what to begin with, whether a contract
and a change are right, and what a model wants to know.

Keep true:
1. Nothing that was typed before a question was there answers it.
2. A question can be given up at any time, by Ctrl-C or because somebody else has answered, and takes no key
   that comes later.
3. Only one question stands on the terminal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from placet.cli.asker import fit, forget_typed, read_line
from placet.cli.output import Output

if TYPE_CHECKING:
    from rich.text import Text

    from placet.approvals.approval import Approval
    from placet.checks.contract import Contract
    from placet.cli.asker import Asker
    from placet.cli.code_view import CodeView
    from placet.coder.session import Question
    from placet.runtime.asking import Reply

Said = Literal["yes", "no", "later"]
_WORDS: dict[str, Said] = {"y": "yes", "yes": "yes", "n": "no", "no": "no", "l": "later", "later": "later"}
_SHOW = ("s", "show")
_NAMED = 10
"""Files that are named one by one."""


class CodePerson:
    """Asks one thing after the other."""

    def __init__(self, output: Output, view: CodeView, asker: Asker, *, is_kept: bool) -> None:
        """Where nothing `is_kept`, nothing can be left for later."""
        self._output = output
        self._view = view
        self._asker = asker
        self._is_kept = is_kept
        self._turn = asyncio.Lock()
        self._reading: asyncio.Task[str | None] | None = None
        self._gone = asyncio.Event()

    def give_up(self) -> None:
        """Ask nothing any more, and leave what is asked now for later."""
        self._gone.set()
        if self._reading is not None:
            self._reading.cancel()

    async def about_call(self, asked: Approval) -> Reply | None:
        """What is said about a call that needs an approval; what a runtime takes as a person."""
        async with self._turn:
            return await self._asker(asked)

    async def about_question(self, question: Question) -> str | None:
        """What is said to a question of the model's; None leaves it to others."""
        async with self._turn:
            with self._view.silence():
                self._output.talk(f"? The model asks: {question.text}")
                forget_typed()
                return await self._line("Your answer (Enter for none): ") or None

    async def about_changes(self, changes: Sequence[str]) -> bool | None:
        """Whether the work begins with what is not committed; None if nobody says."""
        from placet.render.text import count
        from placet.safe_text import clean

        shown = [f"  {clean(path, 200)}" for path in changes[:_NAMED]]
        if len(changes) > _NAMED:
            shown.append(f"  and {len(changes) - _NAMED:,} more")
        files = count(len(changes), "file has", "files have")
        self._tell([f"{files} changes that are not committed:", *shown, "They stay as they are, either way."])
        said = await self._choose("Begin with them? y = yes, n = no, from the last commit: ", later=False)
        return None if said == "later" else said == "yes"

    async def about_contract(self, contract: Contract) -> Said:
        """Whether these checks say when the work is done."""
        from placet.checks.contract import format_contract

        lines = [f"  {line}" for line in format_contract(contract).split("\n")]
        self._tell(["The model proposes these checks, which then decide when the work is done:", *lines])
        return await self._choose("Work until they are green? y = yes, n = no{later}: ")

    async def about_change(self, diff: Sequence[Text], branch: str, besides: str = "") -> Said:
        """Whether to publish a change; `besides` says what is in it that is not the model's."""
        screen = fit(diff, self._output.talk_console().height - bool(besides))
        self._show(screen)
        if besides:
            self._tell([besides])
        more = diff if len(screen) < len(diff) else None
        return await self._choose(f"Publish it as {branch}? y = yes, n = no{{later}}: ", more)

    async def why_not(self) -> str:
        """The reason for a no."""
        with self._view.standstill():
            return await self._line("Why not? (Enter for no reason) ") or ""

    async def _choose(self, question: str, more: Sequence[Text] | None = None, *, later: bool = True) -> Said:
        """`more` is all that can be shown, where the screen shows only a part. Who goes away leaves it for
        later."""
        can_wait = later and self._is_kept
        names = ["y", "n"] + ["s"] * (more is not None) + ["l"] * can_wait
        words = (", s = show all" if more is not None else "") + (", l = later" if can_wait else "")
        first = question.replace("{later}", words)
        prompt = first
        forget_typed()
        while True:
            with self._view.standstill():
                typed = await self._line(prompt)
            if typed is None:
                return "later"
            word = typed.strip().lower()
            if word in _SHOW and more is not None:
                self._show(more)
                prompt = first
            elif word in _WORDS and (_WORDS[word] != "later" or can_wait):
                return _WORDS[word]
            else:
                prompt = f"Write {', '.join(names[:-1])} or {names[-1]}: "
            forget_typed()

    async def _line(self, prompt: str) -> str | None:
        """A line that is typed; None where nobody is there any more."""
        if self._gone.is_set():
            return None
        self._reading = asyncio.ensure_future(read_line(prompt))
        try:
            return await self._reading
        except asyncio.CancelledError:
            if not self._gone.is_set():
                self._output.talk("")  # Somebody else has answered: what comes next begins a line.
                raise
            return None
        finally:
            self._reading = None

    def _tell(self, lines: Sequence[str]) -> None:
        self._view.rest()
        self._output.talk("\n".join(lines))

    def _show(self, lines: Sequence[Text]) -> None:
        self._view.rest()
        self._output.show_talk(lines)
