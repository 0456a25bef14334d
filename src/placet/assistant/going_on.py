"""Whether a run can go on with an assistant, and who decides in there about calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from placet.assistant.consent import Consent
from placet.assistant.kept import Kept, kept_of
from placet.errors import UsageError
from placet.policy.permission import CallByCall, Permissions, Posture

if TYPE_CHECKING:
    from placet.ir.proposal import Proposal
    from placet.runtime.scope import Scope


class GoingOn(NamedTuple):
    """How somebody wants to go on with a run."""

    run_id: str
    consent: Consent
    permissions: Permissions | None
    """Those of the runtime."""
    widen: bool
    """What needed asking as the run began does not matter any more."""
    is_chat: bool = False
    has_output: bool = False
    """There is a type that the answer is to have."""

    def by_call(self, about: Proposal, scope: Scope | None, since: Posture | None) -> CallByCall:
        """Who decides about calls. A runtime asks this before it takes the run up. `since` is the posture
        that a person has set in the run: it counts as if the run had begun with it.

        Raises:
            UsageError: the run cannot go on so; says what is missing.
        """
        kept = kept_of(about)
        self._check(kept)
        if since is not None:
            kept = msgspec.structs.replace(kept, posture=since)
        if self.widen:
            return self.consent.by_call
        caller = scope.caller_id if scope is not None else None
        standing = self.permissions.posture(caller) if self.permissions is not None else None
        return self.consent.no_wider_than(kept, self.run_id, standing).by_call

    def _check(self, kept: Kept) -> None:
        if kept.is_chat and not self.is_chat:
            raise UsageError(f"Run '{self.run_id}' is a conversation. Go on with it there: placet chat.")
        if self.is_chat and not kept.is_chat:
            raise UsageError(
                f"Run '{self.run_id}' is no conversation. Go on with it: placet resume {self.run_id}; in "
                "programs Assistant.resume."
            )
        if kept.output is not None and not self.has_output:
            name = kept.output.get("title")
            raise UsageError(
                f"Run '{self.run_id}' was begun with an output type{f' ({name})' if name else ''}, and its "
                "answer must fit it. Give it: resume(..., output_type=...)."
            )
