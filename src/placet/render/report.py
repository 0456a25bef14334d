"""What verify found, as lines for people."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from rich.text import Text

from placet.ir.action import Action
from placet.ir.graph import needs_order
from placet.render.marks import AWAITING, MARKS
from placet.render.text import count, count_actions, value
from placet.safe_text import clean
from placet.verify.report import Issue, Report

_SHOWN = 50
"""Of more than this, the rest are counted."""
_FAULTS_SHOWN = 20
"""The same for a plan that has no order at all: its faults mostly follow from each other."""
_NAMES_SHOWN = 60
_ASKS = "undecided: it needs an approval: "
"""How a finding begins that only a person can decide."""
_SEVERITY = {"error": ("✗ error", "bold red"), "warning": ("! warning", "yellow"), "info": ("i info", "cyan")}


def report_lines(
    report: Report, *, title: str = "", actions: int | None = None, in_a_row: Collection[int] = ()
) -> list[Text]:
    """The report: the answer first, then every finding, then what would happen.

    Args:
        actions: How many actions the plan has; a report on one that has no order does not tell.
        in_a_row: Positions of the layers whose actions run one at a time.
    """
    errors, warnings = (sum(1 for i in report.issues if i.severity == s) for s in ("error", "warning"))
    asks = len({i.action_id for i in report.issues if i.message.startswith(_ASKS)})
    undecided = sum(1 for i in report.issues if i.is_undecided and not i.message.startswith(_ASKS))
    head = Text()
    head.append(*(("✓ valid", "bold green") if report.valid else ("✗ invalid", "bold red")))
    total = len(report.execution_order) if actions is None else actions
    facts = [count_actions(total, len(report.execution_order))]
    if report.execution_levels or not total:
        facts.append(count(len(report.execution_levels), "layer"))
    facts += [count(n, noun) for n, noun in ((errors, "error"), (warnings, "warning")) if n]
    facts += [f"{undecided:,} undecided"] if undecided else []
    facts += [count(asks, "action needs an approval", "actions need an approval")] if asks else []
    head.append(f"  {clean(title, 60)}", style="bold" if title else "")
    head.append("  " + ", ".join(facts), style="dim")
    lines = [head]
    lines += _issues(report.issues, _SHOWN if report.execution_levels else _FAULTS_SHOWN)
    lines += _levels(report.execution_levels, in_a_row)
    lines += _order(report.execution_order)
    if report.conflicts:
        lines += [Text(), _heading("Kept in order because they use the same state key")]
        lines += [
            Text(f"  {clean(c.first, 60)} before {clean(c.then, 60)}: {clean(c.key, 60)} ({_how(c.kind)})")
            for c in report.conflicts[:_SHOWN]
        ]
        lines += _more(len(report.conflicts) - _SHOWN)
    if report.simulated_state:
        lines += [Text(), _heading("State afterwards, if all goes well")]
        items = list(report.simulated_state.items())
        lines += [Text(f"  {clean(key, 60)} = {value(new)}") for key, new in items[:_SHOWN]]
        lines += _more(len(items) - _SHOWN)
    return lines


def in_a_row(
    actions: Iterable[Action], levels: Sequence[Sequence[str]], is_read_only: Callable[[str], bool]
) -> set[int]:
    """Which layers run one action at a time."""
    by_id = {action.id: action for action in actions}
    return {n for n, level in enumerate(levels) if needs_order([by_id[name] for name in level], is_read_only)}


def _issues(issues: Sequence[Issue], shown: int) -> Iterator[Text]:
    rank = {"error": 0, "warning": 1, "info": 2}
    ranked = sorted(issues, key=lambda issue: rank.get(issue.severity, 3))
    if ranked:
        yield Text()
        yield _heading("Findings")
    for issue in ranked[:shown]:
        words, style = _SEVERITY.get(issue.severity, (clean(issue.severity, 20), ""))
        message = issue.message
        if message.startswith(_ASKS):
            look = MARKS[AWAITING]
            words, style = f"{look.sign} asks", look.style
            message = f"it needs an approval: {message.removeprefix(_ASKS)}"
        line = Text("  ")
        line.append(f"{words:<10}", style=style)
        if issue.action_id is not None:
            line.append(f"{clean(issue.action_id, 60)}: ", style="bold")
        line.append(clean(message, 600))
        if issue.tier not in ("decision_procedure", "proof"):
            line.append(f"  ({issue.tier})", style="dim")
        yield line
    yield from _more(len(ranked) - shown)


def _levels(levels: Sequence[Sequence[str]], in_a_row: Collection[int]) -> Iterator[Text]:
    if levels:
        yield Text()
        yield _heading("Layers")
    for number, level in enumerate(levels[:_SHOWN], start=1):
        names = ", ".join(clean(name, 40) for name in level[:12])
        more = f" and {len(level) - 12:,} more" if len(level) > 12 else ""
        line = Text(f"  {number:>3}. {names}{more}")
        line.append("  (one at a time)" if number - 1 in in_a_row else "", style="dim")
        yield line
    yield from _more(len(levels) - _SHOWN, "layer")


def _order(order: Sequence[str]) -> Iterator[Text]:
    if order:
        yield Text()
        yield _heading("Counts as run in this order")
        names = ", ".join(clean(name, 40) for name in order[:_NAMES_SHOWN])
        more = f" and {len(order) - _NAMES_SHOWN:,} more" if len(order) > _NAMES_SHOWN else ""
        yield Text(f"  {names}{more}")


def _more(number: int, noun: str = "") -> Iterator[Text]:
    if number > 0:
        yield Text(f"  … and {count(number, noun) if noun else f'{number:,}'} more", style="dim")


def _how(kind: str) -> str:
    return clean(kind.replace("_", ", then "), 40)


def _heading(words: str) -> Text:
    return Text(words, style="bold")
