"""Loops on the command line: put together from rules, records and models, for one repository.

Keep true:
1. Only loops of a repository that a person trusts are run. Its tools are not loaded.
2. What a loop requires of isolation holds, whatever less is asked for elsewhere.
3. However a round ends, its report is delivered, and a delivery that fails changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placet.app.app import NOWHERE, Records, database_url
from placet.app.options import RunOptions
from placet.errors import RunHeld, UsageError

if TYPE_CHECKING:
    from placet.app.governance import Governance, Question
    from placet.app.isolation import Required
    from placet.inference.model import Model
    from placet.loops.engine import LoopEngine
    from placet.loops.round import Round
    from placet.loops.scheduler import Report, Scheduled
    from placet.loops.spec import LoopSpec
    from placet.loops.timetable import Claim, Mark, Slot
    from placet.redaction import Redactor
    from placet.runtime.runtime import Runtime
    from placet.sandbox.confinement import Isolation
    from placet.tools.context import Cancel

TIMEOUT_S = 30.0
"""How long a delivery may take."""

Say = Callable[[str], None]


def home_folder(environment: Mapping[str, str]) -> Path:
    """Where the private copies of all rounds are."""
    from placet.storage.location import state_folder

    return state_folder(environment) / "loops"


class LoopsApp:
    """The loops of one repository, and what is around them."""

    def __init__(
        self,
        repository: Path,
        specs: Mapping[str, LoopSpec],
        runtime: Runtime,
        records: Records,
        rules: Governance,
        confined: Isolation,
        redactor: Redactor,
        *,
        model: str | None,
        required: Required,
        say: Say,
        report: Say,
    ) -> None:
        self.repository = repository
        self.specs = specs
        self.runtime = runtime
        self.records = records
        self.redactor = redactor
        self.required = required
        self.last: dict[str, Round] = {}
        """The round that ended last, by loop."""
        self.watch: Callable[[Round, str], None] | None = None
        """Told of every phase that a round enters."""
        self._rules = rules
        self._confined = confined
        self._model = model
        self._say = say
        self._report = report

    def scheduled(self, names: Sequence[str], jitter_s: float = 0.0) -> list[Scheduled]:
        """Loops as a scheduler needs them."""
        from placet.loops.round import loop_key
        from placet.loops.schedule import parse_cadence
        from placet.loops.scheduler import Scheduled

        made = []
        for name in names:
            spec = self.specs[name]
            cadence = parse_cadence(spec.cadence, spec.timezone) if spec.cadence else None
            made.append(
                Scheduled(
                    key=loop_key(str(self.repository), name),
                    name=name,
                    repository=str(self.repository),
                    cadence=cadence,
                    jitter_s=jitter_s,
                )
            )
        return made

    def engine(self, spec: LoopSpec) -> LoopEngine:
        """What runs the rounds of a loop.

        Raises:
            ModelError: a model that it names is not there.
        """
        from placet.loops.engine import LoopEngine

        return LoopEngine(
            self.runtime,
            self._model_of(spec.maker.model),
            spec,
            self.repository,
            home=home_folder(os.environ),
            rounds=self.records.rounds,
            isolation=self._confined,
            checker_model=self._model_of(spec.checker.model) if spec.checker.model else None,
            watch=self.watch,
        )

    def _model_of(self, named: str) -> Model:
        from placet.app.assistant import model_of
        from placet.app.models import attach

        return model_of(attach(named or self._model, self._rules.own.models, os.environ))

    async def rebase(self, old: Round, spec: LoopSpec, by: str, cancel: Cancel) -> Round | None:
        """Run a round that brings a change over, as any other: with a claim, and nobody else at work on the
        loop. None if it was broken off, and can be gone on with.

        Raises:
            RunHeld: a round of the loop is running.
            UsageError: the loop is stopped, or another round of it was broken off.
        """
        from placet.loops.scheduler import Report, Scheduler

        [loop] = self.scheduled([old.loop])
        refused: list[UsageError] = []

        async def run(loop: Scheduled, claim: Claim, cancel: Cancel) -> Report | None:
            known = self.records.rounds.get(claim.round)
            if claim.again and known is not None and known.rebased_from != old.id:
                if known.outcome is not None:
                    return Report(known.outcome, known.reason)  # Only that was not noted yet.
                refused.append(
                    UsageError(
                        f"Round '{claim.round}' of the loop '{old.loop}' was broken off, and comes first: "
                        f"placet loop run {old.loop}"
                    )
                )
                return None
            try:
                round = await self.engine(spec).rebase(old.id, by=by, new_round=claim.round, cancel=cancel)
            except UsageError as error:
                refused.append(error)
                return Report("stopped", str(error))
            self.last[loop.name] = round
            if round.outcome is None:
                return None
            await self._tell(round, spec)
            return Report(round.outcome, round.reason)

        scheduler = Scheduler(self.records.timetable, [loop], run)
        for _ in range(2):
            ended = await scheduler.run_now(loop.key, cancel)
            if refused:
                raise refused[0]
            if ended is None or old.loop in self.last:
                break
        made = self.last.get(old.loop)
        return made if made is not None and made.outcome is not None else None

    async def run_round(self, loop: Scheduled, claim: Claim, cancel: Cancel) -> Report | None:
        """Run one round, or go on with it, and deliver its report. None if it can be gone on with later."""
        from placet.loops.scheduler import Report

        spec = self.specs[loop.name]
        engine = self.engine(spec)
        try:
            # One that was begun before is gone on with; one that has ended is returned as it is.
            round = await engine.run_round(round_id=claim.round, due_at=claim.due, cancel=cancel)
        except RunHeld:
            # Somebody who was thought to be gone is still at work on it. Later, then.
            return None
        self.last[loop.name] = round
        if round.outcome is None:
            return None
        await self._tell(round, spec)
        return Report(round.outcome, round.reason)

    async def _tell(self, round: Round, spec: LoopSpec) -> None:
        from placet.loops.delivery import Delivered, deliver
        from placet.loops.spec import Delivery

        async def delivered(
            to: Sequence[Delivery], timeout_s: float, hook_in: Isolation | None = None
        ) -> list[Delivered]:
            return await deliver(
                round,
                to,
                folder=self.repository,
                say=self._report,
                redactor=self.redactor,
                timeout_s=timeout_s,
                hook_in=hook_in,
            )

        done = await delivered(spec.delivery, TIMEOUT_S)
        if spec.hooks.after:
            # Of the person's own, and told of every round.
            hook = Delivery(to="command", command=spec.hooks.after, always=True)
            told = await delivered([hook], spec.hooks.timeout_s, self._confined)
            done += [each._replace(to="hook") for each in told]
        for each in done:
            if each.problem:
                self._say(f"! {round.loop}: the report did not get to its {each.to}: {each.problem}")


@contextmanager
def open_loops(
    repository: Path,
    specs: Mapping[str, LoopSpec],
    options: RunOptions = RunOptions(),  # noqa: B008  (frozen)
    *,
    start: Path | None = None,
    db: str | None,
    say: Say = lambda text: None,
    report: Say | None = None,
    confirm: Callable[[Question], bool] | None = None,
) -> Iterator[LoopsApp]:
    """What runs these loops of a repository, with what is kept in `db`; closed afterwards. Rules are found
    from `start`, which is in it; else from its top.

    `say` hears of what went wrong beside the rounds; `report` gets the reports that go to the terminal.

    Raises:
        IsolationMissing: this machine enforces less than a loop requires.
        ModelError: a model that is named is not there, or none is set up.
        StorageError: the database cannot be used.
        UsageError: nothing would be kept; or less isolation is asked for than is required.
    """
    from placet.app.private_work import ground, open_workplace

    if database_url(db) == NOWHERE:
        raise UsageError("Loops live by what is kept of them, and --db none keeps nothing. Leave it out.")
    held = ground(
        repository,
        options,
        start=start,
        home=home_folder(os.environ),
        demands=[
            (spec.isolation, f"the loop '{spec.name}'") for spec in specs.values() if spec.isolation != "none"
        ],
        confirm=confirm,
    )
    with open_workplace(held, db=db) as place:
        assert place.records is not None
        app = LoopsApp(
            repository,
            specs,
            place.runtime,
            place.records,
            held.rules,
            held.confined,
            place.redactor,
            model=options.model,
            required=held.required,
            say=say,
            report=report if report is not None else say,
        )
        for spec in specs.values():
            # Now, and not when a round is due in the middle of the night.
            for name in {spec.maker.model, spec.checker.model}:
                app._model_of(name)
        yield app


# Loops that are looked at


def round_of(records: Records, given: str) -> Round | None:
    """The round whose run, or the run of whose maker or checker, is meant by an id; None if it is another
    kind of run."""
    from placet.errors import PlacetError
    from placet.loops.round import LEADER
    from placet.loops.sql import has_rounds
    from placet.runtime.journal import LED_BY

    if not has_rounds(records.database):
        return None
    try:
        context = records.journal.record(records.journal.find(given).run_id).proposal.context
    except PlacetError:
        return None
    name = context.get("round")
    is_ours = context.get(LED_BY) == LEADER and isinstance(name, str)
    return records.rounds.get(str(name)) if is_ours else None


def loop_data(
    name: str,
    spec: LoopSpec | None,
    slot: Slot | None,
    *,
    everything: Mark | None = None,
    waiting: int = 0,
    now: float,
) -> dict[str, Any]:
    """A loop as JSON. Without a spec it is one whose file is gone, or lies in another repository."""
    import msgspec

    from placet.loops.timetable import is_held

    running = slot is not None and bool(slot.round) and is_held(slot, now)
    return {
        "name": name,
        "repository": slot.repository if slot is not None else None,
        "intent": spec.intent if spec is not None else "",
        "level": spec.level if spec is not None else None,
        "kind": spec.kind if spec is not None else None,
        "cadence": (slot.cadence if slot is not None else "") if spec is None else _when(spec),
        "due": slot.due if slot is not None else None,
        "running": slot.round if slot is not None and running else None,
        "held_by": slot.lease.holder.words
        if slot is not None and running and slot.lease.holder is not None
        else None,
        "interrupted": slot.round if slot is not None and slot.round and not running else None,
        "pause": msgspec.to_builtins(slot.pause) if slot is not None else None,
        "stop": msgspec.to_builtins(slot.stop) if slot is not None else None,
        "all_stopped": msgspec.to_builtins(everything),
        "last": slot.last if slot is not None else None,
        "last_round": (slot.last_round or None) if slot is not None else None,
        "last_ended_at": slot.last_ended_at if slot is not None else None,
        "failures": slot.failures if slot is not None else 0,
        "waiting": waiting,
    }


def _when(spec: LoopSpec) -> str:
    if not spec.cadence or spec.timezone == "UTC":
        return spec.cadence
    return f"{spec.cadence} ({spec.timezone})"
