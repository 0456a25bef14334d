"""`placet tools`: what plans can call, one tool looked at closely, and one called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from placet.cli.inputs import (
    Subject,
    as_option,
    collected,
    db_option,
    isolation_option,
    json_option,
    runtime_options,
    single,
    wait_option,
)
from placet.cli.output import OPENING, Output

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from placet.app.app import App
    from placet.app.options import RunOptions
    from placet.app.reach import Reach
    from placet.ir.json_value import JsonValue
    from placet.ir.result import ProposalResult
    from placet.ir.tool_spec import ToolSchema
    from placet.tools.context import Cancel
    from placet.tools.tool import Tool

_TOOLS = single(
    "--tools",
    metavar="FILE",
    help="Python file with @tool functions, or TOML file of commands. Default: that of a trusted project.",
)


@click.group(cls=Subject, short_help="List tools, show one, call one.")
def tools() -> None:
    """What plans can call: the tools that come with Placet, those of a file or a trusted project, and those
    of MCP servers that you have switched on.

    `placet tools` alone lists them.
    """


@tools.command("list", short_help="List the tools.")
@_TOOLS
@isolation_option
@json_option
@click.pass_obj
@collected
def list_tools(output: Output, options: RunOptions, as_json: bool) -> int:
    """List every tool: how it is called, its risk, whether it can be undone, where it runs and is from.

    Tools that are not offered under the isolation that is required stand at the end, each with the reason.

    Exit codes: 0 listed, 2 bad input.
    """
    output.claim()
    from placet.app.app import BUILT_IN, open_app
    from placet.cli.isolation import tell_unknown_trusted
    from placet.cli.trust import terminal_question

    with open_app(options, confirm=terminal_question(output), on_paper=True) as app:
        schemas = app.runtime.tools.schemas()
        sources = {schema.name: app.source_of(schema.name) for schema in schemas}
        reach = {schema.name: app.reach_of(schema.name) for schema in schemas}
        withheld = app.runtime.tools.withheld
        tell_unknown_trusted(output, app)
    if as_json:
        listed = [_as_data(schema, sources[schema.name], reach[schema.name]) for schema in schemas]
        kept = [{"name": name, "reason": reason} for name, reason in withheld.items()]
        output.show_json({"tools": listed, "withheld": kept}, is_declaration=True)
        return 0
    from placet.render.tools import brief_lines, reach_words, tool_lines, withheld_lines

    # A person looks for their own first, and knows the others.
    own = [schema for schema in schemas if sources[schema.name] != BUILT_IN]
    where = {schema.name: reach_words(*_reach(reach[schema.name]), is_brief=True) for schema in own}
    output.show(*tool_lines(own, sources, where))
    rest = [schema for schema in schemas if sources[schema.name] == BUILT_IN]
    output.show(*brief_lines(rest, title="Built in (`placet tools show NAME` tells more):", is_first=not own))
    output.show(*withheld_lines(withheld))
    return 0


@tools.command(short_help="Show one tool closely.")
@click.argument("name")
@_TOOLS
@isolation_option
@json_option
@click.pass_obj
@collected
def show(output: Output, name: str, options: RunOptions, as_json: bool) -> int:
    """Show what the tool NAME does, what its parameters mean, where it runs and whom it may speak to.

    Exit codes: 0 shown, 2 bad input, no such tool, or one that is not offered.
    """
    output.claim()
    from placet.app.app import open_app
    from placet.cli.trust import terminal_question

    with open_app(options, confirm=terminal_question(output), on_paper=True) as app:
        found = _find(app, name)
        source, reach = app.source_of(name), app.reach_of(name)
    if as_json:
        output.show_json(_as_data(found.schema, source, reach), is_declaration=True)
        return 0
    from placet.render.tools import reach_words, tool_page
    from placet.runtime.binding import is_restorable

    page = tool_page(
        found.schema,
        source,
        timeout_ms=found.timeout_ms,
        max_retries=found.max_retries,
        where=reach_words(*_reach(reach)),
        is_restorable=is_restorable(found),
    )
    output.show(*page)
    return 0


@tools.command(short_help="Call one tool.")
@click.argument("name")
@click.argument("parameters", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--params", metavar="JSON", help="All parameters as one JSON object; '-' reads standard input.")
@runtime_options
@as_option
@wait_option
@db_option
@json_option
@click.pass_obj
@collected
def call(
    output: Output,
    name: str,
    parameters: Sequence[str],
    params: str | None,
    options: RunOptions,
    agent: str | None,
    wait: float | None,
    db: str | None,
    as_json: bool,
) -> int:
    """Call the tool NAME, as a plan of one action: rules, permissions, log and journal hold as for any run.

    A VALUE is text where the tool wants text, else JSON: `placet tools call grep pattern=TODO max_matches=5`.
    What is shown is what a model would see of the answer; --json gives the whole result.

    Exit codes: 0 succeeded, 1 ran and did not succeed, 2 bad input, 3 refused, 4 waiting for a person,
    130 after Ctrl-C.
    """
    output.claim()
    from placet.app.app import open_app
    from placet.cli.execution import Told, carry_out, patience
    from placet.cli.isolation import tell_lowering, tell_unknown_trusted
    from placet.cli.name_warnings import warn_of_names
    from placet.cli.trust import terminal_question
    from placet.errors import UsageError
    from placet.ir.action import Action
    from placet.ir.proposal import Proposal, new_id
    from placet.runtime.scope import Scope

    opening = open_app(options, db=db, wait_s=patience(wait), confirm=terminal_question(output))
    with output.opened(opening, OPENING) as app:
        tell_lowering(output, app)
        tell_unknown_trusted(output, app)
        warnings = warn_of_names(output, app)
        found = _find(app, name)
        given = _parameters(found.schema, parameters, params)
        if found.validate is not None and (problem := found.validate(given)):
            raise UsageError(f"'{name}' cannot be called so: {problem}. See: placet tools show {name}")
        proposal = Proposal(
            id=new_id(),
            source="placet tools call",
            actions=[Action(id=name, type="tool_call", tool=name, parameters=given)],
        )
        run_id = new_id()
        scope = Scope(caller_id=agent) if agent is not None else None

        def start(cancel: Cancel) -> Awaitable[ProposalResult]:
            return app.runtime.execute(proposal, cancel=cancel, run_id=run_id, scope=scope)

        told = Told(
            name,
            as_json,
            has_tools=True,
            db=db,
            waits=wait is not None,
            only_output=True,
            warnings=warnings,
        )
        return carry_out(output, app, proposal, start, told)


def _find(app: App, name: str) -> Tool:
    """The tool of that name.

    Raises:
        UsageError: there is none, or it is not offered; says why.
    """
    from placet.errors import UsageError

    known = app.runtime.tools
    if name not in known and (reason := known.withheld.get(name) or known.hints.get(name)):
        raise UsageError(f"{reason[:1].upper()}{reason[1:]}.")
    return known.require(name)


def _reach(reach: Reach) -> tuple[str, Sequence[str]]:
    return reach.runs_in, reach.hosts


def _as_data(schema: ToolSchema, source: str, reach: Reach) -> dict[str, Any]:
    import msgspec

    data = {**msgspec.to_builtins(schema), "source": source, "runs_in": reach.runs_in}
    return {**data, "hosts": list(reach.hosts)} if reach.runs_in == "sandbox" else data


def _parameters(schema: ToolSchema, pairs: Sequence[str], params: str | None) -> dict[str, JsonValue]:
    """The parameters that the person has written."""
    from placet.app.files import read_file
    from placet.errors import InputError, UsageError
    from placet.ir.codec import decode_json

    given: dict[str, JsonValue] = {}
    if params is not None:
        text = read_file(params) if params == "-" else params.encode(errors="surrogateescape")
        whole = decode_json(text, "--params")
        if not isinstance(whole, dict):
            raise UsageError('--params is no JSON object. Write such as \'{"path": "README.md"}\'.')
        given.update(whole)
    properties = schema.parameters.get("properties")
    known = properties if isinstance(properties, dict) else {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"{pair!r} names no parameter. Write KEY=VALUE, such as path=README.md.")
        if key in given:
            raise UsageError(f"Parameter '{key}' is given twice. Give it once.")
        if _is_text(known.get(key)):
            given[key] = value
            continue
        try:
            given[key] = decode_json(value.encode(errors="surrogateescape"), f"parameter '{key}'")
        except InputError:
            given[key] = value  # Not JSON: the tool's own check says whether a text will do.
    return given


def _is_text(kind: JsonValue) -> bool:
    """Whether a parameter takes text and nothing else that could be meant."""
    if not isinstance(kind, dict):
        return False
    if "anyOf" in kind and isinstance(kind["anyOf"], list):
        return all(_is_text(each) or each == {"type": "null"} for each in kind["anyOf"])
    return kind.get("type") == "string" or kind.get("type") == ["string", "null"]
