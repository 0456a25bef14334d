"""The coding loop: work until the outcome contract is green, then ask before anything is published.

Keep true:
1. Nothing of the person's repository changes before they approve, and then one new branch is all that does.
2. A session is worked on by one process at a time, and can be taken up by the next one from any state.
3. Done is what the checks say; what a model says is only a text.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from assent.coder.contract import Check, Contract, check_contract, contract_of
from assent.coder.session import LEADER, WORDS, Attempt, CodeLimits, Session
from assent.coder.store import MemorySessions
from assent.errors import AssentError, RunError, UsageError
from assent.inference.model import Model, check_model
from assent.ir.json_value import JsonValue
from assent.ir.proposal import Proposal, new_id
from assent.ir.result import Waiting
from assent.runtime.journal import LED_BY
from assent.runtime.sync import refuse_inside_loop, run_sync
from assent.safe_text import clean
from assent.tools.context import Cancel
from assent.turns.ending import Ending
from assent.turns.limits import used_up_words
from assent.turns.stopping import linked, stopped_by

if TYPE_CHECKING:
    from assent.coder.asking import AskPerson
    from assent.coder.attempt import AttemptLoop
    from assent.coder.events import Watch
    from assent.coder.repairs import RepairMemory
    from assent.coder.store import Sessions
    from assent.coder.work import Work
    from assent.coder.workshop import Workshop
    from assent.runtime.open_run import OpenRun
    from assent.runtime.runtime import Runtime
    from assent.sandbox.confinement import Isolation

BRANCH = "assent/{id}"
MOST_CANDIDATES = 16
_LOOKS_S = 0.5
"""How often it is looked whether somebody wants the session to stop."""
_TIME_OVER = "the time is over"
_MOST_PATH = 2_000
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
"""It names a folder and a branch."""


class Coder:
    """Changes programs until checks are green, in a private copy of their repository."""

    def __init__(
        self,
        runtime: Runtime,
        model: Model,
        repository: str | os.PathLike[str] = ".",
        *,
        home: str | os.PathLike[str] | None = None,
        sessions: Sessions | None = None,
        repairs: RepairMemory | None = None,
        isolation: Isolation | None = None,
        limits: CodeLimits | None = None,
        style: str | None = None,
        ask_s: float | None = None,
        ask: AskPerson | None = None,
        chooses_context: bool = True,
    ) -> None:
        """`runtime` brings policies, the log, the journal and the people to ask; its tools are not used.

        `home` is where private copies are kept, else the person's state folder. `sessions` and `repairs` are
        where sessions, and what helped before, are kept; without them, in memory. Commands and checks run
        under `isolation`; without it, "process" is required. `style` is "large" or "small"; without it, what
        suits the model. A model may ask a person something if `ask_s` says how long a question waits; `ask`
        is an async function that puts it to somebody right here. `chooses_context=False` shows the model no
        part of the program unasked.

        Raises:
            UsageError: something that is no model, or no style.
        """
        from assent.coder.repairs import MemoryRepairs
        from assent.coder.style import style_for
        from assent.sandbox.confinement import Isolation, isolation_of
        from assent.storage.location import state_folder, user_folder

        check_model(model, "Coder")
        if ask_s is not None and not ask_s > 0:
            raise UsageError(f"Coder(ask_s={ask_s!r:.40}): it must be above 0; None asks nobody.")
        self.runtime = runtime
        self.model = model
        self.limits = limits or CodeLimits()
        self._folder = Path(repository)
        self._home = Path(home) if home is not None else state_folder(os.environ) / "code"
        self._sessions: Sessions = sessions if sessions is not None else MemorySessions()
        self._repairs: RepairMemory = repairs if repairs is not None else MemoryRepairs()
        self._isolation = isolation_of(isolation) or Isolation("process", folder=user_folder(os.environ))
        names = [*(getattr(model, "names", None) or ()), str(getattr(model, "name", ""))]
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
        """Work until the checks are green, or it goes no further. The session then says how far it came:
        `needs_approval`, `failed`, or `abandoned` if there was nothing to turn green. With `approve` a green
        change is published at once.

        `checks` are commands; `contract` says more about them. Without either the model drafts a contract,
        and the session waits for a person to confirm it: `contract_proposed`. `may_touch` are patterns of
        files that checks depend on and that the change may touch all the same. `candidates` attempts are
        made side by side. With `include_changes` the work begins with what the person has not committed.
        Checks that are all green before any work end the session, unless `even_if_green`. `keep` leaves the
        private copies where they are.

        Stopped by `cancel` the session stays as it is, and can be resumed.

        Raises:
            UsageError: no intent, no repository, a contract that cannot be, or an id that is taken; or the
                runtime has no journal, and it is not to `approve` by itself what it makes.
            IsolationMissing: this machine enforces less than is required.
        """
        if not intent.strip():
            raise UsageError("There is no intent. Say in a sentence what is to be changed.")
        if session_id is not None and not _ID.fullmatch(session_id):
            raise UsageError(
                f"'{clean(session_id, 80)}' cannot be the id of a session: use 1 to 64 letters, digits, "
                "dashes and underscores, the first of them no dash."
            )
        if not 1 <= candidates <= MOST_CANDIDATES:
            raise UsageError(f"candidates is {candidates}; it is from 1 to {MOST_CANDIDATES}.")
        agreed = _contract(intent, checks, contract, may_touch)
        self._check_it_can_be_decided(agreed, approve=approve)
        from assent.coder.publishing import check_free
        from assent.coder.repairs import repository_key
        from assent.coder.repository import first_commit
        from assent.coder.workshop import Workshop, find_repository

        await self._isolation.check()
        found = await find_repository(self._folder)
        _check_text(intent, "The intent")
        _check_text(str(found.top), "The path of the repository")
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
        workshop = Workshop(self._home / name, found)
        with linked(cancel) as inner:
            async with self.runtime.open_run(
                _about(session), cancel=inner, run_id=name, budget=self.limits.of_session.budget
            ) as run:
                await asyncio.to_thread(self._sessions.put, session)
                work = self._work(session, run, workshop, watch)
                return await self._lead(work, inner, approve=approve, keep=keep)

    def run_sync(self, intent: str, checks: Sequence[str | Check] = (), **options: Any) -> Session:
        """`run` for people without an event loop."""
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
        """Go on with a session where it stands; one that has ended, or waits for a person, is returned.

        Raises:
            UsageError: there is none.
            RunHeld: another process is at work on it.
            IsolationMissing: this machine enforces less than is required.
        """
        session = self._find(session_id)
        if not session.is_open:
            await self._tidy(session, keep=keep)
            return session
        await self._isolation.check()
        with linked(cancel) as inner:
            async with self._held(session, inner, watch) as work:
                session = work.session
                if await self._was_stopped(work) or not session.is_open:
                    return session
                if session.state in ("contract_proposed", "needs_approval") and not (
                    approve and session.state == "needs_approval"
                ):
                    return await self._wait(work)
                return await self._lead(work, inner, approve=approve, keep=keep)

    # What a person decides

    async def approve(self, session_id: str, *, watch: Watch | None = None, keep: bool = False) -> Session:
        """Confirm a drafted contract, which is then worked on by `resume`; or publish a green change as one
        commit on a branch of its own.

        Raises:
            UsageError: there is nothing to approve.
            RunHeld: another process is at work on it.
        """
        session = self._find(session_id)
        _check_waits(session, "approve")
        async with self._held(session, None, watch) as work:
            await self._was_stopped(work)
            match work.session.state:
                case "contract_proposed":
                    await work.move("contract_confirmed")
                    await work.run.end("canceled", "the contract is confirmed; the work can begin")
                case "needs_approval":
                    await self._publish(work, keep=keep)
                case _:
                    _check_waits(work.session, "approve")
            return work.session

    async def deny(self, session_id: str, reason: str = "", *, watch: Watch | None = None) -> Session:
        """Refuse what waits for approval; nothing is published.

        Raises: as `approve`.
        """
        session = self._find(session_id)
        _check_waits(session, "deny")
        async with self._held(session, None, watch, ends=True) as work:
            _check_waits(work.session, "deny")
            await self._abandon(work, _because("denied", reason))
            return work.session

    async def cancel(self, session_id: str, reason: str = "") -> Session:
        """End a session for good: at once if nobody is at work on it, else as soon as whoever is notices.

        Raises:
            UsageError: there is none, or it has ended.
        """
        session = self._find(session_id)
        if not session.is_open:
            raise UsageError(f"Session '{session.id}' has ended: it is {WORDS[session.state]}.")
        why = _because("cancelled", reason)
        await asyncio.to_thread(self._sessions.ask_to_stop, session.id, why)
        try:
            async with self._held(session, None, None, ends=True) as work:
                if work.session.is_open:
                    await self._abandon(work, why)
                return work.session
        except RunError:
            return self._find(session.id)  # Whoever is at work will notice.

    async def diff(self, session_id: str, *, whole: bool = False) -> str:
        """The change so far, or as it is to be published, as a unified diff. The `whole` is all that the
        commit changes, with what the person had not committed where the work began with it."""
        from assent.coder.workshop import Workshop, find_repository

        session = self._find(session_id)
        tree = session.result
        if not tree:
            judged = [each.judged for each in session.attempts if each.judged is not None]
            tree = judged[-1].tree if judged else session.base
        if not tree:
            return ""
        workshop = Workshop(self._home / session.id, await find_repository(Path(session.repository)))
        return await workshop.diff(session.begun_on if whole else session.base, tree)

    def _check_it_can_be_decided(self, agreed: Contract | None, *, approve: bool) -> None:
        """Refuse work at the end of which nobody could say yes: what waits is taken up from a journal."""
        if self.runtime.journal is not None or (agreed is not None and approve):
            return
        what = "confirm the contract that the model drafts" if agreed is None else "approve the change"
        instead = "name checks and give approve=True" if agreed is None else "give approve=True"
        raise UsageError(
            f"The Runtime of this Coder has no journal, so nobody could {what} afterwards. Make it with a "
            "journal, such as Runtime(journal=SqlJournal(database)), or Runtime(journal=MemoryJournal()) for "
            f"as long as this process lives; or {instead}, which publishes a green change at once."
        )

    # The way

    async def _lead(self, work: Work, cancel: Cancel, *, approve: bool, keep: bool) -> Session:
        """From wherever the session stands to where it goes no further by itself."""
        session = work.session
        looking = asyncio.get_running_loop().create_task(self._look(session.id, cancel))
        clock = _alarm(work.run, cancel)
        # Whatever runs for the session works in private folders: it need not end by itself.
        unlink = cancel.on_request(lambda: cancel.cancel(cancel.reason, hard=True))
        try:
            await work.workshop.open()
            if not session.base:
                session.begun_on = work.workshop.repository.head
                session.base = await work.workshop.begin(session.includes_changes)
                theirs = await work.workshop.changed(session.begun_on, session.base)
                # A name may be no valid text, and then could not be kept.
                session.included = [clean(each.path, _MOST_PATH) for each in theirs]
                await work.save()
                work.say_started()
            if session.state == "created":
                if session.contract is None:
                    return await self._draft(work, cancel)
                work.say_contract(drafted=False)
                await work.move("contract_confirmed")
            if session.state == "contract_confirmed" and not await self._begin(work, cancel):
                return session
            if session.state == "running":
                await self._attempts(work, cancel)
            if session.state == "running":
                return await self._pause(work, cancel)
            if session.state == "needs_approval":
                if not approve:
                    return await self._wait(work)
                await self._publish(work, keep=keep)
            elif work.run.ended is None:
                await self._end(work, keep=keep)
            return session
        finally:
            unlink()
            if clock is not None:
                clock.cancel()
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking

    async def _begin(self, work: Work, cancel: Cancel) -> bool:
        """Run the checks before any work; whether there is something to turn green."""
        from assent.coder.checks import missing_program
        from assent.coder.events import BaselineStarted

        session = work.session
        if not session.baseline:
            work.tell(BaselineStarted(session=session.id))
            for note in (await work.seal()).notes(await work.workshop.paths(session.base)):
                work.note(note)
            stopped = await stopped_by(cancel, work.measure())
            if stopped:
                await self._pause(work, cancel)
                return False
        if all(result.passed for result in session.baseline) and not session.even_if_green:
            await self._abandon(
                work, "all checks are green before any work, so there is nothing that would show it was done"
            )
            return False
        paths = await work.workshop.paths(session.base)
        for result in session.baseline:
            missing = missing_program(result, paths)
            if missing:
                await work.move(
                    "failed",
                    f"the program of check '{clean(result.name, 80)}' was not found: {clean(missing, 80)}. A "
                    "model cannot mend that. Install it, or activate the environment that has it, or name "
                    "another check",
                )
                await self._end(work, keep=False)
                return False
        session.attempts = [Attempt(number=number) for number in range(1, session.candidates + 1)]
        await work.move("running")
        return True

    async def _attempts(self, work: Work, cancel: Cancel) -> None:
        """Let the candidates work side by side, until one is green or none goes further."""
        from assent.coder.attempt import GREEN, AttemptLoop

        session = work.session
        if session.drafting is not None:
            work.run.spend(session.drafting.total, session.drafting_usd)
        for each in [each for attempt in session.attempts for each in attempt.iterations]:
            if each.has_turned and each.has_answers:
                work.run.spend(each.usage.total if each.usage is not None else None, each.cost_usd)
            if each.spare is not None:
                work.run.spend(each.spare.total, 0.0)
        won = next((each for each in session.attempts if each.ended == GREEN), None)
        halted: list[AttemptLoop] = []
        if won is None:
            with linked(cancel) as inner:
                loops = {
                    asyncio.ensure_future(loop.go()): loop
                    for each in session.attempts
                    if not each.ended
                    for loop in [AttemptLoop(work, each, inner)]
                }
                try:
                    waiting = set(loops)
                    while waiting and won is None:
                        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                        for task in done:
                            task.result()
                            if loops[task].halt is not None:
                                halted.append(loops[task])
                        won = next((each for each in session.attempts if each.ended == GREEN), None)
                except BaseException:
                    for task in loops:
                        task.cancel()
                    raise
                finally:
                    # They end by themselves, so that what they have used is known.
                    inner.cancel("another candidate was green first", hard=True)
                    await asyncio.gather(*loops, return_exceptions=True)
        if won is not None:
            for attempt in session.attempts:
                attempt.ended = attempt.ended or f"attempt {won.number} was green first"
            assert won.judged is not None
            session.winner, session.result = won.number, won.judged.tree
            await work.move("needs_approval")
            return
        spent = next((each.halt for each in halted if each.halt and each.halt.status == "budget"), None)
        if spent is not None and not cancel.requested:
            await work.move("failed", spent.error or "a limit was reached")
        elif not halted:
            await work.move("failed", "; ".join(dict.fromkeys(each.ended for each in session.attempts)))
        else:
            waits = [each.halt.waiting for each in halted if each.halt is not None]
            work.waiting = [one for group in waits for one in group]

    async def _pause(self, work: Work, cancel: Cancel) -> Session:
        """Stop where it stands: somebody wants that, time is over, or a person has to decide something."""
        session = work.session
        if await self._was_stopped(work):
            return session
        if cancel.reason == _TIME_OVER and work.run.budget is not None:
            await work.move("failed", used_up_words("max_duration_ms", work.run.budget))
            await self._end(work, keep=False)
            return session
        session.reason = cancel.reason or "it waits for a person"
        await work.save()
        if work.waiting:
            await work.run.end("waiting", session.reason, waiting=work.waiting)
        else:
            await work.run.end("canceled", session.reason)
        return session

    async def _wait(self, work: Work) -> Session:
        """Let go, until a person has decided."""
        session = work.session
        if await self._was_stopped(work):
            return session
        what = "the contract" if session.state == "contract_proposed" else "the change"
        reason = f"{what} waits for approval: assent code approve {session.id}"
        waiting = Waiting(kind="approval", action_id=session.id, reason=reason)
        await work.run.end("waiting", reason, waiting=[waiting])
        return session

    async def _draft(self, work: Work, cancel: Cancel) -> Session:
        from assent.coder.drafting import draft

        session = work.session
        drafted = await draft(work, cancel)
        if isinstance(drafted, Ending):
            if drafted.status in ("cancelled", "waiting"):
                work.waiting = [*drafted.waiting]
                return await self._pause(work, cancel)
            why = drafted.error or drafted.summary
            await work.move("failed", f"the model could not draft a contract: {why}")
            await self._end(work, keep=False)
            return session
        session.contract = drafted
        work.say_contract(drafted=True)
        await work.move("contract_proposed")
        return await self._wait(work)

    async def _publish(self, work: Work, *, keep: bool) -> None:
        session = work.session
        await work.workshop.open()
        if not session.commit:
            session.commit = await work.workshop.commit(
                session.result, session.begun_on, _message(session), when=int(time.time()), author=None
            )
            session.branch = BRANCH.format(id=session.id)
            await work.save()
        await work.workshop.publish(session.commit, session.branch)
        work.run.say("coding_published", {"branch": session.branch, "commit": session.commit})
        await work.move("merged")
        await self._end(work, keep=keep)

    async def _abandon(self, work: Work, reason: str) -> None:
        await work.move("abandoned", reason)
        await self._end(work, keep=False)

    async def _end(self, work: Work, *, keep: bool) -> None:
        from assent.coder.scratch import Scratch

        session = work.session
        if not keep:
            await work.workshop.remove_attempts()
        # Of a process that was killed before.
        await Scratch(work.workshop.home / "exports").clear_up()
        succeeded = session.state == "merged"
        await work.run.end("succeeded" if succeeded else "partial", None if succeeded else session.reason)

    async def _was_stopped(self, work: Work) -> bool:
        """End it if somebody wants that; whether it has come to that."""
        reason = await asyncio.to_thread(self._sessions.asked_to_stop, work.session.id)
        if reason is None or not work.session.is_open:
            return False
        await self._abandon(work, reason)
        return True

    async def _tidy(self, session: Session, *, keep: bool) -> None:
        """Do what a process left undone that died as the session had just ended."""
        with suppress(AssentError):
            async with self._held(session, None, None) as work:
                if work.run.ended is None:
                    await self._end(work, keep=keep)

    # Parts

    async def _look(self, session: str, cancel: Cancel) -> None:
        """Notice that somebody else wants it to stop."""
        while not cancel.requested:
            await asyncio.sleep(_LOOKS_S)
            with suppress(AssentError):
                reason = await asyncio.to_thread(self._sessions.asked_to_stop, session)
                if reason is not None:
                    cancel.cancel(reason, hard=True)

    def _find(self, session_id: str) -> Session:
        return self._sessions.find(session_id)

    @asynccontextmanager
    async def _held(
        self, session: Session, cancel: Cancel | None, watch: Watch | None, *, ends: bool = False
    ) -> AsyncIterator[Work]:
        """Who only `ends` it needs no repository: it may have been moved or removed."""
        from assent.coder.repository import gone_repository
        from assent.coder.workshop import Workshop, find_repository

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
            yield self._work(session, run, Workshop(self._home / session.id, found), watch)

    def _work(self, session: Session, run: OpenRun, workshop: Workshop, watch: Watch | None) -> Work:
        from assent.coder.checks import Checking
        from assent.coder.import_roots import import_roots
        from assent.coder.style import style_named
        from assent.coder.work import Work

        roots = import_roots(workshop.repository.top, os.environ)
        return Work(
            session,
            run,
            workshop,
            Checking(self._isolation, roots=roots),
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
            watch=watch,
        )


def _contract(
    intent: str, checks: Sequence[str | Check], contract: Contract | None, may_touch: Sequence[str]
) -> Contract | None:
    if contract is not None and checks:
        raise UsageError("There are checks and a contract. Give one of them.")
    if contract is not None:
        check_contract(contract)
        return contract
    return contract_of(checks, intent, may_touch) if checks else None


def _because(what: str, reason: str) -> str:
    return f"{what}: {clean(reason, 500)}" if reason else what


def _check_text(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} is no valid text, so it cannot be kept: {clean(text, 80)}") from None


def _check_waits(session: Session, what: str) -> None:
    if session.state not in ("contract_proposed", "needs_approval"):
        more = f" To end it: assent code cancel {session.id}." if session.is_open else ""
        raise UsageError(
            f"Session '{session.id}' is {WORDS[session.state]}: there is nothing to {what}.{more}"
        )


def _about(session: Session) -> Proposal:
    context: dict[str, JsonValue] = {LED_BY: LEADER, "session": session.id, "intent": session.intent}
    return Proposal(id=session.id, source=LEADER, actions=(), context=context)


def _message(session: Session) -> str:
    won = session.won
    subject = " ".join(clean(session.intent, 400).split())
    said = clean(won.summary, 4_000).strip() if won is not None and won.status == "success" else ""
    body = f"\n\n{said}" if said else ""
    if session.includes_changes:
        body += "\n\nIt includes changes that were not committed when the work began."
    checks = "\n".join(f"Checked-by: {clean(check.command, 300)}" for check in _checks(session))
    return f"{subject[:72]}{body}\n\nAssent-Session: {session.id}\n{checks}\n"


def _checks(session: Session) -> Sequence[Check]:
    return session.contract.checks if session.contract is not None else ()


def _alarm(run: OpenRun, cancel: Cancel) -> asyncio.TimerHandle | None:
    """Stops what is in flight when the time of the session is over."""
    budget = run.budget
    if budget is None or budget.max_duration_ms is None:
        return None
    left_s = max(budget.max_duration_ms - run.elapsed_ms, 1.0) / 1000
    return asyncio.get_running_loop().call_later(left_s, lambda: cancel.cancel(_TIME_OVER, hard=True))
