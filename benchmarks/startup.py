"""What it costs to begin: importing, and the command's help."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.report import Floor, Section

RUNS = 5

TIMED = """
import time
began = time.process_time()
{code}
took = time.process_time() - began
try:
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM:"))
except OSError:
    peak = 0.0
print(took * 1000, peak)
"""


def _inside(code: str) -> tuple[float, float]:
    """Median CPU milliseconds of some code in a fresh interpreter, and the interpreter's peak megabytes."""
    outputs = [
        subprocess.run(
            [sys.executable, "-c", TIMED.format(code=code)], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(RUNS)
    ]
    return statistics.median(float(ms) for ms, _ in outputs), statistics.median(
        float(mb) for _, mb in outputs
    )


def _whole(command: Sequence[str]) -> float:
    """Median CPU milliseconds of a whole process."""
    times = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed: {done.stderr[-300:]}")
        times.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000)
    return statistics.median(times)


def run(say: Callable[[str], None]) -> Section:
    section = Section(f"Start: median of {RUNS} processes", ("what", "CPU ms", "MB"))
    say("start")
    bare = _whole([sys.executable, "-c", "pass"])
    section.rows.append(["python -c pass (whole process)", bare, None])

    imported = _inside("import placet")
    section.rows.append(["import placet (the import alone)", *imported])
    section.floors.append(Floor("import placet", imported[0], 100, "ms"))
    section.floors.append(Floor("import placet, whole process", imported[1], 35, "MB"))

    section.rows.append(["import placet; placet.Runtime()", *_inside("import placet; placet.Runtime()")])

    command = Path(sys.executable).with_name("placet")
    if command.exists():
        helped = _whole([str(command), "--help"])
        section.rows.append(["placet --help (whole process)", helped, None])
        section.floors.append(Floor("placet --help", helped, 200, "ms"))
    else:
        section.notes.append(f"skipped `placet --help`: no command beside {sys.executable}")
    return section
