"""What a person has agreed to or made, remembered in their own data folder: a small file for each kind.

Keep true:
1. A file that cannot be read remembers nothing, and is never written over.
2. It is for its owner alone, and there is an old one or a new one, never half of one.
3. Two processes that change it at once are both remembered.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from placet.errors import TrustError

Entry = TypeVar("Entry", bound=msgspec.Struct)
_FORMAT = 1


class PrivateRecord(Generic[Entry]):
    """One such file: entries of one kind by their names, which are paths."""

    def __init__(self, path: Path, kind: type[Entry], *, key: str, otherwise: str, again: str) -> None:
        """`otherwise` and `again` go into messages: what holds while it is damaged, and what to do then."""
        self.path = path
        self._kind = kind
        self._key = key
        self._otherwise = otherwise
        self._again = again

    def load(self) -> dict[str, Entry]:
        """What is remembered; nothing where there is no file.

        Raises:
            TrustError: the file is damaged.
        """
        try:
            # Not msgspec's decoder: a folder's name may hold bytes that are no UTF-8, which json keeps.
            record: Any = json.loads(self.path.read_bytes())
            if not isinstance(record, dict) or record.keys() != {"format", self._key}:
                raise ValueError
            version = msgspec.convert(record["format"], int)
            entries = msgspec.convert(record[self._key], dict[str, self._kind])  # type: ignore[name-defined]
        except FileNotFoundError:
            return {}
        except OSError as error:
            problem = f"cannot be read: {error.strerror or error}, so {self._otherwise}"
            raise TrustError(str(self.path), problem, "Check its permissions.") from None
        except (ValueError, msgspec.ValidationError, RecursionError):
            raise TrustError(
                str(self.path),
                f"is damaged, so {self._otherwise}",
                f"Put back an older copy, or move it away and {self._again}.",
            ) from None
        if version != _FORMAT:
            raise TrustError(
                str(self.path),
                f"has format {version}, and this version reads {_FORMAT}",
                f"Use the version of Placet that wrote it, or move the file away and {self._again}.",
            )
        return entries

    @contextmanager
    def changing(self) -> Iterator[dict[str, Entry]]:
        """What is remembered, to be changed; written when the block ends, while no other process changes it.

        Raises:
            TrustError: it cannot be written, or what is there is damaged.
        """
        with self.alone():
            entries = self.load()
            yield entries
            self.write(entries)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While this lasts, no other process changes the file.

        Raises:
            TrustError: it cannot be written.
        """
        import fcntl

        try:
            _make_private(self.path.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            # A file of its own: the record is replaced, and a lock on the old one would hold nobody back.
            lock = os.open(self.path.with_suffix(".lock"), flags, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
            finally:
                os.close(lock)
        except OSError as error:
            raise TrustError(
                str(self.path),
                f"cannot be written: {error.strerror or error}",
                "Nothing was changed; check its permissions and those of its folder.",
            ) from None

    def write(self, entries: Mapping[str, Entry]) -> None:
        """Remember these. On disk when it returns. Only while `alone`."""
        data = json.dumps(
            {"format": _FORMAT, self._key: msgspec.to_builtins(dict(sorted(entries.items())))}, indent=2
        )
        draft = self.path.with_suffix(".part")
        # Whoever holds the lock is alone: a draft that is there was left by one that died.
        draft.unlink(missing_ok=True)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with open(os.open(draft, flags, 0o600), "w") as file:
                file.write(data + "\n")
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
        finally:
            draft.unlink(missing_ok=True)


def _make_private(folder: Path) -> None:
    if not folder.exists():
        # One by one: mkdir gives the mode to the last folder only.
        _make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
