"""What of all that is kept a list is about: this folder's project, another folder or everything, and since
when."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

from placet.cli.inputs import Moment, single

if TYPE_CHECKING:
    from collections.abc import Callable

    from placet.app.app import Records
    from placet.cli.output import Output

T = TypeVar("T")

NOTHING_YET = "Nothing is recorded yet. Run a plan with `placet run PLAN`, or a task with `placet do TASK`."

since_option = click.option(
    "--since", type=Moment(), metavar="WHEN", help="Begun not before: 2026-01-31, or 7d for 7 days ago."
)
until_option = click.option("--until", type=Moment(), metavar="WHEN", help="Begun not after this moment.")
folder_option = single(
    "--folder", metavar="DIR", help="Begun in this folder or below. Default: this folder's project."
)
all_option = click.option("--all", "is_all", is_flag=True, help="In every folder.")


def scope_of(folder: str | None, *, is_all: bool) -> str | None:
    """The folder that a list is about: the one that is named, else that of the project here; None for all.

    Raises:
        UsageError: a folder is named, and all are meant.
    """
    import os
    from pathlib import Path

    from placet.storage.folders import project_root

    if folder is not None and is_all:
        raise click.UsageError("--folder names one, and --all means every one. Give one of them.")
    if is_all:
        return None
    return str(project_root(Path.cwd())) if folder is None else os.path.realpath(folder)


def look_in(db: str | None, look: Callable[[Records], T], nothing: T) -> T:
    """What is found in a database; `nothing` where nothing was recorded yet. A database that is named and
    does not exist is an error.

    Raises:
        StorageError: it cannot be used.
    """
    from placet.app.app import has_records, open_records
    from placet.errors import StorageUnavailable

    if not has_records(db):
        return nothing
    try:
        with open_records(db) as records:
            return look(records)
    except StorageUnavailable as error:
        if error.holds_nothing:
            return nothing
        raise


def talk_of_elsewhere(output: Output, elsewhere: int, *, is_more: bool) -> None:
    """Say that not all is listed, and how to see it."""
    if elsewhere:
        output.talk(f"{elsewhere:,}{' more' if is_more else ''} in other folders: --all")
