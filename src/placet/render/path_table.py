"""Folders with what is known of each: a table where that fits, a few lines for each where it does not.

Keep true: a path is never broken, however narrow the terminal is; it is there to be copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from placet.safe_text import clean, columns

if TYPE_CHECKING:
    from rich.console import RenderableType

_GAP = 2
"""Columns between two columns."""


def path_table(
    rows: Sequence[Mapping[str, Any]], headings: Mapping[str, str], width: int | None
) -> Iterator[RenderableType]:
    """What `headings` names of each row; the first of them is the path. `width` is that of the terminal."""
    from rich.table import Table
    from rich.text import Text

    path, *others = headings
    cells = [{name: clean(row[name], 400) for name in headings} for row in rows]
    sizes = [
        max(columns(each) for each in [title, *(cell[name] for cell in cells)])
        for name, title in headings.items()
    ]
    if width is None or sum(sizes) + _GAP * (len(sizes) - 1) <= width:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for title in headings.values():
            table.add_column(title, no_wrap=True)
        for cell in cells:
            table.add_row(*(Text(cell[name]) for name in headings))
        yield table
        return
    for cell in cells:
        yield Text(cell[path], style="bold")
        for name in others:
            yield Text.assemble((f"  {headings[name]}: ", "dim"), cell[name])
