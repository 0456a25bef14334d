"""What an executor is: it does one thing with a change that was frozen, and can say later whether it holds.

Keep true:
1. An executor gets the tree, and nothing that could have changed since that was frozen.
2. The same key is the same act: what can be done twice without harm says so, and nothing else is repeated.
3. A dry run has no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import msgspec

from placet.ir.json_value import JsonValue
from placet.ir.tool_spec import Risk
from placet.loops.round import Receipt
from placet.loops.verdict import Verdict

if TYPE_CHECKING:
    from placet.sandbox.confinement import Isolation
    from placet.worktree.repository import Repository
    from placet.worktree.worktree import Worktree


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """An act that an executor performs."""

    loop: str
    """Name of the loop."""
    round: str
    """Id of the round."""
    number: int
    """Number of the round."""
    kind: str
    """Kind of act."""
    summary: str
    """What came of the round, as the checker or the maker says."""
    intent: str
    """What the loop is for."""
    tree: str
    """Git tree of the change."""
    base: str
    """The commit that it is based on."""
    base_tree: str
    """Git tree at the start of the work."""
    changed: tuple[str, ...]
    """Paths of the files that it changes."""
    began: float
    """When the round started, in seconds since the epoch."""
    included: tuple[str, ...] = ()
    """Files with uncommitted changes that the tree contains."""
    checks: tuple[str, ...] = ()
    """Commands of the checks."""
    verdict: Verdict | None = None
    """Verdict of the checker."""
    key: str = ""
    """Idempotency key; empty in a dry run."""
    change: str = ""
    """What the maker says that it changed; empty if it says nothing."""


class Bench(NamedTuple):
    """The environment of an executor."""

    workshop: Worktree
    """The private copy with the change."""
    repository: Repository
    """The user's repository."""
    isolation: Isolation
    """Protections for commands."""


class Done(NamedTuple):
    """The result of an executor."""

    summary: str
    """What was done."""
    data: dict[str, JsonValue]
    """Values by which the effect can be found again; stored in the receipt."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking a receipt."""

    holds: bool
    """Whether what the receipt says is still so."""
    why: str
    """Why, or why not."""
    seen: Literal["world", "record"]
    """Whether the effect itself was inspected, or only the record."""
    is_reverted: bool = False
    """Whether somebody has undone the effect."""


class Executor(Protocol):
    """Protocol of executors, which act on a verified change."""

    @property
    def name(self) -> str:
        """Name in files and receipts."""
        ...

    @property
    def risk(self) -> Risk:
        """Risk of the act; `idempotent` if it may be repeated after a crash."""
        ...

    @property
    def needs_change(self) -> bool:
        """Whether it needs at least one changed file."""
        ...

    async def dry_run(self, act: Act, bench: Bench) -> str:
        """Return what would be done. Has no effect.

        Args:
            act: The act.
            bench: The environment.
        """
        ...

    async def execute(self, act: Act, bench: Bench) -> Done:
        """Perform the act.

        Takes the arguments of `dry_run`.

        Raises:
            ToolError: it was not done; says why.
            UsageError: likewise.
        """
        ...

    async def check(self, receipt: Receipt, repository: Repository) -> Finding:
        """Check whether what a receipt says is still so.

        Args:
            receipt: The receipt.
            repository: The user's repository.
        """
        ...


def only_kept(what: str) -> Finding:
    """For what cannot be looked at from here."""
    return Finding(holds=True, why=f"it is kept; {what}", seen="record")
