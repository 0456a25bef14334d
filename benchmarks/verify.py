"""What checking a plan costs against reading it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.execute import flatness
from benchmarks.measure import Contender, Measure, Prepared
from benchmarks.plans import SHAPES, executions_per_runtime, plan
from benchmarks.report import Floor, Section
from benchmarks.subjects import make_runtime, warm_runtime
from placet.ir.codec import decode_proposal


def _decode(shape: str, size: int) -> Contender:
    text = plan(shape, size)

    async def prepare() -> Prepared:
        async def run() -> object:
            return decode_proposal(text)

        return run

    return Contender(prepare, executions_per_runtime(size))


def _verify(shape: str, size: int) -> Contender:
    """Every check, with the runtime's tools and state; a plan decoded anew for each timing."""
    text = plan(shape, size)

    async def prepare() -> Prepared:
        runtime = await warm_runtime(shape)
        fresh = iter([decode_proposal(text) for _ in range(executions_per_runtime(size))])

        async def run() -> object:
            return runtime.verify(next(fresh))

        return run

    return Contender(prepare, executions_per_runtime(size))


async def run(sizes: Sequence[int], measure: Measure, say: Callable[[str], None]) -> Section:
    cases = [(shape, size) for shape in SHAPES for size in sizes]
    for shape, size in cases:
        report = make_runtime().verify(plan(shape, size))
        if not report.valid:
            raise SystemExit(f"{shape} of {size} is not valid: {report.issues[:3]}")
    timings = await measure.all_of(
        cases, lambda *c: [_verify(*c), _decode(*c)], lambda line: say(f"verify: {line}")
    )
    section = Section(
        "Verify: every check, against the strict decoding of the same plan; CPU per action",
        ("shape", "actions", "verify us", "decode us", "ratio", "machine"),
    )
    for (shape, size), timing in timings.items():
        ours, decode = timing.seconds
        section.rows.append([shape, size, ours / size * 1e6, decode / size * 1e6, ours / decode, timing.mark])
        if size >= 10:
            what = f"verify {shape} of {size:,} against decoding"
            section.floors.append(Floor(what, ours / decode, 3, busy=timing.busy))
    section.floors += flatness("verify", timings, 1.3)
    return section
