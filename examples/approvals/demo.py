"""Rules, a person and a SIGKILL: `python examples/approvals/demo.py`.

A plan that mails to an address which it read on a page is stopped, and told why; with an address of ours it
runs. Then a release waits for a person, its process is killed meanwhile, the person approves from elsewhere,
and the run goes on. It exits with 0 only if all of this was so, and the release happened once.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent
INPUTS = ("--tools", str(HERE / "tools.py"), "--policies", str(HERE / "policies.toml"))
LONGEST_S = 30.0


class Office:
    """The commands that people would type, and the world that they change."""

    def __init__(self, folder: Path) -> None:
        self._world = folder / "world.txt"
        self._environment = {
            **os.environ,
            "PLACET_DB": str(folder / "runs.db"),
            "XDG_DATA_HOME": str(folder / "share"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "APPROVALS_WORLD": str(self._world),
        }

    def placet(self, *arguments: str) -> int:
        """Run one command on this very terminal."""
        return self._start(arguments).wait()

    def _start(self, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        shown = shlex.join(os.path.relpath(a) if a.startswith(str(HERE)) else a for a in arguments)
        print(f"\n$ placet {shown}", flush=True)
        return subprocess.Popen([sys.executable, "-m", "placet.cli.main", *arguments], env=self._environment)

    def kill_while_it_waits(self, *arguments: str) -> tuple[str, int]:
        """Run a command until it waits for a person, then kill it; says what it asks, and how it ended."""
        process = self._start(arguments)
        end = time.monotonic() + LONGEST_S
        while not (asked := self._asked()) and process.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        process.kill()
        code = process.wait()
        print("Killed" if code == -signal.SIGKILL else f"Exit code {code}", flush=True)
        return asked, code

    def _asked(self) -> str:
        command = [sys.executable, "-m", "placet.cli.main", "approvals", "list", "--json"]
        done = subprocess.run(command, env=self._environment, capture_output=True, check=False)
        # Exit code 2: the run has not made its database yet.
        found = json.loads(done.stdout)["approvals"] if done.returncode == 0 else []
        return found[0]["id"] if found else ""

    def effects(self) -> list[str]:
        """What the world has seen."""
        return self._world.read_text(encoding="utf-8").splitlines() if self._world.exists() else []


def say(text: str) -> None:
    """A paragraph between two commands."""
    print(f"\n== {text}", flush=True)


def plan(name: str) -> str:
    """A plan that lies beside this script."""
    return str(HERE / name)


def main() -> int:
    """Show everything, then say whether it was as intended."""
    with TemporaryDirectory() as folder:
        office = Office(Path(folder))

        say("A plan reads a page, and mails to an address that it found there.")
        stopped = office.placet("run", plan("mail.json"), *INPUTS, "--run-id", "mail")
        silent = not office.effects()
        office.placet("policy", "explain", plan("mail.json"), *INPUTS)

        say("The same plan, with an address that a person chose.")
        mailed = office.placet("run", plan("safe-mail.json"), *INPUTS)
        mails = office.effects()

        say("A release needs a person. Its process waits, and is killed with SIGKILL.")
        release = ("run", plan("plan.json"), *INPUTS, "--run-id", "release", "--wait")
        asked, killed = office.kill_while_it_waits(*release)
        untouched = office.effects() == mails

        say("From another process the person looks at it, and approves it.")
        office.placet("approvals", "show", asked)
        approved = office.placet("approvals", "approve", asked, "--by", "ann")
        still = office.effects() == mails
        resumed = office.placet("resume", "release")
        office.placet("explain", "release")
        again = office.placet("resume", "release")

        say("What the world has seen:")
        print("\n".join(office.effects()), flush=True)
        return report(
            [
                ("the page did not choose who gets a mail", stopped == 1 and silent),
                ("our own address did", mailed == 0 and mails == ["mail to ann@example.org: About: Prices"]),
                ("the release waited, and was killed", killed == -signal.SIGKILL and untouched),
                ("the answer was recorded, and did nothing by itself", approved == 0 and still),
                ("the resumed run went through", resumed == 0 and again == 0),
                ("it was deployed once", office.effects().count("deployed 2.1") == 1),
            ]
        )


def report(checks: Sequence[tuple[str, bool]]) -> int:
    """Say what held; the exit code is 0 if everything did."""
    say("Was it as intended?")
    for words, holds in checks:
        print(f"  {'✓' if holds else '✗'} {words}")
    return 0 if all(holds for _, holds in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
