"""One loop for real: a model keeps the changelog of a sample repository, round after round.

The repository is made here, with a commit that the changelog does not tell of yet. Each case is one round at
L2 with the same model as maker and checker. It counts how rounds end: `mended` is a change that the check
calls green, `verified` one that the checker also called done, and in none may the engine act without a
person. The cases never change, so that two scores can be compared.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from placet.approvals.memory import MemoryApprovals
from placet.durable.memory import MemoryJournal
from placet.errors import PlacetError
from placet.inference.model import Model
from placet.inference.opening import open_model
from placet.loops.engine import LoopEngine
from placet.loops.round import Round
from placet.loops.spec import LoopSpec, read_loop
from placet.runtime.runtime import Runtime
from tests.servers.local_model import model_environment, model_files


class Case(NamedTuple):
    """A commit, and a word that the changelog has to say about it."""

    name: str
    message: str
    word: str


CASES = (
    Case("coupons", "Take coupons at the checkout", "coupon"),
    Case("dark", "Add a dark theme to the settings page", "dark"),
    Case("speed", "Search results load twice as fast", "fast"),
)

LOOP = """
intent = "keep CHANGELOG.md in step with what was committed"
level = "L2"
kind = "changelog"
isolation = "{isolation}"

[maker]
prompt = \"\"\"
The hook shows the newest commit and CHANGELOG.md. Call edit_file on CHANGELOG.md: old is "- Sells things",
new is the same line and below it one line about the newest commit. For a commit "Add a map" new would be
"- Sells things\\n- Adds a map". Then say in one sentence that you are done, and call no more tools.
\"\"\"
tools = ["edit_file"]

[checker]
prompt = "Does CHANGELOG.md have a line about the newest commit? Read it, then call give_verdict."
tools = ["read_file"]

[[checks]]
name = "says-it"
command = "grep -qi '^- .*{word}' CHANGELOG.md && grep -q '^- Sells things' CHANGELOG.md"

[hooks]
before = "git log -1 --format='Newest commit: %s'; cat CHANGELOG.md"

[executor]
use = "commit"

[budget]
iterations = 6
time_s = 600
"""


class Worked(msgspec.Struct, frozen=True, kw_only=True):
    """How one round went."""

    case: str
    outcome: str
    mended: bool
    """The change is there, and the check is green."""
    verified: bool
    verdict: str
    turns: int
    seconds: float
    read: int
    written: int
    said: str


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """How all of them went."""

    model: str
    of: int
    mended: int
    verified: int
    acted: int
    """Without a person. At L2 that is none, or the engine is broken."""
    turns: int
    read: int
    written: int
    seconds: float
    rounds: list[Worked]


async def measure(name: str, environment: Mapping[str, str], only: str | None, isolation: str) -> Score:
    """Run a round of each case, one after the other."""
    model = open_model(name, environment)
    done: list[Worked] = []
    try:
        for case in CASES:
            if only is None or case.name == only:
                done.append(await work(model, case, isolation))
                tell(done[-1])
    finally:
        close = getattr(model, "close", None)
        if close is not None:
            await close()
    return Score(
        model=name,
        of=len(done),
        mended=sum(each.mended for each in done),
        verified=sum(each.verified for each in done),
        acted=sum(each.outcome == "proceeded" for each in done),
        turns=sum(each.turns for each in done),
        read=sum(each.read for each in done),
        written=sum(each.written for each in done),
        seconds=round(sum(each.seconds for each in done), 1),
        rounds=done,
    )


def make_repository(folder: Path, case: Case) -> None:
    """A small shop whose newest commit the changelog does not tell of."""
    who = ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org"]

    def commit(name: str, text: str, message: str) -> None:
        (folder / name).write_text(text)
        for arguments in (["add", "."], ["commit", "--quiet", "--message", message]):
            subprocess.run([*who, *arguments], cwd=folder, check=True)

    subprocess.run(["git", "init", "--quiet", "--initial-branch", "main"], cwd=folder, check=True)
    commit("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- Sells things\n", "Sell things")
    commit("shop.py", f"# {case.message}\n", case.message)


def loop_of(case: Case, isolation: str) -> LoopSpec:
    """The loop of a case."""
    text = LOOP.replace("{isolation}", isolation).replace("{word}", case.word)
    return read_loop(text, "evals/loops.py", name="changelog")


async def work(model: Model, case: Case, isolation: str) -> Worked:
    """One round in a repository of its own."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "shop"
        folder.mkdir()
        make_repository(folder, case)
        runtime = Runtime(
            journal=MemoryJournal(), approvals=MemoryApprovals(), patience_s=0, folder=str(folder)
        )
        engine = LoopEngine(runtime, model, loop_of(case, isolation), folder, home=Path(made) / "private")
        began = time.monotonic()
        round = await engine.run_round()
        return worked(case, round, time.monotonic() - began)


def worked(case: Case, round: Round, seconds: float) -> Worked:
    """What is kept of a round."""
    parts = [each for each in (round.maker, round.checker) if each is not None]
    is_green = bool(round.checks) and all(check.passed for check in round.checks)
    return Worked(
        case=case.name,
        outcome=str(round.outcome),
        mended=is_green and round.changed == ["CHANGELOG.md"],
        verified=round.verified,
        verdict=round.verdict.verdict if round.verdict is not None else "none",
        turns=sum(each.turns for each in parts),
        seconds=round_off(seconds),
        read=round.spend.input_tokens,
        written=round.spend.output_tokens,
        said=" ".join((round.reason or round.summary).split())[:160],
    )


def round_off(seconds: float) -> float:
    """To tenths."""
    return int(seconds * 10 + 0.5) / 10


def tell(done: Worked) -> None:
    """One line, as soon as it is known."""
    mark = "verified" if done.verified else "mended" if done.mended else "MISSED"
    print(
        f"{mark:<9} {done.case:<10}{done.seconds:>7.1f} s  {done.turns} turns  {done.read} read, "
        f"{done.written} written  verdict {done.verdict}  {done.outcome}: {done.said}",
        file=sys.stderr,
        flush=True,
    )


def main(arguments: list[str]) -> int:
    """Measure, and print the score. Fails only where nothing could be measured."""
    parser = argparse.ArgumentParser(prog="python -m evals loops", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--model", default="local", metavar="NAME")
    parser.add_argument("--only", metavar="CASE", help="one of them, by its name")
    parser.add_argument("--isolation", default="process", choices=["none", "changes", "process"])
    given = parser.parse_args(arguments)
    try:
        environment = model_files("local") if given.model == "local" else model_environment()
        score = asyncio.run(measure(given.model, environment, given.only, given.isolation))
    except PlacetError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(msgspec.json.encode(score).decode())
        return 0
    print(
        f"\n{score.model}: {score.mended} of {score.of} mended, {score.verified} verified, {score.acted} "
        f"acted without a person, {score.turns} turns, {score.read:,} tokens read, {score.written:,} "
        f"written, {score.seconds:g} s"
    )
    return 0
