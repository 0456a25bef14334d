"""A folder that stands in for a repository's git folder inside a sandbox.

Git inside reads and writes the view: its own refs, index, config and new objects. Older objects it borrows
from the repository, which it can only read. Before a command the view takes over what has changed outside;
after it, what has changed inside is brought over (`bring_over.py`), checked.

    home/            ours
      view/          mounted over the common git folder
      index          the index when both sides last agreed
      agreed         what both sides had then
      lock           which lock in the repository is ours, while we hold one
      empty/         shown where a submodule is not checked out

Keep true:
1. What a command can write is beneath `view`, and is never trusted. Git of our own side never runs on it.
2. Where both sides have changed the same thing, the repository's counts. The other stays reachable inside.
3. When nothing has changed, no process is started.
4. The repository is only read here.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from placet.errors import ToolError
from placet.safe_text import clean
from placet.sandbox.git import bring_over
from placet.sandbox.git.checkout import (
    HASHES,
    STASH,
    TEXTS,
    UNDER_WAY,
    Agreed,
    Checkout,
    load,
    read_checkout,
    read_inside,
    save,
)
from placet.sandbox.git.folder import Damaged, Folder, Signature
from placet.sandbox.git.index import MOST_INDEX_BYTES, Entries
from placet.sandbox.git.lock_note import remove_left_lock
from placet.sandbox.git.nested import Nested
from placet.sandbox.git.refs import KnownRefs, write_refs
from placet.sandbox.git.repository import Repository, find, identity
from placet.sandbox.git.settings import neutral_config
from placet.sandbox.git.soundness import make_sound
from placet.sandbox.snapshot.removal import remove
from placet.sandbox.turn import Turn

if TYPE_CHECKING:
    pass

Bind = tuple[str, str, bool]
"""What is shown, where, and whether it can be written."""

SHARED = "shared-objects"
"""Where in the view the repository's objects are shown. As deep as `objects`, so that relative paths in its
`info/alternates` lead to the same place."""
KEPT = b"refs/kept/"
"""Where a ref stays that had to make room for the repository's: `refs/heads/a` as `refs/kept/heads/a`."""

_LOG_TAIL = 64 * 1024
_COPIED = ("info/exclude", "info/attributes", "shallow")
_MOST_COPIED = 1 << 20
_OBEYED = ("hooks", "config.worktree", "commondir", "gitdir", "modules", "info/grafts")
"""What git runs, or goes by to other settings. A view that is new has none of it."""


class ViewInUse(ToolError):
    """Another process works with this view."""


async def open_view(workspace: str, home: str) -> View | None:
    """A view of the repository that a workspace belongs to; None if it belongs to none.

    `home` is a folder for this view alone. What was only inside stays there for the next one who opens it.

    Raises:
        ViewInUse: another process works with it.
        ToolError: the repository cannot be shown inside. It says why.
    """
    import asyncio

    repository = await find(workspace)
    if repository is None:
        return None
    os.makedirs(home, mode=0o700, exist_ok=True)
    view = View(repository, workspace, home)
    try:
        await asyncio.to_thread(view._clear_up)
        view.environment |= await identity(repository)
        await view.refresh()
    except BaseException:
        view.close()
        raise
    return view


class View:
    """What `open_view` gives. One at a time for a `home`."""

    def __init__(self, repository: Repository, workspace: str, home: str) -> None:
        """Raises ToolError: another one uses the folder."""
        self.repository = repository
        self.workspace = os.path.realpath(workspace)
        self.home = home = os.path.realpath(home)
        self.path = os.path.join(home, "view")
        self.environment: dict[str, str] = {}
        """Variables for commands inside."""
        self.told: set[tuple[bytes, bytes]] = set()
        """What stays inside and was told of: refs with their values."""
        self.entries: Entries | None = None
        """The entries of the index that was agreed on, if somebody has read them."""
        self.refs_inside: KnownRefs = {}
        self.refs_outside: KnownRefs = {}
        self._nested = Nested()
        self._is_fresh = False
        """Whether nothing is in it that commands of another process left for git to run."""
        self._settings_seen: list[Signature | None] = []
        self._turn = Turn()
        self._lock = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise ViewInUse(
                f"The view of {repository.top} in {home} is in use by another run. Give each its own folder."
            ) from None
        self.agreed = load(self._file("agreed"))
        if self.agreed is not None and self.agreed.repository != repository.git_dir:
            self.agreed = None

    def close(self) -> None:
        """Let go of the folder. What is in it stays."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    @property
    def binds(self) -> list[Bind]:
        """What has to be shown after the workspace, in this order. It may change with a `refresh`."""
        repository = self.repository
        found: list[Bind] = [
            (self.path, repository.common, True),
            (repository.objects, os.path.join(repository.common, SHARED), False),
        ]
        found += [(path, path, False) for path in repository.borrowed]
        if repository.pointer is not None:
            found.append((repository.pointer, repository.pointer, False))
        return found + self._nested.binds(self._file("empty"))

    async def refresh(self) -> None:
        """Take over what has changed in the repository. Call it before a command.

        Raises:
            ToolError: the repository cannot be read.
        """
        import asyncio

        async with self._turn.take():
            await self._look_at_settings()
            try:
                if self.agreed is None:
                    raise Damaged("there is no view yet")
                await asyncio.to_thread(self._take_over)
            except Damaged:
                # Nothing in there is worth more than a view that works.
                await asyncio.to_thread(self._make_anew)
            await asyncio.to_thread(self._nested.look, self.repository)

    async def bring_over(self) -> list[str]:
        """Bring over what has changed inside. Call it after a command.

        Gives sentences about what was brought over, and what was not and why. None if nothing has changed.
        """
        async with self._turn.take():
            said = await bring_over.bring_over(self) + self._nested.find_swapped()
            return [clean(each, 500) for each in said]

    def save(self) -> None:
        """Write down what was agreed on."""
        assert self.agreed is not None
        save(self._file("agreed"), self.agreed)

    def keep_index(self, data: bytes | None, entries: Entries | None = None) -> None:
        """Write down the index that was agreed on, with its entries if somebody knows them."""
        self.entries = entries
        path = self._file("index")
        if data is None:
            with suppress(FileNotFoundError):
                os.unlink(path)
            return
        with open(f"{path}.tmp", "wb") as file:
            file.write(data)
        os.replace(f"{path}.tmp", path)

    @property
    def kept_index(self) -> str:
        return self._file("index")

    @property
    def lock_note(self) -> str:
        """Where it is written down which lock in the repository is ours."""
        return self._file("lock")

    def _file(self, name: str) -> str:
        return os.path.join(self.home, name)

    async def _look_at_settings(self) -> None:
        """Read the repository's settings again if they have changed."""
        try:
            with Folder(self.repository.common) as host:
                names = ("config", f"{self.repository.inner}config.worktree", "objects/info/alternates")
                seen = [host.signature(name) for name in names]
        except OSError as error:
            raise ToolError(
                f"The git folder {self.repository.common} cannot be read ({error.strerror})."
            ) from None
        if seen == self._settings_seen:
            return
        if self._settings_seen:
            found = await find(self.workspace)
            if found is None or found.git_dir != self.repository.git_dir:
                raise ToolError(
                    f"The repository of {self.workspace} is not the one that it was. Start again.",
                    retry=False,
                )
            self.repository = found
            if self.agreed is not None:
                with suppress(Damaged), Folder(self.path) as view:
                    view.write("config", neutral_config(found))
        self._settings_seen = seen

    def _clear_up(self) -> None:
        """Remove what a process that was killed has left in our folder, and its lock in the repository."""
        remove_left_lock(self.lock_note, self.repository.git_dir)
        for name in os.listdir(self.home):
            if name.startswith(("quarantine-", "old-")):
                self._remove(name)

    def _remove(self, name: str) -> None:
        # However deep it is, and whatever its modes are.
        with suppress(OSError):
            remove(os.fsencode(name), self._lock)

    def _make_fresh(self, view: Folder) -> None:
        """Take out what git inside would obey: what one run put there is not run by commands of another."""
        if self._is_fresh:
            return
        for name in (*_OBEYED, f"{self.repository.inner}config.worktree"):
            view.remove(name)
        view.make("hooks")
        view.write("config", neutral_config(self.repository))
        self._is_fresh = True

    def _make_anew(self) -> None:
        """Make the view's folder again, with what the repository has."""
        if os.path.lexists(self.path):
            # Aside first: that works whatever is in it.
            aside = self._file(f"old-{os.urandom(4).hex()}")
            os.rename(self.path, aside)
            self._remove(os.path.basename(aside))
        os.makedirs(self._file("empty"), exist_ok=True)
        os.mkdir(self.path, 0o700)
        inner = self.repository.inner
        try:
            with Folder(self.repository.common) as host, Folder(self.path) as view:
                for name in ("objects/info", "objects/pack", "hooks", "info", SHARED):
                    view.make(name)
                self._write_fixed(view)
                view.write("config", neutral_config(self.repository))
                for name in _COPIED:
                    data = host.read(name, _MOST_COPIED)
                    if data is not None:
                        view.write(name, data)
                for name in {"logs/HEAD", f"{inner}logs/HEAD"}:
                    data = _tail(host, name)
                    if data:
                        view.write(name, data)
                now = read_checkout(host, inner)
                write_refs(view, now.refs)
                own = set() if now.branch is None else {now.branch}
                self.agreed = Agreed(repository=self.repository.git_dir, common=now, own=own)
                self._take_checkout(host, view, now)
                self._write_stash(view, now.stash)
        except Damaged as error:
            raise ToolError(
                f"The git folder {self.repository.common} cannot be shown inside: {error}. Look at it with "
                "`git fsck`.",
                retry=False,
            ) from error
        self._is_fresh = True
        self._agree(now)

    def _take_over(self) -> None:
        """Take over what has changed outside."""
        assert self.agreed is not None
        inner = self.repository.inner
        make_sound(self.path, inner)
        with _opened(self.path) as view, Folder(self.repository.common) as host:
            self._make_fresh(view)
            now = _read_host(host, inner, self.refs_outside)
            inside = read_inside(view, inner, self.refs_inside)
            self._write_fixed(view)
            before = self.agreed.common
            is_behind = now.standing != before.standing
            is_ahead = inside.standing != before.standing or inside.index != self.agreed.view_index
            is_lost = is_behind and is_ahead and now.standing != inside.standing
            refs = self._merge(now, inside)
            if refs != inside.refs:
                write_refs(view, refs)
            if now.refs.get(STASH) != before.refs.get(STASH) and refs.get(STASH) == now.refs.get(STASH):
                self._write_stash(view, now.stash)
            is_new = False
            if self.agreed.is_given_up or is_lost or (is_behind and not is_ahead):
                self._take_checkout(host, view, now)
                is_new = True
            elif now.index != before.index and inside.index == self.agreed.view_index:
                self._take_index(host, view, now)
                is_new = True
            if is_new or now != before:
                self._agree(now, keeps_index=not is_new)

    def _merge(self, now: Checkout, inside: Checkout) -> dict[bytes, bytes]:
        """The refs that the view is to have."""
        assert self.agreed is not None
        before = self.agreed.common.refs
        refs = dict(inside.refs)
        for name in now.refs.keys() | before.keys():
            new, old, own = now.refs.get(name), before.get(name), inside.refs.get(name)
            if new in (old, own) or name in inside.bad:
                continue
            if own != old and not bring_over.may_move(name, self.agreed, is_linked=self.repository.is_linked):
                # It is a private one by now.
                continue
            if own not in (old, None):
                refs[KEPT + name.removeprefix(b"refs/")] = own or b""
            if new is None:
                refs.pop(name, None)
            else:
                refs[name] = new
        if self.agreed.is_given_up:
            branch = now.branch
            own = inside.refs.get(branch or b"")
            if branch is not None and own is not None and own != now.refs.get(branch):
                refs[KEPT + branch.removeprefix(b"refs/")] = own
                refs.pop(branch)
                refs |= {branch: now.refs[branch]} if branch in now.refs else {}
        return refs

    def _take_checkout(self, host: Folder, view: Folder, now: Checkout) -> None:
        """HEAD, the index, and a merge that is going on, as the repository has them."""
        inner = self.repository.inner
        for name in UNDER_WAY:
            view.remove(f"{inner}{name}")
        for name in (*HASHES, *TEXTS):
            if name in now.states:
                view.write(f"{inner}{name}", now.states[name])
            else:
                view.remove(f"{inner}{name}")
        view.write(f"{inner}HEAD", now.head + b"\n")
        self._take_index(host, view, now)

    def _take_index(self, host: Folder, view: Folder, now: Checkout) -> None:
        assert self.agreed is not None
        inner = self.repository.inner
        data = host.read(f"{inner}index", MOST_INDEX_BYTES)
        for name in host.names(inner.rstrip("/")):
            if name.startswith("sharedindex."):
                view.write(f"{inner}{name}", host.read(f"{inner}{name}", MOST_INDEX_BYTES) or b"")
        if data is None:
            view.remove(f"{inner}index")
            self.agreed.view_index = None
        else:
            self.agreed.view_index = view.write(f"{inner}index", data)
        self.keep_index(data)

    def _write_fixed(self, view: Folder) -> None:
        """What has to be as we made it, for git inside to find anything."""
        shared = os.fsencode(os.path.join(self.repository.common, SHARED)) + b"\n"
        fixed = {"objects/info/alternates": shared}
        inner = self.repository.inner
        if inner:
            fixed |= {
                f"{inner}commondir": b"../..\n",
                f"{inner}gitdir": os.fsencode(os.path.join(self.repository.top, ".git")) + b"\n",
            }
            with Folder(self.repository.common) as host:
                # Only for git to know which branch is in use there.
                fixed["HEAD"] = host.read("HEAD", 4096) or b""
        view.make(SHARED)
        for name, data in fixed.items():
            if view.read(name, len(data) + 4096) != data:
                view.write(name, data)

    def _write_stash(self, view: Folder, stash: bytes) -> None:
        if stash:
            view.write("logs/refs/stash", stash)
        else:
            view.remove("logs/refs/stash")

    def _agree(self, now: Checkout, *, keeps_index: bool = False) -> None:
        """Write down that this is what both sides have; of the index, only if it was taken over."""
        assert self.agreed is not None
        if now.branch is not None and now.head != self.agreed.common.head:
            # Somebody outside has put this checkout on that branch.
            self.agreed.own.add(now.branch)
        if keeps_index:
            now = msgspec.structs.replace(now, index=self.agreed.common.index)
        else:
            self.agreed.is_given_up = False
        if now != self.agreed.common:
            self.agreed.common = now
        self.save()


def _opened(path: str) -> Folder:
    try:
        return Folder(path)
    except OSError as error:
        raise Damaged(f"the view cannot be opened ({error.strerror})") from error


def _read_host(host: Folder, inner: str, known: KnownRefs) -> Checkout:
    """The repository's side. What is wrong there is no reason to make the view anew.

    Raises:
        ToolError: it cannot be read.
    """
    try:
        return read_checkout(host, inner, known)
    except Damaged as error:
        raise ToolError(
            f"The git folder {host.path} cannot be read: {error}. Look at it with `git fsck`.", retry=False
        ) from error


def _tail(host: Folder, name: str) -> bytes:
    """The end of a log, in whole lines."""
    try:
        data = host.read(name, 64 << 20) or b""
    except Damaged:
        return b""
    if len(data) <= _LOG_TAIL:
        return data
    return data[-_LOG_TAIL:].partition(b"\n")[2]
