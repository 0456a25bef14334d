"""What stands around work in private copies of a repository: rules, isolation, records and a runtime.

The coder and the loops work so. A folder's rules hold; nothing that it brings is loaded by this.

Keep true:
1. Commands are kept in as much as the rules, the work itself or the person demand, and that is tried first.
2. Nothing is made on a disk before it is known that the work can be done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from placet.app.app import NOWHERE, Records, database_url, known_secrets, open_records
from placet.app.options import RunOptions

if TYPE_CHECKING:
    from placet.app.governance import Governance, Question
    from placet.app.isolation import Required
    from placet.redaction import Redactor
    from placet.runtime.asking import Person
    from placet.runtime.runtime import Runtime
    from placet.sandbox.confinement import Isolation
    from placet.sandbox.isolation import Level

    Demand = tuple[Level, str]
    """How far commands must be kept in, and who wants that."""


class Ground(NamedTuple):
    """What holds for work in a repository."""

    repository: Path
    rules: Governance
    required: Required
    confined: Isolation
    options: RunOptions


class Workplace(NamedTuple):
    """Where the work is done and kept."""

    runtime: Runtime
    records: Records | None
    redactor: Redactor


def ground(
    repository: Path,
    options: RunOptions,
    *,
    start: Path | None = None,
    home: Path,
    demands: Sequence[Demand] = (),
    works: bool = True,
    confirm: Callable[[Question], bool] | None = None,
) -> Ground:
    """What governs work in a repository, whose private copies are in `home`. Rules are found from
    `start`, else from its top. The isolation of the options is in the place of what is demanded. Where
    nothing `works`, nothing is tried.

    Raises:
        IsolationMissing: this machine enforces less than is required.
        UsageError: less isolation is asked for than settings require.
    """
    from placet.app.governance import NO_TOOLS, gather
    from placet.app.isolation import isolation_for, required

    rules = gather(
        start or repository, os.environ, policies=options.policies, tools=NO_TOOLS, confirm=confirm
    )
    demand = rules.isolation
    if options.isolation is None:
        for level, who in demands:
            demand = demand.or_more(level, who)
    needed = required(rules.folder, demand, os.environ, asked=options.isolation)
    confined = isolation_for(needed, rules, os.environ)
    if works and needed.is_checked:
        _check(confined, home)
    return Ground(repository, rules, needed, confined, replace(options, folder=str(repository)))


@contextmanager
def open_workplace(
    ground: Ground,
    *,
    db: str | None,
    person: Person | None = None,
    works: bool = True,
    create: bool = True,
) -> Iterator[Workplace]:
    """A runtime with what is kept in `db`; closed afterwards.

    Raises:
        StorageError: the database cannot be used.
    """
    from contextlib import ExitStack

    from placet.durable.memory import MemoryJournal
    from placet.events.log import EventLog
    from placet.redaction import Redactor
    from placet.runtime.runtime import Runtime

    needed = ground.required
    with ExitStack() as stack:
        redactor = Redactor(known_secrets(os.environ))
        records = None
        if database_url(db) != NOWHERE:
            stored = ground.options.settled(
                required=needed.level, policies_sha256=ground.rules.policies_sha256
            )
            records = stack.enter_context(
                open_records(db, create=create, writes=True, options=stored, redactor=redactor)
            )
        events = EventLog(redactor=redactor)
        if records is not None:
            events.add_sink(records.events)
        stack.callback(events.flush)
        is_confined = works and (needed.is_checked or needed.lowering is not None)
        runtime = Runtime(
            policies=ground.rules.policies,
            permissions=ground.rules.permissions,
            events=events,
            journal=records.journal if records is not None else MemoryJournal(),
            approvals=records.approvals if records is not None else None,
            patience_s=0 if records is not None else None,
            folder=str(ground.repository),
            person=person,
            isolation=ground.confined if is_confined else None,
        )
        yield Workplace(runtime, records, redactor)


def _check(confined: Isolation, home: Path) -> None:
    from placet.app.isolation import check_isolation
    from placet.sandbox.workspace import Workspace

    # There, because that is where commands will run: a disk can be of a kind that cannot be confined.
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = Workspace(home)
    try:
        check_isolation(confined, place, "Or, if that is yours to decide, ask for less: --isolation {found}.")
    finally:
        place.close()
