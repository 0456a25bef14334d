"""`placet code`: have a model change a program until checks are green, and ask before it is published."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from placet.cli.code_commands import COMMANDS
from placet.cli.code_options import (
    Coding,
    at_work_options,
    candidates_option,
    isolation_option,
    one_intent,
    repo_option,
    session_argument,
)
from placet.cli.inputs import (
    collected,
    limit_options,
    model_option,
    policies_option,
    single,
)
from placet.cli.output import Output

if TYPE_CHECKING:
    from pathlib import Path

    from placet.app.options import RunOptions
    from placet.checks.contract import Contract
    from placet.cli.code_lead import Leading
    from placet.cli.code_options import Wish
    from placet.coder.events import Watch
    from placet.coder.session import Session
    from placet.tools.context import Cancel


@click.group(
    cls=Coding,
    short_help="Have a model change a program until checks are green.",
    subcommand_metavar="INTENT | COMMAND [ARGS]...",
)
def code() -> None:
    """Change a program until checks are green: placet code "INTENT" --check "pytest -q".

    The work is done in a private copy of the repository. Your files, index and branches stay as they are;
    a change that you approve becomes one commit on a branch of its own, placet/ID, and nothing is pushed.

    The first word may be the intent: then `run` is meant. An intent that is the name of a command goes
    after `--`.
    """


@code.command("run", short_help="Begin a session; the word `run` can be left out.")
@click.argument("intent", metavar="INTENT", nargs=-1, required=True, callback=one_intent)
@click.option(
    "--check",
    "checks",
    multiple=True,
    metavar="CMD",
    help="A command that must end with exit code 0. May be given several times. Default: the contract in"
    " .placet/contract.toml; without one the model drafts checks, and you confirm them.",
)
@repo_option
@model_option
@click.option(
    "--max-iterations",
    "iterations",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    metavar="N",
    help="How often it begins anew, told what failed.",
)
@candidates_option
@click.option(
    "--allow",
    multiple=True,
    metavar="PATTERN",
    help="Files that checks depend on, and that the change may touch all the same, such as 'tests/**'.",
)
@click.option(
    "--include-changes/--without-changes",
    "include_changes",
    default=None,
    help="Begin with what you have not committed, or with the last commit. Default: you are asked; without a"
    " terminal, the last commit.",
)
@click.option("--even-if-green", is_flag=True, help="Work also if all checks are green before.")
@click.option("--turns", type=click.IntRange(min=1), metavar="N", help="Of each iteration. Default: 24.")
@limit_options()
@single(
    "--style",
    type=click.Choice(["small", "large"]),
    help="How the model is led. A small one is shown what it needs, a large one can look for itself."
    " Default: what suits the model.",
)
@isolation_option
@policies_option
@at_work_options
@click.pass_obj
@collected
def run(
    output: Output,
    intent: str,
    options: RunOptions,
    wish: Wish,
    checks: Sequence[str],
    repo: str | None,
    candidates: int,
    allow: Sequence[str],
    include_changes: bool | None,
    even_if_green: bool,
) -> int:
    """Have the model change the program until all checks are green, as INTENT says in words.

    What it does is shown on stderr. At the end you see the change and are asked whether to publish it as one
    commit on the branch placet/ID; without a terminal it waits for `placet code approve`. --yes publishes a
    green change without asking; it does not confirm checks that the model has drafted.

    Commands run in a sandbox of the kernel, without network; --isolation asks for less. The session is kept:
    after Ctrl-C, or if this process dies, `placet code resume ID` goes on where it stood.

    Exit codes: 0 published, 1 it ran and did not succeed or you said no, 2 bad input, 4 waiting for a person,
    130 after Ctrl-C.
    """
    output.claim()
    from pathlib import Path

    from placet.checks.contract import contract_of
    from placet.cli.code_lead import Leading
    from placet.ir.proposal import new_id

    words = intent.encode(errors="replace").decode()
    leading = Leading(output, wish)
    found = leading.repository(Path(repo or "."))
    if checks:
        contract: Contract | None = contract_of(checks, words, allow)
    else:
        contract = _kept(leading, found.top, words, allow)
    leading.check_somebody_can_decide(has_contract=contract is not None)
    leading.tell_contract(contract)

    name = new_id()
    with leading.opened(found.top, options, candidates=candidates, is_new=True) as app:
        if app.records is not None:
            # Before anything runs: a process that is killed cannot say it any more.
            output.talk(f"Session {name}")

        async def start(cancel: Cancel, watch: Watch) -> Session | None:
            with_changes = await leading.with_changes(found, name, include_changes)
            if with_changes is None:
                return None
            return await app.coder.run(
                words,
                contract=contract,
                candidates=candidates,
                include_changes=with_changes,
                even_if_green=even_if_green,
                approve=wish.yes,
                keep=wish.keep,
                session_id=name,
                cancel=cancel,
                watch=watch,
            )

        return leading.lead(app, start)


def _kept(leading: Leading, top: Path, intent: str, allow: Sequence[str]) -> Contract | None:
    """The contract that the repository keeps, with what the person allows besides."""
    import msgspec

    from placet.app.coder import kept_contract
    from placet.checks.contract import check_contract
    from placet.cli.trust import terminal_question

    found = kept_contract(top, os.environ, terminal_question(leading.output), description=intent)
    if not allow:
        return found
    if found is None:
        raise click.UsageError("--allow goes with checks: name them with --check.")
    made = msgspec.structs.replace(found, may_touch=(*found.may_touch, *allow))
    check_contract(made)
    return made


@code.command(short_help="Go on with a session.")
@session_argument
@model_option
@at_work_options
@click.pass_obj
@collected
def resume(
    output: Output,
    id: str,
    options: RunOptions,
    wish: Wish,
) -> int:
    """Go on with session ID (the start of it is enough) where it stood.

    No turn that was answered is asked again, and no check that has run on the same change runs again. It goes
    on under the limits and the isolation that it began with.

    Exit codes: 0 published, 1 it ran and did not succeed or you said no, 2 bad input, or another process is
    at work on it, 4 waiting for a person, 130 after Ctrl-C.
    """
    output.claim()
    from pathlib import Path

    from placet.app.coder import resumed_session
    from placet.cli.code_lead import Leading

    leading = Leading(output, wish)
    session, options = resumed_session(id, options, say=output.talk, db=wish.db)
    if not session.is_open:
        leading.note_ended()
    with leading.opened(
        Path(session.repository),
        options,
        candidates=session.candidates,
        works=session.is_open and session.state != "needs_approval",
        create=False,
    ) as app:

        async def start(cancel: Cancel, watch: Watch) -> Session:
            return await app.coder.resume(
                session.id, approve=wish.yes, keep=wish.keep, cancel=cancel, watch=watch
            )

        return leading.lead(app, start)


for _command in COMMANDS:
    code.add_command(_command)
