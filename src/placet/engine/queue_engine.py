"""The engine over a table of submissions: what callers use, wherever the workers are."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from placet.engine.canceling import cancel_waiting, stop_holder, withdraw
from placet.engine.kinds import has_other_policies, kind_of_job
from placet.engine.protocol import AS_USUAL, FIRST, LAST, OPEN, State, SubmitOptions
from placet.engine.sql import SqlSubmissions, unknown_run
from placet.engine.submission import Inbox, Submission, WorkerInfo
from placet.errors import PlacetError, UnknownRun, UsageError
from placet.ir.proposal import new_id
from placet.storage.lease import holder
from placet.trace_context import current_traceparent

if TYPE_CHECKING:
    from placet.app.app import Records
    from placet.app.options import RunOptions
    from placet.app.work import Job
    from placet.runtime.journal import Decision


NOT_BEGUN: tuple[State, ...] = ("queued", "unplaced", "refused", "dead")
"""States of submissions that a list of runs would not show, or not show why."""
_LONGEST = 200
"""Characters of a name: indexes of databases and queues have room for so many."""


def check_queue(name: str) -> None:
    """Refuse what is no name of a queue.

    Raises:
        UsageError: it is none.
    """
    _check_name("The name of a queue", name)
    if "@" in name or "!" in name:
        # Queues of hosts and of single workers have them.
        raise UsageError(f"The name of a queue has no '@' and no '!' in it: {name}")


def _check_name(what: str, text: str | None) -> None:
    if text is not None and (not text.strip() or len(text) > _LONGEST or not text.isprintable()):
        raise UsageError(f"{what} has 1 to {_LONGEST} visible characters.")


def _policies_sha256(run: RunOptions) -> str:
    """Digest of the policies that hold where a run is submitted. Nobody is asked: they need no trust.

    Raises:
        PlacetError: they cannot be read.
    """
    from placet.app.governance import gather

    found = gather(Path(run.folder or "."), os.environ, policies=run.policies, confirm=lambda _: False)
    return found.policies_sha256


class QueueEngine:
    """Stores submissions for workers anywhere. Needs nothing but the database."""

    def __init__(self, records: Records) -> None:
        self.submissions = SqlSubmissions(records.database)
        self.journal = records.journal
        self._records = records

    async def submit(self, job: Job, options: SubmitOptions = AS_USUAL) -> str:
        """Store a job, and return the id of its run."""
        return (await asyncio.to_thread(self.add, job, options)).run_id

    def add(self, job: Job, options: SubmitOptions) -> Submission:
        """Store a job. Waits for the disk."""
        if not FIRST <= options.priority <= LAST:
            raise UsageError(f"A priority is a number from {FIRST} (first) to {LAST} (last).")
        scope = options.scope
        check_queue(options.queue)
        named = {"key": options.key, "id": options.run_id, "tenant": scope.tenant if scope else None}
        for name, text in named.items():
            _check_name(f"The {name} of a submission", text)
        run = (options.run or job.options).settled(required=None, policies_sha256=None)
        run = replace(run, policies_sha256=_policies_sha256(run))
        run = replace(run, traceparent=current_traceparent())
        if options.is_anywhere:
            run = replace(run, folder=None)
        new = Submission(
            run_id=options.run_id or new_id(),
            kind=kind_of_job(job).name,
            request=msgspec.json.encode(job).decode(),
            options=msgspec.json.encode(run).decode(),
            tenant=scope.tenant if scope is not None else None,
            caller=scope.caller_id if scope is not None else None,
            key=options.key,
            priority=options.priority,
            queue=options.queue,
            folder=run.folder,
            host=None if options.is_anywhere else holder("").host,
        )
        if options.run_id and self.journal.places([new.run_id]) and not self.submissions.get(new.run_id):
            # A worker would go on with that one in the place of the job.
            raise UsageError(f"There is a run '{new.run_id}' already. Choose another id.")
        return self.submissions.add(new, delay_s=options.delay_s)

    def find(self, given: str) -> Submission:
        """The submission whose id is, or starts with, a text.

        Raises:
            UnknownRun: there is none, or there are several.
        """
        found = self.submissions.find(given)
        if found is None:
            name = self.submissions.database.name
            alike = self.submissions.alike(given)
            if alike:
                raise UnknownRun(
                    f"The ids of several runs that were submitted in {name} begin with '{given}': "
                    f"{', '.join(alike)}. Give more of the id.",
                    run_id=given,
                    several=alike,
                )
            raise UnknownRun(
                f"No run '{given}' was submitted in {name}. See which there are: placet runs list --all",
                run_id=given,
            )
        return found

    def why_queued(self, run: Submission, workers: Sequence[WorkerInfo] | None = None) -> str | None:
        """Why a submission cannot begin now, for people; None if a worker is there, or it does not wait for
        one. `workers` are read if they are not given."""
        if run.state == "unplaced":
            return (
                f"no worker has what it needs: {', '.join(run.needs)}. Start one that has it, such as "
                "with --tools FILE: placet worker"
            )
        if run.state != "queued":
            return None
        if run.stop is not None:
            return f"being canceled ({run.stop}): the next worker of the queue '{run.queue}' ends it"
        known = self.submissions.workers() if workers is None else workers
        alive = [each for each in known if each.state == "up"]
        serving = [each for each in alive if each.queue == run.queue]
        here = [each for each in serving if run.host in (None, each.holder.host)]
        if not serving:
            return f"no worker serves the queue '{run.queue}'. Start one: placet worker --queue {run.queue}"
        if not here:
            return f"it works in {run.folder} on the host '{run.host}', and no worker runs there"
        if run.version is not None and all(each.version != run.version for each in here):
            return f"version {run.version} of Placet began it, and no worker of that version runs"
        if run.held is not None:
            return f"{run.held}; it goes on at {datetime.fromtimestamp(run.due, UTC):%Y-%m-%d %H:%M} UTC"
        return None

    async def wake(
        self, run_id: str, *, decide: Mapping[str, Decision] | None = None, text: str | None = None
    ) -> str:
        """Go on with a run."""
        if not await asyncio.to_thread(self._wake, run_id, Inbox(decide=dict(decide or {}), text=text)):
            raise unknown_run(run_id, self.submissions.database)
        return run_id

    def _wake(self, run_id: str, inbox: Inbox, *, target: str | None = None) -> bool:
        """Go on with a run that was submitted; whether it was."""
        self._drop_stop(run_id)
        return self.submissions.wake(run_id, inbox, target=target)

    async def cancel(self, run_id: str, reason: str) -> bool:
        """Stop a run."""
        found = await asyncio.to_thread(self.submissions.get, run_id)
        if found is not None and (found.state, found.kind) == ("waiting", "plan"):
            state = await cancel_waiting(self._records, self.submissions, run_id, reason)
        else:
            # What else waits has more to end than its journal; a worker does.
            state = await asyncio.to_thread(self.submissions.cancel, run_id, reason)
        if state == "waiting":
            await asyncio.to_thread(withdraw, self._records, run_id, reason)
        # A worker hears of it from the submission. Whoever has resumed the run elsewhere does not.
        is_elsewhere = state not in (None, "running") and await asyncio.to_thread(
            stop_holder, self._records.journal, run_id, reason
        )
        return state in OPEN or is_elsewhere

    def retry(self, run_id: str) -> bool:
        """Queue a run again that is dead, unplaced, refused or was canceled; whether it is. Waits for the
        disk.

        Args:
            run_id: Id of the run.
        """
        self._drop_stop(run_id)
        return self.submissions.retry(run_id)

    def _drop_stop(self, run_id: str) -> None:
        """Somebody wants a run to go on: what it has ended with must not stop it again. First of all, or a
        worker that claims it at once would see it."""
        found = self.submissions.get(run_id)
        if found is None or found.state not in OPEN:
            self.journal.drop_stop(run_id)

    def decided(self, run_id: str) -> None:
        """Go on with a run about which somebody has decided, if it was submitted."""
        with suppress(PlacetError):  # Whoever looks at the run sees how it stands.
            self.submissions.wake_waiting(self.root(run_id))

    def root(self, run_id: str) -> str:
        """The run that started a run, and so on: that is the one to go on with.

        Raises:
            UnknownRun: there is none.
        """
        for _ in range(20):
            parent = self.journal.find(run_id).parent
            if parent is None:
                return run_id
            run_id = parent
        return run_id

    async def drain(self) -> None:
        """Nothing: the workers are elsewhere."""


def engine_in(records: Records) -> QueueEngine | None:
    """The engine of a database to which something was submitted; else None, and nothing is created."""
    return QueueEngine(records) if records.database.read(lambda t: t.has_table("submissions")) else None


def wake_decided(records: Records, run_id: str) -> None:
    """Have workers go on with a run about which somebody has decided, if it was submitted."""
    engine = engine_in(records)
    if engine is not None:
        engine.decided(run_id)


def submission_data(engine: QueueEngine, run: Submission) -> dict[str, Any]:
    """A submission as JSON, without the job, which may hold secrets."""
    data = {
        name: getattr(run, name)
        for name in Submission.__struct_fields__
        if name not in ("request", "options", "inbox")
    }
    has_other = False
    if run.version is not None:
        with suppress(UnknownRun):
            has_other = has_other_policies(run.options, engine.journal.find(run.run_id))
    return {
        **data,
        "needs": list(run.needs),
        "waits_for": engine.why_queued(run),
        "has_other_policies": has_other,
    }
