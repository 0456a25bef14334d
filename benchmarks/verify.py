"""What checking a plan costs against reading it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assent.ir.codec import decode_proposal
from benchmarks.measure import Contender, Measure, Prepared
from benchmarks.plans import SHAPES, executions_per_runtime, plan
from benchmarks.report import Floor, Section
from benchmarks.subjects import make_runtime


def _decode(shape: str, size: int) -> Contender:
    text = plan(shape, size)

    def prepare() -> Prepared:
        async def run() -> object:
            return decode_proposal(text)

        return run

    return Contender(prepare, executions_per_runtime(size))


def _verify(shape: str, size: int) -> Contender:
    """Every check, with the runtime's tools and state; a plan decoded anew for each timing."""
    text = plan(shape, size)

    def prepare() -> Prepared:
        runtime = make_runtime()
        fresh = iter([decode_proposal(text) for _ in range(executions_per_runtime(size))])

        async def run() -> object:
            return runtime.verify(next(fresh))

        return run

    return Contender(prepare, executions_per_runtime(size))


async def run(sizes: Sequence[int], measure: Measure, say: Callable[[str], None]) -> Section:
    section = Section(
        "Verify: every check, against the strict decoding of the same plan; CPU per action",
        ("shape", "actions", "verify us", "decode us", "ratio"),
    )
    per_action: dict[tuple[str, int], float] = {}
    for shape in SHAPES:
        for size in sizes:
            say(f"verify: {shape} of {size:,}")
            report = make_runtime().verify(decode_proposal(plan(shape, size)))
            if not report.valid:
                raise SystemExit(f"{shape} of {size} is not valid: {report.issues[:3]}")
            ours, decode = await measure.best_of(_verify(shape, size), _decode(shape, size))
            per_action[shape, size] = ours / size
            section.rows.append([shape, size, ours / size * 1e6, decode / size * 1e6, ours / decode])
            if size >= 10:
                section.floors.append(Floor(f"verify {shape} of {size:,} against decoding", ours / decode, 3))
        if (shape, 100) in per_action and (shape, 10_000) in per_action:
            flat = per_action[shape, 10_000] / per_action[shape, 100]
            section.floors.append(Floor(f"verify {shape}: per action at 10,000 against 100", flat, 1.3))
    return section
