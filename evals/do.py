"""Everyday jobs of one to three steps in a small folder: how many does the assistant do, and does it say so?

Folders, names and numbers are made from a seed. A job is judged by what is in the folder afterwards and by
exact facts in the answer, never by how the model puts it. What is wrong is *marked* if the run did not end in
success, and *not marked* if it did: that is the figure to keep near zero.

Results are appended to a file, one line for each job, and what is there already is not done again.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

from placet import Assistant, Runtime, TurnLimits, basic_tools
from placet.errors import PlacetError
from placet.inference.model import Model
from placet.inference.opening import open_model
from placet.inference.profile import PARTS, ModelProfile
from tests.servers.local_model import model_environment, model_files

LIMITS = TurnLimits(turns=10, answer_tokens=300, context_tokens=8_192)
PEOPLE = ("Mirela", "Tomas", "Ayumi", "Farid", "Greta", "Ivo", "Noemi", "Pavel", "Selma", "Yusuf")
TOWNS = ("Vinterby", "Solby", "Karlsund", "Maresa", "Ostrava", "Belmonte", "Tirana", "Lugano")
THINGS = ("screws", "lamps", "chairs", "pencils", "ropes", "buckets", "candles", "mirrors")
ANIMALS = ("zebra", "otter", "falcon", "badger", "walrus", "gecko")


class Job(NamedTuple):
    """A task in a folder, and how to see that it was done."""

    kind: str
    task: str
    files: Mapping[str, str]
    says: Sequence[str] = ()
    """Facts that the answer must hold, as whole words."""
    never: Sequence[str] = ()
    """What it must not hold."""
    leaves: Mapping[str, str | Callable[[str], bool]] = {}
    """Files that must be there afterwards: their text, line ends at the end aside, or a test of it. All other
    files must be as they were."""


class Worked(msgspec.Struct, frozen=True, kw_only=True):
    """How one job went."""

    seed: int
    number: int
    kind: str
    variant: str
    is_solved: bool
    is_marked: bool
    status: str
    seconds: float
    turns: int
    called: tuple[str, ...]
    read: int | None
    written: int | None
    load: float
    task: str
    said: str


# Jobs


def jobs_of(seed: int) -> list[Job]:
    """The jobs of a seed, in an order in which any beginning is a fair sample."""
    random = Random(seed)
    made = [job for make in MAKERS for job in make(random)]
    random.shuffle(made)
    return made


def _facts(random: Random) -> Iterator[Job]:
    for name in ("notes.txt", "plan.md", "docs/team.txt"):
        leader, other = random.sample(PEOPLE, 2)
        budget = random.randrange(1100, 9900, 10)
        town = random.choice(TOWNS)
        text = f"Kick-off in {town}.\nThe budget is {budget} euros.\nThe leader is {leader}.\n"
        text += f"{other} keeps the minutes.\n"
        files = {name: text, "other.txt": "nothing of interest\n"}
        ask = random.choice(
            [
                (f"What is the budget in {name}?", [str(budget)], []),
                (f"Who is the leader, according to {name}?", [leader], [other]),
                (f"In which town is the kick-off? See {name}.", [town], []),
            ]
        )
        yield Job("read a fact", ask[0], files, ask[1], ask[2])


def _counts(random: Random) -> Iterator[Job]:
    for word in ("TODO", "ERROR"):
        hits = random.randrange(2, 7)
        lines = [f"{word}: item {n}" for n in range(hits)] + [f"line {n}" for n in range(5)]
        random.shuffle(lines)
        files = {"work.log": "\n".join(lines) + "\n", "readme.txt": f"{word} is a word\n"}
        yield Job("count lines", f"How many lines of work.log contain {word}?", files, [str(hits)])
    lines = random.randrange(4, 19)
    files = {"list.txt": "".join(f"{random.choice(THINGS)}\n" for _ in range(lines))}
    yield Job("count lines", "How many lines does list.txt have?", files, [str(lines)])


def _count_files(random: Random) -> Iterator[Job]:
    for kind, ending in (("Python", "py"), ("Markdown", "md")):
        many = random.randrange(2, 6)
        files = {f"part{n}.{ending}": "x\n" for n in range(many)}
        files |= {f"other{n}.txt": "x\n" for n in range(random.randrange(1, 4))}
        yield Job("count files", f"How many {kind} files are in this folder?", files, [str(many)])


def _sums(random: Random) -> Iterator[Job]:
    amounts = [random.randrange(11, 99) for _ in range(4)]
    rows = "".join(
        f"{thing},{amount}\n" for thing, amount in zip(random.sample(THINGS, 4), amounts, strict=True)
    )
    total = str(sum(amounts))
    yield Job(
        "sum", "What is the sum of the amounts in costs.csv?", {"costs.csv": "item,amount\n" + rows}, [total]
    )
    one, two = random.randrange(100, 900), random.randrange(100, 900)
    files = {"rent.txt": f"{one}\n", "food.txt": f"{two}\n"}
    yield Job("sum", "rent.txt and food.txt each hold a number. What is their sum?", files, [str(one + two)])


def _finds(random: Random) -> Iterator[Job]:
    for animal in random.sample(ANIMALS, 3):
        names = ["alpha.txt", "beta.txt", "gamma.txt", "docs/delta.txt"]
        where = random.choice(names)
        files = {name: f"a {random.choice(THINGS)}\n" for name in names}
        files[where] += f"the {animal} sleeps\n"
        never = [name.rpartition("/")[2] for name in names if name != where]
        yield Job("find the file", f"Which file mentions {animal}?", files, [where.rpartition("/")[2]], never)


def _lists(random: Random) -> Iterator[Job]:
    names = random.sample(["alpha", "beta", "gamma", "delta", "omega"], 3)
    files = {f"{name}.csv": "a,b\n" for name in names} | {"readme.md": "x\n", "run.py": "x\n"}
    yield Job(
        "list by kind", "List all CSV files in this folder.", files, [f"{n}.csv" for n in names], ["run.py"]
    )
    files = {f"docs/{name}.md": "x\n" for name in names} | {"top.md": "x\n"}
    yield Job(
        "list by kind", "Which files are in the folder docs?", files, [f"{n}.md" for n in names], ["top.md"]
    )


def _writes(random: Random) -> Iterator[Job]:
    word, number = random.choice(THINGS), random.randrange(10, 99)
    text = f"We need {number} {word}."
    yield Job("write", f'Write the text "{text}" into the file order.txt.', {}, leaves={"order.txt": text})
    name = random.choice(PEOPLE)
    files = {"name.txt": f"{name}\n"}
    task = "name.txt holds a name. Write Hello, NAME! with that name into hello.txt."
    yield Job("write", task, files, leaves={"hello.txt": f"Hello, {name}!"})


def _copies(random: Random) -> Iterator[Job]:
    lines = [
        f"{random.choice(PEOPLE)} has {random.randrange(2, 90)} {thing}" for thing in random.sample(THINGS, 4)
    ]
    files = {"list.txt": "\n".join(lines) + "\n"}
    for words, line in (("first", lines[0]), ("last", lines[-1])):
        task = f"Copy the {words} line of list.txt into a new file called line.txt."
        yield Job("copy a line", task, files, leaves={"line.txt": line})


def _replaces(random: Random) -> Iterator[Job]:
    for _ in range(2):
        old, new = random.sample(TOWNS, 2)
        text = f"From {old} to {old}.\nWe met in {old}.\nNot in Rome.\n"
        task = f"Replace {old} by {new} everywhere in trip.txt."
        yield Job("replace all", task, {"trip.txt": text}, leaves={"trip.txt": text.replace(old, new)})
    old_port, new_port = random.sample(range(8000, 9000), 2)
    text = f"host = example\nport = {old_port}\nlog = on\n"
    task = f"In server.conf change the port from {old_port} to {new_port}."
    yield Job(
        "replace all",
        task,
        {"server.conf": text},
        leaves={"server.conf": text.replace(str(old_port), str(new_port))},
    )


def _appends(random: Random) -> Iterator[Job]:
    for name in ("shopping.txt", "log.md"):
        thing = random.choice(THINGS)
        text = "milk\nbread\n"
        task = f'Append the line "{thing}" to {name}.'
        yield Job("append", task, {name: text}, leaves={name: f"{text}{thing}"})
    person = random.choice(PEOPLE)
    text = "Ann\nBob\n"
    yield Job(
        "append",
        f"Add {person} at the end of guests.txt.",
        {"guests.txt": text},
        leaves={"guests.txt": f"{text}{person}"},
    )


def _renames(random: Random) -> Iterator[Job]:
    for old, new in random.sample([("add", "plus"), ("area", "surface"), ("greet", "welcome")], 2):
        text = f"def {old}(a, b):\n    return a, b\n\n\nprint({old}(1, 2))\n"
        task = f"Rename the function {old} to {new} in code.py, also where it is called."
        yield Job("rename", task, {"code.py": text}, leaves={"code.py": text.replace(f"{old}(", f"{new}(")})


def _runs(random: Random) -> Iterator[Job]:
    for _ in range(2):
        a, b = random.randrange(11, 99), random.randrange(11, 99)
        files = {"job.py": f"print('result:', {a} * {b} + 1)\n"}
        yield Job("run and tell", "Run job.py with python3 and tell me the result.", files, [str(a * b + 1)])
    a = random.randrange(1000, 9000)
    files = {"make.sh": f"expr {a} + {a}\n"}
    yield Job("run and tell", "Run make.sh with sh. What does it print?", files, [str(a + a)])


def _compares(random: Random) -> Iterator[Job]:
    small, large = sorted(random.sample(range(100, 999), 2))
    names = random.sample(["north.txt", "south.txt"], 2)
    files = {names[0]: f"sales: {small}\n", names[1]: f"sales: {large}\n"}
    task = "north.txt and south.txt hold sales. Which file has the higher sales?"
    yield Job("compare", task, files, [names[1]])
    same = random.random() < 0.5
    files = {"a.txt": "red\n", "b.txt": "red\n" if same else "blue\n"}
    task = "Do a.txt and b.txt have the same text? Answer yes or no."
    yield Job("compare", task, files, ["yes" if same else "no"], ["no" if same else "yes"])


def _dates(random: Random) -> Iterator[Job]:
    today = datetime.now(UTC)
    yield Job("date", "Which year is it today?", {}, [str(today.year)])
    yield Job("date", "What day of the week is today?", {}, [f"{today:%A}"])


def _arithmetic(random: Random) -> Iterator[Job]:
    a, b, c = random.randrange(100, 999), random.randrange(11, 99), random.randrange(11, 99)
    yield Job("arithmetic", f"What is {a} * {b}?", {}, [str(a * b)])
    task = f"Calculate {a} + {b} * {c} and write the result into result.txt."
    yield Job("arithmetic", task, {}, leaves={"result.txt": str(a + b * c)})


def _json(random: Random) -> Iterator[Job]:
    port, name = random.randrange(3000, 9000), random.choice(PEOPLE)
    server = f'{{"port": {port}, "host": "alpha.example"}}'
    text = f'{{"server": {server}, "owner": "{name}", "version": "2.{port % 9}.1"}}\n'
    files = {"config.json": text}
    yield Job("JSON", "Which port does the server in config.json have?", files, [str(port)])
    yield Job("JSON", "Who is the owner in config.json?", files, [name])
    changed = text.replace(str(port), str(port + 1))
    task = f"Set the port in config.json to {port + 1}."
    yield Job("JSON", task, files, leaves={"config.json": changed})


def _csv(random: Random) -> Iterator[Job]:
    people = random.sample(PEOPLE, 4)
    ages = random.sample(range(20, 70), 4)
    towns = random.sample(TOWNS, 4)
    rows = "".join(f"{p},{a},{t}\n" for p, a, t in zip(people, ages, towns, strict=True))
    files = {"people.csv": "name,age,town\n" + rows}
    others = [str(age) for age in ages[1:]]
    yield Job("CSV", f"How old is {people[0]} according to people.csv?", files, [str(ages[0])], others)
    yield Job(
        "CSV",
        f"In people.csv, who lives in {towns[2]}?",
        files,
        [people[2]],
        [people[0], people[1], people[3]],
    )
    yield Job("CSV", "Who is the oldest person in people.csv?", files, [people[ages.index(max(ages))]])


def _todos(random: Random) -> Iterator[Job]:
    things = random.sample(THINGS, 3)
    todos = [f"TODO: order {thing}" for thing in things]
    files = {
        "a.py": f"# {todos[0]}\nx = 1\n",
        "lib/b.py": f"y = 2\n# {todos[1]}\n# {todos[2]}\n",
        "c.txt": "nothing\n",
    }

    def has_all(text: str) -> bool:
        return all(todo in text for todo in todos)

    yield Job(
        "TODOs",
        "Find every TODO in this project and write them to todos.txt.",
        files,
        leaves={"todos.txt": has_all},
    )
    yield Job("TODOs", "How many TODOs are in this project?", files, ["3"])


def _none(random: Random) -> Iterator[Job]:
    yield Job(
        "no tool", "What is the capital of France? Answer in one word.", {"notes.txt": "x\n"}, ["Paris"]
    )


MAKERS: Sequence[Callable[[Random], Iterator[Job]]] = (
    _facts,
    _counts,
    _count_files,
    _sums,
    _finds,
    _lists,
    _writes,
    _copies,
    _replaces,
    _appends,
    _renames,
    _runs,
    _compares,
    _dates,
    _arithmetic,
    _json,
    _csv,
    _todos,
    _none,
)


# Judging


def is_done(job: Job, folder: Path, answer: str) -> bool:
    """Whether the folder and the answer are as they should be."""
    plain = answer.replace(",", "") if any(fact.isdigit() for fact in job.says) else answer
    if not all(_has(plain, fact) for fact in job.says) or any(_has(plain, fact) for fact in job.never):
        return False
    found = {
        str(path.relative_to(folder)): path.read_text(errors="replace")
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for name, wanted in job.leaves.items():
        text = found.pop(name, None)
        if text is None:
            return False
        if not (wanted(text) if callable(wanted) else text.rstrip() == wanted.rstrip()):
            return False
    return found == {name: text for name, text in job.files.items() if name not in job.leaves}


def _has(text: str, fact: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(fact)}(?!\w)", text, re.IGNORECASE) is not None


async def work(model: Model, job: Job, seed: int, number: int, profile: ModelProfile, variant: str) -> Worked:
    """Do one job in a folder of its own."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, text in job.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        runtime = Runtime(builtin=basic_tools(folder))
        assistant = Assistant(runtime, model, posture="full_access", limits=LIMITS, profile=profile)
        began = time.monotonic()
        ending = await assistant.run(job.task)
        seconds = time.monotonic() - began
        is_right = is_done(job, folder, ending.summary)
    usage = ending.usage
    return Worked(
        seed=seed,
        number=number,
        kind=job.kind,
        variant=variant,
        is_solved=is_right and ending.succeeded,
        is_marked=not ending.succeeded,
        status=ending.status,
        seconds=round(seconds, 1),
        turns=ending.turns,
        called=ending.called,
        read=usage.input if usage is not None else None,
        written=usage.output if usage is not None else None,
        load=round(os.getloadavg()[0], 1),
        task=job.task,
        said=" ".join(ending.summary.split())[:160],
    )


# Measuring


async def measure(options: argparse.Namespace, environment: Mapping[str, str]) -> list[Worked]:
    """Do the jobs that are not in the file yet; all results of this seed and variant."""
    variant = options.strength + "".join(f"-{part}" for part in sorted(options.without))
    profile = ModelProfile(strength=options.strength, without=tuple(options.without))
    known = _read(options.results)
    jobs = jobs_of(options.seed)[: options.jobs]
    model = open_model(options.model, environment)
    found: list[Worked] = []
    ends = time.monotonic() + options.minutes * 60
    try:
        for number, job in enumerate(jobs):
            done = known.get((options.seed, number, variant))
            if done is None:
                if time.monotonic() > ends:
                    break
                done = await work(model, job, options.seed, number, profile, variant)
                _append(options.results, done)
                tell(done)
            found.append(done)
    finally:
        close = getattr(model, "close", None)
        if close is not None:
            await close()
    return found


def _read(path: Path | None) -> dict[tuple[int, int, str], Worked]:
    if path is None or not path.exists():
        return {}
    rows = (msgspec.json.decode(line, type=Worked) for line in path.read_bytes().splitlines() if line)
    return {(row.seed, row.number, row.variant): row for row in rows}


def _append(path: Path | None, row: Worked) -> None:
    if path is not None:
        with open(path, "ab") as file:
            file.write(msgspec.json.encode(row) + b"\n")


def tell(row: Worked) -> None:
    """One line, as soon as it is known."""
    mark = "solved" if row.is_solved else "marked" if row.is_marked else "WRONG "
    calls = " ".join(row.called) or "no calls"
    print(
        f"{mark} {row.number:>3} {row.kind:<14}{row.seconds:>6.1f} s  {row.read} read  [{calls}]  "
        f"{row.status}: {row.task[:70]} => {row.said[:90]}",
        file=sys.stderr,
        flush=True,
    )


def score(rows: Sequence[Worked]) -> dict[str, Any]:
    """The figures."""
    seconds = sorted(row.seconds for row in rows)
    wrong = [row for row in rows if not row.is_solved]
    return {
        "jobs": len(rows),
        "solved": sum(row.is_solved for row in rows),
        "wrong_and_marked": sum(row.is_marked for row in wrong),
        "wrong_and_not_marked": sum(not row.is_marked for row in wrong),
        "median_s": seconds[len(seconds) // 2] if seconds else None,
        "total_s": round(sum(seconds), 1),
        "mean_load": round(sum(row.load for row in rows) / len(rows), 1) if rows else None,
    }


def main(arguments: list[str]) -> int:
    """Measure, and print the score. Fails only where nothing could be measured."""
    parser = argparse.ArgumentParser(prog="python -m evals do", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the score as JSON")
    parser.add_argument("--model", default="local")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1000, help="only the first so many")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no job after so long")
    parser.add_argument("--strength", choices=["small", "large"], default="small", help="how it is guided")
    parser.add_argument("--without", action="append", choices=PARTS, default=[], help="switch a part off")
    parser.add_argument("--results", type=Path, help="file of results, to go on from")
    options = parser.parse_args(arguments)
    try:
        environment = model_files("local") if options.model == "local" else model_environment()
        rows = asyncio.run(measure(options, environment))
    except PlacetError as error:
        print(error, file=sys.stderr)
        return 2
    found = score(rows)
    if options.json:
        print(msgspec.json.encode(found).decode())
    else:
        print("  ".join(f"{name.replace('_', ' ')}: {value}" for name, value in found.items()))
    return 0 if rows else 2
