"""Lists in columns: whole in a pipe, fitted to a terminal.

Keep true:
1. The first column, which holds what the next command is given, is never cut.
2. Without a width nothing is cut, and the columns are the same whatever is listed.
3. With a width no line is wider, except for what rule 1 keeps whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.text import Text

from placet.safe_text import columns as columns_of
from placet.safe_text import shorten

_GAP = 2
_LEAST_TEXT = 24
"""Columns that the text has at least beside the others; with less it gets a line of its own."""
_INDENT = "  "


class Column(NamedTuple):
    """One column of a list."""

    heading: str
    right: bool = False
    from_width: int = 0
    """On narrower terminals it is left out."""
    is_text: bool = False
    """The last one: takes what is left, cut between words."""


def draw_columns(
    columns: Sequence[Column], rows: Sequence[Sequence[str | Text]], width: int | None
) -> Iterator[Text]:
    """The lines of a list; `width` is that of a terminal, None for a pipe or a file."""
    if width is not None:
        shown = [n for n, column in enumerate(columns) if column.from_width <= width]
        columns = [columns[n] for n in shown]
        rows = [[row[n] for n in shown] for row in rows]
    cells = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    heading = [Text(column.heading, style="dim") for column in columns]
    # A row that holds nothing but its first cell is a remark, which makes no column wider.
    full = [row for row in cells if any(cell.plain for cell in row[1:])]
    widths = [
        max(_size(row[n]) for row in [heading, *(full if n == 0 else cells)]) for n in range(len(columns))
    ]
    has_text = columns[-1].is_text
    below = False
    if width is not None:
        others = sum(widths[1 : len(widths) - has_text]) + _GAP * (len(widths) - 1 - has_text)
        room = width - others - ((_LEAST_TEXT + _GAP) if has_text else 0)
        if has_text and full and all(_size(row[0]) > room for row in full):
            room, below = width - others, True
            heading[-1] = Text()
        # What is longer than that stands on a line of its own, and the others keep their columns.
        fitting = [_size(row[0]) for row in [heading, *full] if _size(row[0]) <= room]
        widths[0] = max(fitting, default=_size(heading[0]))
        if has_text:
            widths[-1] = width - others - widths[0] - _GAP
    for row in [heading, *cells]:
        yield from _lines(columns, row, widths, width, has_text=has_text, below=below)


def _lines(
    columns: Sequence[Column],
    row: Sequence[Text],
    widths: Sequence[int],
    width: int | None,
    *,
    has_text: bool,
    below: bool,
) -> Iterator[Text]:
    cells = list(row)
    if width is not None and _size(cells[0]) > widths[0]:
        yield cells[0]
        cells[0] = Text()
        if not any(cell.plain for cell in cells):
            return
    under: Text | None = None
    if has_text and width is not None:
        text = cells.pop()
        room = width - len(_INDENT) if below else widths[-1]
        fitted = Text(shorten_words(text.plain, room), style=text.style)
        if below:
            under = fitted
        else:
            cells.append(fitted)
    line = Text()
    for n, cell in enumerate(cells):
        gap = " " * (widths[n] - _size(cell))
        if columns[n].right:
            line.append(gap)
            line.append_text(cell)
        else:
            line.append_text(cell)
            if n < len(cells) - 1:
                line.append(gap)
        if n < len(cells) - 1:
            line.append(" " * _GAP)
    line.rstrip()
    yield line
    if under is not None and under.plain:
        yield Text.assemble(_INDENT, under)


def shorten_words(text: str, width: int) -> str:
    """At most `width` columns of a text, cut between words where that leaves most of it.

    >>> shorten_words("mend the failing test", 14), shorten_words("a" * 30, 10)
    ('mend the…', 'aaaaaaaaa…')
    """
    if columns_of(text) <= width:
        return text
    cut = shorten(text, width)
    whole, space, _ = cut[:-1].rpartition(" ")
    # Where the text goes on with a space, the cut is between words already.
    if space and text[len(cut) - 1 : len(cut)] != " " and columns_of(whole) >= width // 2:
        return f"{whole.rstrip()}…"
    return cut


def _size(text: Text) -> int:
    return columns_of(text.plain)
