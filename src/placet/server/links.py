"""One-time links, each for one decision, for a person who is somewhere else.

Keep true:
1. A link is bound to one thing that waits, as it was shown: whoever has it decides that, once.
2. Looking uses nothing up: previews fetch links. Only deciding does, and of two at once one wins.
3. The file holds digests, mode 0600: whoever reads it cannot decide anything.
4. A link of which it cannot be recorded that it is used up decides nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from placet.server.private_file import locked, write_private

LINK_S = 24 * 3600.0
_MOST = 5_000


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A link as it is kept."""

    digest: str
    kind: str
    need: str
    """Id of what waits."""
    tenant: str | None = None
    fingerprint: str | None = None
    """`mark_of` what waits, as it was when the link was made."""
    expires_at: float


class Links:
    """The links of one server. Safe to use from any thread."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._path = folder / "links.json"
        self._clock = clock
        self._lock = threading.Lock()

    def make(
        self, kind: str, need: str, *, tenant: str | None, fingerprint: str | None, until: float | None = None
    ) -> tuple[str, float]:
        """A link for something that waits, and until when it is good."""
        code = secrets.token_urlsafe(32)
        with self._lock, locked(self._folder):
            now = self._clock()
            expires_at = min(now + LINK_S, until if until is not None else now + LINK_S)
            made = Link(
                digest=_digest(code),
                kind=kind,
                need=need,
                tenant=tenant,
                fingerprint=fingerprint,
                expires_at=expires_at,
            )
            self._store([*self._read(), made])
        return code, expires_at

    def knows(self, kind: str, need: str, fingerprint: str | None) -> bool:
        """Whether there is a link for something, that was not used."""
        # The checks of a coding session and its change have one id, and each is a question of its own.
        wanted = (kind, need, fingerprint)
        with self._lock:
            return any((each.kind, each.need, each.fingerprint) == wanted for each in self._read())

    def find(self, code: str) -> Link | None:
        """The link, if it is good. Uses nothing up."""
        shown, found = _digest(code), None
        with self._lock:
            for each in self._read():
                if hmac.compare_digest(each.digest, shown):
                    found = each
        return found

    def use(self, code: str) -> Link | None:
        """The link, which is used up by that; None if it was before, or is too old.

        Raises:
            InputError: that cannot be recorded.
        """
        with self._lock, locked(self._folder):
            known = self._read()
            found = next((each for each in known if hmac.compare_digest(each.digest, _digest(code))), None)
            if found is not None:
                self._store([each for each in known if each is not found])
            return found

    def _read(self) -> list[Link]:
        now = self._clock()
        known: list[Link] = []
        with suppress(OSError, msgspec.DecodeError):  # What cannot be read is good for nothing.
            known = msgspec.json.decode(self._path.read_bytes(), type=list[Link])
        return [each for each in known if now < each.expires_at]

    def _store(self, links: list[Link]) -> None:
        write_private(self._path, msgspec.json.encode(links[-_MOST:]))


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode(errors="replace")).hexdigest()
