"""A real git repository, a runtime with everything kept in SQLite, and a coder with a scripted model."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from placet import EventLog, Runtime, SqlApprovals, SqlEvents, SqlJournal, open_database
from placet.coder.coder import Coder
from placet.coder.events import Event
from placet.coder.repairs import Repairs
from placet.coder.store_sql import SqlSessions
from placet.inference import Scripted
from placet.inference.messages import ToolCall
from placet.inference.model import Model, Request, Result
from placet.loops.sql import SqlRounds
from placet.sandbox.confinement import Isolation

_IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "1",  # No housekeeping after a commit: it takes longer than the commit.
    "GIT_CONFIG_KEY_0": "maintenance.auto",
    "GIT_CONFIG_VALUE_0": "false",
}


def call(name: str, /, **arguments: Any) -> ToolCall:
    """A call as a model writes it."""
    return ToolCall(id="", name=name, arguments=arguments)


def write(path: str, text: str) -> ToolCall:
    """A call that writes a file."""
    return call("write_file", path=path, text=text)


def shell(command: str) -> ToolCall:
    """A call that runs a command line."""
    return call("shell", command=command)


def git(folder: Path, *argv: str) -> str:
    """What git says, as the person runs it."""
    done = subprocess.run(
        ["git", *argv],
        cwd=folder,
        env={**os.environ, **_IDENTITY},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def make_repository(folder: Path, files: Mapping[str, str]) -> Path:
    """A repository with one commit of these files."""
    shutil.copytree(_pattern(tuple(files.items())), folder, symlinks=True, dirs_exist_ok=True)
    # The index remembers other files, though with the same contents.
    git(folder, "update-index", "-q", "--refresh")
    return folder


@cache
def _pattern(files: tuple[tuple[str, str], ...]) -> Path:
    """What repositories with these files are copied from: made once, for git takes longer."""
    folder = Path(_own_folder(), "repository")
    folder.mkdir()
    git(folder, "init", "-q", "--template=", "-b", "main")
    for place in ("hooks", "info"):
        (folder / ".git" / place).mkdir()
    for name, text in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


@cache
def _known() -> str:
    """Where the self-test of the sandbox writes down what it found: trying once is enough for all tests."""
    return _own_folder()


def make_database(path: Path) -> None:
    """A database with the tables of coders and loops: making them takes longer than copying them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_empty(), path)


@cache
def _empty() -> Path:
    path = Path(_own_folder(), "placet.db")
    with open_database(str(path)) as database:
        for make in (SqlEvents, SqlApprovals, SqlSessions, Repairs, SqlRounds):
            make(database)
        SqlJournal(database).close()
    return path


def _own_folder() -> str:
    folder = tempfile.mkdtemp(prefix="placet-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class Workbench:
    """A repository of a person, and a coder at work on it."""

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        self.folder = folder
        self.repository = make_repository(folder / "repository", files)
        make_database(folder / "placet.db")
        self.home = folder / "home"
        self.isolation = Isolation("process", folder=_known())
        self.seen: list[Event] = []
        """What whoever watches was told."""

    @contextmanager
    def coder(
        self, turns: Sequence[Any] | Callable[[Request], Any] | Model, **options: Any
    ) -> Iterator[Coder]:
        """A coder with this script, or this model, whose records are those of all coders here."""
        model = turns if hasattr(turns, "generate") else Scripted(turns)  # type: ignore[arg-type]
        with open_database(str(self.folder / "placet.db")) as database:
            journal = SqlJournal(database)
            try:
                runtime = Runtime(
                    journal=journal,
                    events=EventLog(sinks=[SqlEvents(database)]),
                    approvals=SqlApprovals(database),
                    patience_s=0,
                )
                made = {
                    "home": self.home,
                    "sessions": SqlSessions(database),
                    "repairs": Repairs(database),
                    "isolation": self.isolation,
                    **options,
                }
                yield Coder(runtime, model, self.repository, **made)
                runtime.events.flush()
            finally:
                journal.close()

    def watch(self, event: Event) -> None:
        """Keep what is told."""
        self.seen.append(event)

    def told(self) -> list[str]:
        """The kinds of what was told, in order."""
        return [type(event).__struct_config__.tag for event in self.seen]  # type: ignore[misc]


def user_text(request: Request) -> str:
    """What the person's side says first in a request."""
    from placet.inference.messages import User

    first = next(message for message in request.messages if isinstance(message, User))
    return "".join(getattr(part, "text", "") for part in first.parts)


def done(text: str = "done") -> Result:
    """An answer that asks for no tool."""
    return Result(text=text)
