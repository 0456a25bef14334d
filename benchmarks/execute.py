"""What an action costs on its way through the runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks import subjects
from benchmarks.measure import Measure
from benchmarks.peer import Times
from benchmarks.plans import SHAPES
from benchmarks.report import Floor, Section


async def run(sizes: Sequence[int], measure: Measure, say: Callable[[str], None]) -> tuple[Section, Times]:
    """The table, and the seconds per plan for comparing with others."""
    section = Section(
        "Execute: no-op tools, JSON text in, JSON text out, events kept in memory; CPU per action",
        ("shape", "actions", "assent us", "bare asyncio us", "ratio"),
    )
    times: Times = {}
    for shape in SHAPES:
        for size in sizes:
            say(f"execute: {shape} of {size:,}")
            await subjects.check(shape, size)
            ours, bare = await measure.best_of(subjects.execute(shape, size), subjects.bare(shape, size))
            times[shape, size] = ours
            section.rows.append([shape, size, ours / size * 1e6, bare / size * 1e6, ours / bare])
            _floors(section, shape, size, ours, bare)
        if (shape, 100) in times and (shape, 10_000) in times:
            flat = times[shape, 10_000] / 10_000 / (times[shape, 100] / 100)
            section.floors.append(Floor(f"execute {shape}: per action at 10,000 against 100", flat, 1.5))
    return section, times


def _floors(section: Section, shape: str, size: int, ours: float, bare: float) -> None:
    if size < 10:
        return
    if shape == "wide":
        section.floors.append(Floor(f"execute wide of {size:,} against bare gather", ours / bare, 2.5))
    else:
        section.floors.append(Floor(f"execute {shape} of {size:,}", ours / size * 1e6, 12, "us"))
