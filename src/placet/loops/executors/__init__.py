"""What can be done with a change: noted, committed, applied, or handed to a command, a host or a function."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from placet.loops.executors.executor import Executor
    from placet.loops.spec import ExecutorSpec


def executor_of(spec: ExecutorSpec) -> Executor:
    """The executor that a loop's file names.

    Raises:
        UsageError: it needs a function, which no file can name.
    """
    from placet.errors import UsageError

    match spec.use:
        case "record":
            from placet.loops.executors.record import RecordExecutor

            return RecordExecutor()
        case "commit":
            from placet.loops.executors.commit import CommitExecutor

            return CommitExecutor(spec.branch)
        case "apply_patch":
            from placet.loops.executors.apply_patch import ApplyPatchExecutor

            return ApplyPatchExecutor()
        case "command":
            from placet.loops.executors.command import CommandExecutor

            return CommandExecutor(
                spec.command, check=spec.check, idempotent=spec.idempotent, timeout_s=spec.timeout_s
            )
        case "webhook":
            from placet.loops.executors.webhook import WebhookExecutor

            return WebhookExecutor(
                spec.url,
                spec.hosts,
                check=spec.check,
                idempotent=spec.idempotent,
                timeout_s=spec.timeout_s,
            )
        case "callback":
            raise UsageError(
                "The executor 'callback' is a function of a program. Give LoopEngine(executor=...) one, or "
                "use another executor in the file."
            )
