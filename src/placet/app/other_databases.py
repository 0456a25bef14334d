"""Find what the databases hold that served a folder before its project had one of its own.

A folder that becomes a project gets a database of its own. What was recorded before stays where it is: in the
person's own database, or in that of a project further out. Nothing is moved, so commands point to it.

Keep true:
1. Looking creates and changes nothing, and a database that cannot be read is passed over.
2. The database of a project is opened only if this person has made it.
3. Where the person names the database, by `--db` or `PLACET_DB`, nothing else is looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from placet.errors import PlacetError, StorageUnavailable

if TYPE_CHECKING:
    from placet.app.app import Records

Kind = Literal["run", "approval", "session"]
"""Kinds of things that have an id."""
_MOST = 10_000
"""Of what is counted."""
_ASKS = ("contract_proposed", "needs_approval")
"""States in which a coding session waits for a person."""


class OtherDatabase(msgspec.Struct, frozen=True, kw_only=True):
    """A database besides that of the project, with the number of things of a folder in it."""

    path: str
    runs: int
    """Runs that no other run started."""
    runs_waiting: int
    """Of these, those that wait for a person."""
    approvals_waiting: int
    sessions: int
    """Coding sessions."""
    sessions_waiting: int
    """Of these, those that wait for a person."""
    newest_run: str | None
    """Id of the run that began last."""


def other_databases(
    start: Path, place: str | None, environment: Mapping[str, str]
) -> Iterator[OtherDatabase]:
    """Yield the databases that the project around `start` hides and that hold something of the folder
    `place`; of all folders if it is None."""
    for path in _hidden(start, environment):
        with suppress(PlacetError):
            found = _count(path, place)
            if found.runs or found.approvals_waiting or found.sessions:
                yield found


def find_elsewhere(
    start: Path, kind: Kind, given: str, environment: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the path of each database that the project around `start` hides and that knows the id `given`, or
    its beginning; with the whole id."""
    from placet.app.app import open_records

    for path in _hidden(start, environment):
        with suppress(PlacetError):
            with open_records(str(path)) as records:
                found = _find(records, kind, given)
            yield str(path), found


def _hidden(start: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """Databases that would serve a folder if the nearest project were none."""
    from placet.app.own_database import check_own
    from placet.storage.location import FILE_NAME, project_database, project_folders, user_folder

    project = project_database(environment, start)
    if project is None:
        return
    for folder in project_folders(start)[1:]:
        outer = folder / "data" / FILE_NAME
        with suppress(PlacetError):
            check_own(outer, environment, create=False)
            if outer.is_file():
                yield outer
    own = user_folder(environment) / FILE_NAME
    if own.is_file() and not (project.exists() and project.samefile(own)):
        yield own


def _count(path: Path, place: str | None) -> OtherDatabase:
    from placet.app.app import open_records
    from placet.approvals.sql import has_approvals
    from placet.coder.store_sql import has_sessions

    with open_records(str(path)) as records:
        runs = []
        with suppress(StorageUnavailable):  # A program may keep approvals or sessions, and no runs.
            runs = records.journal.page(folder=place, limit=_MOST)
        asked = records.approvals.pending() if has_approvals(records.database) else []
        sessions = []
        if has_sessions(records.database):
            sessions = records.sessions.listed(folder=place, limit=_MOST)
        folders = _folders(records, {one.run_id for one in asked})
        return OtherDatabase(
            path=str(path),
            runs=len(runs),
            runs_waiting=sum(run.status == "waiting" for run in runs),
            approvals_waiting=sum(_is_in(folders.get(one.run_id), place) for one in asked),
            sessions=len(sessions),
            sessions_waiting=sum(session.state in _ASKS for session in sessions),
            newest_run=runs[0].run_id if runs else None,
        )


def _folders(records: Records, ids: set[str]) -> dict[str, str]:
    """Where runs were started, or else the runs that started them."""
    places = records.places(ids)
    found: dict[str, str] = {}
    for id in ids:
        place, seen = places.get(id), {id}
        while place is not None and place.folder is None and place.parent and place.parent not in seen:
            seen.add(place.parent)
            place = places.get(place.parent)
        if place is not None and place.folder is not None:
            found[id] = place.folder
    return found


def _is_in(folder: str | None, place: str | None) -> bool:
    if place is None:
        return True
    return folder is not None and Path(os.path.realpath(folder)).is_relative_to(place)


def _find(records: Records, kind: Kind, given: str) -> str:
    """The whole id.

    Raises:
        PlacetError: there is none, or several begin so.
    """
    from placet.app.coder import find_session

    match kind:
        case "run":
            return records.run_id(given)
        case "approval":
            return records.approvals.find(given).id
        case "session":
            return find_session(records, given).id
