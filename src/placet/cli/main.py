"""`placet`: the group of commands, and how everything that can go wrong ends.

Keep true:
1. A person's mistake is one message and exit code 2, never a traceback (PLACET_DEBUG=1 shows it).
2. With `--json` an error is a JSON object on stdout too.
3. Every command answers with its exit code as a number.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from placet import __version__
from placet.cli.agent import agent
from placet.cli.agent_build import build
from placet.cli.agent_test import test
from placet.cli.approvals import approvals
from placet.cli.ask import ask
from placet.cli.chat import chat
from placet.cli.code import code
from placet.cli.completion import completion
from placet.cli.db import db
from placet.cli.do import do
from placet.cli.doctor import doctor
from placet.cli.explain import explain
from placet.cli.graph import graph
from placet.cli.init import init
from placet.cli.isolation import isolation
from placet.cli.log import log
from placet.cli.loop import loop
from placet.cli.mcp import mcp
from placet.cli.mcp_serve import serve as serve_mcp
from placet.cli.memory import memory
from placet.cli.model import model
from placet.cli.output import Output, OutputLost, open_standard_streams
from placet.cli.policy import policy
from placet.cli.replay import replay
from placet.cli.resume import resume
from placet.cli.run import run
from placet.cli.runs import runs
from placet.cli.serve import serve
from placet.cli.skills import skills
from placet.cli.submit import submit
from placet.cli.tools import tools
from placet.cli.trust import trust
from placet.cli.verify import verify
from placet.cli.worker import worker, workers
from placet.errors import PlacetError
from placet.trace_context import join_trace

_INTERRUPTED = 130


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
)
@click.version_option(__version__, prog_name="placet", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Models propose; Placet verifies, gates, executes, records and undoes.

    Give a model a job with `do`, or talk with it in `chat`. A plan is a JSON file of actions; see what it
    would do with `verify`, do it with `run`, hear what happened with `explain`.

    Exit codes: 0 done as asked, 1 it ran and did not succeed, 2 bad input or usage, 3 the plan is invalid or
    refused, 4 waiting for a person, 130 after Ctrl-C.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


mcp.add_command(serve_mcp)
agent.add_command(test)
agent.add_command(build)
for _command in (
    *(
        do,
        ask,
        chat,
        code,
        agent,
        loop,
        run,
        resume,
        runs,
        approvals,
        serve,
        submit,
        worker,
        workers,
        verify,
        policy,
        graph,
        explain,
        log,
        memory,
        skills,
        tools,
        model,
        mcp,
    ),
    *(trust, isolation, doctor, db, replay, init, completion),
):
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    open_standard_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    output = Output()
    try:
        with join_trace(os.environ.get("TRACEPARENT")):
            code = cli.main(given, prog_name="placet", standalone_mode=False, obj=output)
        return code if isinstance(code, int) else 0
    except (BrokenPipeError, SystemExit):
        # Nobody reads the help text any more, and click would exit with 1; commands hang up by themselves.
        return 0
    except (KeyboardInterrupt, click.Abort):
        output.talk("Interrupted.")
        return _INTERRUPTED
    except Exception as error:
        return _fail(error, output, as_json="--json" in given)
    finally:
        output.close()


def _fail(error: Exception, output: Output, *, as_json: bool) -> int:
    exit_code, code, message = _words(error)
    if os.environ.get("PLACET_DEBUG") == "1":
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    if as_json and not isinstance(error, OutputLost):
        try:
            output.show_json({"error": {"code": code, "message": message}})
            return exit_code
        except OutputLost as lost:
            output.talk(f"Error: {lost}")
    output.talk(message if isinstance(error, click.ClickException) else f"Error: {message}")
    return exit_code


def _words(error: Exception) -> tuple[int, str, str]:
    """Exit code, stable code and message of an error."""
    match error:
        case click.UsageError():
            usage = f"{error.ctx.get_usage()}\n" if error.ctx is not None else ""
            help_at = f"{error.ctx.command_path} --help" if error.ctx is not None else "placet --help"
            return 2, "usage", f"{usage}Error: {_in_a_line(error)} See `{help_at}`."
        case click.ClickException():
            return 2, "usage", f"Error: {_in_a_line(error)}"
        case PlacetError():
            return 2, error.code, str(error)
        case OutputLost():
            return 1, "output", str(error)
        case FileNotFoundError() if error.filename is None and not _is_here():
            return 2, "input", "The current folder is gone. Go to one that is there."
        case OSError() if error.filename is None:
            return 1, "output", str(OutputLost(error))
        case OSError():
            name = error.filename if isinstance(error.filename, str) else "a file"
            return (
                2,
                "input",
                f"Cannot use {name}: {error.strerror or error}. Check the path and its permissions.",
            )
        case _:
            words = f"{type(error).__name__}: {error}"
            return (
                1,
                "internal",
                f"this is a fault in Placet, not in your plan ({words}). PLACET_DEBUG=1 shows where.",
            )


def _in_a_line(error: click.ClickException) -> str:
    """What is wrong. Click lists choices on lines of their own, with tabs."""
    words = error.format_message().replace("\n\t", " ")
    return f"{words}." if words[-1:].isalnum() else words


def _is_here() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
