"""What an action costs on its way through the runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks import subjects
from benchmarks.measure import Measure, Side, Timing
from benchmarks.peer import Peer, PeerUnavailable, compare
from benchmarks.plans import SHAPES
from benchmarks.report import Floor, Section

Timings = dict[tuple[str, int], Timing]


async def run(
    sizes: Sequence[int], measure: Measure, say: Callable[[str], None], *, with_peer: bool
) -> list[Section]:
    """Against bare asyncio and, if asked for, against the peer, all in the same turns."""
    cases = [(shape, size) for shape in SHAPES for size in sizes]
    for case in cases:
        await subjects.check(*case)
    if not with_peer:
        return [_table(await measure.all_of(cases, _sides, say))]
    try:
        with Peer(say) as peer:
            timings = await measure.all_of(cases, lambda *c: [*_sides(*c), peer.execute(*c)], say)
        return [_table(timings), compare(timings)]
    except PeerUnavailable as error:
        missing = Section("Against the peer", ("",), notes=[f"skipped: {error}"])
        return [_table(await measure.all_of(cases, _sides, say)), missing]


def _sides(shape: str, size: int) -> list[Side]:
    return [subjects.execute(shape, size), subjects.bare(shape, size)]


def _table(timings: Timings) -> Section:
    section = Section(
        "Execute: no-op tools, JSON text in, JSON text out, events kept in memory; CPU per action",
        ("shape", "actions", "placet us", "bare asyncio us", "ratio", "machine"),
    )
    for (shape, size), timing in timings.items():
        ours, bare, *_ = timing.seconds
        section.rows.append([shape, size, ours / size * 1e6, bare / size * 1e6, ours / bare, timing.mark])
        section.floors += _floors(shape, size, timing)
    section.floors += flatness("execute", timings, 1.5)
    section.notes += [
        "Best of several turns at full machine speed; each runtime (the peer's too) has run one action.",
        "Plans under 1,000 actions are repeated until 1,000 have run: a lone plan of them costs more.",
    ]
    return section


def _floors(shape: str, size: int, timing: Timing) -> list[Floor]:
    ours, bare, *_ = timing.seconds
    if size < 10 or shape == "state chain":
        return []
    if shape == "wide":
        return [Floor(f"execute wide of {size:,} against bare gather", ours / bare, 2.5, busy=timing.busy)]
    return [Floor(f"execute {shape} of {size:,}", ours / size * 1e6, 12, "us", busy=timing.busy)]


def flatness(what: str, timings: Timings, limit: float) -> list[Floor]:
    """Per shape, the cost per action of a large plan against that of a middling one."""
    found = []
    for shape in SHAPES:
        small, large = timings.get((shape, 100)), timings.get((shape, 10_000))
        if small and large:
            ratio = large.seconds[0] / 10_000 / (small.seconds[0] / 100)
            title = f"{what} {shape}: per action at 10,000 against 100"
            found.append(Floor(title, ratio, limit, busy=small.busy or large.busy))
    return found
