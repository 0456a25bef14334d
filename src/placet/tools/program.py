"""Programs as tools, from Python: a schema, a command, and how it is confined.

Keep true:
1. Importing this module imports neither asyncio nor the sandbox: `placet.tools` names it.
2. Nothing runs before a call; what can be seen to be wrong about a command is said here.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from placet.errors import ToolDeclarationError
from placet.truncation import truncate_repr

if TYPE_CHECKING:
    from pathlib import Path

    from placet.ir.tool_spec import ToolSchema
    from placet.sandbox.confinement import Isolation
    from placet.sandbox.limits import Limits
    from placet.sandbox.workspace import Workspace
    from placet.tools.tool import Tool


def program_tool(
    schema: ToolSchema,
    command: Sequence[str | os.PathLike[str]],
    *,
    folder: Workspace | Path | str = ".",
    isolation: Isolation | None = None,
    hosts: Sequence[str] = (),
    environment: Sequence[str] = (),
    exit_codes: Collection[int] = (0,),
    limits: Limits | None = None,
    timeout_ms: int | None = None,
    max_retries: int | None = None,
) -> Tool:
    """Create a tool that runs a program for each call.

    The program gets the parameters as one JSON object on standard input and prints one JSON value. What it
    writes to standard error is for people: its last lines are in the error if it fails. The variables
    `PLACET_RUN_ID`, `PLACET_ACTION_ID` and `PLACET_IDEMPOTENCY_KEY` tell it which call it serves, and
    `TRACEPARENT` to which trace that belongs, if to any. When it is stopped, everything that it started is
    stopped too.

    >>> import sys
    >>> from placet import Runtime, ToolSchema
    >>> from placet.tools import program_tool
    >>> code = "import json, sys; print(2 * json.load(sys.stdin)['x'])"
    >>> double = program_tool(ToolSchema(name="double", risk="read_only"), [sys.executable, "-c", code])
    >>> plan = {"actions": [{"id": "a", "tool": "double", "parameters": {"x": 21}}]}
    >>> Runtime([double]).execute_sync(plan)["a"].output
    42

    Args:
        schema: The tool as data: name, description, parameters, risk and so on.
        command: The program and its arguments. No shell reads them. A path object names a file: it is made
            absolute, and its folder can be read in the sandbox.
        folder: Folder in which it runs, and to which it may write if it is confined.
        isolation: Protections for it; give `Runtime` the same object. `None`: it runs with all rights of this
            process.
        hosts: Hosts that it may contact if it is confined. None by default.
        environment: Names of environment variables that are passed on. The program gets no others, except
            those that every command needs.
        exit_codes: Exit codes that mean an answer.
        limits: Limits of each call.
        timeout_ms: Time limit of each attempt in milliseconds.
        max_retries: Upper limit on further attempts, whatever the plan asks for.

    Raises:
        ToolDeclarationError: the schema or the command cannot be used.
        UsageError: there is no such folder, or a host is no name.
    """
    from placet.ir.tool_spec import ToolSchema
    from placet.sandbox.confinement import isolation_of
    from placet.sandbox.limits import Limits
    from placet.sandbox.workspace import Workspace
    from placet.storage.location import config_folder, user_folder
    from placet.tools.subprocess import CommandSpec, command_tool

    given: object = schema
    if not isinstance(given, ToolSchema):
        raise ToolDeclarationError(
            f"program_tool got the schema {truncate_repr(given, 80)}. Write "
            "ToolSchema(name=..., description=..., ...)."
        )
    owner = f"Tool '{schema.name}'"
    for option, value in (("environment", environment), ("hosts", hosts)):
        if isinstance(value, str) or not isinstance(value, Collection):
            raise ToolDeclarationError(
                f"{owner}: {option} is {truncate_repr(value, 80)}. Write a list of names."
            )
    codes: object = exit_codes
    if not isinstance(codes, Collection) or not codes or not all(type(each) is int for each in codes):
        raise ToolDeclarationError(
            f"{owner}: exit_codes is {truncate_repr(codes, 80)}. Write a list such as [0, 1]."
        )
    argv, readable = _read_command(command, owner)
    names: Sequence[object] = environment
    for name in names:
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise ToolDeclarationError(
                f"{owner}: environment lists names of variables, such as 'API_KEY', and got "
                f"{truncate_repr(name, 80)}."
            )
    where = folder
    if not isinstance(where, Workspace):
        where = Workspace(where, closed=[config_folder(os.environ), user_folder(os.environ)])
    confined = isolation_of(isolation)
    if confined is not None:
        if confined.folder is None:
            confined.folder = user_folder(os.environ)
        if hosts:
            from placet.sandbox.hosts import HostFilter

            confined = confined.speaking_to(HostFilter(allow=tuple(hosts)))
    elif hosts:
        raise ToolDeclarationError(f"{owner}: without isolation every host can be contacted. Drop hosts.")
    spec = CommandSpec(
        argv=argv,
        folder=where.fd,
        limits=limits or Limits(),
        environment=tuple(environment),
        exit_codes=frozenset(exit_codes),
        workspace=where,
        isolation=confined,
        readable=readable,
    )
    return command_tool(schema, spec, timeout_ms=timeout_ms, max_retries=max_retries)


def _read_command(command: object, owner: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The arguments, and the folders of the files among them."""
    fix = "Write the program and its arguments as a list, such as ['python3', 'count.py']."
    if isinstance(command, str | bytes | os.PathLike) or not isinstance(command, Sequence) or not command:
        raise ToolDeclarationError(f"{owner}: command is {truncate_repr(command, 80)}. {fix}")
    parts: list[str] = []
    folders: list[str] = []
    for part in command:
        if not isinstance(part, str | os.PathLike):
            raise ToolDeclarationError(f"{owner}: command holds {truncate_repr(part, 80)}. {fix}")
        text = os.fspath(part)
        if not isinstance(part, str):
            text = os.path.abspath(text)
            if not os.path.exists(text):
                raise ToolDeclarationError(f"{owner}: there is no file {text}. Check the path.")
            folders.append(os.path.dirname(text))
        if "\0" in text:
            raise ToolDeclarationError(f"{owner}: a null character cannot be handed to a program.")
        parts.append(text)
    if not parts[0].strip():
        raise ToolDeclarationError(f"{owner}: the program has no name. {fix}")
    return tuple(parts), tuple(dict.fromkeys(folders))
