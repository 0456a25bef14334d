"""What a person can write in a conversation besides messages: lines that begin with a slash."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from placet.errors import PlacetError

if TYPE_CHECKING:
    from placet.app.undo import Undone
    from placet.cli.chat import Session

_HELP: Mapping[str, str] = {
    "/help": "list these",
    "/model [NAME]": "say who answers, or have another model answer from now on",
    "/tools": "list what the model can call",
    "/yes-to [TIER]": "say what is done without asking, or change it from now on: none, read_only, "
    "sandbox_edit or full_access",
    "/approvals": "list what waits to be decided, and what is approved for always",
    "/undo [anyway]": "take back what the newest message changed in the folder, or put it back; "
    "anyway: also where others have changed it",
    "/cost": "say what the conversation has taken so far",
    "/quit": "leave; so does Ctrl-D",
}
_NOTICE = (
    "What you changed in the folder because of the message before has been taken back: "
    "its files are as they were before that message."
)
_PAST = "What was changed before this conversation was taken up again cannot be taken back here."
_LOOKED_AT = 500
"""Questions of the conversation among which those are looked for that allow all edits."""
_NAMES = 10
"""Of more files than this, the rest are counted."""


class Commands:
    """The commands of one sitting."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._by_name: dict[str, Callable[[str], Awaitable[bool | None]]] = {
            "help": self._help,
            "model": self._model,
            "tools": self._tools,
            "yes-to": self._yes_to,
            "approvals": self._approvals,
            "undo": self._undo,
            "cost": self._cost,
            "quit": self._quit,
        }

    async def do(self, line: str) -> bool:
        """Do what a line says that begins with a slash; whether the person leaves."""
        from difflib import get_close_matches

        from placet.safe_text import clean

        name, rest = (*line[1:].split(maxsplit=1), "", "")[:2]
        command = self._by_name.get(name.lower())
        if command is None:
            near = get_close_matches(name.lower(), self._by_name, n=1, cutoff=0.5)
            hint = f"Did you mean /{near[0]}?" if near else "See: /help"
            self._say(f"There is no command /{clean(name, 40)}. {hint}")
            return False
        try:
            return bool(await command(rest.strip()))
        except PlacetError as error:
            self._say(f"Error: {error}")
            return False

    def _say(self, text: str) -> None:
        self._session.output.talk(text)

    async def _help(self, rest: str) -> None:
        from placet.render.wrapping import wrap_words

        width = max(map(len, _HELP))
        room = max(self._session.output.talk_console().width - width - 3, 20)
        for name, words in _HELP.items():
            for line in wrap_words(words, room):
                self._say(f"{name:{width}}  {line}")
                name = ""

    async def _quit(self, rest: str) -> bool:
        return True

    async def _model(self, rest: str) -> None:
        session = self._session
        if rest:
            from placet.app.assistant import model_of

            model = model_of(session.app.attach(rest))
            session.assistant.model = model
            session.chat.use(model)
            self._say(f"{rest} answers from now on. To go on with it another time, name it: --model.")
            return
        chosen = session.app.chosen
        name = getattr(session.assistant.model, "name", "")
        because = f" ({chosen.because})" if chosen is not None and chosen.name == name else ""
        self._say(f"{name} answers{because}.")

    async def _tools(self, rest: str) -> None:
        from placet.render.tools import brief_lines

        tools = self._session.app.runtime.tools
        found = (tools.get(name) for name in self._session.assistant.offered())
        schemas = [each.schema for each in found if each is not None]
        for line in brief_lines(schemas, title="The model can call:", is_first=True):
            self._say(line.plain)

    async def _yes_to(self, rest: str) -> None:
        from placet.app.assistant import YES_TO, posture_of, posture_words
        from placet.safe_text import clean

        chat = self._session.chat
        if rest:
            posture = posture_of(rest) if rest in YES_TO else None
            if posture is None:
                self._say(f"'{clean(rest, 40)}' is no tier. Use one of: {', '.join(YES_TO)}.")
                return
            await chat.set_posture(posture)
        if chat.posture is None:
            self._say("Nothing is asked about.")
            return
        words = posture_words(chat.posture)
        more = "Rules still hold." if rest else "To change that: /yes-to TIER"
        self._say(f"Done without asking: {words}. {more}")

    async def _approvals(self, rest: str) -> None:
        import time

        from placet.render.advice import db_words
        from placet.safe_text import clean

        records, place = self._session.app.records, db_words(self._session.db)
        if records is None:
            self._say("Nothing is kept (--db none), so no approvals are either.")
            return
        waiting, standing = records.approvals.pending(), records.approvals.standing_ones()
        if not waiting:
            self._say("Nothing waits to be decided.")
        for one in waiting:
            self._say(f"waits: {one.id}  {clean(one.tool, 40)}, of run {clean(one.run_id, 40)}")
        if waiting:
            self._say(f"  See one, and how to decide it: placet approvals show ID{place}")
        for one in records.approvals.recent(_LOOKED_AT, run=self._session.chat.run_id):
            if one.covers_edits:
                self._say(f"edits:  {one.id}  all edits of files in this conversation")
                self._say(f"  To be asked again: placet approvals revoke {one.id}{place}")
        if not standing:
            self._say("Nothing is approved for always.")
        for one in standing:
            given = self._session.output.redactor.value(dict(one.parameters))
            until = (
                "for good" if one.holds_until is None else f"{(one.holds_until - time.time()) / 3600:.0f} h"
            )
            self._say(f"always: {one.id}  {clean(one.tool, 40)} {clean(given, 80)}, {until}")
        if standing:
            self._say(f"  To be asked again: placet approvals revoke ID{place}")

    async def _cost(self, rest: str) -> None:
        from placet.render.text import count

        session = self._session
        costs = [each.cost_usd for each in session.endings]
        known = [cost for cost in costs if cost is not None]
        uncounted = [each for each in session.endings if each.turns and each.usage is None]
        words = f"{count(session.chat.tokens, 'token')} in this conversation"
        if uncounted and not session.chat.tokens:
            words = "the model does not tell how many tokens it takes"
        elif uncounted:
            words += ", and more that the model did not tell"
        if costs and len(known) == len(costs):
            words += f"; ${sum(known):.4f} since it was opened here"
        elif costs:
            words += "; what they cost is not known"
        turns = sum(each.turns for each in session.endings)
        self._say(f"{words}; {count(turns, 'turn')} since it was opened here.")

    async def _undo(self, rest: str) -> None:
        from placet.render.text import count

        session = self._session
        undone = await session.undo.take_back(anyway=rest == "anyway")
        if why := _refusal(undone):
            self._say(f"Nothing was taken back: {why}. To take it back all the same: /undo anyway")
            return
        if not undone.amount and not undone.problem:
            self._say(_PAST if session.undo.has_past else "Nothing was changed.")
            return
        if not undone.amount:
            self._say(f"It cannot be taken back: {undone.problem}")
            return
        names = _names(undone.paths) or count(undone.amount, "change")
        if undone.is_there_again:
            self._say(f"As before it was taken back: {names}. To take it back again: /undo")
        else:
            self._say(f"Taken back: {names}. Until the next message, /undo puts it back.")
        if undone.problem:
            self._say(f"Not everything could be: {undone.problem}")
        session.notice = "" if undone.is_there_again else _NOTICE
        if not undone.is_there_again:
            await session.note_undone()


def is_command(line: str) -> bool:
    """Whether a line is no message: its first word begins with a slash and is no path. Two slashes at the
    beginning make a message of anything."""
    return re.match(r"/[^/\s]*(\s|$)", line) is not None


def _refusal(undone: Undone) -> str:
    """Why nothing was taken back that could be; empty if it was."""
    if undone.since:
        return f"{_names(undone.since)} changed after the answer ended, and that would be lost"
    if undone.is_unsure:
        return "it is not known what others have changed since, and that would be lost"
    if undone.unkept:
        return f"what is there now could not be put back again: {undone.unkept.rstrip('.')}"
    return ""


def _names(paths: Sequence[str]) -> str:
    from placet.safe_text import clean

    more = len(paths) - _NAMES
    return ", ".join(clean(path, 80) for path in paths[:_NAMES]) + (f" and {more:,} more" if more > 0 else "")
