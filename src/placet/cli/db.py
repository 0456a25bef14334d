"""`placet db`: bring the tables of a database up to date, and check it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from placet.cli.inputs import Subject, db_option, json_option
from placet.cli.output import Output

if TYPE_CHECKING:
    from placet.storage.migrate import Migrations


@click.group(cls=Subject, short_help="Bring the database up to date, and check it.")
def db() -> None:
    """The database that holds runs, events and everything else. Without a command: check it."""


@db.command("check", short_help="Check that it can be used.")
@db_option
@json_option
@click.pass_obj
def check(output: Output, db: str | None, as_json: bool) -> int:
    """Check the database: that it can be reached and written, its tables and indexes, its clock, and which
    runs were left by their process. Changes nothing.

    Exit codes: 0 nothing to do, 1 there are problems, 2 it cannot be reached.
    """
    output.claim()
    import msgspec

    from placet.app.app import database_url
    from placet.app.database_check import check_database
    from placet.render.advice import db_words

    found = check_database(_named(database_url(db)), _parts(), place=db_words(db))
    if as_json:
        output.show_json({"ok": found.ok, **msgspec.to_builtins(found)})
        return 0 if found.ok else 1
    output.show(f"{found.name} ({found.kind}, {found.size / 1e6:,.1f} MB)")
    for part in found.parts:
        state = "up to date" if part.found == part.known else f"this version has {part.known}"
        output.show(
            f"  {part.part}: version {part.found}, {state}" if part.found else f"  {part.part}: not used yet"
        )
    for problem in found.problems:
        output.show(f"! {problem}")
    if found.ok:
        output.show("✓ nothing to do")
    return 0 if found.ok else 1


@db.command("migrate", short_help="Bring its tables up to date.")
@db_option
@json_option
@click.pass_obj
def migrate(output: Output, db: str | None, as_json: bool) -> int:
    """Bring the tables of the database up to date, all of them, under a lock. A run does so for those that it
    needs; this is for whoever wants it done beforehand.

    Exit codes: 0 done, 2 it cannot be opened or written, or is of a newer version.
    """
    output.claim()
    from placet.app.app import database_url
    from placet.app.database_check import migrate_database

    name, parts = migrate_database(_named(database_url(db)), _parts())
    if as_json:
        output.show_json(
            {
                "name": name,
                "parts": [{"part": each.part, "from": each.found, "to": each.known} for each in parts],
            }
        )
        return 0
    output.show(name)
    for each in parts:
        step = "up to date" if each.found == each.known else f"{each.found} -> {each.known}"
        output.show(f"  {each.part}: {step}")
    return 0


def _parts() -> Sequence[Migrations]:
    from placet.app.readiness import schema_parts
    from placet.engine import sql as engine

    return (*schema_parts(), engine.MIGRATIONS)


def _named(url: str) -> str:
    if url == "none":
        raise click.UsageError("'none' keeps nothing. Name a database with --db or PLACET_DB.")
    return url
