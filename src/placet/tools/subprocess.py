"""A tool that is a program: its parameters as JSON on standard input, its answer as JSON on standard output.

Standard error is for people; its last lines stand in the error if the program fails. Which call it serves is
in the variables PLACET_ACTION_ID, PLACET_RUN_ID and PLACET_IDEMPOTENCY_KEY, and the trace in TRACEPARENT.

Keep true:
1. An answer is one JSON value, read strictly. Anything else is a failure that says where it went wrong.
2. What was ended in the middle may have had its effect: such a failure is `unknown`.
3. What a program left running is told with its call, also when it has answered.
4. The program gets from the host's environment what every command gets, and the names that were declared.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from placet.errors import DecodeError, ToolError
from placet.ir.call_facts import Confinement
from placet.ir.codec import decode_json, encode
from placet.ir.json_value import JsonValue
from placet.ir.tool_spec import ToolSchema
from placet.sandbox.command import Finished, ending, run_command
from placet.sandbox.confinement import Isolation
from placet.sandbox.environment import clean_environment
from placet.sandbox.finished import account
from placet.sandbox.limits import Limits
from placet.sandbox.sandbox import Sandbox
from placet.sandbox.workspace import Workspace
from placet.tools.context import ToolContext
from placet.tools.tool import Tool
from placet.truncation import redacted, truncate_bytes, truncate_bytes_tail, truncate_repr, truncate_tail

TRY_AGAIN = 75
"""The exit code of a program that failed for now and may work later: EX_TEMPFAIL of sysexits.h."""

_LINES = 5
_CHARACTERS = 1000
_QUOTED = 200
"""Bytes of an answer that is no JSON that stand in the error."""


class CommandSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How to run the program behind a tool."""

    argv: Sequence[str]
    """The program and its arguments. No shell reads them."""
    folder: str | int
    """Where it runs: a path, or the descriptor of an open folder."""
    limits: Limits = Limits()
    environment: Sequence[str] = ()
    """Names of variables that are passed on from the host, where it has them."""
    exit_codes: Collection[int] = (0,)
    """Those that mean an answer."""
    workspace: Workspace | None = None
    """What it may write to where it is confined."""
    isolation: Isolation | None = None
    """How it is confined; None is not at all."""
    readable: Sequence[str] = ()
    """Folders that it sees besides, where it is confined: those of its program."""


def command_tool(
    schema: ToolSchema, spec: CommandSpec, *, timeout_ms: int | None = None, max_retries: int | None = None
) -> Tool:
    """A tool that runs a program for each call.

    Raises:
        ToolDeclarationError: the schema or an option contradicts itself.
    """

    async def run(parameters: dict[str, JsonValue], context: ToolContext) -> JsonValue:
        finished = await run_command(
            spec.argv,
            folder=spec.folder,
            stdin=encode(parameters) + b"\n",
            environment=clean_environment(_variables(spec, context)),
            limits=spec.limits,
            sandbox=await _sandbox(spec),
            readable=spec.readable,
        )
        if context.on_command is not None:
            context.on_command(account(finished, spec.argv[0]))
        if finished.ended_by == "itself" and (words := ending(finished, spec.limits)):
            # Its answer is its own and has no room for this, but somebody should know.
            context.progress(f"'{spec.argv[0]}' has ended; {words}")
        return _answer(finished, spec)

    if spec.isolation is not None and spec.isolation.is_certain and "confined" not in schema.labels:
        schema = msgspec.structs.replace(schema, labels=(*schema.labels, "confined"))
    made: Tool[Any, Any] = Tool(
        schema=schema,
        fn=run,
        timeout_ms=timeout_ms,
        max_retries=max_retries,
        context_parameter="context",
        takes_object=True,
    )
    if spec.workspace is not None and spec.isolation is not None and spec.isolation.required == "process":
        made.confined_to = str(spec.workspace.folder)
    made.confinement = lambda: _confinement(spec)
    made.origin = f"the program {truncate_repr(spec.argv[0], 200)}"
    made.compile()
    return made


async def _confinement(spec: CommandSpec) -> Confinement:
    if spec.isolation is None or spec.workspace is None:
        return Confinement(runs_in="program")
    return await spec.isolation.confinement(spec.workspace)


async def _sandbox(spec: CommandSpec) -> Sandbox | None:
    if spec.isolation is None or spec.workspace is None:
        return None
    return await spec.isolation.sandbox(spec.workspace)


def _variables(spec: CommandSpec, context: ToolContext) -> dict[str, str]:
    return {
        **{name: os.environ[name] for name in spec.environment if name in os.environ},
        "PLACET_ACTION_ID": context.action_id,
        "PLACET_RUN_ID": context.run_id,
        "PLACET_IDEMPOTENCY_KEY": context.idempotency_key,
        **({"TRACEPARENT": context.traceparent} if context.traceparent else {}),
    }


def _answer(finished: Finished, spec: CommandSpec) -> JsonValue:
    program = spec.argv[0]
    said = _last_lines(finished.stderr)
    after = f": {said}" if said else ""
    if finished.ended_by != "itself":
        words = f"'{program}' gave no answer: {ending(finished, spec.limits)}"
        # Only time may be different at the next attempt.
        raise ToolError(f"{words}{after}", retry=finished.ended_by in ("time", "signal"), unknown=True)
    code = finished.exit_code
    if code not in spec.exit_codes:
        raise ToolError(f"'{program}' ended with exit code {code}{after}", retry=code == TRY_AGAIN)
    try:
        return decode_json(finished.stdout, f"the answer of '{program}'")
    except DecodeError as error:
        fix = "It must print one JSON value and nothing else; what is for people goes to standard error."
        printed = truncate_bytes(finished.stdout, _QUOTED).decode(errors="replace")
        # It ended as a success, so it did its work.
        raise ToolError(
            f"{error} {fix} It printed {printed!r}{after}.", retry=False, took_effect=True
        ) from None


def _last_lines(stderr: bytes) -> str:
    """The end of what a program said, short enough for an error."""
    text = redacted(truncate_bytes_tail(stderr, 4 * _CHARACTERS).decode(errors="replace").strip())
    return truncate_tail("\n".join(text.splitlines()[-_LINES:]), _CHARACTERS)
