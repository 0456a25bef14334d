"""Small defects, put into a copy of the code one at a time: each must turn a test red.

    make mutants            all of them
    make mutants ONLY=retry those whose name contains "retry"

A defect that no test notices is a hole in the tests; this prints a table and fails if there is one, or if a
defect no longer fits the code. Tests that do not come to their end in time say nothing about a defect; run
those again when the machine is idle.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.mutants.defects import DEFECTS, Defect  # noqa: E402

WORKERS = 2
LIMIT_S = 600
"""Of all tests of a defect. One that hangs is ended earlier by its own limit, and has failed."""


class Verdict(NamedTuple):
    defect: Defect
    outcome: str
    """caught, SURVIVED, or what else went wrong."""
    by: str
    seconds: float


def judge(defect: Defect) -> Verdict:
    """Put one defect into a fresh copy and run the tests that should notice."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="placet-mutant-") as folder:
        copy = Path(folder)
        # Attacks are run as another user, too.
        copy.chmod(0o755)
        for name in (
            "src",
            "tests",
            "examples",
            "docs",
            "pyproject.toml",
            "README.md",
            "Makefile",
            "CHANGELOG.md",
        ):
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy2(source, copy / name)
        target = copy / "src" / "placet" / defect.file
        text = target.read_text()
        if text.count(defect.old) != 1:
            return Verdict(defect, f"DOES NOT FIT ({text.count(defect.old)} places)", "", 0.0)
        target.write_text(text.replace(defect.old, defect.new))
        code, output = _pytest(copy, defect.tests)
    seconds = time.monotonic() - began
    if code is None:
        return Verdict(defect, "NO VERDICT", "ran out of time", seconds)
    if code == 1:
        return Verdict(defect, "caught", _first_failure(output), seconds)
    if code == 0:
        return Verdict(defect, "SURVIVED", "", seconds)
    return Verdict(defect, f"BROKE THE TESTS (exit {code})", output.strip().splitlines()[-1][:80], seconds)


def _pytest(copy: Path, tests: tuple[str, ...]) -> tuple[int | None, str]:
    """How pytest ended, None if it did not; and what it wrote."""
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout + done.stderr


def _first_failure(output: str) -> str:
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return found[1] if found else ""


def main() -> int:
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [d for d in DEFECTS if only in d.name]
    print(f"{len(chosen)} defects, each in a copy of its own")
    failed = 0
    with ThreadPoolExecutor(WORKERS) as pool:
        for verdict in pool.map(judge, chosen):
            failed += verdict.outcome != "caught"
            print(
                f"{verdict.defect.name:44} {verdict.outcome:10} {verdict.seconds:5.1f} s  {verdict.by}",
                flush=True,
            )
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
