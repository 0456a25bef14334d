"""Which folder things belong to, and how a table is asked for those of one."""

from __future__ import annotations

import os
from pathlib import Path

from placet.storage.location import project_folder
from placet.storage.transaction import Value, searchable


def project_root(start: Path) -> Path:
    """The folder of the project around `start`: the nearest that holds `.placet`, or the nearest that holds
    `.git` if that is further out; without either `start` itself.

    Raises:
        TrustError: as `project_folder`.
    """
    here = Path(os.path.realpath(start))
    project = project_folder(here)
    repository = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), None)
    # What is coded belongs to the whole repository, also where the rules are those of a folder in it.
    found = [
        each for each in (project.parent if project is not None else None, repository) if each is not None
    ]
    return min(found, key=lambda folder: len(folder.parts), default=here)


def in_folder(column: str, folder: str | None, *, with_unknown: bool = False) -> tuple[str, list[Value]]:
    """A condition that a path in a column is that folder, or lies below it; with its values. It holds for
    every row without a folder. Never null, so that its negation finds all the others.

    `with_unknown` lets rows through that have no path.
    """
    if folder is None:
        return "1 = 1", []
    below = folder if folder.endswith("/") else f"{folder}/"
    known = f"coalesce({column}, '') = ? OR substr(coalesce({column}, ''), 1, ?) = ?"
    unknown = f"{column} IS NULL OR " if with_unknown else ""
    return f"({unknown}{known})", [searchable(folder), len(below), searchable(below)]
