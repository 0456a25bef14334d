"""A demo without a model: one plan that goes wrong and is undone, one that succeeds.

It types the commands that you would type, shows what they print, and then checks that the world is as it
should be: it exits with 0 only if every effect that had to be taken back was taken back.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

TRIP = Path(__file__).resolve().parent / "trip"
OUT = Path(__file__).resolve().parent / "out"
LEDGER = OUT / "ledger.jsonl"
LOG = OUT / "run.jsonl"
DATABASE = OUT / "plan-demo.db"
PICTURE = OUT / "trip.svg"
BOOKED_AND_CANCELLED = [
    "flight booked F-TP553",
    "hotel booked H-Casa-3",
    "hotel cancelled H-Casa-3",
    "flight cancelled F-TP553",
]


def near(path: Path) -> str:
    """A path as one would type it from here."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


INPUTS = [
    *("--tools", near(TRIP / "tools.py")),
    *("--policies", near(TRIP / "policies.toml")),
    *("--state", near(TRIP / "state.json")),
]


def placet(*arguments: str, show: bool = True) -> tuple[int, str]:
    """Run one command as a person would, on this very terminal; unshown, its stdout is returned instead."""
    if show:
        print(f"\n$ placet {shlex.join(arguments)}", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "placet.cli.main", *arguments],
        # Kept with the rest of the demo, not among your own runs.
        env={**os.environ, "TRIP_LEDGER": str(LEDGER), "PLACET_DB": str(DATABASE)},
        stdout=None if show else subprocess.PIPE,
        stderr=None if show else subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout or ""


def say(text: str) -> None:
    """A paragraph between two commands."""
    print(f"\n== {text}", flush=True)


def entries() -> list[str]:
    """What the outside world has seen since the ledger was last emptied."""
    lines = LEDGER.read_text(encoding="utf-8").splitlines() if LEDGER.exists() else []
    return [f"{entry['event']} {entry.get('reference', '')}".strip() for entry in map(json.loads, lines)]


def show_events() -> None:
    """An excerpt of the log: the same run as data, without the ids and times that each line also has."""
    events = [json.loads(line) for line in LOG.read_text(encoding="utf-8").splitlines()]
    kinds = {"proposal_received", "action_executing", "action_retrying", "policy_violation", "action_failed"}
    kinds |= {"compensation_started", "state_rollback", "proposal_ended"}
    for event in events:
        if event["kind"] in kinds:
            kinds.remove(event["kind"])
            shown = {name: event[name] for name in ("seq", "kind", "action_id", "data") if name in event}
            line = json.dumps(shown)
            print("  " + (line if len(line) <= 150 else line[:149] + "…"))
    print(f"  ... {len(events)} events in all, with ids and times, in {near(LOG)}", flush=True)


def main() -> int:
    """Show everything, then say whether it was as intended."""
    OUT.mkdir(exist_ok=True)
    for file in (LEDGER, LOG, PICTURE):
        file.unlink(missing_ok=True)
    before = json.loads((TRIP / "state.json").read_text(encoding="utf-8"))
    plan, short = near(TRIP / "plan.json"), near(TRIP / "short-plan.json")
    checks: list[tuple[str, bool]] = []
    print(f"$ export PLACET_DB={shlex.quote(near(DATABASE))}", flush=True)

    say(
        "A plan is data. Before it runs, Placet says what would be refused: here a policy denies the upgrade."
    )
    code, _ = placet("verify", plan, *INPUTS)
    checks.append(("verify foresaw the denial (exit code 3)", code == 3))

    say(
        "`run` does not ask `verify` first, and the denied upgrade is optional, so the plan runs without it. "
        "The weather service fails once; the card is declined at the end."
    )
    code, _ = placet("run", plan, *INPUTS, "--log", near(LOG), "--svg", near(PICTURE))
    checks.append(("the run was aborted (exit code 1)", code == 1))
    checks.append(("the picture was drawn", PICTURE.read_text(encoding="utf-8").startswith("<svg")))
    checks.append(("every booking was cancelled again, the last first", entries() == BOOKED_AND_CANCELLED))

    say(f"The picture of that run is in {near(PICTURE)}. The story, from the log alone:")
    code, _ = placet("explain", near(LOG))
    checks.append(("the story was told", code == 0))

    say("The same as events, one JSON object a line:")
    show_events()

    LEDGER.unlink(missing_ok=True)
    _, printed = placet("run", plan, *INPUTS, "--json", show=False)
    result = json.loads(printed)
    checks.append(("after the abort the state is what it was", result["state"] == before))
    checks.append(("and so is the outside world", entries() == BOOKED_AND_CANCELLED))

    LEDGER.unlink(missing_ok=True)
    say("A smaller trip, which succeeds:")
    code, _ = placet("run", short, *INPUTS)
    checks.append(("the short trip succeeded (exit code 0)", code == 0))
    checks.append(("it was booked and paid", entries() == ["flight booked F-TP1713", "card charged"]))
    return report(checks)


def report(checks: Sequence[tuple[str, bool]]) -> int:
    """Say what held; the exit code is 0 if everything did."""
    say("Was it as intended?")
    for words, holds in checks:
        print(f"  {'✓' if holds else '✗'} {words}")
    return 0 if all(holds for _, holds in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
