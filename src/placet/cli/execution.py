"""A plan being carried out, as `run` and `resume` show it: watched while it goes on, then told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from placet.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from placet.app.app import App
    from placet.ir.proposal import Proposal
    from placet.ir.result import ProposalResult
    from placet.render.history import History
    from placet.tools.context import Cancel
    from placet.verify.names import NameWarning

    Start = Callable[[Cancel], Awaitable[ProposalResult]]

_EXIT: dict[str, int] = {"succeeded": 0, "refused": 3, "waiting": 4}
_LINES = 150
LESS = {
    "none": "they could do more than work in the folder. See what is held: placet doctor",
    "changes": "their files are a copy, and nothing else was held. See: placet doctor",
}
"""What it means where commands had less than `process`."""
_FAULTS = 20
"""Of more faults than this, the rest are counted."""


class Told(NamedTuple):
    """What is shown beside the result."""

    title: str
    as_json: bool
    has_tools: bool
    log: str | None = None
    svg: str | None = None
    db: str | None = None
    """As the person named it."""
    waits: bool = False
    """Whether the run waits for what it asks, so that it has to be answered meanwhile."""
    only_output: bool = False
    """What the one action answered says it all."""
    warnings: Sequence[NameWarning] = ()
    """Names that mean nothing; on stderr they were told before the run."""


def carry_out(output: Output, app: App, proposal: Proposal, start: Start, told: Told) -> int:
    """Start a run, show how it goes and what came of it; returns the exit code."""
    from placet.app.files import write_file
    from placet.cli.wording import say_no_tools, say_no_tools_in_result
    from placet.errors import InputError
    from placet.ir.result import is_nonzero
    from placet.render.advice import advise
    from placet.render.history import History
    from placet.runtime.shown import shown_ids, shown_proposal, shown_result
    from placet.runtime.sync import run_sync

    output.redactor = app.redactor
    history = History()
    plan = shown_proposal(proposal, output.redactor)
    names = shown_ids((a.id for a in proposal.actions), output.redactor)
    history.plan(plan)
    layers = [[names[i] for i in layer] for layer in _layers(app, proposal)]
    reword = str if told.has_tools else say_no_tools
    result, stopped_by = run_sync(_watched(app, start, history, layers, told, output, reword))
    if history.events == 0:
        _recall(app, history, result.run_id)
    final = app.runtime.state.snapshot()
    if not told.has_tools:
        result = say_no_tools_in_result(result)
    result = shown_result(result, output.redactor)
    history.settle(result)
    code = 128 + stopped_by if stopped_by and not result.succeeded else exit_code(result.outcome)
    if told.only_output and code == 0 and any(is_nonzero(ended.exit_code) for ended in result.results):
        code = 1
    svg = told.svg
    if svg is not None:
        from placet.render.graph_svg import draw_graph

        try:
            write_file(svg, draw_graph(plan, result, title=told.title))
        except InputError as error:
            # It could be written a moment ago. What ran has run, so its result is shown all the same.
            output.talk(f"Error: {error}")
            svg, code = None, code or 2
    for failure in history.sink_failures:
        output.talk(f"Warning: not everything could be recorded: {failure}")
    if told.as_json:
        import msgspec

        shown: dict[str, Any] = {**msgspec.to_builtins(result), "state": final}
        shown["warnings"] = msgspec.to_builtins(told.warnings)
        if history.last is not None and history.last.restored is not None:
            shown["restored"] = output.redactor.value(dict(history.last.restored))
        output.show_json(shown)
        return code
    if told.only_output and result.results and result.outcome in ("succeeded", "aborted", "partial"):
        from placet.render.marks import NONZERO, mark
        from placet.render.text import exit_words
        from placet.runtime.observation import observe

        # Its secrets are out already: looking for them takes long where there is much to look at.
        seen = observe(result.results[0], run_id=result.run_id, spill=app.spill)
        output.write(seen if seen.endswith("\n") else f"{seen}\n")
        if is_nonzero(result.results[0].exit_code):
            look = mark(NONZERO)
            output.talk(f"{look.sign} {told.title}: {exit_words(result.results[0].exit_code)}")
        for advice in advise(history, db=told.db):
            if advice.is_urgent:
                command = f"\n     {advice.command}" if advice.command else ""
                output.talk(f"now: {advice.sentence}{command}")
        return code
    from placet.render.tree import draw_tree

    width = output.result_console().width
    output.show(draw_tree(history, layers, title=told.title, max_lines=_LINES, width=width))
    is_kept = app.records is not None
    output.show(*_summary(result, plan, history, told=told._replace(svg=svg), is_kept=is_kept))
    return code


def _recall(app: App, history: History, run_id: str) -> None:
    """Learn from the log of a run that had ended before: who approved what, and how often was tried."""
    from contextlib import suppress

    from placet.errors import StorageUnavailable

    if app.records is not None:
        with suppress(StorageUnavailable):  # A program may keep runs and no events.
            for event in app.records.events.scan(run=run_id):
                history.take(event)


def patience(wait: float | None) -> float | None:
    """How long to wait for people, from what --wait says: not at all without it."""
    return 0 if wait is None else None if wait == inf else wait


def exit_code(outcome: str) -> int:
    """The number that says how a run ended."""
    return _EXIT.get(outcome, 1)


def _layers(app: App, proposal: Proposal) -> list[list[str]]:
    """The layers as the runtime will see them, with what policies add; none if the plan will be refused."""
    from placet.ir.graph import Graph

    if len(app.runtime.policies):
        return [list(level) for level in app.runtime.verify(proposal).execution_levels]
    graph = Graph(proposal.actions)
    return [graph.ids(layer) for layer in graph.layers]


async def _watched(
    app: App,
    start: Start,
    history: History,
    layers: Sequence[Sequence[str]],
    told: Told,
    output: Output,
    reword: Callable[[str], str],
) -> tuple[ProposalResult, int]:
    """Run the plan while someone watches; the second value is the signal that stopped it, or 0."""
    from placet.cli.progress import watch
    from placet.cli.signals import Stopping
    from placet.render.advice import db_words
    from placet.tools.context import Cancel

    cancel = Cancel()

    def stop(name: str) -> None:
        output.talk("Stopping; what has not started will not start. (Once more to leave at once.)")

    place = db_words(told.db) if told.waits and app.records is not None else None
    view = watch(history, layers, told.title, output, reword, is_brief=told.only_output, place=place)
    app.runtime.events.add_sink(view)
    try:
        with Stopping(cancel, stop) as stopping:
            async with view:
                result = await start(cancel)
        return result, stopping.by
    finally:
        app.runtime.events.remove_sink(view)


def _summary(
    result: ProposalResult,
    proposal: Proposal,
    history: History,
    *,
    told: Told,
    is_kept: bool,
) -> Iterator[Text]:
    """What a person wants to know after the tree: how it ended, what it cost, what is left to do."""
    import shlex

    from rich.text import Text

    from placet.render.advice import advise, db_words
    from placet.render.history import why
    from placet.render.marks import outcome_mark
    from placet.render.text import count, duration, value
    from placet.safe_text import clean

    part = history.last
    look = outcome_mark((part.outcome_look if part is not None else None) or result.outcome)
    line = Text("\n")
    line.append(f"{look.sign} {look.word}", style=look.style)
    faults = _faults(proposal) if result.outcome == "refused" else []
    if len(faults) > 1:
        line.append(f": the plan has {count(len(faults), 'fault')}")
    else:
        line.append(f": {clean(why(result.error), 1000)}" if result.error else "")
    yield line
    if len(faults) > 1:
        for message in faults[:_FAULTS]:
            yield Text(f"  - {clean(message, 600)}")
        if len(faults) > _FAULTS:
            yield Text(f"  … and {len(faults) - _FAULTS:,} more")
    cost = result.cost
    facts = [count(cost.tool_calls, "tool call"), f"{duration(cost.total_duration_ms) or '0 ms'} of work"]
    facts += [count(cost.retries, "retry", "retries")] if cost.retries else []
    yield Text(f"  cost: {', '.join(facts)}")
    changes = {} if result.outcome == "aborted" else _changes(result)
    for key in list(changes)[:20]:
        yield Text(f"  state: {clean(key, 60)} = {value(changes[key])}")
    if len(changes) > 20:
        yield Text(f"  state: {count(len(changes) - 20, 'more key')} changed")
    if result.outcome == "aborted":
        yield Text("  state: as it was before the run")
    yield from _folder(history)
    yield from _less(history)
    for advice in advise(history, db=told.db):
        if advice.is_urgent:
            yield Text(f"  now: {advice.sentence}", style="bold yellow")
            if advice.command:
                yield Text(f"       {advice.command}")
    if told.svg is not None:
        yield Text(f"  picture: {clean(told.svg)}")
    if is_kept:
        named = f"{clean(shlex.quote(result.run_id))}{db_words(told.db)}"
        if result.outcome == "canceled":
            yield Text(f"  go on: placet resume {named}")
        yield Text(f"  story: placet explain {named}")
    elif told.log is not None:
        yield Text(f"  story: placet explain {clean(shlex.quote(told.log))}")
    elif not result.succeeded:
        yield Text("  story: run it with --log FILE.jsonl, then: placet explain FILE.jsonl")


def _folder(history: History) -> Iterator[Text]:
    """What became of the folder that the plan was bound to."""
    from rich.text import Text

    from placet.render.text import restored_words
    from placet.safe_text import clean

    said = history.last.restored if history.last is not None else None
    if said is not None:
        is_whole = not said.get("problems")
        words = f"  folder: {clean(said.get('folder'), 200)} was restored: {restored_words(said)}"
        yield Text(words, style="" if is_whole else "bold red")


def _less(history: History) -> Iterator[Text]:
    """Which actions ran commands that were kept in by less than all that there is."""
    from rich.text import Text

    from placet.render.text import listing

    steps = list(history.last.steps.values()) if history.last is not None else []
    for level, means in LESS.items():
        names = [step.id for step in steps if step.isolation == level]
        if names:
            yield Text(f"  isolation: {level} for the commands of {listing(names)}: {means}", style="yellow")


def _faults(proposal: Proposal) -> list[str]:
    from placet.ir.graph import Graph

    return [fault.message for fault in Graph(proposal.actions).faults]


def _changes(result: ProposalResult) -> dict[str, object]:
    return {key: new for ended in result.results for key, new in ended.state_changes.items()}
