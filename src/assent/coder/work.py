"""One session while somebody is at work on it: its run, its files, its checks, and what is told of it.

Keep true:
1. What has happened is kept before anything follows from it.
2. Green is what the checks say of the change alone: on a fresh export, with every sealed file as it was.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from assent.coder.contract import Check, CheckResult, Contract
from assent.coder.events import CheckCompleted, CheckStarted, Event, Noted, SealBroken, StateChanged
from assent.coder.session import Iteration, Session, State
from assent.safe_text import clean

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from assent.coder.asking import AskPerson
    from assent.coder.checks import Checking
    from assent.coder.events import Watch
    from assent.coder.repairs import RepairMemory
    from assent.coder.sealing import Seal
    from assent.coder.store import Sessions
    from assent.coder.style import Style
    from assent.coder.workshop import Workshop
    from assent.inference.model import Model
    from assent.ir.result import Waiting
    from assent.runtime.open_run import OpenRun
    from assent.runtime.runtime import Runtime
    from assent.sandbox.confinement import Isolation

_LOGGED = 2_000


class Work:
    """A session, held."""

    def __init__(
        self,
        session: Session,
        run: OpenRun,
        workshop: Workshop,
        checking: Checking,
        *,
        runtime: Runtime,
        model: Model,
        sessions: Sessions,
        repairs: RepairMemory,
        isolation: Isolation,
        style: Style,
        ask_s: float | None = None,
        ask_here: AskPerson | None = None,
        shows_context: bool = True,
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
        self.waiting: list[Waiting] = []
        """What a person has to decide before it can go on."""
        self._checking = checking
        self._watch = watch
        self._seal: Seal | None = None
        self._judged: dict[str, list[CheckResult]] = {}
        """What the checks have said of a tree: asked again they might say something else by chance, and green
        by chance is not green."""

    # Keeping and telling

    async def save(self) -> None:
        """Keep the session as it is."""
        self.session.touched()
        await asyncio.to_thread(self.sessions.put, self.session)

    async def move(self, state: State, reason: str = "") -> None:
        """Change the state, keep it, and tell."""
        self.session.moved(state, reason)
        await self.save()
        self.run.say("coding_state_changed", {"state": state, "reason": clean(reason, _LOGGED)})
        self.tell(StateChanged(session=self.session.id, state=state, reason=reason))

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
        from assent.coder.sealing import Seal

        if self._seal is None:
            self._seal = Seal.of(self.contract, await self.workshop.paths(self.session.base))
        return self._seal

    async def measure(self) -> None:
        """Run the checks once before any work."""
        self.session.baseline = await self._check(self.session.base, 0)
        await self.save()

    async def judge(self, attempt: int, iteration: Iteration) -> None:
        """Run the checks on what an iteration has made of the files."""
        session, workshop = self.session, self.workshop
        tree = await workshop.tree_of(attempt)
        seal = await self.seal()
        changed = await workshop.changed(session.base, tree)
        broken = [each.path for each in changed if seal.why(each.path)]
        if broken:
            await workshop.put_back(attempt, session.base, broken)
            tree = await workshop.with_base(tree, session.base, broken)
            self.tell(SealBroken(attempt=attempt, paths=broken))
            self.run.say(
                "coding_seal_broken",
                {"attempt": attempt, "iteration": iteration.number, "paths": [*broken[:100]]},
            )
        results = self._judged.get(tree)
        if results is None:
            results = self._judged[tree] = await self._check(tree, attempt)
        else:
            self.note("nothing has changed since the checks ran last, so they were not run again", attempt)
        iteration.tree = tree
        iteration.sealed = broken
        iteration.results = results
        iteration.is_judged = True

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

        def fresh() -> AbstractAsyncContextManager[Path]:
            return self.workshop.export(tree)

        return await self._checking.run(
            self.contract, fresh, baseline=self.session.baseline, started=started, completed=completed
        )
