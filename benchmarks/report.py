"""Results as tables that are readable without colour, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

Cell = str | float | int | None


@dataclass(frozen=True, slots=True)
class Floor:
    """A figure we hold, and whether it held in this run."""

    what: str
    value: float
    limit: float
    unit: str = "x"
    at_least: bool = False
    busy: bool = False
    """Measured on a machine that had other work, so a figure above the floor proves nothing."""

    @property
    def held(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    @property
    def verdict(self) -> str:
        if self.held:
            return "held"
        return "busy" if self.busy else "BELOW" if self.at_least else "ABOVE"


@dataclass(slots=True)
class Section:
    """One table."""

    title: str
    columns: Sequence[str]
    rows: list[list[Cell]] = field(default_factory=list)
    floors: list[Floor] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def text(self) -> str:
        lines = [self.title, "-" * len(self.title), *_table(self.columns, self.rows)]
        lines += self.notes
        return "\n".join(lines) + "\n"


def floors_text(sections: Sequence[Section]) -> str:
    """Every floor of every section, held or not."""
    rows: list[list[Cell]] = [
        [
            floor.verdict,
            floor.what,
            f"{floor.value:.2f} {floor.unit}",
            f"{'>=' if floor.at_least else '<='} {floor.limit:g} {floor.unit}",
        ]
        for section in sections
        for floor in section.floors
    ]
    if not rows:
        return ""
    title = "Floors"
    return "\n".join([title, "-" * len(title), *_table(("", "figure", "measured", "floor"), rows)]) + "\n"


def to_json(sections: Sequence[Section], machine: dict[str, Any]) -> str:
    return json.dumps(
        {
            "machine": machine,
            "sections": [
                {
                    "title": section.title,
                    "rows": [dict(zip(section.columns, row, strict=True)) for row in section.rows],
                    "floors": [{**asdict(floor), "held": floor.held} for floor in section.floors],
                    "notes": section.notes,
                }
                for section in sections
            ],
        },
        indent=2,
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [
        max(len(name), *(len(row[i]) for row in cells)) if cells else len(name)
        for i, name in enumerate(columns)
    ]
    right = [all(_is_number(row[i]) for row in rows) and bool(rows) for i in range(len(columns))]

    def line(values: Sequence[str]) -> str:
        padded = (v.rjust(w) if r else v.ljust(w) for v, w, r in zip(values, widths, right, strict=True))
        return "  ".join(padded).rstrip()

    return [line(columns), line(["-" * width for width in widths]), *(line(row) for row in cells)]


def _is_number(value: Cell) -> bool:
    return value is None or isinstance(value, int | float)


def _cell(value: Cell) -> str:
    match value:
        case None:
            return "-"
        case float():
            return f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"
        case int():
            return f"{value:,}"
        case _:
            return value
