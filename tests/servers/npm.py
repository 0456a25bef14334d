"""Programs of the tests that are npm packages: pinned, and installed once.

    found = NpmPackages("what they are", pins=folder_of_the_lock, cache=folder, command="python -m ...")
    modules = found.modules()

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
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INSTALL_LIMIT_S = 300


class PackagesMissing(RuntimeError):
    """They are not here, and could not be installed."""


@dataclass(frozen=True, slots=True)
class NpmPackages:
    """The packages of one lock."""

    what: str
    """In words, for whoever waits or has to help."""
    pins: Path
    """The folder of `package.json` and `package-lock.json`."""
    cache: Path
    """Where they go; shared by all workers."""
    command: str
    """What a person runs to install them."""

    def modules(self, npm: str | None = None) -> Path:
        """Their folder `node_modules`; installs them first where they are missing or of other versions.

        Raises:
            PackagesMissing: still not there; the message says what to do.
        """
        found = self.cache / f"packages-{self._pinned()}"
        if not (found / "complete").exists():
            self.cache.mkdir(parents=True, exist_ok=True)
            with self._one_at_a_time():
                # Look again: another test worker may have installed them while this one waited.
                if not (found / "complete").exists():
                    self._install(found, npm or shutil.which("npm"))
        return found / "node_modules"

    def version(self, package: str) -> str:
        """The version that is pinned."""
        pinned: str = json.loads((self.pins / "package.json").read_text())["dependencies"][package]
        return pinned

    def _pinned(self) -> str:
        return hashlib.sha256((self.pins / "package-lock.json").read_bytes()).hexdigest()[:12]

    def _install(self, target: Path, npm: str | None) -> None:
        if npm is None:
            raise self._missing("there is no npm on PATH.")
        print(f"Installing {self.what} (npm ci) ...", file=sys.stderr, flush=True)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(self.pins / name, target)
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
            raise self._missing(f"`npm ci` did not end within {INSTALL_LIMIT_S} seconds.") from None
        except OSError as error:
            raise self._missing(f"{npm} cannot be started: {error.strerror}.") from None
        if ran.returncode != 0:
            raise self._missing(f"`npm ci` failed:\n{ran.stdout[-2000:].strip()}\n")
        (target / "complete").touch()

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        """Held by one process at a time; the kernel lets go of it if that process dies."""
        lock = os.open(self.cache / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _missing(self, because: str) -> PackagesMissing:
        return PackagesMissing(
            f"{self.what[0].upper()}{self.what[1:]} cannot be had: {because} npm installs that, once: "
            f"install Node 20 or newer, make sure that npm reaches its registry, then: {self.command}"
        )
