"""What runs came to, as a table.

Keep true: what is not known is a question mark, never a 0; what is known in part says that there is more.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from placet.events.costs import Cost, Costs
from placet.render.columns import Column, draw_columns
from placet.render.text import duration
from placet.render.turns import money
from placet.safe_text import clean

UNKNOWN = "unknown"
"""In the place of a name that is not known."""
_HEADINGS = {"day": "day (UTC)"}


def draw_costs(found: Costs, *, width: int | None) -> Iterator[Text]:
    """A row for each group, and the total; `width` is that of a terminal, None for a pipe."""
    columns = [
        Column(_HEADINGS.get(found.by, found.by)),
        Column("runs", right=True),
        Column("calls", right=True),
        Column("work", right=True, from_width=100),
        Column("answers", right=True),
        Column("tokens in", right=True),
        Column("cached", right=True, from_width=100),
        Column("out", right=True),
        Column("cost", right=True),
    ]
    rows = [_cells(cost, clean(cost.name) if cost.name is not None else UNKNOWN) for cost in found.costs]
    return draw_columns(columns, [*rows, _cells(found.total, "total", "bold")], width)


def _cells(cost: Cost, name: str, style: str = "") -> list[str | Text]:
    calls = "-" if cost.tool_calls is None else f"{cost.tool_calls:,}"
    work = duration(cost.total_duration_ms) if cost.total_duration_ms else "-"
    cells = [
        name,
        f"{cost.runs:,}",
        calls,
        work,
        f"{cost.model_answers:,}",
        _known(_number(cost.input_tokens), cost.uncounted_answers, cost),
        "-" if not cost.cached_tokens else f"{cost.cached_tokens:,}",
        _known(_number(cost.output_tokens), cost.uncounted_answers, cost),
        _known(money(cost.cost_usd) if cost.cost_usd is not None else None, cost.unpriced_answers, cost),
    ]
    return [Text(cell, style=style) for cell in cells]


def _number(amount: int | None) -> str | None:
    return None if amount is None else f"{amount:,}"


def _known(shown: str | None, missing: int, cost: Cost) -> str:
    if shown is None:
        return "?" if cost.model_answers else "-"
    return f"{shown} + ?" if missing else shown
