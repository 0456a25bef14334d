"""Other processes for the tests of storage: real ones, as what they do to each other is under test."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placet.storage.database import Database
from placet.storage.transaction import Rows, Transaction, Value

if TYPE_CHECKING:
    from tests.warm import WarmProcess

PATIENCE_S = 60


def command(code: str, *arguments: object) -> list[str]:
    """A Python process that runs `code`, with `arguments` in sys.argv[1:]."""
    return [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]


def run(
    code: str, *arguments: object, before: Sequence[str] = (), **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run `code` to its end and insist that it succeeds; `before` is a command that starts the process."""
    done = subprocess.run(
        [*before, *command(code, *arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        **options,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def start(code: str, *arguments: object) -> WarmProcess[str]:
    """Start `code`, at once, and leave it to run; its stdin and stdout are pipes. Uses the fixture `warm`."""
    from tests.warm import Warm, WarmProcess

    return WarmProcess(
        [*Warm.last.python, *command(code, *arguments)[1:]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def hear(child: subprocess.Popen[str]) -> str:
    """The next line that a child says; empty when it has ended."""
    assert child.stdout is not None
    return child.stdout.readline().rstrip("\n")


def tell(child: subprocess.Popen[str], line: str) -> None:
    """Say one line to a child."""
    assert child.stdin is not None
    child.stdin.write(f"{line}\n")
    child.stdin.flush()


def in_namespace(script: str) -> list[str]:
    """A command that mounts something for one child alone: a shell `script`, then the child.

    Needs to be root, or a kernel that lets anyone have a namespace. Where neither is so the test fails: a
    skipped one would say that a full disk is dealt with when nobody has looked.
    """
    flags = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
    return ["unshare", *flags, "--", "sh", "-ec", f'{script}\nexec "$@"', "sh"]


def ask(database: Database, sql: str, values: Sequence[Value] = ()) -> Rows:
    """What a statement that only reads returns."""
    return database.read(lambda t: t.execute(sql, values))


def say(database: Database, sql: str, values: Sequence[Value] = ()) -> Rows:
    """Do one statement, and wait until it is on disk."""
    return database.write(lambda t: t.execute(sql, values)).result(timeout=PATIENCE_S)


def numbers(database: Database) -> list[int]:
    """What the table of the tests holds, in the order of arrival."""
    return [row[0] for row in ask(database, "SELECT n FROM numbers ORDER BY place")]


def make_numbers(database: Database) -> None:
    """The table of the tests: numbers, and the place at which each arrived."""
    key = "SERIAL PRIMARY KEY" if "postgres" in database.name else "INTEGER PRIMARY KEY AUTOINCREMENT"
    say(database, f"CREATE TABLE numbers (place {key}, n BIGINT NOT NULL)")


def add(n: int) -> Callable[[Transaction], int]:
    """Work that adds a number to that table."""

    def work(t: Transaction) -> int:
        t.execute("INSERT INTO numbers (n) VALUES (?)", (n,))
        return n

    return work


def integrity(path: Path) -> str:
    """What SQLite itself says of a file."""
    import sqlite3

    connection = sqlite3.connect(path)
    try:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])
    finally:
        connection.close()
