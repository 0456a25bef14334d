"""`placet init`: create the `.placet` folder of a project."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from placet.cli.inputs import folder_names, json_option, not_empty
from placet.cli.output import Output

if TYPE_CHECKING:
    from pathlib import Path

    from placet.app.start_project import StartedProject


@click.command(short_help="Create the .placet folder of a project.")
@click.argument("path", required=False, callback=not_empty, shell_complete=folder_names)
@json_option
@click.pass_obj
def init(output: Output, path: str | None, as_json: bool) -> int:
    """Create .placet with settings, a policy file and an agent, each with comments that say what comes next.

    PATH is the folder of the project. Without it: the nearest folder that has a .placet or is the top of a
    git repository, else the current folder. Nothing that exists is changed, and the files loosen nothing.

    Exit codes: 0 done, also if everything existed, 2 bad input, or a file that exists cannot be used.
    """
    output.claim()
    from pathlib import Path

    from placet.app.start_project import start_project
    from placet.cli.other_databases import hidden_by_new

    done = start_project(_folder(path), os.environ)
    following = _next(done)
    hidden = hidden_by_new(Path(done.folder))
    if as_json:
        import msgspec

        output.show_json({**msgspec.to_builtins(done), "next": following, **hidden.data()})
        return 0
    from rich.text import Text

    from placet.safe_text import clean

    output.talk(f"Project: {clean(done.folder)}")
    output.show(
        *(Text(f"created  {name}") for name in done.created),
        *(Text(f"existed  {clean(name)} (unchanged)") for name in done.existing),
    )
    output.talk("Runs in this project are recorded in .placet/data.")
    hidden.talk(output)
    output.talk("\n".join(["Next:", *(f"  {command}" for command in following)]))
    return 0


def _folder(path: str | None) -> Path:
    """The folder that is to be a project.

    Raises:
        InputError: there is no such folder.
    """
    from pathlib import Path

    from placet.app.project import project_root
    from placet.errors import InputError
    from placet.storage.location import PROJECT_FOLDER

    if path is None:
        here = Path.cwd()
        return project_root(here) or here
    named = Path(path)
    if named.name == PROJECT_FOLDER:
        named = named.parent
    if not named.is_dir():
        raise InputError(f"There is no folder {path}. Create it, or name another one.")
    if (named / PROJECT_FOLDER).exists() and not (named / PROJECT_FOLDER).is_dir():
        raise InputError(f"{named / PROJECT_FOLDER} is no folder. Move it away, or name another folder.")
    return named


def _next(done: StartedProject) -> list[str]:
    """The commands to go on with."""
    import shlex
    from pathlib import Path

    from placet.app.start_project import AGENT
    from placet.storage.location import project_folder

    commands = []
    nearest = project_folder(Path.cwd())
    if nearest is None or nearest.parent.resolve() != Path(done.folder):
        commands.append(f"cd {shlex.quote(os.path.relpath(done.folder))}")
    if not done.trusted:
        commands.append("placet trust")
    if done.has_starter_agent:
        commands += [f"placet agent test {AGENT}", f'placet agent run {AGENT} "What does this project do?"']
    else:
        commands.append("placet agent list")
    return [*commands, "placet policy test"]
