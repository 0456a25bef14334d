"""The MCP conformance tests of the protocol's authors, for our server and our client.

    done = run_suite("server", "--url", url, "--scenario", "ping")

`python -m tests.servers.conformance` makes sure they are there and prints their version.

They are an npm package, and it needs a newer Node than many machines have; so that comes as a package too.
`tests/conformance/package.json` names the versions of both, and its lock those of all the rest.

Keep true:
1. What is installed is exactly what the lock says, in a folder that git ignores; nothing else is touched.
2. Whoever comes first installs, the others wait; an install that was broken off is begun anew.
3. Where it cannot be had that is an error that says what to do: a skipped test proves nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PINS = ROOT / "tests" / "conformance"
CACHE = ROOT / ".venv" / "conformance"
PACKAGE = "@modelcontextprotocol/conformance"
INSTALL_LIMIT_S = 300
RUN_LIMIT_S = 60


class ConformanceMissing(RuntimeError):
    """The conformance tests are not here, and could not be installed."""

    def __init__(self, because: str) -> None:
        super().__init__(
            f"The MCP conformance tests cannot be had: {because} They are installed with npm, once; install "
            "Node 20 or newer, make sure that npm reaches its registry, then: "
            "python -m tests.servers.conformance"
        )


def programs(cache: Path = CACHE, npm: str | None = None) -> list[str]:
    """The command that runs them; installs them first where they are missing or of other versions.

    Raises:
        ConformanceMissing: still not there; the message says what to do.
    """
    found = cache / f"packages-{_pins()}"
    if not (found / "complete").exists():
        cache.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(cache):
            # Look again: another test worker may have installed them while this one waited.
            if not (found / "complete").exists():
                _install(found, npm or shutil.which("npm"))
    modules = found / "node_modules"
    return [str(modules / ".bin" / "node"), str(modules / PACKAGE / "dist" / "index.js")]


def version() -> str:
    """The version that is pinned."""
    pinned: str = json.loads((PINS / "package.json").read_text())["dependencies"][PACKAGE]
    return pinned


def run_suite(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run them in a folder of their own, to the end; whether they passed is in the exit code."""
    node, script = programs()
    path = os.pathsep.join([str(Path(node).parent), os.environ.get("PATH", "")])
    return subprocess.run(
        [node, script, *arguments],
        cwd=folder,
        env={**os.environ, "PATH": path, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=RUN_LIMIT_S,
        check=False,
    )


def _pins() -> str:
    return hashlib.sha256((PINS / "package-lock.json").read_bytes()).hexdigest()[:12]


def _install(target: Path, npm: str | None) -> None:
    if npm is None:
        raise ConformanceMissing("there is no npm on PATH.")
    print("Installing the MCP conformance tests (npm ci) ...", file=sys.stderr, flush=True)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PINS / name, target)
    command = [npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"]
    try:
        ran = subprocess.run(
            command,
            cwd=target,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=INSTALL_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ConformanceMissing(f"`npm ci` did not end within {INSTALL_LIMIT_S} seconds.") from None
    except OSError as error:
        raise ConformanceMissing(f"{npm} cannot be started: {error.strerror}.") from None
    if ran.returncode != 0:
        raise ConformanceMissing(f"`npm ci` failed:\n{ran.stdout[-2000:].strip()}\n")
    (target / "complete").touch()


@contextmanager
def _one_at_a_time(cache: Path) -> Iterator[None]:
    """Held by one process at a time; the kernel lets go of it if that process dies."""
    lock = os.open(cache / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def main() -> int:
    try:
        node, _ = programs()
    except ConformanceMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    asked = subprocess.run([node, "--version"], check=True, capture_output=True, text=True)
    print(f"MCP conformance tests {version()} on Node {asked.stdout.strip()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
