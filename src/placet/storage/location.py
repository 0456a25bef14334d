"""Which database: the one that is named, else the project's, else the person's.

Keep true:
1. Looking makes nothing: a folder or file comes into being only when something is to be kept.
2. A name with a password in it is never repeated.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from placet.errors import StorageUnavailable, TrustError, UsageError
from placet.storage.database import Database, Readers
from placet.storage.transaction import Link

FILE_NAME = "placet.db"
PROJECT_FOLDER = ".placet"
_POSTGRES = ("postgres://", "postgresql://")
MOST_READERS = 4
"""Connections for reading that a process has to one server, however many databases are open there. Each
database has one more for writing."""
_READERS: dict[tuple[int, str], Readers] = {}
_LOCK = threading.Lock()


def default_url(environment: Mapping[str, str], start: Path) -> str:
    """Where things are kept when nobody says: PLACET_DB, the nearest `.placet` folder above `start`, or the
    person's own data folder.

    Raises:
        TrustError: as `project_folder`.
    """
    named = environment.get("PLACET_DB")
    if named:
        return named
    return str(project_database(environment, start) or user_folder(environment) / FILE_NAME)


def project_database(environment: Mapping[str, str], start: Path) -> Path | None:
    """The file of the nearest project, where things are kept there when nobody says; else None.

    Raises:
        TrustError: as `project_folder`.
    """
    project = project_folder(start) if not environment.get("PLACET_DB") else None
    return project / "data" / FILE_NAME if project is not None else None


def project_folder(start: Path) -> Path | None:
    """The nearest `.placet` folder at or above `start`.

    Raises:
        TrustError: something else is called so.
    """
    return next(_project_folders(start), None)


def project_folders(start: Path) -> list[Path]:
    """Every `.placet` folder at or above `start`, the nearest first.

    Raises:
        TrustError: something else is called so.
    """
    return list(_project_folders(start))


def _project_folders(start: Path) -> Iterator[Path]:
    here = start.absolute()
    for folder in (here, *here.parents):
        project = folder / PROJECT_FOLDER
        if project.is_dir():
            yield project
        elif os.path.lexists(project):
            # Passed over, it would take away rules that somebody believes to hold.
            raise TrustError(
                str(project),
                "is no folder, so nobody can tell which rules were meant to hold here",
                f"Make it a folder with {PROJECT_FOLDER}/policies in it, or take it away.",
            )


def config_folder(environment: Mapping[str, str]) -> Path:
    """Where this person's own settings and policies are."""
    return _folder_of(environment, "XDG_CONFIG_HOME", ".config")


def user_folder(environment: Mapping[str, str]) -> Path:
    """Where this person's things are kept outside any project."""
    return _folder_of(environment, "XDG_DATA_HOME", ".local/share")


def state_folder(environment: Mapping[str, str]) -> Path:
    """Where this person's work in progress is kept; their other things are closed to tools."""
    return _folder_of(environment, "XDG_STATE_HOME", ".local/state")


def _folder_of(environment: Mapping[str, str], variable: str, below_home: str) -> Path:
    base = environment.get(variable)
    if base and Path(base).is_absolute():
        return Path(base) / "placet"
    home = environment.get("HOME")
    return (Path(home) if home else Path.home()) / below_home / "placet"


def open_database(url: str, *, create: bool = True, read_only: bool = False) -> Database:
    """Open a database for stores such as `SqlJournal`; all stores of a process can share it.

    Args:
        url: `postgresql://...`, `sqlite:///FILE`, or the path of a file.
        create: Create a missing file, readable by its owner only.
        read_only: Create and change nothing; no permission to write is needed.

    Raises:
        StorageError: it cannot be opened; says why and what to do.
        UsageError: the URL names no known kind of database.
    """
    if is_server(url):
        from placet.storage.postgres import PostgresLink

        def link(writes: bool) -> Link:
            return PostgresLink(url, writes=writes)

        return Database(link, read_only=read_only, readers=_readers_of(url, link))
    path = sqlite_path(url)

    def connect(writes: bool) -> Link:
        from placet.storage.sqlite import SqliteLink

        return SqliteLink(path, writes=writes, create=create and writes)

    return Database(connect, read_only=read_only)


def _readers_of(url: str, connect: Callable[[bool], Link]) -> Readers:
    """The links for reading that all databases of a server share in this process."""
    key = (os.getpid(), url)
    with _LOCK:
        found = _READERS.get(key)
        if found is None or found.users <= 0:
            found = _READERS[key] = Readers(lambda: connect(False), MOST_READERS)
        return found


def is_server(url: str) -> bool:
    """Whether a URL names a server, not a file."""
    return url.startswith(_POSTGRES)


def sqlite_path(url: str) -> Path:
    """The file that a URL or a plain path names.

    Raises:
        UsageError: it names none.
        StorageUnavailable: no file can be called so.
    """
    scheme, colon, _ = url.partition(":")
    if not colon or "/" in scheme or "." in scheme:
        if not url.strip():
            raise UsageError("The database has an empty name. Name a file or a postgresql:// URL.")
        return _nameable(url)
    if scheme != "sqlite":
        raise UsageError(
            f"'{scheme}:' is no kind of database. Use a path, sqlite:///FILE or postgresql://HOST/NAME."
        )
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.query or parts.fragment:
        # Dropped, they would make it another file than the one that was meant.
        raise UsageError(
            f"'{url}' has a ? or # that is not part of a file's name. Write %3F or %23, or a plain path."
        )
    if parts.netloc or not path or path == "/" or path == ":memory:":
        raise UsageError(
            f"'{url}' names no file. Write a path, sqlite:///absolute/path.db or sqlite:relative/path.db."
        )
    return _nameable(path)


def _nameable(path: str) -> Path:
    if "\0" in path:
        raise StorageUnavailable(repr(path), "has a null character in its name", "Name another file.")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise StorageUnavailable(path, "lies in nobody's home", "Write the whole path.") from None
