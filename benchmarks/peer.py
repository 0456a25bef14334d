"""Another runtime for plans as data, compiled, in an environment of its own: the same plans, the same run."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.measure import Effort
from benchmarks.report import Floor, Section

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE / ".peer-venv"
REQUIREMENTS = HERE / "peer-requirements.txt"

Times = dict[tuple[str, int], float]


class PeerUnavailable(Exception):
    """The peer cannot be installed or run here."""


def environment(say: Callable[[str], None]) -> Path:
    """The interpreter of the peer's environment, made if it is not there or holds another version."""
    python = ENVIRONMENT / "bin" / "python"
    stamp = ENVIRONMENT / ".installed"
    wanted = REQUIREMENTS.read_text()
    if stamp.exists() and stamp.read_text() == wanted and python.exists():
        return python
    say(f"setting up {ENVIRONMENT.relative_to(HERE.parent)} with {wanted.strip()} (once)")
    venv.create(ENVIRONMENT, with_pip=True, clear=True)
    done = subprocess.run(
        [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "-r", REQUIREMENTS],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PeerUnavailable(f"cannot install {wanted.strip()}: {done.stderr.strip()[-300:]}")
    stamp.write_text(wanted)
    return python


def run(sizes: Sequence[int], effort: Effort, say: Callable[[str], None]) -> Times:
    """CPU seconds per plan of the peer, by shape and size."""
    python = environment(say)
    times: Times = {}
    # -I keeps the peer's interpreter free of our paths; the folder of the script is the one thing it needs.
    bootstrap = f"import sys; sys.path.insert(0, {str(HERE)!r}); import peer_worker; peer_worker.main()"
    command = [python, "-I", "-c", bootstrap, effort.turns, effort.seconds, *sizes]
    with tempfile.TemporaryFile("w+") as complaints:
        child = subprocess.Popen(
            [str(part) for part in command], stdout=subprocess.PIPE, stderr=complaints, text=True
        )
        assert child.stdout is not None
        with child:
            for line in child.stdout:
                row = json.loads(line)
                times[row["shape"], row["size"]] = row["seconds"]
                say(f"peer: {row['shape']} of {row['size']:,}")
        if child.returncode:
            complaints.seek(0)
            raise PeerUnavailable(f"it failed: {complaints.read().strip()[-300:]}")
    return times


def compare(ours: Times, theirs: Times) -> Section:
    """Both per action, and how many times faster we are."""
    section = Section(
        f"Against {REQUIREMENTS.read_text().strip()} (compiled), CPU per action, JSON in and out",
        ("shape", "actions", "assent us", "peer us", "times faster"),
    )
    for (shape, size), mine in ours.items():
        other = theirs.get((shape, size))
        if other is None:
            continue
        section.rows.append([shape, size, mine / size * 1e6, other / size * 1e6, other / mine])
        if (shape, size) == ("state chain", 10_000):
            section.floors.append(
                Floor("state chain of 10,000: times faster than the peer", other / mine, 40, at_least=True)
            )
        if size == 100:
            section.floors.append(
                Floor(f"{shape} of 100: times faster than the peer", other / mine, 1, at_least=True)
            )
    section.notes.append(
        "The peer does not know `dependencies`: to it a chain is a sequence. "
        "It finds chains in the state, like the state chain here."
    )
    return section


if __name__ == "__main__":
    print(environment(lambda line: print(line, file=sys.stderr)))
