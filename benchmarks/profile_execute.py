"""Where the time of an action goes: `python -m benchmarks.profile_execute [--shape S] [--size N] [--top K]`.

Decoding, the graph and encoding are timed alone, undisturbed. What remains of an execution is shared out by a
profile: every function's own time, and that of the C functions it calls, counts for the stage of its file. A
profile makes Python calls dearer than C, so the shares are an indication; the sum they are shares of is not.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import placet
from benchmarks.measure import THOROUGH, Contender, Measure, Prepared
from benchmarks.plans import SHAPES, plan
from benchmarks.report import Cell, Section
from benchmarks.subjects import make_runtime, warm_runtime
from placet.ir.codec import decode_proposal, encode
from placet.ir.graph import Graph

SOURCE = Path(placet.__file__).resolve().parent

STAGES = {
    "ir": "decode",
    "ir/graph.py": "graph",
    "ir/proposal.py": "run: set-up and close",
    "ir/references.py": "gates",
    "ir/result.py": "result",
    "events": "events",
    "policy": "gates",
    "runtime": "admission and attempts",
    "runtime/at_work.py": "run: set-up and close",
    "runtime/calls.py": "call",
    "runtime/guards": "gates",
    "runtime/ledger.py": "result",
    "runtime/run.py": "run: set-up and close",
    "runtime/run_info.py": "run: set-up and close",
    "runtime/runtime.py": "run: set-up and close",
    "runtime/schedule.py": "schedule",
    "runtime/sessions.py": "run: set-up and close",
    "runtime/workers.py": "call",
    "state": "state",
    "tools": "call",
    "validator.py": "gates",
    "verify": "gates",
}
"""Longest match wins. The tools themselves count as `call`, asyncio as its own stage."""

ROUNDS = 20
"""Profiles added up, so that the collector and other processes fall on everyone alike."""

Function = tuple[str, int, str]


def stage(file: str) -> str:
    path = Path(file)
    if "benchmarks" in path.parts:
        return "call"
    if "asyncio" in path.parts:
        return "asyncio"
    if not path.is_relative_to(SOURCE):
        return "standard library"
    inside = path.relative_to(SOURCE).as_posix()
    fitting = [name for name in STAGES if inside == name or inside.startswith(f"{name}/")]
    return STAGES[max(fitting, key=len)] if fitting else "other"


def own_times(stats: pstats.Stats) -> Counter[Function]:
    """Own time by Python function; a C function's time is its caller's."""
    times: Counter[Function] = Counter()
    everything: dict[Function, tuple[int, int, float, float, dict[Function, tuple[int, int, float, float]]]]
    everything = stats.stats  # type: ignore[attr-defined]
    for function, (_, _, own, _, callers) in everything.items():
        if function[0] != "~" or not callers:
            times[function] += own
            continue
        for caller, (_, _, of_caller, _) in callers.items():
            times[caller] += of_caller
    return times


def alone(work: Callable[[], object], repeat: int) -> Contender:
    async def run() -> object:
        return work()

    async def prepare() -> Prepared:
        return run

    return Contender(prepare, repeat)


async def profile(shape: str, size: int, top: int) -> list[Section]:
    text = plan(shape, size)
    proposal = decode_proposal(text)
    repeat = max(1, 1_000 // size)
    result = await make_runtime().execute(text)

    async def prepare() -> Prepared:
        runtime = await warm_runtime(shape)
        fresh = iter([decode_proposal(text) for _ in range(repeat)])

        async def run() -> object:
            return await runtime.execute(next(fresh))

        return run

    timing = await Measure(THOROUGH).in_turns(
        Contender(prepare, repeat),
        alone(lambda: decode_proposal(text), repeat),
        alone(lambda: Graph(proposal.actions), repeat),
        alone(lambda: encode(result), repeat),
    )
    whole_run, decode, graph, out = timing.seconds
    rest = whole_run - graph

    times = await _profiled(prepare, repeat)
    stages: Counter[str] = Counter()
    for function, seconds in times.items():
        stages[stage(function[0])] += seconds
    for known in ("decode", "graph"):
        stages.pop(known, None)
    within = sum(stages.values())

    def row(name: str, seconds: float, how: str) -> list[Cell]:
        return [name, seconds / size * 1e6, f"{seconds / (decode + whole_run + out):.0%}", how]

    table = Section(
        f"{shape} of {size:,}: CPU per action{', on a busy machine' if timing.busy else ''}",
        ("stage", "us", "share", "how"),
    )
    table.rows.append(row("decode", decode, "timed alone"))
    table.rows.append(row("graph", graph, "timed alone"))
    table.rows += [row(name, rest * own / within, "by profile") for name, own in stages.most_common()]
    table.rows.append(row("encode", out, "timed alone"))
    table.rows.append(row("sum", decode + whole_run + out, ""))

    functions = Section(f"The {top} functions with most own time", ("function", "stage", "share of the run"))
    total = sum(times.values())
    for (file, line, name), own in times.most_common(top):
        where = Path(file)
        short = where.relative_to(SOURCE).as_posix() if where.is_relative_to(SOURCE) else where.name
        functions.rows.append([f"{short}:{line} {name}", stage(file), f"{own / total:.1%}"])
    return [table, functions]


async def _profiled(prepare: Callable[[], Awaitable[Prepared]], repeat: int) -> Counter[Function]:
    profiler = cProfile.Profile()
    for _ in range(ROUNDS):
        run = await prepare()
        profiler.enable()
        for _ in range(repeat):
            await run()
        profiler.disable()
    return own_times(pstats.Stats(profiler))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile_execute", description=__doc__)
    parser.add_argument(
        "--shape", choices=SHAPES, action="append", help="again for more; sequence if not given"
    )
    parser.add_argument("--size", type=int, default=1_000)
    parser.add_argument("--top", type=int, default=15)
    options = parser.parse_args()
    for shape in options.shape or ["sequence"]:
        for section in asyncio.run(profile(shape, options.size, options.top)):
            print(section.text())


if __name__ == "__main__":
    main()
