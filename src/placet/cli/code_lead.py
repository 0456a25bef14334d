"""A coding session led from the command line: shown while it goes on, and decided on where somebody is there.

Keep true:
1. Nobody's run is held while a person thinks: another terminal can decide just as well.
2. Where nothing could be decided later, that is said before any work begins.
3. However it ends, it is said how it stands and what to do next.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from placet.cli.approvals import login_name
from placet.cli.asker import Asker, is_terminal
from placet.cli.code_person import CodePerson
from placet.cli.code_view import CodeView, shown_diff
from placet.cli.output import OPENING, Output

if TYPE_CHECKING:
    from pathlib import Path

    from placet.app.coder import CoderApp
    from placet.app.options import RunOptions
    from placet.checks.contract import Contract
    from placet.cli.code_options import Wish
    from placet.coder.events import Watch
    from placet.coder.session import Session
    from placet.errors import EnvironmentBroken
    from placet.tools.context import Cancel
    from placet.worktree.repository import Repository

    Start = Callable[[Cancel, Watch], Awaitable[Session | None]]

_ENDED = {"merged": 0, "failed": 1, "abandoned": 1}
_UNUSABLE, _WAITING = 2, 4


class Leading:
    """Leads one session."""

    def __init__(self, output: Output, wish: Wish) -> None:
        from placet.app.app import NOWHERE, database_url

        if wish.events and wish.as_json:
            raise click.UsageError("--events and --json both write to stdout. Give one of them.")
        self.output = output
        self._wish = wish
        self._is_kept = database_url(wish.db) != NOWHERE
        self._view: CodeView | None = None
        self._person: CodePerson | None = None
        self._is_shown = False
        """Whether the person has seen the change."""

    # Before it begins

    def repository(self, folder: Path) -> Repository:
        """The repository around a folder.

        Raises:
            UsageError: there is none to work on.
        """
        from placet.errors import UsageError
        from placet.runtime.sync import run_sync
        from placet.worktree.repository import find_repository

        if not folder.is_dir():
            # Git would look further up, and find one that is not meant.
            raise UsageError(f"There is no folder {folder}. Name one that is in a git repository.")
        return run_sync(find_repository(folder))

    def check_somebody_can_decide(self, *, has_contract: bool) -> None:
        """Refuse what could end with nothing but a question that nobody can answer.

        Raises:
            UsageError: so it is.
        """
        if self._is_kept or is_terminal():
            return
        if not has_contract:
            raise click.UsageError(
                "Nothing is kept (--db none), so nobody could confirm the checks that the model drafts. Name "
                "checks with --check, or leave --db none out."
            )
        if not self._wish.yes:
            raise click.UsageError(
                "Nothing is kept (--db none), so nobody could approve the change later. Add --yes to publish "
                "it once it is green, or leave --db none out."
            )

    def note_ended(self) -> None:
        """Say that a session which is to go on has ended, so that nobody takes what follows for news."""
        self.output.talk("It had ended already: there is nothing to go on with. This is how it ended:")
        self._is_shown = True

    def tell_contract(self, contract: Contract | None) -> None:
        """Say what will be checked, before it is."""
        import msgspec

        from placet.checks.contract import format_contract

        if contract is None:
            self.output.talk("No checks are named: the model drafts them first, and you confirm them.")
            return
        words = format_contract(msgspec.structs.replace(contract, description=""))
        self.output.talk(f"Checks:\n{words}")

    @contextmanager
    def opened(
        self, repository: Path, options: RunOptions, *, candidates: int, **more: Any
    ) -> Iterator[CoderApp]:
        """A coder, with whoever sits at the terminal as the person who is asked.

        Raises: what `open_coder` raises.
        """
        from placet.app.coder import ASK_S, open_coder
        from placet.cli.conversing import is_to_load
        from placet.cli.trust import terminal_question

        wish = self._wish
        has_person = is_terminal()
        view = CodeView(
            self.output,
            candidates=candidates,
            db=wish.db,
            is_asked_here=has_person,
            as_events=wish.events,
        )
        person = None
        if has_person:
            asker = Asker(self.output, view.silence, db=wish.db, is_kept=self._is_kept)
            person = CodePerson(self.output, view, asker, is_kept=self._is_kept)
        self._view, self._person = view, person
        opening = open_coder(
            repository,
            options,
            db=wish.db,
            ask_s=wish.ask_for or (ASK_S if has_person else None),
            ask=person.about_question if person is not None else None,
            person=person.about_call if person is not None else None,
            confirm=terminal_question(self.output),
            **more,
        )
        with self.output.opened(opening, OPENING) as app:
            self.output.redactor = app.redactor
            self._tell_lowering(app)
            if app.chosen is not None:
                view.pulse.model = app.chosen.name
                view.pulse.is_to_load = is_to_load(app.chosen.name)
                view.say(f"model: {app.chosen.name} ({app.chosen.because})")
            yield app

    def _tell_lowering(self, app: CoderApp) -> None:
        data = app.required.as_data()
        if app.chosen is not None and app.required.level == "none":
            self.output.talk(
                "Note: nothing keeps the checks in (isolation none): what the model writes can do all that "
                "you can. Each command of its own needs an approval."
            )
        if data:
            self.output.talk(
                f"Note: isolation '{data['required']}' is required here, and was lowered to "
                f"'{data['lowered_to']}' until {data['until']}: {data['because']}"
            )

    async def with_changes(self, found: Repository, name: str, wanted: bool | None) -> bool | None:
        """Whether the work begins with what is not committed; None if it is not to begin."""
        from placet.app.coder import home_folder
        from placet.render.text import count
        from placet.worktree.worktree import Worktree

        if wanted is not None:
            return wanted
        workshop = Worktree(home_folder(os.environ) / name, found)
        await workshop.open()
        changes = await workshop.changes()
        if not changes:
            return False
        if self._person is not None:
            said = await self._person.about_changes(changes)
            if said is None:
                await workshop.remove()
            return said
        self.output.talk(
            f"Note: {count(len(changes), 'file has', 'files have')} changes that are not committed. They "
            "stay as they are and are left out; --include-changes begins with them."
        )
        return False

    # From beginning to end

    def lead(self, app: CoderApp, start: Start) -> int:
        """Let it work, and be decided on; returns the exit code."""
        from placet.errors import EnvironmentBroken
        from placet.runtime.sync import run_sync

        try:
            session, signal = run_sync(self._led(app, start))
        except EnvironmentBroken as broken:
            if self._wish.as_json:
                raise
            return self._show_broken(app, broken)
        if session is None:
            self.output.talk("Nothing was begun.")
            return 128 + signal if signal else 1
        self._show_end(app, session)
        view = self._view
        assert view is not None
        if view.isolation_words:
            self.output.talk(view.isolation_words)
        if view.lost is not None:
            raise view.lost
        return _ENDED.get(session.state, 128 + signal if signal else _WAITING)

    async def _led(self, app: CoderApp, start: Start) -> tuple[Session | None, int]:
        """The second value is the signal that stopped it, or 0."""
        from placet.cli.conversing import closing
        from placet.cli.signals import Stopping
        from placet.tools.context import Cancel

        view, person = self._view, self._person
        assert view is not None
        cancel = Cancel()

        def stop(name: str) -> None:
            view.rest()
            self.output.talk("Stopping. (Once more to leave at once.)")
            if person is not None:
                person.give_up()

        app.runtime.events.add_sink(view)
        try:
            async with view.pulse.beating():
                view.pulse.wait("preparing a private copy of the repository")
                with Stopping(cancel, stop) as stopping:
                    session = await start(cancel, view.hear)
                    view.pulse.stop()
                    while session is not None and person is not None and not cancel.requested:
                        decided = await self._decide(app, person, session, cancel)
                        if decided is None:
                            break
                        session = decided
                    if session is not None:
                        await self._show_change(app, session)
            return session, stopping.by
        finally:
            view.rest()
            app.runtime.events.remove_sink(view)
            close = closing(app.coder.model)
            if close is not None:
                await close()

    async def _decide(
        self, app: CoderApp, person: CodePerson, session: Session, cancel: Cancel
    ) -> Session | None:
        """The session after the person has decided; None if there is nothing to decide, or not now."""
        from placet.coder.leading import review_words
        from placet.coder.session import BRANCH
        from placet.render.coding import included_words

        coder, view = app.coder, self._view
        assert view is not None
        if session.state == "contract_proposed" and session.contract is not None:
            said = await person.about_contract(session.contract)
        elif session.state == "needs_approval":
            self._is_shown = True
            # Who says yes has seen all that is published.
            diff = await coder.diff(session.id, whole=True)
            said = await person.about_change(
                shown_diff(self.output, diff, session.id, self._wish.db),
                BRANCH.format(id=session.id),
                " ".join(
                    filter(None, [review_words(session.needs_person), included_words(session.included)])
                ),
            )
        else:
            return None
        if said == "later":
            return None
        if said == "no":
            reason = await person.why_not()
            denying = coder.deny(session.id, reason, watch=view.hear, by=login_name())
            return await self._unless_decided(app, session, denying)
        approved = await self._unless_decided(
            app, session, coder.approve(session.id, watch=view.hear, keep=self._wish.keep, by=login_name())
        )
        if approved.state != "contract_confirmed":
            return approved
        return await coder.resume(
            session.id, approve=self._wish.yes, keep=self._wish.keep, cancel=cancel, watch=view.hear
        )

    async def _unless_decided(self, app: CoderApp, session: Session, deciding: Awaitable[Session]) -> Session:
        """What comes of a decision; or the session as it is, where somebody else was first."""
        from placet.errors import RunHeld, UsageError

        try:
            return await deciding
        except (UsageError, RunHeld):
            now = app.sessions.get(session.id)
            if now is None or now.state == session.state:
                raise
            self.output.talk("Somebody else has decided meanwhile.")
            return now

    # How it ended

    async def _show_change(self, app: CoderApp, session: Session) -> None:
        """Show the change on stdout, where it is the result and was not seen yet."""
        from placet.cli.code_view import show_diff

        wish = self._wish
        if wish.as_json or wish.events or self._is_shown or session.state not in ("needs_approval", "merged"):
            return
        assert self._view is not None
        self._view.rest()
        show_diff(self.output, await app.coder.diff(session.id, whole=True))

    def _show_broken(self, app: CoderApp, broken: EnvironmentBroken) -> int:
        """Say why its checks cannot run here, and how to resume it; returns the exit code."""
        self.output.talk(f"Error: {broken}")
        session = app.sessions.get(broken.session)
        if session is not None:
            self._show_steps(session)
        return _UNUSABLE

    def _show_steps(self, session: Session) -> None:
        from placet.app.coder import session_data
        from placet.render.coding import next_steps, steps_data

        wish, view = self._wish, self._view
        assert view is not None
        data = session_data(session, [], run_status="canceled")
        if wish.events:
            data["next"] = steps_data(data, wish.db) if self._is_kept else []
            view.write_line({"event": "ended", "session": data})
        for advice in next_steps(data, wish.db) if self._is_kept else ():
            self.output.talk(f"  {advice.sentence} {advice.command}")

    def _show_end(self, app: CoderApp, session: Session) -> None:
        from placet.app.coder import session_data
        from placet.render.coding import ending_lines, steps_data

        wish, view = self._wish, self._view
        assert view is not None
        status = app.records.journal.find(session.id).status if app.records is not None else "canceled"
        data = session_data(session, app.sessions.questions(session.id), run_status=status)
        if wish.as_json or wish.events:
            data["next"] = steps_data(data, wish.db) if self._is_kept else []
        if wish.as_json:
            self.output.show_json(data)
            return
        if wish.events:
            view.write_line({"event": "ended", "session": data})
        for line in ending_lines(data, db=wish.db, is_kept=self._is_kept, elapsed_ms=view.elapsed_ms):
            self.output.talk(line)
