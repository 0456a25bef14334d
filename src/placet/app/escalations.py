"""What a round of a loop asked, decided on the command line, and carried out at once.

Keep true:
1. Approving carries out the kept change, and nothing that the repository brings by now: the round has its own
   copy of the loop's file.
2. The rules that held when it was asked are gathered anew, and hold again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from placet.app.app import Records
from placet.app.options import RunOptions, options_of

if TYPE_CHECKING:
    from placet.approvals.approval import Approval
    from placet.loops.engine import LoopEngine
    from placet.loops.round import Round


def round_of(records: Records, approval: Approval) -> Round | None:
    """The round that asked, if it was one; and not one that has ended otherwise."""
    from placet.loops.sql import has_rounds

    if not has_rounds(records.database):
        return None
    return records.rounds.get(approval.run_id)


def policies_of(records: Records, round: Round) -> str | None:
    """The policies that a round was begun under, where a person named them."""
    from placet.errors import PlacetError

    try:
        options = options_of(records.journal.find(round.id))
    except PlacetError:
        return None
    return options.policies if options is not None else None


def diff_of(round: Round) -> tuple[str, str]:
    """What a round changes as a unified diff, as its executor would bring it; and, where it is not to be had
    any more, why, in words. The text is that of whoever wrote the files."""
    from placet.app.loops import home_folder
    from placet.errors import PlacetError
    from placet.loops.copies import Copies
    from placet.runtime.sync import run_sync

    home = home_folder(os.environ)
    if not round.changed:
        return "", "nothing is changed"
    if not (home / round.id).is_dir():
        commit = round.receipt.data.get("commit") if round.receipt is not None else None
        return "", f"its private copies are gone{f'; see git show {commit}' if commit else ''}"

    is_commit = round.spec.executor.use == "commit"
    try:
        return run_sync(Copies(Path(round.repository), home).diff(round, whole=is_commit)), ""
    except (PlacetError, OSError) as error:
        return "", f"it cannot be read: {error}"


@contextmanager
def open_decider(round: Round, *, db: str | None, policies: str | None) -> Iterator[LoopEngine]:
    """An engine that can carry out, or close, what a round came to. It asks no model.

    Raises:
        StorageError: the database cannot be used.
        UsageError: the repository is gone.
    """
    from placet.app.coder import NoModel
    from placet.app.loops import home_folder
    from placet.app.private_work import ground, open_workplace
    from placet.errors import UsageError
    from placet.loops.engine import LoopEngine
    from placet.sandbox.confinement import Isolation

    repository = Path(round.repository)
    if not repository.is_dir():
        raise UsageError(
            f"The repository of round '{round.id}' is not at {repository} any more. Nothing was decided. "
            "Bring it back there, or deny what was asked."
        )
    home = home_folder(os.environ)
    held = ground(repository, RunOptions(policies=policies), home=home, works=False)
    with open_workplace(held, db=db, works=False, create=False) as place:
        assert place.records is not None
        yield LoopEngine(
            place.runtime,
            NoModel(),
            round.spec,
            repository,
            home=home,
            rounds=place.records.rounds,
            isolation=Isolation("none"),
        )
