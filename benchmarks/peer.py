"""Other runtimes at the same work, in an environment of their own: same jobs, same turns."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from benchmarks.measure import Elsewhere, Timing
from benchmarks.report import Floor, Section

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE / ".peer-venv"
REQUIREMENTS = HERE / "peer-requirements.txt"
PINNED = REQUIREMENTS.read_text().split()
NAMES = {pinned.partition("==")[0]: pinned for pinned in PINNED}
"""Each package with its version."""
COMPILED = "car-runtime"
"""The one for plans as data."""


class PeerUnavailable(Exception):
    """A peer cannot be installed or run here."""


def environment(say: Callable[[str], None]) -> Path:
    """The interpreter of the peers' environment, made if it is not there or holds other versions."""
    python = ENVIRONMENT / "bin" / "python"
    stamp = ENVIRONMENT / ".installed"
    wanted = " ".join(PINNED)
    if stamp.exists() and stamp.read_text() == wanted and python.exists():
        return python
    say(f"setting up {ENVIRONMENT.relative_to(HERE.parent)} with {wanted} (once)")
    venv.create(ENVIRONMENT, with_pip=True, clear=True)
    done = subprocess.run(
        [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "-r", REQUIREMENTS],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PeerUnavailable(f"cannot install {wanted}: {done.stderr.strip()[-300:]}")
    stamp.write_text(wanted)
    return python


class Peer:
    """A peer at work in its own process, asked for one run at a time."""

    def __init__(self, say: Callable[[str], None], name: str = COMPILED, worker: str = "peer_worker") -> None:
        self._name = NAMES[name]
        python = environment(say)
        # -I keeps the peer's interpreter free of our paths; this folder is the one thing it needs.
        start = f"import sys; sys.path.insert(0, {str(HERE)!r}); import {worker}; {worker}.main()"
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in __exit__
        self._child = subprocess.Popen(
            [str(python), "-I", "-c", start, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._complaints, self._child:
            assert self._child.stdin is not None
            # One that died has not read what it was asked last.
            with suppress(BrokenPipeError):
                self._child.stdin.close()

    def execute(self, shape: str, size: int) -> Elsewhere:
        """One execution of a plan, by the peer that knows plans."""
        return self.run(shape=shape, size=size)

    def run(self, **job: str | int) -> Elsewhere:
        """One run of this job; the worker says which keys it knows."""

        def ask() -> float:
            assert self._child.stdin is not None
            assert self._child.stdout is not None
            try:
                print(json.dumps(job), file=self._child.stdin, flush=True)
                answer = self._child.stdout.readline()
            except BrokenPipeError:
                answer = ""
            if not answer:
                self._complaints.seek(0)
                raise PeerUnavailable(f"{self._name} failed: {self._complaints.read().strip()[-300:]}")
            return float(answer)

        return Elsewhere(ask)


def compare(timings: dict[tuple[str, int], Timing]) -> Section:
    """Both per action, and how many times faster we are; the peer is the last side of each timing."""
    section = Section(
        f"Against {NAMES[COMPILED]} (compiled), CPU per action, JSON in and out",
        ("shape", "actions", "placet us", "peer us", "times faster", "machine"),
    )
    for (shape, size), timing in timings.items():
        ours, theirs = timing.seconds[0], timing.seconds[-1]
        faster = theirs / ours
        section.rows.append([shape, size, ours / size * 1e6, theirs / size * 1e6, faster, timing.mark])
        limit = 40 if (shape, size) == ("state chain", 10_000) else 1 if size == 100 else None
        if limit is not None:
            what = f"{shape} of {size:,}: times faster than the peer"
            section.floors.append(Floor(what, faster, limit, at_least=True, busy=timing.busy))
    section.notes.append(
        "The peer does not know `dependencies`: to it a chain is a sequence. "
        "It finds chains in the state, like the state chain here."
    )
    return section


if __name__ == "__main__":
    print(environment(lambda line: print(line, file=sys.stderr)))
