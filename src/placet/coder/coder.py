"""The coding loop as callers see it: work until the contract is green, then ask before anything is published.

Keep true:
1. Nothing of the person's repository changes before they approve, and then one new branch is all that does.
2. A session is worked on by one process at a time, and can be taken up by the next one from any state.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from placet.checks.contract import Check, Contract
from placet.coder import closing
from placet.coder.beginning import agreed_contract, check_asked, check_decidable, check_text
from placet.coder.session import BRANCH, LEADER, WORDS, CodeLimits, Session
from placet.coder.store import MemorySessions
from placet.errors import PlacetError, RunHeld, UnknownRun, UsageError
from placet.inference.model import Model
from placet.inference.named import ModelLike, make_ready, model_given
from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal, new_id
from placet.runtime.given import check_runtime
from placet.runtime.journal import LED_BY
from placet.runtime.stop_requests import linked
from placet.runtime.sync import refuse_inside_loop, run_sync
from placet.safe_text import clean
from placet.storage.lease import StopRequest
from placet.tools.context import Cancel
from placet.truncation import truncate_repr

if TYPE_CHECKING:
    from placet.coder.asking import AskPerson
    from placet.coder.events import Watch
    from placet.coder.repairs import Repairs
    from placet.coder.store import Sessions
    from placet.coder.work import Work
    from placet.runtime.open_run import OpenRun
    from placet.runtime.runtime import Runtime
    from placet.sandbox.confinement import Isolation
    from placet.worktree.worktree import Worktree


class Coder:
    """Changes a program in a private copy of its git repository until checks pass, and publishes changes that
    a person approves.
    """

    def __init__(
        self,
        runtime: Runtime,
        model: ModelLike,
        repository: str | os.PathLike[str] = ".",
        *,
        home: str | os.PathLike[str] | None = None,
        sessions: Sessions | None = None,
        repairs: Repairs | None = None,
        isolation: Isolation | None = None,
        limits: CodeLimits | None = None,
        style: str | None = None,
        ask_s: float | None = None,
        ask: AskPerson | None = None,
        chooses_context: bool = True,
    ) -> None:
        """The coder uses the policies, permissions, log, journal and approvals of the runtime, and tools of
        its own. To approve, resume or cancel a session later, the runtime needs a `journal`.

        Args:
            runtime: Executes the calls; people are asked through it.
            model: The model that writes the change, or its name, such as `"openai:gpt-5"`; a name is
                opened, with `os.environ`, when a session begins.
            repository: A folder of the git repository.
            home: Folder for private copies. `None`: `code` in the user's state folder.
            sessions: Store of sessions, such as `SqlSessions`. `None`: in memory.
            repairs: Store of approaches that helped before, such as `Repairs(database)`. `None`: in memory.
            isolation: Protections for commands and checks. `None`: `Isolation("process")`.
            limits: Limits of each session.
            style: `"large"` or `"small"`, for large and small models. `None`: what suits the model.
            ask_s: How long a question of the model waits for a person, in seconds. `None`: it cannot ask.
            ask: Function that puts a question of the model to somebody directly.
            chooses_context: Show the model the part of the program that a failure is about.

        Raises:
            UsageError: an argument is not a runtime, a model or a style.
        """
        from placet.coder.repairs import Repairs
        from placet.coder.style import style_for
        from placet.sandbox.confinement import Isolation, isolation_of
        from placet.storage.location import state_folder, user_folder

        check_runtime(runtime, "Coder")
        if ask_s is not None and not ask_s > 0:
            raise UsageError(
                f"Coder(ask_s={truncate_repr(ask_s, 40)}): it must be above 0; None asks nobody."
            )
        self.runtime = runtime
        """The runtime."""
        self.model: Model = model_given(model, "Coder")
        """The model."""
        self.limits: CodeLimits = limits or CodeLimits()
        """Limits of each session."""
        self._folder = Path(repository)
        self._home = Path(home) if home is not None else state_folder(os.environ) / "code"
        self._sessions: Sessions = sessions if sessions is not None else MemorySessions()
        self._repairs: Repairs = repairs if repairs is not None else Repairs()
        self._isolation = isolation_of(isolation) or Isolation("process", folder=user_folder(os.environ))
        names = [*(getattr(self.model, "names", None) or ()), str(getattr(self.model, "name", ""))]
        self._style = style_for(names, style)
        self._ask_s = ask_s
        self._ask = ask
        self._chooses_context = chooses_context

    # From beginning to end

    async def run(
        self,
        intent: str,
        checks: Sequence[str | Check] = (),
        *,
        contract: Contract | None = None,
        may_touch: Sequence[str] = (),
        candidates: int = 1,
        include_changes: bool = False,
        even_if_green: bool = False,
        approve: bool = False,
        keep: bool = False,
        session_id: str | None = None,
        cancel: Cancel | None = None,
        watch: Watch | None = None,
    ) -> Session:
        """Work until the checks pass or no progress is possible, and return the session.

        Its state is then `needs_approval`, `failed`, or `abandoned` if there was nothing to do;
        `contract_proposed` if the model drafted a contract that a person has to confirm; `merged` if
        `approve` published the change. A session that was stopped by `cancel` can be resumed.

        Args:
            intent: The change to make, in words.
            checks: Commands or `Check` objects that must pass. Without them and without a `contract`, the
                model drafts a contract.
            contract: The checks and what the change may touch.
            may_touch: Patterns of files that checks depend on and that the change may modify nevertheless.
            candidates: Number of attempts that are made side by side.
            include_changes: Start with the uncommitted changes of the working tree.
            even_if_green: Work even if all checks pass before any change.
            approve: Publish a change that passes without waiting for approval.
            keep: Leave the private copies in place.
            session_id: Id of the session. `None`: a new one.
            cancel: Request to stop.
            watch: Function that is called with every event as it happens.

        Raises:
            UsageError: there is no intent or no repository, the contract is invalid, the id is in use, or the
                runtime has no journal and `approve` is not set.
            IsolationMissing: less is enforced than required.
            EnvironmentBroken: a check cannot run on this machine, whatever is changed. No model was asked to
                work, and the session can be resumed when that is fixed.
        """
        check_asked(intent, candidates=candidates, session_id=session_id)
        agreed = agreed_contract(intent, checks, contract, may_touch)
        check_decidable(agreed, approve=approve, has_journal=self.runtime.journal is not None)
        from placet.coder.leading import SessionLeader
        from placet.coder.repairs import repository_key
        from placet.worktree.publish import check_free
        from placet.worktree.repository import first_commit
        from placet.worktree.worktree import Worktree, find_repository

        make_ready(self.model)
        await self._isolation.check()
        found = await find_repository(self._folder)
        check_text(intent, "The intent")
        check_text(str(found.top), "The path of the repository")
        name = session_id or new_id()
        if self._sessions.get(name) is not None:
            raise UsageError(f"There is a coding session '{name}' already. Choose another id.")
        # Better now than when all is done.
        await check_free(found, BRANCH.format(id=name))
        now = time.time()
        session = Session(
            id=name,
            intent=intent,
            repository=str(found.top),
            repository_key=repository_key(found.common, await first_commit(found)),
            contract=agreed,
            limits=self.limits,
            candidates=candidates,
            style=self._style.name,
            model=str(getattr(self.model, "name", "")),
            begun_on=found.head,
            includes_changes=include_changes,
            even_if_green=even_if_green,
            created_at=now,
            changed_at=now,
        )
        workshop = Worktree(self._home / name, found)
        with linked(cancel) as inner:
            async with self.runtime.open_run(
                _about(session), cancel=inner, run_id=name, budget=self.limits.of_session.budget
            ) as run:
                await asyncio.to_thread(self._sessions.put, session)
                work = self._work(session, run, workshop, watch, keep=keep)
                await SessionLeader(work, inner).lead(approve=approve)
        return _whole(work)

    def run_sync(self, intent: str, checks: Sequence[str | Check] = (), **options: Any) -> Session:
        """`run` for code without an event loop.

        Takes the arguments of `run`.

        Args:
            options: Further arguments of `run`.
        """
        refuse_inside_loop("run", of="coder")
        return run_sync(self.run(intent, checks, **options))

    async def resume(
        self,
        session_id: str,
        *,
        approve: bool = False,
        keep: bool = False,
        cancel: Cancel | None = None,
        watch: Watch | None = None,
    ) -> Session:
        """Resume a session. One that has ended, or waits for a person, is returned as it is.

        Takes the arguments of `run`.

        Args:
            session_id: Id of the session, or its beginning.

        Raises:
            UsageError: there is no such session.
            RunHeld: another process is working on it.
            IsolationMissing: less is enforced than required.
            EnvironmentBroken: as for `run`.
        """
        from placet.coder.leading import SessionLeader

        session = self._sessions.find(session_id)
        if not session.is_open:
            await self._tidy(session, keep=keep)
            return session
        await self._isolation.check()
        with linked(cancel) as inner:
            async with self._held(session, inner, watch, keep=keep) as work:
                session = work.session
                if await closing.stop_if_asked(work) or not session.is_open:
                    return session
                if session.state in ("contract_proposed", "needs_approval") and not (
                    approve and session.state == "needs_approval"
                ):
                    await closing.wait(work)
                else:
                    await SessionLeader(work, inner).lead(approve=approve)
        return _whole(work)

    # What a person decides

    async def approve(
        self, session_id: str, *, watch: Watch | None = None, keep: bool = False, by: str | None = None
    ) -> Session:
        """Confirm a drafted contract, which `resume` then works on; or publish a passing change as one commit
        on the branch `placet/ID`.

        Takes the arguments of `resume`.

        Args:
            by: Who approves; recorded in the log.

        Raises:
            UsageError: there is nothing to approve.
            RunHeld: another process is working on it.
        """
        session = self._sessions.find(session_id)
        _check_waits(session, "approve")
        async with self._held(session, None, watch, keep=keep) as work:
            await closing.stop_if_asked(work)
            match work.session.state:
                case "contract_proposed":
                    await work.move("contract_confirmed", by=by)
                    await work.run.end("canceled", "the contract is confirmed; the work can begin")
                case "needs_approval":
                    await closing.publish(work, by=by)
                case _:
                    _check_waits(work.session, "approve")
            return work.session

    async def deny(
        self, session_id: str, reason: str = "", *, watch: Watch | None = None, by: str | None = None
    ) -> Session:
        """Reject a drafted contract or a change; nothing is published. Raises the errors of `approve`.

        Takes the arguments of `resume`.

        Args:
            reason: Why; recorded in the session.
            by: Who denies it; recorded in the log.
        """
        session = self._sessions.find(session_id)
        _check_waits(session, "deny")
        async with self._held(session, None, watch, ends=True) as work:
            _check_waits(work.session, "deny")
            await closing.abandon(work, _because("denied", reason), by=by)
            return work.session

    async def cancel(self, session_id: str, reason: str = "", *, by: str | None = None) -> Session:
        """End a session permanently, even one that another process is working on.

        Takes the arguments of `deny`.

        Raises:
            UsageError: there is no such session, or it has ended.
        """
        session = self._sessions.find(session_id)
        if not session.is_open:
            raise UsageError(f"Session '{session.id}' has ended: it is {WORDS[session.state]}.")
        why = _because("cancelled", reason)
        journal = self.runtime.journal
        if journal is not None:
            # Without its run nobody is at work on it.
            with suppress(UnknownRun):
                await asyncio.to_thread(journal.request_stop, session.id, StopRequest(reason=why))
        try:
            async with self._held(session, None, None, ends=True) as work:
                if work.session.is_open:
                    await closing.abandon(work, why, by=by)
                return work.session
        except RunHeld:
            return self._sessions.find(session.id)  # Whoever is at work will notice.

    async def diff(self, session_id: str, *, whole: bool = False) -> str:
        """Return the change so far, or as it would be published, as a unified diff.

        Takes the arguments of `resume`.

        Args:
            whole: Also show the uncommitted changes with which the work began: everything that the commit
                changes.
        """
        from placet.worktree.worktree import Worktree, find_repository

        session = self._sessions.find(session_id)
        tree = session.result
        if not tree:
            judged = [each.judged for each in session.attempts if each.judged is not None]
            tree = judged[-1].tree if judged else session.base
        if not tree:
            return ""
        workshop = Worktree(self._home / session.id, await find_repository(Path(session.repository)))
        return await workshop.diff(session.begun_on if whole else session.base, tree)

    async def _tidy(self, session: Session, *, keep: bool) -> None:
        """Do what a process left undone that died as the session had just ended."""
        with suppress(PlacetError):
            async with self._held(session, None, None, keep=keep, ends=True) as work:
                if work.run.ended is None:
                    await closing.end(work)

    # Parts

    @asynccontextmanager
    async def _held(
        self,
        session: Session,
        cancel: Cancel | None,
        watch: Watch | None,
        *,
        keep: bool = False,
        ends: bool = False,
    ) -> AsyncIterator[Work]:
        """Who only `ends` it needs no repository: it may have been moved or removed."""
        from placet.worktree.repository import gone_repository
        from placet.worktree.worktree import Worktree, find_repository

        try:
            found = await find_repository(Path(session.repository))
        except UsageError:
            if not ends:
                raise
            found = gone_repository(Path(session.repository), session.begun_on)
        async with self.runtime.reopen_run(session.id, cancel=cancel) as run:
            # Read once more: nobody else writes it from now on.
            session = self._sessions.get(session.id) or session
            if session.base:
                # The person may have gone on meanwhile; the session has not.
                found = msgspec.structs.replace(found, head=session.begun_on)
            yield self._work(session, run, Worktree(self._home / session.id, found), watch, keep=keep)

    def _work(
        self, session: Session, run: OpenRun, workshop: Worktree, watch: Watch | None, *, keep: bool
    ) -> Work:
        from placet.checks.check_runner import CheckRunner
        from placet.checks.import_roots import import_roots
        from placet.coder.style import style_named
        from placet.coder.work import Work

        roots = import_roots(workshop.repository.top, os.environ)
        return Work(
            session,
            run,
            workshop,
            CheckRunner(self._isolation, roots=roots),
            roots=roots,
            runtime=self.runtime,
            model=self.model,
            sessions=self._sessions,
            repairs=self._repairs,
            isolation=self._isolation,
            style=style_named(session.style),
            ask_s=self._ask_s,
            ask_here=self._ask,
            shows_context=self._chooses_context,
            keeps_copies=keep,
            watch=watch,
        )


def _whole(work: Work) -> Session:
    """The session, unless it could not be worked on here.

    Raises:
        EnvironmentBroken: so it is.
    """
    if work.fault is not None:
        raise work.fault
    return work.session


def _because(what: str, reason: str) -> str:
    return f"{what}: {clean(reason, 500)}" if reason else what


def _check_waits(session: Session, what: str) -> None:
    if session.state not in ("contract_proposed", "needs_approval"):
        more = f" To end it: placet code cancel {session.id}." if session.is_open else ""
        raise UsageError(
            f"Session '{session.id}' is {WORDS[session.state]}: there is nothing to {what}.{more}"
        )


def _about(session: Session) -> Proposal:
    context: dict[str, JsonValue] = {LED_BY: LEADER, "session": session.id, "intent": session.intent}
    return Proposal(id=session.id, source=LEADER, actions=(), context=context)
