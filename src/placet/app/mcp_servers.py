"""`mcp.json`: the MCP servers that a person has added, and which of their tools are switched on.

    {"format": 1, "servers": {"files": {
        "command": ["npx", "some-server"], "folder": "/home/me", "environment": ["TOKEN"],
        "tools": {"read": {"description": "...", "input_schema": {...}, "digest": "...", "read_only": true}}
    }}}

Instead of a command a server may have a `url`, with `headers` that name environment variables.

Keep true:
1. Every key is known and every value means something, or the whole file is refused, with file, key and fix.
2. Two processes that change it at once are both remembered. What is written can be read again.
3. Nothing is started to find out which tools there are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from placet.app.private_record import PrivateRecord
from placet.errors import InputError, ToolDeclarationError
from placet.ir.codec import decode_json
from placet.policy.toml_file import TomlFile
from placet.storage.location import config_folder
from placet.tools.mcp.server import (
    HEADER,
    NAME,
    TOOL_NAME,
    VARIABLE,
    McpServer,
    Offer,
    StoredTool,
    secrets_in,
    url_problem,
)

if TYPE_CHECKING:
    from placet.tools.tool import Tool

FILE_NAME = "mcp.json"
_SERVER_KEYS = McpServer.__struct_fields__
_TOOL_KEYS = StoredTool.__struct_fields__
_FORMAT = 1
_WHAT = "File of MCP servers"
_TOOL_NAMES = "a tool's name has letters, digits, _ . / and - only"
_AGAIN = "Mend it, or move the file away and add the server again with `placet mcp add`."


def load_mcp_tools(
    environment: Mapping[str, str], servers: Mapping[str, McpServer] | None = None
) -> tuple[list[Tool], Callable[[], None]]:
    """The tools of MCP servers that the person has switched on, and what closes the connections to them.

    No server is started or spoken to before one of its tools is called. `servers` are those that were added,
    where they have been read already.

    Raises:
        InputError: the file cannot be used; names file, key and fix.
    """
    added = load_servers(environment) if servers is None else servers
    servers = {name: server for name, server in added.items() if server.tools}
    if not servers:
        return [], lambda: None
    from placet.tools.mcp.connections import Connections

    connections = Connections(environment)
    found: list[Tool] = []
    for name, server in servers.items():
        try:
            found += connections.tools(name, server)
        except ToolDeclarationError as error:
            TomlFile(str(servers_file(environment)), _WHAT).fail(
                str(error).rstrip("."), f"servers.{name}.tools", f"Look at it with `placet mcp show {name}`."
            )
    return found, connections.close


def known_mcp_tools(servers: Mapping[str, McpServer]) -> set[str]:
    """The tools that servers listed when they were last asked, switched on or not.

    `SERVER.*` stands for those of a server of which the list is not stored.
    """
    return {f"{name}.{tool}" for name, server in servers.items() for tool in server.offered or ("*",)}


def look(name: str, server: McpServer, environment: Mapping[str, str]) -> list[Offer]:
    """What a server lists now. It is started or connected to, and left again.

    Raises:
        InputError: it cannot be reached; says why, with the last lines of its standard error.
    """
    from placet.tools.mcp.connections import Connections
    from placet.tools.mcp.link import Unreachable

    connections = Connections(environment)
    try:
        return connections.offers(name, server)
    except Unreachable as error:
        last = f"\nThe last that it wrote on its standard error:\n{error.errors}" if error.errors else ""
        raise InputError(f"MCP server '{name}' {error}.{last}") from None
    finally:
        connections.close()


def servers_file(environment: Mapping[str, str]) -> Path:
    """Where servers are remembered: among the person's own settings, never in a project."""
    return config_folder(environment) / FILE_NAME


def load_servers(environment: Mapping[str, str]) -> dict[str, McpServer]:
    """Every server that was added, by name.

    Raises:
        InputError: the file cannot be used; names file, key and fix.
    """
    path = servers_file(environment)
    data = _read(path)
    return {} if data is None else _parsed(path, data)


def secrets_of_servers(environment: Mapping[str, str]) -> list[str]:
    """What the variables hold that servers are given: to be kept out of all that is logged or shown.

    Also of a file that cannot be used, as far as it can be made out; so this never fails.
    """
    try:
        held = _loose(_read(servers_file(environment)) or b"")
    except InputError:
        return []
    found: list[str] = []
    for server in held.values():
        if isinstance(server, dict):
            variables, headers = server.get("environment"), server.get("headers")
            names = variables if isinstance(variables, list) else []
            sent = list(headers.values()) if isinstance(headers, dict) else []
            found += secrets_in(map(str, names), map(str, sent), environment)
    return found


@contextmanager
def changing(environment: Mapping[str, str]) -> Iterator[dict[str, McpServer]]:
    """Every server, to be changed; written when the block ends, while no other process changes it.

    Raises:
        InputError: the file cannot be used or written. Nothing was changed.
    """
    record = _record(environment)
    with record.alone():
        servers = load_servers(environment)
        yield servers
        _check_again(record.path, servers)
        record.write(servers)


@contextmanager
def mending(environment: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Every server as it stands in the file, unchecked, to take something out; written when the block ends.

    Also of a file that cannot be used because of what shall go. What stays is written as it was.

    Raises:
        InputError: the file cannot be made out at all, or not be written. Nothing was changed.
    """
    record = _record(environment)
    if _read(record.path) is None:
        # Nothing can be taken out, and no folder is made for that.
        yield {}
        return
    with record.alone():
        data = _read(record.path) or b""
        servers = _loose(data)
        if not servers:
            # Says what is wrong: it is no file of ours, or nobody can read it.
            _parsed(record.path, data)
        yield servers
        record.write(servers)


def _record(environment: Mapping[str, str]) -> PrivateRecord[Any]:
    path = servers_file(environment)
    try:
        # Where a link leads to: to replace the link would cut it off from what a person keeps elsewhere.
        path = path.resolve()
    except (OSError, RuntimeError):
        TomlFile(str(path), _WHAT).fail("it is a link that leads nowhere", None, "Take the link away.")
    return PrivateRecord(path, McpServer, key="servers", otherwise="", again="")


def _check_again(path: Path, servers: Mapping[str, McpServer]) -> None:
    """Refuse to store what could not be read again: that would lock out also whoever wants to mend it."""
    data = json.dumps({"format": _FORMAT, "servers": msgspec.to_builtins(dict(servers))}).encode()
    try:
        is_same = _parsed(path, data) == dict(servers)
    except InputError as error:
        raise InputError(f"Nothing was changed: it could not be read again. {error}") from None
    if not is_same:
        raise InputError(f"Nothing was changed: {path} would not hold what it should. Please report this.")


def _read(path: Path) -> bytes | None:
    """What the file holds; None if there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        problem = f"it cannot be read: {error.strerror or error}"
        TomlFile(str(path), _WHAT).fail(problem, None, "Check its permissions.")


def _parsed(path: Path, data: bytes) -> dict[str, McpServer]:
    file = TomlFile(str(path), _WHAT)
    document = _object(file, decode_json(data, f"the file of MCP servers {path}"), "$")
    file.check_keys(document, ("format", "servers"), "", "the file")
    version = document.get("format")
    if isinstance(version, bool) or version != _FORMAT:
        file.fail(f"it is not {_FORMAT}", "format", "Use the version of Placet that wrote the file.")
    servers = _object(file, document.get("servers"), "servers")
    return {name: _server(file, name, servers[name]) for name in servers}


def _loose(data: bytes) -> dict[str, Any]:
    """The servers in a file, however they look; none if it is no file of ours or means two things."""
    try:
        document = json.loads(data, object_pairs_hook=_distinct)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(document, dict) or document.keys() != {"format", "servers"}:
        return {}
    servers = document["servers"]
    is_ours = document["format"] == _FORMAT and isinstance(servers, dict)
    return servers if is_ours else {}


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _server(file: TomlFile, name: str, value: object) -> McpServer:
    place = f"servers.{name}"
    if not NAME.fullmatch(name):
        file.fail("a server's name has letters, digits, - and _ only", place, "Give it another name.")
    table = _object(file, value, place)
    file.check_keys(table, _SERVER_KEYS, place, "a server")
    if ("command" in table) == ("url" in table):
        file.fail("it has to have either a 'command' or a 'url'", place, _AGAIN)
    for key in ("folder", "environment") if "url" in table else ("headers",):
        if key in table:
            file.fail("it is for the other kind of server", f"{place}.{key}", "Take it out.")
    tools = _object(file, table.get("tools", {}), f"{place}.tools")
    stored = {tool: _tool(file, tool, held, f"{place}.tools.{tool}") for tool, held in tools.items()}
    server = file.convert({**table, "tools": stored}, McpServer, place, _AGAIN)
    if not (server.url.strip() or (server.command and server.command[0].strip())):
        file.fail("it is empty", f"{place}.{'url' if 'url' in table else 'command'}", _AGAIN)
    for key, problem, fix in _problems(server):
        file.fail(problem, f"{place}.{key}", fix)
    return server


def _problems(server: McpServer) -> Iterator[tuple[str, str, str]]:
    """The keys of a server that mean nothing, why, and what to do."""
    if server.url:
        if problem := url_problem(server.url):
            yield "url", problem, _AGAIN
    elif any("\0" in part for part in server.command):
        yield "command", "it holds a null character", _AGAIN
    elif not server.folder.startswith("/") or "\0" in server.folder:
        yield "folder", "it is no whole path", "Write the folder in which it is started, from the root on."
    if not all(map(VARIABLE.fullmatch, server.environment)):
        yield "environment", "it is no name of a variable", "Write its name, never what it holds."
    for header, variable in server.headers.items():
        if not HEADER.fullmatch(header):
            yield f"headers.{header}", "no header can be called so", "Write one such as Authorization."
        if not VARIABLE.fullmatch(variable):
            fix = "Write the name of an environment variable, never the token itself."
            yield f"headers.{header}", "it is no name of a variable", fix
    for key in ("timeout_s", "connect_timeout_s"):
        if not (isfinite(getattr(server, key)) and getattr(server, key) > 0):
            yield key, "it is no number of seconds above zero", "Write one such as 60."
    if not all(map(TOOL_NAME.fullmatch, server.offered)):
        yield "offered", _TOOL_NAMES, "Take it out."


def _tool(file: TomlFile, name: str, value: object, place: str) -> StoredTool:
    again = "Switch the tool on again with `placet mcp enable`."
    if not TOOL_NAME.fullmatch(name):
        file.fail(_TOOL_NAMES, place, "Take it out.")
    table = _object(file, value, place)
    file.check_keys(table, _TOOL_KEYS, place, "a tool")
    stored = file.convert(table, StoredTool, place, again)
    file.text(stored.digest, f"{place}.digest", again)
    return stored


def _object(file: TomlFile, value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        file.fail(f"expected an object, got {_kind(value)}", place, _AGAIN)
    return value


def _kind(value: object) -> str:
    kinds = {bool: "true or false", str: "a text", list: "a list", dict: "an object", type(None): "nothing"}
    return kinds.get(type(value), "a number")
