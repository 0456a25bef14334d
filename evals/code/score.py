"""Small programs with one bug each: how many does a model mend in the coding loop, and is green ever wrong?

Each bug is a git repository of its own, with the program and its tests. The real loop works on it, with the
real sandbox and real checks. Nothing is approved. Whatever a session calls green is run once more here,
apart from the loop.

Keep true:
1. Bugs and their order depend on the seed alone, so that two scores can be compared.
2. A bug whose line is in the file of results is not done again, so that a long run can be stopped.
3. A green session whose tests fail is an error of ours, and ends with exit code 1.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from evals.code.mutations import Bug, Program, bugs, outcome, programs
from placet import MemoryJournal, Runtime
from placet.checks.contract import Check
from placet.checks.signature import Signature
from placet.coder.coder import Coder
from placet.coder.repairs import Hint, Repairs
from placet.coder.session import CodeLimits, Session
from placet.errors import PlacetError
from placet.inference.model import Model
from placet.inference.opening import open_model
from placet.sandbox.confinement import Isolation
from tests.servers.local_model import model_environment, model_files

GUARDS = ("memory", "context", "candidates")
CANDIDATES = 3
INTENT = "Make the tests pass."
CHECK = Check(
    name="tests",
    # Other plugins are of the tests of this project, and take long to load.
    command=f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {sys.executable} -m pytest -q -p no:cacheprovider",
    timeout_secs=10.0,
)
_ONE = "all of them"
_GIT = ("-c", "user.name=Eval", "-c", "user.email=eval@example.org", "-c", "commit.gpgsign=false")


class Mended(msgspec.Struct, frozen=True, kw_only=True):
    """How one bug went."""

    seed: int
    without: str | None
    again: bool = False
    """Whether the same bug had been worked on just before."""
    name: str
    kind: str
    state: str
    is_solved: bool
    """Green, and the tests of the program pass on what was made."""
    is_false_green: bool
    """Green, and they do not."""
    iterations: int
    """Of all candidates together."""
    tokens: int
    seconds: float
    reason: str = ""


class OneMemory(Repairs):
    """Repairs of many small repositories as if they were one: each bug is a repository of its own here, and
    what helped with one of them would never be recalled for the next."""

    def recall(self, repository: str, signature: Signature) -> Hint | None:
        """Whatever helped against this in any of them."""
        return super().recall(_ONE, signature)

    def learned(self, repository: str, signature: Signature, approach: str, **more: Any) -> None:
        """Store it for all."""
        super().learned(_ONE, signature, approach, **more)


def chosen_bugs(seed: int, only: int | None) -> list[Bug]:
    """The bugs of a seed in a fixed order of their own; the first so many of them."""
    order = bugs(seed)
    random.Random(f"order:{seed}").shuffle(order)
    return order[:only]


async def mend(
    model: Model, bug: Bug, program: Program, memory: Repairs, *, seed: int, without: str | None, again: bool
) -> Mended:
    """Let the loop work on one bug."""
    with tempfile.TemporaryDirectory(prefix="placet-eval-") as made:
        folder = Path(made)
        repository = make_repository(folder / "repository", bug, program)
        coder = Coder(
            Runtime(journal=MemoryJournal()),
            model,
            repository,
            home=folder / "home",
            repairs=memory,
            isolation=Isolation("process", folder=_known()),
            limits=CodeLimits(context_tokens=8_192),
            style="small",
            chooses_context=without != "context",
        )
        began = time.monotonic()
        intent = INTENT
        if without == "context":
            # What a person would paste: the whole file.
            intent += f"\n\n{bug.name}.py:\n\n{bug.source}"
        session = await coder.run(
            intent, [CHECK], candidates=1 if without == "candidates" else CANDIDATES, keep=True
        )
        seconds = time.monotonic() - began
        is_right = session.is_green and outcome(program, made_of(folder, session, bug)) == "passed"
    return Mended(
        seed=seed,
        without=without,
        again=again,
        name=bug.name,
        kind=bug.kind,
        state=session.state,
        is_solved=session.is_green and is_right,
        is_false_green=session.is_green and not is_right,
        iterations=session.iterations,
        tokens=session.tokens,
        seconds=round(seconds, 1),
        reason=session.reason[:200],
    )


def make_repository(folder: Path, bug: Bug, program: Program) -> Path:
    """A repository with the broken program and its tests, committed."""
    folder.mkdir(parents=True)
    (folder / f"{bug.name}.py").write_text(bug.source, encoding="utf-8")
    (folder / f"test_{bug.name}.py").write_text(program.tests, encoding="utf-8")
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *_GIT, *words], cwd=folder, check=True, capture_output=True)
    return folder


def made_of(folder: Path, session: Session, bug: Bug) -> str:
    """The program as the session would publish it, read from its tree with git itself."""
    shown = subprocess.run(
        [
            "git",
            "--git-dir",
            folder / "home" / session.id / "repository",
            "show",
            f"{session.result}:{bug.name}.py",
        ],
        check=True,
        capture_output=True,
    )
    return shown.stdout.decode()


def _known() -> str:
    """Where the self-test of the sandbox writes down what it found: once is enough for all bugs."""
    folder = Path(tempfile.gettempdir()) / "placet-eval-code"
    folder.mkdir(mode=0o700, exist_ok=True)
    return str(folder)


async def measure(
    name: str, todo: Sequence[Bug], done: Path | None, *, seed: int, without: str | None, again: bool
) -> list[Mended]:
    """Work on all bugs, one after the other, and on those that are in the file of results not again. With
    `again` each is worked on twice, as if it had come back, and the second time counts."""
    had = {
        each.name: each
        for each in read_results(done)
        if (each.seed, each.without, each.again) == (seed, without, again)
    }
    by_name = {program.name: program for program in programs()}
    environment = model_files("local") if name == "local" else model_environment()
    model = open_model(name, environment)
    memory: Repairs = OneMemory()
    results: list[Mended] = []
    try:
        for bug in todo:
            if bug.name not in had:
                for _ in range(2 if again else 1):
                    if without == "memory":
                        memory = Repairs()
                    mended = await mend(
                        model, bug, by_name[bug.name], memory, seed=seed, without=without, again=again
                    )
                if done is not None:
                    with done.open("ab") as file:
                        file.write(msgspec.json.encode(mended) + b"\n")
                had[bug.name] = mended
            results.append(had[bug.name])
            tell(results)
    finally:
        close = getattr(model, "close", None)
        if close is not None:
            await close()
    return results


def read_results(path: Path | None) -> list[Mended]:
    """What is in a file of results; a last line that was cut off is left out."""
    if path is None or not path.exists():
        return []
    found: list[Mended] = []
    for line in path.read_bytes().splitlines():
        try:
            found.append(msgspec.json.decode(line, type=Mended))
        except msgspec.DecodeError:
            continue
    return found


def tell(results: Sequence[Mended]) -> None:
    """One line, as soon as it is known."""
    latest = results[-1]
    mark = "FALSE GREEN" if latest.is_false_green else "solved" if latest.is_solved else "missed"
    solved = sum(each.is_solved for each in results)
    why = "" if latest.is_solved else f"   {latest.reason}"
    print(
        f"{mark:<8} {latest.name:<12}{latest.kind:<16}{latest.iterations:>3} iterations "
        f"{latest.tokens:>6} tokens {latest.seconds:>6.1f} s   {solved} of {len(results)}{why}",
        file=sys.stderr,
        flush=True,
    )


def table(results: Sequence[Mended]) -> str:
    """The closing table."""
    kinds = sorted({each.kind for each in results})
    rows = [_row(kind, [each for each in results if each.kind == kind]) for kind in kinds]
    head = f"{'kind':<16}{'solved':>10}{'iterations':>12}{'tokens':>10}{'seconds':>10}"
    return "\n".join([head, *rows, _row("all", results)])


def _row(name: str, results: Sequence[Mended]) -> str:
    solved = f"{sum(each.is_solved for each in results)} of {len(results)}"
    return (
        f"{name:<16}{solved:>10}{_mean(each.iterations for each in results):>12.1f}"
        f"{_mean(each.tokens for each in results):>10,.0f}{_mean(each.seconds for each in results):>10.1f}"
    )


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0


def main(arguments: list[str]) -> int:
    """Measure, and print the table. 1 if something green was red, 2 if nothing could be measured."""
    parser = argparse.ArgumentParser(prog="python -m evals code", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="which bugs")
    parser.add_argument("--only", type=int, metavar="N", help="the first so many of them")
    parser.add_argument("--without", choices=GUARDS, help="leave out one guard, to see what it is worth")
    parser.add_argument("--again", action="store_true", help="each bug twice, and the second time counts")
    parser.add_argument("--model", default="local", metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE", help="results, one in a line; goes on with it")
    given = parser.parse_args(arguments)
    try:
        todo = chosen_bugs(given.seed, given.only)
        results = asyncio.run(
            measure(given.model, todo, given.json, seed=given.seed, without=given.without, again=given.again)
        )
    except PlacetError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    without = f" without {given.without}" if given.without else ""
    again = ", each for the second time" if given.again else ""
    print(f"\n{given.model}, seed {given.seed}{without}{again}\n\n{table(results)}")
    wrong = sum(each.is_false_green for each in results)
    if wrong:
        print(f"{wrong} green with red tests. That must never be.", file=sys.stderr)
    return 1 if wrong else 0
