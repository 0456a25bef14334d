"""A run while it goes on: a tree that changes on a terminal, plain lines elsewhere.

Keep true:
1. Watching never changes a run: a watcher is an event sink like any other, and its failure only an event.
2. Nothing is drawn from another thread, so a half-changed history is never seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import time
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from placet.cli.ending import decide_lines
from placet.events.event import Event
from placet.ir.result import is_nonzero
from placet.render.history import History, exit_code_in, why
from placet.render.marks import AWAITING, MARKS, NONZERO, mark
from placet.render.questions import answer_words, reason_words
from placet.render.steps import TERMINAL, Step
from placet.render.text import duration, exit_words
from placet.render.tree import draw_tree
from placet.safe_text import clean

if TYPE_CHECKING:
    from placet.cli.output import Output

_FRAME_S = 0.1
_SOON_S = 1.6
"""A wait before the first event that is worth a word."""
_MANY = 200
"""A longer plan is not reported action by action: only what goes wrong, and every tenth part."""

_PROGRESS_S = 2.0
"""Between two lines about how far one action has come."""

_TROUBLES = 20
"""Of those that go wrong in such a plan, the rest are counted."""


def watch(
    history: History,
    layers: Sequence[Sequence[str]],
    title: str,
    output: Output,
    reword: Callable[[str], str] = str,
    *,
    is_brief: bool = False,
    place: str | None = None,
) -> LiveTree | Lines:
    """The view that suits where stderr goes; `reword` mends what plain lines say. A brief one leaves out what
    the result says. With `place`, the option that names the database, it is said how to answer what is asked:
    the run waits for it."""
    console = output.talk_console()
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveTree(history, layers, title, console, place)
    return Lines(history, sum(map(len, layers)), output, reword, with_ends=not is_brief, place=place)


def _decide(event: Event, place: str | None) -> str:
    """How to answer what was asked, in lines; nothing where nobody waits for it."""
    approval = event.data.get("approval")
    if place is None or event.kind != "approval_requested" or not isinstance(approval, str):
        return ""
    return "".join(f"\n{line}" for line in decide_lines(approval, place))


class LiveTree:
    """The tree of layers, drawn again ten times a second, and wiped away at the end."""

    def __init__(
        self,
        history: History,
        layers: Sequence[Sequence[str]],
        title: str,
        console: Console,
        place: str | None = None,
    ) -> None:
        self._place = place
        self._to_say: list[str] = []
        """How to answer what was asked; the next frame says it above the tree."""
        self._history = history
        self._layers = layers
        self._title = title
        self._console = console
        # What tools print meanwhile appears above the tree.
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._drawing: asyncio.Task[None] | None = None

    def write(self, events: Sequence[Event]) -> None:
        """Take note; the next frame shows it."""
        for event in events:
            self._history.take(event)
            if lines := _decide(event, self._place):
                self._to_say.append(f"{clean(event.action_id or '', 60)} waits for a decision:{lines}")

    async def __aenter__(self) -> Self:
        self._live.start()
        self._drawing = asyncio.create_task(self._draw())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._drawing is not None:
            self._drawing.cancel()
        self._live.stop()

    async def _draw(self) -> None:
        began = time()
        while True:
            while self._to_say:
                self._console.print(Text(self._to_say.pop(0)), soft_wrap=True)
            size = self._console.size
            waited = time() - began
            title = self._title
            if not self._history.events and waited >= _SOON_S:
                # Another process may hold the database.
                title = f"{title} (recording the run, {waited:.0f} s)"
            tree = draw_tree(
                self._history,
                self._layers,
                title=title,
                now=time(),
                max_lines=max(8, size.height - 2),
                width=size.width,
            )
            self._live.update(tree, refresh=True)
            await asyncio.sleep(_FRAME_S)


class Lines:
    """One line per thing that happens, for logs and pipes."""

    def __init__(
        self,
        history: History,
        total: int,
        output: Output,
        reword: Callable[[str], str] = str,
        *,
        with_ends: bool = True,
        place: str | None = None,
    ) -> None:
        self._place = place
        self._with_ends = with_ends
        self._history = history
        self._total = total
        self._output = output
        self._reword = reword
        self._ended = 0
        self._tenths = 0
        self._troubles = 0
        self._told: dict[str, float] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._is_brief and self._troubles > _TROUBLES:
            self._output.talk(f"… and {self._troubles - _TROUBLES:,} more like these")

    @property
    def _is_brief(self) -> bool:
        # A plan without layers is refused: then every action is rejected, and few have anything to say.
        return self._total > _MANY or not self._total

    def write(self, events: Sequence[Event]) -> None:
        """Take note, and say so."""
        lines: list[str] = []
        for event in events:
            self._history.take(event)
            said = self._line(event)
            if said:
                lines.append(said + _decide(event, self._place))
        if lines:
            self._output.talk(self._reword("\n".join(lines)))

    def _line(self, event: Event) -> str:
        kind = event.kind
        if event.action_id is None:
            return ""
        step = self._history.step(event)
        if step is not None and step.undoes is not None:
            return ""  # The compensation's own events tell it.
        name = clean(event.action_id, 60)
        error = event.data.get("error")
        reason = f": {clean(why(error), 300)}" if isinstance(error, str) else ""
        if kind.startswith("compensation_"):
            by = event.data.get("tool") or event.data.get("action") or ""
            return f"{MARKS['rolled_back'].sign} {name}: taking it back ({clean(by, 60)}) {kind[13:]}{reason}"
        if kind in ("approval_requested", "approval_recorded") and step is not None:
            return self._asked(name, step, event)
        if kind == "action_progress" and step is not None:
            return self._progress(name, step, event)
        if kind == "action_retrying":
            return f"{MARKS['retrying'].sign} {name}: attempt {event.data.get('attempt')} follows{reason}"
        if not self._with_ends:
            return ""
        status = "rejected" if kind == "policy_violation" else kind.removeprefix("action_")
        if status not in TERMINAL:
            return "" if kind != "action_executing" or self._total > _MANY else self._started(name, event)
        self._ended += 1
        code = exit_code_in(event.data)
        is_bad = status == "succeeded" and is_nonzero(code)
        look = mark(NONZERO if is_bad else status)
        word = exit_words(code) if is_bad else look.word
        if self._total > _MANY and not is_bad and status in ("succeeded", "skipped", "canceled"):
            return self._tenth()
        if status != "succeeded" or is_bad:
            self._troubles += 1
            if self._is_brief and self._troubles > _TROUBLES:
                return self._tenth() if self._total else ""
        took = event.data.get("duration_ms")
        time_taken = f" ({duration(took)})" if isinstance(took, int | float) and duration(took) else ""
        return f"{look.sign} {name} {word}{time_taken}{reason}"

    @staticmethod
    def _asked(name: str, step: Step, event: Event) -> str:
        question = step.approvals.get(str(event.data.get("approval")))
        if question is None:
            return ""
        if event.kind == "approval_recorded":
            return f"{MARKS[AWAITING].sign} {name}: {answer_words(question)}"
        words = f"{MARKS[AWAITING].sign} {name} waits for approval {clean(question.id, 40)}"
        return f"{words}: {reason_words(question.reasons, step.tier)}"

    def _progress(self, name: str, step: Step, event: Event) -> str:
        # A log is read afterwards: a line now and then says as much as ten a second.
        if event.time - self._told.get(step.id, 0.0) < _PROGRESS_S or self._is_brief:
            return ""
        self._told[step.id] = event.time
        return f"{MARKS['executing'].sign} {name}: {clean(step.progress, 200)}"

    @staticmethod
    def _started(name: str, event: Event) -> str:
        attempt = event.data.get("attempt")
        again = f", attempt {attempt}" if isinstance(attempt, int) and attempt > 1 else ""
        return f"{MARKS['executing'].sign} {name} started{again}"

    def _tenth(self) -> str:
        tenths = min(10, self._ended * 10 // self._total)
        if tenths <= self._tenths:
            return ""
        self._tenths = tenths
        return f"{tenths * 10} % ({self._ended:,} of {self._total:,} actions ended)"
