"""Agents with a real model: do the example agents pass their scenarios, and can it build agents of its own?

The example agents are run three times on each scenario: pass^3. Then an agent is built from each of five
sentences, in at most three attempts. A built agent counts if it passes its own scenarios; how good those are
is shown, not judged. The sentences never change, so that two scores can be compared.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from placet import AgentSpec, Runtime
from placet.agents.builder import Builder, Built
from placet.agents.files import read_agent
from placet.agents.report import Report
from placet.agents.scenarios import Trying
from placet.errors import PlacetError
from placet.inference.model import Model
from placet.inference.opening import open_model
from tests.servers.local_model import model_environment, model_files

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "agents"
K = 3
ATTEMPTS = 3
AT_ONCE = 1
"""One after the other: a model on this machine answers no sooner if it is asked twice at once."""
SENTENCES = (
    "a converter from Celsius to Fahrenheit",
    "an agent that says whether a review of a film is positive or negative",
    "a translator of single English words into Spanish",
    "an agent that answers with the capital of the country that it is told",
    "an agent that says whether a whole number is even or odd",
)
TOOLS = {
    "calculate": "Work out an arithmetic expression.",
    "read_file": "Read a file.",
}


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """An example agent on its scenarios."""

    agent: str
    passed: int
    of: int
    runs_passed: int
    runs: int
    tokens: int | None
    seconds: float
    failures: list[str]


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """An agent built from a sentence."""

    sentence: str
    is_solved: bool
    attempts: int
    tokens: int | None
    seconds: float
    scenarios: list[str]
    """Input and expectation of the draft that was kept."""
    issues: list[str]


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """How all of it went."""

    model: str
    k: int
    examples: list[Tried]
    built: list[Made]
    seconds: float

    @property
    def passing(self) -> int:
        """Example agents of which every scenario passed every time."""
        return sum(each.passed == each.of for each in self.examples)

    @property
    def solved(self) -> int:
        """Sentences of which an agent came that passes its scenarios."""
        return sum(each.is_solved for each in self.built)


async def measure(name: str, environment: Mapping[str, str], only: str | None = None, *, k: int = K) -> Score:
    """Do everything, one after the other; `only` is the name of an example, or the start of a sentence."""
    model = open_model(name, environment)
    began = time.monotonic()
    examples: list[Tried] = []
    built: list[Made] = []
    try:
        for path in sorted(EXAMPLES.iterdir()):
            if only is None or path.stem == only:
                examples.append(await try_example(model, example(path), k))
                tell_tried(examples[-1], k)
        for sentence in SENTENCES:
            if only is None or sentence.startswith(only):
                built.append(await build(model, sentence))
                tell_made(built[-1])
    finally:
        close = getattr(model, "close", None)
        if close is not None:
            await close()
    seconds = round(time.monotonic() - began, 1)
    return Score(model=name, k=k, examples=examples, built=built, seconds=seconds)


def example(path: Path) -> AgentSpec:
    """The agent in a file."""
    return read_agent(path.read_bytes(), str(path))


async def try_example(model: Model, spec: AgentSpec, k: int = K) -> Tried:
    """Run an example agent on its scenarios."""
    report = await Trying(Runtime(), model, at_once=AT_ONCE).try_all(spec, k=k)
    return tried(report)


def tried(report: Report) -> Tried:
    """What is kept of a report."""
    return Tried(
        agent=report.agent,
        passed=report.passed,
        of=len(report.scenarios),
        runs_passed=sum(each.times for each in report.scenarios),
        runs=sum(len(each.trials) for each in report.scenarios),
        tokens=report.tokens,
        seconds=round(report.seconds, 1),
        failures=report.failures,
    )


async def build(model: Model, sentence: str) -> Made:
    """Build an agent from a sentence."""
    began = time.monotonic()
    builder = Builder(Trying(Runtime(), model, at_once=AT_ONCE), tools=TOOLS, max_attempts=ATTEMPTS)
    return made(await builder.build(sentence), time.monotonic() - began)


def made(built: Built, seconds: float) -> Made:
    """What is kept of a build."""
    scenarios = built.spec.scenarios if built.spec is not None else ()
    return Made(
        sentence=built.sentence,
        is_solved=built.passed,
        attempts=len(built.attempts),
        tokens=built.tokens,
        seconds=round(seconds, 1),
        scenarios=[f"{each.input} → {each.expect}" for each in scenarios],
        issues=list(built.issues),
    )


def tell_tried(one: Tried, k: int) -> None:
    """One line, as soon as it is known."""
    mark = "passed" if one.passed == one.of else "FAILED"
    tokens = f"{one.tokens:,} tokens" if one.tokens is not None else "tokens not told"
    say(f"{mark}  {one.agent:<20}{one.seconds:>7.1f} s  pass^{k}: {one.passed} of {one.of}  {tokens}")
    for failure in one.failures:
        say(f"        {failure}")


def tell_made(one: Made) -> None:
    """A few lines, as soon as it is known."""
    mark = "solved" if one.is_solved else "MISSED"
    tokens = f"{one.tokens:,} tokens" if one.tokens is not None else "tokens not told"
    say(f"{mark}  {one.sentence}  {one.seconds:.1f} s  {one.attempts} attempts  {tokens}")
    for each in one.scenarios:
        say(f"        {each}")
    for issue in one.issues:
        say(f"        not so: {issue}")


def say(text: str) -> None:
    """Beside the result."""
    print(text, file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """Measure, and print the score. Fails only where nothing could be measured."""
    parser = argparse.ArgumentParser(prog="python -m evals agents", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--model", default="local", metavar="NAME")
    parser.add_argument("--only", metavar="WHICH", help="an example by its id, or the start of a sentence")
    parser.add_argument("--k", type=int, default=K, metavar="K", help="how often each scenario runs")
    given = parser.parse_args(arguments)
    try:
        environment = model_files("local") if given.model == "local" else model_environment()
        score = asyncio.run(measure(given.model, environment, given.only, k=given.k))
    except PlacetError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(msgspec.json.encode(score).decode())
        return 0
    print(
        f"\n{score.model}: {score.passing} of {len(score.examples)} example agents pass^{score.k}, "
        f"{score.solved} of {len(score.built)} sentences built, {score.seconds:g} s"
    )
    return 0
