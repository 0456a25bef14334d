"""The commands of `placet agent` that look at agents and change their files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from placet.cli.inputs import db_option, json_option, single, user_option
from placet.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from placet.agents.registry import AgentEntry, Where
    from placet.agents.versions import SuccessRecord, Version

_IDENTITY = "You are {name}. Say here who the agent is and how it answers: short, and in plain words."
"""Characters of a digest that are shown."""


@click.command("list", short_help="List agents.")
@click.option("--all", "is_all", is_flag=True, help="Also yours that a project's agent hides.")
@db_option
@json_option
@click.pass_obj
def list_agents(output: Output, is_all: bool, db: str | None, as_json: bool) -> int:
    """List the agents of the project and your own.

    Exit codes: 0 listed, 2 bad input, or the file of one of them cannot be used; the others are listed.
    """
    from placet.app.agents import open_agents
    from placet.render.agents import agent_lines

    with open_agents(db, writes=False) as agents:
        entries = agents.entries(with_hidden=is_all)
        records = {place.key: agents.store.records(place.key) for place in agents.places}
        rows = [_row(each, records[each.place.key].get(each.id)) for each in entries]
    broken = [each for each in entries if each.error is not None]
    if as_json:
        output.show_json({"agents": rows})
    else:
        for line in agent_lines(rows):
            output.write(f"{line}\n")
        if not rows:
            output.talk("There are no agents. Make one: placet agent new ID")
    for each in broken:
        output.talk(f"Error: {each.error}")
    return 2 if broken else 0


@click.command(short_help="Show an agent, with its versions.")
@click.argument("name", metavar="AGENT")
@click.option(
    "--version", "number", type=click.IntRange(min=1), metavar="N", help="Show the file as it was then."
)
@db_option
@json_option
@click.pass_obj
def show(output: Output, name: str, number: int | None, db: str | None, as_json: bool) -> int:
    """Show the file of the agent AGENT, where it is, its versions and how its runs went.

    Exit codes: 0 shown, 2 there is no such agent, or its file cannot be used.
    """
    import msgspec

    from placet.app.agents import open_agents
    from placet.errors import UsageError
    from placet.render.agents import version_lines
    from placet.safe_text import clean

    with open_agents(db, writes=False) as agents:
        versions = agents.versions(name)
        if number is not None:
            found = next((each for each in versions if each.number == number), None)
            if found is None:
                raise UsageError(f"No version {number} of agent '{clean(name, 80)}' is kept.")
            if as_json:
                output.show_json({**_version(found), "text": found.text})
            else:
                output.write(clean(found.text, lines=True, tabs=True))
            return 0
        entry = agents.find(name)
        record = agents.record(name)
    assert entry.spec is not None
    if as_json:
        data = _row(entry, record)
        data["spec"] = msgspec.to_builtins(entry.spec)
        data["versions"] = [_version(each) for each in versions]
        output.show_json(data)
        return 0
    output.write(clean(entry.text, lines=True, tabs=True).rstrip("\n") + "\n")
    output.talk(f"  file: {clean(str(entry.path))} ({entry.place.where})")
    if record.runs:
        output.talk(f"  runs: {record.runs:,}, {record.succeeded:,} of them succeeded")
    for line in version_lines([_version(each) for each in versions]):
        output.talk(f"  {line}")
    return 0


@click.command(short_help="Make an agent.")
@click.argument("name", metavar="ID")
@single("--identity", metavar="TEXT", help="Who it is, and how it answers.")
@single("--description", metavar="TEXT", help="What it is for, in a sentence.")
@click.option(
    "--tool",
    "tools",
    multiple=True,
    metavar="NAME",
    help="A tool that it may use. May be given several times.",
)
@single("--goal", metavar="CMD", help="A command that says whether its goal is met.")
@single("--model", metavar="MODEL", help="The model that it runs with.")
@click.option("--user", "is_user", is_flag=True, help="Among your own, also inside of a project.")
@single("--format", "suffix", type=click.Choice(["toml", "md"]), help="Of the file. Default: toml.")
@db_option
@json_option
@click.pass_obj
def new(
    output: Output,
    name: str,
    identity: str | None,
    description: str | None,
    tools: Sequence[str],
    goal: str | None,
    model: str | None,
    is_user: bool,
    suffix: str | None,
    db: str | None,
    as_json: bool,
) -> int:
    """Make the file of an agent called ID: 1 to 64 of a-z, 0-9, - and _.

    It goes into .placet/agents of the project; outside of one, into your own settings folder. A git
    repository counts as a project.

    Exit codes: 0 made, 2 bad input, or there is one of this id.
    """
    from pathlib import Path

    from placet.agents.spec import AgentSpec, Goal, check_spec
    from placet.app.agents import missing_tools, open_agents
    from placet.cli.other_databases import hidden_by_new, project_file

    spec = AgentSpec(
        id=name,
        description=description or "",
        identity=identity or _IDENTITY.format(name=name),
        tools=tuple(tools),
        goal=Goal(check=goal) if goal is not None else None,
        model=model,
    )
    # Before a database is opened for it, which may be that of a new project.
    check_spec(spec)
    before = project_file(Path.cwd())
    with open_agents(db, writes=True, is_new=not is_user) as agents, agents.changing(os.environ):
        entry = agents.save(spec, _where(is_user), suffix=f".{suffix or 'toml'}")
        version = agents.note(entry)
    for why in missing_tools(tools):
        output.talk(f"Note: {why}. The agent goes without it.")
    if not as_json:
        hidden_by_new(Path.cwd(), before).talk(output)
    return _tell(output, entry, version, f"made {entry.path}", as_json)


@click.command(short_help="Switch an agent on.")
@click.argument("name", metavar="AGENT")
@user_option
@db_option
@json_option
@click.pass_obj
def enable(output: Output, name: str, is_user: bool, db: str | None, as_json: bool) -> int:
    """Switch the agent AGENT on.

    Exit codes: 0 it is on, 2 there is no such agent, or its file cannot be used.
    """
    return _switch(output, name, True, is_user, db, as_json)


@click.command(short_help="Switch an agent off.")
@click.argument("name", metavar="AGENT")
@user_option
@db_option
@json_option
@click.pass_obj
def disable(output: Output, name: str, is_user: bool, db: str | None, as_json: bool) -> int:
    """Switch the agent AGENT off: it is not run, and not found by `placet ask`.

    Exit codes: 0 it is off, 2 there is no such agent, or its file cannot be used.
    """
    return _switch(output, name, False, is_user, db, as_json)


@click.command(short_help="Take an agent's file away.")
@click.argument("name", metavar="AGENT")
@user_option
@db_option
@json_option
@click.pass_obj
def remove(output: Output, name: str, is_user: bool, db: str | None, as_json: bool) -> int:
    """Take the file of the agent AGENT away. Its versions stay: `placet agent revert` brings it back.

    Exit codes: 0 removed, 2 there is no such agent.
    """
    from placet.app.agents import open_agents

    with open_agents(db, writes=True) as agents, agents.changing(os.environ):
        entry = agents.remove(name, _where(is_user))
        kept = agents.versions(name, entry.place.where)
    return _tell(output, entry, kept[0] if kept else None, f"removed {entry.path}", as_json)


@click.command(short_help="Go back to an earlier version of an agent.")
@click.argument("name", metavar="AGENT")
@click.argument("number", metavar="[VERSION]", type=click.IntRange(min=1), required=False)
@user_option
@db_option
@json_option
@click.pass_obj
def revert(
    output: Output, name: str, number: int | None, is_user: bool, db: str | None, as_json: bool
) -> int:
    """Write an earlier version of the agent AGENT back: VERSION, or the one before the present.

    What the file holds now is kept before, so that this can be reverted too. In a project you are asked
    afterwards whether you trust it as it is then: nobody knows what a version was when it was kept.

    Exit codes: 0 reverted, 2 there is no such agent or version.
    """
    from placet.app.agents import find_agents, open_agents

    with open_agents(db, writes=True) as agents:
        entry, chosen = agents.revert(name, number, _where(is_user))
        version = agents.note(entry)
    code = _tell(output, entry, version, f"{entry.path} is as in version {chosen.number}", as_json)
    if entry.place.where == "project" and not find_agents(os.environ).is_trusted(os.environ):
        output.talk("Note: what this folder brings is not trusted as it is now. Look at it: placet trust")
    return code


@click.command(short_help="Print the JSON Schema of agent files.")
@click.pass_obj
def schema(output: Output) -> int:
    """Print the JSON Schema of agent files, with which editors complete and check them."""
    from placet.agents.files import agent_schema

    output.show_json(agent_schema(), is_declaration=True)
    return 0


COMMANDS = (list_agents, show, new, enable, disable, remove, revert, schema)


def _where(is_user: bool) -> Where | None:
    return "user" if is_user else None


def _switch(output: Output, name: str, enabled: bool, is_user: bool, db: str | None, as_json: bool) -> int:
    from placet.app.agents import open_agents

    with open_agents(db, writes=True) as agents, agents.changing(os.environ):
        entry = agents.set_enabled(name, enabled, _where(is_user))
        version = agents.note(entry)
    return _tell(output, entry, version, f"'{name}' is {'enabled' if enabled else 'disabled'}", as_json)


def _tell(output: Output, entry: AgentEntry, version: Version | None, words: str, as_json: bool) -> int:
    from placet.safe_text import clean

    if as_json:
        output.show_json({**_row(entry, None), "version": _version(version) if version is not None else None})
        return 0
    number = f" (version {version.number})" if version is not None else ""
    output.talk(f"✓ {clean(words)}{number}")
    return 0


def _row(entry: AgentEntry, record: SuccessRecord | None) -> dict[str, Any]:
    spec = entry.spec
    return {
        "id": entry.id,
        "where": entry.place.where,
        "path": str(entry.path),
        "hidden": entry.is_hidden,
        "name": spec.title if spec is not None else entry.id,
        "description": spec.description if spec is not None else "",
        "enabled": spec.enabled if spec is not None else False,
        "tools": list(spec.allowed) if spec is not None else [],
        "scenarios": len(spec.scenarios) if spec is not None else 0,
        "model": spec.model if spec is not None else None,
        "runs": record.runs if record is not None else 0,
        "succeeded": record.succeeded if record is not None else 0,
        "error": str(entry.error) if entry.error is not None else None,
    }


def _version(version: Version) -> dict[str, Any]:
    return {
        "number": version.number,
        "at": version.at,
        "digest": version.digest,
        "suffix": version.suffix,
    }
