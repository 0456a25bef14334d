"""Point to what was recorded of a folder before it became a project with a database of its own.

Keep true: every command that is named is complete, with the database in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from placet.cli.output import Output

if TYPE_CHECKING:
    from pathlib import Path

    from placet.app.other_databases import Kind, OtherDatabase

About = Literal["runs", "approvals", "sessions", "log"]
"""Kinds of lists."""
_ALL: tuple[About, ...] = ("runs", "approvals", "sessions")


class Hidden:
    """Records of a folder in other databases, for people and for programs. Falsy if there are none."""

    def __init__(
        self, found: Sequence[OtherDatabase], about: Sequence[About], place: str | None, where: str
    ) -> None:
        self._about = about
        self._found = [each for each in found if any(_number(each, one) for one in about)]
        self._place = place
        self._where = where
        """The option that names the folder, where it is not that of the project here."""

    def __bool__(self) -> bool:
        return bool(self._found)

    def data(self) -> dict[str, Any]:
        """The field of a JSON object that says so; nothing where there is nothing to say."""
        import msgspec

        listed = [{**msgspec.to_builtins(each), "next": self._commands(each)} for each in self._found]
        return {"other_databases": listed} if listed else {}

    def talk(self, output: Output) -> None:
        """Say it."""
        begun = f", begun in {self._place}" if self._place is not None else ""
        for each in self._found:
            output.talk(f"Another database of yours has {_counts(each)}{begun}: {each.path}. To see them:")
            output.talk("\n".join(f"  {command}" for command in self._commands(each)))

    def _commands(self, one: OtherDatabase) -> list[str]:
        from placet.render.advice import db_words, name_words

        commands: dict[About, str] = {
            "runs": f"placet runs{self._where}",
            "approvals": "placet approvals",
            "sessions": f"placet code list{self._where}",
            "log": f"placet log show {name_words(one.newest_run or '')}",
        }
        return [f"{commands[each]}{db_words(one.path)}" for each in self._about if _number(one, each)]


def hidden_records(db: str | None, *about: About, place: str | None, start: Path | None = None) -> Hidden:
    """Find what other databases hold of the folder `place`, or of all folders if it is None.

    Args:
        db: The database that the person named; then there is no other one.
        about: What is of interest.
        start: Where the project is looked for. Default: the current folder.
    """
    import os
    import shlex
    from pathlib import Path

    from placet.app.other_databases import other_databases
    from placet.storage.folders import project_root

    if db is not None or not about:
        return Hidden([], about, place, "")
    here = Path.cwd()
    where = " --all"
    if place is not None:
        where = "" if place == str(project_root(here)) else f" --folder {shlex.quote(place)}"
    found = list(other_databases(start or here, place, os.environ))
    return Hidden(found, about, place, where)


def hidden_here(db: str | None, *about: About) -> Hidden:
    """Find what other databases hold of the project around the current folder."""
    from placet.cli.places import scope_of

    return hidden_records(db, *about, place=scope_of(None, is_all=False) if db is None else None)


def project_file(start: Path) -> Path | None:
    """The database file of the project around a folder; None outside of any, and where `PLACET_DB` names
    another."""
    import os

    from placet.storage.location import project_database

    return project_database(os.environ, start)


def hidden_by_new(start: Path, before: Path | None = None) -> Hidden:
    """Find all that other databases hold of a folder that has become a project.

    Args:
        start: The folder.
        before: What `project_file` returned before; if it still does, nothing has become hidden.
    """
    from placet.storage.folders import project_root

    place = str(project_root(start))
    about = _ALL if before is None or before != project_file(start) else ()
    return hidden_records(None, *about, place=place, start=start)


@contextmanager
def look_elsewhere(db: str | None, kind: Kind, given: str | None, command: str) -> Iterator[None]:
    """Let an error that an id is not known say which other database knows it, with the command that names it.

    Args:
        db: The database that the person named; then there is no other one.
        kind: What the id is of.
        given: The id, or its beginning.
        command: The words of the command after `placet`, without the id.
    """
    from placet.errors import AmbiguousApproval, PlacetError, StorageUnavailable, UnknownApproval, UnknownRun

    try:
        yield
    except PlacetError as error:
        from placet.coder.store import NoSession

        is_unknown = isinstance(error, UnknownRun | UnknownApproval | NoSession | StorageUnavailable)
        if is_unknown and not isinstance(error, AmbiguousApproval) and db is None and given:
            # The same error, so that its code and its fields stay.
            error.args = (" ".join([str(error), *_pointers(kind, given, command)]),)
        raise


def _pointers(kind: Kind, given: str, command: str) -> Iterator[str]:
    import os
    from pathlib import Path

    from placet.app.other_databases import find_elsewhere
    from placet.render.advice import db_words, name_words

    noun = {"run": "run", "approval": "approval", "session": "coding session"}[kind]
    for path, id in find_elsewhere(Path.cwd(), kind, given, os.environ):
        full = f"placet {command} {name_words(id)}{db_words(path)}"
        yield f"Another database of yours has the {noun} '{id}': {full}"


def _number(one: OtherDatabase, about: About) -> int:
    match about:
        case "runs" | "log":
            return one.runs
        case "approvals":
            return one.approvals_waiting
        case "sessions":
            return one.sessions


def _counts(one: OtherDatabase) -> str:
    from placet.render.text import count

    said = []
    if one.runs:
        said.append(f"{count(one.runs, 'run')}{_waiting(one.runs_waiting)}")
    if one.approvals_waiting:
        said.append(count(one.approvals_waiting, "approval that waits", "approvals that wait"))
    if one.sessions:
        said.append(f"{count(one.sessions, 'coding session')}{_waiting(one.sessions_waiting)}")
    return " and ".join([", ".join(said[:-1]), said[-1]] if said[1:] else said)


def _waiting(number: int) -> str:
    return f" ({number:,} waiting for a person)" if number else ""
