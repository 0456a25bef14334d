"""Kills a run with SIGKILL, twice, and goes on with it: `python examples/durable/demo.py`.

First it dies right before the card is charged, then right after. From inside both look the same, so Placet
asks; this script plays the person who looks outside and decides. It exits with 0 only if the card was charged
once per order and the log is whole.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent


def near(path: Path) -> str:
    """A path as one would type it from here."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


class Shop:
    """The commands that a person would type, and the world that they change."""

    def __init__(self, folder: Path) -> None:
        self.world = folder / "world.txt"
        self.database = folder / "runs.db"
        self._environment = {
            **os.environ,
            "PLACET_DB": str(self.database),
            "XDG_DATA_HOME": str(folder / "share"),
            "DURABLE_WORLD": str(self.world),
        }

    def placet(self, *arguments: str, kill: str = "") -> int:
        """Run one command on this very terminal; `kill` is the instant at which its process dies."""
        shown = shlex.join(os.path.relpath(a) if a.startswith(str(HERE)) else a for a in arguments)
        print(f"\n$ placet {shown}", flush=True)
        done = subprocess.run(
            [sys.executable, "-m", "placet.cli.main", *arguments],
            env={**self._environment, "DURABLE_KILL": kill},
            check=False,
        )
        if done.returncode == -signal.SIGKILL:
            print("Killed", flush=True)
        return done.returncode

    def effects(self, run: str) -> list[str]:
        """What the world has seen of a run's charge."""
        lines = self.world.read_text(encoding="utf-8").splitlines() if self.world.exists() else []
        return [line for line in lines if f"({run}-" in line]

    def order(self, run: str, kill: str) -> list[tuple[str, bool]]:
        """Run the plan, kill it, look outside, decide, resume; says what held."""
        plan, tools = str(HERE / "plan.json"), str(HERE / "tools.py")
        killed = self.placet("run", plan, "--tools", tools, "--run-id", run, kill=kill)
        asked = self.placet("resume", run)

        found = self.effects(run)
        seen, so = (found[0], "done") if found else ("no charge", "to retry")
        say(f"Looking outside: {seen}. So it is {so}.")
        decision = 'pay=done:"receipt-1"' if found else "pay=retry"
        through = self.placet("resume", run, "--decide", decision)

        return [
            (f"{run}: the process was killed {kill} the charge", killed == -signal.SIGKILL),
            (f"{run}: it asked, and did not guess (exit code 4)", asked == 4),
            (f"{run}: it went through after the decision", through == 0),
            (f"{run}: the card was charged once", len(self.effects(run)) == 1),
        ]


def say(text: str) -> None:
    """A paragraph between two commands."""
    print(f"\n== {text}", flush=True)


def main() -> int:
    """Show everything, then say whether it was as intended."""
    with TemporaryDirectory() as folder:
        shop = Shop(Path(folder))
        print(
            f"$ export PLACET_DB={shlex.quote(near(shop.database))}  # Removed when this demo ends.",
            flush=True,
        )
        say("An order is run, and its process killed right before the card is charged.")
        checks = shop.order("order-1", "before")

        say("Another one, killed right after the charge, before anybody was told.")
        checks += shop.order("order-2", "after")

        say("What became of them, and whether anybody changed the log:")
        shop.placet("runs")
        shop.placet("explain", "order-2")
        checks.append(("nobody changed the log", shop.placet("log", "verify") == 0))

        say("What the world has seen:")
        print(shop.world.read_text(encoding="utf-8"), end="", flush=True)
    return report(checks)


def report(checks: Sequence[tuple[str, bool]]) -> int:
    """Say what held; the exit code is 0 if everything did."""
    say("Was it as intended?")
    for words, holds in checks:
        print(f"  {'✓' if holds else '✗'} {words}")
    return 0 if all(holds for _, holds in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
