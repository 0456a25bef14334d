"""MCP servers that a program declares, and what it takes to use their tools.

Keep true:
1. Declaring one starts nothing and reads no environment. No secret is in a declaration: only names of
   variables.
2. What a server claims about a tool counts for nothing: a tool is destructive unless the program says that it
   only reads, and its output is untrusted in any case.
3. If one server cannot be used, none is left connected.
4. Importing this module imports neither asyncio nor the SDK.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from math import isfinite
from typing import NamedTuple

import msgspec

from placet.errors import DuplicateTool, McpUnreachable, UsageError
from placet.tools.mcp.server import (
    CALL_S,
    CONNECT_S,
    HEADER,
    LISTED_TWICE,
    NAME,
    VARIABLE,
    McpServer,
    Offer,
    StoredTool,
    secrets_of_server,
    switch_on,
    url_problem,
)
from placet.tools.tool import Tool
from placet.truncation import truncate_repr


class McpTools(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of an MCP server, for `Runtime(mcp=[...])`. Creating one starts nothing.

    Give either a `command`, which is started and spoken to on its standard streams, or a `url` (streamable
    HTTP). In plans the tools are called `NAME.TOOL`. Their output is labelled untrusted, and each of them is
    destructive unless it is listed in `read_only`, whatever the server says.
    """

    name: str
    """Name of the server: letters, digits, `-` and `_`."""
    command: Sequence[str] = ()
    """The program and its arguments. No shell reads them."""
    url: str = ""
    """URL of the server."""
    tools: Sequence[str] | None = None
    """Names of the tools to use. `None`: all that it offers. The model reads the descriptions that a server
    writes, so name the tools of a server that you do not control."""
    read_only: Sequence[str] = ()
    """Names of the tools that change nothing. They run without approval and may be repeated."""
    folder: str | os.PathLike[str] = "."
    """Folder in which the command is started."""
    environment: Sequence[str] = ()
    """Names of environment variables that are passed on to the command. It gets no others, except those that
    every command needs."""
    headers: Mapping[str, str] = {}
    """Headers to send to the URL: name of the header, and name of the environment variable with its value."""
    timeout_s: float = CALL_S
    """Time limit of one call in seconds."""
    connect_timeout_s: float = CONNECT_S
    """Time limit for connecting and listing the tools, in seconds."""

    def __post_init__(self) -> None:
        """Refuse what cannot be a server.

        Raises:
            UsageError: it cannot; says what to write.
        """
        if problem := _problem(self):
            raise UsageError(f"McpTools(name={truncate_repr(self.name, 80)}): {problem}")

    def as_server(self) -> McpServer:
        """How to reach it."""
        return McpServer(
            command=tuple(self.command),
            folder=os.path.abspath(self.folder) if self.command else "",
            url=self.url,
            environment=tuple(self.environment),
            headers=dict(self.headers),
            timeout_s=self.timeout_s,
            connect_timeout_s=self.connect_timeout_s,
        )


class Connected(NamedTuple):
    """Servers that are connected."""

    tools: list[Tool]
    secrets: list[str]
    """What the servers are given, to be kept out of logs."""
    close: Callable[[], None]


def connect(declared: Iterable[McpTools], environment: Mapping[str, str]) -> Connected:
    """Connect to the servers, all at once, and make tools of what they offer. Waits until all have answered.

    Raises:
        McpUnreachable: a server cannot be started or reached; names it.
        DuplicateTool: a server lists two tools under one name.
        UsageError: two servers have one name, or a server has no such tool.
    """
    from placet.tools.mcp.connections import Connections

    given = _by_name(declared)
    servers = {name: each.as_server() for name, each in given.items()}
    secrets = [secret for server in servers.values() for secret in secrets_of_server(server, environment)]
    connections = Connections(environment, is_stored=False)
    try:
        found: list[Tool] = []
        for name, offers in connections.all_offers(servers).items():
            if not isinstance(offers, list):
                raise McpUnreachable(name, _hidden(str(offers), secrets), _hidden(offers.errors, secrets))
            chosen = msgspec.structs.replace(servers[name], tools=_chosen(given[name], offers))
            found += connections.tools(name, chosen)
    except BaseException:
        connections.close()
        raise
    return Connected(found, secrets, connections.close)


def _by_name(declared: Iterable[McpTools]) -> dict[str, McpTools]:
    found: dict[str, McpTools] = {}
    given: object = declared
    for each in given if isinstance(given, Iterable) else [given]:
        if not isinstance(each, McpTools):
            raise UsageError(
                f"Runtime(mcp=...) got {truncate_repr(each, 80)}. Give a list of servers: "
                'mcp=[McpTools(name="files", command=["..."])].'
            )
        if each.name in found:
            raise UsageError(f"Two MCP servers are named '{each.name}'. Give one of them another name.")
        found[each.name] = each
    return found


def _chosen(declared: McpTools, offers: Sequence[Offer]) -> dict[str, StoredTool]:
    usable = {offer.name: offer for offer in offers if not offer.problem}
    broken = {offer.name: offer.problem for offer in offers if offer.problem}
    wanted = list(usable) if declared.tools is None else list(dict.fromkeys(declared.tools))
    for name, problem in broken.items():
        if problem == LISTED_TWICE and (declared.tools is None or name in wanted):
            whose = f"one that MCP server '{declared.name}' lists"
            raise DuplicateTool(name, whose, "another one of it", "Name others with McpTools(tools=[...]).")
    for name in (*wanted, *declared.read_only):
        if name in broken:
            raise UsageError(f"Tool '{name}' of MCP server '{declared.name}' cannot be used: {broken[name]}.")
        if name not in usable:
            near = get_close_matches(name, list(usable), n=1)
            hint = f"Did you mean '{near[0]}'?" if near else f"It offers {', '.join(usable) or 'none'}."
            raise UsageError(f"MCP server '{declared.name}' offers no tool '{name}'. {hint}")
    if beside := [name for name in declared.read_only if name not in wanted]:
        raise UsageError(
            f"McpTools(name='{declared.name}'): '{beside[0]}' is in read_only and not in tools. Add it there."
        )
    return {name: switch_on(usable[name], read_only=name in declared.read_only) for name in wanted}


def _hidden(text: str, secrets: Iterable[str]) -> str:
    """A text of a server, which may well repeat what it was given."""
    from placet.redaction import Redactor

    return Redactor(secrets).text(text)


def _problem(given: McpTools) -> str:
    name: object = given.name
    if not isinstance(name, str) or not NAME.fullmatch(name):
        return "the name of a server has letters, digits, - and _ only."
    if bool(given.command) == bool(given.url):
        return 'give either command=["program", "argument"] or url="https://...".'
    for option in ("command", "environment", "read_only", "tools"):
        listed: object = getattr(given, option)
        if listed is not None and (
            not isinstance(listed, list | tuple) or not all(isinstance(each, str) for each in listed)
        ):
            return f"{option} is a list of texts, and got {truncate_repr(listed, 80)}."
    if given.command and (not given.command[0].strip() or any("\0" in part for part in given.command)):
        return "the command has no program."
    if given.url and (problem := url_problem(given.url).replace("--header", "headers={...}")):
        return f"the url cannot be used: {problem}."
    if given.url and given.environment:
        return "environment is for a command; a server with a url gets headers."
    if given.command and given.headers:
        return "headers are for a url; a command gets environment=[...]."
    return _problem_of_values(given)


def _problem_of_values(given: McpTools) -> str:
    for header, variable in given.headers.items():
        if not HEADER.fullmatch(header):
            return f"{truncate_repr(header, 80)} is no name of a header."
        named: object = variable
        if not isinstance(named, str) or not VARIABLE.fullmatch(named):
            # Not shown: it may be the token itself.
            return f"the header {header} needs the name of an environment variable, never the value itself."
    if not all(VARIABLE.fullmatch(name) for name in given.environment):
        return "environment lists names of variables, such as 'API_KEY', never values."
    for option in ("timeout_s", "connect_timeout_s"):
        seconds: object = getattr(given, option)
        if (
            isinstance(seconds, bool)
            or not isinstance(seconds, int | float)
            or not (isfinite(seconds) and seconds > 0)
        ):
            return f"{option} is {truncate_repr(seconds, 40)}; it must be a number of seconds above 0."
    return ""
