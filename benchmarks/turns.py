"""What a turn costs besides the model: CPU of our turn loop, and of two others, at the same job.

A scripted model asks for one call of a tool that does nothing, turn after turn, each with another argument;
and once for a hundred calls in one turn. Ours keeps an event log and a journal meanwhile; the others keep
neither. Each peer runs in a process of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from benchmarks.measure import Contender, Effort, Measure, Prepared, Side
from benchmarks.peer import NAMES, Peer, PeerUnavailable
from benchmarks.report import Cell, Floor, Section
from benchmarks.turns_job import DONE, PROMPT, READ, TASK, WRITTEN, Job
from placet import EventLog, Runtime, SqlEvents, SqlJournal, open_database, tool
from placet.assistant.assistant import Assistant
from placet.inference import Request, Result, ToolCall
from placet.inference.usage import Usage
from placet.ir.tool_spec import Risk
from placet.turns import TurnLimits

Case = tuple[str, int]
SHORT, LONG, MANY = ("turns", 50), ("turns", 500), ("calls in a turn", 100)
CASES = (SHORT, LONG, MANY)

MOST_US = {SHORT: 300, MANY: 6_000}
MOST_GROWTH = 1.2
MOST_OF_PEER = {SHORT: 0.5, LONG: 0.1}
"""Of the better of the two."""
SWIFT, SLOW = "smolagents", "pydantic-ai-slim"

# More than elsewhere: a peer's run of 500 turns takes seconds.
EFFORT = Effort(turns=10, seconds=10.0)
QUICK_EFFORT = Effort(turns=4, seconds=3.0)

Loop = Callable[[int, int], Side]
"""A side of the comparison, from the number of turns and that of the calls in each of them but the last."""


@dataclass(frozen=True, slots=True)
class Figure:
    """CPU of a turn; where one turn has many calls, of the whole run."""

    us: float
    busy: bool


Figures = Mapping[Case, Figure]


async def run(clock: Measure, say: Callable[[str], None], *, quick: bool) -> Section:
    """Every loop at every job."""
    patient = Measure(QUICK_EFFORT if quick else EFFORT)
    patient.pace = clock.pace
    section = Section(
        "The turn loop: CPU per turn, and of a run with 100 calls in one turn (us)",
        ("loop", "50 turns", "500 turns", "500 x 50", "100 calls", "x peer: 50", "500", "calls", "machine"),
    )
    with ours() as mine:
        found = await _with_peer(SWIFT, mine, patient, say, section)
        # Not in the same turns: one that takes so long is seldom quiet from beginning to end.
        found |= await _with_peer(SLOW, {}, patient, say, section)
        _fill(section, found, list(mine))
    return section


async def _with_peer(
    name: str, loops: dict[str, Loop], clock: Measure, say: Callable[[str], None], section: Section
) -> dict[str, Figures]:
    """What these take and what a peer takes, all in the same turns; where it cannot be had, without it."""
    try:
        with Peer(say, name, "turns_peer_worker") as peer:

            def theirs(turns: int, calls: int) -> Side:
                return peer.run(turns=turns, calls=calls)

            return await _measured({**loops, NAMES[name]: theirs}, clock, say)
    except PeerUnavailable as error:
        section.notes.append(f"without {name}: {error}")
        return await _measured(loops, clock, say)


@contextmanager
def ours() -> Iterator[dict[str, Loop]]:
    """An assistant of ours; first the one that has floors to hold."""
    with (
        TemporaryDirectory(prefix="placet-bench-") as folder,
        open_database(f"sqlite:///{folder}/bench.db", create=True) as database,
        closing(SqlJournal(database)) as journal,
    ):

        def loop(*, risk: Risk = "read_only", log_on_disk: bool = False) -> Loop:
            def side(turns: int, calls: int) -> Side:
                async def prepare() -> Prepared:
                    sinks = [SqlEvents(database)] if log_on_disk else []
                    return _ready(Job(turns, calls), risk, EventLog(sinks=sinks), journal)

                return Contender(prepare)

            return side

        yield {
            "placet, journal in SQLite": loop(),
            "placet, log in SQLite too": loop(log_on_disk=True),
            "placet, tool not to be repeated": loop(risk="destructive"),
        }


def _ready(job: Job, risk: Risk, log: EventLog, journal: SqlJournal) -> Prepared:
    """An assistant that does the job once, with everything on disk in the end."""

    @tool(risk=risk, cheap=True)
    def noop(x: int) -> int:
        """Do nothing."""
        job.seen.append(x)
        return x

    runtime = Runtime(tools=[noop], events=log, journal=journal)
    assistant = Assistant(
        runtime, _Scripted(job), system=PROMPT, limits=TurnLimits(turns=job.turns), posture="full_access"
    )

    async def run() -> None:
        ending = await assistant.run(TASK)
        await log.settle()
        job.check(ending.summary)

    return run


class _Scripted:
    """The model of the job."""

    name = "scripted"

    def __init__(self, job: Job) -> None:
        self.job = job

    async def generate(self, request: Request) -> Result:
        calls = [ToolCall(id=f"c{x}", name="noop", arguments={"x": x}) for x in self.job.next_calls()]
        usage = Usage(input=READ, output=WRITTEN)
        if not calls:
            return Result(text=DONE, model="scripted", usage=usage)
        return Result(calls=calls, model="scripted", usage=usage, stop="calls")


async def _measured(
    loops: Mapping[str, Loop], clock: Measure, say: Callable[[str], None]
) -> dict[str, Figures]:
    if not loops:
        return {}

    def sides(kind: str, count: int) -> list[Side]:
        job = (2, count) if (kind, count) == MANY else (count, 1)
        return [loop(*job) for loop in loops.values()]

    say(f"turns: {', '.join(loops)}")
    timings = await clock.all_of(CASES, sides, say)
    return {
        name: {
            case: Figure(timing.seconds[place] * 1e6 / (1 if case == MANY else case[1]), timing.busy)
            for case, timing in timings.items()
        }
        for place, name in enumerate(loops)
    }


def _fill(section: Section, found: Mapping[str, Figures], mine: Sequence[str]) -> None:
    theirs = [figures for name, figures in found.items() if name not in mine]
    better = {case: min((each[case] for each in theirs), key=_us, default=None) for case in CASES}
    for name, figures in found.items():
        against: list[Cell] = [
            figures[case].us / peer.us if peer is not None else None for case, peer in better.items()
        ]
        short, long, many = (figures[case] for case in CASES)
        mark = "busy" if any(figure.busy for figure in figures.values()) else ""
        section.rows.append([name, short.us, long.us, long.us / short.us, many.us, *against, mark])
    section.floors += _floors(found[mine[0]], better)
    section.notes += [
        "The last columns are against the better of the peers. They keep no log and no journal.",
        "A turn is one request to the model; in the last one it is done. Threads count too.",
        "A call that must not be repeated waits for the disk before it begins.",
    ]


def _floors(figures: Figures, better: Mapping[Case, Figure | None]) -> list[Floor]:
    floors = []
    for (kind, count), limit in MOST_US.items():
        figure = figures[kind, count]
        floors.append(Floor(f"turns: {count} {kind}", figure.us, limit, "us", busy=figure.busy))
    short, long = figures[SHORT], figures[LONG]
    what = f"turns: a turn of {LONG[1]} against one of {SHORT[1]}"
    floors.append(Floor(what, long.us / short.us, MOST_GROWTH, busy=short.busy or long.busy))
    for case, share in MOST_OF_PEER.items():
        peer, figure = better[case], figures[case]
        if peer is not None:
            what = f"turns: {case[1]}, against the better peer"
            floors.append(Floor(what, figure.us / peer.us, share, busy=figure.busy or peer.busy))
    return floors


def _us(figure: Figure) -> float:
    return figure.us
