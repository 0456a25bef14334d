"""`placet agent test`: try agents on their scenarios."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from placet.cli.inputs import (
    collected,
    isolation_option,
    json_option,
    limit_options,
    model_option,
    policies_option,
    single,
    tools_option,
)
from placet.cli.output import OPENING, Output

if TYPE_CHECKING:
    from placet.agents.registry import AgentEntry
    from placet.agents.report import Report, Trial
    from placet.app.options import RunOptions
    from placet.runtime.open_run import OpenRun
    from placet.tools.context import Cancel
    from placet.turns.limits import TurnLimits

Command = TypeVar("Command", bound=Callable[..., Any])
Value = TypeVar("Value")
_SIGNALLED = 128
_LOOKED_AT = 4096
"""Bytes of a file that tell whether it is a JUnit report."""


def trial_options(command: Command) -> Command:
    """What scenarios are run with, and how far all of them together may go."""
    for option in (
        limit_options("all"),
        isolation_option,
        policies_option,
        tools_option,
        click.option(
            "--at-once",
            type=click.IntRange(min=1, max=64),
            default=4,
            show_default=True,
            metavar="N",
            help="How many runs there are at the same time.",
        ),
        click.option(
            "--k",
            type=click.IntRange(min=1, max=1000),
            default=1,
            show_default=True,
            metavar="K",
            help="How often each scenario runs; it passes if all K runs do.",
        ),
        model_option,
    ):
        command = option(command)
    return command


@click.command(short_help="Try agents on their scenarios.")
@click.argument("names", metavar="[AGENT]...", nargs=-1)
@click.option(
    "--scenario", "only", multiple=True, metavar="NAME", help="Only this one. May be given several times."
)
@single("--junit", metavar="FILE", help="Also write the result as JUnit XML.")
@trial_options
@json_option
@click.pass_obj
@collected
def test(
    output: Output,
    names: Sequence[str],
    only: Sequence[str],
    junit: str | None,
    options: RunOptions,
    k: int,
    at_once: int,
    as_json: bool,
) -> int:
    """Run the scenarios of each AGENT; without a name, of every enabled agent that has some.

    Each run works in a folder of its own, which is thrown away, and its commands are kept in by the kernel.
    A scenario passes if the agent's run ends in success and all is so that it expects, K times out of K.

    Exit codes: 0 all passed, 1 not all did, 2 bad input, 130 after Ctrl-C.
    """
    output.claim()
    from msgspec.structs import replace

    from placet.agents.scenarios import chosen_scenarios
    from placet.app.agent_trials import open_trials
    from placet.app.agents import find_agents
    from placet.cli.trust import terminal_question
    from placet.render.scenarios import trial_words

    agents = find_agents(os.environ)
    chosen = _chosen(agents, names)
    # All that can be refused is, before the first model is asked.
    for entry in chosen:
        assert entry.spec is not None
        chosen_scenarios(entry.spec, only)
    if junit is not None:
        read = {f"the agent '{entry.id}'": str(entry.path) for entry in agents.entries(with_hidden=True)}
        _check_junit(junit, {**read, "the tools": options.tools, "the policies": options.policies})
    limits = limits_of(options)
    reports: list[Report] = []
    signal = 0
    used: OpenRun | None = None
    confirm = terminal_question(output)
    for entry in chosen:
        agents.check_trust(entry, os.environ, confirm)
    for entry in chosen:
        spec = entry.spec
        assert spec is not None
        own = replace(options, model=options.model or spec.model)
        opening = open_trials(own, at_once=at_once, confirm=confirm)
        with output.opened(opening, OPENING) as app:
            output.redactor = app.redactor
            trying = app.trying
            there = app.tools()
            for tool in spec.tools:
                if tool not in there:
                    output.talk(f"Note: {trying.runtime.tools.missing(tool)}. The agent goes without it.")

            runs = k * len(chosen_scenarios(spec, only))
            ended = 0

            def heard(name: str, trial: Trial, agent: str = spec.id, runs: int = runs) -> None:
                import msgspec

                nonlocal ended
                ended += 1
                output.talk(trial_words(name, msgspec.to_builtins(trial), k))
                output.wait_for(f"trying '{agent}', {ended} of {runs} runs have ended")

            async def work(cancel: Cancel, trying: Any = trying, spec: Any = spec) -> Report:
                from placet.agents.compose import one_budget

                nonlocal used
                async with one_budget(
                    trying.runtime, limits, source="agent test", cancel=cancel, after=used
                ) as run:
                    used = run
                    report: Report = await trying.try_all(
                        spec, k=k, only=only, budget=run, cancel=cancel, heard=heard
                    )
                    return report

            report, signal = stoppable(output, work, trying.model, f"trying '{spec.id}'")
        reports.append(report)
        if signal:
            break
        if not only:
            _store(output, entry, report)
    code = 0 if all(report.all_passed for report in reports) else 1
    if junit is not None and not _write_junit(output, reports, junit):
        code = code or 2
    _show(output, reports, as_json)
    return _SIGNALLED + signal if signal else code


def _store(output: Output, entry: AgentEntry, report: Report) -> None:
    """Store a result where `placet agent list` and the page find it."""
    from placet.app.agent_trials import store_report
    from placet.app.app import open_records
    from placet.errors import PlacetError

    try:
        with open_records(None, create=True, writes=True) as records:
            store_report(records, entry, report, output.redactor)
    except PlacetError as error:
        output.talk(f"Note: the result is not stored: {error}")


def limits_of(options: RunOptions) -> TurnLimits | None:
    """How far all runs together may go; None for as far as they like."""
    from placet.turns.limits import TurnLimits

    tokens, cost_usd, time_s = options.tokens, options.cost_usd, options.time_s
    if tokens is None and cost_usd is None and time_s is None:
        return None
    return TurnLimits(tokens=tokens, cost_usd=cost_usd, time_s=time_s)


def stoppable(
    output: Output, work: Callable[[Cancel], Coroutine[Any, Any, Value]], model: object, what: str
) -> tuple[Value, int]:
    """What comes of some work that a signal can stop, and which one did, or 0. The model is closed. `what` is
    said to be waited for, until the work says more with `output.wait_for`."""
    from placet.cli.conversing import closing
    from placet.cli.signals import Stopping
    from placet.runtime.sync import run_sync
    from placet.tools.context import Cancel

    async def go() -> tuple[Value, int]:
        cancel = Cancel()

        try:
            with Stopping(
                cancel, lambda name: output.talk("Stopping. (Once more to leave at once.)")
            ) as stopping:
                return await work(cancel), stopping.by
        finally:
            close = closing(model)
            if close is not None:
                await close()

    with output.waiting(what):
        return run_sync(go())


def _chosen(agents: Any, names: Sequence[str]) -> list[AgentEntry]:
    from placet.errors import UsageError

    if names:
        return [agents.find(name) for name in dict.fromkeys(names)]
    entries = agents.entries()
    broken = [str(entry.error) for entry in entries if entry.error is not None]
    if broken:
        # Left out in silence, an agent that nobody can use would count as one that passed.
        raise UsageError("\n".join((*broken, "To try others all the same, name them.")))
    found = [entry for entry in entries if entry.spec.enabled and entry.spec.scenarios]
    if not found:
        raise UsageError("No enabled agent here has scenarios. See them with: placet agent list")
    return found


def _check_junit(path: str, inputs: Mapping[str, str | None]) -> None:
    """Refuse a file that cannot be written, is read, or holds something else than a report."""
    from pathlib import Path

    from placet.app.files import check_target, check_writable, unusable
    from placet.errors import InputError

    check_target(path, "--junit", inputs, instead="report.xml")
    check_writable(path)
    try:
        if not Path(path).is_file():
            return
        with open(path, "rb") as file:
            head = file.read(_LOOKED_AT)
    except (OSError, ValueError) as error:
        raise unusable("write the report", path, error) from None
    if head.strip() and b"<testsuite" not in head:
        raise InputError(
            f"--junit {path} would write over a file that is no JUnit report. Name another file, such as "
            "report.xml, or remove that one."
        )


def _write_junit(output: Output, reports: Sequence[Report], path: str) -> bool:
    from placet.agents.report import junit
    from placet.app.files import write_file
    from placet.errors import InputError

    try:
        write_file(path, output.redactor.text(junit(reports)))
    except InputError as error:
        # It could be written a moment ago. What ran has run, so its result is shown all the same.
        output.talk(f"Error: {error}")
        return False
    return True


def _show(output: Output, reports: Sequence[Report], as_json: bool) -> None:
    from rich.text import Text

    from placet.render.scenarios import report_lines

    if as_json:
        passed = all(report.all_passed for report in reports)
        output.show_json({"all_passed": passed, "agents": [report.as_json() for report in reports]})
        return
    for report in reports:
        output.show(*(Text(line) for line in report_lines(report.as_json())))
