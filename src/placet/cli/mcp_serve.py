"""`placet mcp serve`: be an MCP server on the standard streams."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from placet.cli.inputs import (
    as_option,
    collected,
    db_option,
    expire_option,
    folder_names,
    runtime_options,
    wait_option,
)
from placet.cli.output import Output

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

    from placet.app.options import RunOptions
    from placet.server.mcp import Face


@click.command(short_help="Offer the tools to an MCP client, over stdin and stdout.")
@runtime_options
@as_option
@wait_option
@expire_option
@click.option(
    "--folder",
    metavar="PATH",
    shell_complete=folder_names,
    help="Serve as if started there. Default: the current folder.",
)
@db_option
@click.pass_obj
@collected
def serve(
    output: Output,
    options: RunOptions,
    agent: str | None,
    wait: float | None,
    folder: str | None,
    db: str | None,
) -> int:
    """Let an MCP client, such as an editor or another agent, use the tools, and run whole plans.

    The client starts this command and talks to it over stdin and stdout. Each of its calls passes the same
    rules, permissions and approvals as a plan of `placet run`, and is kept in the same way. Besides the tools
    it finds verify_plan, execute_plan and resume_run.

    A call that needs an approval is answered at once with the approval's id; after `placet approvals approve`
    the client goes on with resume_run. With --wait the call itself waits. When the client closes stdin, what
    still runs is stopped, and can be resumed.

    Exit codes: 0 the client has gone, 2 bad input, 130 after Ctrl-C, 143 after SIGTERM.
    """
    _look_for_the_library()
    if folder is not None:
        # Not only where tools work: files that the other options name are meant from there too.
        os.chdir(folder)
    # Before anything of the tools is loaded: what they print is not for the client.
    source, target = _claim_streams()
    from placet.app.app import open_app
    from placet.cli.execution import patience
    from placet.cli.isolation import tell_lowering
    from placet.runtime.sync import run_sync

    with open_app(options, db=db, wait_s=patience(wait)) as app:
        # Only now, because it takes long: bad input is told at once.
        from placet.server.mcp import Face, make_server

        output.redactor = app.redactor
        tell_lowering(output, app)
        face = Face(app, agent=agent, db=db)
        for name, tool in face.names.items():
            if name != tool:
                why = "MCP does not permit that name, or it is taken"
                output.talk(f"Note: the tool '{tool}' is offered as '{name}': {why}.")
        if sys.stderr.isatty():
            output.talk("Waiting for an MCP client on stdin. Ctrl-C ends it.")
        _listen_to_the_library(output)
        return run_sync(_serve(make_server(face), face, source, target))


def _look_for_the_library() -> None:
    from importlib.util import find_spec

    from placet.errors import UsageError
    from placet.extras import install_command

    try:
        is_there = find_spec("mcp") is not None
    except ValueError:  # Somebody has ruled it out.
        is_there = False
    if not is_there:
        raise UsageError(f"MCP needs the extra `mcp`. Install it with: {install_command('mcp')}")


def _claim_streams() -> tuple[int, int]:
    """Take stdin and stdout for the protocol, and return their descriptors. Whoever else reads finds nothing,
    and whatever else is printed goes to stderr."""
    sys.stdout.flush()
    taken = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return taken


async def _serve(server: Server, face: Face, source: int, target: int) -> int:
    """Serve until the client has gone, or a signal says that it is enough."""
    from placet.cli.signals import Stopping
    from placet.server.stdio import Wire

    def ended(why: str) -> None:
        face.ending = face.ending or why

    wire = Wire(source, target, on_end=ended)
    with Stopping(say=lambda name: wire.hang_up(f"stopped by {name}")) as stopping:
        async with wire.open() as (read, write):
            await server.run(read, write, server.create_initialization_options())
    return 128 + stopping.by if stopping.by else 0


def _listen_to_the_library(output: Output) -> None:
    """Let the protocol's library speak on stderr: cleaned, because it repeats words of the client."""
    import logging

    class Talk(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            # Without the traceback: that is the library's own.
            output.talk(f"MCP: {record.getMessage()}")

    log = logging.getLogger("mcp")
    log.addHandler(Talk(logging.WARNING))
    log.propagate = False
