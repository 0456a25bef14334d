"""The private copies that rounds work in, and the person's repository that they come from.

Keep true:
1. Nothing of the person's is written here.
2. What a round began from stays what it is, also where the person has gone on meanwhile.
3. The copies of a round stay as long as somebody may go on with it, or has to decide about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from placet.errors import UsageError
from placet.loops.round import Round, loop_key

if TYPE_CHECKING:
    from placet.worktree.repository import Repository
    from placet.worktree.worktree import Worktree


class BaseMoved(UsageError):
    """The person's files have changed so that a change that waits no longer applies."""


class ObjectsGone(UsageError):
    """The person's repository has lost what a round began from."""


class Copies:
    """The copies of the rounds in one repository."""

    def __init__(self, folder: Path, home: Path) -> None:
        """`folder` is in the person's repository; below `home` each round has a folder of its own."""
        self.folder = folder
        self._home = home

    async def repository(self) -> Repository:
        """The person's repository, as it is now.

        Raises:
            UsageError: there is none.
        """
        from placet.worktree.worktree import find_repository

        return await find_repository(self.folder)

    async def key_of(self, loop: str) -> str:
        """By which the rounds of a loop of that name are known here."""
        from placet.worktree.worktree import find_workable

        return loop_key((await find_workable(self.folder)).top, loop)

    async def workshop(self, round: Round) -> Worktree:
        """Where a round works."""
        from placet.worktree.worktree import Worktree

        found = await self.repository()
        if round.base:
            # The person may have gone on meanwhile; the round has not.
            found = msgspec.structs.replace(found, head=round.base)
        return Worktree(self._home / round.id, found)

    async def diff(self, round: Round, *, whole: bool = False) -> str:
        """The change of a round as a unified diff. With `whole` also what the person had not committed, and
        what the round began with."""
        if not round.tree or round.tree == round.base_tree:
            return ""
        workshop = await self.workshop(round)
        old = await workshop.begin(False) if whole and round.included else round.base_tree
        return await workshop.diff(old, round.tree)

    async def see_that_it_applies(self, round: Round) -> None:
        """Return if the change of a round still applies to where the person is.

        Raises:
            BaseMoved: it does not.
        """
        if not round.has_change:
            return
        head = (await self.repository()).head
        if head == round.base:
            return
        workshop = await self.workshop(round)
        if not await workshop.merges(round.tree, round.base, head):
            raise BaseMoved(
                f"The change of round '{round.id}' no longer applies: the repository has moved from "
                f"{round.base[:12]} to {head[:12]}, and both touch the same lines. Nothing was done. Let it "
                "be brought over and checked again: placet approvals approve ID --rebase"
            )

    async def tidy(self, round: Round) -> None:
        """Remove the private copies of a round that nobody needs any more."""
        from placet.worktree.scratch import remove_tree

        if round.is_open or round.is_waiting:
            return
        with suppress(OSError):
            await asyncio.to_thread(remove_tree, self._home / round.id)


@contextmanager
def words_of_a_round(round: Round) -> Iterator[None]:
    """Say of a round what is said of a session where the person's repository has lost what it began from.

    Raises:
        ObjectsGone: it has.
    """
    from placet.worktree.objects import ObjectsGone as Gone

    try:
        yield
    except Gone:
        raise ObjectsGone(
            f"The repository {round.repository} no longer has all that round '{round.id}' began from: it was "
            "moved, or `git gc` has removed it after its history was changed. So its change cannot be done. "
            f"Deny it, and let the loop make it anew: placet loop run {round.loop}"
        ) from None
