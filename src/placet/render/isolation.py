"""What was lowered of the isolation that is required, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from placet.safe_text import clean

if TYPE_CHECKING:
    from rich.table import Table

_COLUMNS = {"folder": "folder", "level": "will do", "until": "until (UTC)", "because": "because"}


def lowering_table(lowerings: Sequence[Mapping[str, Any]]) -> Table:
    """Each folder with the level that will do there, until when, and why."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name, heading in _COLUMNS.items():
        table.add_column(heading, no_wrap=name in ("level", "until"), overflow="fold")
    for row in lowerings:
        table.add_row(*(Text(clean(row[name], 400)) for name in _COLUMNS))
    return table
