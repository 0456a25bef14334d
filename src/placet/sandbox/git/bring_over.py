"""What changed inside, brought to the repository: judged here, checked in quarantine, done by git.

Two things can be brought over apart from each other: each single ref; and the checkout, which is HEAD, the
branch it is on, the index and a merge that is going on. The checkout comes whole or not at all, because the
work tree fits to all of it or to none.

Keep true:
1. Only what stands here is brought over: branches, tags, the stash, HEAD, the index, and the few files of a
   merge. Never settings, hooks, pointers, notes of a rebase, or anything else that git obeys.
2. What somebody has changed outside meanwhile is not overwritten. That is told.
3. A linked checkout moves its own branches only. Its tags, its stash and other branches stay inside.
4. Everything that a ref needs is in the repository before the ref is.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from placet.errors import ToolError
from placet.sandbox.git.checkout import (
    HASHES,
    STASH,
    Agreed,
    Checkout,
    read_checkout,
    read_inside,
    stash_hashes,
    under_way,
)
from placet.sandbox.git.folder import Damaged, Folder, Signature
from placet.sandbox.git.index import (
    MOST_INDEX_BYTES,
    Entries,
    blobs,
    changed_by,
    changes,
    check,
    read_entries,
    rewrite,
)
from placet.sandbox.git.quarantine import New, Quarantine
from placet.sandbox.git.refs import SYMBOLIC, branch_of, is_harmless, parse_value
from placet.sandbox.git.soundness import make_sound
from placet.sandbox.git.writing import Move, Writing
from placet.truncation import truncate

if TYPE_CHECKING:
    from placet.sandbox.git.view import View

CHECKOUT = b"HEAD"
UNKNOWN: Signature = (0, 0, 0, 0)
"""Of an index that holds more than the one inside: it is to be taken over at the next refresh."""
_SHOWN = 12


async def bring_over(view: View) -> list[str]:
    """Bring over what has changed in a view. Gives sentences about it; none if nothing has changed."""
    said: list[str] = []
    try:
        with _opened(view) as inside, Folder(view.repository.common) as host:
            try:
                here = read_inside(inside, view.repository.inner, view.refs_inside)
            except Damaged as error:
                return [f"Nothing was brought over from git inside: {error}. Its git folder is made anew."]
            assert view.agreed is not None
            if _is_same(here, view.agreed):
                return []
            now = read_checkout(host, view.repository.inner, view.refs_outside)
            plan = _Plan(view, view.agreed, here, now, inside, host)
            said = plan.said
            await plan.carry_out()
    except (ToolError, Damaged, OSError) as error:
        words = str(error).rstrip(".")
        said.append(f"Not all was brought over from git inside: {words}. It is tried after the next command.")
    return said


def may_move(name: bytes, agreed: Agreed, *, is_linked: bool) -> bool:
    """Whether a ref is one that can be brought over from this checkout."""
    if not is_linked:
        return name.startswith((b"refs/heads/", b"refs/tags/")) or name == STASH
    is_new = name not in agreed.common.refs
    return name.startswith(b"refs/heads/") and (is_new or name in agreed.own)


def _is_same(here: Checkout, agreed: Agreed) -> bool:
    before = agreed.common
    return (
        not here.bad
        and here.refs == before.refs
        and here.standing == before.standing
        and here.stash == before.stash
        and here.index == agreed.view_index
    )


class _Plan:
    """What is to be brought over, and how it goes."""

    def __init__(
        self, view: View, agreed: Agreed, here: Checkout, now: Checkout, inside: Folder, host: Folder
    ) -> None:
        self.view = view
        self.repository = view.repository
        self.inner = view.repository.inner
        self.agreed = agreed
        self.before = agreed.common
        self.here = here
        self.now = now
        self.inside = inside
        self.host = host
        self.zeros = b"0" * (64 if self.repository.is_sha256 else 40)
        self.said: list[str] = []
        self.done: list[str] = []
        self.moves: dict[bytes, Move] = {}
        self.with_checkout = False
        self.with_stash = False
        self.index: Entries = {}
        """What changes in the index."""
        self.entries: Entries = {}
        """All entries that the index will have."""
        self.index_data: bytes | None = None
        """The whole index as it will be; None if it stays."""
        self.kept: bytes | None = None
        """The same, or the one that stays."""
        self.index_now = self.before.index
        """What tells whether it is changed later."""

    async def carry_out(self) -> None:
        self._choose_refs()
        self._choose_stash()
        self._choose_checkout()
        if not (self.moves or self.with_checkout or self.with_stash):
            return
        quarantine = Quarantine(self.repository, self.view.home)
        try:
            # Refs and index were read before the objects that they need, so none of those is missed.
            await quarantine.take(self.inside)
            if self.with_checkout:
                await self._choose_index(quarantine)
            new = await self._check(quarantine)
            self.said += quarantine.said
            if self.moves or self.with_checkout or self.with_stash:
                await quarantine.move_in(new)
                await self._do()
                await quarantine.drop_from(self.inside, new)
        finally:
            quarantine.close()
            if self.done:
                self.said.insert(0, f"Brought over from git inside: {'; '.join(self.done)}.")

    def _choose_refs(self) -> None:
        others = self._others()
        for name in sorted(self.here.refs.keys() | self.before.refs.keys() | self.here.bad.keys()):
            old, new, now = self.before.refs.get(name), self.here.refs.get(name), self.now.refs.get(name)
            if name == STASH or (new == old and name not in self.here.bad):
                continue
            if reason := self._reason_against(name, others):
                if reason != "private":
                    self._leave(name, new, reason)
            elif new != now:
                self.moves[name] = (old, new)

    def _reason_against(self, name: bytes, others: dict[bytes | None, str]) -> str | None:
        old, new, now = self.before.refs.get(name), self.here.refs.get(name), self.now.refs.get(name)
        if not name.startswith((b"refs/heads/", b"refs/tags/")):
            return "private"
        if name in self.here.bad:
            return self.here.bad[name]
        if not may_move(name, self.agreed, is_linked=self.repository.is_linked):
            kind = "a branch of others" if name.startswith(b"refs/heads/") else "not this worktree's own"
            return f"it is {kind}, so it is changed inside only"
        if (new or b"").startswith(SYMBOLIC) or (old or b"").startswith(SYMBOLIC):
            return "it points to another ref"
        if not is_harmless(name):
            return "its name is dangerous in a shell, or mistaken for another"
        if name in others:
            return f"it is checked out in {others[name]}"
        if now not in (old, new):
            return f"it was changed outside meanwhile, to {_short(now)}; inside it is at {_short(new)}"
        if new is None and name == self.here.branch:
            return "it is the branch that is checked out"
        return None

    def _choose_stash(self) -> None:
        here = (self.here.refs.get(STASH), self.here.stash)
        before = (self.before.refs.get(STASH), self.before.stash)
        now = (self.now.refs.get(STASH), self.now.stash)
        if here in (before, now):
            return
        value, stash = here
        if self.repository.is_linked:
            return self._leave_stash(value, stash)
        if now != before:
            self._leave(STASH, value, "it was changed outside meanwhile")
        elif STASH in self.here.bad or (value is not None and stash_hashes(stash)[-1:] != [value]):
            self._leave(STASH, value, "it and its log do not fit together")
        else:
            self.with_stash = True
            if value != before[0]:
                self.moves[STASH] = (before[0], value)

    def _leave_stash(self, value: bytes | None, stash: bytes) -> None:
        """Say where work is that has gone from the files and is in no commit."""
        old = self.before.stash.splitlines()
        count = sum(1 for line in stash.splitlines() if line not in old)
        about = (STASH, value or b"")
        if count and about not in self.view.told:
            self.view.told.add(about)
            entries = "1 stash entry stays" if count == 1 else f"{count} stash entries stay"
            self.said.append(f"{entries} inside: `git stash pop` in a sandboxed command brings it back.")

    def _choose_checkout(self) -> None:
        here, before, now = self.here, self.before, self.now
        if here.standing == before.standing and here.index == self.agreed.view_index:
            return
        words = under_way(self.inside, self.inner)
        branch = here.branch
        if words is not None:
            self._give_up(f"{words} is going on inside; HEAD and the index follow when it has ended")
        elif now.standing not in (before.standing, here.standing):
            self._give_up("the checkout was changed outside meanwhile", for_good=True)
        elif branch in self._others():
            self._give_up(f"{_name(branch)} is checked out in {self._others()[branch]}")
        elif branch is not None and branch not in self.moves and here.standing[1] != self._value(branch):
            self._give_up(f"HEAD is on {_name(branch)}, which was not brought over")
        else:
            self.with_checkout = True

    async def _choose_index(self, quarantine: Quarantine) -> None:
        """Find out which entries change, and what the index will be."""
        if self.here.index == self.agreed.view_index:
            return
        for name in self.host.names(self.inner.rstrip("/")):
            if name.startswith("sharedindex."):
                quarantine.file(name, self.host.read(f"{self.inner}{name}", MOST_INDEX_BYTES) or b"")
        try:
            data = self.inside.read(f"{self.inner}index", MOST_INDEX_BYTES)
            ours = await self._entries(quarantine, "index-inside", data)
            before = self.view.entries
            if before is None:
                before = await read_entries(self.view.kept_index, quarantine.path)
            changed = changes(before, ours)
            check(changed, before)
            outside = self.host.read(f"{self.inner}index", MOST_INDEX_BYTES)
            theirs = before
            if self.now.index != self.before.index:
                theirs = await self._entries(quarantine, "index-outside", outside)
            both = [
                path for path in changed if theirs.get(path, ()) not in (before.get(path, ()), changed[path])
            ]
            if both:
                name = both[0].decode(errors="replace")
                return self._give_up(f"{name} was added or removed outside meanwhile", for_good=True)
            self.index = {path: new for path, new in changed.items() if theirs.get(path, ()) != new}
            if self.index:
                copy = os.path.join(quarantine.path, "index-new")
                if outside is not None:
                    quarantine.file("index-new", outside)
                    time_ns = self.now.index[2] if self.now.index is not None else 0
                    os.utime(copy, ns=(time_ns, time_ns))
                self.index_data = await rewrite(copy, self.index, quarantine.path, self.zeros)
            self.entries = changed_by(theirs, self.index)
            self.kept = outside if self.index_data is None else self.index_data
            self.index_now = self.now.index if self.entries == ours else UNKNOWN
        except (ToolError, Damaged) as error:
            self._give_up(f"the index cannot be taken: {error}")

    async def _entries(self, quarantine: Quarantine, name: str, data: bytes | None) -> Entries:
        if data is None:
            return {}
        return await read_entries(quarantine.file(name, data), quarantine.path)

    async def _check(self, quarantine: Quarantine) -> New:
        """Drop what lacks something. Gives all objects that the rest needs."""
        known = {value for value in self.now.refs.values() if not value.startswith(SYMBOLIC)}
        if self.now.standing[1]:
            known.add(self.now.standing[1])
        parts = self._parts()
        if not any(parts.values()):
            return New()
        try:
            return await quarantine.check(set().union(*parts.values()), known)
        except ToolError:
            # One of them at least: find out which.
            pass
        good: set[bytes] = set()
        for name, tips in parts.items():
            try:
                if tips:
                    await quarantine.check(tips, known)
                good |= tips
            except ToolError as error:
                if name == CHECKOUT:
                    self._give_up(str(error))
                elif name == STASH:
                    self.with_stash = False
                    self._leave(name, self.moves.pop(STASH, (None, None))[1], str(error))
                else:
                    self._leave(name, self.moves.pop(name)[1], str(error))
        return await quarantine.check(good, known) if good else New()

    def _parts(self) -> dict[bytes, set[bytes]]:
        """What can fail on its own, with the objects that it needs."""
        parts: dict[bytes, set[bytes]] = {}
        mine = self._checkout_refs() if self.with_checkout else set()
        for name, (_, new) in self.moves.items():
            part = CHECKOUT if name in mine else name
            parts.setdefault(part, set()).update([new] if new is not None else [])
        if self.with_checkout:
            tips = parts.setdefault(CHECKOUT, set())
            tips |= blobs(self.index)
            if self.here.branch is None:
                tips.add(self.here.head)
            for state in HASHES:
                tips.update(self.here.states.get(state, b"").split())
        if self.with_stash:
            parts.setdefault(STASH, set()).update(stash_hashes(self.here.stash))
        return parts

    async def _do(self) -> None:
        """Change the repository. Everything that is needed is there."""
        writing = Writing(self.repository, self.host, self.now, self.view.lock_note)
        if self.with_checkout and not writing.lock():
            self._give_up("another git is at work outside (index.lock is there)")
        try:
            gone = [name for name, (_, new) in self.moves.items() if new is None]
            made = [name for name in self.moves if name not in gone]
            # A branch `a` cannot be there together with a branch `a/b`.
            in_the_way = [name for name in gone if _is_in_the_way(name, made)]
            await self._move_refs(writing, in_the_way)
            await self._move_refs(writing, made)
            if self.with_checkout:
                if self.here.head != self.now.head:
                    await writing.move_head(self.here)
                    branch = self.here.branch
                    where = f"at {_short(self.here.head)}" if branch is None else f"on {_name(branch)}"
                    self.done.append(f"HEAD is {where}")
                writing.write_states(self.here.states)
                if "MERGE_HEAD" in self.here.states and "MERGE_HEAD" not in self.now.states:
                    self.done.append("a merge is going on")
                if self.index_data is not None:
                    written = writing.put_index(self.index_data)
                    self.index_now = UNKNOWN if self.index_now == UNKNOWN else written
                    self.done.append(f"the index ({len(self.index)} changed)")
            # HEAD may have been on one of these.
            await self._move_refs(writing, [name for name in gone if name not in in_the_way])
            if self.with_stash:
                writing.write_stash(self.here.stash)
                self.done.append(f"the stash ({len(self.here.stash.splitlines())} in it)")
        finally:
            writing.unlock()
        self._agree()

    async def _move_refs(self, writing: Writing, names: list[bytes]) -> None:
        """All at once; if that does not work, those that can be moved."""
        moves = {name: self.moves[name] for name in names if name in self.moves}
        try:
            await writing.move_refs(moves)
        except ToolError:
            tried, moves = moves, {}
            for name, move in tried.items():
                if name not in self.moves:
                    # It went away with the checkout.
                    continue
                try:
                    await writing.move_refs({name: move})
                    moves[name] = move
                except ToolError as error:
                    _, new = self.moves.pop(name)
                    self._leave(name, new, str(error))
                    self.with_stash = self.with_stash and name != STASH
                    if self.with_checkout and name in self._checkout_refs() and new is not None:
                        self._give_up(f"{_name(name)} could not be moved")
        self.done += [f"{_name(name)} {_what(*move)}" for name, move in moves.items() if name != STASH]

    def _agree(self) -> None:
        """Write down what both sides have now. What was left is not agreed on."""
        refs = dict(self.before.refs)
        for name, (old, new) in self.moves.items():
            if new is None:
                refs.pop(name, None)
            else:
                refs[name] = new
            if old is None and self.repository.is_linked:
                self.agreed.own.add(name)
        now = msgspec.structs.replace(self.before, refs=refs)
        if self.with_stash:
            now = msgspec.structs.replace(now, stash=self.here.stash)
        if self.with_checkout:
            if self.here.index != self.agreed.view_index:
                self.view.keep_index(self.kept, self.entries)
                self.agreed.view_index = self.here.index
            now = msgspec.structs.replace(
                now, head=self.here.head, states=self.here.states, index=self.index_now
            )
        self.agreed.common = now
        self.view.save()

    def _give_up(self, reason: str, *, for_good: bool = False) -> None:
        """Leave the checkout; `for_good` lets the repository's take its place inside."""
        self.with_checkout = False
        self.index, self.index_data = {}, None
        for name in self._checkout_refs():
            self.moves.pop(name, None)
        if for_good:
            self.agreed.is_given_up = True
            self.view.save()
            reason = f"{reason}. Inside, the checkout becomes what it is outside; a commit stays in refs/kept"
        self._leave(CHECKOUT, self.here.head, reason)

    def _checkout_refs(self) -> set[bytes]:
        return {name for name in (self.here.branch, self.before.branch) if name is not None}

    def _leave(self, name: bytes, value: bytes | None, reason: str) -> None:
        """Say what stays inside; once, as long as it stays the same."""
        about = (name, (value or b"") + reason.encode(errors="replace"))
        if about not in self.view.told:
            self.view.told.add(about)
            what = "The checkout" if name == CHECKOUT else _name(name)
            self.said.append(f"{what} was not brought over from git inside: {reason.rstrip('.')}.")

    def _value(self, name: bytes) -> bytes:
        return self.now.refs.get(name, b"")

    def _others(self) -> dict[bytes | None, str]:
        """Branches that are checked out in other worktrees, and where."""
        found: dict[bytes | None, str] = {}
        mine = os.path.basename(self.repository.git_dir) if self.repository.is_linked else None
        heads = {
            f"the worktree {name}": f"worktrees/{name}/HEAD"
            for name in self.host.names("worktrees")
            if name != mine
        }
        if self.repository.is_linked and self.repository.settings.get("core.bare") != "true":
            heads["the main worktree"] = "HEAD"
        for where, path in heads.items():
            with suppress(Damaged):
                branch = branch_of(parse_value(self.host.read(path, 4096) or b""))
                if branch is not None:
                    found[branch] = where
        return found


def _opened(view: View) -> Folder:
    with suppress(Damaged):
        # What else is wrong is no reason to bring nothing over. The next refresh sees to it.
        make_sound(view.path, view.repository.inner)
    return Folder(view.path)


def _name(name: bytes | None) -> str:
    text = (name or b"").decode(errors="replace")
    return text.removeprefix("refs/heads/") if text.startswith("refs/heads/") else text


def _is_in_the_way(name: bytes, made: list[bytes]) -> bool:
    return any(each.startswith(name + b"/") or name.startswith(each + b"/") for each in made)


def _short(value: bytes | None) -> str:
    return "nothing" if value is None else truncate(value.strip().decode(errors="replace"), _SHOWN)


def _what(old: bytes | None, new: bytes | None) -> str:
    if new is None:
        return f"was deleted (it was at {_short(old)})"
    return f"is at {_short(new)}" if old is not None else f"is new, at {_short(new)}"
