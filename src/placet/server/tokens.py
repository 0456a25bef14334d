"""Who may use the server: tokens with a name, a tenant and rights, in a file that only its owner can read.

A token is 256 random bits. The file holds SHA-256 digests, so whoever reads it cannot use what it holds. A
browser trades a one-time code for a token of its own, which it keeps as a cookie and which is as good as the
token that made the code, until it expires or that token is revoked.

Keep true:
1. A token is compared in constant time, with every known one, by digest.
2. The file is written whole under another name and moved into place, mode 0600 from the first byte.
3. A code is good once, for a few minutes, and only in the process that made it.
4. What one process revokes no other brings back: whoever writes the file reads it under its lock.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, get_args

import msgspec

from placet.errors import InputError, UsageError
from placet.ir.to_dict import ToDict
from placet.server.private_file import locked, write_private

Right = Literal["see", "decide", "start", "admin"]
"""What a token allows: look, answer what waits for a person, start and stop work, manage tokens."""
RIGHTS: tuple[Right, ...] = get_args(Right)
OWNER = "owner"
"""The token of whoever started the server; it has every right and sees every tenant."""

CODE_S = 600.0
BROWSER_S = 30 * 24 * 3600.0
_MOST_BROWSERS = 50
"""Of one token; the oldest goes when there are more."""


class Token(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """A token as it is kept: everything but the token itself."""

    name: str
    """Who uses it; decisions are recorded under this name."""
    tenant: str | None = None
    """The only tenant that it sees. `None`: all of them."""
    rights: tuple[Right, ...] = ("see",)
    """What it allows."""
    digest: str
    """SHA-256 of the token."""
    created_at: float
    """When it was made, in seconds since the epoch."""
    expires_at: float | None = None
    """When it ends. `None`: it does not."""
    of: str | None = None
    """The token for which a browser holds this one."""

    def may(self, right: Right) -> bool:
        """Whether it allows something."""
        return right in self.rights

    def sees(self, tenant: str | None) -> bool:
        """Whether what belongs to a tenant is its business."""
        return self.tenant is None or self.tenant == tenant


class Tokens:
    """The tokens in one folder. Safe to use from any thread, and from several processes."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._path = folder / "tokens.json"
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: tuple[int, int] | None = None
        self._known: list[Token] = []
        self._codes: dict[str, tuple[str, str, float]] = {}
        """By the digest of each code, the name and the digest of the token that it stands for, and until
        when."""

    @property
    def folder(self) -> Path:
        """Where what the server keeps lies."""
        return self._folder

    @property
    def owner_file(self) -> Path:
        """Where the owner's token is, for programs of the same person."""
        return self._folder / "token"

    def owner(self) -> str:
        """The owner's token, made if there is none.

        Raises:
            InputError: the folder cannot be used.
        """
        with self._lock, locked(self._folder):
            known = self._read()
            try:
                kept = self.owner_file.read_text(encoding="ascii").strip()
            except (OSError, ValueError):
                kept = ""
            if kept and any(t.name == OWNER and hmac.compare_digest(t.digest, _digest(kept)) for t in known):
                return kept
            made, secret = _new(OWNER, None, RIGHTS, self._clock())
            self._store([*(t for t in known if OWNER not in (t.name, t.of)), made])
            write_private(self.owner_file, secret.encode())
            return secret

    def listed(self) -> list[Token]:
        """Every token but those of browsers."""
        with self._lock:
            return [token for token in self._read() if token.of is None]

    def add(self, name: str, *, tenant: str | None = None, rights: Sequence[Right] = ("see",)) -> str:
        """Make a token and return it; it cannot be shown again.

        Raises:
            UsageError: the name is taken or no name, or there is no such right.
        """
        _check_name(name)
        _check_rights(rights, tenant)
        with self._lock, locked(self._folder):
            known = self._read()
            if any(token.name == name for token in known):
                raise UsageError(f"There is a token '{name}' already. Rotate it, or choose another name.")
            made, secret = _new(name, tenant, tuple(rights), self._clock())
            self._store([*known, made])
            return secret

    def rotate(self, name: str) -> str:
        """Put a new token in the place of one, with the same rights. Browsers that used it are logged out.

        Raises:
            UsageError: there is no such token.
        """
        with self._lock, locked(self._folder):
            known = self._read()
            old = _named(known, name)
            made, secret = _new(name, old.tenant, old.rights, self._clock())
            self._store([*(t for t in known if name not in (t.name, t.of)), made])
            if name == OWNER:
                write_private(self.owner_file, secret.encode())
            return secret

    def revoke(self, name: str) -> None:
        """End a token, and the browsers that use it.

        Raises:
            UsageError: there is no such token, or it is the owner's, which can only be rotated.
        """
        if name == OWNER:
            raise UsageError("The owner's token cannot be revoked. Rotate it instead.")
        with self._lock, locked(self._folder):
            known = self._read()
            _named(known, name)
            self._store([t for t in known if name not in (t.name, t.of)])

    def find(self, secret: str) -> Token | None:
        """The token that somebody shows, if it is one that holds now."""
        with self._lock:
            known = self._read()
        shown, now, found = _digest(secret), self._clock(), None
        for token in known:  # All of them, whichever it is: how long this takes says nothing.
            if hmac.compare_digest(token.digest, shown):
                found = token
        if found is None or (found.expires_at is not None and now >= found.expires_at):
            return None
        return found

    def holds(self, token: Token) -> bool:
        """Whether a token that was shown before is still good: it may have been revoked since."""
        with self._lock:
            known = self._read()
        is_over = token.expires_at is not None and self._clock() >= token.expires_at
        return not is_over and any(each.digest == token.digest for each in known)

    # Browsers

    def code(self, name: str = OWNER) -> str:
        """A one-time code by which a browser gets a token of its own, as good as the named one is now: once
        that is rotated or revoked the code is none."""
        made = secrets.token_urlsafe(32)
        with self._lock:
            now = self._clock()
            base = next((t for t in self._read() if t.name == name and t.of is None), None)
            self._codes = {key: kept for key, kept in self._codes.items() if now < kept[2]}
            self._codes[_digest(made)] = (name, base.digest if base is not None else "", now + CODE_S)
        return made

    def redeem(self, code: str) -> str | None:
        """A new token for the browser that brings a code; None if the code is used, too old, or none."""
        with self._lock:
            name, digest, until = self._codes.pop(_digest(code), ("", "", 0.0))
        return self._browser(name, digest) if self._clock() < until else None

    def enter(self, secret: str) -> str | None:
        """A new token for the browser that brings a token, as good as that one; None if it is none that
        holds."""
        token = self.find(secret)
        return self._browser(token.name, token.digest) if token is not None and token.of is None else None

    def _browser(self, name: str, digest: str) -> str | None:
        with self._lock, locked(self._folder):
            now = self._clock()
            known = [t for t in self._read() if t.expires_at is None or now < t.expires_at]
            base = next((t for t in known if t.name == name and t.of is None), None)
            if base is None or not hmac.compare_digest(base.digest, digest):
                return None
            made, secret = _new(name, base.tenant, base.rights, now, of=name, expires_at=now + BROWSER_S)
            browsers = sorted((t for t in known if t.of == name), key=lambda t: t.created_at)
            gone = {t.digest for t in browsers[: -_MOST_BROWSERS + 1]}
            self._store([*(t for t in known if t.digest not in gone), made])
            return secret

    # The file

    def _read(self) -> list[Token]:
        try:
            state = self._path.stat()
            stamp = (state.st_mtime_ns, state.st_ino)
            if stamp != self._seen:
                self._known = msgspec.json.decode(self._path.read_bytes(), type=list[Token])
                self._seen = stamp
        except FileNotFoundError:
            self._known, self._seen = [], None
        except (OSError, msgspec.DecodeError) as error:
            raise InputError(
                f"The tokens in {self._path} cannot be read ({error}). Repair the file, or remove it: the "
                "server then makes a new token for you."
            ) from None
        return self._known

    def _store(self, tokens: list[Token]) -> None:
        write_private(self._path, msgspec.json.format(msgspec.json.encode(tokens), indent=1))
        self._seen = None


def _new(
    name: str,
    tenant: str | None,
    rights: tuple[Right, ...],
    now: float,
    *,
    of: str | None = None,
    expires_at: float | None = None,
) -> tuple[Token, str]:
    secret = secrets.token_urlsafe(32)
    token = Token(
        name=name,
        tenant=tenant,
        rights=rights,
        digest=_digest(secret),
        created_at=now,
        expires_at=expires_at,
        of=of,
    )
    return token, secret


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def _named(known: Sequence[Token], name: str) -> Token:
    found = next((t for t in known if t.name == name and t.of is None), None)
    if found is None:
        raise UsageError(f"There is no token '{name}'. See: placet serve token list")
    return found


def _check_name(name: str) -> None:
    if not name.isprintable() or not 1 <= len(name) <= 80 or name != name.strip():
        raise UsageError("The name of a token is 1 to 80 visible characters, such as phone or ci.")


def _check_rights(rights: Sequence[str], tenant: str | None) -> None:
    if not rights or not set(rights) <= set(RIGHTS):
        raise UsageError(f"The rights of a token are some of: {', '.join(RIGHTS)}.")
    if tenant is not None and "admin" in rights:
        raise UsageError("A tenant's token cannot manage tokens: leave the right 'admin' or the tenant out.")
