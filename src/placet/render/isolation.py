"""What was lowered of the isolation that is required."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from placet.render.path_table import path_table

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS = {"folder": "folder", "level": "will do", "until": "until (UTC)", "because": "because"}


def lowering_table(lowerings: Sequence[Mapping[str, Any]], width: int | None) -> Iterator[RenderableType]:
    """Each folder with the level that will do there, until when, and why."""
    return path_table(lowerings, _COLUMNS, width)
