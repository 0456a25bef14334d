"""`placet policy`: what the rules say to a plan, why, and whether they say what they should.

Keep true: no command here runs anything. Plans and cases are judged by the gate that `placet run` asks.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from placet.cli.inputs import (
    Command,
    as_option,
    collected,
    file_names,
    json_option,
    not_empty,
    plan_argument,
    runtime_options,
    single,
)
from placet.cli.output import Output

if TYPE_CHECKING:
    from placet.app.judgement import JudgedPlan
    from placet.app.options import RunOptions

_EXIT = {"denied": 3, "invalid": 3, "asks": 4, "undecided": 0, "allowed": 0}


def _plan_options(command: Command) -> Command:
    """What a plan is judged with."""
    return plan_argument(runtime_options(as_option(json_option(command))))


@click.group(
    short_help="Check a plan against the rules, explain the answer, test the rules.",
    invoke_without_command=True,
)
@click.pass_context
def policy(context: click.Context) -> None:
    """What your rules and permissions say to a plan. Nothing runs."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@policy.command(short_help="What would be denied, and what would wait for a person.")
@_plan_options
@click.pass_obj
@collected
def check(output: Output, plan: str, options: RunOptions, agent: str | None, as_json: bool) -> int:
    """Say what `placet run` would deny with the same options, which rule does, and who would be asked.

    PLAN is a JSON file; '-' reads standard input. What was approved for always is not looked up: it shows as
    needing an approval.

    Exit codes: 0 nothing is denied and nobody must be asked, 2 bad input, 3 something would be denied or is
    invalid, 4 it would wait for a person.
    """
    output.claim()
    judged = _judge(output, plan, agent, options)
    if as_json:
        output.show_json(judged)
    else:
        from msgspec import to_builtins

        from placet.render.policy import check_lines

        output.show(*check_lines(to_builtins(judged), _title(plan)))
    return _EXIT[judged.verdict]


@policy.command(short_help="Which rule says what to each action.")
@_plan_options
@click.pass_obj
@collected
def explain(output: Output, plan: str, options: RunOptions, agent: str | None, as_json: bool) -> int:
    """Tell for each action what every rule that is about it answers, what it needs to be allowed to do, where
    marked data comes from, and whose word decides.

    PLAN is a JSON file; '-' reads standard input.

    Exit codes: 0 explained, however it would go, 2 bad input.
    """
    output.claim()
    judged = _judge(output, plan, agent, options)
    if as_json:
        output.show_json(judged)
    else:
        from msgspec import to_builtins

        from placet.render.policy import explain_lines

        output.show(*explain_lines(to_builtins(judged), _title(plan)))
    return 0


@policy.command(short_help="Try the cases that are kept beside the rules.")
@click.argument("path", required=False, callback=not_empty, shell_complete=file_names)
@single(
    "--tools",
    metavar="FILE",
    help="File of tools; what it declares holds for the cases.",
)
@json_option
@click.pass_obj
def test(output: Output, path: str | None, tools: str | None, as_json: bool) -> int:
    """Judge every [[case]] in a policy file, or in each of a folder, and say which are not answered as
    expected. Without PATH: in all that `placet run` finds, with the permissions that hold here.

    \b
    [[case]]
    name = "no secret leaves"
    tool = "send"
    risk = "network"                        # of the tool, where no --tools says it;
    parameters = { text = "$1.output" }     #   also labels, reversibility, marks
    after = [{ tool = "read_secret", risk = "read_only", marks = ["secret"] }]
    state = { tests = "green" }
    agent = "nightly"
    expect = "deny"                         # or "ask", "allow"
    by = "secrets-stay"                     # the rule that must say so

    All but name, tool and expect may be left out. `after` is what has run before, in order; $1.output is what
    the first of that has put out. Nothing runs.

    Exit codes: 0 all pass, 1 some fail, 2 bad input, or no case at all.
    """
    output.claim()
    from pathlib import Path

    from placet.app.policy_cases import open_rule_book
    from placet.app.trials import try_cases
    from placet.cli.trust import terminal_question

    book = open_rule_book(path, Path.cwd(), os.environ, tools=tools, confirm=terminal_question(output))
    trials = try_cases(book)
    if as_json:
        output.show_json(trials)
    else:
        from msgspec import to_builtins

        from placet.render.policy import trial_lines

        output.show(*trial_lines(to_builtins(trials)))
    return 1 if trials.failed else 0


def _judge(output: Output, plan: str, agent: str | None, options: RunOptions) -> JudgedPlan:
    from msgspec.structs import replace

    from placet.app.app import open_app
    from placet.app.files import load_plan
    from placet.app.judgement import judge_plan
    from placet.cli.trust import terminal_question
    from placet.cli.wording import say_no_tools

    proposal = load_plan(plan)
    with open_app(options, confirm=terminal_question(output), on_paper=True) as app:
        judged = judge_plan(app.runtime, proposal, agent=agent)
        if app.sources:
            return judged
    actions = [replace(a, problems=[say_no_tools(words) for words in a.problems]) for a in judged.actions]
    return replace(judged, actions=actions)


def _title(plan: str) -> str:
    return "standard input" if plan == "-" else plan
