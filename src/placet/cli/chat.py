"""`placet chat`: a conversation with a model that works with tools, kept between messages."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from signal import SIGTERM
from typing import TYPE_CHECKING, Any

import click

from placet.cli.inputs import assistant_options, collected
from placet.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from placet.app.app import App
    from placet.app.options import RunOptions
    from placet.assistant.assistant import Assistant
    from placet.assistant.chat import Chat
    from placet.cli.conversing import View
    from placet.cli.signals import Stopping
    from placet.durable.sql import RunSummary
    from placet.inference.messages import Image
    from placet.ir.call_facts import Recovery
    from placet.runtime.call_facts import Effect
    from placet.runtime.journal import Decision, RunRecord
    from placet.tools.context import Cancel
    from placet.turns.ending import Ending, Event

_NEWEST = "newest"
_LOOKED_AT = 500
"""Runs among which the newest conversation is looked for."""
_LONGEST = 4 * 2**20
"""Of a message."""
_PROMPT = "> "
_BEGAN_WITH = {
    "workspace": "--workspace",
    "yes_to": "--yes-to",
    "permissions": "--permissions",
    "turns": "--turns",
    "tokens": "--max-tokens",
    "cost_usd": "--max-cost",
    "time_s": "--time",
    "record": "--record",
}
"""Options that a conversation keeps."""


@click.command(short_help="Talk with a model that works with tools.")
@click.option(
    "--resume",
    "resume",
    is_flag=False,
    flag_value=_NEWEST,
    default=None,
    metavar="[RUN]",
    help="Go on with this conversation; without RUN with the newest that waits for a message.",
)
@assistant_options
@click.pass_obj
@collected
def chat(
    output: Output,
    resume: str | None,
    options: RunOptions,
    images: Sequence[str],
    run_id: str | None,
    wait: float | None,
    db: str | None,
    log: str | None,
) -> int:
    """Talk with a model that works with tools; it asks before it goes far, as in `placet do`.

    Each line is a message; so is each line of a pipe. /help lists commands, such as /undo, which takes back
    what the newest message changed in the folder. Ctrl-C stops an answer; at the prompt it leaves, as the end
    of the input does. The conversation is kept, and goes on with --resume.

    Exit codes: 0 left, 1 the last line of a pipe did not succeed, 2 bad input, 4 waiting for a person.
    """
    output.claim()
    from placet.app.assistant import limits_for, make_assistant
    from placet.app.pictures import load_pictures
    from placet.cli.conversing import open_for
    from placet.cli.led import Again, go_on

    pictures = load_pictures(images)
    if resume is not None:
        given = [flag for name, flag in _BEGAN_WITH.items() if getattr(options, name) is not None]
        given += [flag for flag, value in (("--run-id", run_id), ("--image", images or None)) if value]
        if given:
            raise click.UsageError(f"{given[0]} is as it was when the conversation began. Leave it out.")
        summary, found = _find(resume, db)
        return go_on(Again(output, summary, found, options, wait=wait, db=db, log=log))
    with open_for(output, options, db=db, wait=wait, log=log) as (app, view):
        assistant = make_assistant(app, limits=limits_for(app))
        return converse(output, app, assistant, view, db=db, run_id=run_id, images=pictures, is_new=True)


def _find(given: str, db: str | None) -> tuple[RunSummary, RunRecord]:
    """The conversation that is meant.

    Raises:
        UnknownRun: there is none.
        UsageError: it is another kind of run.
    """
    from placet.app.app import open_records
    from placet.errors import UnknownRun, UsageError

    with open_records(db) as records:
        if given != _NEWEST:
            summary = records.journal.find(given)
            record = records.journal.record(summary.run_id)
            if not _is_chat(record):
                raise UsageError(f"Run '{summary.run_id}' is no conversation. See: placet runs")
            return summary, record
        for summary in records.journal.runs(limit=_LOOKED_AT):
            if summary.status not in ("waiting", "interrupted") or "folder" not in summary.context:
                continue
            record = records.journal.record(summary.run_id)
            if _is_chat(record) and _waits_for_message(records.journal.shown(summary.run_id)):
                return summary, record
        raise UnknownRun(f"No conversation in {records.database.name} waits for a message. See: placet runs")


def _is_chat(record: RunRecord) -> bool:
    from placet.assistant.assistant import kept_of
    from placet.errors import UsageError

    try:
        return kept_of(record.proposal).is_chat
    except UsageError:
        return False


def _waits_for_message(result: Any) -> bool:
    """Whether something was said in it, and nothing has to be decided first."""
    import msgspec

    if result is None:
        return True  # It broke off.
    return result.loop is not msgspec.UNSET and all(each.kind == "message" for each in result.waiting)


def converse(
    output: Output,
    app: App,
    assistant: Assistant,
    view: View,
    *,
    db: str | None,
    run_id: str | None,
    decide: Mapping[str, Decision] | None = None,
    images: Sequence[Image] = (),
    is_new: bool = False,
) -> int:
    """Talk until the person leaves; returns the exit code."""
    from placet.runtime.sync import run_sync

    session = Session(output, app, assistant, view, db)
    return run_sync(session.hold(run_id, decide, images, is_new=is_new))


class Session:
    """One sitting of a conversation."""

    def __init__(
        self,
        output: Output,
        app: App,
        assistant: Assistant,
        view: View,
        db: str | None,
    ) -> None:
        from placet.app.app import snapshots_but
        from placet.cli.asker import is_terminal
        from placet.tools.context import Cancel

        self.output = output
        self.app = app
        self.assistant = assistant
        self.view = view
        self.db = db
        self.is_kept = app.records is not None
        self.is_at_terminal = is_terminal()
        self.endings: list[Ending] = []
        self.notice = ""
        """What the model is told with the next message."""
        self._snapshots = snapshots_but(app.sealed)
        self._elsewhere = app.runtime.recovery
        self._is_told_to_leave = False
        self._stop = Cancel()
        """Stops the whole conversation."""
        self._name = ""

    async def note_undone(self) -> None:
        """The person has undone what the conversation did: that is its outcome."""
        from placet.memory.memory import Memory

        memory = self.app.runtime.memory
        if isinstance(memory, Memory):
            await memory.record_outcome(self._name, False, by="undo")

    async def hold(
        self,
        run_id: str | None,
        decide: Mapping[str, Decision] | None,
        images: Sequence[Image],
        *,
        is_new: bool,
    ) -> int:
        """Open the conversation, talk, and leave it as it is then."""
        from contextlib import AsyncExitStack

        from placet.app.app import BUILT_IN
        from placet.app.undo import Undo
        from placet.cli.conversing import closing
        from placet.ir.proposal import new_id

        name = self._name = run_id or new_id()
        self.undo = Undo(
            self._snapshots,
            self.app.workspace,
            name,
            sealed=self.app.sealed,
            reads=self._reads,
            writes=[each for each in ("write_file", "edit_file") if self.app.source_of(each) == BUILT_IN],
        )
        self.undo.has_past = not is_new
        self.app.runtime.recovery = self._recovery
        self.app.runtime.events.add_sink(self.view)
        try:
            async with AsyncExitStack() as stack:
                stack.callback(self.undo.close)
                with self._heeding(self._stop):
                    opened = await stack.enter_async_context(
                        self.assistant.chat(
                            name,
                            resume=not is_new,
                            decide=decide,
                            cancel=self._stop,
                            watch=self._see,
                            before_effect=self.undo.before_effect,
                            record=self.app.options.record,
                        )
                    )
                self.chat = opened
                self.undo.note = opened.note
                self.undo.end()
                code = await self._talk(opened, images)
            self._say_how_to_go_on(name, code)
            if self.view.lost is not None:
                raise self.view.lost
            return code
        finally:
            self.view.rest()
            self.app.runtime.events.remove_sink(self.view)
            close = closing(self.assistant.model)
            if close is not None:
                await close()

    async def _talk(self, chat: Chat, images: Sequence[Image]) -> int:
        from placet.cli.chat_commands import Commands, is_command
        from placet.safe_text import clean
        from placet.turns.leading import ending_of

        self.view.rest()
        commands = Commands(self)
        if chat.waits is not None:
            return self._waits(ending_of(chat.waits))
        if chat.last is not None and chat.last.status == "waiting":
            return self._waits(chat.last)
        if self.is_at_terminal:
            self._greet(chat)
        else:
            self.view.tell_model(self.app, self.assistant.model)
        code = 0
        while (line := self._read()) is not None:
            text = line.strip()
            if not text:
                continue
            if is_command(text):
                if await commands.do(text):
                    break
                continue
            text = text.removeprefix("/") if text.startswith("//") else text
            ending = await self._say(chat, text, images)
            images = ()
            if self._is_told_to_leave:
                return 128 + SIGTERM
            if self._stop.requested:
                self.output.talk(f"The conversation was stopped: {clean(self._stop.reason)}")
                return 1
            if ending.status == "waiting":
                return self._waits(ending)
            code = 0 if ending.succeeded or self.is_at_terminal else 1
        return code

    async def _say(self, chat: Chat, text: str, images: Sequence[Image]) -> Ending:
        from placet.tools.context import Cancel

        if self.notice:
            text, self.notice = f"({self.notice})\n\n{text}", ""
        cancel = Cancel()
        self.undo.begin()
        pulse = self.view.pulse
        pulse.model = str(getattr(self.assistant.model, "name", "") or pulse.model)
        try:
            async with pulse.beating():
                pulse.ask()
                with self._heeding(cancel) as stopping:
                    ending = await chat.say(text, images=images, cancel=cancel)
        finally:
            self.undo.end()
        self._is_told_to_leave = stopping.by == SIGTERM
        self.view.rest()
        self.endings.append(ending)
        if not ending.succeeded and ending.status != "waiting":
            self._show(ending, is_kept=False)
        return ending

    async def _recovery(self, effect: Effect) -> Recovery | None:
        """How a call can be undone: by /undo, else as anywhere."""
        found = await self.undo.recovery(effect)
        if found is not None and found.by == "none" and self._elsewhere is not None:
            return await self._elsewhere(effect) or found
        return found

    def _see(self, event: Event) -> None:
        self.undo.heard(event)
        self.view(event)

    def _reads(self, tool: str) -> bool:
        found = self.app.runtime.tools.get(tool)
        return found is not None and found.schema.risk == "read_only"

    @contextmanager
    def _heeding(self, cancel: Cancel) -> Iterator[Stopping]:
        """Ctrl-C stops what is at work, and nothing else."""
        from placet.cli.signals import Stopping

        def stop(name: str) -> None:
            self.view.rest()
            self.output.talk("Stopping. (Once more to leave at once.)")

        with Stopping(cancel, stop) as stopping:
            yield stopping

    def _waits(self, ending: Ending) -> int:
        self._show(ending, is_kept=self.is_kept)
        return 4

    def _show(self, ending: Ending, *, is_kept: bool) -> None:
        from placet.cli.conversing import Told, show_ending

        show_ending(self.output, ending, Told(False, self.db, is_kept, "placet chat --resume"), self.app)

    def _greet(self, chat: Chat) -> None:
        from placet.render.text import count

        before = sum(type(message).__name__ == "User" for message in chat.messages)
        words = (
            f"Conversation {chat.run_id}" if self.is_kept else "A conversation that is not kept (--db none)"
        )
        more = f", {count(before, 'message')} so far" if before else ""
        name = getattr(self.assistant.model, "name", "")
        self.output.talk(f"{words}{more}. Model: {name}. /help lists commands; Ctrl-D leaves.")
        if chat.last is not None and chat.last.summary != chat.last.error and not self.view.has_spoken:
            self.view.say(f"It said last: {chat.last.summary}")

    def _say_how_to_go_on(self, name: str, code: int) -> None:
        from placet.render.advice import db_words, name_words

        if self.view.isolation_words:
            self.output.talk(self.view.isolation_words.strip())
        if self.is_kept and code != 4:
            self.output.talk(f"To go on: placet chat --resume {name_words(name)}{db_words(self.db)}")

    def _read(self) -> str | None:
        """The next line; None when the person leaves."""
        if not self.is_at_terminal:
            data = sys.stdin.buffer.readline(_LONGEST) if sys.stdin is not None else b""
            return data.decode(errors="replace") if data else None
        from contextlib import suppress

        with suppress(ImportError):
            import readline  # noqa: F401
        try:
            return input(_PROMPT).encode(errors="replace").decode()
        except (EOFError, KeyboardInterrupt):
            self.output.talk("")
            return None
