"""`placet mcp`: add MCP servers, look at what they offer, and say which of their tools may be used.

Keep true:
1. Nothing of a server can be called before a person has switched it on, tool by tool or all at once.
2. What cannot be reached is not stored, and neither is a secret.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import click

from placet.cli.inputs import Span, json_option
from placet.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from placet.tools.mcp.server import McpServer, Offer, StoredTool

T = TypeVar("T")
_name = click.argument("name")
_MOST_LISTED = 20


@click.group(
    short_help="Add MCP servers and say which of their tools may be used.", invoke_without_command=True
)
@click.pass_context
def mcp(context: click.Context) -> None:
    """Tools of MCP servers. A tool is off until you switch it on; then plans call it as SERVER.TOOL."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@mcp.command(short_help="Connect to a server, list its tools, and remember it.")
@_name
@click.argument("target", nargs=-1, required=True, metavar="URL | -- COMMAND...", type=click.UNPROCESSED)
@click.option("--env", "variables", multiple=True, metavar="VAR", help="Hand this variable to the command.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VAR",
    help="Send a header whose whole value is in the environment variable VAR, such as 'Bearer ...'.",
)
@click.option("--timeout", type=Span(), metavar="DURATION", help="For one call. Default: 60s.")
@click.option("--enable", metavar="all|TOOL,TOOL", help="Switch on these tools right away.")
@click.option("--read-only", metavar="TOOL,TOOL", help="Of these, tools that you know to change nothing.")
@json_option
@click.pass_obj
def add(
    output: Output,
    name: str,
    target: tuple[str, ...],
    variables: tuple[str, ...],
    headers: tuple[str, ...],
    timeout: float | None,
    enable: str | None,
    read_only: str | None,
    as_json: bool,
) -> int:
    """Connect to the server at URL, or to the one that COMMAND starts, list its tools, and remember it.

    Its tools are off until you switch them on: look at what they say first. A command is always started in
    the folder you are in now, without your environment but for the variables you name. Tokens are never
    stored, only the names of the variables that hold them.

    Exit codes: 0 added, 2 bad input, or it cannot be reached; then nothing is stored.
    """
    output.claim()
    from msgspec.structs import replace

    from placet.app.mcp_servers import changing, load_servers, look
    from placet.errors import InputError
    from placet.tools.mcp.server import names_of

    _check_name(name)
    server = _server(target, variables, headers, timeout)
    _refuse_secrets(output, server)
    _hide_secrets(output, server)
    taken = InputError(
        f"There is an MCP server '{name}' already. Take it away with `placet mcp remove {name}`."
    )
    if name in load_servers(os.environ):
        raise taken
    with output.waiting(f"connecting to the MCP server '{name}'"):
        offers = look(name, server, os.environ)
    chosen = _chosen(name, offers, _split(enable), _split(read_only))
    with changing(os.environ) as servers:
        if name in servers:
            raise taken
        servers[name] = server = replace(server, tools=chosen, offered=names_of(offers))
    if as_json:
        output.show_json(_shown(output, name, server, offers), is_declaration=True)
        return 0
    _show(output, server, offers)
    off = sum(1 for offer in offers if not offer.problem) - len(chosen)
    hint = f" Switch on what you want with `placet mcp enable {name} TOOL...`." if off else ""
    output.talk(f"Added '{name}'. {len(chosen)} on, {len(offers) - len(chosen)} off.{hint}")
    return 0


@mcp.command("list", short_help="The servers that were added.")
@json_option
@click.pass_obj
def list_(output: Output, as_json: bool) -> int:
    """List the servers that were added, and which of their tools are on. No server is started.

    Exit codes: 0 listed, 2 bad input.
    """
    from placet.app.mcp_servers import load_servers

    found = [_stored(output, name, server) for name, server in load_servers(os.environ).items()]
    if as_json:
        output.show_json({"servers": found}, is_declaration=True)
    elif found:
        from placet.render.mcp import server_lines

        output.show(*server_lines(found))
    else:
        output.talk("No MCP server was added. Add one with `placet mcp add NAME -- COMMAND...`.")
    return 0


@mcp.command(short_help="What a server offers now, and what is on.")
@_name
@json_option
@click.pass_obj
def show(output: Output, name: str, as_json: bool) -> int:
    """Connect to the server NAME and list its tools: whether each is on, and whether it is still what you
    switched on.

    Exit codes: 0 shown, 2 bad input, or it cannot be reached.
    """
    output.claim()
    from placet.app.mcp_servers import look

    server = _known(name)
    _hide_secrets(output, server)
    with output.waiting(f"connecting to the MCP server '{name}'"):
        offers = look(name, server, os.environ)
    if as_json:
        output.show_json(_shown(output, name, server, offers), is_declaration=True)
    else:
        _show(output, server, offers)
    return 0


@mcp.command(short_help="Let tools of a server be used.")
@_name
@click.argument("tools", nargs=-1, metavar="TOOL...")
@click.option("--all", "is_all", is_flag=True, help="Every tool that it offers now.")
@click.option("--read-only", is_flag=True, help="You know that these change nothing.")
@click.option("--as-claimed", is_flag=True, help="Read-only where the server claims it, else destructive.")
@json_option
@click.pass_obj
def enable(
    output: Output,
    name: str,
    tools: tuple[str, ...],
    is_all: bool,
    read_only: bool,
    as_claimed: bool,
    as_json: bool,
) -> int:
    """Switch on tools of the server NAME, as they are now. When the server changes what one says or takes, it
    is refused until you switch it on again.

    A tool counts as destructive unless you declare it read-only, whatever the server claims. With --all,
    --read-only is refused if the server itself says that one of its tools writes: name such a tool instead.
    With --as-claimed the server's annotations count: read-only where it claims that, else destructive.

    Exit codes: 0 done, 2 bad input, or the server cannot be reached; then nothing is changed.
    """
    output.claim()
    from msgspec.structs import replace

    from placet.app.mcp_servers import changing, look
    from placet.errors import InputError
    from placet.tools.mcp.server import names_of

    if bool(tools) == is_all:
        raise click.UsageError("Name the tools, or give --all.")
    if read_only and as_claimed:
        raise click.UsageError("--read-only and --as-claimed both say what the tools are. Give one of them.")
    seen = _known(name)
    _hide_secrets(output, seen)
    with output.waiting(f"connecting to the MCP server '{name}'"):
        offers = look(name, seen, os.environ)
    names = ["all"] if is_all else list(tools)
    if is_all and read_only:
        _refuse_writing(name, offers)
    chosen = _chosen(name, offers, names, [], read_only=read_only, as_claimed=as_claimed)
    with changing(os.environ) as servers:
        server = servers.get(name)
        if server is None or replace(server, tools={}, offered=()) != replace(seen, tools={}, offered=()):
            raise InputError(f"MCP server '{name}' was changed meanwhile. Look at it again, then try again.")
        servers[name] = server = replace(server, tools={**server.tools, **chosen}, offered=names_of(offers))
    if as_json:
        output.show_json(_shown(output, name, server, offers), is_declaration=True)
    else:
        lines = [
            f"{name}.{tool}: on, {'read-only' if stored.read_only else 'destructive'}"
            f"{', as the server claims' if stored.read_only and as_claimed else ''}."
            for tool, stored in chosen.items()
        ]
        output.talk("\n".join(lines) or "It offers no tool.")
    return 0


@mcp.command(short_help="Let tools of a server be used no longer.")
@_name
@click.argument("tools", nargs=-1, metavar="TOOL...")
@click.option("--all", "is_all", is_flag=True, help="Every tool that is on.")
@json_option
@click.pass_obj
def disable(output: Output, name: str, tools: tuple[str, ...], is_all: bool, as_json: bool) -> int:
    """Switch off tools of the server NAME. The server is not started.

    Exit codes: 0 done, 2 bad input.
    """
    import msgspec

    from placet.app.mcp_servers import mending
    from placet.errors import InputError
    from placet.safe_text import clean
    from placet.tools.mcp.server import McpServer

    if bool(tools) == is_all:
        raise click.UsageError("Name the tools, or give --all.")
    with mending(os.environ) as servers:
        held = _named(name, servers)
        on = held.get("tools", {}) if isinstance(held, dict) else {}
        off = list(on) if is_all else list(tools)
        for tool in off:
            if tool not in on:
                raise InputError(
                    f"'{clean(tool, 80)}' of MCP server '{name}' is not on. Nothing was changed."
                )
        try:
            kept = {tool: stored for tool, stored in on.items() if tool not in off}
            servers[name] = {**held, "tools": kept}
            server = msgspec.convert(servers[name], McpServer)
        except (AttributeError, TypeError, msgspec.ValidationError):
            raise InputError(
                f"What is stored of MCP server '{name}' cannot be used. Take it away with "
                f"`placet mcp remove {name}`, and add it again. Nothing was changed."
            ) from None
    if as_json:
        output.show_json(_stored(output, name, server), is_declaration=True)
    else:
        output.talk("\n".join(f"{name}.{tool}: off." for tool in off) or "No tool was on.")
    return 0


@mcp.command(short_help="Forget a server.")
@_name
@json_option
@click.pass_obj
def remove(output: Output, name: str, as_json: bool) -> int:
    """Forget the server NAME, and which of its tools were on.

    Exit codes: 0 done, 2 there is no such server.
    """
    from placet.app.mcp_servers import mending

    with mending(os.environ) as servers:
        _named(name, servers)
        del servers[name]
    if as_json:
        output.show_json({"name": name, "removed": True})
    else:
        output.talk(f"Removed '{name}'.")
    return 0


def _check_name(name: str) -> None:
    from placet.tools.mcp.server import NAME

    if not NAME.fullmatch(name):
        raise click.BadParameter("it has letters, digits, - and _ only, 64 at most.", param_hint="NAME")


def _known(name: str) -> McpServer:
    from placet.app.mcp_servers import load_servers

    return _named(name, load_servers(os.environ))


def _named(name: str, servers: Mapping[str, T]) -> T:
    from difflib import get_close_matches

    from placet.errors import InputError
    from placet.safe_text import clean

    if name in servers:
        return servers[name]
    near = get_close_matches(name, list(servers), n=1)
    hint = f"Did you mean '{near[0]}'?" if near else "See `placet mcp list`."
    raise InputError(f"There is no MCP server '{clean(name, 80)}'. {hint}")


def _refuse_secrets(output: Output, server: McpServer) -> None:
    """Refuse an address in which something looks like a secret: it would be stored as it is."""
    given = list(server.command)
    if server.url and output.redactor.text(server.url) != server.url:
        raise click.UsageError(
            "The URL holds what looks like a secret, which would be stored as it is. Put it into an "
            "environment variable, and name that with --header NAME=VAR."
        )
    if output.redactor.value(given) != given or output.redactor.text(server.address) != server.address:
        raise click.UsageError(
            "The command holds what looks like a secret, which would be stored as it is. Put it into an "
            "environment variable, name that with --env VAR, and let the server read it there."
        )


def _hide_secrets(output: Output, server: McpServer) -> None:
    """Keep what a server is given out of everything that is shown: it may repeat it."""
    from placet.tools.mcp.server import secrets_of_server

    for secret in secrets_of_server(server, os.environ):
        output.redactor.add_secret(secret)


def _server(
    target: tuple[str, ...], variables: tuple[str, ...], headers: tuple[str, ...], timeout: float | None
) -> McpServer:
    """What the command line tells of a server."""
    from placet.tools.mcp.server import CALL_S, HEADER, VARIABLE, McpServer, url_problem

    for variable in variables:
        if not VARIABLE.fullmatch(variable):
            raise click.UsageError("--env takes the name of a variable, never what it holds.")
    named: dict[str, str] = {}
    for header in headers:
        key, equals, variable = header.partition("=")
        if not equals or not HEADER.fullmatch(key) or not VARIABLE.fullmatch(variable):
            # Not repeated: it may be the token that somebody has written here.
            raise click.UsageError(
                "--header takes NAME=VAR: the header, and the name of the variable that holds its value."
            )
        named[key] = variable
    limit = timeout or CALL_S
    if len(target) == 1 and "://" in target[0]:
        if problem := url_problem(target[0]):
            raise click.UsageError(f"The URL cannot be used: {problem}.")
        if variables:
            raise click.UsageError("--env is for a server that is a command.")
        return McpServer(url=target[0], headers=named, timeout_s=limit)
    if named:
        raise click.UsageError("--header is for a server that has a URL.")
    if not target[0].strip():
        raise click.UsageError("The command is empty.")
    return McpServer(command=target, folder=os.getcwd(), environment=variables, timeout_s=limit)


def _split(names: str | None) -> list[str]:
    return [name.strip() for name in (names or "").split(",") if name.strip()]


def _refuse_writing(server: str, offers: Sequence[Offer]) -> None:
    """Refuse to declare all tools read-only where the server itself says that some of them write.

    Raises:
        InputError: there are some; names them.
    """
    from placet.errors import InputError
    from placet.safe_text import clean

    writing = [offer for offer in offers if offer.says_writing and not offer.problem]
    if not writing:
        return
    listed = ", ".join(
        f"'{clean(offer.name, 80)}' ({', '.join(offer.claims)})" for offer in writing[:_MOST_LISTED]
    )
    more = f" and {len(writing) - _MOST_LISTED:,} more" if len(writing) > _MOST_LISTED else ""
    named = " ".join(clean(offer.name) for offer in writing[:_MOST_LISTED])
    raise InputError(
        f"MCP server '{server}' says itself that these tools are not read-only: {listed}{more}. Nothing was "
        f"changed. To follow the server, type: placet mcp enable {server} --all --as-claimed. If you know "
        f"better, name them: placet mcp enable {server} {named} --read-only"
    )


def _chosen(
    server: str,
    offers: Sequence[Offer],
    names: list[str],
    harmless: list[str],
    *,
    read_only: bool = False,
    as_claimed: bool = False,
) -> Mapping[str, StoredTool]:
    """The tools to be switched on; `all` are those that can be.

    Raises:
        InputError: one is not offered, or cannot be switched on.
    """
    from placet.errors import InputError
    from placet.safe_text import clean
    from placet.tools.mcp.server import switch_on

    by_name = {offer.name: offer for offer in offers}
    on = [offer.name for offer in offers if not offer.problem] if names == ["all"] else names
    for name in [*on, *harmless]:
        offer = by_name.get(name)
        if offer is None:
            known = ", ".join(clean(known, 60) for known in list(by_name)[:20]) or "none"
            raise InputError(
                f"MCP server '{server}' has no tool '{clean(name, 80)}'. It offers: {known}. "
                "Nothing was changed."
            )
        if offer.problem:
            raise InputError(
                f"'{clean(name, 80)}' of MCP server '{server}' cannot be switched on: {offer.problem}. "
                "Nothing was changed."
            )
        if name not in on:
            raise InputError(
                f"'{clean(name, 80)}' is declared read-only, and not switched on. Name it in --enable."
            )
    return {
        name: switch_on(by_name[name], read_only=read_only or name in harmless, as_claimed=as_claimed)
        for name in on
    }


def _stored(output: Output, name: str, server: McpServer) -> dict[str, Any]:
    # A declaration is shown as it is: what could hold a secret is looked through one by one.
    plain = output.redactor.text
    command = [plain(part) for part in server.command]
    return {
        "name": name,
        "address": plain(server.address),
        **({"url": plain(server.url)} if server.url else {"command": command, "folder": server.folder}),
        "environment": list(server.environment),
        "headers": dict(server.headers),
        "timeout_s": server.timeout_s,
        "tools": [{"name": tool, "read_only": stored.read_only} for tool, stored in server.tools.items()],
    }


def _shown(output: Output, name: str, server: McpServer, offers: Sequence[Offer]) -> dict[str, Any]:
    return {**_stored(output, name, server), "tools": _states(output, server, offers)}


def _states(output: Output, server: McpServer, offers: Sequence[Offer]) -> list[dict[str, Any]]:
    """Every tool that is offered or on, and how the two compare."""
    from placet.tools.mcp.server import Offer

    listed = {offer.name for offer in offers}
    gone = [
        Offer(name=tool, description=stored.description, input_schema=stored.input_schema)
        for tool, stored in server.tools.items()
        if tool not in listed
    ]
    found = []
    for offer in [*offers, *gone]:
        stored = server.tools.get(offer.name)
        state = "unusable" if offer.problem else "off"
        if stored is not None:
            state = "on" if stored.is_still(offer) else "changed"
        if offer.name not in listed:
            state = "gone"
        found.append(
            {
                "name": offer.name,
                "state": state,
                "read_only": stored is not None and stored.read_only,
                "as_claimed": stored is not None and stored.as_claimed,
                "description": output.redactor.text(offer.description),
                "claims": list(offer.claims),
                "problem": output.redactor.text(offer.problem),
                "input_schema": _without_secrets(output, offer.input_schema),
            }
        )
    return found


def _without_secrets(output: Output, schema: Any) -> Any:
    """A schema with its texts looked through. Not its keys: a parameter may well be called `password`."""
    match schema:
        case str():
            return output.redactor.text(schema)
        case list():
            return [_without_secrets(output, item) for item in schema]
        case dict():
            return {key: _without_secrets(output, item) for key, item in schema.items()}
    return schema


def _show(output: Output, server: McpServer, offers: Sequence[Offer]) -> None:
    from placet.render.mcp import tool_lines

    if states := _states(output, server, offers):
        output.show(*tool_lines(states))
    else:
        output.talk("It offers no tools.")
