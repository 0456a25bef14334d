"""Report what is set up for a folder: models, extras, database, project and trust.

Keep true:
1. Looking changes nothing, loads no model and connects to no other machine.
2. A part that cannot be looked at says why, and takes nothing away from the others.
3. No password and no key is part of a report.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from placet.errors import PlacetError

if TYPE_CHECKING:
    from placet.storage.migrate import Migrations

SchemaState = Literal["", "current", "older", "newer"]


class ChosenModel(msgspec.Struct, frozen=True, kw_only=True):
    """The model that answers where none is named."""

    name: str
    because: str
    problem: str
    """Why it cannot be asked; empty if nothing is known to be in the way."""


class MachineModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that runs on this machine."""

    name: str
    there: bool
    """Whether its files are here."""
    installed: bool
    """Whether its extra is installed."""


class ModelReport(msgspec.Struct, frozen=True, kw_only=True):
    """Which model would answer, as `placet model` has it."""

    chosen: ChosenModel | None = None
    advice: str = ""
    """What to do where none is chosen."""
    on_machine: tuple[MachineModel, ...] = ()
    problem: str = ""


class Extra(msgspec.Struct, frozen=True, kw_only=True):
    """An optional part of Placet."""

    name: str
    installed: bool
    install: str
    """The command that installs it; empty if it is installed."""


class DatabaseReport(msgspec.Struct, frozen=True, kw_only=True):
    """Where runs are recorded."""

    name: str = ""
    kind: Literal["", "sqlite", "postgres", "none"] = ""
    source: Literal["PLACET_DB", "project", "user"] = "user"
    """Who says so: the variable, the `.placet` folder of the project, or nobody."""
    exists: bool | None = None
    """None where that takes a connection."""
    opens: bool | None = None
    """None where it was not tried: there is none yet, or it is a server."""
    schema: dict[str, int] = {}
    """The version of the tables of each part that has recorded something."""
    schema_state: SchemaState = ""
    """Compared with what this version of Placet writes: the next run brings `older` tables up to date, and
    `newer` ones cannot be used."""
    problem: str = ""


class ProjectReport(msgspec.Struct, frozen=True, kw_only=True):
    """Which folder counts as the project, and how far it is trusted."""

    folder: str = ""
    """Empty where there is none."""
    by: Literal["", ".placet", "git"] = ""
    """Why it counts: it has a `.placet` folder, or is the top of a git repository."""
    outer: tuple[str, ...] = ()
    """Folders further out whose rules apply too."""
    trust: Literal["nothing", "trusted", "changed", "unknown"] = "nothing"
    """`nothing` in it needs trust; it is `trusted` as it is; it was, and has `changed`; or it never was."""
    wants: tuple[str, ...] = ()
    """What needs trust, each as the rest of a sentence that begins with the folder."""
    problem: str = ""


def model_report(environment: Mapping[str, str]) -> ModelReport:
    """Which model would answer, and which are on this machine."""
    from placet.app.governance import own_settings
    from placet.app.model_overview import chosen_overview
    from placet.inference.local.weights import CATALOGUE, is_installed, is_there

    machine = tuple(
        MachineModel(name=each.name, there=is_there(each, environment), installed=is_installed(each))
        for each in CATALOGUE.values()
    )
    try:
        found = chosen_overview(own_settings(environment).models, environment)
    except PlacetError as error:
        return ModelReport(on_machine=machine, problem=str(error))
    return msgspec.convert({**found, "on_machine": msgspec.to_builtins(machine)}, ModelReport)


def extra_report() -> tuple[Extra, ...]:
    """Each extra: whether it is installed, and how to install it."""
    from placet.extras import EXTRAS, install_command, is_installed

    return tuple(
        Extra(name=name, installed=True, install="")
        if is_installed(name)
        else Extra(name=name, installed=False, install=install_command(name))
        for name in EXTRAS
    )


def database_report(folder: Path, environment: Mapping[str, str]) -> DatabaseReport:
    """Where runs that are started in `folder` are recorded, and whether that can be opened."""
    from placet.app.app import NOWHERE
    from placet.app.own_database import check_own
    from placet.storage.location import default_url, is_server, project_database, sqlite_path
    from placet.storage.postgres import without_password

    found = DatabaseReport()
    try:
        url = default_url(environment, folder)
        of_project = project_database(environment, folder)
        if environment.get("PLACET_DB"):
            found = DatabaseReport(source="PLACET_DB")
        elif of_project is not None:
            found = DatabaseReport(source="project")
        if url == NOWHERE:
            return msgspec.structs.replace(found, kind="none")
        if is_server(url):
            return msgspec.structs.replace(found, name=without_password(url), kind="postgres")
        path = sqlite_path(url)
        found = msgspec.structs.replace(found, name=str(path), kind="sqlite", exists=path.exists())
        if not found.exists:
            return found
        found = msgspec.structs.replace(found, opens=False)
        if of_project is not None:
            check_own(of_project, environment, create=False)
        schema = _schema_of(url)
    except PlacetError as error:
        return msgspec.structs.replace(found, problem=str(error))
    return msgspec.structs.replace(found, opens=True, schema=schema, schema_state=_compared(schema))


def project_report(folder: Path, environment: Mapping[str, str]) -> ProjectReport:
    """Which folder is the project of `folder`, and what of it is trusted or waits for trust."""
    from placet.app.governance import examine
    from placet.app.project import project_root
    from placet.app.trust import how_trusted
    from placet.storage.location import PROJECT_FOLDER, project_folders

    found = ProjectReport()
    try:
        root = project_root(folder)
        holders = [each.parent for each in project_folders(folder)]
        outer = tuple(str(each) for each in holders if each != root)
        if root is None:
            return ProjectReport(outer=outer)
        if not (root / PROJECT_FOLDER).is_dir():
            return ProjectReport(folder=str(root), by="git", outer=outer)
        found = ProjectReport(folder=str(root), by=".placet", outer=outer)
        question = examine(root, environment)
        if not question.wants:
            return found
        degree = how_trusted(question.seen, environment)
    except PlacetError as error:
        return msgspec.structs.replace(found, problem=str(error))
    return msgspec.structs.replace(found, trust=degree, wants=question.wants)


def _schema_of(url: str) -> dict[str, int]:
    from placet.storage.location import open_database
    from placet.storage.migrate import schema_versions

    with open_database(url, create=False, read_only=True) as database:
        return schema_versions(database)


def _compared(schema: Mapping[str, int]) -> SchemaState:
    """How recorded tables compare with those of this version; those that nobody knows are not used."""
    known = {each.part: len(each.steps) for each in schema_parts()}
    ours = {part: version for part, version in schema.items() if part in known}
    if any(version > known[part] for part, version in ours.items()):
        return "newer"
    return "older" if any(version < known[part] for part, version in ours.items()) else "current"


def schema_parts() -> tuple[Migrations, ...]:
    """The tables of every package up to here; `engine` has its own."""
    from placet.agents import sql as agents
    from placet.approvals import sql as approvals
    from placet.coder import repairs, store_sql
    from placet.durable import sql as durable
    from placet.events import sql as events
    from placet.loops import sql as loops
    from placet.loops import timetable_sql
    from placet.memory import tables as memory
    from placet.memory.skills import sql as skills
    from placet.runtime import sql as runtime

    modules = (
        *(agents, approvals, repairs, store_sql, durable, loops, timetable_sql, runtime),
        *(memory, skills),
    )
    return (events.migrations(), *(module.MIGRATIONS for module in modules))
