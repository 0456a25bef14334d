"""`python -m benchmarks [SECTION ...] [--quick] [--json]`: every figure as a ratio, in one run."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
from pathlib import Path

from benchmarks import (
    barrier,
    durable,
    execute,
    inference,
    isolation,
    lifetime,
    memory,
    policies,
    scale,
    startup,
    tools,
    turns,
    verify,
    workflows,
)
from benchmarks.measure import QUICK, THOROUGH, Measure
from benchmarks.plans import SIZES
from benchmarks.report import Section, floors_text, to_json

SECTIONS = (
    "execute",
    "peer",
    "verify",
    "life",
    "start",
    "workflows",
    "barrier",
    "durable",
    "policies",
    "tools",
    "isolation",
    "inference",
    "turns",
    "memory",
    "scale",
)


def say(line: str) -> None:
    """Progress, on stderr, so that stdout holds the result and nothing else."""
    if sys.stderr.isatty():
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
    else:
        print(line, file=sys.stderr, flush=True)


async def measure(options: argparse.Namespace) -> list[Section]:
    wanted = options.sections or SECTIONS
    effort = QUICK if options.quick else THOROUGH
    clock = Measure(effort)
    sizes = [size for size in SIZES if size <= options.max_size]
    sections: list[Section] = []

    if "execute" in wanted or "peer" in wanted:
        sections += await execute.run(sizes, clock, say, with_peer="peer" in wanted)
    if "verify" in wanted:
        sections.append(await verify.run(sizes, clock, say))
    if "life" in wanted:
        sections.append(lifetime.run(say))
    if "start" in wanted:
        sections.append(startup.run(say))
    if "workflows" in wanted:
        sections.append(await workflows.run(options.workflows, say))
    if "barrier" in wanted:
        sections.append(await barrier.run(say))
    if "durable" in wanted:
        sections += await durable.run(say, quick=options.quick)
    if "scale" in wanted:
        sections += await asyncio.to_thread(scale.run, say, quick=options.quick)
    if "policies" in wanted:
        sections.append(await policies.run(clock, say))
    if "tools" in wanted:
        sections.append(await tools.run(say, quick=options.quick))
    if "isolation" in wanted:
        sections.append(await isolation.run(say, quick=options.quick))
    if "inference" in wanted:
        sections += await inference.run(clock, say, quick=options.quick)
    if "turns" in wanted:
        sections.append(await turns.run(clock, say, quick=options.quick))
    if "memory" in wanted:
        sections.append(await memory.run(say, quick=options.quick))
    return sections


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"any of: {', '.join(SECTIONS)} (all)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--max-size", type=int, default=SIZES[-1], help="leave out larger plans")
    parser.add_argument("--workflows", type=Path, default=workflows.FOLDER, help="folder of workflow graphs")
    options = parser.parse_args()
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")

    load_before = os.getloadavg()[0]
    sections = asyncio.run(measure(options))
    machine = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "load_before": round(load_before, 2),
    }
    if sys.stderr.isatty():
        say("")
    if options.json:
        print(to_json(sections, machine))
        return
    print(", ".join(f"{key} {value}" for key, value in machine.items()), end="\n\n")
    for section in sections:
        print(section.text())
    print(floors_text(sections), end="")
    if any("busy" in row for section in sections for row in section.rows):
        print(
            "\nbusy: the machine was never at full speed while this was measured, so the figure is too high."
        )


if __name__ == "__main__":
    main()
