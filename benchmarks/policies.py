"""What policies cost: rules about other tools, rules about this one, rules that look back, and marks."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.measure import Contender, Measure, Prepared
from benchmarks.plans import EFFECT, executions_per_runtime, plan
from benchmarks.report import Floor, Section
from benchmarks.subjects import make_runtime
from placet import (
    AllowToolParam,
    Calls,
    DenyKeyword,
    DenyTool,
    DenyToolParam,
    DenyToolParamMatching,
    FlowRule,
    MarkOutput,
    RequireState,
    Runtime,
    TraceRule,
)
from placet.ir.codec import encode
from placet.policy.case import Rule

SIZE = 1_000
SHAPE = "sequence"
MOST = 1.5
"""What 100 rules about other tools may cost, against none."""


def _mixed(tool: str, count: int) -> list[Rule]:
    """Rules of several kinds that let the benchmark's calls pass."""
    kinds: list[Callable[[int], Rule]] = [
        lambda i: DenyToolParam(tool=tool, param="i", equals=f"never-{i}"),
        lambda i: DenyToolParam(tool=tool, param="path", contains=f"/secret-{i}"),
        lambda i: (
            AllowToolParam(tool=tool, param="i", values=[], matching=None)
            if tool != EFFECT
            else DenyToolParam(tool=tool, param=f"p{i}", presence=True)
        ),
        lambda i: DenyToolParamMatching(tool=tool, param="command", pattern=rf"\bword{i}\b"),
        lambda i: DenyTool(tool=tool if tool != EFFECT else f"no-{i}"),
    ]
    return [kinds[i % len(kinds)](i) for i in range(count)]


def _others(count: int) -> list[Rule]:
    return [rule for i in range(count) for rule in _mixed(f"other{i}", 5)[i % 5 : i % 5 + 1]]


CASES: dict[str, Callable[[], list[Rule]]] = {
    "none": list,
    "10 about other tools": lambda: _others(10),
    "100 about other tools": lambda: _others(100),
    "1,000 about other tools": lambda: _others(1_000),
    "10 about this tool": lambda: _mixed(EFFECT, 10),
    "100 about this tool": lambda: _mixed(EFFECT, 100),
    "10 keywords, any action": lambda: [DenyKeyword(keyword=f"word{i}") for i in range(10)],
    "1 that reads state": lambda: [RequireState(tool=EFFECT, key="on")],
    "1 that looks back": lambda: [TraceRule(tool=EFFECT, only_before=Calls(tool="other"))],
    "100 that look back, at others": lambda: [
        TraceRule(tool=f"other{i}", only_before=Calls(tool="another")) for i in range(100)
    ],
    "marks and 1 flow rule": lambda: [
        MarkOutput(tool="other", marks=["untrusted"]),
        FlowRule(mark="untrusted"),
    ],
}


def _execute(case: str) -> Contender:
    text = plan(SHAPE, SIZE)

    async def prepare() -> Prepared:
        runtime: Runtime = make_runtime(state={"on": True}, policies=CASES[case]())
        await runtime.execute(plan(SHAPE, 1))

        async def run() -> bytes:
            return encode(await runtime.execute(text))

        return run

    return Contender(prepare, executions_per_runtime(SIZE))


async def run(measure: Measure, say: Callable[[str], None]) -> Section:
    for case in CASES:
        result = await make_runtime(state={"on": True}, policies=CASES[case]()).execute(plan(SHAPE, 3))
        if not result.succeeded:
            raise SystemExit(f"the plan does not pass '{case}': {result.error}")
    timings = await measure.all_of(
        [(SHAPE, SIZE)],
        lambda *_: [_execute(case) for case in CASES],
        lambda line: say(f"policies: {line}"),
    )
    section = Section(
        f"Policies: a sequence of {SIZE:,} calls, every rule lets them pass; CPU per action, JSON in and out",
        ("rules", "us", "against none", "machine"),
    )
    (timing,) = timings.values()
    none = timing.seconds[0]
    for case, seconds in zip(CASES, timing.seconds, strict=True):
        section.rows.append([case, seconds / SIZE * 1e6, seconds / none, timing.mark])
        if case.endswith("about other tools"):
            section.floors.append(Floor(f"policies: {case}", seconds / none, MOST, busy=timing.busy))
    return section
