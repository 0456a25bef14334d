"""`placet replay`: go through a recorded run again, and say whether all is as it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from placet.cli.inputs import collected, file_names, json_option, single, tools_option
from placet.cli.output import Output

if TYPE_CHECKING:
    from rich.text import Text

    from placet.app.options import RunOptions
    from placet.turns.replay import Replayed


@click.command(short_help="Go through a recorded run again.")
@click.argument("file", metavar="FILE", shell_complete=file_names)
@click.option("--diff", is_flag=True, help="Show both texts of the first difference, line by line.")
@click.option(
    "--run-tools",
    is_flag=True,
    help="Really call the tools that only read, and compare what they answer now. Others are never called.",
)
@single("--workspace", metavar="DIR", help="Where these tools work. Default: the project's folder.")
@tools_option
@json_option
@click.pass_obj
@collected
def replay(
    output: Output,
    file: str,
    diff: bool,
    run_tools: bool,
    options: RunOptions,
    as_json: bool,
) -> int:
    """Lead the loop of today through a run that was recorded, and report the first difference.

    FILE is what `placet do --record FILE` has written. No model is asked, no tool is called, and nothing is
    changed: answers and results come from the file. A file that breaks off is followed as far as it goes.

    Exit codes: 0 the same, 1 it goes another way, 2 bad input, or no recording of a run.
    """
    import asyncio

    from placet.turns.replay import replay

    if not run_tools:
        if options.workspace is not None or options.tools is not None:
            raise click.UsageError("--workspace and --tools are for tools that are called: give --run-tools.")
        found = asyncio.run(replay(file))
    else:
        output.claim()
        from placet.app.app import open_app
        from placet.cli.trust import terminal_question

        with open_app(options, binds=False, confirm=terminal_question(output)) as app:
            found = asyncio.run(replay(file, run_tools=app.runtime))
    if as_json:
        output.show_json(_as_data(file, found))
    else:
        output.show(*_lines(found, with_diff=diff))
    return 0 if found.same else 1


def _as_data(file: str, found: Replayed) -> dict[str, Any]:
    import msgspec

    data: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(found, ending=None))
    data |= {"file": file, "same": found.same}
    data["ending"] = None if found.ending is None else found.ending.as_json()
    if found.divergence is not None:
        data["divergence"] |= {"words": found.divergence.words, "diff": found.divergence.diff()}
    return data


def _lines(found: Replayed, *, with_diff: bool) -> Iterator[Text]:
    from rich.text import Text

    from placet.render.text import count
    from placet.safe_text import clean

    went = f"{count(found.requests, 'request')} and {count(found.results, 'result')} of calls"
    called = f", {count(found.tools_run, 'call')} made once more" if found.tools_run else ""
    other = found.divergence
    if other is None:
        yield Text(f"The same: {went} are as recorded{called}.", style="green")
        if found.taken_up:
            yield Text(f"The run was taken up again {count(found.taken_up, 'time')}.")
        if found.is_cut_short:
            yield Text("The recording breaks off there: what came after it is not known.", style="yellow")
        elif found.ending is not None:
            yield Text(f"It ended: {found.ending.status}. {clean(found.ending.summary, 200)}")
        return
    yield Text(f"It goes another way ({other.kind}), after {went} that are as recorded{called}.", style="red")
    yield Text(other.words)
    if not other.recorded and not other.now:
        return
    if not with_diff:
        yield Text("Show both texts with --diff.", style="dim")
        return
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in other.diff():
        yield Text(line, style=styles.get(line[:1], ""))
