"""A loop earns what it may do, level by level: `python examples/loops/demo.py`.

A scripted model keeps the changelog of a small shop. At L1 the loop only reports. At L2 it prepares a change,
and a person approves it: one commit, on a branch of its own, of exactly what was shown. At L3 it acts by
itself on what was verified; a model that boasts and is not borne out by the check gets no further than a
question. It exits with 0 only if all of that was so, and nothing else in the repository has changed. Commands
have to be kept in by the kernel: see `placet doctor`.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).resolve().parent
NAME = "changelog"


class Desk:
    """A person at their repository, and the commands that they type."""

    def __init__(self, folder: Path) -> None:
        self.shop = folder / "shop"
        self.shop.mkdir()
        self._environment = {
            **os.environ,
            "PLACET_DB": str(folder / "loops.db"),
            "XDG_DATA_HOME": str(folder / "share"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_STATE_HOME": str(folder / "state"),
        }
        self.git("init", "--quiet", "--initial-branch", "main")
        (self.shop / ".gitignore").write_text(".placet/\n")
        self.commit("CHANGELOG.md", "# Changelog\n\n- Sells things\n", "Sell things")
        self.commit("coupons.py", "def take(coupon: str) -> int:\n    return 10\n", "Take coupons")

    def commit(self, name: str, text: str, message: str) -> None:
        """Write a file, and commit it."""
        (self.shop / name).write_text(text)
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", message)

    def git(self, *arguments: str) -> str:
        """What git says, as the person runs it; nothing where it finds nothing."""
        who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
        done = subprocess.run(["git", *who, *arguments], cwd=self.shop, capture_output=True)
        return done.stdout.decode()

    def level(self, level: str) -> None:
        """Put the loop into the repository at that level, and trust it."""
        path = self.shop / ".placet" / "loops" / f"{NAME}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((HERE / "changelog.toml").read_text().replace('level = "L1"', f'level = "{level}"'))
        print(f"\n=== level {level}")
        self.placet("trust", "--yes", ".")

    def placet(self, *arguments: str) -> int:
        """Run one command on this very terminal."""
        shown = shlex.join(each.replace(str(HERE), "examples/loops") for each in arguments)
        print(f"\n$ placet {shown}", flush=True)
        return subprocess.run(self._command(*arguments), cwd=self.shop, env=self._environment).returncode

    def round(self, script: str) -> int:
        """One round with a scripted model."""
        return self.placet("loop", "run", NAME, "--model", f"scripted:{HERE / script}")

    def rounds(self) -> list[dict[str, Any]]:
        """What the rounds came to, newest first."""
        command = self._command("loop", "log", "--json")
        done = subprocess.run(command, cwd=self.shop, env=self._environment, capture_output=True, check=True)
        found: list[dict[str, Any]] = json.loads(done.stdout)["rounds"]
        return found

    def branches(self) -> list[str]:
        """The branches that rounds have made."""
        return self.git("branch", "--list", "placet/*", "--format", "%(refname:short)").split()

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "placet.cli.main", *arguments]


def main() -> int:
    """0 if every level went as far as it may, and no further."""
    with TemporaryDirectory() as folder:
        desk = Desk(Path(folder))
        before = (desk.git("rev-parse", "HEAD"), desk.git("status", "--porcelain"))
        seen: dict[str, bool] = {}

        desk.level("L1")
        seen["at L1 it reports, and makes nothing"] = desk.round("report.json") == 0 and not desk.branches()

        desk.level("L2")
        seen["at L2 it asks a person first"] = desk.round("draft.json") == 4 and not desk.branches()
        asked = desk.rounds()[0]["approval"]
        desk.placet("approvals", "approve", asked)
        made = desk.branches()
        seen["approved, it is one commit of what was shown"] = made == ["placet/changelog-2"] and (
            "- Takes coupons" in desk.git("show", f"{made[0]}:CHANGELOG.md")
        )

        desk.level("L3")
        seen["at L3 a boast goes no further than a question"] = (
            desk.round("boast.json") == 4 and desk.branches() == made
        )
        seen["at L3 what was verified proceeds"] = (
            desk.round("draft.json") == 0 and len(desk.branches()) == len(made) + 1
        )

        desk.placet("loop", "show", NAME)
        desk.placet("loop", "log")
        outcomes = [each["outcome"] for each in reversed(desk.rounds())]
        seen["every round is kept"] = outcomes == ["reported", "escalated", "escalated", "proceeded"]
        after = (desk.git("rev-parse", "HEAD"), desk.git("status", "--porcelain"))
        seen["files and branches of the person are as they were"] = before == after
        print()
        for claim, is_so in seen.items():
            print(f"{'✓' if is_so else '✗'} {claim}")
        return 0 if all(seen.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
