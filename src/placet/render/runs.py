"""A list of runs, each with the runs that it started.

Keep true:
1. Ids are whole; texts are cleaned, and cut only on a terminal.
2. In a pipe a row begins with the id, with nothing but spaces before it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from rich.text import Text

from placet.render.columns import Column, draw_columns
from placet.render.marks import MARKS, NONZERO, Mark, outcome_mark
from placet.render.text import duration, moment, short_moment
from placet.safe_text import clean

Data = Mapping[str, Any]
"""A run as JSON, as `placet runs --json` prints it."""

_MOST_BELOW = 10
"""Sub-runs of one run that a terminal shows; of more, one fewer and how many are left."""
_WORDS = {"waiting": "waiting", "left": "idle chat", NONZERO: "nonzero exit"}
"""Shorter than what one run is told with: here they stand in a column, as `--status` names them."""


class Led(NamedTuple):
    """What a list says of a run that a model leads."""

    task: str
    is_left: bool = False
    """A conversation that waits for nothing but the next message."""
    kind: Literal["task", "chat", "agent", "code", "round", "turns"] | None = None
    """What leads it; None where only a program knows."""


class _Row(NamedTuple):
    run: Data
    depth: int
    is_last: bool = True
    """Whether no other run of the same parent follows."""
    left_out: int = 0
    """Instead of the run: how many more it started than are shown."""


def look_of(status: str) -> Mark:
    """The looks of a run's status."""
    return MARKS["executing"] if status == "running" else outcome_mark(status)


def draw_runs(
    found: Sequence[Data],
    led: Mapping[str, Led],
    *,
    width: int | None,
    with_folders: bool = False,
    now: float | None = None,
    db: str = "",
    is_whole: bool = False,
) -> Iterator[Text]:
    """The lines of a list of runs; `width` is that of a terminal, None for a pipe. `db` is how a command
    names the database. Where it `is_whole`, sub-runs are shown however many there are."""
    now = time.time() if now is None else now
    columns = [
        Column("run"),
        Column("status"),
        Column("begun (UTC)"),
        Column("took", from_width=90),
        Column("actions", right=True, from_width=110),
        *([Column("folder", from_width=140)] if with_folders else []),
        Column("source", is_text=True),
    ]
    rows = [
        _cells(row, led, width, now, db, with_folders=with_folders)
        for row in _rows(found, most=None if width is None or is_whole else _MOST_BELOW)
    ]
    return draw_columns(columns, rows, width)


def _rows(found: Sequence[Data], most: int | None) -> Iterator[_Row]:
    """Every run with how deep it stands, at most so many below one."""
    depths: dict[str, int] = {}
    below: dict[str, int] = {}
    for run in found:
        parent = run["parent"] or ""
        depths[run["run_id"]] = depths[parent] + 1 if parent in depths else 0
        below[parent] = below.get(parent, 0) + 1
    seen: dict[str, int] = {}
    hidden: set[str] = set()
    for run in found:
        parent = run["parent"] or ""
        seen[parent] = place = seen.get(parent, 0) + 1
        is_one_of_many = most is not None and parent in depths and below[parent] > most
        if parent in hidden or (is_one_of_many and place >= (most or 0)):
            hidden.add(run["run_id"])
            if place == most and parent not in hidden:
                yield _Row(run, depths[run["run_id"]], left_out=below[parent] - place + 1)
        else:
            yield _Row(run, depths[run["run_id"]], is_last=place == below[parent])


def _cells(
    row: _Row, led: Mapping[str, Led], width: int | None, now: float, db: str, *, with_folders: bool
) -> list[str | Text]:
    run = row.run
    indent = "  " * row.depth
    if row.depth and width is not None:
        indent = "  " * (row.depth - 1) + ("└ " if row.is_last else "├ ")
    if row.left_out:
        # In the first column, which is not cut: somebody copies it.
        said = f"{row.left_out:,} more: placet runs show {clean(run['parent'])}{db}"
        return [f"{indent}{said}", *[""] * (5 + with_folders)]
    about = led.get(run["run_id"])
    status = "left" if about is not None and about.is_left else run["status"]
    if status == "succeeded" and run.get("nonzero"):
        status = NONZERO
    look = look_of(status)
    task = clean(" ".join(about.task.split())) if about is not None else ""
    source = clean(run["source"])
    took = duration((run["ended"] - run["begun"]) * 1000) if run["ended"] is not None else ""
    return [
        f"{indent}{clean(run['run_id'])}",
        Text(f"{look.sign} {_WORDS.get(status, look.word)}", style=look.style),
        moment(run["begun"]).removesuffix(" UTC") if width is None else short_moment(run["begun"], now),
        took or ("-" if width is None else ""),
        # Of a run that a model leads it is not known beforehand what it comes to.
        f"{run['actions']:,}" if run["actions"] else "-",
        *([clean(run["folder"] or "-")] if with_folders else []),
        f"{source}: {task}" if task else source,
    ]
