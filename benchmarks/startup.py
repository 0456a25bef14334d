"""What it costs to begin: importing, and the command's help."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.report import Floor, Section

RUNS = 5

TIMED = """
import sys, time
began = time.process_time()
{code}
took = time.process_time() - began
try:
    import resource
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
except ImportError:
    size = 0.0
print(took * 1000, size)
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


def _whole(command: Sequence[str]) -> tuple[float, float]:
    """Median CPU milliseconds and peak megabytes of a whole process."""
    times, sizes = [], []
    for _ in range(RUNS):
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        _, status, usage = os.wait4(child.pid, 0)
        assert child.stderr is not None
        complaint = child.stderr.read().decode()
        child.stderr.close()
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise SystemExit(f"{' '.join(command)} failed: {complaint[-300:]}")
        times.append((usage.ru_utime + usage.ru_stime) * 1000)
        sizes.append(usage.ru_maxrss / 1024)
    return statistics.median(times), statistics.median(sizes)


def run(say: Callable[[str], None]) -> Section:
    section = Section(f"Start: median of {RUNS} processes", ("what", "CPU ms", "MB"))
    say("start")
    bare = _whole([sys.executable, "-c", "pass"])
    section.rows.append(["python -c pass (whole process)", *bare])

    imported = _inside("import assent")
    section.rows.append(["import assent (the import alone)", *imported])
    section.floors.append(Floor("import assent", imported[0], 100, "ms"))
    section.floors.append(Floor("import assent, whole process", imported[1], 35, "MB"))

    section.rows.append(["import assent; assent.Runtime()", *_inside("import assent; assent.Runtime()")])

    command = Path(sys.executable).with_name("assent")
    if command.exists():
        helped = _whole([str(command), "--help"])
        section.rows.append(["assent --help (whole process)", *helped])
        section.floors.append(Floor("assent --help", helped[0], 200, "ms"))
    else:
        section.notes.append(f"skipped `assent --help`: no command beside {sys.executable}")
    return section
