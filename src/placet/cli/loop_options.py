"""What the commands of `placet loop` share: which repository, which loops, and what is read of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placet.cli.code_options import repo_option as repo_option
from placet.cli.inputs import plain_text

if TYPE_CHECKING:
    from placet.app.app import Records
    from placet.loops.spec import LoopSpec
    from placet.loops.timetable import Mark, Slot

name_argument = click.argument("name", metavar="NAME", callback=plain_text)
all_option = click.option("--all", "everything", is_flag=True, help="All loops on this database.")


def top_of(repo: str | None) -> Path:
    """The top of the repository around a folder.

    Raises:
        UsageError: there is none.
    """
    from placet.errors import UsageError
    from placet.runtime.sync import run_sync
    from placet.worktree.repository import find_workable

    folder = Path(repo or ".")
    if not folder.is_dir():
        # Git would look further up, and find one that is not meant.
        raise UsageError(f"There is no folder {folder}. Name one that is in a git repository.")
    return Path(run_sync(find_workable(folder)).top)


def home_of(repo: str | None) -> Path:
    """The folder whose `.placet` holds the loops: the project around a folder, as for agents."""
    from placet.app.project import project_root

    return project_root(Path(repo or ".")) or top_of(repo)


def one_or_all(name: str | None, everything: bool, verb: str) -> None:
    """Refuse both, and neither."""
    if name is not None and everything:
        raise click.UsageError(f"Name a loop, or give --all to {verb} every one; not both.")
    if name is None and not everything:
        raise click.UsageError(f"Name the loop to {verb}, or give --all.")


@contextmanager
def reading(db: str | None) -> Iterator[Records | None]:
    """What is kept, to be looked at; None where nothing was kept yet.

    Raises:
        StorageError: it cannot be read.
    """
    from placet.app.app import NOWHERE, database_files, database_url, open_records

    path = database_files(db).get("the database")
    if database_url(db) == NOWHERE or (path is not None and not os.path.exists(path)):
        yield None
        return
    with open_records(db) as records:
        yield records


def kept_slots(records: Records | None) -> tuple[list[Slot], Mark | None]:
    """How loops stand, and whether everything is stopped, as far as anything was ever kept."""
    from placet.loops.timetable_sql import has_timetable

    if records is None or not has_timetable(records.database):
        return [], None
    return records.timetable.slots(), records.timetable.switch()


def data_of(records: Records | None, top: Path, specs: dict[str, LoopSpec]) -> list[dict[str, Any]]:
    """The loops of a repository as JSON, those whose file is gone included if they have run."""
    from time import time

    from placet.app.loops import loop_data
    from placet.loops.round import loop_key
    from placet.loops.sql import has_rounds

    slots, everything = kept_slots(records)
    here = {slot.name: slot for slot in slots if slot.repository == str(top)}
    made = []
    for name in sorted({*specs, *here}):
        waiting = 0
        if records is not None and has_rounds(records.database):
            waiting = len(records.rounds.waiting(loop_key(str(top), name)))
        made.append(
            loop_data(
                name, specs.get(name), here.get(name), everything=everything, waiting=waiting, now=time()
            )
        )
    return made
