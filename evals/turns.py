"""Ten small jobs of two to five steps in a folder: how many does a model really do?

A job is solved if the folder, or the answer, is what was asked for, and nothing else there has changed. The
jobs, files and tools never change, so that two scores can be compared.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from placet import Assistant, Ending, Runtime, TurnLimits, basic_tools
from placet.errors import PlacetError
from placet.inference.model import Model
from placet.inference.opening import open_model
from tests.servers.local_model import model_environment, model_files

LIMITS = TurnLimits(turns=8, answer_tokens=300, context_tokens=8_192)
READING = ("read_file", "list_dir", "grep")


class Job(NamedTuple):
    """A task in a folder, and how to see that it was done."""

    name: str
    task: str
    files: Mapping[str, str]
    tools: tuple[str, ...]
    is_done: Callable[[Path, str], bool]
    """Of the folder, and what the model said at the end."""
    changes: tuple[str, ...] = ()
    """Files that may be made or changed; all others must be as they were."""


def holds(name: str, *texts: str) -> Callable[[Path, str], bool]:
    """Whether a file holds these texts."""

    def check(folder: Path, _: str) -> bool:
        path = folder / name
        return path.is_file() and all(text in path.read_text(errors="replace") for text in texts)

    return check


def says(*texts: str) -> Callable[[Path, str], bool]:
    """Whether the answer holds these texts."""
    return lambda _, answer: all(text.lower() in answer.lower() for text in texts)


JOBS = (
    Job(
        "look up",
        "What is the capital of Norland? It is in the file facts.txt.",
        {"facts.txt": "Norland: capital Vinterby, population 81,000\nSudland: capital Solby\n"},
        READING,
        says("Vinterby"),
    ),
    Job(
        "copy",
        "Read the file first.txt and write the same text into the file second.txt.",
        {"first.txt": "the quick brown fox\n"},
        ("read_file", "write_file"),
        holds("second.txt", "the quick brown fox"),
        ("second.txt",),
    ),
    Job(
        "multiply",
        "Calculate 127*49 and write the result into the file result.txt.",
        {},
        ("calculate", "write_file"),
        holds("result.txt", "6223"),
        ("result.txt",),
    ),
    Job(
        "find",
        "One file here contains the word zebra. Find out which, and write its name into the file found.txt.",
        {"one.txt": "a lion\n", "two.txt": "a zebra\n", "three.txt": "a bear\n"},
        ("grep", "write_file"),
        holds("found.txt", "two.txt"),
        ("found.txt",),
    ),
    Job(
        "greet",
        "The file name.txt holds a name. Write the text Hello, NAME! with that name into the file hello.txt.",
        {"name.txt": "Mirela\n"},
        ("read_file", "write_file"),
        holds("hello.txt", "Hello, Mirela!"),
        ("hello.txt",),
    ),
    Job(
        "change a port",
        "In the file server.conf change the port from 8080 to 9090.",
        {"server.conf": "host = example\nport = 8080\nlog = on\n"},
        ("read_file", "edit_file"),
        holds("server.conf", "host = example", "port = 9090", "log = on"),
        ("server.conf",),
    ),
    Job(
        "mend",
        "The function add in the file sums.py subtracts. Mend it so that it adds.",
        {"sums.py": "def add(a, b):\n    return a - b\n"},
        ("read_file", "edit_file"),
        holds("sums.py", "return a + b"),
        ("sums.py",),
    ),
    Job(
        "count",
        "How many lines with the word TODO are in the file work.txt?",
        {"work.txt": "TODO: paint\nbuy milk\nTODO: call Ann\nTODO: sleep\nwash up\n"},
        READING,
        says("3"),
    ),
    Job(
        "list",
        "Write the names of all files in the folder docs into the file index.txt.",
        {"docs/alpha.md": "a\n", "docs/beta.md": "b\n", "docs/gamma.md": "c\n"},
        ("list_dir", "write_file"),
        holds("index.txt", "alpha.md", "beta.md", "gamma.md"),
        ("index.txt",),
    ),
    Job(
        "add up",
        "The files rent.txt and food.txt each hold one number. Add them with calculate, and write the sum "
        "into the file total.txt.",
        {"rent.txt": "640\n", "food.txt": "275\n"},
        ("read_file", "calculate", "write_file"),
        holds("total.txt", "915"),
        ("total.txt",),
    ),
)


class Worked(msgspec.Struct, frozen=True, kw_only=True):
    """How one job went."""

    job: str
    is_solved: bool
    status: str
    turns: int
    tools: list[str]
    seconds: float
    read: int | None
    written: int | None
    said: str


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """How all of them went."""

    model: str
    solved: int
    of: int
    turns: int
    read: int
    written: int
    seconds: float
    jobs: list[Worked]


async def measure(name: str, environment: Mapping[str, str], only: str | None = None) -> Score:
    """Do everything, one after the other."""
    model = open_model(name, environment)
    jobs: list[Worked] = []
    try:
        for job in JOBS:
            if only is None or job.name == only:
                jobs.append(await work(model, job))
                tell(jobs[-1])
    finally:
        close = getattr(model, "close", None)
        if close is not None:
            await close()
    return Score(
        model=name,
        solved=sum(job.is_solved for job in jobs),
        of=len(jobs),
        turns=sum(job.turns for job in jobs),
        read=sum(job.read or 0 for job in jobs),
        written=sum(job.written or 0 for job in jobs),
        seconds=round(sum(job.seconds for job in jobs), 1),
        jobs=jobs,
    )


async def work(model: Model, job: Job) -> Worked:
    """Do one job in a folder of its own."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, text in job.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        runtime = Runtime(builtin=basic_tools(folder, only=job.tools))
        assistant = Assistant(runtime, model, posture="full_access", limits=LIMITS)
        began = time.monotonic()
        ending = await assistant.run(job.task)
        seconds = time.monotonic() - began
        is_solved = ending.succeeded and job.is_done(folder, ending.summary) and is_untouched(folder, job)
    return worked(job, ending, seconds, is_solved=is_solved)


def is_untouched(folder: Path, job: Job) -> bool:
    """Whether nothing has changed that was not to."""
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    kept = {name: text for name, text in job.files.items() if name not in job.changes}
    return all(name in found and found[name].read_text() == text for name, text in kept.items()) and set(
        found
    ) <= {*job.files, *job.changes}


def worked(job: Job, ending: Ending, seconds: float, *, is_solved: bool) -> Worked:
    """What is kept of a job."""
    usage = ending.usage
    return Worked(
        job=job.name,
        is_solved=is_solved,
        status=ending.status,
        turns=ending.turns,
        tools=list(ending.tools),
        seconds=round(seconds, 1),
        read=usage.input if usage is not None else None,
        written=usage.output if usage is not None else None,
        said=" ".join(ending.summary.split())[:160],
    )


def tell(job: Worked) -> None:
    """One line, as soon as it is known: ten jobs take a while."""
    mark = "solved" if job.is_solved else "MISSED"
    tokens = f"{job.read} read, {job.written} written"
    calls = " ".join(job.tools) or "no calls"
    print(
        f"{mark}  {job.job:<14}{job.seconds:>7.1f} s  {job.turns} turns  {tokens}  [{calls}]  {job.status}: "
        f"{job.said}",
        file=sys.stderr,
        flush=True,
    )


def main(arguments: list[str]) -> int:
    """Measure, and print the score. Fails only where nothing could be measured."""
    parser = argparse.ArgumentParser(prog="python -m evals turns", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--model", default="local", metavar="NAME")
    parser.add_argument("--only", metavar="JOB", help="one of them, by its name")
    given = parser.parse_args(arguments)
    try:
        environment = model_files("local") if given.model == "local" else model_environment()
        score = asyncio.run(measure(given.model, environment, given.only))
    except PlacetError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(msgspec.json.encode(score).decode())
        return 0
    print(
        f"\n{score.model}: {score.solved} of {score.of} solved, {score.turns} turns, "
        f"{score.read:,} tokens read, {score.written:,} written, {score.seconds:g} s"
    )
    return 0
