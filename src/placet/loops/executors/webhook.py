"""The change posted to a host that the loop's file allows, with the key as a header.

Keep true: no byte goes to a host that is not named, whatever a name leads to; a redirect is not followed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from placet.errors import ToolError
from placet.ir.tool_spec import Risk
from placet.loops.executors.command import run_check
from placet.loops.executors.executor import Act, Bench, Done, Finding
from placet.loops.posting import post
from placet.loops.round import Receipt
from placet.safe_text import clean
from placet.sandbox.limits import Limits

if TYPE_CHECKING:
    from placet.worktree.repository import Repository

KEY_HEADER = "Idempotency-Key"


class WebhookExecutor:
    """Posts the change as JSON."""

    name = "webhook"
    needs_change = False

    def __init__(
        self,
        url: str,
        hosts: Sequence[str],
        *,
        check: str = "",
        idempotent: bool = False,
        timeout_s: float = 60.0,
    ) -> None:
        self._url = url
        self._hosts = list(hosts)
        self._check = check
        self._timeout_s = timeout_s
        self.risk: Risk = "idempotent" if idempotent else "network"

    async def dry_run(self, act: Act, bench: Bench) -> str:
        """What would be done, in words."""
        return f"the change would be posted to {clean(self._url, 300)}"

    async def execute(self, act: Act, bench: Bench) -> Done:
        """Post it."""
        body = {
            "loop": act.loop,
            "round": act.round,
            "number": act.number,
            "kind": act.kind,
            "summary": act.summary,
            "tree": act.tree,
            "base": act.base,
            "changed": list(act.changed),
            "diff": await bench.workshop.diff(act.base_tree, act.tree),
        }
        answer = await post(
            self._url,
            msgspec.json.encode(body),
            headers={KEY_HEADER: act.key},
            hosts=self._hosts,
            timeout_s=self._timeout_s,
        )
        if not answer.is_good:
            raise ToolError(f"The webhook answered with status {answer.status}.", retry=False)
        digest = hashlib.sha256(answer.body).hexdigest()
        said = f"posted to {clean(self._url, 300)}, which answered {answer.status}"
        return Done(said, {"status": answer.status, "answer_sha256": digest})

    async def check(self, receipt: Receipt, repository: Repository) -> Finding:
        """What the loop's own check says, if it has one."""
        return await run_check(self._check, receipt, repository, Limits(time_s=self._timeout_s))
