"""One session while somebody is at work on it: its run, its files, its checks, and what is told of it.

Keep true:
1. What has happened is kept before anything follows from it, and a later state never by an earlier one.
2. Green is what the checks say of the change alone: on a fresh export, with every sealed file as it was.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from placet.checks.contract import Check, CheckResult, Contract
from placet.coder.events import CheckCompleted, CheckStarted, Event, Noted, SealBroken, StateChanged
from placet.coder.proposing import Proposals
from placet.coder.session import Iteration, Session, State
from placet.safe_text import clean

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from placet.checks.check_runner import CheckRunner
    from placet.checks.sealing import Seal
    from placet.coder.asking import AskPerson
    from placet.coder.events import Watch
    from placet.coder.repairs import Repairs
    from placet.coder.store import Sessions
    from placet.coder.style import Style
    from placet.errors import EnvironmentBroken
    from placet.inference.model import Model
    from placet.ir.json_value import JsonValue
    from placet.ir.result import Waiting
    from placet.runtime.open_run import OpenRun
    from placet.runtime.runtime import Runtime
    from placet.sandbox.confinement import Isolation
    from placet.worktree.worktree import Worktree

_LOGGED = 2_000
_LISTED = 100
_NOTED = 5


class Work:
    """A session, held."""

    def __init__(
        self,
        session: Session,
        run: OpenRun,
        workshop: Worktree,
        checking: CheckRunner,
        *,
        runtime: Runtime,
        model: Model,
        sessions: Sessions,
        repairs: Repairs,
        isolation: Isolation,
        style: Style,
        ask_s: float | None = None,
        ask_here: AskPerson | None = None,
        shows_context: bool = True,
        roots: Sequence[str] = (),
        keeps_copies: bool = False,
        watch: Watch | None = None,
    ) -> None:
        self.session = session
        self.run = run
        self.workshop = workshop
        self.runtime = runtime
        self.model = model
        self.sessions = sessions
        self.repairs = repairs
        self.isolation = isolation
        self.style = style
        self.ask_s = ask_s
        self.ask_here = ask_here
        self.shows_context = shows_context
        self.roots = list(roots)
        """Folders of the repository from which the person's Python imports."""
        self.keeps_copies = keeps_copies
        """Whether its private copies stay when it has ended."""
        self.waiting: list[Waiting] = []
        """What a person has to decide before it can go on."""
        self.fault: EnvironmentBroken | None = None
        """Why its checks cannot run on this machine, if so."""
        made = [each for attempt in session.attempts for each in attempt.iterations]
        self.proposals = Proposals([each.tried for each in made if each.tried is not None])
        self._checking = checking
        self._watch = watch
        self._seal: Seal | None = None
        self._saving = threading.Lock()
        self._judged: dict[str, list[CheckResult]] = {
            each.tree: each.results
            for attempt in session.attempts
            for each in attempt.iterations
            if each.is_judged
        }
        """What the checks have said of a tree: asked again they might say something else by chance, and green
        by chance is not green."""
        if session.baseline:
            self._judged[session.base] = session.baseline

    # Keeping and telling

    async def save(self) -> None:
        """Keep the session as it is. Once begun it is done, also if nobody waits for it any longer."""
        self.session.touched()
        # The journal knows from it how much time was used, also if the process dies.
        self.run.tell(b'"kept"')
        saving = asyncio.ensure_future(asyncio.to_thread(self._put))
        try:
            await asyncio.shield(saving)
        except asyncio.CancelledError:
            await asyncio.wait((saving,))
            raise

    def _put(self) -> None:
        # Candidates save side by side: what is read last is written last.
        with self._saving:
            self.sessions.put(self.session)

    async def move(self, state: State, reason: str = "", *, by: str | None = None) -> None:
        """Change the state, keep it, and tell; `by` is the person who did it."""
        self.session.moved(state, reason)
        await self.save()
        said = {"state": state, "reason": clean(reason, _LOGGED)}
        self.run.say("coding_state_changed", said if by is None else said | {"by": clean(by, 200)})
        self.tell(StateChanged(session=self.session.id, state=state, reason=reason))

    def say_started(self) -> None:
        """Let the log say what the session is for."""
        session = self.session
        self.run.say(
            "coding_started",
            {
                "intent": clean(session.intent, _LOGGED, lines=True),
                "repository": clean(session.repository, _LOGGED),
                "model": clean(session.model, _LOGGED),
                "begun_on": session.begun_on,
                "included": [*session.included[:_LISTED]],
                "candidates": session.candidates,
            },
        )

    def say_contract(self, *, drafted: bool) -> None:
        """Let the log say which checks decide, and whether the model has drafted them."""
        checks: list[JsonValue] = [
            {"name": check.name, "command": clean(check.command, _LOGGED)} for check in self.contract.checks
        ]
        self.run.say("coding_contract", {"drafted": drafted, "checks": checks})

    def tell(self, event: Event) -> None:
        """Let whoever watches know. One who fails is not told any more."""
        if self._watch is None:
            return
        try:
            self._watch(event)
        except Exception as error:
            self._watch = None
            words = clean(f"{type(error).__name__}: {error}", _LOGGED)
            self.run.say("sink_failed", {"sink": "watch", "error": words})

    def note(self, text: str, attempt: int = 0) -> None:
        """Tell of something that was done unasked."""
        self.tell(Noted(attempt=attempt, text=text))

    # Checking

    @property
    def contract(self) -> Contract:
        """What must hold."""
        assert self.session.contract is not None
        return self.session.contract

    async def seal(self) -> Seal:
        """Which files the change may not touch."""
        from placet.checks.sealed_tree import seal_of

        if self._seal is None:
            session = self.session
            self._seal = await seal_of(
                self.contract, self.workshop, session.base, session.baseline, self.roots
            )
        return self._seal

    async def measure(self) -> None:
        """Run the checks once before any work."""
        session = self.session
        session.baseline = self._judged[session.base] = await self._check(session.base, 0)
        self._seal = None  # What reported tests is known only now.
        await self.save()

    @property
    def environment(self) -> dict[str, str]:
        """What the checks find in their environment."""
        return self._checking.environment

    def forget_baseline(self) -> None:
        """Forget what the checks said before any work: they could not run."""
        self._judged.pop(self.session.base, None)
        self.session.baseline = []
        self._seal = None

    async def judge(self, attempt: int, iteration: Iteration) -> None:
        """Run the checks on what an iteration has made of the files. Who asks marks it as judged, together
        with what follows from that: another candidate may have the session kept in between."""
        session, workshop = self.session, self.workshop
        tree = await workshop.tree_of(attempt)
        seal = await self.seal()
        changed = await workshop.changed(session.base, tree)
        broken = [each.path for each in changed if seal.why(each.path)]
        if broken:
            # A name may be no valid text, and then could not be kept.
            names = [clean(path, _LOGGED) for path in broken]
            # Kept first: once they are put back nothing shows that they were changed.
            iteration.sealed = list(dict.fromkeys([*iteration.sealed, *names]))
            await self.save()
            await workshop.put_back(attempt, session.base, broken)
            tree = await workshop.with_base(tree, session.base, broken)
            self.tell(SealBroken(attempt=attempt, paths=names))
            for path in broken[:_NOTED]:
                self.note(
                    f"{clean(path, 200)} {seal.why(path)}, so its change was undone; if it is meant: "
                    f"--allow {clean(path, 200)}",
                    attempt,
                )
            self.run.say(
                "coding_seal_broken",
                {"attempt": attempt, "iteration": iteration.number, "paths": [*names[:_LISTED]]},
            )
        results = self._judged.get(tree)
        if results is None:
            results = self._judged[tree] = await self._check(tree, attempt)
        else:
            self.note("nothing has changed since the checks ran last, so they were not run again", attempt)
        iteration.tree = tree
        iteration.results = results
        left = [each.path for each in changed if each.path not in broken]
        doubts = seal.doubts(left, results)
        iteration.needs_person = {clean(path, _LOGGED): why for path, why in list(doubts.items())[:_LISTED]}

    async def _check(self, tree: str, attempt: int) -> list[CheckResult]:
        def started(check: Check) -> None:
            self.run.say(
                "check_started",
                {"attempt": attempt, "name": check.name, "command": clean(check.command, _LOGGED)},
            )
            self.tell(CheckStarted(attempt=attempt, name=check.name, command=check.command))

        def completed(result: CheckResult) -> None:
            self.run.say(
                "check_completed",
                {
                    "attempt": attempt,
                    "name": result.name,
                    "passed": result.passed,
                    "exit_code": result.exit_code,
                    "why": clean(result.why, _LOGGED),
                    "duration_ms": round(result.duration_ms, 3),
                },
            )
            self.tell(CheckCompleted(attempt=attempt, result=result))

        seal = await self.seal()

        def fresh() -> AbstractAsyncContextManager[Path]:
            return self.workshop.export(tree)

        return await self._checking.run(
            self.contract,
            fresh,
            baseline=self.session.baseline,
            seal=seal,
            started=started,
            completed=completed,
        )
