"""`assent tools`: what a file of tools offers."""

from __future__ import annotations

import click

from assent.cli.inputs import json_option
from assent.cli.output import Output


@click.command(short_help="List the tools of a file.")
@click.option("--tools", "file", metavar="FILE.py", required=True, help="Python file with @tool functions.")
@json_option
@click.pass_obj
def tools(output: Output, file: str, as_json: bool) -> int:
    """List the tools that a Python file defines: how each is called, its risk, and whether it can be undone.

    Exit codes: 0 listed, 2 bad input.
    """
    output.claim()
    from assent.app.tool_file import load_tools

    schemas = [tool.schema for tool in load_tools(file)]
    if as_json:
        output.show_json({"tools": schemas}, is_declaration=True)
    else:
        from assent.render.report import tool_lines

        output.show(*tool_lines(schemas))
    return 0
