"""What of all that is kept a list is about: this folder's project, another folder or everything, and since
when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from placet.cli.inputs import Moment, single

if TYPE_CHECKING:
    from placet.cli.output import Output

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


def talk_of_elsewhere(output: Output, elsewhere: int, *, is_more: bool) -> None:
    """Say that not all is listed, and how to see it."""
    if elsewhere:
        output.talk(f"{elsewhere:,}{' more' if is_more else ''} in other folders: --all")
