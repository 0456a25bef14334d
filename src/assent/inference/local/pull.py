"""Getting the files of a model, and getting rid of them.

A file grows under another name, one for each source. Only when all of it is there and its hash is right is it
called by its own.

Keep true:
1. Killed at any moment, nothing that is unfinished or unchecked is called by a model's name.
2. What has come is used again. Only what has the wrong hash is thrown away, and nothing else with it.
3. One process at a time: another one waits, and then finds everything there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

import msgspec

from assent.errors import InputError, ModelMissing, ModelUnavailable
from assent.inference.local.sources import Source, source_of
from assent.inference.local.weights import (
    Weights,
    WeightsFile,
    is_file_there,
    is_there,
    megabytes,
    models_folder,
    path_of,
)

Progress = Callable[[int, int], None]
"""Called with the bytes that are there and those that are to be."""

SPARE = 200_000_000
"""Bytes that stay free beside the files: two packages on their way, and room to breathe."""
_CHUNK = 1 << 20


class Pulled(msgspec.Struct, frozen=True, kw_only=True):
    """What was got."""

    name: str
    was_there: bool
    bytes: int
    """On the disk."""
    paths: Sequence[str]


def pull(
    weights: Weights,
    environment: Mapping[str, str],
    *,
    given: str | None = None,
    progress: Progress = lambda done, total: None,
    say: Callable[[str], None] = lambda words: None,
) -> Pulled:
    """Get what is not there yet. Interrupted, it goes on at the next call.

    `given` is a file or a URL to take it from; for a model of several files, the folder that they lie in.

    Raises:
        InputError: what came has another hash or size.
        ModelError: it could not be fetched, or there is no space for it.
    """
    was_there = is_there(weights, environment)
    if not was_there:
        folder = models_folder(environment)
        try:
            _make_private(folder)
            with _alone(folder, weights, say):
                source = source_of(given, environment, is_folder=len(weights.files) > 1, work=folder)
                _get_all(weights, environment, source, progress, say)
        except OSError as error:
            raise ModelMissing(
                f"Cannot write to {folder}: {error.strerror or error}. What has come is kept. Make room or "
                "mend the rights, or set ASSENT_MODELS to another folder; then run it again."
            ) from None
    return Pulled(
        name=weights.name,
        was_there=was_there,
        bytes=weights.size,
        paths=[str(path_of(file, environment)) for file in weights.files],
    )


def remove(weights: Weights, environment: Mapping[str, str]) -> int:
    """Take the files away, unfinished ones too, and say how many bytes that frees.

    Raises:
        ModelUnavailable: a pull is going on.
        ModelMissing: the folder cannot be changed.
    """
    folder = models_folder(environment)
    freed = 0
    if not folder.is_dir():
        return 0
    try:
        with _alone(folder, weights, None):
            for file in weights.files:
                for path in (path_of(file, environment), *_drafts(folder, file)):
                    with suppress(FileNotFoundError):
                        size = path.stat().st_size
                        path.unlink()
                        freed += size
    except OSError as error:
        raise ModelMissing(f"Cannot change {folder}: {error.strerror or error}. Mend the rights.") from None
    return freed


def _get_all(
    weights: Weights,
    environment: Mapping[str, str],
    source: Source,
    progress: Progress,
    say: Callable[[str], None],
) -> None:
    folder = models_folder(environment)
    _sweep(folder)
    missing = [file for file in weights.files if not is_file_there(file, environment)]
    before = weights.size - sum(file.size for file in missing)
    if missing:
        _need_space(folder, missing, source)
    for file in missing:
        draft = folder / f".{file.name}.{source.tag}.part"
        with open(_opened(draft), "r+b") as into:
            source.fill(file, into, partial(_tell, progress, before, weights.size))
            into.flush()
            say(f"Checking the hash of {file.name}.")
            _check(file, into, draft)
            os.fsync(into.fileno())
        draft.replace(path_of(file, environment))
        for left in _drafts(folder, file):
            left.unlink(missing_ok=True)
        before += file.size
        progress(before, weights.size)


def _tell(progress: Progress, before: int, total: int, done: int) -> None:
    progress(before + done, total)


def _check(file: WeightsFile, into: BinaryIO, draft: Path) -> None:
    """Let only the right bytes through; others are thrown away."""
    from hashlib import sha256

    into.seek(0)
    digest = sha256()
    while data := into.read(_CHUNK):
        digest.update(data)
    found = digest.hexdigest()
    if found != file.sha256:
        draft.unlink(missing_ok=True)
        raise InputError(
            f"{file.name} is not what it should be: sha256 {file.sha256} was expected, {found} was found. "
            "What came was thrown away. Run it again, or name another source with --from."
        )


def _need_space(folder: Path, missing: Sequence[WeightsFile], source: Source) -> None:
    import shutil

    there = 0
    for file in missing:
        with suppress(OSError):
            there += (folder / f".{file.name}.{source.tag}.part").stat().st_size
    needed = sum(file.size for file in missing) - there + SPARE
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ModelMissing(
            f"{folder} has {megabytes(free)} of free space, and {megabytes(needed)} are needed. Make room, "
            "or set ASSENT_MODELS to a folder on another disk."
        )


def _drafts(folder: Path, file: WeightsFile) -> list[Path]:
    return list(folder.glob(f".{file.name}.*.part"))


def _sweep(folder: Path) -> None:
    """Remove what a pull that was killed left behind, other than what it can go on with."""
    import shutil

    for left in folder.glob(".fetch-*"):
        shutil.rmtree(left, ignore_errors=True)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _make_private(folder: Path) -> None:
    """The folder and those above it; those that are made are nobody else's."""
    for each in reversed((folder, *folder.parents)):
        with suppress(FileExistsError):
            each.mkdir(mode=0o700)


@contextmanager
def _alone(folder: Path, weights: Weights, say: Callable[[str], None] | None) -> Iterator[None]:
    """Held by one process at a time; the kernel lets go of it if that process dies."""
    import fcntl

    lock = _opened(folder / f".{weights.name}.lock")
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if say is None:
                raise ModelUnavailable(f"'{weights.name}' is being pulled. Wait for it, or end it.") from None
            say("Another process is fetching it. Waiting for that one.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
