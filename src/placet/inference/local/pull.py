"""Getting the files of a model, and getting rid of them.

A file grows under another name, one for each source. Only when all of it is there and its hash is right is it
called by its own.

Keep true:
1. Killed at any moment, nothing that is unfinished or unchecked is called by a model's name.
2. What has come is used again. Only what has the wrong hash is thrown away, and nothing else with it.
   What is there already is not believed either: its hash is looked at before it is called right.
3. One process at a time: another one waits, and then finds everything there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from placet.errors import InputError, ModelMissing, ModelUnavailable
from placet.inference.local.lock_file import LockFile
from placet.inference.local.packages import Packages, fetch_prefix, whole_parts
from placet.inference.local.sources import LocalFile, Source, source_of
from placet.inference.local.web_file import state_path
from placet.inference.local.weights import (
    Weights,
    WeightsFile,
    is_file_there,
    is_there,
    megabytes,
    models_folder,
    path_of,
)
from placet.safe_text import clean

Progress = Callable[[int, int], None]
"""Called with the bytes that are there and those that are to be."""

SPARE = 10
"""One in so many bytes stays free beside the files: room to breathe."""
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
    checking: Progress = lambda done, total: None,
    say: Callable[[str], None] = lambda words: None,
) -> Pulled:
    """Get what is not there yet, or is not what it should be. Interrupted, it goes on at the next call.

    `given` is a file or a URL to take it from; for a model of several files, the folder that they lie in.
    `checking` hears of bytes whose hash has been looked at.

    Raises:
        InputError: what came has another hash or size.
        ModelError: it could not be fetched, or there is no space for it.
    """
    folder = models_folder(environment)
    source = source_of(given, weights, environment, work=folder, say=say)
    damaged = _damaged(weights, environment, checking, say)
    was_there = not damaged and is_there(weights, environment)
    if not was_there:
        try:
            _make_private(folder)
            with _alone(folder, weights, say):
                for path, seen in damaged.items():
                    if _same(path, seen):
                        path.unlink()
                _get_all(weights, environment, source, progress, checking, say)
        except OSError as error:
            kept = "What has come is kept. " if source.keeps else ""
            raise ModelMissing(
                f"Cannot write to {clean(folder)}: {error.strerror or error}. {kept}Make room or mend the "
                "rights, or set PLACET_MODELS to another folder; then run it again."
            ) from None
    return Pulled(
        name=weights.name,
        was_there=was_there,
        bytes=weights.size,
        paths=[str(path_of(file, environment)) for file in weights.files],
    )


def bytes_here(weights: Weights, environment: Mapping[str, str]) -> int:
    """How much of a model is here, what the next pull can go on with included."""
    folder = models_folder(environment)
    here = 0
    for file in weights.files:
        if is_file_there(file, environment):
            here += file.size
            continue
        kept = [0]
        for draft in folder.glob(f".{file.name}.*.part"):
            with suppress(OSError):
                kept.append(_kept(file, draft))
        here += min(max(kept), file.size)
    return here


def _kept(file: WeightsFile, draft: Path) -> int:
    """How much of a draft the next pull can go on with."""
    tag = draft.name.removeprefix(f".{file.name}.").removesuffix(".part")
    if tag == LocalFile.tag or tag.endswith(".new"):
        return 0
    size = draft.stat().st_size
    return whole_parts(file, size) if tag == Packages.tag else size


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
            freed += _sweep(folder, weights)
    except OSError as error:
        raise ModelMissing(f"Cannot change {folder}: {error.strerror or error}. Mend the rights.") from None
    return freed


def _get_all(
    weights: Weights,
    environment: Mapping[str, str],
    source: Source,
    progress: Progress,
    checking: Progress,
    say: Callable[[str], None],
) -> None:
    folder = models_folder(environment)
    _sweep(folder, weights)
    missing = [file for file in weights.files if not is_file_there(file, environment)]
    before = weights.size - sum(file.size for file in missing)
    if missing:
        _need_space(folder, weights, missing, source)
    for file in missing:
        draft = folder / f".{file.name}.{source.tag}.part"
        source.fill(file, draft, partial(_tell, progress, before, weights.size))
        say(f"Checking the hash of {file.name}.")
        found = _hash(draft, partial(_tell, checking, before, weights.size))
        if found != file.sha256:
            for left in _drafts_of(draft):
                left.unlink(missing_ok=True)
            raise InputError(
                f"{file.name} is not what it should be: sha256 {file.sha256} was expected, {found} was "
                "found. What came was thrown away. Run it again, or name another source with --from."
            )
        _keep(draft, path_of(file, environment))
        for left in _drafts(folder, file):
            left.unlink(missing_ok=True)
        before += file.size
        progress(before, weights.size)


def _tell(progress: Progress, before: int, total: int, done: int) -> None:
    progress(before + done, total)


def _keep(draft: Path, path: Path) -> None:
    """Give it its own name, once it is on the disk."""
    opened = os.open(draft, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
    draft.replace(path)


def _damaged(
    weights: Weights, environment: Mapping[str, str], checking: Progress, say: Callable[[str], None]
) -> dict[Path, os.stat_result]:
    """The files that are there and are not what they should be, as they are now."""
    found = {}
    before = 0
    for file in weights.files:
        path = path_of(file, environment)
        if is_file_there(file, environment):
            say(f"Checking the hash of {file.name}.")
            try:
                seen = path.stat()
                is_right = _hash(path, partial(_tell, checking, before, weights.size)) == file.sha256
            except OSError as error:
                raise ModelMissing(
                    f"Cannot read {clean(path)}: {error.strerror or error}. Mend its rights, or remove it."
                ) from None
            if not is_right:
                say(f"{file.name} is damaged: its hash is not what it should be. It is fetched again.")
                found[path] = seen
        before += file.size
    return found


def _same(path: Path, seen: os.stat_result) -> bool:
    """Whether a file is still the one that was looked at: another process may have mended it."""
    try:
        now = path.stat()
    except OSError:
        return False
    return (now.st_ino, now.st_mtime_ns) == (seen.st_ino, seen.st_mtime_ns)


def _hash(path: Path, told: Callable[[int], None]) -> str:
    from hashlib import sha256

    digest = sha256()
    done = 0
    with open(path, "rb") as file:
        while data := file.read(_CHUNK):
            digest.update(data)
            done += len(data)
            told(done)
    return digest.hexdigest()


def _need_space(folder: Path, weights: Weights, missing: Sequence[WeightsFile], source: Source) -> None:
    import shutil

    left = sum(file.size for file in missing)
    for file in missing:
        with suppress(OSError):
            left -= (folder / f".{file.name}.{source.tag}.part").stat().st_size
    needed = left + left // SPARE + min(source.beside, weights.download)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ModelMissing(
            f"{clean(folder)} has {megabytes(free)} of free space, and {megabytes(needed)} are needed. Make "
            "room, or set PLACET_MODELS to a folder on another disk."
        )


def _drafts(folder: Path, file: WeightsFile) -> list[Path]:
    """Unfinished files, and what is noted of them."""
    return [*folder.glob(f".{file.name}.*.part"), *folder.glob(f".{file.name}.*.state")]


def _drafts_of(draft: Path) -> list[Path]:
    return [draft, state_path(draft)]


def _sweep(folder: Path, weights: Weights) -> int:
    """Remove what a pull of this model that was killed left behind, other than what it can go on with; how
    many bytes that frees."""
    import shutil

    freed = 0
    for left in folder.glob(f"{fetch_prefix(weights.name)}*"):
        freed += sum(path.lstat().st_size for path in left.rglob("*") if path.is_file())
        shutil.rmtree(left, ignore_errors=True)
    return freed


def _make_private(folder: Path) -> None:
    """The folder and those above it; those that are made are nobody else's."""
    for each in reversed((folder, *folder.parents)):
        with suppress(FileExistsError):
            each.mkdir(mode=0o700)


@contextmanager
def _alone(folder: Path, weights: Weights, say: Callable[[str], None] | None) -> Iterator[None]:
    """Held by one process at a time; the kernel lets go of it if that process dies."""
    lock = LockFile(folder / f".{weights.name}.lock")
    try:
        if not lock.try_lock():
            if say is None:
                raise ModelUnavailable(f"'{weights.name}' is being pulled. Wait for it, or end it.")
            say("Another process is fetching it. Waiting for that one.")
            lock.lock()
        yield
    finally:
        lock.close()
