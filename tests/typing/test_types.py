"""What a type checker sees is what is promised, in strict mode."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

WRONG = """
from dataclasses import dataclass
from placet import Assistant, Runtime, Reply, Approval
from placet.inference import Scripted

@dataclass
class Plain:
    legs: int

Assistant(Runtime(), Scripted([]), output_type=Plain).run_sync("x").output.wings
Assistant(Runtime(), Scripted([])).run_sync("x").output.legs
def wrong(approval: int) -> Reply: return Reply("once")
Runtime(person=wrong)
"""


def mypy(path: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout


def test_programs_have_the_types_that_they_assert() -> None:
    code, output = mypy(HERE / "programs.py")

    assert code == 0, output


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    """Otherwise everything could be `Any`."""
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)

    _, output = mypy(path)

    lines = [int(line.split(":")[1]) for line in output.splitlines() if ": error:" in line]
    assert lines == [10, 11, 13], output
